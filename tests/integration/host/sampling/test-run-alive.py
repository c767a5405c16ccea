#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Allocations that are alive (inuse_space, inuse_objects), of a program that tells each of its allocations
(libspanprof-alloc with a mean distance of a byte) and frees, so that what is alive is known to the byte."""
import oracle

oracle.enter()

import collections
import os
import re
import shutil
import subprocess
import sys
import time

import otlp_read
import session
import tap

LIBRARY = tap.BUILD_DIR / "sdk/libspanprof-alloc.so"
FUNCTIONS = {"live_f", "live_g", "live_r", "churn"}
TRACE = f"{7:016x}{8:016x}"


class Alive(session.NamingCase):
    def setUp(self):
        super().setUp()
        tap.need_kernel((6, 6), "lets `run` attach to no probe")
        # a name that no other process has, for its children, too
        self.program = self.directory() / f"live-{os.getpid()}"
        self.program.symlink_to(tap.VICTIMS / "victim-live")

    def begin(self, library=LIBRARY):
        victim = self.spawn([self.program], stdin=subprocess.PIPE, env={
            **os.environ, "LD_PRELOAD": str(library), "SPANPROF_ALLOC_BYTES": "1"})
        victim.wait_for(r"^pid \d+")
        return victim, lambda *lines: [self.tell(victim, line) for line in lines][-1]

    def watch(self):
        run, wait = self.start_counted("--comm", self.program.name, "--allocations", "--frequency", 199)
        wait(2, "spanprof_alloc_probes_total", result="attached")
        return run, wait

    def places(self, library, pid):
        """The code of both probes in a process: {address: its first byte}."""
        notes = subprocess.run(["readelf", "-n", library], check=True, capture_output=True, text=True).stdout
        with open(f"/proc/{pid}/maps") as maps:
            base = min(int(line.split("-")[0], 16) for line in maps if str(library) in line)
        places = {base + int(place, 16) for place in re.findall(r"Location: (0x\w+)", notes)}
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            return {place: os.pread(memory.fileno(), 1, place) for place in places}

    def alive(self, paths, pid):
        """{(function, span): (bytes, objects)} of a process in the last window that has any, and their ages."""
        symbols, sums, ages = otlp_read.Symbols(), collections.defaultdict(lambda: [0, 0]), set()
        for path in reversed(paths):
            samples = [sample for sample in otlp_read.samples(path) if sample.type.startswith("inuse_")]
            if not samples:
                continue
            for sample in samples:
                self.assertIn((sample.type, sample.unit, sample.period), {("inuse_space", "bytes", 1),
                                                                         ("inuse_objects", "count", 1)})
                names = {symbols.name(frame) for frame in sample.frames} & FUNCTIONS
                # what libraries allocate for themselves
                if sample.resource["process.pid"] != pid or not names:
                    continue
                self.assertNotIn("profile.stack.truncated", sample.attributes)
                self.assertIn(sample.trace_id, (None, TRACE))
                key = names.pop(), int(sample.span_id or "0", 16)
                sums[key][sample.type == "inuse_objects"] += sample.value
                ages.add(sample.attributes["allocation.age"])
            return {key: tuple(values) for key, values in sums.items()}, ages
        return {}, ages

    def check_books(self, result):
        """Each allocation that was kept ends in one way."""
        counted = result.counter("live_allocations_total")
        for event in "free_lost", "again", "evicted", "left_out", "window_full":
            self.assertEqual(counted[event], 0, counted)
        frees = result.counter("frees_total")
        self.assertEqual(counted["freed"], frees["taken"] - frees["unknown"])
        for why in "budget", "unreadable", "ring_full", "losers_full":
            self.assertEqual(frees[why], 0, frees)
        self.assertEqual(counted["added"], result.counter("allocations_total", "taken"))

    def test_what_is_alive_is_exact(self):
        victim, tell = self.begin()
        tell("keep 3")          # before anybody looks: never told
        run, wait = self.watch()
        tell("span 17", "keep 20", "churn 100", "span 34", "more 10", "drop 5", "grow", "span 0", "keep 7")
        pid = victim.pid
        expected = {("live_f", 17): (14000, 14), ("live_g", 34): (20000, 10), ("live_r", 34): (6000, 1),
                    ("live_f", 0): (7000, 7)}
        # three of these were never told; their addresses may come again
        tell("drop 24", "keep 24")
        del expected["live_f", 17]
        expected["live_f", 0] = 24000, 24
        wait(20 + 100 + 10 + 1 + 7 + 24, "spanprof_live_allocations_total", event="added")
        wait(5 + 100 + 1 + 21, "spanprof_live_allocations_total", event="freed")
        result = run.stop()
        found, ages = self.alive(result.paths, pid)
        self.assertEqual(found, expected)
        self.assertLessEqual(ages, {"0s", "10s", "1m"})
        self.check_books(result)
        victim.kill()

    def test_a_recording_has_what_is_alive_at_its_end(self):
        """Not the sum of what was alive in between, nor what was freed."""
        # a file of its own, which nobody else attaches to
        library = shutil.copy(LIBRARY, self.directory() / LIBRARY.name)
        victim, tell = self.begin(library)
        tell("keep 3")
        before, path = self.places(library, victim.pid), self.directory() / "alive.json"
        recorder = self.spawn([tap.SPANPROF, "record", "--pid", victim.pid, "--allocations", "-o", path])
        self.assertGreaterEqual(len(before), 2)
        tap.wait_until(lambda: not before.items() & self.places(library, victim.pid).items(),
                       "breakpoints at both probes")
        tell("span 17", "keep 20", "churn 100", "span 34", "more 10", "drop 5", "grow", "span 0", "keep 7")
        self.assertEqual(recorder.stop(), 0)
        found, ages = self.alive([path], victim.pid)
        self.assertEqual(found, {("live_f", 17): (14000, 14), ("live_g", 34): (20000, 10),
                                 ("live_r", 34): (6000, 1), ("live_f", 0): (7000, 7)})
        self.assertLessEqual(ages, {"0s", "10s", "1m"})
        victim.kill()

    def test_children_have_their_own_and_those_that_end_have_none(self):
        victim, tell = self.begin()
        run, wait = self.watch()
        tell("keep 20")
        found = wait.counter("spanprof_targets_total", event="found")
        child = int(tell("fork").split()[1])
        tell("burn 300")        # a sample tells of it
        wait(found + 1, "spanprof_targets_total", event="found")
        # the parent's, which are the parent's on
        unknown = wait.counter("spanprof_frees_total", result="unknown")
        tell("drop 20")
        wait(unknown + 20, "spanprof_frees_total", result="unknown")
        tell("more 4")

        def child_is_there(samples):
            symbols = otlp_read.Symbols()
            return any(s.type == "inuse_space" and s.resource["process.pid"] == child and
                       any(symbols.name(frame) == "live_g" for frame in s.frames) for s in samples)

        self.wait_for(run, child_is_there, "what the child has allocated")
        ended = wait.counter("spanprof_live_allocations_total", event="ended")
        tell("exec")            # has nothing of that any more
        wait(ended + 4, "spanprof_live_allocations_total", event="ended")
        tell("end")             # the child; the parent answers
        added = wait.counter("spanprof_live_allocations_total", event="added")
        tell("more 1")
        wait(added + 1, "spanprof_live_allocations_total", event="added")
        result = run.stop()
        self.assertEqual(self.alive(result.paths, victim.pid)[0],
                         {("live_f", 0): (20000, 20), ("live_g", 0): (2000, 1)})
        self.assertEqual(self.alive(result.paths, child)[0], {})
        victim.kill()

    def test_a_process_that_has_lost_frees_is_not_believed(self):
        victim, tell = self.begin()
        run, wait = self.watch()
        tell("keep 50")
        wait(50, "spanprof_live_allocations_total", event="added")
        # more frees than a process may have in a second; their allocations are over its budget, too
        tell("churn 200000")
        wait(1, "spanprof_frees_total", result="budget")
        wait(50, "spanprof_live_allocations_total", event="free_lost")
        # all of that is over: the window that closes next but one was begun before its check
        time.sleep(1.1)         # a second of the budget
        wait(wait.counter("spanprof_windows_total") + 2, "spanprof_windows_total")
        added = wait.counter("spanprof_live_allocations_total", event="added")
        tell("keep 5")
        wait(added + 5, "spanprof_live_allocations_total", event="added")
        result = run.stop()     # with the books of ticks
        self.assertEqual(self.alive(result.paths, victim.pid)[0], {("live_f", 0): (5000, 5)})
        self.assertEqual(result.counter("allocations_total", "ring_full"), 0)
        victim.kill()


if __name__ == "__main__":
    tap.main()
