#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/node-walk/ (memory of a thread of Node, fuzz-node-walk.c).

usage: make-node-walk-corpus.py  (from anywhere; the files are committed)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus/node-walk"
SLOT, HANDLE, UNDEFINED, KEY, MAP, VALUE, TABLE, RECORD = 0x40, 0x48, 0x80, 0xa0, 0x100, 0x140, 0x200, 0x800
LAST = 0xffffffff


def address(at):
    return 1 << 32 | at


def memory(record_at=24, buckets=2, chain=1, **words):
    data = bytearray(4096)

    def put(at, *values):
        struct.pack_into(f"<{len(values)}Q", data, at, *values)

    put(0, address(SLOT), address(HANDLE), record_at << 32 | 0x6b5, address(UNDEFINED + 1))
    put(SLOT, address(MAP + 1), address(KEY + 1))
    for at in (UNDEFINED, KEY, MAP, VALUE, TABLE):
        put(at, 0x7001)
    put(MAP + 24, address(TABLE + 1))
    put(TABLE + 8, *(x << 32 for x in (3 + 7 * buckets, chain, 0, buckets)))
    put(TABLE + 40, *[chain - 1 << 32] * buckets)
    for i in range(chain):
        put(TABLE + 40 + 8 * buckets + 24 * i, address((UNDEFINED if i else KEY) + 1), address(VALUE + 1),
            (i - 1 if i else LAST) << 32)
    put(VALUE + record_at % 64, address(RECORD))
    for at, value in words.items():
        put(int(at[1:], 16), value)
    return bytes(data)


def told(table, header, at, wrap=0, wrapped=0):
    return table | header << 8 | at << 16 | wrap << 24 | 1 << 32 | wrapped << 40


CASES = {
    "v12": memory(), "v13": memory(record_at=32, chain=2), "older-writer": memory(record_at=0),
    "chain": memory(buckets=8, chain=16), "long-chain": memory(buckets=16, chain=20),
    "circle": memory(xa0=0x7001, x218=2 << 32, x250=address(UNDEFINED + 1), x260=0),
    "nothing-current": memory(x40=address(UNDEFINED + 1)), "not-at-work": memory(x0=0),
    "moved-map": memory(x100=address(0x900)), "moved-table": memory(x200=address(0x900)),
    "told": memory(record_at=0, x158=address(RECORD), xff8=told(24, 16, 24)),
    "told-embedder": memory(record_at=0, x158=0, x160=address(RECORD), xff8=told(24, 16, 24)),
    "told-wrapped": memory(record_at=0, x158=address(RECORD), xff8=told(24, 16, 24, 8, wrapped=1),
                           x808=address(0x880)),
    "compressed": memory(x208=34, x210=2, x220=4), "no-end": memory(x0=address(0xff8)),
}

if __name__ == "__main__":
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, data in CASES.items():
        (CORPUS / name).write_bytes(data.rstrip(b"\0"))
