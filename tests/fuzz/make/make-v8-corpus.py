#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/v8/: a shape of Code, a kind of frame, places, memory with a heap of node 22 (fuzz-v8.c);
corpus/v8-wire/: what a worker says (fuzz-v8-wire.c); and corpus/v8-walk/: an entry of
bpf/border/runtime_abi.h, places, memory with a stack, functions and code (fuzz-v8-walk.c); corpus/v8-spans/:
what is found in a file, memory with an isolate and a span (fuzz-v8-spans.c).

usage: make-v8-corpus.py  (from anywhere; pack-corpus.py packs what it writes)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus"
BASE = 0x20000000
INFO, SCRIPT, SCOPE, BYTECODE, CODE, STREAM = 274, 167, 272, 205, 206, 210
BYTES, ARRAY, WEAK, ONE_BYTE, CONS, SLICED, ODDBALL, FUNCTION = 212, 211, 213, 8, 9, 11, 131, 2066
AT = 0x3000                     # where code made at run time begins


class Heap:
    """Objects, one behind the other."""

    def __init__(self):
        self.bytes, self.end, self.maps = bytearray(0x4000), 0x200, {}

    def put(self, offset, *words):
        for i, word in enumerate(words):
            self.bytes[offset + 8 * i:offset + 8 * i + 8] = struct.pack("<Q", word & (1 << 64) - 1)

    def object(self, kind, *words, raw=b""):
        if kind not in self.maps:
            self.maps[kind] = self.end
            self.bytes[self.end + 12:self.end + 14] = struct.pack("<H", kind)
            self.end += 16
        offset = self.end
        self.put(offset, BASE + self.maps[kind] + 1, *words)
        self.bytes[offset + 8 + 8 * len(words):offset + 8 + 8 * len(words) + len(raw)] = raw
        self.end += 8 + 8 * len(words) + (len(raw) + 7) // 8 * 8
        return BASE + offset + 1

    def text(self, words):
        return self.object(ONE_BYTE, len(words) << 32, raw=words)

    def array(self, kind, data):
        return self.object(kind, len(data) << 32, raw=data)


def small(number):
    return number << 32


def function(heap, name, number, script, data=0):
    scope = heap.object(SCOPE, 0, 0, 0, heap.text(name), small(-1), heap.object(ODDBALL, 0), small(10),
                        small(38))
    return heap.object(INFO, data, scope, 0, script, 0x10001, number << 32 | 0x1234, number + 1000)


def heap_of(name=b"work"):
    heap = Heap()
    source = heap.text(b"aaaaaaaaa\nbbbbbbbbb\r\nccccccccc\rddddddddd")
    script = heap.object(SCRIPT, source, heap.text(b"file:///srv/app.js"), 0, 0, 0, 0, 0, 0)
    positions, handlers = heap.array(BYTES, bytes([2, 48, 9, 80])), heap.array(BYTES, b"\xff" * 16)
    bytecode = heap.object(BYTECODE, small(10), 0, positions, handlers, 0, 0, 0)
    own, inner = function(heap, name, 7, script, bytecode), function(heap, b"inner", 8, script)
    literals = heap.object(WEAK, small(2), 0, inner | 2)
    inlined = heap.array(BYTES, struct.pack("<2Q", 22 << 1, 1))
    data = heap.object(ARRAY, small(12), 0, 0, literals, 0, 0, 0, own, inlined, 0, 0, 0, 0)
    table = heap.array(BYTES, bytes([2, 48, 32, 0xd0, 0x80, 0x80, 0x80, 0x10]))
    heap.object(STREAM, 0)
    code = heap.object(CODE, data, table, 0, 0, BASE + AT, 256 << 32 | 13)
    heap.put(AT - 32, BASE + heap.maps[STREAM] + 1, code)
    return heap, own - BASE - 1


def named(shape, is_compiled, pc, info, rest, heap, mark=0):
    return struct.pack("<2B3HI", shape, is_compiled, pc, info, mark, rest) + bytes(heap.bytes)


def names():
    heap, own = heap_of()
    offset = 63 + 5
    yield "interpreted", named(0, 0, 0x100, own, offset, heap)
    yield "compiled", named(0, 1, AT + 100, own, 0x7fffffff, heap)
    yield "leaf", named(0, 1, AT + 8, 0, 0xffffffff, heap)
    for mark in 29, 4, 5:
        yield f"mark-{mark}", named(0, 1, AT + 8, 0, 0x7fffffff, heap, 2 * mark)
    for shape in 1, 2, 3:
        yield f"shape-{shape}", named(shape, 1, AT + 100, own, 0x7fffffff, heap)
        yield f"shape-{shape}-interpreted", named(shape, 0, 0x100, own, offset, heap)
    empty, own = heap_of(b"")
    yield "anonymous", named(0, 0, 0x100, own, offset, empty)
    circle, own = heap_of()
    pair = circle.object(CONS, small(9), BASE + circle.end + 1, BASE + circle.end + 1)
    circle.put(own + 16, pair)
    yield "circle", named(0, 0, 0x100, own, offset, circle)
    part, own = heap_of()
    part.put(own + 16, part.object(SLICED, small(3), part.text(b"xxfoo"), small(2)))
    yield "sliced", named(0, 0, 0x100, own, offset, part)
    yield "cut", named(0, 1, AT + 100, own, 0x7fffffff, part)[:0x900]


def says():
    texts = b"work\0/srv/app.js\0"
    yield "name", b"n" + struct.pack("<2Ii2I", 0x56384a31, 2, 0, 1, len(texts)) + struct.pack(
        "<2I2H", 12, 10, 5, 12) + texts
    yield "short", b"n" + struct.pack("<2Ii2I", 0x56384a31, 2, 2, 1, len(texts)) + struct.pack(
        "<2I2H", 0, 0, 5, 12) + texts
    yield "gone", b"n" + struct.pack("<2Ii2I", 0x56384a31, 2, 1, 0, 0)
    yield "too-long", b"n" + struct.pack("<2Ii2I", 0x56384a31, 2, 0, 1, 9) + struct.pack(
        "<2I2H", 1, 1, 5, 99) + texts
    yield "opened", b"o" + bytes(1024)
    yield "torn", b"o" + b"\xff" * 1024


def walks():
    heap, own = heap_of()
    entry = struct.pack("<4Q12H", 1, 0x55000000, 0x1000, 1 << 4, 12, 32, 40, 1, INFO, BYTECODE, CODE, 32, 40, 0,
                        0, 0) + bytes(24)
    callee = heap.object(FUNCTION, 0, 0, 0, BASE + own + 1)
    bytecode = BASE + heap.end + 1
    heap.object(BYTECODE, 0)
    for i in range(6):
        bp = 0x2000 + 0x80 * i
        heap.put(bp - 40, small(70), bytecode if i % 2 else 0, 0, callee, BASE + 1, BASE + bp + 0x80,
                 BASE + AT + 100)
    places = struct.pack("<4H", AT + 200, 0x1fc0, 0x2000, 0x3000)
    yield "frames", entry + places + bytes(heap.bytes)
    heap.put(0x2078, 4 << 1)
    yield "marked", entry + places + bytes(heap.bytes)
    heap.bytes[AT:AT + 4] = b"\x55\x48\x89\xe5"
    heap.put(0x1fc0, BASE + AT + 100)
    heap.bytes[AT + 95] = 0xe8
    yield "prologue", entry + struct.pack("<4H", AT, 0x1fc0, 0x2000, callee - BASE - 5) + bytes(heap.bytes)
    heap.bytes[AT + 180:AT + 185] = b"\x48\x8b\xe5\x5d\x59"
    yield "epilogue", entry + places + bytes(heap.bytes)
    yield "builtin", struct.pack("<3Q", 1, BASE, 0x4000) + entry[24:] + places + bytes(heap.bytes)


class Spans:
    """Objects of JavaScript, and texts, behind the first 1 KiB of an isolate."""
    TEXT, MAP, OBJECT, SYMBOL = 8, 2112, 1057, 128

    def __init__(self):
        self.bytes, self.end = bytearray(0x4000), 0x400

    def put(self, *words):
        address = self.end
        self.bytes[address:address + 8 * len(words)] = struct.pack(f"<{len(words)}Q", *words)
        self.end += 8 * len(words)
        return BASE + address | 1

    def hidden(self, kind, names=(), n_inside=0):
        properties = [word for i, name in enumerate(names) for word in (name, (i << 19 | 4 << 6) << 32, 0)]
        keys = self.put(1, 0, 0, *properties)
        return self.put(1, 3 + n_inside | 3 << 8 | kind << 32, len(names) << 10, 0, 0, keys)

    def text(self, text, kind=TEXT):
        raw = text.encode()
        raw += bytes(-len(raw) % 8)
        return self.put(self.hidden(kind), len(text) << 32, *struct.unpack(f"<{len(raw) // 8}Q", raw))

    def object(self, **values):
        others = self.put(1, 0, *list(values.values())[2:])
        hidden = self.hidden(self.OBJECT, [self.text(name) for name in values], min(len(values), 2))
        return self.put(hidden, others, 0, *list(values.values())[:2])

    def map(self, *pairs):
        table = self.put(1, small(3 + 7 * 4), small(len(pairs)), 0, small(4), 0, 0, 0, 0,
                         *[word for pair in pairs for word in (*pair, 0)])
        return self.put(self.hidden(self.MAP), 0, 0, table)


def spans():
    cases = ("span", {}, "4bf92f3577b34da6a3ce929d0e0e4736"), ("remote", {"isRemote": 1}, "5" * 32), ("no-id", {}, "x" * 32)
    for name, extra, text in cases:
        heap = Spans()
        for key in extra:
            extra[key] = heap.put(heap.hidden(131), 0, 0, 0, 0, small(1))
        context = heap.object(traceId=heap.text(text), spanId=heap.text("00f067aa0ba902b7"), **extra)
        key = heap.put(heap.hidden(heap.SYMBOL), 0, heap.text("OpenTelemetry Context Key SPAN"))
        span = heap.object(kind=0, name=0, _spanContext=context)
        current = heap.object(_currentContext=heap.map((key, span)))
        heap.bytes[632:640] = struct.pack("<Q", heap.map((1, heap.object(url=0)), (1, current)))
        yield name, struct.pack("<q8H", -8, 632, heap.MAP, heap.OBJECT, heap.SYMBOL, 24, 0, 0, 0) + bytes(
            heap.bytes[:heap.end])


def main():
    for folder, files in ("v8", names()), ("v8-wire", says()), ("v8-walk", walks()), ("v8-spans", spans()):
        (CORPUS / folder).mkdir(parents=True, exist_ok=True)
        for name, data in files:
            (CORPUS / folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
