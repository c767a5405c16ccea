#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/sideband/: one record a file, by the layouts of perf_event_open(2)."""
import pathlib
import struct

MMAP2, COMM, LOST, FORK = 10, 3, 2, 7
MISC_BUILD_ID, MISC_EXEC = 1 << 14, 1 << 13


def record(kind, misc, body):
    body += struct.pack("<Q", 123456789)
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def padded(text):
    return text + bytes(8 - len(text) % 8)


def mmap2(file, path, misc=2, pid=812, address=0x7F4496733000, length=0x156000):
    return record(MMAP2, misc, struct.pack("<IIQQQ", pid, 815, address, length, 0x26000) + file
                  + struct.pack("<II", 5, 2) + path)


inode = struct.pack("<IIQQ", 253, 1, 4711, 99)
files = {
    "inode": mmap2(inode, padded(b"/usr/lib/libc.so.6")),
    "build-id": mmap2(
        bytes([20, 0, 0, 0]) + bytes(range(20)), padded(b"/bin/a (deleted)"), 2 | MISC_BUILD_ID),
    "build-id-long": mmap2(bytes([255, 0, 0, 0]) + bytes(range(20)), padded(b"/bin/a"), 2 | MISC_BUILD_ID),
    "anonymous": mmap2(bytes(24), padded(b"//anon")),
    "no-path-end": mmap2(inode, b"/12345678901234"[:16].ljust(16, b"x")),
    "no-path": mmap2(inode, b""),
    "over-the-end": mmap2(inode, padded(b"/x"), address=2**64 - 4096, length=8192),
    "foreign": mmap2(inode, padded(b"/x"), pid=0),
    "exec": record(COMM, MISC_EXEC,
                   struct.pack("<II", 812, 812) + padded(b"victim")),
    "name": record(COMM, 0,
                   struct.pack("<II", 812, 813) + padded(b"worker")),
    "lost": record(LOST, 0, struct.pack("<QQ", 3, 41)),
    "fork": record(FORK, 0, struct.pack("<IIIIQ", 812, 1, 812, 1, 5)),
    "short": struct.pack("<IHH", MMAP2, 2, 16) + bytes(8),
}
directory = pathlib.Path(__file__).parents[1] / "corpus/sideband"
directory.mkdir(parents=True, exist_ok=True)
for name, data in files.items():
    (directory / name).write_bytes(data)
