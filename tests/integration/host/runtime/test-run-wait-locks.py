#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which lock threads waited for (--off-cpu), and who had it. VictimHandover.java, victim-handover.py and
victim-waits want each lock below a function of its own, and each lock has one keeper: so the stack of a wait
says which lock that was, and the threads' names say who had it."""
import oracle

oracle.enter()

import collections
import signal
import subprocess

import golang
import groups
import jdks
import otlp_read
import pythons
import session
import tap

N = 4                   # of each function
HANDOVERS = 4           # in a recording
KEPT_MS = 1500          # there: a JVM waits for a monitor in pieces, and a busy machine looks for long
CROWD_THREADS = 400     # 256 are asked in a look
CROWD = """
import sys, threading, time
lock = threading.Lock()
def want():
    while True:
        lock.acquire(timeout=0.5)
lock.acquire()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=want, daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
"""
EACH = ("--off-cpu", "--off-cpu-walks", "100000")
# function → kind of its lock, class, keeper of it
SYNC = "java.util.concurrent.locks.ReentrantLock$NonfairSync"
JAVA = {
    "VictimHandover.wantCart": ("monitor", "VictimHandover$Cart", "keepCart"),
    "VictimHandover.wantTill": ("park", SYNC, "keepTill"),
    "VictimHandover.awaitNote": ("notify", "VictimHandover$Note", None),
}
PYTHON = {
    "want_cart": ("lock", "_thread.RLock", "keep_cart"),
    "want_till": ("lock", "_thread.lock", None),
}
WAITER, HOLDER = 40, 30     # spans of victim-waits' threads
# One goroutine after the other works for a moment, so threads wait for work; `keeps` has a thread of its own.
GO = """package main

import (
        "fmt"
        "runtime"
        "time"
)

var hand = make(chan int)

func keeps() {
        runtime.LockOSThread()
        for range hand {
        }
}

func works() {
        for range time.Tick(3 * time.Millisecond) {
                hand <- 1
        }
}

func main() {
        go keeps()
        for i := 0; i < 8; i++ {
                go works()
        }
        fmt.Println("ready")
        time.Sleep(time.Hour)
}
"""


def lock_of(wait):
    said = wait.attributes
    return said.get("wait.lock.kind"), said.get("wait.lock.class"), said.get("wait.lock.owner.thread.id")


class Locks(session.NamingCase):
    def is_lock(self, wait):
        return wait.type == "off_cpu" and wait.attributes["wait.reason"] == "futex" and \
            wait.attributes["wait.state"] == "blocked" and wait.frames

    def locks_by_function(self, samples, want):
        """{function of @want: waits for its lock}: those whose stack has it."""
        found = collections.defaultdict(list)
        for wait in filter(self.is_lock, samples):
            for frame in wait.frames:
                if frame.name in want:
                    found[frame.name].append(wait)
        return found

    def judge(self, waits, want, tids, least=N):
        """No lock is another one, and no owner another thread; @least waits of each function have theirs."""
        for function, (kind, name, keeper) in want.items():
            for wait in waits[function]:
                if lock_of(wait) != (None, None, None):
                    self.assertEqual(lock_of(wait)[:2], (kind, name), function)
                    self.assertIn(lock_of(wait)[2], (None, tids.get(keeper)), function)
            named = [wait for wait in waits[function] if lock_of(wait) == (kind, name, tids.get(keeper))]
            self.assertGreaterEqual(len(named), least, function)

    def are_named(self, want):
        def judge(samples):
            waits = self.locks_by_function(samples, want)
            return all(sum(lock_of(wait)[0] is not None for wait in waits[function]) >= 2 * N
                       for function in want)
        return judge

    def run_until_named(self, child, want):
        run = self.start("--pid", child.pid, "--symbols", "local", *EACH)
        self.wait_for(run, self.are_named(want), f"{2 * N} waits for each lock with its name")
        return run.stop()

    def check_counts(self, result):
        """Each wait for a futex, or part of one, is counted as known or not."""
        told = result.counter("wait_locks_total")
        self.assertGreaterEqual(told["known"], 2 * N)
        named = sum(lock_of(wait)[0] is not None for wait in filter(self.is_lock, result.waits))
        self.assertLessEqual(named, told["known"])

    def tids_of(self, waits):
        return {wait.attributes["thread.name"]: wait.thread_id for wait in waits}

    def java(self, java, *arguments, kept_ms=300):
        directory = jdks.classes(tap.SOURCE_DIR / "tests/victims/java/VictimHandover.java")
        child = self.spawn([java, *arguments, "-cp", directory, "VictimHandover", kept_ms], stdin=subprocess.PIPE)
        child.wait_for("ready")
        return child

    def test_a_wait_of_java_has_the_class_of_its_lock_and_who_has_it(self):
        more = {**jdks.eight(), **jdks.fetched(), **jdks.newest()}
        javas = {**more, **jdks.here()} if tap.LONG else jdks.usual()
        for release, java in sorted(javas.items()):
            with self.subTest(release):
                result = self.run_until_named(self.java(java), JAVA)
                self.judge(self.locks_by_function(result.waits, JAVA), JAVA, self.tids_of(result.waits))
                self.check_counts(result)

    def test_a_recording_and_its_report_say_which_lock_it_was(self):
        child = self.java(sorted(jdks.here().items())[-1][1], kept_ms=KEPT_MS)
        path = self.directory() / "locks.otlp"

        def handed_over():
            n = child.out.count("bought")
            tap.wait_until(lambda: child.out.count("bought") >= n + HANDOVERS, f"{HANDOVERS} waits for each lock")

        said = self.record_until(handed_over, "--pid", child.pid, *EACH, "-o", path).out
        waits = list(otlp_read.samples(path))
        tids = self.tids_of(wait for wait in waits if wait.type == "off_cpu")
        self.judge(self.locks_by_function(waits, JAVA), JAVA, tids, least=1)     # few looks on a busy machine
        lock = rf"futex monitor VictimHandover\$Cart of thread {tids['keepCart']}\b"
        self.assertRegex(self.spanprof("report", "--wall", "--top", "100", path).stdout, lock)
        self.assertRegex(said, r"blocked +futex (notify|monitor|park) ")

    def test_a_wait_of_python_has_its_lock_and_an_rlock_its_owner(self):
        found = pythons.all_of_them() if tap.LONG else pythons.here()
        releases = [(version, python) for version, python in sorted(found.items())
                    if (3, 11) <= version[:2] <= (3, 13)]
        if not releases:
            tap.skip("tool: no Python 3.11 to 3.13")
        named = [release for release in releases if release[0] in pythons.given()]
        for version, python in releases if tap.LONG else named or releases[:1]:
            with self.subTest(version):
                child = self.spawn([python, tap.SOURCE_DIR / "tests/victims/python/victim-handover.py"],
                                   stdin=subprocess.PIPE)
                ready = child.wait_for(r"ready (.*)\n")[1]
                tids = {name: int(tid) for name, tid in (pair.split("=") for pair in ready.split())}
                result = self.run_until_named(child, PYTHON)
                self.judge(self.locks_by_function(result.waits, PYTHON), PYTHON, tids)

    def judge_mutex(self, *others):
        """Waits of a program with a mutex, with @others beside it."""
        log = self.directory() / "log"
        victim, tell = self.commanded("waits", log)
        run = self.start("--pid", ",".join(str(child.pid) for child in (*others, victim)), *EACH)
        run.child.wait_for("sampling|profiles go to")
        tell("hold")

        def is_named(samples):
            named = [wait for wait in filter(self.is_lock, samples) if lock_of(wait)[0] == "mutex"]
            return len(named) >= 2 or (tell("slow"), False)[1]

        self.wait_for(run, is_named, "waits for a mutex that has its owner")
        waits = [wait for wait in run.stop(signal.SIGTERM).waits if wait.resource["process.pid"] == victim.pid]
        rows = [line.split() for line in log.read_text().splitlines()]
        tids = {span: [int(row[1]) for row in rows if row[0] == "span" and int(row[3]) == span]
                for span in (WAITER, HOLDER)}
        holder_of = dict(zip(tids[WAITER], tids[HOLDER], strict=True))
        for wait in filter(self.is_lock, waits):
            if lock_of(wait)[0]:    # nobody else waits for a mutex
                self.assertEqual(lock_of(wait), ("mutex", None, holder_of[wait.thread_id]))

    def test_a_wait_for_a_mutex_of_glibc_has_its_owner(self):
        self.judge_mutex()

    def test_the_same_beside_more_threads_than_are_asked_in_a_look(self):
        """Of a process that comes first in each look, and whose threads begin a wait again and again."""
        crowd = self.spawn(["setpriv", "--reuid", groups.ATTACKER, "--regid", groups.ATTACKER, "--clear-groups",
                            next(iter(pythons.here().values())), "-c", CROWD, CROWD_THREADS])
        crowd.wait_for("^ready")
        self.judge_mutex(crowd)

    def test_a_mutex_of_rust_has_no_owner_and_counts_as_not_known(self):
        program = self.directory() / "locks"
        self.run_command([tap.need_tool("rustc"), "-O", "-o", program,
                          tap.SOURCE_DIR / "tests/victims/rust/victim-locks.rs"], expect=0, timeout=120)
        child = self.spawn([program])
        run = self.start("--pid", child.pid, *EACH)
        self.wait_for(run, lambda samples: any(map(self.is_lock, samples)), "a wait for a futex")
        result = run.stop()
        self.assertEqual({lock_of(wait) for wait in filter(self.is_lock, result.waits)}, {(None, None, None)})
        self.assertGreaterEqual(result.counter("wait_locks_total")["unknown"], 1)

    def go(self, *options):
        directory = self.directory()
        (directory / "hands.go").write_text(GO)
        child = self.spawn([golang.Go().build(directory / "hands.go", directory / "hands", *options)])
        child.wait_for("ready")
        return child

    def test_a_thread_of_go_without_a_goroutine_has_nothing_to_do(self):
        """By functions of the runtime in its stack, which nothing else was told."""
        run = self.start("--pid", self.go().pid, "--symbols", "local", *EACH)

        def has(wait, *functions):
            return set(functions) <= {golang.plain(frame.name) for frame in wait.frames}

        def of(samples, *functions):
            return [wait for wait in samples if wait.type == "off_cpu" and has(wait, *functions) and
                    wait.attributes["wait.reason"] != "preempted"]

        def met(samples):
            return min(len(of(samples, "runtime.stopm", "runtime.notesleep")),
                       len(of(samples, "runtime.stoplockedm")), len(of(samples, "runtime.netpoll"))) >= 2 * N

        self.wait_for(run, met, "threads that wait for work, for their goroutine and for the network")
        result = run.stop()
        reasons = {place: {wait.attributes["wait.reason"] for wait in of(result.waits, *place)} for place in
                   (("runtime.stopm", "runtime.notesleep"), ("runtime.stoplockedm",), ("runtime.netpoll",))}
        self.assertEqual(list(reasons.values()), [{"futex (idle)"}, {"futex"}, {"epoll_wait (idle)"}])
        told = [wait for wait in result.waits if wait.attributes["wait.reason"] == "futex (idle)" and wait.frames]
        self.assertEqual([wait for wait in told if not has(wait, "runtime.stopm", "runtime.notesleep") and
                          not has(wait, "runtime.sysmon", "runtime.notetsleep")], [])

    def test_a_stripped_program_of_go_tells_the_same(self):
        run = self.start("--pid", self.go("-ldflags=-s -w", "-buildmode=pie").pid, *EACH)
        self.wait_for(run, lambda samples: {"futex (idle)", "futex", "epoll_wait (idle)"} <=
                      {s.attributes["wait.reason"] for s in samples if s.type == "off_cpu"}, "each of the reasons")
        run.stop()


if __name__ == "__main__":
    tap.main()
