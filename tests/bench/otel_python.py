#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sdk/python adds to OpenTelemetry's SDK: ns for a span as current, for attach and detach, and for a
step of a task, with and without, and private memory of a process. Each line is the lowest of many short turns
in processes that take turns: others disturb, and nothing makes it faster.

usage: PYTHON otel_python.py, with opentelemetry-sdk and spanprof-otel installed for it"""
import asyncio
import os
import pathlib
import subprocess
import sys
import timeit

TURNS, WITH = 5, {"OTEL_PYTHON_CONTEXT": "spanprof"}


def private_kib():
    lines = pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def measure():
    import importlib.metadata  # noqa: F401  opentelemetry-instrument loads it in any case

    from opentelemetry import context, trace
    from opentelemetry.sdk.trace import TracerProvider

    trace.set_tracer_provider(TracerProvider())
    tracer = trace.get_tracer("bench")
    current = trace.set_span_in_context(tracer.start_span("x"))

    def span():
        with tracer.start_as_current_span("x"):
            pass

    def attach():
        context.detach(context.attach(current))

    async def steps(n):
        with tracer.start_as_current_span("x"):
            for _ in range(n):
                await asyncio.sleep(0)

    for name, n, call in (("span, ns", 200, span), ("attach and detach, ns", 1000, attach)):
        call()
        print(f"{name}\t{min(timeit.repeat(call, number=n, repeat=200)) / n * 1e9}")
    n = 1000
    print(f"step of a task, ns\t{min(timeit.repeat(lambda: asyncio.run(steps(n)), number=1, repeat=50)) / n * 1e9}")
    print(f"memory, KiB\t{private_kib()}")


def main():
    rows = {}
    for _ in range(TURNS):
        for more in ({}, WITH):
            out = subprocess.run([sys.executable, __file__, "measure"], env={**os.environ, **more}, check=True,
                                 capture_output=True, text=True).stdout
            for line in out.splitlines():
                name, ns = line.split("\t")
                rows.setdefault(name, ([], []))[bool(more)].append(float(ns))
    for name, (without, with_it) in rows.items():
        a, b = min(without), min(with_it)
        print(f"{name:22} {a:7.0f} without {b:7.0f} with {b - a:+6.0f}")


if sys.argv[1:] == ["measure"]:
    measure()
else:
    main()
