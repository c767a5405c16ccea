#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that GraalVM's native-image has compiled (npm: google-closure-compiler-linux) is called by its
name, and its stacks are walked natively."""
import oracle

oracle.enter()

import os
import pathlib
import subprocess

import session
import tap

PACKAGE = "google-closure-compiler-linux@20261015.0.0"
NAME = "native-image GraalVM CE 25.0.2+10.1"


def program():
    """The compiler, kept in the cache."""
    root = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / "native-image"
    path = root / "package/compiler"
    if not path.exists():
        tap.need_tool("npm")
        root.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=root, capture_output=True, text=True)
        if done.returncode:
            tap.skip(f"library: {PACKAGE} could not be had from npm (is there a network?)")
        subprocess.run(["tar", "xf", done.stdout.strip()], cwd=root, check=True)
    return path


class NativeImage(session.TestCase):
    def test_is_said_and_walked_natively(self):
        control = self.directory() / "control.sock"
        script = self.directory() / "input.js"
        script.write_text("".join(f"function f{i}(a) {{ return a * {i} + f{i // 2}(a - 1); }}\n"
                                  for i in range(200000)))
        child = self.spawn([program(), "--js", script, "--js_output_file", "/dev/null"])
        run = self.start("--pid", child.pid, "--frequency", "499", "--control", control)
        tap.wait_until(lambda: f"{child.pid}: java: {NAME}, walked natively\n" in
                       self.spanprof("status", "--control", control).stdout, "its name in status")
        run.wait_events(100, child.pid)
        result = run.stop()
        self.assertEqual(result.counter("runtimes_total", "native"), 1)
        self.assertNotIn("jvm", {f.type for s in result.of(child.pid) for f in s.frames})


if __name__ == "__main__":
    tap.main()
