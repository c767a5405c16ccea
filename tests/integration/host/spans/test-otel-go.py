#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/go with OpenTelemetry's module: its own tests, by `go test`, which read the labels back from Go's
profiles; and samples of a service beside what it says of itself, busy stretch by busy stretch."""
import pathlib
import re
import shutil
import subprocess
import tempfile

import oracle

oracle.enter()

import golang  # noqa: E402
import otel_case  # noqa: E402
import tap  # noqa: E402


class OtelGo(otel_case.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.go = golang.Go()
        home = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-"))
        cls.addClassCleanup(shutil.rmtree, home, ignore_errors=True)
        cls.folder = home / "go"        # nothing is written beside the sources
        shutil.copytree(tap.SOURCE_DIR / "sdk/go", cls.folder)
        cls.modules = {**cls.go.environment, "GO111MODULE": "on", "GOFLAGS": "-mod=readonly"}
        done = subprocess.run([cls.go.program, "mod", "download"], cwd=cls.folder, env=cls.modules,
                              capture_output=True, text=True, timeout=200)
        if done.returncode:
            tap.skip(f"machine: OpenTelemetry's module cannot be downloaded: {done.stderr[-300:]}")

    def test_its_own_tests(self):
        done = self.run_command([self.go.program, "test", "-v", "-count=1", "./..."], cwd=self.folder,
                                env=self.modules, timeout=280)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotRegex(done.stdout, r"(?m)^\s*--- (FAIL|SKIP)")
        names = set(re.findall(r"^func (Test\w+)", (self.folder / "spanprof_test.go").read_text(), re.M))
        self.assertEqual(set(re.findall(r"^--- PASS: (\w+)", done.stdout, re.M)), names)

    def test_nested_spans_goroutines_and_workers_by_the_labels_of_goroutines(self):
        program = self.folder / "otel-requests"
        (self.folder / "requests").mkdir()
        shutil.copy(tap.SOURCE_DIR / "tests/interop/publishers/otel_requests.go", self.folder / "requests/main.go")
        self.run_command([self.go.program, "build", "-o", program, "./requests"], cwd=self.folder, env=self.modules,
                         timeout=280, expect=0)
        self.check_stretches([program, "2.5"], options=("--comm", "otel-requests"))

    def test_a_shop_of_net_http_has_its_routes_in_reports_pages_and_metrics(self):
        shop = self.folder.parent / "shop"
        shutil.copytree(tap.SOURCE_DIR / "tests/interop/publishers/otel-shop", shop)
        done = self.run_command([self.go.program, "mod", "download"], cwd=shop, env=self.modules, timeout=200)
        if done.returncode:
            tap.skip(f"machine: otelhttp cannot be downloaded: {done.stderr[-300:]}")
        self.run_command([self.go.program, "build", "-o", shop / "otel-shop", "."], cwd=shop, env=self.modules,
                         timeout=280, expect=0)
        self.check_service([shop / "otel-shop"], {"GET /cart/{id}": "/cart/{id}", "GET /search": "/search"})


if __name__ == "__main__":
    tap.main()
