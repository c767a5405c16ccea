#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads profiles files through the PyPI package opentelemetry-proto and names their frames with nm: an oracle
that shares no code with spanprof.

    for sample in otlp_read.samples("out/000001.pb", "out/000002.json"): …     one Sample for each event
    otlp_read.functions(samples, otlp_read.Symbols())       Counter of (object, function) of the innermost
                                                            frames
    otlp_read.objects(samples)                              Counter of objects
    otlp_read.totals(samples, symbols)                      Counter of (object, function) that are anywhere in
                                                            a stack

By hand: otlp_read.py FILE… prints the hottest functions. Needs opentelemetry-proto
(tests/interop/setup-venv.sh).
"""
import base64
import bisect
import collections
import functools
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys

import compare

Frame = collections.namedtuple("Frame", "build_id address name path type file line compilation",
                               defaults=("", 0, ""))
Sample = collections.namedtuple(
    "Sample", "resource type unit period_type period_unit period value attributes "
    "thread_id time_ns trace_id span_id frames")


def have_proto():
    try:
        importlib.import_module("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
        return True
    except ImportError:
        return False


def _message():
    service = importlib.import_module(
        "opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    return service.ExportProfilesServiceRequest()


def _ids_to_base64(node):
    """OTLP/JSON has ids in hex; protobuf's JSON reader wants base64 for every bytes field."""
    if isinstance(node, list):
        return [_ids_to_base64(x) for x in node]
    if not isinstance(node, dict):
        return node
    return {key: base64.b64encode(bytes.fromhex(value)).decode() if key in ("traceId", "spanId", "profileId")
            else _ids_to_base64(value) for key, value in node.items()}


def load(path):
    """The request in a file, protobuf or JSON by content."""
    return parse(pathlib.Path(path).read_bytes())


def parse(data):
    """The same of bytes."""
    message = _message()
    if data.lstrip()[:1] == b"{":
        json_format = importlib.import_module("google.protobuf.json_format")
        return json_format.ParseDict(_ids_to_base64(json.loads(data)), message, ignore_unknown_fields=True)
    message.ParseFromString(data)
    return message


class _Tables:
    """The dictionary, with every index checked: an index out of range is an IndexError, a negative one too."""

    def __init__(self, dictionary):
        self.dictionary = dictionary
        self.frames = {}

    def row(self, table, index):
        if index < 0:
            raise IndexError(f"{table}[{index}]")
        return getattr(self.dictionary, table)[index]

    def string(self, index):
        return self.row("string_table", index)

    def value(self, any_value):
        kind = any_value.WhichOneof("value")
        value = getattr(any_value, kind) if kind else None
        return self.string(value) if kind == "string_value_strindex" else value

    def attributes(self, indices):
        rows = [self.row("attribute_table", i) for i in indices]
        return {self.string(row.key_strindex): self.value(row.value) for row in rows}

    def mapping(self, index):
        """(build id, path)"""
        row = self.row("mapping_table", index)
        attributes = self.attributes(row.attribute_indices)
        prefix = "process.executable.build_id."
        ids = [attributes[prefix + kind] for kind in ("gnu", "go", "htlhash") if prefix + kind in attributes]
        return (ids or [""])[0], self.string(row.filename_strindex)

    def location(self, index):
        """Frames of a location: one for each line, the innermost first."""
        if index not in self.frames:
            row = self.row("location_table", index)
            build_id, path = self.mapping(row.mapping_index)
            attributes = self.attributes(row.attribute_indices)
            kind = attributes.get("profile.frame.type", "")
            compilation = attributes.get("jvm.frame.compilation", "")
            functions = [(self.row("function_table", line.function_index), line.line) for line in row.lines]
            self.frames[index] = [
                Frame(build_id, row.address, self.string(function.name_strindex), path, kind,
                      self.string(function.filename_strindex), line, compilation)
                for function, line in functions
            ] or [Frame(build_id, row.address, "", path, kind)]
        return self.frames[index]

    def stack(self, index):
        return [frame for i in self.row("stack_table", index).location_indices for frame in self.location(i)]


def _events(sample):
    """(value, time) of each event of a sample."""
    if not sample.timestamps_unix_nano:
        return [(value, None) for value in sample.values]
    return list(
        zip(sample.values or [1] * len(sample.timestamps_unix_nano), sample.timestamps_unix_nano,
            strict=True))


def _profile_samples(tables, resource, profile):
    names = [tables.string(i) for i in (profile.sample_type.type_strindex, profile.sample_type.unit_strindex,
                                        profile.period_type.type_strindex, profile.period_type.unit_strindex)]
    for row in profile.samples:
        attributes = tables.attributes(row.attribute_indices)
        link = tables.row("link_table", row.link_index) if row.link_index else None
        frames = tables.stack(row.stack_index)
        for value, time_ns in _events(row):
            yield Sample(resource, *names, profile.period, value, attributes, attributes.get("thread.id"),
                         time_ns,
                         link.trace_id.hex() if link else None,
                         link.span_id.hex() if link else None, frames)


def request_samples(request):
    """Yields the samples of one request."""
    tables = _Tables(request.dictionary)
    for part in request.resource_profiles:
        resource = {
            row.key or tables.string(row.key_strindex): tables.value(row.value)
            for row in part.resource.attributes
        }
        for scope in part.scope_profiles:
            for profile in scope.profiles:
                yield from _profile_samples(tables, resource, profile)


@functools.lru_cache(maxsize=64)
def _samples_of(path, _state):
    return list(request_samples(load(path)))


def samples(*paths):
    """Yields the samples of files. Who waits for some reads the same files many times a second: the last ones
    are kept as long as they do not change."""
    for path in paths:
        state = os.stat(path)
        yield from _samples_of(str(path), (state.st_ino, state.st_size, state.st_mtime_ns))


def _run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, errors="replace").stdout


class _Object:
    """The functions of one file, by nm. Names of one address are one function, and so are addresses of one
    name (old and new versions of a symbol, static functions): the canonical name is the first of all that
    belong together."""

    def __init__(self, path):
        self.starts, self.ends, self.firsts, self.parents = [], [], [], {}
        rows = collections.defaultdict(lambda: [0, []])
        for flags in (["-n", "-S", "--defined-only"], ["-n", "-S", "-D", "--defined-only"]):
            for line in _run("nm", *flags, path).splitlines():
                match = re.match(r"([0-9a-f]+) ([0-9a-f]+ )?[tTwWiVv] (\S+)$", line)
                if match:
                    row = rows[int(match[1], 16)]
                    row[0] = max(row[0], int(match[2] or "0", 16))
                    row[1].append(match[3].split("@")[0])
        sections = [(int(m[1], 16), int(m[1], 16) + int(m[2], 16)) for m in re.finditer(
            r"(?:PROGBITS|NOBITS) +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) ", _run("readelf", "-SW", path))]
        for start, following in zip(sorted(rows), sorted(rows)[1:] + [1 << 63]):
            size, names = rows[start]
            section_end = min([end for begin, end in sections if begin <= start < end], default=start + 1)
            self.starts.append(start)
            self.ends.append(start + size if size else min(following, section_end))
            self.firsts.append(names[0])
            for name in names:
                self._join(names[0], name)

    def canonical(self, name):
        while self.parents.get(name, name) != name:
            name = self.parents[name]
        return name

    def _join(self, a, b):
        first, second = sorted((self.canonical(a), self.canonical(b)))
        self.parents[second] = first

    def name(self, address):
        """Canonical name of the function that holds @address (the innermost), or None."""
        for i in range(bisect.bisect_right(self.starts, address) - 1, -1, -1):
            if address < self.ends[i]:
                return self.canonical(self.firsts[i])
            if address - self.starts[i] > 1 << 20:
                break
        return None


class Symbols:
    """Functions of the files of this machine, accepted only with the build id of the profile."""

    def __init__(self, debug_directory="/usr/lib/debug/.build-id"):
        self.debug_directory = debug_directory
        self.objects, self.ids = {}, {}

    def build_id(self, path):
        if path not in self.ids:
            match = re.search(r"Build ID: ([0-9a-f]+)", _run("readelf", "-nW", path))
            self.ids[path] = match[1] if match else ""
        return self.ids[path]

    def object(self, path, build_id):
        key = (path, build_id)
        if key not in self.objects:
            debug = f"{self.debug_directory}/{build_id[:2]}/{build_id[2:]}.debug"
            files = [x for x in (debug, path) if build_id and x.startswith("/") and pathlib.Path(x).is_file()
                     and self.build_id(x) == build_id]
            tables = [table for table in (_Object(x) for x in files) if table.starts]
            self.objects[key] = tables[0] if tables else None
        return self.objects[key]

    def name(self, frame):
        """The function of a frame; `[unknown]` without one. Names in the profile win."""
        if frame.name:
            return frame.name
        table = self.object(frame.path, frame.build_id)
        return (table and table.name(frame.address)) or "[unknown]"

    def canonical(self, path, symbol):
        """Another tool's name for a function of an object of this machine, as name() says it: aliases are
        one, and `f@plt`, which perf makes up for the jump to f, is in no symbol table."""
        if symbol.endswith("@plt"):
            return "[unknown]"
        if not path.startswith("/"):
            return symbol
        table = self.object(path, self.build_id(path))
        return table.canonical(symbol.split("@")[0]) if table else symbol


def frame_object(frame):
    """The object of a frame as compare.py calls it."""
    if frame.type == "kernel":
        return "[kernel]"
    return compare.object_name(frame.path or "[unknown]")


def objects(them):
    counts = collections.Counter()
    for sample in them:
        if sample.frames:
            counts[frame_object(sample.frames[0])] += sample.value
    return counts


def functions(them, symbols):
    counts = collections.Counter()
    for sample in them:
        if sample.frames:
            counts[frame_object(sample.frames[0]), symbols.name(sample.frames[0])] += sample.value
    return counts


def totals(them, symbols):
    counts = collections.Counter()
    for sample in them:
        for function in {(frame_object(frame), symbols.name(frame)) for frame in sample.frames}:
            counts[function] += sample.value
    return counts


def perf_functions(them, symbols):
    """compare.functions() of perf's samples, with the names that functions() has."""
    counts = collections.Counter()
    for sample in them:
        if sample.frames:
            frame = sample.frames[0]
            name = symbols.canonical(frame.object, frame.symbol) or "[unknown]"
            counts[compare.object_name(frame.object), name] += 1
    return counts


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: otlp_read.py FILE…")
    counts = functions(samples(*sys.argv[1:]), Symbols())
    whole = sum(counts.values())
    for (name, function), count in counts.most_common(30):
        print(f"{count:8} {100 * count / whole:5.1f}%  {name}  {function}")


if __name__ == "__main__":
    main()
