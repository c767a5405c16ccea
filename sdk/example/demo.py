#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main job on one screen: profiles the example service by span for ten seconds and shows what came out.

usage: demo.py [SECONDS]        (as root; `./bootstrap demo` builds and calls it)

It starts these programs and ends them again, however it ends itself. Shop runs only where there is a JDK:

    example-service ─thread context─▶ spanprof run ──OTLP/HTTP──▶ spanprof receive ──▶ build/demo/payload/
    Shop (Java) ─────context ring──────▲                                └─▶ OTEL_EXPORTER_OTLP_ENDPOINT

`spanprof run` is started as a service manager does it (Type=notify): clean environment, configured by variables and
flags, its log collected, ready when it says so, stopped by SIGTERM.
"""
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build"))
OUT = pathlib.Path(os.environ.get("DEMO_DIR", BUILD / "demo"))
SPANPROF = BUILD / "spanprof"
SERVICE = BUILD / "sdk/example/demo/example-service"
PATIENCE = 30  # seconds until something that should have happened is an error
PR_SET_PDEATHSIG = 1
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

libc = ctypes.CDLL(None)


class Failed(Exception):
    """The demo cannot go on; the message says why."""


class Stopped(Exception):
    """Somebody pressed Ctrl-C or sent SIGTERM."""


def shown(path):
    """A path as short as it can be typed here."""
    return os.path.relpath(path) if pathlib.Path(path).is_relative_to(pathlib.Path.cwd()) else str(path)


def before_exec():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


class Program:
    """A child with its output in a file."""

    running = []

    def __init__(self, name, argv, env):
        self.name, self.log = name, OUT / f"{name}.log"
        # No signal between the start of a child and the note of it, or nobody would stop it.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self.process = self.start(argv, env)
            Program.running.append(self)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def start(self, argv, env):
        with open(self.log, "wb") as log:
            # A session of its own: Ctrl-C reaches this script alone, which then stops all in the right order.
            return subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=log,
                                    stderr=subprocess.STDOUT, env=env, cwd="/", start_new_session=True,
                                    preexec_fn=before_exec)

    def text(self):
        return self.log.read_text(errors="replace")

    def check(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.name} ended with status {self.process.returncode}:\n{self.text()[-2000:]}")

    def wait_for(self, pattern):
        end = time.monotonic() + PATIENCE
        while True:
            match = re.search(pattern, self.text())
            if match:
                return match
            self.check()
            if time.monotonic() > end:
                raise Failed(f"{self.name} did not say {pattern!r} in {PATIENCE} s:\n{self.text()[-2000:]}")
            time.sleep(0.02)

    def stop(self):
        """SIGTERM, then patience, then SIGKILL. Returns the status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if self in Program.running:
            Program.running.remove(self)
        return status


class Notify:
    """The service manager's end of sd_notify(3)."""

    def __init__(self):
        self.address = f"\0spanprof-demo-{os.getpid()}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.address)
        self.socket.settimeout(0.1)

    def wait_ready(self, program):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if "READY=1" in self.socket.recv(4096).decode(errors="replace").splitlines():
                    return
            except TimeoutError:
                program.check()
        raise Failed(f"{program.name} was not ready in {PATIENCE} s:\n{program.text()[-2000:]}")


def base_environment():
    """What a service manager would pass on."""
    return {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin"), "LANG": "C.UTF-8"}


def start_service():
    """Its threads publish names of spans beside them, so nothing else is needed to know its operations."""
    return Program("example-service", [SERVICE, "--json", OUT / "truth.json"], base_environment())


def compile_java():
    """Where the shop's classes are, or None; then a line has said why."""
    classes = OUT / "classes"
    sources = [ROOT / "sdk/java/spanprof/ThreadContext.java", ROOT / "sdk/example/java/Shop.java"]
    if not (shutil.which("java") and shutil.which("javac")):
        print("   Java: there is no JDK here. With one (apt-get install default-jdk-headless), the demo profiles a "
              "service in Java, too")
        return None
    done = subprocess.run(["javac", "-d", classes, *sources], capture_output=True, text=True, errors="replace",
                          check=False)
    if done.returncode:
        print(f"   Java: left out, since javac failed: {(done.stderr.strip() or 'it said nothing').splitlines()[0]}")
        return None
    return classes


def start_java():
    """The shop in Java, where it can run: a JVM without any flag for profilers. May be None."""
    classes = compile_java()
    if not classes:
        return None
    argv = ["java", f"-Dspanprof.library={BUILD / 'sdk/libspanprof-context.so'}", "-cp", classes, "Shop",
            OUT / "java-spans.csv", OUT / "java-truth.json"]
    java = Program("Java shop", argv, base_environment())
    java.wait_for("ready")
    print(f"   Java: a shop with two workers, pid {java.process.pid}")
    return java


def start_receiver(forward):
    argv = [SPANPROF, "receive", "--port", "0", "-o", OUT / "payload"]
    sending = {name: value for name, value in os.environ.items() if name.startswith("OTEL_EXPORTER_OTLP_")}
    receiver = Program("receiver", argv + (["--forward", forward] if forward else []),
                       {**base_environment(), **sending})
    return receiver, receiver.wait_for(r"listening on http://127\.0\.0\.1:(\d+)")[1]


def start_daemon(port):
    notify = Notify()
    environment = {**base_environment(), "NOTIFY_SOCKET": "@" + notify.address[1:],
                   "SPANPROF_ENDPOINT": f"http://127.0.0.1:{port}", "SPANPROF_EXPORT_INTERVAL": "3s"}
    started = time.monotonic()
    daemon = Program("daemon", [SPANPROF, "run", "--summary", OUT / "summary.json"], environment)
    notify.wait_ready(daemon)
    print(f"   ready after {time.monotonic() - started:.2f} s; it said:")
    for line in daemon.text().splitlines():
        print(f"   | {line}")
    return daemon


def payloads():
    return sorted((OUT / "payload").glob("*.pb"))


def watch(seconds, programs):
    terminal = sys.stdout.isatty()
    for second in range(1, seconds + 1):
        time.sleep(1)
        for program in programs:
            program.check()
        files = payloads()
        line = f"   {second:2} s: {len(files)} requests arrived, {sum(f.stat().st_size for f in files) / 1024:.0f} KiB"
        if terminal:
            print("\r" + line, end="\n" if second == seconds else "", flush=True)
        elif second % 5 == 0 or second == seconds:
            print(line, flush=True)


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "none"


def print_summary(summary):
    losses = {reason: n for reason, n in summary["lost_by_reason"].items() if n}
    contexts = summary["counters"]["contexts_total"]
    print(f"   ticks taken        {summary['ticks']:8}")
    print(f"   samples delivered  {summary['delivered']:8}")
    for reason, n in sorted(losses.items(), key=lambda item: -item[1]):
        print(f"   lost: {reason:12} {n:8}")
    if not losses:
        print("   lost                      0")
    accounted = summary["delivered"] + sum(losses.values()) + summary.get("pending", 0)
    if accounted != summary["ticks"]:
        raise Failed(f"the books are wrong: {summary['ticks']} ticks, but {accounted} accounted for")
    print("   (ticks = delivered + lost)")
    print(f"   samples with span  {share(contexts['present'], sum(contexts.values())):>8}")
    print(
        f"   coverage           {summary['coverage_ratio']:8.3f}   of what the targets' CPU time should give")


def read_report(pid, *options):
    """The profile of one process, or None."""
    argv = [SPANPROF, "report", "--json", "--pid", str(pid), "--top", "8", *options, *payloads()]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise Failed(f"spanprof report failed ({done.returncode}):\n{done.stderr[-2000:]}")
    profiles = json.loads(done.stdout)["profiles"]
    return profiles[0] if profiles else None


def print_operations(profile, truth):
    """Side by side: what the samples say, and what the service measured by its threads' clocks."""
    shares = {row["name"]: row["share"] for row in truth["operations"]}
    found = [row for row in profile.get("operations", []) if row["operation"] in shares]
    if not found:
        print("   no span was met while it was profiled: give the demo more seconds")
        return
    total = sum(row["value"] for row in found)
    print("   operation     samples    share   the service itself says")
    for row in found:
        name = row["operation"]
        print(f"   {name:12} {row['value']:8} {share(row['value'], total):>8} {100 * shares[name]:8.1f} %")
    for row in found:
        print(f"   hottest functions of {row['operation']}")
        for function in [f for f in row["functions"] if f["self"]][:3]:
            where = f"  ({function['object']})" if function["object"] else ""
            print(f"   {function['self']:8} {share(function['self'], row['value']):>8}   {function['function']}{where}")


def print_spans(profile):
    print("   hottest spans        trace                             span")
    for span in profile["spans"][:5]:
        print(f"   {span['value']:8}  {span.get('operation', ''):8}   {span['trace_id']}  {span['span_id']}")


def print_next(forward):
    files = payloads()
    print(f"== The payload: {len(files)} requests in {shown(OUT / 'payload')}/")
    print(f"   OTLP protobuf  {shown(files[-1])}")
    print(f"   OTLP/JSON      {shown(files[-1].with_suffix('.json'))}")
    if forward:
        print(f"   and passed on to {forward}")
    print("== Next")
    # tests/integration/core/test-lines.py runs these
    program, payload = shown(SPANPROF), shown(OUT / "payload")
    print(f"   {program} report {payload}/*.pb | less")
    print(f"   {program} convert {payload}/*.pb -o {shown(OUT / 'demo.html')}     # one page, for a browser")
    print(f"   {program} convert {shown(files[-1])} -o {shown(OUT / 'demo.json')} --pretty")
    print(f"   sudo {program} record -- {shown(SERVICE)} --duration 5")
    print(f"   sudo {program} run --comm 'python3*' --endpoint http://COLLECTOR:4318")
    print("   sudo ./bootstrap install     # spanprof as a package of this machine, with its manual")


def run(seconds):
    forward = os.environ.get("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT") or os.environ.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT")
    shutil.rmtree(OUT, ignore_errors=True)
    (OUT / "payload").mkdir(parents=True)
    print("== Starting the example service: three operations on worker threads, a span for each request")
    service = start_service()
    print(f"   {service.wait_for('example-service [0-9]+: .*')[0]}")
    java = start_java()
    print("== Starting the receiver" + (f", which passes all on to {forward}" if forward else ""))
    receiver, port = start_receiver(forward)
    print(f"   OTLP/HTTP on 127.0.0.1:{port}")
    print("== Starting spanprof, as a service manager would")
    daemon = start_daemon(port)
    print(f"== Profiling for {seconds} s")
    watch(seconds, [program for program in (service, java, receiver, daemon) if program])
    print("== Stopping")
    status = daemon.stop()
    service.stop()
    if java:
        java.stop()
    receiver.stop()
    if status:
        raise Failed(f"spanprof run ended with status {status}:\n{daemon.text()[-4000:]}")
    if not payloads():
        raise Failed(f"nothing arrived; spanprof said:\n{daemon.text()[-4000:]}")
    print("== What spanprof did")
    print_summary(json.loads((OUT / "summary.json").read_text()))
    print(f"== What the payload says of the example service (pid {service.process.pid})")
    profile = read_report(service.process.pid)
    if not profile:
        raise Failed(f"no profile of the example service (pid {service.process.pid}) arrived")
    print_operations(profile, json.loads((OUT / "truth.json").read_text()))
    print_spans(profile)
    if java:
        print(f"== … and of the shop in Java (pid {java.process.pid}), which no flag and no agent prepared")
        profile = read_report(java.process.pid, "--spans", OUT / "java-spans.csv")
        if profile:
            print_operations(profile, json.loads((OUT / "java-truth.json").read_text()))
        else:
            print("   it did not run while it was profiled: give the demo more seconds")
    print_next(forward)


def give_back():
    """What sudo made belongs to who called sudo."""
    uid, gid = int(os.environ.get("SUDO_UID", 0)), int(os.environ.get("SUDO_GID", 0))
    if uid and OUT.is_dir():
        for path in (OUT, *OUT.rglob("*")):
            os.chown(path, uid, gid, follow_symlinks=False)


def stopped(signum, _frame):
    for sig in SIGNALS:  # once is enough, also for who presses Ctrl-C twice
        signal.signal(sig, signal.SIG_IGN)
    raise Stopped(signum)


def main():
    seconds = sys.argv[1] if len(sys.argv) > 1 else "10"
    if not seconds.isdecimal() or not 1 <= int(seconds) <= 3600:
        print("usage: demo.py [SECONDS]", file=sys.stderr)
        return 2
    for sig in SIGNALS:
        signal.signal(sig, stopped)
    try:
        run(int(seconds))
        return 0
    except Stopped as reason:
        print(f"\n== Stopped; what had arrived by then is in {shown(OUT / 'payload')}/")
        return 128 + reason.args[0]
    except (Failed, OSError) as problem:
        print(f"\ndemo: {problem}", file=sys.stderr)
        return 1
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        for program in reversed(list(Program.running)):
            program.stop()
        give_back()


if __name__ == "__main__":
    sys.exit(main())
