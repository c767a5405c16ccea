#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that many run, beside the profiler of their runtime in the same process: a database of Java (H2)
with async-profiler, a site of Django with py-spy, and the compiler of Go with its own CPU profile. Stacks
reach their root, and the 20 hottest functions have the same share.

What is compared is what each of these profilers knows. async-profiler takes the next description behind a pc
for the methods that are inlined there, which may not have begun: shares are of methods as they were compiled,
and what is inlined is printed alone. py-spy looks when some time of the wall clock is over, and often finds
the program as it asks for the time: the victim's own functions are left out of both."""
import oracle

oracle.enter()

import collections
import os
import pathlib
import re
import subprocess
import time

import golang
import jdks
import otlp_read
import session
import tap

HZ = 499
WHOLE = 0.99            # of all samples, from the first one on
POINTS = 2.0
HOTTEST = 20
LEAST = 2000            # samples that are compared, of either
CPU_SECONDS = 20
CACHE = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / "programs"
VICTIMS = tap.SOURCE_DIR / "tests/victims"
DJANGO = VICTIMS / "python/victim-django.py"
PACKAGE = "cmd/compile/internal/ssa"            # takes 20 s
# A tick of Go is a signal, and often comes where the thread has just been made to stop
PREEMPTED = "-hide=^runtime.asyncPreempt$"


def shares(counts):
    total = counts.total()
    return collections.Counter({key: 100 * n / total for key, n in counts.items()})


def lambdas_alike(name):
    return re.sub(r"\$\$Lambda[^.]*(\.0x[0-9a-f]+)?", "$$Lambda", name.replace("/", "."))


def by_async(path):
    """(methods as they were compiled, innermost functions) of folded stacks with annotations."""
    compiled, innermost = collections.Counter(), collections.Counter()
    for line in path.read_text().splitlines():
        stack, _, n = line.rpartition(" ")
        methods = re.findall(r"([^;]+)_\[([ji01])\](?=;|$)", stack)
        if methods:
            innermost[lambdas_alike(methods[-1][0])] += int(n)
            compiled[lambdas_alike(next(name for name, kind in reversed(methods) if kind != "i"))] += int(n)
    return compiled, innermost


def by_us_of_java(samples):
    compiled, innermost = collections.Counter(), collections.Counter()
    for sample in samples:
        methods = [frame for frame in sample.frames if frame.type == "jvm" and frame.compilation]
        whole = [frame for frame in methods if frame.compilation != "inlined"]
        if whole:
            innermost[lambdas_alike(methods[0].name)] += sample.value
            compiled[lambdas_alike(whole[0].name)] += sample.value
    return compiled, innermost


def by_py_spy(path):
    counts = collections.Counter()
    for line in path.read_text().splitlines():
        found = re.search(r"([^;]*) \((?:[^;]*/)?([^;/]*):\d+\) (\d+)$", line)
        if found and found[2] != DJANGO.name:
            counts[found[1], found[2]] += int(found[3])
    return counts


def by_us_of_python(samples):
    counts = collections.Counter()
    for sample in samples:
        frame = next((frame for frame in sample.frames if frame.type == "cpython"), None)
        if frame and pathlib.Path(frame.file).name != DJANGO.name:
            counts[frame.name, pathlib.Path(frame.file).name] += sample.value
    return counts


class Programs(session.NamingCase):
    def setUp(self):
        super().setUp()
        self.out = self.directory() / "out.pb"

    def need_programs(self):
        done = subprocess.run(["sh", tap.SOURCE_DIR / "tests/interop/setup-programs.sh"], capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f"machine: no programs from Maven and PyPI: {done.stderr.strip()[-200:]}")

    def recorded(self, *command, **options):
        return self.spawn([tap.SPANPROF, "record", "-F", HZ, "-o", self.out, "--", *command], **options)

    def program(self, child):
        """What `record` has started."""
        found = subprocess.run(["pgrep", "-P", str(child.pid)], capture_output=True, text=True)
        return found.stdout.split()[0]

    def samples(self, what):
        """Those of the recording, nearly all of which are whole."""
        found = [s for s in otlp_read.samples(self.out) if s.type not in session.NO_TICKS]
        ends, unnamed = collections.Counter(), 0
        for sample in found:
            ends[sample.attributes.get("profile.stack.truncated")] += sample.value
            unnamed += sample.value * any(frame.type == "unknown" for frame in sample.frames)
        print(f"# {what}: {ends.total()} samples, whole {ends[None] / ends.total():.2%}; {dict(ends)}; "
              f"with an unnamed frame {unnamed}", flush=True)
        self.assertGreater(ends.total(), LEAST)
        self.assertGreaterEqual(ends[None], WHOLE * ends.total(), ends)
        self.assertLessEqual(unnamed, (1 - WHOLE) * ends.total())
        return found

    def compare(self, what, theirs, ours, least=POINTS):
        """@least: None = nothing is asserted. Shares of the hottest functions of either."""
        first, second = shares(theirs), shares(ours)
        hottest = {key for counts in (first, second) for key, _ in counts.most_common(HOTTEST)}
        off = {key: (first[key], second[key]) for key in hottest}
        worst = max(off, key=lambda key: abs(first[key] - second[key]))
        print(f"# {what}: {theirs.total():.0f} samples of theirs, {ours.total()} of ours; {len(hottest)} functions, off by "
              f"at most {abs(first[worst] - second[worst]):.2f} points ({worst})", flush=True)
        if least is not None:
            self.assertGreater(min(theirs.total(), ours.total()), LEAST)
            self.assertLessEqual(abs(first[worst] - second[worst]), least,
                                 {key: both for key, both in off.items() if abs(both[0] - both[1]) > least})

    def test_a_database_of_java(self):
        self.need_programs()
        javas = jdks.here()
        java = javas.get("17") or javas[max(javas, key=int)]
        classes, folded = self.directory(), self.directory() / "async.txt"
        self.run_command([jdks.tool("javac"), "--release", "8", "-nowarn", "-XDignore.symbol.file", "-d", classes,
                          VICTIMS / "java/VictimDatabase.java"], expect=0, timeout=120)
        child = self.recorded(java, "-cp", os.pathsep.join(map(str, [classes, *(CACHE / "jars").glob("h2-*.jar")])),
                              "VictimDatabase", CPU_SECONDS)
        child.wait_for("ready", patience=120)
        options = f"start,event=cpu,interval={10**9 // HZ},jstackdepth=512,collapsed,ann,file={folded}"
        self.run_command([jdks.tool("jcmd"), self.program(child), "JVMTI.agent_load", CACHE / "libasyncProfiler.so",
                          f'"{options}"'], expect=0, timeout=120)
        since_ns = time.time_ns()
        child.wait(600)
        ours = by_us_of_java(s for s in self.samples("H2") if s.time_ns >= since_ns)
        for what, theirs, own, least in zip(("compiled methods", "with inlined ones"), by_async(folded), ours,
                                            (POINTS, None)):
            self.compare(f"H2, {what}", theirs, own, least)

    def test_a_site_of_django(self):
        self.need_programs()
        folded = self.directory() / "spy.txt"
        child = self.recorded(CACHE / "python/bin/python3", DJANGO, CPU_SECONDS,
                              env=session.clean_environment(PYTHONDONTWRITEBYTECODE=1))
        child.wait_for("ready", patience=120)
        spy = self.spawn([CACHE / "python/bin/py-spy", "record", "-p", self.program(child), "-r", 199, "-f", "raw", "-o",
                          folded])
        since_ns = time.time_ns()
        child.wait(600)
        spy.wait(120)
        ours = by_us_of_python(s for s in self.samples("Django") if s.time_ns >= since_ns)
        self.compare("Django", by_py_spy(folded), ours)

    def test_the_compiler_of_go(self):
        go, profile = golang.Go(), self.directory() / "cpu.prof"
        environment = {**go.environment, "GO111MODULE": "on"}
        self.run_command([go.program, "build", PACKAGE], env=environment, expect=0, timeout=1200)
        # with another flag than in the cache it is compiled again, and nothing else is
        child = self.recorded(go.program, "build", f"-gcflags={PACKAGE}=-cpuprofile={profile}", PACKAGE, env=environment)
        child.wait(1200)
        samples = self.samples("Go's compiler")
        pids = collections.Counter()
        for sample in samples:
            pids[sample.resource["process.pid"]] += sample.value
        ours = collections.Counter()
        for sample in samples:
            frames = [frame for frame in sample.frames if frame.type != "kernel"]
            if frames and sample.resource["process.pid"] == pids.most_common(1)[0][0]:
                # a name of assembly says its calling convention
                ours[re.sub(r"\[.*\]$", "[...]", frames[0].name.removesuffix(".abi0"))] += sample.value
        done = self.run_command([go.program, "tool", "pprof", "-top", "-unit=ms", "-nodecount=100000", "-nodefraction=0",
                                 PREEMPTED, profile], env=environment, expect=0, timeout=300)
        theirs = collections.Counter()
        for ms, name in re.findall(r"^ *([\d.]+)(?:ms)? +\S+% +\S+% +\S+ +\S+% +(.*)$", done.stdout, re.M):
            theirs[re.sub(r" \((partial-)?inline\)$", "", name)] += float(ms) / 10       # its clock ticks each 10 ms
        self.compare("Go's compiler", theirs, ours)


if __name__ == "__main__":
    tap.main()
