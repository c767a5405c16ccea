#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who ended waits (--off-cpu): a program whose threads know who writes to whom, and who holds the mutex."""
import oracle

oracle.enter()

import collections
import os
import pathlib
import re
import signal
import subprocess
import sys

import dump
import otlp_read
import session
import tap

# Spans of tests/victims/native/victim-waits.c. Who may end a blocked wait: {(its span, reason): span of the
# waker}.
PING, PONG, HOLDER, WAITER, GRID, SERVER = 10, 20, 30, 40, (50, 51, 52), 60
TRUTH = {(PING, "read"): PONG, (PONG, "read"): PING, (WAITER, "futex"): HOLDER}
# Functions that end them: the innermost one of the victim itself.
ENDERS = {(PING, "read"): {"hand_over"}, (PONG, "read"): {"hand_over", "ping_main"},
          (WAITER, "futex"): {"holder_main"}}
KINDS = ("pipe", "unix", "tcp", "udp", "eventfd", "timerfd", "terminal", "file")
MOST_VERIFIED = 300_000         # instructions of a million that the verifier allows; three programs walk all
TIMERS = {(HOLDER, "sleep"), (SERVER, "poll"), *((span, "sleep") for span in GRID)}


def span_of(wait):
    return int(wait.span_id, 16) if wait.span_id else None


class Wakers(session.NamingCase):
    def go(self, *options):
        """(victim, result, {span: thread}): what `hold` and `go` of the victim leave."""
        log = self.directory() / "log"
        victim, tell = self.commanded("waits", log)
        run = self.start("--pid", victim.pid, "--off-cpu", *options)
        run.child.wait_for("sampling|profiles go to")
        tell("hold")
        tell("go")
        self.assertLess(max(dump.verified(run.pid).values(), default=0), MOST_VERIFIED, "does a loop fork state at each turn?")
        result = run.stop(signal.SIGTERM)
        rows = [line.split() for line in log.read_text().splitlines()]
        return victim, result, {int(row[3]): int(row[1]) for row in rows if row[0] == "span"}

    def judge(self, victim, result, threads):
        """Names no wrong waker. Return: {(span, reason): how often a waker was named}."""
        named = collections.Counter()
        for wait in result.waits:
            kind, where = wait.attributes.get("wait.waker.kind"), (span_of(wait), wait.attributes["wait.reason"])
            ids = {key for key in wait.attributes if key.startswith("wait.waker.")}
            if kind:
                self.assertEqual(wait.attributes["wait.state"], "blocked", wait)
                self.assertNotEqual(wait.attributes["wait.reason"], "preempted", wait)
            else:
                self.assertEqual(ids, set())
            if kind == "thread":
                self.judge_thread(victim, wait, threads)
            else:
                self.assertLessEqual(ids, {"wait.waker.kind"}, "data of no target")
            if kind and where in TIMERS:
                self.assertEqual(kind, "interrupt", wait)
            if kind and where in TRUTH:
                self.assertEqual(kind, "thread", wait)
            named[where] += bool(kind)
        return named

    def judge_thread(self, victim, wait, threads):
        where = span_of(wait), wait.attributes["wait.reason"]
        self.assertEqual(wait.attributes["wait.waker.process.pid"], victim.pid)
        if where not in TRUTH:
            return
        waker = TRUTH[where]
        self.assertEqual((wait.attributes["wait.waker.thread.id"],
                          int(wait.attributes["wait.waker.span_id"], 16),
                          int(wait.attributes["wait.waker.trace_id"], 16)),
                         (threads[waker], waker, threads[waker]), wait)

    def test_names_who_wrote_and_who_held(self):
        victim, result, threads = self.go()
        named = self.judge(victim, result, threads)
        for where in ((PING, "read"), (PONG, "read"), (WAITER, "futex"), *TIMERS):
            self.assertGreater(named[where], 0, where)
        # The test itself, which is no target, writes what the victim's first thread waits for.
        strangers = [wait for wait in result.waits if wait.thread_id == victim.pid and
                     wait.attributes.get("wait.waker.kind") == "process"]
        # … and the daemon, as it reads the victim's maps, may hold up what that thread does with its memory.
        self.assertIn("read", {wait.attributes["wait.reason"] for wait in strangers})
        kinds = result.counter("wait_wakers_total")
        self.assertLessEqual(sum(kinds.values()), result.counter("waits_total", "begun"))
        for kind in ("thread", "process", "interrupt"):
            self.assertGreater(kinds[kind], 0, kind)

    def test_names_them_without_stacks(self):
        victim, result, threads = self.go("--off-cpu-walks", "0")
        named = self.judge(victim, result, threads)
        for where in ((PING, "read"), (PONG, "read"), (WAITER, "futex")):
            self.assertGreater(named[where], 0, where)

    def asleep(self, pid, least):
        """How often it has slept, while it sleeps, at least @least times; else 0."""
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        n = int(re.search(r"(?m)^voluntary_ctxt_switches:\s+(\d+)$", status)[1])
        return n if "State:\tS" in status and n >= least else 0

    def test_has_the_stack_of_one_that_has_ended(self):
        """The daemon stands still while the waker wakes, and ends; it comes to the wait later."""
        fifo = self.directory() / "fifo"
        os.mkfifo(fifo)
        sleeper = self.spawn(["cat", fifo])
        waker = self.spawn(["sh", "-c", 'exec 3>"$1"; while read line; do echo "$line" >&3; done', "sh", fifo],
                           stdin=subprocess.PIPE)
        run = self.start("--pid", sleeper.pid, "--pid", waker.pid, "--off-cpu")
        run.child.wait_for("sampling|profiles go to")
        n = tap.wait_until(lambda: self.asleep(sleeper.pid, 1), "the sleeper's read")
        waker.process.stdin.write(b"once\n")
        waker.process.stdin.flush()
        sleeper.wait_for("once")
        tap.wait_until(lambda: self.asleep(sleeper.pid, n + 1), "a wait that the daemon sees from its begin")
        os.kill(run.pid, signal.SIGSTOP)
        waker.process.stdin.write(b"twice\n")
        waker.process.stdin.close()
        self.assertEqual(waker.wait(), 0)
        sleeper.wait_for("twice")
        os.kill(run.pid, signal.SIGCONT)
        result = run.stop(signal.SIGTERM)
        self.assertEqual(result.counter("wait_wakers_walked_total", "gone"), 0)
        stacks = {len(wait.frames) for wait in result.wakers
                  if wait.attributes.get("wait.waker.process.pid") == waker.pid}
        self.assertGreater(max(stacks, default=0), 0, "stacks of the waker")

    def test_has_their_stacks(self):
        """Under the stack of who ended it, a wait has the same span and attributes; sums are the same."""
        log = self.directory() / "log"
        victim, tell = self.commanded("waits", log)
        run = self.start("--pid", victim.pid, "--off-cpu")
        run.child.wait_for("sampling|profiles go to")
        symbols, own = otlp_read.Symbols(), {"hand_over", "ping_main", "pong_main", "holder_main"}

        def enders(samples):
            """{(span, reason): functions}: of whole stacks, the innermost function of the victim's threads."""
            found = collections.defaultdict(set)
            for sample in samples:
                where = span_of(sample), sample.attributes.get("wait.reason")
                if sample.type != "off_cpu_waker" or where not in ENDERS or not sample.frames or \
                   "profile.stack.truncated" in sample.attributes:
                    continue
                names = [name for name in map(symbols.name, sample.frames) if name in own]
                found[where].add(names[0] if names else None)
            return found

        def look(samples):
            if set(enders(samples)) == set(ENDERS):
                return True
            tell("go")
            return False

        self.wait_for(run, look, "whole stacks of wakers")
        result = run.stop(signal.SIGTERM)
        for where, names in enders(result.wakers).items():
            self.assertLessEqual(names, ENDERS[where], where)
        sums = collections.defaultdict(collections.Counter)
        for wait in result.waits + result.wakers:
            if wait.attributes.get("wait.waker.kind") == "thread":
                key = wait.thread_id, wait.span_id, *sorted(
                    (key, value) for key, value in wait.attributes.items() if key.startswith("wait."))
                sums[wait.type][key] += wait.value
        self.assertEqual(sums["off_cpu_waker"], sums["off_cpu"])
        self.assertGreater(result.counter("wait_wakers_walked_total", "walked"), 0)

    def test_tells_kinds_of_files(self):
        victim = self.spawn([sys.executable, tap.SOURCE_DIR / "tests/victims/python/victim-files.py"],
                            stdin=subprocess.PIPE)
        victim.wait_for(r"^pid \d+")
        threads = {int(victim.wait_for(rf"^{kind} (\d+)$")[1]): kind for kind in KINDS}
        run = self.start("--pid", victim.pid, "--off-cpu")
        run.child.wait_for("sampling|profiles go to")

        def kinds(samples):
            found = collections.defaultdict(set)
            for wait in samples:
                reason, kind = wait.attributes.get("wait.reason"), wait.attributes.get("wait.file.kind")
                if wait.type == "off_cpu" and wait.thread_id in threads:
                    if reason in ("read", "lock"):
                        found[threads[wait.thread_id]].add(kind)
                    elif kind:
                        self.assertIn(reason, ("write", "io"), wait)
            return found

        def look(samples):
            if set(kinds(samples)) == set(KINDS):
                return True
            n = victim.out.count("ok")
            victim.process.stdin.write(b"go\n")
            victim.process.stdin.flush()
            tap.wait_until(lambda: victim.out.count("ok") > n, "an answer of the victim")
            return False

        self.wait_for(run, look, "waits of every thread")
        for kind, told in kinds(run.stop(signal.SIGTERM).waits).items():
            self.assertEqual(told, {kind})


if __name__ == "__main__":
    tap.main()
