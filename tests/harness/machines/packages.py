# SPDX-License-Identifier: Apache-2.0
"""Our Debian packages, built from these sources; SPANPROF_TEST_PACKAGES names a directory of ones that are
there, or that are being made in DIRECTORY.new."""
import os
import pathlib
import re
import subprocess
import tempfile

import tap

BUILD_S = 1500          # on a machine that is busy


def build(output, version=None, options=()):
    tap.need_tool("dpkg-buildpackage")
    tap.need_tool("dh_installsystemd")
    done = subprocess.run(
        [tap.SOURCE_DIR / "packaging/build-deb", *options, tap.SOURCE_DIR, output, *([version] if version else [])],
        capture_output=True, text=True, timeout=BUILD_S)
    if done.returncode:
        raise AssertionError(f"build-deb failed:\n{done.stderr[-6000:]}")
    return pathlib.Path(output)


_built = None


def directory():
    """A directory with them, once for this process."""
    global _built
    if _built is None:
        given = os.environ.get("SPANPROF_TEST_PACKAGES")
        if given:
            tap.wait_until(lambda: not os.path.exists(f"{given}.new"), "packages that are being built", BUILD_S)
        is_there = given and any(pathlib.Path(given).glob("*.deb"))
        _built = pathlib.Path(given) if is_there else build(tempfile.mkdtemp(prefix="spanprof-debs-"))
    return _built


def of(name):
    return next(directory().glob(f"{name}_*.deb"))


def with_version(test, deb, version):
    """The same package as if it were another version."""
    tree = test.directory() / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", deb, tree], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(), flags=re.M))
    to = test.directory() / f"{deb.name.split('_')[0]}_{version}_amd64.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, to], check=True, capture_output=True)
    return to
