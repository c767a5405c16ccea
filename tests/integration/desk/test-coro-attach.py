#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof coro --pid` and `spanprof report PID`: programs with stations that run already."""
import collections
import json
import os
import pathlib
import signal
import subprocess
import time

import session
import tap
from stations import VICTIM, events, make_region, stations, waiting, wrote


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
        return self.spawn(
            [tap.SPANPROF, "coro", "--pid", ",".join(map(str, pids)), "-o", self.dir / output, *options],
            env=self.env)

    def lines(self, output="a.jsonl"):
        path = self.dir / output
        return events(path) if path.exists() else []

    def test_makes_a_report_of_a_process_that_runs(self):
        """Two of five coroutines hang: the report knows which, in each form, and leaves nothing behind."""
        path = self.dir / "region"
        make_region(path, 64)
        victim = self.victim(path, "coroutines=5", "turns=2", "hang=2", "end=hold")
        victim.wait_for("^done")
        done = self.run_command([tap.SPANPROF, "report", "--json", "-d", "200ms", victim.pid], 0,
                                env=self.env)
        coroutines = json.loads(done.stdout)["coroutines"]
        self.assertEqual({c["station"] for c in coroutines}, set(range(5)))
        self.assertEqual(waiting(coroutines), {3, 4})
        for c in coroutines:                    # for as long as we have looked, at least
            self.assertTrue(c["state"] == "dead" or c["state_ns"] >= 200e6, c)
        for name in ("out.md", "out.html"):
            self.run_command([tap.SPANPROF, "report", "-d", "100ms", "-o", self.dir / name, victim.pid], 0,
                             env=self.env)
            self.assertGreater((self.dir / name).stat().st_size, 300)
        self.assertEqual(list(pathlib.Path("/tmp").glob(f"spanprof-report-*/process-{victim.pid}.*")), [])
        self.assertIn("there is no process",
                      self.run_command([tap.SPANPROF, "report", "4194303"], 1, env=self.env).stderr)

    def test_finds_a_region_by_what_is_in_it(self):
        for name, deleted in (("no name for a region", False), ("deleted.shm", True)):
            make_region(self.dir / name, 64)
            (self.dir / "other").write_bytes(b"no region" + bytes(100000))
            victim = self.victim(self.dir / name, "coroutines=5", "turns=40", "wait=300000", "pause=2000",
                                 "end=hold", "hang=1")
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
            victim = self.victim(self.dir / "r", "coroutines=3", "turns=100", f"dialect={dialect}",
                                 "end=hold")
            victim.wait_for("^done")
            reader = self.attach(victim.pid, options=("-d", "300ms"))
            self.assertEqual(reader.wait(), 0)
            # the second reader has replaced what the first wrote
            self.assertEqual(len(self.lines()), 3 * kept)
            self.assertEqual({event["event"] for event in self.lines()}, set(range(200 - kept, 200)))
            self.assertEqual({row["lost"] for row in stations(self.dir / "a.jsonl").values()}, {"0"})
            self.assertEqual({row["skipped"] for row in stations(self.dir / "a.jsonl").values()},
                             {str(200 - kept)})
            victim.kill()

    def test_only_reads(self):
        make_region(self.dir / "r", 64)
        victim = self.victim(self.dir / "r", "end=hold")
        victim.wait_for("^done")
        before = (self.dir / "r").read_bytes()
        reader = self.attach(victim.pid, options=("-d", "500ms"))
        reader.wait_for("64 stations")
        mapped = tap.wait_until(
            lambda: [
                line for line in pathlib.Path(f"/proc/{reader.pid}/maps").read_text().splitlines()
                if line.endswith("/r")
            ], "mapping")
        self.assertEqual({line.split()[1] for line in mapped}, {"r--s"})
        self.assertEqual(reader.wait(), 0)
        self.assertEqual((self.dir / "r").read_bytes(), before)

    def test_reads_beside_an_engine(self):
        engine = self.spawn(
            [tap.SPANPROF, "coro", "-o", self.dir / "e.jsonl", "--", VICTIM, "wait=500000", "end=hold"],
            stdin=subprocess.PIPE, env=self.env)
        engine.wait_for("^ready")
        victim = int(pathlib.Path(f"/proc/{engine.pid}/task/{engine.pid}/children").read_text().split()[-1])
        reader = self.attach(victim)
        reader.wait_for("4096 stations")
        engine.wait_for("^done")
        tap.wait_until(lambda: len(self.lines()) == 64 and len(self.lines("e.jsonl")) == 64,
                       "the events twice")
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
        self.assertEqual(collections.Counter(event["pid"] for event in self.lines()),
                         {one.pid: 32, three.pid: 12})

    def test_says_why_it_reads_nothing(self):
        for more, text in (({"version": 2}, "version"), ({"promise": 65}, "more stations than the file"),
                           ({"promise": 2**32 - 1}, "more stations than the file"), ({"magic": b"CORCTORR"},
                                                                                     "has no region")):
            make_region(self.dir / "r", 64, **more)
            victim = self.victim(self.dir / "r", "end=hold", n=63)
            done = self.run_command([tap.SPANPROF, "coro", "--pid", victim.pid, "-o", self.dir / "a.jsonl"],
                                    125, env=self.env)
            self.assertIn(text, done.stderr)
            victim.kill()
        gone = self.spawn(["true"])
        gone.wait()
        self.assertIn("there is no process",
                      self.run_command([tap.SPANPROF, "coro", "--pid", gone.pid], 125, cwd=self.dir).stderr)
        self.assertIn("--pid", self.run_command([tap.SPANPROF, "coro"], 125).stderr)
        self.assertIn("together",
                      self.run_command([tap.SPANPROF, "coro", "--pid", "1", "--", "true"], 125).stderr)

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


class Named(tap.TestCase):
    """`spanprof report PID` knows the process' code."""

    def report(self, pid, *options):
        return self.run_command([tap.SPANPROF, "report", "-d", "200ms", *options, pid], 0,
                                env=session.clean_environment())

    def test_an_address_of_a_frame_is_the_coroutine_that_it_is_of(self):
        program, region = tap.BUILD_DIR / "sdk/example/example-coroutines", self.directory() / "region"
        tap.need_root()
        if not program.exists():
            tap.skip("tool: the compiler has no C++20 coroutines")
        make_region(region, 64)
        child = self.spawn(
            [program, "600000"],
            env={**session.clean_environment(), "CTP_SHM_PATH": str(region), "CTP_MAX_STATIONS": "64"})
        child.wait_for("will wait for ever")
        dead = lambda: sum(region.read_bytes()[1024 * (1 + i) + 0x10] for i in range(40))
        tap.wait_until(lambda: dead() == 39, "the others' end")
        report = json.loads(self.report(child.pid, "--json", "--top", "100").stdout)
        (stuck,) = (c for c in report["coroutines"] if c["state"] != "dead")
        self.assertIn("handle_order", stuck["last_function"])
        self.assertRegex(
            self.report(child.pid, "--format", "markdown").stdout,
            rf"\| [^|]*handle.?_order[^|]* {stuck['last_address']} \|")
        child.kill()

    def test_an_address_of_code_is_the_function_that_it_is_in(self):
        victim = tap.VICTIMS / "victim-suspended"
        tap.need_root()
        log = self.directory() / "log"
        child = self.spawn([victim, log], stdin=subprocess.PIPE, env=session.clean_environment())
        child.wait_for("^pid")
        child.process.stdin.write(b"go\n")
        child.process.stdin.flush()
        child.wait_for("^ok")
        report = json.loads(self.report(child.pid, "--json", "--top", "100").stdout)
        names = subprocess.run(["nm", victim], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.splitlines()
        places = {
            int(line.split()[0], 16) & 0xfff: line.split()[2] for line in names
            if line.split()[-1].startswith("wait_for_")
        }
        told = {
            c["station"]: (int(c["last_address"], 16), c.get("last_function")) for c in report["coroutines"]
        }
        self.assertEqual(len({name for _, name in told.values() if name}), 3)
        for station, (address, name) in told.items():   # one waits at a place in memory where no code is
            self.assertEqual(name, None if station == 24 else places[address & 0xfff], station)
        child.kill()


if __name__ == "__main__":
    tap.main()
