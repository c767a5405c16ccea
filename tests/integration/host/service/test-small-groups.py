#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""In a control group with little memory or CPU time the daemon takes in less, counts that and says so, before the kernel kills it."""
import oracle

oracle.enter()

import shutil
import subprocess
import sys

import groups
import session
import tap

MIB = 1 << 20
HOG = ("import sys, time\nheld = bytearray(b'x') * int(sys.argv[1])\nprint('ready', flush=True)\ntime.sleep(600)")


def inside(group):
    """Without MALLOC_PERTURB_, which meson sets: it makes each page that malloc() gives out resident."""
    return ["env", "-u", "MALLOC_PERTURB_", "sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]


class SmallGroups(session.TestCase):
    def of_our_own(self, victim, name, *arguments):
        """A victim under a name that no other test's process has: whom --comm chooses is known."""
        program = shutil.copy(tap.VICTIMS / f"victim-{victim}", self.directory() / name)
        return self.spawn([program, *arguments])

    def test_of_24_mib_beside_three_hundred_processes_kills_nothing(self):
        """Each tick is delivered, or counted by its reason, and one process' stacks are as whole as they are without a limit."""
        group, n_killed = groups.limit_memory(self, "spanprof-small", 24 * MIB)
        crowd = self.of_our_own("crowd", "small-crowd", "300", "1", "1", "4")
        crowd.wait_for("ready", 120)
        honest = self.of_our_own("chain", "small-chain", "30")
        honest.wait_for(r"^pid \d+")
        run = self.start("--comm", "small-crowd,small-chain", "--frequency", "499", prefix=inside(group))
        self.assertRegex(run.child.err, r"profiling 302 processes of")
        run.wait_events(100, honest.pid, 120)
        result = run.stop()                     # the books balance
        self.assertEqual(n_killed(), 0)
        self.assertRegex(result.log, r"may use 24 MiB of memory \(memory\.max\): the daemon holds itself to 80 % of it")
        samples = result.of(honest.pid)
        whole = [s for s in samples if "profile.stack.truncated" not in s.attributes]
        self.assertGreaterEqual(len(whole), 0.99 * len(samples))
        lost = result.summary["lost_by_reason"]
        if lost.get("ring_full", 0) > 0:
            self.assertRegex(result.log, r"\d+ samples were lost since the start: the ring to the daemon was full")

    def test_that_has_no_room_for_the_walk_over_runtimes_goes_without_it(self):
        """The kernel takes more memory to load the walk than 32 MiB have left: it would kill the daemon."""
        group, n_killed = groups.limit_memory(self, "spanprof-walk", 32 * MIB)
        python = self.spawn([sys.executable, "-c", "while True: pass"])
        run = self.start("--pid", python.pid, "--frequency", "499", prefix=inside(group))
        run.wait_events(100, python.pid)
        result = run.stop()
        self.assertEqual(n_killed(), 0)
        self.assertRegex(result.log, r"frames of runtimes are not walked: to load the walk takes the kernel 32 MiB, "
                                     r"and the control group uses \d+ of its 32 MiB \(memory\.max\)\. Give it 64 MiB or more")
        self.assertEqual(result.log.count("frames of runtimes are not walked"), 1)
        self.assertRegex(result.log, r"runs python .*: not walked, the walk could not be loaded here")

    def test_that_is_nearly_full_is_answered_step_by_step(self):
        """Memory of another process of the group: tables, windows and samples become fewer, each counted and said."""
        group, n_killed = groups.limit_memory(self, "spanprof-full", 96 * MIB)
        honest = self.victim("chain", "30")
        run = self.start("--pid", honest.pid, "--frequency", "499", prefix=inside(group))
        hog = self.spawn([*inside(group), sys.executable, "-c", HOG, str(64 * MIB)], stdin=subprocess.DEVNULL)
        hog.wait_for("ready")
        run.child.wait_for(r"no more unwind tables than now \(499 Hz")
        run.child.wait_for(r"windows of a quarter of their length")
        run.child.wait_for(r"half the samples.*\(249 Hz, before 499\)")
        result = run.stop()
        self.assertEqual(n_killed(), 0)
        held = result.counter("memory_held_total")
        self.assertEqual((held["tables"], held["windows"]), (1, 1))
        self.assertGreaterEqual(held["frequency"], 1)

    def test_that_cannot_hold_the_daemon_is_called_too_small(self):
        group, _ = groups.limit_memory(self, "spanprof-tiny", 18 * MIB)
        honest = self.victim("chain", "30")
        run = self.start("--pid", honest.pid, prefix=inside(group), ready=False)
        run.child.wait_for(r"may use 18 MiB of memory, which is too little: .* Give it 64 MiB or more \(memory\.max")
        run.stop(check=False)

    def test_with_little_cpu_time_is_said_as_the_daemon_starts(self):
        """What it holds itself to is a max-cpu, whose work test-governor.c judges."""
        honest = self.victim("chain", "30")
        for quota_us, words in ((30_000, r"may use 30\.0 % of one CPU \(cpu\.max\): the daemon holds itself to 24 %"),
                                (5_000, r"may use 5\.0 % of one CPU \(cpu\.max\), which is too little")):
            group, _ = groups.limit_cpu(self, f"spanprof-slow-{quota_us}", quota_us, 100_000)
            run = self.start("--pid", honest.pid, prefix=inside(group), ready=False)
            run.child.wait_for(words, 120)
            groups.free_cpu(group)
            run.stop(check=False)


tap.main()
