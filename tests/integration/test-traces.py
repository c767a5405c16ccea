#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of coroutines after the program has ended: converted from each form to each other, and reported."""
import collections
import json
import re

import session
import tap
from stations import VICTIM, stations, waiting


class Convert(tap.TestCase):
    """`spanprof convert` between the forms of a trace."""

    def convert(self, *names, expect=0):
        return self.run_command([tap.SPANPROF, "convert", *names[:-1], "-o", names[-1]], expect, cwd=self.dir,
                                env=session.clean_environment())

    def setUp(self):
        self.dir = self.directory()

    def record(self, *victim):
        self.run_command([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", VICTIM, "coroutines=20", "turns=30", *victim], 0)
        return (self.dir / "t.jsonl").read_text()

    def test_comes_back_the_same_through_all_forms(self):
        text = self.record("payload=1")
        self.assertIn('"lost":', text)
        for chain in (("t.jsonl", "a.csv", "a.jsonl"), ("t.jsonl", "b.db", "b.jsonl"), ("t.jsonl", "c.csv", "c.db", "c.jsonl")):
            for names in zip(chain, chain[1:]):
                self.convert(*names)
            self.assertEqual((self.dir / chain[-1]).read_text(), text)

    def test_keeps_the_columns_of_a_trace_that_has_no_more(self):
        line = '{"probe_id":9,"tid":7,"addr":"0x0000000000000010","seq":2,"is_active":true,"ts":5}\n'
        (self.dir / "t.jsonl").write_text(line * 3)
        self.convert("t.jsonl", "t.csv")
        self.assertEqual((self.dir / "t.csv").read_text(), "probe_id,tid,addr,seq,is_active,ts\n" + "9,7,0x0000000000000010,2,true,5\n" * 3)
        self.convert("t.csv", "t.csv.jsonl")
        self.assertEqual((self.dir / "t.csv.jsonl").read_text(), line * 3)

    def test_writes_all_that_is_good_and_says_what_is_not(self):
        text = self.record()
        (self.dir / "cut.jsonl").write_text(text[:-30])
        done = self.convert("cut.jsonl", "cut.csv", expect=1)
        self.assertIn("1 lines", done.stderr)
        self.assertEqual((self.dir / "cut.csv").read_text().count("\n"), text.count("\n"))

    def test_sums_up_how_long_coroutines_were_suspended(self):
        lines, sums, since = [], collections.Counter(), {}
        for k in range(200):            # three coroutines; each tenth event of one follows a loss
            station, active, ts = k % 3, (k // 3) % 2 == 1, 10**12 + 1000 * k * k
            lost = 5 if k % 30 == 3 else 0
            lines.append({"probe_id": 100 + station, "tid": 7, "addr": f"0x{0 if active else 0x1000 * (station + 1):016x}", "seq": 2,
                          "is_active": active, "ts": ts, "station": station, "event": k, "birth": 5, **({"lost": lost} if lost else {})})
            if active and station in since and not lost:
                sums[f"0x{0x1000 * (station + 1):016x}"] += ts - since[station]
            since.pop(station, None)
            if not active:
                since[station] = ts
        (self.dir / "t.jsonl").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        self.convert("t.jsonl", "t.csv")
        for source in ("t.jsonl", "t.csv"):
            self.convert(source, "t.folded")
            folded = dict(line.rsplit(" ", 1) for line in (self.dir / "t.folded").read_text().splitlines())
            self.assertEqual({key: int(value) for key, value in folded.items()}, dict(sums))
        self.convert("t.jsonl", "t.json")
        text = (self.dir / "t.json").read_text()
        for key in ("coroutine.probe_id", "coroutine.station", "coroutine.birth_ns", "off_cpu"):
            self.assertIn(f'"{key}"', text)

    def test_refuses_what_it_cannot_do(self):
        text = self.record()
        self.assertIn("input and output", self.convert("t.jsonl", "./t.jsonl", expect=1).stderr)
        self.assertEqual((self.dir / "t.jsonl").read_text(), text)
        (self.dir / "x").write_bytes(bytes(range(256)))
        self.assertIn("no trace", self.convert("x", "x.csv", expect=1).stderr)
        self.assertFalse((self.dir / "x.csv").exists())


class Sdk(tap.TestCase):
    """The writers of sdk/: C++20 coroutines on four threads, one of which waits for ever."""

    def test_the_lost_wake_up_is_the_one_that_was_planted(self):
        program = tap.BUILD_DIR / "sdk/example/example-coroutines"
        if not program.exists():
            tap.skip("tool: the compiler has no C++20 coroutines")
        directory = self.directory()
        done = self.run_command([tap.SPANPROF, "coro", "-o", directory / "t.jsonl", "--", program], 0)
        planted = re.search(r"probe id (\d+), frame (0x[0-9a-f]+)", done.stdout)
        rows = stations(directory / "t.jsonl")
        self.assertEqual(len(rows), 40)
        stuck = [row for row in rows.values() if row["dead"] == "0" and row["is_active"] == "0"]
        self.assertEqual([(row["probe_id"], int(row["last_addr"], 16)) for row in stuck], [(planted[1], int(planted[2], 16))])
        for row in rows.values():   # 20 yields and a payment: a suspend and a resume each
            self.assertEqual(int(row["read"]) + int(row["lost"]), 41 if row in stuck else 42)
        self.assertIn("(seqlock dialect)", done.stderr)
        for form in (".jsonl", ".csv", ".db"):
            if form != ".jsonl":
                self.run_command([tap.SPANPROF, "convert", directory / "t.jsonl", "-o", directory / f"t{form}"], 0)
            report = json.loads(self.run_command([tap.SPANPROF, "report", "--json", "--top", "100", directory / f"t{form}"], 0).stdout)
            self.assertEqual(waiting(report["coroutines"]), {int(stuck[0]["station"])})
            (waits,) = (c for c in report["coroutines"] if c["state"] != "dead")
            self.assertEqual((int(waits["probe_id"], 16), int(waits["last_address"], 16)), (int(planted[1]), int(planted[2], 16)))
            self.assertGreaterEqual(waits["state_ns"], 500e6, "the program has waited so long before it gave up")
        self.assertEqual(self.run_command([program], 0).stdout.splitlines()[-1], "39 of 40 orders are done")     # untraced


if __name__ == "__main__":
    tap.main()
