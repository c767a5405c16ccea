#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/python/: a release, a position, words of _PyRuntime, memory with a code object
(fuzz-python.c); and corpus/python-walk/: an entry of bpf/border/runtime_abi.h, then memory with a thread
state, frames and a native stack of frame pointers (fuzz-python-walk.c); and corpus/python-task/: words of a
section, an object (fuzz-python-task.c); and corpus/python-spans/: what was learned of an SDK, memory with
objects on the way to a span (fuzz-python-spans.c);
and corpus/python-program/: small ELF files (fuzz-python-program.c);
and corpus/python-wire/: what a worker says (fuzz-python-wire.c).

usage: make-python-corpus.py  (from anywhere; pack-corpus.py packs what it writes)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus"
BASE = 0x20000000
WORDS_3_13 = [
    0x7970677562656478, 0x30d0ff0, 0, 283408, 608, 632, 194984, 7272, 7264, 7344, 7400, 7656, 7640, 7648,
    16, 7752, 0, 7768, 7760, 312, 0, 8, 16, 72, 152, 160, 232, 32, 80, 8, 0, 56, 72, 70, 208, 112, 120,
    128, 136, 68, 52, 96, 104, 200, 16, 8, 416, 24, 88, 168, 32, 24, 16, 40, 24, 16, 48, 32, 40, 24, 16,
    32, 16, 24, 40, 16, 32, 64, 32, 16, 40, 240, 200
]
TABLES = {
    "lnotab": (9, bytes([0, 1, 6, 1, 8, 0xfe, 4, 10])),
    "ranges": (10, bytes([6, 1, 8, 0x80, 4, 2])),
    "locations": (11, bytes([0xf8, 0xd1, 4, 8, 0x80, 0x12, 0xe0, 0, 9, 0xe8, 3, 0xf7, 0x48, 3, 1, 2, 3])),
    "described": (0, bytes([128, 0, 240, 2, 3, 5, 19, 221, 8, 9, 137, 3, 140, 3, 136, 3, 248])),
}
# release → name, file, table, first line, bytes' data, ascii's data, first instruction
LAYOUTS = {9: (112, 104, 120, 40, 32, 48, 0), 10: (112, 104, 120, 40, 32, 48, 0),
           11: (128, 112, 136, 72, 32, 48, 184),
           0: (128, 112, 136, 68, 32, 40, 200)}


def code(release, table, text, width):
    name, file, lines, first, data, ascii_data, start = LAYOUTS[release]
    memory = bytearray(0x600)
    for at, value in ((name, BASE + 0x200), (file, BASE + 0x300), (lines, BASE + 0x400)):
        memory[at:at + 8] = struct.pack("<Q", value)
    memory[first:first + 4] = struct.pack("<I", 12)
    for at, bits in ((0x200, width << 2 | 32 | (64 if width == 1 else 0)), (0x300, 1 << 2 | 32 | 64)):
        memory[at + 16:at + 24] = struct.pack("<Q", len(text) // width if at == 0x200 else 5)
        memory[at + 32:at + 36] = struct.pack("<I", bits)
    place = 0x200 + (ascii_data if width == 1 else ascii_data + (16 if release == 0 else 24))
    memory[place:place + len(text)] = text
    memory[0x300 + ascii_data:0x305 + ascii_data] = b"/a.py"
    memory[0x410:0x418] = struct.pack("<Q", len(table))
    memory[0x400 + data:0x400 + data + len(table)] = table
    words = struct.pack("<104Q", *(WORDS_3_13 + [0] * 104)[:104])
    return struct.pack("<BI", release, start + 4) + words + bytes(memory)


# types of coroutines; running, name, awaited_by, is_set, coroutine, frame, state, code, position, stack;
# states
TASKS = struct.pack("<2Q10H4B", BASE + 0x2200, 0, 32, 0, 16, 24, 8, 32, 16, 32, 48, 64, 0xfe, 0xff, 8, 0)
# the section .AsyncioDebug of 3.14, and a number and a text as names
SECTION_3_14 = [168, 136, 96, 108, 109, 128, 152, 225864, 10880, 936, 864, 872, 880]
NAMES = {
    "number": struct.pack("<4QI", 1, 0x100, 1 << 3 | 4, 17, 0),
    "text": struct.pack("<4QII", 1, 0x200, 5, 0, 0x190000, 0) + b"alpha",
    "wide": struct.pack("<4QII", 1, 0x200, 7, 0, 0x0a0000, 0) + bytes(16) +
            "Gr\u00fc\u00dfe \u03b3".encode("utf-16le"),
}


def entry(chain, **more):
    fields = dict(generation=1, interpreters=BASE + 0x1000, code_type=0, evaluator=0x10000, size=0x1000)
    fields.update(root=0, root_size=0, lock=0, lock_pointer=0, lock_begin=0, lock_end=0, reserved=0)
    fields.update(more)
    offsets = (0, 8, 40, 8, 16, 24, 0, 8, 32, 0, 8, 16, 24, 40, 8, 16, 24, 32)
    return struct.pack("<8Q4HI18H", *fields.values(), chain, *offsets) + TASKS


def walk(chain, frames, native, **more):
    memory = bytearray(16384)

    def put(at, *words):
        memory[at:at + 8 * len(words)] = struct.pack(f"<{len(words)}Q", *words)

    put(0x1000, BASE + 0x1100)
    put(0x1100, 0, BASE + 0x1200)
    put(0x1200, 0, 0, 0x4242, native or BASE + frames[0][0])
    for place, code_at, previous, owner in frames:
        put(place, BASE + code_at if code_at else 0, BASE + previous if previous else 0, BASE + code_at + 100,
            owner)
        if code_at:
            put(code_at, 0, 0, BASE + 0x2000, BASE + 0x2100, 12)
    for i in range(1, 8):           # rbp chain: frames of 64 bytes
        put(64 * i, BASE + 64 * (i + 1) if i < 7 else 0, 0x10010 + i)
    memory[0] = 1
    return entry(chain, **more) + bytes(memory)


def interpreters():
    """SHIMS, and the same thread in a second interpreter, whose mark lies further out."""
    memory = bytearray(walk(3, SHIMS, 0))
    start = len(entry(3))

    def put(at, *words):
        memory[start + at:start + at + 8 * len(words)] = struct.pack(f"<{len(words)}Q", *words)

    put(0x1100, BASE + 0x1180)
    put(0x1180, 0, BASE + 0x1300)
    put(0x1300, 0, 0, 0x4242, BASE + 0x1a00)
    put(0x1a00, BASE + 0x3000, BASE + 0x160, BASE + 0x3010, 0)
    put(0x160, 0, 0, 0, 3)
    return bytes(memory)


def program(strings, symbols, runtime, version=0):
    """A small ELF file with .PyRuntime and, if there are symbols, a symbol table."""
    names = b"\0.PyRuntime\0.symtab\0.strtab\0.shstrtab\0"
    base, text = 0x10000, b"\0" + b"\0".join(strings) + b"\0"
    table = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", text.index(b"\0" + name + b"\0") + 1, 0x11, 0, 1, base + at, 64)
        for name, at in symbols)
    parts, offset, sections = [], 64 + 56 + 5 * 64, [bytes(64)]
    for name, kind, data, link in ((b".PyRuntime", 1, runtime, 0), (b".symtab", 2, table, 3),
                                   (b".strtab", 3, text, 0), (b".shstrtab", 3, names, 0)):
        at = names.index(name) if symbols or kind != 2 else 0
        sections.append(struct.pack("<IIQQQQIIQQ", at, kind, 3 if kind == 1 else 0, base + offset, offset,
                                    len(data), link, 0, 8, 24))
        parts.append(data)
        offset += len(data)
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, 120, 0, 64,
                                                           56, 1, 64, 5, 4)
    segment = struct.pack("<IIQQQQQQ", 1, 4, 0, base, base, offset + 8, offset + 8, 8)
    return head + segment + b"".join(sections) + b"".join(parts) + struct.pack("<Q", version)


def awaiting():
    """SHIMS, whose second frame is that of a task's coroutine, with two awaiters."""
    memory = bytearray(walk(3, SHIMS, 0))
    start = len(entry(3))

    def put(at, *words):
        memory[start + at:start + at + 8 * len(words)] = struct.pack(f"<{len(words)}Q", *words)

    put(0x1220, BASE + 0x2400)                                          # running task
    for i in range(3):
        awaiter = BASE + 0x2440 + 64 * i if i < 2 else 0
        put(0x2400 + 64 * i, BASE + 0x2600, BASE + 0x2800 + 256 * i, awaiter, 0)
        put(0x2800 + 256 * i, 1, BASE + 0x2200, 0xff if i else 0, 0, BASE + 0x3000, 0, BASE + 0x3010, 1,
            BASE + 0x2700 + 8)
    put(0x2820, BASE + 0x3040, BASE + 0x60, BASE + 0x3050, 1)
    put(0x1808, BASE + 0x2820)
    return bytes(memory)


class Spans:
    """Objects on the way to a span, as a release lays them out. Types and keys are numbers that are compared."""
    CONTEXT, HAMT, MAPPING = BASE + 0x400, BASE + 0x500, BASE + 0x600
    NODE, KEYS = BASE + 0x1000, BASE + 0x3000
    SPAN, VALUES, DICT, NAMES, IDS = BASE + 0x700, BASE + 0x800, BASE + 0x900, BASE + 0xa00, BASE + 0xc00
    TRACE, NUMBER, PARENT, TEXT = BASE + 0xd00, BASE + 0xe00, BASE + 0x2800, BASE + 0x2a00
    (TYPE_CONTEXT, VARIABLE, TYPE_HAMT, BITMAP, ARRAY, COLLISION, TYPE_MAPPING, TYPE_DICT, KEY, NAME,
     TYPE_IDS, TYPE_NUMBER, LOCAL, NONE) = range(0x770001, 0x77000f)
    TYPE_SPAN, HASH = 0x770100, 0x12345678

    def __init__(self, minor, head=16):
        self.minor, self.head, self.memory = minor, head, bytearray(16384)
        self.items = head + (16 if minor >= 14 else 8)
        self.values = 0 if minor < 11 else min(minor, 13) - 10
        self.context = 240 if minor < 11 else 224 if minor == 11 else 208
        self.before = 8 if head == 32 else (0, 32, 24, 24)[self.values]
        self.all()

    def put(self, at, *words):
        self.memory[at - BASE:at - BASE + 8 * len(words)] = struct.pack(f"<{len(words)}Q", *words)

    def object(self, at, kind, *fields):
        self.put(at + self.head - 8, kind, *fields)

    def number(self, at, value):
        digits = []
        while value:
            digits.append(value & (1 << 30) - 1)
            value >>= 30
        self.object(at, self.TYPE_NUMBER, len(digits) if self.minor < 12 else len(digits) << 3)
        start = at + self.head + 8 - BASE
        self.memory[start:start + 4 * len(digits)] = struct.pack(f"<{len(digits)}I", *digits)

    def keys(self, at, *pairs, n=None):
        n = len(pairs) if n is None else n
        if self.minor < 11:
            self.put(at, 1, 8, 0, 0, n)
        else:
            self.put(at, 1, 3 << 8 | 1 << 16, 0, n)
        for i, pair in enumerate(pairs):
            self.put(at + (48 + 24 * i + 8 if self.minor < 11 else 40 + 16 * i), *pair)

    def bitmap(self, i, level, key, value):
        self.object(self.NODE + 0x100 * i, self.BITMAP, 2, 1 << (self.HASH >> 5 * level & 31), key, value)

    def in_dict(self, values):
        self.object(self.DICT, self.TYPE_DICT, 3, 0, self.NAMES, values)
        self.keys(self.NAMES, (1, 2), (self.NAME, 0 if values else self.IDS), (3, 4))
        if self.values == 0:
            self.put(self.SPAN + self.head, self.DICT)
        elif self.values == 1:
            self.put(self.SPAN - 32, 0, self.DICT)
        else:
            self.put(self.SPAN - self.before, self.DICT)

    def all(self):
        self.put(BASE + self.context, self.CONTEXT)
        self.object(self.CONTEXT, self.TYPE_CONTEXT, 0, self.HAMT)
        self.object(self.HAMT, self.TYPE_HAMT, self.NODE, 0, 1)
        self.bitmap(0, 0, self.VARIABLE, self.MAPPING)
        self.object(self.MAPPING, self.TYPE_MAPPING, 1, 0, self.KEYS, 0)
        self.keys(self.KEYS, (self.KEY, self.SPAN))
        self.object(self.SPAN, self.TYPE_SPAN)
        words = (self.TEXT, self.IDS, self.PARENT)
        self.put(self.VALUES, *(0x01010b20,) * (self.minor >= 13), *words)
        if self.values == 0:
            self.in_dict(self.VALUES)
        elif self.values == 1:
            self.put(self.SPAN - 32, self.VALUES)
        elif self.values == 2:
            self.put(self.SPAN - self.before, self.VALUES - 1)
        else:
            self.put(self.SPAN + self.head, 0x01010b20, *words)
        for at in (self.IDS, self.PARENT):
            self.object(at, self.TYPE_IDS, 6)
            self.put(at + self.items, self.TRACE, self.NUMBER, self.LOCAL)
        self.number(self.TRACE, 0x8123456789abcdeff011223344556677)
        self.number(self.NUMBER, 0xfedcba9876543210)

    def bytes(self):
        kinds = (self.TYPE_CONTEXT, self.VARIABLE, self.TYPE_HAMT, self.BITMAP, self.ARRAY, self.COLLISION,
                 self.TYPE_MAPPING, self.TYPE_DICT, self.KEY, self.NAME, self.TYPE_IDS, self.TYPE_NUMBER,
                 self.LOCAL, self.NONE)
        types = struct.pack("<2QH3B3x", self.TYPE_SPAN, self.NAMES, self.head, 1, 0, 2) + bytes(24)
        return struct.pack("<14Q", *kinds) + types + struct.pack(
            "<IH7B3x", self.HASH, self.context, self.head, self.items, self.values, 8 if self.minor >= 13 else 0,
            self.before, self.minor < 11, self.minor < 12) + bytes(self.memory)


def spans():
    """{name: input}: each layout as it is, and each way to mislead who follows it."""
    made = {f"3.{minor}{'t' * (head == 32)}": Spans(minor, head)
            for minor, head in ((9, 16), (11, 16), (12, 16), (13, 16), (14, 16), (13, 32), (14, 32))}
    for name, minor in (("dict-old", 9), ("dict", 11), ("dict-tagged", 12), ("dict-inline", 13)):
        made[name] = Spans(minor)
        made[name].in_dict(0)
    one = made["array-circle"] = Spans(13)
    one.object(one.NODE, one.ARRAY, *(one.NODE,) * 32)
    one = made["collision"] = Spans(13)
    one.object(one.NODE, one.COLLISION, 64, 0, *(1, 2) * 20)
    one = made["deep"] = Spans(12)
    for i in range(7):
        one.bitmap(i, i, 0, one.NODE + 0x100 * (i + 1))
    one.object(one.NODE + 0x700, one.COLLISION, 2, 0, one.VARIABLE, one.MAPPING)
    one = made["bitmap-lies"] = Spans(12)
    one.object(one.NODE, one.BITMAP, 2, 0xffffffff, one.VARIABLE, one.MAPPING)
    for name, n in (("keys-many", 65), ("keys-wrap", 2 ** 64 - 1), ("keys-short", 0)):
        one = made[name] = Spans(13)
        one.keys(one.KEYS, (1, one.SPAN), n=n)
    one = made["keys-of-itself"] = Spans(12)
    one.object(one.MAPPING, one.TYPE_MAPPING, 1, 0, one.MAPPING, 0)
    one = made["dict-of-itself"] = Spans(13)
    one.in_dict(one.DICT)
    one = made["remote"] = Spans(13)
    one.put(one.IDS + one.items, one.TRACE, one.NUMBER, 7)
    one = made["number-long"] = Spans(13)
    one.object(one.TRACE, one.TYPE_NUMBER, 2 ** 63)
    one = made["number-negative"] = Spans(13)
    one.object(one.NUMBER, one.TYPE_NUMBER, 3 << 3 | 2)
    one = made["number-of-itself"] = Spans(13)
    one.put(one.IDS + one.items, one.IDS, one.IDS, one.LOCAL)
    one = made["text-at-the-end"] = Spans(13)
    one.put(one.SPAN + one.head + 8, BASE + 16384 - 64)
    one = made["values-short"] = Spans(13)
    one.put(one.SPAN + one.head, 0x01010b01)
    return {name: one.bytes() for name, one in made.items()}


SHIMS = [(0x1800, 0x3000, 0x1840, 0), (0x1840, 0x3040, 0x60, 0), (0x60, 0, 0x1880, 3),
         (0x1880, 0x3000, 0xe0, 1),
         (0xe0, 0, 0, 3)]
CIRCLE = [(0x1800, 0x3000, 0x1840, 0), (0x1840, 0x3040, 0x1800, 0)]
TASK_FILES = {name: b"\0" + struct.pack("<13Q", *SECTION_3_14) + data for name, data in NAMES.items()}
FILES = {name: code(release, table, b"Shape.area", 1) for name, (release, table) in TABLES.items()}
FILES["wide"] = code(11, TABLES["locations"][1], "\u03b1\U0001f40d".encode("utf-16le"), 2)
FILES["widest"] = code(0, TABLES["described"][1], "\u03b1\U0001f40d".encode("utf-32le"), 4)
WALKS = {"shims": walk(3, SHIMS, 0), "circle": walk(3, CIRCLE, 0), "evaluator": walk(4, CIRCLE[:1], 0),
         "objects": walk(0, CIRCLE, 0), "cframes": walk(1, SHIMS, BASE + 0x40),
         "cframe": walk(2, SHIMS, BASE + 0x40),
         "elsewhere": walk(3, [(0x1800, 0x3000, 0x3f00, 0), (0x3f00, 0, 0, 3)], 0)}
WALKS["awaiting"] = awaiting()
WALKS["interpreters"] = interpreters()
WALKS["lock"] = walk(3, SHIMS, 0, lock_pointer=16, lock_begin=32, lock_end=208)
WALKS["greenlet"] = walk(3, SHIMS, 0, root=0x10000, root_size=0x100)
NAMED = [b"_PyRuntime", b"Py_Version", b"_PyEval_EvalFrameDefault", b"PyCode_Type", b"PyIter_Send"]
PROGRAMS = {"symbols": program(NAMED, [(name, 440 + 8 * i) for i, name in enumerate(NAMED)], bytes(64)),
            "functions": program(NAMED, [(NAMED[0], 440), (NAMED[2], 448), (NAMED[4], 456)], bytes(64)),
            "stripped": program([], [], struct.pack("<2Q", WORDS_3_13[0], WORDS_3_13[1]) + bytes(64)),
            "old": program([], [], bytes(64)), "other": program([b"main"], [(b"main", 440)], b"")}


def said(name, file, **more):
    fields = dict(magic=0x43505931, kind=2, result=0, line=13, first=12, n_name=len(name), n_file=len(file))
    fields.update(more)
    return b"n" + struct.pack("<IIiII2H", *fields.values()) + name + file


def opened(version, chain, offsets, kind=0):
    """A PythonOpened: layout, places, what the file says of tasks, reason."""
    layout = struct.pack("<3I33I", version, chain, 0, *offsets)
    more = struct.pack("<2I13Q2Q", kind, 0, *SECTION_3_14, 0, 0)
    return b"o" + layout + bytes(11 * 16) + more + b"python 3.14".ljust(96, b"\0")


# daemon/host/runtime/python/python-layout.h, in its order
OFFSETS_3_14 = [
    808, 7272, 7344, 8, 152, 72, 0, 0, 0, 8, 56, 74, 136, 112, 136, 68, 208, 8, 24, 16, 32, 16, 32, 40, 56,
    16, 24, 72, 67, 64, 0, 16, 16
]
SAID = {"name": said(b"Shape.area\0", b"/srv/a.py\0"), "nameless": said(b"", b"", result=1, line=0, first=0),
        "midst": said(b"Shape\0area\0", b"/srv/a.py\0"), "bytes": said(b"Gr\xfc\0", b"\0"),
        "described": opened(0x30e, 3, OFFSETS_3_14), "tasks": opened(0x30e, 3, OFFSETS_3_14, 1),
        "overflow": opened(0x30e, 3, [0xfffffffc] * 33), "chain": opened(0x30e, 77, OFFSETS_3_14),
        "greenlets": b"m" + struct.pack("<2I13Q2Q", 2, 0, *[0] * 13, 0x1000, 0x2000),
        "wraps": b"m" + struct.pack("<2I13Q2Q", 2, 0, *[0] * 13, 0x1000, 2 ** 64 - 8)}
for folder, files in (("python", FILES), ("python-walk", WALKS), ("python-task", TASK_FILES),
                      ("python-program", PROGRAMS), ("python-wire", SAID), ("python-spans", spans())):
    (CORPUS / folder).mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (CORPUS / folder / name).write_bytes(data)
