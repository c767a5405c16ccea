#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/python on other releases of CPython that this machine has (pyenv's), and with the loops of others."""
import importlib
import pathlib
import subprocess
import tempfile

import otel_case
import tap

python = importlib.import_module("test-otel-python")
PINNED = ("opentelemetry-sdk", "uvloop", "gevent", "setuptools>=77")


class OtherLoops(python.OtelPython):

    def test_uvloop(self):
        self.check_stretches([self.python, self.REQUESTS, 5, "uvloop", "threads"], OTEL_PYTHON_CONTEXT="spanprof",
                             PYTHONPATH=self.package)

    def test_greenlets(self):
        self.check_stretches([self.python, self.REQUESTS, 5, "gevent"], OTEL_PYTHON_CONTEXT="spanprof",
                             PYTHONPATH=self.package)


    def test_a_source_distribution_has_all_that_it_needs(self):
        folder = self.directory()
        self.copy_sdk(folder)
        self.run_command([self.python, "setup.py", "-q", "sdist"], cwd=folder / "sdk/python", expect=0, timeout=120)
        (archive,) = (folder / "sdk/python/dist").glob("*.tar.gz")
        names = self.run_command(["tar", "-tzf", archive], expect=0).stdout.split()
        made = {name.partition("/")[2] for name in names}
        self.assertLessEqual({"spanprof_otel/_record.c", "sdk/src/otel.c", "sdk/include/spanprof/thread.h"}, made)


class OtherReleases(otel_case.TestCase):
    """3.9 to 3.13, each with the SDK that PyPI has for it."""
    check_everywhere = python.OtelPython.check_everywhere
    EVERYWHERE = python.OtelPython.EVERYWHERE

    def test_each_release(self):
        found = sorted(pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python3"))
        found = [path for path in found if 9 <= int(path.parts[-3].split(".")[1]) <= 13]
        if not found:
            tap.skip("machine: no other releases of CPython (~/.pyenv/versions)")
        for path in found:
            with self.subTest(path.parts[-3]), tempfile.TemporaryDirectory() as folder:
                subprocess.run([path, "-m", "venv", folder], check=True)
                self.python = pathlib.Path(folder) / "bin/python"
                done = self.run_command([self.python, "-m", "pip", "install", "--quiet", *PINNED], timeout=600)
                if done.returncode:
                    tap.skip(f"machine: not to be had for {path.parts[-3]}: {done.stderr[-300:]}")
                self.package = self.install(self.python)
                self.check_everywhere("start", "uvloop")
                self.check_everywhere("uvloop", OTEL_PYTHON_CONTEXT="spanprof")
                self.check_everywhere("gevent", OTEL_PYTHON_CONTEXT="spanprof")
                self.check_stretches([self.python, self.REQUESTS, 4, "threads", "tasks"], PYTHONPATH=self.package,
                                     OTEL_PYTHON_CONTEXT="spanprof")


if __name__ == "__main__":
    tap.main()
