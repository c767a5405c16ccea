#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/frame-registry/: memory with libgcc's lists of registered frames in it, right and wrong ones,
and what a worker makes of some (fuzz-frame-registry.c).

usage: make-frame-registry-corpus.py  (from anywhere; pack-corpus.py packs what it writes)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus" / "frame-registry"
BASE = 0x20000000
OBJECTS, SECTIONS, SECTION_SIZE = 0x40, 0x400, 0x200
ABS8, PCREL4, PCREL8 = 0x00, 0x1b, 0x1c


def entry(body):
    body += bytes(-len(body) % 8)
    return struct.pack("<I", len(body)) + body


def section(at, functions, encoding=PCREL8, letters=b"zR"):
    """.eh_frame at an address; functions: (start, size)."""
    data = entry(struct.pack("<IB", 0, 1) + letters + b"\0\1\x78\x10\1" + bytes([encoding]) + b"\x0c\7\x08\x90\1")
    for start, size in functions:
        wide = encoding not in (PCREL4, 0x9b)
        form = "<q" if wide else "<i"
        value = start if encoding == ABS8 else start - (at + len(data) + 8)
        data += entry(struct.pack("<I", len(data) + 4) + struct.pack(form, value) + struct.pack(form, size) +
                      b"\0\x44\x0e\x18")
    return data + bytes(4)


def memory(sections, lock=0, links=None, flags=None, vectors=None, seen=0):
    """Objects in a list, of which the first `seen` are in the other one. vectors: what object i has instead."""
    n = len(sections)
    data = bytearray(SECTIONS + SECTION_SIZE * n)

    def at(i):
        return BASE + OBJECTS + 48 * i if 0 <= i < n else 0

    data[:24] = struct.pack("<QQQ", lock, at(0) if seen else 0, at(seen))
    for i, part in enumerate(sections):
        after = (links or {}).get(i, i + 1 if i + 1 != seen else -1)
        frames = (vectors or {}).get(i, BASE + SECTIONS + SECTION_SIZE * i)
        data[OBJECTS + 48 * i:OBJECTS + 48 * (i + 1)] = struct.pack(
            "<QQQQQQ", 2**64 - 1, 0, 0, frames, (flags or {}).get(i, 0x7f8), at(after))
        data[SECTIONS + SECTION_SIZE * i:SECTIONS + SECTION_SIZE * i + len(part)] = part
    return bytes(data)


def place(i):
    return BASE + SECTIONS + SECTION_SIZE * i


def good(i, **more):
    start = 0x7f0000000000 - 0x10000 * i
    return section(place(i), [(start, 64), (start + 0x100, 4096)], **more)


def near(i, **more):
    return section(place(i), [(BASE + 0x10000 * i, 64), (BASE + 0x10000 * i + 64, 32)], **more)


FILES = {
    "empty": memory([]),
    "one": memory([good(0)]),
    "three": memory([good(0), good(1), near(2, encoding=PCREL4)]),
    "absolute": memory([good(0, encoding=ABS8)]),
    "locked": memory([good(0)], lock=1),
    "seen": memory([good(0), good(1), good(2)], seen=2),
    "circle": memory([good(0), good(1)], links={1: 0}),
    "circles": memory([good(0), good(1), good(2), good(3)], links={1: 0, 3: 2}, seen=2),
    "itself": memory([good(0)], links={0: 0}),
    "sorted": memory([good(0), good(1)], flags={0: 0x7f9}, vectors={0: BASE + 0x200}),
    "array": memory([good(0), good(1)], flags={0: 0x7fa}, vectors={0: BASE + 0x200}),
    "sorted-array": memory([good(0), good(1)], flags={0: 0x7fb}, vectors={0: BASE + 0x200}),
    "nowhere": memory([good(0)], vectors={0: 2**64 - 4}),
    "no-end": memory([good(0)[:-4] + b"\xff\xff\0\0"]),
    "long-entry": memory([struct.pack("<IQ", 0xffffffff, 2**63) + good(0)]),
    "no-cie": memory([good(0)[28:]]),
    "letters": memory([good(0, letters=b"zPLR"), good(1, letters=b"q")]),
    "indirect": memory([near(0, encoding=0x9b)]),
    "aligned": memory([good(0, encoding=0x50)]),
    "high": memory([section(place(0), [(2**63 - 4096, 64)])]),
    "wrap": memory([section(place(0), [(-64, 2**62)])]),
    "large": memory([section(place(0), [(0x10000, 2**40), (0x20000, 0)])]),
    "apart": memory([section(place(i), [(0x10000000 * (i + 1), 64)]) for i in range(20)]),
    "overlap": memory([section(place(0), [(0x10000, 64), (0x10010, 64), (0x10000, 64)])]),
}
vector = bytearray(FILES["sorted"])
vector[0x200:0x208] = struct.pack("<Q", place(0))
FILES["sorted"] = bytes(vector)
vector = bytearray(FILES["array"])
vector[0x200:0x218] = struct.pack("<QQQ", place(0), place(1), 0)
FILES["array"] = bytes(vector)
vector = bytearray(FILES["sorted-array"])
vector[0x200:0x208] = struct.pack("<Q", BASE + 0x210)
vector[0x210:0x228] = struct.pack("<QQQ", place(0), place(1), 0)
FILES["sorted-array"] = bytes(vector)


NODES, TREE_OBJECTS, TREE_SECTIONS = 0x40, 0x1000, 0x2000


def tree(nodes, objects, lock=0, tree_lock=8, root=None, flags=0x7f8):
    """After a `t`: (type, entries[, lock]) of nodes, the first of which is the root. Entries are numbers: of
    nodes in inner ones, of objects in leaves."""
    data = bytearray(TREE_SECTIONS + SECTION_SIZE * objects)
    data[:32] = struct.pack("<QQQQ", lock, BASE + NODES if root is None else root, 0, tree_lock)
    for i, (kind, entries, *more) in enumerate(nodes):
        words = [word for entry in entries for word in
                 ((2**64 - 1, BASE + NODES + 256 * entry) if kind != 1 else
                  (0x7f0000000000 - 0x10000 * entry, 64, BASE + TREE_OBJECTS + 48 * entry))]
        data[NODES + 256 * i:NODES + 256 * (i + 1)] = struct.pack(
            "<QII30Q", more[0] if more else 4, len(entries), kind, *words[:30], *[0] * (30 - len(words)))
    for i in range(objects):
        at = BASE + TREE_SECTIONS + SECTION_SIZE * i
        part = section(at, [(0x7f0000000000 - 0x10000 * i, 64)])
        data[TREE_OBJECTS + 48 * i:TREE_OBJECTS + 48 * (i + 1)] = struct.pack(
            "<QQQQQQ", 2**64 - 1, 0, 0, at, flags, 2**64 - 1)
        data[at - BASE:at - BASE + len(part)] = part
    return b"t" + bytes(data)


FILES |= {
    "t-empty": tree([], 0, root=0),
    "t-leaf": tree([(1, range(3))], 3),
    "t-full": tree([(1, range(10))], 10),
    "t-inner": tree([(0, [1, 2]), (1, range(5)), (1, range(5, 9))], 9),
    "t-deep": tree([(0, [1]), (0, [2]), (0, [3]), (1, [0])], 1),
    "t-circle": tree([(0, [0] * 15)], 0),
    "t-circles": tree([(0, [1, 0]), (0, [1, 0])], 0),
    "t-held": tree([(1, [0], 5)], 1),
    "t-tree-held": tree([(1, [0])], 1, tree_lock=1),
    "t-mutex-held": tree([(1, [0])], 1, lock=1),
    "t-free-node": tree([(2, [0])], 1),
    "t-many": tree([(1, range(11))], 11),
    "t-nowhere": tree([(1, [0])], 1, root=BASE - 8),
    "t-sorted": tree([(1, [0])], 1, flags=0x7f9),
    "t-same": tree([(1, [0] * 10)], 1),
}


ARRAY_AT, ARRAY_SECTIONS = 0x40, 0x1000


def array(names, sections=1, lock=1, used=None, begin=BASE + ARRAY_AT, change=None, start=None):
    """After an `l`: names of functions, (section, number), each section a CIE and three FDEs."""
    data = bytearray(ARRAY_SECTIONS + SECTION_SIZE * sections)
    data[:24] = struct.pack("<QQQ", lock, begin, begin + 32 * len(names) if used is None else used)
    for i in range(sections):
        at = ARRAY_SECTIONS + SECTION_SIZE * i
        part = section(BASE + at, [(0x7f0000000000 + 0x10000 * i + 64 * j, 64) for j in range(3)])
        data[at:at + len(part)] = part
    for i, (where, j) in enumerate(names):
        at = ARRAY_SECTIONS + SECTION_SIZE * where
        fde = at
        for _ in range(j + 1):
            fde += 4 + int.from_bytes(data[fde:fde + 4], "little")
        pc = 0x7f0000000000 + 0x10000 * where + 64 * j if start is None else start
        data[ARRAY_AT + 32 * i:ARRAY_AT + 32 * i + 32] = struct.pack("<QQQQ", BASE + fde, pc, pc + 64, BASE + fde)
    for at, value in (change or {}).items():
        data[at:at + len(value)] = value
    return b"l" + bytes(data)


FILES |= {
    "l-empty": array([]),
    "l-one": array([(0, 0)]),
    "l-second": array([(0, 1)]),
    "l-all": array([(i, j) for i in range(4) for j in range(3)], sections=4),
    "l-twice": array([(0, 2), (0, 0), (0, 2)]),
    "l-held": array([(0, 0)], lock=3),
    "l-odd": array([(0, 0)], used=BASE + ARRAY_AT + 31),
    "l-before": array([(0, 0)], used=BASE),
    "l-nowhere": array([(0, 0)], begin=2**64 - 64),
    "l-many": array([(0, 0)], used=BASE + 2**40),
    "l-another": array([(0, 0)], start=0x7f0000000040),
    "l-cie": array([(0, 0)], change={ARRAY_AT + 24: struct.pack("<Q", BASE + ARRAY_SECTIONS)}),
    "l-no-cie": array([(0, 0)], change={ARRAY_SECTIONS: bytes(8)}),
    "l-far-cie": array([(0, 0)], change={ARRAY_SECTIONS + 32: b"\xff\xff\xff\xff"}),
}


def cluster(low, high, runs, frames, n_runs=None, size=None):
    return struct.pack("<QQII", low, high, n_runs if n_runs is not None else len(runs),
                       size if size is not None else len(frames)) + \
        b"".join(struct.pack("<QQ", *run) for run in runs) + frames + bytes(-len(frames) % 8)


def answer(*clusters, n=None):
    return b"a" + struct.pack("<I", n if n is not None else len(clusters)) + b"".join(clusters)


FRAMES = near(0)
FILES |= {
    "a-one": answer(cluster(0x10000, 0x11000, [(0x10000, 0x11000)], FRAMES)),
    "a-two": answer(cluster(0x10000, 0x14000, [(0x10000, 0x11000), (0x13000, 0x14000)], FRAMES),
                    cluster(0x8000000, 0x8001000, [(0x8000000, 0x8001000)], b"")),
    "a-many": answer(cluster(0x10000, 0x11000, [(0x10000, 0x11000)], FRAMES), n=17),
    "a-runs": answer(cluster(0x10000, 0x11000, [(0x10000, 0x11000)], FRAMES, n_runs=2**32 - 1)),
    "a-size": answer(cluster(0x10000, 0x11000, [(0x10000, 0x11000)], FRAMES, size=2**32 - 1)),
    "a-order": answer(cluster(0x20000, 0x21000, [(0x20000, 0x21000)], b""),
                      cluster(0x10000, 0x11000, [(0x10000, 0x11000)], b"")),
    "a-pages": answer(cluster(0x10001, 0x11000, [(0x10001, 0x11000)], b"")),
    "a-touch": answer(cluster(0x10000, 0x12000, [(0x10000, 0x11000), (0x11000, 0x12000)], b"")),
    "a-short": answer(cluster(0x10000, 0x11000, [(0x10000, 0x11000)], FRAMES))[:40],
}

CORPUS.mkdir(parents=True, exist_ok=True)
for name, data in FILES.items():
    (CORPUS / name).write_bytes(data)
