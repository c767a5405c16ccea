#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits: whether max-cpu holds, and whether a picture of the heap comes before a limit of memory kills.

usage: tests/bench/limit.py [--max-cpu PERCENT] [--seconds N] [--rounds N] [--rates N,…] [PART…]

    storm      a shell that starts one short program after the other
    forged     forged programs of Go (tests/victims/native/forged-go.c), 120 a second
    kills      a program of Go in a control group of 512 MiB, which keeps 25, 50 or 100 MiB more each
               second (--rates) until it is killed, in --rounds turns: how often a look was with the receiver
               before its end (which is when it has given its memory back), how long before, and how much of
               the limit was in it
    files      a program of Go that rests in such a group, where others read files for --seconds, with and
               without a pause: looks before a kill that never comes

`storm` and `forged` have CPU of the daemon with its workers over each 10 s, beside what costs it most. The first
rows are the start, which reads rows and names of all that runs. Each later row should be within the limit.
SPANPROF names the build (default: ./build). Needs root; `forged` a C compiler, the last two Go.
"""
import collections
import json
import os
import re
import subprocess
import sys
import time

import bench  # first: it knows where the test library is
import oracle

oracle.enter()

import golang
import groups
import otlp_read
import starts
import tap

MEMORY = 512 << 20
KNOWN_S = 12            # the daemon lists programs each five seconds
READER = """
import sys, time
begin, n = time.monotonic(), 0
while True:
    with open(sys.argv[1], "rb", buffering=0) as file:
        while data := file.read(1 << 20):
            n += len(data)
            if sys.argv[2] != "0":
                time.sleep(max(0, begin + n / 1e6 / float(sys.argv[2]) - time.monotonic()))
"""
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


class Group:
    """A group with a limit of memory, and programs in it. What was made goes with @b."""

    def __init__(self, b, name):
        self.b = b
        self.path, self.n_killed = groups.limit_memory(self, f"spanprof-bench-{os.getpid()}-{name}", MEMORY)

    def addCleanup(self, *call):
        self.b.callback(*call)

    def spawn(self, argv, **options):
        child = self.b.spawn(argv, **options)
        groups.enter(self.path, child.pid)
        return child


def tell(child, line):
    child.process.stdin.write(f"{line}\n".encode())
    child.process.stdin.flush()


def begin_go(b, group, program):
    """Its collections have published counts, and the daemon has it on its list."""
    child = group.spawn([program, str(512 << 10)], stdin=subprocess.PIPE)
    child.wait_for("^descend")
    tell(child, f"rest {b.directory()}")
    child.wait_for("^done")
    time.sleep(KNOWN_S)
    return child


class Pictures:
    """A daemon and its receiver. @program is the only target."""

    def __init__(self, b):
        self.program = golang.Go().build(tap.SOURCE_DIR / "tests/victims/go/VictimGoHeap.go",
                                         b.directory() / "go-leak")
        self.directory, environment = b.receiver()
        self.summary = b.directory() / "summary.json"
        self.child = b.spawn([tap.SPANPROF, "run", "--exe", self.program, "--allocations", "--summary", self.summary],
                             env=environment)
        self.child.wait_for("profiles go to")

    def of(self, pid):
        """{(reason, when it was with the receiver): MiB that leak() keeps there} of looks before a kill."""
        found = collections.Counter()
        for path in self.directory.glob("*.pb"):
            for sample in otlp_read.samples(path):
                reason = sample.attributes.get("profile.heap.reason")
                if reason and sample.resource["process.pid"] == pid and sample.type == "inuse_space":
                    kept = "main.leak" in [frame.name for frame in sample.frames]
                    found[reason, path.stat().st_mtime] += kept * sample.value / (1 << 20)
        return found

    def stop(self):
        """Prints what has become of all looks, those that were not hurried too."""
        self.child.stop()
        counters = json.loads(self.summary.read_text())["counters"]
        print({key: value for key, value in counters.items() if key.startswith("go_heaps")})


def one_kill(pictures, rate):
    """{reason: (s before the end, MiB)}; those that came after it are left out."""
    with bench.Bench() as b:
        group = Group(b, "kill")
        child = begin_go(b, group, pictures.program)
        tell(child, f"leak {rate}")
        try:
            child.process.wait(3 * (MEMORY >> 20) / rate + 30)
        except subprocess.TimeoutExpired:
            sys.exit(f"limit.py: no kill at {rate} MiB/s: is there swap? The group's limit does not bound it")
        end = time.time()
        if not group.n_killed():
            sys.exit(f"limit.py: the program ended without a kill: {child.err}")
        time.sleep(1)
        found = pictures.of(child.pid)
    return {reason: (end - at, mib) for (reason, at), mib in sorted(found.items()) if at < end}


def kills(options):
    rows = []
    with bench.Bench() as b:
        pictures = Pictures(b)
        for rate in options.rates:
            turns = [one_kill(pictures, rate) for _ in range(options.rounds)]
            for reason in ("fast_growth", "near_limit", "out_of_memory", "any"):
                last = [min(turn.values()) if reason == "any" else turn[reason] for turn in turns
                        if (turn if reason == "any" else reason in turn)]
                rows.append([rate, reason, f"{len(last)} of {len(turns)}", bench.spread(at for at, _ in last),
                             bench.spread(100 * mib / (MEMORY >> 20) for _, mib in last)])
        pictures.stop()
    bench.table(f"looks before a kill, limit {MEMORY >> 20} MiB", ["MiB/s", "look", "came", "s before", "% of the limit"],
                rows)


def files(options):
    rows = []
    for rate in (0, 100):
        with bench.Bench() as b:
            pictures, group = Pictures(b), Group(b, "files")
            child = begin_go(b, group, pictures.program)
            # holes of it are read as fast as memory, and kept as any file's pages
            with open(b.directory() / "file", "wb") as file:
                file.truncate(4 * MEMORY)
            # a reader that was moved in has read nothing yet
            reader = group.spawn([sys.executable, "-c", f"input()\n{READER}", file.name, str(rate)],
                                 stdin=subprocess.PIPE)
            tell(reader, "begin")
            time.sleep(options.seconds)
            stat = (group.path / "memory.stat").read_text()
            cache = int(re.search(r"^(?:total_cache|file) (\d+)", stat, re.M)[1])
            rows.append([f"{rate} MB/s" if rate else "at once", f"{options.seconds:g}", f"{cache * 100 // MEMORY}",
                         len(pictures.of(child.pid)), group.n_killed()])
            pictures.stop()
    bench.table(f"a group that reads files, limit {MEMORY >> 20} MiB",
                ["read", "s", "files, % of the limit", "looks", "kills"], rows)


def add_options(parser):
    parser.add_argument("--max-cpu", type=float, default=2, help="limit, in percent of one CPU")
    parser.add_argument("--seconds", type=float, default=60, help="of each part")
    parser.add_argument("--rates", type=lambda text: [int(word) for word in text.split(",")], default=[25, 50, 100],
                        help="MiB a second that are kept (kills)")


if __name__ == "__main__":
    bench.need_root()
    bench.main(__doc__, {
        "storm": lambda options: part(options, "storm of short programs", storm),
        "forged": lambda options: part(options, "forged programs of Go", forged),
        "kills": kills,
        "files": files
    }, add_options)
