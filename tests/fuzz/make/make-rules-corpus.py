#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fuzz/corpus/rules: a table of two blocks, then a stack (see fuzz-rules.c). One file for each
kind of rule.

usage: make-rules-corpus.py DIRECTORY
"""
import pathlib
import struct
import sys

BLOCK, TEXT, STACK = 4096, 0x10000, 0x20000000
NONE, RSP, RBP, RBX, DEREF_RSP, DEREF_RBP, PLT, SIGNAL, END, BAD = range(10)


def rule(cfa, offset=0, rbp=0, rbp_offset=0, rbx=0):
    return struct.pack("<ihBB", offset, rbp_offset, cfa, rbp | rbx << 2)


def table(*rules):
    """One page of text, a rule each 16 bytes; the last one ends the stack."""
    rules += (rule(END),)
    keys = b"".join(struct.pack("<H", 16 * i) for i in range(len(rules)))
    record = keys + bytes(range(len(rules)))
    block = record.ljust(BLOCK - 8 * len(rules), b"\0") + b"".join(reversed(rules))
    return struct.pack("<IHH", 1, 0, len(rules)).ljust(BLOCK, b"\0") + block


def stack(n_rules):
    """Every other word returns into the text, the others point upwards into the stack."""
    words = [TEXT + 4]
    words += [(TEXT + 5 + 16 * (i // 2 % (n_rules + 1))) if i % 2 else STACK + 8 * (i + 4)
              for i in range(1, 300)]
    return struct.pack(f"<{len(words)}Q", *words)


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    kinds = {
        "rsp": [rule(RSP, 16)],
        "rbp": [rule(RBP, 16, 1, -16)],
        "rbx": [rule(RBX, 16, 0, 0, 3)],
        "deref": [rule(DEREF_RSP, 8 << 8), rule(DEREF_RBP, -8 << 8, 2, 0)],
        "plt": [rule(PLT, 11)],
        "signal": [rule(SIGNAL), rule(RSP, 8)],
        "bad": [rule(BAD)],
        "register": [rule(16 + 10, 8)],
        "none": [rule(NONE), rule(RSP, 16)],
        "mixed": [rule(RSP, 8 * i + 8, i % 4, -16, i) for i in range(60)],
        "lost": [rule(RSP, 16, 3, 0, 63)],
        "down": [rule(RSP, -64)],
    }
    for name, rules in kinds.items():
        (directory / name).write_bytes(table(*rules) + stack(len(rules)))
    print(f"{len(kinds)} files")


if __name__ == "__main__":
    main()
