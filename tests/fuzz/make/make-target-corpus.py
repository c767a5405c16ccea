#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipe of the corpora maps, elf, ring, kallsyms and probe-notes: writes them into corpus/."""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "oracles"))
from probes import CODE, DATA, elf as probed, note as probe  # noqa: E402

CORPUS = pathlib.Path(__file__).parents[1] / "corpus"


def put(folder, name, data):
    (CORPUS / folder).mkdir(exist_ok=True)
    (CORPUS / folder / name).write_bytes(data)


put("maps", "real", b"""558645495000-55864549a000 r-xp 00002000 fe:00 247026                     /usr/bin/cat
7f1000000000-7f1000801000 rw-p 00000000 00:00 0\x20
7f2000000000-7f2000201000 rw-p 00000000 00:00 0                          [anon:DD_OTEL_CTX]
7f3000000000-7f3000001000 rw-s 00000000 00:01 2062                       /memfd:DD_OTEL_CTX (deleted)
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
""")
put("maps", "escaped",
    b"1000-2000 r-xp 0 8:1 5   /a\\012b\\040\xff (deleted)\n2000-3000 r--p 0 8:1 5 /" + b"\\012" * 4100)
put(
    "maps", "malformed",
    b"\n2000-1000 r--p 0 0:0 0\n1000-2000 r--q 0 0:0 0\n1000\n1000-2000 r--p 0 0:0 18446744073709551616\n"
    b"10000000000000000-20000000000000000 r--p 0 0:0 0\n1000-2000 r--p 0 0:0 0")
put(
    "maps", "mountinfo",
    b"36 35 254:0 / / rw,noatime master:1 - ext4 /dev/root rw\n40 36 0:45 / /m rw - fuse.sshfs u@h:/ rw\n"
    b"41 36 0:45 / / rw -\n42 0:45\n43 36 0:45 / / rw - ")
put("maps", "stat", b"7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 12345 1 1")


def elf(segments, notes=b"", phnum=None, shnum=0, klass=2):
    program = b"".join(struct.pack("<IIQQQQQQ", *s) for s in segments)
    section = struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, 64 + len(program), len(notes), 0, 0, 4, 0)
    header = b"\x7fELF" + bytes([klass, 1, 1]) + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0x1040, 64, 64 + len(program) + len(notes), 0, 64, 56,
        len(segments) if phnum is None else phnum, 64, shnum, 0)
    return header + program + notes + section * shnum


def note(name, kind, content):
    return struct.pack("<III", len(name), len(content), kind) + name + bytes(
        -len(name) % 4) + content + bytes(-len(content) % 4)


gnu, go = note(b"GNU\0", 3, bytes(range(20))), note(b"Go\0\0", 4, b"abc/def/ghi")
prop = note(b"GNU\0", 5, bytes(16))
load = (1, 5, 0, 0x400000, 0x400000, 0x1000, 0x2000, 0x1000)


def note_segment(n, size, align=4):
    return (4, 4, 64 + 56 * n, 0, 0, size, size, align)


put("elf", "gnu", elf([load, note_segment(2, len(gnu))], gnu))
put("elf", "go-and-gnu", elf([load, note_segment(2, len(gnu + go))], go + gnu))
put("elf", "property-first", elf([load, note_segment(2, len(prop + gnu), 8)], prop + gnu))
put("elf", "sections-only", elf([], gnu, shnum=2))
put("elf", "names-no-end",
    elf([load, note_segment(2, 64)],
        struct.pack("<III", 0xffffffff, 0xffffffff, 3) + bytes(52)))
put("elf", "too-many-headers", elf([load], phnum=0xffff))
put("elf", "17-segments", elf([load] * 17))
put("elf", "wraps-around", elf([(1, 5, 2**64 - 1, 2**64 - 1, 0, 2, 2, 1)]))
put("elf", "32-bit", elf([load], klass=1))


def ring(address, end, magic=0x4F54454C, version=1, capacity=100, slot=32, reserved=bytes(16)):
    return struct.pack("<QQIIII", address, end, magic, version, capacity, slot) + reserved


put("ring", "good", ring(0x1000, 0x1000 + 32 + 3200))
put("ring", "one-byte-short", ring(0x1000, 0x1000 + 32 + 3199))
put("ring", "unfinished", ring(0x1000, 0x9000, version=0))
put("ring", "largest", ring(0x1000, 0x1000 + 32 + 2**29, capacity=2**24))
put("ring", "too-large", ring(0, 2**64 - 1, capacity=2**24 + 1))
put("ring", "at-the-end", ring(2**64 - 16, 2**64 - 1, capacity=1))
put("ring", "reserved-used", ring(0x1000, 0x9000, reserved=bytes(15) + b"\1"))

put("kallsyms", "real", b"""0000000000000000 A fixed_percpu_data
ffffffff9d000000 T _stext
ffffffff9d000000 T _text
ffffffff9d000000 t __head
ffffffff9d0000b0 T secondary_startup_64
ffffffff9d001000 t __pfx_do_one
ffffffff9d001010 t do_one
ffffffff9d001010 T do_one_alias
ffffffff9e209988 T _etext
ffffffffc0405000 t nft_do_chain\t[nf_tables]
ffffffffc0404000 t nft_first\t[nf_tables]
ffffffffc0800000 t bpf_prog_1234_x\t[bpf]
""")
put("kallsyms", "hidden", b"0000000000000000 T _text\n0000000000000000 T do_one\n")
put(
    "kallsyms", "unsorted",
    b"ffffffff9d000000 T _text\nffffffff9d000300 T c\nffffffff9d000200 T b\nffffffff9d000400 T d\n"
    b"00000000000000ff T far\n")
put(
    "kallsyms", "malformed",
    b"x T _text\nffffffff9d000000 T _text\nffffffff9d000000 T\nffffffff9d000000 T \n ffff T x\n"
    b"ffffffff9d000010 t x\t[\nffffffff9d000010 t x\t[]\nffffffff9d000010 t " + b"y" * 600 +
    b"\nffffffff9d000020 T z")
put("kallsyms", "low",
    b"0000000000001000 T _text\n0000000000001008 T a\nffffffffffffffff T b\n0000000080000fff T c\n")

# notes of probes: sound ones, and such as are wrong in one thing
for name, data in {
    "sound": probed(probe()),
    "two-and-others": probed(probe(name=b"free", arguments=b"8@%rdi") + probe(provider=b"libc") + probe() +
                          probe(place=CODE + 8)),
    "free-behind-sixteen": probed(b"".join(probe(place=CODE + i % 8) for i in range(16)) +
                                  probe(name=b"free", arguments=b"8@%rdi")),
    "free-nowhere": probed(probe() + probe(name=b"free", place=1, arguments=b"8@%rdi")),
    "no-semaphore": probed(probe(semaphore=0)),
    "moved": probed(probe(place=0x100, base=0x180, semaphore=0x1100), base=0x1080),
    "moved-away": probed(probe(base=1), base=2**63),
    "seventeen": probed(b"".join(probe(place=CODE + i % 8) for i in range(17))),
    "nowhere": probed(probe(place=2**64 - 1)),
    "in-data": probed(probe(place=DATA)),
    "semaphore-in-code": probed(probe(semaphore=CODE)),
    "semaphore-at-the-end": probed(probe(semaphore=DATA + 0xfff)),
    "no-nop": probed(probe(), code=b"\xc3" * 16),
    "in-memory": probed(probe(arguments=b"8@-16(%rbp) -4@(%r12) 2@$-7")),
    "no-register": probed(probe(arguments=b"8@%rip 8@%rsi 8@%rdx")),
    "scaled": probed(probe(arguments=b"8@8(%rax,%rbx,4) 8@%rsi 8@%rdx")),
    "two-arguments": probed(probe(arguments=b"8@%rdi 8@%rsi")),
    "long-arguments": probed(probe(arguments=b"8@%rdi " * 4000)),
    "no-text": probed(probe(size=24)),
    "short": probed(probe(size=8)),
    "long": probed(probe(size=2**32 - 1)),
    "long-name": probed(struct.pack("<3I", 2**32 - 1, 8, 3) + probe()),
    "other-kind": probed(probe(kind=4)),
    "other-owner": probed(probe(owner=b"other..\0")),
    "text-without-end": probed(probe()[:-4] + b"xxxx"),
    "arm": probed(probe(arguments=b"8@x0 -4@[sp, 16] 8@[x29]")),
}.items():
    put("probe-notes", name, data)
