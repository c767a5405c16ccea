#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of Java and Python that are over after 3 s of CPU time: their functions have names from the first
samples on. `spanprof record` with the program as its command, and a daemon that runs already."""
import oracle

oracle.enter()

import jdks
import otlp_read
import pythons
import session
import tap

VICTIMS = tap.SOURCE_DIR / "tests/victims"
BRIEF = VICTIMS / "python/victim-brief.py"
# Of all samples. The interpreter runs native code until its first function.
PYTHON, JAVA = 0.97, 0.97
DAEMON = 0.95           # a worker looks into the program's file first


def has_functions(sample):
    return any(frame.type == "cpython" for frame in sample.frames)


def has_names(sample):
    """Native code has symbols here; code that a JVM has made or interprets has a name only by its runtime."""
    return all(frame.type != "unknown" and frame.name for frame in sample.frames if frame.type != "kernel")


class FirstSamples(session.NamingCase):

    def record(self, *command):
        """Samples of the program that the command becomes."""
        path = self.directory() / "out.otlp"
        self.spanprof("record", "-o", path, "--", *command, env=session.clean_environment())
        return [s for s in otlp_read.samples(path) if s.type not in session.NO_TICKS]

    def check(self, samples, is_right, least):
        n, total = (sum(s.value for s in chosen) for chosen in (filter(is_right, samples), samples))
        ends = [(s.time_ns - samples[0].time_ns) // 10**6 for s in samples if not is_right(s)]
        print(f"# {n} of {total} samples, {n / total:.1%}; not those at {sorted(ends)[:30]} ms", flush=True)
        self.assertGreater(total, 100)
        self.assertGreaterEqual(n / total, least)

    def java(self):
        """(java, directory with the victim's class)"""
        return sorted(jdks.here().items())[0][1], jdks.classes(VICTIMS / "java/VictimBrief.java")

    def test_python_that_is_recorded(self):
        for version, python in pythons.here().items():
            if tap.LONG or str(python).startswith("/usr/bin"):
                with self.subTest(version=version):
                    self.check(self.record(python, BRIEF), has_functions, PYTHON)

    def test_a_script_that_is_recorded(self):
        """Its first line names the program that runs it."""
        script = self.directory() / "brief"
        script.write_text(f"#!/usr/bin/env python3\n{BRIEF.read_text()}")
        script.chmod(0o755)
        self.check(self.record(script), has_functions, PYTHON)

    def test_java_that_is_recorded(self):
        java, directory = self.java()
        self.check(self.record(java, "-cp", directory, "VictimBrief"), has_names, JAVA)

    def test_java_that_a_shell_starts(self):
        """By a word of its command line, or by one of a script that sets this and that before."""
        java, directory = self.java()
        script = self.directory() / "start"
        script.write_text(f"#!/bin/sh\nHEAP=64m\nexec {java} -Xmx$HEAP -cp {directory} VictimBrief\n")
        script.chmod(0o755)
        for command in ((script, ), ("sh", "-c", f"cd {directory} && {java} -cp . VictimBrief; true")):
            with self.subTest(command):
                self.check([s for s in self.record(*command) if s.resource["process.executable.name"] == "java"],
                           has_names, JAVA)

    def test_python_under_a_daemon_beside_one_that_sleeps(self):
        """Of that one no sample was taken, and no mapping was read: its name tells that it may be one."""
        python = "/usr/bin/python3"
        other = self.spawn([python, "-c", "import time; print('ready', flush=True); time.sleep(600)"])
        other.wait_for("ready")
        run = self.start("--all", "--symbols", "local")
        child = self.spawn([python, BRIEF])
        child.wait(120)
        self.check(run.stop().of(child.pid), has_functions, DAEMON)
        other.stop(9)


if __name__ == "__main__":
    tap.main()
