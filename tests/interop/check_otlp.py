#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks OTLP profiles requests by opentelemetry-proto, which we did not write, and by the rules that its
readers enforce.

usage: check_otlp.py [--ours] FILE…         protobuf, or OTLP/JSON if the file begins with `{`
       exit status 0: all valid; 1: problems, one a line on standard output; 2: usage or unreadable

--ours adds what is only true of spanprof's own requests: the shapes and periods of its profile types, sizes
under 4 MiB.

As a module:  problems = check_otlp.check(data, ours=True);  request = check_otlp.decode(data)

A problem is a line "RULE: where: what"; the rules:
    wire       decodes, without unknown fields, and packs again to the same bytes
    tables     all seven tables are there, and row 0 of each is the empty message
    index      every index is inside its table
    double     no two equal rows in a table
    orphan     no row that nothing refers to
    keys       no key twice in a list of attributes; each has a key and a value
    strindex   no string indexes in attributes: older readers lose them
    present    Resource, Scope, sample_type, period_type; nothing empty is sent
    types      one Profile per sample type and period; samples of one identity are merged
    shape      samples of a profile are alike: one value, or times, or as many of both
    range      times lie in [time_unix_nano, + duration_nano), duration > 0
    mapping    start < limit or both 0; addresses inside; a build id as plain string; lines and columns ≥ 0
    id         links have 16 and 8 bytes, profiles 16, not zero, profile ids only once
    ours       see --ours
"""
import base64
import binascii
import json
import sys
from collections import Counter

from google.protobuf import json_format, message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service

TABLES = [
    "mapping_table", "location_table", "function_table", "link_table", "string_table", "attribute_table",
    "stack_table"
]
HEX = {"traceId", "spanId", "profileId"}
MAX_BYTES = 4 << 20
# (sample type, unit) → (period type, unit, period is set, shapes)
OURS = {
    ("samples", "count"): ("cpu", "nanoseconds", True, {"times", "value"}),
    ("off_cpu", "nanoseconds"): ("off_cpu", "nanoseconds", False, {"both", "value"}),
    ("goroutines", "count"): ("wall", "nanoseconds", True, {"value"}),
    ("page_faults", "count"): ("page_faults", "count", True, {"value"}),
    ("crashes", "count"): ("crashes", "count", True, {"times", "value"}),
    ("off_cpu_waker", "nanoseconds"): ("off_cpu_waker", "nanoseconds", False, {"both", "value"}),
    ("wall", "nanoseconds"): ("wall", "nanoseconds", True, {"value"}),
    ("wall", "count"): ("wall", "nanoseconds", True, {"times", "value", "both"}),
    ("lock_contention", "nanoseconds"): ("lock_contention", "nanoseconds", False, {"value"}),
    ("alloc_space", "bytes"): ("space", "bytes", True, {"value"}),
    ("alloc_objects", "count"): ("space", "bytes", True, {"value"}),
    ("inuse_space", "bytes"): ("space", "bytes", True, {"value"}),
    ("inuse_objects", "count"): ("objects", "count", True, {"value"}),
    ("exceptions", "count"): ("exceptions", "count", True, {"value"}),
    ("suspended", "nanoseconds"): ("suspended", "nanoseconds", False, {"both", "value"}),
}
# a recording of a JVM counts objects; the heap profile of a program of Go has a distance of samples, in bytes
OF_HEAPS = {("inuse_objects", "count"): ("space", "bytes")}
# the same, shipped by `spanprof keep`
OURS |= {("kept_" + type, unit): shape for (type, unit), shape in OURS.items()}


def from_json(text):
    def plain(value):
        if isinstance(value, dict):
            return {key: base64.b64encode(binascii.unhexlify(item)).decode() if key in HEX else plain(item)
                    for key, item in value.items()}
        return [plain(item) for item in value] if isinstance(value, list) else value

    request = service.ExportProfilesServiceRequest()
    json_format.ParseDict(plain(json.loads(text)), request)
    return request


def decode(data):
    """The message in bytes of protobuf or OTLP/JSON; raises ValueError."""
    try:
        if data[:1] == b"{":
            return from_json(data.decode())
        return service.ExportProfilesServiceRequest.FromString(data)
    except (message.DecodeError, json_format.ParseError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"does not decode: {error}") from None


def unknown_fields(node, path):
    if len(UnknownFieldSet(node)):
        yield f"{path}: unknown field {UnknownFieldSet(node)[0].field_number}"
    for field, value in node.ListFields():
        if field.message_type is None:
            continue
        children = value if isinstance(value, message.Message) is False else [value]
        for i, child in enumerate(children):
            yield from unknown_fields(
                child, f"{path}.{field.name}[{i}]" if children is value else f"{path}.{field.name}")


class Checker:
    def __init__(self, request, ours):
        self.request, self.ours = request, ours
        self.tables = request.dictionary
        self.used = {table: {0} for table in TABLES}
        self.problems = []
        self.profile_ids = Counter()

    def problem(self, rule, where, what):
        self.problems.append(f"{rule}: {where}: {what}")

    def use(self, table, index, where):
        """Marks a row as used. Returns it, or None if there is no such row."""
        rows = getattr(self.tables, table)
        if not 0 <= index < len(rows):
            self.problem("index", where, f"{index} is outside {table} of {len(rows)} rows")
            return None
        self.used[table].add(index)
        return rows[index]

    def string(self, index, where):
        return self.use("string_table", index, where) or ""

    # -- dictionary

    def check_tables(self):
        for table in TABLES:
            rows = getattr(self.tables, table)
            if len(rows) == 0:
                self.problem("tables", table, "is missing")
            elif rows[0] != "" if table == "string_table" else rows[0].ByteSize():
                self.problem("tables", table, "row 0 is not empty")
            seen = {}
            for i, row in enumerate(rows):
                key = row if table == "string_table" else row.SerializeToString(deterministic=True)
                if key in seen:
                    self.problem("double", table, f"rows {seen[key]} and {i} are equal")
                seen.setdefault(key, i)

    def check_orphans(self):
        """After all uses: a row counts as used even if what uses it is an orphan, which is reported itself."""
        for table in TABLES:
            for i in range(1, len(getattr(self.tables, table))):
                if i not in self.used[table]:
                    self.problem("orphan", table, f"nothing refers to row {i}")

    def check_rows(self):
        for i, row in enumerate(self.tables.attribute_table[1:], 1):
            where = f"attribute_table[{i}]"
            if not self.string(row.key_strindex, where):
                self.problem("keys", where, "has no key")
            self.string(row.unit_strindex, where)
            self.check_value(row.value, where)
        for i, row in enumerate(self.tables.function_table[1:], 1):
            for index in (row.name_strindex, row.system_name_strindex, row.filename_strindex):
                self.string(index, f"function_table[{i}]")
            if row.start_line < 0:
                self.problem("mapping", f"function_table[{i}]", "negative start_line")
        for i, row in enumerate(self.tables.link_table[1:], 1):
            where = f"link_table[{i}]"
            if len(row.trace_id) != 16 or len(row.span_id) != 8:
                self.problem("id", where, f"{len(row.trace_id)} and {len(row.span_id)} bytes")
            if not any(row.trace_id) or not any(row.span_id):
                self.problem("id", where, "zero")
        for i, row in enumerate(self.tables.stack_table[1:], 1):
            for index in row.location_indices:
                self.use("location_table", index, f"stack_table[{i}]")
                if index == 0:
                    self.problem("index", f"stack_table[{i}]", "location 0 is no location")
        for i, row in enumerate(self.tables.mapping_table[1:], 1):
            self.check_mapping(row, f"mapping_table[{i}]")
        for i, row in enumerate(self.tables.location_table[1:], 1):
            self.check_location(row, f"location_table[{i}]")

    def check_value(self, value, where):
        kind = value.WhichOneof("value")
        if kind is None:
            self.problem("keys", where, "has no value")
        elif kind == "string_value_strindex":
            self.problem("strindex", where, "value is a string index")
        elif kind == "array_value":
            for item in value.array_value.values:
                self.check_value(item, where)
        elif kind == "kvlist_value":
            self.check_pairs(value.kvlist_value.values, where)

    def check_pairs(self, pairs, where):
        keys = set()
        for pair in pairs:
            if pair.key_strindex:
                self.problem("strindex", where, "key is a string index")
            elif not pair.key:
                self.problem("keys", where, "has no key")
            if pair.key in keys:
                self.problem("keys", where, f"{pair.key} twice")
            keys.add(pair.key)
            self.check_value(pair.value, where)

    def attributes(self, indices, where):
        """{key: AnyValue} of a list of indices."""
        values = {}
        for index in indices:
            row = self.use("attribute_table", index, where)
            if row is None:
                continue
            if index == 0:
                self.problem("index", where, "attribute 0 is no attribute")
            strings = self.tables.string_table
            key = strings[row.key_strindex] if 0 <= row.key_strindex < len(strings) else ""
            if key in values:
                self.problem("keys", where, f"{key} twice")
            values[key] = row.value
        return values

    def check_mapping(self, row, where):
        if not row.memory_start < row.memory_limit and (row.memory_start or row.memory_limit):
            self.problem("mapping", where, f"start {row.memory_start:#x}, limit {row.memory_limit:#x}")
        self.string(row.filename_strindex, where)
        ids = {key: value for key, value in self.attributes(row.attribute_indices, where).items()
               if key.startswith("process.executable.build_id.")}
        if not any(value.string_value for value in ids.values()):
            self.problem("mapping", where, "no build id")

    def check_location(self, row, where):
        mapping = self.use("mapping_table", row.mapping_index, where)
        self.attributes(row.attribute_indices, where)
        if row.mapping_index and mapping is not None and mapping.memory_limit and \
                not mapping.memory_start <= row.address < mapping.memory_limit:
            self.problem("mapping", where, f"{row.address:#x} is outside its mapping")
        for line in row.lines:
            self.use("function_table", line.function_index, where)
            if line.line < 0 or line.column < 0:
                self.problem("mapping", where, "negative line or column")

    # -- profiles

    def check_type(self, profile, field, where):
        if not profile.HasField(field):
            self.problem("present", where, f"no {field}")
        value = getattr(profile, field)
        names = self.string(value.type_strindex, where), self.string(value.unit_strindex, where)
        if not all(names):
            self.problem("present", where, f"{field} has no name or unit")
        return names

    def check_sample(self, sample, profile, where):
        """Returns its identity and shape."""
        self.use("stack_table", sample.stack_index, where)
        self.use("link_table", sample.link_index, where)
        self.attributes(sample.attribute_indices, where)
        n_values, n_times = len(sample.values), len(sample.timestamps_unix_nano)
        shape = "value" if (n_values, n_times) == (1, 0) else "times" if n_times and not n_values else \
            "both" if n_times and n_times == n_values else None
        if shape is None:
            self.problem("shape", where, f"{n_values} values and {n_times} timestamps")
        start = profile.time_unix_nano
        for time in sample.timestamps_unix_nano:
            if not start <= time < start + profile.duration_nano:
                self.problem("range", where,
                             f"timestamp {time} is outside [{start}, + {profile.duration_nano})")
        return (sample.stack_index, frozenset(sample.attribute_indices), sample.link_index), shape

    def check_profile(self, profile, where):
        """Returns its sample type."""
        names = self.check_type(profile, "sample_type", where)
        period_names = self.check_type(profile, "period_type", where)
        self.attributes(profile.attribute_indices, where)
        if profile.duration_nano <= 0 or not profile.time_unix_nano:
            self.problem("range", where, f"time {profile.time_unix_nano}, duration {profile.duration_nano}")
        if len(profile.profile_id) != 16 or not any(profile.profile_id):
            self.problem("id", where, f"profile_id {profile.profile_id.hex()}")
        self.profile_ids[profile.profile_id] += 1
        if not profile.samples:
            self.problem("present", where, "no samples")
        identities, shapes = set(), set()
        for i, sample in enumerate(profile.samples):
            identity, shape = self.check_sample(sample, profile, f"{where}.samples[{i}]")
            if identity in identities:
                self.problem("types", f"{where}.samples[{i}]", "an earlier sample has the same identity")
            identities.add(identity)
            shapes.add(shape)
        if len(shapes) > 1:
            self.problem("shape", where, f"samples of several shapes: {sorted(map(str, shapes))}")
        if self.ours:
            self.check_ours(profile, names, period_names, shapes, where)
        return names

    def check_ours(self, profile, names, period_names, shapes, where):
        if "-" in names[0]:
            self.problem("ours", where, f"a hyphen in {names[0]}")
        if names not in OURS:
            self.problem("ours", where, f"type {names}")
            return
        period_type, unit, has_period, good = OURS[names]
        if (period_names not in ((period_type, unit), OF_HEAPS.get(names)) or
                (profile.period > 0) != has_period or profile.period < 0):
            self.problem("ours", where, f"{names} with period {period_names} = {profile.period}")
        if not shapes <= good:
            self.problem("ours", where, f"{names} in shape {shapes}")

    def check_resource(self, node, where):
        if not node.HasField("resource"):
            self.problem("present", where, "no resource")
        self.check_pairs(node.resource.attributes, f"{where}.resource")
        if not node.scope_profiles:
            self.problem("present", where, "no scope_profiles")
        types = Counter()
        for i, scope in enumerate(node.scope_profiles):
            inner = f"{where}.scope_profiles[{i}]"
            if not scope.HasField("scope"):
                self.problem("present", inner, "no scope")
            self.check_pairs(scope.scope.attributes, inner)
            if not scope.profiles:
                self.problem("present", inner, "no profiles")
            for j, profile in enumerate(scope.profiles):
                types[self.check_profile(profile, f"{inner}.profiles[{j}]"), profile.period] += 1
        for names, n in types.items():
            if n > 1:
                self.problem("types", where, f"{n} profiles of type {names}")
        if self.ours and not any(pair.key == "service.name" for pair in node.resource.attributes):
            self.problem("ours", where, "no service.name")

    def check(self):
        self.check_tables()
        self.check_rows()
        if not self.request.resource_profiles:
            self.problem("present", "request", "no resource_profiles")
        for i, node in enumerate(self.request.resource_profiles):
            self.check_resource(node, f"resource_profiles[{i}]")
        resources = Counter(
            node.resource.SerializeToString(deterministic=True) for node in self.request.resource_profiles)
        if any(n > 1 for n in resources.values()):
            self.problem("types", "request", "two resources are equal")
        for profile_id, n in self.profile_ids.items():
            if n > 1:
                self.problem("id", "request", f"profile_id {profile_id.hex()} {n} times")
        self.check_orphans()
        return self.problems


def check(data, ours=False):
    """Problems of one request, [] = none."""
    try:
        request = decode(data)
    except ValueError as error:
        return [f"wire: request: {error}"]
    problems = [f"wire: {where}" for where in unknown_fields(request, "request")]
    if data[:1] != b"{" and request.SerializeToString() != data:
        problems.append("wire: request: packs again to other bytes")
    if ours and len(data) > MAX_BYTES and data[:1] != b"{":
        problems.append(f"ours: request: {len(data)} bytes")
    return problems + Checker(request, ours).check()


def main(argv):
    ours = "--ours" in argv
    files = [argument for argument in argv if argument != "--ours"]
    if not files or any(name.startswith("-") for name in files):
        print(__doc__, file=sys.stderr)
        return 2
    status = 0
    for name in files:
        try:
            with open(name, "rb") as file:
                data = file.read()
        except OSError as error:
            print(f"{name}: {error.strerror}", file=sys.stderr)
            return 2
        for problem in check(data, ours):
            print(f"{name}: {problem}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
