#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The encoder against the oracle, and the oracle against requests with one rule broken each: a checker that
cannot fail would prove nothing."""
import copy

import oracle
import tap

oracle.enter()

try:
    import check_otlp
    import otlp_cases as cases
except ImportError:
    check_otlp = None


# the same for bytes: (what must be said, what to do to them)
BYTES = {
    "a group": ("wire: request: does not decode", lambda data: b"\x0b" + data),
    "truncated": ("wire: request: does not decode", lambda data: data[:-3]),
    "unknown field": ("wire: request: unknown field 15", lambda data: data + b"\x78\x01"),
    "unknown field within": ("wire: request.resource_profiles[1]: unknown field 15",
                             lambda data: data + b"\x0a\x02\x78\x01"),
    "not UTF-8": ("wire: request: does not decode", lambda data: data.replace(b"worker", b"wor\xffer")),
    "not the shortest varint": ("wire: request: packs again to other bytes",
                                lambda data: b"\x8a\x00" + data[1:] if data[0] == 0x0a else None),
    "empty": ("present: request: no resource_profiles", lambda data: b""),
}


class Oracle(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        oracle.need()
        cls.golden = cases.make_golden

    def test_finds_nothing_wrong_with_the_golden_request(self):
        self.assertEqual(check_otlp.check(self.golden.golden().SerializeToString(), ours=True), [])
        self.assertEqual(check_otlp.check(self.golden.otlp_json(self.golden.golden()).encode(), ours=True),
                         [])

    def test_finds_each_broken_rule(self):
        for name, (rule, mutate) in cases.MUTATIONS.items():
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
        done = self.run_command([tap.HARNESS / "write-window", directory, *args], expect=0)
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
        ids = [
            profile.profile_id for path in paths
            for resource in check_otlp.decode(path.read_bytes()).resource_profiles
            for scope in resource.scope_profiles for profile in scope.profiles
        ]
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
