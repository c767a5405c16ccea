# SPDX-License-Identifier: Apache-2.0
"""A Debian 13 with the tools of a language, and nothing of ours: Debian 12's Go and Rust are too old.

    root = fresh.Root(test, "rust", ["cargo", "gcc"])       # suite="forky": another Debian
    root.run(test, "cargo build", "/root/app")      # by bash; else the test fails, or skips without a network
    child = root.spawn(test, "exec ./app", "/root/app")     # a process of this machine in this root
    root.path / "root/app"                          # its files, from outside

The root is made once, below SPANPROF_TEST_CACHE, and is the lower half of an overlay: nothing that is done in
it stays. It shares our network.
"""
import atexit
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import debian
import nspawn
import tap

SUITE = "trixie"
SCRIPTS = pathlib.Path("/usr/share/debootstrap/scripts")
UNREACHED = (r"(?i)network|could not resolve|connection|ENOTFOUND|EAI_AGAIN|No matching distribution|"
             r"failed to (?:download|fetch|get)|dial tcp|i/o timeout")
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"


def make(root, packages, suite):
    """By debootstrap, which solves no dependencies to speak of, and then by apt. All suites have one script."""
    for words in ([tap.need_tool("debootstrap"), "--variant=minbase", "--include=ca-certificates,sudo", suite, root,
                   debian.MIRROR, SCRIPTS / "sid"],
                  ["cp", "/etc/resolv.conf", root / "etc/resolv.conf"],
                  ["mount", "-t", "proc", "proc", root / "proc"],
                  ["chroot", root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "install", "-y",
                   "--no-install-recommends", *packages],
                  ["chroot", root, "apt-get", "clean"], ["umount", root / "proc"]):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=1200)
        if done.returncode:
            subprocess.run(["umount", "--lazy", root / "proc"], capture_output=True)
            tap.skip(f"machine: {words[0]} failed (no network?): {(done.stdout + done.stderr)[-300:]}")


def cached(name, packages, suite):
    root, new, listed = (nspawn.CACHE / f"{suite}-{name}{end}" for end in ("", ".new", ".packages"))
    wanted = " ".join(packages)
    nspawn.CACHE.mkdir(parents=True, exist_ok=True)
    with open(nspawn.CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists() or not listed.exists() or listed.read_text() != wanted:
            shutil.rmtree(new, ignore_errors=True)
            make(new, packages, suite)
            shutil.rmtree(root, ignore_errors=True)
            new.rename(root)
            listed.write_text(wanted)
    return root


class Root:
    def __init__(self, test, name, packages, suite=SUITE):
        """@test: which it goes away with; None: with this process."""
        tap.need_root()
        lower = cached(name, packages, suite)
        base = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-"))
        clean_up = test.addCleanup if test else atexit.register
        clean_up(shutil.rmtree, base, ignore_errors=True)
        self.path = base / "root"
        self.mount("-t", "tmpfs", "tmpfs", base)
        clean_up(subprocess.run, ["umount", "--recursive", "--lazy", base], check=False)
        for folder in ("up", "work", "root"):
            (base / folder).mkdir()
        self.mount("-t", "overlay", "-o", f"lowerdir={lower},upperdir={base}/up,workdir={base}/work", "overlay",
                   self.path)
        self.mount("-t", "proc", "proc", self.path / "proc")
        self.mount("--bind", "/dev", self.path / "dev")
        for name in ("etc/resolv.conf", AUTHORITIES):
            if pathlib.Path("/", name).exists():
                shutil.copy(f"/{name}", self.path / name)

    @staticmethod
    def mount(*words):
        done = subprocess.run(["mount", *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            tap.skip(f"machine: cannot mount {words[-1]}: {done.stderr.strip()}")

    def words(self, line, cwd, environment):
        """Nothing of our environment goes along, but the way to the network."""
        proxies = {key: value for key, value in os.environ.items() if re.fullmatch(r"(?i)(https?|no)_proxy", key)}
        values = {"HOME": "/root", "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                  "DEBIAN_FRONTEND": "noninteractive", "NODE_EXTRA_CA_CERTS": f"/{AUTHORITIES}", **proxies, **environment}
        settings = [f"{key}={value}" for key, value in values.items()]
        return ["chroot", str(self.path), "env", "-i", f"--chdir={cwd}", *settings, "bash", "-c", line]

    def run(self, test, line, cwd="/root", **environment):
        done = test.run_command(self.words(line, cwd, environment), timeout=900)
        said = done.stdout + done.stderr
        if done.returncode and re.search(UNREACHED, said):
            tap.skip(f"machine: a registry cannot be reached: {said[-300:]}")
        test.assertEqual(done.returncode, 0, f"{line}: {said}")
        return done.stdout

    def spawn(self, test, line, cwd="/root", **environment):
        return test.spawn(self.words(line, cwd, environment))

    def write(self, name, text):
        path = self.path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
