#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-run-hotspot.py on each JDK of this machine, on releases from PyPI, and on Debian's JDK 8; kept in the cache."""
import bisect
import collections
import importlib
import pathlib
import subprocess

import jdks
import programs
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


MOUNT = "VictimMount"
IN_HEAP = "[frames in the heap]"
# What each of its stacks has between the carrier and the victim's own frames.
THREAD = ["jdk.internal.vm.Continuation.run", "jdk.internal.vm.Continuation.enterSpecial",
          "jdk.internal.vm.Continuation.enter", "jdk.internal.vm.Continuation.enter0"]


def mounted(sample):
    """How the stack of a virtual thread of VictimMount.java that computes is; None: another stack."""
    found = names(sample)
    if f"{MOUNT}.burn" not in found or not is_whole(sample):
        return None
    if any(frame.type == "unknown" for frame in sample.frames if not frame.name):
        return "unnamed"
    own = [name.removeprefix(f"{MOUNT}.") for name in found if name.startswith(f"{MOUNT}.")]
    if found.count(IN_HEAP) == 1:
        at = found.index(IN_HEAP)
        is_marked = found[at - 1] == THREAD[1] and not any(MOUNT in name for name in found[:at])
        return "marked" if is_marked and set(own) <= {"runDeep", "deep", "runUp", "up", "burn"} else "wrong"
    thread = [name for name in found if name.startswith("jdk.internal.vm.Continuation.")]
    deep, up = ["runDeep"] + ["deep"] * 21 + ["burn"], ["runUp"] + ["up"] * (len(own) - 2) + ["burn"]
    is_right = own in (deep, up) and 2 < len(own) < 24 and thread == THREAD and is_below(found)
    return "whole" if is_right else "wrong"


def is_below(found):
    """Whether all frames of the carrier lie below the thread's."""
    at = [found.index(name) for name in CARRIER if name in found]
    return len(at) == len(CARRIER) and at == sorted(at) and at[-1] < found.index(f"{MOUNT}.burn")


# The second is the default of 23, and the only one from 24 on.
COLLECTORS = ("-XX:+UseZGC", "-XX:+UseZGC -XX:+ZGenerational", "-XX:+UseZGC -Xint", "-XX:+UseShenandoahGC")
UNLOAD = "VictimUnload"


def is_unload(sample):
    return is_whole(sample) and f"{UNLOAD}.turn" in names(sample) and f"{UNLOAD}.burn" in names(sample)


def read_log(path):
    """[begin, end, name of the class that ran], in order."""
    lines = [line.split() for line in path.read_text().splitlines()]
    return [(int(begin), int(end), name) for name, begin, end in lines if end.isdigit()]


def class_at(log, time_ns):
    """None: between two, or after the log's end."""
    i = bisect.bisect(log, (time_ns,), key=lambda line: line[:1]) - 1
    return log[i][2] if i >= 0 and time_ns < log[i][1] else None


UNLOADED = "[unloaded class]"


def named_by(sample, ran):
    """Whether the names between `turn` and `burn` are those of the class that ran."""
    if any(frame.type == "unknown" for frame in sample.frames if not frame.name):
        return "unnamed"
    found = names(sample)
    between = found[found.index(f"{UNLOAD}.turn") + 1:found.index(f"{UNLOAD}.burn")]
    right = [f"Unload{ran}.run", f"Unload{ran}.work{ran}"]
    if between == right:
        return "whole"
    is_marked = len(between) == 2 and all(name in (UNLOADED, want) for name, want in zip(between, right))
    return "unloaded" if is_marked else "wrong"


class OtherReleases(hotspot.Hotspot):

    def javas(self):
        return {**jdks.fetched(), **jdks.newest(), **jdks.here()}

    def start_victim(self, java, *options, victim, arguments=()):
        directory = self.directory()
        source = tap.SOURCE_DIR / f"tests/victims/java/{victim}.java"
        self.run_command([tap.need_tool("javac"), "--release", "8", "-nowarn", "-d", directory, source],
                         expect=0, timeout=120)
        child = self.spawn([java, *options, "-cp", directory, victim, *arguments], stdin=subprocess.PIPE)
        child.wait_for("ready")
        return child

    def start_virtual(self, java, *options, victim=VIRTUAL):
        return self.start("--pid", self.start_victim(java, *options, victim=victim).pid, *hotspot.HZ)

    def virtual_javas(self):
        return [java for release, java in self.javas().items() if int(release) >= 21]

    def test_chains_are_whole_beside_each_collector(self):
        """ZGC moves objects while the program runs, and arms code at its entries: frames are as beside others."""
        met = set()
        for release, java in self.javas().items():
            for options in COLLECTORS:
                words = options.split()
                if subprocess.run([java, *words, "-version"], capture_output=True).returncode:
                    print(f"# {release} has no {options}", flush=True)
                    continue
                with self.subTest(release=release, options=options):
                    child = self.start_java(java, *words)
                    run = self.start("--pid", child.pid, *hotspot.HZ)
                    self.check_run(run, child)
                    print(f"# {release} {options}: as above", flush=True)
                    child.stop()
                    met.add(options)
        self.assertEqual(met, set(COLLECTORS), "each is in some release")

    def test_a_virtual_thread_goes_down_to_its_carrier(self):
        for java in self.virtual_javas():
            with self.subTest(java=java):
                run = self.start_virtual(java)
                self.wait_for(run, lambda samples: any(
                    is_of_thread(s) and names(s).count(f"{VIRTUAL}.deep") == 21 for s in samples), "all 21 calls")
                run.stop()

    def count_mounted(self, java, *options):
        run = self.start_virtual(java, *options, victim=MOUNT)
        self.wait_for(run, lambda samples: sum(mounted(s) is not None for s in samples) >= hotspot.N,
                      f"{hotspot.N} samples of virtual threads")
        samples = [s for s in run.stop().samples if mounted(s) is not None]
        seen, wrong, depths = collections.Counter(), collections.Counter(), collections.Counter()
        for sample in samples:
            seen[mounted(sample)] += sample.value
            if mounted(sample) == "wrong":
                wrong[" ".join(names(sample))] += sample.value
            else:
                depths[names(sample).count(f"{MOUNT}.up")] += sample.value
        print(f"# {jdks.release(java)} {options}: {dict(seen)}, depths {sorted(depths.items())}", flush=True)
        self.assertFalse(wrong.most_common(3))
        return seen, depths

    def test_frames_in_the_heap_are_read(self):
        """After a thread has come back most of its frames are in the heap: none is missing, none is doubled."""
        for java in self.virtual_javas():
            for options in (), ("-Xint",), ("-XX:+UseSerialGC",), ("-XX:TieredStopAtLevel=1",):
                with self.subTest(java=java, options=options):
                    seen, depths = self.count_mounted(java, *options)
                    self.assertGreaterEqual(seen["whole"], 0.99 * (seen.total() - seen["unnamed"]))
                    self.assertLessEqual(seen["unnamed"], hotspot.UNNAMED * seen.total())
                    self.assertGreater(len(depths), 15, "calls return one by one")

    def test_frames_in_the_heap_are_marked_where_references_are_not_compressed(self):
        for java in self.virtual_javas():
            for options in (("-XX:+UseZGC",), ("-XX:-UseCompressedOops",)):
                with self.subTest(java=java, options=options):
                    seen, _ = self.count_mounted(java, *options)
                    self.assertGreater(seen["marked"], 0)

    def test_names_are_of_the_class_that_ran(self):
        """Each class is gone some 400 ms after it came, its code too, and another lies there."""
        for java in {**jdks.eight(), **self.javas()}.values():
            for options in ((), ("-Xint",), ("-XX:TieredStopAtLevel=1",)):
                with self.subTest(java=java, options=options):
                    self.check_classes(java, *options)

    def check_classes(self, java, *options):
        log = self.directory() / "log"
        child = self.start_victim(java, *options, victim=UNLOAD, arguments=[log])
        run = self.start("--pid", child.pid, *hotspot.HZ)
        self.wait_for(run, lambda samples: sum(map(is_unload, samples)) >= hotspot.N, f"{hotspot.N} samples of classes")
        child.stop(9)
        seen, wrong, lines = collections.Counter(), collections.Counter(), read_log(log)
        result = run.stop()
        for sample in filter(is_unload, result.samples):
            ran = class_at(lines, result.monotonic_ns(sample))
            if not ran:
                continue
            said = named_by(sample, ran)
            seen[said] += sample.value
            if said == "wrong":
                wrong[ran, " ".join(names(sample))] += sample.value
        print(f"# {jdks.release(java)} {options}: {dict(seen)}", flush=True)
        self.assertFalse(seen["wrong"], wrong.most_common(3))
        self.assertGreater(seen["whole"], 0.5 * seen.total())

    def test_a_jvm_in_other_namespaces(self):
        """Its ids are others there, and its files are elsewhere."""
        directory = self.directory()
        self.run_command([tap.need_tool("javac"), "--release", "8", "-nowarn", "-d", directory, hotspot.SOURCE],
                         expect=0, timeout=120)
        child = self.spawn(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                            f"mount --bind {directory} /mnt && exec {self.java()} -cp /mnt {hotspot.CLASS} deep"],
                           stdin=subprocess.PIPE)
        child.wait_for("ready")
        inner = next(pid for pid in pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split())
        run = self.start("--pid", inner, *hotspot.HZ)
        self.wait_for(run, lambda samples: sum(
            hotspot.own(s) == ["main", *hotspot.CHAINS["deep"], "burn"] for s in samples) > 100, "whole chains")
        run.stop()

    def whole_chains(self, java, chain, *options):
        """Samples of @chain with all of its calls, 100 or more."""
        child = self.start_java(java, *options, chains=[chain])
        run = self.start("--pid", child.pid, *hotspot.HZ)
        wanted = ["main", *hotspot.CHAINS[chain], "burn"]
        self.wait_for(run, lambda found: sum(hotspot.own(s) == wanted for s in found) >= 100, "whole chains")
        samples = [s for s in run.stop().of(child.pid) if hotspot.own(s) is not None]
        own = [hotspot.own(s) for s in samples if hotspot.is_named(s)]
        wrong = [calls for calls in own if hotspot.verdict(calls) == "wrong"]
        self.assertLessEqual(len(wrong), hotspot.WRONG * len(samples), wrong[:3])
        return [s for s in samples if hotspot.own(s) == wanted]

    def test_native_code_that_calls_java(self):
        """Java, native code of the JDK and the VM, and Java again: each in its place."""
        for sample in self.whole_chains(self.java(), "mirror", "-Dsun.reflect.inflationThreshold=2147483647"):
            found = names(sample)
            at = found.index(f"{hotspot.CLASS}.mirror"), found.index(f"{hotspot.CLASS}.called")
            between = {frame.type for frame in list(reversed(sample.frames))[at[0] + 1:at[1]]}
            self.assertEqual(between, {"jvm", "native"}, found)

    def test_methods_that_are_never_compiled(self):
        """Every third call of the chain is interpreted, those around it are compiled."""
        seen = collections.Counter()
        for sample in self.whole_chains(self.java(), "deep", "-XX:CompileCommand=exclude,VictimJavaBusy::deepB"):
            ran = {f.compilation for f in sample.frames if f.name == f"{hotspot.CLASS}.deepB"}
            self.assertEqual(ran, {"interpreted"})
            seen |= collections.Counter({f.compilation for f in sample.frames if f.name == f"{hotspot.CLASS}.deepC"})
        self.assertTrue(set(seen) & {"c1 compiled", "jit compiled"}, seen)

    def test_graals_compiler_in_a_hotspot(self):
        """Its code has the descriptions of C2's. It leaves no safepoint in a counted loop, so `burn` may have no
        frame where it is inlined; nothing stands for it."""
        programs.need()
        java = jdks.here().get("17")
        if not java:
            tap.skip("tool: JDK 17 is not installed: it is the last one that has room for Graal from Maven")
        compiler, rest = programs.jars("compiler-"), programs.jars("graal-sdk|truffle-api")
        child = self.start_java(java, "-XX:+UnlockExperimentalVMOptions", "-XX:+EnableJVMCI",
                                "-XX:+UseJVMCICompiler", f"--upgrade-module-path={compiler}",
                                f"--module-path={rest}", "-Djvmci.Compiler=graal")
        run = self.start("--pid", child.pid, *hotspot.HZ)
        self.check_run(run, child, {"jit compiled"})

    def test_eight_too(self):
        """It keeps no safepoint in a counted loop, unless it is told to. A method that is one, and is
        inlined, has no frame: the stack ends at a caller, or with a method that comes next in the code."""
        java = jdks.eight().get("8")
        if not java:
            tap.skip("library: JDK 8 could not be had from Debian (is there a network?)")
        for options, least in (("-Xint", hotspot.LEAST), ("-XX:TieredStopAtLevel=1", hotspot.LEAST), ("", 0),
                               ("-XX:+UseCountedLoopSafepoints", hotspot.LEAST)):
            with self.subTest(options=options):
                child = self.start_java(java, *options.split())
                run = self.start("--pid", child.pid, *hotspot.HZ)
                self.wait_for(run, lambda found: sum(
                    map(hotspot.is_named, filter(hotspot.own, found))) >= hotspot.N,
                              f"{hotspot.N} samples of chains with all names")
                samples = [s for s in run.stop().of(child.pid) if hotspot.own(s) is not None]
                seen = collections.Counter()
                for sample in samples:
                    said = hotspot.verdict(hotspot.own(sample)) if hotspot.is_named(sample) else "unnamed"
                    seen[said] += sample.value
                ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in samples)
                print(f"# 8 {options}: {len(samples)} samples, ends {dict(ends)}, {dict(seen)}", flush=True)
                ends.pop("pending", None)       # rows of libjvm.so
                self.assertGreaterEqual(ends[None], hotspot.ROOT * ends.total())
                self.assertGreaterEqual(seen["whole"], least * (seen.total() - seen["unnamed"]))
                self.assertLessEqual(seen["wrong"], hotspot.WRONG * seen.total())
                late = hotspot.settled(samples)
                n_unnamed = sum(not hotspot.is_named(s) for s in late)
                self.assertLessEqual(n_unnamed, hotspot.UNNAMED * len(late), seen)


if __name__ == "__main__":
    tap.main()
