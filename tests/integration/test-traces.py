#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of coroutines after the program has ended: converted from each form to each other, and reported."""
import collections
import contextlib
import csv
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
from stations import VICTIM, stations, waiting


class Convert(tap.TestCase):
    """`spanprof convert` between the forms of a trace."""

    def convert(self, *names, expect=0):
        return self.run_command([tap.SPANPROF, "convert", *names[:-1], "-o", names[-1]], expect, cwd=self.dir,
                                env=session.clean_environment())

    def setUp(self):
        self.dir = self.directory()

    def record(self, *victim):
        self.run_command([
            tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", VICTIM, "coroutines=20", "turns=30",
            *victim
        ], 0)
        return (self.dir / "t.jsonl").read_text()

    def test_comes_back_the_same_through_all_forms(self):
        for _ in range(20):             # an engine that has its CPU loses nothing
            text = self.record("payload=1")
            if '"lost":' in text:
                break
        for chain in (("t.jsonl", "a.csv", "a.jsonl"), ("t.jsonl", "b.db", "b.jsonl"), ("t.jsonl", "c.csv",
                                                                                        "c.db", "c.jsonl")):
            for names in zip(chain, chain[1:]):
                self.convert(*names)
            self.assertEqual((self.dir / chain[-1]).read_text(), text)

    def test_keeps_the_columns_of_a_trace_that_has_no_more(self):
        line = '{"probe_id":9,"tid":7,"addr":"0x0000000000000010","seq":2,"is_active":true,"ts":5}\n'
        (self.dir / "t.jsonl").write_text(line * 3)
        self.convert("t.jsonl", "t.csv")
        self.assertEqual((self.dir / "t.csv").read_text(),
                         "probe_id,tid,addr,seq,is_active,ts\n" + "9,7,0x0000000000000010,2,true,5\n" * 3)
        self.convert("t.csv", "t.csv.jsonl")
        self.assertEqual((self.dir / "t.csv.jsonl").read_text(), line * 3)

    def test_writes_all_that_is_good_and_says_what_is_not(self):
        text = self.record()
        (self.dir / "cut.jsonl").write_text(text[:-30])
        done = self.convert("cut.jsonl", "cut.csv", expect=1)
        self.assertIn("1 lines", done.stderr)
        self.assertEqual((self.dir / "cut.csv").read_text().count("\n"), text.count("\n"))

    def record_two(self):
        """x.jsonl and t.jsonl of two runs, with their side files."""
        self.record()
        for file in self.dir.glob("t.*"):
            file.rename(self.dir / f"x{file.name[1:]}")
        self.record()

    def rows(self, name):
        """Coroutines of a side file."""
        return {(row["birth"], row["probe_id"], row["read"]) for row in stations(self.dir / name).values()}

    def test_leaves_side_files_of_another_trace_alone(self):
        """t.jsonl and t.csv have one name for their side files."""
        self.record_two()
        before = {file: file.read_text() for file in self.dir.glob("t.*.csv")}
        self.assertIn(self.dir / "t.stations.csv", before)
        done = self.convert("x.jsonl", "t.csv", expect=1)
        self.assertIn("would replace those of t.jsonl:", done.stderr)
        self.assertFalse((self.dir / "t.csv").exists())
        (self.dir / "t.jsonl").rename(self.dir / "t.jsonl.gz")          # its name counts, not what is in it
        done = self.convert("x.jsonl", "t.csv", expect=1)
        self.assertIn("would replace those of t.jsonl.gz:", done.stderr)
        (self.dir / "t.jsonl.gz").rename(self.dir / "t.jsonl")
        self.convert("t.jsonl", "u.db")
        for inputs in (["t.jsonl"], ["u.db"]):          # the same coroutines: nothing is lost
            self.convert(*inputs, "t.csv")
            self.assertEqual({file: file.read_text() for file in before}, before)
        self.convert("x.jsonl", "y.csv")
        self.convert("u.db", "y.csv")                   # an output that is replaced has no claim
        self.assertEqual(self.rows("y.csv"), self.rows("t.csv"))

    def test_reads_side_files_before_it_replaces_them(self):
        self.record_two()
        want = self.count("x") + self.count("t")
        done = self.convert("x.jsonl", "t.jsonl", "t.csv")
        self.assertNotIn("of another trace", done.stderr)
        self.assertEqual(self.count("t"), want)
        self.assertLessEqual({file.name for file in self.dir.glob("t.*")},
                             {"t.csv", "t.jsonl", "t.mappings.csv", "t.stations.csv"})

    def test_leaves_the_side_files_of_an_old_trace_if_it_cannot_replace_it(self):
        self.record_two()
        self.convert("x.jsonl", "y.csv")
        names = ("y.csv", "y.stations.csv")
        before = {name: (self.dir / name).read_text() for name in names}
        limit = len(before["y.stations.csv"]) + 4096
        self.assertGreater((self.dir / "t.jsonl").stat().st_size, 2 * limit, "only the events are too many")
        done = self.run_command(
            ["sh", "-c", f"trap '' XFSZ; exec prlimit --fsize={limit} -- \"$@\"", "sh", tap.SPANPROF, "convert",
             "t.jsonl", "-o", "y.csv"], 1, cwd=self.dir, env=session.clean_environment())
        self.assertIn("File too large", done.stderr)
        self.assertEqual({name: (self.dir / name).read_text() for name in names}, before)

    def count(self, stem):
        return sum(file.read_text().count("\n") - 1 for file in self.dir.glob(f"{stem}.*.csv"))

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
        self.convert("t.jsonl", "t.csv")
        for source in ("t.jsonl", "t.csv"):
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
        for name in ("t.jsonl", "t.stations.csv"):
            (self.dir / name).rename(self.dir / f"a{name[1:]}")
        self.record()
        for output in ("both.db", "both.csv"):
            done = self.convert("a.jsonl", "t.jsonl", output)
            self.assertNotIn("in an earlier trace", done.stderr)
            report = json.loads(
                self.run_command([tap.SPANPROF, "report", "--json", "--top", "100", self.dir / output],
                                 0).stdout)
            self.assertEqual(report["n_coroutines"], 40)
            self.assertEqual({row["state"] for row in report["coroutines"]}, {"dead"})
            self.assertEqual(report["events"] + report["lost"], 2 * 20 * 30 * 2)
        with contextlib.closing(sqlite3.connect(self.dir / "both.db")) as database:
            self.assertEqual(
                database.execute("select count(*), count(distinct birth) from coro_stations").fetchone(),
                (40, 40))
        line = '{"probe_id":%d,"tid":7,"addr":"0x0000000000000010","seq":2,"is_active":true,"ts":5}\n'
        (self.dir / "x.jsonl").write_text(line % 8 + line % 9 + line % 9)
        (self.dir / "y.jsonl").write_text(line % 9 + line % 10 + line % 9)
        warning = "y.jsonl: 1 of its coroutines was in an earlier trace"
        self.assertIn(warning, self.convert("x.jsonl", "y.jsonl", "z.db").stderr)
        self.assertIn(
            warning,
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
        self.convert("t.jsonl", "t.db")
        self.check_leaves_nothing_beside("a trace?%#.db")
        for source in ("t.jsonl", "t.db"):
            self.convert(source, "t.csv")
            text = (self.dir / "t.csv").read_text()
            self.assertEqual((text.count("ab" * 31), text.splitlines()[0]),
                             (1, "probe_id,tid,addr,seq,is_active,ts,payload"))

    def test_refuses_what_it_cannot_do(self):
        text = self.record()
        self.assertIn("input and output", self.convert("t.jsonl", "./t.jsonl", expect=1).stderr)
        self.assertEqual((self.dir / "t.jsonl").read_text(), text)
        (self.dir / "x").write_bytes(bytes(range(256)))
        self.assertIn("no trace", self.convert("x", "x.csv", expect=1).stderr)
        self.assertFalse((self.dir / "x.csv").exists())


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
        for output in ("t.md", "t.html", "t.folded", "t.db", "t.csv"):
            self.spanprof("convert" if output in ("t.db", "t.csv") else "report", "t.jsonl", "-o", output)
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
                      self.spanprof("convert", "t.jsonl", "-o", "u.jsonl", expect=1).stderr)
        self.assertEqual((self.dir / "u.jsonl").read_text(), "".join(good))

    def test_a_trace_may_be_cut_anywhere(self):
        (self.dir / "t.jsonl").write_text("".join(self.line(i % 2 == 0, 10**12 + i) for i in range(200)))
        for name in ("t.csv", "t.db"):
            self.spanprof("convert", "t.jsonl", "-o", name)
        for name in ("t.jsonl", "t.csv", "t.db"):
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
        self.spanprof("convert", "t.jsonl", "-o", "t.csv")
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
            self.assertIn("the last one is cut",
                          self.spanprof("convert", "cut.csv", "-o", "back.csv", expect=1).stderr)
            self.assertEqual((self.dir / "back.csv").read_text(), whole[:whole.rindex("\n", 0, -1) + 1])
        (self.dir / "t.jsonl").write_text("".join(self.line(True, 10**12 + i) for i in range(10)).rstrip())
        self.assertEqual(json.loads(self.spanprof("report", "--json", "t.jsonl").stdout)["events"], 10)

    def test_a_database_of_others_may_hold_anything(self):
        """Views that go on for ever, cells without a measure, numbers that SQLite has no sign for."""
        with contextlib.closing(sqlite3.connect(self.dir / "view.db")) as database:
            database.execute(
                "create view coro_trace_events as with recursive n(i) as (select 1 union all select i + 1 from n)"
                " select i id, i probe_id, 7 tid, '0x10' addr, 2 seq, 1 is_active, i ts from n")
        for arguments in (["report", "view.db"], ["convert", "view.db", "-o",
                                                  "view.csv"], ["convert", "view.db", "-o", "view.folded"]):
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
        for table in ("coro_stations", "coro_mappings"):
            with contextlib.closing(sqlite3.connect(self.dir / "t.db")) as database:
                database.execute(f"drop table {table}")
                database.execute(
                    f"create view {table} as select * from coro_trace_events, coro_trace_events, coro_trace_events"
                )
            self.assertEqual(json.loads(self.spanprof("report", "--json", "t.db").stdout)["events"], 18)

    def test_numbers_above_all_signs_come_back_from_a_database(self):
        rows = f"pid,station,probe_id,birth,dead,torn,corrupt,read,lost,rejected,skipped,last_ts,last_tid,last_addr,is_active,until\n" \
               f"0,3,{2**64 - 1},{2**63 + 5},1,0,0,1,{2**63},0,0,{2**64 - 2},7,0x{2**64 - 1:016x},1,{2**64 - 1}\n"
        (self.dir / "t.stations.csv").write_text(rows)
        (self.dir / "t.jsonl").write_text(
            f'{{"probe_id":{2**64 - 1},"tid":7,"addr":"0x0000000000000010","seq":2,"is_active":true,"ts":5,'
            f'"station":3,"birth":{2**63 + 5}}}\n')
        self.spanprof("convert", "t.jsonl", "-o", "u.db")
        self.spanprof("convert", "u.db", "-o", "v.jsonl")
        self.assertEqual((self.dir / "v.stations.csv").read_text().splitlines()[1].split(",")[:16],
                         rows.splitlines()[1].split(","))
        for name in ("t.jsonl", "u.db", "v.jsonl"):
            (row,) = json.loads(self.spanprof("report", "--json", name).stdout)["coroutines"]
            self.assertEqual((row["state"], row["birth_ns"], row["lost"]), ("dead", 2**63 + 5, 2**63))

    def test_a_trace_of_no_events_is_one(self):
        (self.dir / "t.csv").write_text("probe_id,tid,addr,seq,is_active,ts\n")
        self.spanprof("convert", "t.csv", "-o", "t.db")
        for name in ("t.csv", "t.db"):
            self.assertIn("no events to report", self.spanprof("report", name).stdout)
            self.spanprof("report", name, "-o", "t.html")

    def test_a_full_disk_is_told_and_the_program_runs_to_its_end(self):
        tap.need_root()
        full = self.dir / "full"
        full.mkdir()
        self.run_command(["mount", "-t", "tmpfs", "-o", "size=64k", "none", full], 0)
        self.addCleanup(subprocess.run, ["umount", full], check=True)
        for form in ("jsonl", "csv", "db"):
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
        for form in ("csv", "jsonl", "db", "html"):
            done = self.spanprof("report" if form == "html" else "convert", "t.jsonl", "-o",
                                 full / f"u.{form}", expect=1)
            self.assertRegex(done.stderr, "No space left on device|disk is full")
            for file in full.iterdir():
                file.unlink()

    def test_says_once_where_it_cannot_write(self):
        for name in ("t.jsonl", "t.csv", "t.db"):
            done = self.spanprof("coro", "-o", f"/nonexistent/{name}", "--", "true", expect=125)
            self.assertEqual(done.stderr.count("No such file or directory"), 1, done.stderr)


class Names(tap.TestCase):
    """Functions in reports of programs that have ended, by what stands beside the trace of their code."""

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
        for output in ("t.jsonl", "t.csv", "t.db"):
            self.record(self.program, output=output)
            report, said = self.report(output)
            self.expect_named(report)
            self.assertEqual(said, "")
        for file in self.dir.iterdir():
            self.assertEqual(stat.S_IMODE(file.stat().st_mode) & 0o177, 0, file)
        text = self.run_command([tap.SPANPROF, "report", "--top", "3", "t.csv"], 0, cwd=self.dir,
                                env={**session.clean_environment(), "COLUMNS": "80"}).stdout
        # of what does not fit, the address goes first
        self.assertRegex(text, r"lost wake-up\? +station \d+.* handle_ord")

    def test_conversion_carries_it_along(self):
        self.record(self.program)
        before = (self.dir / "t.mappings.csv").read_text()
        for name in ("a.db", "b.csv", "c.jsonl"):
            self.run_command([tap.SPANPROF, "convert", "t.jsonl" if name == "a.db" else last, "-o", name], 0,
                             cwd=self.dir)
            last = name
            self.expect_named(self.report(name)[0])
        self.assertEqual((self.dir / "c.mappings.csv").read_text(), before)
        self.assertEqual(stations(self.dir / "c.jsonl"), stations(self.dir / "t.jsonl"))

    def test_profiles_have_the_names_and_the_place_in_the_file(self):
        """Folded stacks by name; in OTLP, build id and address in the file, as binutils see them, so that others can resolve it."""
        tap.need_tool("readelf")
        tap.need_tool("nm")
        self.record(self.program)
        self.run_command(["gzip", "-k", "t.jsonl"], 0, cwd=self.dir)
        for name in ("t.csv", "t.db"):
            self.spanprof("convert", "t.jsonl", "-o", name)
        sums = []
        for name in ("t.jsonl", "t.csv", "t.db", "t.jsonl.gz"):
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

    def test_files_of_another_trace_are_not_believed(self):
        """A trace that somebody has put beside files of another one, and one whose engine was killed."""
        self.record(self.program)
        stale = {kind: (self.dir / f"t.{kind}.csv").read_text() for kind in ("stations", "mappings")}
        self.record(self.program, output="other.jsonl")
        (self.dir / "other.jsonl").rename(self.dir / "t.jsonl")
        for arguments in (["report", "--json", "t.jsonl"], ["convert", "t.jsonl", "-o",
                                                            "x.db"], ["convert", "t.jsonl", "-o",
                                                                      "x.folded"]):
            done = self.spanprof(*arguments)
            self.assertRegex(
                done.stderr,
                r"t\.jsonl: what stands beside it \(t\.stations\.csv, t\.mappings\.csv\) is of another trace")
        for name in ("t.jsonl", "x.db"):
            report, _said = self.report(name)
            self.assertEqual((report["stations_known"], report["n_coroutines"]), (False, 40))
            self.assertNotIn("function", json.dumps(report["addresses"]))
        self.assertNotIn("handle_order", (self.dir / "x.folded").read_text())
        (self.dir / "t.stations.csv").unlink()          # … nor are mappings alone
        self.assertIn("of another trace", self.report()[1])
        # a part of a trace is still of it
        self.record(self.program)
        whole = (self.dir / "t.jsonl").read_text().splitlines(keepends=True)
        (self.dir / "t.jsonl").write_text("".join(whole[200:-100:2]))
        report, said = self.report()
        self.assertEqual((report["stations_known"], said), (True, ""))
        # what an engine finds from before is gone when it starts, not when it ends
        for kind, text in stale.items():
            (self.dir / f"t.{kind}.csv").write_text(text)
        engine = self.spawn(
            [tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", "sh", "-c", "echo begins; sleep 60"],
            env=session.clean_environment())
        engine.wait_for("^begins")
        self.assertEqual(sorted(file.name for file in self.dir.glob("t.*")), ["t.jsonl"])
        engine.kill()

    def test_files_that_no_trace_has_left_are_left_alone(self):
        for text, make in (("mine", None), (None, "mkdir"), (None, "mkfifo")):
            name = self.dir / "t.stations.csv"
            if text:
                name.write_text(text)
            else:
                subprocess.run([make, name], check=True)
            (self.dir / "t.jsonl").write_text("old")
            (self.dir / "t.mappings.csv").write_text("")
            done = self.run_command([tap.SPANPROF, "coro", "-o", "t.jsonl", "--", "true"], 125, cwd=self.dir,
                                    env=session.clean_environment())
            self.assertIn("t.stations.csv: there is a file that no trace has left; it is left alone",
                          done.stderr)
            self.assertEqual((self.dir / "t.jsonl").read_text(), "old")
            self.assertTrue((self.dir / "t.mappings.csv").exists())
            if text:
                self.assertEqual(name.read_text(), text)
            name.rmdir() if name.is_dir() else name.unlink()

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
        with open(self.dir / "t.mappings.csv", newline="") as file:
            self.assertEqual(len({row["process"] for row in csv.DictReader(file)}), 2)
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

    def test_what_stands_beside_may_be_anything(self):
        """Of another run, missing, garbage, a pipe, hostile: no wrong name, no lost event, no hang, and it is said."""
        self.record(self.program)
        path = self.dir / "t.mappings.csv"
        good = path.read_text()
        n_events = self.report()[0]["events"]
        self.record(self.program, output="other.jsonl")
        header, *rows = good.splitlines(keepends=True)
        twice = "".join(row.replace(row.split(",")[5], "00" * 20) for row in rows)
        for text, status, said in (((self.dir / "other.mappings.csv").read_text(), 0, ""), ("", 0, ""),
                                   (header, 0, ""), (header + twice, 0, "not on this machine|another build"),
                                   (good + twice, 0,
                                    ""), (good.replace("/example-coroutines",
                                                       "/none").replace(rows[0].split(",")[5],
                                                                        ""), 0, "no build id|not on this"),
                                   (header + "garbage\n" + "x" * 100000 + "\n\0\n", 1,
                                    "3 of its mappings are malformed")):
            path.write_text(text)
            report, told = self.report(expect=status)
            self.expect_nameless(report)
            self.assertEqual(report["events"], n_events)
            self.assertRegex(told, said or "^$")
        for cut in range(1, len(good), 97):
            path.write_text(good[:cut])
            report, _told = self.report(expect=None)
            self.assertEqual(report["events"], n_events)
        path.write_text(good.replace(str(self.program), "/dev/zero"))
        self.expect_nameless(self.report()[0])
        path.unlink()
        os.mkfifo(path)
        self.expect_nameless(self.report()[0])
        path.unlink()
        self.expect_nameless(self.report()[0])

    def test_nothing_of_it_is_kept_where_nobody_wants_it(self):
        self.record(self.program, options=["--no-places"])
        self.assertEqual(sorted(file.name for file in self.dir.iterdir()), ["t.jsonl", "t.stations.csv"])
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
        for form in (".jsonl", ".csv", ".db"):
            if form != ".jsonl":
                self.run_command(
                    [tap.SPANPROF, "convert", directory / "t.jsonl", "-o", directory / f"t{form}"], 0)
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
