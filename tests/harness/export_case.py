# SPDX-License-Identifier: Apache-2.0
"""A driver of the real exporter, and what holds whatever a receiver does: samples submitted = delivered +
lost, each batch in one counter."""
import os
import re

import tap
from fault_server import Server

DRIVER = tap.HARNESS / "export-driver"
EVENTS = 100
DELIVERED = "samples_delivered_total{}"
SENT, OK, RETRY, DROPPED = (f'export_requests_total{{result="{r}"}}'
                            for r in ("sent", "ok", "retry", "dropped"))


def lost(reason):
    return f'lost_total{{reason="{reason}"}}'


class Outcome:
    def __init__(self, done):
        self.log = done.stderr
        self.values = {name: int(value) for name, value in re.findall(r"^(\S+) (\d+)$", done.stdout, re.M)}

    def __getitem__(self, name):
        return self.values.get(name, 0)

    def lost(self):
        return {name: n for name, n in self.values.items() if name.startswith("lost_total")}


def as_arguments(options):
    return [str(a) for name, value in options.items() for a in (f"--{name.replace('_', '-')}", value)]


class DriverCase(tap.TestCase):
    def serve(self, *plays, **options):
        server = Server(plays, **options)
        self.addCleanup(server.close)
        return server


class ExportCase(DriverCase):
    def drive(self, url, environment=None, **options):
        """Runs the driver; checks what holds in every case."""
        clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        done = self.run_command([DRIVER, url, *as_arguments(options)], expect=0,
                                env={**clean, **(environment or {})})
        outcome = Outcome(done)
        n_batches, n_events = options.get("batches", 1), options.get("events", EVENTS)
        self.assertEqual(outcome[DELIVERED] + sum(outcome.lost().values()), n_batches * n_events, done.stdout)
        self.assertEqual(outcome[OK] + outcome[DROPPED], n_batches, done.stdout)
        return outcome

    def assert_lost(self, outcome, reason, n=EVENTS):
        self.assertEqual(outcome.lost(), {lost(reason): n}, outcome.log)

    def assert_delivered(self, outcome, n=EVENTS):
        self.assertEqual(outcome.lost(), {}, outcome.log)
        self.assertEqual(outcome[DELIVERED], n)
