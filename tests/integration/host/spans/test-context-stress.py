#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No sample carries a context that is not its thread's at its moment: 64 threads that change theirs each
microsecond and log it, a kernel half beside them, and every sample judged by the log
(tests/oracles/context-stress.c)."""
import re

import tap

PROGRAM = tap.ORACLES / "context-stress"
WRONG = ("mixed", "owner", "time", "missed", "shared")


class Stress(tap.TestCase):
    SAMPLES = 100_000 if tap.LONG else 25_000

    @classmethod
    def setUpClass(cls):
        tap.need_root()
        tap.need_btf()

    def stress(self, form, expect=0, samples=None, **options):
        arguments = [
            f"{key}={value}"
            for key, value in {"samples": samples or self.SAMPLES, "seconds": 250, **options}.items()
        ]
        done = self.run_command([PROGRAM, form, *arguments], timeout=280)
        if done.returncode == 78:
            tap.skip(f"kernel: {done.stderr.strip()}")
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        result = {key: int(value) for key, value in re.findall(r"^(\w+) (\d+)$", done.stdout, re.M)}
        # What could not be judged any more must not be what hides a mistake.
        self.assertLess(result["late"], result["samples"] / 4)
        self.assertGreater(result["changes"], result["samples"])
        return result

    def check(self, form, **options):
        result = self.stress(form, **options)
        self.assertEqual([result[f"wrong_{name}"] for name in WRONG], [0] * len(WRONG), result)
        self.assertGreater(result["present"], result["samples"] / 2)
        self.assertGreater(result["none"], 0)
        self.assertEqual(result["unpublished"], 0, result)
        # The kernel half cannot wait for a page that the kernel moves, or that a new thread has not touched.
        # In the middle of a context that stood it would be `missed`.
        self.assertLessEqual(result["unreadable"], result["samples"] / 1000, result)
        return result

    def test_ring(self):
        result = self.check("ring")
        self.assertEqual(result["ambiguous"] + result["stale"], 0, result)

    def test_thread_records(self):
        self.check("thread")

    def test_both_forms_in_one_process(self):
        self.check("both")

    def test_threads_that_die_and_are_born_with_ids_of_others_on_64_slots(self):
        result = self.check("plain", capacity=64, workers=24, brief=1)
        self.assertGreater(result["threads"], 100)

    def test_thread_records_of_threads_that_die_and_are_born(self):
        result = self.check("thread", brief=1, samples=self.SAMPLES // 5)
        self.assertGreater(result["threads"], 65)

    def obi(self, **options):
        """Without an entry there is no context, and nothing is published."""
        result = self.stress("obi", **options)
        self.assertEqual([result[f"wrong_{name}"] for name in WRONG], [0] * len(WRONG), result)
        self.assertEqual(result["none"] + result["busy"] + result["ambiguous"] + result["unreadable"], 0, result)
        self.assertGreater(result["unpublished"], 0)
        self.assertGreater(result["stale"], 0, "threads are born to entries of others")
        self.assertGreater(result["present"], result["samples"] / 2)
        return result

    def test_a_map_as_obi_writes_it(self):
        self.obi(capacity=16384)

    def test_the_same_with_threads_that_die_and_are_born(self):
        result = self.obi(capacity=16384, workers=24, brief=1)
        self.assertGreater(result["threads"], 100)

    def test_the_judge_finds_what_is_wrong(self):
        """The same with samples that are spoiled on their way."""
        result = self.stress("ring", expect=1, samples=5_000, lie=1)
        for name in ("mixed", "owner", "time", "missed"):
            self.assertGreater(result[f"wrong_{name}"], 0, result)


if __name__ == "__main__":
    tap.main()
