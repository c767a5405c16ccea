#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`contexts --check` on programs that are right in everything but one planted fault
(tests/victims/spans/victim-wrong.c): it names the rule that the fault breaks, and no other; and on right
ones, in each way to reach a thread's variable."""
import concurrent.futures
import os
import re
import signal
import subprocess

import tap

# fault of the victim → rules that it breaks
FAULTS = {
    "process-version": {"process-version"},
    "empty-payload": {"process-size"},
    "realtime": {"process-clock"},
    "never-finished": {"process-finished"},
    "same-time": {"process-update"},
    "time-back": {"process-update"},
    "payload-nowhere": {"process-payload"},
    "cut-message": {"process-message"},
    "attribute-twice": {"process-attributes"},
    "unnamed-process": {"process-mapping"},
    "two-processes": {"process-single"},
    # what keeps a child from the header is what the fault leaves out
    "forked": {"process-fork", "process-dontfork"},
    "inherited": {"process-dontfork"},
    "keys-reordered": {"process-keys-grow"},
    "keys-removed": {"process-keys-grow"},
    "keys-twice": {"process-keys"},
    "no-schema": {"process-schema"},
    "no-signature": {"process-signature"},
    "no-variable": {"thread-symbol"},
    "another-library": {"thread-single"},
    "record-nowhere": {"thread-record"},
    "odd-record": {"thread-record"},
    "valid-7": {"thread-valid"},
    "no-span-id": {"thread-ids"},
    "flags-alone": {"thread-ids"},
    "cut-entry": {"thread-attributes"},
    "unknown-key": {"thread-keys"},
    "no-utf8": {"thread-text"},
    "long-record": {"thread-size"},
    "torn-record": {"thread-whole"},
    "foreign-writer": {"thread-alone"},
    "ring-magic": {"ring-magic"},
    "ring-version": {"ring-version"},
    "ring-capacity": {"ring-capacity"},
    "ring-slot-size": {"ring-slot-size"},
    "ring-reserved": {"ring-reserved"},
    "ring-room": {"ring-room"},
    "in-use-2": {"ring-in-use"},
    "in-use-stays": {"ring-released"},
    "torn-slot": {"ring-whole"},
    "wrong-slot": {"ring-slot"},
    "unnamed-ring": {"ring-mapping"},
    "few-slots": {"ring-apart"},
    "station-version": {"station-header"},
    "station-room": {"station-header"},
    "station-count": {"station-count"},
    "station-tid": {"station-events"},
    "station-clock": {"station-events"},
    "station-state": {"station-events"},
    "station-back": {"station-numbers"},
    "station-torn": {"station-finished"},
}
NEED_NAMES = {"ring-magic", "unnamed-ring"}     # where memory has no names, nothing leads to these
# consequences that are met or not: threads mix their spans in a slot that they share, and in one record
ALSO = {"few-slots": {"ring-whole"}, "foreign-writer": {"thread-whole"}}
SIDE_BY_SIDE = 3
SECONDS = 3


def rules(text):
    """{rule: state}: `ok`, `not seen`, `violated`."""
    return dict(re.findall(r"^([a-z]+-[a-z0-9-]+) +(ok|not seen|violated)", text, re.M))


def violated(text):
    return {rule for rule, state in rules(text).items() if state == "violated"}


class Check(tap.TestCase):
    def setUp(self):
        tap.need_root()

    def check(self, pid, seconds=SECONDS, expect=None):
        return self.run_command([tap.SPANPROF, "contexts", "--check", "--duration", f"{seconds}s", pid], expect=expect)

    def start_wrong(self, fault):
        program = "victim-wrong-hidden" if fault == "no-variable" else "victim-wrong"
        child = self.spawn([tap.VICTIMS / program, fault],
                           env={**os.environ, "LIBRARY": str(tap.VICTIMS / "libcontext-general.so")})
        return child, int(child.wait_for(r"^pid (\d+)")[1])

    def look_at(self, fault):
        child, pid = self.start_wrong(fault)
        result = self.check(pid)
        os.kill(pid, signal.SIGTERM)
        child.stop()
        return result, "names are off" in child.out

    def test_each_planted_fault_is_named_by_its_rule_and_no_other_is(self):
        with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            results = dict(zip(FAULTS, pool.map(self.look_at, FAULTS)))
        n = 0
        for fault, (result, has_no_names) in results.items():
            if has_no_names and fault in NEED_NAMES:
                continue
            with self.subTest(fault=fault):
                found = violated(result.stdout)
                self.assertEqual(found - ALSO.get(fault, set()), FAULTS[fault], result.stdout)
                self.assertEqual(result.returncode, 1)
                n += 1
        self.assertGreaterEqual(n, 20)

    def test_a_right_writer_of_all_forms_violates_nothing(self):
        child, pid = self.start_wrong("right")
        found = rules(self.check(pid, expect=0).stdout)
        child.stop()
        self.assertEqual({rule for rule, state in found.items() if state != "ok"}, {"go-labels"})
        self.assertEqual({rule for each in FAULTS.values() for rule in each} - set(found), set())

    def test_each_access_model_leads_to_the_variable(self):
        dynamic = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=0"}
        for library, environment in (("general", {}), ("descriptor", {}), ("descriptor", dynamic), ("initial", {})):
            with self.subTest(library=library, environment=environment):
                child = self.spawn([tap.VICTIMS / "victim-context", tap.VICTIMS / f"libcontext-{library}.so", 1, 2],
                                   stdin=subprocess.PIPE, env={**os.environ, **environment})
                child.wait_for(r"^pid \d+")
                before = rules(self.check(child.pid, 1, expect=2).stdout)
                child.process.stdin.write(b"load\n")
                child.process.stdin.flush()
                child.wait_for("^ok$")
                result = self.check(child.pid, 1, expect=1)
                after = rules(result.stdout)
                child.kill()
                self.assertEqual(before["thread-symbol"], "not seen")
                for rule in ("thread-symbol", "thread-single", "thread-access", "thread-record", "thread-ids"):
                    self.assertEqual(after[rule], "ok", rule)
                # it publishes no process context, which would name the schema and the keys
                self.assertEqual(violated(result.stdout), {"process-schema", "thread-keys"})

    def test_a_form_that_is_not_read_is_said(self):
        child = self.spawn([tap.VICTIMS / "victim-context", tap.VICTIMS / "libcontext-older.so", 1, 1],
                           stdin=subprocess.PIPE)
        child.process.stdin.write(b"load\n")
        child.process.stdin.flush()
        child.wait_for("^ok$")
        result = self.check(child.pid, 1, expect=1)
        child.kill()
        self.assertIn("violated: context_tls_v1 is an older form, without a trace id", result.stdout)

    def test_what_cannot_be_checked_is_no_success(self):
        child = self.spawn(["sleep", "60"])
        result = self.check(child.pid, 1, expect=2)
        self.assertIn("publishes nothing that could be checked", result.stderr)
        self.assertEqual(set(rules(result.stdout).values()), {"not seen"})
        child.kill()
        result = self.run_command([tap.SPANPROF, "contexts", "--check", 4000000], expect=2)
        self.assertIn("there is none", result.stderr)


if __name__ == "__main__":
    tap.main()
