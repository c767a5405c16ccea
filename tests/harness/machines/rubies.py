# SPDX-License-Identifier: Apache-2.0
"""Releases of Ruby, as Debian's other suites have them: unpacked, with the C library that each was built for,
and kept in the tests' cache."""
import subprocess

import debian
import tap

SUITES = {"bullseye": "2.7", "trixie": "3.3", "sid": "3.3"}
LIBRARIES = ("libc6", "libgmp10", "zlib1g", "libcrypt1")
MACHINE = "x86_64-linux-gnu"
# exec: its pid is the caller's child
START = """#!/bin/sh
RUBYLIB={0}/usr/lib/ruby/{1}.0:{0}/usr/lib/{2}/ruby/{1}.0 exec {0}/usr/bin/ruby{1} --disable-gems "$@"
"""


def make_root(suite, release, root):
    tap.need_tool("patchelf")
    with debian.Suite(suite) as packages:
        packages.unpack((f"ruby{release}", f"libruby{release}", *LIBRARIES), root)


def settle(release, root):
    """Makes the program take its libraries from its root."""
    folders = [root / folder / MACHINE for folder in ("lib", "usr/lib") if (root / folder / MACHINE).exists()]
    loader = next(path for folder in folders for path in [folder / "ld-linux-x86-64.so.2"] if path.exists())
    subprocess.run(["patchelf", "--set-interpreter", loader, "--force-rpath", "--set-rpath",
                    ":".join(map(str, folders)), root / f"usr/bin/ruby{release}"], check=True)
    (root / "ruby").write_text(START.format(root, release, MACHINE))
    (root / "ruby").chmod(0o755)


def fetched(suite):
    """A program that runs the suite's Ruby; None where it cannot be had."""
    return debian.kept(f"rubies/{suite}", "ruby", lambda root: make_root(suite, SUITES[suite], root),
                       lambda root: settle(SUITES[suite], root))
