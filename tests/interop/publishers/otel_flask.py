# SPDX-License-Identifier: Apache-2.0
"""A shop of Flask with opentelemetry-instrumentation-flask, and its customer. A request for a cart
says `in the cart` and is busy until standard input ends; then `done`."""
import sys
import threading
import urllib.request

import flask
from opentelemetry import trace
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from werkzeug.serving import make_server

trace.set_tracer_provider(TracerProvider(resource=Resource.create({"service.name": "shop"})))
app = flask.Flask("shop")
FlaskInstrumentor().instrument_app(app)
ended = threading.Event()


@app.route("/cart/<id>")
def cart(id):
    with trace.get_tracer("shop").start_as_current_span("price"):
        print("in the cart", flush=True)
        while not ended.is_set():
            sum(range(1000))
    return id


def wait():
    sys.stdin.read()
    ended.set()


threading.Thread(target=wait, daemon=True).start()
server = make_server("127.0.0.1", 0, app, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/cart/17") as answer:
    assert answer.read() == b"17"
print("done", flush=True)
