#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers of workers for fuzz-table-check: by hand, in the form of
daemon/host/sampling/unwind/tables/table-job.h and bpf/border/unwind_abi.h.

usage: make-answer-corpus.py DIRECTORY
"""
import pathlib
import struct
import sys

BLOCK, MAGIC = 4096, 0x4D4B5231
N_COUNTS = 3 + 13 + 8  # CfiCounts: entries, rows, overlaps, problems (with the one that is none), unsupported
RSP_8 = 8 | 1 << 48


def header(size, low=0x1000, high=0x2000, magic=MAGIC, result=0):
    return struct.pack("<IiQQQQ", magic, result, size, low, high, 0) + bytes(8 * N_COUNTS)


def word(block, offset, n):
    return struct.pack("<Q", block | offset << 32 | n << 48)


def table(words, keys=(0, 16), rules=(0, 0), rule=RSP_8):
    record = struct.pack(f"<{len(keys)}H{len(rules)}B", *keys, *rules)
    return b"".join(words).ljust(BLOCK, b"\0") + record.ljust(BLOCK - 8, b"\0") + struct.pack("<Q", rule)


def main():
    directory = pathlib.Path(sys.argv[1])
    good = table([word(1, 0, 2)])
    cases = {
        "one-page": header(len(good)) + good,
        "three-pages": header(len(good), high=0x4000) + table([word(1, 0, 2), word(0, 0, 0), word(1, 0, 2)]),
        "no-elf": header(0, result=1),
        "negative": header(0, result=-12),
        "magic": header(len(good), magic=1) + good,
        "cut": header(len(good)) + good[:5000],
        "block": header(len(good)) + table([word(2, 0, 2)]),
        "rows": header(len(good)) + table([word(1, 4000, 900)]),
        "index": header(len(good)) + table([word(1, 0, 2)], rules=(0, 254)),
        "wide": header(len(good), high=0x1000 + (1 << 32)) + good,
    }
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in cases.items():
        (directory / name).write_bytes(data)


main()
