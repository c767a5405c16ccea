#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sdk/python adds to OpenTelemetry's SDK: ns for a span as current, for attach and detach, and for a
step of a task, with and without. Each line is the lowest of turns that take turns:
others disturb, and nothing makes it faster.

usage: PYTHON otel_python.py, with opentelemetry-sdk and spanprof-otel installed for it"""
import asyncio
import os
import subprocess
import sys
import timeit

TURNS, WITH = 9, {"OTEL_PYTHON_CONTEXT": "spanprof"}


def measure():
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

    for name, n, call in (("span", 20_000, span), ("attach and detach", 100_000, attach)):
        call()
        print(f"{name}\t{timeit.timeit(call, number=n) / n * 1e9}")
    n = 50_000
    print(f"step of a task\t{timeit.timeit(lambda: asyncio.run(steps(n)), number=1) / n * 1e9}")


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
        print(f"{name:20} {a:7.0f} ns without {b:7.0f} ns with {b - a:+6.0f} ns")


if sys.argv[1:] == ["measure"]:
    measure()
else:
    main()
