#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-java-spans.py with more: interpreted code, and a service whose spans Datadog's agent publishes."""
import oracle

oracle.enter()

import collections
import importlib
import re

import session
import tap

publishers = importlib.import_module("test-publishers")
spans = importlib.import_module("test-java-spans")


class OtherJavaSpans(spans.JavaSpans):

    def test_interpreted_ones_too(self):
        self.check("-Xint")

    def test_spans_of_datadogs_agent(self):
        folder = publishers.publisher("agent", "java")
        child = self.spawn([
            "java", f"-javaagent:{folder}/dd-java-agent-1.68.1.jar", "-Ddd.profiling.enabled=true",
            "-Ddd.service=shop", "-Ddd.profiling.start-force-first=true",
            "-Ddd.instrumentation.telemetry.enabled=false", "-Ddd.trace.startup.logs=false",
            "-Ddd.remote_config.enabled=false", "-cp", f"{folder}/classes:{folder}/dd-trace-api-1.66.0.jar",
            "Agent", "120"
        ], env=session.clean_environment(), cwd=self.directory())
        child.wait_for("^ready")
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


if __name__ == "__main__":
    tap.main()
