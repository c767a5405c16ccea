#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example service and the SDK in it, seen from outside by a reader of a few lines that shares nothing with them."""
import json
import os
import pathlib
import signal
import struct
import time

import spans
import tap

SERVICE = tap.BUILD_DIR / "sdk/example/example-service"
HEADER = struct.pack("<4sIII16x", b"LETO", 1, 65536, 32)


def find_ring(pid):
    """Address of the first page start of private anonymous rw memory that holds the header, or None."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            fields = line.split()
            if fields[1] != "rw-p" or fields[4] != "0":
                continue
            start, end = (int(x, 16) for x in fields[0].split("-"))
            for page in range(start, min(end, start + (4 << 20)), 4096):
                if os.pread(memory.fileno(), 32, page) == HEADER:
                    return page
    return None


class Stopped:
    """All threads of a process stand still inside of the `with`."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        tap.wait_until(lambda: set(self.states()) == {"T"}, "all threads stopped")

    def states(self):
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            yield (task / "stat").read_text().rpartition(")")[2].split()[0]

    def __exit__(self, *error):
        os.kill(self.pid, signal.SIGCONT)


def read_slots(pid, ring):
    """One look at every thread: (tid, time, span or None), trace ids."""
    with Stopped(pid), open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        samples, traces = [], []
        for tid in map(int, os.listdir(f"/proc/{pid}/task")):
            slot = os.pread(memory.fileno(), 32, ring + 32 + 32 * (tid % 65536))
            high, low, span, in_use = struct.unpack("<QQQB7x", slot)
            if not in_use:
                samples.append((tid, now, span or None))
            if span and not in_use:
                traces.append((high, low))
    return samples, traces


class ExampleService(tap.TestCase):
    def setUp(self):
        self.spans = self.directory() / "spans.csv"
        self.truth = self.spans.parent / "truth.json"

    def start(self, *options):
        child = self.spawn([SERVICE, "--spans", self.spans, "--json", self.truth, *options])
        child.wait_for("^example-service")
        return child

    def look(self, child, n_looks, pause=0.01):
        ring = tap.wait_until(lambda: find_ring(child.pid), "the ring is there")
        samples, traces = [], []
        for _ in range(n_looks):
            more_samples, more_traces = read_slots(child.pid, ring)
            samples += more_samples
            traces += more_traces
            time.sleep(pause)
        return samples, traces

    def stop(self, child):
        self.assertEqual(child.stop(), 0)
        return spans.load(self.spans), json.loads(self.truth.read_text())

    def test_publishes_the_span_that_its_log_names(self):
        child = self.start("--rate", "0")
        samples, traces = self.look(child, 100)
        log, _ = self.stop(child)
        counts = log.tally(samples)
        self.assertEqual(log.wrong, [])
        self.assertEqual(counts["missing"], 0)
        self.assertGreater(counts["right"], 100)  # of two busy workers
        self.assertGreaterEqual(counts["outside"], 100)  # the main thread, each time
        self.assertTrue(all(high and low for high, low in traces))

    def test_publishes_no_high_half_if_told(self):
        child = self.start("--rate", "0", "--no-trace-high")
        _, traces = self.look(child, 20)
        self.stop(child)
        self.assertTrue(traces and all(high == 0 and low for high, low in traces))

    def test_takes_70_20_10_of_its_cpu_time(self):
        child = self.start("--rate", "0", "--seed", "1", "--duration", "2.5")
        self.assertEqual(child.wait(), 0)
        truth = json.loads(self.truth.read_text())
        shares = {o["name"]: o["share"] for o in truth["operations"]}
        for name, share in (("checkout", 0.70), ("search", 0.20), ("health", 0.10)):
            self.assertAlmostEqual(shares[name], share, delta=0.06)
        for name in shares:
            self.assertRegex(child.out, rf"{name} +\d+ +[\d.]+ +[\d.]+% +\d+")

    def test_accounts_for_each_request_once(self):
        child = self.start("--load", "0.3")
        samples, _ = self.look(child, 50)
        log, truth = self.stop(child)
        counts = log.tally(samples)
        self.assertEqual(log.wrong, [], "an idle worker shows no span")
        self.assertGreater(counts["outside"], 50)
        for operation in truth["operations"]:
            n = sum(span.operation == operation["name"] for span in log.by_id.values())
            self.assertEqual(operation["spans"], n)
            self.assertEqual(operation["requests"], n)
            self.assertGreater(n, 0)

    def test_may_publish_late(self):
        child = self.start("--rate", "0", "--publish-after", "0.7")
        samples, _ = self.look(child, 20)
        log, truth = self.stop(child)
        self.assertEqual(log.tally(samples)["wrong"], 0)
        self.assertTrue(all(0 < o["spans"] < o["requests"] for o in truth["operations"]))

    def test_tells_the_truth_so_far_when_asked(self):
        child = self.start("--rate", "0")
        time.sleep(0.3)
        os.kill(child.pid, signal.SIGUSR1)
        child.wait_for("^health")
        self.assertIsNone(child.status)
        self.assertEqual(child.stop(signal.SIGINT), 0)
        self.assertEqual(child.out.count("operation "), 2)

    def test_refuses_what_it_does_not_understand(self):
        for arguments in (["--workers", "0"], ["--load", "x"], ["--nope"], ["word"]):
            with self.subTest(arguments=arguments):
                self.assertIn("usage:", self.run_command([SERVICE, *arguments], expect=2).stderr)
        done = self.run_command([SERVICE, "--spans", "/nonexistent/spans.csv"], expect=1)
        self.assertIn("/nonexistent/spans.csv: No such file or directory", done.stderr)

    def test_says_when_its_log_is_not_complete(self):
        done = self.run_command([SERVICE, "--spans", "/dev/full", "--duration", "0.3"], expect=1)
        self.assertIn("/dev/full is not complete: No space left on device", done.stderr)


tap.main()
