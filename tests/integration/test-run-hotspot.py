#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Java under the daemon, without a flag: stacks reach the root, and the frames of
tests/victims/VictimJavaBusy.java stand in the order that its source fixes, whatever is interpreted, compiled
or inlined. One JDK; test-long-run-hotspot.py takes more."""
import oracle

oracle.enter()

import collections
import subprocess

import jdks
import session
import tap

HZ = ("--frequency", "1999")
SOURCE = tap.SOURCE_DIR / "tests/victims/VictimJavaBusy.java"
CLASS = "VictimJavaBusy"
SHAPES = ("Square", "Circle", "Line")
CHAINS = {
    "deep": ["deep"] + ["deepA", "deepB", "deepC"] * 21 + ["deepA"],
    "sort": ["sort", "lambda$sort$0"],
    "stream": ["stream", "lambda$stream$1"],
    "shapes": ["shapes", "next", *(x for depth in range(9, 0, -1) for x in (f"${SHAPES[depth % 3]}.area", "next"))],
    "thrown": ["caught", "thrower"],
    "caught": ["caught", "handle"],
    "loop": ["loop"],
}
# options → least share of whole chains: an interpreted method is left and entered more often than it works
MODES = {"": 0.97, "-Xint": 0.95, "-XX:TieredStopAtLevel=1": 0.97, "-XX:-TieredCompilation": 0.9}
ROOT = 0.998
# Code between two safepoints has no debug information: what comes next may be taken for it.
WRONG = 0.01
UNNAMED = 0.01
N = 1000


def own(sample):
    """Methods of the victim, the outermost first, as its source has them; None: another thread's."""
    names = [frame.name or "" for frame in reversed(sample.frames)]
    if not any(name == f"{CLASS}.main" for name in names):
        return None
    return [
        name.removeprefix(CLASS).removeprefix(".") for name in names
        if name.startswith(CLASS) and "$$Lambda" not in name
    ]


def is_at_work(sample):
    """Whether the victim's own code ran: not the library's, which the chains' source does not show."""
    leaf = next((frame for frame in sample.frames if frame.type != "kernel"), None)
    return leaf is not None and (leaf.name or "").startswith(CLASS + ".")


def verdict(names):
    if names == ["main", "stream", "lambda$stream$2"]:      # the filter between the two calls of `burn`
        return "inner"
    for chain in CHAINS.values():
        whole = ["main", *chain, "burn"]
        if names == whole:
            return "whole"
        if names == whole[:len(names)]:
            return "inner"
    return "wrong"


class Hotspot(session.NamingCase):
    def javas(self):
        """{release: java} that chains are tried on."""
        release, java = sorted(jdks.here().items())[0]
        return {release: java}

    def java(self):
        return next(iter(self.javas().values()))

    def start_java(self, java, *options):
        directory = self.directory()
        self.run_command([tap.need_tool("javac"), "--release", "8", "-nowarn", "-d", directory, SOURCE],
                         expect=0, timeout=120)
        child = self.spawn([java, *options, "-cp", directory, CLASS], stdin=subprocess.PIPE)
        child.wait_for("ready")
        return child

    def check_run(self, run, child, least):
        self.wait_for(run, lambda samples: sum(own(s) is not None for s in samples) >= N, f"{N} samples of chains")
        result = run.stop()
        samples = [s for s in result.of(child.pid) if own(s) is not None]
        verdicts, wrong = collections.Counter(), collections.Counter()
        for sample in filter(is_at_work, samples):
            said = "unnamed" if any(f.type == "unknown" for f in sample.frames) else verdict(own(sample))
            verdicts[said] += sample.value
            if said == "wrong":
                wrong[tuple(own(sample))] += sample.value
        n = sum(verdicts.values())
        print("# " + f"{child.pid}: {n} samples, {dict(verdicts)}", flush=True)
        self.assertGreaterEqual(verdicts["whole"] / n, least, verdicts)
        self.assertLessEqual(verdicts["unnamed"] / n, UNNAMED, verdicts)
        self.assertLessEqual(verdicts["wrong"] / n, WRONG, wrong.most_common(3))
        ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in samples)
        # libjvm.so has 300,000 rows: a JVM that was there before has some ticks until they are in force
        ends.pop("pending", None)
        self.assertGreater(ends[None], N / 2, ends)
        self.assertGreaterEqual(ends[None] / sum(ends.values()), ROOT, ends)
        return result, samples

    def test_chains_are_whole_in_each_mode(self):
        for java in self.javas().values():
            for options, least in MODES.items():
                with self.subTest(java=java, options=options):
                    child = self.start_java(java, *options.split())
                    run = self.start("--pid", child.pid, *HZ)
                    _, samples = self.check_run(run, child, least)
                    kinds = {f.type for s in samples for f in s.frames if (f.name or "").startswith(CLASS)}
                    self.assertEqual(kinds, {"jvm"})

    def test_a_jvm_that_starts_later_and_one_that_dies(self):
        run, wait = self.start_counted("--exe", "java", *HZ)
        child = self.start_java(self.java())
        self.wait_named(run, child.pid, f"{CLASS}.burn")
        before = wait.counter("spanprof_runtime_processes")
        self.assertGreaterEqual(before, 1)
        child.stop(9)
        tap.wait_until(lambda: wait.counter("spanprof_runtime_processes") < before, "its runtime is forgotten")
        run.stop()

    def test_off_is_off(self):
        child = self.start_java(self.java())
        run = self.start("--pid", child.pid, *HZ, "--runtimes=off")
        run.wait_events(300, child.pid)
        result = run.stop()
        self.assertEqual({f.type for s in result.of(child.pid) for f in s.frames} & {"jvm"}, set())
        self.assertEqual(result.counter("runtimes_total", "attached"), 0)

    def test_a_name_that_is_no_runtime(self):
        done = self.run_command([tap.SPANPROF, "run", "--runtimes=hotspot,cobol"], expect=2)
        self.assertIn("`cobol` is no runtime that spanprof knows", done.stderr)


if __name__ == "__main__":
    tap.main()
