# SPDX-License-Identifier: Apache-2.0
"""The golden request with one rule broken each: a checker that cannot fail would prove nothing."""
import importlib.util
import pathlib

spec = importlib.util.spec_from_file_location("make_golden", pathlib.Path(__file__).parent / "make-golden.py")
make_golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_golden)
golden, otlp_json = make_golden.golden, make_golden.otlp_json


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
    **{
        f"row 0 of {table}": ("tables", zero_row(table))
        for table in ("mapping_table", "location_table", "function_table", "link_table", "attribute_table",
                      "stack_table")
    },
    "stack index": ("index", set_field(sample(0), "stack_index", 3)),
    "negative stack index": ("index", set_field(sample(0), "stack_index", -1)),
    "link index": ("index", set_field(sample(0), "link_index", 2)),
    "sample attribute": ("index", lambda r: sample(0)(r).attribute_indices.append(6)),
    "sample attribute 0": ("index", lambda r: sample(0)(r).attribute_indices.append(0)),
    "location index": ("index", lambda r: row("stack_table", 1)(r).location_indices.append(4)),
    "location 0 in a stack": ("index", lambda r: row("stack_table", 1)(r).location_indices.append(0)),
    "mapping index": ("index", set_field(row("location_table", 2), "mapping_index", 2)),
    "location attribute": ("index", lambda r: row("location_table", 2)(r).attribute_indices.append(9)),
    "function index": ("index", lambda r: setattr(row("location_table", 1)(r).lines[0], "function_index", 2)),
    "function name": ("index", set_field(row("function_table", 1), "name_strindex", 99)),
    "function file": ("index", set_field(row("function_table", 1), "filename_strindex", 99)),
    "mapping path": ("index", set_field(row("mapping_table", 1), "filename_strindex", 99)),
    "function's system name": ("index", set_field(row("function_table", 1), "system_name_strindex", 99)),
    "mapping attribute": ("index", lambda r: row("mapping_table", 1)(r).attribute_indices.append(9)),
    "profile attribute": ("index", lambda r: profile_of(r).attribute_indices.append(6)),
    "negative link index": ("index", set_field(sample(0), "link_index", -1)),
    "negative location index": ("index", lambda r: row("stack_table", 1)(r).location_indices.append(-1)),
    "name of the type's unit": ("index", lambda r: setattr(profile_of(r).sample_type, "unit_strindex", 99)),
    "name of the period's type": ("index", lambda r: setattr(profile_of(r).period_type, "type_strindex", 99)),
    "name of the period's unit": ("index", lambda r: setattr(profile_of(r).period_type, "unit_strindex", -1)),
    "attribute key": ("index", set_field(row("attribute_table", 1), "key_strindex", 99)),
    "attribute unit": ("index", set_field(row("attribute_table", 1), "unit_strindex", 99)),
    "type name": ("index", lambda r: setattr(profile_of(r).sample_type, "type_strindex", 99)),
    "equal strings": ("double", add_string_used_twice),
    "equal stacks": ("double", add_equal("stack_table", lambda r, i: setattr(sample(0)
                                                                             (r), "stack_index", i))),
    "equal links": ("double", add_equal("link_table", lambda r, i: setattr(sample(1)(r), "link_index", i))),
    "equal locations": ("double",
                        add_equal("location_table", lambda r, i: row("stack_table", 2)
                                  (r).location_indices.append(i))),
    "equal mappings": ("double",
                       add_equal("mapping_table",
                                 lambda r, i: setattr(row("location_table", 3)(r), "mapping_index", i))),
    "equal functions": ("double",
                        add_equal("function_table", lambda r, i: row("location_table", 2)
                                  (r).lines.add(function_index=i))),
    "equal attributes": ("double",
                         add_equal("attribute_table", lambda r, i: row("mapping_table", 1)
                                   (r).attribute_indices.append(i))),
    "orphan string": ("orphan", lambda r: r.dictionary.string_table.append("x")),
    "orphan stack": ("orphan", orphan("stack_table", location_indices=[2])),
    "orphan location": ("orphan", orphan("location_table", address=1)),
    "orphan mapping": ("orphan", orphan("mapping_table", memory_limit=1, attribute_indices=[1])),
    "orphan function": ("orphan", orphan("function_table", name_strindex=1)),
    "orphan link": ("orphan", orphan("link_table", trace_id=b"\1" * 16, span_id=b"\1" * 8)),
    "orphan attribute": (
        "orphan", lambda r: setattr(r.dictionary.attribute_table.add(key_strindex=1).value, "int_value", 1)),
    "key twice in a sample": ("keys", lambda r: sample(0)(r).attribute_indices.extend([2, 3])),
    "key twice in a profile": ("keys", lambda r: profile_of(r).attribute_indices.extend([2, 3])),
    "key twice in a mapping": ("keys", lambda r: row("mapping_table", 1)(r).attribute_indices.extend([2, 3])),
    "key twice in a location": ("keys", lambda r: row("location_table", 2)(r).attribute_indices.append(3)),
    "key twice in a resource": ("keys",
                                lambda r: r.resource_profiles[0].resource.attributes.add().CopyFrom(pair(r))),
    "resource attribute without key": ("keys", lambda r: pair(r).ClearField("key")),
    "resource attribute without value": ("keys", lambda r: pair(r).ClearField("value")),
    "attribute without value": ("keys", clear(row("attribute_table", 4), "value")),
    "attribute without key": ("keys", clear(row("attribute_table", 4), "key_strindex")),
    "value as string index": ("strindex", lambda r: setattr(pair(r).value, "string_value_strindex", 1)),
    "value of a row as string index": (
        "strindex", lambda r: setattr(row("attribute_table", 5)(r).value, "string_value_strindex", 1)),
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
    "same set in another order": (
        "types", lambda r: profile_of(r).samples.add(stack_index=1, link_index=1, attribute_indices=[5, 4],
                                                     timestamps_unix_nano=[1_700_000_000_000_000_001])),
    "two profiles of one type": ("types", second_profile),
    "equal resources": ("types", swap_resource),
    "values of another number": ("shape", lambda r: sample(0)(r).values.append(1)),
    "neither values nor times": ("shape", lambda r: sample(1)(r).ClearField("timestamps_unix_nano")),
    "two shapes": ("shape", lambda r: sample(0)(r).values.extend([1, 1])),
    "early time": ("range", lambda r: sample(0)
                   (r).timestamps_unix_nano.__setitem__(0, 1_699_999_999_999_999_999)),
    "time at the end": ("range", lambda r: sample(0)
                        (r).timestamps_unix_nano.__setitem__(0, 1_700_000_000_500_000_000)),
    "no duration": ("range", lambda r: profile_of(r).ClearField("duration_nano")),
    "limit before start": ("mapping", set_field(row("mapping_table", 1), "memory_limit", 0xFFF)),
    "address at the limit": ("mapping", set_field(row("location_table", 2), "address", 0x9000)),
    "address before the start": ("mapping", set_field(row("location_table", 2), "address", 0xFFF)),
    "no build id": ("mapping", clear(row("mapping_table", 1), "attribute_indices")),
    "build id as int": ("mapping", lambda r: setattr(row("attribute_table", 1)(r).value, "int_value", 5)),
    "negative line": ("mapping", lambda r: setattr(row("location_table", 1)(r).lines[0], "line", -1)),
    "negative start line": ("mapping", set_field(row("function_table", 1), "start_line", -1)),
    "start and limit equal": ("mapping", set_field(row("mapping_table", 1), "memory_limit", 0x1000)),
    "negative column": ("mapping", lambda r: setattr(row("location_table", 1)(r).lines[0], "column", -1)),
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
    "hyphen in a type's name": ("ours", lambda r: r.dictionary.string_table.__setitem__(1, "wall-samples")),
    "values beside times on the CPU": (
        "ours", lambda r: [s.values.extend([1] * len(s.timestamps_unix_nano))
                           for s in profile_of(r).samples]),
}
