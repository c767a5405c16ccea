# SPDX-License-Identifier: Apache-2.0
"""Releases of Erlang, as Debian's other suites have them: unpacked as small roots, and kept in the tests'
cache. Programs run in a root with this machine's temporary files, where their modules are."""

import debian

SUITES = ("trixie", "sid")
PACKAGES = ("erlang-base", "dash", "libc6", "libcap2", "libgcc-s1", "libsctp1", "libstdc++6", "libsystemd0",
            "libtinfo6", "zlib1g")
# exec, and a namespace of mounts that ends with the program: its pid is the caller's child
START = """#!/bin/sh
export BINDIR={binaries} ROOTDIR=/usr/lib/erlang EMU=beam PROGNAME=erl
exec unshare --mount sh -ec 'root=$1; temporary=${{TMPDIR:-/tmp}}; shift
mkdir -p "$root$temporary"
mount --bind "$temporary" "$root$temporary"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
exec chroot "$root" {program} "$@"' sh {root} "$@"
"""


def make_root(suite, root):
    with debian.Suite(suite) as packages:
        packages.unpack(PACKAGES, root)
    for name in ("bin", "lib", "lib64"):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    for name in ("dev", "proc", "tmp"):
        (root / name).mkdir(exist_ok=True)


def settle(root):
    """Makes the programs `erl` and `erlc` of a root."""
    binaries = "/" + str(next((root / "usr/lib/erlang").glob("erts-*/bin")).relative_to(root))
    for name, program in (("erl", "erlexec"), ("erlc", "erlc")):
        path = root / name
        path.write_text(START.format(binaries=binaries, program=f"{binaries}/{program}", root=root))
        path.chmod(0o755)


def fetched(suite):
    """The program `erl` of a suite, beside its `erlc`; None where it cannot be had."""
    return debian.kept(f"erlangs/{suite}", "erl", lambda root: make_root(suite, root), settle)
