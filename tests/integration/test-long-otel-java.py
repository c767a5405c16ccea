#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/java/otel on each JDK that can be had, and on virtual threads."""
import importlib

import jdks
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

    def test_threads_that_end_leave_nothing(self):
        """Each had a page for its record: of two thousand, eight megabytes. Interpreted: compilers take more."""
        self.run_command(["javac", "--release", "8", "-Xlint:-options", "-cp", f"{self.everything()}:{self.jar}", "-d",
                          self.classes, tap.SOURCE_DIR / "tests/interop/publishers/OtelThreads.java"], expect=0,
                         timeout=300)
        child = self.run_command([self.java, "-Xint", "-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC",
                                  "-cp", f"{self.classes}:{self.everything()}:{self.jar}", "OtelThreads"], expect=0,
                                 timeout=300)
        self.assertLess(int(child.stdout.removeprefix("grew ")), 2048)

    def test_virtual_threads_publish_nothing(self):
        for release, java in jdks.here().items():
            if int(release) >= 21:
                break
        else:
            tap.skip("machine: no JDK has virtual threads")
        run = self.start("--frequency", "499", "--comm", "java")
        command = self.with_agent(2, "virtual")
        child = self.spawn([java, *command[1:]], env=self.environment(**self.QUIET))
        self.assertEqual(child.wait(), 0, child)
        samples = [x for x in run.stop().of(child.pid)]
        self.assertGreater(len(samples), 100)
        # the pool's threads are of the usual kind
        self.assertEqual({x.attributes["thread.name"][:5] for x in samples if x.trace_id} - {"pool-"}, set())


if __name__ == "__main__":
    tap.main()
