# SPDX-License-Identifier: Apache-2.0
"""Exporters with a spool, run by export-driver, and receivers that play faults. Each run's books are checked:
submitted + taken up = delivered + lost + left."""
import os
import re

import tap
from export_case import DELIVERED, DRIVER, EVENTS, DriverCase, as_arguments
from fault_server import closed_port, ok

FAULT_AT = tap.HARNESS / "libfault-at.so"
WRITTEN, TAKEN = (f'spool_samples_total{{event="{e}"}}' for e in ("written", "taken"))
DEAD = "spool_dead_samples_total{}"
AHEAD, FLUSH, FAILED = range(3)         # SpoolStoreMode


class SpoolCase(DriverCase):
    def setUp(self):
        self.spool = self.directory() / "spool"

    def away(self):
        return f"http://127.0.0.1:{closed_port(self)}/x"

    def command(self, url, **options):
        return [DRIVER, url, "--spool", self.spool, *as_arguments(options)]

    def drive(self, url, expect=0, environment=None, patience=tap.PATIENCE, **options):
        """Runs the driver. Return: {counter: value}, with its log as "log". Checks the books."""
        environment = {"PATH": os.environ["PATH"], **(environment or {})}
        done = self.run_command(self.command(url, **options), expect=expect, env=environment,
                                timeout=patience)
        values = {name: int(value) for name, value in re.findall(r"^(\S+) (\d+)$", done.stdout, re.M)}
        if expect == 0:
            n_lost = sum(n for name, n in values.items() if name.startswith("lost_total"))
            submitted = options.get("batches", 1) * options.get("events", EVENTS)
            self.assertEqual(submitted + values.get(TAKEN, 0),
                             values.get(DELIVERED, 0) + n_lost + values.get(WRITTEN, 0),
                             done.stdout + done.stderr)
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
