#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Datadog's library for Node, from npm, on releases of Node that keep contexts in V8: samples of a service
beside what it says of itself; an older library, whose records are not read; one that is not switched on."""
import json

import oracle

oracle.enter()

import otel_case  # noqa: E402
import tap  # noqa: E402

# release of Node: its flag
RELEASES = {22: ("--experimental-async-context-frame",), 24: (), 26: ()}
LIBRARY, LIBRARY_5 = "6.21.0", "5.132.0"
# where the process context tells where records are: in an object of the library, or in a wrapper of it
TELLERS = ("6.20.1", "6.15.0")
WRITER = """
const { ThreadContext } = require('@datadog/pprof').otelThreadCtx;
new ThreadContext(Buffer.alloc(16, 7), Buffer.alloc(8, 9)).enter();
console.log('ready');
const begin = performance.now();
while (performance.now() < begin + 8000);
"""


class DatadogNode(otel_case.TestCase):
    REQUESTS = tap.SOURCE_DIR / "tests/interop/publishers/otel_requests.js"

    def library(self, version):
        folder = self.directory()
        (folder / "package.json").write_text('{ "private": true }')
        self.npm("install", "--silent", "--ignore-scripts", f"dd-trace@{version}", cwd=folder)
        return folder / "node_modules"

    @staticmethod
    def variables(modules, **more):
        return {"TRACER": "datadog", "NODE_PATH": str(modules), "DD_TRACE_OTEL_CTX_ENABLED": "true",
                "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false", "DD_REMOTE_CONFIGURATION_ENABLED": "false",
                "DD_TRACE_STARTUP_LOGS": "false", **more}

    def check(self, node, flags, modules, **more):
        samples, _ = self.check_stretches([node, *flags, self.REQUESTS, 5, "hops", "worker"],
                                          **self.variables(modules, **more))
        linked = [sample for sample in samples if sample.trace_id]
        self.assertEqual({sample.resource.get("service.name") for sample in linked}, {"shop"})
        # of a trace that begins here, the root's id is the lower half of the trace's
        self.assertEqual({(x.trace_id[16:], x.attributes["datadog.local_root_span_id"]) for x in linked},
                         {(x.trace_id[16:], x.trace_id[16:]) for x in linked})

    def test_each_release_of_node(self):
        modules = self.library(LIBRARY)
        for major, flags in RELEASES.items():
            with self.subTest(major):
                self.check(self.node_release(major), flags, modules)

    def test_while_v8_moves_objects(self):
        self.check(self.node_release(24), ("--max-semi-space-size=1",), self.library(LIBRARY), WASTE="1")

    def test_the_older_line_of_releases(self):
        self.check(self.node_release(24), (), self.library(LIBRARY_5))

    def test_libraries_whose_process_context_tells_where_records_are(self):
        for version in TELLERS:
            modules = self.library(version)
            for major in (22, 24):
                with self.subTest(version, node=major):
                    self.check(self.node_release(major), RELEASES[major], modules)

    def spawn_requests(self, node, modules, seconds, **more):
        child = self.spawn([node, self.REQUESTS, seconds, "hops"], cwd=self.directory(),
                           env=self.environment(**self.variables(modules, **more)))
        child.wait_for("^ready")
        child.wait_for("^busy")
        return child

    def test_a_library_that_does_not_say_where_its_records_are(self):
        """The writer of dd-trace 6.20.1, by itself: no process context tells it."""
        node, modules = self.node_release(24), self.library(TELLERS[0])
        run = self.start("--frequency", "499", "--comm", "MainThread,node")
        child = self.spawn([node, "-e", WRITER], cwd=self.directory(),
                           env=self.environment(NODE_PATH=str(modules)))
        child.wait_for("^ready")
        tap.wait_until(lambda: "unreadable: another layout than is known; dd-trace 6.15" in
                       self.run_command([tap.SPANPROF, "contexts", child.pid]).stdout, "the reason")
        self.assertEqual(child.wait(60), 0, child)
        result = run.stop()
        self.assertEqual([x for x in result.of(child.pid) if x.trace_id], [])
        self.assertGreater(result.counter("contexts_total", "unreadable"), 100)

    def test_one_that_is_not_switched_on_is_named(self):
        child = self.spawn_requests(self.node_release(24), self.library(LIBRARY), 20,
                                    DD_TRACE_OTEL_CTX_ENABLED="false")
        rows = json.loads(self.run_command([tap.SPANPROF, "targets", "--verbose", "--json"], expect=0).stdout)
        (row,) = [row for row in rows if row["pid"] == child.pid]
        self.assertEqual(row["tracing"], {"library": "Datadog's library for Node",
                                          "switched_on_by": "DD_TRACE_OTEL_CTX_ENABLED=true"})
        self.assertIn("Datadog's library for Node", self.run_command([tap.SPANPROF, "doctor"]).stdout)


if __name__ == "__main__":
    tap.main()
