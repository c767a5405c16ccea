#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof validate` on requests with one rule broken each. What is broken is made by protobuf's own runtime, and
the checker beside it (check_otlp.py) shares no line with ours: both must find the same rule."""
import copy
import json
import subprocess

import oracle
import tap

oracle.enter()

try:
    import otlp_cases as cases
except ImportError:
    cases = None

# cases that are warnings to us, since the protocol allows them: of which rule
OURS = {
    "period type": "type", "no period": "type", "values beside times on the CPU": "type",
    "hyphen in a type's name": "type", "no service name": "present",
    "no resource": "present", "no scope": "present", "no period type": "present", "no profile id": "id"
}

# What a path looks like, and what is said there: (how to break it, the line)
PATHS = {
    "stack": (lambda r: setattr(cases.sample(0)(r), "stack_index", 99),
              "resource_profiles[0].scope_profiles[0].profiles[0].samples[0].stack_index: 99 of 3 [index]"),
    "time": (lambda r: cases.sample(0)(r).timestamps_unix_nano.__setitem__(1, 5),
             "resource_profiles[0].scope_profiles[0].profiles[0].samples[0].timestamps_unix_nano[1]: "
             "5 is outside [1700000000000000000, + 500000000) [range]"),
    "line": (lambda r: setattr(cases.row("location_table", 1)(r).lines[0], "function_index", 2),
             "dictionary.location_table[1].lines[0].function_index: 2 of 2 [index]"),
    "orphan": (lambda r: r.dictionary.string_table.append("x"),
               "dictionary.string_table[11]: nothing refers to it [orphan]"),
    "value": (lambda r: cases.pair(r).ClearField("value"),
              "resource_profiles[0].resource.attributes[0].value: has no value [keys]"),
    "nested value": (
        lambda r: r.resource_profiles[0].resource.attributes.add(key="list").value.array_value.values.add(),
        "resource_profiles[0].resource.attributes[2].value.array_value.values[0]: has no value [keys]"),
    "nested key": (
        lambda r: r.resource_profiles[0].resource.attributes.add(key="map").value.kvlist_value.values.add(),
        "resource_profiles[0].resource.attributes[2].value.kvlist_value.values[0]: has no key [keys]"),
    "type": (lambda r: cases.profile_of(r).ClearField("sample_type"),
             "resource_profiles[0].scope_profiles[0].profiles[0].sample_type: is missing [present]"),
}


class Validate(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        oracle.need()
        cls.golden = cases.golden()

    def validate(self, paths, expect):
        done = self.run_command([tap.SPANPROF, "validate", "--json", *paths], expect=expect)
        return json.loads(done.stdout)

    def broken(self, mutate):
        request = copy.deepcopy(self.golden)
        mutate(request)
        return request

    def write(self, name, data):
        path = self.directory() / name
        path.write_bytes(data)
        return path

    def test_finds_nothing_in_the_golden_request(self):
        for data in self.golden.SerializeToString(), cases.otlp_json(self.golden).encode():
            (found,) = self.validate([self.write("golden", data)], expect=0)
            self.assertEqual((found["findings"], found["valid"]), ([], True))

    def test_finds_each_broken_rule_in_both_forms(self):
        names, paths, directory = [], [], self.directory()
        for i, (name, (rule, mutate)) in enumerate(cases.MUTATIONS.items()):
            if rule == "ours" and name not in OURS:
                continue
            request = self.broken(mutate)
            for form, data in ("pb", request.SerializeToString()), ("json",
                                                                    cases.otlp_json(request).encode()):
                path = directory / f"{i}.{form}"
                path.write_bytes(data)
                names.append((name, form, OURS.get(name, rule), "warning" if name in OURS else "error"))
                paths.append(path)
        self.assertGreater(len(paths), 100)
        for (name, form, rule, severity), found in zip(names, self.validate(paths, expect=1)):
            with self.subTest(name, form=form):
                self.assertIn((severity, rule), {(f["severity"], f["rule"]) for f in found["findings"]})
                self.assertEqual(found["valid"], severity == "warning" and found["errors"] == 0)

    def test_names_the_element_and_what_is_wrong_with_it(self):
        for name, (mutate, line) in PATHS.items():
            with self.subTest(name):
                path = self.write("broken", self.broken(mutate).SerializeToString())
                done = self.run_command([tap.SPANPROF, "validate", path], expect=1)
                self.assertIn(f"{path}: error: {line}", done.stdout.splitlines())

    def test_finds_broken_bytes(self):
        golden = self.golden.SerializeToString()
        for what, rule, severity, data in (
            ("cut off", "wire", "error", golden[:-3]),
            ("a group", "wire", "error", b"\x0b" + golden),
            ("unknown field", "wire", "warning", golden + b"\x78\x01"),
            ("unknown field within", "wire", "warning", golden + b"\x0a\x02\x78\x01"),
            ("a longer varint", "wire", "warning", b"\x8a\x00" + golden[1:]),
            ("a string with a NUL", "wire", "warning", golden.replace(b"worker", b"wor\0er")),
            ("not UTF-8", "utf8", "error", golden.replace(b"worker", b"wor\xffer")),
            ("no UTF-8 in the resource", "utf8", "error", golden.replace(b"shop", b"sh\xffp", 1)),
            ("no JSON", "wire", "error", b'{"resourceProfiles": ['),
            ("JSON of another shape", "wire", "error", b'{"resourceProfiles": 7}'),
            ("too deep", "wire", "error", b'{"resourceProfiles":' + b'[' * 2000 + b']' * 2000 + b'}'),
        ):
            with self.subTest(what):
                (found,) = self.validate([self.write("bytes", data)], expect=None)
                self.assertIn((severity, rule), {(f["severity"], f["rule"]) for f in found["findings"]},
                              found)

    def test_warns_of_what_receivers_may_find_too_large(self):
        request = self.broken(lambda r: r.dictionary.string_table.__setitem__(6, "x" * (5 << 20)))
        (found,) = self.validate([self.write("large", request.SerializeToString())], expect=0)
        self.assertEqual([f["rule"] for f in found["findings"]], ["size"])

    def test_tells_by_its_status(self):
        good = self.write("good", self.golden.SerializeToString())
        bad = self.write("bad", self.golden.SerializeToString()[:-3])
        self.run_command([tap.SPANPROF, "validate", good], expect=0)
        self.run_command([tap.SPANPROF, "validate", good, bad], expect=1)
        done = self.run_command([tap.SPANPROF, "validate", bad, "/nonexistent", good], expect=2)
        self.assertIn("/nonexistent: cannot be read", done.stderr)
        self.assertIn(f"{good}: valid, 0 errors, 0 warnings", done.stdout, "the others are still checked")
        self.run_command([tap.SPANPROF, "validate"], expect=2)

    def test_reads_standard_input_and_files_of_many_documents(self):
        data = self.golden.SerializeToString()
        done = subprocess.run([tap.SPANPROF, "validate", "-"], input=data, capture_output=True)
        self.assertEqual((done.returncode, done.stdout),
                         (0, b"standard input: valid, 0 errors, 0 warnings\n"))
        line = cases.otlp_json(self.golden)
        bad = line.replace('"stackIndex":2', '"stackIndex":3')
        path = self.write("lines", f"{line}\n{bad}\n".encode())
        first, second = self.validate([path], expect=1)
        self.assertEqual((first["name"], first["valid"]), (f"{path}, document 1", True))
        self.assertEqual((second["name"], second["valid"]), (f"{path}, document 2", False))

    def test_people_get_a_hundred_lines_and_a_number(self):
        def mutate(request):
            for i in range(300):
                request.dictionary.string_table.append(f"x{i}")

        path = self.write("many", self.broken(mutate).SerializeToString())
        done = self.run_command([tap.SPANPROF, "validate", path], expect=1)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 102)
        self.assertEqual(lines[-2:], [f"{path}: … and 200 more", f"{path}: invalid, 300 errors, 0 warnings"])


tap.main()
