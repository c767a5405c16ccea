#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Short processes without frame pointers: how many of their ticks come, and how many with a whole stack.

usage: tests/bench/short.py [--rounds N] [--hz HZ,…] [--all] [--compilers] [--oep PROGRAM]
                            [storm] [long] [rivals] [first] [copies]

    storm   one process after the other, of 20 and of 100 ms, by fork and exec: ticks delivered, stacks whole,
            whole and right, wrong; how they end; bytes of stack copies. Their files were used before.
            --all: they are not chosen by name, but as all others are; ticks are those of all then
    long    two processes that burn for 30 s each, of victim-tree and victim-brief, whose stacks lead through
            libc: the same from their first tick on. --compilers: storm and long beside compilers on all CPUs
    rivals  the same processes under each tool in turn: samples beside those that their CPU time stands for,
            and stacks that reach the program's _start over right callers alone. --oep: the program of
            opentelemetry-ebpf-profiler (this Python then has grpcio, of PyPI)
    first   exec → first sample and first whole stack of a new process of a known executable
    copies  ns of the kernel half for a sample with a copy of its stack, beside one by rows (needs bpftool)

The victim (victim-tree) keeps pointers into its stack in rbp; each caller is known by name. SPANPROF names
the program to measure (default: ./build), so that two builds can be compared. Needs root.
"""
import bench  # first: it knows where the test library is
import oracle

oracle.enter()

import collections
import json
import os
import pathlib
import resource
import subprocess
import time

import otlp_read
import search
import tap
import tree
from lives import Daemon

CLOCK = time.CLOCK_MONOTONIC
SYMBOLS = otlp_read.Symbols()
BRIEF = tap.VICTIMS / "victim-brief"
CHAIN = ["brief_leaf", "brief_three", "brief_two", "brief_one", "main"]


def run_one(ms):
    child = tap.Child([tree.VICTIM, ms])
    pid = child.pid
    child.wait()
    child.kill()
    return pid


def start_load(b, options):
    if options.compilers:
        search.start_compilers(b)


def storm(options):
    rows, judge = [], tree.Judge(SYMBOLS)
    for hz in options.hz.split(","):
        for ms, n in ((20, 150), (100, 40)):
            with bench.Bench() as b:
                start_load(b, options)
                chosen = ["--all"] if options.all else ["--comm", "victim-tree"]
                daemon = Daemon(b, *chosen, "--frequency", hz)
                run_one(300)            # from here on the files are known
                time.sleep(1)
                pids = {run_one(ms) for _ in range(n * options.rounds)}
                cpu_ns = daemon.cpu_ns
                daemon.stop()
            s = daemon.summary
            due, whole, right, wrong, ends = judge.count(
                sample for sample in daemon.samples if sample.resource["process.pid"] in pids)
            ticks = s["ticks"]
            rows.append([
                ms, hz, ticks, f"{100 * s['delivered'] / max(ticks, 1):.2f} %", due,
                f"{100 * whole / max(due, 1):.2f} %", f"{100 * right / max(due, 1):.2f} %", wrong,
                " ".join(f"{k} {v}" for k, v in sorted(ends.items())),
                s["counters"].get("stack_copies_total", ""), s["counters"].get("stack_walks_total", ""),
                {k: v for k, v in s["counters"]["unwind_tables_total"].items() if v},
                f"{cpu_ns / 1e6:.0f}"
            ])
    bench.table("storm: processes without frame pointers, one after the other", [
        "ms", "Hz", "ticks", "delivered", "with user part", "whole", "whole and right", "wrong", "ends",
        "copies", "walks", "tables", "CPU ms"
    ], rows)


def is_brief_wrong(judge, sample):
    """Whether it names functions of victim-brief that did not call each other, or a whole stack lacks callers."""
    names = [SYMBOLS.name(frame) for frame in sample.frames if frame.type != "kernel"]
    names = [name for name in names if name in CHAIN]
    if not names:
        return False
    start = CHAIN.index(names[0])
    return names != (CHAIN[start:] if judge.is_whole(sample) else CHAIN[start:start + len(names)])


def long(options):
    rows, judge = [], tree.Judge(SYMBOLS)
    for hz in options.hz.split(","):
        with bench.Bench() as b:
            start_load(b, options)
            daemon = Daemon(b, "--comm", "victim-tree,victim-brief", "--frequency", hz)
            for _ in range(1 + options.rounds):     # files of the first ones were never seen
                children = [b.spawn([tree.VICTIM, 30000]), b.spawn([BRIEF, "burn", 30000])]
                for child in children:
                    child.wait(300)
                time.sleep(1)
                rows += [[hz, child, None] for child in children]
            daemon.stop()
        by_pid = collections.defaultdict(list)
        for sample in daemon.samples:
            by_pid[sample.resource["process.pid"]].append(sample)
        of_rate = [row for row in rows if row[0] == hz]
        for i, row in enumerate(of_rate):
            samples = [s for s in by_pid[row[1].pid] if judge.has_user(s)]
            wrong = [is_brief_wrong(judge, s) if i % 2 else judge.is_wrong(s) for s in samples]
            right = [judge.is_whole(s) and not is_wrong for s, is_wrong in zip(samples, wrong)]
            ends = collections.Counter(s.attributes.get("profile.stack.truncated", "complete") for s in samples)
            first = min(samples, key=lambda s: s.time_ns)
            row[1:] = ["victim-brief" if i % 2 else "victim-tree", "never seen" if i < 2 else "known",
                       len(by_pid[row[1].pid]), len(samples), f"{100 * sum(right) / len(samples):.3f} %", sum(wrong),
                       "yes" if right[samples.index(first)] else "no",
                       " ".join(f"{k} {v}" for k, v in sorted(ends.items()))]
    bench.table("long: two processes at a time, from exec on", [
        "Hz", "program", "files", "samples", "with user part", "whole and right", "wrong", "the first", "ends"
    ], rows)


def storm_ns(ms, n):
    """Runs @n processes one after the other. Return: their CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(n):
        run_one(ms)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e9 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def of_victim(samples):
    """Those with a frame of the victim's file; a tool that knows its name alone gets the path that it has here."""
    own = SYMBOLS.build_id(str(tree.VICTIM))
    for sample in samples:
        if sample.resource.get("process.executable.name") == tree.VICTIM.name:
            yield sample._replace(frames=[frame._replace(path=str(tree.VICTIM)) if frame.build_id == own
                                          else frame for frame in sample.frames])


def under_ours(b, hz, ms, n):
    daemon = Daemon(b, "--comm", "victim-tree", "--frequency", hz)
    cpu_ns = storm_ns(ms, n)
    daemon.stop()
    return cpu_ns, list(of_victim(daemon.samples))


def under_oep(b, options, hz, ms, n):
    tool = bench.Oep(b, options.oep, hz)
    time.sleep(bench.SETTLE_S)
    cpu_ns = storm_ns(ms, n)
    tool.stop()
    read = b.directory() / "read.pb"
    bench.run([tap.SPANPROF, "convert", *sorted(tool.directory.glob("*.pb")), "-o", read], check=True)
    return cpu_ns, list(of_victim(otlp_read.samples(read)))


def rivals(options):
    rows, judge = [], tree.Judge(SYMBOLS)
    tools = {"spanprof": under_ours}
    if options.oep:
        tools[bench.Oep.name] = lambda b, *rest: under_oep(b, options, *rest)
    for hz in options.hz.split(","):
        for ms, n in ((20, 150), (100, 40)):
            for name, run_under in tools.items():
                with bench.Bench() as b:
                    cpu_ns, samples = run_under(b, hz, ms, n * options.rounds)
                due = cpu_ns * int(hz) / 1e9
                whole = sum("_start" in judge.names(s) and not judge.is_wrong(s) for s in samples)
                rows.append([ms, hz, name, f"{due:.0f}", len(samples), f"{100 * len(samples) / due:.0f} %", whole,
                             f"{100 * whole / due:.0f} %", sum(map(judge.is_wrong, samples))])
    bench.table("rivals: processes without frame pointers, one after the other", [
        "ms", "Hz", "tool", "due by CPU time", "samples", "of those due", "to _start, right", "of those due", "wrong"
    ], rows)


def first(options):
    with bench.Bench() as b:
        daemon = Daemon(b, "--comm", "victim-tree")
        begins = {}
        for _ in range(20 * options.rounds):
            begin = time.clock_gettime_ns(CLOCK)
            begins[run_one(100)] = begin
            time.sleep(0.05)
        daemon.stop()
    firsts, whole = {}, {}
    for s in daemon.samples:
        pid, at = s.resource["process.pid"], daemon.time_ns(s)
        firsts[pid] = min(firsts.get(pid, 1 << 63), at)
        if tree.Judge.is_whole(s) and tree.Judge.has_user(s):
            whole[pid] = min(whole.get(pid, 1 << 63), at)
    rows = [[
        name,
        len(times),
        bench.spread([(times[pid] - begin) / 1e6 for pid, begin in begins.items()
                      if pid in times]) if times else "none"
    ] for name, times in (("first sample", firsts), ("first whole stack", whole))]
    bench.table("first: fork and exec → …, 99 Hz, known executable", ["what", "processes", "ms"], rows)


def program_stats():
    """The newest `sample` program: (runs, ns). Another daemon on the machine spoils the figures."""
    programs = json.loads(bench.run(["bpftool", "-j", "prog", "show"]).stdout)
    newest = max((p for p in programs if p.get("name") == "sample"), key=lambda p: p["id"])
    return newest.get("run_cnt", 0), newest.get("run_time_ns", 0)


def cost_of_sample(b, mode, depth, stack_bytes, rows):
    dump = b.spawn([tap.HARNESS / "sample-dump", "frequency=999", f"stack-bytes={stack_bytes}"],
                   stdin=subprocess.PIPE)
    dump.wait_for("ready")
    victim = b.spawn([tap.VICTIMS / "victim-omit", mode, depth])
    victim.wait_for("^frames")
    commands = [f"rows {victim.pid}"] * rows + [f"row {victim.pid} 0 0 0 1 1"]
    dump.process.stdin.write("".join(x + "\n" for x in commands).encode())
    dump.process.stdin.flush()
    dump.wait_for(f'"done":"row {victim.pid}')
    time.sleep(0.5)
    runs, ns = program_stats()
    time.sleep(2)
    more_runs, more_ns = program_stats()
    victim.kill()
    dump.kill()
    return (more_ns - ns) / (more_runs - runs)


def copies(options):
    cases = (("the pc alone, no copy", "depth", 10, 0, 0), ("copy of 3 KiB", "depth", 10, 1 << 30, 0),
             ("copy of 9 KiB", "depth", 200, 1 << 30, 0), ("copy of 17 KiB", "large", 100, 1 << 30, 0),
             ("ten frames by rows", "depth", 10, 0, 1))
    costs = {case: [] for case in cases}
    setting = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
    before = setting.read_text()
    setting.write_text("1")
    try:
        for _ in range(options.rounds):
            for case in cases:
                with bench.Bench() as b:
                    costs[case].append(cost_of_sample(b, *case[1:]))
    finally:
        setting.write_text(before)
    bench.table("copies: one sample in the kernel at 999 Hz", ["sample", "ns"],
                [[case[0], bench.spread(costs[case])] for case in cases])


def add_options(parser):
    parser.add_argument("--hz", default="99", help="frequencies")
    parser.add_argument("--compilers", action="store_true", help="beside compilers on all CPUs")
    parser.add_argument("--all", action="store_true", help="storm: all processes are targets")
    parser.add_argument("--oep", help="program of opentelemetry-ebpf-profiler")


if __name__ == "__main__":
    bench.main(__doc__, {"storm": storm, "long": long, "rivals": rivals, "first": first, "copies": copies},
               add_options)
