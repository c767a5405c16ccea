#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of a JVM in code that is no method of Java: stubs of intrinsics, the unwinding of exceptions, native
code that holds arrays of the heap (tests/victims/java/VictimStubs.java). A stack goes on below it to the
methods that its source fixes, or it ends there and says so."""
import oracle

oracle.enter()

import collections
import subprocess

import jdks
import session
import tap

CLASS = "VictimStubs."
CHAINS = ("crypt", "digest", "check", "order", "fail", "pack")
MODES = ("", "-XX:+PreserveFramePointer", "-XX:TieredStopAtLevel=1", "-Xint")
N = 15                  # whole stacks of each chain
DEPTH = 13              # calls of `fall`
ENDS = 0.02             # of stacks without an exception, which is between two frames for moments
LAST = 300              # samples by which names are judged: in the first seconds they come too late
UNNAMED = 0.15          # of these
THROWN = {"_rethrow_Java", "ExceptionBlob", CLASS + "fail", CLASS + "fall"}
PACK = "java.util.zip.Deflater.deflateBytesBytes"


def own(sample):
    """Methods of the victim, the outermost first; without the lambdas that call them."""
    names = [frame.name or "" for frame in reversed(sample.frames)]
    return [name.removeprefix(CLASS) for name in names if name.startswith(CLASS)]


def end_of(sample):
    return sample.attributes.get("profile.stack.truncated")


def verdict(sample):
    """whole: with its chain's name; inner: ends at a caller; cut: says why it ends; unnamed: has a frame
    whose name came too late; wrong; None: not of main."""
    methods, end = own(sample), end_of(sample)
    if any(frame.type == "unknown" for frame in sample.frames):
        return "unnamed"
    if end:
        return "cut"
    if not methods:
        return None
    whole = [["main", "turn", chain] for chain in ("copy", *CHAINS)]
    falls = methods[:3] == ["main", "turn", "fail"] and set(methods[3:]) == {"fall"}
    if methods in whole or falls and len(methods) <= 3 + DEPTH:
        return "whole"
    return "inner" if methods in (["main"], ["main", "turn"]) else "wrong"


def are_named(samples):
    """Whether few of the last samples have a frame without a name."""
    last = sorted((s for s in samples if s.attributes.get("thread.name") == "java"), key=lambda s: s.time_ns)[-LAST:]
    unnamed = sum(s.value for s in last if verdict(s) == "unnamed")
    return len(last) == LAST and unnamed <= UNNAMED * sum(s.value for s in last)


class Stubs(session.NamingCase):
    def start_java(self, java, *options):
        directory = jdks.classes(tap.SOURCE_DIR / "tests/victims/java/VictimStubs.java")
        child = self.spawn([java, *options, "-cp", directory, CLASS.rstrip(".")], stdin=subprocess.PIPE)
        child.wait_for("ready")
        return child

    def are_whole(self, samples):
        seen = collections.Counter(own(sample)[2] for sample in samples if verdict(sample) == "whole")
        return all(seen[chain] >= N for chain in CHAINS)

    def check_below(self, samples):
        """What runs below the victim's methods: stubs, and native code that has arrays of the heap."""
        kinds = collections.defaultdict(set)
        for sample in samples:
            if verdict(sample) == "whole":
                names = [frame.name for frame in sample.frames]
                kinds[own(sample)[2]] |= {"stub"} if any("StubRoutines" in str(name) for name in names) else set()
                if PACK in names and any(f.type == "native" for f in sample.frames[:names.index(PACK)]):
                    kinds["pack"].add("native below Java")
        self.assertIn("stub", kinds["check"])
        self.assertIn("native below Java", kinds["pack"])

    def check(self, java, options):
        child = self.start_java(java, *options.split())
        run = self.start("--pid", child.pid, "--symbols", "local", "--frequency", "499")
        self.wait_for(run, lambda samples: self.are_whole(samples) and are_named(samples),
                      f"{N} whole stacks of each of {CHAINS}, and names for all but {UNNAMED:.0%} of {LAST} samples")
        samples = [s for s in run.stop().of(child.pid) if s.attributes.get("thread.name") == "java"]
        verdicts, ends = collections.Counter(), collections.Counter()
        for sample in samples:
            verdicts[verdict(sample)] += sample.value
            ends[end_of(sample)] += sample.value
        print(f"# {java} {options}: {dict(verdicts)}, ends {dict(ends)}", flush=True)
        tails = collections.Counter((s.frames[-1].name, s.frames[0].name, len(s.frames)) for s in samples
                                    if end_of(s) == "runtime")
        print(f"# {tails.most_common(5)}", flush=True)
        self.assertEqual([own(s) for s in samples if verdict(s) == "wrong"], [], "a chain that its source has not")
        cut = [s for s in samples if verdict(s) == "cut" and end_of(s) == "runtime"
               and not THROWN & {frame.name for frame in s.frames}]
        self.assertLessEqual(sum(s.value for s in cut), ENDS * verdicts.total(), ends)
        self.check_below(samples)
        child.stop(9)

    def test_stacks_go_on_below_code_that_is_no_method(self):
        """-XX:-PreserveFramePointer is what a JVM has without a flag. The long form takes each JDK in each mode."""
        javas = sorted(jdks.here().items())
        usual = sorted(jdks.given().items()) or javas[:1] + javas[1:][-1:]
        for release, java in javas if tap.LONG else usual:
            for options in MODES if tap.LONG else MODES[:2] if release == javas[0][0] else MODES[:1]:
                with self.subTest(release=release, options=options):
                    self.check(java, options)


if __name__ == "__main__":
    tap.main()
