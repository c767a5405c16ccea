#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The encoder against the oracle, and the oracle against requests with one rule broken each: a checker that cannot
fail would prove nothing."""
import copy
import importlib.util

import oracle
import tap

oracle.enter()

try:
    import check_otlp
except ImportError:
    check_otlp = None


def load_golden():
    spec = importlib.util.spec_from_file_location("make_golden", oracle.INTEROP / "make-golden.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def profile_of(request):
    return request.resource_profiles[0].scope_profiles[0].profiles[0]


def set_field(get, name, value):
    return lambda request: setattr(get(request), name, value)


def row(table, index):
    return lambda request: getattr(request.dictionary, table)[index]


def sample(index):
    return lambda request: profile_of(request).samples[index]


def clear(get, name):
    return lambda request: get(request).ClearField(name)


def add_string_used_twice(request):
    """Equal strings under two indexes, both used."""
    request.dictionary.string_table.append("worker-unit")
    request.dictionary.string_table.append("worker-unit")
    request.dictionary.attribute_table[4].unit_strindex = 11
    request.dictionary.attribute_table[5].unit_strindex = 12


def add_equal(table, use):
    def mutate(request):
        rows = getattr(request.dictionary, table)
        rows.add().CopyFrom(rows[1])
        use(request, len(rows) - 1)
    return mutate


def zero_row(table):
    def mutate(request):
        rows = getattr(request.dictionary, table)
        rows[0].CopyFrom(rows[1])
    return mutate


def orphan(table, **fields):
    return lambda request: getattr(request.dictionary, table).add(**fields)


def swap_resource(request):
    request.resource_profiles.add().CopyFrom(request.resource_profiles[0])
    request.resource_profiles[1].scope_profiles[0].profiles[0].profile_id = bytes(range(16, 32))


def second_profile(request):
    profiles = request.resource_profiles[0].scope_profiles[0].profiles
    profiles.add().CopyFrom(profiles[0])
    profiles[1].profile_id = bytes(range(16, 32))


def same_profile_id(request):
    second = request.resource_profiles.add()
    second.CopyFrom(request.resource_profiles[0])
    second.resource.attributes[1].value.int_value = 8


def drop_samples(request):
    del profile_of(request).samples[:]


def pair(request):
    return request.resource_profiles[0].resource.attributes[0]


# name: (rule that must be found, what to do to the golden request)
MUTATIONS = {
    "no table": ("tables", lambda r: r.dictionary.ClearField("link_table")),
    "row 0 of strings": ("tables", lambda r: r.dictionary.string_table.__setitem__(0, "x")),
    **{f"row 0 of {table}": ("tables", zero_row(table)) for table in
       ("mapping_table", "location_table", "function_table", "link_table", "attribute_table", "stack_table")},
    "stack index": ("index", set_field(sample(0), "stack_index", 3)),
    "negative stack index": ("index", set_field(sample(0), "stack_index", -1)),
    "link index": ("index", set_field(sample(0), "link_index", 2)),
    "sample attribute": ("index", lambda r: sample(0)(r).attribute_indices.append(6)),
    "sample attribute 0": ("index", lambda r: sample(0)(r).attribute_indices.append(0)),
    "location index": ("index", lambda r: row("stack_table", 1)(r).location_indices.append(4)),
    "location 0 in a stack": ("index", lambda r: row("stack_table", 1)(r).location_indices.append(0)),
    "mapping index": ("index", set_field(row("location_table", 1), "mapping_index", 2)),
    "location attribute": ("index", lambda r: row("location_table", 1)(r).attribute_indices.append(9)),
    "function index": ("index", lambda r: setattr(row("location_table", 2)(r).lines[0], "function_index", 2)),
    "function name": ("index", set_field(row("function_table", 1), "name_strindex", 99)),
    "function file": ("index", set_field(row("function_table", 1), "filename_strindex", 99)),
    "mapping path": ("index", set_field(row("mapping_table", 1), "filename_strindex", 99)),
    "attribute key": ("index", set_field(row("attribute_table", 1), "key_strindex", 99)),
    "attribute unit": ("index", set_field(row("attribute_table", 1), "unit_strindex", 99)),
    "type name": ("index", lambda r: setattr(profile_of(r).sample_type, "type_strindex", 99)),
    "equal strings": ("double", add_string_used_twice),
    "equal stacks": ("double", add_equal("stack_table", lambda r, i: setattr(sample(0)(r), "stack_index", i))),
    "equal links": ("double", add_equal("link_table", lambda r, i: setattr(sample(1)(r), "link_index", i))),
    "equal locations": ("double", add_equal("location_table", lambda r, i: row("stack_table", 2)(r).location_indices.append(i))),
    "equal mappings": ("double", add_equal("mapping_table", lambda r, i: setattr(row("location_table", 3)(r), "mapping_index", i))),
    "equal functions": ("double", add_equal("function_table", lambda r, i: row("location_table", 1)(r).lines.add(function_index=i))),
    "equal attributes": ("double", add_equal("attribute_table", lambda r, i: row("mapping_table", 1)(r).attribute_indices.append(i))),
    "orphan string": ("orphan", lambda r: r.dictionary.string_table.append("x")),
    "orphan stack": ("orphan", orphan("stack_table", location_indices=[2])),
    "orphan location": ("orphan", orphan("location_table", address=1)),
    "orphan mapping": ("orphan", orphan("mapping_table", memory_limit=1, attribute_indices=[1])),
    "orphan function": ("orphan", orphan("function_table", name_strindex=1)),
    "orphan link": ("orphan", orphan("link_table", trace_id=b"\1" * 16, span_id=b"\1" * 8)),
    "orphan attribute": ("orphan", lambda r: setattr(r.dictionary.attribute_table.add(key_strindex=1).value, "int_value", 1)),
    "key twice in a sample": ("keys", lambda r: sample(0)(r).attribute_indices.extend([2, 3])),
    "key twice in a resource": ("keys", lambda r: r.resource_profiles[0].resource.attributes.add().CopyFrom(pair(r))),
    "resource attribute without key": ("keys", lambda r: pair(r).ClearField("key")),
    "resource attribute without value": ("keys", lambda r: pair(r).ClearField("value")),
    "attribute without value": ("keys", clear(row("attribute_table", 4), "value")),
    "attribute without key": ("keys", clear(row("attribute_table", 4), "key_strindex")),
    "value as string index": ("strindex", lambda r: setattr(pair(r).value, "string_value_strindex", 1)),
    "value of a row as string index": ("strindex", lambda r: setattr(row("attribute_table", 5)(r).value, "string_value_strindex", 1)),
    "key as string index": ("strindex", lambda r: setattr(pair(r), "key_strindex", 1)),
    "no resource": ("present", lambda r: r.resource_profiles[0].ClearField("resource")),
    "no scope": ("present", lambda r: r.resource_profiles[0].scope_profiles[0].ClearField("scope")),
    "no sample type": ("present", lambda r: profile_of(r).ClearField("sample_type")),
    "no period type": ("present", lambda r: profile_of(r).ClearField("period_type")),
    "no unit": ("present", lambda r: profile_of(r).sample_type.ClearField("unit_strindex")),
    "no samples": ("present", drop_samples),
    "no profiles": ("present", lambda r: r.resource_profiles[0].scope_profiles[0].ClearField("profiles")),
    "no scopes": ("present", lambda r: r.resource_profiles[0].ClearField("scope_profiles")),
    "no resources": ("present", lambda r: r.ClearField("resource_profiles")),
    "same identity twice": ("types", lambda r: profile_of(r).samples.add().CopyFrom(sample(0)(r))),
    "same set in another order": ("types", lambda r: profile_of(r).samples.add(
        stack_index=1, link_index=1, attribute_indices=[5, 4], timestamps_unix_nano=[1_700_000_000_000_000_001])),
    "two profiles of one type": ("types", second_profile),
    "equal resources": ("types", swap_resource),
    "values of another number": ("shape", lambda r: sample(0)(r).values.append(1)),
    "neither values nor times": ("shape", lambda r: sample(1)(r).ClearField("timestamps_unix_nano")),
    "two shapes": ("shape", lambda r: sample(0)(r).values.extend([1, 1])),
    "early time": ("range", lambda r: sample(0)(r).timestamps_unix_nano.__setitem__(0, 1_699_999_999_999_999_999)),
    "time at the end": ("range", lambda r: sample(0)(r).timestamps_unix_nano.__setitem__(0, 1_700_000_000_500_000_000)),
    "no duration": ("range", lambda r: profile_of(r).ClearField("duration_nano")),
    "limit before start": ("mapping", set_field(row("mapping_table", 1), "memory_limit", 0x1000)),
    "address at the limit": ("mapping", set_field(row("location_table", 1), "address", 0x9000)),
    "address before the start": ("mapping", set_field(row("location_table", 1), "address", 0xFFF)),
    "no build id": ("mapping", clear(row("mapping_table", 1), "attribute_indices")),
    "build id as int": ("mapping", lambda r: setattr(row("attribute_table", 1)(r).value, "int_value", 5)),
    "negative line": ("mapping", lambda r: setattr(row("location_table", 2)(r).lines[0], "line", -1)),
    "negative column": ("mapping", lambda r: setattr(row("location_table", 2)(r).lines[0], "column", -1)),
    "short trace id": ("id", set_field(row("link_table", 1), "trace_id", b"\1" * 15)),
    "long span id": ("id", set_field(row("link_table", 1), "span_id", b"\1" * 9)),
    "zero trace id": ("id", set_field(row("link_table", 1), "trace_id", bytes(16))),
    "zero span id": ("id", set_field(row("link_table", 1), "span_id", bytes(8))),
    "no profile id": ("id", lambda r: profile_of(r).ClearField("profile_id")),
    "zero profile id": ("id", lambda r: setattr(profile_of(r), "profile_id", bytes(16))),
    "profile id twice": ("id", same_profile_id),
    "period type": ("ours", lambda r: setattr(profile_of(r).period_type, "type_strindex", 1)),
    "no period": ("ours", lambda r: profile_of(r).ClearField("period")),
    "no service name": ("ours", lambda r: setattr(pair(r), "key", "service.title")),
    "unknown type": ("ours", lambda r: r.dictionary.string_table.__setitem__(1, "tests")),
    "values beside times on the CPU": ("ours", lambda r: [s.values.extend([1] * len(s.timestamps_unix_nano))
                                                         for s in profile_of(r).samples]),
}

# the same for bytes: (what must be said, what to do to them)
BYTES = {
    "a group": ("wire: request: does not decode", lambda data: b"\x0b" + data),
    "truncated": ("wire: request: does not decode", lambda data: data[:-3]),
    "unknown field": ("wire: request: unknown field 15", lambda data: data + b"\x78\x01"),
    "unknown field within": ("wire: request.resource_profiles[1]: unknown field 15", lambda data: data + b"\x0a\x02\x78\x01"),
    "not UTF-8": ("wire: request: does not decode", lambda data: data.replace(b"worker", b"wor\xffer")),
    "not the shortest varint": ("wire: request: packs again to other bytes",
                                lambda data: b"\x8a\x00" + data[1:] if data[0] == 0x0a else None),
    "empty": ("present: request: no resource_profiles", lambda data: b""),
}


class Oracle(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        oracle.need()
        cls.golden = load_golden()

    def test_finds_nothing_wrong_with_the_golden_request(self):
        self.assertEqual(check_otlp.check(self.golden.golden().SerializeToString(), ours=True), [])
        self.assertEqual(check_otlp.check(self.golden.otlp_json(self.golden.golden()).encode(), ours=True), [])

    def test_finds_each_broken_rule(self):
        for name, (rule, mutate) in MUTATIONS.items():
            with self.subTest(name):
                request = copy.deepcopy(self.golden.golden())
                mutate(request)
                problems = check_otlp.check(request.SerializeToString(), ours=True)
                self.assertIn(rule, {line.split(":")[0] for line in problems}, problems)

    def test_finds_broken_bytes(self):
        for name, (problem, mutate) in BYTES.items():
            with self.subTest(name):
                bad = mutate(self.golden.golden().SerializeToString())
                self.assertIn(problem, "\n".join(check_otlp.check(bad)))

    def test_finds_what_is_too_large_for_one_request(self):
        request = self.golden.golden()
        request.dictionary.string_table[6] = "x" * (5 << 20)
        self.assertIn("ours: request", "\n".join(check_otlp.check(request.SerializeToString(), ours=True)))

    def test_the_program_tells_by_its_status(self):
        directory = self.directory()
        (directory / "good").write_bytes(self.golden.golden().SerializeToString())
        (directory / "bad").write_bytes(self.golden.golden().SerializeToString()[:-3])
        program = [oracle.need(), oracle.INTEROP / "check_otlp.py"]
        self.run_command([*program, directory / "good"], expect=0)
        done = self.run_command([*program, directory / "good", directory / "bad"], expect=1)
        self.assertRegex(done.stdout, r"bad: wire: ")
        self.run_command([*program, directory / "missing"], expect=2)
        self.run_command(program, expect=2)

    def test_the_golden_bytes_are_its_own(self):
        """What the unit tests compare with was written by this runtime, not by us."""
        self.assertEqual((tap.SOURCE_DIR / "tests/unit/golden-request.h").read_text(), self.golden.header())


class Encoder(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        oracle.need()

    def write(self, *args):
        directory = self.directory()
        done = self.run_command([tap.BUILD_DIR / "tests/lib/write-window", directory, *args], expect=0)
        requests = sorted(directory.glob("*.pb"))
        self.assertEqual(done.stdout.split()[0], str(len(requests)))
        return requests

    def assert_valid(self, paths):
        self.assertTrue(paths)
        for path in paths:
            self.assertEqual(check_otlp.check(path.read_bytes(), ours=True), [], path.name)

    def test_one_request_is_valid(self):
        paths = self.write()
        self.assertEqual(len(paths), 1)
        self.assert_valid(paths)

    def test_each_part_of_a_split_window_is_valid(self):
        paths = self.write(3000, 3, 500)
        self.assertGreater(len(paths), 20)
        self.assert_valid(paths)
        ids = [profile.profile_id for path in paths for resource in check_otlp.decode(path.read_bytes()).resource_profiles
               for scope in resource.scope_profiles for profile in scope.profiles]
        self.assertEqual(len(ids), len(set(ids)), "two parts of a profile have one id")

    def test_a_request_without_times_is_valid(self):
        self.assert_valid(self.write(0, 2, 50, "no-times"))

    def test_the_events_are_all_there(self):
        n = 0
        for path in self.write(3000, 3, 500):
            for resource in check_otlp.decode(path.read_bytes()).resource_profiles:
                for profile in resource.scope_profiles[0].profiles:
                    n += sum(len(s.timestamps_unix_nano) or s.values[0] // 75 for s in profile.samples)
        # a process: 3 on-CPU, 1 off-CPU and 2 lock events (70 + 80 ns) of each stack, and one without a stack
        self.assertEqual(n, 3 * (500 * 6 + 1))

    def test_json_says_the_same(self):
        for path in self.write():
            text = path.with_suffix(".json").read_bytes()
            self.assertEqual(check_otlp.check(text, ours=True), [])
            self.assertEqual(check_otlp.decode(text), check_otlp.decode(path.read_bytes()))


tap.main()
