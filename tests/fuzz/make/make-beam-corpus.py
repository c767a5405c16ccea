#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/beam/: memory with modules and atoms, with a process' variables, and what a worker says
(fuzz-beam.c); and corpus/beam-walk/: an entry of bpf/border/runtime_abi.h, registers, and memory with a
stack, code and a scheduler (fuzz-beam-walk.c). By the layout of OTP 25, and what it names of 29's, too.

usage: make-beam-corpus.py  (from anywhere; pack-corpus.py packs what it writes)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus"
BASE, MASK = 0x20000000, (1 << 64) - 1
ACTIVE, RANGES, ATOMS, ATOMS_TEXT = 0x20, 0x40, 0x100, 0x1f0    # variables
TABLES, SCHEDULERS, SCHEDULER_SIZE = 0x400, 0x800, 0x400
FRAGMENTS, BOTTOM, MODULES = 0x3000, 0x3c30, 0x4000     # code
STACK, NATIVE_STACK, PROCESS = 0x7000, 0x7f00, 0x1f00
LINES, SEGMENT, TEXTS, LIST = 0x6000, 0x6400, 0x6800, 0x6f00


class Memory:
    def __init__(self):
        self.bytes = bytearray(0x8000)
        for i in range(FRAGMENTS, LINES):
            self.bytes[i] = i * 13 + (i >> 8) & 0xff

    def put(self, offset, *words):
        struct.pack_into(f"<{len(words)}Q", self.bytes, offset, *(word & MASK for word in words))
        return self

    def copy(self):
        other = Memory.__new__(Memory)
        other.bytes = bytearray(self.bytes)
        return other


def atom(number):
    return number << 6 | 0x0b


def cookie(memory, pc):
    low, high = struct.unpack_from("<2Q", memory.bytes, pc - 16)
    mixed = (low * 0x9e3779b97f4a7c15 ^ high * 0xc2b2ae3d27d4eb4f) & MASK
    mixed ^= mixed >> 29
    return (mixed >> 32 ^ mixed) & 0xffffffff


def put_atom(memory, number, text, is_term=False):
    at = TEXTS + 0x100 * number
    memory.put(SEGMENT + 8 * number, BASE + at)
    struct.pack_into("<h", memory.bytes, at + 24, len(text))
    memory.put(at + 32, BASE + at + 64 + 2 * is_term)
    memory.put(at + 72, 8 * len(text))
    memory.bytes[at + 64 + 16 * is_term:at + 64 + 16 * is_term + len(text)] = text


def runtime(functions=96, is_term=False):
    """One module of three functions, in all tables; lines in the first place of each."""
    memory = Memory()
    memory.put(8, BASE + SCHEDULERS)
    memory.put(ATOMS + 64, BASE + ATOMS_TEXT)
    memory.put(ACTIVE, 1)
    memory.put(ATOMS + 120, BASE + 0x380).put(0x380, BASE + SEGMENT)
    memory.put(TABLES, *(BASE + MODULES + at for at in (0, 0xf00, 0x1000, 0x1f00)))
    for i in range(3):
        memory.put(RANGES + 32 * i, BASE + TABLES, 2, 2, BASE + TABLES + 16)
    for i in range(2):
        memory.put(SCHEDULERS + SCHEDULER_SIZE * i, BASE + NATIVE_STACK - 0x800 * i)
        memory.put(SCHEDULERS + SCHEDULER_SIZE * i + 184, i + 1, 0, i + 1)
        memory.put(SCHEDULERS + SCHEDULER_SIZE * i + 168, BASE + PROCESS)
        at = MODULES + 0x1000 * i
        memory.put(at, 3).put(at + 72, BASE + LINES)
        memory.put(at + functions, *(BASE + at + 0x200 + 0x100 * k for k in range(4)))
        for k in range(3):
            memory.put(at + 0x210 + 0x100 * k, atom(2 + i), atom(4), k)
    for number, text in enumerate((b"false", b"true", b"lists", b"Elixir.MyApp.Repo", b"all", b"erts_beamasm",
                                   b"normal_exit")):
        put_atom(memory, number, text, is_term)
    memory.put(LINES, BASE + LINES + 0x80, 4, BASE + LINES + 0x200)
    memory.put(LINES + 24, *(BASE + LINES + 0x100 + 8 * k for k in range(4)))
    memory.put(LINES + 0x80, BASE + LIST + 1)
    memory.put(LINES + 0x100, *(BASE + MODULES + 0x240 + 0x100 * k for k in range(3)))
    struct.pack_into("<3I", memory.bytes, LINES + 0x200, 11, 1 << 24 | 12, 13)
    for k, letter in enumerate(b"a.ex"):
        memory.put(LIST + 16 * k, letter << 4 | 0xf, 0x3b if k == 3 else BASE + LIST + 16 * k + 17)
    memory.bytes[FRAGMENTS + 0x100:FRAGMENTS + 0x104] = b"\x49\x8b\x65\x58"
    loads = b"\x48\xbf" + struct.pack("<Q", BASE + ACTIVE) + b"\x31\xf6\x44\x8b\x27"
    memory.bytes[FRAGMENTS + 0x201:FRAGMENTS + 0x201 + len(loads)] = loads
    memory.put(BOTTOM - 24, atom(5), atom(6), 0)
    return memory


def write(folder, name, data):
    path = CORPUS / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(data))


def names():
    good, letter = runtime(), b"n"

    def case(name, pc=MODULES + 0x350, exact=0, memory=good):
        words = struct.pack("<2Q", BASE + pc if pc else 0, (cookie(good, pc) << 32 if pc else 0) | exact)
        write("beam", f"n-{name}", letter + words + memory.bytes)

    case("function")
    case("exact", exact=1)
    case("elixir", MODULES + 0x1250)
    case("no-line", MODULES + 0x235)
    case("stub", MODULES + 0x580)
    case("fragment", FRAGMENTS + 0x500)
    case("scheduler", 0)
    case("gone", memory=good.copy().put(MODULES + 0x348, 1))
    case("many-functions", memory=good.copy().put(MODULES, MASK))
    case("far-functions", memory=good.copy().put(MODULES + 104, MASK, MASK))
    case("far-atom", memory=good.copy().put(MODULES + 0x310, MASK & ~0x34))
    case("ring-of-a-file", memory=good.copy().put(LIST + 8, BASE + LIST + 1))
    case("many-lines", memory=good.copy().put(LINES + 32, 0, MASK))
    case("odd-locations", memory=good.copy().put(LINES + 8, 3))
    for n, text in (("long", b"\xff" * 180), ("empty", b"")):
        memory = good.copy()
        put_atom(memory, 2, text)
        case(f"{n}-atom", memory=memory)
    good, letter = runtime(152, True), b"N"
    case("29", memory=good)
    case("29-list", memory=good.copy().put(TEXTS + 0x200 + 32, BASE + TEXTS + 0x241))
    case("29-more-bits", memory=good.copy().put(TEXTS + 0x200 + 72, MASK))


def processes():
    good = runtime()
    write("beam", "f-whole", b"f" + good.bytes)
    write("beam", "f-cut", b"f" + good.bytes[:0x1000])
    write("beam", "f-twice", b"f" + good.copy().put(0x600, *struct.unpack_from("<12Q", good.bytes, RANGES)).bytes)
    write("beam", "f-early", b"f" + good.copy().put(SCHEDULERS + SCHEDULER_SIZE, 0).bytes)
    many = good.copy()
    many.bytes.extend(bytes(0x4200))
    for i in range(1, 66):
        many.put(0x7f00 + 0x100 * i, 1).put(0x7f00 + 0x100 * i + 184, i, 0, i)
    write("beam", "f-many", b"f" + many.put(8, BASE + 0x8000).bytes)
    write("beam", "f-one", b"f" + good.copy().put(SCHEDULERS + SCHEDULER_SIZE + 184, 0).bytes)
    write("beam", "f-two-exits", b"f" + good.copy().put(BOTTOM - 64, atom(5), atom(6), 0).bytes)
    write("beam", "f-29", b"F" + runtime(152, True).bytes)
    write("beam", "f-other", b"f" + good.copy().put(FRAGMENTS + 0x100, 0).bytes)
    likely = (BASE + TABLES, 1, 1, BASE + TABLES)
    write("beam", "f-likely", b"f" + good.copy().put(0x1000, *likely * 128).bytes)


def answers():
    said = struct.pack("<IIiIIHH", 0x4245414d, 3, 0, 7, 0, 6, 5)
    write("beam", "s-whole", b"s" + said + b"l:m/2\0a.er\0")
    write("beam", "s-not-text", b"s" + said + b"l:m/\xff\0a.er\0")
    write("beam", "s-gone", b"s" + struct.pack("<IIiIIHH", 0x4245414d, 3, 1, 0, 0, 0, 0))
    write("beam", "s-found", b"s" + struct.pack("<IIiIIHH", 0x4245414d, 2, 0, 0, 0, 0, 0))


def entry(**more):
    fields = {"generation": 1, "bottom": BASE + BOTTOM, "modules": BASE + MODULES, "active": BASE + ACTIVE,
              "ranges": BASE + RANGES, "schedulers": BASE + SCHEDULERS, "size": SCHEDULER_SIZE, "current": 168,
              "stop": 88, "end": 136, "n": 2, "registered": 48, "initial": 448}
    fields.update(more)
    return struct.pack("<6QI6H64Q", *fields.values(), BASE + NATIVE_STACK, BASE + NATIVE_STACK - 0x800, *[0] * 62)


def walks():
    memory = runtime()
    memory.put(PROCESS + 88, BASE + STACK).put(PROCESS + 136, BASE + 0x7800)
    one, two, loose = BASE + MODULES + 0x204, BASE + MODULES + 0x1208, BASE + MODULES + 0x301
    memory.put(STACK, 0x1f, one, BASE + 0x11, two, one, BASE + BOTTOM)

    def case(name, is_leaf, pc, sp, bp=0, code=b"", words=None, head=entry(), r13=BASE + PROCESS,
             r15=BASE + 0x1000):
        other = memory.copy()
        if code:
            other.bytes[pc + 20:pc + 20 + len(code)] = code
        if words:
            other.put(STACK, *words)
        registers = struct.pack("<5Q", *(x & MASK for x in (BASE + pc, sp, bp, r13, r15)))
        write("beam-walk", name, bytes([is_leaf]) + head + registers + other.bytes)

    stack, native = BASE + STACK, BASE + NATIVE_STACK
    case("leaf", 1, MODULES + 0x320, stack)
    memory.put(PROCESS + 448, atom(3), atom(4), 2)
    case("initial", 1, MODULES + 0x320, stack)
    memory.put(PROCESS + 48, BASE + LIST + 0x80).put(LIST + 0xa0, atom(2))
    case("registered", 1, MODULES + 0x320, stack)
    case("far-name", 1, MODULES + 0x320, stack, head=entry(registered=0xfff8, initial=0xffff))
    memory.put(PROCESS + 48, 0)
    case("by-rbp", 0, MODULES + 0x320, native, stack, b"\x48\x89\xec")
    case("by-stop", 0, MODULES + 0x320, native, 1, b"\x49\x8b\x65\x58")
    case("collected", 0, MODULES + 0x320, native - 0x800)
    case("fragment", 0, FRAGMENTS + 0x400, native, stack, b"\x48\x89\xec", (loose, one, two, BASE + BOTTOM))
    case("fragment-leaf", 1, FRAGMENTS + 0x400, native, stack, b"\x48\x89\xec", (1, 1, loose, two, BASE + BOTTOM))
    case("idle", 1, FRAGMENTS + 0x400, native, r13=0)
    case("no-scheduler", 0, MODULES + 0x320, native + 8)
    case("no-bottom", 1, MODULES + 0x320, stack, words=(one, two, 0, 0, 0, 0))
    case("deep", 1, MODULES + 0x320, stack, words=(one,) * 200)
    case("no-code", 1, MODULES + 0x320, stack, words=(one, 0x900000))
    case("odd-stack", 0, MODULES + 0x320, native, stack + 4, b"\x48\x89\xec")
    case("everything-is-a-module", 1, MODULES + 0x320, stack, head=entry(modules=0))
    case("far-fields", 0, MODULES + 0x320, native, head=entry(current=0xffff, stop=0xffff, end=0xffff, size=MASK >> 32))
    case("other-code", 1, 0x2000, stack)
    # a thread whose native stack is whole, and which has r15 as its pointer
    thread, dirty = BASE + 0x7f40, 0x1000
    bits = (thread >> 6 ^ thread >> 23) & (1 << 23) - 1
    head = entry()[:-8] + struct.pack("<Q", (BASE + dirty) // 64 << 23 | bits)
    memory.put(dirty + 32, thread)
    case("dirty-idle", 2, MODULES + 0x320, native, head=head, r15=thread)
    memory.put(dirty + 168, BASE + PROCESS)
    case("dirty", 2, MODULES + 0x320, native, head=head, r15=thread)
    case("no-dirty", 2, MODULES + 0x320, native, head=head)
    memory.put(PROCESS + 88, BASE + STACK + 4)
    case("dirty-odd-stack", 2, MODULES + 0x320, native, head=head, r15=thread)


if __name__ == "__main__":
    names()
    processes()
    answers()
    walks()
