#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who is profiled and who is not; targets that exit, execute, or are gone before anybody looks."""
import oracle

oracle.enter()

import collections
import os
import re
import signal
import subprocess
import sys
import threading
import time

import otlp_read
import session
import tap

SYMBOLS = otlp_read.Symbols()
HZ = ("--frequency", "999")
PATIENCE = 300          # for programs that use two seconds of CPU


def functions(samples):
    return collections.Counter(SYMBOLS.name(f) for s in samples for f in s.frames if f.type != "kernel")


class Selectors(session.TestCase):
    daemon_environment = session.WITHOUT_RUNTIMES

    def sampled_together(self, *options, wanted, unwanted=(), cpu=0.35, **more):
        """A run during which wanted and unwanted work alike."""
        run = self.start(*HZ, *options, **more)
        session.wait_cpu([child.pid for child in (*wanted, *unwanted)], cpu, of=min)
        result = run.stop()
        for child in wanted:
            self.assertGreater(len(result.of(child.pid)), 100, f"{child}\n{result.log}")
        for child in unwanted:
            self.assertEqual(result.of(child.pid), [], child)
        return result

    def test_pid(self):
        a, b, c = (self.victim("chain", 5, rests=True) for _ in range(3))
        result = self.sampled_together("-p", f"{a.pid},{b.pid}", wanted=[a, b], unwanted=[c])
        self.assertEqual(result.pids, {a.pid, b.pid})
        self.assertEqual(result.summary["lost"], 0, result.summary)
        self.assertIn("profiling 2 processes of", result.log)

    def test_comm(self):
        shares = self.victim("shares", rests=True)
        chain, static = (self.victim(name, 5, rests=True) for name in ("chain", "chain-static"))
        result = self.sampled_together("-C", "victim-cha*", wanted=[chain, static], unwanted=[shares])
        self.assertTrue({s.resource["process.executable.name"]
                         for s in result.samples} <= {"victim-chain", "victim-chain-static"})
        self.assertGreater(
            result.summary["not_target"] +
            result.counter("targets_total", "rejected"), 0,
            "those that were undecided at first are accounted for")

    def test_comm_finds_who_starts_later(self):
        before = self.victim("shares", rests=True)
        run = self.start("-C", "victim-chain", *HZ)
        self.assertIn("no process matches yet", run.log)
        child = self.victim("chain", 5, rests=True)
        session.wait_cpu([child.pid, before.pid], 0.75)
        run.wait_events(50, child.pid)
        result = run.stop()
        self.assertEqual(result.pids, {child.pid})

    def python(self, code):
        child = subprocess.Popen([sys.executable, "-c", code])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    BURN = """
import ctypes, os, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: sum(range(1000))
"""

    def test_a_name_is_rejected_once(self):
        """Of 800 processes of one name that nothing chooses, the kernel half lets nearly all go by itself.
        Each new process of the machine is rejected, too."""
        run = self.start("-C", "victim-chain", *HZ)
        child = self.python(self.BURN + """
ctypes.CDLL(None).prctl(15, b"same-name")
for _ in range(800):
    pid = os.fork()
    if not pid:
        burn(0.005)
        os._exit(0)
    os.waitpid(pid, 0)
""")
        self.assertEqual(child.wait(PATIENCE), 0)
        result = run.stop()
        self.assertEqual(result.samples, [])
        self.assertLess(result.counter("targets_total", "rejected"), 760, result.log)

    def test_a_new_name_is_looked_at_at_once(self):
        """It was rejected by the name that it had; with another one it is undecided again."""
        run = self.start("-C", "chosen-now", *HZ)
        child = self.python(self.BURN + """
burn(0.5)
ctypes.CDLL(None).prctl(15, b"chosen-now")
burn(1.5)
""")
        self.assertEqual(child.wait(PATIENCE), 0)
        result = run.stop()
        self.assertEqual(result.pids, {child.pid})
        self.assertGreater(len(result.samples), 100, result.log)

    def test_a_new_user_is_looked_at_at_once(self):
        if os.geteuid():
            tap.skip("root: only root may become another user")
        run = self.start("--user", "54321", *HZ)
        stays = self.python(self.BURN + "burn(100)")
        child = self.python(self.BURN + "burn(0.5); os.setuid(54321); burn(1.5)")
        self.assertEqual(child.wait(PATIENCE), 0)
        session.wait_cpu([stays.pid], 0.5)
        result = run.stop()
        self.assertEqual(result.pids, {child.pid})
        self.assertGreater(len(result.samples), 100, result.log)

    def test_an_excluded_name_is_let_go(self):
        chain, shares = self.victim("chain", 5, rests=True), self.victim("shares", rests=True)
        self.sampled_together("--all", "--exclude", "comm=victim-sh*", wanted=[chain], unwanted=[shares])

    def test_all_but_itself(self):
        a, b = self.victim("chain", 5, rests=True), self.victim("shares", rests=True)
        run = self.start("--all", *HZ)
        session.wait_cpu([a.pid, b.pid], 0.35, of=min)
        result = run.stop()
        self.assertTrue({a.pid, b.pid} <= result.pids)
        self.assertNotIn(run.pid, result.pids)
        self.assertRegex(result.log, r"profiling \d+ processes of \d+")

    def test_selectors_add_up(self):
        shares = self.victim("shares", rests=True)
        chain, other = (self.victim(name, 5, rests=True) for name in ("chain", "chain-static"))
        self.sampled_together("-p", chain.pid, "-C", "victim-sh*", wanted=[chain, shares], unwanted=[other])

    def test_default_is_who_publishes(self):
        busy = self.victim("chain", 5, rests=True)
        publisher, tell = self.commanded("ring")
        tell("publish")
        tell("set 1 2 3")
        result = self.sampled_together(wanted=[publisher], unwanted=[busy])
        self.assertIn(publisher.pid, result.pids)
        self.assertEqual({(s.trace_id, s.span_id) for s in result.of(publisher.pid)},
                         {("00000000000000010000000000000002", "0000000000000003")} |
                         ({(None, None)} if any(not s.span_id for s in result.of(publisher.pid)) else set()))

    def test_publishers_beside_the_chosen(self):
        """Of processes that were looked at and left alone, the one that then publishes is profiled from there on."""
        chosen, other = self.victim("chain", 5, rests=True), self.victim("shares", rests=True)
        early, tell_early = self.commanded("ring")
        late, tell_late = self.commanded("ring")
        tell_early("publish")
        run = self.start(*HZ, "--exe", "victim-chain", "--publishers")
        run.wait_events(50, chosen.pid)
        run.wait_events(50, early.pid)
        session.wait_cpu([late.pid, other.pid], 0.5)
        tell_late("publish")
        tell_late("set 1 2 3")
        run.wait_events(50, late.pid)
        after = self.commanded("ring")
        after[1]("publish")
        run.wait_events(50, after[0].pid)
        result = run.stop()
        self.assertEqual(result.of(other.pid), [])
        self.assertLessEqual({chosen.pid, early.pid, late.pid, after[0].pid}, result.pids)
        self.assertIn("0000000000000003", {s.span_id for s in result.of(late.pid)})

    def test_says_what_all_would_profile(self):
        run = self.start(*HZ)
        result = run.stop()
        match = re.search(r"no process publishes a trace context yet; `--all` would profile (\d+) processes",
                          result.log)
        if not match:
            self.assertRegex(result.log, r"profiling \d+ process", "somebody else on this machine publishes")
            return
        programs = 0  # what has an executable; processes come and go meanwhile
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                programs += bool(os.readlink(f"/proc/{pid}/exe"))
            except OSError:
                pass
        self.assertGreater(programs, 0)
        self.assertAlmostEqual(int(match[1]), programs, delta=10 + programs // 4)

    def test_a_pid_that_does_not_exist(self):
        gone = self.spawn(["true"])
        gone.wait()
        run = self.start("-p", gone.pid, ready=False)
        self.assertEqual(run.child.wait(), 1, run.child)
        self.assertIn(f"there is no process {gone.pid}", run.log)
        self.assertEqual(len(run.log.splitlines()), 1, "one clear line")

    def test_pids_that_are_excluded_again(self):
        one, other = self.victim("chain", 5, rests=True), self.victim("chain", 5, rests=True)
        run = self.start("-p", one.pid, "--exclude", f"pid={one.pid}", ready=False)
        self.assertEqual(run.child.wait(), 1, run.child)
        self.assertEqual(
            run.log, "spanprof: nothing is left to profile: --exclude takes away every process of --pid\n")
        run = self.start("-p", f"{one.pid},{other.pid}", "--exclude", f"pid={one.pid}", *HZ)
        run.wait_events(20)
        result = run.stop()
        self.assertEqual(result.pids, {other.pid})
        self.assertIn("--exclude takes away 1 of 2 processes of --pid", result.log)


class Lives(session.TestCase):
    daemon_environment = session.WITHOUT_RUNTIMES

    def test_ends_when_all_that_were_named_have_exited(self):
        a, b = self.victim("shares", rests=True), self.victim("shares", rests=True)
        run = self.start("-p", f"{a.pid},{b.pid}", *HZ)
        for child in (a, b):
            session.wait_cpu([child.pid], 0.35)
            child.stop()
        result = run.wait()
        self.assertIn("every process that was chosen has exited", result.log)
        for child in (a, b):
            self.assertGreater(len(result.of(child.pid)), 50, "samples of the dead are kept")
        self.assertEqual(result.counter("targets_total", "gone"), 2)

    def test_goes_on_when_others_may_come(self):
        a = self.victim("shares", rests=True)
        run = self.start("-p", a.pid, "-C", "victim-chain", *HZ)
        a.stop()
        later = self.victim("chain", 5, rests=True)
        run.wait_events(50, later.pid)
        self.assertIsNone(run.child.status)
        run.stop()

    def test_stops_after_its_duration(self):
        a = self.victim("chain", 5, rests=True)
        result = self.start("-p", a.pid, "-d", "2s", *HZ).wait()
        self.assertTrue(result.of(a.pid))
        self.assertAlmostEqual(result.summary["duration_ns"] / 1e9, 2, delta=20)

    def test_exec_in_place_is_a_new_program(self):
        """sh spins, then becomes victim-chain under the same pid."""
        run = self.start("-C", "victim-*,sh,dash", *HZ)
        child = self.spawn(["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exec \"$0\" 5",
                            tap.VICTIMS / "victim-chain"])
        child.wait_for("^pid")
        session.wait_cpu([child.pid], 0.35)
        result = run.stop()
        by_program = collections.defaultdict(list)
        for sample in result.of(child.pid):
            by_program[sample.resource["process.executable.name"]].append(sample)
        shell = os.path.basename(os.path.realpath("/bin/sh"))
        self.assertEqual(set(by_program), {shell, "victim-chain"})
        self.assertGreater(functions(by_program["victim-chain"])["chain_leaf"], 30)
        self.assertEqual(functions(by_program[shell])["chain_leaf"], 0)
        for sample in by_program["victim-chain"]:
            self.assertNotIn(shell, {os.path.basename(f.path) for f in sample.frames})
        self.assertGreater(result.counter("targets_total", "exec"), 0)

    def test_exec_of_itself_again_and_again(self):
        child = self.spawn([tap.VICTIMS / "victim-exec", "20", "60"])
        # it would be over before a daemon that is slow to start
        child.process.send_signal(signal.SIGSTOP)
        run = self.start("-p", child.pid, *HZ)
        child.process.send_signal(signal.SIGCONT)
        result = run.wait(patience=120)
        self.assertEqual(child.wait(), 0)
        self.assertEqual(result.pids, {child.pid})
        names = functions(result.samples)
        self.assertGreater(names["exec_burn"], 200)
        # the program is another copy at another address each time: a stale table would show as unknown or
        # wrong functions
        known = sum(any(SYMBOLS.name(f) == "exec_burn" for f in s.frames) for s in result.samples
                    if s.frames and s.frames[0].type != "kernel" and "victim-exec" in s.frames[0].path)
        own = sum(bool(s.frames) and "victim-exec" in s.frames[0].path for s in result.samples)
        self.assertGreater(known, 0.95 * own)

    def test_a_storm_of_short_lives(self):
        run = self.start("-C", "victim-short", *HZ)
        stop = threading.Event()

        def storm():
            while not stop.is_set():
                children = [
                    subprocess.Popen([tap.VICTIMS / "victim-short", str(ms)], stdout=subprocess.DEVNULL)
                    for ms in (1, 2, 5, 10, 20)
                ]
                for child in children:
                    child.wait()

        threads = [threading.Thread(target=storm) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            run.wait_events(1000)       # a process has ten at most
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        result = run.stop()
        self.assertGreater(len(result.pids), 20)
        self.assertEqual({s.resource["process.executable.name"] for s in result.samples}, {"victim-short"})
        self.assertGreater(functions(result.samples)["short_burn"], 20)

    def test_a_storm_under_all(self):
        run = self.start("--all", *HZ)
        for _ in range(60):
            children = [
                subprocess.Popen([tap.VICTIMS / "victim-short", "3"], stdout=subprocess.DEVNULL)
                for _ in range(8)
            ]
            for child in children:
                child.wait()
        run.stop()

    def test_killed_while_it_is_read(self):
        run = self.start("-C", "victim-chain", *HZ)
        for delay in (0.0, 0.005, 0.02, 0.05, 0.1, 0.2) * 3:
            child = self.spawn([tap.VICTIMS / "victim-chain", "30"])
            time.sleep(delay)
            child.process.kill()
        result = run.stop()
        self.assertTrue(all(s.resource["process.executable.name"] == "victim-chain" for s in result.samples))

    def test_signals_stop_it_at_any_moment(self):
        victim = self.victim("chain", 5, rests=True)
        for i, delay in enumerate((0.0, 0.02, 0.1, 0.3, 0.6, 1.1)):
            sig = (signal.SIGTERM, signal.SIGINT)[i % 2]
            with self.subTest(signal=sig, delay=delay):
                run = self.start("-p", victim.pid, *HZ)
                time.sleep(delay)
                run.stop(sig)

    def test_signals_stop_it_while_it_starts(self):
        for delay in (0.0, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15):
            with self.subTest(delay=delay):
                # with the walk over runtimes, which this Python lets it load meanwhile
                run = self.start("-a", *HZ, ready=False, environment={"SPANPROF_RUNTIMES": "all"})
                time.sleep(delay)
                status = run.child.stop(signal.SIGTERM)
                if status == -signal.SIGTERM:
                    continue  # before it took signals into its own hands: nothing was sampled yet
                run.result(status, True)


tap.main()
