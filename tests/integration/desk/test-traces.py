#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of coroutines after the program has ended: exported, converted into profiles, and reported."""
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import sqlite3
import stat
import subprocess

import session
import tap
from stations import VICTIM, rows, stations, to_csv, to_database, waiting
from stations import events as events_of


class Convert(tap.TestCase):
    """What becomes of a trace by `convert`, and by `corotracer -export`."""

    def convert(self, *names, expect=0):
        return self.run_command([tap.SPANPROF, "convert", *names[:-1], "-o", names[-1]], expect, cwd=self.dir,
                                env=session.clean_environment())

    def export(self, source, output, expect=0):
        kind = "csv" if output.endswith("csv") else "sqlite"
        return self.run_command(
            [tap.SPANPROF, "corotracer", "-export", kind, "-in", source, f"-{kind}-out", output], expect,
            cwd=self.dir, env=session.clean_environment())

    def setUp(self):
        self.dir = self.directory()

    def record(self, *victim):
        self.run_command([
            tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", VICTIM, "coroutines=20", "turns=30",
            *victim
        ], 0)
        return (self.dir / "t.jsonl").read_text()

    def test_exports_the_events_of_a_trace_and_no_rows(self):
        self.record("payload=1")
        events = [(event["probe_id"], event["tid"], event["addr"], event["seq"], event["is_active"],
                   event["ts"], event["payload"]) for event in events_of(self.dir / "t.jsonl")]
        self.export("t.jsonl", "t.csv")
        self.assertEqual((self.dir / "t.csv").read_text(), "probe_id,tid,addr,seq,is_active,ts,payload\n" + "".join(
            ",".join(map(str, event)).replace("True", "true").replace("False", "false") + "\n"
            for event in events))
        self.export("t.jsonl", "t.db")
        with contextlib.closing(sqlite3.connect(self.dir / "t.db")) as database:
            rows = database.execute(
                "select probe_id, tid, addr, seq, is_active, ts, payload from coro_trace_events order by id")
            self.assertEqual([(int(probe), *row, bool(active), ts, payload)
                              for probe, *row, active, ts, payload in rows], events)
            self.assertEqual([row[0] for row in database.execute(
                "select name from sqlite_master where type = 'table' and name like 'coro_%'")],
                ["coro_trace_events"])

    def test_keeps_the_columns_of_a_trace_that_has_no_more(self):
        line = '{"probe_id":9,"tid":7,"addr":"0x0000000000000010","seq":2,"is_active":true,"ts":5}\n'
        (self.dir / "t.jsonl").write_text(line * 3)
        self.export("t.jsonl", "t.csv")
        self.assertEqual((self.dir / "t.csv").read_text(),
                         "probe_id,tid,addr,seq,is_active,ts\n" + "9,7,0x0000000000000010,2,true,5\n" * 3)
        self.export("t.csv", "u.csv")
        self.assertEqual((self.dir / "u.csv").read_text(), (self.dir / "t.csv").read_text())

    def test_a_trace_that_is_cut_says_what_is_missing(self):
        text = self.record()
        (self.dir / "cut.jsonl").write_text(text[:-30])         # a row
        done = self.convert("cut.jsonl", "cut.folded", expect=1)
        self.assertRegex(done.stderr, "1 of its (stations|mappings) are malformed")
        n = len(events_of(self.dir / "t.jsonl"))
        events = text.splitlines(keepends=True)[:n]
        (self.dir / "cut.jsonl").write_text("".join(events)[:-30])
        self.assertIn("1 lines", self.convert("cut.jsonl", "cut.folded", expect=1).stderr)
        self.export("cut.jsonl", "cut.csv")
        self.assertEqual((self.dir / "cut.csv").read_text().count("\n"), n)

    def test_what_is_given_up_says_what_to_do(self):
        text = self.record()
        for output in ("u.csv", "u.jsonl", "u.db", "t.jsonl"):
            done = self.convert("t.jsonl", output, expect=2)
            self.assertRegex(done.stderr, r"no more: `spanprof coro -o` .* `spanprof corotracer -export csv`")
            self.assertEqual(done.stderr.count("\n"), 1)
        done = self.run_command([tap.SPANPROF, "coro", "-o", "u.csv", "--", "touch", "ran"], 125, cwd=self.dir)
        self.assertRegex(done.stderr, r"^spanprof: u\.csv: CSV is written no more: .* -export csv .*\n$")
        self.assertEqual(sorted(file.name for file in self.dir.iterdir()), ["t.jsonl"])
        self.assertEqual((self.dir / "t.jsonl").read_text(), text)

    def test_files_beside_a_trace_of_an_older_version_are_named(self):
        """Version 0.1 had rows in t.stations.csv; nothing of another trace is believed, and nobody is left to wonder."""
        text = self.record()
        (self.dir / "t.stations.csv").write_text("pid,station,probe_id,birth\n")
        for arguments in (["report", "t.jsonl"], ["convert", "t.jsonl", "-o", "t.folded"]):
            done = self.run_command([tap.SPANPROF, *arguments], 0, cwd=self.dir)
            self.assertNotIn("stations.csv", done.stderr, "this trace has its rows itself")
        (self.dir / "t.jsonl").write_text("".join(line for line in text.splitlines(keepends=True)
                                                  if "coro_" not in line))
        for arguments in (["report", "t.jsonl"], ["convert", "t.jsonl", "-o", "t.folded"]):
            done = self.run_command([tap.SPANPROF, *arguments], 0, cwd=self.dir)
            self.assertEqual(done.stderr.count("t.stations.csv"), 1, done.stderr)
            self.assertRegex(done.stderr, "older version .* record again, or use that version")

    def test_sums_up_how_long_coroutines_were_suspended(self):
        lines, sums, since = [], collections.Counter(), {}
        for k in range(200):            # three coroutines; each tenth event of one follows a loss
            station, active, ts = k % 3, (k // 3) % 2 == 1, 10**12 + 1000 * k * k
            lost = 5 if k % 30 == 3 else 0
            lines.append({
                "probe_id": 100 + station, "tid": 7,
                "addr": f"0x{0 if active else 0x1000 * (station + 1):016x}", "seq": 2, "is_active": active,
                "ts": ts, "station": station, "event": k, "birth": 5, **({"lost": lost} if lost else {})
            })
            if active and station in since and not lost:
                sums[f"0x{0x1000 * (station + 1):016x}"] += ts - since[station]
            since.pop(station, None)
            if not active:
                since[station] = ts
        (self.dir / "t.jsonl").write_text("".join(
            json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        to_csv(self.dir / "t.jsonl", self.dir / "t.csv")
        to_database(self.dir / "t.jsonl", self.dir / "t.db")
        for source in ("t.jsonl", "t.csv", "t.db"):
            self.convert(source, "t.folded")
            folded = dict(line.rsplit(" ", 1) for line in (self.dir / "t.folded").read_text().splitlines())
            self.assertEqual({key: int(value) for key, value in folded.items()}, dict(sums))
        self.convert("t.jsonl", "t.json")
        text = (self.dir / "t.json").read_text()
        for key in ("coroutine.probe_id", "coroutine.station", "coroutine.birth_ns", "off_cpu"):
            self.assertIn(f'"{key}"', text)

    def test_several_traces_in_one_lose_and_mix_nothing_silently(self):
        """The same stations of several runs, and probe ids that come again without a birth to tell them apart."""
        self.record()
        (self.dir / "t.jsonl").rename(self.dir / "a.jsonl")
        self.record()
        to_database(self.dir / "t.jsonl", self.dir / "t.db")
        (self.dir / "both.jsonl").write_text((self.dir / "a.jsonl").read_text() +
                                             (self.dir / "t.jsonl").read_text())
        for inputs in (["a.jsonl", "t.jsonl"], ["a.jsonl", "t.db"], ["both.jsonl"]):
            done = self.run_command([tap.SPANPROF, "report", "--json", "--top", "100", *inputs], 0,
                                    cwd=self.dir)
            self.assertNotIn("in an earlier trace", done.stderr)
            report = json.loads(done.stdout)
            self.assertEqual(report["n_coroutines"], 40)
            self.assertEqual({row["state"] for row in report["coroutines"]}, {"dead"})
            self.assertEqual(report["events"] + report["lost"], 2 * 20 * 30 * 2)
        line = '{"probe_id":%d,"tid":7,"addr":"0x0000000000000010","seq":2,"is_active":true,"ts":5}\n'
        (self.dir / "x.jsonl").write_text(line % 8 + line % 9 + line % 9)
        (self.dir / "y.jsonl").write_text(line % 9 + line % 10 + line % 9)
        self.assertIn(
            "y.jsonl: 1 of its coroutines was in an earlier trace",
            self.run_command([tap.SPANPROF, "report", "x.jsonl", "y.jsonl"], 0, cwd=self.dir).stderr)

    def check_leaves_nothing_beside(self, name):
        """A reader of a finished trace leaves no -wal and no -shm, whatever the trace is called."""
        folder = self.directory()
        shutil.copy(self.dir / "t.db", folder / name)
        with contextlib.closing(sqlite3.connect(folder / name)) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA user_version=1")
        self.assertEqual([path.name for path in folder.iterdir()], [name])
        self.spanprof("report", folder / name)
        self.assertEqual([path.name for path in folder.iterdir()], [name])

    def test_a_payload_that_comes_late_has_its_column(self):
        line = '{"probe_id":9,"tid":7,"addr":"0x0000000000000010","seq":2,"is_active":true,"ts":5%s}\n'
        (self.dir / "t.jsonl").write_text(line % "" * 30000 + line % f',"payload":"{"ab" * 31}"')
        self.export("t.jsonl", "t.db")
        self.check_leaves_nothing_beside("a trace?%#.db")
        with contextlib.closing(sqlite3.connect(self.dir / "t.db")) as database:
            self.assertEqual(
                database.execute("select count(*), count(payload), max(payload) from coro_trace_events").fetchone(),
                (30001, 1, "ab" * 31))
        for source in ("t.jsonl", ):
            self.export(source, "t.csv")
            text = (self.dir / "t.csv").read_text()
            self.assertEqual((text.count("ab" * 31), text.splitlines()[0]),
                             (1, "probe_id,tid,addr,seq,is_active,ts,payload"))


class Odd(tap.TestCase):
    """Traces that no engine writes, and places where none can be written: what is good is taken, what is wrong is said."""

    def setUp(self):
        self.dir = self.directory()

    def spanprof(self, *arguments, expect=0):
        return self.run_command([tap.SPANPROF, *arguments], expect, cwd=self.dir,
                                env=session.clean_environment())

    def line(self, active, ts, probe_id=9):
        return f'{{"probe_id":{probe_id},"tid":7,"addr":"0x{0 if active else 64:016x}","seq":2,"is_active":{str(active).lower()},"ts":{ts}}}\n'

    def test_times_may_be_any_number(self):
        times = (0, 1, 2**63, 2**64 - 1, 10**12)
        (self.dir / "t.jsonl").write_text("".join(
            self.line(i % 3 == 0, times[i * i % 5], probe_id=i % 4) for i in range(400)))
        self.assertEqual(json.loads(self.spanprof("report", "--json", "t.jsonl").stdout)["events"], 400)
        for output in ("t.md", "t.html", "t.folded"):
            self.spanprof("report", "t.jsonl", "-o", output)
        for kind in ("csv", "sqlite"):
            self.spanprof("corotracer", "-export", kind, "-in", "t.jsonl")
            report = json.loads(self.spanprof("report", "--json", f"t.{kind}").stdout)
            self.assertEqual(report["events"], 400)
        back = "".join(self.line(i % 2 == 0, 10**12 - 1000 * i) for i in range(100))
        (self.dir / "t.jsonl").write_text(back)
        report = json.loads(self.spanprof("report", "--json", "t.jsonl").stdout)
        self.assertEqual((report["run_ns"], report["suspended_ns"], report["unknown_stretches"]), (0, 0, 99))

    def test_a_line_without_end_is_one_bad_line(self):
        good = [self.line(i % 2 == 0, 10**12 + i) for i in range(100)]
        (self.dir / "t.jsonl").write_text("".join(good[:50]) + "x" * (3 << 20) + good[0] + "".join(good[50:]))
        report = json.loads(self.spanprof("report", "--json", "t.jsonl", expect=1).stdout)
        self.assertEqual((report["events"], report["malformed"]), (100, 1))
        self.assertIn("1 lines are no events",
                      self.spanprof("convert", "t.jsonl", "-o", "u.folded", expect=1).stderr)
        self.assertIn("1 lines of t.jsonl are no events",
                      self.spanprof("corotracer", "-export", "csv", "-in", "t.jsonl").stderr)
        (self.dir / "good.jsonl").write_text("".join(good))
        self.spanprof("corotracer", "-export", "csv", "-in", "good.jsonl")
        self.assertEqual((self.dir / "t.csv").read_text(), (self.dir / "good.csv").read_text())

    def test_a_trace_may_be_cut_anywhere(self):
        (self.dir / "t.jsonl").write_text("".join(self.line(i % 2 == 0, 10**12 + i) for i in range(200)))
        for kind, name in (("csv", "t.csv"), ("sqlite", "t.db")):
            self.spanprof("corotracer", "-export", kind, "-in", "t.jsonl", f"-{kind}-out", name)
        self.spanprof("coro", "-o", "r.jsonl", "--", VICTIM, "coroutines=3", "turns=3")
        for name in ("t.jsonl", "t.csv", "t.db", "r.jsonl"):
            data, path = (self.dir / name).read_bytes(), self.dir / f"cut{name[1:]}"
            for size in [*range(0, 64, 7), *range(64, len(data), len(data) // 20)]:
                path.write_bytes(data[:size])
                done = self.spanprof("report", "--json", path.name, expect=None)
                self.assertIn(done.returncode, (0, 1))
                self.assertTrue(done.stdout or done.stderr, (name, size))
                self.assertNotIn("Bad file descriptor", done.stderr)

    def test_a_last_number_that_may_have_lost_digits_is_no_event(self):
        """Of CSV nobody can see it; of JSON, what is cut has no brace."""
        (self.dir / "t.jsonl").write_text("".join(
            self.line(i % 2 == 0, 10**12 + 1000 * i) for i in range(10)))
        self.spanprof("corotracer", "-export", "csv", "-in", "t.jsonl")
        whole = (self.dir / "t.csv").read_text()
        for cut in (1, 2, 5, 9):
            (self.dir / "cut.csv").write_text(whole[:-cut])
            done = self.spanprof("report", "--json", "cut.csv", expect=1)
            report = json.loads(done.stdout)
            self.assertEqual((report["events"], report["malformed"], report["end_ns"]), (9, 1, 10**12 + 8000))
            self.assertIn("1 lines are no events and were left out, of which the last one is cut",
                          done.stderr)
            self.assertIn("the last one is cut",
                          self.spanprof("convert", "cut.csv", "-o", "cut.folded", expect=1).stderr)
            self.spanprof("corotracer", "-export", "csv", "-in", "cut.csv", "-csv-out", "back.csv")
            self.assertEqual((self.dir / "back.csv").read_text(), whole[:whole.rindex("\n", 0, -1) + 1])
        (self.dir / "t.jsonl").write_text("".join(self.line(True, 10**12 + i) for i in range(10)).rstrip())
        self.assertEqual(json.loads(self.spanprof("report", "--json", "t.jsonl").stdout)["events"], 10)

    def test_a_database_of_others_may_hold_anything(self):
        """Views that go on for ever, cells without a measure, numbers that SQLite has no sign for."""
        with contextlib.closing(sqlite3.connect(self.dir / "view.db")) as database:
            database.execute(
                "create view coro_trace_events as with recursive n(i) as (select 1 union all select i + 1 from n)"
                " select i id, i probe_id, 7 tid, '0x10' addr, 2 seq, 1 is_active, i ts from n")
        for arguments in (["report", "view.db"], ["corotracer", "-export", "csv", "-in", "view.db"],
                          ["convert", "view.db", "-o", "view.folded"]):
            self.assertIn("no table coro_trace_events", self.spanprof(*arguments, expect=1).stderr)
        self.spanprof("coro", "-o", "t.db", "--", VICTIM, "coroutines=3", "turns=3")
        for change in ("update coro_trace_events set payload = zeroblob(400000000)",
                       "update coro_stations set last_addr = hex(zeroblob(3000000))"):
            shutil.copy(self.dir / "t.db", self.dir / "large.db")
            with contextlib.closing(sqlite3.connect(self.dir / "large.db")) as database:
                database.execute(change + " where rowid = 1")
                database.commit()
            done = self.run_command(
                ["sh", "-c", "ulimit -v 400000; exec \"$0\" report --json large.db", tap.SPANPROF], 1,
                cwd=self.dir)
            self.assertRegex(done.stderr, "cannot be read|malformed")
            done = self.spanprof("convert", "large.db", "-o", "large.folded", expect=1)
            if "coro_stations" in change:
                self.assertIn("what it says behind its events cannot be read to the end", done.stderr)
                self.assertRegex((self.dir / "large.folded").read_text(), r"^(0x[0-9a-f]+ \d+\n)+$")
        for table in ("coro_stations", "coro_mappings"):
            with contextlib.closing(sqlite3.connect(self.dir / "t.db")) as database:
                database.execute(f"drop table {table}")
                database.execute(
                    f"create view {table} as select * from coro_trace_events, coro_trace_events, coro_trace_events"
                )
            self.assertEqual(json.loads(self.spanprof("report", "--json", "t.db").stdout)["events"], 18)

    def test_numbers_above_all_signs_come_back_from_a_database(self):
        (self.dir / "t.jsonl").write_text(
            f'{{"probe_id":{2**64 - 1},"tid":7,"addr":"0x0000000000000010","seq":2,"is_active":true,"ts":5,'
            f'"station":3,"birth":{2**63 + 5}}}\n' + json.dumps({
                "coro_stations": {
                    "pid": 0, "station": 3, "probe_id": 2**64 - 1, "birth": 2**63 + 5, "dead": True,
                    "torn": False, "corrupt": False, "read": 1, "lost": 2**63, "rejected": 0, "skipped": 0,
                    "last_ts": 2**64 - 2, "last_tid": 7, "last_addr": f"0x{2**64 - 1:016x}",
                    "is_active": True, "until": 2**64 - 1
                }
            }, separators=(",", ":")) + "\n")
        to_database(self.dir / "t.jsonl", self.dir / "u.db")
        for name in ("t.jsonl", "u.db"):
            (row,) = json.loads(self.spanprof("report", "--json", name).stdout)["coroutines"]
            self.assertEqual((row["state"], row["birth_ns"], row["lost"]), ("dead", 2**63 + 5, 2**63))

    def test_rows_without_an_event_are_a_trace(self):
        self.spanprof("coro", "-o", "t.jsonl", "--", VICTIM, "coroutines=3", "turns=3")
        rows = [line for line in (self.dir / "t.jsonl").read_text().splitlines() if "coro_" in line]
        (self.dir / "t.jsonl").write_text("\n".join(rows))
        report = json.loads(self.spanprof("report", "--json", "t.jsonl").stdout)
        self.assertEqual((report["events"], report["n_coroutines"], report["stations_known"]), (0, 3, True))

    def test_a_trace_of_no_events_is_one(self):
        (self.dir / "t.csv").write_text("probe_id,tid,addr,seq,is_active,ts\n")
        self.spanprof("corotracer", "-export", "sqlite", "-in", "t.csv", "-sqlite-out", "t.db")
        for name in ("t.csv", "t.db"):
            self.assertIn("no events to report", self.spanprof("report", name).stdout)
            self.spanprof("report", name, "-o", "t.html")

    def test_a_full_disk_is_told_and_the_program_runs_to_its_end(self):
        tap.need_root()
        full = self.dir / "full"
        full.mkdir()
        self.run_command(["mount", "-t", "tmpfs", "-o", "size=64k", "none", full], 0)
        self.addCleanup(subprocess.run, ["umount", full], check=True)
        for form in ("jsonl", "db"):
            done = self.spanprof("coro", "-o", full / f"t.{form}", "--", VICTIM, "coroutines=50", "turns=100",
                                 "pause=100", expect=125)
            self.assertIn("No space left on device" if form != "db" else "database or disk is full",
                          done.stderr)
            self.assertNotIn("CREATE TABLE", done.stderr)
            # of a database there is not room for its tables, so that the program is not started
            if form != "db":
                self.assertIn("\ndone", done.stdout)
                self.assertRegex(done.stderr, r"of \d+ events at least \d+ are not in it")
            for file in full.iterdir():
                file.unlink()
        (self.dir / "t.jsonl").write_text("".join(
            self.line(i % 2 == 0, 10**12 + i, probe_id=i) for i in range(2000)))
        for arguments in (["report", "t.jsonl", "-o", full / "u.html"],
                          *(["corotracer", "-export", kind, "-in", "t.jsonl", f"-{kind}-out", full / f"u.{kind}"]
                            for kind in ("csv", "sqlite"))):
            done = self.spanprof(*arguments, expect=1)
            self.assertRegex(done.stderr, "No space left on device|disk is full")
            for file in full.iterdir():
                file.unlink()

    def test_says_once_where_it_cannot_write(self):
        for name in ("t.jsonl", "t.db"):
            done = self.spanprof("coro", "-o", f"/nonexistent/{name}", "--", "true", expect=125)
            self.assertEqual(done.stderr.count("No such file or directory"), 1, done.stderr)


class Names(tap.TestCase):
    """Functions in reports of programs that have ended, by what the trace says of their code."""

    def setUp(self):
        self.dir = self.directory()
        self.program = tap.BUILD_DIR / "sdk/example/example-coroutines"
        if not self.program.exists():
            tap.skip("tool: the compiler has no C++20 coroutines")

    def record(self, *command, options=(), output="t.jsonl"):
        """Once more if the machine was so busy that all its coroutines waited as long as the one that nobody wakes."""
        for _ in range(10):
            done = self.run_command([tap.SPANPROF, "coro", "-o", output, *options, "--", *command], 0,
                                    cwd=self.dir, env=session.clean_environment())
            if command not in ((self.program, ), (self.dir / "program", )) or self.report(
                    output, expect=None)[0]["lost_wakeups"]:
                break
        return done

    def spanprof(self, *arguments, expect=0):
        return self.run_command([tap.SPANPROF, *arguments], expect, cwd=self.dir,
                                env=session.clean_environment())

    def report(self, name="t.jsonl", expect=0):
        """The report, and what it said on the side."""
        done = self.run_command([tap.SPANPROF, "report", "--json", "--top", "1000", name], expect,
                                cwd=self.dir, env=session.clean_environment())
        return json.loads(done.stdout), done.stderr

    def copy_program(self, *tools):
        """A program of our own to change, elsewhere than where it was built."""
        copy = self.dir / "program"
        shutil.copy(self.program, copy)
        for tool in tools:
            subprocess.run([str(word) for word in tool], check=True, cwd=self.dir)
        return copy

    def expect_named(self, report):
        (lost,) = report["lost_wakeups"]
        self.assertIn("handle_order", lost["last_function"])
        # all its coroutines are of that function; one that was never seen suspended while it lived has no
        # name
        for row in report["longest_suspensions"] + report["addresses"]:
            self.assertIn("handle_order", row.get("function", "handle_order"))

    def expect_nameless(self, report):
        (lost,) = report["lost_wakeups"]
        self.assertNotIn("last_function", lost)
        for row in report["longest_suspensions"] + report["addresses"]:
            self.assertNotIn("function", row)

    def test_coroutines_of_one_function_are_one_place(self):
        for _ in range(10):             # on a busy machine few coroutines are seen while they are suspended
            self.record(self.program)
            addresses = self.report()[0]["addresses"]
            named = [row for row in addresses if "handle_order" in row.get("function", "")]
            if len(named) > 1:
                break
        text = self.spanprof("report", "t.jsonl").stdout
        rows = [line for line in text.split("Where they were suspended")[1].split("\n\n")[0].splitlines()
                if "handle_order" in line]
        self.assertGreater(len(named), 1, addresses)
        self.assertEqual(len(rows), 1, text)
        self.assertRegex(rows[0], rf" {sum(row['times'] for row in named)} .*handle_order.*, {len(named)} addresses$")

    def test_a_lost_wake_up_has_its_function_in_each_form(self):
        for output in ("t.jsonl", "t.db"):
            self.record(self.program, output=output)
            report, said = self.report(output)
            self.expect_named(report)
            self.assertEqual(said, "")
        for file in self.dir.iterdir():
            self.assertEqual(stat.S_IMODE(file.stat().st_mode) & 0o177, 0, file)
        text = self.run_command([tap.SPANPROF, "report", "--top", "3", "t.jsonl"], 0, cwd=self.dir,
                                env={**session.clean_environment(), "COLUMNS": "80"}).stdout
        # of what does not fit, the address goes first
        self.assertRegex(text, r"lost wake-up\? +station \d+.* handle_ord")

    def test_profiles_have_the_names_and_the_place_in_the_file(self):
        """Folded stacks by name; in OTLP, build id and address in the file, as binutils see them, so that others can resolve it."""
        tap.need_tool("readelf")
        tap.need_tool("nm")
        self.record(self.program)
        self.run_command(["gzip", "-k", "t.jsonl"], 0, cwd=self.dir)
        to_database(self.dir / "t.jsonl", self.dir / "t.db")
        sums = []
        for name in ("t.jsonl", "t.db", "t.jsonl.gz"):
            self.spanprof("convert", name, "-o", "t.folded")
            sums.append((self.dir / "t.folded").read_text())
            self.assertRegex(sums[-1], r"handle_order[^;\n]* \d+\n")
        self.assertEqual(len(set(sums)), 1)
        self.spanprof("convert", "t.jsonl", "-o", "t.pb")
        self.spanprof("convert", "t.pb", "-o", "back.folded")
        self.assertEqual((self.dir / "back.folded").read_text(), sums[0])
        self.spanprof("convert", "t.jsonl", "-o", "t.json")
        tables = json.loads((self.dir / "t.json").read_text())["dictionary"]
        mapping = tables["mappingTable"][1]
        # a coroutine that was never seen suspended while it lived has its frame's address, which is no code
        addresses = {
            int(location.get("address", 0)) for location in tables["locationTable"]
            if location.get("mappingIndex")
        }
        values = [attribute.get("value", {}).get("stringValue") for attribute in tables["attributeTable"]]
        notes = subprocess.run(["readelf", "-n", self.program], stdout=subprocess.PIPE, text=True,
                               check=True).stdout
        self.assertIn(
            re.search(r"Build ID: ([0-9a-f]+)", notes)[1], [values[i] for i in mapping["attributeIndices"]])
        symbols = subprocess.run(["nm", "-C", self.program], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
        self.assertTrue(addresses)
        self.assertLessEqual(
            addresses, {int(line.split()[0], 16) for line in symbols.splitlines() if "handle_order" in line})
        headers = subprocess.run(["readelf", "-lW", self.program], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
        (code,) = (line.split() for line in headers.splitlines() if re.search(r"LOAD.* R E ", line))
        self.assertEqual(
            int(mapping["memoryStart"]) - int(mapping["fileOffset"]),
            int(code[2], 16) - int(code[1], 16))

    def test_a_part_of_a_trace_is_still_one(self):
        """Also of one whose engine was killed: it has no rows, and no names."""
        self.record(self.program)
        whole = (self.dir / "t.jsonl").read_text().splitlines(keepends=True)
        n = len(events_of(self.dir / "t.jsonl"))
        (self.dir / "t.jsonl").write_text("".join(whole[200:n - 100:2] + whole[n:]))
        report, said = self.report()
        self.assertEqual((report["stations_known"], said), (True, ""))
        (self.dir / "t.jsonl").write_text("".join(whole[:n]))
        report, said = self.report()
        self.assertEqual((report["stations_known"], report["n_coroutines"], said), (False, 40, ""))
        self.assertNotIn("function", json.dumps(report["addresses"]))
        self.spanprof("convert", "t.jsonl", "-o", "x.folded")
        self.assertNotIn("handle_order", (self.dir / "x.folded").read_text())

    def test_addresses_of_code_have_functions_of_whoever_was_there(self):
        """Two programs with regions of their own, read into one trace: each address is looked up where it was."""
        tap.need_root()
        children = []
        for _ in range(2):
            child = self.spawn([tap.VICTIMS / "victim-suspended", self.dir / "log"], stdin=subprocess.PIPE,
                               env=session.clean_environment())
            child.wait_for("^pid")
            children.append(child)
        reader = self.spawn([
            tap.SPANPROF, "coro", "--pid", ",".join(str(child.pid) for child in children), "-o",
            self.dir / "t.jsonl"
        ])
        reader.wait_for(f"process {children[1].pid}: region")
        for child in children:
            child.process.stdin.write(b"go\n")
            child.process.stdin.flush()
        for child in children:
            child.wait_for("^ok")
        for child in children:
            child.kill()
        self.assertEqual(reader.wait(), 0)
        names = subprocess.run(["nm", tap.VICTIMS / "victim-suspended"], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.splitlines()
        places = {
            int(line.split()[0], 16) & 0xfff: line.split()[2] for line in names
            if line.split()[-1].startswith("wait_for_")
        }
        report, _said = self.report()
        self.assertEqual({c["pid"] for c in report["coroutines"]}, {child.pid for child in children})
        for c in report["coroutines"]:      # one of each waits at a place in memory where no code is
            self.assertEqual(c.get("last_function"),
                             None if c["station"] == 24 else places[int(c["last_address"], 16) & 0xfff], c)
        self.assertEqual({row["function"] for row in report["addresses"]}, set(places.values()))

    def test_several_programs_of_one_command(self):
        self.record("sh", "-c", f"{self.program} & {self.program}; wait")
        report, _said = self.report()
        self.assertEqual(len(report["lost_wakeups"]), 2)
        for lost in report["lost_wakeups"]:
            self.assertIn("handle_order", lost["last_function"])
        self.assertEqual(len({row["process"] for row in rows(self.dir / "t.jsonl", "coro_mappings")}), 2)
        self.assertEqual(len({row["process"] for row in stations(self.dir / "t.jsonl").values()}), 2)

    def test_debug_files_have_the_names_of_stripped_programs(self):
        tap.need_tool("objcopy")
        program = self.copy_program(["objcopy", "--only-keep-debug", "program", "program.debug"],
                                    ["objcopy", "--strip-all", "program"],
                                    ["objcopy", "--add-gnu-debuglink=program.debug", "program"])
        self.record(program)
        self.expect_named(self.report()[0])
        (self.dir / "program.debug").unlink()
        report, said = self.report()
        self.expect_nameless(report)
        # of the exported ones that are left, none is there
        self.assertRegex(said, "^$|program: stripped")

    def test_another_build_lends_no_names(self):
        program = self.copy_program()
        self.record(program)
        shutil.copy(VICTIM, program)
        report, said = self.report()
        self.expect_nameless(report)
        self.assertIn(f"{program}: another build on this machine; addresses in it have no names", said)
        program.unlink()
        report, said = self.report()
        self.expect_nameless(report)
        self.assertIn(f"{program}: not on this machine", said)

    def test_what_is_said_of_code_may_be_anything(self):
        """Of another run, missing, garbage, hostile: no wrong name, no lost event, no hang, and it is said."""
        self.record(self.program)
        path = self.dir / "t.jsonl"
        text = path.read_text().splitlines(keepends=True)
        events = "".join(line for line in text if "coro_mappings" not in line)
        good = [line for line in text if "coro_mappings" in line]
        (build_id, ) = {row["build_id_gnu"] for row in rows(path, "coro_mappings")
                        if row["path"] == str(self.program)}
        n_events = self.report()[0]["events"]
        self.record(self.program, output="other.jsonl")
        others = [line for line in (self.dir / "other.jsonl").read_text().splitlines(keepends=True)
                  if "coro_mappings" in line]
        twice = [line.replace(build_id, "00" * 20) for line in good]
        for mappings, status, said in (
            (others, 0, ""), ([], 0, ""), (twice, 0, "not on this machine|another build"),
            (good + twice, 0, ""),
            ([line.replace("/example-coroutines", "/none").replace(build_id, "") for line in good], 0,
             "no build id|not on this"),
            (['{"coro_mappings":garbage}\n', '{"coro_mappings":{"path":"' + "x" * 100000 + '"}}\n',
              '{"coro_mappings":\0}\n'], 1, "3 of its mappings are malformed")):
            path.write_text(events + "".join(mappings))
            report, told = self.report(expect=status)
            self.expect_nameless(report)
            self.assertEqual(report["events"], n_events)
            self.assertRegex(told, said or "^$")
        whole = "".join(good)
        for cut in range(1, len(whole), 197):
            path.write_text(events + whole[:cut])
            report, _told = self.report(expect=None)
            self.assertEqual(report["events"], n_events)
        path.write_text(events + whole.replace(str(self.program), "/dev/zero"))
        self.expect_nameless(self.report()[0])

    def test_nothing_of_it_is_kept_where_nobody_wants_it(self):
        self.record(self.program, options=["--no-places"])
        self.assertEqual(sorted(file.name for file in self.dir.iterdir()), ["t.jsonl"])
        self.assertEqual(rows(self.dir / "t.jsonl", "coro_mappings"), [])
        self.assertEqual({row["process"] for row in stations(self.dir / "t.jsonl").values()}, {"0"})
        self.expect_nameless(self.report()[0])

    def test_a_user_without_rights_gets_the_same(self):
        tap.need_root()
        self.dir.chmod(0o777)
        if subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", "test", "-x",
                           self.program]).returncode:
            tap.skip("machine: the build is not readable for others")
        self.run_command([
            "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", tap.SPANPROF, "coro", "-o",
            "t.jsonl", "--", self.program
        ], 0, cwd=self.dir, env=session.clean_environment())
        self.expect_named(self.report()[0])


class Sdk(tap.TestCase):
    """The writers of sdk/: C++20 coroutines on four threads, one of which waits for ever."""

    def test_the_order_of_an_event_s_stores_is_kept_on_aarch64(self):
        """There a store may pass another one: odd seq, fence, fields, even seq as a release, a full fence before the look at the sleeper."""
        output = self.directory() / "coroutine.s"
        # no header of glibc is there for another machine
        headers = pathlib.Path("/usr/include/x86_64-linux-musl")
        if not headers.exists():
            tap.skip("tool: musl-dev is not installed")
        self.run_command([
            tap.need_tool("clang"), "--target=aarch64-linux-gnu", "-O2", "-std=c11", "-D_GNU_SOURCE",
            "-D__GLIBC__=2", "-fPIC", "-S", "-nostdlibinc", "-I", headers, "-I",
            tap.SOURCE_DIR / "sdk/include", "-o", output, tap.SOURCE_DIR / "sdk/src/coroutine.c"
        ], 0)
        code = re.search(r"^put_event:(.*?)^\.Lfunc_end", output.read_text(), re.M | re.S)[1]
        before, fields, after = re.fullmatch(
            r"(.*?)\tdmb\tish\n(.*?)\tstlr\tx\d+, \[x\d+\]\n\tdmb\tish\n(.*)", code, re.S).groups()
        stored = [
            set(re.findall(r"\tstrb?\t[wx]\d+, \[x\d+, #(64|80|88|127)\]", part))
            for part in (before, fields, after)
        ]
        # seq; time, address and state (the id goes by a register)
        self.assertEqual(stored, [{"88"}, {"64", "80", "127"}, set()], code)
        self.assertRegex(after, r"^(?:.*\n){0,3}\tldr\tw\d+, \[x\d+, #20\]")

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
        self.assertEqual([(row["probe_id"], int(row["last_addr"], 16)) for row in stuck],
                         [(planted[1], int(planted[2], 16))])
        for row in rows.values():   # 20 yields and a payment: a suspend and a resume each
            self.assertEqual(int(row["read"]) + int(row["lost"]), 41 if row in stuck else 42)
        self.assertIn("(seqlock dialect)", done.stderr)
        to_database(directory / "t.jsonl", directory / "t.db")
        for form in (".jsonl", ".db"):
            report = json.loads(
                self.run_command([tap.SPANPROF, "report", "--json", "--top", "100", directory / f"t{form}"],
                                 0).stdout)
            self.assertEqual(waiting(report["coroutines"]), {int(stuck[0]["station"])})
            (waits,) = (c for c in report["coroutines"] if c["state"] != "dead")
            self.assertEqual((int(waits["probe_id"], 16), int(waits["last_address"], 16)),
                             (int(planted[1]), int(planted[2], 16)))
            self.assertGreaterEqual(waits["state_ns"], 500e6,
                                    "the program has waited so long before it gave up")
        # untraced
        self.assertEqual(self.run_command([program], 0).stdout.splitlines()[-1], "39 of 40 orders are done")


if __name__ == "__main__":
    tap.main()
