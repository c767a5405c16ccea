#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a sample costs in BPF when caches are cold: at low rates, beside a compiler on each CPU.

usage: tests/bench/cold.py [--rounds N] [--seconds N] [--hz N,…] [--old DIR,…]
                           [depth30] [clang] [pairs] [parts]

    depth30   an empty program, bpf_get_stack() and ours on the same victims, in turn (bpf-cost)
    clang     clang -O2 as the target: frames, ns a sample (unwind-cost)
    pairs     this build and those of --old on one clang -O2 at the same time, at 99 Hz and some Hz less: one
              run differs from the next by a tenth, builds within it by a few hundredths
    parts     where a sample's time goes, by clocks within it, at the first of the rates: 30 frames, clang -O2

At 3,999 Hz (bpf-cost alone) caches are hot, and services are sampled more rarely. A figure is the median of
the rounds; each holds --seconds of each program. BUILD_DIR names the build. Needs root and clang++.
"""
import importlib
import os
import pathlib
import re
import statistics
import subprocess
import time

import bench

programs = importlib.import_module("unwind-programs")
import tap

PARTS = tap.BUILD_DIR / "tests/bench/sample-parts"
COST = tap.BUILD_DIR / "tests/bench/bpf-cost"
N_LONG = 6000           # functions: clang works on them for minutes
FIRST_SECONDS = 4       # of clang, until all is mapped


def compilers(b, path):
    """One after the other on each CPU, as a build does it."""
    for cpu in sorted(os.sched_getaffinity(0)):
        b.spawn(["sh", "-c", f"while :; do clang++ -O2 -c -o /dev/null {path}; done"], cpu=cpu)


def rates(options):
    return [int(hz) for hz in options.hz.split(",")]


def depth30(options):
    rows = []
    for hz in rates(options):
        with bench.Bench() as b:
            compilers(b, programs.source(b))
            done = bench.run([COST, tap.VICTIMS / "victim-frames", tap.VICTIMS / "victim-omit", options.rounds,
                              int(options.seconds * 1000), hz, 30])
        if done.returncode:
            raise SystemExit(f"bpf-cost: {done.stderr}")
        # Frames that were not walked would make a figure too good.
        for warning in re.findall("^!.*", done.stdout, re.M):
            print(f"{hz} Hz: {warning}")
        line = r"^\| 30 \| (.+?) \| (\d+) \| (\d+) \| ([\d.]+) \|$"
        figures = {m[1]: m.groups() for m in re.finditer(line, done.stdout, re.M)}
        empty = int(figures["empty"][2]) if "empty" in figures else 0
        for name, lowest, median, ratio in figures.values():
            rows.append([hz, name, lowest, median, ratio, f"{int(median) / empty:.1f}" if empty else "–"])
    bench.table("30 frames, beside compilers: ns a sample",
                ["Hz", "program", "lowest", "median", "to bpf_get_stack", "to empty"], rows)


def clang(options):
    rows = []
    for hz in rates(options):
        with bench.Bench() as b:
            path = programs.source(b)
            compilers(b, path)
            seen = [programs.unwind_cost("-f", hz, "-s", int(options.seconds), "-w", 1000,
                                         *programs.clang(path))[0] for _ in range(options.rounds)]
        rows.append([hz, sum(int(x[2]) for x in seen), statistics.median(int(x[3]) for x in seen),
                     bench.spread(float(x[4]) for x in seen), " ".join(x[5] for x in seen)])
    bench.table("clang -O2, beside compilers", ["Hz", "samples", "frames", "ns a sample", "whole"], rows)


def pairs(options):
    builds = [tap.BUILD_DIR, *map(pathlib.Path, filter(None, options.old.split(",")))]
    rows = []
    with bench.Bench() as b:
        large = programs.source(b, N_LONG)
        compilers(b, programs.source(b))
        for number in range(options.rounds):
            clang = b.spawn(["clang++", "-O2", "-c", "-o", "/dev/null", large])
            time.sleep(FIRST_SECONDS)
            # No build has the same place twice in a row.
            turn = builds[number % len(builds):] + builds[:number % len(builds)]
            running = []
            for place, build in enumerate(turn):
                argv = ["-f", 99 - 2 * place, "-s", int(options.seconds), "-p", clang.pid]
                running.append((build, subprocess.Popen([build / "tests/bench/unwind-cost", *map(str, argv)],
                                                        stdout=subprocess.PIPE, text=True)))
            for build, process in running:
                cells = [x.strip() for x in process.communicate()[0].splitlines()[-1].strip("|").split("|")]
                rows.append([number, build, *cells[2:6]])
            clang.kill()
            clang.wait()
    bench.table("clang -O2, beside compilers, builds at the same time",
                ["round", "build", "samples", "frames", "ns a sample", "whole"], rows)


def parts(options):
    hz = rates(options)[0]
    for what, argv in (("30 frames by rows", [programs.OMIT, "depth", "30"]), ("clang -O2", None)):
        with bench.Bench() as b:
            path = programs.source(b)
            compilers(b, path)
            done = bench.run([PARTS, "-f", hz, "-s", int(options.seconds * options.rounds), "-w", 1000,
                              *(argv or programs.clang(programs.source(b, N_LONG)))])
        if done.returncode:
            raise SystemExit(f"sample-parts: {done.stderr}")
        print(f"\n{what}, {hz} Hz, beside compilers\n\n" + done.stdout.partition("\n")[2])


def add_options(parser):
    parser.add_argument("--old", default="", help="pairs: directories of other builds")
    parser.add_argument("--seconds", type=float, default=2, help="of each program in each round")
    parser.add_argument("--hz", default="19,49,99,199,999", help="rates")


if __name__ == "__main__":
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, Linux {os.uname().release}")
    bench.main(__doc__, {"depth30": depth30, "clang": clang, "pairs": pairs, "parts": parts}, add_options)
