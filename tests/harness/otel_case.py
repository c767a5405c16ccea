# SPDX-License-Identifier: Apache-2.0
"""Services that publish by sdk/python, sdk/java …: their samples beside the busy stretches that they print.

    busy TRACE SPAN THREAD BEGIN END        CLOCK_MONOTONIC, ns; `- -` outside of all spans; THREAD: id or name

A stretch is judged a little inside of its ends, and from half a second after the first span that was seen.
A victim's child says `pid N`."""
import bisect
import collections
import http.client
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile
import urllib.request

import prometheus
import session
import tap

BUSY = r"^busy (\S+) (\S+) (\S+) (\d+) (\d+)$"
MARGIN_NS = 500_000
SETTLED_NS = 500_000_000
ENOUGH = 100
SHARE = 0.98    # of the time inside of spans that samples must say so

Stretch = collections.namedtuple("Stretch", "trace span who begin end")


class TestCase(session.TestCase):
    REQUESTS = tap.SOURCE_DIR / "tests/interop/publishers/otel_requests.py"

    @staticmethod
    def publisher(name):
        """The folder of a library that setup-publishers.sh fetches, or a skip."""
        path = tap.BUILD_DIR / "publishers" / name
        if not path.is_dir():
            tap.skip(f"machine: no publisher {name}: it could not be downloaded (tests/interop/setup-publishers.sh)")
        return path

    @staticmethod
    def environment(**more):
        return session.clean_environment(PYTHONDONTWRITEBYTECODE="1", **more)

    @staticmethod
    def copy_sdk(folder):
        """sdk/ without what a build leaves there: a build of a package writes beside its sources."""
        shutil.copytree(tap.SOURCE_DIR / "sdk", folder / "sdk",
                        ignore=shutil.ignore_patterns("*.egg-info", "__pycache__", "build"))

    @classmethod
    def install(cls, python, **environment):
        """The package of sdk/python for this interpreter, from the archive that is installed, in a folder
        that goes away with the class."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-"))
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--no-build-isolation", "--no-index", "--target", folder / "package",
                        tap.BUILD_DIR / "sdk/python.tar.gz"], check=True, timeout=300, env={**os.environ, **environment})
        return folder / "package"

    def npm(self, *arguments, cwd):
        done = self.run_command([tap.need_tool("npm"), *arguments, "--no-audit", "--no-fund"], cwd=cwd, timeout=600)
        if done.returncode:
            tap.skip(f"machine: npm {arguments[0]}: {done.stderr[-300:]}")
        return done.stdout

    def node_release(self, major):
        """The program of another release of Node, as npm has it."""
        folder = self.directory()
        name = f"node-linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}"
        packed = self.npm("pack", "--silent", f"{name}@{major}", cwd=folder).split()[-1]
        self.run_command(["tar", "-xzf", packed, "package/bin/node"], cwd=folder, expect=0, timeout=120)
        return folder / "package/bin/node"

    def check_stretches(self, argv, options=(), **environment):
        """Runs a victim to its end under the daemon. No sample may be linked to another span than its thread
        worked for. @options: which choose a victim; without, it is found since it publishes. Returns its
        samples, and how many were right, missing, outside of spans."""
        run = self.start("--frequency", "999", *options)
        child = self.spawn(argv, env=self.environment(**environment), cwd=self.directory())
        return self.judge_stretches(run, [child])

    def judge_stretches(self, run, children, patience=200):
        """The same of victims that run, once they have ended."""
        stretches, pids = collections.defaultdict(list), set()
        for child in children:
            self.assertEqual(child.wait(patience), 0, child)
            self.assertNotIn("spans are not published", child.err)
            for trace, span, who, begin, end in re.findall(BUSY, child.out, re.M):
                stretches[who].append(Stretch(trace, span, who, int(begin), int(end)))
            pids |= {child.pid, *map(int, re.findall(r"^pid (\d+)$", child.out, re.M))}
        result = run.stop()
        for rows in stretches.values():
            rows.sort(key=lambda x: x.begin)
        # their own: other programs of this machine may publish, too
        samples = [x for x in result.samples if x.resource["process.pid"] in pids]
        return samples, self.judge(result, samples, stretches)

    def serve(self, argv, **environment):
        """A service of a web framework, and its customer, who asks for two paths in turns: (child, ask, end),
        ask(TIMES), end() → {ROUTE: CPU time, µs}. It prints `listens PORT`, and `used ROUTE MICROSECONDS` when
        its input ends."""
        child = self.spawn(argv, stdin=subprocess.PIPE, env=self.environment(**environment),
                           cwd=self.directory())
        port = int(child.wait_for(r"^listens (\d+)$", 60)[1])

        def ask(times):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=tap.PATIENCE)
            for _ in range(times):
                for path, body in (("/cart/17", b"17"), ("/search", b"none")):
                    connection.request("GET", path)
                    self.assertEqual(connection.getresponse().read(), body)
            connection.close()

        def end():
            child.process.stdin.close()
            self.assertEqual(child.wait(), 0, child)
            self.assertNotIn("spans are not published", child.err)
            return {route: int(n) for route, n in re.findall(r"^used (\S+) (\d+)$", child.out, re.M)}

        return child, ask, end

    def check_service(self, argv, operations, requests=60, **environment):
        """Reports, a page and /metrics have each route's share of the CPU of a service (serve()) by its name,
        with no file beside them. @operations: {the name of its span: ROUTE}."""
        child, ask, end = self.serve(argv, **environment)
        run = self.start("--frequency", "499", "--pid", child.pid, "--export-interval", "1s",
                         "--metrics", "127.0.0.1:0")
        metrics = run.child.wait_for(r"metrics are at (http://127\.0\.0\.1:\d+/metrics)")[1]
        ask(requests)

        def in_metrics():
            families = prometheus.parse(urllib.request.urlopen(metrics).read().decode())
            rows = families.get("spanprof_span_cpu_seconds_total")
            return {dict(labels)["operation"]: value for labels, value in rows.samples.items()} if rows else {}

        tap.wait_until(lambda: set(operations) <= set(in_metrics()), "rows of /metrics", 60)
        rows, used = in_metrics(), end()
        self.check_operations(rows, operations, used)
        result = run.stop()
        page = self.directory() / "page.html"
        self.spanprof("report", run.receiver.directory, "-o", page)
        for source in (run.receiver.directory, page):
            rows = json.loads(self.spanprof("report", "--json", source).stdout)["profiles"][0]["operations"]
            self.check_operations({row["operation"]: row["value"] for row in rows}, operations, used)
        return result

    def check_operations(self, rows, operations, used):
        """By name, as the service itself counts. A method alone names nothing."""
        rows = {name: value for name, value in rows.items() if name and name != "(no span)"}
        whole, known = sum(rows.values()), sum(used.values())
        for name, route in operations.items():
            self.assertAlmostEqual(rows.get(name, 0) / whole, used[route] / known, delta=0.08,
                                   msg=(rows, used))
        others = {name: value for name, value in rows.items() if name not in operations}
        # a window may end before a request has its route
        self.assertLess(others.get("GET", 0), 0.03 * whole, rows)
        self.assertLess(sum(others.values()), 0.1 * whole, rows)

    def judge(self, result, samples, stretches):
        first = {}      # of each process, since a child is found by itself
        for sample in samples:
            if sample.trace_id:
                pid, when = sample.resource["process.pid"], result.monotonic_ns(sample)
                first[pid] = min(first.get(pid, when), when)
        self.assertTrue(first, result.log)
        earliest = min(first.values())
        counts, wrong = collections.Counter(), []
        for sample in samples:
            when = result.monotonic_ns(sample)
            rows = stretches.get(str(sample.thread_id)) or stretches.get(sample.attributes.get("thread.name"), [])
            at = bisect.bisect_right(rows, when, key=lambda x: x.begin) - 1
            if at < 0 or not rows[at].begin + MARGIN_NS < when < rows[at].end - MARGIN_NS:
                continue
            row = rows[at]
            says = (sample.trace_id, sample.span_id) if sample.trace_id else ("-", "-")
            if says == (row.trace, row.span):
                counts["right" if sample.trace_id else "outside"] += sample.value
            elif sample.trace_id:
                wrong.append((says, row, when - row.begin))
            elif when > first.get(sample.resource["process.pid"], earliest) + SETTLED_NS:
                counts["missing"] += sample.value
        n = counts["right"] + counts["outside"] + len(wrong)
        share = counts["right"] / max(1, counts["right"] + counts["missing"])
        print(f"# wrong span {len(wrong)} of {n} (95 %: below {3 / max(1, n):.2%}); {share:.2%} of the time inside of spans "
              f"has one, {counts['outside']} samples outside have none")
        self.assertEqual(wrong[:3], [])
        self.assertGreater(counts["right"], ENOUGH)
        self.assertGreaterEqual(share, SHARE, counts)
        return counts


class PythonCase(TestCase):
    """Services with OpenTelemetry's SDK for Python."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.python = cls.publisher("otel-python") / "venv/bin/python"


class PackageCase(PythonCase):
    """The same with the publisher's package."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.package = cls.install(cls.python)
