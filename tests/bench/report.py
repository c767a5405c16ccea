#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof report` of a million samples, and of a trace of ten million events of coroutines, beside `go tool
pprof -top` on the same samples in the same run.

usage: tests/bench/report.py [--rounds N] [--events N]

The million: 20,000 stacks of 30 frames over 3,000 functions, each sample with a time of its own, and with one
of 100,000 spans; as OTLP protobuf, made here by field numbers. The rival reads the same as pprof, which
`spanprof convert` has made of it (sums, without times, as it has no place for them). Prints the lowest wall
time, CPU time and peak memory of each.
"""
import argparse
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("harness", "oracles")]
from payload import any_value  # noqa: E402
from wire import field, fixed64, packed  # noqa: E402

SPANPROF = os.environ.get("SPANPROF", str(pathlib.Path(os.environ.get("BUILD_DIR", "build")) / "spanprof"))
START = 1_700_000_000_000_000_000


def million(path, n=1_000_000, stacks=20_000, functions=3_000, spans=100_000):
    rng = random.Random(1)
    strings = ["", "samples", "count", "cpu", "nanoseconds"] + [f"function_{i}" for i in range(functions)]
    tables = field(1, b"")
    tables += field(2, b"",
                    *(field(1, 0) + field(2, i + 1) + field(3, field(1, i + 1)) for i in range(functions)))
    tables += field(3, b"", *(field(1, 5 + i) for i in range(functions)))
    tables += field(4, b"",
                    *(field(1, b"\1" * 16) + field(2, struct.pack(">Q", i + 1)) for i in range(spans)))
    tables += b"".join(field(5, s) for s in strings) + field(6, b"")
    tables += field(7, b"",
                    *(packed(1, [1 + rng.randrange(functions) for _ in range(30)]) for _ in range(stacks)))
    samples = b"".join(field(2, field(1, 1 + rng.randrange(stacks)) + field(3, 1 + rng.randrange(spans))
                             + packed(5, [START + i * 1000], 8)) for i in range(n))
    profile = (field(1,
                     field(1, 1) + field(2, 2)) + samples + fixed64(3, START) + field(4, n * 1000) +
               field(5,
                     field(1, 3) + field(2, 4)) + field(6, 10_000_000) + field(7, b"\5" * 16))
    resource = field(1, field(1, "service.name") + field(2, any_value({"stringValue": "bench"})))
    path.write_bytes(field(1, field(1, resource) + field(2, field(2, profile))) + field(2, tables))


def trace(path, n):
    with path.open("w") as file:
        for i in range(0, n, 1000):
            file.write("".join(
                f'{{"probe_id":{4096 + k % 997},"tid":{100 + k % 8},"addr":"0x{0x400000 + k % 64:016x}","seq":{2 * (k // 997)},'
                f'"is_active":{"true" if k // 997 % 2 else "false"},"ts":{10**9 + 1000 * k}}}\n'
                for k in range(i, i + 1000)))


def measure(name, argv, rounds):
    best = None
    for _ in range(rounds):
        begin = time.monotonic()
        process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            print(f"| {name} | failed | | |", flush=True)
            return
        row = (time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
        best = min(best or row, row)
    print(f"| {name} | {best[0]:.2f} | {best[1]:.2f} | {best[2]:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=10_000_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        otlp, pprof, jsonl = directory / "m.pb", directory / "m.pb.gz", directory / "m.jsonl"
        million(otlp)
        subprocess.run([SPANPROF, "convert", otlp, "-o", pprof], check=True, stderr=subprocess.DEVNULL)
        print(f"OTLP {otlp.stat().st_size >> 20} MiB, pprof {pprof.stat().st_size >> 20} MiB")
        print("| what | wall s | CPU s | MiB |\n|---|---|---|---|")
        measure("spanprof report, OTLP", [SPANPROF, "report", otlp], args.rounds)
        measure("spanprof report --span …, OTLP", [SPANPROF, "report", "--span", "2a", otlp], args.rounds)
        measure("spanprof report -o html, OTLP", [SPANPROF, "report", otlp, "-o", directory / "m.html"],
                args.rounds)
        measure("spanprof report, pprof", [SPANPROF, "report", pprof], args.rounds)
        measure("go tool pprof -top, pprof", ["go", "tool", "pprof", "-top", pprof], args.rounds)
        trace(jsonl, args.events)
        measure(f"spanprof report, {args.events} events of coroutines (JSON lines)",
                [SPANPROF, "report", jsonl], min(args.rounds, 2))


if __name__ == "__main__":
    main()
