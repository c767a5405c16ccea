# SPDX-License-Identifier: Apache-2.0
"""Releases of PHP, as Debian's other suites have them: unpacked, with the C library that each was built for,
and kept in the tests' cache."""
import subprocess

import debian
import tap

SUITES = {"trixie": "8.4"}
PARTS = ("cli", "common", "opcache")
MACHINE = "x86_64-linux-gnu"
# exec: its pid is the caller's child
START = """#!/bin/sh
exec {program} -d extension_dir={extensions} "$@"
"""


def make_root(suite, release, root):
    tap.need_tool("patchelf")
    with debian.Suite(suite) as packages:
        program, c_library = f"php{release}-cli", "libc6"
        libraries = {name for name in packages.depends(program) if name.startswith(("lib", "zlib"))}
        libraries |= {name for library in libraries for name in packages.depends(library)
                      if name.startswith(("lib", "zlib"))}
        packages.unpack([*(f"php{release}-{part}" for part in PARTS), *sorted(libraries | {c_library})], root)


def settle(release, root):
    """Makes the program take its libraries from its root."""
    program, folder = root / f"usr/bin/php{release}", root / "usr/lib" / MACHINE
    subprocess.run(["patchelf", "--set-interpreter", folder / "ld-linux-x86-64.so.2", "--force-rpath", "--set-rpath",
                    folder, program], check=True)
    extensions = next((root / "usr/lib/php").glob("*/opcache.so")).parent
    (root / "php").write_text(START.format(program=program, extensions=extensions))
    (root / "php").chmod(0o755)


def fetched(suite):
    """A program that runs the suite's PHP; None where it cannot be had."""
    return debian.kept(f"phps/{suite}", "php", lambda root: make_root(suite, SUITES[suite], root),
                       lambda root: settle(SUITES[suite], root))
