# SPDX-License-Identifier: Apache-2.0
"""A shop of Flask with opentelemetry-instrumentation-flask. It says `listens PORT`, and at the
end of standard input what each route has used: `used ROUTE MICROSECONDS`. /busy says `busy`, and is so until then."""
import collections
import sys
import threading
import time

import flask
from opentelemetry import trace
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from werkzeug.serving import WSGIRequestHandler, make_server

trace.set_tracer_provider(TracerProvider(resource=Resource.create({"service.name": "shop"})))
app = flask.Flask("shop")
FlaskInstrumentor().instrument_app(app)
ended = threading.Event()
used = collections.Counter()


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *_):
        pass


def work(route, seconds):
    """Uses the CPU for some time of the thread's own."""
    begin = time.thread_time()
    with trace.get_tracer("shop").start_as_current_span("price"):
        while time.thread_time() < begin + seconds:
            sum(range(1000))
    used[route] += time.thread_time() - begin


@app.route("/cart/<id>")
def cart(id):
    work("/cart/<id>", 0.03)
    return id


@app.route("/search")
def search():
    work("/search", 0.01)
    return "none"


@app.route("/busy/<id>")
def busy(id):
    print("busy", flush=True)
    while not ended.is_set():
        work("/busy/<id>", 0.01)
    return id


server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("listens", server.port, flush=True)
sys.stdin.read()
ended.set()
for route, seconds in used.items():
    print("used", route, int(seconds * 1e6))
