#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A recording by JDK Mission Control's own writer, whose frames are references into a pool and whose event
has each kind of field, and what JMC's own parser reads of it: span, stack and line of each event. Its
packages come from Maven Central: for the long suite."""
import oracle

oracle.enter()

import collections
import hashlib
import os
import pathlib
import subprocess
import tempfile
import urllib.error
import urllib.request

import otlp_read
import tap

MAVEN = "https://repo1.maven.org/maven2/"
JARS = {
    "org/openjdk/jmc/common/9.1.2/common-9.1.2.jar":
        "e806dc549015997df1fe49ac0db0676c641587e3c9711d03d522f042f1d961fd",
    "org/openjdk/jmc/flightrecorder/9.1.2/flightrecorder-9.1.2.jar":
        "103e6ef83c09329fc59f18a1556e120c38d7faba6cbff13d910c1693312aad57",
    "org/openjdk/jmc/flightrecorder.writer/9.1.2/flightrecorder.writer-9.1.2.jar":
        "8313e66f798f31de144c65b257a0434afca07b1bce1b59f17e63aed38c0dc9c1",
    "org/owasp/encoder/encoder/1.2.3/encoder-1.2.3.jar":
        "b09e2cd5c36a7127e091df9be628278b1166b40bc08b9de8196ccddb0cccd67f",
    "org/lz4/lz4-java/1.8.0/lz4-java-1.8.0.jar":
        "d74a3334fb35195009b338a951f918203d6bbca3d1d359033dc33edd1cadc9ef",
}
SOURCE = tap.SOURCE_DIR / "tests/oracles/JmcRecording.java"
N_EVENTS = 2000


class Jmc(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.java, javac = tap.need_tool("java"), tap.need_tool("javac")
        folder = tempfile.TemporaryDirectory(prefix="spanprof-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for path, digest in JARS.items():
            try:
                data = urllib.request.urlopen(MAVEN + path, timeout=tap.PATIENCE).read()
            except urllib.error.URLError as error:
                tap.skip(f"machine: JMC's packages cannot be downloaded: {error}")
            assert hashlib.sha256(data).hexdigest() == digest, path
            (cls.folder / pathlib.Path(path).name).write_bytes(data)
        cls.classes = os.pathsep.join(map(str, [cls.folder, *cls.folder.glob("*.jar")]))
        subprocess.run([javac, "-Xlint:all", "-Werror", "-cp", cls.classes, "-d", cls.folder, SOURCE], check=True,
                       timeout=120)

    def jmc(self, *words):
        return self.run_command([self.java, "-cp", self.classes, "JmcRecording", *words], expect=0, timeout=120).stdout

    def test_each_event_has_the_span_stack_and_lines_that_its_own_parser_reads(self):
        recording, converted = self.folder / "shop.jfr", self.folder / "shop.pb"
        self.jmc("write", recording)
        read = collections.Counter()
        for line in self.jmc("read", recording).splitlines():
            kind, span, stack = line.split(" ", 2)
            self.assertEqual(kind, "datadog.ExecutionSample")
            read[f"{int(span):016x}", tuple(stack.split(";"))] += 1
        self.assertEqual(sum(read.values()), N_EVENTS)
        self.assertGreater(len(read), N_EVENTS / 2)
        said = self.spanprof("convert", recording, "-o", converted)
        self.assertNotRegex(said.stderr, "malformed|left out|without a stack")
        ours = collections.Counter()
        for sample in otlp_read.samples(converted):
            ours[sample.span_id, tuple(f"{frame.name}:{frame.line}" for frame in reversed(sample.frames))] += sample.value
        self.assertEqual(ours - read, read - ours)
        self.assertEqual(ours, read)
        self.assertIn("valid", self.spanprof("validate", converted).stdout)


if __name__ == "__main__":
    tap.main()
