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

import golang
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
# Where memory has no names, nothing leads to these: a search takes no memory with such slots for a ring.
NEED_NAMES = {"ring-magic", "unnamed-ring", "in-use-2"}
# consequences that are met or not: threads mix their spans in a slot that they share, and in one record
ALSO = {"few-slots": {"ring-whole"}, "foreign-writer": {"thread-whole"}}
SIDE_BY_SIDE = 8        # both sides of each wait nearly all of their time
SECONDS = (1, 3, 15)    # on a busy machine few looks are made in the first
GO = """package main

import (
    "context"
    "fmt"
    "os"
    "runtime/pprof"
    "time"
)

func main() {
    go pprof.Do(context.Background(), pprof.Labels(os.Args[1], os.Args[2], os.Args[3], os.Args[4]), func(context.Context) {
        time.Sleep(time.Hour)
    })
    time.Sleep(100 * time.Millisecond)
    fmt.Println("ready")
    time.Sleep(time.Hour)
}
"""


def rules(text):
    """{rule: state}: `ok`, `not seen`, `violated`."""
    return dict(re.findall(r"^([a-z]+-[a-z0-9-]+) +(ok|not seen|violated)", text, re.M))


def violated(text):
    return {rule for rule, state in rules(text).items() if state == "violated"}


class Check(tap.TestCase):
    def setUp(self):
        tap.need_root()

    def check(self, pid, seconds, expect=None):
        return self.run_command([tap.SPANPROF, "contexts", "--check", "--duration", f"{seconds}s", pid], expect=expect)

    def start_wrong(self, fault):
        program = "victim-wrong-hidden" if fault == "no-variable" else "victim-wrong"
        child = self.spawn([tap.VICTIMS / program, fault],
                           env={**os.environ, "LIBRARY": str(tap.VICTIMS / "libcontext-general.so")})
        return child, int(child.wait_for(r"^pid (\d+)")[1])

    def look_at(self, fault):
        child, pid = self.start_wrong(fault)
        for seconds in SECONDS:
            result = self.check(pid, seconds)
            if FAULTS[fault] <= violated(result.stdout) or "names are off" in child.out and fault in NEED_NAMES:
                break
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
        for seconds in SECONDS:
            found = rules(self.check(pid, seconds, expect=0).stdout)
            if "not seen" not in {state for rule, state in found.items() if rule != "go-labels"}:
                break
        child.stop()
        self.assertEqual({rule for rule, state in found.items() if state != "ok"}, {"go-labels"})
        self.assertEqual({rule for each in FAULTS.values() for rule in each} - set(found), set())

    def look_at_family(self, program, expected):
        """The rules that our library's writer is seen to hold to, and those of a child that it forks. No rule is violated."""
        parent = self.spawn([tap.VICTIMS / program, "fork"])
        found = []
        for pid in tap.wait_until(lambda: (lambda x: x if len(x) == 2 else None)(
                re.findall(r"^pid (\d+)", parent.out, re.M)), "both processes"):
            for seconds in SECONDS:
                looked = rules(self.check(pid, seconds, expect=0).stdout)
                held = {rule for rule, state in looked.items() if state == "ok"}
                if expected <= held:
                    break
            found.append(held)
        parent.stop()
        return found

    def test_our_own_library_violates_nothing_nor_does_a_child_that_it_forks(self):
        expected = {"process-mapping", "process-single", "process-clock", "process-fork", "process-dontfork",
                    "process-schema", "process-keys", "thread-symbol", "thread-keys"}
        for held in self.look_at_family("victim-otel", expected):
            self.assertEqual(expected - held, set())

    def test_our_own_library_names_no_schema_of_threads_where_readers_find_no_variable(self):
        expected = {"process-single", "process-fork", "process-dontfork", "process-attributes"}
        for held in self.look_at_family("victim-otel-hidden", expected):
            self.assertEqual(expected - held, set())
            self.assertFalse({"process-keys", "thread-symbol"} & held)

    def test_a_key_that_is_named_after_its_first_use_violates_nothing(self):
        child, pid = self.start_wrong("late-key")
        found = rules(self.check(pid, SECONDS[1], expect=0).stdout)
        child.stop()
        self.assertEqual(found["thread-keys"], "ok")

    def look_before_and_after(self, library, **environment):
        """The rules before victim-context has loaded the library with the variable, and the output after it."""
        child = self.spawn([tap.VICTIMS / "victim-context", tap.VICTIMS / f"libcontext-{library}.so", 1, 3],
                           stdin=subprocess.PIPE, env={**os.environ, **environment})
        child.wait_for(r"^pid \d+")
        before = rules(self.check(child.pid, 1, expect=2).stdout)
        child.process.stdin.write(b"load\n")
        child.process.stdin.flush()
        child.wait_for("^ok$")
        result = self.check(child.pid, 2)
        child.kill()
        return before, result

    def test_each_access_model_and_each_form_leads_to_the_record(self):
        # no process context names the schema and the keys
        plain = {"process-schema", "thread-keys"}
        for library, broken, environment in (
            ("general", plain, {}), ("descriptor", plain, {}), ("initial", plain, {}),
            ("descriptor", plain, {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=0"}),
            ("node", {"thread-keys"}, {}), ("elastic", set(), {"ELASTIC": "1"})):
            with self.subTest(library=library, environment=environment):
                before, result = self.look_before_and_after(library, **environment)
                after = rules(result.stdout)
                self.assertEqual(set(before.values()), {"not seen"})
                for rule in ("thread-symbol", "thread-access", "thread-record", "thread-whole"):
                    self.assertEqual(after[rule], "ok", rule)
                self.assertEqual(violated(result.stdout), broken)
                self.assertEqual(result.returncode, 1 if broken else 0)

    def test_what_is_not_read_says_why(self):
        for library, rule, says, environment in (
            ("older", "thread-symbol", "context_tls_v1 is an older form, without a trace id", {}),
            ("node", "thread-access", "V8's current frame leads to no record: another layout than is known",
             {"RECORD_AT": "0"})):
            with self.subTest(library=library):
                _, result = self.look_before_and_after(library, **environment)
                self.assertEqual(violated(result.stdout), {rule}, result.stdout)
                self.assertIn(f"violated: {says}", result.stdout)
                self.assertEqual(result.returncode, 1)

    def test_labels_of_goroutines(self):
        go, folder = golang.Go(), self.directory()
        (folder / "labels.go").write_text(GO)
        program = go.build(folder / "labels.go", folder / "labels")
        trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
        for labels, state in ((("trace_id", trace, "span_id", span), "ok"),
                              (("local root span id", "77", "span id", "78"), "ok"),
                              (("trace_id", trace, "tenant", "blue"), "violated"),
                              (("trace_id", trace, "span_id", str(int(span, 16))), "violated")):
            with self.subTest(labels=labels):
                child = self.spawn([program, *labels])
                child.wait_for("^ready")
                result = self.check(child.pid, 1, expect=0 if state == "ok" else 1)
                child.kill()
                self.assertEqual({rule: x for rule, x in rules(result.stdout).items() if x != "not seen"},
                                 {"go-labels": state})

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
