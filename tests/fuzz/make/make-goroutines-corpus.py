#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/goroutines/ and corpus/go-heap/: memory of programs of Go with goroutines that wait, and with
heap profiles, whole and hostile; code that says where these are, and what workers say of them
(fuzz-goroutines.c, fuzz-go-heap.c).

usage: make-goroutines-corpus.py  (from anywhere; the files are committed)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus"
SIZE = 16384
FIRST = 18
# place of bp, sp of a call, status, id, reason, preempted, labels; by the minor version
LAYOUTS = {19: (104, 112, 144, 152, 176, 180, 360), 23: (104, 112, 152, 160, 184, 188, 352),
           26: (96, 104, 144, 152, 176, 180, 352)}
ARRAY, GS, STACKS, LABELS, TEXTS = 0x40, 0x200, 0x1000, 0x3000, 0x3800
WAITING, RUNNABLE, RUNNING, SYSCALL, DEAD, SCAN = 4, 1, 2, 3, 6, 0x1000


class Memory:
    def __init__(self, minor, statuses, n=None, array=ARRAY):
        self.data, self.minor = bytearray(SIZE), minor
        self.point(0, array)
        self.put(8, len(statuses) if n is None else n)
        for i, status in enumerate(statuses):
            self.point(ARRAY + 8 * i, GS + 0x200 * i)
            self.goroutine(i, GS + 0x200 * i, status)

    def put(self, at, value, form="<Q"):
        struct.pack_into(form, self.data, at, value)

    def point(self, at, to):
        self.put(at, 1 << 32 | to)

    def goroutine(self, i, g, status):
        bp, call, state, id_, reason, _, labels = LAYOUTS[self.minor]
        low = STACKS + 0x400 * i
        self.point(g, low)
        self.point(g + 8, low + 0x400)
        self.point(g + 56, low + 0x380)
        self.put(g + 64, 0x401000 + i)
        self.point(g + bp, low + 0x3c0)
        self.point(g + call, low + 0x300)
        self.put(g + call + 8, 0x402000 + i)
        self.put(g + state, status, "<I")
        self.put(g + id_, 17 + i)
        self.put(g + reason, 14, "<B")
        self.point(g + labels, LABELS)

    def slice(self):
        self.point(LABELS, LABELS + 64)
        self.put(LABELS + 8, 1)
        self.put(LABELS + 16, 1)
        for at, text in ((LABELS + 64, b"tenant"), (LABELS + 80, b"blue")):
            self.point(at, TEXTS + at % 64)
            self.put(at + 8, len(text))
            self.data[TEXTS + at % 64:TEXTS + at % 64 + len(text)] = text
        return self

    def bytes(self, changes=0):
        return bytes([self.minor - FIRST, changes]) + self.data


def cyclic():
    """All places lead to the one that the array lies in."""
    memory = Memory(26, [WAITING])
    for i in range(24):
        memory.point(ARRAY + 8 * i, ARRAY)
    memory.put(8, 24)
    return memory


EACH = [WAITING, RUNNABLE, RUNNING, SYSCALL, DEAD, SCAN | WAITING]
FILES = {
    "go-1.19": Memory(19, EACH).bytes(), "go-1.23": Memory(23, EACH).bytes(),
    "go-1.26": Memory(26, EACH).slice().bytes(), "changes": Memory(26, EACH).slice().bytes(7),
    "endless": Memory(26, EACH, n=1 << 60).bytes(), "no-array": Memory(26, EACH, array=SIZE + 8).bytes(),
    "longer-than-array": Memory(26, EACH, n=5000).bytes(), "cyclic": cyclic().bytes(),
}

# heap profiles
AT, BUCKET, DEPTH, HEAP_SIZE = 0x1000, 0x100, 2, 0x1800


class Heap:
    def __init__(self, minor, n=4, cycle=7, active=(9, 4), next_=(100, 1)):
        self.data, self.minor = bytearray(HEAP_SIZE), minor
        self.put(0, cycle | 1 << 32 if minor == 18 else cycle << 1 | 1)
        self.point(16, AT + BUCKET * (n - 1))
        self.put(24, 512 << 10)
        for i in range(n):
            self.bucket(AT + BUCKET * i, AT + BUCKET * (i - 1) if i else None, 16 * (i + 1))
            self.counts(i, 0, *active)
            self.counts(i, 1, *next_)

    def put(self, at, value):
        struct.pack_into("<Q", self.data, at, value)
        return self

    def point(self, at, to):
        return self.put(at, 1 << 32 | to)

    def bucket(self, at, older, size):
        if older is not None:
            self.point(at + 8, older)
        self.put(at + 16, 1)
        self.put(at + 32, size)
        self.put(at + 40, DEPTH)
        for i in range(DEPTH):
            self.put(at + 48 + 8 * i, 0x401000 + i)

    def counts(self, i, part, allocs, frees):
        at, width = AT + BUCKET * i + 48 + 8 * DEPTH, 16 if self.minor >= 27 else 32
        self.put(at + width * part, allocs)
        self.put(at + width * part + 8, frees)
        if width == 32:
            self.put(at + width * part + 16, allocs * 16 * (i + 1))
            self.put(at + width * part + 24, frees * 16 * (i + 1))
        return self

    def bytes(self, changes=0):
        return bytes([self.minor - FIRST, changes]) + self.data.rstrip(b"\0")


def place(code, opcode, target, more=b""):
    """An instruction that names @target, relative to its end; @code: what stands before it, at 0."""
    return code + opcode + struct.pack("<i", target - len(code) - len(opcode) - 4 - len(more)) + more


def functions():
    """As of Go 1.26, all at the addresses that the fuzzer gives them."""
    base = [0x401000 + 0x1000 * i for i in range(4)]
    flush = place(b"\x55", b"\x8b\x05", 0x510000 - base[0])
    flush = place(flush, b"\x48\x8d\x05", 0x510040 - base[0])
    flush = place(flush, b"\x48\x8d\x05", 0x510040 - base[0])
    locked = place(b"\x55", b"\x48\x8b\x15", 0x510100 - base[1])
    bucket = place(b"\x55", b"\x48\x8d\x05", 0x510100 - base[2])
    init = place(b"\x55", b"\x80\x3d", 0x510208 - base[3], b"\0") + b"\x74\x0b"
    init = place(init, b"\x48\xc7\x05", 0x510200 - base[3], b"\0\0\0\0")
    return b"".join(code.ljust(64, b"\x90") for code in (flush, locked, bucket, init))


def said(samples, stacks, places, frames, text):
    data = bytes([len(samples), len(stacks), len(places), len(frames), len(text)])
    data += b"".join(struct.pack("<4Q2I", *row) for row in samples)
    data += b"".join(struct.pack("<I", row) for row in stacks)
    data += b"".join(struct.pack("<Q4I", *row) for row in places)
    data += b"".join(struct.pack("<4I", *row) for row in frames)
    return data + text


ROWS = ([(0x100, 0, 1, 1, 0), (0x200, 1, 2, 0, 0), (0x300, 2, 1, 0, 0)],
        [(1, 0, 1, 1), (11, 17, 7, 5), (14, 17, 20, 10)], b"\0runtime.m\0in\0out\0a.go\0")
SAID = said([(0xc000, 64, 3, 1, 0, 3), (0xd000, 16, 9, 9, 3, 2)], [0, 1, 2, 1, 2], *ROWS)
OVERLAP = said([(0xc000, 64, 3, 1, 0, 3), (0xd000, 16, 9, 9, 1, 2)], [0, 1, 2], *ROWS)
HEAPS = {f"go-1.{minor}": Heap(minor).bytes() for minor in (18, 19, 26, 27)}
HEAPS |= {
    "early": Heap(26, active=(0, 0)).bytes(), "changes": Heap(27).bytes(3),
    "locked": Heap(26).put(8, 1).bytes(), "not-moved": Heap(26).counts(2, 2, 1, 1).bytes(),
    "cyclic": Heap(26).point(AT + 8, AT + 3 * BUCKET).bytes(), "itself": Heap(26).point(AT + 8, AT).bytes(),
    "behind": Heap(26).point(AT + 8, 0x3fff8).bytes(), "deep": Heap(26).put(AT + 40, 1 << 40).bytes(),
    "other-type": Heap(26).put(AT + 16, 2).bytes(), "more-freed": Heap(26, active=(3, 5)).bytes(),
    "large": Heap(27, active=(1 << 47, 5)).bytes(), "off": Heap(26).put(24, 0).bytes(),
    "no-list": Heap(26).put(16, 0).bytes(), "code": b"\x0b\0" + functions(), "code-1.18": b"\x0a\0" + functions(),
    "said": b"\x0c\0" + SAID, "said-cut": b"\x0c\0" + SAID[:120], "said-overlap": b"\x0c\0" + OVERLAP,
}
for folder, files in (("goroutines", FILES), ("go-heap", HEAPS)):
    (CORPUS / folder).mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (CORPUS / folder / name).write_bytes(data)
