# SPDX-License-Identifier: Apache-2.0
"""With OpenTelemetry's SDK for Python: otel_requests.py CPU-SECONDS MODE…; a MODE is threads, tasks, uvloop,
workers (the same as tasks, in a forked child), naps or gevent. Each prints what it did, one after the other:

    busy TRACE SPAN THREAD BEGIN END        CLOCK_MONOTONIC, ns; TRACE and SPAN are `-` outside of all spans
    slept TRACE SPAN THREAD BEGIN END       the same of naps
    used BEGIN NANOSECONDS                  CPU time of naps between two sleeps in a span, and when that began

The file is read by tests/integration/host/spans/test-otel-python.py.
"""
import sys

if "gevent" in sys.argv:
    import gevent.monkey
    gevent.monkey.patch_all()

import asyncio
import contextlib
import logging
import os
import threading
import time

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

logging.basicConfig()
trace.set_tracer_provider(TracerProvider(resource=Resource.create({"service.name": "shop"})))
tracer = trace.get_tracer("requests")
CPU_SECONDS = float(sys.argv[1])


def burn(ms, span=None):
    """@ms of work for @span, as the program itself knows it; no look at OpenTelemetry's context."""
    begin = time.monotonic_ns()
    end = begin + ms * 1_000_000
    x = 1
    while time.monotonic_ns() < end:
        for _ in range(200):
            x = x * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
    say("busy", span, begin)


def say(what, span, begin):
    context = span.get_span_context() if span else None
    ids = f"{context.trace_id:032x} {context.span_id:016x}" if context else "- -"
    os.write(1, f"{what} {ids} {threading.get_native_id()} {begin} {time.monotonic_ns()}\n".encode())


def going():
    return time.process_time() < CPU_SECONDS


def in_thread():
    while going():
        with tracer.start_as_current_span("outer") as outer:
            burn(15, outer)
            with contextlib.suppress(KeyError), tracer.start_as_current_span("inner") as inner:
                burn(15, inner)
                raise KeyError
            burn(10, outer)
        burn(10)


def sleep(ms, span=None):
    begin = time.monotonic_ns()
    time.sleep(ms / 1000)
    say("slept", span, begin)


def naps():
    """Sleeps before it works and behind that, in a span and outside: both ends of a run are in the same one."""
    while going():
        with tracer.start_as_current_span("nap") as span:
            sleep(5, span)
            begin, used = time.monotonic_ns(), time.thread_time_ns()
            burn(8, span)
            used = time.thread_time_ns() - used
            sleep(20, span)
        os.write(1, f"used {begin} {used}\n".encode())
        sleep(5)
        burn(2)
        sleep(10)


async def task():
    """Others run at each await, in other spans."""
    while going():
        with tracer.start_as_current_span("request") as span:
            burn(10, span)
            await asyncio.sleep(0.001)
            burn(10, span)
            with tracer.start_as_current_span("part") as part:
                await asyncio.sleep(0)
                burn(10, part)
                await asyncio.to_thread(burn, 10, part)
                await asyncio.gather(*(step(part) for _ in range(2)))
            burn(5, span)
        burn(5)
        await asyncio.sleep(0)


async def step(parent):
    burn(5, parent)
    await asyncio.sleep(0)
    with tracer.start_as_current_span("step") as span:
        await asyncio.sleep(0)
        burn(5, span)


async def tasks(eager=False):
    if eager and hasattr(asyncio, "eager_task_factory"):
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    await asyncio.gather(*(asyncio.create_task(task()) for _ in range(3)))


def green():
    while going():
        with tracer.start_as_current_span("green") as span:
            burn(10, span)
            time.sleep(0.001)
            burn(10, span)
        burn(5)
        time.sleep(0)


def worker():
    """As prefork servers make it."""
    pid = os.fork()
    if pid == 0:
        os.write(1, f"pid {os.getpid()}\n".encode())
        asyncio.run(tasks())
        os._exit(0)
    os.waitpid(pid, 0)


def with_uvloop():
    import uvloop

    loop = uvloop.new_event_loop()
    loop.run_until_complete(tasks())
    loop.close()


if "gevent" in sys.argv:
    threads = [gevent.spawn(green) for _ in range(4)]
else:
    MODES = {"threads": in_thread, "naps": naps, "tasks": lambda: asyncio.run(tasks(eager=True)), "workers": worker,
             "uvloop": with_uvloop}
    threads = [threading.Thread(target=MODES[name]) for name in sys.argv[2:]]
    if "workers" in sys.argv:       # forks before there are threads
        with tracer.start_as_current_span("warm"):
            pass
os.write(1, b"ready\n")
for one in threads:
    if not isinstance(one, threading.Thread):
        continue
    one.start()
for one in threads:
    one.join()
