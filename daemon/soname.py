#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the name that the dynamic linker knows a library by (its soname), as a program linked with it would
have it.

usage: soname.py PKG-CONFIG-NAME COMPILER…
"""
import pathlib
import re
import subprocess
import sys
import tempfile


def soname(package, compiler):
    libraries = subprocess.run(["pkg-config", "--libs", package], check=True, capture_output=True,
                               text=True).stdout.split()
    with tempfile.TemporaryDirectory() as directory:
        made = pathlib.Path(directory) / "made.so"
        subprocess.run([*compiler, "-shared", "-nostdlib", "-Wl,--no-as-needed", "-o", made, *libraries],
                       check=True)
        dynamic = subprocess.run(["readelf", "-d", "-W", made], check=True, capture_output=True, text=True,
                                 env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic.stdout)
    if not names:
        sys.exit(f"soname.py: {package} is no shared library here")
    return names[0]


print(soname(sys.argv[1], sys.argv[2:]))
