# SPDX-License-Identifier: Apache-2.0
"""A service of one thread, and a second one, whose spans change their names. At each step it prints what the
thread publishes by the layout of its record, in which it looks itself: `STEP {index of the key: value}`."""
import ctypes
import threading

from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider, sampling
from spanprof_otel import _record

SIZE, ATTRIBUTES, RECORD = 26, 28, 640
extension = ctypes.CDLL(_record.__file__)


def look(step):
    address = ctypes.c_void_p.in_dll(extension, "otel_thread_ctx_v1").value
    if not address:
        print(step, None)
        return
    record = ctypes.string_at(address, RECORD)
    end, at, found = ATTRIBUTES + int.from_bytes(record[SIZE:ATTRIBUTES], "little"), ATTRIBUTES, {}
    while at < end:
        found[record[at]] = record[at + 2:at + 2 + record[at + 1]].decode()
        at += 2 + record[at + 1]
    print(step, found)


tracer = TracerProvider().get_tracer("names")
with tracer.start_as_current_span("GET") as entry:
    look("entry")
    with tracer.start_as_current_span("query") as inner:
        look("inner")
        inner.update_name("other query")
        inner.set_attribute("http.route", "/inner")
        look("inner-renamed")
        entry.set_attribute("http.route", "/cart/<id>")
        look("route")
        entry.update_name("cart")
        look("renamed")
    entry.set_attributes({"http.route": "/cart", "x": 1})
    look("attributes")
look("none")

caller = trace.set_span_in_context(trace.NonRecordingSpan(trace.SpanContext(5, 6, is_remote=True)))
with tracer.start_as_current_span("order", context=caller, attributes={"http.route": "/order"}) as entry:
    ready, go = threading.Event(), threading.Event()

    def work(here):
        token = context.attach(here)
        ready.set()
        go.wait()
        look("other-thread")
        context.detach(token)

    thread = threading.Thread(target=work, args=(context.get_current(),))
    thread.start()
    ready.wait()
    entry.update_name("place an order")
    go.set()
    thread.join()
    stranger = trace.set_span_in_context(trace.NonRecordingSpan(trace.SpanContext(7, 8, is_remote=False)))
    with tracer.start_as_current_span("of nobody", context=stranger):
        look("unknown-parent")

unsampled = TracerProvider(sampler=sampling.ALWAYS_OFF).get_tracer("names")
with unsampled.start_as_current_span("not sampled"):
    with unsampled.start_as_current_span("below"):
        look("unsampled")
with tracer.start_as_current_span("\ud800"):
    look("no-text")
with tracer.start_as_current_span("€" * 100):
    look("long")
for i in range(1100):
    with tracer.start_as_current_span(f"name {i}"):
        pass
with tracer.start_as_current_span("one more"):
    look("too-many")
print("refused", _record.names_refused() > 0, "failures", _record.failures())
