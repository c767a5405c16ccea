#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The long half of test-machine-faults.py: every allocation, and CPUs that go and come."""
import oracle

oracle.enter()

import pathlib
import re

import allocation
import session
import tap


class Memory(session.TestCase):
    def sweep(self, after_ms):
        victim, receiver = self.victim("chain", 5), session.Receiver(self)
        done, n, _, _ = allocation.run(self, victim, receiver, after_ms=after_ms)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(n, 5)
        for site in range(n):
            with self.subTest(site=site):
                allocation.judge(self, site, after_ms, allocation.run(self, victim, receiver, site, after_ms))

    def test_every_allocation_of_the_start_fails_once(self):
        self.sweep(0)

    def test_every_allocation_of_the_steady_state_fails_once(self):
        self.sweep(700)


class Cpus(session.TestCase):
    def test_a_cpu_that_goes_and_comes_back_is_followed(self):
        file = pathlib.Path("/sys/devices/system/cpu/cpu1/online")
        if not file.exists():
            tap.skip("machine: no second CPU that can be taken away")
        victim = self.victim("chain", 5)
        socket = self.directory() / "c.sock"
        run = self.start("-p", victim.pid, "--frequency", 499, "--control", socket)

        def cpus():
            return int(re.search(r"Hz on (\d+) CPUs", self.spanprof("status", "--control", socket).stdout)[1])

        n = cpus()
        self.addCleanup(file.write_text, "1")
        try:
            file.write_text("0")
        except OSError as error:
            tap.skip(f"machine: {error}")
        tap.wait_until(lambda: cpus() == n - 1, "one CPU less")
        file.write_text("1")
        tap.wait_until(lambda: cpus() == n, "all CPUs again")
        before = len(run.receiver.paths())
        tap.wait_until(lambda: len(run.receiver.paths()) > before + 1, "windows")
        result = run.stop()
        self.assertEqual(result.summary["lost"], 0, result.summary["lost_by_reason"])


tap.main()
