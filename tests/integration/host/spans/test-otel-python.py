#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/python with the SDK from PyPI (tests/interop/setup-publishers.sh): samples of a service beside what
it says of itself, busy stretch by busy stretch; and services in which the package cannot work."""

import ast
import collections
import http.client
import json
import os
import re
import subprocess
import urllib.request

import oracle

oracle.enter()

import otel_case  # noqa: E402
import prometheus  # noqa: E402
import tap  # noqa: E402


class OtelPython(otel_case.PackageCase):
    def test_threads_and_tasks_by_an_environment_variable(self):
        self.check_stretches([self.python, self.REQUESTS, 2, "threads", "tasks"], OTEL_PYTHON_CONTEXT="spanprof",
                             PYTHONPATH=self.package)

    def test_a_forked_worker_under_opentelemetry_instrument(self):
        self.check_stretches([self.python.parent / "opentelemetry-instrument", self.python, self.REQUESTS, 2,
                              "workers"], PYTHONPATH=self.package, OTEL_TRACES_EXPORTER="none",
                             OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none")

    FLASK = tap.SOURCE_DIR / "tests/interop/publishers/otel_flask.py"
    EVERYWHERE = tap.SOURCE_DIR / "tests/interop/publishers/otel_everywhere.py"

    def check_everywhere(self, *arguments, **environment):
        child = self.run_command([self.python, "-W", "ignore::DeprecationWarning", self.EVERYWHERE, *arguments], expect=0,
                                 env=self.environment(PYTHONPATH=self.package, **environment))
        self.assertRegex(child.stdout, r"^\d{2,} looks\n$")
        self.assertEqual(child.stderr, "")

    def test_the_record_is_the_current_span_wherever_contexts_change(self):
        self.check_everywhere("start", "uvloop")
        self.check_everywhere("gevent", OTEL_PYTHON_CONTEXT="spanprof")

    def look(self, code, **environment):
        """What a small program with a span prints, and its log."""
        program = self.directory() / "look.py"
        program.write_text("import logging\nlogging.basicConfig()\n" + code)
        child = self.run_command([self.python, program], expect=0, env=self.environment(
            PYTHONPATH=self.package, OTEL_PYTHON_CONTEXT="spanprof", **environment))
        return child.stdout, child.stderr

    SPAN = ("from opentelemetry import trace\n"
            "span = trace.NonRecordingSpan(trace.SpanContext(0xa1 << 120 | 2, 0xb3 << 56 | 4, False))\n"
            "with trace.use_span(span):\n"
            "    print(trace.get_current_span() is span, end=' ')\n")

    def test_ids_as_they_are_and_none_of_others(self):
        out, err = self.look(self.SPAN + "    from spanprof_otel import _record\n    print(_record.read())\n"
                             "with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(1, 2, True))):\n"
                             "    print(_record.read())\n"
                             "class Odd:\n    def get_span_context(self): return 'x'\n"
                             "from opentelemetry import context\n"
                             "context.attach(trace.set_span_in_context(Odd()))\n"
                             "print(_record.read(), _record.failures())\n")
        self.assertEqual(out, f"True ('{'a1':0<30}02', '{'b3':0<14}04')\nNone\nNone 1\n")
        self.assertEqual(err, "")

    NAMES = tap.SOURCE_DIR / "tests/interop/publishers/otel_names.py"

    def names(self, **environment):
        """{step: the attributes of the record, by the indexes of their keys}"""
        out = self.run_command([self.python, self.NAMES], expect=0, env=self.environment(
            PYTHONPATH=self.package, OTEL_PYTHON_CONTEXT="spanprof", PYTHONIOENCODING="utf-8", **environment)).stdout
        return {step: ast.literal_eval(rest) for step, rest in re.findall(r"^(\S+) (None|{.*})$", out, re.M)}, out

    def test_spans_have_the_name_of_their_entry_span_also_when_it_comes_late(self):
        found, out = self.names()
        name, route = 0, 1
        self.assertEqual(found, {
            "entry": {name: "GET"}, "inner": {name: "GET"}, "inner-renamed": {name: "GET"},
            "route": {name: "GET /cart/<id>", route: "/cart/<id>"},
            "renamed": {name: "cart", route: "/cart/<id>"}, "attributes": {name: "cart", route: "/cart"},
            "none": None, "other-thread": {name: "place an order", route: "/order"}, "unknown-parent": {},
            "unsampled": {name: "not sampled"}, "no-text": {}, "long": {name: "\u20ac" * 42}, "too-many": {},
        })
        self.assertIn("refused True failures 0", out)

    def test_names_stay_in_the_process_where_they_are_switched_off(self):
        found, out = self.names(SPANPROF_SPAN_NAMES="off")
        self.assertEqual({step for step, attributes in found.items() if attributes is None}, {"none"})
        self.assertEqual([attributes for attributes in found.values() if attributes], [])
        self.assertEqual(len(found), 13)
        self.assertIn("refused False failures 0", out)

    def flask(self):
        return dict(PYTHONPATH=self.package, OTEL_PYTHON_CONTEXT="spanprof")

    def test_a_shop_of_flask_has_its_routes_in_reports_pages_and_metrics(self):
        self.check_service([self.python, self.FLASK], {"GET /cart/<id>": "/cart/<id>", "GET /search": "/search"},
                           **self.flask())

    def test_contexts_names_the_route_that_a_service_of_flask_works_for(self):
        child = self.spawn([self.python, self.FLASK], stdin=subprocess.PIPE,
                           env=self.environment(**self.flask()))
        connection = http.client.HTTPConnection("127.0.0.1", int(child.wait_for(r"^listens (\d+)$")[1]),
                                                timeout=tap.PATIENCE)
        connection.request("GET", "/busy/17")
        child.wait_for("^busy$")

        def shown():
            # a full machine may hold the reader up: the next look will do
            return re.findall(r"^ +((?:span\.name|http\.route) = .*)$",
                              self.run_command([tap.SPANPROF, "contexts", child.pid]).stdout, re.M)

        self.assertEqual(tap.wait_until(shown, "attributes of a thread"),
                         ["span.name = GET /busy/<id>", "http.route = /busy/<id>"])
        self.check_shares(child.pid)
        child.process.stdin.close()
        self.assertEqual(child.wait(), 0)
        connection.close()

    def check_shares(self, pid):
        """Recordings, reports and top name the request whose handler takes the CPU, with no file beside them."""
        operation, output = "GET /busy/<id>", self.directory() / "shop.otlp"
        record = self.spanprof("record", "--pid", pid, "-F", 199, "-d", 2, "-o", output)
        self.assertRegex(record.stdout, rf"\n +[\d.]+ % +{operation} +\S+\n")
        profile = json.loads(self.spanprof("report", "--json", output).stdout)["profiles"][0]
        rows = {row["operation"]: row["value"] for row in profile["operations"]}
        self.assertNotIn("GET", rows)
        self.assertGreater(rows[operation], 0.9 * profile["value"], rows)
        self.assertIn(f"Functions of {operation}", self.spanprof("report", output).stdout)
        self.assertEqual(json.loads(self.spanprof("report", "--json", "--operation", "GET /busy/*", output).stdout)
                         ["profiles"][0]["value"], rows[operation])
        top = self.spanprof("top", "--pid", pid, "-F", 199, "-i", 2, "-n", 1, "--view", "operations", "--json").stdout
        self.assertEqual([row["name"] for row in json.loads(top)["operations"]], [operation])

    def test_threads_that_end_leave_nothing(self):
        """Each had a page for its record: of two thousand, eight megabytes."""
        out, err = self.look(self.SPAN + "import pathlib, threading\n"
                             "def private():\n"
                             "    lines = pathlib.Path('/proc/self/smaps_rollup').read_text().splitlines()\n"
                             "    return sum(int(line.split()[1]) for line in lines if line.startswith('Private_'))\n"
                             "def work():\n"
                             "    with trace.use_span(span): assert _record.read()\n"
                             "def live(n):\n"
                             "    for _ in range(n):\n"
                             "        thread = threading.Thread(target=work)\n"
                             "        thread.start()\n"
                             "        thread.join()\n"
                             "from spanprof_otel import _record\n"
                             "live(500)\nbefore = private()\nlive(2000)\nprint(private() - before)\n")
        self.assertEqual(err, "")
        self.assertLess(int(out.split()[-1]), 2048, out)

    def test_where_it_cannot_work_the_service_runs_and_one_line_says_why(self):
        out, err = self.look(self.SPAN, SPANPROF_OTEL_DISABLED="true")
        self.assertEqual((out, err.count("\n")), ("True ", 1), err)
        self.assertIn("SPANPROF_OTEL_DISABLED is set", err)
        out, err = self.look("import sys; sys.modules['spanprof_otel._record'] = None\n" + self.SPAN)
        self.assertEqual((out, err.count("\n")), ("True ", 1), err)
        self.assertIn("spans are not published: ", err)
        out, err = self.look("import platform; platform.python_implementation = lambda: 'PyPy'\n" + self.SPAN)
        self.assertEqual((out, err.count("\n")), ("True ", 1), err)
        self.assertIn("is not CPython 3.9 to 3.15", err)

    def test_another_tracer_of_greenlets_stops_it(self):
        out, err = self.look("import greenlet\ngreenlet.settrace(lambda *_: None)\n" + self.SPAN +
                             "    from spanprof_otel import _record\n    print(_record.read())\n"
                             "    with trace.use_span(span): print(_record.read())\n")
        self.assertEqual((out, err.count("\n")), ("True None\nNone\n", 1), err)
        self.assertIn("another tracer of greenlets", err)

    def test_the_extension_is_the_sdks_writer(self):
        """One variable of a thread, exported, of eight bytes: what readers look for."""
        (extension,) = (self.package / "spanprof_otel").glob("_record*.so")
        symbols = self.run_command([tap.need_tool("readelf"), "--dyn-syms", "--wide", extension], expect=0).stdout
        (line,) = [line.split() for line in symbols.splitlines() if "otel_thread_ctx_v1" in line]
        self.assertEqual((line[2], line[3], line[4]), ("8", "TLS", "GLOBAL"))


class Plain(otel_case.PythonCase):
    """Services with the SDK from PyPI and no line of ours: the span is read out of the SDK's own context."""

    def check(self, *arguments, **environment):
        options = ("--exe", os.path.realpath(self.python))
        return self.check_stretches([self.python, self.REQUESTS, *arguments], options, **environment)

    def test_threads_and_tasks(self):
        samples, _ = self.check(2.5, "threads", "threads", "tasks")
        names = collections.defaultdict(set)
        for sample in samples:
            if sample.trace_id:
                names[sample.trace_id].add(sample.attributes.get("span.name"))
        named = [trace for trace, found in names.items() if found & {"outer", "request"}]
        self.assertEqual({name for found in names.values() for name in found} - {None}, {"outer", "request"})
        self.assertEqual([trace for trace in named if len(names[trace] - {None}) > 1], [])
        self.assertGreater(len(named), len(names) / 2, "requests whose entry span was met")

    SLEPT = r"^slept (\S+) (\S+) (\d+) (\d+) (\d+)$"

    def test_waits_and_cpu_time_by_switches(self):
        run = self.start("--frequency", "499", "--exe", os.path.realpath(self.python), "--off-cpu",
                         "--off-cpu-walks", "100000", "--metrics", "127.0.0.1:0")
        metrics = run.child.wait_for(r"metrics are at (http://127\.0\.0\.1:\d+/metrics)")[1]
        child = self.spawn([self.python, self.REQUESTS, 3, "naps", "naps"], env=self.environment(),
                           cwd=self.directory())
        self.assertEqual(child.wait(200), 0, child)
        rows = self.settled_rows(metrics)
        result = run.stop()
        since = self.judge_waits(result, child)
        for reason in ("read", "none"):
            self.assertGreater(result.counter("sdk_spans_total", reason), otel_case.ENOUGH)
        used = [(int(begin), int(ns)) for begin, ns in re.findall(r"^used (\d+) (\d+)$", child.out, re.M)]
        print(f"# {rows}, of {sum(ns for _, ns in used) / 1e9:.2f} s")
        self.assertEqual(set(rows) - {""}, {"nap"})
        self.assertLessEqual(rows["nap"], 1.05 * sum(ns for _, ns in used) / 1e9 + 0.05)
        self.assertGreaterEqual(rows["nap"], 0.95 * sum(ns for begin, ns in used if begin > since) / 1e9)
        self.assertLess(rows.get("", 0), 0.05 * rows["nap"])

    def settled_rows(self, metrics):
        """{operation: seconds}, once two looks agree."""
        looks = []

        def look():
            families = prometheus.parse(urllib.request.urlopen(metrics).read().decode())
            windows = prometheus.value(families, "spanprof_windows_total")
            family = families.get("spanprof_span_cpu_seconds_total")
            rows = {dict(labels)["operation"]: n for labels, n in family.samples.items()} if family else {}
            looks.append((windows, rows))
            return any(before and before == rows and at + 3 <= windows for at, before in looks)

        tap.wait_until(look, "rows of spans", 60)
        return looks[-1][1]

    def judge_waits(self, result, child):
        """No wait has another span than its thread had as it slept. Returns the time from which each has one."""
        slept = collections.defaultdict(list)
        for trace, span, thread, begin, end in re.findall(self.SLEPT, child.out, re.M):
            slept[int(thread)].append((int(begin), int(end), trace, span))
        counts, wrong, first = collections.Counter(), [], None
        for wait in sorted(result.waits, key=lambda wait: wait.time_ns):
            middle = result.monotonic_ns(wait) - wait.value // 2
            row = next((row for row in slept[wait.thread_id] if row[0] < middle < row[1]), None)
            if wait.attributes["wait.reason"] != "sleep" or wait.attributes["wait.state"] != "blocked" or row is None:
                continue
            says = (wait.trace_id, wait.span_id) if wait.trace_id else ("-", "-")
            if wait.trace_id and first is None:
                first = middle + otel_case.SETTLED_NS
            if says == row[2:]:
                counts["right" if wait.trace_id else "outside", wait.attributes.get("span.name")] += 1
            elif wait.trace_id:
                wrong.append((says, row))
            elif first and middle > first:
                counts["missing"] += 1
        print(f"# {dict(counts)}, wrong {len(wrong)}")
        self.assertEqual(wrong[:3], [])
        self.assertGreater(counts["right", "nap"], otel_case.ENOUGH)
        self.assertGreater(counts["outside", None], otel_case.ENOUGH)
        self.assertEqual({name for _, name in filter(lambda key: key != "missing", counts)}, {"nap", None})
        self.assertLessEqual(counts["missing"], (1 - otel_case.SHARE) * counts["right", "nap"])
        return first

    def test_a_forked_worker(self):
        self.check(2, "workers")

    def test_greenlets_and_another_loop(self):
        self.check(2, "gevent")
        self.check(2, "uvloop", "threads")


if __name__ == "__main__":
    tap.main()
