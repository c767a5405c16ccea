#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/hotspot-walk/: an entry of bpf/runtime_abi.h, then memory with stack, code heap, segment
map and methods (fuzz-hotspot-walk.c). One file for each way to a caller.

usage: make-hotspot-walk-corpus.py  (from anywhere; the files are committed)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus/hotspot-walk"
MEMORY, SIZE = 0x20000000, 16384
HEADER, NAME, METHOD, CONST, MAP = 16, 0x3000, 0x3100, 0x3200, 0x3400
CALLEE, CALLER, STUB, INTERPRETER = 0x1000, 0x1400, 0x1800, 0x1c00
FIELDS = [(0, 8, 0), (8, 8, 0), (16, 4, 2), (20, 4, 0), (24, 8, 0), (32, 8, 0), (40, 4, 0), (48, 8, 0),
          (44, 4, 0)]
BLOBS = [(CALLEE, 0, 4, 412), (CALLER, 0, 6, 500), (STUB, 16, 0, 0), (INTERPRETER, 16, 0, 0)]


def entry():
    head = struct.pack("<7Q2I", 1, 0, 0, INTERPRETER + 80, 512, MEMORY + INTERPRETER + HEADER, STUB + 120, 1, 7)
    heaps = struct.pack("<3Q", 0, 0, MAP) + bytes(72)
    sizes = struct.pack("<6HhH", HEADER, 8, 96, 8, 32, 48, -64, 0)
    return head + heaps + sizes + b"".join(struct.pack("<HBB", *field) for field in FIELDS) + bytes(4)


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
    "no-code": memory(0x900, 4, 0, {}),
}

CORPUS.mkdir(parents=True, exist_ok=True)
for name, data in FILES.items():
    (CORPUS / name).write_bytes(entry() + data)
