#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libspanprof-alloc adds to a pair of malloc() and free() that nobody is told of: ns of CPU, with and
without, in turns, and the median of the differences.

usage: tests/bench/alloc_pairs.py [--turns N] [--pairs N] [SIZE…]"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", pathlib.Path(__file__).resolve().parents[2] / "build"))
LIBRARY = BUILD / "sdk/libspanprof-alloc.so"


def pair_ns(pairs, size, **environment):
    argv = [BUILD / "tests/bench/alloc-pairs", str(pairs), str(size)]
    return float(subprocess.run(argv, check=True, text=True, capture_output=True,
                                                        env={**os.environ, **environment}).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=100_000_000)
    parser.add_argument("sizes", metavar="SIZE", type=int, nargs="*", default=[64])
    options = parser.parse_args()
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
