# SPDX-License-Identifier: Apache-2.0
"""What the benches of whole tools share: cgroups that measure, children that end, tables.

A tool runs in a cgroup of its own, so that its CPU time and memory are the kernel's figures and hold
everything that it starts, page cache that it fills and BPF maps that it makes. cgroup v1 and v2 are both
known.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / name)
                for name in ("harness", "harness/machines", "oracles")]
import otlp_read  # noqa: E402
import tap  # noqa: E402

CGROUPS = pathlib.Path("/sys/fs/cgroup")
SETTLE_S = 12                   # OEP samples what ran before it after some five seconds
CPU_WEIGHT = 500        # spanprof.service's


class Cgroup:
    """
    A cgroup for one tool, with the share of the CPUs that our unit has: without it, a tool with all its
    threads would have that of one thread of the load. `cpu_ns` and `peak_bytes` may be read until close().
    """

    def __init__(self, name):
        name = f"spanprof-bench-{os.getpid()}-{name}"
        if (CGROUPS / "cgroup.controllers").exists():
            with contextlib.suppress(OSError):
                (CGROUPS / "cgroup.subtree_control").write_text("+memory +cpu")
            self.paths = [CGROUPS / name]
            self.cpu_file, self.peak_file = self.paths[0] / "cpu.stat", self.paths[0] / "memory.peak"
        else:
            self.paths = [CGROUPS / kind / name for kind in ("cpuacct", "memory", "cpu")]
            self.cpu_file = self.paths[0] / "cpuacct.usage"
            self.peak_file = self.paths[1] / "memory.max_usage_in_bytes"
        for path in self.paths:
            path.mkdir(exist_ok=True)
        for file, share in (("cpu.weight", CPU_WEIGHT), ("cpu.shares", 1024 * CPU_WEIGHT // 100)):
            if (self.paths[-1] / file).exists():
                (self.paths[-1] / file).write_text(str(share))

    def enter(self):
        """Moves the calling process in (for preexec_fn)."""
        for path in self.paths:
            (path / "cgroup.procs").write_text(str(os.getpid()))

    @property
    def cpu_ns(self):
        text = self.cpu_file.read_text()
        if "usage_usec" in text:
            return int(dict(line.split() for line in text.splitlines())["usage_usec"]) * 1000
        return int(text)

    @property
    def bpf_ns(self):
        """Run time of all programs that its processes hold, as their descriptors tell; kernel.bpf_stats_enabled."""
        times = {}
        for pid in (self.paths[0] / "cgroup.procs").read_text().split():
            for path in pathlib.Path(f"/proc/{pid}/fdinfo").glob("*"):
                with contextlib.suppress(OSError):
                    told = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
                    if "run_time_ns" in told:
                        times[int(told["prog_id"])] = int(told["run_time_ns"])
        return sum(times.values())

    @property
    def peak_bytes(self):
        return int(self.peak_file.read_text())

    def close(self):
        for path in self.paths:
            for _ in range(50):
                try:
                    path.rmdir()
                    break
                except OSError:
                    time.sleep(0.1)


class Bench(contextlib.ExitStack):
    """Children, cgroups and directories of one run; all gone when it ends."""

    def spawn(self, argv, cgroup=None, cpu=None, is_service=False, **options):
        """@is_service: in a session of its own (autogroup), with a share of the CPUs as a unit of systemd has."""
        def enter():
            tap._die_with_parent()
            if is_service:
                os.setsid()
            if cgroup:
                cgroup.enter()
            if cpu is not None:
                os.sched_setaffinity(0, {cpu})

        child = tap.Child(argv, preexec_fn=enter, **options)
        self.callback(child.kill)
        return child

    def cgroup(self, name):
        group = Cgroup(name)
        self.callback(group.close)
        return group

    def directory(self):
        path = tempfile.mkdtemp(prefix="spanprof-bench-")
        self.callback(shutil.rmtree, path, ignore_errors=True)
        return pathlib.Path(path)

    def victim(self, name, *args, cpu=None, ready=r"^pid (\d+)"):
        """Starts tests/victims/victim-NAME and waits until it says that it runs."""
        child = self.spawn([tap.VICTIMS / f"victim-{name}", *args], cpu=cpu)
        child.wait_for(ready)
        return child

    def receiver(self):
        """An embedded receiver, outside of every cgroup. Returns its directory and its environment for the daemon."""
        directory = self.directory()
        child = self.spawn([tap.SPANPROF, "receive", "--port", "0", "-o", directory])
        port = child.wait_for(r"listening on http://[^:]+:(\d+)").group(1)
        return directory, dict(os.environ, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}")


# It wants tracefs, which a container has not mounted.
MOUNT_AND_RUN = ["unshare", "-m", "--propagation", "private", "sh", "-c",
                 'mount -t tracefs tracefs /sys/kernel/tracing 2>&1; exec "$@"', "sh"]


class Oep:
    """opentelemetry-ebpf-profiler in a cgroup, sending to grpc-sink.py outside of it."""

    name = "opentelemetry-ebpf-profiler"

    def __init__(self, b, binary, hz):
        self.cgroup, self.directory, self.read = b.cgroup("oep"), b.directory(), b.directory() / "read.pb"
        sink = b.spawn([sys.executable, pathlib.Path(__file__).with_name("grpc-sink.py"), self.directory],
                       stdin=subprocess.PIPE)
        port = sink.wait_for(r"port (\d+)").group(1)
        self.child = b.spawn([*MOUNT_AND_RUN, binary, f"-collection-agent=127.0.0.1:{port}", "-disable-tls",
                              "-no-kernel-version-check", f"-samples-per-second={hz}"], cgroup=self.cgroup)
        self.child.wait_for("Attached sched monitor", patience=60)

    def stop(self):
        """
        Ends it, two reports later: what it has at its end it does not send, and what a report has can be some
        seconds old.
        """
        n = len(list(self.directory.glob("*.pb")))
        tap.wait_until(lambda: len(list(self.directory.glob("*.pb"))) > n + 1, "two reports", patience=60)
        self.child.stop(signal.SIGINT)

    def samples(self, start, end, pids=()):
        """Between two times of time.time(), of these processes or of all: what `spanprof report` reads of it."""
        chosen = [word for pid in pids for word in ("--pid", pid)]
        done = run([tap.SPANPROF, "report", "--json", "--start", f"{start:.3f}", "--end", f"{end:.3f}", *chosen,
                    *sorted(self.directory.glob("*.pb"))])
        return sum(profile["value"] for profile in json.loads(done.stdout)["profiles"])

    def all_samples(self):
        run([tap.SPANPROF, "convert", *sorted(self.directory.glob("*.pb")), "-o", self.read], check=True)
        return otlp_read.samples(self.read)


def tool(name):
    """Path of a rival, or None: its rows say that it was not there."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def spread(values):
    """Median [least … greatest]."""
    values = list(values)
    if not values:
        return "–"
    return f"{statistics.median(values):.3g} [{min(values):.3g} … {max(values):.3g}]"


def table(title, header, rows):
    print(f"\n{title}\n")
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(f"{str(cell):<{width}}" for cell, width in zip(row, widths)) + " |")
    sys.stdout.flush()


def need_root():
    if os.geteuid() != 0:
        sys.exit("this bench loads BPF: run it as root")


def main(description, parts, add_options):
    """Runs the parts (name → function of the options) that the command line names, or all. @add_options: takes the parser."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=3, help="repetitions")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of: {' '.join(parts)} (default: all)")
    options = parser.parse_args()
    for part in options.parts:
        if part not in parts:
            parser.error(f"no such part: {part}")
    need_root()
    # ended by a signal it unwinds, too: what it has set is set back
    signal.signal(signal.SIGTERM, lambda signum, _frame: sys.exit(128 + signum))
    for part in options.parts or parts:
        parts[part](options)


def run(argv, **options):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, errors="replace", **options)
