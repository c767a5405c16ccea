#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time that coroutines were suspended, against a program that has logged how long and where (tests/victims/spans/victim-suspended.c)."""
import oracle

oracle.enter()

import collections
import json
import os
import pathlib
import struct
import signal
import subprocess
import time

import otlp_read
import page_read
import session
import tap

PLACES = {"wait_for_reply", "wait_for_lock", "wait_for_turn"}


def children(pid):
    """Ids of a process' children that run the victim."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = path.read_text(errors="replace").split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        if int(rest.split()[1]) == pid and name.startswith("victim"):
            found.append(int(path.parent.name))
    return found


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Truth:
    """What the victim says: (station, place) → (kind, ns, since_ns, late_ns)."""

    def __init__(self, path, victim):
        symbols = {
            int(line.split()[0], 16): line.split()[2] for line in otlp_read._run("nm", victim).splitlines()
            if line.split()[-1] in PLACES
        }
        self.rows = {}
        base = None
        for line in path.read_text().splitlines():
            station, kind, address, *numbers = line.split(",")
            self.rows[int(station), int(address, 0)] = (kind, *map(int, numbers))
        # A program that may lie anywhere: its places are apart as in the file, and code is 4 KiB aligned.
        for address in {address for _, address in self.rows}:
            for at in symbols:
                if all((there - address + at) in symbols for (n, there), row in self.rows.items()
                       if row[0] == "exact"):
                    base = address - at
        self.names = {address: symbols.get(address - base, "") for _, address in self.rows}
        assert PLACES <= set(self.names.values()), (self.names, symbols)


class Suspended(session.TestCase):
    VICTIM = tap.VICTIMS / "victim-suspended"

    def live(self, *options, dialect="seqlock", start=True):
        """(run, victim, tell, truth) after the coroutines have lived; the region was found before."""
        log = self.directory() / "log"
        victim, tell = self.commanded("suspended", log, dialect)
        run = self.start("--pid", victim.pid, "--frequency", "199", "--kernel-stacks=off", *options)
        run.child.wait_for("publishes coroutines")
        tell("go")
        return run, victim, tell, Truth(log, self.VICTIM)

    def sums(self, samples, truth):
        """{(station, place): ns} of what was sent; the place by nm, else its address."""
        symbols, sums = otlp_read.Symbols(), collections.Counter()
        for sample in samples:
            self.assertEqual((sample.unit, sample.period_type, sample.period),
                             ("nanoseconds", "suspended", 0))
            self.assertEqual(len(sample.frames), 1, sample)
            frame = sample.frames[0]
            station = sample.attributes["coroutine.station"]
            self.assertEqual(sample.attributes["coroutine.state"], "suspended")
            self.assertEqual(sample.attributes["coroutine.probe_id"], f"0x{0x9000 + station:016x}")
            self.assertGreater(sample.attributes["coroutine.birth_ns"], 0)
            self.assertNotIn("thread.id", sample.attributes)
            name = symbols.name(frame)
            if name in PLACES:
                self.assertEqual(frame.build_id, symbols.build_id(str(self.VICTIM)))
            sums[station, name if name in PLACES else frame.address] += sample.value
        return sums

    def judge(self, result, truth, open_from_ns, open_until_ns):
        """@open_…: earliest and latest end of the time that what is still suspended may have been seen."""
        sums = self.sums(result.suspended, truth)
        for (station, address), (kind, sum_ns, since_ns, late_ns) in truth.rows.items():
            told = sums.pop((station, truth.names[address] or address), 0)
            if kind == "exact":
                self.assertGreaterEqual(told, sum_ns, (station, truth.names[address]))
                self.assertLessEqual(told, sum_ns + late_ns, (station, truth.names[address]))
            elif kind == "open":
                self.assertGreaterEqual(told, open_from_ns - since_ns, station)
                self.assertLessEqual(told, open_until_ns - since_ns, station)
            elif kind == "lossy":       # it is suspended at the end, too
                self.assertLessEqual(told, sum_ns + late_ns + open_until_ns - since_ns, station)
            else:
                self.assertLessEqual(told, sum_ns, station)
        self.assertFalse(sums, "told of no place that the program knows")

    def check_counters(self, result, truth):
        counters = result.counter("coroutine_suspensions_total")
        kinds = collections.Counter(kind for _, kind in {(station, row[0])
                                                         for (station, _), row in truth.rows.items()})
        self.assertGreaterEqual(counters["counted"], 3 * kinds["exact"])
        # Of a thousand events at once a station keeps eight, and who dies suspended has no end.
        self.assertGreaterEqual(counters["unknown"], kinds["lossy"] + kinds["dying"], counters)
        self.assertEqual((counters["folded"], counters["lost"]), (0, 0))
        self.assertGreater(result.counter("coroutine_events_total", "lost"), 0)

    def test_adds_up_to_what_the_program_knows(self):
        for dialect in ("seqlock", "document"):
            run, victim, tell, truth = self.live(dialect=dialect)
            before = now_ns()
            result = run.stop(signal.SIGTERM)
            self.judge(result, truth, before, now_ns())
            self.check_counters(result, truth)
            self.assertGreater(len({request.resource_profiles[0].scope_profiles[0].profiles[0].time_unix_nano
                                    for request in result.requests}), 1, "several windows")
            self.assertEqual({s.resource["process.pid"] for s in result.suspended}, {victim.pid})
            self.assertEqual(victim.stop(), 0)

    def test_ends_with_the_process(self):
        run, victim, tell, truth = self.live()
        before = now_ns()
        victim.process.kill()
        victim.process.wait()
        after = now_ns()
        result = run.wait()
        # Told of by a notice, whose time is its own; a window may have closed meanwhile, while nobody had
        # heard of it yet.
        self.judge(result, truth, before, after + session.CLOCK_SLACK_NS)

    def test_is_a_part_of_what_is_recorded(self):
        log, directory = self.directory() / "log", self.directory()
        victim, tell = self.commanded("suspended", log)
        record = self.spawn([
            tap.SPANPROF, "record", "--log-level", "info", "--pid", victim.pid, "-o", directory / "out.otlp"
        ], env=session.clean_environment())
        record.wait_for("publishes coroutines")
        tell("go")
        truth = Truth(log, self.VICTIM)
        self.assertEqual(record.stop(signal.SIGINT), 0, record)
        exact = sum(row[1] for row in truth.rows.values() if row[0] == "exact")
        late = sum(row[3] for row in truth.rows.values() if row[0] == "exact")
        stations = {station for (station, _), row in truth.rows.items() if row[0] == "exact"}
        self.assertEqual(self.spanprof("validate", directory / "out.otlp").returncode, 0)
        events = [s for s in otlp_read.samples(directory / "out.otlp") if s.type == "suspended"]
        told = sum(s.value for s in events if s.attributes["coroutine.station"] in stations)
        self.assertGreaterEqual(told, exact)
        self.assertLessEqual(told, exact + late)
        self.check_folded(directory, truth)
        self.check_page(directory, events)
        self.check_report(directory, events)

    def listed(self, pid):
        """What `targets` says of a process, by the configuration that chooses those that publish."""
        rows = json.loads(
            self.spanprof("targets", "--json", "--verbose", env=session.clean_environment()).stdout)
        return next((row for row in rows if row["pid"] == pid), None)

    def test_needs_no_selector_context_or_cpu(self):
        """Stations alone make a target, and one that never runs is told of, too."""
        log = self.directory() / "log"
        victim, tell = self.commanded("suspended", log)
        tell("idle")
        row = self.listed(victim.pid)
        self.assertEqual((row["chosen"], row["reason"]), (True, "publishes context"))
        self.assertRegex(row["coroutines"]["address"], "^0x[0-9a-f]+$")
        self.assertNotIn("context", row)
        run = self.start("--frequency", "19")
        run.child.wait_for(rf"{victim.pid}.*publishes coroutines")
        tell("go")
        truth = Truth(log, self.VICTIM)
        before = now_ns()
        result = run.stop(signal.SIGTERM)
        result.suspended = [s for s in result.suspended if s.resource["process.pid"] == victim.pid]
        self.judge(result, truth, before, now_ns())

    def test_finds_who_publishes_later(self):
        run = self.start("--frequency", "199")
        log = self.directory() / "log"
        victim, tell = self.commanded("suspended", log)
        run.child.wait_for(rf"{victim.pid}.*publishes coroutines")
        tap.wait_until(
            lambda: any(s.resource["process.pid"] == victim.pid and "coroutine.station" not in s.attributes
                        for path in run.receiver.paths() if path.with_suffix(".json").exists()
                        for s in otlp_read.samples(path)), "samples of it")
        victim.stop()
        run.stop(signal.SIGTERM)

    def test_takes_no_engine_for_a_target(self):
        traced = self.spawn([
            tap.SPANPROF, "coro", "-o",
            self.directory() / "trace.jsonl", "--", tap.VICTIMS / "victim-stations", "coroutines=4",
            "turns=1", "end=hold"
        ], stdin=subprocess.PIPE)
        traced.wait_for("done|ready")
        target = tap.wait_until(lambda: next(iter(children(traced.pid)), None), "the command")
        row = tap.wait_until(lambda: (lambda r: r if r and r["chosen"] else None)(self.listed(target)),
                             "the target is listed")
        self.assertIn("coroutines", row)
        self.assertFalse(self.listed(traced.pid)["chosen"])
        traced.process.stdin.close()
        self.assertEqual(traced.wait(), 0)

    def hostile(self, path, *arguments):
        """A program with a region in a file that this test may harm."""
        header = b"RCRTOROC" + struct.pack("<IIII", 1, 64, 0, 0)
        path.write_bytes(header.ljust(65 * 1024, b"\0"))
        child = self.spawn([tap.VICTIMS / "victim-stations", "coroutines=64", *arguments],
                           stdin=subprocess.PIPE,
                           env=session.clean_environment(CTP_SHM_PATH=path, CTP_MAX_STATIONS=64))
        child.wait_for("^ready" if "turns=1000000" in arguments else "^done")
        return child

    def harm(self, directory):
        """Once more of what is done to the regions; each is mapped by its program and by the daemon."""
        for name in ("scribbled", "busy"):
            with open(directory / name, "r+b") as file:
                # the header stays, so that stations are believed to be there …
                file.seek(24)
                file.write(os.urandom(65 * 1024 - 24))
        with open(directory / "headless", "r+b") as file:
            file.write(os.urandom(1024))        # … or does not
        with open(directory / "shrinking", "r+b") as file:
            file.truncate(max(0, (directory / "shrinking").stat().st_size - 5000))

    def test_survives_regions_that_are_cut_overwritten_and_replaced(self):
        """While the daemon has them mapped; a neighbour's time adds up all the same."""
        directory, log = self.directory(), self.directory() / "log"
        victim, tell = self.commanded("suspended", log)
        harmed = {name: self.hostile(directory / name, "turns=4", "hang=64", "end=hold")
                  for name in ("scribbled", "headless", "shrinking", "cut", "replaced")}
        harmed["busy"] = self.hostile(directory / "busy", "turns=1000000", "awaits=20", "pause=100",
                                      "end=hold")
        run = self.start("--pid", ",".join(str(child.pid) for child in (victim, *harmed.values())),
                         "--frequency", "199", "--kernel-stacks=off")
        for child in (victim, *harmed.values()):
            run.child.wait_for(rf"{child.pid}.*publishes coroutines")
        # a shared mapping of ours as well: what is done next is done to what it reads
        for name in harmed:
            self.assertIn(str(directory / name), pathlib.Path(f"/proc/{run.pid}/maps").read_text())
        os.truncate(directory / "cut", 0)
        (directory / "replaced").unlink()
        (directory / "replaced").write_bytes(os.urandom(65 * 1024))
        # The neighbour lives for seconds, in which the daemon looks at all regions again and again.
        victim.process.stdin.write(b"go\n")
        victim.process.stdin.flush()
        n = 0
        while "ok" not in victim.out:
            self.assertIsNone(run.child.status, run.child)
            self.harm(directory)
            n += 1
            time.sleep(0.02)
        self.assertGreater(n, 10)
        truth = Truth(log, self.VICTIM)
        before = now_ns()
        result = run.stop(signal.SIGTERM)
        after = now_ns()
        # what random bytes say may be wrong, but not longer than we have looked
        for sample in result.suspended:
            self.assertLessEqual(sample.value, after - run.begin_ns)
        self.assertEqual(result.counter("coroutine_regions_total", "found"), 7)
        # Whole before it was unlinked, and still so: who is suspended there is for as long as we have looked.
        replaced = collections.Counter(s.attributes["coroutine.station"] for s in result.suspended
                                       if s.resource["process.pid"] == harmed["replaced"].pid)
        self.assertEqual(set(replaced), set(range(64)))
        result.suspended = [s for s in result.suspended if s.resource["process.pid"] == victim.pid]
        self.judge(result, truth, before, after)

    def check_folded(self, directory, truth):
        self.spanprof("convert", directory / "out.otlp", "--type", "suspended", "-o",
                      directory / "out.folded")
        lines = [line.rsplit(" ", 1) for line in (directory / "out.folded").read_text().splitlines()]
        for place in PLACES:
            least = sum(row[1] for (_, address), row in truth.rows.items()
                        if row[0] == "exact" and truth.names[address] == place)
            told = sum(int(value) for stack, value in lines if place in stack.split(";")[-1])
            self.assertGreaterEqual(told, least, place)

    def check_page(self, directory, events):
        self.spanprof("convert", directory / "out.otlp", "-o", directory / "out.html")
        page = page_read.read(directory / "out.html")
        kinds = [kind["type"] for kind in page.meta["kinds"]]
        self.assertIn("samples", kinds)
        rows = [row for row in page.rows if row.kind == kinds.index("suspended")]
        self.assertEqual(sum(row.value for row in rows), sum(s.value for s in events))
        self.assertEqual(len({row.values["coroutine"] for row in rows}),
                         len({s.attributes["coroutine.station"] for s in events}))
        self.assertLessEqual(PLACES, {row.path[-1].name for row in rows})

    def check_report(self, directory, events):
        report = json.loads(self.spanprof("report", "--json", directory / "out.otlp").stdout)
        part = next(p for p in report["profiles"] if p["type"] == "suspended")
        self.assertEqual(part["value"], sum(s.value for s in events))
        sums = collections.Counter()
        for s in events:
            sums[s.attributes["coroutine.station"], s.attributes["coroutine.birth_ns"],
                 s.attributes["coroutine.probe_id"]] += s.value
        rows = {(row["station"], row["birth_ns"], row["probe_id"]): row for row in part["coroutines"]}
        top = collections.Counter({key: row["value"] for key, row in rows.items()})
        self.assertEqual(sorted(top.values(), reverse=True), sorted(sums.values(), reverse=True)[:20])
        for key, row in rows.items():
            self.assertEqual((row["value"], row["suspended_ns"], row["state"], row["pid"]),
                             (sums[key], sums[key], "suspended", events[0].resource["process.pid"]))
        text = self.spanprof("report", "--type", "suspended", directory / "out.otlp").stdout
        for station, birth_ns, probe_id in rows:
            self.assertRegex(text, rf"\b{station}  {probe_id}  {birth_ns}  suspended")
        markdown = self.spanprof("report", "--format", "markdown", "--type", "suspended",
                                 directory / "out.otlp").stdout
        self.assertIn("#### Coroutines", markdown)
        (station, birth_ns, _), _ = sums.most_common(1)[0]
        one = json.loads(
            self.spanprof("report", "--json", "--coroutine", f"{station}-{birth_ns}",
                          directory / "out.otlp").stdout)
        self.assertEqual(
            {(row["station"], row["birth_ns"]) for p in one["profiles"] for row in p["coroutines"]},
            {(station, birth_ns)})


if __name__ == "__main__":
    tap.main()
