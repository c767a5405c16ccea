#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frames of Python and Java in waits (--off-cpu), and waits for Python's lock. Threads of victim-naps.py and
VictimNaps.java wait in chains of calls that their sources fix. Their stacks are walked in two ways: by the
kernel half as the wait begins, and by the daemon while it goes on."""
import oracle

oracle.enter()

import collections
import subprocess

import jdks
import otlp_read
import pythons
import session
import tap

# each wait is drawn; none is, and the daemon walks those that last
WAYS = {"drawn": ("--off-cpu-walks", "100000"), "late": ("--off-cpu-walks", "0", "--off-cpu-long-wait", "30ms")}
LONG_NS = 40_000_000    # of 50 ms
N = 20                  # of each thread
SOURCE = tap.SOURCE_DIR / "tests/victims/python/victim-naps.py"
PYTHON = {
    "doze": ("sleep", ["again", *["doze"] * 4]),
    "sort": ("sleep", ["again", "sort", "nap"]),
    "keep": ("sleep", ["again", "keep"]),
    "want": ("futex", ["again", "want"]),
}
DOWN = ["run", *["down"] * 6, "run"]
JAVA = {
    "dozing": ([*DOWN, "doze"], "java.lang.Thread.sleep"),
    "parked": ([*DOWN, "park"], "java.util.concurrent.locks.LockSupport.parkNanos"),
    "keeper": ([*DOWN, "keep", "doze"], "java.lang.Thread.sleep"),
    "blocked": ([*DOWN, "want"], None),
}


def python_chain(wait):
    return [f.name.rsplit(".", 1)[-1] for f in reversed(wait.frames)
            if f.type == "cpython" and f.file == str(SOURCE)]


def java_chain(wait):
    return [f.name.rsplit(".", 1)[-1] for f in reversed(wait.frames) if f.name.startswith("VictimNaps")]


class Runtimes(session.NamingCase):
    def long_waits(self, samples):
        """{thread: waits that are blocked for long, and whose frames all have names}"""
        waits = collections.defaultdict(list)
        for wait in samples:
            if wait.type == "off_cpu" and wait.attributes["wait.state"] == "blocked" and wait.value >= LONG_NS and \
                    wait.frames and not any(frame.type == "unknown" for frame in wait.frames):
                waits[wait.thread_id].append(wait)
        return waits

    def judge(self, way, counters):
        if way == "late":
            self.assertEqual(counters["walked"], 0)
            self.assertGreaterEqual(counters["walked_late"], N)
        else:
            self.assertGreaterEqual(counters["walked"], N)

    def check_python(self, python, way):
        child = self.spawn([python, SOURCE], stdin=subprocess.PIPE)
        ready = child.wait_for(r"ready (.*)\n")[1]
        tids = {name: int(tid) for name, tid in (pair.split("=") for pair in ready.split())}
        run = self.start("--pid", child.pid, "--symbols", "local", "--off-cpu", *WAYS[way])

        def whole(samples):
            waits = self.long_waits(samples)
            return all(sum(python_chain(wait) == chain for wait in waits[tids[name]]) >= N
                       for name, (reason, chain) in PYTHON.items())

        self.wait_for(run, whole, f"{N} whole stacks of each thread's waits")
        result = run.stop()
        waits = self.long_waits(result.waits)
        for name, (reason, chain) in PYTHON.items():
            for wait in waits[tids[name]]:
                said = python_chain(wait)
                if said:        # rows and names may come later
                    self.assertEqual((wait.attributes["wait.reason"], said), (reason, chain))
        self.judge(way, result.counter("waits_total"))

    def test_functions_of_python(self):
        python = next(iter(pythons.here().values()))
        for way in WAYS:
            with self.subTest(way):
                self.check_python(python, way)

    def start_java(self):
        java = sorted(jdks.here().items())[-1][1]
        directory = jdks.classes(tap.SOURCE_DIR / "tests/victims/java/VictimNaps.java", release=9)
        child = self.spawn([java, "-cp", directory, "VictimNaps"], stdin=subprocess.PIPE)
        child.wait_for("ready")
        return child

    def is_whole_java(self, wait, chain, last):
        return java_chain(wait) == chain and (not last or any(f.name == last for f in wait.frames))

    def judge_java(self, waits):
        for wait in waits:
            name, said = wait.attributes["thread.name"], java_chain(wait)
            if name in JAVA and said:
                self.assertEqual(said, JAVA[name][0], name)

    def check_java(self, way):
        child = self.start_java()
        run = self.start("--pid", child.pid, "--symbols", "local", "--off-cpu", *WAYS[way])

        def whole(samples):
            waits = [wait for of in self.long_waits(samples).values() for wait in of]
            return all(sum(wait.attributes["thread.name"] == name and self.is_whole_java(wait, *want)
                           for wait in waits) >= N for name, want in JAVA.items())

        self.wait_for(run, whole, f"{N} whole stacks of each thread's waits")
        result = run.stop()
        self.judge_java(wait for of in self.long_waits(result.waits).values() for wait in of)
        self.judge(way, result.counter("waits_total"))

    def test_methods_of_java_in_run(self):
        for way in WAYS:
            with self.subTest(way):
                self.check_java(way)

    def test_methods_of_java_in_record(self):
        child = self.start_java()
        path = self.directory() / "waits.otlp"
        self.spanprof("record", "--pid", child.pid, "--off-cpu", *WAYS["late"], "--duration", "6s", "-o", path)
        waits = [wait for of in self.long_waits(otlp_read.samples(path)).values() for wait in of]
        for name, want in JAVA.items():
            n = sum(wait.attributes["thread.name"] == name and self.is_whole_java(wait, *want) for wait in waits)
            self.assertGreaterEqual(n, N, name)
        self.judge_java(waits)


class PythonLock(session.NamingCase):

    def pythons(self):
        """One; the long form takes each release that is here, and Debian's newer ones."""
        return pythons.all_of_them() if tap.LONG else dict([next(iter(pythons.here().items()))])

    def check_lock(self, python):
        """Threads that compute wait for the interpreter's lock alone, and `want` for the program's."""
        child = self.spawn([python, tap.SOURCE_DIR / "tests/victims/python/victim-gil.py"], stdin=subprocess.PIPE)
        ready = child.wait_for(r"ready (.*)\n")[1]
        tids = {name: int(tid) for name, tid in (pair.split("=") for pair in ready.split())}
        run = self.start("--pid", child.pid, "--symbols", "local", "--off-cpu", *WAYS["drawn"])

        def reasons(samples, name, least_ns=0):
            return collections.Counter(
                wait.attributes["wait.reason"] for wait in samples
                if wait.type == "off_cpu" and wait.thread_id == tids[name] and wait.value >= least_ns and
                wait.attributes["wait.state"] == "blocked")

        def is_enough(samples):
            return (all(reasons(samples, name)["gil"] >= N for name in ("spin_a", "spin_b")) and
                    reasons(samples, "want", LONG_NS)["futex"] >= N)

        self.wait_for(run, is_enough, f"{N} waits of each thread")
        result = run.stop()
        for name in ("spin_a", "spin_b"):
            self.assertEqual(set(reasons(result.waits, name)) - {"page_fault"}, {"gil"}, name)
        self.assertEqual(set(reasons(result.waits, "want", LONG_NS)), {"futex"})
        # the function that takes it has a name where Python was not stripped
        takes = collections.Counter(wait.attributes["wait.reason"] for wait in result.waits
                                    if wait.attributes["wait.state"] == "blocked" and
                                    any(frame.name == "take_gil" for frame in wait.frames))
        print(f"# in take_gil: {dict(takes)}", flush=True)
        self.assertLessEqual(set(takes), {"gil", "page_fault"})
        self.assertGreaterEqual(result.counter("python_lock_waits_total"), 2 * N)

    def test_waits_for_the_lock_of_an_interpreter(self):
        for version, python in self.pythons().items():
            with self.subTest(python=version):
                self.check_lock(python)


if __name__ == "__main__":
    tap.main()
