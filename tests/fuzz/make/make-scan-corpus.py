#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus of fuzz-scan: small ELF files without call frame information, of which each holds code of
another kind.

usage: make-scan-corpus.py tests/fuzz/corpus
"""
import pathlib
import struct
import sys

CODE_AT, CODE, SECTIONS, SYMBOLS, SIZE = 0x400, 0x10400, 0x200, 0xC00, 0x1000
CODES = {
    "leaf": "31c0c3",
    "pushes": "55534883ec18e8200000004883c4185b5dc3" + "90" * 20 + "c3",
    "frame": "554889e54883ec20488965f8c9c3",
    "entry": "4831ed4889e74883e4f0e8030000000f1f008b37c3",
    "branch": "5385ff7407b8010000005bc331c05bc3",
    "loop": "534889fb4883eb0175fa5bc3",
    "disagree": "85ff7401505bc3",
    "middle": "85ff7402b8909090c3",
    "no-return": "4883ec08e8f7ffffff90909055c3",
    "table": "83ff03771a488d0512000000" + "48630cb84801c8ffe0" + "0f1f00" + "10000000" * 4 + "c3c3c3c3",
    "tail": "55488d050a0000005dffe0" + "90" * 5 + "53e8eaffffff5bc3",
    "clone": "31c0b0380f0585c0750531ed5fffd6f4c3",
    "restorer": "9048c7c00f0000000f05",
    "vector": "c5f877c3" + "62f17c4828c1c3",
    "bytes": "80cc0c88e088c4c3",
    "jump-out": "e9000100000f84000200005bc3",
    "cut": "488d",
    "junk": "ffffffff0f0f0f0f67666666",
}


def elf(code, starts=(0,), entry=CODE, info=0x12):
    """A file whose symbols are at @starts of the code; @info: 0x12 = global functions, 2 = local ones."""
    file = bytearray(SIZE)
    file[:64] = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, entry, 64, SECTIONS, 0, 64, 56, 1, 64, 2, 1)
    struct.pack_into("<IIQQQQQQ", file, 64, 1, 5, 0, 0x10000, 0x10000, SIZE, SIZE, 0x1000)
    struct.pack_into("<IIQQQQIIQQ", file, SECTIONS, 0, 2, 0, 0, SYMBOLS, 24 * len(starts), 0, 0, 8, 24)
    struct.pack_into("<IIQQQQIIQQ", file, SECTIONS + 64, 0, 3, 0, 0, 0x280, 16, 0, 0, 1, 0)
    for i, start in enumerate(starts):
        struct.pack_into("<IBBHQQ", file, SYMBOLS + 24 * i, 0, info, 0, 1, CODE + start, 0)
    file[CODE_AT:CODE_AT + len(code)] = code
    return bytes(file)


def main(directory):
    folder = pathlib.Path(directory) / "scan"
    folder.mkdir(parents=True, exist_ok=True)
    everything = b""
    starts = []
    for name, code in CODES.items():
        code = bytes.fromhex(code)
        (folder / name).write_bytes(elf(code))
        starts.append(len(everything))
        everything += code + b"\x90" * (-len(code) % 16)
    (folder / "all").write_bytes(elf(everything, starts))
    (folder / "all-labels").write_bytes(elf(everything, starts, 0, 2))
    (folder / "every-byte").write_bytes(elf(everything, range(40)))


main(*sys.argv[1:])
