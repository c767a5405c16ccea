#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/run: finds one test by its name, and gives its status. The build is made by hand here: what ninja
and meson would say of three tests, which note how they were called."""
import json
import os
import pathlib
import sys

import tap

RUN = tap.SOURCE_DIR / "tests/run"
NINJA = "build build.ninja: phony\nbuild made: phony\n"

SCRIPT = """import sys
cases = ["One.test_first", "One.test_second"]
if sys.argv[1:] == ["--list"]:
    print("\\n".join(cases))
    sys.exit(0)
print("ran", *(sys.argv[1:] or cases))
sys.exit({status})
"""


class RunOne(tap.TestCase):
    def build(self, **statuses):
        """A build directory with a script, a unit test `plain` without cases, and a corpus."""
        build = pathlib.Path(self.directory())
        (build / "build.ninja").write_text(NINJA)
        (build / "meson-info").mkdir()
        tests = [self.script(build, name, status) for name, status in statuses.items()]
        corpus = build / "corpus"
        corpus.mkdir()
        for name in ("cut", "deep"):
            (corpus / name).write_text(name)
        tests.append(self.entry("fuzz-thing", "fuzz", ["ls", str(corpus)], "exitcode"))
        tests.append(self.entry("plain", "unit", ["true"], "exitcode"))
        (build / "meson-info/intro-tests.json").write_text(json.dumps(tests))
        (build / "meson-info/intro-targets.json").write_text(
            json.dumps([{"id": "made@cus", "filename": [str(build / "made")]}]))
        return build

    @staticmethod
    def entry(name, suite, command, protocol):
        return {"name": name, "suite": [f"spanprof:{suite}"], "cmd": command, "protocol": protocol,
                "env": {}, "workdir": None, "depends": ["made@cus"]}

    def script(self, build, name, status):
        path = build / f"test-{name}.py"
        path.write_text(SCRIPT.format(status=status))
        return self.entry(name, "integration", [sys.executable, str(path)], "tap")

    def run_one(self, build, *words, expect):
        return self.run_command([RUN, "-C", build, *words], expect=expect)

    def test_the_status_is_that_of_the_test(self):
        build = self.build(good=0, bad=3)
        self.assertEqual(self.run_one(build, "good", expect=0).stdout, "ran One.test_first One.test_second\n")
        self.run_one(build, "bad", expect=3)
        self.run_one(build, "plain", expect=0)

    def test_a_path_is_a_name_too(self):
        build = self.build(good=0)
        for name in ("tests/integration/test-good.py", "integration/good", "test-good"):
            self.assertIn("ran", self.run_one(build, name, expect=0).stdout)

    def test_an_unknown_name_gets_near_ones_and_runs_nothing(self):
        done = self.run_one(self.build(good=0, goodbye=0), "goood", expect=2)
        self.assertEqual(done.stdout, "")
        self.assertIn("no test has the name goood; near it:\n    good\n", done.stderr)

    def test_cases_are_chosen_by_part_of_their_names(self):
        build = self.build(good=0)
        self.assertEqual(self.run_one(build, "good", "sec", expect=0).stdout, "ran One.test_second\n")
        done = self.run_one(build, "good", "third", expect=2)
        self.assertEqual((done.stdout, "no case third" in done.stderr), ("", True))
        self.assertIn("no cases to choose from", self.run_one(build, "plain", "third", expect=2).stderr)

    def test_files_of_a_corpus_are_its_cases(self):
        build = self.build()
        self.assertEqual(self.run_one(build, "thing", expect=0).stdout, "cut\ndeep\n")
        self.assertEqual(self.run_one(build, "fuzz-thing", "ee", expect=0).stdout, "deep\n")

    def test_lists_names_and_cases(self):
        build = self.build(good=0)
        self.assertEqual(self.run_one(build, "--list", expect=0).stdout.split(),
                         ["fuzz/fuzz-thing", "integration/good", "unit/plain"])
        self.assertEqual(self.run_one(build, "--list", "good", expect=0).stdout.split(),
                         ["One.test_first", "One.test_second"])

    def test_says_how_to_make_a_build(self):
        self.assertIn("meson setup", self.run_one(self.directory(), "good", expect=2).stderr)

    def test_a_real_unit_test_runs_one_case(self):
        if "EMULATED_ROOT" in os.environ:
            tap.skip("machine: criterion does not start under qemu-user")
        done = self.run_command([RUN, "-C", tap.BUILD_DIR, "unit/ini", "names_the_line"], expect=0)
        self.assertIn("Tested: 1 | Passing: 1", done.stdout + done.stderr)


tap.main()
