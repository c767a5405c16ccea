#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-run-hotspot.py on each JDK of this machine, on releases from PyPI, and on Debian's JDK 8; kept in the cache."""
import collections
import importlib
import subprocess

import jdks
import tap

hotspot = importlib.import_module("test-run-hotspot")
VIRTUAL = "VictimVirtualBusy"
CARRIER = ["java.util.concurrent.ForkJoinWorkerThread.run", "java.lang.VirtualThread.runContinuation",
           "jdk.internal.vm.Continuation.run"]


def is_whole(sample):
    return not sample.attributes.get("profile.stack.truncated")


def names(sample):
    """The outermost first."""
    return [frame.name or "" for frame in reversed(sample.frames)]


def is_on_carrier(found):
    """Whether the frames of the carrier lie below those of the virtual thread."""
    at = [found.index(name) for name in CARRIER if name in found]
    return len(at) == len(CARRIER) and at == sorted(at) and at[-1] < found.index(f"{VIRTUAL}.burn")


def is_of_thread(sample):
    return is_whole(sample) and f"{VIRTUAL}.burn" in names(sample) and is_on_carrier(names(sample))


class OtherReleases(hotspot.Hotspot):

    def javas(self):
        return {**jdks.fetched(), **jdks.here()}

    def start_virtual(self, java):
        directory = self.directory()
        source = tap.SOURCE_DIR / f"tests/victims/{VIRTUAL}.java"
        self.run_command([tap.need_tool("javac"), "--release", "8", "-nowarn", "-d", directory, source],
                         expect=0, timeout=120)
        child = self.spawn([java, "-cp", directory, VIRTUAL], stdin=subprocess.PIPE)
        child.wait_for("ready")
        return self.start("--pid", child.pid, *hotspot.HZ)

    def virtual_javas(self):
        return [java for release, java in self.javas().items() if int(release) >= 21]

    def test_a_virtual_thread_goes_down_to_its_carrier(self):
        for java in self.virtual_javas():
            with self.subTest(java=java):
                run = self.start_virtual(java)
                self.wait_for(run, lambda samples: any(
                    is_of_thread(s) and names(s).count(f"{VIRTUAL}.deep") == 21 for s in samples), "all 21 calls")
                run.stop()

    def test_eight_too(self):
        """It keeps no safepoint in a counted loop. A method that is one, and is inlined, has no frame: the
        stack ends at a caller, or with a method that comes next in the code."""
        java = jdks.eight().get("8")
        if not java:
            tap.skip("library: JDK 8 could not be had from Debian (is there a network?)")
        for options, least in (("-Xint", hotspot.LEAST), ("-XX:TieredStopAtLevel=1", hotspot.LEAST), ("", 0)):
            with self.subTest(options=options):
                child = self.start_java(java, *options.split())
                run = self.start("--pid", child.pid, *hotspot.HZ)
                self.wait_for(run, lambda found: sum(map(bool, map(hotspot.own, found))) >= hotspot.N,
                              f"{hotspot.N} samples of chains")
                samples = [s for s in run.stop().of(child.pid) if hotspot.own(s) is not None]
                seen = collections.Counter()
                for sample in filter(hotspot.is_at_work, samples):
                    seen[hotspot.verdict(hotspot.own(sample))] += sample.value
                ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in samples)
                print(f"# 8 {options}: {len(samples)} samples, ends {dict(ends)}, {dict(seen)}", flush=True)
                ends.pop("pending", None)       # rows of libjvm.so
                self.assertGreaterEqual(ends[None], hotspot.ROOT * ends.total())
                self.assertGreaterEqual(seen["whole"], least * seen.total())
                self.assertLessEqual(seen["wrong"], hotspot.WRONG * seen.total())


if __name__ == "__main__":
    tap.main()
