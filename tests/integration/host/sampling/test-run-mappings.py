#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mappings that come and go under the daemon's eyes: libraries loaded late, swapped at one address, processes
that are dead before anybody looks."""
import oracle

oracle.enter()

import collections
import os
import pathlib
import re
import signal
import sys
import time

import otlp_read
import prometheus
import session
import tap
import unix_http

SYMBOLS = otlp_read.Symbols()
SWAP = {name: tap.VICTIMS / f"libswap-{name}.so" for name in "ab"}
TRUNCATED = "profile.stack.truncated"
TEXT = tap.VICTIMS / "libtext-huge.so"
CHAIN = ["library_inner", "library_burn", "text_outer", "main"]
HUGE_PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")
SPAWNER = """
import os, sys
null = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
for i in range(int(sys.argv[1])):
    os.waitpid(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=null), 0)
print("done", flush=True)
"""
MAPPER = """
import mmap, sys
for i in range(int(sys.argv[1])):
    mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
"""


def names(sample):
    return [SYMBOLS.name(frame) for frame in sample.frames]


def resident_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


class Mappings(session.TestCase):
    def test_a_library_is_known_as_soon_as_it_is_loaded(self):
        victim = self.victim("dlopen", SWAP["a"], "1.5")
        run = self.start("--pid", victim.pid, "--frequency", 999)
        victim.wait_for("^loaded")
        session.wait_cpu([victim.pid], 1.0)
        result = run.stop()
        build_id = SYMBOLS.build_id(str(SWAP["a"]))
        self.assertTrue(build_id)
        inside = [s for s in result.of(victim.pid) if any(f.build_id == build_id for f in s.frames)]
        self.assertGreater(len(inside), 300, result.summary)
        # A tick before its rows were loaded is walked by frame pointers: a drain, and the time to read them.
        complete = [s for s in inside if TRUNCATED not in s.attributes]
        self.assertGreater(
            len(complete) / len(inside), 0.9,
            collections.Counter(s.attributes.get(TRUNCATED) for s in inside))
        for sample in complete:
            found = set(names(sample))
            caller = "_dl_init" if "_init" in found else "library_burn"     # the loader calls _init
            self.assertTrue({caller, "main"} <= found, names(sample))
        self.assertGreater(result.counter("mappings_noticed_total", "noticed"), 0)

    def test_the_daemon_comes_when_a_target_runs_where_nothing_is_known(self):
        """Mostly: it may have looked just between the mapping and the first sample in it."""
        victim = self.victim("dlopen", "code")
        path = self.directory() / "control.sock"
        run = self.start("--pid", victim.pid, "--control", path, "--frequency", 499)
        run.wait_events(20, victim.pid)

        def counted(event):
            return prometheus.value(unix_http.metrics(path), "spanprof_calls_total", event=event)

        def makes_code():
            victim.process.send_signal(signal.SIGUSR1)
            session.wait_cpu([victim.pid], 0.15)
            return counted("answered") >= 3

        tap.wait_until(makes_code, "three answered calls", 120)
        result = run.stop()
        self.assertGreaterEqual(result.counter("calls_total", "made"),
                                result.counter("calls_total", "answered"))
        self.assertGreaterEqual(result.counter("mappings_noticed_total", "noticed"), 3)

    def test_the_first_samples_are_whole(self):
        """Rows of what runs already are in force before the first tick: 25 to 40 ms would be lost otherwise."""
        victim = self.spawn([tap.VICTIMS / "victim-omit", "depth", "30"])
        victim.wait_for("^frames")
        run = self.start("--pid", victim.pid, "--frequency", 1999)
        session.wait_cpu([victim.pid], 0.5)
        samples = sorted(run.stop().of(victim.pid), key=lambda s: s.time_ns)
        self.assertGreater(len(samples), 300)
        ends = collections.Counter(s.attributes.get(TRUNCATED, "whole") for s in samples[:200])
        self.assertGreaterEqual(ends["whole"], 199, ends)

    def swap_verdicts(self, result, victim):
        """Whether each sample in one of the libraries has the caller that works in it."""
        paths = {str(path): name for name, path in SWAP.items()}
        verdicts = collections.Counter()
        for sample in result.of(victim.pid):
            libraries = {paths[f.path] for f in sample.frames if f.path in paths}
            if not libraries:
                continue
            callers = {name[-1] for name in names(sample) if name in ("swap_a", "swap_b")}
            if TRUNCATED in sample.attributes:
                verdicts[sample.attributes[TRUNCATED]] += 1
            else:
                verdicts["right" if libraries == callers else "wrong"] += 1
        print(verdicts)
        return verdicts

    def test_a_library_that_replaced_another_is_never_taken_for_it(self):
        victim = self.victim("swap", SWAP["a"], SWAP["b"])
        run = self.start("--pid", victim.pid, "--frequency", 1999)
        session.wait_cpu([victim.pid], 5.0)
        verdicts = self.swap_verdicts(run.stop(), victim)
        self.assertEqual(verdicts["wrong"], 0, verdicts)
        self.assertGreater(verdicts["right"], 10, verdicts)
        self.assertGreater(verdicts["stale"], 100, verdicts)

    def text_samples(self, form, **counters):
        """Of victim-text, which has done to its text what @form says: samples of its own code."""
        victim = self.victim("text", form, TEXT)
        run = self.start("--pid", victim.pid, "--frequency", 499)
        session.wait_cpu([victim.pid], 1.0)
        result = run.stop()
        for name, least in counters.items():
            self.assertGreaterEqual(result.counter(name), least)
        samples = result.of(victim.pid)
        self.assertGreater(len(samples), 200, result.summary)
        return samples

    def check_text(self, samples, least=0.95):
        right = [s for s in samples if TRUNCATED not in s.attributes and set(CHAIN) <= set(names(s))]
        self.assertGreaterEqual(
            len(right) / len(samples), least, collections.Counter(str(names(s)) for s in samples))

    def test_text_that_a_copy_has_replaced_is_still_its_files(self):
        for form in ("moved", "written"):
            with self.subTest(form):
                self.check_text(self.text_samples(form))

    def test_text_on_huge_pages_is_still_its_files(self):
        before = HUGE_PAGES.read_text()
        self.addCleanup(HUGE_PAGES.write_text, before)
        HUGE_PAGES.write_text(str(int(before) + 2))
        if int(HUGE_PAGES.read_text()) < int(before) + 1:
            tap.skip("machine: its memory has no huge page left")
        self.check_text(self.text_samples("huge"))

    def test_text_with_other_bytes_than_the_files_is_said_to_be_memory(self):
        samples = self.text_samples("changed", text_copies_unproved_total=1)
        leaves = collections.Counter(
            (s.frames[0].name, s.frames[0].path, s.attributes.get(TRUNCATED)) for s in samples)
        self.assertGreater(leaves[("", "", "no_rows")] / len(samples), 0.95, leaves)

    def test_libraries_above_thousands_of_executable_areas_have_their_rows(self):
        self.check_text(self.text_samples("areas:3000:1"))
        self.check_text(self.text_samples("areas:3000:200", mappings_over_cap_total=1900))

    def test_notices_that_were_lost_make_no_sample_wrong(self):
        """The daemon stands still until the kernel has no room for notices of mappings."""
        victim = self.victim("swap", SWAP["a"], SWAP["b"])
        run = self.start("--pid", victim.pid, "--frequency", 1999)
        run.wait_events(200, victim.pid)
        for _ in range(2):
            os.kill(run.pid, signal.SIGSTOP)
            self.run_command([sys.executable, "-c", MAPPER, "20000"], expect=0)
            session.wait_cpu([victim.pid], 0.3)
            os.kill(run.pid, signal.SIGCONT)
            session.wait_cpu([victim.pid], 0.5)
        result = run.stop()
        verdicts = self.swap_verdicts(result, victim)
        self.assertGreater(result.counter("mappings_noticed_total", "lost"), 1000)
        self.assertEqual(verdicts["wrong"], 0, verdicts)
        self.assertGreater(verdicts["right"] + verdicts["stale"], 200, verdicts)

    def test_notices_that_were_lost_make_the_daemon_look_again(self):
        victim = self.victim("chain", 5)  # maps nothing itself, and so has its maps read once
        run = self.start("--pid", victim.pid, "--frequency", 499)
        run.wait_events(20, victim.pid)
        os.kill(run.pid, signal.SIGSTOP)
        self.run_command([sys.executable, "-c", MAPPER, "20000"], expect=0)
        os.kill(run.pid, signal.SIGCONT)
        time.sleep(0.3)  # a drain makes room; what was lost is told with the next notice of that CPU
        for cpu in os.sched_getaffinity(0):
            self.run_command(["taskset", "-c", str(cpu), sys.executable, "-c", MAPPER, "10"], expect=0)
        session.wait_cpu([victim.pid], 0.5)
        result = run.stop()
        self.assertGreater(result.counter("mappings_noticed_total", "lost"), 1000)
        self.assertGreater(result.counter("maps_reads_total"), 1)

    def test_processes_that_are_gone_at_once_have_a_name_and_frames(self):
        run = self.start("--comm", "victim-short")
        spawner = self.spawn([sys.executable, "-c", SPAWNER, "150", tap.VICTIMS / "victim-short", "20"])
        spawner.wait_for("^done")
        result = run.stop()
        path = str((tap.VICTIMS / "victim-short").resolve())
        build_id = SYMBOLS.build_id(path)
        user = [s for s in result.samples if any(f.type != "kernel" for f in s.frames)]
        placed = [s for s in user if all(f.build_id for f in s.frames if f.type != "kernel")]
        burning = [s for s in user if any(f.build_id == build_id for f in s.frames)]
        print(
            f"{len(placed)} of {len(user)} with build ids, {len(burning)} in the program, {len(result.pids)} processes, "
            f"{result.counter('mappings_recalled_total')} recalled")
        self.assertGreater(len(result.pids), 130)
        self.assertGreaterEqual(len(placed) / len(user), 0.9)
        self.assertGreaterEqual(len(burning) / len(user), 0.8)
        self.assertEqual({s.resource["process.executable.name"] for s in result.samples}, {"victim-short"})

    def test_a_storm_of_processes_leaves_the_daemon_as_it_was(self):
        """Memory grows in steps with the fullest window so far, and with requests that wait: some rounds may
        meet one. What each process leaves behind shows in every round."""
        n, leak_kib, rounds = 4000, 0.5, 6
        run = self.start("--all", "--frequency", 99)

        def growth_kib():
            before = resident_kib(run.pid)
            self.run_command([sys.executable, "-c", SPAWNER,
                              str(n), tap.need_tool("true")], expect=0, timeout=600)
            return resident_kib(run.pid) - before

        growths = [growth_kib()]
        while len(growths) <= rounds and (len(growths) == 1 or growths[-1] >= n * leak_kib):
            growths.append(growth_kib())
        # Without the payload's rules: a process that is seen before and after an exec of one name has two
        # equal resources.
        result = run.stop(check=False)
        result.check_books(self)
        print(
            f"VmRSS grew by {growths} KiB with {n} processes each; {result.summary['counters']['targets_total']}"
        )
        self.assertLess(min(growths[1:]), n * leak_kib)
        self.assertEqual(result.counter("targets_total", "over_cap"), 0)


if __name__ == "__main__":
    tap.main()
