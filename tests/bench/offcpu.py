#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --off-cpu costs at a switch: strangers, targets, targets with spans, all walked; beside `perf sched record`
and offcputime of libbpf-tools. And what `perf sched timehist` takes to make waits of perf's recording.

usage: sudo tests/bench/offcpu.py [--rounds N] [--seconds S] [--offcputime PROGRAM]

Two processes on one CPU hand a byte to each other (switch-load.c). The tools take turns. Printed: CPU time of
both processes for a round trip of two switches and two wake-ups, the 99th percentile of its length and of how
late a neighbour wakes up that sleeps for 1 ms again and again, and how long the kernel says that the tool's
programs run (kernel.bpf_stats_enabled: this holds the statistics themselves, and slows the round trips of all
rows alike).
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
# seconds that a tool has to start: one without programs at a switch, and one whose programs are waited for
SETTLE, START = 4, 30
STEP = 6                # until the daemon has judged what a storm leaves
STORM = "--off-cpu-max-switches=1"
THEIRS = {"sched_switch": "wait_switch"}         # of offcputime, in the same column


def program_times():
    """{(name, id): (ns, runs)} of the programs that are loaded, another spanprof's too."""
    rows = json.loads(subprocess.run([BPFTOOL, "-j", "prog", "show"], capture_output=True, text=True).stdout)
    return {(THEIRS.get(row["name"], row["name"]), row["id"]): (row.get("run_time_ns", 0), row.get("run_cnt", 0))
            for row in rows if row.get("name") in (*PROGRAMS, *THEIRS)}


def settled(others, argv):
    """program_times() of a tool once its program at a switch has run, or after a while."""
    end = time.monotonic() + (START if "--off-cpu" in argv or "offcputime" in argv[0] else SETTLE)
    while True:
        mine = {key: times for key, times in program_times().items() if key not in others}
        if any(runs for (name, _), (_, runs) in mine.items() if name == "wait_switch") or time.monotonic() > end:
            return mine
        time.sleep(0.1)


def measure(seconds, spans, tool):
    """(CPU ns of a round trip, ns of a slow one, ns that a slow neighbour is late, {program: ns a run}).
    @spans: of switch-load.c, None = none. @tool: function of the load's pids → argv, None = none."""
    load = subprocess.Popen([LOAD, str(seconds), *([spans] if spans else [])], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    pids = load.stdout.readline().split()[1:]
    child, before, others = None, {}, program_times()
    if tool:
        argv = tool(pids)
        child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = settled(others, argv)
        if STORM in argv:
            time.sleep(STEP)
            before = settled(others, argv)
    neighbour = subprocess.Popen([LOAD, str(seconds), "neighbour"], stdout=subprocess.PIPE, text=True)
    _, cost, slow = map(int, load.communicate("go\n")[0].split())
    late = int(neighbour.communicate()[0].split()[1])
    times = {key[0]: (ns - before[key][0]) / (runs - before[key][1])
             for key, (ns, runs) in program_times().items() if key in before and runs > before[key][1]}
    if child:
        child.terminate()
        child.wait()
    return cost, slow, late, times


def timehist(path):
    """(switches, CPU ns a switch, bytes a switch) of perf's recording as `perf sched timehist` reads it."""
    before = os.times()
    command = ["perf", "sched", "timehist", "-i", path]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    after = os.times()
    n = sum(1 for line in lines if line.lstrip()[:1].isdigit()) or 1
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return n, cpu * 1e9 / n, os.path.getsize(path) / n


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

    def waits(*more):       # of a storm, so nothing may be left out unless it is asked for
        return lambda pids: spanprof(pids, "--off-cpu", "--off-cpu-max-switches=0", *more)

    def step(keep):
        return lambda pids: spanprof(pids, "--off-cpu", STORM, f"--off-cpu-keep={keep}")

    library = str(BUILD.resolve() / "sdk/libspanprof-context.so")
    rows = {
        "nothing": (None, None),
        "record": (None, spanprof),
        "record --off-cpu of another process": (None, lambda _: waits()([sleeper.pid])),
        "record --off-cpu, no walks": (None, waits("--off-cpu-walks=0")),
        "the same, spans in a ring": ("ring", waits("--off-cpu-walks=0")),
        "the same, no wait is long": ("ring", waits("--off-cpu-walks=0", "--off-cpu-long-wait=0")),
        "no walks, spans in static TLS": ("thread", waits("--off-cpu-walks=0")),
        "no walks, spans in dynamic TLS": (library, waits("--off-cpu-walks=0")),
        "record --off-cpu, spans in a ring": ("ring", waits()),
        "the same, every wait walked": ("ring", waits("--off-cpu-walks=100000")),
        "the same, one walk in 134 ms: long waits": ("ring", waits("--off-cpu-walks=1")),
        "in a storm, without walks": ("ring", step("late-stacks")),
        "in a storm, without stacks": ("ring", step("spans")),
        "in a storm, times alone": ("ring", step("times")),
        "perf sched record": (None, lambda pids: ["perf", "sched", "record", "-o", f"{directory}/perf.data"]),
    }
    if os.access(options.offcputime, os.X_OK):
        rows["offcputime of libbpf-tools"] = (None, lambda pids: [options.offcputime, "-p", ",".join(map(str, pids))])
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
    print("| | a round trip, CPU ns | its 99th percentile, ns | a neighbour's, ns | of sched_switch, ns | of sched_wakeup, ns | "
          "of sched_waking, ns |\n|---|---|---|---|---|---|---|")
    for name, runs in figures.items():
        times = [text([run[3][program] for run in runs if program in run[3]]) for program in PROGRAMS]
        print("|", " | ".join((name, *(text([run[i] for run in runs]) for i in range(3)), *times)), "|")
    n, cpu, size = timehist(f"{directory}/perf.data")
    print(f"\nperf sched timehist: {n:,} switches of the last recording, {cpu:,.0f} ns of CPU and {size:,.0f} bytes each")
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
