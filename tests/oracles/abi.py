#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What programs that are built with our two libraries rely on, read by libabigail from the types that the
compiler has written, and compared with what the release had:

    abi.read("context", folder)                 # → path of the interface of these sources
    abi.changes("context", path)                # → "" or what abidiff says; a function that is new is no change
    tests/oracles/abi.py --write                # tests/data again, after a change that old programs survive
"""
import lzma
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASED = ROOT / "tests/data/abi-0.1.0"
SDK = ROOT / "sdk"
# name → its sources, and the public headers
LIBRARIES = {
    "context": ([SDK / "src" / f"{name}.c"
                 for name in ("context", "coroutine", "java", "local", "name", "otel", "ring")],
                ["--headers-dir", "sdk/include"]),
    "convert": ([ROOT / "daemon/desk/convert/library.c"], ["--header-file", "sdk/include/spanprof-convert.h"]),
}
# types that no header shows, and what differs from one compiler to the next, are no part of it
SHORT = ("--exported-interfaces-only", "--no-elf-needed", "--no-architecture", "--drop-private-types", "--no-show-locs",
         "--no-corpus-path", "--no-comp-dir-path", "--no-write-default-sizes", "--no-parameter-names")


def read(name, folder, root=ROOT):
    """@root: another tree with sdk/include and sdk/src. What a library calls in the rest of the daemon is left open."""
    sources, headers = LIBRARIES[name]
    library, interface = pathlib.Path(folder, "library.so"), pathlib.Path(folder, "interface.abi")
    folders = (root / "sdk/include", root / "sdk/src", ROOT / "daemon", ROOT / "bpf", ROOT)
    mine = [root / path.relative_to(ROOT) if path.is_relative_to(SDK) else path for path in sources]
    subprocess.run(["gcc", "-g", "-O1", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE",
                    '-DSPANPROF_VERSION=""', *(f"-I{folder}" for folder in folders), "-shared",
                    f"-Wl,-soname,libspanprof-{name}.so.0", "-Wl,--unresolved-symbols=ignore-all", "-o", library,
                    *mine], check=True)
    option, where = headers
    subprocess.run(["abidw", option, root / where, *SHORT, "--out-file", interface, library], check=True)
    return interface


def changes(name, interface):
    with tempfile.NamedTemporaryFile(suffix=".abi") as released:
        released.write(lzma.decompress((RELEASED / f"{name}.abi.xz").read_bytes()))
        released.flush()
        done = subprocess.run(["abidiff", "--no-added-syms", released.name, interface], stdout=subprocess.PIPE,
                              text=True)
    if done.returncode & 3:
        raise AssertionError(f"abidiff ended with {done.returncode}: {done.stdout}")
    return done.stdout if done.returncode else ""


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    for library_name in LIBRARIES:
        with tempfile.TemporaryDirectory() as made:
            data = read(library_name, made).read_bytes()
        RELEASED.mkdir(exist_ok=True)
        (RELEASED / f"{library_name}.abi.xz").write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
