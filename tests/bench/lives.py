#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to know who comes and goes, and how much of them is seen.

usage: tests/bench/lives.py [--rounds N] [--processes N] [pass] [idle] [first] [late] [shares] [storm] [turn]

    pass    the first pass over /proc: ns of the daemon's CPU per process, for each way to choose
    idle    CPU per minute of a daemon that has nothing to do, with and without 1,000 idle processes; in a PID
            namespace, where other work of the machine is not the daemon's business (it still passes by in the
            rings of mapping notices)
    first   exec → first sample in the ring, at 99 Hz
    late    publication of a ring, after 30 idle seconds, → first sample with its span
    shares  ticks delivered and attributed: 20 ms processes, forks of 20 ms, 12 libraries, 100 mostly idle
            processes
    turn    the longest turn of the daemon's loop beside targets that have 65,530 mappings (needs perf)
    storm   2,000 fork+exec a second: counts, CPU and memory (`meson test --suite long` has a million)

SPANPROF and BUILD_DIR name the build (default: ./build), which needs tests/interop/setup-venv.sh. Needs root.
"""
import bench  # first: it knows where the test library is
import oracle

oracle.enter()

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import otlp_read
import session
import tap

CLOCK = time.CLOCK_MONOTONIC


class Daemon:
    """One run with a receiver; its samples with MONOTONIC times."""

    def __init__(self, b, *options, prefix=(), interval="1s"):
        self.summary_path = b.directory() / "summary.json"
        self.directory, environment = b.receiver()
        self.offset_ns = session.realtime_offset_ns()
        self.child = b.spawn([
            *prefix, tap.SPANPROF, "run", "--export-interval", interval, "--summary", self.summary_path,
            *options
        ], env={**environment, "SPANPROF_STOP_TIMEOUT": "20s"})
        self.child.wait_for("profiles go to")
        self.pid = only_child(self.child.pid) if prefix else self.child.pid

    @property
    def cpu_ns(self):
        return session.cpu_ns(self.pid)

    @property
    def rss_mib(self):
        return int(re.search(r"VmRSS:\s+(\d+)",
                             pathlib.Path(f"/proc/{self.pid}/status").read_text())[1]) / 1024

    def stop(self):
        os.kill(self.pid, signal.SIGTERM)
        if self.child.wait():
            raise SystemExit(f"spanprof failed: {self.child}")
        self.summary = json.loads(self.summary_path.read_text())
        self.samples = [s for path in sorted(self.directory.glob("*.pb")) for s in otlp_read.samples(path)]
        return self

    def time_ns(self, sample):
        return sample.time_ns - self.offset_ns


def only_child(pid):
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def namespace(b):
    """How to enter a PID namespace of its own."""
    holder = b.spawn([
        "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", "echo here; exec sleep 1000"
    ])
    holder.wait_for("here")
    return ("nsenter", f"--target={only_child(holder.pid)}", "--pid", "--mount")


def crowd(b, n, *more, prefix=()):
    child = b.spawn([*prefix, tap.VICTIMS / "victim-crowd", n, 1, *more])
    child.wait_for("^ready", patience=180)
    return child


def first_pass(options):
    rows = []
    ways = {
        "who publishes (memory is looked at)": (), "--comm": ("--comm", "nobody-has-this"),
        "--unit": ("--unit", "no-such"), "--all": ("--all", ),
        "--comm, all of them chosen": ("--comm", "victim-crowd")
    }
    for name, way in ways.items():
        costs = []
        for _ in range(options.rounds):
            with bench.Bench() as b:
                before = Daemon(b, *way).cpu_ns
                crowd(b, options.processes)
                costs.append((Daemon(b, *way).cpu_ns - before) / options.processes)
        rows.append([name, bench.spread(costs)])
    bench.table(f"pass: {options.processes} processes at the start", ["chosen by", "ns of CPU a process"],
                rows)


def idle(options):
    rows = []
    for n in (0, 1000):
        for name, way in (("who publishes", ()), ("--all", ("--all",))):
            with bench.Bench() as b:
                prefix = namespace(b)
                if n:
                    crowd(b, n, prefix=prefix)
                daemon = Daemon(b, *way, prefix=prefix, interval="10s")
                time.sleep(15)
                begin, before = time.monotonic(), daemon.cpu_ns
                time.sleep(60)
                used = (daemon.cpu_ns - before) / (time.monotonic() - begin) * 60
                n_samples = len(daemon.stop().samples)
                rows.append([n, name, f"{used / 1e6:.1f}", n_samples])
    bench.table("idle",
                ["idle processes", "chosen by", "CPU ms a minute", "samples (of others, under --all)"], rows)


def first(options):
    delays = []
    with bench.Bench() as b:
        daemon = Daemon(b, "--comm", "victim-short")
        begins = {}
        for _ in range(20 * options.rounds):
            begin = time.clock_gettime_ns(CLOCK)
            child = b.spawn([tap.VICTIMS / "victim-short", 60])
            child.wait()
            begins[child.pid] = begin
        daemon.stop()
        firsts = {}
        for s in daemon.samples:
            pid = s.resource["process.pid"]
            firsts[pid] = min(firsts.get(pid, 1 << 63), daemon.time_ns(s))
        delays = [(firsts[pid] - begin) / 1e6 for pid, begin in begins.items() if pid in firsts]
    bench.table("first: fork and exec → first sample in the ring, 99 Hz", ["processes", "with samples", "ms"],
                [[20 * options.rounds, len(delays), bench.spread(delays)]])


def late(options):
    delays = []
    with bench.Bench() as b:
        daemon = Daemon(b)
        victims = [b.spawn([tap.VICTIMS / "victim-ring"], stdin=subprocess.PIPE) for _ in range(3)]
        for victim in victims:
            victim.wait_for(r"^pid \d+")
        time.sleep(1)
        for victim in victims:
            os.kill(victim.pid, signal.SIGSTOP)
        time.sleep(30)
        for victim in victims:
            os.kill(victim.pid, signal.SIGCONT)
        times = {}
        for victim in victims:
            for line in (b"publish\n", b"set 1 2 3\n"):
                n = victim.out.count("ok")
                victim.process.stdin.write(line)
                victim.process.stdin.flush()
                tap.wait_until(lambda: victim.out.count("ok") > n, line)
            times[victim.pid] = time.clock_gettime_ns(CLOCK)
        time.sleep(5)
        daemon.stop()
        for pid, published in times.items():
            seen = [
                daemon.time_ns(s) for s in daemon.samples if s.resource["process.pid"] == pid and s.span_id
            ]
            if seen:
                delays.append((min(seen) - published) / 1e6)
    bench.table("late: a ring after 30 s without one → first sample with a span (aim: 1,000 ms)",
                ["publishers", "found", "ms"], [[3, len(delays), bench.spread(delays)]])


def is_attributed(sample):
    """Known by name, and every user frame in a known file."""
    user = [f for f in sample.frames if f.type != "kernel"]
    return bool(sample.resource.get("process.executable.name")) and all(f.build_id
                                                                        for f in user) and bool(sample.frames)


def share_row(name, daemon, samples, attributed):
    s = daemon.summary
    ticks = s["ticks"]
    coverage = f"{s['coverage_ratio']:.3f}"
    return [
        name, ticks, f"{100 * s['delivered'] / ticks:.2f} %",
        len(samples), f"{100 * attributed / len(samples):.2f} %", coverage
    ]


def libraries(b, n):
    """Copies of a library, each with a build id of its own."""
    data = (tap.VICTIMS / "libswap-a.so").read_bytes()
    at = data.index(b"GNU\0", data.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0")) + 4
    directory, made = b.directory(), []
    for i in range(n):
        build_id = os.urandom(20)
        path = directory / f"libnumber-{i}.so"
        path.write_bytes(data[:at] + build_id + data[at + 20:])
        made.append((path, build_id.hex()))
    return made


def shares(options):
    rows = []
    with bench.Bench() as b:
        daemon = Daemon(b, "--comm", "victim-short")
        for _ in range(200 * options.rounds):
            child = tap.Child([tap.VICTIMS / "victim-short", 20])
            child.wait()
            child.kill()
        samples = daemon.stop().samples
        rows.append(
            share_row("processes of 20 ms, fork and exec", daemon, samples, sum(map(is_attributed, samples))))
    with bench.Bench() as b:
        daemon = Daemon(b, "--comm", "victim-family")
        b.spawn([tap.VICTIMS / "victim-family", "fork", 200 * options.rounds, 20]).wait(600)
        samples = daemon.stop().samples
        rows.append(
            share_row("processes of 20 ms, fork alone", daemon, samples, sum(map(is_attributed, samples))))
    with bench.Bench() as b:
        daemon = Daemon(b, "--comm", "victim-dlopen")
        attributed, inside = 0, []
        for _ in range(options.rounds):
            made = libraries(b, 12)
            victim = b.spawn([tap.VICTIMS / "victim-dlopen", "series", 0.2, *(path for path, _ in made)])
            victim.wait(600)
            spans = [(int(x), int(y), int(z))
                     for x, y, z in re.findall(r"^library (\d+) begin (\d+) end (\d+)", victim.out, re.M)]
            inside.append((victim.pid, made, spans))
        samples = daemon.stop().samples
        judged = []
        for pid, made, spans in inside:
            for s in samples:
                n = next((n for n, begin, end in spans if begin <= daemon.time_ns(s) < end), None)
                if s.resource["process.pid"] == pid and n is not None:
                    judged.append(s)
                    attributed += any(f.build_id == made[n][1] for f in s.frames)
        rows.append(share_row("12 libraries, 200 ms in each", daemon, judged, attributed))
    with bench.Bench() as b:
        daemon = Daemon(b, "--comm", "victim-crowd")
        crowd(b, 100, 3, 1)
        time.sleep(10 * options.rounds)
        samples = daemon.stop().samples
        rows.append(
            share_row("100 processes, 3 ms of work a second each", daemon, samples,
                      sum(map(is_attributed, samples))))
    bench.table("shares at 99 Hz", ["what", "ticks", "delivered", "samples judged", "attributed", "coverage"],
                rows)


def storm(options):
    rows = []
    for name, program in (("fork and exec", tap.VICTIMS / "victim-nothing"), ("fork alone", None)):
        with bench.Bench() as b:
            daemon = Daemon(b, "--all")
            spawners = [
                b.spawn([tap.VICTIMS / "victim-crowd", "storm", 40000, 1000, *([program] if program else [])])
                for _ in range(2)
            ]
            for spawner in spawners:
                spawner.wait_for("^spawned 10000$", patience=120)
            rss, cpu, begin = daemon.rss_mib, daemon.cpu_ns, time.monotonic()
            for spawner in spawners:
                spawner.wait_for("^spawned 40000$", patience=300)
            after, used, seconds = daemon.rss_mib, daemon.cpu_ns - cpu, time.monotonic() - begin
            daemon.stop()
            c, s = daemon.summary["counters"], daemon.summary
            rows.append([
                name, f"{60000 / seconds:.0f}", f"{used / 1e7 / seconds:.1f} %", f"{rss:.1f}", f"{after:.1f}",
                f"{c['notices_total']:,}", c["notices_lost_total"] + c["mappings_noticed_total"]["lost"],
                f"{s['ticks']:,}", s["lost"]
            ])
    bench.table("storm: 80,000 processes under --all at 99 Hz; memory after 20,000 and at the end", [
        "what", "processes/s", "daemon's CPU", "VmRSS MiB", "at the end", "notices", "lost", "ticks", "lost"
    ], rows)


def turns(pid, seconds, directory):
    """Lengths in ms of what the main thread does between two waits."""
    data, lengths, begin = directory / "perf.data", [], None
    bench.run([
        "perf", "record", "-q", "-e", "syscalls:sys_enter_epoll_wait,syscalls:sys_exit_epoll_wait", "-t", pid,
        "-o", data, "sleep", seconds
    ])
    for line in bench.run(["perf", "script", "-F", "time,event", "-i", data]).stdout.splitlines():
        time_s, event = line.split()[:2]
        if "exit" in event:
            begin = float(time_s.rstrip(":"))
        elif begin is not None:
            lengths.append((float(time_s.rstrip(":")) - begin) * 1e3)
    return lengths


def turn(options):
    rows = []
    for what, *arguments in (("they change all the time", "churn", 65530), ("they stay", "still", 65530),
                             ("of a file with 14 KiB of a name: 940 MB of maps", "names", 65000)):
        longest = []
        for _ in range(options.rounds):
            with bench.Bench() as b:
                b.victim("hostile", *arguments, *([b.directory()] if arguments[0] == "names" else []))
                daemon = Daemon(b, "--comm", "victim-hostile")
                for task in os.listdir(f"/proc/{daemon.pid}/task"):
                    # other work is not part of it
                    os.sched_setscheduler(int(task), os.SCHED_FIFO, os.sched_param(1))
                longest += [max(turns(daemon.pid, 10, b.directory()))]
                daemon.stop()
        rows.append([what, bench.spread(longest)])
    bench.table("turn: 65,530 mappings in one target", ["mappings", "longest turn in 10 s, ms"], rows)


def main():
    parts = {"pass": first_pass, "idle": idle, "first": first, "late": late, "shares": shares, "storm": storm,
             "turn": turn}
    bench.main(
        __doc__, parts,
        lambda parser: parser.add_argument("--processes", type=int, default=2000, help="of the first pass"))


if __name__ == "__main__":
    main()
