#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Short processes without frame pointers: how many of their ticks come, and how many with a whole stack.

usage: tests/bench/short.py [--rounds N] [--hz HZ,…] [storm] [first]

    storm   one process after the other, of 20 and of 100 ms, by fork and exec: ticks delivered, stacks whole,
            whole and right, wrong; how they end; bytes of stack copies
    first   exec → first sample and first whole stack of a new process of a known executable

The victim (victim-tree) keeps pointers into its stack in rbp; each caller is known by name. SPANPROF names the
program to measure (default: ./build), so that two builds can be compared. Needs root.
"""
import bench  # first: it knows where the test library is
import oracle

oracle.enter()

import time

import otlp_read
import tap
import tree
from lives import Daemon

CLOCK = time.CLOCK_MONOTONIC
SYMBOLS = otlp_read.Symbols()


def run_one(ms):
    child = tap.Child([tree.VICTIM, ms])
    pid = child.pid
    child.wait()
    child.kill()
    return pid


def storm(options):
    rows, judge = [], tree.Judge(SYMBOLS)
    for hz in options.hz.split(","):
        for ms, n in ((20, 150), (100, 40)):
            with bench.Bench() as b:
                daemon = Daemon(b, "--comm", "victim-tree", "--frequency", hz)
                for _ in range(n * options.rounds):
                    run_one(ms)
                daemon.stop()
            s = daemon.summary
            due, whole, right, wrong, ends = judge.count(daemon.samples)
            ticks = s["ticks"] - s["lost_by_reason"].get("not_target", 0)
            rows.append([
                ms, hz, ticks, f"{100 * s['delivered'] / max(ticks, 1):.2f} %", due,
                f"{100 * whole / max(due, 1):.2f} %", f"{100 * right / max(due, 1):.2f} %", wrong,
                " ".join(f"{k} {v}" for k, v in sorted(ends.items())),
                s["counters"].get("stack_copies_total", ""), s["counters"].get("stack_walks_total", ""),
                {k: v for k, v in s["counters"]["unwind_tables_total"].items() if v}
            ])
    bench.table("storm: processes without frame pointers, one after the other", [
        "ms", "Hz", "ticks", "delivered", "with user part", "whole", "whole and right", "wrong", "ends",
        "copies", "walks", "tables"
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
        bench.spread([(times[pid] - begin) / 1e6 for pid, begin in begins.items() if pid in times]) if times else ""
    ] for name, times in (("first sample", firsts), ("first whole stack", whole))]
    bench.table("first: fork and exec → …, 99 Hz, known executable", ["what", "processes", "ms"], rows)


if __name__ == "__main__":
    bench.main(__doc__, {"storm": storm, "first": first},
               lambda parser: parser.add_argument("--hz", default="99", help="frequencies"))
