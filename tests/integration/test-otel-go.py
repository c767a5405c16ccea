#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/go with OpenTelemetry's module: its own tests, by `go test`, which read the labels back from Go's profiles."""
import re
import shutil
import subprocess

import golang
import tap


class OtelGo(tap.TestCase):

    def test_its_own_tests(self):
        go = golang.Go()
        folder = self.directory() / "go"        # nothing is written beside the sources
        shutil.copytree(tap.SOURCE_DIR / "sdk/go", folder)
        environment = {**go.environment, "GO111MODULE": "on", "GOFLAGS": "-mod=readonly"}
        done = subprocess.run([go.program, "mod", "download"], cwd=folder, env=environment, capture_output=True,
                              text=True, timeout=200)
        if done.returncode:
            tap.skip(f"machine: OpenTelemetry's module cannot be downloaded: {done.stderr[-300:]}")
        done = self.run_command([go.program, "test", "-v", "-count=1", "./..."], cwd=folder, env=environment,
                                timeout=280)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotRegex(done.stdout, r"(?m)^\s*--- (FAIL|SKIP)")
        names = set(re.findall(r"^func (Test\w+)", (folder / "spanprof_test.go").read_text(), re.M))
        self.assertEqual(set(re.findall(r"^--- PASS: (\w+)", done.stdout, re.M)), names)


if __name__ == "__main__":
    tap.main()
