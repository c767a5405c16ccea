#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes corpus/kernel-types/: small BTF files, right and wrong. usage: make-kernel-types-corpus.py"""
import pathlib
import struct

INT, PTR, ARRAY, STRUCT, UNION, ENUM, TYPEDEF = 1, 2, 3, 4, 5, 6, 8


class Btf:
    def __init__(self):
        self.types, self.strings = b"", b"\0"

    def name(self, text):
        if not text:
            return 0
        self.strings += text.encode() + b"\0"
        return len(self.strings) - len(text) - 1

    def add(self, name, kind, size_or_type, vlen=0, tail=b""):
        self.types += struct.pack("<III", self.name(name), kind << 24 | vlen, size_or_type) + tail

    def member(self, name, number, bits):
        return struct.pack("<III", self.name(name), number, bits)

    def bytes(self, **wrong):
        header = dict(magic=0xEB9F, version=1, flags=0, hdr_len=24, type_off=0, type_len=len(self.types),
                      str_off=len(self.types), str_len=len(self.strings)) | wrong
        return struct.pack("<HBBIIIII", *header.values()) + self.types + self.strings


def usual():
    b = Btf()
    b.add("int", INT, 4, 0, struct.pack("<I", 0x01000020))                                  # 1
    b.add("", PTR, 6)                                                                       # 2
    b.add("", ARRAY, 0, 0, struct.pack("<III", 4, 1, 1))                                    # 3
    b.add("upid", STRUCT, 16, 2, b.member("nr", 1, 0) + b.member("ns", 2, 64))              # 4
    b.add("pid", STRUCT, 32, 3, b.member("level", 1, 0) + b.member("numbers", 3, 64) + b.member("", 7, 192))    # 5
    b.add("namespace", STRUCT, 8, 1, b.member("x", 1, 0))                                   # 6
    b.add("", UNION, 8, 2, b.member("a", 8, 0) + b.member("b", 6, 0))                       # 7
    b.add("number", TYPEDEF, 1)                                                             # 8
    b.add("kind", ENUM, 4, 1, struct.pack("<II", b.name("KIND_ONE"), 1))                    # 9
    return b


def nested(n):
    b = Btf()
    for i in range(n):
        b.add("nested" if not i else "", STRUCT, 4, 1, b.member("", i + 2, 0))
    b.add("int", INT, 4, 0, struct.pack("<I", 0x01000020))
    return b


def main():
    out = pathlib.Path(__file__).parents[1] / "corpus/kernel-types"
    out.mkdir(parents=True, exist_ok=True)
    own = Btf()
    own.add("pid", STRUCT, 4, 1, own.member("me", 1, 0))
    far = Btf()
    far.add("pid", STRUCT, 4, 1, far.member("far", 1000, 0))
    func = Btf()
    func.add("pid", STRUCT, 4, 1, func.member("f", 2, 0))
    func.add("f", 12, 1)
    files = {
        "usual": usual().bytes(),
        "cut": usual().bytes()[:-9],
        "types-overlap-strings": usual().bytes(str_off=8),
        "types-beyond-file": usual().bytes(type_len=1 << 30),
        "header-long": usual().bytes(hdr_len=1 << 31),
        "no-strings": usual().bytes(str_len=0),
        "nested-20": nested(20).bytes(),
        "nested-100": nested(100).bytes(),
        "contains-itself": own.bytes(),
        "member-far": far.bytes(),
        "member-function": func.bytes(),
    }
    for name, data in files.items():
        (out / name).write_bytes(data)


if __name__ == "__main__":
    main()
