# SPDX-License-Identifier: Apache-2.0
"""A service with two operations, checkout (three quarters of its time) and search, for ten seconds.

Prints what a profile of it should show. It knows nothing of spanprof-otel."""
import asyncio
import hashlib
import time

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider(resource=Resource.create({"service.name": "shop"})))
tracer = trace.get_tracer("shop")
spent = {"checkout": 0, "search": 0}


def hash_receipt(rounds):
    value = b"receipt"
    for _ in range(rounds):
        value = hashlib.sha256(value).digest()


async def operation(name, rounds):
    with tracer.start_as_current_span(name):
        for _ in range(3):
            begin = time.thread_time_ns()
            hash_receipt(rounds)
            spent[name] += time.thread_time_ns() - begin
            await asyncio.sleep(0.001)      # the other one runs here


async def client(name, rounds, end):
    while time.monotonic() < end:
        await operation(name, rounds)


async def main():
    end = time.monotonic() + 10
    await asyncio.gather(client("checkout", 30_000, end), client("search", 10_000, end))
    for name, ns in spent.items():
        print(f"{name} {ns / sum(spent.values()):.1%}")


asyncio.run(main())
