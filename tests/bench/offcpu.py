#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --off-cpu costs at a switch: strangers, targets, targets with spans, all walked; beside `perf sched record`
and offcputime of libbpf-tools.

usage: sudo tests/bench/offcpu.py [--rounds N] [--seconds S] [--offcputime PROGRAM]

Two processes on one CPU hand a byte to each other (switch-load.c). The tools take turns. Printed: CPU time of
both processes for a round trip of two switches and two wake-ups, and how long the kernel says that our
programs run (kernel.bpf_stats_enabled: this holds some 60 ns of the statistics themselves, and slows the
round trips of all rows alike).
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", "build"))
SPANPROF = os.environ.get("SPANPROF", str(BUILD / "spanprof"))
LOAD = str(BUILD / "tests/bench/switch-load")
STATS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
BPFTOOL = shutil.which("bpftool") or "/usr/sbin/bpftool"
PROGRAMS = ("wait_switch", "wait_wake", "wait_waking")
SETTLE = 2       # seconds that a tool has to start
THEIRS = {"sched_switch": "wait_switch"}         # of offcputime, in the same column


def program_times():
    """{(name, id): (ns, runs)} of the programs that are loaded, another spanprof's too."""
    rows = json.loads(subprocess.run([BPFTOOL, "-j", "prog", "show"], capture_output=True, text=True).stdout)
    return {(THEIRS.get(row["name"], row["name"]), row["id"]): (row.get("run_time_ns", 0), row.get("run_cnt", 0))
            for row in rows if row.get("name") in (*PROGRAMS, *THEIRS)}


def settled(others):
    """program_times() of a tool once its program at a switch has run, or after SETTLE seconds."""
    end = time.monotonic() + SETTLE
    while True:
        mine = {key: times for key, times in program_times().items() if key not in others}
        if any(runs for (name, _), (_, runs) in mine.items() if name == "wait_switch") or time.monotonic() > end:
            return mine
        time.sleep(0.1)


def measure(seconds, spans, tool):
    """(CPU ns of a round trip, {program: ns a run}). @tool: function of the load's pids → argv, None = none."""
    load = subprocess.Popen([LOAD, str(seconds + (SETTLE if tool else 0)), *(["ring"] if spans else [])],
                            stdout=subprocess.PIPE, text=True)
    pids = load.stdout.readline().split()[1:]
    child, times, others = None, {}, program_times()
    if tool:
        child = subprocess.Popen(tool(pids), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = settled(others)
        time.sleep(seconds / 2)
        times = {key[0]: (ns - before[key][0]) / max(1, runs - before[key][1])
                 for key, (ns, runs) in program_times().items() if key in before}
    cost = int(load.stdout.readline().split()[1])
    load.wait()
    if child:
        child.terminate()
        child.wait()
    return cost, times


def text(values):
    if not values:
        return ""
    return f"{statistics.median(values):,.0f} [{min(values):,.0f} … {max(values):,.0f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--offcputime", default=shutil.which("offcputime") or "/usr/sbin/offcputime")
    options = parser.parse_args()
    directory = tempfile.mkdtemp()
    sleeper = subprocess.Popen(["sleep", "1000"])

    def spanprof(pids, *more):
        return [SPANPROF, "record", "-o", f"{directory}/x.pb", "-p", ",".join(map(str, pids)), *more]

    rows = {
        "nothing": (False, None),
        "record": (False, spanprof),
        "record --off-cpu of another process": (False,
                                                lambda pids: spanprof([sleeper.pid], "--off-cpu")),
        "record --off-cpu, no walks": (False, lambda pids: spanprof(pids, "--off-cpu", "--off-cpu-walks=0")),
        "the same, spans in a ring": (True, lambda pids: spanprof(pids, "--off-cpu", "--off-cpu-walks=0")),
        "record --off-cpu, spans": (True, lambda pids: spanprof(pids, "--off-cpu")),
        "the same, every wait walked": (True, lambda pids: spanprof(pids, "--off-cpu",
                                                                   "--off-cpu-walks=100000")),
        "the same, one walk in 134 ms: long waits": (True, lambda pids: spanprof(pids, "--off-cpu",
                                                                                "--off-cpu-walks=1")),
        "perf sched record": (False, lambda pids: ["perf", "sched", "record", "-o", f"{directory}/perf.data"]),
    }
    if os.access(options.offcputime, os.X_OK):
        rows["offcputime of libbpf-tools"] = (False, lambda pids: [options.offcputime, "-p", ",".join(map(str, pids))])
    else:
        print(f"no {options.offcputime}: its row is left out (Debian: libbpf-tools)", file=sys.stderr)
    old, figures = STATS.read_text(), {name: [] for name in rows}
    try:
        STATS.write_text("1")
        for _ in range(options.rounds):
            for name, (spans, tool) in rows.items():
                figures[name].append(measure(options.seconds, spans, tool))
    finally:
        STATS.write_text(old)
        sleeper.kill()
        sleeper.wait()
        shutil.rmtree(directory)
    print("| | a round trip, CPU ns | of sched_switch, ns | of sched_wakeup, ns | of sched_waking, ns |\n"
          "|---|---|---|---|---|")
    for name, runs in figures.items():
        times = [text([t[program] for _, t in runs if program in t]) for program in PROGRAMS]
        print("|", " | ".join((name, text([cost for cost, _ in runs]), *times)), "|")
    return 0


if __name__ == "__main__":
    sys.exit(main())
