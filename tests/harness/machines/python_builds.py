# SPDX-License-Identifier: Apache-2.0
"""Interpreters of Python that no package has: free-threaded, and with musl. They are compiled from the source
of Debian's python3.13 and python3.14, and kept in the tests' cache."""
import os
import pathlib
import subprocess
import tempfile

import debian
import tap

CACHE = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / "python-builds"
SUITES = {"3.13": "trixie", "3.14": "sid"}
OPTIONS = ["--disable-test-modules", "--without-ensurepip", "OPT=-O2 -g0", "-q"]
# musl's headers lack the kernel's, and Debian's gcc says that its library is glibc
MUSL_CC = """#!/bin/sh
[ "$1" != --print-multiarch ] || { echo x86_64-linux-musl; exit; }
exec musl-gcc -idirafter "$(dirname "$0")/kernel" "$@"
"""


def source(folder, release):
    with debian.Suite(SUITES[release]) as suite:
        suite.source(f"python{release}", folder)
    archive = next(folder.glob("*.orig.tar.xz"))
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    return next(folder.glob("Python-3*"))


def musl_compiler(folder):
    tap.need_tool("musl-gcc")
    (folder / "kernel").mkdir()
    for name, path in (("linux", "linux"), ("asm-generic", "asm-generic"), ("asm", "x86_64-linux-gnu/asm")):
        (folder / "kernel" / name).symlink_to(pathlib.Path("/usr/include") / path)
    compiler = folder / "musl-cc"
    compiler.write_text(MUSL_CC)
    compiler.chmod(0o755)
    return compiler


def compile_to(root, folder, release, options, environment):
    build = folder / "build"
    build.mkdir()
    commands = [[source(folder, release) / "configure", f"--prefix={root}", *OPTIONS, *options],
                ["make", "-s", f"-j{os.cpu_count()}"], ["make", "-s", "install"]]
    for command in commands:
        done = subprocess.run(command, cwd=build, env={**os.environ, **environment}, capture_output=True,
                              text=True)
        if done.returncode:
            raise AssertionError(f"{command[0]}: {done.stderr[-2000:]}")


def python(kind, release="3.13"):
    """The interpreter of a kind, `free-threaded` or `musl`; minutes, the first time."""
    root = CACHE / (kind if release == "3.13" else f"{kind}-{release}")
    found = root / f"bin/python{release}"
    if not (root / "made").exists():
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            if kind == "musl":
                # what is installed for glibc is no library of musl's
                compile_to(root, folder, release, [f"CC={musl_compiler(folder)}"], {"PKG_CONFIG_LIBDIR": "/nonexistent"})
            else:
                compile_to(root, folder, release, ["--disable-gil"], {})
        (root / "made").write_text(release)
    return found
