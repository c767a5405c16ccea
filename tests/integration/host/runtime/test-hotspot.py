#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the daemon reads of a running JVM, beside what the JVM says itself: compiled code by its id, name and
place, and the stacks of threads that sleep, frame by frame and line by line.
tests/victims/java/VictimJava.java has the chains."""
import java_oracle
import jdks
import tap

DUMP = tap.HARNESS / "hotspot-dump"
SOURCES = tap.SOURCE_DIR / "tests/victims/java"
CHAINS = 10
# options → kinds of frames that its chains must have
MODES = {
    "": {"interpreted", "compiled", "inlined"},
    "-Xint": {"interpreted"},
    "-XX:TieredStopAtLevel=1": {"interpreted", "compiled", "inlined"},
    "-XX:-TieredCompilation -XX:+UseSerialGC": {"interpreted", "compiled", "inlined"},
    "-XX:+IgnoreUnrecognizedVMOptions -XX:-SegmentedCodeCache -XX:-UseCompressedOops": {"interpreted", "compiled", "inlined"},
}


class Hotspot(tap.TestCase):

    def javas(self):
        """{release: java} of one release; the long form has all of this machine, and PyPI's, kept in the cache."""
        return {**jdks.here(), **jdks.fetched()} if tap.LONG else (
            jdks.given() or dict(sorted(jdks.here().items())[:1]))

    def classes(self):
        return jdks.classes(SOURCES / "VictimJava.java", SOURCES / "VictimVirtual.java")

    def start(self, java, *words):
        """One that has said that it is ready."""
        child = self.spawn([java, *words], stdin=tap.subprocess.PIPE)
        child.wait_for(r"ready")
        return child

    def dump(self, verb, child, *words):
        text = self.run_command([DUMP, verb, child.pid, *words], expect=0, timeout=120).stdout
        return [line.split("\t") for line in text.splitlines()]

    def stacks(self, child, threads):
        """{address: (kinds, [(method, line)], how it ended)} by our reader."""
        found, address = {}, None
        for words in self.dump("stack", child, *[f"{address:x}" for address in threads]):
            if words[0] == "thread":
                address = int(words[1], 16)
                found[address] = (set(), [], None)
            elif words[0] == "end":
                found[address] = (*found[address][:2], words[1])
            elif words[0] in ("nameless", "short"):
                raise AssertionError(f"a frame without its name: {words}")
            elif words[0] != "stub":
                found[address][0].add(words[0])
                found[address][1].append((words[1], int(words[3])))
        return found

    def check_stacks(self, child, jcmd, leave_out=()):
        said = {name: thread for name, thread in java_oracle.threads(jcmd, child.pid).items() if thread[1]}
        ours = self.stacks(child, [address for address, _ in said.values()])
        for name, (address, frames) in said.items():
            kinds, found, end = ours[address]
            with self.subTest(thread=name):
                self.assertEqual([frame for frame in found if frame[0] not in leave_out], frames)
                self.assertEqual(end, "root")
        return {name: ours[address] for name, (address, _) in said.items()}

    def check_code(self, child, jcmd):
        # what is compiled between both answers is in one of them
        before = {tuple(words) for words in self.dump("code", child)}
        said = java_oracle.compiled(jcmd, child.pid)
        after = {tuple(words) for words in self.dump("code", child)}
        ours = {(int(w[0]), w[6], w[7], int(w[4], 16), int(w[5], 16)) for w in before & after}
        self.assertEqual(ours - said, set())
        either = {(int(w[0]), w[6], w[7], int(w[4], 16), int(w[5], 16)) for w in before | after}
        self.assertEqual(said - either, set())
        return len(ours)

    def check_scopes(self, child):
        """Each place with debug information has names, but for one an nmethod: the deoptimization handler."""
        places = self.dump("scopes", child)
        nameless = [words[0] for words in places if words[2] == "nameless"]
        self.assertEqual(len(nameless), len(set(nameless)))
        self.assertTrue(any(len(words) > 4 for words in places), "nothing was inlined")

    def test_names_what_sleeping_threads_run(self):
        classes, jcmd = self.classes(), jdks.tool("jcmd")
        for release, java in self.javas().items():
            print(f"# java {release}: {java}")
            for mode, kinds in MODES.items():
                with self.subTest(java=release, mode=mode):
                    child = self.start(java, *mode.split(), "-cp", classes, "VictimJava",
                                       0 if mode == "-Xint" else 20000)
                    stacks = self.check_stacks(child, jcmd)
                    chains = [stack for name, stack in stacks.items() if name.startswith("chain-")]
                    self.assertEqual(len(chains), CHAINS)
                    self.assertEqual(set().union(*(found for found, _, _ in chains)), kinds)
                    child.stop()

    def test_has_the_same_names_from_a_worker_without_rights(self):
        classes, jcmd = self.classes(), jdks.tool("jcmd")
        for release, java in self.javas().items():
            with self.subTest(java=release):
                child = self.start(java, "-cp", classes, "VictimJava", 20000)
                chains = [f"{address:x}" for name, (address, _) in java_oracle.threads(jcmd, child.pid).items()
                          if name.startswith("chain-")]
                lines = self.dump("stack", child, *chains)
                self.assertGreater(len(lines), 20 * CHAINS)
                self.assertEqual(self.dump("worker", child, *chains), lines)
                child.stop()

    def test_lists_compiled_code_as_the_jvm_does(self):
        classes, jcmd = self.classes(), jdks.tool("jcmd")
        for release, java in self.javas().items():
            with self.subTest(java=release):
                child = self.start(java, "-cp", classes, "VictimJava", 20000)
                if release != "8":
                    self.assertGreater(self.check_code(child, jcmd), 100)
                self.check_scopes(child)
                child.stop()

    def javas_of_25(self):
        """Releases whose Thread.print shows virtual threads as well."""
        found = self.javas() if tap.LONG else jdks.here()
        javas = {release: java for release, java in found.items() if int(release) >= 25}
        return javas or tap.skip("tool: JDK 25 is not installed")

    def test_goes_through_a_virtual_thread_to_its_carrier(self):
        classes, jcmd = self.classes(), jdks.tool("jcmd")
        for release, java in self.javas_of_25().items():
            with self.subTest(java=release):
                child = self.start(java, "-cp", classes, "VictimVirtual")
                stacks = self.check_stacks(child, jcmd, leave_out={"jdk.internal.vm.Continuation.enterSpecial"})
                methods = [method for _, found, _ in stacks.values() for method, _ in found]
                self.assertEqual(methods.count("VictimVirtual.reader"), 21)
                child.stop()

    def test_marks_the_frames_of_a_virtual_thread_that_are_in_the_heap(self):
        """
        It has slept: its innermost frames are back, the others are not. The carrier's follow all the same,
        where the JVM publishes the field that leads there.
        """
        classes, jcmd = self.classes(), jdks.tool("jcmd")
        for release, java in self.javas_of_25().items():
            with self.subTest(java=release):
                child = self.start(java, "-cp", classes, "VictimVirtual", 300)
                address, frames = next(thread for thread in java_oracle.threads(jcmd, child.pid).values()
                                       if "VictimVirtual.run" in dict(thread[1]))
                lines = self.dump("stack", child, f"{address:x}")
                ours = [(words[1], int(words[3])) for words in lines[1:-1]]
                gap = [words[0] for words in lines[1:-1]].index("stub")
                self.assertEqual(ours[gap][0], "[frames in the heap]")
                self.assertEqual(ours[:gap], frames[:gap])
                self.assertIn("VictimVirtual.reader", ours[gap - 1][0])
                if jdks.version(java) < (25, 0, 3):
                    self.assertEqual((len(ours), lines[-1]), (gap + 1, ["end", "barrier"]))
                    child.stop()
                    continue
                self.assertEqual(ours[gap + 1][0], "jdk.internal.vm.Continuation.enterSpecial")
                self.assertEqual(ours[gap + 2:], frames[gap + 2 - len(ours):])
                self.assertEqual(lines[-1], ["end", "root"])
                child.stop()

    def test_says_what_is_no_jvm(self):
        done = self.run_command([DUMP, "layout", tap.os.getpid()], expect=1)
        self.assertIn("no libjvm.so there", done.stderr)


if __name__ == "__main__":
    tap.main()
