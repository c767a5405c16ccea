#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/java/otel on each JDK that can be had, and on virtual threads."""
import importlib
import shutil
import subprocess
import tempfile

import jdks
import qemu
import tap

java = importlib.import_module("test-otel-java")


class OtherReleases(java.OtelJava):
    QUIET = java.QUIET

    def test_the_agent(self):
        for release, self.java in {**jdks.here(), **jdks.fetched()}.items():
            with self.subTest(release):
                self.check_stretches(self.with_agent(3), **self.QUIET)

    def test_the_plain_sdk(self):
        for release, self.java in {**jdks.here(), **jdks.fetched()}.items():
            with self.subTest(release):
                self.check_stretches(self.plain(3))

    def test_jdk_8(self):
        """In a root of its own, which sees the directory of temporary files as /tmp."""
        self.java = jdks.eight().get("8") or tap.skip("library: JDK 8 could not be had from Debian (is there a network?)")
        jars = shutil.copytree(self.jars, self.directory() / "jars")
        for command, environment in (self.with_agent(3), self.QUIET), (self.plain(3), {}):
            inside = [str(word).replace(str(self.jars), str(jars)).replace(tempfile.gettempdir(), "/tmp")
                      for word in command[1:]]
            self.check_stretches([self.java, *inside], **environment)

    def grew(self, *words):
        """KiB of private memory. Interpreted: compilers take more."""
        child = self.run_command([self.java, "-Xint", "-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC",
                                  "-cp", f"{self.classes}:{self.everything()}:{self.jar}", "OtelThreads", *words],
                                 expect=0, timeout=300)
        return int(child.stdout.removeprefix("grew "))

    def test_threads_that_end_leave_nothing(self):
        """Each had a page for its record: of two thousand, eight megabytes."""
        self.assertLess(self.grew(), 2048)

    def each_virtual(self):
        return self.with_virtual_threads({**jdks.here(), **jdks.fetched()}).items()

    def test_virtual_threads(self):
        for release, self.java in self.each_virtual():
            with self.subTest(release):
                self.check_stretches(self.with_agent(20, 3000, "scopes", options=["--enable-preview"],
                                                     victim="OtelVirtual"), **self.QUIET)

    def test_virtual_threads_on_the_plain_sdk(self):
        for release, self.java in self.each_virtual():
            with self.subTest(release):
                self.check_stretches(self.plain(20, 3000, "scopes", options=["--enable-preview"],
                                                victim="OtelVirtual"))

    def test_virtual_threads_that_end_leave_nothing(self):
        """Each had 32 bytes for its span: of two hundred thousand, six megabytes."""
        for release, self.java in self.each_virtual():
            with self.subTest(release):
                self.assertLess(self.grew("virtual"), 2048)

    def check_silence(self, *options):
        """Virtual threads publish nothing, and other threads go on. Returns what the victim wrote."""
        run = self.start("--frequency", "499", "--comm", "java")
        child = self.spawn(self.with_agent(4, "virtual", options=options), env=self.environment(**self.QUIET))
        self.assertEqual(child.wait(200), 0, child)
        samples = run.stop().of(child.pid)
        self.assertGreater(len(samples), 100)
        # the pool's threads are of the usual kind
        self.assertEqual({x.attributes["thread.name"][:5] for x in samples if x.trace_id}, {"pool-"})
        return child.err

    def test_virtual_threads_that_are_switched_off(self):
        for release, self.java in self.each_virtual():
            with self.subTest(release):
                self.assertNotIn("not published", self.check_silence("-Dspanprof.otel.virtual=false"))

    def test_a_virtual_machine_that_tells_of_no_mounts(self):
        """It promises to. The second option binds a virtual thread to a thread of its own."""
        for release, self.java in self.each_virtual():
            for option in ("-XX:-DoJVMTIVirtualThreadTransitions", "-XX:-VMContinuations"):
                with self.subTest(release, option=option):
                    said = self.check_silence("-XX:+UnlockExperimentalVMOptions", option)
                    self.assertEqual(said.count("spans of virtual threads are not published: this JVM does not tell"), 1,
                                     said)


class Arm64(java.Jars):
    """The library for arm64, on JDKs for arm64, under qemu-user: what a thread publishes, byte for byte."""
    TRACES = {"outer": "00112233445566778899aabbccddeeff0123456789abcdef",
              "inner": "fedcba98765432100f1e2d3c4b5a6978f0e1d2c3b4a59687"}
    STEPS = ("before", "outer", "inner", "outer", "after")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        built = tap.SOURCE_DIR / "build-arm64"
        if not (built / "sdk/libspanprof-otel.so").exists():
            tap.skip("tool: build-arm64 is not there: `sudo ./bootstrap cross`")
        cls.root = qemu.arm64_root("arm64-java", "openjdk-17-jre-headless")
        cls.emulator = tap.need_tool("qemu-aarch64")
        cls.jar = cls.jar.with_name("arm64.jar")
        cls.reader = cls.jar.with_name("libotel-record.so")
        subprocess.run([tap.SOURCE_DIR / "sdk/java/otel/make-jar.sh", cls.jar, cls.path_of(*java.NEEDED),
                        f"aarch64={built / 'sdk/libspanprof-otel.so'}"], check=True, timeout=300)
        subprocess.run(["aarch64-linux-gnu-gcc", f"--sysroot={qemu.CACHE / 'arm64'}", "-shared", "-fPIC", "-o", cls.reader,
                        tap.SOURCE_DIR / "tests/interop/publishers/otel-record.c"], check=True, timeout=60)

    def record(self, where):
        """Ids, 1 = valid, no flags, no attributes."""
        return f"{where} {self.TRACES[where]}01000000" if where in self.TRACES else f"{where} none"

    def say(self, program, *words):
        child = self.run_command([self.emulator, "-L", self.root, program, "-Xint", "-cp",
                                  f"{self.classes}:{self.everything()}:{self.jar}", "OtelRecord", self.reader, *words],
                                 expect=0, timeout=300)
        self.assertNotIn("not published", child.stderr)
        return child.stdout.splitlines()

    def test_threads(self):
        lines = self.say(self.root / "usr/lib/jvm/java-17-openjdk-arm64/bin/java")
        self.assertEqual(lines, ["installed true", *map(self.record, self.STEPS)])

    def test_virtual_threads(self):
        """Its span is on the carrier again after each time that another was there, which has none."""
        for name in ("21", "25"):
            with self.subTest(name):
                lines = self.say(jdks.arm64(name), "virtual")
                self.assertEqual(lines.count(self.record("other")), 5, lines)
                self.assertEqual([line for line in lines if not line.startswith("other")],
                                 ["installed true", *(self.record(where) for where in self.STEPS for _ in range(2))])


if __name__ == "__main__":
    tap.main()
