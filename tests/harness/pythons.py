# SPDX-License-Identifier: Apache-2.0
"""Interpreters of Python for tests: those of this machine, and with --long newer ones from Debian."""
import glob
import os
import pathlib
import shutil
import subprocess
import unittest

import debian
import tap

SUITE, NEWER = "sid", ("3.14", "3.15")
LIBRARIES = ("libc6", "zlib1g", "libexpat1", "libffi8", "libbz2-1.0", "liblzma5", "libuuid1", "libssl3t64",
             "libzstd1")


def version(python):
    """(3, 11), or None if it cannot be run."""
    try:
        done = subprocess.run([python, "-Sc", "import sys; print(*sys.version_info[:2])"], capture_output=True,
                              text=True)
    except OSError:
        return None
    return tuple(map(int, done.stdout.split())) or None


def by_version(programs):
    pythons = {}
    for python in programs:
        name = version(python)
        if name and name >= (3, 8):
            pythons.setdefault(name, python)
    return pythons


def given():
    """{version: python} of SPANPROF_TEST_PYTHONS (programs, separated by colons)."""
    return by_version(pathlib.Path(path) for path in os.environ.get("SPANPROF_TEST_PYTHONS", "").split(":") if path)


def here():
    """{version: python} of these, the system's and pyenv's."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    return by_version([*given().values(), pathlib.Path("/usr/bin/python3"),
                       *map(pathlib.Path, sorted(glob.glob(root + "/versions/3.*/bin/python3")))])


def usual():
    """Those that are given, or the first of these alone; with --long all of them."""
    found = here()
    return found if tap.LONG else given() or dict(list(found.items())[:1])


def make_root(root):
    """Debian's newer releases and their headers, with the C library that they need, which is newer than this machine's."""
    tap.need_tool("patchelf")
    with debian.Suite(SUITE) as suite:
        suite.unpack([*LIBRARIES, *(name for version in NEWER for name in (
            f"python{version}-minimal", f"libpython{version}-minimal", f"libpython{version}-stdlib"))], root)
        suite.unpack([f"libpython{version}-dev" for version in NEWER], root, "./usr/include/*")


def fetched():
    """{version: python} of Debian's newer releases, kept in the cache; {} where they cannot be had."""
    root = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / "python-releases"
    libraries = root / "usr/lib/x86_64-linux-gnu"
    if not root.exists():
        new = root.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        try:
            make_root(new)
        except unittest.SkipTest as reason:
            print(f"# {reason}", flush=True)
            return {}
        for name in NEWER:
            subprocess.run(["patchelf", "--set-interpreter", libraries / "ld-linux-x86-64.so.2", "--force-rpath",
                            "--set-rpath", libraries, new / f"usr/bin/python{name}"], check=True)
        new.rename(root)
    found = [root / f"usr/bin/python{name}" for name in NEWER]
    return {version(python): python for python in found if version(python)}


def all_of_them():
    """Of this machine, and newer ones."""
    return {**fetched(), **here()}
