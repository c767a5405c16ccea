#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Java on arm64: the program of build-arm64 on Debian's kernel for that processor, under QEMU.

Truth: the source of tests/victims/java/VictimJavaBusy.java, as in test-run-hotspot.py. JDK 17 is Debian's,
the others are PyPI's.
"""
import oracle

oracle.enter()

import base64
import collections
import gzip
import importlib
import re

import jdks
import otlp_read
import qemu
import tap

hotspot = importlib.import_module("test-run-hotspot")
virtual = importlib.import_module("test-long-run-hotspot")
ARM64 = tap.SOURCE_DIR / "build-arm64"
DEBIAN, PACKAGE = "17", "openjdk-17-jre-headless"
MODES = {"mixed": "", "interpreter": "-Xint", "c1": "-XX:TieredStopAtLevel=1"}
MADE = {"mixed": {"jit compiled"}, "interpreter": {"interpreted"}, "c1": {"c1 compiled"}}
HANDLER = "java.lang.ref.Reference$ReferenceHandler.run"
NOT_NEEDED = {"legal", "man", "docs", "jmods", "include"}
SCRIPT = """
echo "kernel $(uname -r)"
mkdir /tmp/classes
cp /classes/* /tmp/classes
java() {
        name=$1
        shift
        /jdk/bin/java $* -Xmx300m -cp /tmp/classes $VICTIM >/tmp/ready 2>&1 <$INPUT &
        victim=$!
        for i in $(seq 2000); do grep -q ready /tmp/ready && break; sleep 0.2; done
        spanprof targets --verbose -p $victim | sed "s/^/TARGETS $name /"
        spanprof record -F 99 -p $victim -d 30s -o /tmp/java.pb >/dev/null 2>/tmp/log
        echo "RECORD $name $?"
        sed "s/^/LOG /" /tmp/log
        echo "FILE $name $(gzip -c /tmp/java.pb | base64 | tr -d '\\n')"
        # on an emulated CPU the 300,000 rows of libjvm.so may come later than one look waits for them
        for i in $(seq $LOOKS); do
                spanprof stacks $victim >/tmp/stacks 2>&1
                grep -qF HANDLER /tmp/stacks && break
        done
        sed "s/^/STACKS $name /" /tmp/stacks
        kill -9 $victim
        wait $victim
}
"""
# Of samples in which code of the victim ran, once the walk over runtimes is there.
ROOT = 0.99
LEAST = 0.8             # as in test-run-hotspot.py
WRONG = 0.01
N = 300
FIRST_S = 1             # of the walk: names of what it meets come one by one
LATE = ("pending",)     # rows were on their way


def is_at_work(sample):
    """Whether the victim's own code ran: not the library's, which the chains' source does not show."""
    leaf = next((frame for frame in sample.frames if frame.type != "kernel"), None)
    return leaf is not None and (leaf.name or "").startswith(hotspot.CLASS + ".")


class Arm64Java(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        tap.need_root()
        cls.program = ARM64 / "spanprof"
        if not cls.program.exists():
            tap.skip("tool: build-arm64 is not there: `sudo ./bootstrap cross`")
        cls.root = qemu.arm64_root("arm64-java", PACKAGE)

    def files(self, release):
        """path in the guest → path here, of a JDK and all that it is linked with."""
        home = self.root / f"usr/lib/jvm/java-{release}-openjdk-arm64" if release == DEBIAN else \
            jdks.arm64(release).parent.parent
        files = [path for path in home.rglob("*") if path.is_file() and path.suffix != ".zip" and
                 not NOT_NEEDED & set(path.relative_to(home).parts)]
        programs = [path for path in files if path.name == "java" or path.suffix == ".so"]
        places = [home / "lib", home / "lib/server",
                  *(self.root / name / "aarch64-linux-gnu" for name in ("lib", "usr/lib"))]
        return {**{f"jdk/{path.relative_to(home)}": path for path in files},
                **qemu.arm64_libraries(programs, places)}

    def guest(self, release, modes, victim=hotspot.CLASS, looks=12):
        """(console, mode → samples). @looks: at what threads do, at most."""
        directory = self.directory()
        self.run_command([jdks.tool("javac"), "--release", "8", "-nowarn", "-d", directory,
                          hotspot.SOURCE.with_name(f"{victim}.java")],
                         expect=0, timeout=600)
        classes = {f"classes/{path.name}": path for path in directory.glob("*.class")}
        # a read of the first ends at once, again and again; of the second, never
        settings = f"VICTIM={victim} LOOKS={looks}\nINPUT={'/dev/zero' if victim == hotspot.CLASS else '/tmp/in'}\n"
        settings += "mkfifo /tmp/in\nexec 8<>/tmp/in\n"
        script = settings + SCRIPT.replace("HANDLER", f"'{HANDLER}'") + "\n".join(f"java {mode} {MODES[mode]}" for mode in modes)
        console = qemu.boot_arm64(self, [self.program], script, more={**self.files(release), **classes})
        print("".join(f"# {line[:160]}\n" for line in console.splitlines()))
        samples = {}
        for mode, text in re.findall(r"(?m)^FILE (\S+) (\S+)$", console):
            path = directory / f"{mode}.pb"
            path.write_bytes(gzip.decompress(base64.b64decode(text)))
            samples[mode] = list(otlp_read.samples(path))
        return console, samples

    def check(self, mode, samples):
        first = min(s.time_ns for s in samples if any(f.type == "jvm" for f in s.frames)) + FIRST_S * 10**9
        judged = [s for s in samples if s.time_ns >= first and
                  any((f.name or "").startswith(hotspot.CLASS) for f in s.frames)]
        ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in judged)
        late = sum(ends.pop(end, 0) for end in LATE)
        whole = [s for s in judged if hotspot.own(s) is not None]
        verdicts, wrong = collections.Counter(), collections.Counter()
        for sample in filter(is_at_work, whole):
            said = "unnamed" if any(f.type == "unknown" for f in sample.frames) else \
                hotspot.verdict(hotspot.own(sample))
            verdicts[said] += 1
            wrong[tuple(hotspot.own(sample))] += said == "wrong"
        others = collections.Counter(s.attributes.get("profile.stack.truncated") for s in samples
                                     if s.time_ns >= first and s not in judged)
        print(f"# {mode}: {dict(ends)}, {late} before their rows, {dict(verdicts)}")
        print(f"# {mode}, without its frames: {dict(others)}")
        self.assertGreater(ends[None], N, ends)
        self.assertGreaterEqual(ends[None] / sum(ends.values()), ROOT, ends)
        named = verdicts.total() - verdicts["unnamed"]
        self.assertGreaterEqual(verdicts["whole"] / named, LEAST, verdicts)
        self.assertLessEqual(verdicts["wrong"] / named, WRONG, wrong.most_common(3))
        self.assertLessEqual(MADE[mode], hotspot.compilations(samples))
        roots = {next((f.name for f in reversed(s.frames) if f.name), None) for s in whole
                 if not s.attributes.get("profile.stack.truncated")}
        self.assertLessEqual(roots, {"ThreadJavaMain", "start_thread", "thread_start"})

    def run_release(self, release, modes):
        console, samples = self.guest(release, modes)
        self.assertEqual(set(re.findall(r"(?m)^RECORD (\S+ \d+)$", console)), {f"{mode} 0" for mode in modes})
        # a thread that waits in a native method of Java
        self.assertRegex(console, rf"(?m)^STACKS \w+ +{re.escape(HANDLER)} ")
        for mode in modes:
            with self.subTest(mode=mode):
                self.assertRegex(console, rf"(?m)^TARGETS {mode} .* java {release}\b")
                self.check(mode, samples[mode])

    def test_virtual_threads(self):
        """A virtual thread's calls lie whole on its carrier's."""
        console, samples = self.guest("21", ("mixed", "interpreter"), virtual.VIRTUAL, looks=1)
        for mode, found in samples.items():
            with self.subTest(mode=mode):
                first = min(s.time_ns for s in found if any(f.type == "jvm" for f in s.frames)) + FIRST_S * 10**9
                judged = [s for s in found if s.time_ns >= first and f"{virtual.VIRTUAL}.burn" in virtual.names(s)]
                ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in judged)
                whole = [s for s in judged if virtual.is_whole(s)]
                calls = collections.Counter(
                    (virtual.names(s).count(f"{virtual.VIRTUAL}.deep"), virtual.is_on_carrier(virtual.names(s)))
                    for s in whole)
                print(f"# virtual, {mode}: {dict(ends)}, (calls, on the carrier): {dict(calls)}")
                self.assertGreater(len(whole), N)
                self.assertGreaterEqual(len(whole) / len(judged), ROOT)
                self.assertGreaterEqual(calls[21, True] / len(whole), ROOT)

    def test_17(self):
        self.run_release("17", MODES)

    def test_21(self):
        self.run_release("21", ("mixed", "interpreter"))

    def test_25(self):
        self.run_release("25", ("mixed", "interpreter"))


tap.main()
