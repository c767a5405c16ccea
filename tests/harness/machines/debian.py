# SPDX-License-Identifier: Apache-2.0
"""Packages of any suite of Debian, without a change to this machine's own lists and packages.

    with debian.Suite("trixie") as suite:           # fetches its list; skips with a reason without a network
        suite.depends("linux-image-amd64")          # names of what a package needs
        suite.unpack(["openjdk-8-jre-headless"], root)
        suite.unpack([…], root, "./boot/*")         # of each only what fits
    suite.source("python3.13", folder)          # the archives of a source package
    with debian.Suite("trixie", "arm64") as suite:      # packages for another processor
    debian.kept("rubies/trixie", "ruby", make, settle)  # what was made of packages, in the tests' cache
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import tap

MIRROR = os.environ.get("SPANPROF_TEST_MIRROR", "http://deb.debian.org/debian")
APT = """Dir::State::lists "{0}/lists";
Dir::Cache "{0}/cache";
Dir::Etc::sourcelist "{0}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::status "/dev/null";
APT::Architecture "{1}";
APT::Architectures {{ "{1}"; }};
"""


class Suite:
    def __init__(self, name, architecture="amd64"):
        self.name = name
        self.architecture = architecture
        self.temporary = tempfile.TemporaryDirectory()
        self.home = pathlib.Path(self.temporary.name)

    def __enter__(self):
        for path in ("lists/partial", "cache/archives/partial"):
            (self.home / path).mkdir(parents=True)
        (self.home / "sources.list").write_text(f"deb {MIRROR} {self.name} main\n")
        (self.home / "apt.conf").write_text(APT.format(self.home, self.architecture))
        self.apt("apt-get", "-q", "update")
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    def apt(self, *command):
        done = subprocess.run(command, cwd=self.home, env={**os.environ, "APT_CONFIG": str(self.home / "apt.conf")},
                              capture_output=True, text=True, timeout=900)
        if done.returncode:
            tap.skip(f"machine: no packages of Debian {self.name} (no network?): {done.stderr.strip()[-200:]}")
        return done.stdout

    def has(self, package):
        return bool(self.apt("apt-cache", "search", "--names-only", f"^{re.escape(package)}$"))

    def depends(self, package):
        return re.findall(r"(?m)^\s*Depends: (\S+)$", self.apt("apt-cache", "depends", package))

    def unpack(self, packages, root, *patterns):
        self.apt("apt-get", "-q", "download", *packages)
        for path in self.home.glob("*.deb"):
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE) as package:
                subprocess.run(["tar", "-x", "-C", root, "--keep-directory-symlink", "--no-same-owner", "--wildcards",
                                *patterns], stdin=package.stdout, check=True)
            path.unlink()

    def source(self, package, folder):
        (self.home / "sources.list").write_text(f"deb-src {MIRROR} {self.name} main\n")
        self.apt("apt-get", "-q", "update")
        self.apt("apt-get", "-q", "source", "--download-only", "--only-source", package)
        for path in self.home.glob("*.tar.*"):
            shutil.move(path, folder)


def cache():
    return pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests"))


def kept(place, program, make, settle):
    """A program in a root that is kept in the tests' cache: make(root) unpacks packages, settle(root) makes
    the program, once the root has its place. None where it cannot be had."""
    root = cache() / place
    if not (root / program).exists():
        new = root.with_suffix(f".{os.getpid()}")
        new.mkdir(parents=True)
        try:
            make(new)
        except unittest.SkipTest as reason:
            print(f"# {reason}", flush=True)
            shutil.rmtree(new)
            return None
        shutil.rmtree(root, ignore_errors=True)
        new.rename(root)
        settle(root)
    return root / program
