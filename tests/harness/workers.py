# SPDX-License-Identifier: Apache-2.0
"""The daemon's processes without rights, as /proc shows them: their ids, what they have open, who they are."""
import os
import pathlib

import tap


def status_of(pid):
    """/proc/PID/status as a dictionary; empty for who is gone."""
    try:
        return dict(
            line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
            if ":\t" in line)
    except OSError:
        return {}


def descriptors(pid):
    """What a process has open, as links; None for who is gone."""
    try:
        return {os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return None


OTHERS = ("spanprof-sweep", "spanprof-remote")


def helpers(run):
    """Children of the daemon that live: ([nurseries], [workers]). Only the former have standard descriptors."""
    children = [
        int(pid) for pid in pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    ]
    children = [
        pid for pid in children
        if status_of(pid).get("State", "Z")[0] not in "ZX" and status_of(pid).get("Name") not in OTHERS
    ]
    nurseries = [pid for pid in children if "/dev/null" in (descriptors(pid) or ())]
    return nurseries, [pid for pid in children if pid not in nurseries]


def wait_for_reader(run, pid, but=None):
    """The worker that reads the memory of a process now; not @but."""

    def look():
        found = [worker for worker in readers_of(run, pid) if worker != but]
        return found[0] if found else None

    return tap.wait_until(look, f"a worker that reads {pid}")


def readers_of(run, pid):
    """The daemon's workers that have the memory of a process open."""
    return [worker for worker in helpers(run)[1] if f"/proc/{pid}/mem" in (descriptors(worker) or ())]
