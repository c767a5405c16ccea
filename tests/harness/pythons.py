# SPDX-License-Identifier: Apache-2.0
"""Interpreters of Python for tests."""
import glob
import os
import pathlib
import subprocess


def version(python):
    """(3, 11), or None if it cannot be run."""
    try:
        done = subprocess.run([python, "-Sc", "import sys; print(*sys.version_info[:2])"], capture_output=True,
                              text=True)
    except OSError:
        return None
    return tuple(map(int, done.stdout.split())) or None


def here():
    """{version: python} of SPANPROF_TEST_PYTHONS (programs, separated by colons), the system's and pyenv's."""
    given = [pathlib.Path(path) for path in os.environ.get("SPANPROF_TEST_PYTHONS", "").split(":") if path]
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    found = [*given, pathlib.Path("/usr/bin/python3"),
             *map(pathlib.Path, sorted(glob.glob(root + "/versions/3.*/bin/python3")))]
    pythons = {}
    for python in found:
        name = version(python)
        if name and name >= (3, 8):
            pythons.setdefault(name, python)
    return pythons
