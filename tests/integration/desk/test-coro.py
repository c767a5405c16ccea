#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof coro` and `spanprof corotracer` around programs that know what they wrote (tests/victims/spans/victim-stations.c).

The main book, in each test that can keep it: for each station, events in the trace + events said to be lost =
events that the program says it wrote.
"""
import collections
import fcntl
import json
import os
import pathlib
import pty
import shutil
import signal
import socket
import sqlite3
import stat
import struct
import subprocess
import termios
import time

import session
import tap
from stations import BOTH, VICTIM, events, stations, waiting, wrote


def region_truth(path):
    """station → (events written, a write is half done, events of a seqlock's slots), by the protocol's own text."""
    data, found = path.read_bytes(), {}
    for station in range(min(struct.unpack_from("<I", data, 0x10)[0], len(data) // 1024 - 1)):
        seqs = [
            struct.unpack_from("<Q", data, 1024 * (1 + station) + 0x40 + 64 * slot + 0x18)[0]
            for slot in range(8)
        ]
        document = seqs[1] % 8 == 1 and seqs[0] % 8 == 0
        found[station] = (max(seqs), False) if document else (sum(seq >> 1 for seq in seqs),
                                                              any(seq % 2 for seq in seqs))
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


def is_empty(directory):
    """Or gone: the next engine removes it, which may be one of another test."""
    try:
        return not os.listdir(directory)
    except FileNotFoundError:
        return True


class Coro(tap.TestCase):
    def setUp(self):
        self.dir = self.directory()
        self.env = {**session.clean_environment(), "TMPDIR": str(self.dir)}

    def coro(self, *victim, options=(), output="t.jsonl", expect=0, **more):
        done = self.run_command(
            [tap.SPANPROF, "coro", "-o", self.dir / output, *options, "--", VICTIM, *victim], expect=expect,
            env=self.env, **more)
        return done

    def events(self, output="t.jsonl"):
        return events(self.dir / output)

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
                self.assertGreater(len({event["tid"] for events in by_station.values() for event in events}),
                                   1)

    def test_loses_nothing_that_comes_slowly(self):
        done = self.coro("coroutines=20", "turns=10", "pause=2000")
        _truth, rows, by_station = self.check_books(done)
        lost = sum(int(row["lost"]) for row in rows.values())
        self.assertEqual(sum(map(len, by_station.values())) + lost, 400)
        # two events a station and 40 ms: a loss needs a harvest that stood still for 160 ms
        self.assertEqual(lost, 0, done.stderr)

    def test_takes_the_flag_back_from_writers_that_leave_it(self):
        """Bursts keep the engine hungry. Were the flag left set, the victim would never end."""
        for dialect in BOTH:
            with self.subTest(dialect):
                self.check_books(self.coro("coroutines=1", "awaits=32", "pause=200", "plain=20",
                                           f"dialect={dialect}"))

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
            done = self.coro("coroutines=1000", "threads=8", "hang=7", "turns=10", f"dialect={dialect}",
                             output=f"{dialect}.jsonl")
            report = json.loads(
                self.run_command(
                    [tap.SPANPROF, "report", "--json", "--top", "2000", self.dir / f"{dialect}.jsonl"],
                    0).stdout)
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
            child = self.spawn([
                tap.SPANPROF, "coro", "-o", self.dir / f"{turn}.jsonl", "-n", "64", "--region", region, "--",
                VICTIM, "coroutines=64", "threads=4", "turns=100000000", f"dialect={dialect}"
            ], env=self.env)
            child.wait_for("^ready")
            os.link(region, self.dir / f"kept-{turn}")          # the engine removes its name only
            target = tap.wait_until(
                lambda: next((int(pid) for pid in pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children")
                              .read_text().split()
                              if "victim" in pathlib.Path(f"/proc/{pid}/comm").read_text()), None),
                "the target")
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
        child = self.spawn([
            tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--region", self.dir / "r", "--", VICTIM, "end=hold"
        ], stdin=subprocess.PIPE, env=self.env)
        child.wait_for("^done")
        for name in ("r", "r.sock"):
            self.assertEqual(stat.S_IMODE((self.dir / name).stat().st_mode), 0o600)
        child.process.stdin.write(b"go\n")
        child.process.stdin.close()
        self.assertEqual(child.wait(), 0)
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in self.dir.iterdir()}
        self.assertEqual(modes, {"t.jsonl": 0o600})

    def test_leaves_strange_files_alone(self):
        (self.dir / "letter").write_text("dear")
        (self.dir / "r.sock").write_text("dear")
        for region, what in (("letter", "no region of stations"), ("r", "no socket")):
            done = self.coro(options=("--region", self.dir / region), expect=125)
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
        run = lambda *argv: self.run_command([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", *argv],
                                             env=self.env).returncode
        self.assertEqual(run("/nonexistent"), 127)
        self.assertEqual(run("/etc/passwd"), 126)

    def test_gives_the_command_a_clean_start(self):
        """Neither our ignored SIGPIPE nor blocked signals are inherited."""
        for line in ("SigBlk", "SigIgn"):
            plain = self.run_command(["sh", "-c", f"grep {line} /proc/self/status"], 0).stdout
            ours = self.run_command([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", "sh", "-c",
                                     f"grep {line} /proc/self/status"], 0).stdout
            self.assertEqual(int(ours.split()[1], 16) & ~int(plain.split()[1], 16), 0, line)

    def test_leaves_the_command_the_slack_of_its_timers(self):
        """With ours, a command that sleeps for a microsecond would write events twenty times as fast."""
        slack = ("sh", "-c", "cat /proc/$$/timerslack_ns")
        plain = self.run_command(slack, 0).stdout
        ours = self.run_command([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", *slack], 0).stdout
        self.assertEqual(ours, plain)

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
        # the victim may not survive it; we do
        self.assertIn(done.returncode, (0, 137, 139, 135), done.stderr)
        self.assertRegex(done.stderr, r"numbers that no writer makes|written over the header|nonsense")
        self.events()                                                       # every line is one

    def test_lets_the_target_live_when_the_engine_is_killed(self):
        child = self.spawn([
            tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--region", self.dir / "r", "--", VICTIM,
            "turns=100", "pause=20000", "coroutines=1", "hang=1"
        ], env=self.env)
        child.wait_for("^ready")
        tap.wait_until(lambda: (self.dir / "t.jsonl").exists() and self.events_so_far() > 3, "events")
        child.process.kill()
        child.process.wait()
        tap.wait_until(lambda: "\ndone" in child.out,
                       "the target's end")  # it wrote on, and was not killed by SIGPIPE
        self.assertEqual(wrote(child.out)[0][0], 201)
        tap.wait_until(lambda: not (self.dir / "r").exists() and not (self.dir / "r.sock").exists(),
                       "the keeper's work")

    def begin(self, *command):
        """An engine with files where it makes them itself; and their directory."""
        engine = self.spawn([
            tap.SPANPROF, "coro", "-n", "16", "-o", self.dir / "e.jsonl", "--", "sh", "-c",
            'echo "directory ${CTP_SHM_PATH%/*} keeper"; exec "$@"', "sh", *command
        ], stdin=subprocess.PIPE, env=self.env)
        match = engine.wait_for(r"directory (\S+) keeper\n")
        self.addCleanup(shutil.rmtree, match[1], ignore_errors=True)
        return engine, pathlib.Path(match[1])

    def wait_for_end(self, keeper):
        """Until then it has the lock, also when it has its signal."""
        def has_ended():
            try:
                return pathlib.Path(f"/proc/{keeper}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
            except (FileNotFoundError, ProcessLookupError):
                return True

        tap.wait_until(has_ended, "the keeper's end")

    def kill_both(self, engine):
        (keeper,) = tap.wait_until(lambda: keepers_of(engine.pid), "its keeper")
        for pid in (keeper, engine.pid):
            os.kill(pid, signal.SIGKILL)
        engine.process.wait()
        self.wait_for_end(keeper)

    def test_removes_what_a_killed_engine_and_its_keeper_have_left(self):
        living, its_own = self.begin("cat")
        used, in_use = self.begin(VICTIM, "end=hold")
        used.wait_for("^done")
        kept, empty = self.begin("cat")         # its keeper cleans up, but for the directory
        (keeper,) = tap.wait_until(lambda: keepers_of(kept.pid), "its keeper")
        kept.process.kill()
        kept.process.wait()
        kept.process.stdin.close()
        tap.wait_until(lambda: is_empty(empty), "the keeper's work")
        self.wait_for_end(keeper)
        stopped, without_keeper = self.begin("cat")
        (keeper,) = tap.wait_until(lambda: keepers_of(stopped.pid), "its keeper")
        os.kill(keeper, signal.SIGKILL)
        strange = empty.parent / "spanprof-strang"
        strange.mkdir(0o700)
        self.addCleanup(shutil.rmtree, strange)
        (strange / "file").write_text("mine")
        self.kill_both(used)
        for directory in (in_use, its_own, without_keeper):
            self.assertEqual(sorted(file.name for file in directory.iterdir()), ["region.shm", "wake.sock"])
        for _ in range(5):      # an engine of another test that begins just now may remove it first
            killed, too = self.begin("cat")
            self.kill_both(killed)
            done = self.coro("coroutines=1")
            # one that holds the lock while it looks through /proc is not done yet: ours has passed it by
            tap.wait_until(lambda: not too.exists() and not empty.exists(), "the removal by ours, or by that engine")
            if f"{too}: removed" in done.stderr:
                break
        else:
            self.fail("no engine has said that it removed what a killed one had left")
        # of an engine, of one without a keeper, and of a program that goes on
        for directory in (its_own, without_keeper, in_use):
            self.assertTrue((directory / "region.shm").exists(), directory)
        self.assertEqual((strange / "file").read_text(), "mine")
        used.process.stdin.close()              # the program ends
        tap.wait_until(lambda: not self.coro("coroutines=1") or not in_use.exists(), "the removal")
        for engine in (living, stopped):
            engine.process.stdin.close()
            self.assertEqual(engine.wait(), 0)
        self.assertFalse(its_own.exists() or without_keeper.exists())

    def connect(self, directory):
        """A connection for wake-ups, as a target makes it."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(connection.close)
        connection.connect(str(directory / "wake.sock"))
        return connection

    def end_with(self, connection, engine, directory):
        """The keeper of a killed engine stays while there is the command or a connection, and cleans up then."""
        engine.process.stdin.close()
        connection.send(b"1")
        self.assertEqual(sorted(file.name for file in directory.iterdir()), ["region.shm", "wake.sock"])
        connection.close()
        tap.wait_until(lambda: is_empty(directory), "the keeper's work")

    def test_hears_a_program_whose_connection_the_keeper_has_not_taken(self):
        """And when the engine is killed then, the program does not meet a closed socket."""
        engine, directory = self.begin("cat")
        (keeper,) = tap.wait_until(lambda: keepers_of(engine.pid), "its keeper")
        os.kill(keeper, signal.SIGSTOP)
        self.addCleanup(os.kill, keeper, signal.SIGKILL)
        connection = self.connect(directory)
        connection.send(b"1")
        # bytes of a unix socket that nobody has read
        tap.wait_until(lambda: fcntl.ioctl(connection, termios.TIOCOUTQ, b"1234") == bytes(4),
                       "the engine to read the byte")
        engine.process.kill()
        engine.process.wait()
        connection.send(b"1")
        os.kill(keeper, signal.SIGCONT)
        self.end_with(connection, engine, directory)

    def test_keeps_a_connection_that_a_killed_engine_has_not_accepted(self):
        engine, directory = self.begin("cat")
        (keeper,) = tap.wait_until(lambda: keepers_of(engine.pid), "its keeper")
        self.addCleanup(os.kill, keeper, signal.SIGKILL)
        os.kill(engine.pid, signal.SIGSTOP)
        connection = self.connect(directory)
        engine.process.kill()
        engine.process.wait()
        connection.send(b"1")
        self.end_with(connection, engine, directory)

    def events_so_far(self):
        return (self.dir / "t.jsonl").read_text().count("\n")

    def test_counts_what_passed_while_it_stood_still_for_ten_seconds(self):
        child = self.spawn([
            tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", VICTIM, "turns=12000", "pause=100",
            "coroutines=4"
        ], env=self.env)
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

    def test_waits_where_its_buffer_is_full(self):
        """The trace is read when all events are written: they fill the writer's blocks, then the buffer."""
        trace = self.dir / "pipe" / "t.jsonl"
        trace.parent.mkdir()
        os.mkfifo(trace)
        kept = os.open(trace, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, kept)
        child = self.spawn([
            tap.SPANPROF, "coro", "-o", trace, "--buffer=4MiB", "--", VICTIM,
            "coroutines=8", "turns=20000", "rate=200000", "payload=1"
        ], env=self.env)
        child.wait_for("^done")
        with open(trace, "rb") as file, open(self.dir / "t.jsonl", "wb") as copy:
            shutil.copyfileobj(file, copy)
        self.assertEqual(child.wait(), 0)
        _truth, rows, _ = self.check_books(child)
        self.assertGreater(sum(int(row["lost"]) for row in rows.values()), 0)
        self.assertRegex(child.err, r"writing was slower than the events [1-9]\d* times")

    def test_harvests_several_processes_of_one_command(self):
        script = f"{VICTIM} coroutines=3 & {VICTIM} coroutines=4 threads=2; wait"
        done = self.run_command([tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", "sh", "-c", script],
                                0, env=self.env)
        truth, _rows, by_station = self.check_books(done)
        self.assertEqual(set(truth), set(range(7)))
        self.assertEqual(sum(map(len, by_station.values())), 56, done.stderr)

    def test_several_engines_at_once(self):
        children = [
            self.spawn([
                tap.SPANPROF, "coro", "-o", self.dir / f"{i}.jsonl", "--", VICTIM, f"coroutines={i + 1}",
                f"dialect={BOTH[i % 2]}", "turns=50", "pause=100"
            ], env=self.env) for i in range(4)
        ]
        for i, child in enumerate(children):
            self.assertEqual(child.wait(), 0)
            self.check_books(child, f"{i}.jsonl")
            self.assertIn(f"({BOTH[i % 2]} dialect)", child.err)

    def test_writes_the_same_in_each_form(self):
        for output in ("t.jsonl", "t.db"):
            done = self.coro("coroutines=5", "turns=20", "pause=500", "payload=1", "hang=1", output=output)
            truth = wrote(done.stdout)
            if output == "t.jsonl":
                rows = self.events()
                self.assertEqual(list(rows[0])[:6], ["probe_id", "tid", "addr", "seq", "is_active", "ts"])
                dead = {station for station, row in stations(self.dir / output).items() if row["dead"] == "1"}
            else:
                db = sqlite3.connect(self.dir / output)
                db.row_factory = sqlite3.Row
                rows = [dict(row) for row in db.execute("SELECT * FROM coro_trace_events ORDER BY id")]
                self.assertEqual(
                    list(rows[0])[:7], ["id", "probe_id", "tid", "addr", "seq", "is_active", "ts"])
                dead = {row["station"] for row in db.execute("SELECT * FROM coro_stations WHERE dead")}
                self.assertEqual(
                    {
                        row[0] for row in db.execute(
                            "SELECT name FROM sqlite_master WHERE type='index' AND sql IS NOT NULL")
                    }, {f"idx_coro_trace_events_{x}" for x in ("probe_seq", "tid_ts", "ts")})
                self.assertEqual(db.execute("PRAGMA journal_mode").fetchone()[0], "wal")
            self.assertEqual(dead, {0, 1, 2, 3})
            counts = collections.Counter(int(row["station"]) for row in rows)
            lost = sum(row.get("lost", 0) for row in rows)
            self.assertEqual(sum(counts.values()) + lost, sum(n for n, _ in truth.values()))
            for row in rows:
                self.assertEqual(
                    bytes.fromhex(row["payload"]).rstrip(b"\0").decode(), f"event {row['event']}")
                self.assertRegex(row["addr"], "^0x[0-9a-f]{16}$")

    def test_database_is_readable_while_it_is_written(self):
        child = self.spawn([tap.SPANPROF, "coro", "-o", self.dir / "t.db", "--", VICTIM, "end=hold"],
                           stdin=subprocess.PIPE, env=self.env)
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
        lines = (self.dir / "t.jsonl").read_text().splitlines(keepends=True)
        n = len(self.events())
        self.assertLessEqual(sum(map(len, lines[:n])), 2000)
        self.assertTrue(all("coro_" in line for line in lines[n:]), "what is behind the events is over no limit")
        self.assertEqual(set(stations(self.dir / "t.jsonl")), set(wrote(done.stdout)))
        self.assertRegex(done.stderr, r"\d+ events are not in the file")

    def test_shows_progress_to_people(self):
        controller, terminal = pty.openpty()
        self.addCleanup(os.close, controller)
        child = self.spawn(
            [tap.SPANPROF, "coro", "-o", self.dir / "t.jsonl", "--", VICTIM, "coroutines=3", "end=hold"],
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
        tap.wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in keepers),
                       "the keeper's end")


class CoroTracer(tap.TestCase):
    """The command line of the real engine."""

    def setUp(self):
        self.dir = self.directory()

    def corotracer(self, *arguments, expect=0, program=(tap.SPANPROF, "corotracer")):
        return self.run_command([*program, *arguments], expect=expect, cwd=self.dir,
                                env=session.clean_environment())

    def trace(self, *victim, expect=0, **more):
        return self.corotracer("-n", "64", "-cmd", f"{VICTIM} {' '.join(victim)}", "--shm=x.shm", "-sock",
                               "x.sock", expect=expect, **more)

    def test_writes_exactly_what_its_users_know(self):
        self.trace("coroutines=3")
        lines = (self.dir / "trace_output.jsonl").read_text().splitlines()
        self.assertEqual(len(lines), 24)
        for line in lines:
            self.assertRegex(
                line,
                r'^\{"probe_id":\d+,"tid":\d+,"addr":"0x[0-9a-f]{16}","seq":\d+,"is_active":(true|false),"ts":\d+\}$'
            )
        self.trace("coroutines=3")
        # it goes on where it ended
        self.assertEqual(len((self.dir / "trace_output.jsonl").read_text().splitlines()), 48)
        self.assertEqual([p.name for p in self.dir.iterdir()], ["trace_output.jsonl"])

    def test_takes_the_shell_text_and_passes_the_status_on(self):
        self.corotracer("-cmd", "exit 7", "-shm", "x.shm", "-sock", "x.sock", expect=7)
        done = self.corotracer("-cmd", "echo $CTP_SHM_PATH $CTP_SOCK_PATH $CTP_MAX_STATIONS", "-shm", "x.shm",
                               "-sock", "x.sock")
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
        self.assertEqual(
            db.execute("SELECT count(*), count(DISTINCT probe_id) FROM coro_trace_events").fetchone(),
            (24, 3))
        sample = db.execute(
            "SELECT probe_id, tid, addr, seq, is_active, ts FROM coro_trace_events WHERE id=1").fetchone()
        first = json.loads((self.dir / "trace_output.jsonl").read_text().splitlines()[0])
        self.assertEqual(sample, (str(first["probe_id"]), first["tid"], first["addr"], first["seq"],
                                  int(first["is_active"]), first["ts"]))

    def test_keeps_payloads(self):
        self.trace("coroutines=1", "payload=1", "turns=1", "pause=300")
        self.corotracer("-export", "csv")
        rows = (self.dir / "trace_output.csv").read_text().splitlines()
        self.assertEqual(rows[0], "probe_id,tid,addr,seq,is_active,ts,payload")
        self.assertEqual(bytes.fromhex(rows[1].split(",")[6]).rstrip(b"\0"), b"event 0")

    def test_names_mistakes(self):
        for arguments, status, text in (((), 1, "required"), (("-cmd", "true", "-export", "csv"), 1,
                                                              "together"), (("-bogus", ), 2,
                                                                            "not defined: -bogus"),
                                        (("-n", ), 2, "needs an argument"), (("-n", "x", "-cmd", "true"), 2,
                                                                             "invalid value"),
                                        (("-export", "mysql"), 1, "unsupported"),
                                        (("-export", "csv", "-in", "nowhere"), 1, "nowhere")):
            self.assertIn(text, self.corotracer(*arguments, expect=status).stderr)
        self.assertIn("-sock", self.corotracer("-h").stdout)


if __name__ == "__main__":
    tap.main()
