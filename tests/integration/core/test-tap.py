#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runner under the other tests: a test framework that swallows a failure would make all of them worthless."""
import collections
import os
import re
import sys
import textwrap

import tap

LIB = os.path.dirname(os.path.abspath(tap.__file__))


class Runner(tap.TestCase):
    def script(self, body, *args, cases="", **options):
        path = self.directory() / "script.py"
        path.write_text("import os, tap, time, unittest\n" + textwrap.dedent(body) + "\ntap.main()\n")
        return self.run_command([sys.executable, path, *args],
                                env={**os.environ, "PYTHONPATH": LIB, "TEST_CASES": cases}, **options)

    def test_prints_each_outcome(self):
        done = self.script("""
            class A(tap.TestCase):
                def test_a_good(self): print("noise")
                def test_b_wrong(self): self.assertEqual(1, 2, "a\\nb")
                def test_c_error(self): raise KeyError("k")
                def test_d_skip(self): tap.skip("machine: no such thing")
                def test_e_sub(self):
                    for i in range(3):
                        with self.subTest(i=i): self.assertNotEqual(i, 1)
        """, expect=1)
        lines = [x for x in done.stdout.splitlines() if not x.startswith("# ")]
        self.assertEqual(lines, ["TAP version 13", "ok 1 - A.test_a_good", "not ok 2 - A.test_b_wrong",
                                 "not ok 3 - A.test_c_error",
                                 "ok 4 - A.test_d_skip # SKIP machine: no such thing",
                                 "not ok 5 - A.test_e_sub", "1..5"])
        self.assertIn("KeyError: 'k'", done.stdout)
        self.assertIn("noise", done.stderr)

    def test_passes_when_all_pass(self):
        done = self.script("class A(tap.TestCase):\n    def test_x(self): pass", expect=0)
        self.assertTrue(done.stdout.endswith("ok 1 - A.test_x\n1..1\n"), done.stdout)

    def test_what_is_chosen_and_all_but_it_are_the_whole(self):
        body = """
            class A(tap.TestCase):
                def test_first(self): pass
                def test_second(self): pass
            class B(tap.TestCase):
                def test_third(self): pass
        """
        chosen, others = (self.script(body, *arguments, expect=0).stdout
                          for arguments in (("first", "B"), ("--but", "first", "B")))
        self.assertEqual(re.findall(r"(?m)^ok \d - (\S+)$", chosen), ["A.test_first", "B.test_third"])
        self.assertEqual(re.findall(r"(?m)^ok \d - (\S+)$", others), ["A.test_second"])
        done = self.script(body, "--but", "first", "fourth", expect=1)
        self.assertIn("no test has a name with fourth in it", done.stderr)
        self.script(body, "--but", "A", "B", expect=1)          # nothing is left

    def test_cases_that_the_environment_names_run_alone(self):
        body = """
            class A(tap.TestCase):
                def test_x(self): pass
                def test_xy(self): pass
            """
        for cases, ran in (("A.test_x", ["A.test_x"]), ("B.test_z\nA.test_xy", ["A.test_xy"]),
                           ("B.test_z", ["A.test_x", "A.test_xy"])):
            done = self.script(body, cases=cases, expect=0)
            self.assertEqual(re.findall(r"^ok \d+ - (\S+)", done.stdout, re.M), ran)

    def test_says_how_long_each_took(self):
        done = self.script("""
            class A(tap.TestCase):
                def test_waits(self): time.sleep(0.6)
        """, expect=0)
        seconds, cpu = re.search(r"(?m)^# (\d+\.\d) s, (\d+\.\d) s of CPU: A\.test_waits\nok 1", done.stdout).groups()
        self.assertGreaterEqual(float(seconds), 0.6)
        self.assertLess(float(cpu), float(seconds))

    def test_a_signal_ends_the_test_and_those_behind_it(self):
        done = self.script("""
            import signal
            class A(tap.TestCase):
                def test_a_killed(self):
                    self.addCleanup(print, "cleaned up")
                    os.kill(os.getpid(), signal.SIGTERM)
                def test_b_after(self): print("went on")
        """, expect=1)
        self.assertIn("not ok 1 - A.test_a_killed", done.stdout)
        self.assertIn("cleaned up", done.stderr)
        self.assertNotIn("went on", done.stderr)

    def test_a_signal_lets_a_bench_set_back_what_it_has_set(self):
        tap.need_root()
        path = self.directory() / "script.py"
        path.write_text(textwrap.dedent("""
            import bench
            import os, signal
            def part(options):
                try:
                    os.kill(os.getpid(), signal.SIGTERM)
                    print("went on")
                finally:
                    print("set back")
            bench.main("", {"part": part}, lambda parser: None)
        """))
        libraries = os.pathsep.join((str(tap.SOURCE_DIR / "tests/bench"), LIB))
        done = self.run_command([sys.executable, path], env={**os.environ, "PYTHONPATH": libraries}, expect=143)
        self.assertEqual(done.stdout, "set back\n")

    def test_no_test_is_a_failure(self):
        self.script("", expect=1)
        self.script("class A(tap.TestCase):\n    def test_x(self): pass", "no-such-name", expect=1)

    def test_a_failing_class_setup_is_a_failure(self):
        done = self.script("""
            class A(tap.TestCase):
                @classmethod
                def setUpClass(cls): raise OSError("no")
                def test_x(self): pass
        """, expect=1)
        self.assertIn("not ok 1 - ", done.stdout)

    def test_a_skip_in_class_setup_is_a_skip(self):
        done = self.script("""
            class A(tap.TestCase):
                @classmethod
                def setUpClass(cls): tap.skip("tool: none")
                def test_x(self): pass
        """, expect=0)
        self.assertIn("# SKIP tool: none", done.stdout)

    def test_a_cleanup_that_fails_is_a_failure(self):
        self.script("""
            class A(tap.TestCase):
                def test_x(self): self.addCleanup(lambda: 1 / 0)
        """, expect=1)

    def test_children_end_with_the_test(self):
        done = self.script("""
            class A(tap.TestCase):
                def test_a(self):
                    A.child = self.spawn(["sleep", "1000"])
                    raise SystemError
                def test_b(self):
                    self.assertFalse(os.path.exists(f"/proc/{A.child.pid}"))
        """, expect=1)
        self.assertIn("ok 2 - A.test_b", done.stdout.splitlines())

    def test_children_end_with_the_runner(self):
        path = self.directory() / "pid"
        self.script(f"""
            class A(tap.TestCase):
                def test_a(self):
                    child = self.spawn(["sleep", "1000"])
                    open({str(path)!r}, "w").write(str(child.pid))
                    os._exit(9)
        """, expect=9)
        pid = int(path.read_text())

        def gone():
            try:
                with open(f"/proc/{pid}/stat") as file:
                    return file.read().rsplit(")", 1)[1].split()[0] == "Z"
            except FileNotFoundError:
                return True

        tap.wait_until(gone, f"end of {pid}")

    def test_waiting_for_output_sees_both_streams_and_an_early_end(self):
        child = self.spawn(["sh", "-c", "echo to out 7; echo to err 8 >&2; sleep 1000"])
        self.assertEqual(child.wait_for(r"to out (\d)").group(1), "7")
        self.assertEqual(child.wait_for(r"to err (\d)").group(1), "8")
        self.assertEqual(child.stop(), -15)
        with self.assertRaisesRegex(AssertionError, "ended"):
            self.spawn(["true"]).wait_for("never")


class Plain(tap.TestCase):
    """The runner of unit tests where criterion's does not start (plain-runner.c), beside criterion's."""

    def outcomes(self, runner):
        """test → the outcomes of its runs, in order; the exit status."""
        done = self.run_command([tap.HARNESS / f"runner-cases-{runner}", "--tap=/dev/stdout"])
        found = collections.defaultdict(list)
        for outcome, suite, name, rest in re.findall(r"(?m)^(ok|not ok) +(?:\d+ )?- +(\w+)(?:::|/)(\w+)(.*)$", done.stdout):
            found[suite, name].append("skip" if "SKIP" in rest else outcome)
        return found, done

    def test_says_what_criterion_says(self):
        plain, done = self.outcomes("plain")
        theirs, _ = self.outcomes("criterion")
        theirs.pop(("right", "is_off"))         # it is left out here
        theirs["wrong", "has_a_fini_that_fails"] = ["not ok"]       # criterion prints it, and then passes the test
        self.assertEqual({test: sorted(runs) for test, runs in plain.items()},
                         {test: sorted(runs) for test, runs in theirs.items()})
        self.assertEqual(done.returncode, 1)
        self.assertEqual({suite for suite, _ in plain}, {"right", "wrong"})
        for (suite, name), outcomes in plain.items():
            self.assertEqual("not ok" in outcomes, suite == "wrong", name)
        self.assertEqual(plain["wrong", "has_one_bad_parameter"], ["ok", "not ok"])
        self.assertIn("they differ", done.stdout)
        self.assertIn("# SKIP machine: lacks 7", done.stdout)

    def test_runs_what_is_chosen(self):
        done = self.run_command([tap.HARNESS / "runner-cases-plain", "--filter", "right/gets*"], expect=0)
        self.assertEqual(len(re.findall(r"(?m)^ok", done.stdout)), 2)
        self.assertIn("1..2", done.stdout)


tap.main()
