# SPDX-License-Identifier: Apache-2.0
"""Programs that many run, with the profilers of their runtimes. programs.need() has them made by
tests/interop/setup-programs.sh."""
import os
import pathlib
import re
import subprocess

import tap

CACHE = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / "programs"


def need():
    """They are in CACHE now, or the test is skipped."""
    done = subprocess.run(["sh", tap.SOURCE_DIR / "tests/interop/setup-programs.sh"], capture_output=True,
                          text=True)
    if done.returncode:
        tap.skip(f"machine: no programs from Maven, PyPI and Go's proxy: {done.stderr.strip()[-200:]}")


def jars(wanted):
    """Paths of all jars whose name begins with @wanted, a regular expression, as a class path."""
    found = sorted(path for path in (CACHE / "jars").iterdir() if re.match(wanted, path.name))
    assert found, wanted
    return os.pathsep.join(map(str, found))
