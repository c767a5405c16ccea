#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/CAPS.md that an unprivileged process fills, and what an honest one has of them then.

Tables that take long to fill are made small by the kernel that the daemon meets (tests/harness/c/deny-bpf.c).
"""
import oracle

oracle.enter()

import collections
import signal
import subprocess
import time

import bpf_tables
import dump as dump_of
import groups
import prometheus
import pythons
import session
import tap
import unix_http
from dump import Dump

LONG_HOLDS = 200        # threads: a look lists 32
CROWD_NAPS = 100        # threads that sleep 1 to 6 ms each, of which some 80 are due at a look
HOLDS = 8300            # threads: more than there are places for stacks of waits, 8,192
NAPS = 17_000           # sums: more than there is room for, 16,384
ZOMBIES = 4200          # more than are remembered until they are reaped, 4,096
# Children by fork that are remembered here, and more of them. Before Linux 6.16 each CPU takes 128 places of
# such a map at once, so a map of few is full with less.
FORKS, SLEEPERS = 1024, 3072
PART = 0.9
PYTHON_THREADS = """
import sys, threading, time
def inner():
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        sum(range(200))
def outer():
    while True:
        inner()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=outer, daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
"""
UNDECIDED = 2


def names(sample):
    return [frame.name.rsplit(".")[-1] for frame in sample.frames]


class Caps(groups.Neighbours):
    def start_daemon(self, *options, **more):
        """(run, value): value(name, **labels) → a counter"""
        control = self.directory() / "control.sock"
        run = self.start("--comm", "victim-*", "--control", control, *options, **more)
        return run, lambda name, **labels: prometheus.value(unix_http.metrics(control), name, **labels)

    def waits(self, samples, child):
        return [wait for wait in samples if wait.type == "off_cpu" and wait.resource["process.pid"] == child.pid and
                wait.attributes["wait.reason"] == "sleep" and wait.attributes["wait.state"] == "blocked"]

    def test_stacks_of_threads_that_wait(self):
        """Each of them has one for ever, and more than half of all are of one control group."""
        options = "--off-cpu", "--off-cpu-walks", "100000", "--off-cpu-max-switches", "0", "--off-cpu-long-wait", "0"
        for title, attacker, honest in self.places():
            with self.subTest(title):
                run, value = self.start_daemon(*options)
                crowd, tell = self.commanded_at(attacker, "hostile", "holds", HOLDS)
                tap.wait_until(lambda: value("spanprof_targets"), "the attacker to be a target")
                tell("go")
                tap.wait_until(lambda: value("spanprof_waits_total", event="stacks_over_cap"), "stacks over the cap")
                sleeper = self.child(honest, "hostile", "sleepers", 2)
                self.wait_for(run, lambda samples: len(self.waits(samples, sleeper)) > 200, "its waits")
                waits = self.waits(run.stop().waits, sleeper)
                for child in crowd, sleeper:
                    child.kill()
                walked = sum(bool(wait.frames) for wait in waits)
                print(f"# {title}: {walked} of {len(waits)} waits have stacks", flush=True)
                # not nearly all: a daemon that is held up finds its ring full
                self.assertGreater(walked, len(waits) / 4)

    def test_long_waits_of_a_look(self):
        """More begin at once than a look lists; each comes with a later one, and a thread that naps after them too."""
        run, value = self.start_daemon("--off-cpu", "--off-cpu-walks", "0", "--off-cpu-max-switches", "0",
                                       "--off-cpu-long-wait", "100ms")
        crowd, tell = self.commanded_at((groups.ATTACKER, None), "hostile", "holds", LONG_HOLDS)
        tap.wait_until(lambda: value("spanprof_targets"), "the attacker to be a target")
        tell("go")
        tap.wait_until(lambda: value("spanprof_wait_long_walks_total", outcome="given") >= LONG_HOLDS / 2,
                       "stacks of the crowd")
        napper = self.child((groups.HONEST, None), "waits", "/dev/null", stdin=subprocess.PIPE)
        self.wait_for(run, lambda samples: self.tell(napper, "slow") and
                      sum(bool(wait.frames) for wait in self.waits(samples, napper)) >= 2, "stacks of its long waits")
        run.stop()
        for child in crowd, napper:
            child.kill()

    def test_long_waits_that_begin_again_and_again(self):
        """At each look more of the crowd's are due than it lists."""
        for title, attacker, honest in self.places():
            with self.subTest(title):
                run, value = self.start_daemon("--off-cpu", "--off-cpu-walks", "0", "--off-cpu-max-switches", "0",
                                               "--off-cpu-long-wait", "3ms")
                crowd = self.child(attacker, "hostile", "sleepers", CROWD_NAPS)
                tap.wait_until(lambda: value("spanprof_wait_long_walks_total", outcome="given") >= CROWD_NAPS,
                               "stacks of the crowd")
                napper = self.child(honest, "waits", "/dev/null", stdin=subprocess.PIPE)
                self.wait_for(run, lambda samples: self.tell(napper, "slow") and
                              sum(bool(wait.frames) for wait in self.waits(samples, napper)) >= 2,
                              "stacks of its long waits")
                run.stop()
                for child in crowd, napper:
                    child.kill()

    def test_sums_of_waits(self):
        """While the daemon stands still, a process has more of them than there is room for."""
        options = "--off-cpu", "--off-cpu-walks", "0", "--off-cpu-max-switches", "0", "--off-cpu-long-wait", "0"
        _, attacker, honest = next(self.places())
        run, value = self.start_daemon(*options)
        crowd, attack = self.commanded_at(attacker, "hostile", "naps", NAPS)
        log = self.directory() / "log"
        log.touch()
        log.parent.chmod(0o755)
        log.chmod(0o666)
        waiter, tell = self.commanded_at(honest, "waits", log)

        def has_spans(samples):
            if any(wait.span_id for wait in samples if wait.resource["process.pid"] == waiter.pid):
                return True
            tell("go")
            return False

        self.wait_for(run, has_spans, "its spans")
        n = len(log.read_text())
        run.child.process.send_signal(signal.SIGSTOP)
        attack("go")
        tell("go")
        run.child.process.send_signal(signal.SIGCONT)
        result = run.stop()
        for child in crowd, waiter:
            child.kill()
        self.assertGreater(result.counter("waits_total", "lost"), 0, "sums are over the cap")
        told = collections.Counter()
        for wait in result.waits:
            if wait.resource["process.pid"] == waiter.pid and wait.span_id:
                told[wait.thread_id, int(wait.span_id, 16)] += wait.value
        spans = [line.split() for line in log.read_text()[n:].splitlines() if line.startswith("span ")]
        inside = {(int(tid), int(span)): int(ns) for _, tid, _, span, *_, ns in spans}
        known = sum(min(told[key], ns) for key, ns in inside.items())
        print(f"# {known / sum(inside.values()):.3f} of its waits in spans", flush=True)
        self.assertGreater(known, PART * sum(inside.values()))

    def test_processes_that_are_never_reaped(self):
        """More children of one have ended than there are places for; of an honest one's all CPU time is told."""
        dump = Dump(self, default=UNDECIDED)
        _, tell = self.commanded_at((groups.ATTACKER, None), "hostile", "zombies", ZOMBIES)
        tell("go")
        dump.check_settled(tap.VICTIMS / "victim-short")
        dump.stop()

    def test_children_by_fork_that_sleep(self):
        """More than are remembered; those of an honest one are walked by its rows, without any help of a daemon."""
        small = [f"{name}={value}" for name, value in groups.small_maps(forks=FORKS).items()]
        dump = Dump(self, prefix=("env", *small), frequency=499, default=UNDECIDED)
        crowd, tell = self.commanded_at((groups.ATTACKER, None), "hostile", "children", SLEEPERS)
        server = self.spawn(["setpriv", "--reuid", groups.HONEST, "--regid", groups.HONEST, "--clear-groups",
                             self.programs / "victim-brief", "serve", 100000, 20])
        server.wait_for(r"^child \d+")
        for child in crowd, server:
            dump.rows(child.pid)
            dump.row(child.pid)
        for _ in range(2):              # also while the honest one is at work
            tell("go")
            since = time.clock_gettime_ns(time.CLOCK_MONOTONIC)

            def of_children():
                return [x for x in dump.samples(since=since)
                        if x["tgid"] != server.pid and x["comm"] == "victim-brief"]

            dump.wait(lambda: len(of_children()) >= 60, "samples of its children")
            samples = of_children()
            ends = collections.Counter(dump_of.ENDS[x["end"]] for x in samples)
            print(f"# {dict(ends)}, {bpf_tables.n_entries(dump.child.pid, 'forks')} are remembered", flush=True)
            self.assertGreater(bpf_tables.n_entries(dump.child.pid, "forks"), FORKS / 2, "it is full")
            self.assertGreater(ends["complete"], 0.9 * len(samples), ends)
        dump.stop()

    def test_threads_of_python(self):
        """More than are remembered, of a crowd and of an honest one, whose samples have its functions all the same."""
        children = []
        for place, n in ((groups.ATTACKER, 20), (groups.HONEST, 3)):
            program = self.programs / f"python-{place}"
            program.symlink_to(next(iter(pythons.here().values())))
            child = self.spawn(["setpriv", "--reuid", place, "--regid", place, "--clear-groups", program, "-c",
                                PYTHON_THREADS, n])
            child.wait_for("^ready")
            children.append(child)
        _, honest = children
        run = self.start("--comm", "python-*", "--frequency", "499", environment=groups.small_maps(python_threads=2))

        def own(samples):
            return [s for s in samples if s.resource["process.pid"] == honest.pid and
                    {"cpython", "unknown"} & {f.type for f in s.frames}]

        self.wait_for(run, lambda samples: sum("inner" in names(s) for s in own(samples)) > 100, "its functions")
        self.assertLessEqual(bpf_tables.n_entries(run.pid, "python_threads"), 2)
        samples = own(run.stop().samples)
        first = next(i for i, s in enumerate(samples) if "inner" in names(s))
        functions = "inner", "outer"
        whole = [s for s in samples[first:] if functions == tuple(n for n in names(s) if n in functions)]
        print(f"# {len(whole)} of {len(samples[first:])} have its functions", flush=True)
        self.assertGreater(len(whole), PART * len(samples[first:]))

    def test_strangers_that_may_publish_late(self):
        """More than are remembered, so that notices are posted again; an honest one is found as it publishes."""
        crowd = [self.child((groups.ATTACKER, None), "hostile", "churn", 2000) for _ in range(4)]
        honest, tell = self.commanded_at((groups.HONEST, None), "ring")
        run = self.start("--frequency", "499", environment=groups.small_maps(non_targets=2))
        session.wait_cpu([child.pid for child in crowd], 1.0)
        tell("publish")
        tell("set 1 2 3")
        run.wait_events(100, honest.pid)
        self.assertIn(bpf_tables.n_entries(run.pid, "non_targets"), (1, 2))
        result = run.stop()
        self.assertFalse(result.pids & {child.pid for child in crowd})
        self.assertTrue(all(s.span_id for s in result.of(honest.pid)[-5:]))

    def test_rings_that_go_before_their_processes(self):
        """What such a process held is free again: a look into the kernel's tables finds nothing of it."""
        run, value = self.start_daemon("--frequency", "499")
        for i in range(3):
            victim, tell = self.commanded_at((groups.ATTACKER, None), "ring")
            tell("publish 4096")
            tap.wait_until(lambda: value("spanprof_rings_total", result="found") > i, "its ring")
            tap.wait_until(lambda: bpf_tables.n_entries(run.pid, "ring_holders"), "its share")
            tell("unmap")
            tap.wait_until(lambda: value("spanprof_rings_total", result="lost") > i, "that it is gone")
            victim.kill()
            tap.wait_until(lambda: not value("spanprof_targets"), "its end")
        tap.wait_until(lambda: not bpf_tables.n_entries(run.pid, "ring_holders"), "nobody holds any")
        self.assertEqual(bpf_tables.n_entries(run.pid, "ring_slots"), 0)
        run.stop()


tap.main()
