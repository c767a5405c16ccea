#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/station/: stations as writers of both kinds leave them, for fuzz-station.c.

usage: make-station-corpus.py
"""
import pathlib
import struct

OUT = pathlib.Path(__file__).parents[1] / "corpus/station"


def epoch(seq, k, tid=7, active=None):
    return struct.pack("<QQQQ31sB", 1000 + k, tid, 0x1000 * k, seq, b"", k % 2 if active is None else active)


def station(n, document, torn=False):
    epochs = [bytes(64)] * 8
    for k in range(n):
        if document:
            epochs[(k + 1) % 8] = epoch(k + 1, k)
        else:
            epochs[k % 8] = epoch(2 * (k // 8 + 1), k)
    if torn:
        epochs[n % 8] = epoch(2 * (n // 8) + 1, n)
    return struct.pack("<QQB47x", 0xABC, 500, 0) + b"".join(epochs) + bytes(448)


def patch(where, value):
    return struct.pack("<HQ", where, value)


FILES = {
    "seqlock-5": b"\0" + station(5, False),
    "seqlock-100": b"\0" + station(100, False),
    "seqlock-late": b"\2" + station(100, False),
    "seqlock-torn": b"\0" + station(10, False, torn=True),
    "document-5": b"\1" + station(5, True),
    "document-100": b"\1" + station(100, True),
    "document-late": b"\3" + station(100, True),
    "rewound": b"\0" + station(20, False) + b"".join(patch(0x40 + 64 * i + 0x18, 0) for i in range(8)),
    "grows": b"\0" + station(8, False) + b"".join(patch(0x40 + 64 * i + 0x18, 4) for i in range(8)),
    "huge-seq": b"\0" + station(8, False) + patch(0x58, 2**64 - 2) + patch(0x98, 2**63),
    "bad-tid": b"\0" + station(3, False) + patch(0x48, 2**40),
    "empty": b"\0",
}

OUT.mkdir(parents=True, exist_ok=True)
for name, data in FILES.items():
    (OUT / name).write_bytes(data)
