#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Samples that name the coroutine that ran, against a program that has logged which one did (tests/victims/spans/victim-coroutines.c)."""
import oracle

oracle.enter()

import bisect
import collections
import signal

import session
import tap

SLACK_NS = session.CLOCK_SLACK_NS


def read_log(path):
    """tid → (begins, stretches) sorted by time."""
    by_thread = collections.defaultdict(list)
    for line in path.read_text().splitlines():
        station, tid, begin, end = map(int, line.split(","))
        by_thread[tid].append((begin, end, station))
    return {
        tid: ([s[0] for s in sorted(stretches)], sorted(stretches)) for tid, stretches in by_thread.items()
    }


def truth_at(log, tid, time_ns):
    """Station that ran on the thread then, or None."""
    begins, stretches = log.get(tid, ([], []))
    at = bisect.bisect_right(begins, time_ns) - 1
    return stretches[at][2] if at >= 0 and time_ns < stretches[at][1] else None


class Run(session.TestCase):
    def profile(self, threads, coroutines, *more, seconds=3.0, options=()):
        log_path = self.directory() / "log"
        victim = self.victim("coroutines", threads, coroutines, log_path, *more)
        run = self.start("--pid", victim.pid, "--frequency", "499", "--kernel-stacks=off", *options)
        session.wait_cpu([victim.pid], seconds)
        self.assertEqual(victim.stop(), 0)
        return run.wait(), read_log(log_path), victim.pid

    def judge(self, result, log, pid):
        seen = collections.Counter()
        stations = collections.Counter()
        for sample in result.of(pid):
            attributes = sample.attributes
            station = attributes.get("coroutine.station")
            time_ns = result.monotonic_ns(sample)
            # Our look at the clocks and the daemon's differ: beside a switch both neighbours are right.
            allowed = {truth_at(log, sample.thread_id, time_ns + slack) for slack in (-SLACK_NS, 0, SLACK_NS)}
            if station is None:
                seen["right" if None in allowed else "unnamed"] += 1
                continue
            stations[station] += 1
            seen["right" if station in allowed else "wrong"] += 1
            seen["beside a switch"] += len(allowed) > 1
            self.assertEqual(attributes["coroutine.probe_id"], f"0x{0x5000 + station:016x}")
            self.assertEqual(attributes["coroutine.state"], "running")
            self.assertGreater(attributes["coroutine.birth_ns"], 0)
            self.assertNotIn("coroutine.id", attributes)
        return seen, stations

    def test_name_the_coroutine_that_ran(self):
        for dialect in ("seqlock", "document"):
            result, log, pid = self.profile(2, 4, dialect)
            seen, stations = self.judge(result, log, pid)
            self.assertGreater(seen["right"], 500)
            self.assertEqual(seen["wrong"], 0, seen)
            # The first 100 ms have no region yet, and a death is ambiguous for some ms.
            self.assertLess(seen["beside a switch"], 0.2 * sum(stations.values()), seen)
            self.assertLess(seen["unnamed"], 0.2 * len(result.of(pid)), (seen, result.summary["counters"]))
            self.assertEqual(set(stations), set(range(8)))
            counters = result.summary["counters"]["coroutine_samples_total"]
            self.assertEqual(counters["matched"], sum(stations.values()))
            self.assertEqual(sum(counters.values()) >= counters["matched"], True)
            self.assertEqual(result.summary["counters"]["coroutine_regions_total"]["found"], 1)

    def test_have_ids_for_those_who_ask_for_them(self):
        result, _log, pid = self.profile(1, 3, seconds=2.0, options=("--coroutine-ids",))
        ids = {
            sample.attributes["coroutine.id"]: (sample.attributes["coroutine.station"],
                                                sample.attributes["coroutine.birth_ns"])
            for sample in result.of(pid) if "coroutine.station" in sample.attributes
        }
        self.assertLessEqual({0, 2}, {station for station, _ in ids.values()})         # 1 ends soon
        self.assertEqual(ids,
                         {f"{station}-{birth_ns}": (station, birth_ns) for station, birth_ns in ids.values()})
        suspended = [sample.attributes for sample in result.suspended]
        self.assertTrue(suspended)
        for attributes in suspended:
            self.assertEqual(attributes["coroutine.id"],
                             f"{attributes['coroutine.station']}-{attributes['coroutine.birth_ns']}")

    def test_of_programs_without_coroutines_are_as_before(self):
        victim = self.victim("chain", 5)
        run = self.start("--pid", victim.pid, "--frequency", "199")
        session.wait_cpu([victim.pid], 0.5)
        result = run.stop(signal.SIGTERM)
        self.assertTrue(result.samples)
        self.assertFalse(
            [s for s in result.samples if any(key.startswith("coroutine.") for key in s.attributes)])


if __name__ == "__main__":
    tap.main()
