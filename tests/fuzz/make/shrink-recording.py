#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a small recording of a real one: what its first chunk says of types, its constants, and a few events
of each type.

usage: shrink-recording.py RECORDING[.gz] OUTPUT [EVENTS-OF-EACH-TYPE]

Made tests/fuzz/corpus/jfr/real-* of the recordings in tests/data.
"""
import gzip
import pathlib
import struct
import sys

HEADER = struct.Struct(">4sHHQQQQQQQI")


def integer(data, at):
    value = 0
    for i in range(9):
        byte = data[at + i]
        value |= (byte if i == 8 else byte & 0x7F) << 7 * i
        if i == 8 or not byte & 0x80:
            return value, at + i + 1
    raise AssertionError


def compressed(value):
    out = bytearray()
    while value >= 0x80 and len(out) < 8:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def event(body):
    """Size (four bytes, padded) and what follows."""
    size = len(body) + 4
    return bytes(size >> 7 * i & 0x7F | (0x80 if i < 3 else 0) for i in range(4)) + body


def events(chunk):
    at = HEADER.size
    while at < len(chunk):
        size, behind = integer(chunk, at)
        kind, _ = integer(chunk, behind)
        yield at, kind, chunk[behind:at + size]
        at += size


def main():
    data = pathlib.Path(sys.argv[1]).read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    n_each = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    magic, major, minor, size, checkpoint, metadata, *rest, flags = HEADER.unpack_from(data)
    assert magic == b"FLR\0" and flags & 1, "no recording with compressed integers"
    chunk, seen, out = data[:size], {}, bytearray(HEADER.size)
    for at, kind, body in events(chunk):
        if kind > 1 and seen.get(kind, 0) < n_each:
            seen[kind] = seen.get(kind, 0) + 1
            out += event(body)
    size_m, behind = integer(chunk, metadata)
    new_metadata = len(out)
    out += event(chunk[behind:metadata + size_m])
    chain, at = [], checkpoint
    while True:
        size_c, behind = integer(chunk, at)
        _, place = integer(chunk, behind)                   # type
        _, place = integer(chunk, place)                    # start
        _, before = integer(chunk, place)                   # duration
        delta, after = integer(chunk, before)
        delta -= 1 << 64 if delta >> 63 else 0
        chain.append((chunk[behind:before], chunk[after:at + size_c]))
        if not delta:
            break
        at += delta
    last = None
    for head, tail in reversed(chain):
        place = len(out)
        delta = 0 if last is None else last - place
        out += event(head + compressed(delta & (1 << 64) - 1) + tail)
        last = place
    HEADER.pack_into(out, 0, magic, major, minor, len(out), last, new_metadata, *rest, flags)
    pathlib.Path(sys.argv[2]).write_bytes(out)


main()
