#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time of spans by switches (--off-cpu, /metrics), against a program that has its own clocks
(tests/victims/spans/victim-operations.c), and exemplars of OpenMetrics."""
import oracle

oracle.enter()

import collections
import http.client
import importlib
import json
import pathlib
import re
import shutil
import subprocess
import urllib.request

import collector
import jdks
import prometheus
import session
import tap

SHARE, SLACK_S = 0.01, 0.005
FREQUENCY = 997
TRACE = f"{7:016x}{8:016x}"
OPEN = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"
ROW = "spanprof_span_cpu_seconds_total"
BYTES = "spanprof_span_allocated_bytes_total"


class Truth:
    """{operation: seconds}, {span: operation}, seconds of all threads."""

    def __init__(self, path):
        self.cpu, self.operations, self.tids = {}, {}, set()
        for line in path.read_text().splitlines():
            kind, *words = line.split()
            if kind == "all":
                self.all = int(words[0]) / 1e9
            else:
                self.tids.add(int(words[0]))
                self.operations[int(words[1])] = words[2]
                self.cpu[words[2]] = int(words[3]) / 1e9


class Operations(session.TestCase):
    def begin(self, form, *options):
        log = self.directory() / "log"
        victim, tell = self.commanded("operations", log, form)
        run = self.run_with_page(victim.pid, *options)
        run.child.wait_for("sampling|profiles go to")
        return run, tell, victim, lambda: Truth(log)

    def run_with_page(self, pid, *options):
        run = self.start("--pid", pid, "--frequency", FREQUENCY, "--export-interval", "1s", "--metrics",
                         "127.0.0.1:0", *options)
        self.port = int(run.child.wait_for(r"metrics are at http://127\.0\.0\.1:(\d+)/metrics")[1])
        return run

    def page(self, accept=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=tap.PATIENCE)
        connection.request("GET", "/metrics", headers={"Accept": accept} if accept else {})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return text, answer.headers["Content-Type"]

    def families(self):
        return prometheus.parse(self.page()[0])

    def settled(self, row=ROW):
        """Pages until two windows bring no more time: what waits for its operation has come out."""
        def look():
            families = self.families()
            rows = families[row].samples if row in families else {}
            windows = prometheus.value(families, "spanprof_windows_total")
            if rows != self.last[0]:
                self.last = rows, windows
            return families if rows and windows >= self.last[1] + 3 else None

        self.last = None, 0
        return tap.wait_until(look, "rows of spans", 120)

    def rows(self, families, row=ROW):
        rows = collections.Counter()
        for labels, value in families[row].samples.items():
            labels = dict(labels)
            self.assertEqual(labels["service"], "shop")
            rows[labels["operation"]] += value
        return rows

    def sum_of(self, families, name):
        return sum(families[name].samples.values()) if name in families else 0

    def judge_books(self, families, victim, truth):
        """All time of all threads is somewhere: in a span, outside, or not split yet."""
        told = sum(self.sum_of(families, f"spanprof_{name}") for name in
                   ("span_cpu_seconds_total", "outside_span_cpu_seconds_total", "split_span_cpu_seconds"))
        books = sum(int((task / "schedstat").read_text().split()[0]) for task in
                    pathlib.Path(f"/proc/{victim.pid}/task").iterdir()) / 1e9
        # what ticks have moved may not have been paid back yet
        lent = prometheus.value(families, "spanprof_span_cpu_moved_ticks_total") / FREQUENCY
        self.assertAlmostEqual(told, self.sum_of(families, "spanprof_thread_cpu_seconds_total"), delta=lent + SLACK_S)
        self.assertLessEqual(told, books + lent + SLACK_S)
        # the first run of a thread that is older than the daemon is not told
        self.assertGreaterEqual(told, truth.all * (1 - SHARE) - SLACK_S)

    def test_adds_up_by_operation(self):
        run, tell, victim, read = self.begin("thread", "--off-cpu", "--span-operation", "http.route")
        # where `requests` is preempted in its span, its runs are split, too, and by ticks among all of those
        tell("go steps changes")
        self.settled()
        for _ in range(10):     # on a busy machine all runs of `requests` may end within its span
            tell("go requests")
            families = self.settled()
            moved = prometheus.value(families, "spanprof_span_cpu_moved_ticks_total")
            if moved:
                break
        truth = read()
        rows = self.rows(families)
        # what changes as the thread has no CPU is exact
        for operation in ("/checkout", "/search"):
            self.assertAlmostEqual(rows[operation], truth.cpu[operation],
                                   delta=SHARE * truth.cpu[operation] + SLACK_S, msg=(rows, truth.cpu))
        # each of these has ticks in runs of others: shares of it are estimates, the sum of two is not
        both = truth.cpu["/first"] + truth.cpu["/second"]
        self.assertAlmostEqual(rows["/first"] + rows["/second"], both, delta=SHARE * both + 2 * SLACK_S,
                               msg=(rows, truth.cpu))
        self.assertGreater(moved, 0)
        self.assertGreater(rows["/short"], 0)
        self.assertLessEqual(set(rows), {*truth.cpu, ""})
        self.assertLessEqual(rows[""], SHARE * sum(truth.cpu.values()) + SLACK_S, rows)
        self.judge_books(families, victim, truth)
        self.assertEqual(prometheus.lint(families), [])
        self.judge_exemplars(truth)
        run.stop()

    def judge_exemplars(self, truth):
        text, kind = self.page(OPEN)
        self.assertTrue(kind.startswith("application/openmetrics-text"), kind)
        self.assertTrue(text.endswith("\n# EOF\n"))
        self.assertIn(f"# TYPE {ROW.removesuffix('_total')} counter\n", text)
        reader = importlib.import_module("prometheus_client.openmetrics.parser")
        read = [sample for family in reader.text_string_to_metric_families(text) for sample in family.samples]
        self.assertGreaterEqual(sum(sample.exemplar is not None for sample in read), len(truth.cpu))
        found = set()
        for operation, exemplar in re.findall(rf'^{ROW}{{service="shop",operation="([^"]*)"}} \S+(.*)$', text, re.M):
            match = re.fullmatch(r' # \{trace_id="(\w+)",span_id="(\w+)"\} (\S+) (\S+)', exemplar)
            self.assertTrue(match, exemplar)
            self.assertEqual(match[1], TRACE)
            self.assertIn(truth.operations[int(match[2], 16)], (operation, *([] if operation else truth.cpu)))
            self.assertGreater(float(match[3]), 0)
            found.add(operation)
        self.assertLessEqual(set(truth.cpu), found)
        for accept in (None, "text/plain", "application/openmetrics-text;q=0.1,text/plain", "application/openmetrics-text;q=0"):
            text, kind = self.page(accept)
            self.assertTrue(kind.startswith("text/plain; version=0.0.4"), (accept, kind))
            self.assertNotIn("trace_id=", text)

    def test_samples_tell_it_without_off_cpu(self):
        """No option names a key, either. A period that is drawn is for a second, and all work is in one or two."""
        run, tell, victim, read = self.begin("thread", "--jitter=off")
        tell("go")
        families = self.settled()
        truth = read()
        rows = self.rows(families)
        self.assertLessEqual(set(rows), {*truth.cpu, ""})
        for operation, seconds in truth.cpu.items():
            # n ticks are off by sqrt(n), as counts are; a fourth sigma comes once in 16,000 tests
            error = 4 * (seconds * FREQUENCY) ** 0.5 / FREQUENCY
            self.assertAlmostEqual(rows[operation], seconds, delta=error + SHARE * seconds + SLACK_S,
                                   msg=(operation, rows, truth.cpu))
        self.assertEqual(self.sum_of(families, "spanprof_split_span_cpu_seconds"), 0)
        run.stop()

    def java(self, java, milliseconds):
        classes = jdks.classes(tap.SOURCE_DIR / "tests/victims/java/VictimAllocates.java")
        library = shutil.copy(tap.BUILD_DIR / "tests/victims/libvictim-allocates.so", self.directory())
        victim = self.spawn([java, "-Xmx128m", "-XX:TieredStopAtLevel=1", f"-Dvictim.library={library}", "-cp",
                             classes, "VictimAllocates", milliseconds], stdin=subprocess.PIPE,
                            env=session.clean_environment())
        victim.wait_for("ready")
        return victim

    def play(self, victim):
        """One more round. Return: {operation: bytes} of it, "" outside of spans, and bytes in all."""
        *sums, told = map(int, self.tell(victim, "go").split()[1:])
        return dict(zip(("/large", "/small", "", "/still"), sums)), told

    def bytes_of(self, families):
        rows = self.rows(families, BYTES)
        rows["outside"] = self.sum_of(families, "spanprof_outside_span_allocated_bytes_total")
        rows["split"] = self.sum_of(families, "spanprof_split_span_allocated_bytes_total")
        return rows

    def judge_bytes(self, java):
        victim = self.java(java, 200)
        run = self.run_with_page(victim.pid, "--allocated-bytes")
        # stacks of Java are walked once its memory was read: rounds go by until each span has its bytes
        for _ in range(30):
            self.play(victim)
            families = self.families()
            if BYTES in families and {"/large", "/small"} <= set(self.rows(families, BYTES)):
                break
        before = self.bytes_of(self.settled(BYTES))
        truth, told = self.play(victim)
        families = self.settled(BYTES)
        mine = self.bytes_of(families)
        mine.subtract(before)
        message = f"{java}: {mine}, {truth}, {told}"
        for operation in ("/large", "/small"):
            self.assertAlmostEqual(mine[operation], truth[operation], delta=SHARE * truth[operation],
                                   msg=message)
        self.assertAlmostEqual(mine["outside"], truth[""], delta=SHARE * truth[""], msg=message)
        self.assertLess(mine["/still"], SHARE * truth[""], message)
        self.assertLess(mine["split"], SHARE * told, message)
        spans = sum(mine[name] for name in ("/large", "/small", "/still", "", "outside"))
        self.assertAlmostEqual(spans, told, delta=told / 1000, msg=message)
        self.assertEqual(prometheus.value(families, "spanprof_span_bytes_falls_total"), 0)
        run.stop()

    def test_bytes_of_java_by_operation(self):
        for java in jdks.usual().values():
            self.judge_bytes(java)

    def test_bytes_of_java_of_each_release(self):
        """JDK 8, 26 and 27 have a root of their own, which sees /tmp."""
        javas = {**jdks.eight(), **jdks.newest(), **jdks.fetched()}
        for release, java in javas.items():
            with self.subTest(release=release):
                print(f"# JDK {release}", flush=True)
                self.judge_bytes(java)

    def record(self, form):
        """Ends when all have worked. Return: where shop.otlp is, the recorder, what the victim knows."""
        directory = self.directory()
        victim, tell = self.commanded("operations", directory / "log", form)
        recording = self.record_until(lambda: tell("go"), "--pid", victim.pid, "--frequency", FREQUENCY, "-o",
                                      directory / "shop.otlp")
        return directory, recording, Truth(directory / "log")

    def test_reports_and_tables_need_no_list_of_spans(self):
        directory, recording, truth = self.record("thread")
        self.assertRegex(recording.out + recording.err,
                         r"share +operation +of\n(?:.*\n)* +[\d.]+ % +/checkout +\S+\n")
        report = json.loads(self.spanprof("report", "--json", directory / "shop.otlp").stdout)["profiles"][0]
        rows = {row["operation"]: row["value"] for row in report["operations"]}
        self.assertLessEqual({name for name in truth.cpu if name != "/short"}, set(rows))
        self.assertLessEqual(set(rows), {*truth.cpu, "(no span)", "(span without a name)"})
        self.assertEqual(sum(rows.values()), report["value"])
        text = self.spanprof("report", directory / "shop.otlp").stdout
        self.assertIn("Functions of /checkout", text)
        self.assertNotIn("Functions of (no span)", text)

    def test_a_pyroscope_gets_operations_as_attributes_of_samples(self):
        """Its receiver makes a label of each text attribute of a sample
        (convertSampleAttributesToLabelsBack in its pkg/ingester/otlp), so there must be that one alone, or
        each thread is a series."""
        run, tell, victim, read = self.begin("thread", "--backend", "pyroscope", "--attributes", "lean,http.route",
                                            "--jitter=off")
        tell("go")
        families = self.settled()
        truth, rows = read(), self.rows(families)
        result = run.stop()
        sets = {tuple(sample.attributes.items()) for sample in result.samples}
        self.assertLessEqual(sets - {()}, {(("http.route", name),) for name in truth.cpu})
        seconds = collections.Counter()
        for sample in result.samples:
            seconds[sample.attributes.get("http.route", "")] += sample.value * sample.period / 1e9
        for operation in truth.cpu:
            error = 4 * (truth.cpu[operation] * FREQUENCY) ** 0.5 / FREQUENCY
            self.assertAlmostEqual(seconds[operation], truth.cpu[operation],
                                   delta=error + SHARE * truth.cpu[operation] + SLACK_S, msg=(seconds, rows))

    def test_traces_of_a_collector_name_spans_of_a_ring(self):
        """… in each form that its file exporter has. Spans of a request come one after the other, the server's last."""
        collector.need()
        directory, _, truth = self.record("ring")
        files = {"a.json": {}, "b.pb": {"format": "proto"}, "c.zst": {"compression": "zstd"},
                 "d.zst": {"format": "proto", "compression": "zstd"}}
        running = collector.Collector(self, files, signal="traces")
        for span, operation in truth.operations.items():
            self.send_trace(running.url, span, operation)
        for path in running.end().values():
            report = json.loads(self.spanprof("report", "--json", "--spans", path, directory / "shop.otlp").stdout)
            rows = {row["operation"]: row["value"] for row in report["profiles"][0]["operations"]}
            names = {"GET " + name for name in truth.cpu}
            self.assertLessEqual(names - {"GET /short"}, set(rows), path)
            self.assertLessEqual(set(rows), names | {"(no span)"}, path)

    def send_trace(self, url, span, route):
        """@span has a server's span above it, with another id, and is named by that."""
        def one(identity, parent, name, kind, attributes=()):
            return {"traceId": TRACE, "spanId": f"{identity:016x}", "parentSpanId": f"{parent:016x}" if parent else "",
                    "name": name, "kind": kind, "startTimeUnixNano": "1", "endTimeUnixNano": "2",
                    "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes]}
        spans = [one(span, 0xf00 + span, "render", 1), one(0xf00 + span, 0xfff0, "GET", 2, [("http.route", route)])]
        for part in spans:
            body = {"resourceSpans": [{"resource": {"attributes": [
                {"key": "service.name", "value": {"stringValue": "shop"}}]}, "scopeSpans": [{"spans": [part]}]}]}
            request = urllib.request.Request(url + "/v1/traces", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=tap.PATIENCE) as answer:
                self.assertEqual(answer.status, 200)

    def test_rings_have_no_operations(self):
        """… and with links = off no span is named."""
        run, tell, victim, read = self.begin("ring", "--off-cpu", "--span-operation", "http.route", "--links", "off")
        tell("go")
        truth = read()
        families = self.settled()
        rows = self.rows(families)
        self.assertEqual(set(rows), {""})
        self.judge_books(families, victim, truth)
        exact = sum(truth.cpu[name] for name in truth.cpu if name != "/short")
        self.assertGreaterEqual(rows[""], exact * (1 - SHARE) - SLACK_S)
        text, kind = self.page(OPEN)
        self.assertTrue(kind.startswith("application/openmetrics-text"), kind)
        self.assertNotIn("trace_id=", text)
        run.stop()


if __name__ == "__main__":
    tap.main()
