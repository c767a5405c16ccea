#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The last line of `bootstrap test` is what people and machines believe: it must not lose a failure."""
import json
import os
import sys

import tap

SUMMARIZE = tap.SOURCE_DIR / "tests/harness/summarize.py"

# As criterion 2.4.1 prints them.
CRITERION = """TAP version 13
1..4
# Criterion v2.4.1
ok - a::skips  # SKIP kernel: no such
not ok - a::fails  (0.01s)
  ---
  failures:
  - skip.c:3: |+
      Assertion failed: why 3
  ...
ok - a::ok  (0.00s)
not ok - a::crash unexpected signal after skip.c:5
"""


class Summarize(tap.TestCase):
    def summarize(self, *tests, expect, ci="false"):
        path = self.directory() / "testlog.json"
        path.write_text("".join(json.dumps(test) + "\n" for test in tests))
        done = self.run_command([sys.executable, SUMMARIZE, f"here={path}"], expect=expect,
                                env={**os.environ, "CI": ci})
        return done.stdout.splitlines()

    def test_counts_subtests_of_each_kind(self):
        lines = self.summarize({"name": "p:unit / a", "result": "FAIL", "stdout": CRITERION},
                               {"name": "p:unit / layers", "result": "OK", "stdout": "12 includes\n"},
                               expect=1)
        self.assertEqual(lines[-1], "2 passed, 2 failed, 1 skipped")
        self.assertIn("skipped  here: a: a::skips: kernel: no such", lines)
        self.assertIn("FAILED   here: a: a::fails  (0.01s)", lines)
        self.assertIn("         |       Assertion failed: why 3", lines)
        self.assertRegex(lines[-2], r"^failed: here: a: a::fails .*, here: a: ")

    def test_a_log_that_ends_early_is_a_failure(self):
        for result in ("TIMEOUT", "ERROR", "FAIL", "INTERRUPT"):
            lines = self.summarize({"name": "x", "result": result, "stdout": "TAP version 13\nok 1 - a\n"},
                                   expect=1)
            self.assertEqual(lines[-1], "1 passed, 1 failed, 0 skipped")

    def test_continuous_integration_accepts_only_skips_that_nobody_can_mend(self):
        test = {
            "name": "x", "result": "OK", "stdout": "1..4\nok 1 - a # SKIP tool: perf is not installed\n"
            "ok 2 - b # SKIP machine: one CPU\nok 3 - c # SKIP kernel: no BTF\n"
            "ok 4 - d\n"
        }
        self.assertEqual(self.summarize(test, expect=0)[-1], "1 passed, 0 failed, 3 skipped")
        self.assertEqual(self.summarize(test, expect=1, ci="true")[-1], "1 passed, 1 failed, 2 skipped")

    def test_says_where_the_minutes_went(self):
        """Two unit tests side by side, one test alone, two that overlap by half; and one that ran nothing."""
        directory = self.directory()
        tests = [("p:unit / a", 0, 60), ("p:unit / b", 30, 30), ("p:fuzz+emulated / c", 60, 6),
                 ("p:integration / d", 66.1, 120), ("p:integration / e", 186.2, 60), ("p:integration / f", 216.2, 60)]
        (directory / "testlog.json").write_text("".join(
            json.dumps({"name": name, "result": "OK", "stdout": "", "starttime": begin, "duration": seconds}) + "\n"
            for name, begin, seconds in tests))
        (directory / "phases").write_text("3 compiling with gcc\n93 release\n369 none\n369 end\n")
        (directory / "meanwhile").write_text("10 clang\n40 end\n")
        done = self.run_command([sys.executable, SUMMARIZE, "--phases", directory,
                                 f"release={directory}/testlog.json", f"none={directory}/none.json"], expect=1)
        self.assertEqual(done.stdout.splitlines()[-3:], [
            "meanwhile 0.5 min: clang 0.5",
            "6.1 min: compiling with gcc 1.5, release 4.6 (unit 1.0, fuzz replays 0.1, integration alone 2.0, "
            "integration side by side 1.5), none 0.0", "6 passed, 1 failed, 0 skipped"])

    def test_names_the_scripts_that_took_most(self):
        short = "1..2\nok 1 - A.test_a\n# 5.2 s, 3.3 s of CPU: A.test_a\n"
        whole = short + "ok 2 - A.test_b\n# 9.0 s, 1.2 s of CPU: A.test_b\n"
        tests = [{"name": f"p:x / {name}", "result": "OK", "stdout": stdout, "starttime": 0, "duration": seconds}
                 for name, seconds, stdout in (("short", 3, short), ("long", 14.2, whole), ("unit", 90, "ok - a\n"))]
        directory = self.directory()
        (directory / "testlog.json").write_text("".join(json.dumps(test) + "\n" for test in tests))
        (directory / "phases").write_text("0 release\n120 end\n")
        done = self.run_command([sys.executable, SUMMARIZE, "--phases", directory, f"release={directory}/testlog.json"])
        self.assertIn("longest, in s (of CPU; 8 in all): long 14 (4), short 3 (3)", done.stdout.splitlines())

    def again(self, tests, second):
        first, other = self.directory() / "testlog.json", self.directory() / "second.json"
        first.write_text("".join(json.dumps(test) + "\n" for test in tests))
        other.write_text("".join(json.dumps(test) + "\n" for test in second))
        done = self.run_command([sys.executable, SUMMARIZE, f"here={first}+{other}"], expect=None)
        return done.returncode, done.stdout.splitlines()

    def test_what_passes_alone_was_disturbed_and_is_named(self):
        first = {"name": "p:integration / a", "result": "FAIL", "stdout": "1..2\nok 1 - x\nnot ok 2 - y\n# why\n"}
        other = {"name": "p:integration / b", "result": "FAIL", "stdout": "1..1\nnot ok 1 - z\n"}
        passes = {**first, "result": "OK", "stdout": "1..2\nok 1 - x\nok 2 - y\n"}
        status, lines = self.again([first], [passes])
        self.assertEqual((status, lines[-1]), (0, "2 passed, 0 failed, 0 skipped"))
        self.assertIn("DISTURBED, and passed when run again alone: here: a: y", lines)
        self.assertIn("         | # why", lines)
        status, lines = self.again([first, other], [passes, other])
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed, 0 skipped"))
        self.assertIn("FAILED   here: b: z", lines)

    def test_what_passed_beside_a_case_that_ran_again_alone_still_counts(self):
        first = {"name": "p:integration / a", "result": "FAIL",
                 "stdout": "ok 1 - x\nnot ok 2 - y\nok 3 - z # SKIP kernel: no such\nok 4 - w\n1..4\n"}
        status, lines = self.again([first], [{**first, "result": "OK", "stdout": "ok 1 - y\n1..1\n"}])
        self.assertEqual((status, lines[-1]), (0, "3 passed, 0 failed, 1 skipped"))
        status, lines = self.again([first], [{**first, "stdout": "not ok 1 - y\n1..1\n"}])
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed, 1 skipped"))

    def test_cases_run_again_where_the_file_came_to_its_end(self):
        path = self.directory() / "testlog.json"

        def cases(stdout, result="FAIL"):
            path.write_text(json.dumps({"name": "p:integration / a", "result": result, "stdout": stdout}) + "\n")
            return self.run_command([sys.executable, SUMMARIZE, "--cases", path], expect=0).stdout.split()

        two = "ok 1 - A.test_x\nnot ok 2 - A.test_y\n# why\nnot ok 3 - B.test_z\n"
        self.assertEqual(cases(two + "1..3\n"), ["A.test_y", "B.test_z"])
        self.assertEqual(cases(two, "TIMEOUT"), [])
        self.assertEqual(cases(two + "not ok 4 - setUpClass (__main__.C)\n1..4\n"), [])
        self.assertEqual(cases("ok 1 - A.test_x\n1..1\n", "OK"), [])

    def test_only_few_suites_with_real_processes_have_a_second_run(self):
        path = self.directory() / "testlog.json"

        def worth(*names):
            tests = [{"name": "p:integration / good", "result": "OK"}, *({"name": n, "result": "FAIL"} for n in names)]
            path.write_text("".join(json.dumps(test) + "\n" for test in tests))
            return self.run_command([sys.executable, SUMMARIZE, "--again", path], expect=0).stdout.split()

        self.assertEqual(worth(), [])
        self.assertEqual(worth("p:integration+host / a", "p:integration / b"), ["a", "b"])
        self.assertEqual(worth("p:integration / a", "p:unit / u"), [])
        self.assertEqual(worth(*(f"p:integration / {c}" for c in "abcd")), [])

    def test_no_results_are_a_failure(self):
        self.assertEqual(self.summarize(expect=1)[-1], "0 passed, 1 failed, 0 skipped")
        done = self.run_command([sys.executable, SUMMARIZE, "here=/nonexistent"], expect=1)
        self.assertEqual(done.stdout.splitlines()[-1], "0 passed, 1 failed, 0 skipped")


tap.main()
