#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example service under the daemon: what the payload says is held against what the service itself measured."""
import oracle

oracle.enter()

import collections
import json
import os

import otlp_read
import session
import shares
import spans
import tap

OPERATIONS = ("checkout", "search", "health")
SYMBOLS = otlp_read.Symbols()


class Service:
    """The example service, and its two accounts of itself."""

    def __init__(self, test, *options):
        self.directory = test.directory()
        self.child = test.spawn([session.SERVICE, "--spans", self.directory / "spans.csv",
                                 "--json", self.directory / "truth.json", *options])
        self.child.wait_for("^example-service")
        self.pid = self.child.pid

    def stop(self):
        status = self.child.stop()
        self.log = spans.load(self.directory / "spans.csv")
        self.truth = {
            o["name"]: o["cpu_ns"]
            for o in json.loads((self.directory / "truth.json").read_text())["operations"]
        }
        return status


def judge(result, log, sample):
    """The word of spans.py; a sample within the error of the two clocks of a change is not judged there."""
    time_ns, span = result.monotonic_ns(sample), int(sample.span_id, 16) if sample.span_id else None
    verdicts = [
        log.judge(sample.thread_id, time_ns + d, span)
        for d in (0, -session.CLOCK_SLACK_NS, session.CLOCK_SLACK_NS)
    ]
    return next((v for v in verdicts if v != "wrong"), "wrong")


class RunService(session.TestCase):
    def check_spans(self, result, service, known_share=0.9):
        """No sample has a span that its thread did not have, and (nearly) all that had one show it."""
        samples = result.of(service.pid)
        with_span = [s for s in samples if s.span_id]
        used = {format(span_id, "016x") for span_id in service.log.by_id}
        self.assertEqual({s.span_id for s in with_span} - used, set(), "ids that the service never used")
        verdicts = collections.Counter(judge(result, service.log, s) for s in samples)
        self.assertEqual(verdicts["wrong"], 0, verdicts)
        inside = verdicts["right"] + verdicts["missing"]
        self.assertGreater(verdicts["right"], known_share * inside, verdicts)
        return with_span

    def check_shares(self, result, service):
        """By span, and again by the functions on the stack, which know nothing of spans."""
        operation = {span.span_id: span.operation for span in service.log.by_id.values()}
        samples = result.of(service.pid)
        by_span = collections.Counter(operation[int(s.span_id, 16)] for s in samples if s.span_id)
        shares.check(self, by_span, service.truth)
        by_name = collections.Counter()
        for sample in samples:
            names = {
                SYMBOLS.name(frame).split("_")[0] for frame in sample.frames
                if "example-service" in frame.path
            }
            by_name.update(names & set(OPERATIONS))
        shares.check(self, by_name, service.truth)

    def check_resources(self, result, *services):
        """One Resource for each service in each request; other programs of this machine may publish, too."""
        found = set()
        for request in result.requests:
            resources = [{a.key: a.value.string_value or a.value.int_value for a in part.resource.attributes}
                         for part in request.resource_profiles]
            for service in services:
                mine = [attributes for attributes in resources if attributes["process.pid"] == service.pid]
                self.assertLessEqual(len(mine), 1)
                for attributes in mine:
                    found.add(service.pid)
                    self.assertEqual(attributes["process.executable.name"], "example-service")
                    self.assertEqual(attributes["process.executable.path"], str(session.SERVICE.resolve()))
                    self.assertEqual(attributes["service.name"], "unknown_service:example-service")
                    self.assertEqual(attributes["host.name"], os.uname().nodename)
        self.assertEqual(found, {service.pid for service in services})

    def run_with(self, daemon_first, *options, cpu=1.5, jitter="on"):
        if daemon_first:
            run = self.start("--frequency", 999, f"--jitter={jitter}")
            service = Service(self, "--rate", "0", *options)
        else:
            service = Service(self, "--rate", "0", *options)
            run = self.start("--frequency", 1999, f"--jitter={jitter}")
        run.wait_events(1, service.pid)
        session.wait_cpu([service.pid], cpu)
        if daemon_first:  # its life is in the profile, but for the moment before it was found
            self.assertEqual(service.stop(), 0)
            result = run.stop()
        else:
            result = run.stop()
            self.assertEqual(service.stop(), 0)
        return result, service

    def test_operations_have_the_shares_that_the_service_measured(self):
        for jitter in ("on", "off"):
            with self.subTest(jitter=jitter):
                result, service = self.run_with(True, jitter=jitter)
                self.check_spans(result, service)
                self.check_shares(result, service)
                self.check_resources(result, service)

    def test_a_service_that_runs_already_is_found_at_the_start(self):
        result, service = self.run_with(False, cpu=0.4)
        self.assertRegex(result.log, r"profiling [1-9]\d* process")
        with_span = self.check_spans(result, service)
        self.assertGreater(len(with_span), 300)
        self.assertTrue(all(int(s.trace_id[:16], 16) and int(s.trace_id[16:], 16) for s in with_span))
        self.assertGreater(len({s.trace_id for s in with_span}), 1)
        self.assertEqual({s.attributes.get("datadog.local_root_span_id") for s in with_span}, {None})

    def test_one_span_has_one_trace(self):
        result, service = self.run_with(False, cpu=0.3)
        traces = collections.defaultdict(set)
        for sample in result.of(service.pid):
            if sample.span_id:
                traces[sample.span_id].add(sample.trace_id)
        self.assertEqual({len(x) for x in traces.values()}, {1})

    def test_a_late_publisher_is_found_without_restart(self):
        run = self.start("--frequency", "499")
        service = Service(self, "--rate", "0", "--publish-after", "3")
        run.wait_events(300, service.pid)
        self.assertEqual(service.stop(), 0)
        result = run.stop()
        self.check_spans(result, service)
        first = min(span.start_before for span in service.log.by_id.values())
        self.assertGreaterEqual(min(result.monotonic_ns(s) for s in result.of(service.pid)), first - 10**9,
                                "nothing was sampled while it published nothing")

    def test_a_chosen_service_that_publishes_late_gets_its_spans(self):
        service = Service(self, "--rate", "0", "--publish-after", "2")
        run = self.start("--pid", service.pid, "--frequency", "499")
        tap.wait_until(lambda: self.has_spans(run, service), "samples with a span")
        result = run.stop()
        self.assertEqual(service.stop(), 0)
        self.check_spans(result, service, known_share=0)
        self.assertTrue([s for s in result.samples if not s.span_id],
                        "it was sampled before it published, too")

    @staticmethod
    def has_spans(run, service):
        return sum(bool(s.span_id) for s in otlp_read.samples(*run.receiver.paths())) > 100

    def test_64_bit_traces_are_told_by_an_attribute(self):
        result, service = self.run_with(False, "--no-trace-high", cpu=0.3)
        with_span = self.check_spans(result, service)
        self.assertGreater(len(with_span), 100)
        for sample in with_span:
            self.assertEqual(sample.trace_id[:16], "0" * 16)
            self.assertEqual(sample.attributes["datadog.local_root_span_id"], sample.trace_id[16:])

    def test_two_services_have_a_resource_each(self):
        run = self.start("--frequency", "499")
        services = [Service(self, "--load", "0.4") for _ in range(2)]
        for service in services:
            run.wait_events(100, service.pid)
        for service in services:
            self.assertEqual(service.stop(), 0)
        result = run.stop()
        self.check_resources(result, *services)
        for service in services:
            self.check_spans(result, service)
            self.assertEqual({s.resource["process.executable.name"] for s in result.of(service.pid)},
                             {"example-service"})

    def test_many_threads_share_the_cpus(self):
        result, service = self.run_with(True, "--workers", "40")
        self.check_spans(result, service)
        self.check_shares(result, service)
        self.assertGreater(len({s.thread_id for s in result.of(service.pid) if s.span_id}), 20)


tap.main()
