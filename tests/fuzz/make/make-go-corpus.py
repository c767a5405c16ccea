#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus of fuzz-go-functions: small ELF files with a table of Go, by every way in which it is
found.

usage: make-go-corpus.py tests/fuzz/corpus
"""
import pathlib
import struct
import sys

TABLE, DATA, MODULE, SECTIONS, CODE, TEXT = 0x200, 0x300, 0x310, 0x400, 0x10000, 0x10100
NAMES, UNITS, FILES, VALUES, FUNCTIONS = 0x48, 0x60, 0x60, 0x60, 0x60


def table(magic=0xF1, text=0, n=2, starts=(0, 0x40, 0x60), name_at=(0, 5),
          parts=(NAMES, UNITS, FILES, VALUES, FUNCTIONS)):
    head = bytes([magic, 255, 255, 255, 0, 0, 1, 8]) + struct.pack("<8Q", n, 1, text, *parts)
    functions = b"".join(struct.pack("<II", starts[i], 0x14 + 8 * i)
                         for i in range(2)) + struct.pack("<I", starts[2])
    return (head + b"main\0goexit\0").ljust(FUNCTIONS, b"\0") + functions + b"".join(
        struct.pack("<II", starts[i], name_at[i]) for i in range(2))


def in_place(words):
    return b"".join(struct.pack("<Q", words.get(i, 0)) for i in range(24))


def module(relocated):
    words = {
        0: TABLE, 1: TABLE + NAMES, 4: TABLE + UNITS, 7: TABLE + FILES, 10: TABLE + VALUES,
        13: TABLE + FUNCTIONS, 20: TEXT, 22: TEXT
    }
    plain = {17: 3}
    if relocated:
        return in_place(plain), b"".join(
            struct.pack("<QQQ", MODULE + 8 * i, 8, value) for i, value in words.items())
    return in_place({**words, **plain}), b""


def elf(body, name=".gopclntab", relocated=False, sections=True, size=None):
    data, rela = module(relocated)
    at = SECTIONS + 0x100
    head = b"\x7fELF\2\1\1".ljust(
        16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, SECTIONS if sections else 0, 0, 64, 56, 4,
                                 64, 3 if sections else 0, 2 if sections else 0)
    segments = [(1, 4, 0, 0, DATA, DATA), (1, 6, DATA, DATA, 0x100, 0x100), (1, 5, 0, CODE, 0, 0x1000),
                (2, 6, at, at, 48 if relocated else 0, 0)]
    if relocated:
        segments[0] = (1, 4, 0, 0, 0x700, 0x700)
    file = bytearray(0x700)
    file[:64] = head
    for i, (kind, flags, offset, address, n, memory) in enumerate(segments):
        struct.pack_into("<IIQQQQQQ", file, 64 + 56 * i, kind, flags, offset, address, address, n, memory, 8)
    file[TABLE:TABLE + len(body)] = body
    file[MODULE:MODULE + len(data)] = data
    note = struct.pack("<III", 4, 4, 4) + b"Go\0\0" + b"a/bc"
    if not sections:
        struct.pack_into("<IIQQQQQQ", file, 64 + 56 * 3, 4, 4, 0x180, 0x180, 0x180, len(note), len(note), 4)
        file[0x180:0x180 + len(note)] = note
    for i, (text, kind, offset, n) in enumerate([(0, 0, 0, 0),
                                                 (1, 1, TABLE, len(body) if size is None else size),
                                                 (0, 3, 0x4E0, 0x20)]):
        struct.pack_into("<IIQQQQIIQQ", file, SECTIONS + 64 * i, text, kind, 0, offset, offset, n, 0, 0, 8, 0)
    file[0x4E1:0x4E1 + len(name)] = name.encode()
    if relocated:
        file[at:at + 48] = struct.pack("<6Q", 7, at + 48, 8, len(rela), 0, 0)
        file[at + 48:at + 48 + len(rela)] = rela
    return bytes(file)


CORPUS = {
    "plain": elf(table()),
    "go-1.18": elf(table(0xF0, TEXT)),
    "relocated": elf(table(), relocated=True),
    "searched": elf(table(), ".go.buildinfo"),
    "no-sections": elf(table(), sections=False),
    "relro": elf(table(), ".data.rel.ro.gopclntab"),
    "table": table(),
    "go-1.16": elf(table(0xFA)),
    "count": elf(table(n=1 << 31)),
    "unordered": elf(table(starts=(0x40, 0, 0x30))),
    "same": elf(table(starts=(0, 0, 0))),
    "names": elf(table(name_at=(0x17, 0xFFFFFFFF))),
    "parts": elf(table(parts=(NAMES, 0x58, 0x50, VALUES, FUNCTIONS))),
    "short": elf(table(), size=0x70),
    "long": elf(table(), size=1 << 62),
    "far": elf(table(starts=(0, 0xFFFFFFF0, 0xFFFFFFFF))),
}

target = pathlib.Path(sys.argv[1]) / "go-functions"
target.mkdir(exist_ok=True)
for name, data in CORPUS.items():
    (target / name).write_bytes(data)
