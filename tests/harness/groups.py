# SPDX-License-Identifier: Apache-2.0
"""Control groups for a test, in the unified hierarchy, gone with it:

    path = groups.make(self, "spanprof-test", "shop.service")
    groups.enter(path, pid)
    # whichever hierarchy has the controller
    path, n_killed = groups.limit_memory(self, "spanprof-small", 1 << 14)
    path, n_throttled = groups.limit_cpu(self, "spanprof-quota", 10_000, 100_000)

Neighbours has unprivileged attackers and honest programs, in groups and of users of their own:

    for title, attacker, honest in self.places():
        crowd, tell = self.commanded_at(attacker, "hostile", "holds", 1000)
        tell("go")
"""
import errno
import os
import pathlib
import re
import shutil
import subprocess

import session
import tap

ATTACKER, HONEST = 61001, 61002         # users that own nothing
DENY = tap.BUILD_DIR / "tests/harness/libdeny-bpf.so"


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


def small_maps(**entries):
    """The environment of a program in a kernel whose maps of these names have so many entries."""
    return {"LD_PRELOAD": str(DENY), "DENY_ENTRIES": ",".join(f"{name}={n}" for name, n in entries.items())}


def become(user):
    """For a preexec_fn: this user, on one CPU, which all that call it share."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    tap._die_with_parent()


class Neighbours(session.NamingCase):
    def setUp(self):
        self.programs = self.directory()
        self.programs.chmod(0o755)
        for name in ("brief", "crowd", "hostile", "ring", "waits"):
            shutil.copy(tap.VICTIMS / f"victim-{name}", self.programs)

    def child(self, place, program, *arguments, **options):
        """A program of a user, in a control group. @place: (user, group or None)"""
        user, group = place
        enter = f"echo $$ > {group}/cgroup.procs && " if group else ""
        child = self.spawn(["sh", "-c", f'{enter}exec setpriv --reuid {user} --regid {user} --clear-groups "$@"', "sh",
                            self.programs / f"victim-{program}", *arguments], **options)
        child.wait_for(r"^pid \d+")
        return child

    def commanded_at(self, place, program, *arguments):
        """One that obeys lines on its standard input: (child, tell), tell(line) → its answer."""
        child = self.child(place, program, *arguments, stdin=subprocess.PIPE)
        return child, lambda line: self.tell(child, line)

    def places(self):
        attacker = make(self, "spanprof-neighbours", "attacker.service")
        honest = make(self, "spanprof-neighbours", "honest.service")
        yield "one user, two groups", (ATTACKER, attacker), (ATTACKER, honest)
        yield "two users, one group", (ATTACKER, None), (HONEST, None)
