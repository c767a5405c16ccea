# SPDX-License-Identifier: Apache-2.0
"""Files whose call frame information is crafted: each a small library, broken in one way.

The library has its first page mapped as code (`-z noseparate-code`), so that whoever maps it executable from its begin is
looked up in its rows.
"""
import random
import struct
import subprocess

import tap

SOURCE = "\n".join(f"int f{i}(int x, int (*g)(int)) {{ int a[{i + 1}]; a[x] = g(x); return a[x] + g({i}); }}"
                   for i in range(40))
GNU_EH_FRAME = 0x6474e550


class Elf:
    """The bytes of a 64-bit ELF file, and where its call frame information lies."""

    def __init__(self, data):
        self.data = bytearray(data)
        self.phoff, self.shoff = struct.unpack_from("<QQ", data, 32)
        _, self.phnum, _, self.shnum, shstrndx = struct.unpack_from("<5H", data, 54)
        names = self.section_at(shstrndx)[0]
        for i in range(self.shnum):
            offset, size, place = self.section_at(i)
            name = data[names + struct.unpack_from("<I", data, place)[0]:].split(b"\0")[0]
            if name == b".eh_frame":
                self.frame, self.frame_size, self.frame_section = offset, size, place
            elif name == b".eh_frame_hdr":
                self.header, self.header_size = offset, size
        self.segment = next(p for p in range(self.phoff, self.phoff + 56 * self.phnum, 56)
                            if struct.unpack_from("<I", data, p)[0] == GNU_EH_FRAME)

    def section_at(self, i):
        """(offset and size of its bytes, offset of its header)"""
        place = self.shoff + 64 * i
        return (*struct.unpack_from("<QQ", self.data, place + 24), place)

    def put(self, form, at, *values):
        struct.pack_into(form, self.data, at, *values)

    def entries(self):
        """(offset, length, distance back to the CIE; 0 = it is one)"""
        at = self.frame
        while at < self.frame + self.frame_size:
            length, back = struct.unpack_from("<II", self.data, at)
            if not length:
                return
            yield at, length, back
            at += 4 + length

    def functions(self):
        return [(at, length, back) for at, length, back in self.entries() if back]


def sizes(elf):
    elf.put("<Q", elf.segment + 8, 1 << 63)
    elf.put("<Q", elf.segment + 32, (1 << 64) - 1)
    elf.put("<QQ", elf.frame_section + 24, (1 << 64) - 8, 1 << 62)


def millions_of_functions(elf):
    elf.put("<I", elf.header + 8, 0xffffffff)


def cies_that_are_functions(elf):
    """Each function's CIE is the function itself, or the one before it: a reader that follows would never come to an end."""
    functions = elf.functions()
    for i, (at, length, _) in enumerate(functions):
        elf.put("<I", at + 4, at + 4 - functions[i - 1][0] if i % 2 else 4)


def overlapping_functions(elf):
    for i, (at, _, _) in enumerate(elf.functions()):
        size = struct.unpack_from("<I", elf.data, at + 12)[0]
        elf.put("<I", at + 12, size + 40 if i % 2 else 0x7fffffff)


def unsorted_header(elf):
    pairs = [struct.unpack_from("<q", elf.data, elf.header + 12 + 8 * i) for i in range(len(elf.functions()))]
    random.Random(1).shuffle(pairs)
    for i, pair in enumerate(pairs):
        elf.put("<q", elf.header + 12 + 8 * i, *pair)


def lengths_without_end(elf):
    for at, _, _ in elf.functions()[1::2]:
        elf.put("<IQ", at, 0xffffffff, (1 << 64) - 12)


def random_frames(elf):
    elf.data[elf.frame:elf.frame + elf.frame_size] = random.Random(2).randbytes(elf.frame_size)


def random_programs(elf):
    """Right functions with instructions of no sense."""
    source = random.Random(3)
    for at, length, _ in elf.functions():
        elf.data[at + 17:at + 4 + length] = source.randbytes(length - 13)


def random_header(elf):
    elf.data[elf.header:elf.header + elf.header_size] = random.Random(4).randbytes(elf.header_size)


def sparse_section(elf):
    """Four GiB of nothing behind the last entry, which claims them."""
    at = elf.functions()[-1][0]
    elf.put("<I", elf.segment, 0)
    elf.put("<Q", elf.frame_section + 32, 4 << 30)
    elf.put("<I", at, 0xffffff00 - 1)


KINDS = [
    sizes, millions_of_functions, cies_that_are_functions, overlapping_functions, unsorted_header,
    lengths_without_end, random_frames, random_programs, random_header, sparse_section
]


def make_files(directory):
    """{kind: path}, and `shrunk`: whole as it is made."""
    (directory / "a.c").write_text(SOURCE)
    subprocess.run([
        tap.need_tool("gcc"), "-O2", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code", "-o",
        directory / "a.so", directory / "a.c"
    ], check=True)
    data, paths = (directory / "a.so").read_bytes(), {}
    for kind in KINDS:
        elf = Elf(data)
        kind(elf)
        path = paths[kind.__name__] = directory / f"{kind.__name__}.so"
        path.write_bytes(elf.data)
        if kind is sparse_section:
            with open(path, "r+b") as file:
                file.truncate(4 << 30)
    paths["shrunk"] = directory / "shrunk.so"
    paths["shrunk"].write_bytes(data)
    return paths
