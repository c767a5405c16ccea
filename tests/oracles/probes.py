# SPDX-License-Identifier: Apache-2.0
"""ELF files with notes of probes (USDT), made by hand: for the fuzzer's corpus, and hostile ones for tests."""
import os
import struct

CODE, DATA = 0x1000, 0x2000     # addresses, which are offsets too
X86 = os.uname().machine == "x86_64"
NOP = b"\x90" if X86 else b"\x1f\x20\x03\xd5"
ARGUMENTS = b"8@%rdi 8@%rsi 8@%rdx" if X86 else b"8@x0 8@x1 8@x2"


def note(place=CODE, base=0, semaphore=DATA, provider=b"otel_memory", name=b"alloc", arguments=ARGUMENTS,
         kind=3, owner=b"stapsdt\0", size=None):
    text = struct.pack("<3Q", place, base, semaphore) + provider + b"\0" + name + b"\0" + arguments + b"\0"
    padded = text + bytes(-len(text) % 4)
    return struct.pack("<3I", len(owner), len(text) if size is None else size, kind) + owner + padded


def elf(notes, code=None, base=None):
    """A shared object: a page of code, one of data, and the notes. @base: address of .stapsdt.base."""
    names = b"\0.note.stapsdt\0.stapsdt.base\0.shstrtab\0"
    code = NOP * 16 if code is None else code
    at = 0x3000
    sections = [(0, 0, 0, 0, 0, 0), (1, 7, 0, 0, at, len(notes)),
                (15, 1, 2, base or 0, CODE, 1 if base else 0), (29, 3, 0, 0, at + len(notes), len(names))]
    if base is None:
        sections[2] = (0, 0, 0, 0, 0, 0)
    body = notes + names
    table = at + len(body) + -len(body) % 8
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62 if X86 else 183, 1, 0, 64, table, 0, 64, 56, 2, 64, len(sections), 3)
    for flags, address in (5, CODE), (6, DATA):
        header += struct.pack("<IIQQQQQQ", 1, flags, address, address, address, 0x1000, 0x1000, 0x1000)
    file = bytearray(table)
    file[:len(header)] = header
    file[CODE:CODE + len(code)] = code
    file[at:at + len(body)] = body
    for name, kind, flags, address, offset, size in sections:
        file += struct.pack("<IIQQQQIIQQ", name, kind, flags, address, offset, size, 0, 0, 4, 0)
    return bytes(file)
