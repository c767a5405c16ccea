#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A hundred thousand batches in one spool, each of them good: listed, taken up by the next daemon, and sent
once each, the oldest first.
Minutes: for the long suite (test-spool.py has as many that are damaged)."""
import oracle

oracle.enter()

import os
import subprocess

import tap
from fault_server import ok
from spool_case import DELIVERED, EVENTS, TAKEN, WRITTEN, SpoolCase

N = int(os.environ.get("SPANPROF_TEST_BATCHES", 100_000))


class Many(SpoolCase):
    def setUp(self):
        """In memory: two flushes for each of them would be a test of the disk."""
        mount = self.directory()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g,mode=700,nr_inodes=0", "none", mount],
                          capture_output=True).returncode:
            tap.skip("root: cannot mount a tmpfs")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", mount]))
        self.spool = mount / "spool"

    def test_are_sent_once_each_and_in_order(self):
        values = self.drive(self.away(), patience=1800, batches=N, spooled=N, queue_bytes=1 << 30)
        self.assertEqual((len(self.files()), values[WRITTEN]), (N, N * EVENTS))
        self.assertIn(f"{N} requests, {N * EVENTS} samples",
                      self.run_command([tap.SPANPROF, "spool", "ls", "--spool", self.spool]).stdout)
        server = self.serve(ok())
        values = self.drive(server.url(), patience=1800, batches=0, drained=1)
        self.assertTrue(server.markers() == [f"batch-{i}" for i in range(N)], "each once, oldest first")
        self.assertEqual((values[DELIVERED], values[TAKEN], self.files()), (N * EVENTS, N * EVENTS, []))
        self.assertLess(values["end_VmHWM_kib"], values["start_VmRSS_kib"] + (64 << 10))


tap.main()
