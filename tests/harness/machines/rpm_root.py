# SPDX-License-Identifier: Apache-2.0
"""A root where RPM is the package manager, for packages of ours. One package stands for the distribution: it
holds this machine's own programs and libraries, and RPM finds out by itself what they provide.

    root = rpm_root.Root(test)
    root.rpm("-i", *paths)                      # with dependencies and scripts
    root.run("/usr/sbin/spanprof", "version")   # in it
"""
import os
import pathlib
import re
import shutil
import stat
import subprocess

import tap

PROGRAMS = ("bash", "systemctl", "systemd-sysusers", "systemd-tmpfiles", "journalctl", "getent", "rm", "cat")
SPEC = """
Name: distribution
Version: 1
Release: 1
Summary: What a distribution has, of this machine
License: none
AutoReq: no
Provides: /bin/sh, /usr/bin/pkg-config, rtld(GNU_HASH)
%description
Programs and libraries of this machine.
%install
cp -a {tree}/. %{{buildroot}}/
%files
{files}
"""


def libraries(path):
    """Libraries that a program needs, with those that these need."""
    told = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(/\S+\.so\S*) \(0x", told))


def loaded(names):
    """Where the libraries of these names are."""
    told = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    places = dict(re.findall(r"^\s*(\S+) \(libc6,x86-64.*\) => (\S+)$", told, re.M))
    return {places[name] for name in names if name in places}


class Root:
    def __init__(self, test, names=()):
        """@names: of libraries that are loaded when they are needed."""
        self.test, self.path = test, test.directory() / "root"
        self.path.mkdir()
        self.rpm("--initdb")
        self.rpm("-i", self._distribution(names))
        os.mknod(self.path / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        subprocess.run(["mount", "-t", "proc", "proc", self.path / "proc"], check=True)
        test.addCleanup(subprocess.run, ["umount", "-l", self.path / "proc"], check=True)

    def _distribution(self, names):
        tree, top = self.test.directory() / "tree", self.test.directory()
        for name in ("usr/bin", "usr/lib64", "usr/lib/x86_64-linux-gnu", "etc", "var/lib", "run", "tmp", "dev",
                     "proc"):
            (tree / name).mkdir(parents=True)
        for name, to in (("bin", "usr/bin"), ("sbin", "usr/sbin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")):
            (tree / name).symlink_to(to)
        (tree / "usr/sbin").mkdir()
        programs = [path for path in map(shutil.which, PROGRAMS) if path]
        found = loaded(names) | {tap.SPANPROF, *programs}
        for path in set().union(*map(libraries, found)) | loaded(names):
            to = tree / "usr/lib64" if "ld-linux" in path else tree / "usr/lib/x86_64-linux-gnu"
            shutil.copy(os.path.realpath(path), to / os.path.basename(path))
            os.chmod(to / os.path.basename(path), 0o755)
        for path in programs:
            shutil.copy(path, tree / "usr/bin")
        (tree / "usr/bin/sh").symlink_to("bash")
        (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (tree / "etc/group").write_text("root:x:0:\n")
        spec = top / "distribution.spec"
        files = "\n".join("/" + str(path.relative_to(tree)) for path in sorted(tree.rglob("*"))
                          if path.is_symlink() or not any(path.iterdir() if path.is_dir() else ()))
        spec.write_text(SPEC.format(tree=tree, files=files))
        self.test.run_command(["rpmbuild", "-bb", "--define", f"_topdir {top}", "--define", "debug_package %{nil}",
                               "--define", "__os_install_post %{nil}", spec], expect=0, timeout=300)
        return next(top.glob("RPMS/*/*.rpm"))

    def rpm(self, *words, expect=0):
        return self.test.run_command(["rpm", "--root", self.path, "--dbpath", "/var/lib/rpm", *words],
                                     expect=expect, timeout=300)

    def run(self, *argv, expect=0):
        return self.test.run_command(["chroot", self.path, *argv], expect=expect)

    def read(self, name):
        return (pathlib.Path(self.path) / name).read_text()
