# SPDX-License-Identifier: Apache-2.0
"""A shop of Flask whose GET /order/<id> uses the CPU, asks a database of SQLite, and waits for a price that a
second thread works out, and for a while. Both threads have a span of one trace. It says `listens PORT`, and of each

    order TRACE SPAN THREAD BEGIN END PRICE-SPAN PRICE-THREAD           CLOCK_MONOTONIC, ns

and ends with standard input."""
import queue
import sqlite3
import sys
import threading
import time

import flask
from opentelemetry import context, trace
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from werkzeug.serving import WSGIRequestHandler, make_server

ROWS, ASKED = 20000, 40
CPU_S, PRICE_CPU_S, SLEEP_S = 0.06, 0.06, 0.03

trace.set_tracer_provider(TracerProvider())
tracer = trace.get_tracer("shop")
app = flask.Flask("shop")
FlaskInstrumentor().instrument_app(app)
database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("CREATE TABLE parts (id INTEGER, price INTEGER)")
database.executemany("INSERT INTO parts VALUES (?, ?)", ((i, i * 7919 % 1000) for i in range(ROWS)))
asked = queue.Queue()


class Quiet(WSGIRequestHandler):
    def log_request(self, *_):
        pass


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def prices():
    while True:
        around, answer = asked.get()
        token = context.attach(around)
        with tracer.start_as_current_span("price") as span:
            burn(PRICE_CPU_S)
            answer.put((span.get_span_context().span_id, threading.get_native_id()))
        context.detach(token)


def ask_database():
    """It uses the CPU without the lock of the interpreter."""
    return database.execute("SELECT sum(a.price * b.price) FROM parts a, parts b WHERE b.id < ?", (ASKED,)).fetchone()


@app.route("/order/<id>")
def order(id):
    answer = queue.SimpleQueue()
    begin = time.monotonic_ns()
    with tracer.start_as_current_span("order") as span:
        burn(CPU_S)
        ask_database()
        asked.put((context.get_current(), answer))
        price, price_thread = answer.get()
        time.sleep(SLEEP_S)
    end = time.monotonic_ns()
    own = span.get_span_context()
    print(f"order {own.trace_id:032x} {own.span_id:016x} {threading.get_native_id()} {begin} {end} {price:016x} "
          f"{price_thread}", flush=True)
    return id


threading.Thread(target=prices, daemon=True).start()
server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("listens", server.port, flush=True)
sys.stdin.read()
