#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-java-spans.py with more: interpreted code, and a service whose spans Datadog's agent publishes."""
import oracle

oracle.enter()

import collections
import importlib
import re
import subprocess

import jdks
import session
import tap

publishers = importlib.import_module("test-publishers")
spans = importlib.import_module("test-java-spans")
VIRTUAL = "VictimVirtualSpans"


class OtherJavaSpans(spans.JavaSpans):

    def test_interpreted_ones_too(self):
        self.check("-Xint")

    def start_datadog(self, java, classes, *words):
        folder = publishers.publisher("agent", "java")
        child = self.spawn([
            java, f"-javaagent:{folder}/dd-java-agent-1.68.1.jar", "-Ddd.profiling.enabled=true",
            "-Ddd.service=shop", "-Ddd.profiling.start-force-first=true",
            "-Ddd.instrumentation.telemetry.enabled=false", "-Ddd.trace.startup.logs=false",
            "-Ddd.remote_config.enabled=false", "-cp", f"{classes}:{folder}/dd-trace-api-1.66.0.jar", *words
        ], env=session.clean_environment(), cwd=self.directory(), stdin=subprocess.PIPE)
        child.wait_for("^ready")
        return child

    def test_spans_of_datadogs_agent(self):
        child = self.start_datadog("java", publishers.publisher("agent", "java") / "classes", "Agent", "120")
        samples = self.judged(child, "Agent.")
        known = {}      # (trace, span) → who
        for trace, span, who, _, _ in re.findall(publishers.SPAN, child.out, re.M):
            known[trace, span] = who
        seen = collections.Counter()
        for sample, method in samples:
            seen[method] += sample.value
            if method == "work":
                self.assertFalse(sample.trace_id, sample)
                continue
            self.assertEqual(method, "answer", sample)
            self.assertTrue(sample.trace_id, sample)
            # the last span of each thread is not told of
            self.assertEqual(known.get((sample.trace_id, sample.span_id), sample.attributes["thread.name"]),
                             sample.attributes["thread.name"], sample)
        print("#", dict(seen), flush=True)
        self.assertGreater(seen["answer"], 300)
        self.assertGreater(seen["work"], 5)

    def test_spans_of_datadogs_agent_on_virtual_threads(self):
        """Before a thread lets its carrier go, after it has come back to any, and between two spans."""
        java = next((java for release, java in jdks.here().items() if int(release) >= 21), None)
        if not java:
            tap.skip("machine: no JDK has virtual threads")
        classes, api = self.directory(), publishers.publisher("agent", "java") / "dd-trace-api-1.66.0.jar"
        self.run_command([java.parent / "javac", "-Xlint:all", "-Werror", "-cp", api, "-d", classes,
                          tap.SOURCE_DIR / f"tests/victims/java/{VIRTUAL}.java"], expect=0, timeout=120)
        child = self.start_datadog(java, classes, VIRTUAL)
        seen = collections.Counter()
        samples = self.judged(child, f"{VIRTUAL}.", lambda named: len({method for _, method in named}) == 3)
        known = {(trace, span.zfill(16)): who for trace, span, who in
                 re.findall(r"^span (\w{32}) (\w+) (\w+)$", child.out, re.M)}
        for sample, method in samples:
            whose = {name for name in (f"{VIRTUAL}.work{letter}" for letter in "ABCX")
                     for frame in sample.frames if frame.name == name}
            if method == "rest":
                self.assertFalse(sample.trace_id, sample)
            elif whose:
                self.assertTrue(sample.trace_id, sample)
                # the last span of each thread is not told of
                self.assertIn(known.get((sample.trace_id, sample.span_id), ""),
                              {"", *(name.partition(".")[2] for name in whose)}, sample)
                seen["not told of"] += (sample.trace_id, sample.span_id) not in known
            else:               # the frame is in the heap, and was not read
                seen["unread"] += sample.value
                continue
            seen[method] += sample.value
        print("#", dict(seen), flush=True)
        self.assertLessEqual(seen["not told of"] + seen["unread"], 0.1 * seen.total(), seen)
        self.assertGreater(seen["again"], 300)
        self.assertGreater(seen["mounted"], 200)
        self.assertGreater(seen["rest"], 50)


if __name__ == "__main__":
    tap.main()
