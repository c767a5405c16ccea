# SPDX-License-Identifier: Apache-2.0
"""At each point of a program in which contexts change in every way that we know: what the thread publishes is
OpenTelemetry's current span. Prints `N looks`."""
import sys

if "gevent" in sys.argv:
    import gevent.monkey
    gevent.monkey.patch_all()

import asyncio
import contextlib
import contextvars
import os
import threading
import time

if "start" in sys.argv:
    import spanprof_otel
    assert spanprof_otel.start() and spanprof_otel.start()

from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import TracerProvider
from spanprof_otel import _record

trace.set_tracer_provider(TracerProvider())
tracer = trace.get_tracer("everywhere")
n_looks = 0


def look(what=None):
    global n_looks
    context = trace.get_current_span().get_span_context()
    want = None
    if context.is_valid and not context.is_remote:
        want = (f"{context.trace_id:032x}", f"{context.span_id:016x}")
    assert _record.read() == want, (what, _record.read(), want)
    n_looks += 1


def in_thread():
    look("thread")
    with tracer.start_as_current_span("thread"):
        look()
    look()


async def job(i, depth=0):
    look("job")
    with tracer.start_as_current_span("outer"):
        look()
        await asyncio.sleep(0.001 * (i % 3))
        look()
        with tracer.start_as_current_span("inner"):
            look()
            await asyncio.sleep(0)
            look()
            await asyncio.to_thread(in_thread)
            look()
            if depth < 2:
                tasks = [asyncio.create_task(job(j, depth + 1)) for j in range(3)]
                look()
                await asyncio.gather(*tasks)
                look()
        look()


async def values(n):
    for i in range(n):
        with tracer.start_as_current_span("value"):
            look()
        yield i


async def jobs(eager=False):
    if eager:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    await asyncio.gather(*(job(i) for i in range(5)))
    async for _ in values(3):
        look()
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    loop.call_soon(look)
    loop.call_later(0.001, look)
    for _ in range(10):
        await loop.run_in_executor(None, look)
    with tracer.start_as_current_span("late"), contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.sleep(1), 0.01)
    look()


def raises(error):
    look()
    raise error


def plain():
    with tracer.start_as_current_span("main"):
        look()
        pid = os.fork()
        look("fork")
        if pid == 0:
            with tracer.start_as_current_span("child"):
                look()
            look()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        threads = [threading.Thread(target=in_thread) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in (KeyError, SystemExit, KeyboardInterrupt):
            with contextlib.suppress(error):
                contextvars.Context().run(raises, error())
            look()
            with contextlib.suppress(error):
                contextvars.copy_context().run(raises, error())
            look()
        for ids in ((1, 2, True), ((1 << 128) - 1, (1 << 64) - 1, False), (0, 0, False)):
            with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(*ids))):
                look(ids)
            look()
    look()


def in_c():
    """Code in C enters a context, and leaves it with a span in it."""
    import ctypes

    enter, leave = (ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object)((name, ctypes.pythonapi))
                    for name in ("PyContext_Enter", "PyContext_Exit"))
    with tracer.start_as_current_span("around"):
        for other in (contextvars.Context(), contextvars.copy_context()):
            enter(other)
            look("entered")
            token = attach(trace.set_span_in_context(tracer.start_span("in C")))
            look("attached")
            leave(other)
            look("left")
            other.run(look, "again")
            enter(other)
            detach(token)
            look("detached")
            leave(other)
            look("left again")


def green(i):
    look("green")
    with tracer.start_as_current_span("outer"):
        look()
        time.sleep(0.001 * (i % 3))
        look()
        with tracer.start_as_current_span("inner"):
            time.sleep(0)
            look()
            if i > 5:
                gevent.joinall([gevent.spawn(green, j) for j in range(i - 5)], raise_error=True)
            look()
        look()
    look()


if "gevent" in sys.argv:
    gevent.joinall([gevent.spawn(green, i) for i in range(10)], raise_error=True)
else:
    plain()
    if _record.CONTEXTS_ARE_WATCHED:
        in_c()
    asyncio.run(jobs())
    if sys.version_info >= (3, 12):
        asyncio.run(jobs(eager=True))
    if "uvloop" in sys.argv:
        import uvloop
        eager_too = sys.version_info[:2] == (3, 12) or sys.version_info >= (3, 14)
        for eager in (False, True) if eager_too else (False,):
            with tracer.start_as_current_span("around"):
                loop = uvloop.new_event_loop()
                asyncio.set_event_loop(loop)
                loop.run_until_complete(jobs(eager))
                loop.close()
                look("after the loop")
assert _record.failures() == 0
print(n_looks, "looks")
