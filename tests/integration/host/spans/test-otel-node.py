#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/node with the SDK from npm (tests/interop/setup-publishers.sh): samples of a service beside what it
says of itself, busy stretch by busy stretch; and services in which the package cannot work."""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import oracle

oracle.enter()

import nodes  # noqa: E402
import otel_case  # noqa: E402
import tap  # noqa: E402


class TestCase(otel_case.TestCase):
    PROGRAMS = tap.SOURCE_DIR / "tests/interop/publishers"
    REQUESTS = PROGRAMS / "otel_requests.js"
    EVERYWHERE = PROGRAMS / "otel_everywhere.js"
    REGISTER = "--require spanprof-otel/register"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.node = tap.need_tool("node")
        fetched = cls.publisher("otel-node") / "node_modules"
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        # the archive that is installed, as npm unpacks it
        subprocess.run(["tar", "-xzf", tap.BUILD_DIR / "sdk/node.tgz", "-C", cls.folder], check=True)
        cls.package = cls.folder / "package"
        cls.modules = cls.folder / "modules"
        cls.modules.mkdir()
        (cls.modules / "spanprof-otel").symlink_to(cls.package)
        cls.paths = os.pathsep.join(map(str, (cls.modules, fetched)))
        done = cls.run_node(cls, cls.package / "make.js")
        assert done.returncode == 0, done.stderr

    def node_environment(self, **more):
        return {"NODE_PATH": self.paths, **more}

    def run_node(self, *arguments, node=None, expect=None, **more):
        return otel_case.TestCase.run_command(
            self, [node or self.node, *arguments], expect=expect, timeout=120,
            env=otel_case.TestCase.environment(**TestCase.node_environment(self, **more)))

    def check_everywhere(self, *flags, node=None):
        child = self.run_node(*flags, self.EVERYWHERE, node=node, NODE_OPTIONS=self.REGISTER)
        self.assertRegex(child.stdout, r"^\d{2,} looks\n$")
        self.assertEqual((child.returncode, child.stderr), (0, ""))

    def check_requests(self, *modes, node=None):
        return self.check_stretches([node or self.node, self.REQUESTS, *modes],
                                    **self.node_environment(NODE_OPTIONS=self.REGISTER))


class OtelNode(TestCase):
    LOOK = ("const { context, trace, ROOT_CONTEXT } = require('@opentelemetry/api');\n"
            "const { AsyncLocalStorageContextManager } = require('@opentelemetry/context-async-hooks');\n"
            "context.setGlobalContextManager(new AsyncLocalStorageContextManager());\n"
            "const span = trace.wrapSpanContext({ traceId: 'a1'.repeat(16), spanId: 'b2'.repeat(8) });\n"
            "context.with(trace.setSpan(ROOT_CONTEXT, span), () => console.log(trace.getActiveSpan() === span,\n"
            "    require('spanprof-otel').read()?.join(' ')));\n")

    def test_awaits_callbacks_and_workers_by_an_environment_variable(self):
        samples, _ = self.check_requests(4, "hops", "callbacks", "worker")
        self.assertIn("shop", {sample.resource.get("service.name") for sample in samples if sample.trace_id})

    def test_the_record_is_the_current_span_wherever_contexts_change(self):
        self.check_everywhere()

    def names(self, node=None, **more):
        """{step: attributes of the record, by the indexes of their keys}"""
        out = self.run_node(self.PROGRAMS / "otel_names.js", node=node, expect=0, NODE_OPTIONS=self.REGISTER,
                            **more).stdout
        return {step: json.loads(text) for step, text in re.findall(r"^(\S+) (null|{.*})$", out, re.M)}, out

    def test_spans_have_the_name_of_their_entry_span_also_when_it_comes_late(self):
        found, out = self.names()
        name, route = "0", "1"
        self.assertEqual(found, {
            "entry": {name: "GET"}, "inner": {name: "GET"}, "inner-renamed": {name: "GET"},
            "route": {name: "GET /cart/:id", route: "/cart/:id"}, "renamed": {name: "cart", route: "/cart/:id"},
            "after-await": {name: "cart", route: "/cart/:id"}, "new-root": {name: "job"}, "none": None,
            "before-express": {name: "GET"}, "express": {name: "GET /cart/:id", route: "/cart/:id"},
            "remote-parent": {name: "order", route: "/order"}, "unknown-parent": {}, "unsampled": {name: "not sampled"},
            "long": {name: "\u20ac" * 42}, "too-many": {},
        })
        self.assertIn("refused true failures 0", out)

    def test_a_shop_of_express_has_its_routes_in_reports_pages_and_metrics(self):
        self.check_service([self.node, self.PROGRAMS / "otel_express.js"],
                           {"GET /cart/:id": "/cart/:id", "GET /search": "/search"},
                           **self.node_environment(NODE_OPTIONS=self.REGISTER))

    def test_names_stay_in_the_process_where_they_are_switched_off(self):
        found, out = self.names(SPANPROF_SPAN_NAMES="off")
        self.assertEqual({json.dumps(attributes) for attributes in found.values()}, {"null", "{}"})
        self.assertEqual(len(found), 15)
        self.assertIn("refused false failures 0", out)

    def test_where_it_cannot_work_the_service_runs_and_one_line_says_why(self):
        good = self.run_node("-e", self.LOOK, expect=0, NODE_OPTIONS=self.REGISTER)
        self.assertEqual((good.stdout, good.stderr), (f"true {'a1' * 16} {'b2' * 8}\n", ""))
        off = self.run_node("-e", self.LOOK, expect=0, NODE_OPTIONS=self.REGISTER, SPANPROF_OTEL_DISABLED="true")
        self.assertEqual((off.stdout, off.stderr.count("\n")), ("true undefined\n", 1), off.stderr)
        self.assertIn("spans are not published: SPANPROF_OTEL_DISABLED is set", off.stderr)
        other = self.folder / "without"
        shutil.copytree(self.package, other / "spanprof-otel", ignore=shutil.ignore_patterns("*.node"))
        off = self.run_node("-e", self.LOOK, expect=0, NODE_OPTIONS=self.REGISTER,
                            NODE_PATH=f"{other}{os.pathsep}{self.paths}")
        self.assertEqual((off.stdout, off.stderr.count("\n")), ("true undefined\n", 1), off.stderr)
        self.assertIn("`npm rebuild spanprof-otel` builds it", off.stderr)

    def test_what_is_published_comes_before_the_sdks_own_context(self):
        node = nodes.fetched(nodes.RELEASES[-2]) or tap.skip("machine: npm has not been reached")
        run = self.start("--frequency", "499", "--exe", node)
        child = self.spawn([node, self.REQUESTS, 2, "hops"], cwd=self.directory(),
                           env=self.environment(**self.node_environment(NODE_OPTIONS=self.REGISTER)))
        self.assertEqual(child.wait(200), 0, child)
        # Names tell both apart: the SDK's own context has none. It is read until the publisher is found.
        samples = [sample for sample in run.stop().of(child.pid) if sample.trace_id]
        begin = min(sample.time_ns for sample in samples if "span.name" in sample.attributes) + otel_case.SETTLED_NS
        settled = collections.Counter("span.name" in sample.attributes for sample in samples if sample.time_ns > begin)
        print(f"# {len(samples)} samples with a span, {dict(settled)} later on")
        self.assertGreater(settled[True], otel_case.ENOUGH)
        self.assertEqual(settled[False], 0)

    def test_a_package_without_a_compiler_says_so(self):
        done = self.run_node(self.package / "make.js", CC="/nonexistent/cc")
        self.assertEqual(done.returncode, 1)
        self.assertIn("install gcc, or set CC", done.stderr)

    def test_the_addon_is_the_sdks_writer(self):
        """One variable of a thread, exported, of eight bytes: what readers look for."""
        symbols = self.run_command([tap.need_tool("readelf"), "--dyn-syms", "--wide", self.package / "record.node"],
                                   expect=0).stdout
        (line,) = [line.split() for line in symbols.splitlines() if "otel_thread_ctx_v1" in line]
        self.assertEqual((line[2], line[3], line[4]), ("8", "TLS", "GLOBAL"))


class Plain(otel_case.TestCase):
    """Services with the SDK from npm and no line of ours: the span is read out of Node's own context."""
    # its collector moves objects all the time
    MOVING = ("--stress-compaction", "--gc-interval=2000")
    FLAG = "--experimental-async-context-frame"

    def check(self, release, *arguments, **environment):
        fetched = self.publisher("otel-node") / "node_modules"
        node = nodes.fetched(release) or tap.skip("machine: npm has not been reached")
        return self.check_stretches([node, *arguments], ("--exe", node), NODE_PATH=fetched, **environment)

    @staticmethod
    def release(major):
        return next(release for release in nodes.RELEASES if release.startswith(f"{major}."))

    def test_awaits_callbacks_callers_and_workers(self):
        for major, flags in {24: (), 26: (), 22: (self.FLAG,)}.items() if tap.LONG else [(24, ())]:
            with self.subTest(major):
                self.check(self.release(major), *flags, TestCase.REQUESTS, 4, "hops", "callbacks", "callers", "worker")

    def test_beside_a_collector_that_moves_objects(self):
        for major in (24, 26) if tap.LONG else (26,):
            with self.subTest(major):
                self.check(self.release(major), *self.MOVING, TestCase.REQUESTS, 4, "hops", "worker", WASTE=1)


if __name__ == "__main__":
    tap.main()
