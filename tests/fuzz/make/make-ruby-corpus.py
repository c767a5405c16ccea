#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/ruby/: code that says a layout, memory with code of Ruby, what a worker says (fuzz-ruby.c);
and corpus/ruby-walk/: an entry of bpf/border/runtime_abi.h, and memory with a stack, a context and a chain of
frames (fuzz-ruby-walk.c).

usage: make-ruby-corpus.py  (from anywhere; pack-corpus.py packs what it writes)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus"
BASE, TEXT, SIZE = 0x20000000, 0x10000, 16384
METHOD, C, COLLECTOR = 1, 2, 3                          # kinds of a frame's word
IS_METHOD, IS_BLOCK, IS_C, IS_C_BLOCK, IS_EVAL, IS_END = (0x11110001, 0x22220001, 0x55550001, 0x66660001,
                                                          0x77770001, 0x79990001)
RUN, OF_C = 0x20, 0x80
STRING, ARRAY, APART = 5, 7, 1 << 13
MASK = (1 << 64) - 1


class Memory:
    def __init__(self, size=SIZE):
        self.bytes = bytearray(size)

    def put(self, offset, *words):
        struct.pack_into(f"<{len(words)}Q", self.bytes, offset, *(word & MASK for word in words))

    def text(self, offset, text):
        self.put(offset, STRING | len(text) << 14)
        self.bytes[offset + 16:offset + 16 + len(text)] = text

    def body(self, offset, **fields):
        """size, code, path, label, first_line; lines, n_lines, ranks"""
        words = [0] * 19
        for name, at in {"size": 0, "code": 1, "path": 8, "label": 10, "first_line": 11, "lines": 15,
                         "n_lines": 17, "ranks": 18}.items():
            words[at] = fields.get(name, 0)
        self.put(offset, *words)
        return words


def cookie(body):
    mixed = (body[0] * 0x9e3779b97f4a7c15 ^ body[1] * 0xc2b2ae3d27d4eb4f ^ body[8] * 0x165667b19e3779f9
             ^ body[11] * 0x27d4eb2f165667c5) & MASK
    mixed ^= mixed >> 29
    mixed = ((mixed ^ body[10]) * 0x9e3779b97f4a7c15 ^ body[12] * 0xc2b2ae3d27d4eb4f
             ^ body[13] * 0x165667b19e3779f9) & MASK
    mixed ^= mixed >> 29
    return (mixed >> 32 ^ mixed) & 0xffffffff


def class_cookie(owner, path):
    mixed = (owner * 0x9e3779b97f4a7c15 ^ path * 0xc2b2ae3d27d4eb4f) & MASK
    return (mixed ^ mixed << 16) >> 48 & 0xffff


def words(kind, what, second=0, third=0):
    return struct.pack("<3Q", what | kind << 48, second & MASK, third & MASK)


def write(folder, name, data):
    path = CORPUS / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(data))


def names():
    memory = Memory(0x2000)
    good = {"size": 200 << 32, "code": 0x77000000, "path": BASE + 0x500, "label": BASE + 0x400,
            "first_line": 9 << 1 | 1,
            "lines": BASE + 0x1000, "n_lines": 100, "ranks": BASE + 0x1800}
    memory.text(0x400, b"block in total")
    memory.text(0x500, b"/srv/app/cart.rb")
    memory.put(0x600, ARRAY | APART | 2 << 15, 0, BASE + 0x500, BASE + 0x400)
    for i in range(100):
        struct.pack_into("<I", memory.bytes, 0x1000 + 12 * i, 10 + i)
    memory.put(0x1800, *[0x0102040810204081] * 6, 27, 0o777 << 9, *[0x9249249249249249] * 8)
    memory.put(0x20, BASE + 0x700)                      # names of IDs
    memory.put(0x700, ARRAY | APART | 2 << 15, 0, BASE + 0x740, BASE + 0x740)
    memory.put(0x740, ARRAY, 0, 1024, 0, BASE + 0x780)
    memory.put(0x780 + 16 * 9, BASE + 0x400)
    cases = {"method": {}, "path-in-array": {"path": BASE + 0x600}, "no-lines": {"n_lines": 0},
             "one-line": {"n_lines": 1}, "few-lines": {"n_lines": 3}, "far-lines": {"lines": BASE + 0x1ff8},
             "far-ranks": {"ranks": BASE + 0x1ff0}, "no-label": {"label": BASE + 0x600},
             "far-label": {"label": MASK - 7},
             "odd-path": {"path": BASE + 0x501}, "large": {"size": MASK}}
    for name, more in cases.items():
        body = memory.body(0x100, **{**good, **more})
        for position in (0, 5, 60, 199):
            write("ruby", f"n-{name}-{position}",
                  b"n" + words(METHOD, BASE + 0x100, cookie(body) << 32 | position) + memory.bytes)
    body = memory.body(0x100, **good)
    write("ruby", "n-gone", b"n" + words(METHOD, BASE + 0x100, (cookie(body) ^ 1) << 32) + memory.bytes)
    write("ruby", "n-jit", b"n" + words(METHOD, BASE + 0x100, cookie(body) << 32 | 0xffffffff) + memory.bytes)
    for name, number in {"id": 9, "other-id": 521 << 4, "no-id": 10, "far-id": (1 << 44) - 1}.items():
        write("ruby", f"n-{name}", b"n" + words(C, number) + memory.bytes)
    write("ruby", "n-collector", b"n" + words(COLLECTOR, 0))
    write("ruby", "n-no-kind", b"n" + words(9, BASE + 0x100) + memory.bytes)
    memory.put(0x400, STRING | APART, 0, MASK, BASE + 0x900)
    memory.bytes[0x900:0x1000] = b"\xff" * 0x700
    write("ruby", "n-long", b"n" + words(METHOD, BASE + 0x100, cookie(body) << 32 | 60) + memory.bytes)


def classes():
    """By the layout of 3.3: a text of 24 bytes and more, a class, a module, and one's own."""
    memory = Memory(0x2000)

    def text(offset, bytes_):
        memory.put(offset, STRING, 0, len(bytes_))
        memory.bytes[offset + 24:offset + 24 + len(bytes_)] = bytes_

    text(0x400, b"block in total")
    text(0x480, b"total")
    text(0x500, b"/srv/app/cart.rb")
    text(0x580, b"Shop::Cart")
    body = memory.body(0x100, size=200 << 32, code=0x77000000, path=BASE + 0x500, label=BASE + 0x400,
                       first_line=9 << 1 | 1)
    memory.put(0x100 + 8 * 9, BASE + 0x480)
    memory.put(0x100 + 112, BASE + 0x1000, 0, 1)
    memory.put(0x1000, 12)
    memory.put(0x700, 2)                                # a class
    memory.put(0x700 + 128, 0, 0, 0, BASE + 0x580)
    memory.put(0x800, 2 | 1 << 12)                      # that class' own
    memory.put(0x800 + 128, BASE + 0x700)
    of_class, of_own = class_cookie(0, BASE + 0x580), class_cookie(BASE + 0x700, 0)
    for name, third in {"class": of_class << 48 | BASE + 0x700, "own": of_own << 48 | BASE + 0x800, "no-class": 0,
                        "other-class": (of_class ^ 1) << 48 | BASE + 0x700, "far-class": MASK, "near-end": BASE + 0x1ff8,
                        "odd-class": BASE + 0x701}.items():
        write("ruby", f"n-3-{name}", b"2n" + words(METHOD, BASE + 0x100, cookie(body) << 32 | 7, third) + memory.bytes)
    memory.put(0x800 + 128, BASE + 0x800)
    own = class_cookie(BASE + 0x800, 0) << 48 | BASE + 0x800
    write("ruby", "n-3-own-of-itself", b"2n" + words(METHOD, BASE + 0x100, cookie(body) << 32 | 7, own) + memory.bytes)
    memory.put(0x580, STRING | APART, 0, MASK, BASE + 0x900)
    memory.bytes[0x900:0x1000] = b"\xff" * 0x700
    write("ruby", "n-3-long-class", b"2n" + words(METHOD, BASE + 0x100, cookie(body) << 32 | 7,
                                                of_class << 48 | BASE + 0x700) + memory.bytes)
    for position in range(6):
        memory.put(0x1000 + 8 * position, 10 if position < 2 else 0)
    memory.put(0x100 + 120, BASE + 0x1000, 0, 6, BASE + 0x1100)
    memory.put(0x1100, 6)
    write("ruby", "n-2-no-line", b"0n" + words(METHOD, BASE + 0x100, cookie(body) << 32 | 1) + memory.bytes)


def codes():
    functions = {
        "current": "4883ec08 66488d3dace21900 666648e84c50e2ff 488b00 488b4030 488b4010 4883c408 c3",
        "stack": "4883ec08 66488d3d00000000 666648e800000000 488b10 4889e1 488b8290000000 48898a98000000"
                 "488b92a0000000",
        "collector": "488b05a1f72d00 488b00 488b8050040000 0fb64010 c0e805 83e001 c3",
        "lock": "498b7e18 498b4628 48398708020000 740f",
        "name": "4889f8 48c1e804 4881ffa9000000 0f47f8 31f6 e978ddffff",
        "names": "725f 488b3d78851a00 89de c1ee09 488b07"}
    others = {
        "0": {"current": "488b05b1911500 488b00 488b4038 488b4010 c3", "names": "c1ee09 4883ec08 488b3d1a231600 488b07",
              "stack": "488b0551292800 488b00 4889e1 488b9098000000 488988a0000000 488b80a8000000",
              "name": "4889f8 48c1e804 4881ffa8000000 0f47f8 85ff 7413 3b3d35061600 770b 31f6 e90ce3ffff",
              "text": "751f 48c1ee0e 488d7b10",
              "lines": "8b8788000000 4c8b6778 488baf90000000 4898 4d8d24c4"},
        "2": {"collector": "488d057d2b3700 488b00 4885c0 7415 488b8018050000 0fb64010 c0e805 83e001 c3",
              "lock": "488b7818 488b4030 48398780010000", "class": "488b8798000000 ba04000000 4885c0 480f44c2 c3",
              "name": "4889f8 31f6 48c1e804 4881ffa9000000 480f47f8 e963e1ffff",
              "other-name": "4889f8 31f6 48c1ef04 483da9000000 480f46f8 e984e0ffff",
              "names": "488b3d89172300 89d6 c1ee09 488b07", "text": "488b7710 4883c718 f6430120",
              "line": "4883ec08 488b7f10 e87facffff", "tail": "415f e98df5ffff", "frames": "4983c738",
              "lines": "8b8780000000 488b5f70 4c8ba788000000 4898 488d0440"}}
    for release, some in others.items():
        for name, code in some.items():
            code = bytes.fromhex(code)
            for n in (len(code), len(code) - 1, len(code) // 2):
                write("ruby", f"d-{release}-{name}-{n}", release.encode() + b"d" + code[:n])
    for name, code in functions.items():
        code = bytes.fromhex(code)
        write("ruby", f"d-{name}", b"d" + code)
        for n in range(3, len(code), 9):
            write("ruby", f"d-{name}-cut-{n}", b"d" + code[:n])
    write("ruby", "d-far-thread", b"d" + bytes.fromhex(functions["current"].replace("4030", "4080")))


def answers():
    said = struct.pack("<IIiIIHH", 0x52554259, 2, 0, 7, 3, 6, 5)
    write("ruby", "s-whole", b"s" + said + b"total\0a.rb\0")
    write("ruby", "s-cut", b"s" + said + b"total\0a")
    write("ruby", "s-not-text", b"s" + said + b"tot\xff\xff\0a.rb\0")
    write("ruby", "s-gone", b"s" + struct.pack("<IIiIIHH", 0x52554259, 2, 1, 0, 0, 0, 0))


def entry(**more):
    fields = {"generation": 1, "variable": BASE + 0x1100, "machine": BASE + 0x1110, "evaluator": TEXT + 0x400,
              "evaluator_size": 0x100, "core": TEXT + 0x200, "core_size": 0x100}
    small = {"frame_size": 64, "thread": 48, "stack_start": 0x90, "stack_size": 0xa0, "space": 0x28,
             "space_flags": 16, "collects": 32, "ractor": 0x18, "running": 0x40,
             "compiled": 0x118, "owner": 0, "class": 0}
    more = {name.rstrip("_"): value for name, value in more.items()}
    fields.update({name: value for name, value in more.items() if name in fields})
    small.update({name: value for name, value in more.items() if name in small})
    return struct.pack("<7Q12H", *fields.values(), *small.values())


def frame(i):
    """Five frames, and the one that ends them, below 0x2400."""
    return 0x2400 - 64 * (6 - i)


def walk():
    memory = Memory()
    callers = [TEXT + 0x201, TEXT + 0x401, TEXT + 2, TEXT + 0x203, TEXT + 0x403, TEXT + 0x804]
    for i, caller in enumerate(callers):
        memory.put(64 * i + 56, caller)
    memory.put(0x1008, BASE + 0x1200)                   # the thread's vector
    memory.put(0x1100, 3, 8, BASE + 0x1120)             # the variable, the machine
    memory.put(0x1120 + 0x28, BASE + 0x1180)            # its heap
    memory.put(0x1200 + 16 * 3, BASE + 0x1280)
    memory.put(0x1288, BASE + 0x1300)
    memory.put(0x1300, BASE + 0x2000, 0x80, BASE + frame(0), 0, 0, 0, BASE + 0x1400)
    memory.put(0x1390, BASE + 0x400, 0, 0x1000)
    memory.put(0x1418, BASE + 0x1500)                   # its ractor, whose lock it has
    memory.put(0x1540, BASE + 0x1300)
    kinds = [IS_BLOCK | RUN, IS_C | OF_C, IS_METHOD, IS_C_BLOCK | OF_C, IS_EVAL | RUN, IS_END | RUN | OF_C]
    for i, kind in enumerate(kinds):
        memory.put(frame(i), 0x77000028 if not kind & OF_C else 0, 0, BASE + 0x2800 + 64 * i, 0,
                   BASE + 0x2110 + 32 * i)
        memory.put(0x2100 + 32 * i, BASE + 0x2c00, 0, kind)
        memory.put(0x2810 + 64 * i, BASE + 0x3000 + 512 * i)
        memory.body(0x3000 + 512 * i if i < 6 else 0x3000, size=20 << 32, code=0x77000000, label=i)
    memory.put(0x2c00, 6 << 12, 0, BASE + 0x2c40, 0, BASE + 0x2d00)
    memory.put(0x2c60, 0x1001)

    def case(name, *changes, head=entry()):
        other = Memory()
        other.bytes[:] = memory.bytes
        for offset, *values in changes:
            other.put(offset, *values)
        write("ruby-walk", name, head + other.bytes)

    case("whole")
    case("run-begins", (56, TEXT + 2), (120, TEXT + 0x403), (184, TEXT + 0x804))
    case("run-ends", (0x1310, BASE + frame(1)))
    case("no-native", (56, TEXT + 0x804))
    case("fiber", (0x2100 + 32 * 4 + 16, IS_EVAL), (184, TEXT + 0x804))
    case("collector", (0x1190, 32))
    case("collector-of-another", (0x1190, 32), (0x1540, BASE))
    case("compiled", (0x3118, 0x7f0000000000))
    case("other-stack", (0x1390, BASE - 64))
    case("end-too-early", (0x1308, 0x81))
    case("no-end", (0x2100 + 32 * 5 + 16, IS_METHOD))
    case("unknown-frame", (0x2100 + 32 * 2 + 16, 0x12340001))
    case("behind-its-code", (frame(2), 0x77000000 + 8 * 21))
    case("no-entry", (0x2c00, 5 << 12))
    case("long-id", (0x2c60, MASK))
    case("no-frames", (0x1310, 0))
    case("no-context", (0x1288, 0))
    case("no-module", (0x1100, 0))
    case("far-module", (0x1100, MASK))
    case("everything-is-evaluator", head=entry(evaluator=0, evaluator_size=MASK))
    case("everything-is-core", head=entry(core=0, core_size=MASK))
    case("frames-of-no-size", head=entry(frame_size=0))
    case("far-fields", head=entry(thread=65535, stack_start=65535, stack_size=65535, space=65535, ractor=65535,
                                  running=65535, compiled=65535, owner=65535, class_=65535))
    # 3.3: classes, of the block by its outer environment, of C, none, in a ring; 2.7: one context for all
    local = (0x2100 + 32 * 2 + 16, IS_METHOD | 2)
    case("classes", (0x2108, BASE + 0x2110 + 32 * 2), local, head=entry(class_=128))
    case("classes-of-a-ring", (0x2108, BASE + 0x2110), local, head=entry(class_=128))
    case("classes-behind-variables", (0x2100 + 32 * 2, BASE + 0x2c80), local, (0x2c80, 2 << 12, BASE + 0x2c80),
         head=entry(class_=128))
    case("classes-that-are-far", (0x2c20, MASK - 7), local, head=entry(class_=128))
    for name, owner in {"only-context": BASE + 0x1000, "only-context-of-another": BASE}.items():
        case(name, (0x1120, BASE + 0x1300, BASE + 0x1180), (0x1448, owner), (0x1108, 0, BASE + 0x1120),
             head=entry(variable=BASE + 0x1120, machine=BASE + 0x1128, owner=72, ractor=0))


if __name__ == "__main__":
    names()
    classes()
    codes()
    answers()
    walk()
