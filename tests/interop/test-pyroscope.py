#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real backends have what was sent: graphs, names, spans and labels are asked of their own APIs, since an
answer of 200 proves none of it. One Pyroscope serves all subtests; docs/HACKING.md says how to build both."""
import oracle

oracle.enter()

import collections
import gzip
import json
import os
import subprocess
import time

import collector
import otel_case
import otlp_read
import parca
import pyroscope
import session
import spans
import tap

DATA = tap.SOURCE_DIR / "tests/data"
DEMO_SERVICE = tap.BUILD_DIR / "sdk/example/demo/example-service"
FLASK = tap.SOURCE_DIR / "tests/interop/publishers/otel_flask.py"
SHOP = {"GET /cart/<id>": "/cart/<id>", "GET /search": "/search"}
PLACES = {"wait_for_reply", "wait_for_lock", "wait_for_turn"}
LEAVES = {"checkout": "checkout_", "search": "search_", "health": "health_"}     # prefixes of an operation's functions


def named(service):
    return {**os.environ, "OTEL_SERVICE_NAME": service}


class Case(otel_case.TestCase):
    def example(self, service):
        """(the example service, its log of spans)"""
        log = self.directory() / "spans.csv"
        child = self.spawn([session.SERVICE, "--spans", log], env=named(service))
        return child, log

    def run_to(self, url, *options, seconds=1.5, pid=None):
        """The daemon, after a process has used the CPU for so many seconds."""
        run = self.start("--frequency", "499", *options, *(("--pid", pid) if pid else ()), endpoint=url)
        if pid:
            session.wait_cpu([pid], seconds)
        return run

    def delivered(self, run):
        """Its result, with all delivered that was of chosen processes."""
        result = run.stop()
        self.assertEqual(set(result.summary["lost_by_reason"]) - {"not_target"}, set(), run.child)
        self.assertGreater(result.summary["delivered"], 0)
        return result

    def of_operation(self, tree, operation):
        """Self value of the functions of one operation, and of the others."""
        mine = others = 0
        for name, value in tree.own.items():
            if name.startswith(tuple(LEAVES.values())):
                is_mine = name.startswith(LEAVES[operation])
                mine, others = mine + value * is_mine, others + value * (not is_mine)
        return mine, others


class Pyroscope(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = pyroscope.Pyroscope()
        cls.addClassCleanup(cls.server.close)
        cls.server.wait_ready()

    def wait_tree(self, service, kind=pyroscope.CPU, least=1, **more):
        """The server shows what it took some seconds later, and not all of it at once."""

        def look():
            tree = self.server.tree(service, kind, **more)
            is_there = tree.total >= least
            time.sleep(0 if is_there else 0.2)
            return tree if is_there else None

        try:
            return tap.wait_until(look, f"{kind} of {service}")
        except AssertionError as late:
            late.add_note(f"{least} were expected, of {self.server.tree(service, kind, **more).own} in {self.server.series()}")
            raise

    def assert_few_series(self, service):
        types = self.server.of_service(service)
        self.assertTrue(types)
        self.assertLessEqual(max(types.values()), 2, types)

    def test_functions_have_names_from_the_first_window_on(self):
        child, _ = self.example("first")
        run = self.run_to(self.server.url, "--backend", "pyroscope", "--pid", child.pid)
        first = self.wait_tree("first")
        session.wait_cpu([child.pid], 1)
        result = self.delivered(run)
        self.assertLess(first.nameless(), 0.05, first.own)
        tree = self.wait_tree("first")
        self.assertLess(tree.nameless(), 0.02, tree.own)
        self.assertGreater(tree.share("checkout_hash_receipt"), 0.3, tree.own)
        self.assertGreater(tree.of["worker_main"], 0.9 * tree.total, tree.of)
        self.assertLess(abs(tree.total / result.summary["target_cpu_ns"] - 1), 0.25, "its total is CPU time")
        self.assert_few_series("first")

    def test_spans_give_the_functions_of_their_operation(self):
        child, log = self.example("spans")
        run = self.run_to(self.server.url, "--backend", "pyroscope", pid=child.pid)
        self.delivered(run)
        child.stop()
        by_operation = collections.defaultdict(list)
        for span in spans.load(log).by_id.values():
            by_operation[span.operation].append(span)
        self.assertEqual(set(by_operation), set(LEAVES))
        for operation, found in by_operation.items():
            longest = sorted(found, key=lambda span: span.start_before - span.end_after)[:100]
            tree = self.wait_tree("spans", spans=[span.span_id for span in longest])
            mine, others = self.of_operation(tree, operation)
            self.assertGreater(mine, 0, tree.own)
            self.assertEqual(others, 0, tree.own)
            self.assertLess(tree.total, sum(span.end_after - span.start_before for span in longest) * 1.5)

    def test_operations_are_there_by_name(self):
        """Of a service that names them itself, where the option keeps that attribute."""
        truth = self.directory() / "truth.json"
        child = self.spawn([DEMO_SERVICE, "--json", truth], env=named("operations"))
        run = self.run_to(self.server.url, "--backend", "pyroscope", "--attributes", "lean,span.name", pid=child.pid)
        self.delivered(run)
        child.stop()
        shares = {row["name"]: row["share"] for row in json.loads(truth.read_text())["operations"]}
        self.assertEqual(set(shares), set(LEAVES))
        trees = {name: self.wait_tree("operations", labels={"span.name": name}) for name in LEAVES}
        total = sum(tree.total for tree in trees.values())
        self.assertGreater(total, 0.8 * self.wait_tree("operations").total)
        for name, tree in trees.items():
            mine, others = self.of_operation(tree, name)
            self.assertGreater(mine, 0.5 * tree.total, tree.own)
            self.assertEqual(others, 0, tree.own)
            self.assertAlmostEqual(tree.total / total, shares[name], delta=0.08)
        names = {labels.get("span.name") for labels in self.server.series()
                 if labels.get("service_name") == "operations"}
        self.assertEqual(names - {None}, set(LEAVES))

    def test_a_shop_of_flask_has_its_routes(self):
        """Of a service with the real SDK, by the package of sdk/python."""
        python = self.publisher("otel-python") / "venv/bin/python"
        child, ask, end = self.serve([python, FLASK], PYTHONPATH=self.install(python), OTEL_PYTHON_CONTEXT="spanprof")
        run = self.run_to(self.server.url, "--backend", "pyroscope", "--attributes", "lean,span.name", pid=child.pid,
                          seconds=0)
        ask(60)
        used = end()
        self.delivered(run)
        cart, _ = [self.wait_tree("shop", labels={"span.name": name}) for name in SHOP]
        self.assertGreater(cart.of["work"], 0.9 * cart.total, cart.of)
        names = {labels.get("span.name") for labels in self.server.series() if labels.get("service_name") == "shop"}
        self.check_operations({name: self.server.tree("shop", labels={"span.name": name}).total
                               for name in names - {None}}, SHOP, used)

    def test_suspended_time_of_coroutines_is_there(self):
        log = self.directory() / "log"
        victim = self.victim("suspended", log, stdin=subprocess.PIPE, env=named("waiting"))
        run = self.start("--pid", victim.pid, "--backend", "pyroscope", endpoint=self.server.url)
        run.child.wait_for("publishes coroutines")
        victim.process.stdin.write(b"go\n")
        victim.process.stdin.flush()
        victim.wait_for("^ok")
        result = self.delivered(run)
        kinds = tap.wait_until(lambda: [kind for kind in self.server.of_service("waiting") if "suspended" in kind],
                               "suspended time")
        closed_ns = sum(int(line.split(",")[3]) for line in log.read_text().splitlines() if ",exact," in line)
        self.assertGreater(closed_ns, 0)
        tree = self.wait_tree("waiting", kinds[0], least=closed_ns)
        self.assertGreater(tree.share(*PLACES), 0.5, tree.own)
        self.assertGreater(self.wait_tree("waiting").total, 0.5 * result.summary["target_cpu_ns"])
        self.assert_few_series("waiting")

    def recording(self, name):
        path = self.directory() / f"{name}.jfr"
        path.write_bytes(gzip.decompress((DATA / f"{name}.jfr.gz").read_bytes()))
        return path

    def young(self, name):
        """(path, types) of a conversion of a recording whose times are moved, as if it ended just now."""
        path = self.directory() / f"{name}.pb"
        self.run_command([tap.SPANPROF, "convert", self.recording(name), "-o", path], expect=0)
        request = otlp_read.load(path)
        profiles = [profile for resource in request.resource_profiles for scope in resource.scope_profiles
                    for profile in scope.profiles]
        shift = time.time_ns() - max(profile.time_unix_nano + profile.duration_nano for profile in profiles)
        for profile in profiles:
            profile.time_unix_nano += shift
            for sample in profile.samples:
                sample.timestamps_unix_nano[:] = [at + shift for at in sample.timestamps_unix_nano]
        path.write_bytes(request.SerializeToString())
        return path

    def test_each_kind_of_a_recording_arrives(self):
        """What is summed over all boxes is what the conversion says, type by type."""
        for name in ("async-profiler", "datadog", "kinds", "ways"):
            service = f"recorded-{name}"
            path, shaped = self.young(name), self.directory() / "shaped.pb"
            options = ["--backend", "pyroscope", "--resource", f"service.name={service}"]
            self.run_command([tap.SPANPROF, "convert", path, "-o", shaped, *options], expect=0)
            expected = collections.Counter()
            for sample in otlp_read.samples(shaped):
                is_cpu = (sample.type, sample.unit) == ("samples", "count")
                expected[sample.type] += sample.value * (sample.period if is_cpu else 1)
            self.run_command([tap.SPANPROF, "convert", path, "--endpoint", self.server.url, *options], expect=0)
            got = {}
            for kind, n in self.server.of_service(service).items():
                self.assertLessEqual(n, 2, kind)
                got[kind.split(":")[1].replace("cpu", "samples")] = self.wait_tree(service, kind).total
            self.assertEqual(got, dict(expected), name)

    def test_old_data_is_refused_and_counted_so(self):
        shaped, options = self.directory() / "old.pb", ["--backend", "pyroscope", "--resource", "service.name=old"]
        recording = self.recording("async-profiler")
        done = self.run_command([tap.SPANPROF, "convert", recording, "--endpoint", self.server.url, *options], 1)
        self.assertIn("they are too old for it", done.stderr)
        self.assertIn("were not delivered", done.stderr)
        self.run_command([tap.SPANPROF, "convert", recording, "-o", shaped, *options], expect=0)
        done = self.run_command([tap.HARNESS / "export-driver", f"{self.server.url}/v1development/profiles",
                                 "--file", shaped, "--batches", "2", "--too-old", "outside of ingestion window"])
        self.assertRegex(done.stdout, r'lost_total\{reason="too_old"\} [1-9]')
        self.assertEqual(self.server.of_service("old"), {})

    def through_collector(self, *options):
        """(the collector, the run's result) of the example service, with its name and names of functions."""
        between = collector.Collector(self, {}, onward={"otlp_http": {
            "endpoint": self.server.url, "sending_queue": {"enabled": False}}})
        child, _ = self.example("behind")
        run = self.run_to(between.url, "--symbols", "local", *options, pid=child.pid)
        return between, run.stop()

    def test_through_a_collector_services_have_names_where_samples_repeat_them(self):
        collector.need()
        between, result = self.through_collector("--backend", "pyroscope", "--repeat-on-samples", "service.name")
        self.assertEqual((result.summary["lost"], between.dropped()), (0, []), between.child)
        tree = self.wait_tree("behind")
        self.assertGreater(tree.share("checkout_hash_receipt"), 0.3, tree.own)
        self.assertLess(tree.nameless(), 0.02, tree.own)
        self.assert_few_series("behind")

    def test_through_a_collector_it_refuses_resources_with_numbers(self):
        """Why the options above are there: once this fails, they need not be."""
        collector.need()
        between, result = self.through_collector()
        self.assertTrue(between.dropped(), between.child)


class Parca(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = parca.Parca()
        cls.addClassCleanup(cls.server.close)

    CPU = "samples:count:cpu:nanoseconds"

    def through_collector(self, service, *options):
        collector.need()
        between = collector.Collector(self, {}, onward={"otlp_grpc": {
            "endpoint": self.server.grpc, "tls": {"insecure": True}, "sending_queue": {"enabled": False}}})
        child, _ = self.example(service)
        result = self.delivered(self.run_to(between.url, "--backend", "parca", *options, pid=child.pid))
        self.assertEqual(between.dropped(), [], between.child)
        tap.wait_until(lambda: self.CPU in self.server.types(), f"CPU time at {self.server.child}")
        path = self.directory() / "its.pb.gz"
        path.write_bytes(self.server.pprof(self.CPU, f'service_name="{service}"'))
        return result, self.leaves(path)

    def leaves(self, path):
        """{innermost frame: value} of what it gave out; frames that it has not named are named from their files."""
        own = collections.Counter()
        for line in self.run_command([tap.SPANPROF, "convert", path, "-o", "-", "--format", "folded"],
                                     expect=0).stdout.splitlines():
            stack, n = line.rsplit(" ", 1)
            own[stack.split(";")[-1]] += int(n)
        return own

    def test_through_a_collector_it_has_services_and_files(self):
        result, top = self.through_collector("files")
        self.assertIn("files", self.server.values("service_name"))
        self.assertIn("process_pid", self.server.labels(), "numbers are sent as text")
        self.assertLess(abs(sum(top.values()) / result.summary["target_cpu_ns"] - 1), 0.25, "CPU time in ns")
        # It keeps files, build ids and addresses: this machine's files name them.
        self.assertGreater(top["checkout_hash_receipt"], 0.3 * sum(top.values()), top)

    def test_names_are_those_of_the_function_before(self):
        """What docs/BACKENDS.md says of its reader: once this fails, the page and the preset can be mended."""
        _, top = self.through_collector("named", "--symbols", "local")
        self.assertGreater(sum(top.values()), 0)
        self.assertLess(top["checkout_hash_receipt"], 0.3 * sum(top.values()), top)

    def test_its_page_is_no_receiver(self):
        if not self.server.says("/", b"<html"):
            tap.skip("machine: this Parca was built without its page")
        child, _ = self.example("page")
        run = self.run_to(self.server.url, pid=child.pid, seconds=0.4)
        result = run.stop()
        self.assertEqual(result.summary["delivered"], 0)
        self.assertEqual(set(result.summary["lost_by_reason"]), {"not_otlp"}, result.summary)
        self.assertIn("no OTLP response (text/html", result.log)


tap.main()
