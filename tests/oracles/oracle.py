# SPDX-License-Identifier: Apache-2.0
"""The OTLP reader that we did not write, for tests: opentelemetry-proto in a virtual environment of its own,
which tests/interop/setup-venv.sh makes in the build directory.

    problems = oracle.check(paths)              # lines of tests/interop/check_otlp.py, [] = valid
    oracle.enter()                              # or: run this whole script inside the environment
"""
import importlib.util
import os
import pathlib
import subprocess
import sys

import tap

INTEROP = tap.SOURCE_DIR / "tests/interop"
PYTHON = tap.BUILD_DIR / "interop-venv/bin/python"


def need():
    """The environment's Python, or a skip."""
    if not PYTHON.exists():
        tap.skip(f"library: no opentelemetry-proto; run tests/interop/setup-venv.sh {tap.BUILD_DIR}")
    return str(PYTHON)


def enter():
    """Starts the calling script again inside the environment, if there is one; else its tests skip by need()."""
    sys.path.insert(0, str(INTEROP))
    if importlib.util.find_spec("opentelemetry") is None and PYTHON.exists():
        os.execv(PYTHON, [str(PYTHON), *sys.argv])


def check(paths, ours=True):
    """Problems of files with requests, one a line. Within the environment no further Python is started for it."""
    if all(map(importlib.util.find_spec, ("opentelemetry", "check_otlp"))):
        checker = importlib.import_module("check_otlp")
        found = [
            f"{path}: {problem}" for path in paths
            for problem in checker.check(pathlib.Path(path).read_bytes(), ours)
        ]
        return found + (validate(paths) if ours else [])
    done = subprocess.run(
        [need(), INTEROP / "check_otlp.py", *(["--ours"] if ours else []), *map(str, paths)],
        capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise AssertionError(f"check_otlp.py failed:\n{done.stderr}")
    return done.stdout.splitlines() + (validate(paths) if ours else [])


def validate(paths):
    """What our own validator finds in them, errors and warnings."""
    done = subprocess.run([tap.SPANPROF, "validate", *map(str, paths)], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise AssertionError(f"validate failed:\n{done.stderr}")
    return [line for line in done.stdout.splitlines() if not line.endswith(": valid, 0 errors, 0 warnings")]
