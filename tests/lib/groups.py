# SPDX-License-Identifier: Apache-2.0
"""Control groups for a test, in the unified hierarchy, gone with it:

    path = groups.make(self, "spanprof-test", "shop.service")
    groups.enter(path, pid)
"""
import os
import pathlib

import tap


def root():
    """Where control groups can be made: the unified hierarchy, alone or beside others."""
    for mount in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        if os.path.exists(f"{mount}/cgroup.procs"):
            return pathlib.Path(mount)
    return tap.skip("kernel: no unified control groups")


def make(test, *names):
    """A group below the root, one name below the other. Its processes must end with the test, and be started after this."""
    path = root()
    for name in names:
        path = path / name
        try:
            path.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            tap.skip(f"machine: cannot make control groups: {error}")
        test.addCleanup(path.rmdir)
    return path


def enter(group, pid):
    (group / "cgroup.procs").write_text(str(pid))
