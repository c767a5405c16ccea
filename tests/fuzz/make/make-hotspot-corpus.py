#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of JVMs that never ran, for fuzz-hotspot and test-hotspot, in the form of
tests/harness/c/hotspot-image.h. Fields lie where JDK 8, 17 and 25 have them, as these print by their
gHotSpotVMStructs; the structures and the stack are by the HotSpot sources of these releases.

What a worker says of them, for fuzz-hotspot-wire, is by daemon/host/runtime/hotspot/hotspot-wire.h.

usage: make-hotspot-corpus.py DIRECTORY WIRE-DIRECTORY
"""
import pathlib
import struct
import sys

BIAS = 0x7F0000000000
HEAP, SEGMAP, LOG2 = 0x7E0000000000, 0x7E1000000000, 7
META, STACK, VARIABLES, TABLES, STRINGS = (0x7D0000000000, 0x7C0000000000, BIAS + 0x100000, BIAS + 0x110000,
                                           BIAS + 0x120000)
GIANT = 0x7B0000000000          # a text of 2 GiB, which tests/victims/native/pretended-jvm.c has there
# (type, field, type of the field, offset); a line per release where they differ
COMMON = [
    ("VirtualSpace", "_low_boundary", "char*", 0), ("VirtualSpace", "_high_boundary", "char*", 8),
    ("VirtualSpace", "_low", "char*", 16), ("VirtualSpace", "_high", "char*", 24),
    ("HeapBlock::Header", "_length", "size_t", 0), ("HeapBlock::Header", "_used", "bool", 8),
    ("Method", "_constMethod", "ConstMethod*", 8), ("ConstMethod", "_constants", "ConstantPool*", 8),
    ("ConstMethod", "_constMethod_size", "int", 24), ("ConstantPool", "_tags", "Array<u1>*", 8),
    ("ConstantPool", "_pool_holder", "InstanceKlass*", 24), ("ConstantPool", "_length", "int", 60),
    ("Array<int>", "_length", "int", 0), ("Array<u1>", "_data", "", 4),
    ("StubQueue", "_stub_buffer", "address", 8), ("StubQueue", "_buffer_limit", "int", 20),
    ("JavaThread", "_anchor", "JavaFrameAnchor", 576), ("JavaFrameAnchor", "_last_Java_sp", "intptr_t*", 0),
    ("JavaFrameAnchor", "_last_Java_pc", "address", 8), ("JavaFrameAnchor", "_last_Java_fp", "intptr_t*", 16),
    ("JavaCallWrapper", "_anchor", "JavaFrameAnchor", 32),
    ("PerfDataPrologue", "entry_offset", "jint", 24), ("PerfDataPrologue", "num_entries", "jint", 28),
    ("PerfDataEntry", "entry_length", "jint", 0), ("PerfDataEntry", "name_offset", "jint", 4),
    ("PerfDataEntry", "data_offset", "jint", 16),
]
RELEASES = {
    8: COMMON + [
        ("GenericGrowableArray", "_len", "int", 0), ("GrowableArray<int>", "_data", "int*", 24),
        ("CodeHeap", "_memory", "VirtualSpace", 0), ("CodeHeap", "_segmap", "VirtualSpace", 112),
        ("CodeHeap", "_log2_segment_size", "int", 248), ("CodeBlob", "_name", "const char*", 8),
        ("CodeBlob", "_size", "int", 16), ("CodeBlob", "_header_size", "int", 20),
        ("CodeBlob", "_code_offset", "int", 32), ("CodeBlob", "_frame_complete_offset", "int", 36),
        ("CodeBlob", "_data_offset", "int", 40), ("CodeBlob", "_frame_size", "int", 44),
        ("nmethod", "_method", "Method*", 64), ("nmethod", "_entry_bci", "int", 72),
        ("nmethod", "_deoptimize_offset", "int", 148), ("nmethod", "_metadata_offset", "int", 172),
        ("nmethod", "_scopes_data_offset", "int", 176), ("nmethod", "_scopes_pcs_offset", "int", 180),
        ("nmethod", "_dependencies_offset", "int", 184), ("nmethod", "_orig_pc_offset", "int", 200),
        ("nmethod", "_compile_id", "int", 204), ("nmethod", "_comp_level", "int", 208),
        ("ConstMethod", "_flags", "u2", 28), ("ConstMethod", "_code_size", "u2", 32),
        ("ConstMethod", "_name_index", "u2", 34), ("ConstMethod", "_signature_index", "u2", 36),
        ("Klass", "_name", "Symbol*", 16), ("InstanceKlass", "_constants", "ConstantPool*", 192),
        ("InstanceKlass", "_source_file_name_index", "u2", 258),
        ("Symbol", "_length", "unsigned short", 0), ("Symbol", "_body", "", 8),
    ],
    17: COMMON + [
        ("GrowableArrayBase", "_len", "int", 0), ("GrowableArray<int>", "_data", "int*", 8),
        ("CodeHeap", "_memory", "VirtualSpace", 8), ("CodeHeap", "_segmap", "VirtualSpace", 120),
        ("CodeHeap", "_log2_segment_size", "int", 256), ("CodeBlob", "_name", "const char*", 96),
        ("CodeBlob", "_size", "int", 12), ("CodeBlob", "_header_size", "int", 16),
        ("CodeBlob", "_frame_complete_offset", "int", 20), ("CodeBlob", "_data_offset", "int", 24),
        ("CodeBlob", "_frame_size", "int", 28), ("CodeBlob", "_code_begin", "address", 32),
        ("CodeBlob", "_code_end", "address", 40), ("CompiledMethod", "_method", "Method*", 112),
        ("CompiledMethod", "_scopes_data_begin", "address", 120),
        ("CompiledMethod", "_deopt_handler_begin", "address", 128), ("nmethod", "_entry_bci", "int", 192),
        ("nmethod", "_verified_entry_point", "address", 224),
        ("nmethod", "_metadata_offset", "int", 260), ("nmethod", "_scopes_pcs_offset", "int", 268),
        ("nmethod", "_dependencies_offset", "int", 272), ("nmethod", "_orig_pc_offset", "int", 300),
        ("nmethod", "_compile_id", "int", 304), ("nmethod", "_comp_level", "int", 308),
        ("ConstMethod", "_flags", "u2", 28), ("ConstMethod", "_code_size", "u2", 32),
        ("ConstMethod", "_name_index", "u2", 34), ("ConstMethod", "_signature_index", "u2", 36),
        ("ConstantPool", "_source_file_name_index", "u2", 54), ("Klass", "_name", "Symbol*", 24),
        ("InstanceKlass", "_constants", "ConstantPool*", 232),
        ("Symbol", "_length", "u2", 4), ("Symbol", "_body[0]", "u1", 6),
    ],
    25: [line for line in COMMON if line[0] != "HeapBlock::Header"] + [
        ("HeapBlock::Header", "_length", "uint32_t", 0), ("HeapBlock::Header", "_used", "bool", 4),
        ("GrowableArrayBase", "_len", "int", 0), ("GrowableArray<int>", "_data", "int*", 8),
        ("CodeHeap", "_memory", "VirtualSpace", 0), ("CodeHeap", "_segmap", "VirtualSpace", 112),
        ("CodeHeap", "_log2_segment_size", "int", 248), ("CodeBlob", "_name", "const char*", 8),
        ("CodeBlob", "_mutable_data", "address", 16), ("CodeBlob", "_size", "int", 24),
        ("CodeBlob", "_relocation_size", "int", 28), ("CodeBlob", "_code_offset", "int", 36),
        ("CodeBlob", "_data_offset", "int", 40), ("CodeBlob", "_frame_size", "int", 44),
        ("CodeBlob", "_mutable_data_size", "int", 48), ("CodeBlob", "_header_size", "u2", 52),
        ("CodeBlob", "_frame_complete_offset", "int16_t", 54), ("nmethod", "_method", "Method*", 80),
        ("nmethod", "_immutable_data", "address", 96), ("nmethod", "_entry_bci", "int", 156),
        ("nmethod", "_immutable_data_size", "int", 160), ("nmethod", "_deopt_handler_offset", "int", 176),
        ("nmethod", "_scopes_pcs_offset", "int", 196), ("nmethod", "_scopes_data_offset", "int", 200),
        ("nmethod", "_orig_pc_offset", "int", 208), ("nmethod", "_compile_id", "int", 212),
        ("nmethod", "_comp_level", "CompLevel", 216), ("ConstMethod", "_flags._flags", "u4", 28),
        ("ConstMethod", "_code_size", "u2", 34), ("ConstMethod", "_name_index", "u2", 36),
        ("ConstMethod", "_signature_index", "u2", 38),
        ("ConstantPool", "_source_file_name_index", "u2", 54), ("Klass", "_name", "Symbol*", 24),
        ("InstanceKlass", "_constants", "ConstantPool*", 224),
        ("InstanceKlass", "_fieldinfo_stream", "Array<u1>*", 448), ("Klass", "_layout_helper", "int", 8),
        ("Symbol", "_length", "u2", 4), ("Symbol", "_body[0]", "u1", 6),
    ],
}
TYPES = {
    8: {"HeapBlock": 16, "nmethod": 296, "Method": 88, "ConstMethod": 48, "ConstantPool": 80},
    17: {"HeapBlock": 16, "nmethod": 352, "Method": 88, "ConstMethod": 48, "ConstantPool": 72},
    25: {"HeapBlock": 8, "nmethod": 224, "Method": 88, "ConstMethod": 56, "ConstantPool": 72},
}
SIZES = {"int": 4, "jint": 4, "u2": 2, "u4": 4, "uint32_t": 4, "unsigned short": 2, "int16_t": 2, "bool": 1, "size_t": 8,
         "CompLevel": 1, "address": 8}


def number(value, release):
    """UNSIGNED5 of one or two bytes."""
    excluded = release >= 20
    if value + excluded < 192:
        return bytes([value + excluded])
    low = 192 + (value + excluded - 192) % 64
    return bytes([low, (value + excluded - low) // 64 + excluded])


class Jvm:
    """One process: `pieces` of memory, `frames` to name, and what may be changed before write()."""

    def __init__(self, release):
        self.release = release
        self.fields = {(t, f): (kind, at) for t, f, kind, at in RELEASES[release]}
        self.pieces, self.strings, self.frames = {}, {}, []
        self.words, self.thread = {}, 0
        self.make_metadata()
        if ("InstanceKlass", "_fieldinfo_stream") in self.fields:
            self.make_classes()
        self.make_code()
        self.make_stack()
        self.make_counts()

    def put(self, address, data):
        self.pieces[address] = bytes(data)

    def make(self, size, **values):
        """Bytes of a structure: Type__field=value; a field that the release has not is left out."""
        data = bytearray(size)
        for name, value in values.items():
            kind, at = self.fields.get(tuple(name.split("__")), (None, 0))
            if kind is not None:
                n = 8 if kind.endswith("*") else SIZES[kind]
                data[at:at + n] = (value & (1 << 8 * n) - 1).to_bytes(n, "little")
        return data

    def symbol(self, address, text):
        body = self.fields.get(("Symbol", "_body"), self.fields.get(("Symbol", "_body[0]")))[1]
        self.put(address, self.make(body, Symbol___length=len(text)) + text.encode())

    def make_metadata(self):
        size, sizes = META, TYPES[self.release]
        names = ["", "work", "(I)V", "inner", "()J", "Shop.java"]
        for i, text in enumerate(names[1:] + ["shop/Main$$Lambda$14+0x0000000800c03000"]):
            self.symbol(size + 0x100 * (i + 1), text)
        klass, pool, tags = META + 0x1000, META + 0x2000, META + 0x2800
        constants = self.fields["InstanceKlass", "_constants"][1]
        data = bytearray(512)
        data[constants:constants + 8] = struct.pack("<Q", pool)
        at = self.fields["Klass", "_name"][1]
        data[at:at + 8] = struct.pack("<Q", META + 0x600)
        if ("InstanceKlass", "_source_file_name_index") in self.fields:
            data[258:260] = struct.pack("<H", 5)
        self.put(klass, data)
        head = self.make(sizes["ConstantPool"], ConstantPool___tags=tags, ConstantPool___pool_holder=klass,
                         ConstantPool___length=6, ConstantPool___source_file_name_index=5)
        self.put(pool, head + struct.pack("<6Q", 0, *(META + 0x100 * i for i in range(1, 6))))
        self.put(tags, struct.pack("<i6B", 6, 0, 1, 1, 1, 1, 1))
        # byte code of 20 bytes; lines: bci 0 → 10, 8 → 12, then by both as numbers: 9 → 300
        lines = bytes([0 << 3 | 7, 0 << 3 | 3, 8 << 3 | 2, 255]) + number(2, self.release) + \
            number(2 * 288, self.release) + b"\0"
        self.const_size = sizes["ConstMethod"]
        for at, name, signature in ((META + 0x3000, 1, 2), (META + 0x4000, 3, 4)):
            self.put(at, self.make(sizes["Method"], Method___constMethod=at + 0x100))
            flags = {"ConstMethod___flags": 1, "ConstMethod___flags._flags": 1}
            head = self.make(self.const_size, ConstMethod___constants=pool, ConstMethod___constMethod_size=12,
                             ConstMethod___code_size=20, ConstMethod___name_index=name,
                             ConstMethod___signature_index=signature, **flags)
            self.put(at + 0x100, (head + bytes(20) + lines).ljust(128, b"\0"))
        self.work, self.inner = META + 0x3000, META + 0x4000

    def make_class(self, klass, name, size, fields):
        """A class of the JDK, and its fields {name: offset}."""
        texts = [name, *fields]
        for i, text in enumerate(texts):
            self.symbol(klass + 0x1000 + 0x40 * i, text)
        pool = klass + 0x800
        data = bytearray(512)
        for field, value in ((("InstanceKlass", "_constants"), pool), (("Klass", "_name"), klass + 0x1000),
                             (("InstanceKlass", "_fieldinfo_stream"), klass + 0x400)):
            at = self.fields[field][1]
            data[at:at + 8] = struct.pack("<Q", value)
        data[8:12] = struct.pack("<i", size | 1)
        self.put(klass, data)
        slots = [klass + 0x1000 + 0x40 * i for i in range(len(texts))]
        self.put(pool, bytes(TYPES[self.release]["ConstantPool"]) + struct.pack(f"<{len(slots)}Q", *slots))
        numbers = [len(fields), 1]
        for i, offset in enumerate(fields.values()):
            # the first has a generic signature, the second a value
            more = [1 << 2, 7] if i == 0 else [1 << 0, 300] if i == 1 else [0]
            numbers += [i + 1, 0, offset, 2, *more]
        numbers += [9, 0, 16, 2, 1 << 1]        # one of the VM
        stream = b"".join(number(value, self.release) for value in numbers) + b"\0"
        self.put(klass + 0x400, struct.pack("<i", len(stream)) + stream)

    def make_classes(self):
        continuation, chunk, self.classes = META + 0x10000, META + 0x12000, VARIABLES + 0x1000
        self.make_class(continuation, "jdk/internal/vm/Continuation", 64,
                        {"target": 16, "scope": 20, "parent": 24, "child": 28, "tail": 32})
        self.make_class(chunk, "jdk/internal/vm/StackChunk", 48,
                        {"parent": 40, "size": 12, "sp": 24, "bottom": 28})
        self.put(self.classes, struct.pack("<4Q", META + 0x1000, continuation, chunk, 0))
        self.put(VARIABLES + 0x1100, struct.pack("<QI", 0x600000000, 3))

    def block(self, first, segments, blob):
        """A block at segment @first; returns the address of its CodeBlob."""
        sizes, size = TYPES[self.release], 1 << LOG2
        head = self.make(sizes["HeapBlock"], **{"HeapBlock::Header___length": segments,
                                                "HeapBlock::Header___used": 1})
        self.put(HEAP + first * size, (head + blob).ljust(segments * size, b"\0"))
        for i in range(segments):
            self.segments[first + i] = min(i, 254)
        return HEAP + first * size + sizes["HeapBlock"]

    def blob(self, address, header, name, code, size, data, frame_words, complete, **more):
        return self.make(header, CodeBlob___name=name, CodeBlob___size=size, CodeBlob___header_size=header,
                         CodeBlob___code_offset=code, CodeBlob___data_offset=data,
                         CodeBlob___code_begin=address + code, CodeBlob___code_end=address + data,
                         CodeBlob___frame_size=frame_words, CodeBlob___frame_complete_offset=complete, **more)

    def make_code(self):
        self.segments = bytearray(b"\xff" * 64)
        segment, block_size = 1 << LOG2, TYPES[self.release]["HeapBlock"]
        base = HEAP + block_size
        self.put(STRINGS + 0x8000, b"Interpreter\0")
        self.put(STRINGS + 0x8100, b"nmethod\0")
        self.put(STRINGS + 0x8200, b"StubRoutines (1)\0")
        header = 128 if self.release != 25 else 64
        self.block(0, 16, self.blob(base, header, STRINGS + 0x8000, 256, 2000, 1900, 0, -1))
        self.interpreter = (base + 256, 1600)
        self.call_stub = self.block(16, 4, self.blob(base + 16 * segment, header, STRINGS + 0x8200, 128, 500,
                                                     400, 0, -1)) + 200
        self.make_nmethod(24, 10)
        self.nmethod_pc = self.nmethod + self.code + 50

    def make_nmethod(self, first, segments):
        address, release = HEAP + (first << LOG2) + TYPES[self.release]["HeapBlock"], self.release
        header = TYPES[release]["nmethod"]
        self.code = (header + 15) // 16 * 16
        data = self.code + 200
        # scopes: one byte that is none, work at bci 8 (sender: none), inner at bci 17 called from there
        outer = number(0, release) + number(1, release) + number(8 + 1, release) + bytes(3)
        scopes = b"\x01" + outer + number(1, release) + number(2, release) + number(17 + 1, release) + bytes(3)
        inner = 1 + len(outer)
        descs = b"".join(struct.pack("<4i", *line, 0, 0) for line in (
            (-1, 0), (44, 1), (52, inner), (60, 1), (2**31 - 1, 0)))
        metadata = struct.pack("<2Q", self.work, self.inner)
        scopes = scopes.ljust(32, b"\0")
        values = {"nmethod___method": self.work, "CompiledMethod___method": self.work,
                  "nmethod___verified_entry_point": address + self.code,
                  "nmethod___compile_id": 77, "nmethod___comp_level": 4, "nmethod___entry_bci": -1,
                  "nmethod___orig_pc_offset": 16, "nmethod___deoptimize_offset": self.code + 180,
                  "nmethod___deopt_handler_offset": self.code + 180,
                  "CompiledMethod___deopt_handler_begin": address + self.code + 180}
        self.deopt = address + self.code + 180
        if release == 25:
            immutable, mutable = META + 0x6000, META + 0x7000
            self.put(immutable, bytes(8) + descs + scopes)
            self.put(mutable, bytes(24) + metadata)
            values |= {"nmethod___immutable_data": immutable, "nmethod___scopes_pcs_offset": 8,
                       "nmethod___scopes_data_offset": 8 + len(descs),
                       "nmethod___immutable_data_size": 8 + len(descs) + len(scopes),
                       "CodeBlob___mutable_data": mutable, "CodeBlob___relocation_size": 24,
                       "CodeBlob___mutable_data_size": 24 + len(metadata)}
            tail = b""
        else:
            at = [data, data + len(metadata), data + len(metadata) + len(scopes)]
            values |= {"nmethod___metadata_offset": at[0], "nmethod___scopes_data_offset": at[1],
                       "CompiledMethod___scopes_data_begin": address + at[1],
                       "nmethod___scopes_pcs_offset": at[2],
                       "nmethod___dependencies_offset": at[2] + len(descs)}
            tail = metadata + scopes + descs
        head = self.blob(address, header, STRINGS + 0x8100, self.code, data + len(tail), data, 6, 20,
                         **values)
        self.nmethod = self.block(first, segments, bytes(head).ljust(data, b"\x90") + tail)

    def make_stack(self):
        """Java left from inner, inlined in work (compiled); below it work, interpreted; the call stub."""
        stack, sp = {}, STACK + 0x100
        bcp = -56 if self.release == 8 else -64
        fp = sp + 6 * 8 + 0x80
        pc = self.nmethod_pc + 2
        stack[sp - 8] = self.deopt
        stack[sp + 16] = pc                     # orig_pc
        stack[sp + 48 - 8], stack[sp + 48 - 16] = self.interpreter[0] + 40, fp
        const_method = self.work + 0x100
        stack[fp - 24], stack[fp + bcp] = self.work, const_method + self.const_size + 9
        stack[fp - 8] = fp + 24
        stack[fp], stack[fp + 8] = fp + 0x100, self.call_stub
        stack[fp + 0x100 - 48] = STACK + 0x800  # JavaCallWrapper
        data = bytearray(0x1000)
        for address, value in stack.items():
            data[address - STACK:address - STACK + 8] = struct.pack("<Q", value)
        self.put(STACK, data)
        self.thread = STACK + 0x2000
        self.put(self.thread, bytes(576) + struct.pack("<3Q", sp, 0, 0))
        stamp = 37 << 48 if self.release > 8 else 0
        self.frames = [
            (2 << 56 | pc, 77 << 32 | pc - self.nmethod, self.work),
            (1 << 56 | stack[fp + bcp], const_method | stamp, self.work),
            (3 << 56 | self.call_stub, 200, self.call_stub - 200),
            (2 << 56 | pc, 78 << 32 | pc - self.nmethod, self.work),
            (1 << 56 | stack[fp + bcp], const_method + 8 | stamp, self.work),
            # before the last class was unloaded
            (1 << 56 | stack[fp + bcp], const_method | 36 << 48, self.work),
        ]

    def make_counts(self):
        """What a JVM counts for its tools: 36 classes were unloaded. Of JDK 8 there is none, as by -XX:-UsePerfData."""
        self.counts = VARIABLES + 0x2000
        entries = b""
        for name, value in (("java.cls.loadedClasses", 512), ("java.cls.unloadedClasses", 36)):
            text = name.encode() + b"\0"
            data = (20 + len(text) + 7) // 8 * 8
            entries += struct.pack("<5i", data + 8, 20, 0, 0, data) + text.ljust(data - 20, b"\0") + \
                struct.pack("<Q", value)
        self.put(self.counts, bytes(24) + struct.pack("<2i", 32, 2) + entries)
        self.put(VARIABLES + 0x1200, struct.pack("<Q", self.counts if self.release > 8 else 0))

    def text(self, value):
        if value is None:
            return 0
        if value not in self.strings:
            at = STRINGS + sum((len(text) + 16) // 16 * 16 for text in self.strings)
            self.strings[value] = at
        return self.strings[value]

    def tables(self):
        """The words of hotspot_symbol_names, in their order."""
        variables = {("Abstract_VM_Version", "_vm_major_version"): VARIABLES + 0x400,
                   ("AbstractInterpreter", "_code"): VARIABLES + 0x408,
                   ("StubRoutines", "_call_stub_return_address"): VARIABLES + 0x410,
                   ("CodeCache", "_heap" if self.release == 8 else "_heaps"): VARIABLES + 0x418}
        variables["PerfMemory", "_start"] = VARIABLES + 0x1200
        if ("InstanceKlass", "_fieldinfo_stream") in self.fields:
            variables |= {("vmClasses", "_klasses[static_cast<int>(vmClassID::Object_klass_knum)]"): self.classes,
                          ("CompressedOops", "_base"): VARIABLES + 0x1100,
                          ("CompressedOops", "_shift"): VARIABLES + 0x1108}
        entries = [(t, f, kind, 0, at, 0) for (t, f), (kind, at) in self.fields.items()]
        entries += [(t, f, "address", 1, 0, at) for (t, f), at in variables.items()]
        structs = b"".join(struct.pack("<3QiiQQ", self.text(t), self.text(f), self.text(kind), is_static, 0, at,
                                       address) for t, f, kind, is_static, at, address in entries)
        types = b"".join(struct.pack("<2Q4iQ", self.text(t), 0, 0, 0, 0, 0, size)
                         for t, size in TYPES[self.release].items())
        flag = "ConstMethodFlags::_misc_has_linenumber_table" if self.release == 25 else \
            "ConstMethod::_has_linenumber_table"
        constants = struct.pack("<Qii", self.text(flag), 1, 0)
        at = TABLES
        tables = []
        for table, stride in ((structs, 48), (types, 40), (constants, 16)):
            self.put(at, table + bytes(stride))
            tables.append(at)
            at += len(table) + stride
        return [tables[0], 48, 0, 8, 16, 24, 32, 40, tables[1], 40, 0, 8, 32, tables[2], 16, 0, 8, tables[2]]

    def write(self):
        heap = VARIABLES + 0x600
        queue = VARIABLES + 0x500
        words = self.tables()
        for text, at in self.strings.items():
            self.put(at, text.encode().ljust((len(text) + 16) // 16 * 16, b"\0"))
        space = {"VirtualSpace___low": HEAP, "VirtualSpace___high": HEAP + 64 * 128,
                 "VirtualSpace___high_boundary": HEAP + 64 * 128}
        data = bytearray(512)
        for name, values in (("_memory", space), ("_segmap", {"VirtualSpace___low": SEGMAP})):
            at = self.fields["CodeHeap", name][1]
            data[at:at + 64] = self.make(64, **values)
        at = self.fields["CodeHeap", "_log2_segment_size"][1]
        data[at:at + 4] = struct.pack("<i", LOG2)
        self.put(heap, data)
        self.put(SEGMAP, self.segments)
        self.put(queue, struct.pack("<QQii", 0, self.interpreter[0], 0, self.interpreter[1]))
        array = VARIABLES + 0x900
        first = heap if self.release == 8 else array
        kind, at = self.fields["GrowableArray<int>", "_data"]
        self.put(array, struct.pack("<ii", 1, 1).ljust(at, b"\0") + struct.pack("<Q", array + 0x40))
        self.put(array + 0x40, struct.pack("<Q", heap))
        version = 25 if self.release == 8 else self.release
        self.put(VARIABLES + 0x400, struct.pack("<4Q", version, queue, self.call_stub, first))
        self.put(VARIABLES, struct.pack("<18Q", *words))
        for address, replacement in self.words.items():
            self.poke(address, replacement)
        out = struct.pack("<Q18QQI", BIAS, *(VARIABLES + 8 * i for i in range(18)), self.thread, len(self.frames))
        out += b"".join(struct.pack("<3Q", *frame) for frame in self.frames)
        return out + b"".join(struct.pack("<QI", at, len(data)) + data for at, data in self.pieces.items())

    def poke(self, address, replacement):
        for at, data in self.pieces.items():
            if at <= address < at + len(data):
                start = address - at
                self.pieces[at] = data[:start] + replacement + data[start + len(replacement):]


def hostile():
    """{name: memory} of processes that only look like a JVM."""
    cases = {}

    def case(name, release=17):
        cases[name] = Jvm(release)
        return cases[name]

    jvm = case("segment-map-in-a-circle")
    jvm.segments = bytearray(b"\1" * 64)
    case("segment-map-before-the-heap").segments = bytearray(range(100, 164))
    jvm = case("symbol-of-64-kib")
    jvm.symbol(META + 0x100000, "x" * 65535)
    jvm.words[META + 0x2000 + TYPES[17]["ConstantPool"] + 8] = struct.pack("<Q", META + 0x100000)
    case("symbol-cut").put(META + 0x100, struct.pack("<IH", 0, 65535) + b"short")
    case("pointer-to-nowhere").words[META + 0x3008] = struct.pack("<Q", 0x123456789A)
    case("pool-of-another-class").words[META + 0x2000 + 24] = struct.pack("<Q", META + 0x3000)
    case("name-without-tag").words[META + 0x2805] = b"\7"
    case("stride-of-zero").words[VARIABLES + 8] = bytes(8)
    case("stride-of-2-gib").words[VARIABLES + 8] = struct.pack("<Q", 1 << 31)
    case("member-outside").words[VARIABLES + 16] = struct.pack("<Q", 44)
    jvm = case("heap-of-everything")
    jvm.words[VARIABLES + 0x600 + 8 + 8] = struct.pack("<Q", 1 << 55)
    case("name-of-2-gib").words[HEAP + (16 << LOG2) + TYPES[17]["HeapBlock"] + 96] = struct.pack("<Q", GIANT)
    case("type-of-2-gib").words[TABLES] = struct.pack("<Q", GIANT)
    case("block-out-of-use").words[HEAP + (24 << LOG2) + 8] = b"\0"
    jvm = case("no-scopes-data")
    del jvm.fields["CompiledMethod", "_scopes_data_begin"]
    jvm = case("java-27-without-a-field", 25)
    jvm.release = 25
    del jvm.fields["nmethod", "_scopes_data_offset"]
    jvm.words[VARIABLES + 0x400] = struct.pack("<I", 27)
    jvm = case("scopes-in-a-circle")
    at = jvm.nmethod + jvm.code + 200 + 16
    jvm.words[at + 1] = b"\1"
    jvm = case("loop-without-a-place")
    jvm.words[jvm.nmethod_pc] = b"\x7c\xfa"          # jl .-4
    jvm = case("frame-in-a-circle")
    jvm.words[STACK + 0x100 + 48 + 0x80 - 8] = struct.pack("<Q", STACK)
    case("numbers-that-never-end", 25).words[META + 0x6000 + 8 + 5 * 16] = b"\xff" * 16
    case("fields-that-never-end", 25).words[META + 0x12400 + 4] = b"\xff" * 24
    case("a-class-in-a-circle", 25).words[VARIABLES + 0x1000] = struct.pack("<4Q", *[META + 0x1000] * 4)
    case("counts-that-never-end").words[VARIABLES + 0x2000 + 28] = struct.pack("<iI", 1 << 30, 0)
    case("counts-nowhere").words[VARIABLES + 0x1200] = struct.pack("<Q", 0x123456789A)
    case("fields-of-another-size", 25).words[META + 0x12400] = struct.pack("<I", 1 << 30)
    return cases


def messages():
    """{name: message of a worker}; a letter before each says of which kind."""

    def frame(name, signature, file, kind=2, line=12, bci=3):
        texts = [text.encode() + b"\0" for text in (name, signature, file)]
        return b"f" + struct.pack("<IIi4H", kind, line, bci, *map(len, texts), 0) + b"".join(texts)

    def said(kind, result, n, magic=0x48535031):
        return b"s" + struct.pack("<IIiII", magic, kind, result, n, 0)

    def code(n, *heaps):
        words = [word for heap in heaps for word in (*heap, HEAP + 0x100000, LOG2)]
        heaps = struct.pack("<" + "QQQI4x" * len(heaps), *words).ljust(8 * 32, b"\0")
        return b"c" + heaps + struct.pack("<I4x5Q", n, HEAP, HEAP + 0x100, HEAP + 0x80, 0, 0)

    return {
        "frame": frame("shop.Main.work", "(I)V", "Shop.java"),
        "frame-without-a-file": frame("shop.Main.work", "(I)V", "", line=0, bci=-1),
        "frame-of-no-kind": frame("shop.Main.work", "(I)V", "", kind=9),
        "frame-with-a-cut-text": frame("shop.Main.work", "(I)V", "Shop.java")[:-4],
        "opened": said(1, 0, 0), "frames": said(2, 0, 128), "opened-with-frames": said(1, 0, 1),
        "too-many-frames": said(2, 0, 129), "unloaded": said(2, 4, 0), "nameless": said(2, 5, 0), "gone": said(2, 6, 0),
        "another-word": said(1, 0, 0, 7), "reason": b"rjava 27: layout unknown: nmethod".ljust(129, b"\0"),
        "reason-without-an-end": b"r" + b"\x1b[2J" * 32,
        "code": code(2, (HEAP, HEAP + 0x1000), (HEAP + 0x1000, HEAP + 0x2000)),
        "code-twice": code(2, (HEAP, HEAP + 0x1000), (HEAP, HEAP + 0x2000)),
        "code-of-nine-heaps": code(9, (HEAP, HEAP + 0x1000)),
    }


def main():
    directory, wire = map(pathlib.Path, sys.argv[1:])
    wire.mkdir(parents=True, exist_ok=True)
    for name, data in messages().items():
        (wire / name).write_bytes(data)
    directory.mkdir(parents=True, exist_ok=True)
    for release in RELEASES:
        (directory / f"java-{release}").write_bytes(Jvm(release).write())
    for name, jvm in hostile().items():
        (directory / name).write_bytes(jvm.write())


main()
