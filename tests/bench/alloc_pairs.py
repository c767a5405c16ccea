#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libspanprof-alloc adds to a pair of malloc() and free() that nobody is told of: ns of CPU, with and
without, in turns, and the median of the differences.

usage: tests/bench/alloc_pairs.py [--turns N] [--pairs N] [SIZE…]
       tests/bench/alloc_pairs.py [--turns N] [--rounds N] --rival

--rival runs tests/victims/native/victim-alloc.c alone, with `record --allocations` (one allocation in
512 KiB), and with heaptrack (each): CPU time with all that they start, and the share of each function in the
allocations. Needs root."""
import argparse
import collections
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", pathlib.Path(__file__).resolve().parents[2] / "build"))
LIBRARY = BUILD / "sdk/libspanprof-alloc.so"
FUNCTIONS = ("alloc_f", "alloc_g", "alloc_h")
REST_US = 100


def pair_ns(pairs, size, **environment):
    argv = [BUILD / "tests/bench/alloc-pairs", str(pairs), str(size)]
    return float(subprocess.run(argv, check=True, text=True, capture_output=True,
                                                        env={**os.environ, **environment}).stdout)


def cpu_of(argv):
    """CPU seconds of a command with all that it has waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(word) for word in argv], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def shares(sums):
    return "  ".join(f"{name} {100 * value / sum(sums.values()):.1f} %" for name, value in sorted(sums.items()))


def rival(turns, rounds):
    program = [BUILD / "tests/victims/victim-alloc", rounds, REST_US]
    times = collections.defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as name:
        ours, theirs = pathlib.Path(name) / "ours.pb", pathlib.Path(name) / "theirs"
        for _ in range(turns):
            times["alone"].append(cpu_of(program))
            times["spanprof"].append(cpu_of([BUILD / "spanprof", "record", "--allocations", "-o", ours, "--", "env",
                                             f"LD_PRELOAD={LIBRARY}", *program]))
            times["heaptrack"].append(cpu_of(["heaptrack", "-o", theirs, *program]))
        for tool, values in times.items():
            print(f"{tool:10} {statistics.median(values):6.2f} s of CPU ({min(values):.2f} to {max(values):.2f})")
        said = json.loads(subprocess.run([BUILD / "spanprof", "report", "--json", ours], check=True, text=True,
                                         capture_output=True).stdout)
        objects, = (profile for profile in said["profiles"] if profile["type"] == "alloc_objects")
        print("spanprof  ", shares({f["function"]: f["total"] for f in objects["functions"]
                                    if f["function"] in FUNCTIONS}))
        folded, sums = pathlib.Path(name) / "folded", collections.Counter()
        subprocess.run(["heaptrack_print", "-f", next(ours.parent.glob("theirs*")), "-F", folded],
                       check=True, stdout=subprocess.DEVNULL)
        for line in folded.read_text().splitlines():
            stack, _, value = line.rpartition(" ")
            for function in FUNCTIONS:
                sums[function] += int(value) * (function in stack)
        print("heaptrack ", shares(sums))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=100_000_000)
    parser.add_argument("sizes", metavar="SIZE", type=int, nargs="*", default=[64])
    parser.add_argument("--rival", action="store_true", help="run heaptrack beside ours, on a program")
    parser.add_argument("--rounds", type=int, default=40_000, help="of that program, of 14 allocations each")
    options = parser.parse_args()
    if options.rival:
        return rival(options.turns, options.rounds)
    for size in options.sizes:
        turns = [(pair_ns(options.pairs, size),
                  pair_ns(options.pairs, size, LD_PRELOAD=str(LIBRARY)))
                 for _ in range(options.turns)]
        more = sorted(told - plain for plain, told in turns)
        print(f"{size:8} bytes: {statistics.median(plain for plain, _ in turns):6.2f} ns without, "
              f"{statistics.median(more):+5.2f} ns with it ({more[0]:+.2f} to {more[-1]:+.2f}), "
              f"{options.turns} turns of {options.pairs} pairs")


if __name__ == "__main__":
    sys.exit(main())
