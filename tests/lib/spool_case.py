# SPDX-License-Identifier: Apache-2.0
"""Exporters with a spool, run by export-driver, and receivers that play faults. Each run's books are checked: submitted + taken up =
delivered + lost + left."""
import os
import re

import tap
from fault_server import Server, closed_port, ok

DRIVER = tap.BUILD_DIR / "tests/lib/export-driver"
FAULT_AT = tap.BUILD_DIR / "tests/lib/libfault-at.so"
EVENTS = 100
DELIVERED = "samples_delivered_total{}"
WRITTEN, TAKEN = (f'spool_samples_total{{event="{e}"}}' for e in ("written", "taken"))
AHEAD, FLUSH, FAILED = range(3)         # ExporterSpoolMode


def lost(reason):
    return f'lost_total{{reason="{reason}"}}'


class SpoolCase(tap.TestCase):
    def setUp(self):
        self.spool = self.directory() / "spool"

    def serve(self, *plays, **options):
        server = Server(plays, **options)
        self.addCleanup(server.close)
        return server

    def away(self):
        return f"http://127.0.0.1:{closed_port(self)}/x"

    def command(self, url, **options):
        arguments = [str(a) for name, value in options.items() for a in (f"--{name.replace('_', '-')}", value)]
        return [DRIVER, url, "--spool", self.spool, *arguments]

    def drive(self, url, expect=0, environment=None, patience=tap.PATIENCE, **options):
        """Runs the driver. Return: {counter: value}, with its log as "log". Checks the books."""
        environment = {"PATH": os.environ["PATH"], **(environment or {})}
        done = self.run_command(self.command(url, **options), expect=expect, env=environment, timeout=patience)
        values = {name: int(value) for name, value in re.findall(r"^(\S+) (\d+)$", done.stdout, re.M)}
        if expect == 0:
            n_lost = sum(n for name, n in values.items() if name.startswith("lost_total"))
            submitted = options.get("batches", 1) * options.get("events", EVENTS)
            self.assertEqual(submitted + values.get(TAKEN, 0),
                             values.get(DELIVERED, 0) + n_lost + values.get(WRITTEN, 0), done.stdout + done.stderr)
        values["log"] = done.stderr
        return values

    def fill(self, n, **options):
        """Leaves @n batches in the spool, as a receiver that is away does."""
        values = self.drive(self.away(), batches=n, spooled=n, **options)
        self.assertEqual((len(self.files()), values[WRITTEN]), (n, n * EVENTS))

    def files(self):
        return sorted(self.spool.glob("*.batch"))

    def drain(self, *plays, **options):
        server = self.serve(*(plays or [ok()]))
        values = self.drive(server.url(), batches=0, drained=1, **options)
        self.assertEqual(self.files(), [])
        return server, values
