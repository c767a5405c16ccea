#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/php/: code that says a layout, memory with functions, and what a worker says (fuzz-php.c);
and corpus/php-walk/: an entry of bpf/border/runtime_abi.h, and memory with a stack, a chain of frames and
registers (fuzz-php-walk.c).

usage: make-php-corpus.py  (from anywhere; pack-corpus.py packs what it writes)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus"
BASE, TEXT, SIZE = 0x20000000, 0x10000, 16384
FILE_AT, OPS_AT, TOP = 152, 88, 1 << 17
INTERNAL, USER, EVAL, NAMED = 1, 2, 4, 8
MASK = (1 << 64) - 1


class Memory:
    def __init__(self):
        self.bytes = bytearray(SIZE)

    def put(self, offset, *words):
        struct.pack_into(f"<{len(words)}Q", self.bytes, offset, *(word & MASK for word in words))

    def text(self, offset, text, number):
        self.put(offset + 8, number, len(text))
        self.bytes[offset + 24:offset + 24 + len(text)] = text

    def function(self, offset, kind, name=0, scope=0, file=0, line=0, ops=0):
        self.put(offset, kind, name, scope)
        if kind != INTERNAL:
            self.put(offset + FILE_AT, file, line)
            self.put(offset + OPS_AT - 8, 16, ops)


def cookie(name, scope, file, line):
    mixed = (name * 0x9e3779b97f4a7c15 ^ file * 0xc2b2ae3d27d4eb4f ^ scope * 0x165667b19e3779f9) & MASK
    mixed ^= mixed >> 29
    return (mixed >> 32 ^ mixed ^ line * 0x85ebca6b) & 0xffffffff


def word(kind, *hashes):
    """The words of a frame of the function at 0x100."""
    return struct.pack("<2Q", BASE + 0x100 | kind << 48, cookie(*hashes) << 32 | 42)


def write(folder, name, data):
    path = CORPUS / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(data))


def names():
    memory = Memory()
    memory.text(0x400, b"total", 0x11)
    memory.text(0x500, b"App\\Cart", 0x22)
    memory.text(0x600, b"/srv/app/cart.php", 0x33)
    memory.text(0x700, b"class@anonymous\0/srv/a.php:3$0", 0x44)
    memory.put(0x308, BASE + 0x500)
    memory.put(0x348, BASE + 0x700)
    memory.function(0x100, USER, BASE + 0x400, BASE + 0x300, BASE + 0x600, 40)
    cases = {
        "method": (USER, (BASE + 0x400, BASE + 0x300, BASE + 0x600, 40), (0x11, 0x22, 0x33, 40)),
        "anonymous": (USER, (BASE + 0x400, BASE + 0x340, BASE + 0x600, 40), (0x11, 0x44, 0x33, 40)),
        "file": (USER, (0, 0, BASE + 0x600, 1), (0, 0, 0x33, 1)),
        "eval": (EVAL, (0, 0, BASE + 0x600, 1), (0, 0, 0x33, 1)),
        "internal": (INTERNAL, (BASE + 0x400, 0, 0, 0), (0x11, 0, 0, 0)),
        "gone": (USER, (BASE + 0x400, 0, BASE + 0x600, 40), (0x12, 0, 0x33, 40)),
        "far": (USER, (BASE + SIZE - 8, BASE + SIZE - 8, MASK, 40), (0, 0, 0, 40)),
    }
    for name, (kind, fields, hashes) in cases.items():
        memory.function(0x100, kind, *fields)
        write("php", f"n-{name}", b"n" + word(kind | NAMED * bool(fields[0]), *hashes) + memory.bytes)
    memory.text(0x400, b"\xff" * 2000, 0x11)
    memory.function(0x100, USER, BASE + 0x400, 0, BASE + 0x600, 40)
    write("php", "n-long", b"n" + word(USER | NAMED, 0x11, 0, 0x33, 40) + memory.bytes)


def codes():
    # lea globals(%rip),%rdx; mov 0x1e8(%rdx),%rax; mov 0x18(%rax),%rdx; mov 0x30(%rax),%rax;
    # mov 0x98(%rdx),%rax; ret
    lea = b"\x48\x8d\x15" + struct.pack("<i", 0x10000 - 0x1007)
    good = lea + bytes.fromhex("488b82e8010000 488b5018 488b4030 488b8298000000 c3")
    write("php", "d-straight", b"d" + good)
    write("php", "d-other-place", b"d" + good.replace(b"\x40\x30", b"\x40\x28"))
    write("php", "d-jumps", b"d" + lea + bytes.fromhex("488b82e8010000 4885c0 7410 488b5018 7409 488b4030 75f4 c3"
                                                       "488b8298000000 c3"))
    write("php", "d-index", b"d" + lea + bytes.fromhex("488b84ca00010000 488b4424f8 c3"))
    for n in range(1, len(good), 5):
        write("php", f"d-cut-{n}", b"d" + good[:n])


def calls():
    # lea table(%rip),%rax; mov 0x14(%r15),%ecx; mov (%rax),%rax; call *(%rax,%rcx,8)
    good = b"\x48\x8d\x05" + struct.pack("<i", 0x10000 - 0x1007) + bytes.fromhex("418b4f14 488b00 ff14c8")
    write("php", "c-lea", b"c" + good)
    write("php", "c-word", b"c" + good.replace(b"\x48\x8d", b"\x48\x8b", 1))
    write("php", "c-slot", b"c" + b"\x48\x8b\x05" + struct.pack("<i", 0x10008 - 0x1007) + good[7:])
    write("php", "c-far", b"c" + good[:-3] + 30 * b"\x90" + bytes.fromhex("42ff14c0"))
    write("php", "c-other-register", b"c" + good[:-1] + b"\xc9")
    write("php", "c-no-index", b"c" + good[:-1] + b"\xe0")
    write("php", "c-no-base", b"c" + good[:-1] + b"\xcd")


def answers():
    said = struct.pack("<IIiIIHH", 0x50485031, 2, 0, 7, 3, 6, 5)
    write("php", "s-name", b"s" + said + b"A::b\0\0"[:5] + b"\0a.php\0"[1:])
    write("php", "s-whole", b"s" + said + b"total\0a.ph\0")
    write("php", "s-not-text", b"s" + said + b"tot\xff\xff\0a.ph\0")
    write("php", "s-gone", b"s" + struct.pack("<IIiIIHH", 0x50485031, 2, 1, 0, 0, 0, 0))


def entry(**more):
    fields = {"generation": 1, "current": BASE + 0x2000, "generators": BASE + 0x2008, "evaluator": TEXT + 0x400,
              "evaluator_size": 0x100, "cold": TEXT + 0x200, "cold_size": 0x100}
    fields.update(more)
    return struct.pack("<7Q4HQ16i", *fields.values(), FILE_AT, OPS_AT, 0, 0, BASE + 0x2010, 0x40 - 0x400, *15 * [0])


def frame(i):
    return 0x2100 + 80 * i


def walk():
    memory = Memory()
    for i, caller in enumerate([TEXT + 0x401, TEXT + 2, TEXT + 0x203, TEXT + 0x804]):
        memory.put(64 * i + 56, caller)
    memory.put(0x2000, BASE + frame(1), BASE + 0x2040)
    for i in range(1, 6):
        memory.function(0x2800 + 256 * i, INTERNAL if i == 3 else USER, BASE + 0x3800 + 32 * i, 0,
                        BASE + 0x3a00, 100 * i, BASE + 0x3b00)
        memory.put(0x3808 + 32 * i, i)
        memory.put(frame(i), BASE + 0x3b40, 0, 0, BASE + 0x2800 + 256 * i, 0, TOP if i in (2, 5) else 0,
                   BASE + frame(i + 1) if i < 5 else 0)
    memory.put(SIZE - 16, BASE + frame(1), BASE + 0x3b60)

    def case(name, *changes, head=entry()):
        other = Memory()
        other.bytes[:] = memory.bytes
        for offset, *words in changes:
            other.put(offset, *words)
        write("php-walk", name, head + other.bytes)

    case("whole")
    case("run-begins", (56, TEXT + 2), (120, TEXT + 0x203), (184, TEXT + 0x804))
    case("run-ends", (0x2000, BASE + frame(3)))
    case("no-native", (56, TEXT + 0x804))
    case("ring", (frame(5) + 48, BASE + frame(1)))
    case("fiber", (0x2800 + 256 * 3 + 8, 0), (120, TEXT + 0x804))
    case("generator", (frame(3) + 24, 0, BASE + 0x2050, 8), (0x2060, BASE + 0x2040))
    case("unreadable", (frame(4) + 24, BASE + SIZE - 8))
    case("odd", (frame(4) + 48, BASE + frame(5) + 4))
    case("no-frames", (0x2000, 0))
    frameless = (0x2010, BASE + 0x2020), (0x2020, BASE + 0x2800 + 256 * 3), (0x3b50, 0, 100 | 205 << 32)
    case("frameless", *frameless, (56, TEXT + 0x40), (120, TEXT + 0x401), (184, TEXT + 2), (248, TEXT + 0x203),
         (312, TEXT + 0x804))
    case("frameless-returned", *frameless)
    case("frameless-no-rows", *frameless, (56, MASK))
    case("no-ops", head=entry()[:58] + bytes(6) + entry()[64:])
    case("everything-is-evaluator", head=entry(evaluator=0, evaluator_size=MASK))
    case("far-fields", head=entry()[:56] + b"\xff" * 8 + entry()[64:])
    case("far-calls", head=entry()[:72] + b"\xff" * 64)


if __name__ == "__main__":
    names()
    codes()
    calls()
    answers()
    walk()
