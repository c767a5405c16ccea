# SPDX-License-Identifier: Apache-2.0
"""Control groups for a test, in the unified hierarchy, gone with it:

    path = groups.make(self, "spanprof-test", "shop.service")
    groups.enter(path, pid)
    # whichever hierarchy has the controller
    path, n_killed = groups.limit_memory(self, "spanprof-small", 1 << 14)
    path, n_throttled = groups.limit_cpu(self, "spanprof-quota", 10_000, 100_000)
"""
import errno
import os
import pathlib
import re

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
        test.addCleanup(remove, path)
    return path


def remove(path):
    """Its processes have ended, but the kernel may not have let go of them yet."""
    def gone():
        try:
            path.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    tap.wait_until(gone, f"the end of {path}")


def enter(group, pid):
    (group / "cgroup.procs").write_text(str(pid))


def limit_memory(test, name, size):
    """A group whose processes are killed above @size bytes: (its path, a function that says how many were)."""
    for parent, limit, events in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"),
                                  ("/sys/fs/cgroup", "memory.max", "memory.events")):
        path = pathlib.Path(parent) / name
        try:
            path.mkdir()
            test.addCleanup(remove, path)
            (path / limit).write_text(str(size))
        except OSError:
            continue
        return path, lambda path=path, events=events: int(
            re.search(r"^oom_kill (\d+)", (path / events).read_text(), re.M)[1])
    return tap.skip("machine: limits the memory of no control group")


def limit_cpu(test, name, quota_us, period_us):
    """A group that may use the CPU so long in each period: (its path, a function: in how many it had to wait)."""
    for parent, settings, stat in (("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": period_us, "cpu.cfs_quota_us": quota_us},
                                    "cpu.stat"),
                                   (root(), {"cpu.max": f"{quota_us} {period_us}"}, "cpu.stat")):
        path = pathlib.Path(parent) / name
        try:
            path.mkdir()
            test.addCleanup(remove, path)
            for key, value in settings.items():
                (path / key).write_text(str(value))
        except OSError:
            continue
        return path, lambda path=path: int(re.search(r"^nr_throttled (\d+)", (path / stat).read_text(), re.M)[1])
    return tap.skip("machine: limits the CPU of no control group")


def free_cpu(path):
    """Takes the limit of limit_cpu() away."""
    for setting, value in (("cpu.max", "max"), ("cpu.cfs_quota_us", "-1")):
        if (path / setting).exists():
            (path / setting).write_text(value)
