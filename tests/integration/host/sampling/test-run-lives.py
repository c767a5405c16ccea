#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that begin and end in unusual ways: forked without exec, by vfork(), without a leader, under a
pid that was used before; and what the daemon does when the kernel's notices did not reach it."""
import oracle

oracle.enter()

import collections
import os
import re
import signal
import socket
import subprocess
import sys
import time

import otlp_read
import session
import tap

SYMBOLS = otlp_read.Symbols()
FAMILY = tap.VICTIMS / "victim-family"
HZ = ("--frequency", "499")
STORM = """
import os, sys
null = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
for i in range(int(sys.argv[1])):
    os.waitpid(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=null), 0)
"""


def metric(path, name):
    """What the daemon says on its control socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(path))
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    return int(re.search(rf"^{name} (\d+)$", text, re.M)[1])


def runs(pid, name):
    """Whether it has that program. While exec puts a thread into its leader's place it has none."""
    try:
        return os.readlink(f"/proc/{pid}/exe").endswith(name)
    except FileNotFoundError:
        return False


def inside(samples, function):
    """Samples with a frame of @function of a known build id."""
    return [s for s in samples if any(f.build_id and SYMBOLS.name(f) == function for f in s.frames)]


class Lives(session.TestCase):
    def family(self, *arguments):
        child = self.spawn([FAMILY, *arguments])
        child.wait_for(r"^pid \d+")
        return child

    @staticmethod
    def children(victim):
        return {int(pid) for pid in re.findall(r"^child (\d+)$", victim.out, re.M)}

    def check_children(self, mode, n, share=0.85):
        """Their samples are theirs, have their names and know the code that they ran."""
        run = self.start("--comm", "victim-family", *HZ)
        victim = self.family(mode, n, 20)
        self.assertEqual(victim.wait(), 0, victim)
        result = run.stop()
        children = self.children(victim)
        samples = [s for s in result.samples if s.resource["process.pid"] in children]
        user = [s for s in samples if any(f.type != "kernel" for f in s.frames)]
        burning = inside(user, "family_child")
        ticks = session.truth_of(victim)["cpu_ns"] / 1e9 * 499
        print(
            f"{mode}: {len(samples)} samples of {ticks:.0f} ticks, {len(user)} with user frames, {len(burning)} in the function, "
            f"{len({s.resource['process.pid'] for s in samples})} of {len(children)} children, "
            f"{result.counter('mappings_recalled_total')} recalled")
        self.assertGreater(len({s.resource["process.pid"] for s in samples}), 0.9 * n)
        self.assertGreaterEqual(len(burning) / len(user), share)
        self.assertEqual({s.resource["process.executable.name"] for s in samples}, {"victim-family"})
        self.assertEqual(result.summary["lost_by_reason"].get("ring_full", 0), 0)

    def test_children_by_fork_alone(self):
        """How many of them are gone before anybody looks is the machine's affair: test-mapping-tracker has those."""
        self.check_children("fork", 40)

    def test_children_of_children_by_fork_alone(self):
        self.check_children("grandchild", 30)

    def test_children_by_vfork(self):
        self.check_children("vfork", 40)

    def test_a_daemon_that_sleeps_is_woken_by_the_first_sample(self):
        victim = self.victim("chain", 5, rests=True)
        path = self.directory() / "control.sock"
        run = self.start("--pid", victim.pid, "--control", path, *HZ)

        def rests_and_goes_on():
            victim.process.send_signal(signal.SIGSTOP)
            # mostly it falls asleep before that, but not where other processes wake it all the time
            time.sleep(0.5)
            victim.process.send_signal(signal.SIGCONT)
            session.wait_cpu([victim.pid], 0.1)
            return metric(path, "spanprof_wake_ups_total")

        self.assertGreater(tap.wait_until(rests_and_goes_on, "a wake-up"), 0)
        result = run.stop()
        self.assertEqual(result.summary["lost"], 0, result.summary)

    def test_rings_are_read_rarely_while_nothing_is_new(self):
        victim = self.victim("chain", 5, rests=True)
        path = self.directory() / "control.sock"
        run = self.start("--pid", victim.pid, "--control", path, *HZ)
        session.wait_cpu([victim.pid], 2)
        before, begin = metric(path, "spanprof_drains_total"), time.monotonic()
        session.wait_cpu([victim.pid], 0.7)
        n, most = metric(path, "spanprof_drains_total") - before, 6 * (time.monotonic() - begin)
        self.assertGreater(n, 0)
        self.assertLess(n, most, "14 a second are for rows that are on their way")
        self.assertEqual(run.stop().summary["lost"], 0)

    def test_threads_of_processes_that_are_gone_at_once(self):
        """Only other threads than the leader were ever sampled, under names of their own: the exec tells the process' name."""
        run = self.start("--comm", "victim-family", *HZ)
        victims = [self.spawn([FAMILY, "leaderless", 1, 20]) for _ in range(30)]
        for victim in victims:
            self.assertEqual(victim.wait(), 0)
        result = run.stop()
        pids = {victim.pid for victim in victims}
        burning = inside([s for s in result.samples if s.resource["process.pid"] in pids], "family_thread")
        self.assertGreater(len({s.resource["process.pid"] for s in burning}), 25)
        self.assertEqual({s.attributes["thread.name"] for s in burning}, {"of-its-own"})

    def test_threads_without_a_leader(self):
        victim = self.family("leaderless", 2, 1500)
        tap.wait_until(lambda: ") Z " in open(f"/proc/{victim.pid}/stat").read(), "the leader's end")
        # they would be over before a daemon that is slow to start
        os.kill(victim.pid, signal.SIGSTOP)
        run = self.start("--pid", victim.pid, *HZ)
        os.kill(victim.pid, signal.SIGCONT)
        result = run.wait()
        samples = result.of(victim.pid)
        self.assertGreater(len(inside(samples, "family_thread")) / len(samples), 0.95, result.summary)
        # of files that only its threads still show
        self.assertEqual(result.counter("unwind_tables_total", "failed"), 0)
        self.assertEqual({s.resource["process.executable.name"] for s in samples}, {"victim-family"})
        self.assertNotIn(str(victim.pid), {str(s.attributes["thread.id"]) for s in samples})
        self.assertEqual(result.counter("targets_total", "gone"), 1)
        self.assertIn("every process that was chosen has exited", result.log)

    def test_threads_that_outlive_their_leader(self):
        run = self.start("--comm", "victim-family", *HZ)
        victim = self.family("outlive", 2, 900)
        self.assertEqual(victim.wait(), 0)
        result = run.stop()
        samples = result.of(victim.pid)
        threads = inside(samples, "family_thread")
        self.assertGreater(len(inside(samples, "family_leader")), 30)
        self.assertGreater(len(threads), 300)
        self.assertGreater(max(s.time_ns for s in threads),
                           max(s.time_ns for s in inside(samples, "family_leader")))
        self.assertEqual(result.counter("targets_total", "gone"), 1, "once, with the last thread")
        truth = session.truth_of(victim)["cpu_ns"] / 1e9 * 499
        self.assertAlmostEqual(len(samples) / truth, 1, delta=0.3)

    def test_a_thread_that_executes_takes_the_leaders_place(self):
        """All other threads die, and the one that called exec gets their leader's id, while each of them is sampled."""
        victim = self.spawn([sys.executable, "-c", f"""
import os, sys, threading
def spin():
    while True: sum(range(1000))
def become():
    sys.stdin.readline()
    os.execv({str(tap.VICTIMS / "victim-chain")!r}, ["victim-chain", "5"])
for what in (spin, spin, become):
    threading.Thread(target=what).start()
print("pid", os.getpid(), flush=True)
spin()
"""], stdin=subprocess.PIPE)
        victim.wait_for("^pid")
        run = self.start("--pid", victim.pid, *HZ)
        run.wait_events(100, victim.pid)
        victim.process.stdin.write(b"go\n")
        victim.process.stdin.flush()
        tap.wait_until(lambda: runs(victim.pid, "victim-chain"), "the exec")
        session.wait_cpu([victim.pid], 0.5)
        result = run.stop()
        by_program = collections.defaultdict(list)
        for sample in result.of(victim.pid):
            by_program[os.path.basename(sample.resource["process.executable.path"])].append(sample)
        python, chain = by_program.pop(os.path.basename(os.path.realpath(
            sys.executable))), by_program.pop("victim-chain")
        self.assertEqual(by_program, {})
        self.assertGreater(len({s.attributes["thread.id"] for s in python}), 1)
        self.assertEqual({s.attributes["thread.id"] for s in chain}, {victim.pid})
        self.assertEqual(inside(python, "chain_leaf"), [])
        self.assertGreater(len(inside(chain, "chain_leaf")), 0.9 * len(chain) - 3)
        self.assertGreater(min(s.time_ns for s in chain), max(s.time_ns for s in python))
        self.assertEqual((result.counter("targets_total", "exec"), result.counter("targets_total", "gone")),
                         (1, 0))

    def test_one_pid_used_again_and_again(self):
        """Two programs take turns under one pid, 30 ms each: no sample is taken for the other program's."""
        run = self.start("--comm", "victim-family,victim-short", *HZ)
        victim = self.family("reuse", 40, 30, tap.VICTIMS / "victim-short", FAMILY)
        self.assertEqual(victim.wait(), 0, victim)
        result = run.stop()
        children = self.children(victim)
        if len(children) > 1:
            tap.skip("kernel: does not let a pid be chosen (clone3, set_tid)")
        verdicts = collections.Counter()
        for sample in result.of(children.pop()):
            names = {SYMBOLS.name(f) for f in sample.frames if f.build_id} & {"short_burn", "family_child"}
            expected = {"victim-short": "short_burn",
                        "victim-family": "family_child"}[sample.resource["process.executable.name"]]
            verdicts["unknown" if not names else "right" if names == {expected} else "wrong"] += 1
        print(verdicts, result.counter("targets_total"))
        self.assertEqual(verdicts["wrong"], 0)
        self.assertGreater(verdicts["right"], 400)
        # 30 ms are short: what is sampled while a program is loaded is inside of neither.
        self.assertLess(verdicts["unknown"], 0.5 * verdicts["right"])
        self.assertGreaterEqual(result.counter("targets_total", "found"), 36)

    def test_who_publishes_after_a_long_sleep_is_found_at_once(self):
        """It sleeps, then maps its ring and works. No sweep is due for half a minute: its first tick tells."""
        run = self.start(*HZ)
        sleeper, tell = self.commanded("ring")
        tap.wait_until(lambda: session.cpu_ns(sleeper.pid) > 5e8, "it is known as one without a ring")
        os.kill(sleeper.pid, signal.SIGSTOP)
        time.sleep(2)
        os.kill(sleeper.pid, signal.SIGCONT)
        tell("publish")
        tell("set 1 2 3")
        published_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        run.wait_events(30, sleeper.pid)
        result = run.stop()
        first = min(result.monotonic_ns(s) for s in result.of(sleeper.pid) if s.span_id)
        print(f"{(first - published_ns) / 1e6:.1f} ms after publication")
        self.assertLess(first - published_ns, 10e9)     # one second, and a busy machine
        self.assertEqual(result.counter("sweep_total", "found"), 0)

    def test_what_lost_notices_should_have_told_is_found_by_a_sweep(self):
        """The daemon stands still while thousands of processes come and go: the ring of notices is full. Then
        a target executes another program, and a stranger publishes."""
        victim = self.spawn([sys.executable, "-c", f"""
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: os.execv({str(tap.VICTIMS / "victim-shares")!r}, ["victim-shares"]))
print("pid", os.getpid(), flush=True)
while True: sum(range(1000))
"""])
        victim.wait_for("^pid")
        sleeper, tell = self.commanded("ring")
        run = self.start("--pid", victim.pid, *HZ)
        publishers = self.start(*HZ)                    # the default: whoever publishes
        run.wait_events(30, victim.pid)
        for daemon in (run, publishers):
            os.kill(daemon.pid, signal.SIGSTOP)
        self.run_command([sys.executable, "-c", STORM, "2500", tap.need_tool("true")], expect=0, timeout=600)
        victim.process.send_signal(signal.SIGUSR1)
        tap.wait_until(lambda: runs(victim.pid, "victim-shares"), "the exec")
        tell("publish")
        tell("set 1 2 3")
        for daemon in (run, publishers):
            os.kill(daemon.pid, signal.SIGCONT)
        seen = set()

        def is_found():
            for path in set(run.receiver.paths()) - seen:
                if path.with_suffix(".json").exists():
                    seen.add(path)
                    if any(s.resource["process.executable.name"] == "victim-shares"
                           for s in otlp_read.samples(path)):
                        return True
            return False

        tap.wait_until(is_found, "the new program")
        publishers.wait_events(10, sleeper.pid)
        # a request may have been under way at the stop
        result, others = (one.stop(all_stored=False) for one in (run, publishers))
        for one in (result, others):
            self.assertGreater(one.counter("notices_lost_total"), 0)
            self.assertGreater(one.counter("sweep_total", "resync"), 0)
        self.assertGreater(result.counter("sweep_total", "found"), 0)
        late = [s for s in result.of(victim.pid) if s.resource["process.executable.name"] == "victim-shares"]
        self.assertGreater(
            len([s for s in late if any(f.build_id and "victim-shares" in f.path for f in s.frames)]),
            0.9 * len(late) - 5)
        self.assertTrue(all(s.span_id for s in others.of(sleeper.pid)[-5:]))


if __name__ == "__main__":
    tap.main()
