#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the daemon really ships, read by the oracle: every request of a run, as protobuf and as JSON."""
import os
import signal
import sys

import collector
import oracle
import tap

SPIN = "import time\nwhile True: sum(range(20000)); time.sleep(0.004)"


class Payload(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        tap.need_root()
        tap.need_btf()
        oracle.need()

    def run_daemon(self, *options):
        """Requests of a run of the daemon on two processes, one of them with bytes in its name that are no UTF-8."""
        directory = self.directory()
        receiver = self.spawn([tap.SPANPROF, "receive", "--port", "0", "-o", directory])
        port = receiver.wait_for(r":(\d+)").group(1)
        first = self.spawn([sys.executable, "-c", SPIN])
        second = self.spawn([sys.executable, "-c",
                             f"open('/proc/self/comm', 'wb').write(b'sp\\xffin')\n{SPIN}"])
        tap.wait_until(lambda: b"sp\xffin" in open(f"/proc/{second.pid}/comm", "rb").read(), "the name")
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        daemon = self.spawn([tap.SPANPROF, "run", "--pid", first.pid, "--pid", second.pid,
                             "--frequency", "999", "--export-interval", "1s", *options], env=environment)

        def enough():
            self.assertIsNone(daemon.status, str(daemon))
            return len(list(directory.glob("*.pb"))) >= 3

        tap.wait_until(enough, "three requests")
        self.assertEqual(daemon.stop(signal.SIGTERM), 0)
        receiver.stop(signal.SIGINT)
        self.assertIsNone(second.status, str(second))
        return sorted(directory.glob("*.pb")), sorted(directory.glob("*.json"))

    def test_every_request_is_valid(self):
        requests, texts = self.run_daemon()
        self.assertEqual(len(requests), len(texts))
        self.assertEqual(oracle.check(requests), [])
        self.assertEqual(oracle.check(texts), [])
        if collector.is_there():
            self.assertGreater(collector.check_classes(self, requests), 0)
        self.assertTrue(any("sp\ufffdin" in path.read_text() for path in texts),
                        "the name was not repaired, or not sent")

    def test_so_it_is_without_times_and_kernel_stacks(self):
        requests, _ = self.run_daemon("--timestamps=off", "--kernel-stacks=off")
        self.assertEqual(oracle.check(requests), [])


tap.main()
