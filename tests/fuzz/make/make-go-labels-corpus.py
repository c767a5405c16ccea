#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/go-labels/ (memory of a program of Go, fuzz-go-labels.c) and corpus/go-program/ (executables
of Go, as small as the parts that are looked at).

usage: make-go-labels-corpus.py  (from anywhere; the files are committed)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus"
SIZE = 8192
M, G, SET, TABLE, OLD, TEXTS = 0x100, 0x300, 0x500, 0x600, 0x1200, 0x1800
IDS = {"span_id": "0011223344556677", "trace_id": "00000000000000010000000000000abc", "tenant": "blue"}
DATADOG = {"local root span id": "77", "span id": "1234567890123456789", "trace endpoint": "GET /x"}


class Memory:
    def __init__(self, labels):
        self.data, self.end = bytearray(SIZE), TEXTS
        for at, to in ((0, G), (G + 48, M), (M + 192, G), (G + 344, SET)):
            self.point(at, to)
        self.put(G + 152, 4711)
        self.labels = labels

    def put(self, at, value):
        self.data[at:at + 8] = struct.pack("<Q", value)

    def point(self, at, to):
        self.put(at, 1 << 32 | to)

    def string(self, at, text):
        self.data[self.end:self.end + len(text)] = text.encode()
        self.point(at, self.end)
        self.put(at + 8, len(text))
        self.end += len(text)

    def slice(self):
        self.point(SET, TABLE)
        self.put(SET + 8, len(self.labels))
        self.put(SET + 16, len(self.labels))
        for i, (key, value) in enumerate(self.labels.items()):
            self.string(TABLE + 32 * i, key)
            self.string(TABLE + 32 * i + 16, value)
        return b"\0" + self.data

    def custom(self):
        """custom_labels_current_set: sizes come before addresses; the second label has lost its key."""
        data = bytearray(self.slice()[1:])
        for at in range(TABLE, TABLE + 32 * len(self.labels), 16):
            data[at:at + 16] = data[at + 8:at + 16] + data[at:at + 8]
        data[TABLE + 40:TABLE + 48] = bytes(8)
        return b"\4" + data

    def map(self, shift=0, old=False):
        self.point(SET, SET + 64)
        self.put(SET + 64, len(self.labels))
        self.put(SET + 72, shift << 8)
        self.point(SET + 80, TABLE)
        if old:
            self.point(SET + 88, OLD)
        for i, (key, value) in enumerate(self.labels.items()):
            bucket = (OLD if old and i % 2 else TABLE) + 272 * (i % (1 << shift) if not old else 0)
            self.data[bucket + i % 8] = 100 + i % 100
            self.string(bucket + 8 + 16 * (i % 8), key)
            self.string(bucket + 136 + 16 * (i % 8), value)
        return b"\1" + self.data


def program(version=b"go1.26.8", tls=0, symbol=None, code=b"", kind=2, machine=62, words=(), flags=None):
    """An ELF file: text, build info, symbols, names of sections. @words: (address, addend) of what a dynamic
    linker sets to the place of a variable. @flags: the dynamic section's DT_FLAGS_1."""
    names = b"\0.text\0.go.buildinfo\0.symtab\0.strtab\0.shstrtab\0.rela.dyn\0"
    info = b"\xff Go buildinf:\x08\x02".ljust(32, b"\0") + bytes([len(version)]) + version
    strings = b"\0runtime.tlsg\0"
    symbols = b"" if symbol is None else bytes(24) + struct.pack("<IBBHQQ", 1, 6, 0, 1, symbol, 8)
    parts = [(".text", 1, code), (".go.buildinfo", 1, info.ljust(96, b"\0")), (".symtab", 2, symbols),
             (".strtab", 3, strings), (".shstrtab", 3, names)]
    if words:
        parts.insert(0, (".rela.dyn", 4, b"".join(struct.pack("<QQQ", word, 18, addend) for word, addend in words)))
    links = [part[0] for part in parts].index(".strtab") + 1
    dynamic = b"" if flags is None else struct.pack("<QQQQ", 0x6ffffffb, flags, 0, 0)
    n = 3 if dynamic else 2
    at, body, headers = 64 + n * 56, b"", [bytes(64)]
    for name, type_, data in parts:
        headers.append(struct.pack("<IIQQQQIIQQ", names.index(name.encode() + b"\0"), type_, 2, at, at + len(body),
                                   len(data), links, 0, 1, 24 if type_ in (2, 4) else 0))
        body += data
    text = at + (24 * len(words) if words else 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, text, text, text, len(code), len(code), 4096)
    block = struct.pack("<IIQQQQQQ", 7 if tls else 0, 4, 0, 0, 0, 0, tls, 16)
    if dynamic:
        block += struct.pack("<IIQQQQQQ", 2, 6, at + len(body), 0, 0, len(dynamic), len(dynamic), 8)
        body += dynamic
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", kind, machine, 1, 0, 64, at + len(body), 0,
                                                           64, 56, n, 64, len(headers), len(headers) - 1)
    return head + load + block + body + b"".join(headers)


def write(name, files):
    directory = CORPUS / name
    directory.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        (directory / path).write_bytes(data)


DIRECT = bytes.fromhex("644c8b342580ffffff90")
INDIRECT = bytes.fromhex("49c7c680ffffff644d8b3690")
MANY = {f"label-{i}": "v" for i in range(60)}
write("go-labels", {
    "slice": Memory(IDS).slice(), "slice-datadog": Memory(DATADOG).slice(), "slice-many": Memory(MANY).slice(),
    "custom": Memory({**IDS, **DATADOG}).custom(), "custom-many": Memory(MANY).custom(),
    "map": Memory(IDS).map(), "map-datadog": Memory(DATADOG).map(), "map-two-buckets": Memory(IDS).map(1),
    "map-grows": Memory({**IDS, **DATADOG}).map(1, True), "nothing": b"\0", "record": b"\2" + bytes(7) + b"\1\1ab",
})
# adder and adder-short are the file of add_adder() in tests/unit/host/sampling/unwind/test-go-rows.c.
write("go-program", {
    "static": program(), "devel": program(b"devel go1.28-abc"), "old": program(b"go1.17"), "tls-only": program(tls=8),
    "symbol": program(tls=0x84, symbol=16), "direct": program(tls=0x84, code=DIRECT * 2 + bytes(64)),
    "indirect": program(tls=0x84, code=INDIRECT * 2 + bytes(64)), "two-places": program(
        tls=0x84, code=DIRECT + DIRECT.replace(b"\x80", b"\x88") + bytes(64)), "library": program(kind=3),
    "library-word": program(tls=8, kind=3, words=[(0x1fb8, 0)]), "library-stripped": program(
        tls=24, kind=3, words=[(0x1fb8, 0), (0x1fc0, 8)], flags=8), "library-symbol": program(
            tls=24, kind=3, symbol=8, words=[(0x1fb8, 0), (0x1fc0, 8)]), "static-pie": program(kind=3, flags=1 << 27),
    "arm64": program(tls=0x84, machine=183),
})
