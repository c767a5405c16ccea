#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows that a daemon keeps beside its spool: the next one has them without parsing the files. What is damaged
is made anew, and what is made anew is the same.
"""
import oracle

oracle.enter()

import platform
import re
import stat

import prometheus
import session
import tap
import unix_http

LEAST = 2               # the C library and the dynamic linker: a victim that was built just now is too young


def has_numbers_of_mounts():
    return tuple(map(int, re.match(r"(\d+)\.(\d+)", platform.release()).groups())) >= (6, 8)


class RowCache(session.TestCase):
    def setUp(self):
        self.spool = self.directory() / "spool"
        self.rows = self.spool / "rows"
        self.child = self.victim("chain", 10, rests=True)

    def entries(self):
        return {path.name: path.read_bytes() for path in self.rows.glob("[0-9a-f]*")}

    def start_counted(self):
        """A run, and what waits until it has counted so many files of one result."""
        control = self.directory() / "control.sock"
        run = self.start("--pid", self.child.pid, "--frequency", "499", "--spool", self.spool,
                         "--control", control)
        return run, lambda least, result: tap.wait_until(
            lambda: prometheus.value(unix_http.metrics(control), "spanprof_unwind_cache_total",
                                     result=result) >= least, f"{least} {result}; {run.child}")

    def sample(self, least=0, result="found"):
        """A run that has some whole stacks. Return: what it says of files that were kept."""
        run, wait = self.start_counted()
        wait(least, result)
        run.wait_events(20)
        tap.wait_until(lambda: len(self.entries()) >= LEAST, f"rows that were kept; {run.child}")
        result = run.stop()
        ends = {s.attributes.get("profile.stack.truncated") for s in result.samples}
        self.assertIn(None, ends)
        self.assertLessEqual(ends, {None, "pending"})
        return result.counter("unwind_cache_total")

    def first(self):
        """A run with nothing to find. Return: what it has kept."""
        if not has_numbers_of_mounts():
            self.skipTest("kernel: mounts have no number of their own before Linux 6.8")
        cache = self.sample()
        self.assertEqual((cache["found"], cache["dropped"], cache["failed"]), (0, 0, 0), cache)
        return self.entries()

    def test_the_next_daemon_finds_what_was_kept_and_makes_the_same(self):
        kept = self.first()
        modes = {stat.S_IMODE(path.stat().st_mode) for path in self.rows.glob("[0-9a-f]*")}
        self.assertEqual((modes, stat.S_IMODE(self.rows.stat().st_mode)), ({0o600}, 0o700))
        cache = self.sample(len(kept))
        self.assertEqual(cache["dropped"], 0, cache)
        for path in self.rows.iterdir():
            path.unlink()
        self.first()
        made = self.entries()
        self.assertGreaterEqual(len(kept.keys() & made.keys()), LEAST)
        self.assertEqual({name for name in kept.keys() & made.keys() if kept[name] != made[name]}, set())

    def test_what_was_damaged_is_made_anew(self):
        kept = self.first()
        for name, data in kept.items():
            (self.rows / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        cache = self.sample(len(kept), "dropped")
        self.assertEqual((cache["dropped"], cache["found"]), (len(kept), 0), cache)

    def test_a_second_daemon_has_none_and_says_so(self):
        kept = self.first()
        first, wait = self.start_counted()
        second, _ = self.start_counted()
        second.wait_events(1)
        result = second.stop()
        self.assertRegex(result.log,
                         "rows are not kept for the next start: another spanprof has the directory")
        self.assertEqual(sum(result.counter("unwind_cache_total").values()), 0)
        wait(len(kept), "found")
        first.wait_events(1)
        first.stop()


if __name__ == "__main__":
    tap.main()
