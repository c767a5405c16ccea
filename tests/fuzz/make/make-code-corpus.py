#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpora of fuzz-perf-map and fuzz-jitdump: files as compilers write them, and damaged ones; and
that of fuzz-code-wire: what a worker answers of them, and what none should.

usage: make-code-corpus.py tests/fuzz/corpus
"""
import pathlib
import struct
import sys

MAGIC = 0x4A695444


def header(magic=MAGIC, version=1, size=40, flags=0, order="<"):
    return struct.pack(order + "IIIIIIQQ", magic, version, size, 62, 0, 4711, 1000,
                       flags) + b"\xee" * (size - 40)


def record(kind, time, body, size=None):
    return struct.pack("<IIQ", kind, 16 + len(body) if size is None else size, time) + body


def load(time, address, code, index, name, code_size=None):
    fixed = struct.pack("<IIQQQQ", 4711, 4712, address, address,
                        len(code) if code_size is None else code_size, index)
    return record(0, time, fixed + name + b"\0" + code)


def move(time, old, new, size, index):
    return record(1, time, struct.pack("<IIQQQQQ", 4711, 4712, new, old, new, size, index))


PERF_MAPS = {
    "node": b"3a0c2c80 1c RegExp:^a\n7f2d2c0a1000 3c LazyCompile:*spin /srv/app/server.js:12\n7f2d2c0a1040 80 Builtin:Add\n",
    "java": b"0x00007f53a0b3e000 0x0000000000000038 void java.lang.Object.<init>()\n" * 3,
    "luajit": b"7ffed000 40 TRACE_1::main.lua:3\n7ffed000 60 TRACE_2::main.lua:9\n",
    "overlaps": b"1000 100 a\n1080 100 b\n1040 20 c\n0 10000 d\n2000 8 e\n",
    "many": b"".join(b"%x 10 f%d\n" % (0x1000 + i * 7 % 4096 * 16, i % 50) for i in range(900)),
    "garbage": b"\nhello\n1000\n1000 10\n1000 10 \n1000 0 x\n-1 1 x\n10000000000000000 1 x\nfffffffffffffff0 11 x\n1 1 a\0b\n",
    "crlf": b"1000 10 a b\r\n0x20 0x30 c\r\n",
    "no-end": b"1000 10 whole\n2000 10 ha",
    "long-name": b"1000 10 " + b"x" * 5000 + b"\n2000 10 y\n",
}
JITDUMPS = {
    "v8": header() + load(2000, 0x1000, b"\xcc" * 64, 0, b"LazyCompile:*spin") + record(2, 2100, b"\0" * 40) +
    load(3000, 0x2000, b"\xcc" * 16, 1, b"Builtin:Add") + move(4000, 0x1000, 0x3000, 64, 0) +
    record(3, 5000, b""),
    "cpu-clock": header(flags=1) + load(987654321, 0x1000, b"\xcc" * 8, 0, b"f"),
    "long-header": header(size=56) + load(1, 0x1000, b"\xcc" * 8, 0, b"f"),
    "big-endian": header(order=">"),
    "version-2": header(version=2) + load(1, 0x1000, b"\xcc" * 8, 0, b"f"),
    "short-record": header() + record(0, 1, b"\0" * 4) + record(2, 1, b"", 15),
    "lies": header() + load(1, 0x1000, b"\xcc" * 8, 0, b"f", 9) + load(1, 2**64 - 4, b"\xcc" * 8, 1, b"g") +
    load(1, 0x1000, b"", 2, b"h") + load(1, 0x1000, b"\xcc" * 8, 3, b"") + move(1, 1, 2, 3, 77) +
    load(9, 0x10, b"\xcc", 4, b"i"),
    "long-name": header() + load(1, 0x1000, b"\xcc" * 8, 0, b"x" * 5000) +
    load(2, 0x2000, b"\xcc" * 8, 1, b"y"),
    "huge-size": header() + record(0, 1, b"\0" * 60, 0xFFFFFFFF),
    "cut": (header() + load(2000, 0x1000, b"\xcc" * 64, 0, b"name"))[:-50],
    "moves": header() + load(1, 0x1000, b"\xcc" * 32, 5, b"f") +
    b"".join(move(2 + i, 0x1000 + i * 16, 0x1010 + i * 16, 32, 5) for i in range(20)),
}


def answer(form, *records, magic=0x434F4431, result=0, skip=0, malformed=0, n=None, size=None):
    data = b"".join(records)
    head = struct.pack("<IiQIIII", magic, result, skip, malformed,
                       len(records) if n is None else n,
                       len(data) if size is None else size, 0)
    return bytes([form]) + head + data


def said(start, size, name=b"", time=0, index=0, old=0, moved=0, n_name=None):
    return struct.pack("<QQQQQII", start, size, time, index, old,
                       len(name) if n_name is None else n_name, moved) + name


ANSWERS = {
    "map": answer(0, said(0x1000, 16, b"a"), said(0x1008, 16, b"b b"), malformed=3),
    "dump": answer(1, said(0x1000, 16, b"a", 5, 7), said(0x2000, 16, time=6, index=7, old=0x1000, moved=1),
                   skip=4000),
    "closed": answer(1, result=2),
    "nothing": answer(0),
    "unknown-move": answer(1, said(0x2000, 16, index=9, old=0x1000, moved=1)),
    "bad-magic": answer(0, said(0x1000, 16, b"a"), magic=1),
    "bad-result": answer(0, result=-1),
    "bad-skip": answer(1, skip=2**63),
    "bad-count": answer(0, said(0x1000, 16, b"a"), n=2),
    "bad-size": answer(0, said(0x1000, 16, b"a"), size=2**32 - 1),
    "bad-range": answer(0, said(2**64 - 8, 16, b"a")),
    "bad-name": answer(0, said(0x1000, 16, b"a\0b")),
    "bad-name-size": answer(0, said(0x1000, 16, b"a", n_name=2**32 - 1)),
    "map-that-moves": answer(0, said(0x2000, 16, moved=1)),
    "many": answer(1, *(said(0x1000 + i * 7 % 4096 * 16, 20, b"f%d" % i, i, i) for i in range(200))),
}


def main():
    root = pathlib.Path(sys.argv[1])
    for folder, files in (("perf-map", PERF_MAPS), ("jitdump", JITDUMPS), ("code-wire", ANSWERS)):
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (root / folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
