#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One slow request of a real service (Flask, SQLite, two threads), as the flight recorder keeps it: its CPU
and its waits are the time that it took, and who ended its longest wait for a thread is that thread
(tests/interop/publishers/otel_slow.py)."""
import collections
import json
import re
import subprocess
import urllib.request

import oracle

oracle.enter()

import otel_case  # noqa: E402
import otlp_read  # noqa: E402
import tap  # noqa: E402

SERVICE = tap.SOURCE_DIR / "tests/interop/publishers/otel_slow.py"
ORDERS = 4
SHARE = 0.02            # of the time that orders take

Order = collections.namedtuple("Order", "trace span thread begin end price_span price_thread")


class SlowRequest(otel_case.PackageCase):
    def order(self, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/order/17", timeout=tap.PATIENCE) as answer:
            self.assertEqual(answer.read(), b"17")

    def orders(self, child):
        return [Order(*words) for words in re.findall(r"^order" + r" (\w+)" * 7 + "$", child.out, re.M)]

    def keep(self, order, name):
        path = self.folder / name
        self.spanprof("keep", "--control", self.folder / "control", "--trace", order.trace, "-o", path)
        return path

    def sums(self, order, samples):
        """ns on the CPU and of waits, of the thread that served the order, in its span."""
        own = [s for s in samples if s.span_id == order.span and str(s.thread_id) == order.thread]
        return (sum(s.value * s.period for s in own if s.type == "samples"),
                sum(s.value for s in own if s.type == "off_cpu"))

    def check_wakers(self, order, samples):
        """Whom its thread waited for longest, the other one of its own span, has samples in the same trace.
        (Of a wait that a window cuts, the last part alone has a waker.)"""
        ended_by = collections.Counter()
        for sample in samples:
            at = sample.attributes
            if sample.span_id == order.span and sample.type == "off_cpu" and "wait.waker.thread.id" in at:
                ended_by[str(at["wait.waker.thread.id"]), at.get("wait.waker.span_id")] += sample.value
        self.assertEqual(ended_by.most_common(1)[0][0], (order.price_thread, order.price_span), ended_by)
        spans = {s.span_id for s in samples if str(s.thread_id) == order.price_thread}
        self.assertIn(order.price_span, spans)

    def check_page(self, order, samples):
        """The page has the same sums."""
        shown = json.loads(self.spanprof("report", "--json", self.keep(order, "order.html")).stdout)["profiles"]
        for name in "samples", "off_cpu":
            self.assertEqual([p["value"] for p in shown if p["type"] == name],
                             [sum(s.value for s in samples if s.type == name)])

    def test_its_cpu_and_waits_are_its_time_and_its_waker_is_who_it_waited_for(self):
        self.folder = self.directory()
        child = self.spawn([self.python, SERVICE], stdin=subprocess.PIPE, cwd=self.folder,
                           env=self.environment(PYTHONPATH=self.package, OTEL_PYTHON_CONTEXT="spanprof"))
        port = int(child.wait_for(r"^listens (\d+)$", 60)[1])
        run = self.start("--pid", child.pid, "--recorder", "10m", "--off-cpu", "--off-cpu-walks", "100000",
                         "--control", self.folder / "control")

        def is_seen():
            self.order(port)
            known = {order.span for order in self.orders(child)}
            return any(s.span_id in known for path in run.receiver.paths() for s in otlp_read.samples(path))

        tap.wait_until(is_seen, "samples of an order")
        n = len(self.orders(child))
        for _ in range(ORDERS):
            self.order(port)
        took, found = 0, 0
        for i, order in enumerate(self.orders(child)[n:]):
            samples = list(otlp_read.samples(self.keep(order, f"{i}.otlp")))
            cpu, waits = self.sums(order, samples)
            length = int(order.end) - int(order.begin)
            print(f"# {length / 1e6:.1f} ms: {cpu / 1e6:.1f} of CPU, {waits / 1e6:.1f} of waits")
            took, found = took + length, found + cpu + waits
            self.check_wakers(order, samples)
            self.check_page(order, samples)
        self.assertAlmostEqual(found / took, 1, delta=SHARE)
        run.stop()
        child.process.stdin.close()
        self.assertEqual(child.wait(), 0, child)


tap.main()
