#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Crowds: a thousand targets with ten thousand threads, three targets among twenty thousand sleepers, two
thousand new processes a second, a million processes in all. Minutes and gigabytes: for the long suite."""
import oracle

oracle.enter()

import os
import pathlib
import re
import time

import otlp_read
import session
import tap

SYMBOLS = otlp_read.Symbols()
CROWD = tap.VICTIMS / "victim-crowd"
STEPS_KIB = 16384       # memory grows in steps with the fullest window so far, and with requests that wait
N_PROCESSES = int(os.environ.get("SPANPROF_TEST_PROCESSES", 1_000_000))


def resident_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def is_inside(sample, function):
    return any(f.build_id and SYMBOLS.name(f) == function for f in sample.frames)


class Crowds(session.TestCase):
    def crowd(self, n, threads, *more):
        available = int(re.search(r"MemAvailable:\s+(\d+)",
                                  pathlib.Path("/proc/meminfo").read_text())[1]) << 10
        if available < n * (200 << 10) + n * threads * (40 << 10):
            tap.skip(f"machine: no memory for {n} processes of {threads} threads")
        if int(pathlib.Path("/proc/sys/kernel/pid_max").read_text()) < 1.3 * n * threads:
            tap.skip(f"machine: kernel.pid_max is below {n * threads}")
        child = self.spawn([CROWD, n, threads, *more])
        child.wait_for("^ready", patience=180)
        pids = [
            int(p) for p in pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        ]
        self.assertEqual(len(pids), n)
        return child, set(pids)

    def assert_nothing_lost(self, result):
        """But for those who were undecided and turned out to be nobody's target."""
        self.assertEqual({k: v for k, v in result.summary["lost_by_reason"].items() if k != "not_target"}, {})

    def publisher(self):
        child, tell = self.commanded("ring")
        tell("publish")
        tell("set 1 2 3")
        return child

    def test_a_thousand_targets_with_ten_thousand_threads(self):
        _, pids = self.crowd(1000, 10, 1, 20)           # half a CPU together
        run = self.start("--comm", "victim-crowd", "--frequency", 499)
        self.assertRegex(run.log, r"profiling 100[01] processes of")
        run.wait_events(4000, patience=200)
        result = run.stop()
        samples = [s for s in result.samples if s.resource["process.pid"] in pids]
        inside = [s for s in samples if is_inside(s, "crowd_burn")]
        threads = {s.attributes["thread.id"] for s in samples}
        print(
            f"{len(samples)} samples of {len(result.pids)} processes, {len(threads)} threads, {len(inside)} in crowd_burn"
        )
        self.assertGreater(len(result.pids & pids), 900)
        self.assertGreater(len(threads), 2000)
        self.assertGreater(len(inside), 0.75 * len(samples))     # the rest wakes up and goes to sleep
        self.assert_nothing_lost(result)
        self.assertEqual(result.counter("targets_total", "over_cap"), 0)

    def run_among(self, seconds):
        """Three publishers, two of them there before the daemon. Returns its CPU time a second once it has settled."""
        early = [self.publisher() for _ in range(2)]
        run = self.start("--frequency", 99)
        for child in early:
            run.wait_events(5, child.pid)
        late = self.publisher()
        run.wait_events(5, late.pid)
        time.sleep(10)      # full searches of everybody who was there at the start
        before, begin = session.cpu_ns(run.pid), time.monotonic()
        time.sleep(seconds)
        rate = (session.cpu_ns(run.pid) - before) / (time.monotonic() - begin) / 1e9
        result = run.stop()
        self.assert_nothing_lost(result)
        self.assertTrue({c.pid for c in [*early, late]} <= result.pids)
        for child in [*early, late]:
            child.stop()
        return rate, result

    def test_three_targets_among_twenty_thousand_sleepers(self):
        alone, _ = self.run_among(10)
        crowd, pids = self.crowd(20000, 1)
        among, result = self.run_among(10)
        print(
            f"daemon's CPU: {alone * 1e3:.2f} ms a second with three processes, {among * 1e3:.2f} among 20,000; "
            f"{result.counter('ring_scans_total')}")
        self.assertEqual(result.pids & pids, set())
        self.assertEqual(result.counter("ring_scans_total", "skipped"), 0)

    def storm(self, n, rate, *program, warm=10000, n_spawners=1):
        """@n processes of each spawner, at @rate a second. Memory is looked at after @warm of them, and at the end."""
        run = self.start("--all", "--frequency", 499)
        spawners = [self.spawn([CROWD, "storm", n, rate, *program]) for _ in range(n_spawners)]
        for spawner in spawners:
            spawner.wait_for(rf"^spawned {warm}$", patience=200)
        before = resident_kib(run.pid)
        for spawner in spawners:
            spawner.wait_for(rf"^spawned {n} seconds", patience=1800)
        after = resident_kib(run.pid)
        result = run.stop(check=False)
        result.check_books(self)
        counters = result.summary["counters"]
        print(
            f"{spawner.out.splitlines()[-1]}; VmRSS {before} KiB after {warm}, {after} KiB at the end; "
            f"ticks {result.summary['ticks']}, lost {result.summary['lost_by_reason']}, notices {counters['notices_total']}, "
            f"{counters['notices_lost_total']} lost, mapping notices {counters['mappings_noticed_total']}")
        return result, before, after

    def test_two_thousand_new_programs_a_second(self):
        result, before, after = self.storm(30000, 1000, tap.VICTIMS / "victim-nothing", n_spawners=2)
        # Two notices each, exec and exit; other processes come and go, too.
        self.assertGreaterEqual(
            result.counter("notices_total") + result.counter("notices_lost_total"), 120000)
        # None on a machine with time for the daemon; what finds its ring full, since it did not run for half
        # a second, is answered.
        lost = result.counter("notices_lost_total")
        self.assertLess(lost, 0.2 * result.counter("notices_total"))
        self.assertLessEqual(result.counter("sweep_total", "resync") > 0, lost > 0)
        self.assertLess(result.counter("mappings_noticed_total", "lost"),
                        0.2 * result.counter("mappings_noticed_total", "noticed"))
        lost = dict(result.summary["lost_by_reason"])
        lost.pop("not_target", None)            # our own workers, who are judged when they are first seen
        self.assertLess(lost.pop("ring_full", 0), 0.1 * result.summary["ticks"],
                        "none where the daemon gets its CPU in time")
        self.assertEqual(lost, {})
        self.assertLess(after, before + STEPS_KIB)

    def test_a_million_processes(self):
        result, before, after = self.storm(N_PROCESSES, 0, warm=min(200000, N_PROCESSES // 2))
        self.assertGreaterEqual(
            result.counter("notices_total") + result.counter("notices_lost_total"), N_PROCESSES)
        self.assertLess(after, before + STEPS_KIB)      # 20 bytes each would show


if __name__ == "__main__":
    tap.main()
