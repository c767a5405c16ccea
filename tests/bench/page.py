#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a large recording: how long it takes to write, how large it is, how long a browser takes to
show it.

usage: tests/bench/page.py [--rounds N] [--keep DIRECTORY] [--samples N] [--stacks N]

Makes an OTLP request (hand-made, by field numbers): a random program of 3,000 functions with DEPTH 8 to 60,
--stacks distinct stacks (100,000), --samples samples (1,000,000) of a minute, which hit few stacks often and
many stacks once or twice, on 32 threads, in 6,000 spans that follow each other on their threads; once with
the time of each sample and once without. Prints whole `spanprof convert` runs (reading, writing, start and
end of the process; lowest of the rounds), CPU time of writing alone (from a window in memory, as after a
recording), the size of the page, the time from the start of the page's script until everything is drawn, in
headless Chromium, and that of a change of everything (grouped by thread); medians.
"""
import argparse
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("harness", "oracles")]

import browser  # noqa: E402
from wire import field, fixed64, packed, varint  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", "build"))
SPANPROF = os.environ.get("SPANPROF", str(BUILD / "spanprof"))
N_FUNCTIONS, N_THREADS, N_SPANS, SECONDS = 3000, 32, 6000, 60
START_NS = 1_790_000_000_000_000_000


def make_stacks(n, chance):
    """Distinct stacks, leaf first: walks through a random call graph in which some callees are usual."""
    callees = [[chance.randrange(1, N_FUNCTIONS) for _ in range(chance.choice((1, 2, 3, 6)))]
               for _ in range(N_FUNCTIONS)]
    stacks = set()
    while len(stacks) < n:
        stack, length = [0], chance.randrange(8, 60)
        while len(stack) < length:
            stack.append(
                chance.choice(callees[stack[-1]]) if chance.random() <
                0.97 else chance.randrange(1, N_FUNCTIONS))
        for cut in range(8, len(stack) + 1, chance.randrange(1, 9)):
            stacks.add(tuple(reversed(stack[:cut])))
    return sorted(stacks)[:n]


def any_int(value):
    return field(3, value)


def dictionary(stacks, chance):
    words = ("get", "set", "parse", "read", "write", "handle", "encode", "find", "update", "flush")
    nouns = ("Request", "Buffer", "Order", "Cache", "Index", "Session", "Token", "Page", "Row", "Socket")
    names = [
        f"app::{chance.choice(nouns).lower()}::{chance.choice(words)}{chance.choice(nouns)}_{i}"
        for i in range(N_FUNCTIONS)
    ]
    strings = [
        "", "native", "kernel", "samples", "count", "cpu", "nanoseconds", "thread.id", "profile.frame.type"
    ]
    first = len(strings)
    strings += names
    out = field(1, b"")
    out += field(2, b"") + b"".join(
        field(2,
              field(3, field(1, i + 1)) + packed(4, [1 if i % 7 else 2])) for i in range(N_FUNCTIONS))
    out += field(3, b"") + b"".join(field(3, field(1, first + i)) for i in range(N_FUNCTIONS))
    out += field(4, b"") + b"".join(
        field(4,
              field(1, chance.randbytes(16)) + field(2, chance.randbytes(8))) for _ in range(N_SPANS))
    out += field(5, *strings)
    out += field(6, b"") + b"".join(
        field(6,
              field(1, 8) + field(2, field(1, text))) for text in ("native", "kernel"))
    out += b"".join(field(6, field(1, 7) + field(2, any_int(100 + i))) for i in range(N_THREADS))
    out += field(7, b"") + b"".join(field(7, packed(1, [frame + 1 for frame in stack])) for stack in stacks)
    return out


def samples(n, n_stacks, timed, chance):
    """One message for each {stack, thread, span}: threads have few spans, and few stacks are most of the samples."""
    groups = {}
    for _ in range(n - n_stacks):
        stack = int(n_stacks * chance.random() ** 3) + 1
        thread = chance.randrange(N_THREADS)
        at = chance.randrange(SECONDS * 10**9)
        # each thread has one after the other, with pauses
        span = at * (N_SPANS // N_THREADS) // (SECONDS * 10**9)
        link = span * N_THREADS + thread + 1 if span % 4 else 0
        groups.setdefault((stack, thread, link), []).append(at)
    for i in range(n_stacks):
        groups.setdefault((i + 1, 0, 0), [chance.randrange(SECONDS * 10**9)])
    out = bytearray()
    for (stack, thread, link), times in groups.items():
        message = field(1, stack) + packed(2, [3 + thread]) + (field(3, link) if link else b"")
        message += packed(5, [START_NS + t for t in times], 8) if timed else packed(4, [len(times)])
        out += varint(2 << 3 | 2) + varint(len(message)) + message
    return bytes(out)


def make(path, n_samples, n_stacks, timed):
    chance = random.Random(1)
    stacks = make_stacks(n_stacks, chance)
    profile = field(1, field(1, 3) + field(2, 4)) + samples(n_samples, len(stacks), timed, chance)
    profile += fixed64(3, START_NS) + field(4, SECONDS * 10**9) + field(
        5,
        field(1, 5) + field(2, 6)) + field(6, 10_000_000) + field(7, chance.randbytes(16))
    resource = field(1, field(1,
                              field(1, "process.pid") + field(2, any_int(4711))),
                     field(1, "process.executable.name") + field(2, field(1, "shop"))[0:])
    scope = field(2, field(2, profile))
    path.write_bytes(field(1, field(1, resource) + scope) + field(2, dictionary(stacks, chance)))


def convert(source, page):
    """(wall ms, CPU ms, peak MiB)"""
    begin = time.monotonic()
    process = subprocess.Popen([SPANPROF, "convert", source, "-o", page], stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{source}: spanprof convert failed")
    return (time.monotonic() - begin) * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3, usage.ru_maxrss / 1024


def write_alone(source, rounds):
    """CPU ms from the window to the page."""
    done = subprocess.run(
        [BUILD / "tests/bench/page-cost", source, str(rounds)], capture_output=True, text=True, check=True)
    return float(re.search(r"writing ([0-9.]+) ms", done.stdout)[1])


def load(page, directory):
    """Milliseconds: the script until the page is drawn; from the start of loading; and a change of all views."""
    with browser.Browser(directory) as window:
        window.open(page)
        ready = float(window.wait("return document.documentElement.dataset.ready"))
        whole = window.run("return performance.getEntriesByType('navigation')[0].responseStart") + ready
        regroup = window.run(
            "const begin = performance.now(), group = document.querySelector('#group');"
            "group.value = [...group.options].find((option) => option.text === 'Thread').value;"
            "group.dispatchEvent(new Event('change')); return performance.now() - begin")
        return ready, whole, regroup


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--stacks", type=int, default=100_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        directory = args.keep or pathlib.Path(temporary)
        directory.mkdir(exist_ok=True)
        print(
            "| recording | OTLP MB | convert ms | CPU ms | of it writing | peak MiB | page MB | shown ms | regrouped ms |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
        )
        for timed in (True, False):
            name = "with times" if timed else "without times"
            source, page = directory / f"{name.replace(' ', '-')}.pb", directory / f"{name.replace(' ', '-')}.html"
            if not source.exists():
                make(source, args.samples, args.stacks, timed)
            runs = [convert(source, page) for _ in range(args.rounds)]
            shown = [load(page,
                          pathlib.Path(temporary) / f"{name}-{i}")
                     for i in range(min(args.rounds, 3))] if browser.find() else []
            middle = [f"{statistics.median(run[i] for run in shown):.0f}" if shown else "–" for i in (0, 2)]
            print(
                f"| {name} | {source.stat().st_size / 1e6:.1f} | {min(r[0] for r in runs):.0f} | {min(r[1] for r in runs):.0f} | {write_alone(source, args.rounds):.0f} | "
                f"{max(r[2] for r in runs):.0f} | {page.stat().st_size / 1e6:.2f} | {middle[0]} | {middle[1]} |",
                flush=True)


if __name__ == "__main__":
    main()
