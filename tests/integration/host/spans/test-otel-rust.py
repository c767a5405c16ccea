#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/rust with OpenTelemetry's crates and tokio: its own tests, its package, and samples of a service beside
what it says of itself. What cargo has compiled is kept in the user's cache."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import oracle

oracle.enter()

import otel_case  # noqa: E402
import tap  # noqa: E402

OLDEST = (1, 85)        # cargo that reads both lock files and their packages


class TestCase(otel_case.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cargo = shutil.which("cargo")
        said = subprocess.run([cls.cargo, "--version"], capture_output=True, text=True).stdout if cls.cargo else ""
        version = re.match(r"cargo (\d+)\.(\d+)", said)
        if not version or tuple(map(int, version.groups())) < OLDEST:
            tap.skip(f"machine: no cargo {'.'.join(map(str, OLDEST))} or newer ({said.strip() or 'none'})")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.copy_sdk(cls.folder)
        cls.crate = cls.folder / "sdk/rust"
        cls.requests = cls.folder / "tests/interop/publishers/otel-rust"
        shutil.copytree(tap.SOURCE_DIR / "tests/interop/publishers/otel-rust", cls.requests)
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        cls.target = cache / "spanprof/otel-rust"
        for crate in (cls.crate, cls.requests):
            done = cls.run_cargo(cls, crate, "fetch", expect=None)
            if done.returncode:
                tap.skip(f"machine: OpenTelemetry's crates cannot be downloaded: {done.stderr[-300:]}")

    def run_cargo(self, crate, verb, *arguments, expect=0):
        return otel_case.TestCase.run_command(
            self, [self.cargo, verb, "--locked", *arguments], expect=expect, cwd=crate, timeout=580,
            env=otel_case.TestCase.environment(CARGO_TARGET_DIR=self.target))


class OtelRust(TestCase):
    def build(self, *features):
        """The service, under a name of its own."""
        self.run_cargo(self.requests, "build", "--quiet", "--offline", *features)
        return shutil.copy(self.target / "debug/otel-requests", self.directory())

    def test_its_own_tests(self):
        done = self.run_cargo(self.crate, "test", "--offline")
        self.assertNotRegex(done.stdout, r"(?m)^test .* (FAILED|ignored)$")
        texts = [path.read_text() for path in (self.crate / "tests").glob("*.rs")]
        names = set(re.findall(r"#\[test\]\s+fn (\w+)", "\n".join(texts)))
        self.assertEqual(len(texts), 2)
        passed = set(re.findall(r"(?m)^test (\S+) \.\.\. ok$", done.stdout))
        self.assertEqual(names | {"layout::tests::layout_is_that_of_the_headers"}, passed)

    def test_its_package_is_whole(self):
        """Cargo builds what it has packed, without this tree."""
        self.run_cargo(self.crate, "package", "--offline", "--allow-dirty", "--quiet")

    def test_contexts_tasks_and_a_forked_child_by_thread_contexts(self):
        samples, _ = self.check_stretches([self.build("--features", "export"), "1.2", "fork", "contexts", "tasks"])
        self.assertEqual({x.resource.get("service.name") for x in samples if x.trace_id}, {"shop"})

    def test_tasks_by_the_ring_where_no_variable_is_exported(self):
        self.check_stretches([self.build(), "2", "tasks"])

    def test_where_it_cannot_work_the_service_runs_and_one_line_says_why(self):
        program = self.build()
        off = self.run_command([program, "0.1", "contexts"], expect=0,
                               env=self.environment(SPANPROF_OTEL_DISABLED="true"))
        self.assertEqual(off.stderr, "spanprof: spans are not published: SPANPROF_OTEL_DISABLED is set\n")
        self.assertRegex(off.stdout, r"(?m)^busy [0-9a-f]{32} [0-9a-f]{16} \d+ \d+ \d+$")


if __name__ == "__main__":
    tap.main()
