#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that say that they are a JVM (tests/victims/native/pretended-jvm.c), with memory of
tests/fuzz/make/make-hotspot-corpus.py, beside a real one, and many beside a Python of another user: they cost
nothing but their own names."""
import oracle

oracle.enter()

import collections
import importlib
import platform
import shutil
import subprocess

import groups
import prometheus
import pythons
import session
import tap
import unix_http

hotspot = importlib.import_module("test-run-hotspot")

IMAGES = tap.BUILD_DIR / "tests/fuzz/corpus/hotspot"
HONEST = "java-17"
# Their frames are walked, and have names, which may be nonsense.
NAMED = (HONEST, "symbol-of-64-kib", "symbol-cut", "name-of-2-gib", "type-of-2-gib", "scopes-in-a-circle",
         "counts-that-never-end", "counts-nowhere", "loop-without-a-place")
# Walked, and the method has no name.
NAMELESS = ("pointer-to-nowhere", "pool-of-another-class", "name-without-tag")
# The walk ends at the interrupted pc, for a reason.
ENDED = {"block-out-of-use": "no_code"}
# Not walked, and said so.
UNKNOWN = {
    "stride-of-zero": "java: layout unknown: gHotSpotVMStructEntryTypeNameOffset",
    "stride-of-2-gib": "java: layout unknown: gHotSpotVMStructEntryTypeNameOffset",
    "java-27-without-a-field": "java 27: layout unknown: nmethod::_scopes_data_offset",
    "heap-of-everything": "java 17: its code cache is like no JVM's",
}
# Said to be not that far, and asked again.
WAITED_FOR = ("segment-map-in-a-circle", "segment-map-before-the-heap")
WAITS = "java 17: it has run no Java yet"
HEAP = range(0x7E0000000000, 0x7E0000100000)
STUB, METHOD = "StubRoutines (1)", "shop.Main$$Lambda.work"
GIANT = "x" * 40
MAX_NAME = 4096
N, N_REAL = 20, 300
# Each function stays, runs for some milliseconds, and needs the worker when it is met first.
MANY_FUNCTIONS = """
for i in range(400):
    exec(f"def work_{i}(n):\\n    while n: n -= 1")
print("ready", flush=True)
while True:
    for i in range(400):
        globals()[f"work_{i}"](100000)
"""
# a shell of them, which end with it
PRETENDERS = 'for i in $(seq "$1"); do setpriv --pdeathsig KILL chrt -i 0 "$2" "$3" & done; wait'
CROWD, ATTACKER, HONEST_USER = 80, 61001, 61002         # more than there are workers
N_PYTHON = 300
HZ = ("--frequency", "499")


def names(samples):
    return {frame.name for sample in samples for frame in sample.frames if frame.name}


def is_whole(sample):
    return not sample.attributes.get("profile.stack.truncated")


class PretendedJvm(session.NamingCase):
    javas, java, start_java = hotspot.Hotspot.javas, hotspot.Hotspot.java, hotspot.Hotspot.start_java

    def program(self):
        if platform.machine() != "x86_64":
            self.skipTest("machine: code of the pretended JVM is for x86-64")
        program = self.directory() / "pretended-jvm"
        program.parent.chmod(0o755)
        source = tap.SOURCE_DIR / "tests/victims/native/pretended-jvm.c"
        subprocess.run(["gcc", "-O2", "-rdynamic", "-o", program, source], check=True)
        return program

    def pretenders(self):
        """{image: process}."""
        program = self.program()
        found = {name: self.spawn(["nice", "-n", "19", program, IMAGES / name])
                 for name in (*NAMED, *NAMELESS, *ENDED, *UNKNOWN, *WAITED_FOR)}
        for child in found.values():
            child.wait_for("ready")
        return found

    def test_each_costs_its_own_names_alone(self):
        pretenders = self.pretenders()
        real = self.start_java(self.java())
        control = self.directory() / "control.sock"
        pids = ",".join(str(child.pid) for child in (real, *pretenders.values()))
        run, wait = self.start_counted("--pid", pids, *HZ, "--control", control)

        def are_there(samples):
            n = collections.Counter(s.resource["process.pid"] for s in samples)
            own = sum(s.resource["process.pid"] == real.pid and hotspot.own(s) is not None and
                      hotspot.is_named(s) for s in samples)
            return own >= N_REAL and all(n[child.pid] >= N for child in pretenders.values())

        self.wait_for(run, are_there, f"{N} samples of each")
        wait(1, "spanprof_hotspot_ends_total", reason="no_code")
        told = self.spanprof("status", "--control", control).stdout
        for image, words in UNKNOWN.items():
            self.assertIn(f"{pretenders[image].pid}: {words}, falls back to perf maps\n", told)
        for pid in (pretenders[image].pid for image in WAITED_FOR):
            line = f" {pid}: {WAITS}; asked again, `spanprof targets --verbose --pid {pid}` asks at once\n"
            tap.wait_until(lambda: line in self.spanprof("status", "--control", control).stdout, line)
            self.assertIn(WAITS, self.spanprof("targets", "--verbose", "--pid", pid).stdout)
        result = run.stop()
        self.assertEqual(result.counter("workers_total", "died"), 0, result.log)
        for image, child in pretenders.items():
            with self.subTest(image=image):
                self.check_pretender(image, result.of(child.pid))
        self.check_real(result.of(real.pid))

    def check_pretender(self, image, samples):
        late = hotspot.settled(samples)
        whole = [s for s in late if is_whole(s)]
        leaves = {frame.type for s in whole for frame in s.frames if frame.address in HEAP}
        found = names(late)
        self.assertFalse([name for name in found if len(name) > MAX_NAME])
        self.assertFalse([name for name in found if name.startswith(hotspot.CLASS)])
        if image in ENDED:
            self.assertEqual(whole, [])
            return
        if image in UNKNOWN or image in WAITED_FOR:
            # the method sets no frame pointer: by the stub's, which is there, the stub would be left out
            self.assertEqual([s for s in whole if sum(f.address in HEAP for f in s.frames) == 1], [])
            self.assertIn("unproved", {s.attributes.get("profile.stack.truncated") for s in late})
        else:
            # from the first function of the program on
            self.assertGreater(len(whole), 0)
        if image == HONEST:
            self.assertEqual({name for name in found if name.startswith(("shop", "Stub"))}, {STUB, METHOD})
        if image == "name-of-2-gib":
            self.assertTrue(any(name.startswith(GIANT) for name in found), found)
        if image in NAMELESS:
            self.assertFalse([name for name in found if name.startswith("shop")])
            self.assertIn(STUB, found)
        if image in UNKNOWN or image in WAITED_FOR:
            self.assertNotIn("jvm", {frame.type for s in samples for frame in s.frames}, leaves)

    def check_real(self, samples):
        own = [s for s in hotspot.settled(samples) if hotspot.own(s) is not None and hotspot.is_named(s)]
        verdicts = collections.Counter(hotspot.verdict(hotspot.own(s)) for s in own)
        print(f"# the real one: {dict(verdicts)}", flush=True)
        self.assertGreaterEqual(verdicts["whole"], hotspot.LEAST * len(own), verdicts)
        self.assertLessEqual(verdicts["wrong"], hotspot.WRONG * len(own), verdicts)
        self.assertFalse([name for name in names(samples) if name.startswith("shop.") or GIANT in name])

    def of_user(self, user, group, *command):
        enter = f'echo $$ > {group}/cgroup.procs && exec setpriv --reuid {user} --regid {user} --clear-groups "$@"'
        child = self.spawn(["sh", "-c", enter, "sh", *command])
        child.wait_for("ready")
        return child

    def named_share(self, python, group, n_pretenders):
        """Of the samples of a Python that is started beside so many of them, those with all names."""
        control = self.directory() / "control.sock"
        run = self.start("--comm", "pretended-jvm,honest-python", *HZ, "--control", control)

        def value(name, **labels):
            return prometheus.value(unix_http.metrics(control), name, **labels)

        tap.wait_until(lambda: value("spanprof_targets") >= n_pretenders, "the crowd to be known", 120)
        if n_pretenders:
            tap.wait_until(lambda: value("spanprof_workers_total", event="started") > 2 * n_pretenders,
                           "the crowd to be asked", 120)
        child = self.of_user(HONEST_USER, group, python, "-c", MANY_FUNCTIONS)
        run.wait_events(N_PYTHON, child.pid, patience=200)
        result = run.stop()
        child.kill()
        samples = [s for s in result.of(child.pid) if {"cpython", "unknown"} & {f.type for f in s.frames}]
        named = [s for s in samples if "unknown" not in {f.type for f in s.frames}]
        print(f"# beside {n_pretenders}: {len(named)} of {len(samples)} named, "
              f"{result.summary['counters']['workers_total']}", flush=True)
        return len(named) / len(samples)

    def test_a_crowd_of_them_leaves_a_python_of_another_user_its_names(self):
        """They are never ready, so each is asked again and again, and there are more of them than workers."""
        program = self.program()
        image, python = program.with_name("image"), program.with_name("honest-python")
        shutil.copyfile(IMAGES / WAITED_FOR[0], image)
        image.chmod(0o644)
        python.symlink_to(next(iter(pythons.here().values())))
        attacker = groups.make(self, "spanprof-crowd", "attacker.service")
        honest = groups.make(self, "spanprof-crowd", "honest.service")
        alone = self.named_share(python, honest, 0)
        self.of_user(ATTACKER, attacker, "sh", "-c", PRETENDERS, "sh", CROWD, program, image)
        beside = self.named_share(python, honest, CROWD)
        self.assertGreaterEqual(beside, 0.97 * alone - 0.01)


if __name__ == "__main__":
    tap.main()
