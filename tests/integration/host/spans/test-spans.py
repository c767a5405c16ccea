#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spans.py, the judge of samples, on a log made by hand.

Thread 7 works for a1 from 100 to 200 and, 50 later, for a2; thread 8 for b1. Each change takes 10:

    thread 7   90[100 … 200]210   240[250 … 300]310
    thread 8            190[200 … 400]410
"""
import sys

import spans
import tap

HEADER = "span_id,operation,tid,start_before,start_after,end_before,end_after\n"
LOG = HEADER + ("00000000000000a1,checkout,7,90,100,200,210\n"
                "00000000000000b1,health,8,190,200,400,410\n"
                "00000000000000a2,search,7,240,250,300,310\n")


def parse(text):
    return spans.parse(text.splitlines())


class Judge(tap.TestCase):
    def check(self, verdict, *samples):
        log = parse(LOG)
        for sample in samples:
            with self.subTest(sample=sample):
                self.assertEqual(log.judge(*sample), verdict)

    def test_right_inside_up_to_both_ends(self):
        self.check("right", (7, 100, 0xA1), (7, 150, 0xA1), (7, 200, 0xA1), (7, 250, 0xA2), (8, 250, 0xB1),
                   (7, 150, 0xA1, "checkout"))

    def test_wrong_is_another_span_at_any_time(self):
        self.check("wrong", (7, 150, 0xA2), (7, 150, 0xB1), (7, 260, 0xA1), (8, 250, 0xA2), (7, 150, 0xDEAD))

    def test_wrong_is_a_span_where_there_was_none(self):
        self.check("wrong", (7, 89, 0xA1), (7, 211, 0xA1), (7, 225, 0xA2), (7, 311, 0xA2), (9, 150, 0xA1))

    def test_wrong_is_another_operation(self):
        self.check("wrong", (7, 150, 0xA1, "search"), (7, 150, None, "search"))

    def test_gap_takes_the_span_or_none_and_nothing_else(self):
        self.check("gap", (7, 90, None), (7, 99, 0xA1), (7, 201, 0xA1), (7, 210, None))
        self.check("wrong", (7, 95, 0xA2), (7, 205, 0xA2), (7, 205, 0xB1))

    def test_missing_is_no_span_inside_of_one(self):
        self.check("missing", (7, 150, None), (8, 200, None))

    def test_outside_is_no_span_where_there_was_none(self):
        self.check("outside", (7, 0, None), (7, 225, None), (8, 411, None), (9, 150, None))

    def test_tallies_and_keeps_the_wrong_ones(self):
        log = parse(LOG)
        counts = log.tally([(7, 150, 0xA1), (7, 150, 0xB1), (7, 150, None), (7, 205, None), (9, 0, None)])
        self.assertEqual(counts, dict(right=1, wrong=1, missing=1, gap=1, outside=1))
        self.assertEqual(log.wrong, [(7, 150, 0xB1)])


class Log(tap.TestCase):
    def test_that_cannot_be_true_is_refused(self):
        for text in (
            "",
            "span,operation\n",
            HEADER + "0000000000000000,checkout,7,1,2,3,4\n",
            HEADER + "00000000000000a1,checkout,7,1,2,3,4\n00000000000000a1,checkout,7,5,6,7,8\n",
            HEADER + "00000000000000a1,checkout,7,1,3,2,4\n",
            HEADER + "00000000000000a1,checkout,7,1,2,3,9\n00000000000000a2,checkout,7,8,10,11,12\n",
        ):
            with self.subTest(text=text), self.assertRaises(ValueError):
                parse(text)


class CommandLine(tap.TestCase):
    def judge(self, samples, expect):
        path = self.directory() / "spans.csv"
        path.write_text(LOG)
        (path.parent / "samples").write_text(samples)
        with open(path.parent / "samples") as file:
            return self.run_command([sys.executable, spans.__file__, path], expect=expect, stdin=file).stdout

    def test_reads_samples_and_fails_on_a_wrong_one(self):
        self.assertEqual(self.judge("7,150,a1\n7,150,,checkout\n", 0),
                         "right 1 wrong 0 missing 1 gap 0 outside 0\n")
        self.assertIn("wrong: 7 150 177", self.judge("7,150,b1\n", 1))


tap.main()
