#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds of Python that no package has, compiled from source: free-threaded (test-run-python.py), and with
musl (chains of victim-embed.py and victim-interpreters.py, which need no extension)."""
import importlib
import pathlib
import subprocess

import python_builds
import tap

python = importlib.import_module("test-run-python")
embedded = importlib.import_module("test-run-embedded")


class FreeThreaded(python.Python):
    RELEASE = "3.13"

    def pythons(self):
        return {tuple(map(int, self.RELEASE.split("."))): python_builds.python("free-threaded", self.RELEASE)}

    def test_it_says_so(self):
        child = self.start_python(self.python(), "deep")
        done = subprocess.run([tap.SPANPROF, "targets", "--pid", str(child.pid), "--verbose"], capture_output=True,
                              text=True)
        self.assertIn(f"python {self.RELEASE} free-threaded", done.stdout)
        child.stop(9)


class FreeThreadedWithCopies(FreeThreaded):
    """Each thread runs its own copy of a function's instructions."""
    RELEASE = "3.14"


class Musl(embedded.Embedded):

    def pythons(self):
        return {(3, 13): python_builds.python("musl")}

    # These are linked for the system's libc.
    test_a_program_with_libpython = None
    test_a_program_that_exports_nothing = None
    test_a_stripped_program_that_exports_nothing = None
    test_an_older_one_says_why_it_is_not_walked = None

    def test_the_interpreter(self):
        child = self.spawn([self.pythons()[(3, 13)], embedded.EMBEDDED.source])
        child.wait_for("ready")
        self.assertIn("musl/libc.so", pathlib.Path(f"/proc/{child.pid}/maps").read_text())
        self.check(self.sample(child, embedded.EMBEDDED), embedded.EMBEDDED)
        child.stop(9)


if __name__ == "__main__":
    tap.main()
