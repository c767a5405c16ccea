#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus of fuzz-go-rows: small ELF files with a table of Go, of which each function is of another
kind, with lines and trees of inlined calls.

usage: make-go-rows-corpus.py tests/fuzz/corpus
"""
import pathlib
import struct
import sys

DATA, TABLE, SECTIONS, CODE_AT, SIZE = 0x400, 0x600, 0xC00, 0xE00, 0x1200
CODE, PARTS = 0x10000, (0x48, 0x148, 0x150, 0x160, 0x220)       # names, units, files, values, functions
TREES, TOP, SP_WRITE, ASSEMBLY = 0x5C0, 1, 2, 4
FRAME = b"\x02\x01\x10\x08\x20\x10\x2f\x01\0"
# (name, flags, stream of sizes, code)
FUNCTIONS = [
    ("main.main", 0, FRAME, b""),
    ("main.old", 0, b"\x02\x04\x30\x20\0", b""),
    ("a", ASSEMBLY, b"\x02\x01\x10\x08\0", b"\x55\x48\x89\xe5"),
    ("runtime.goexit", TOP, b"\x02\x10\0", b""),
    ("runtime.sigreturn", ASSEMBLY, b"\x02\x09\0", b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05"),
    ("runtime.systemstack", SP_WRITE | ASSEMBLY, b"\x02\x01\x10\x10\x0f\x01\0", b"\x55\x48\x89\xe5"),
    ("runtime.mcall", SP_WRITE | ASSEMBLY, b"\x02\x01\x10\x08\x10\x08\0", b"\x55\x48\x89\xe5"),
]


def elf(functions=FUNCTIONS, magic=0xF1, step=0x40, tree=TREES, calls=((10, 3, 7), (0, 9, 1)), trim=SIZE):
    names, values, records, index = b"", b"\0", b"", b""
    new = magic == 0xF1
    at = PARTS[4] + 8 * len(functions) + 4
    at += -at % 8
    values += b"\x02\x20\0" + b"\x1a\x04\x02\x10\0" + b"\x02\x04\x02\x04\x03\x08\0"      # files, lines, calls
    file = bytearray(SIZE)
    for i, (name, flags, stream, code) in enumerate(functions):
        record = struct.pack("<IIiIIIIIi", i * step, len(names), 0, 0, len(values), 1, 4, 3, 0)
        record += (struct.pack("<i", 12) if new else b"") + bytes([0, flags, 0, 4])
        record += struct.pack("<7I", 0, 0, 9, *[0xFFFFFFFF] * 3, 0)
        index += struct.pack("<II", i * step, at + len(records) - PARTS[4])
        names, values, records = names + name.encode() + b"\0", values + stream, records + record
        file[CODE_AT + i * step:CODE_AT + i * step + len(code)] = code
    index += struct.pack("<I", len(functions) * step)
    table = bytearray(0x600)
    table[:0x48] = bytes([magic, 255, 255, 255, 0, 0, 1, 8]) + struct.pack("<8Q", len(functions), 1, 0, *PARTS)
    for part, data in zip(PARTS, (names, struct.pack("<I", 0), b"main.go\0", values, index)):
        table[part:part + len(data)] = data
    table[at:at + len(records)] = records
    file[TABLE:TABLE + 0x600] = table[:0x600]
    file[:64] = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, SECTIONS + 0x40, 0, 64, 56, 3, 64, 3, 2)
    for i, (flags, offset, address, n) in enumerate(((4, 0, 0, SECTIONS), (6, DATA, DATA, 0x200),
                                                     (5, CODE_AT, CODE, 0x400))):
        struct.pack_into("<IIQQQQQQ", file, 64 + 56 * i, 1, flags, offset, address, address, n, n, 8)
    words = {0: TABLE, 17: len(functions) + 1, 20: CODE, 22: CODE, 40: tree}
    words.update({1 + 3 * i: TABLE + part for i, part in enumerate(PARTS)})
    for i, word in words.items():
        struct.pack_into("<Q", file, DATA + 8 * i, word)
    for i, (name, pc, line) in enumerate(calls):
        struct.pack_into("<IIII" if new else "<12xII", file, TREES + i * (16 if new else 20),
                         *((0, name, pc, line) if new else (name, pc)))
    file[SECTIONS + 1:SECTIONS + 11] = b".gopclntab"
    struct.pack_into("<IIQQQQIIQQ", file, SECTIONS + 0x80, 1, 1, 0, TABLE, TABLE, 0x600, 0, 0, 0, 0)
    struct.pack_into("<IIQQQQIIQQ", file, SECTIONS + 0xC0, 0, 3, 0, 0, SECTIONS, 0x40, 0, 0, 0, 0)
    return bytes(file[:trim])


CORPUS = {
    "plain": elf(),
    "go-1.18": elf(magic=0xF0),
    "calls-in-circles": elf(calls=((0, 0, 1), (10, 4, 1))),
    "calls-elsewhere": elf(calls=((0, 1 << 31, 1), (0, 9, 1))),
    "no-trees": elf(tree=1 << 40),
    "same-place": elf(step=0),
    "overlong": elf([("main.main", 0, b"\x02\xff\xff\xff\xff\x0f\0", b"")]),
    "negative": elf([("main.main", 0, b"\x03\x10\0", b"")]),
    "huge-frame": elf([("main.main", 0, b"\xfe\xff\xff\xff\x0f\x10\0", b"")]),
    "endless": elf([("main.main", 0, b"\x02\x01" * 40, b"")]),
    "no-code": elf(trim=CODE_AT),
}

target = pathlib.Path(sys.argv[1]) / "go-rows"
target.mkdir(exist_ok=True)
for name, data in CORPUS.items():
    (target / name).write_bytes(data)
