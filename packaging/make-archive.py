#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs a publisher of sdk/ as pip and npm install it, with the sources of the SDK's writer in sdk/ beside
its own files. The same files make the same bytes.

usage: make-archive.py OUTPUT FOLDER-INSIDE PACKAGE SDK FILE…

FILE is below PACKAGE, or as sdk/… below SDK.
"""
import gzip
import io
import pathlib
import sys
import tarfile


def main():
    output, inside, package, sdk, *names = sys.argv[1:]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(names):
            path = pathlib.Path(sdk, name[4:]) if name.startswith("sdk/") else pathlib.Path(package, name)
            data = path.read_bytes()
            member = tarfile.TarInfo(f"{inside}/{name}")
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    pathlib.Path(output).write_bytes(gzip.compress(packed.getvalue(), mtime=0))


main()
