#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof coro` and `spanprof corotracer` around programs that know what they wrote (tests/lib/victim-stations.c).

The main book, in each test that can keep it: for each station, events in the trace + events said to be lost = events
that the program says it wrote.
"""
import collections
import csv
import json
import os
import pathlib
import pty
import re
import signal
import sqlite3
import stat
import struct
import subprocess
import time

import session
import tap

VICTIM = tap.BUILD_DIR / "tests/lib/victim-stations"
BOTH = ("seqlock", "document")


def wrote(text):
    """station → (events, last address), as the victim says."""
    return {int(m[1]): (int(m[2]), int(m[3], 16)) for m in re.finditer(r"^wrote (\d+) (\d+) (0x[0-9a-f]+)$", text, re.M)}


def stations(path):
    """station → row of the second file."""
    with open(path.with_suffix(".stations.csv"), newline="") as file:
        return {int(row["station"]): row for row in csv.DictReader(file)}


def waiting(coroutines):
    """Stations of those that a report in JSON tells to be suspended at the end; a long wait is one that may be lost."""
    found = {c["station"]: c for c in coroutines if c["state"] in ("suspended", "lost wake-up?")}
    for c in found.values():
        assert (c["state"] == "lost wake-up?") == (c["state_ns"] >= max(100e6, 10 * c["longest_suspend_ns"])), c
    return set(found)


def region_truth(path):
    """station → (events written, a write is half done, events of a seqlock's slots), by the protocol's own text."""
    data, found = path.read_bytes(), {}
    for station in range(min(struct.unpack_from("<I", data, 0x10)[0], len(data) // 1024 - 1)):
        seqs = [struct.unpack_from("<Q", data, 1024 * (1 + station) + 0x40 + 64 * slot + 0x18)[0] for slot in range(8)]
        document = seqs[1] % 8 == 1 and seqs[0] % 8 == 0
        found[station] = (max(seqs), False) if document else (sum(seq >> 1 for seq in seqs), any(seq % 2 for seq in seqs))
    return found


def keepers_of(pid):
    """Keepers that are children of @pid, or were: their session is their own, their command line ours."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text()
        except OSError:
            continue
        if "(spanprof-keepe" in fields and int(fields.rsplit(")", 1)[1].split()[1]) == pid:
            found.append(int(process.name))
    return found


class Coro(tap.TestCase):
    def setUp(self):
        self.dir = self.directory()
        self.env = {**session.clean_environment(), "TMPDIR": str(self.dir)}

    def coro(self, *victim, options=(), output="t.jsonl", expect=0, **more):
        done = self.run_command([tap.SPANPROF, "coro", "-o", self.dir / output, *options, "--", VICTIM, *victim], expect=expect,
                                env=self.env, **more)
        return done

    def events(self, output="t.jsonl"):
        return [json.loads(line) for line in (self.dir / output).read_text().splitlines()]

    def check_books(self, done, output="t.jsonl"):
        """Each event of each station is in the trace or said to be lost, in order."""
        truth, rows = wrote(done.stdout if hasattr(done, "stdout") else done.out), stations(self.dir / output)
        by_station = collections.defaultdict(list)
        for event in self.events(output):
            by_station[event["station"]].append(event)
        self.assertEqual(set(truth), set(rows))
        for station, (n, _last) in truth.items():
            row, seen = rows[station], by_station[station]
            self.assertEqual(len(seen), int(row["read"]))
            self.assertEqual(len(seen) + int(row["lost"]), n, row)
            expected = 0
            for event in seen:
                expected += event.get("lost", 0)
                self.assertEqual(event["event"], expected)
                self.assertEqual(event["is_active"], event["event"] % 2 == 1)
                expected += 1
        return truth, rows, by_station

    def test_accounts_for_every_event_of_a_thousand_coroutines_on_eight_threads(self):
        for dialect in BOTH:
            with self.subTest(dialect):
                done = self.coro("coroutines=1000", "threads=8", "turns=50", f"dialect={dialect}")
                truth, _rows, by_station = self.check_books(done)
                self.assertEqual(sum(n for n, _ in truth.values()), 100000)
                self.assertIn(f"({dialect} dialect)", done.stderr)
                self.assertGreater(len({event["tid"] for events in by_station.values() for event in events}), 1)

    def test_loses_nothing_that_comes_slowly(self):
        done = self.coro("coroutines=20", "turns=10", "pause=2000")
        _truth, rows, by_station = self.check_books(done)
        lost = sum(int(row["lost"]) for row in rows.values())
        self.assertEqual(sum(map(len, by_station.values())) + lost, 400)
        # two events a station and 40 ms: a loss needs a harvest that stood still for 160 ms
        self.assertEqual(lost, 0, done.stderr)

    def test_says_what_a_burst_has_lost(self):
        for dialect in BOTH:
            done = self.coro("coroutines=4", "turns=20", "awaits=1000", f"dialect={dialect}")
            _truth, rows, _ = self.check_books(done)
            lost = sum(int(row["lost"]) for row in rows.values())
            # 2,000 events at once, of which a station keeps eight: who follows closely may lose none
            n = sum(row["lost"] != "0" for row in rows.values())
            if lost:
                self.assertRegex(done.stderr, rf"{lost} of 160000 events .* overwritten .*, at {n} stations")
            else:
                self.assertNotIn("overwritten", done.stderr)

    def test_finds_the_coroutines_that_never_wake_up(self):
        done = self.coro("coroutines=50", "threads=4", "hang=3", "turns=30")
        truth, rows, _ = self.check_books(done)
        stuck = {station for station, row in rows.items() if row["dead"] == "0" and row["is_active"] == "0"}
        self.assertEqual(stuck, {47, 48, 49})
        for station in stuck:
            self.assertEqual(int(rows[station]["last_addr"], 16), truth[station][1])
        self.assertIn("3 coroutines were still suspended", done.stderr)

    def test_a_planted_deadlock_is_reported_as_exactly_those(self):
        for dialect in BOTH:
            done = self.coro("coroutines=1000", "threads=8", "hang=7", "turns=10", f"dialect={dialect}", output=f"{dialect}.jsonl")
            report = json.loads(self.run_command([tap.SPANPROF, "report", "--json", "--top", "2000", self.dir / f"{dialect}.jsonl"], 0).stdout)
            self.assertEqual(report["n_coroutines"], 1000)
            self.assertEqual(waiting(report["coroutines"]), set(range(993, 1000)))
            last = {station: address for station, (_, address) in wrote(done.stdout).items()}
            for c in report["coroutines"]:
                if c["station"] >= 993:
                    self.assertEqual(int(c["last_address"], 16), last[c["station"]])

    def test_books_are_right_whenever_the_target_is_killed(self):
        """At no chosen moment: what the region says afterwards, read here, is in the trace or counted as lost."""
        n_torn = 0
        for turn in range(10):
            region, dialect = self.dir / f"region-{turn}", BOTH[turn % 2]
            child = self.spawn([tap.SPANPROF, "coro", "-o", self.dir / f"{turn}.jsonl", "-n", "64", "--region", region, "--", VICTIM,
                                "coroutines=64", "threads=4", "turns=100000000", f"dialect={dialect}"], env=self.env)
            child.wait_for("^ready")
            os.link(region, self.dir / f"kept-{turn}")          # the engine removes its name only
            target = tap.wait_until(lambda: next((int(pid) for pid in pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
                                                  if "victim" in pathlib.Path(f"/proc/{pid}/comm").read_text()), None), "the target")
            tap.wait_until(lambda: len(region_truth(self.dir / f"kept-{turn}")) == 64, "all stations")
            time.sleep(0.003 * turn)
            os.kill(target, signal.SIGKILL)
            self.assertEqual(child.wait(), 137)
            truth, rows = region_truth(self.dir / f"kept-{turn}"), stations(self.dir / f"{turn}.jsonl")
            self.assertFalse(region.exists())
            self.assertEqual(set(rows), set(truth))
            seen = collections.defaultdict(int)
            for event in self.events(f"{turn}.jsonl"):
                self.assertEqual(event["event"], seen[event["station"]] + event.get("lost", 0))
                seen[event["station"]] = event["event"] + 1
            for station, (n, torn) in truth.items():
                row = rows[station]
                self.assertEqual(int(row["read"]) + int(row["lost"]), n, (dialect, row))
                self.assertEqual(row["torn"] == "1", torn, row)
                n_torn += torn
        self.assertLessEqual(n_torn, 40, "a thread writes one event at a time")

    def test_makes_its_files_for_one_user_and_removes_them(self):
        child = self.spawn([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--region", self.dir / "r", "--socket",
                            self.dir / "s", "--", VICTIM, "end=hold"], stdin=subprocess.PIPE, env=self.env)
        child.wait_for("^done")
        for name in ("r", "s"):
            self.assertEqual(stat.S_IMODE((self.dir / name).stat().st_mode), 0o600)
        child.process.stdin.write(b"go\n")
        child.process.stdin.close()
        self.assertEqual(child.wait(), 0)
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["t.jsonl", "t.stations.csv"])

    def test_leaves_strange_files_alone(self):
        (self.dir / "letter").write_text("dear")
        for option, what in (("--region", "no region of stations"), ("--socket", "no socket")):
            done = self.coro(options=(option, self.dir / "letter"), expect=125)
            self.assertIn(what, done.stderr)
        done = self.coro(output="letter", expect=125)
        self.assertIn("ending", done.stderr)
        (self.dir / "x.db").write_text("a letter with a wrong name")
        self.assertIn("no database", self.coro(output="x.db", expect=125).stderr)
        self.assertEqual((self.dir / "letter").read_text(), "dear")
        self.assertEqual((self.dir / "x.db").read_text(), "a letter with a wrong name")

    def test_passes_the_status_on(self):
        self.coro("status=42", expect=42)
        self.coro("end=kill", expect=128 + 9)
        run = lambda *argv: self.run_command([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", *argv], env=self.env).returncode
        self.assertEqual(run("/nonexistent"), 127)
        self.assertEqual(run("/etc/passwd"), 126)

    def test_gives_the_command_a_clean_start(self):
        """Neither our ignored SIGPIPE nor blocked signals are inherited."""
        for line in ("SigBlk", "SigIgn"):
            plain = self.run_command(["sh", "-c", f"grep {line} /proc/self/status"], 0).stdout
            ours = self.run_command([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", "sh", "-c",
                                     f"grep {line} /proc/self/status"], 0).stdout
            self.assertEqual(int(ours.split()[1], 16) & ~int(plain.split()[1], 16), 0, line)

    def test_passes_signals_on(self):
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            child = self.spawn([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", VICTIM, "end=hold"],
                               stdin=subprocess.PIPE, env=self.env)
            child.wait_for("^done")
            self.assertEqual(child.stop(sig), 128 + sig)
            self.assertEqual(len(self.events()), 64)

    def test_reads_what_a_killed_target_wrote_last(self):
        for end in ("kill", "torn"):
            for dialect in BOTH:
                done = self.coro("turns=40", f"end={end}", f"dialect={dialect}", expect=137)
                _truth, rows, _ = self.check_books(done)
                torn = {station for station, row in rows.items() if row["torn"] == "1"}
                self.assertEqual(torn, {0} if (end, dialect) == ("torn", "seqlock") else set())

    def test_counts_coroutines_without_a_station(self):
        done = self.coro("coroutines=10", options=("-n", "4"))
        self.check_books(done)
        self.assertIn("6 coroutines found no station", done.stderr)
        self.assertEqual({event["station"] for event in self.events()}, {0, 1, 2, 3})

    def test_survives_a_region_that_is_cut(self):
        done = self.coro("coroutines=2000", "turns=10", "truncate=1", "pause=1", options=("-n", "2000"))
        self.assertIn("cut the region", done.stderr)
        self.assertGreater(len(self.events()), 0)

    def test_survives_a_region_of_random_bytes(self):
        done = self.coro("coroutines=200", "turns=100", "pause=1", "garbage=1", expect=None)
        self.assertIn(done.returncode, (0, 137, 139, 135), done.stderr)     # the victim may not survive it; we do
        self.assertRegex(done.stderr, r"numbers that no writer makes|written over the header|nonsense")
        self.events()                                                       # every line is one

    def test_lets_the_target_live_when_the_engine_is_killed(self):
        child = self.spawn([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--region", self.dir / "r", "--socket",
                            self.dir / "s", "--", VICTIM, "turns=100", "pause=20000", "coroutines=1", "hang=1"], env=self.env)
        child.wait_for("^ready")
        tap.wait_until(lambda: (self.dir / "t.jsonl").exists() and self.events_so_far() > 3, "events")
        child.process.kill()
        child.process.wait()
        tap.wait_until(lambda: "\ndone" in child.out, "the target's end")   # it wrote on, and was not killed by SIGPIPE
        self.assertEqual(wrote(child.out)[0][0], 201)
        tap.wait_until(lambda: not (self.dir / "r").exists() and not (self.dir / "s").exists(), "the keeper's work")

    def events_so_far(self):
        return (self.dir / "t.jsonl").read_text().count("\n")

    def test_counts_what_passed_while_it_stood_still_for_ten_seconds(self):
        child = self.spawn([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", VICTIM, "turns=12000", "pause=100",
                            "coroutines=4"], env=self.env)
        child.wait_for("^ready")
        tap.wait_until(lambda: (self.dir / "t.jsonl").exists() and self.events_so_far() > 3, "events")
        child.process.send_signal(signal.SIGSTOP)
        time.sleep(10)
        child.process.send_signal(signal.SIGCONT)
        self.assertEqual(child.wait(), 0)
        _truth, rows, _ = self.check_books(child)
        lost = sum(int(row["lost"]) for row in rows.values())
        self.assertGreater(lost, 0)
        n = sum(row["lost"] != "0" for row in rows.values())
        self.assertRegex(child.err, rf"{lost} of 96000 events .* overwritten .*, at {n} stations")

    def test_harvests_several_processes_of_one_command(self):
        script = f"{VICTIM} coroutines=3 & {VICTIM} coroutines=4 threads=2; wait"
        done = self.run_command([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", "sh", "-c", script], 0, env=self.env)
        truth, _rows, by_station = self.check_books(done)
        self.assertEqual(set(truth), set(range(7)))
        self.assertEqual(sum(map(len, by_station.values())), 56, done.stderr)

    def test_several_engines_at_once(self):
        children = [self.spawn([tap.SPANPROF, "coro", "-o", self.dir / f"{i}.jsonl", "--", VICTIM, f"coroutines={i + 1}",
                                f"dialect={BOTH[i % 2]}", "turns=50", "pause=100"], env=self.env) for i in range(4)]
        for i, child in enumerate(children):
            self.assertEqual(child.wait(), 0)
            self.check_books(child, f"{i}.jsonl")
            self.assertIn(f"({BOTH[i % 2]} dialect)", child.err)

    def test_writes_the_same_in_each_form(self):
        for output in ("t.csv", "t.db"):
            done = self.coro("coroutines=5", "turns=20", "pause=500", "payload=1", "hang=1", output=output)
            truth = wrote(done.stdout)
            if output == "t.csv":
                with open(self.dir / output, newline="") as file:
                    rows = list(csv.DictReader(file))
                self.assertEqual(list(rows[0])[:6], ["probe_id", "tid", "addr", "seq", "is_active", "ts"])
                dead = {station for station, row in stations(self.dir / output).items() if row["dead"] == "1"}
            else:
                db = sqlite3.connect(self.dir / output)
                db.row_factory = sqlite3.Row
                rows = [dict(row) for row in db.execute("SELECT * FROM coro_trace_events ORDER BY id")]
                self.assertEqual(list(rows[0])[:7], ["id", "probe_id", "tid", "addr", "seq", "is_active", "ts"])
                dead = {row["station"] for row in db.execute("SELECT * FROM coro_stations WHERE dead")}
                self.assertEqual({row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='index' AND sql IS NOT NULL")},
                                 {f"idx_coro_trace_events_{x}" for x in ("probe_seq", "tid_ts", "ts")})
                self.assertEqual(db.execute("PRAGMA journal_mode").fetchone()[0], "wal")
            self.assertEqual(dead, {0, 1, 2, 3})
            counts = collections.Counter(int(row["station"]) for row in rows)
            lost = sum(int(row["lost"]) for row in rows)
            self.assertEqual(sum(counts.values()) + lost, sum(n for n, _ in truth.values()))
            for row in rows:
                self.assertEqual(bytes.fromhex(row["payload"]).rstrip(b"\0").decode(), f"event {row['event']}")
                self.assertRegex(row["addr"], "^0x[0-9a-f]{16}$")

    def test_database_is_readable_while_it_is_written(self):
        child = self.spawn([tap.SPANPROF, "coro", "-o", self.dir / "t.db", "--", VICTIM, "end=hold"], stdin=subprocess.PIPE,
                           env=self.env)
        child.wait_for("^done")

        def count():
            db = sqlite3.connect(f"file:{self.dir}/t.db?mode=ro", uri=True)
            try:
                return db.execute("SELECT count(*) FROM coro_trace_events").fetchone()[0]
            except sqlite3.OperationalError:
                return 0
            finally:
                db.close()

        tap.wait_until(lambda: count() == 64, "64 rows")
        child.process.stdin.close()
        self.assertEqual(child.wait(), 0)

    def test_keeps_the_limit_of_a_trace(self):
        done = self.coro("turns=100", options=("--max-trace", "2000"))
        self.assertLessEqual((self.dir / "t.jsonl").stat().st_size, 2000)
        self.assertRegex(done.stderr, r"\d+ events are not in the file")
        self.events()

    def test_shows_progress_to_people(self):
        controller, terminal = pty.openpty()
        self.addCleanup(os.close, controller)
        child = self.spawn([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", VICTIM, "coroutines=3", "end=hold"],
                           stdin=subprocess.PIPE, stderr=terminal, env=self.env)
        os.close(terminal)
        shown = b""
        while b"3 coroutines, 24 events" not in shown:
            shown += os.read(controller, 1000)
        child.process.stdin.close()
        self.assertEqual(child.wait(), 0)

    def test_leaves_nobody_behind(self):
        child = self.spawn([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", VICTIM, "end=hold"],
                           stdin=subprocess.PIPE, env=self.env)
        child.wait_for("^done")
        keepers = tap.wait_until(lambda: keepers_of(child.pid), "a keeper")
        child.process.stdin.close()
        child.wait()
        tap.wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in keepers), "the keeper's end")


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


class Named(tap.TestCase):
    """`spanprof report PID` knows the process' code."""

    def report(self, pid, *options):
        return self.run_command([tap.SPANPROF, "report", "-d", "200ms", *options, pid], 0, env=session.clean_environment())

    def test_an_address_of_a_frame_is_the_coroutine_that_it_is_of(self):
        program, region = tap.BUILD_DIR / "sdk/example/example-coroutines", self.directory() / "region"
        tap.need_root()
        if not program.exists():
            tap.skip("tool: the compiler has no C++20 coroutines")
        make_region(region, 64)
        child = self.spawn([program, "600000"], env={**session.clean_environment(), "CTP_SHM_PATH": str(region), "CTP_MAX_STATIONS": "64"})
        child.wait_for("will wait for ever")
        dead = lambda: sum(region.read_bytes()[1024 * (1 + i) + 0x10] for i in range(40))
        tap.wait_until(lambda: dead() == 39, "the others' end")
        report = json.loads(self.report(child.pid, "--json", "--top", "100").stdout)
        (stuck,) = (c for c in report["coroutines"] if c["state"] != "dead")
        self.assertIn("handle_order", stuck["last_function"])
        self.assertRegex(self.report(child.pid, "--format", "markdown").stdout, rf"\| {stuck['last_address']} [^|]*handle.?_order[^|]*\|")
        child.kill()

    def test_an_address_of_code_is_the_function_that_it_is_in(self):
        victim = session.LIB / "victim-suspended"
        tap.need_root()
        log = self.directory() / "log"
        child = self.spawn([victim, log], stdin=subprocess.PIPE, env=session.clean_environment())
        child.wait_for("^pid")
        child.process.stdin.write(b"go\n")
        child.process.stdin.flush()
        child.wait_for("^ok")
        report = json.loads(self.report(child.pid, "--json", "--top", "100").stdout)
        names = subprocess.run(["nm", victim], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        places = {int(line.split()[0], 16) & 0xfff: line.split()[2] for line in names if line.split()[-1].startswith("wait_for_")}
        told = {c["station"]: (int(c["last_address"], 16), c.get("last_function")) for c in report["coroutines"]}
        self.assertEqual(len({name for _, name in told.values() if name}), 3)
        for station, (address, name) in told.items():   # one waits at a place in memory where no code is
            self.assertEqual(name, None if station == 24 else places[address & 0xfff], station)
        child.kill()


def make_region(path, n_stations, version=1, promise=None, magic=b"RCRTOROC"):
    header = magic + struct.pack("<IIII", version, promise or n_stations, 0, 0)
    path.write_bytes(header + bytes((1 + n_stations) * 1024 - len(header)))


class Attach(tap.TestCase):
    """`spanprof coro --pid`: regions that somebody else has made."""

    def setUp(self):
        tap.need_root()
        self.dir = self.directory()
        self.env = session.clean_environment()

    def victim(self, region, *arguments, n=64):
        child = self.spawn([VICTIM, *arguments], stdin=subprocess.PIPE,
                           env={**self.env, "CTP_SHM_PATH": str(region), "CTP_MAX_STATIONS": str(n)})
        child.wait_for("^ready")
        return child

    def attach(self, *pids, options=(), output="a.jsonl"):
        return self.spawn([tap.SPANPROF, "coro", "--pid", ",".join(map(str, pids)), "-o", self.dir / output, *options], env=self.env)

    def lines(self, output="a.jsonl"):
        path = self.dir / output
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def test_makes_a_report_of_a_process_that_runs(self):
        """Two of five coroutines hang: the report knows which, in each form, and leaves nothing behind."""
        path = self.dir / "region"
        make_region(path, 64)
        victim = self.victim(path, "coroutines=5", "turns=2", "hang=2", "end=hold")
        victim.wait_for("^done")
        done = self.run_command([tap.SPANPROF, "report", "--json", "-d", "200ms", victim.pid], 0, env=self.env)
        coroutines = json.loads(done.stdout)["coroutines"]
        self.assertEqual({c["station"] for c in coroutines}, set(range(5)))
        self.assertEqual(waiting(coroutines), {3, 4})
        for c in coroutines:                    # for as long as we have looked, at least
            self.assertTrue(c["state"] == "dead" or c["state_ns"] >= 200e6, c)
        for name in ("out.md", "out.html"):
            self.run_command([tap.SPANPROF, "report", "-d", "100ms", "-o", self.dir / name, victim.pid], 0, env=self.env)
            self.assertGreater((self.dir / name).stat().st_size, 300)
        self.assertEqual(list(pathlib.Path("/tmp").glob(f"spanprof-report-*/process-{victim.pid}.*")), [])
        self.assertIn("there is no process", self.run_command([tap.SPANPROF, "report", "4194303"], 1, env=self.env).stderr)

    def test_finds_a_region_by_what_is_in_it(self):
        for name, deleted in (("no name for a region", False), ("deleted.shm", True)):
            make_region(self.dir / name, 64)
            (self.dir / "other").write_bytes(b"no region" + bytes(100000))
            victim = self.victim(self.dir / name, "coroutines=5", "turns=40", "wait=300000", "pause=2000", "end=hold", "hang=1")
            if deleted:
                (self.dir / name).unlink()
            output = f"{deleted}.jsonl"
            reader = self.attach(victim.pid, output=output)
            self.assertIn(name, reader.wait_for(r"region (.*), 64 stations")[1])
            victim.wait_for("^done")
            truth = {station: n for station, (n, _) in wrote(victim.out).items()}
            last = lambda: {event["station"]: event["event"] + 1 for event in self.lines(output)}
            tap.wait_until(lambda: last() == truth, "the last event of each")
            victim.process.stdin.close()
            self.assertEqual(reader.wait(), 0)          # with its process
            self.assertEqual({event["pid"] for event in self.lines(output)}, {victim.pid})
            for station, row in stations(self.dir / output).items():
                self.assertEqual(sum(int(row[key]) for key in ("read", "lost", "skipped")), truth[station])
                self.assertEqual(row["dead"], "0" if station == 4 else "1")

    def test_starts_with_what_is_left(self):
        for dialect, kept in (("seqlock", 8), ("document", 7)):
            make_region(self.dir / "r", 64)
            victim = self.victim(self.dir / "r", "coroutines=3", "turns=100", f"dialect={dialect}", "end=hold")
            victim.wait_for("^done")
            reader = self.attach(victim.pid, options=("-d", "300ms"))
            self.assertEqual(reader.wait(), 0)
            self.assertEqual(len(self.lines()), 3 * kept)       # the second reader has replaced what the first wrote
            self.assertEqual({event["event"] for event in self.lines()}, set(range(200 - kept, 200)))
            self.assertEqual({row["lost"] for row in stations(self.dir / "a.jsonl").values()}, {"0"})
            self.assertEqual({row["skipped"] for row in stations(self.dir / "a.jsonl").values()}, {str(200 - kept)})
            victim.kill()

    def test_only_reads(self):
        make_region(self.dir / "r", 64)
        victim = self.victim(self.dir / "r", "end=hold")
        victim.wait_for("^done")
        before = (self.dir / "r").read_bytes()
        reader = self.attach(victim.pid, options=("-d", "500ms"))
        reader.wait_for("64 stations")
        mapped = tap.wait_until(lambda: [line for line in pathlib.Path(f"/proc/{reader.pid}/maps").read_text().splitlines()
                                         if line.endswith("/r")], "mapping")
        self.assertEqual({line.split()[1] for line in mapped}, {"r--s"})
        self.assertEqual(reader.wait(), 0)
        self.assertEqual((self.dir / "r").read_bytes(), before)

    def test_reads_beside_an_engine(self):
        engine = self.spawn([tap.SPANPROF, "coro", "-o", self.dir / "e.jsonl", "--", VICTIM, "wait=500000", "end=hold"],
                            stdin=subprocess.PIPE, env=self.env)
        engine.wait_for("^ready")
        victim = int(pathlib.Path(f"/proc/{engine.pid}/task/{engine.pid}/children").read_text().split()[-1])
        reader = self.attach(victim)
        reader.wait_for("4096 stations")
        engine.wait_for("^done")
        tap.wait_until(lambda: len(self.lines()) == 64 and len(self.lines("e.jsonl")) == 64, "the events twice")
        engine.process.stdin.close()
        self.assertEqual((engine.wait(), reader.wait()), (0, 0))
        known = ("probe_id", "tid", "addr", "seq", "is_active", "ts", "station", "event", "birth")
        pick = lambda events: sorted(tuple(event[key] for key in known) for event in events)
        self.assertEqual(pick(self.lines()), pick(self.lines("e.jsonl")))

    def test_reads_several_processes_and_a_shared_region_once(self):
        make_region(self.dir / "r", 64)
        make_region(self.dir / "s", 64)
        one, two = (self.victim(self.dir / "r", "coroutines=2", "end=hold") for _ in range(2))
        three = self.victim(self.dir / "s", "coroutines=2", "dialect=document", "turns=3", "end=hold")
        for victim in (one, two, three):
            victim.wait_for("^done")
        reader = self.attach(one.pid, two.pid, three.pid)
        tap.wait_until(lambda: len(self.lines()) == 2 * 2 * 8 + 2 * 6, "all events")
        self.assertEqual(reader.stop(signal.SIGINT), 0)
        self.assertEqual(collections.Counter(event["pid"] for event in self.lines()), {one.pid: 32, three.pid: 12})

    def test_says_why_it_reads_nothing(self):
        for more, text in (({"version": 2}, "version"), ({"promise": 65}, "more stations than the file"),
                           ({"promise": 2**32 - 1}, "more stations than the file"), ({"magic": b"CORCTORR"}, "has no region")):
            make_region(self.dir / "r", 64, **more)
            victim = self.victim(self.dir / "r", "end=hold", n=63)
            done = self.run_command([tap.SPANPROF, "coro", "--pid", victim.pid, "-o", self.dir / "a.jsonl"], 125, env=self.env)
            self.assertIn(text, done.stderr)
            victim.kill()
        gone = self.spawn(["true"])
        gone.wait()
        self.assertIn("there is no process", self.run_command([tap.SPANPROF, "coro", "--pid", gone.pid], 125, cwd=self.dir).stderr)
        self.assertIn("--pid", self.run_command([tap.SPANPROF, "coro"], 125).stderr)
        self.assertIn("together", self.run_command([tap.SPANPROF, "coro", "--pid", "1", "--", "true"], 125).stderr)

    def test_survives_what_is_done_to_the_region(self):
        for what in ("cut", "overwritten", "replaced"):
            make_region(self.dir / "r", 64)
            victim = self.victim(self.dir / "r", "coroutines=1", "end=hold")
            victim.wait_for("^done")
            output = f"{what}.jsonl"
            reader = self.attach(victim.pid, output=output)
            tap.wait_until(lambda: len(self.lines(output)) == 8, "8 events")
            if what == "cut":
                os.truncate(self.dir / "r", 0)
            elif what == "overwritten":
                with open(self.dir / "r", "r+b") as file:
                    file.write(os.urandom(65 * 1024))
            else:
                (self.dir / "r").unlink()
                make_region(self.dir / "r", 64)
            time.sleep(0.1)                     # some looks at it; what must not happen is a crash
            self.assertIsNone(reader.status)
            self.assertEqual(reader.stop(signal.SIGTERM), 0)
            self.assertEqual(len([e for e in self.lines(output) if e["station"] == 0 and e["event"] < 8]), 8)
            victim.kill()


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


class CoroTracer(tap.TestCase):
    """The command line of the real engine."""

    def setUp(self):
        self.dir = self.directory()

    def corotracer(self, *arguments, expect=0, program=(tap.SPANPROF, "corotracer")):
        return self.run_command([*program, *arguments], expect=expect, cwd=self.dir, env=session.clean_environment())

    def trace(self, *victim, expect=0, **more):
        return self.corotracer("-n", "64", "-cmd", f"{VICTIM} {' '.join(victim)}", "--shm=x.shm", "-sock", "x.sock",
                               expect=expect, **more)

    def test_writes_exactly_what_its_users_know(self):
        self.trace("coroutines=3")
        lines = (self.dir / "trace_output.jsonl").read_text().splitlines()
        self.assertEqual(len(lines), 24)
        for line in lines:
            self.assertRegex(line, r'^\{"probe_id":\d+,"tid":\d+,"addr":"0x[0-9a-f]{16}","seq":\d+,"is_active":(true|false),"ts":\d+\}$')
        self.trace("coroutines=3")
        self.assertEqual(len((self.dir / "trace_output.jsonl").read_text().splitlines()), 48)     # it goes on where it ended
        self.assertEqual([p.name for p in self.dir.iterdir()], ["trace_output.jsonl"])

    def test_takes_the_shell_text_and_passes_the_status_on(self):
        self.corotracer("-cmd", "exit 7", "-shm", "x.shm", "-sock", "x.sock", expect=7)
        done = self.corotracer("-cmd", "echo $CTP_SHM_PATH $CTP_SOCK_PATH $CTP_MAX_STATIONS", "-shm", "x.shm", "-sock", "x.sock")
        self.assertEqual(done.stdout, "x.shm x.sock 128\n")

    def test_works_under_its_name(self):
        link = self.dir / "coroTracer"
        link.symlink_to(tap.SPANPROF)
        self.trace("coroutines=1", program=(link,))
        self.assertEqual(len((self.dir / "trace_output.jsonl").read_text().splitlines()), 8)

    def test_exports_around_a_cut_line(self):
        self.trace("coroutines=3")
        with open(self.dir / "trace_output.jsonl", "a") as file:
            file.write('{"probe_id":1,"tid":2,"ad')
        for kind in ("csv", "dataframe"):
            done = self.corotracer("-export", kind)
            self.assertIn("1 lines", done.stderr)
            rows = (self.dir / "trace_output.csv").read_text().splitlines()
            self.assertEqual(rows[0], "probe_id,tid,addr,seq,is_active,ts")
            self.assertEqual(len(rows), 25)
        self.corotracer("-export", "sqlite", "-in", "trace_output.jsonl", "-sqlite-out", "d.sqlite")
        db = sqlite3.connect(self.dir / "d.sqlite")
        self.assertEqual(db.execute("SELECT count(*), count(DISTINCT probe_id) FROM coro_trace_events").fetchone(), (24, 3))
        sample = db.execute("SELECT probe_id, tid, addr, seq, is_active, ts FROM coro_trace_events WHERE id=1").fetchone()
        first = json.loads((self.dir / "trace_output.jsonl").read_text().splitlines()[0])
        self.assertEqual(sample, (str(first["probe_id"]), first["tid"], first["addr"], first["seq"], int(first["is_active"]), first["ts"]))

    def test_keeps_payloads(self):
        self.trace("coroutines=1", "payload=1", "turns=1", "pause=300")
        self.corotracer("-export", "csv")
        rows = (self.dir / "trace_output.csv").read_text().splitlines()
        self.assertEqual(rows[0], "probe_id,tid,addr,seq,is_active,ts,payload")
        self.assertEqual(bytes.fromhex(rows[1].split(",")[6]).rstrip(b"\0"), b"event 0")

    def test_names_mistakes(self):
        for arguments, status, text in (((), 1, "required"), (("-cmd", "true", "-export", "csv"), 1, "together"),
                                        (("-bogus",), 2, "not defined: -bogus"), (("-n",), 2, "needs an argument"),
                                        (("-n", "x", "-cmd", "true"), 2, "invalid value"), (("-export", "mysql"), 1, "unsupported"),
                                        (("-export", "csv", "-in", "nowhere"), 1, "nowhere")):
            self.assertIn(text, self.corotracer(*arguments, expect=status).stderr)
        self.assertIn("-sock", self.corotracer("-h").stdout)


if __name__ == "__main__":
    tap.main()
