#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus of fuzz-symbol-wire: what a worker answers of a file's symbols, and what none should.

usage: make-symbol-wire-corpus.py tests/fuzz/corpus
"""
import pathlib
import struct
import sys

MAGIC, WANT, TABLE = 0x53594D31, 0, 1
NAMED, DYNAMIC, STRIPPED = 0, 1, 6


def answer(functions, names, *, kind=TABLE, base=0x1000, state=NAMED, full=None, n=None, size=None, link=b"",
           go=0, magic=MAGIC):
    head = struct.pack("<IIQIIIIII256s", magic, kind, base, state,
                       int(state == NAMED if full is None else full),
                       len(functions) if n is None else n,
                       len(names) if size is None else size, 0, go, link)
    return head + b"".join(struct.pack("<II", *f) for f in functions) + names


CORPUS = {
    "three": answer([(0, 16), (16, 16), (32, 16)], b"alpha\0b\0_Z3foo\0"),
    "go": answer([(0, 16)], b"main.main\0", go=1),
    "stripped-go": answer([], b"", state=STRIPPED, go=2),
    "dynamic": answer([(0, 1)], b"f\0", state=DYNAMIC),
    "stripped": answer([], b"", state=STRIPPED),
    "want": answer([], b"", kind=WANT, link=b"libc.debug"),
    "nested": answer([(0, 1000), (10, 20), (12, 4), (40, 10), (2000, 1)], b"a\0b\0c\0d\0e\0"),
    "deep": answer([(i, 4096 - 2 * i) for i in range(100)], b"f\0" * 100),
    "huge-sizes": answer([(i * 7, 0xFFFFFFFF) for i in range(70)], b"g\0" * 70),
    "end": answer([(0, 1), (15, 0xFFFFFFFF)], b"a\0b\0", base=2**64 - 16),
    "far": answer([(0, 1), (0xFFFFFFFF, 1)], b"a\0b\0"),
    "long-name": answer([(0, 1)], b"n" * 4096 + b"\0"),
    "lie-wrap": answer([(0, 1), (16, 1)], b"a\0b\0", base=2**64 - 16),
    "lie-order": answer([(0, 1), (16, 1), (16, 1)], b"a\0b\0c\0"),
    "lie-first": answer([(1, 1)], b"a\0"),
    "lie-empty": answer([(0, 0)], b"a\0"),
    "lie-no-name": answer([(0, 1), (1, 1)], b"abc\0\0"),
    "lie-open-name": answer([(0, 1), (1, 1)], b"a\0bc"),
    "lie-more-names": answer([(0, 1)], b"a\0b\0"),
    "lie-longer-name": answer([(0, 1)], b"n" * 4097 + b"\0"),
    "lie-n": answer([(0, 1)], b"a\0", n=0xFFFFFFFF),
    "lie-size": answer([(0, 1)], b"a\0", size=0xFFFFFFFF),
    "lie-state": answer([(0, 1)], b"a\0", state=8),
    "lie-full": answer([(0, 1)], b"a\0", full=0),
    "lie-go": answer([(0, 1)], b"a\0", go=3),
    "lie-link": answer([], b"", kind=WANT, link=b"../shadow"),
    "lie-open-link": answer([], b"", kind=WANT, link=b"x" * 256),
    "cut": answer([(0, 16), (16, 16)], b"alpha\0b\0")[:-1],
}

target = pathlib.Path(sys.argv[1]) / "symbol-wire"
target.mkdir(exist_ok=True)
for name, data in CORPUS.items():
    (target / name).write_bytes(data)
