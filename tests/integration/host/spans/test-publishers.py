#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that publish contexts with the libraries that users have (tests/interop/setup-publishers.sh),
beside what they say of their own spans: who worked for which one, from when to when. Also our own library
under Java."""
import collections
import os
import re
import shutil

import oracle

oracle.enter()

import jdks  # noqa: E402
import session  # noqa: E402
import tap  # noqa: E402

PUBLISHERS = tap.BUILD_DIR / "publishers"
SPAN = r"^span ([0-9a-f]{32}) ([0-9a-f]{16}) (\S+) (\d+) (\d+)$"
# around what a victim says of the inside of its span: it looks at the clock before it burns
MARGIN_NS = 2_000_000
ENOUGH = 60  # samples inside of spans

Span = collections.namedtuple("Span", "trace span who begin end")


def publisher(name, program=None):
    """The folder of one, or a skip."""
    if not (PUBLISHERS / name).is_dir():
        tap.skip(
            f"machine: no publisher {name}: it could not be downloaded or built (tests/interop/setup-publishers.sh)"
        )
    if program and not shutil.which(program):
        tap.skip(f"machine: there is no {program}")
    return PUBLISHERS / name


class Publishers(session.TestCase):
    def publish(self, argv, **environment):
        child = self.spawn(argv, env=session.clean_environment(**environment), cwd=self.directory())
        child.wait_for("^ready")
        return child

    def spans(self, child):
        return [
            Span(trace, span, who, int(begin), int(end))
            for trace, span, who, begin, end in re.findall(SPAN, child.out, re.M)
        ]

    @staticmethod
    def is_of(sample, span):
        return span.who in (str(sample.thread_id), sample.attributes.get("thread.name"))

    def arrived(self, run, child):
        """Samples with a link so far, by requests that have arrived."""
        return sum(1 for path in run.receiver.paths() if path.with_suffix(".json").exists()
                   for x in session.otlp_read.samples(path)
                   if x.resource["process.pid"] == child.pid and x.trace_id)

    def check(self, run, child):
        """Until enough has arrived: each sample inside of a span is linked to that very one, and to no other one."""
        tap.wait_until(lambda: self.arrived(run, child) > 2 * ENOUGH, f"samples with spans of {child}", 120)
        n = len(self.spans(child))
        tap.wait_until(lambda: len(self.spans(child)) >= n + 4, f"the spans around them to end, of {child}",
                       120)
        result = run.stop()
        spans = self.spans(child)
        samples = result.of(child.pid)
        linked = [x for x in samples if x.trace_id]
        first = min(result.monotonic_ns(x) for x in linked)
        known = {(span.trace, span.span) for span in spans}
        last = min(max(x.end for x in spans if x.who == who) for who in {x.who for x in spans})
        n_judged = 0
        for sample in samples:
            when = result.monotonic_ns(sample)
            if sample.trace_id and when < last:
                self.assertIn((sample.trace_id, sample.span_id), known, sample)
            inside = [
                x for x in spans if x.begin + MARGIN_NS < when < x.end - MARGIN_NS and self.is_of(sample, x)
            ]
            if inside and (sample.trace_id or inside[0].begin > first + 500_000_000):
                self.assertEqual((sample.trace_id, sample.span_id), (inside[0].trace, inside[0].span), sample)
                n_judged += 1
            elif sample.trace_id:
                own = [x for x in spans if (x.trace, x.span) == (sample.trace_id, sample.span_id)]
                self.assertTrue(all(self.is_of(sample, x) for x in own), sample)
        self.assertGreater(n_judged, ENOUGH)
        return result, linked

    def start_for(self, comm):
        return self.start("--frequency", "199", "--comm", comm)

    def test_the_agent_for_java_in_a_library_loaded_late(self):
        folder = publisher("agent", "java")
        run = self.start_for("java")
        child = self.publish([
            "java", f"-javaagent:{folder}/dd-java-agent-1.68.1.jar", "-Ddd.profiling.enabled=true",
            "-Ddd.service=shop", "-Ddd.profiling.start-force-first=true",
            "-Ddd.instrumentation.telemetry.enabled=false", "-Ddd.trace.startup.logs=false",
            "-Ddd.remote_config.enabled=false", "-cp", f"{folder}/classes:{folder}/dd-trace-api-1.66.0.jar",
            "Agent", "120"
        ])
        result, linked = self.check(run, child)
        last = max(linked, key=lambda x: x.time_ns)
        self.assertEqual((last.resource["service.name"], last.resource["telemetry.sdk.language"]),
                         ("shop", "java"))
        self.assertRegex(last.attributes["datadog.local_root_span_id"], "^[0-9a-f]{16}$")
        self.assertIn("thread contexts: glibc's DTV", self.show(child))

    def test_elastics_library_for_java(self):
        folder = publisher("elastic", "java")
        run = self.start_for("java")
        child = self.publish(
            ["java", "-cp", f"{folder}/classes:{folder}/jvmti-access-0.3.1.jar", "Elastic", "120"])
        self.check(run, child)
        self.assertIn("thread contexts of Elastic: ", self.show(child))

    def test_the_tracer_for_python(self):
        folder = publisher("python")
        run = self.start_for("python*")
        child = self.publish(
            [folder / "venv/bin/python", tap.SOURCE_DIR / "tests/interop/publishers/tracer.py", "120"],
            DD_TRACE_OTEL_CTX_ENABLED="true", DD_SERVICE="shop", DD_INSTRUMENTATION_TELEMETRY_ENABLED="false",
            DD_REMOTE_CONFIGURATION_ENABLED="false", DD_TRACE_STARTUP_LOGS="false")
        result, linked = self.check(run, child)
        last = max(linked, key=lambda x: x.time_ns)
        self.assertEqual((last.resource["service.name"], last.resource["telemetry.sdk.language"]),
                         ("shop", "python"))
        self.assertRegex(last.attributes["datadog.local_root_span_id"], "^[0-9a-f]{16}$")

    def test_the_library_for_rust_in_the_executable(self):
        run = self.start_for("publisher")
        child = self.publish([publisher("rust") / "publisher", "120"])
        result, linked = self.check(run, child)
        # It publishes no process context, so that nothing names the keys of its attributes.
        self.assertGreater(result.counter("context_attributes_total", "unknown_key"), 0)
        self.assertTrue(all("datadog.local_root_span_id" not in x.attributes for x in linked))
        self.assertIn("thread contexts: static, ", self.show(child))

    def test_polar_signals_labels_in_the_executable(self):
        run = self.start_for("publisher-label")
        child = self.publish([publisher("rust-labels") / "publisher-labels", "120"])
        result, linked = self.check(run, child)
        self.assertEqual({x.attributes.get("tenant") for x in linked}, {"blue"})
        # the label is set inside of the span, and is gone before it ends
        self.assertLessEqual({x.attributes.get("http.method") for x in linked}, {"GET", "POST", None})
        self.assertIn("GET", {x.attributes.get("http.method") for x in linked})
        self.assertEqual([x for x in linked if "trace_id" in x.attributes or "go.goroutine.id" in x.attributes], [])
        self.assertIn("thread contexts as custom labels of Polar Signals: static, ", self.show(child))

    def show(self, child):
        return self.run_command([tap.SPANPROF, "contexts", child.pid], expect=0).stdout

    def java_example(self, seconds, *arguments):
        for tool in ("java", "javac"):
            if not shutil.which(tool):
                tap.skip(f"machine: there is no {tool}")
        classes = self.directory()
        self.run_command([
            "javac", *jdks.BRIEF, "-Xlint:all", "-Werror", "-d", classes, tap.SOURCE_DIR /
            "sdk/java/spanprof/ThreadContext.java", tap.SOURCE_DIR / "sdk/example/java/Requests.java"
        ], expect=0, timeout=120)
        library = tap.BUILD_DIR / "sdk/libspanprof-context.so"
        return self.publish([
            "java", f"-Dspanprof.library={os.path.realpath(library)}", "-cp", classes, "Requests", seconds,
            *arguments
        ])

    def test_our_own_library_under_java(self):
        run = self.start("--frequency", "199")  # whoever publishes: nobody names it
        child = self.java_example(120, "ctxstorage=otel")
        self.assertIn("ready otel", child.out)
        run.wait_events(200, pid=child.pid)
        result = run.stop()
        linked = [x for x in result.of(child.pid) if x.trace_id]
        self.assertGreater(len(linked), 100)
        for sample in linked:
            worker = int(sample.span_id[:8], 16)
            self.assertEqual(sample.attributes["thread.name"], f"worker-{worker}", sample)
            self.assertEqual(sample.trace_id, f"{0:016x}5ca1ab1e{worker:08x}")
            self.assertEqual(sample.attributes["datadog.local_root_span_id"], f"5ca1ab1e{worker:08x}")
        self.assertEqual({int(x.span_id[:8], 16) for x in linked}, {1, 2, 3})

    def test_our_own_library_under_java_in_profiler_mode(self):
        child = self.java_example(1, "start,cpu=1ms,ctxstorage=profiler")
        self.assertEqual(child.wait(), 0, child)
        self.assertIn("ready profiler\ndone\n", child.out)


if __name__ == "__main__":
    tap.main()
