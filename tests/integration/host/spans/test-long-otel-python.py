#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/python on other releases of CPython (pyenv's of this machine, and Debian's newer ones), and with the loops
of others."""
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import otel_case
import python_builds
import pythons
import tap

python = importlib.import_module("test-otel-python")
SDKS = ("==1.25.0", "==1.30.0", "==1.36.0", "")      # "" is the newest
PINNED = ("opentelemetry-sdk", "uvloop", "gevent", "setuptools>=77")
MILLION, SECONDS = 1_000_000, 10        # samples that are judged; CPU of each victim, in each turn
OTHERS_WATCH = """import contextlib, ctypes
watch = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.py_object)(lambda *_: 0)
with contextlib.suppress(RuntimeError):
    for _ in range(100): ctypes.pythonapi.PyContext_AddWatcher(watch)
"""


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

    def test_the_newest_setuptools_finds_nothing_deprecated(self):
        folder = self.directory()
        self.copy_sdk(folder)
        subprocess.run([self.python, "-m", "venv", folder / "venv"], check=True)
        python = folder / "venv/bin/python"
        done = self.run_command([python, "-m", "pip", "install", "--quiet", "--upgrade", "setuptools", "wheel"],
                                timeout=600)
        if done.returncode:
            tap.skip(f"machine: no setuptools from PyPI: {done.stderr[-300:]}")
        done = self.run_command([python, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation", "--no-index",
                                 "--wheel-dir", folder, folder / "sdk/python"], expect=0, timeout=300)
        self.assertIn("running bdist_wheel", done.stdout + done.stderr)
        self.assertNotIn("deprecated", (done.stdout + done.stderr).lower())
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
            self.assertIn("License: Apache-2.0", archive.read(name).decode())


class OtherReleases(otel_case.TestCase):
    """3.9 to 3.15, each with the SDK that PyPI has for it."""
    check_everywhere = python.OtelPython.check_everywhere
    EVERYWHERE = python.OtelPython.EVERYWHERE
    look = python.OtelPython.look

    def pip(self, path, *arguments):
        done = self.run_command([path, "-m", "pip", "install", "--quiet", *arguments], timeout=600)
        if done.returncode:
            tap.skip(f"machine: not to be had by {path}: {done.stderr[-300:]}")

    def make(self, path, folder, *options):
        """The SDK and the package for an interpreter."""
        subprocess.run([path, "-m", "venv", *options, folder], check=True)
        self.python = folder / "bin/python"
        if options:
            (packages,) = folder.glob("lib/python3.*/site-packages")
            self.pip(sys.executable, "--target", packages, "pip")
        self.pip(self.python, *PINNED)
        self.package = self.install(self.python, CPATH=path.parents[1] / "include")

    def check_release(self, *modes):
        self.check_everywhere("start", "uvloop")
        self.check_everywhere("uvloop", OTEL_PYTHON_CONTEXT="spanprof")
        self.check_everywhere("gevent", OTEL_PYTHON_CONTEXT="spanprof")
        self.check_stretches([self.python, self.REQUESTS, 4, "threads", "tasks", *modes], PYTHONPATH=self.package,
                             OTEL_PYTHON_CONTEXT="spanprof")
        options = ("--exe", os.path.realpath(self.python))
        for arguments in ((4, "threads", "tasks", *modes), (2, "workers"), (3, "gevent")):
            self.check_stretches([self.python, self.REQUESTS, *arguments], options)

    def test_each_release(self):
        found = sorted(pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python3"))
        found = [path for path in found if 9 <= int(path.parts[-3].split(".")[1]) <= 13]
        if not found:
            tap.skip("machine: no other releases of CPython (~/.pyenv/versions)")
        for path in found:
            with self.subTest(path.parts[-3]), tempfile.TemporaryDirectory() as folder:
                self.make(path, pathlib.Path(folder))
                self.check_release()

    def check_newer(self, release):
        """A release that has watchers of contexts."""
        path = pythons.all_of_them().get(release)
        if path is None:
            tap.skip(f"machine: no CPython {release}")
        with tempfile.TemporaryDirectory() as folder:
            self.make(path, pathlib.Path(folder), "--without-pip")      # Debian's has none
            self.check_release("uvloop")
            self.check_stretches([self.python, self.REQUESTS, 2, "workers"], PYTHONPATH=self.package,
                                 OTEL_PYTHON_CONTEXT="spanprof")
            self.check_stretches([self.python, self.REQUESTS, 3, "gevent"], PYTHONPATH=self.package,
                                 OTEL_PYTHON_CONTEXT="spanprof")
            out, err = self.look(OTHERS_WATCH + python.OtelPython.SPAN)
            self.assertEqual((out, err.count("\n")), ("True ", 1), err)
            self.assertIn("spans are not published: RuntimeError: no more context watcher", err)

    def test_python_3_14(self):
        self.check_newer((3, 14))

    def test_python_3_15(self):
        self.check_newer((3, 15))


class Plain(otel_case.PythonCase):
    """No publisher: spans out of the SDK's own context, with many samples."""

    def packages(self):
        says = "import sysconfig; print(sysconfig.get_path('purelib'))"
        return self.run_command([self.python, "-c", says], expect=0).stdout.strip()

    def check_build(self, kind, release):
        """The SDK is pure Python: that of another interpreter does."""
        python = python_builds.python(kind, release)
        environment, where = self.environment(PYTHONPATH=self.packages()), self.directory()
        for modes in (["threads", "tasks"], ["workers"]):
            run = self.start("--frequency", "499", "--exe", os.path.realpath(python))
            child = self.spawn([python, self.REQUESTS, 2, *modes], env=environment, cwd=where)
            self.judge_stretches(run, [child], 600)

    def test_free_threaded_3_13(self):
        self.check_build("free-threaded", "3.13")

    def test_free_threaded_3_14(self):
        self.check_build("free-threaded", "3.14")

    def test_musl(self):
        self.check_build("musl", "3.13")

    def test_releases_of_the_sdk(self):
        for release in SDKS:
            with self.subTest(release):
                folder = self.directory()
                done = self.run_command([self.python, "-m", "pip", "install", "--quiet", "--target", folder,
                                         f"opentelemetry-sdk{release}"], timeout=600)
                if done.returncode:
                    tap.skip(f"machine: no opentelemetry-sdk{release} from PyPI: {done.stderr[-300:]}")
                options = ("--exe", os.path.realpath(self.python))
                self.check_stretches([self.python, self.REQUESTS, 2, "threads", "tasks"], options,
                                     PYTHONPATH=folder)

    def test_none_of_a_million_samples_has_another_span(self):
        """The daemon comes before its victims, so that it keeps up on a busy machine."""
        modes = (["threads", "tasks"], ["tasks"], ["threads", "threads", "threads"], ["gevent"], ["uvloop"])
        n = 0
        while n < MILLION:
            children = [self.spawn([self.python, self.REQUESTS, SECONDS, *mode], env=self.environment(),
                                   cwd=self.directory()) for mode in modes]
            pids = ",".join(str(child.pid) for child in children)
            run = self.start("--frequency", 9999, "--pid", pids, "--depth", 1, "--kernel-stacks=off",
                             prefix=("nice", "-n", "-10"))
            _, counts = self.judge_stretches(run, children, 1200)
            n += counts["right"] + counts["outside"]
            print(f"# 0 of {n}", flush=True)


if __name__ == "__main__":
    tap.main()
