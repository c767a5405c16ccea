# SPDX-License-Identifier: Apache-2.0
"""A Debian 12 with systemd as PID 1, in a container of its own on this kernel.

    machine = nspawn.Machine(test)                  # boots; skips with a reason where that cannot be
    machine.copy(path, "/root/x.deb")
    machine.run("systemctl", "start", "x")          # subprocess.CompletedProcess, status checked
    machine.root                                    # its files, from outside

The root is made once by debootstrap, outside of the tree (SPANPROF_TEST_CACHE, else
/var/cache/spanprof-tests), and is the lower half of an overlay: nothing that a machine does stays. It shares
our network, so that it needs none of its own and a receiver out here is at 127.0.0.1.
"""
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess

import debian
import tap

CACHE = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests"))
# systemd, and what our package depends on, so that installing that needs no network
PACKAGES = ("systemd", "systemd-sysv", "dbus", "procps", "ca-certificates", "python3-minimal", "libbpf1", "libcjson1",
            "libcurl4", "libdeflate0", "libdw1", "libelf1", "liblz4-1", "liblzma5", "libmicrohttpd12",
            "libprotobuf-c1", "libsqlite3-0", "libssl3", "libsystemd0", "libzstd1", "zlib1g")


def cached_root():
    """The pristine root, made if need be; one of other packages is made anew."""
    root, new, packages = CACHE / "bookworm", CACHE / "bookworm.new", CACHE / "bookworm.packages"
    wanted = " ".join(PACKAGES)
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists() or not packages.exists() or packages.read_text() != wanted:
            shutil.rmtree(new, ignore_errors=True)
            done = subprocess.run([
                tap.need_tool("debootstrap"), "--variant=minbase", f"--include={','.join(PACKAGES)}",
                "bookworm", new, debian.MIRROR
            ], capture_output=True, text=True, timeout=900)
            if done.returncode:
                tap.skip(
                    f"machine: debootstrap failed (no network?): {done.stdout.strip().splitlines()[-1:]}")
            shutil.rmtree(root, ignore_errors=True)
            new.rename(root)
            packages.write_text(wanted)
    return root


class Machine:
    def __init__(self, test, options=()):
        """@options: of systemd-nspawn, beside its usual ones."""
        tap.need_root()
        self.test, self.options, lower = test, options, cached_root()
        base = test.directory()
        self.root = base / "root"
        self._mount("tmpfs", base, [])
        for name in ("up", "work", "root"):
            (base / name).mkdir()
        self._mount("overlay", self.root, ["-o", f"lowerdir={lower},upperdir={base}/up,workdir={base}/work"])
        self._boot()

    def _mount(self, kind, where, options):
        done = subprocess.run(["mount", "-t", kind, kind, *options, where], capture_output=True, text=True)
        if done.returncode:
            tap.skip(f"machine: cannot mount {kind}: {done.stderr.strip()}")
        self.test.addCleanup(subprocess.run, ["umount", "--lazy", where], check=False)

    def _boot(self):
        """It is ready when systemd says `running`; a machine where it cannot is no failure of ours."""
        self.child = self.test.spawn([
            tap.need_tool("systemd-nspawn"), "--quiet", f"--directory={self.root}",
            f"--machine={self.root.parent.name.replace('_', '0')}", "--keep-unit", "--register=no",
            "--capability=all", "--system-call-filter=bpf perf_event_open @keyring", "--boot", "--console=pipe",
            *self.options
        ])

        def leader():
            if self.child.status is not None:
                tap.skip(f"machine: systemd-nspawn cannot run here: {self.child.err.strip()[-300:]}")
            children = pathlib.Path(
                f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text().split()
            return next((int(pid)
                         for pid in children if pathlib.Path(f"/proc/{pid}/comm").read_text() == "systemd\n"),
                        None)

        self.leader = tap.wait_until(leader, "a leader of the container", 60)
        self.test.addCleanup(self._end)
        tap.wait_until(
            lambda: self.run("systemctl", "is-system-running", expect=None).stdout.strip() in
            ("running", "degraded"), "a booted machine", 120)

    def _end(self):
        """Its processes are not ours to inherit: with PID 1, all of them go; nspawn that is killed would leave them."""
        try:
            os.kill(self.leader, signal.SIGKILL)
        except ProcessLookupError:
            return
        tap.wait_until(
            lambda: not os.path.exists(f"/proc/{self.leader}/ns/pid") or self.child.status is not None,
            "the end of the machine", 60)

    def run(self, *argv, expect=0, **options):
        return self.test.run_command([
            "nsenter", f"--target={self.leader}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup",
            "--", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
            "DEBIAN_FRONTEND=noninteractive", *argv
        ], expect=expect, **{"timeout": 300, **options})

    def copy(self, source, to):
        shutil.copy(source, str(self.root) + to)

    def write(self, path, text):
        """By a program inside: overlayfs need not show what is written under its feet."""
        self.run("sh", "-c", 'mkdir -p "$(dirname "$1")" && printf %s "$2" > "$1"', "sh", path, text)

    def show(self, unit, *names):
        """Properties of a unit: name → value."""
        text = self.run("systemctl", "show", unit, *(f"--property={name}" for name in names)).stdout
        return dict(re.findall(r"^(\w+)=(.*)$", text, re.M))

    def journal(self, unit):
        self.run("journalctl", "--sync")
        return self.run("journalctl", "--no-pager", "--output=cat", f"--unit={unit}").stdout
