#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/hotspot-walk/: an entry of bpf/border/runtime_abi.h, then memory with stack, code heap,
segment map and methods (fuzz-hotspot-walk.c). One file for each way to a caller.

usage: make-hotspot-walk-corpus.py  (from anywhere; the files are committed)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus/hotspot-walk"
MEMORY, SIZE = 0x20000000, 16384
HEADER, NAME, METHOD, CONST, MAP = 16, 0x3000, 0x3100, 0x3200, 0x3400
CONTINUATION, CHUNK, OLDER = 0x2800, 0x2840, 0x2c00
CALLEE, CALLER, STUB, INTERPRETER = 0x1000, 0x1400, 0x1800, 0x1c00
FIELDS = [(0, 8, 0), (8, 8, 0), (16, 4, 2), (20, 4, 0), (24, 8, 0), (32, 8, 0), (40, 4, 0), (48, 8, 0),
          (44, 4, 0)]
BLOBS = [(CALLEE, 0, 4, 412), (CALLER, 0, 6, 500), (STUB, 16, 0, 0), (INTERPRETER, 16, 0, 0)]


def entry():
    head = struct.pack("<7Q2I", 1, 0, 0, INTERPRETER + 80, 512, MEMORY + INTERPRETER + HEADER, STUB + 120, 1, 7)
    heaps = struct.pack("<3Q", 0, 0, MAP) + bytes(72)
    sizes = struct.pack("<6HhH", HEADER, 8, 96, 8, 32, 48, -64, 0)
    # references count from the memory's begin, in bytes
    chunk = struct.pack("<IQ8H", 0, MEMORY, 32, 40, 24, 28, 48, 0, 0, 0)
    return head + heaps + sizes + b"".join(struct.pack("<HBB", *field) for field in FIELDS) + chunk


def chunk(data, at, start, bottom, parent, frames):
    data[at] = 1
    data[at + 24:at + 32], data[at + 40:at + 44] = struct.pack("<2I", start, bottom), struct.pack("<I", parent)
    for word, value in frames.items():
        data[at + 48 + 8 * word:at + 56 + 8 * word] = struct.pack("<Q", value)


def in_heap():
    """A leaf, the return barrier, and two chunks; the first one holds an interpreted frame."""
    text = memory(CALLEE + 180, 4, 0, {3: MEMORY + STUB + 160, 11: MEMORY + CONTINUATION, 18: BACK,
                                       24: MEMORY + STUB + 120, 23: MEMORY + 1024})
    data = bytearray(text.ljust(SIZE, b"\0"))
    data[STUB + 160:STUB + 168] = b"\x49\x8b\xa7\x28\x05\0\0\0"
    data[CONTINUATION + 32:CONTINUATION + 36] = struct.pack("<I", CHUNK)
    chunk(data, CHUNK, 10, 26, OLDER, {9: MEMORY + INTERPRETER + 200, 8: 14, 14: MEMORY + CONST + 50,
                                       19: MEMORY + METHOD, 21: 4})
    chunk(data, OLDER, 4, 8, 0, {3: MEMORY + CALLEE + 120})
    return bytes(data).rstrip(b"\0")


def memory(pc, sp, bp, words, code=b""):
    data = bytearray(SIZE)
    for place, name, size, number in BLOBS:
        for i in range(8):
            data[MAP + place // 128 + i] = i
        base = MEMORY + place + 80
        data[place:place + 80] = struct.pack("<4Q2I2Q2IQQ", 8, 1, MEMORY + NAME + name, base, 16, size, base,
                                             base + 200, 8, number, MEMORY + METHOD, 0)
        data[place + 80 + 35] = 0xe8
    data[CALLEE + 80:CALLEE + 80 + len(code)] = code
    data[NAME:NAME + 8], data[NAME + 16:NAME + 32] = b"nmethod\0", b"StubRoutines (1)"
    data[METHOD + 8:METHOD + 16] = struct.pack("<Q", MEMORY + CONST)
    data[CONST + 32:CONST + 34] = struct.pack("<H", 100)
    for at, word in words.items():
        data[64 * sp + 8 * at:64 * sp + 8 * at + 8] = struct.pack("<Q", word)
    data[:10] = struct.pack("<QBB", pc, sp, bp)
    return bytes(data).rstrip(b"\0")


BACK = MEMORY + CALLER + 80 + 40
FILES = {
    "compiled": memory(CALLEE + 180, 4, 0, {3: BACK, 9: MEMORY + STUB + 120, 8: MEMORY + 1024}),
    "prologue": memory(CALLEE + 80, 4, 0, {0: BACK}, b"\x89\x84\x24\0\xc0\xfe\xff\x55\x48\x83\xec\x10"),
    "pushed": memory(CALLEE + 81, 4, 0, {1: BACK}, b"\x55\x48\x83\xec\x10"),
    "epilogue": memory(CALLEE + 100, 4, 0, {0: BACK}, b"\x90" * 15 + b"\x48\x83\xc4\x10\x5d\xc3"),
    "interpreted": memory(INTERPRETER + 200, 4, 8, {33: BACK, 31: MEMORY + 800, 29: MEMORY + METHOD,
                                                     24: MEMORY + CONST + 50}),
    "stub": memory(STUB + 150, 4, 0, {0: BACK}),
    "in-heap": in_heap(),
    "no-code": memory(0x900, 4, 0, {}),
}

CORPUS.mkdir(parents=True, exist_ok=True)
for name, data in FILES.items():
    (CORPUS / name).write_bytes(entry() + data)
