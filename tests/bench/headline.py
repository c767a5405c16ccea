#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a host pays for --all with names: CPU in BPF, of the daemon and its workers, a minute and a sample.

usage: tests/bench/headline.py [--seconds N] [--rounds N] [--hz N,…] [--oep PROGRAM | --rival COMMAND]
                               [quiet] [beside] [compilers]

    quiet      two burners, and nothing else that we start
    beside     the same, with a shell that starts one short program after the other
    compilers  compilers of C++ on all CPUs in the place of the burners

Each tool has --seconds at each rate (600: the figures that count) after a start of 12 s that is not counted.
The rival is opentelemetry-ebpf-profiler, where --oep names its program (this Python then has grpcio, of
PyPI, for the receiver); else COMMAND, in which {hz} stands for the rate; else `perf record -a -g`, which only
copies, and whose work in interrupts nothing counts. The samples of the last two are taken to be as many as
ours. From the rates follows what a
minute costs without a sample, and what one more sample does (least squares). SPANPROF names the build
(default: ./build). Needs root.
"""
import contextlib
import json
import os
import pathlib
import shlex
import time

import bench
import search
import starts
import tap

STATISTICS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")


def bpf_ns(cgroup):
    """Run time of all programs that processes of this control group hold, as their descriptors tell."""
    times = {}
    for pid in (cgroup.paths[0] / "cgroup.procs").read_text().split():
        for path in pathlib.Path(f"/proc/{pid}/fdinfo").glob("*"):
            with contextlib.suppress(OSError):
                told = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
                if "run_time_ns" in told:
                    times[int(told["prog_id"])] = int(told["run_time_ns"])
    return sum(times.values())


def measure(cgroup, seconds):
    """(CPU ms, BPF ms) a minute."""
    time.sleep(bench.SETTLE_S)
    cpu, bpf = cgroup.cpu_ns, bpf_ns(cgroup)
    time.sleep(seconds)
    minutes = 1e6 * seconds / 60
    return (cgroup.cpu_ns - cpu) / minutes, (bpf_ns(cgroup) - bpf) / minutes


def ours(b, hz, options):
    """Also: samples a minute."""
    cgroup, summary = b.cgroup("spanprof"), b.directory() / "summary.json"
    _, environment = b.receiver()
    begin = time.monotonic()
    child = b.spawn([tap.SPANPROF, "run", "--all", "-F", hz, "--symbols", "local", "--summary", summary],
                    cgroup=cgroup, env=environment)
    child.wait_for("profiles go to")
    cpu, bpf = measure(cgroup, options.seconds)
    child.stop()
    return cpu, bpf, json.loads(summary.read_text())["ticks"] / (time.monotonic() - begin) * 60


def oep(b, hz, options):
    """Also: samples a minute."""
    tool = bench.Oep(b, options.oep, hz)
    cpu, bpf = measure(tool.cgroup, options.seconds)
    end = time.time()
    tool.stop()
    return cpu, bpf, tool.samples(end - options.seconds, end) / options.seconds * 60


def theirs(b, hz, options):
    cgroup = b.cgroup("rival")
    command = [bench.tool("perf"), "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", hz, "-o",
               b.directory() / "data"]
    if options.rival:
        command = shlex.split(options.rival.replace("{hz}", str(hz)))
    b.spawn(command, cgroup=cgroup)
    return measure(cgroup, options.seconds)


def line(points):
    """Least squares: value at 0, slope."""
    n, x, y = len(points), sum(p[0] for p in points), sum(p[1] for p in points)
    spread = n * sum(p[0]**2 for p in points) - x * x
    slope = (n * sum(p[0] * p[1] for p in points) - x * y) / spread if spread else 0
    return (y - slope * x) / n, slope


def burners(b):
    for cpu in sorted(os.sched_getaffinity(0)):
        b.victim("omit", "depth", 30, cpu=cpu, ready="^frames")


def beside_short(b):
    burners(b)
    b.spawn(["sh", "-c", starts.SHORT])


def part(options, what, start_load):
    rows, points = [], {"spanprof": [], "rival": []}
    for hz in map(int, options.hz.split(",")):
        for _ in range(options.rounds):
            with bench.Bench() as b:
                start_load(b)
                cpu, bpf, samples = ours(b, hz, options)
                found = {"spanprof": (cpu, bpf, samples)}
                if options.oep:
                    found["rival"] = oep(b, hz, options)
                elif options.rival or bench.tool("perf"):
                    found["rival"] = (*theirs(b, hz, options), samples)
            for name, (cpu, bpf, samples) in found.items():
                points[name].append((samples, cpu + bpf))
                rows.append([hz, name, f"{samples:.0f}", f"{cpu:.0f}", f"{bpf:.0f}",
                             f"{1e3 * (cpu + bpf) / max(1, samples):.1f}"])
    bench.table(what, ["Hz", "tool", "samples a minute", "CPU ms a minute", "BPF ms a minute",
                       "µs a sample, in all"], rows)
    for name, seen in points.items():
        if len({x for x, _ in seen}) > 1:
            fixed, slope = line(seen)
            print(f"{name}: {fixed:.0f} ms a minute and {1e3 * slope:.1f} µs a sample")


def add_options(parser):
    parser.add_argument("--seconds", type=float, default=600, help="of each tool at each rate")
    parser.add_argument("--hz", default="19,49,99", help="rates")
    parser.add_argument("--oep", help="program of opentelemetry-ebpf-profiler")
    parser.add_argument("--rival", help="command line of another profiler")


if __name__ == "__main__":
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, Linux {os.uname().release}")
    was_on = STATISTICS.read_text()
    bench.need_root()
    STATISTICS.write_text("1")
    try:
        bench.main(__doc__, {
            "quiet": lambda options: part(options, "quiet", burners),
            "beside": lambda options: part(options, "beside short programs", beside_short),
            "compilers": lambda options: part(options, "beside compilers", search.start_compilers)
        }, add_options)
    finally:
        STATISTICS.write_text(was_on)
