#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much stack the calls of BPF programs take together, as kernels before 6.13 count it: there is one of
512 bytes for all, each function's is counted in steps of 32, and callbacks are calls. Newer kernels give each
call its own.

    bpf_stacks.py OBJECT…               the deepest chain of each program; exit status 1 = one is too deep
    bpf_stacks.chains(path)             [(bytes, [names, the program first])], one for each program
"""
import collections
import struct
import sys

STEP = 32
LIMIT = 512
STACK = 10              # the register
RELOCATIONS = 9         # SHT_REL
EXECUTABLE = 4          # SHF_EXECINSTR
FUNCTION = 2            # STT_FUNC
CALL, LOAD_ADDRESS, ADD, COPY = 0x85, 0x18, 0x07, 0xbf


class Function:
    def __init__(self, name, is_program):
        self.name, self.is_program = name, is_program
        self.bytes, self.calls = 0, set()


def functions(path):
    with open(path, "rb") as file:
        data = file.read()
    table, = struct.unpack_from("<Q", data, 40)
    size, n, names = struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(n)]

    def text(section, at):
        begin = heads[section][4] + at
        return data[begin:data.index(b"\0", begin)].decode()

    symbols, found = [], {}
    for _name, kind, _flags, _address, offset, length, link, *_ in heads:
        if kind == 2:                   # SHT_SYMTAB
            for at in range(offset, offset + length, 24):
                name, info, _other, section, value, extent = struct.unpack_from("<IBBHQQ", data, at)
                symbols.append((section, value))
                if info & 15 == FUNCTION and extent:
                    is_program = text(names, heads[section][0]) != ".text"
                    found[section, value] = (Function(text(link, name), is_program), extent)
    targets = collections.defaultdict(dict)
    for _name, kind, _flags, _address, offset, length, _link, section, *_ in heads:
        if kind == RELOCATIONS and heads[section][2] & EXECUTABLE:
            for at in range(offset, offset + length, 16):
                place, info = struct.unpack_from("<QQ", data, at)
                targets[section][place] = symbols[info >> 32]
    for (section, begin), (function, extent) in found.items():
        code = heads[section][4] + begin
        read(function, data[code:code + extent], begin, section, targets[section], found)
    return [function for function, _extent in found.values()]


def read(function, code, begin, section, targets, found):
    copies = set()                      # registers that point to the stack's end
    for at in range(0, len(code), 8):
        op, registers, offset, number = struct.unpack_from("<BBhi", code, at)
        to, source, kind = registers & 15, registers >> 4, op & 7
        if (kind == 1 and source == STACK) or (kind in (2, 3) and to == STACK):
            function.bytes = max(function.bytes, -offset)
        if op == COPY and source == STACK:
            copies.add(to)
        elif op == ADD and to in copies:
            function.bytes = max(function.bytes, -number)
            copies.discard(to)
        elif kind in (0, 1, 4, 7):
            copies.discard(to)
        is_call = op == CALL and source == 1
        if is_call and begin + at not in targets:
            called = section, begin + at + 8 * (number + 1)
        elif is_call or (op == LOAD_ADDRESS and begin + at in targets):
            where, value = targets[begin + at]
            called = where, value + (8 * (number + 1) if is_call else number)
        else:
            continue
        if called in found:
            function.calls.add(found[called][0])


def deepest(function, known):
    if function not in known:
        below = max((deepest(called, known) for called in function.calls), default=(0, []))
        own = (max(function.bytes, 1) + STEP - 1) // STEP * STEP
        known[function] = (below[0] + own, [f"{function.name} {function.bytes}", *below[1]])
    return known[function]


def chains(path):
    known = {}
    return [deepest(function, known) for function in functions(path) if function.is_program]


def main():
    found = [(size, path, names) for path in sys.argv[1:] for size, names in chains(path)]
    for size, path, names in sorted(found, reverse=True):
        print(f"{size:4}{' TOO MUCH' if size > LIMIT else ''} {path}: {' > '.join(names)}")
    sys.exit(not found or max(found)[0] > LIMIT)


if __name__ == "__main__":
    main()
