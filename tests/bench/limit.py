#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether max-cpu holds: CPU of the daemon with its workers over each 10 s, beside what costs it most.

usage: tests/bench/limit.py [--max-cpu PERCENT] [--seconds N] [storm] [forged]

    storm      a shell that starts one short program after the other
    forged     forged programs of Go (tests/victims/native/forged-go.c), 120 a second

The first rows are the start, which reads rows and names of all that runs. Each later row should be within the
limit. SPANPROF names the build (default: ./build). Needs root, and for `forged` a C compiler.
"""
import subprocess
import time

import bench  # first: it knows where the test library is
import oracle

oracle.enter()

import starts
import tap

INTERVAL_S, FORGERS, FORGED_A_SECOND = 10, 4, 30


def storm(b):
    b.spawn(["sh", "-c", starts.SHORT])


def forged(b):
    for i in range(FORGERS):
        program = b.directory() / f"forged-go{i}"
        subprocess.run([bench.tool("gcc"), "-O2", "-o", program, tap.SOURCE_DIR / "tests/victims/native/forged-go.c"],
                       check=True)
        b.spawn([tap.VICTIMS / "victim-crowd", "storm", 1_000_000, FORGED_A_SECOND, program])


def part(options, what, load):
    with bench.Bench() as b:
        cgroup = b.cgroup("spanprof")
        _, environment = b.receiver()
        load(b)
        child = b.spawn([tap.SPANPROF, "run", "--all", "-F", 499, "--max-cpu", options.max_cpu], cgroup=cgroup,
                        env=environment)
        child.wait_for("profiles go to")
        rows, begin = [], time.monotonic()
        while (at := time.monotonic() - begin) < options.seconds:
            before, since = cgroup.cpu_ns, time.monotonic()
            time.sleep(INTERVAL_S)
            percent = (cgroup.cpu_ns - before) / (time.monotonic() - since) / 1e7
            rows.append([f"{at:.0f}", f"{percent:.2f} %", f"{percent / options.max_cpu:.2f}"])
        child.stop()
    bench.table(f"{what}, max-cpu {options.max_cpu:g} %", ["s", "CPU", "of the limit"], rows)


def add_options(parser):
    parser.add_argument("--max-cpu", type=float, default=2, help="limit, in percent of one CPU")
    parser.add_argument("--seconds", type=float, default=60, help="of each part")


if __name__ == "__main__":
    bench.need_root()
    bench.main(__doc__, {
        "storm": lambda options: part(options, "storm of short programs", storm),
        "forged": lambda options: part(options, "forged programs of Go", forged)
    }, add_options)
