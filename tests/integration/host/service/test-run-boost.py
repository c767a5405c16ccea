#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof boost`: a process is sampled more often for a while, another one as before."""
import oracle

oracle.enter()

import json
import os
import signal
import statistics
import time

import groups
import otlp_read
import session
import tap
import unix_http

FREQUENCY, TICKS = 99, 5        # of 495 Hz
BOOSTED = 600                   # samples of who is boosted to wait for: so many has another of 120


def period_ns(samples):
    return statistics.mean(s.period for s in samples)


class Boost(session.NamingCase):
    def run_of(self, *options):
        self.socket = self.directory() / "control.sock"
        return self.start("--control", self.socket, "--frequency", FREQUENCY, *options)

    def boost(self, *options, expect=0):
        return self.spanprof("boost", "--control", self.socket, *options, expect=expect)

    def ask(self):
        unix_http.ask_once(unix_http.Unix(self.socket), "/status.json")

    def status(self):
        return json.loads(self.spanprof("status", "--json", "--control", self.socket).stdout)

    def is_more(self, sample):
        """Whether it was taken at the higher rate: jitter is a quarter at most."""
        return sample.period < 1.5e9 / FREQUENCY / TICKS

    def wait_boosted(self, run, pid, n=BOOSTED):
        self.wait_for(run, lambda all: sum(s.value for s in all if s.resource["process.pid"] == pid and
                                           self.is_more(s)) >= n, f"{n} samples at the higher rate")

    def check_weights(self, samples, cpu_ns):
        """What the samples stand for is the CPU time, as far as chance allows."""
        n = sum(s.value for s in samples)
        self.assertAlmostEqual(sum(s.value * s.period for s in samples) / cpu_ns, 1, delta=5 / n ** 0.5)

    def test_one_has_all_ticks_and_the_other_its_own_rate(self):
        victims = [self.victim("shares") for _ in range(2)]
        pids = [victim.pid for victim in victims]
        run = self.run_of("--pid", f"{pids[0]},{pids[1]}")
        for pid in pids:
            run.wait_events(20, pid)
        begin_ns, before = time.clock_gettime_ns(time.CLOCK_MONOTONIC), [session.cpu_ns(pid) for pid in pids]
        done = self.boost("--process", pids[0], "--frequency", "499", "--for", "10m")
        self.assertIn(f"1 processes at {FREQUENCY * TICKS} Hz for 600 s", done.stdout)
        shown, = self.status()["boosts"]
        self.assertEqual((shown["process"], shown["frequency"]), (pids[0], FREQUENCY * TICKS))
        self.assertTrue(0 < shown["seconds_left"] <= 600)
        out = self.spanprof("status", "--control", self.socket).stdout
        self.assertRegex(out, rf"(?m)^boost +process {pids[0]} at {FREQUENCY * TICKS} Hz, for .* more$")
        self.wait_boosted(run, pids[0])
        # a reload ends it: what comes later has the old period again
        end_ns, after = time.clock_gettime_ns(time.CLOCK_MONOTONIC), [session.cpu_ns(pid) for pid in pids]
        os.kill(run.pid, signal.SIGHUP)
        tap.wait_until(lambda: not self.status()["boosts"], "the daemon after a reload")
        reload_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.wait_for(run, lambda all: sum(run.offset_ns + reload_ns < s.time_ns for s in all) > 20, "samples after it")
        result = run.stop()
        for victim in victims:
            victim.stop()
        for pid, cpu_before, cpu_after in zip(pids, before, after):
            mean = [s for s in result.of(pid) if begin_ns <= result.monotonic_ns(s) < end_ns]
            self.check_weights(mean, cpu_after - cpu_before)
            early = [s for s in result.of(pid) if result.monotonic_ns(s) < begin_ns]
            late = [s for s in result.of(pid) if result.monotonic_ns(s) > reload_ns]
            self.assertFalse(any(map(self.is_more, early + late)))
        more = [s for s in result.of(pids[0]) if self.is_more(s)]
        self.assertFalse(any(map(self.is_more, result.of(pids[1]))))
        self.assertAlmostEqual(period_ns(more) * FREQUENCY * TICKS / 1e9, 1, delta=0.1)
        self.assertAlmostEqual(period_ns(result.of(pids[1])) * FREQUENCY / 1e9, 1, delta=0.1)
        self.assertEqual(result.counter("boost_ticks_total"), sum(s.value for s in more))
        self.assertEqual(result.counter("boosts_total"), {"asked": 1, "refused": 0, "cut": 0})

    def test_a_unit_has_its_later_processes_too_and_ends_by_itself(self):
        group = groups.make(self, "spanprof-boost.service")
        first, other = (self.victim("shares", rests=True) for _ in range(2))
        groups.enter(group, first.pid)
        run = self.run_of("--comm", "victim-shares")
        run.wait_events(3, first.pid)
        done = self.boost("--unit", "spanprof-b?ost", "--frequency", "499", "--for", "5")
        self.assertIn("1 processes at", done.stdout)
        later = self.victim("shares", rests=True, preexec_fn=lambda: groups.enter(group, os.getpid()))
        self.wait_boosted(run, first.pid, 20)
        self.wait_boosted(run, later.pid, 20)
        tap.wait_until(lambda: not self.status()["boosts"], "the end of the boost")
        end_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.wait_for(run, lambda all: sum(run.offset_ns + end_ns < s.time_ns for s in all) > 10, "samples after it")
        result = run.stop()
        self.assertFalse(any(map(self.is_more, result.of(other.pid))))
        self.assertFalse(any(self.is_more(s) for s in result.samples if result.monotonic_ns(s) > end_ns))
        for victim in first, other, later:
            victim.stop()

    def test_a_recorder_has_all_ticks_of_both(self):
        victims = [self.victim("shares", rests=True) for _ in range(2)]
        pids = [victim.pid for victim in victims]
        run = self.run_of("--pid", f"{pids[0]},{pids[1]}", "--recorder", "60s", "--recorder-frequency",
                          FREQUENCY * TICKS)
        self.boost("--process", pids[0], "--frequency", "200")
        self.wait_boosted(run, pids[0], 50)
        path = self.directory() / "kept.otlp"
        self.spanprof("keep", "--control", self.socket, "-o", path)
        kept = list(otlp_read.samples(path))
        self.assertTrue(all(map(self.is_more, kept)))
        self.assertEqual({s.resource["process.pid"] for s in kept}, set(pids))
        result = run.stop()
        for victim in victims:
            victim.stop()
        # what is exported of the boosted one is what the recorder has of it
        last_ns = max(s.time_ns for s in kept)
        self.assertLessEqual({s.time_ns for s in result.of(pids[0]) if s.time_ns <= last_ns},
                             {s.time_ns for s in kept if s.resource["process.pid"] == pids[0]})
        self.assertFalse(any(map(self.is_more, result.of(pids[1]))))
        ticks = result.counter("recorder_ticks_total")
        self.assertEqual(ticks["taken"], sum(n for event, n in ticks.items() if event != "taken"), ticks)

    def test_what_is_refused(self):
        victim = self.victim("shares", rests=True)
        run = self.run_of("--comm", "victim-shares", "--max-cpu", 1)
        run.wait_events(1, victim.pid)
        for options, status, why in (
                (("--process", os.getpid(), "--frequency", 499), 1, "404 this process is no target"),
                (("--process", victim.pid, "--frequency", 1001), 1, "400 asked are"),
                (("--process", victim.pid, "--frequency", 120), 1, "400 the frequency is not above"),
                (("--process", victim.pid, "--frequency", 499, "--for", "11m"), 2, "for"),
                (("--process", "victim*", "--frequency", 499), 2, "boost what"),
                (("--process", victim.pid, "--unit", "a", "--frequency", 499), 2, "boost what"),
                (("--process", victim.pid), 2, "how often")):
            self.assertIn(why, self.boost(*options, expect=status).stderr)
        n_refused = 3
        done = self.spanprof("boost", "--control", self.socket, "--process", victim.pid, "--frequency", 1000)
        self.assertIn("1 processes", done.stdout)
        # to answer takes more than 1 % of a CPU
        tap.wait_until(lambda: [self.ask() for _ in range(100)] and
                       "1 boosts end before their time, for max-cpu" in run.child.err, "the end of the boost")
        self.assertEqual(self.status()["boosts"], [])
        result = run.stop()
        victim.stop()
        self.assertEqual(result.counter("boosts_total"), {"asked": n_refused + 1, "refused": n_refused, "cut": 1})

    def test_four_at_a_time(self):
        victim = self.victim("shares", rests=True)
        run = self.run_of("--comm", "victim-shares")
        run.wait_events(1, victim.pid)
        for i in range(4):
            self.boost("--unit", f"none-{i}", "--frequency", "200")
        self.assertIn("503 there are four boosts already",
                      self.boost("--unit", "none-4", "--frequency", "200", expect=1).stderr)
        self.boost("--unit", "none-3", "--frequency", "300")
        self.assertEqual(len(self.status()["boosts"]), 4)
        self.spanprof("pause", "--control", self.socket)
        self.assertIn("503 nothing is sampled", self.boost("--unit", "x", "--frequency", "200", expect=1).stderr)
        result = run.stop()
        victim.stop()
        self.assertEqual(result.counter("boosts_total"), {"asked": 7, "refused": 2, "cut": 0})


if __name__ == "__main__":
    tap.main()
