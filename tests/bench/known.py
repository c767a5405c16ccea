#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon processes of known files are walked by rows, in code without frame pointers.

usage: tests/bench/known.py [--rounds N] [--frequency HZ] [storm] [forks] [dlopen] [first]

    storm    processes of 20 ms and of 100 ms, one after the other, of one executable: ticks, whole stacks
    forks    children of 20 ms of one server, by fork() alone: the same
    dlopen   12 libraries that were loaded before by another process, 200 ms in each: the same
    first    exec → first sample that has its whole stack, ms

A stack is whole if it has each function that the program says it has, in order, up to _start. SPANPROF and
BUILD_DIR name the build (default: ./build), which needs tests/interop/setup-venv.sh. Needs root.
"""
import bench  # first: it knows where the test library is
import oracle

oracle.enter()

import collections
import os
import re
import statistics
import time

import lives
import otlp_read
import tap

SYMBOLS = otlp_read.Symbols()
BRIEF = tap.VICTIMS / "victim-brief"
CHAIN = ["brief_leaf", "brief_three", "brief_two", "brief_one", "main"]


def named(sample):
    return [SYMBOLS.name(f) for f in sample.frames if f.type != "kernel"]


def is_whole(sample, chain):
    """Each function of @chain in order, nothing but libc's between, and the root."""
    names = named(sample)
    return [n for n in names if n in chain] == chain and "_start" in names[-1:]


def row(what, ticks, samples, chain):
    whole = sum(is_whole(s, chain) for s in samples)
    return [what, f"{ticks:.0f}", len(samples), f"{len(samples) / ticks:.3f}",
            f"{whole / max(1, len(samples)):.4f}", len(samples) - whole]


HEAD = ["what", "ticks", "delivered", "of ticks", "whole", "not whole"]


def counters(daemon):
    c = daemon.summary["counters"]
    print("   ", {k: c.get(k) for k in ("calls_total", "unwind_tables_total", "wake_ups_total", "stacks_total")})


def one_by_one(n, ms):
    ns, began = 0, {}
    for _ in range(n):
        begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        pid, cpu = map(int, re.match(r"pid (\d+) cpu_ns (\d+)", run(ms)).groups())
        began[pid] = begin
        ns += cpu
    return ns, began


def run(ms):
    reading, writing = os.pipe()
    pid = os.posix_spawn(BRIEF, [str(BRIEF), "burn", str(ms)], os.environ,
                         file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)])
    os.close(writing)
    with os.fdopen(reading) as file:
        out = file.read()
    os.waitpid(pid, 0)
    return out


def storm(options):
    rows = []
    for ms, n in ((20, 200), (100, 60)):
        with bench.Bench() as b:
            daemon = lives.Daemon(b, "--comm", "victim-brief", "--frequency", options.frequency)
            run(300)                    # from here on the files are known
            time.sleep(1)
            ns, began = one_by_one(n * options.rounds, ms)
            samples = [s for s in daemon.stop().samples if s.resource["process.pid"] in began]
            counters(daemon)
        rows.append(row(f"processes of {ms} ms", ns / 1e9 * options.frequency, samples, CHAIN))
    bench.table(f"storm at {options.frequency} Hz", HEAD, rows)


def forks(options):
    rows = []
    with bench.Bench() as b:
        daemon = lives.Daemon(b, "--comm", "victim-brief", "--frequency", options.frequency)
        run(300)
        victim = b.spawn([BRIEF, "serve", 200 * options.rounds, 20])
        victim.wait(600)
        children = set(map(int, re.findall(r"^child (\d+)", victim.out, re.M)))
        samples = [s for s in daemon.stop().samples if s.resource["process.pid"] in children]
        counters(daemon)
    rows.append(row("children of 20 ms", len(children) * 0.02 * options.frequency, samples, CHAIN))
    bench.table(f"forks at {options.frequency} Hz", HEAD, rows)


def dlopen(options):
    rows = []
    with bench.Bench() as b:
        daemon = lives.Daemon(b, "--comm", "victim-dlopen", "--frequency", options.frequency)
        made = lives.libraries(b, 12)
        for what in ("never seen", *["known"] * options.rounds):
            victim = b.spawn([tap.VICTIMS / "victim-dlopen", "series", 0.2, *(path for path, _ in made)])
            victim.wait(600)
            rows.append([what, victim.pid])
            time.sleep(0.5)
        samples = daemon.stop().samples
        counters(daemon)
    by_kind = collections.defaultdict(list)
    for what, pid in rows:
        by_kind[what] += [s for s in samples if s.resource["process.pid"] == pid]
    chain = ["main"]                    # the libraries are copies, which no symbols belong to
    bench.table(f"12 libraries at {options.frequency} Hz", HEAD, [
        row(what, len([1 for w, _ in rows if w == what]) * 2.4 * options.frequency, some, chain)
        for what, some in by_kind.items()
    ])


def first(options):
    with bench.Bench() as b:
        daemon = lives.Daemon(b, "--comm", "victim-brief", "--frequency", options.frequency)
        run(300)
        waits = {}
        for _ in range(20 * options.rounds):
            _, began = one_by_one(1, 400)
            waits.update(began)
            time.sleep(0.3)
        daemon.stop()
        counters(daemon)
    rows = []
    for what, judge in (("first sample", lambda s: True), ("first whole stack",
                                                           lambda s: is_whole(s, CHAIN))):
        found = {}
        for s in daemon.samples:
            pid = s.resource["process.pid"]
            if pid in waits and judge(s):
                found[pid] = min(found.get(pid, 1e18), daemon.time_ns(s) - waits[pid])
        ms = sorted(ns / 1e6 for ns in found.values())
        rows.append([what, f"{len(ms)} of {len(waits)}", f"{ms[0]:.1f}", f"{statistics.median(ms):.1f}",
                     f"{ms[-1]:.1f}"])
    bench.table(f"exec → at {options.frequency} Hz, ms", ["what", "n", "min", "median", "max"], rows)


def main():
    parts = {"storm": storm, "forks": forks, "dlopen": dlopen, "first": first}
    bench.main(__doc__, parts,
               lambda parser: parser.add_argument("--frequency", type=int, default=99, help="of the daemon"))


if __name__ == "__main__":
    main()
