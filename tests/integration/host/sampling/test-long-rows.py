#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unwind tables of every library and program of the machine, row by row, against readelf's (readelf_rows.py):
ten minutes for fifteen million rows. What is unsupported on purpose is printed, by file."""
import collections
import os
import pathlib

import tap
from readelf_rows import problems

DIRECTORIES = "/usr/lib", "/usr/libexec", "/usr/bin", "/usr/sbin", "/usr/local"
MAX_BYTES = 128 << 20  # of one file: beyond, Python needs gigabytes for what readelf prints
MAX_UNSUPPORTED = 0.001  # of all rows
X86_64 = b"\x3e\0"
KINDS = b"\2\0", b"\3\0"  # ET_EXEC, ET_DYN


def is_elf(path):
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except OSError:
        return False
    return head[:5] == b"\x7fELF\2" and head[18:] == X86_64 and head[16:18] in KINDS


def elf_files():
    """{(device, inode): (size, path)}: a file has many names."""
    found = {}
    for directory in DIRECTORIES:
        for place, _, names in os.walk(directory):
            for path in (pathlib.Path(place, name) for name in names):
                if path.is_file() and is_elf(path):
                    status = path.stat()
                    found.setdefault((status.st_dev, status.st_ino), (status.st_size, str(path)))
    return found.values()


class EveryFile(tap.TestCase):
    def test_agrees_with_readelf(self):
        files = sorted(elf_files())
        n_files, n_rows, wrong, unsupported, places = 0, 0, {}, collections.Counter(), []
        for size, path in files:
            if size > MAX_BYTES:
                print(f"left out, {size >> 20} MiB: {path}")
                continue
            n, found, left_out, _ = problems(path)
            if found:
                wrong[path] = found
            n_files, n_rows = n_files + bool(n), n_rows + n
            unsupported.update(left_out)
            places += [f"{os.path.basename(path)} {dict(left_out)} of {n}"] if left_out else []
        print(f"{n_files} files with rows of {len(files)}, {n_rows} rows, unsupported {dict(unsupported)}:",
              *places, sep="\n    ")
        self.assertEqual(wrong, {})
        self.assertGreater(n_files, 50)
        self.assertLess(sum(unsupported.values()), MAX_UNSUPPORTED * n_rows)


if __name__ == "__main__":
    tap.main()
