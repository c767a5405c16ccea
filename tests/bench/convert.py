#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof convert` on recordings, whole command with its start, beside async-profiler's jfrconv in the same run.

usage: tests/bench/convert.py [--rounds N] [--jfrconv JAR] [--large] [--real] [--profiler LIBRARY] [--keep
DIRECTORY] [RECORDING…]

Makes recordings of known contents (tests/harness/make-jfr: events × depth × contexts; 732,240 samples at
depth 14 with 1,000 contexts, as many as the Java converter was measured with; with --large also 1 GiB), and
takes those that are named, e.g.
real ones. JAR is jfr-converter of Maven Central; without it, or without java, the rival is left out. It takes
one kind of event a run, so it is run once for each.

With --real, a recording of 10 to 25 MB is made by the JDK alone (tests/data/Work.java, with everything that
samples turned up), with --profiler also one by async-profiler, all kinds at once (LIBRARY is its
libasyncProfiler.so, of Maven Central).

Prints the lowest and the median wall time, CPU time, peak memory, and samples a second of the lowest.
"""
import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", "build"))
SPANPROF = os.environ.get("SPANPROF", str(BUILD / "spanprof"))
MAKE_JFR = BUILD / "tests/harness/make-jfr"


def run(argv):
    """(wall s, CPU s, peak KiB) of one command, status."""
    begin = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    return time.monotonic(
    ) - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status)


def measure(name, argv, rounds, n_samples=0):
    runs = [run(argv) for _ in range(rounds)]
    if any(r[3] for r in runs):
        print(f"| {name} | failed: {' '.join(map(str, argv))} | | | | |", flush=True)
        return
    wall = [r[0] * 1e3 for r in runs]
    rate = f"{n_samples / min(wall) / 1e3:.1f}" if n_samples else ""
    print(
        f"| {name} | {min(wall):.1f} | {statistics.median(wall):.1f} | {min(r[1] for r in runs) * 1e3:.1f} | "
        f"{max(r[2] for r in runs) / 1024:.1f} | {rate} |", flush=True)


def count_samples(path):
    done = subprocess.run([SPANPROF, "convert", path, "-o", "/dev/null", "--format", "otlp", "--log-level", "debug"],
                          capture_output=True, text=True)
    return sum(int(n) for n in re.findall(r"^profile .*: (\d+) events", done.stderr, re.M))


def record(directory, name, options):
    """A real recording of 10 to 25 MB: how much a second makes depends on the machine."""
    path, seconds = directory / f"{name}.jfr", 4.0
    clean = {"PATH": os.environ["PATH"], "HOME": "/"}       # a recording holds the environment
    for _ in range(10):
        path.unlink(missing_ok=True)
        subprocess.run(
            ["java", *(x.format(path) for x in options), "-cp", directory, "Work", f"{seconds:.1f}"],
            env=clean, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        size = path.stat().st_size
        if 10e6 <= size <= 25e6:
            return path
        seconds *= min(max(16e6 / size, 0.5), 2)
    sys.exit(f"{path}: {size} bytes, however long it took")


def record_all(directory, profiler):
    work = pathlib.Path(__file__).resolve().parents[1] / "data/Work.java"
    subprocess.run(["javac", "-d", directory, work], check=True)
    if profiler:
        yield record(directory, "async-profiler", [
            f"-agentpath:{profiler}=start,event=cpu,interval=100us,wall=1ms,alloc=2k,lock=10us,"
            "jfr,file={}"
        ])
    events = [
        f"jdk.{event}#{setting}"
        for event, setting in (("ExecutionSample", "period=1ms"), ("NativeMethodSample", "period=1ms"),
                               ("ObjectAllocationInNewTLAB",
                                "enabled=true"), ("ObjectAllocationOutsideTLAB",
                                                  "enabled=true"), ("ObjectAllocationSample", "throttle=off"),
                               ("JavaMonitorEnter", "threshold=0ms"), ("JavaMonitorWait", "threshold=0ms"),
                               ("ThreadPark", "threshold=0ms"))
    ]
    yield record(directory, "jdk", [
        "-XX:StartFlightRecording=filename={},settings=profile," + ",".join(events), "-XX:TLABSize=2k",
        "-XX:-ResizeTLAB"
    ])


def rivals(path, output, jar):
    """jfrconv takes one kind of event a run."""
    if jar and shutil.which("java"):
        for kind in ("--cpu", "--wall", "--alloc", "--lock"):
            yield kind, ["java", "-jar", jar, "-o", "otlp", kind, path, output]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--jfrconv")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--profiler", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="where the real ones are kept")
    parser.add_argument("recordings", nargs="*")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        output, made = directory / "out.pb", directory / "made.jfr"

        def make(*numbers):
            with made.open("wb") as out:
                subprocess.run([MAKE_JFR, *map(str, numbers)], stdout=out, check=True)

        print(
            "| recording | lowest ms | median ms | CPU ms | peak MiB | M samples/s |\n|---|--:|--:|--:|--:|--:|"
        )
        measure("(spanprof version)", [SPANPROF, "version"], args.rounds)
        for events in (50, 500, 5000, 500000):
            for depth in (10, 50, 100):
                for contexts in (100, 1000):
                    make(events, depth, contexts)
                    measure(
                        f"{events:,} events, depth {depth}, {contexts:,} contexts, {made.stat().st_size / 1e6:.1f} MB",
                        [SPANPROF, "convert", made, "-o", output], args.rounds, events)
        make(732240, 14, 1000)
        measure(f"732,240 events, depth 14, 1,000 contexts, {made.stat().st_size / 1e6:.1f} MB",
                [SPANPROF, "convert", made, "-o", output], args.rounds, 732240)
        real = args.keep or directory
        real.mkdir(exist_ok=True)
        made_here = record_all(real, args.profiler and
                               args.profiler.resolve()) if args.real or args.profiler else []
        for path in [*made_here, *args.recordings]:
            n = count_samples(path)
            name = f"{pathlib.Path(path).name}, {pathlib.Path(path).stat().st_size / 1e6:.1f} MB, {n:,} samples"
            measure(name, [SPANPROF, "convert", path, "-o", output], args.rounds, n)
            for kind, argv in rivals(path, output, args.jfrconv):
                measure(f"… jfrconv -o otlp {kind}", argv, max(3, args.rounds // 3))
        if args.large:
            make(56_000_000, 14, 1000, 80)
            measure(f"56,000,000 events in 80 chunks, {made.stat().st_size / 2**30:.2f} GiB",
                    [SPANPROF, "convert", made, "-o", output], 1, 56_000_000)


main()
