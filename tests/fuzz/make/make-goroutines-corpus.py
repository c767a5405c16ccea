#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/goroutines/: memory of programs of Go with goroutines that wait, whole and hostile
(fuzz-goroutines.c).

usage: make-goroutines-corpus.py  (from anywhere; the files are committed)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus/goroutines"
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
CORPUS.mkdir(parents=True, exist_ok=True)
for name, data in FILES.items():
    (CORPUS / name).write_bytes(data)
