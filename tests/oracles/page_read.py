#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the data of a page by its description (daemon/desk/page/page-encode.c), for tests: no line is
shared with what wrote it or with the page's own script.

    page = page_read.read("out.html")
    page.meta                   title, kinds, times …
    for row in page.rows: …     Row: path of Frames (outermost first), kind, side, {dimension: label}, bucket,
                                value, lines (of the path, 0 = not known)

By hand: page_read.py FILE prints how many bytes each part has, packed alone.
"""
import base64
import collections
import gzip
import json
import pathlib
import re
import sys
import zlib

Frame = collections.namedtuple("Frame", "name object file type line inlined")
Row = collections.namedtuple("Row", "path kind side values bucket value lines")
Page = collections.namedtuple("Page", "meta strings frames rows dimensions parts")


class Reader:
    def __init__(self, data):
        self.data, self.at, self.parts = data, 0, []

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def column(self, name, n):
        begin = self.at
        numbers = [self.number() for _ in range(n)]
        self.parts.append((name, n, self.at - begin, len(zlib.compress(self.data[begin:self.at]))))
        return numbers

    def take(self, size):
        self.at += size
        assert self.at <= len(self.data), "cut off"
        return self.data[self.at - size:self.at]


def unpack(path):
    """The bytes of the data block."""
    text = pathlib.Path(path).read_text()
    (block, ) = re.findall(r'<script type="application/octet-stream" id="data">([A-Za-z0-9+/=]*)</script>',
                           text)
    return gzip.decompress(base64.b64decode(block, validate=True))


def read_nodes(reader, frames):
    """The path of each node; the root's is empty."""
    n = reader.number()
    ups, callees = reader.column("up", n), reader.column("callee", n)
    fresh = iter(reader.column("fresh callees", reader.number()))
    known, stack, paths = collections.defaultdict(list), [], [()]
    for up, callee in zip(ups, callees, strict=True):
        del stack[len(stack) - up:]
        seen = known[stack[-1] if stack else None]
        if callee == 0:
            seen.append(next(fresh))
        stack.append(seen[callee - 1])
        paths.append(tuple(frames[frame] for frame in stack))
    assert next(fresh, None) is None, "callees that no node has"
    return paths


def read_dimension(reader, key, strings):
    n = reader.number()
    if key != "span":
        return [strings[i] for i in reader.column(key, n)]
    return [None, "others", *(reader.take(24) for _ in range(n - 2))]


def read_contexts(reader, keys):
    n = reader.number()
    columns = [reader.column(f"context's {name}", n) for name in ("kind", "side", "first", *keys)]
    return list(zip(*columns, strict=True))


def read_lines(reader):
    """The lines of the steps of a path, outermost first; number 0 has none."""
    n = reader.number()
    backs, lines = reader.column("lines' outer", n), reader.column("line", n)
    chains = [()]
    for i, (back, line) in enumerate(zip(backs, lines, strict=True)):
        chains.append((*chains[i - back], line))
    return chains


def read_rows(reader, paths, contexts, dimensions, chains):
    n = reader.number()
    steps, whos, times, values = (reader.column(name, n) for name in ("step", "context", "bucket", "value"))
    lines = reader.column("row's lines", n) if len(chains) > 1 else [0] * n
    node = context = distance = 0
    for step, who, time, value, number in zip(steps, whos, times, values, lines, strict=True):
        same = step == 0 and who == 0 and n
        node += step
        context = who if step else context + who
        distance = distance + time if same else time
        kind, side, first, *numbers = contexts[context]
        chosen = {key: dimensions[key][i] for key, i in zip(dimensions, numbers, strict=True) if i}
        chain = chains[number]
        assert len(chain) <= len(paths[node]), "more lines than steps"
        yield Row(paths[node], kind, side, chosen, distance and first + distance - 1, value,
                  chain + (0, ) * (len(paths[node]) - len(chain)))


def read(path):
    reader = Reader(unpack(path))
    assert reader.take(16) == b"spanprof page 2\n"
    meta = json.loads(reader.take(reader.number()))
    n, size = reader.number(), reader.number()
    strings = reader.take(size).decode().split("\0")[:n]
    n = reader.number()
    columns = {
        name: reader.column(f"frame's {name}", n)
        for name in ("name", "object", "file", "type", "line", "inlined")
    }
    frames = [Frame(strings[name], strings[object_], strings[file], strings[type_], line, bool(inlined))
              for name, object_, file, type_, line, inlined in zip(*columns.values(), strict=True)]
    paths = read_nodes(reader, frames)
    dimensions = {key: read_dimension(reader, key, strings) for key in meta["dimensions"]}
    contexts = read_contexts(reader, meta["dimensions"])
    rows = list(read_rows(reader, paths, contexts, dimensions, read_lines(reader)))
    assert reader.at == len(reader.data), "bytes behind the end"
    return Page(meta, strings, frames, rows, dimensions, reader.parts)


if __name__ == "__main__":
    for part in read(sys.argv[1]).parts:
        print("{:24} {:8} numbers {:8} bytes {:8} packed".format(*part))
