#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fuzz/corpus/cfi: one small file for each form of call frame information. Recipes, not
recordings.

usage: make-cfi-corpus.py DIRECTORY
"""
import pathlib
import struct
import sys

TEXT, FRAME = 0x10000, 0x400000  # as in tests/harness/c/cfi-maker.h


def entry(ident, body, wide=None):
    """An entry; @wide: size of the id in the 64-bit format."""
    if wide:
        id_bytes = struct.pack("<Q", ident & 0xffffffffffffffff)[:wide]
        return struct.pack("<IQ", 0xffffffff, wide + len(body)) + id_bytes + body
    return struct.pack("<II", 4 + len(body), ident & 0xffffffff) + body


def cie(letters=b"zR", data=b"\x01\x00", version=1, code=b"\x0c\x07\x08\x90\x01", **wide):
    extra = b"\x08\x00" if version == 4 else b""
    return entry(0, bytes([version]) + letters + b"\0" + extra + b"\x01\x78\x10" + data + code, **wide)


def fde(at, code=b"", start=TEXT, size=0x40, pointers=None, **wide):
    """@at: offset of this entry, its CIE being at 0."""
    pointers = struct.pack("<QQ", start, size) if pointers is None else pointers
    return entry(at + (12 if wide else 4), pointers + b"\0" + code, **wide)


def frame(first, *codes, **options):
    out = first
    for i, code in enumerate(codes):
        out += fde(len(out), code, TEXT + 0x1000 * i, 0x800, **options)
    return out + bytes(4)


def chain(first, *functions):
    """Functions at chosen places: (code, start, size)."""
    out = first
    for code, start, size in functions:
        out += fde(len(out), code, start, size)
    return out + bytes(4)


def relative(first):
    """One function whose start is relative to where it is written (pcrel sdata4), as gcc writes it."""
    return first + fde(len(first), PROLOGUE, pointers=struct.pack("<iI", TEXT - (FRAME + len(first) + 8), 64))


def elf(section, with_hdr, text=b""):
    """A file whose .eh_frame is found by PT_GNU_EH_FRAME; one pair in its table if @with_hdr. @text: at its end."""
    offset, hdr = 0x200, FRAME + len(section)
    header = bytes([1, 0x1b, 3, 0x3b]) + struct.pack("<iI", FRAME - (hdr + 4), 1 if with_hdr else 0)
    if with_hdr:
        first_fde = 4 + struct.unpack_from("<I", section)[0]
        header += struct.pack("<ii", TEXT - hdr, FRAME + first_fde - hdr)
    ehdr = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 64, 0,
                       0)
    size = len(section) + len(header)
    phdrs = (struct.pack("<IIQQQQQQ", 1, 5, offset + size if text else 0, TEXT, 0, len(text), 0x20000, 0x1000)
                 + struct.pack("<IIQQQQQQ", 1, 4, offset, FRAME, 0, size, size, 0x1000)
                 + struct.pack("<IIQQQQQQ", 0x6474e550, 4, 0, hdr, 0, len(header), len(header), 4))
    return (ehdr + phdrs).ljust(offset, b"\0") + section + header + text


PLT = b"\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"
PROLOGUE = b"\x41\x0e\x10\x83\x02\x41\x0e\x18\x86\x03\x43\x0d\x06"
NESTED = b"\x0a\x0e\x10\x41\x0a\x0e\x18\x86\x03\x41\x0b\x41\x0b\xc6\x06\x03"
WIDTHS = b"\x42\x0e\x10\x02\x03\x0e\x18\x03\x04\x00\x0e\x20\x04\x05\x00\x00\x00\x0e\x28\x1d\x06" + bytes(
    7) + b"\x0e\x30"
REGISTERS = (
    b"\x05\x06\x02\x11\x06\x7f\x2f\x06\x02\x07\x06\x08\x06\x09\x06\x0c\x14\x06\x02\x15\x03\x7e\x16\x03\x02\x77\x00"
    b"\x2e\x10\x07\x10")
SIGNAL = b"\x0f\x04\x77\xa0\x01\x06\x10\x10\x03\x77\xa8\x01\x10\x06\x03\x77\xf8\x00"
REALIGNED = b"\x45\x0c\x0a\x00\x49\x10\x06\x02\x76\x00\x43\x0f\x03\x76\x78\x06\x02\x40\x0c\x0a\x00"
# CFA by an indexed word, by r10, and a return address in rdi.
LEAF = b"\x0f\x0a\x77\x08\x79\x00\x38\x1e\x22\x06\x23\x08\x41\x0c\x0a\x08\x41\x0c\x07\x00\x09\x10\x05"
# As libgcc leaves for a landing pad: rbp + 16, rcx + 8, rsp + 8, rsp with the return address in rcx; and its
# code.
LANDING = b"\x0c\x06\x10\x60\x0c\x02\x08\x43\x0c\x07\x08\x41\x0c\x07\x00\x09\x10\x02"
LANDING_CODE = (bytes(8) + b"\x48\x89\xc1\x48\x89\x74\x05\x08" + b"\x48\x8d\x4c\x0d\x08").ljust(
    32, b"\x90") + bytes(32)
OFFSETS = b"\x12\x06\x7e\x13\x7d\x0c\x03\x10\x0d\x07\x0e\xff\xff\x03"

FILES = {
    "prologue": b"F" + frame(cie(), PROLOGUE, WIDTHS),
    "nested": b"F" + frame(cie(), NESTED),
    "registers": b"F" + frame(cie(), REGISTERS, OFFSETS),
    "expressions": b"F" + frame(cie(), PLT, REALIGNED, b"\x0f\x05\x77\x10\x06\x23\x08"),
    "signal": b"F" + frame(cie(b"zRS"), SIGNAL),
    "set-loc": b"F" + frame(cie(), b"\x01" + struct.pack("<Q", TEXT + 0x40) + b"\x0e\x10"),
    "personality": b"F" + frame(cie(b"zPLR", b"\x07\x9b\1\2\3\4\x1b\x00"), PROLOGUE),
    "gcc2": b"F" + frame(cie(b"eh", b"", code=b"")),
    "unsorted": b"F" + chain(cie(), (PROLOGUE, TEXT + 0x1000, 0x40), (b"", TEXT, 0x40)),
    "overlap": b"F" + chain(cie(), (b"\x0e\x10", TEXT, 0x20000), (b"", TEXT + 0x100, 0x40)),
    "pcrel": b"F" + relative(cie(b"zR", b"\x01\x1b")),
    "version3": b"F" + frame(cie(version=3), PROLOGUE),
    "version4": b"F" + frame(cie(version=4), PROLOGUE),
    "wide-lsb": b"F" + frame(cie(wide=4), PROLOGUE, wide=4),
    "wide-dwarf": b"F" + frame(cie(wide=8), PROLOGUE, wide=8),
    "loop": b"F" + entry(4, bytes(24)) + entry(0x20, bytes(24)),
    "long-entry": b"F" + cie() + b"\xff\xff\xff\x7f" + bytes(40),
    "debug": b"D" + entry(0xffffffff, b"\x04\0\x08\0\x01\x78\x10\x0c\x07\x08") + entry(
        0, struct.pack("<QQ", TEXT, 64) + PROLOGUE),
    "elf-scan": b"E" + elf(frame(cie(), PROLOGUE), False),
    "elf-table": b"E" + elf(frame(cie(), PROLOGUE), True),
    "leaf": b"F" + frame(cie(), LEAF),
    "elf-landing": b"E" + elf(frame(cie(), LANDING), True, LANDING_CODE),
    "dense": b"F" + frame(cie(), b"".join(b"\x41\x0e" + bytes([8 + 8 * (i % 2)]) for i in range(1500))),
}


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in FILES.items():
        (directory / name).write_bytes(data)
    print(f"{len(FILES)} files")


if __name__ == "__main__":
    main()
