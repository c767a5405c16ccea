#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/gdb-list/: memory with a list of code for debuggers in it, right ones and others, and what a
worker says of them (fuzz-gdb-list.c).

usage: make-gdb-list-corpus.py  (from anywhere; pack-corpus.py packs what it writes)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus" / "gdb-list"
BASE = 0x20000000
ENTRIES, IMAGES, IMAGE_SIZE = 0x40, 0x200, 0x200


def image(functions, type=1, text=0x10000, text_size=0x1000, names_size=None):
    """An ELF image whose code is at text; functions: (name, value, size, section)."""
    names, symbols = b"\0", bytes(24)
    for name, value, size, section in functions:
        symbols += struct.pack("<IBBHQQ", len(names), 0x12, 0, section, value, size)
        names += name + b"\0"
    sections = [bytes(64),
                struct.pack("<IIQQQQIIQQ", 0, 8, 6, text, 0, text_size, 0, 0, 16, 0),
                struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, 64, len(symbols), 3, 0, 8, 24),
                struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64 + len(symbols),
                            len(names) if names_size is None else names_size, 0, 0, 1, 0)]
    body = symbols + names
    body += bytes(-len(body) % 8)
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", type, 62, 1, 0, 0, 64 + len(body), 0,
                                                       64, 0, 0, 64, 4, 0)
    return header + body + b"".join(sections)


def memory(images, version=1, links=None, sizes=None):
    """links: (next, previous) of each entry by its number, -1 = none."""
    def at(i):
        return BASE + ENTRIES + 32 * i if i >= 0 else 0

    n = len(images)
    links = links or [(i + 1 if i + 1 < n else -1, i - 1) for i in range(n)]
    data = bytearray(IMAGES + IMAGE_SIZE * n)
    data[:24] = struct.pack("<IIQQ", version, 1, at(n - 1), at(0 if n else -1))
    for i, (following, previous) in enumerate(links):
        size = (sizes or {}).get(i, len(images[i]))
        data[ENTRIES + 32 * i:ENTRIES + 32 * (i + 1)] = struct.pack("<QQQQ", at(following), at(previous),
                                                                    BASE + IMAGES + IMAGE_SIZE * i, size)
        data[IMAGES + IMAGE_SIZE * i:IMAGES + IMAGE_SIZE * i + len(images[i])] = images[i]
    return bytes(data)


GOOD = image([(b"hot", 0x10, 0x20, 1), (b"_ZN3foo3barEv", 0x40, 0x30, 1)])
FILES = {
    "empty": memory([]),
    "one": memory([GOOD]),
    "three": memory([GOOD, image([(b"x", 0, 1, 1)], text=0x20000), GOOD]),
    "library": memory([image([(b"f", 0x10010, 8, 1), (b"g", 8, 8, 1)], type=3)]),
    "version-2": memory([GOOD], version=2),
    "circle": memory([GOOD, GOOD], links=[(1, -1), (0, 0)]),
    "itself": memory([GOOD], links=[(0, -1)]),
    "wrong-way": memory([GOOD, GOOD], links=[(1, -1), (-1, 1)]),
    "no-elf": memory([b"nothing of the kind" * 9]),
    "beyond-section": memory([image([(b"f", 0xff8, 0x20, 1), (b"g", 2**64 - 8, 0x20, 1)])]),
    "no-section": memory([image([(b"f", 0, 1, 9), (b"g", 0, 1, 0xfff1), (b"h", 0, 1, 2)])]),
    "high-text": memory([image([(b"f", 0, 32, 1)], text=2**64 - 16)]),
    "long-names": memory([image([(b"f", 0, 32, 1)], names_size=2**64 - 1)]),
    "short-image": memory([GOOD], sizes={0: 8}),
    "long-image": memory([GOOD, GOOD], sizes={0: 1 << 40}),
    "cut-image": memory([GOOD], sizes={0: len(GOOD) - 32}),
    "past-the-end": memory([GOOD], sizes={0: 1 << 16}),
    "bad-mangled": memory([image([(b"_ZN" + b"S_" * 60, 0, 8, 1), (b"_R" + b"Nv" * 40, 8, 8, 1)])]),
}


def record(start, size, name, is_move=0):
    return struct.pack("<QQQQQII", start, size, 0, 0, 0, len(name), is_move) + name


def answer(records, n=None, result=0, images=1):
    return b"a" + struct.pack("<IiQIIIIII", 0x47444231, result, 0, images, 0, 0,
                              n if n is not None else 1, len(records), 0) + records


FILES |= {
    "a-good": answer(record(0x1000, 16, b"f")),
    "a-two": answer(record(0x1000, 16, b"f") + record(0x2000, 16, b"g"), n=2),
    "a-count": answer(record(0x1000, 16, b"f"), n=2),
    "a-move": answer(record(0x1000, 16, b"", 1)),
    "a-nul": answer(record(0x1000, 16, b"f\0g")),
    "a-wrap": answer(record(2**64 - 8, 16, b"f")),
    "a-changed": answer(record(0x1000, 16, b"f"), result=2),
    "a-many": answer(record(0x1000, 16, b"f"), images=5000),
    "a-short": answer(record(0x1000, 16, b"f"))[:30],
}

CORPUS.mkdir(parents=True, exist_ok=True)
for name, data in FILES.items():
    (CORPUS / name).write_bytes(data)
