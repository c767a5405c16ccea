# SPDX-License-Identifier: Apache-2.0
"""Protobuf's wire format by hand: for messages that no library would write, and for reading without generated
classes.

    data = wire.field(1, wire.field(3, 4711), "text")      fields of a message, by their numbers
    wire.parse(data)[1][1]                                 b"text"
"""
import collections


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out + bytes([n]))


def field(number, *values):
    """One field for each value: whole numbers as varint, text and bytes (messages too) with their length."""
    out = b""
    for value in values:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def fixed64(number, value):
    return varint(number << 3 | 1) + value.to_bytes(8, "little")


def packed(number, values, size=None):
    """A repeated field of whole numbers: varints, or 64 bits each if @size says so; nothing without values."""
    return field(number, b"".join(v.to_bytes(8, "little") if size else varint(v)
                                  for v in values)) if values else b""


def read_varint(data, at):
    """(value, where the next byte stands)"""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def unpack(data):
    """The whole numbers of a packed field."""
    at = 0
    while at < len(data):
        value, at = read_varint(data, at)
        yield value


def parse(data):
    """{number: [values]}: varints and fixed64 as whole numbers, everything else as bytes."""
    fields, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
        elif key & 7 == 1:
            value, at = int.from_bytes(data[at:at + 8], "little"), at + 8
        else:
            assert key & 7 == 2, f"wire type {key & 7} before byte {at}"
            size, at = read_varint(data, at)
            value, at = data[at:at + size], at + size
        fields[key >> 3].append(value)
    return fields
