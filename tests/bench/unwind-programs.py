#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks by unwind rows on programs as they are: what they cost, how many stacks are whole, how soon.

usage: tests/bench/unwind-programs.py [--seconds N] [--rounds N] [cost] [memory] [dwarf] [dlopen] [start]

    cost    ns a sample in BPF, frames, share of whole stacks: clang and gcc compiling at 199 Hz,
            interpreters, the worst stack that a target can make
    memory  BPF maps of 1 and 100 processes, without rings
    dwarf   beside `perf record --call-graph dwarf`: CPU of the tool until stacks are there, bytes, share of whole stacks
    dlopen  first tick in a library that comes late → first whole stack through it
    start   share of stacks that end for want of rows in the first 0.3 s of a daemon, and later

SPANPROF and BUILD_DIR name the build (default: ./build). Needs root.
"""
import collections
import json
import os
import re

import bench
import oracle

oracle.enter()

import otlp_read
import tap

COST = tap.BUILD_DIR / "tests/bench/unwind-cost"
OMIT, THROW, DLOPEN = (tap.VICTIMS / f"victim-{name}" for name in ("omit", "throw", "dlopen"))
TRUNCATED = "profile.stack.truncated"
N_FUNCTIONS = 600
SOURCE = """
#include <functional>
#include <map>
#include <regex>
#include <string>
template <int N> int f(int x) {
        std::map<std::string, std::function<int(int)>> m;
        m["a"] = [x](int y) { return x * y + N; };
        return m["a"](N) + std::regex_match("aab", std::regex("a+b*"));
}
int main(int n, char **) { return 0%s; }
"""


def source(b, n_functions=N_FUNCTIONS):
    path = b.directory() / "a.cc"
    path.write_text(SOURCE % "".join(f" + f<{i}>(n)" for i in range(n_functions)))
    return path


def clang(path):
    return ["clang++", "-O2", "-c", "-o", "/dev/null", path]


def unwind_cost(*args):
    """The line of unwind-cost's table as values, and what it said of loading."""
    done = bench.run([COST, *args])
    if done.returncode:
        raise SystemExit(f"unwind-cost {args}: {done.stderr}")
    lines = done.stdout.splitlines()
    return [cell.strip() for cell in lines[-1].strip("|").split("|")], lines[0]


def cost(options):
    rows, loads = [], []
    with bench.Bench() as b:
        path = source(b)
        cc1plus = bench.run(["g++", "-print-prog-name=cc1plus"]).stdout.strip()
        machine = bench.run(["g++", "-print-multiarch"]).stdout.strip()
        gcc = [cc1plus, "-quiet", "-O2", "-imultiarch", machine, "-o", "/dev/null", path]
        for what, hz, argv in (("clang -O2, 199 Hz", 199, clang(path)), ("cc1plus -O2, 199 Hz", 199, gcc),
                               ("cc1plus -O2, 199 Hz, depth = 1024", 199, ["-d", "1024", *gcc]),
                               ("python3, 199 Hz", 199,
                                ["python3", "-c",
                                 "while 1: sorted(str(i) for i in range(1000))"]), ("perl, 199 Hz", 199, [
                                     "perl", "-e", "while (1) { $x = join q(,), sort map { rand } 1..500 }"
                                 ]), ("exceptions, 199 Hz", 199, [THROW]), ("512 ordinary frames, 3999 Hz",
                                                                            3999, [OMIT, "depth", "512"]),
                               ("512 frames of 1 KiB, 3999 Hz", 3999, [OMIT, "large", "512"])):
            seen = [
                unwind_cost("-f", hz, "-s", options.seconds, "-w", 1000, *argv) for _ in range(options.rounds)
            ]
            loads += [load for _, load in seen]
            middle = sorted(seen, key=lambda x: float(x[0][4]))[len(seen) // 2][0]
            rows.append([what, *middle[2:7], middle[9], bench.spread(float(x[0][4]) for x in seen)])
    bench.table("cost: one thread, median round", [
        "program", "samples", "frames", "ns a sample", "whole", "rows ready, ms", "the others",
        "ns of all rounds"
    ], rows)
    print("\nload: " + min(loads, key=lambda x: float(re.search(r"in ([\d.]+)", x)[1])))


def memory(options):
    rows = []
    with bench.Bench() as b:
        path = source(b)
        for what, n, argv in (("C++ program", 1, [THROW]), ("C++ program", 100, [THROW]),
                              ("clang with libLLVM", 1, clang(path)), ("python3", 1,
                                                                       ["python3", "-c", "while 1: pass"])):
            line, _ = unwind_cost("-f", 199, "-s", 1, "-n", n, *argv)
            rows.append([what, n, line[7], line[8], line[6]])
    bench.table("memory: BPF maps without rings, KiB",
                ["program", "processes", "all maps", "rows, nodes, caches", "first ready, ms"], rows)


def ours_beside_perf(b, pid, hz, seconds):
    cgroup, summary = b.cgroup("spanprof"), b.directory() / "summary.json"
    directory, environment = b.receiver()
    child = b.spawn([tap.SPANPROF, "run", "-p", pid, "-F", hz, "-d", f"{seconds}s", "--summary", summary],
                    cgroup=cgroup, env=environment)
    if child.wait(600):
        raise SystemExit(f"spanprof failed: {child}")
    ends = {k: v for k, v in json.loads(summary.read_text())["counters"]["stacks_total"].items() if v}
    n = sum(ends.values()) - ends.get("no_user", 0)
    size = sum(path.stat().st_size for path in directory.glob("*.pb"))
    return [
        "spanprof", n, f"{cgroup.cpu_ns / 1e6:.0f}", "in it", f"{size / 1024:.0f}",
        f"{100 * ends.get('complete', 0) / n:.2f} %",
        ", ".join(f"{k} {v}" for k, v in ends.items() if k not in ("complete", "no_user"))
    ]


def perf_beside_us(b, pid, hz, seconds):
    """CPU of recording and of unwinding apart: perf does the latter as it reports."""
    cgroup, later, data = b.cgroup("perf"), b.cgroup("perf-script"), b.directory() / "perf.data"
    child = b.spawn([
        "perf", "record", "-q", "-e", "cpu-clock:u", "-F", hz, "--call-graph", "dwarf", "-p", pid, "-o", data,
        "--", "sleep", seconds
    ], cgroup=cgroup)
    child.wait(600)
    child = b.spawn(["perf", "script", "-F", "ip,sym", "--no-inline", "-i", data], cgroup=later)
    child.wait(600)
    stacks = [x for x in child.out.split("\n\n") if x.strip()]
    whole = sum(
        bool(re.search(r"(_start|__libc_start_main\S*|clone\S*|_dl_start\S*)\s*$",
                       x.strip().splitlines()[-1])) for x in stacks)
    last = collections.Counter(x.strip().splitlines()[-1].split(None, 1)[-1][:40]
                               for x in stacks).most_common(1)
    return [
        "perf --call-graph dwarf",
        len(stacks), f"{cgroup.cpu_ns / 1e6:.0f}", f"{later.cpu_ns / 1e6:.0f}",
        f"{data.stat().st_size / 1024:.0f}", f"{100 * whole / max(1, len(stacks)):.2f} %",
        f"last frames: {last[0][0]}" if last else ""
    ]


def dwarf(options):
    rows = []
    with bench.Bench() as b:
        path = source(b)
        for what, argv in (("30 frames", [OMIT, "depth", "30"]), ("300 frames", [OMIT, "depth", "300"]),
                           ("python3", ["python3", "-c", "while 1: sorted(str(i) for i in range(1000))"]),
                           ("clang -O2", clang(path))):
            for measure in (ours_beside_perf, perf_beside_us):
                with bench.Bench() as inner:
                    child = inner.spawn([str(a) for a in argv])
                    rows.append([what, *measure(inner, child.pid, 199, options.seconds)])
    bench.table(f"199 Hz, {options.seconds} s",
                ["program", "tool", "samples", "CPU ms", "CPU ms afterwards", "KiB", "whole", "rest"], rows)


def samples_of(directory):
    """(time, end or None = whole, [build ids]) of every stack that was stored, by time."""
    return sorted((s.time_ns, s.attributes.get(TRUNCATED), {f.build_id for f in s.frames})
                  for path in directory.glob("*.pb") for s in otlp_read.request_samples(otlp_read.load(path)))


def dlopen(options):
    library = tap.VICTIMS / "libswap-a.so"
    build_id, waits = otlp_read.Symbols().build_id(str(library)), []
    for _ in range(max(10, options.rounds)):
        with bench.Bench() as b:
            child = b.spawn([DLOPEN, library, "0.3"])
            directory, environment = b.receiver()
            child.wait_for(r"^pid")
            run = b.spawn([tap.SPANPROF, "run", "-p", child.pid, "-F", 999, "-d", "4s"], env=environment)
            run.wait(60)
            inside = [(t, end) for t, end, ids in samples_of(directory) if build_id in ids]
            whole = [t for t, end in inside if not end]
            if whole:
                waits.append((whole[0] - inside[0][0]) / 1e6)
    bench.table("dlopen: first tick in the library → first whole stack, ms (999 Hz: a tick is 1 ms)",
                ["runs", "ms"], [[len(waits), bench.spread(waits)]])


def start(options):
    rows = []
    for what, argv in (("30 frames", [OMIT, "depth", "30"]),
                       ("python3", ["python3", "-c", "while 1: sorted(str(i) for i in range(1000))"])):
        early, late, first = [], [], []
        for _ in range(options.rounds):
            with bench.Bench() as b:
                child = b.spawn([str(a) for a in argv])
                directory, environment = b.receiver()
                run = b.spawn([tap.SPANPROF, "run", "-p", child.pid, "-F", 999, "-d", "2s"], env=environment)
                run.wait(60)
                found = samples_of(directory)
                begin = found[0][0]
                early += [end for t, end, _ in found if t - begin < 3e8]
                late += [end for t, end, _ in found if t - begin >= 3e8]
                whole = [t for t, end, _ in found if not end]
                first.append((whole[0] - begin) / 1e6)
        share = [
            f"{100 * sum(bool(x) for x in ends) / max(1, len(ends)):.2f} % of {len(ends)}"
            for ends in (early, late)
        ]
        rows.append([what, *share, bench.spread(first)])
    bench.table("start: stacks that are not whole",
                ["program", "first 0.3 s", "later", "first whole stack after, ms"], rows)


def main():
    parts = {f.__name__: f for f in (cost, memory, dwarf, dlopen, start)}
    os.environ["LC_ALL"] = "C"
    bench.main(
        __doc__, parts, lambda parser: parser.add_argument("--seconds", type=int, default=6, help=
                                                           "length of one measurement"))


if __name__ == "__main__":
    main()
