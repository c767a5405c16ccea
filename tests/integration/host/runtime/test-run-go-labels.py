#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goroutines with pprof labels under the daemon: each span, tenant and phase of a sample is that of the
goroutine at that time, by the log of tests/victims/go/VictimGoLabels.go; work with labels has them. This
machine's Go; test-long-run-go-labels.py takes more."""
import oracle

oracle.enter()

import collections
import re
import subprocess

import golang
import session
import tap

HZ = ("--frequency", "1999")
N = 1500
# Between pprof.Do() and the program's own look at the clock there is no work, but the scheduler may run.
LABELLED = 0.98
SLACK_NS = 20_000
# The process is known to have labels from its first linked sample on.
SETTLE_NS = 500_000_000
# A program in C that has Go in a library.
HOST = "extern void Serve(void); int main(void) { Serve(); return 0; }\n"
MAIN = re.compile(r"main\.(work|inner|spin)\b")


def spans(child):
    """{(span, goid): (trace, [(begin, end)])} of the victim's log."""
    told = {}
    for span, trace, goid, begin, end in re.findall(r"^region (\w+) (\S+) (\d+) (\d+) (\d+)$", child.out, re.M):
        told.setdefault((span, int(goid)), (trace, []))[1].append((int(begin), int(end)))
    return told


def hexadecimal(id_):
    return id_.hex() if isinstance(id_, bytes) else id_


class GoLabels(session.NamingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.go = golang.Go()

    def build(self, go, *options, c=False):
        other = tap.SOURCE_DIR / f"tests/victims/go/VictimGoSpin{'C' if c else ''}.go"
        return go.build(tap.SOURCE_DIR / "tests/victims/go/VictimGoLabels.go", self.directory() / "go-labels", *options,
                        more=[other])

    def start_victim(self, program, *arguments):
        child = self.spawn([program, *arguments], stdin=subprocess.PIPE)
        child.wait_for("ready")
        return child

    def tell(self, child):
        """Its log."""
        child.process.stdin.close()
        child.wait_for("done")
        return spans(child)

    def settled(self, samples):
        """Samples of work, since its labels are read."""
        first = min((s.time_ns for s in samples if s.span_id), default=None)
        return [] if first is None else [s for s in samples if s.time_ns > first + SETTLE_NS and
                                         any(MAIN.search(f.name or "") for f in s.frames)]

    def why_wrong(self, sample, at_ns, told, slack_ns):
        """None, or what the sample says that the victim did not do."""
        trace, span, a = hexadecimal(sample.trace_id), hexadecimal(sample.span_id), sample.attributes
        told_trace, times = told.get((span, a.get("go.goroutine.id")), (None, []))
        if not any(begin - slack_ns <= at_ns <= end + slack_ns for begin, end in times):
            return "span of another time or goroutine"
        if told_trace == "-":
            root = f"{int(span, 16) + 1000000:016x}"
            if trace != "0" * 16 + root or a.get("datadog.local_root_span_id") != root:
                return "local root"
        elif trace != told_trace or "datadog.local_root_span_id" in a:
            return "trace"
        tenant = f"t{int(span, 16) % 7}"
        if a.get("tenant", tenant) != tenant:
            return "tenant"
        if a.get("phase", "inner") != "inner" or {"span_id", "trace_id", "span id"} & a.keys():
            return "other labels"
        if any(a[key] != tenant for key in a if key.startswith("more")):
            return "more labels"
        return None

    def check_program(self, program, goroutines=6, labels=0, n=N, hz=HZ):
        child = self.start_victim(program, goroutines, labels)
        run = self.start("--pid", child.pid, *hz, "--coroutine-ids", "--symbols=local")
        self.wait_for(run, lambda samples: len(self.settled(samples)) >= n, f"{n} samples of work with labels")
        told = self.tell(child)
        result = run.stop()
        # samples have the time of day, which may have been set meanwhile
        slack_ns = SLACK_NS + abs(session.realtime_offset_ns() - result.offset_ns)
        samples, wrong = result.of(child.pid), collections.Counter()
        linked = [s for s in samples if s.span_id]
        for sample in linked:
            wrong[self.why_wrong(sample, result.monotonic_ns(sample), told, slack_ns)] += sample.value
        del wrong[None]
        busy = self.settled(samples)
        share = sum(bool(s.span_id) for s in busy) / len(busy)
        print(f"# {sum(wrong.values())} of {len(linked)} spans are wrong; {100 * share:.1f} % of {len(busy)} samples "
              f"of work have one", flush=True)
        self.assertEqual(wrong, {})
        self.assertGreaterEqual(share, LABELLED)
        self.assertGreater(len({s.span_id for s in linked}), 10)
        self.assertGreater(sum("datadog.local_root_span_id" in s.attributes for s in linked), 0)
        phases = [s for s in busy if any(f.name == "main.work.func1" for f in s.frames)]
        if labels < 80:
            self.assertTrue(all("tenant" in s.attributes for s in linked))
            self.assertTrue(any(s.attributes.get("phase") == "inner" for s in linked))
            inner = sum(s.attributes.get("phase") == "inner" for s in phases)
            self.assertGreaterEqual(inner, LABELLED * len(phases))
        return result, linked

    def test_labels_are_those_of_the_goroutine(self):
        result, _ = self.check_program(self.build(self.go, "-ldflags=-s -w"))
        self.assertGreater(result.counter("go_labels_total", "read"), N / 2)
        self.assertEqual(result.counter("go_labels_left_out_total"), 0)

    def test_with_c_and_its_variables_of_threads(self):
        tap.need_tool("gcc")
        self.check_program(self.build(self.go, "-buildmode=pie", "-ldflags=-s -w", c=True))

    def test_an_executable_without_a_dynamic_linker_that_may_lie_anywhere(self):
        tap.need_tool("gcc")
        self.check_program(self.build(self.go, "-buildmode=pie",
                                      "-ldflags=-s -w -linkmode=external -extldflags=-static-pie", c=True), n=N // 3)

    def check_library(self, go):
        victims, directory = tap.SOURCE_DIR / "tests/victims/go", self.directory()
        library = go.build(victims / "VictimGoLabels.go", directory / "liblabels.so", "-buildmode=c-shared",
                           "-ldflags=-s -w", more=[victims / "VictimGoSpinC.go", victims / "VictimGoLibrary.go"])
        (directory / "host.c").write_text(HOST)
        self.run_command(["gcc", "-o", directory / "host", directory / "host.c", library], expect=0)
        _, linked = self.check_program(directory / "host", n=N // 3)
        self.assertEqual({s.resource["process.executable.name"] for s in linked}, {"host"})

    def test_a_library_in_a_program_of_c(self):
        """Where its threads keep their goroutine is known to the dynamic linker alone."""
        tap.need_tool("gcc")
        self.check_library(self.go)

    def test_more_labels_than_are_read(self):
        result, linked = self.check_program(self.build(self.go), labels=80)
        self.assertGreater(result.counter("go_labels_left_out_total"), 0)
        self.assertTrue(any("more0" in s.attributes for s in linked))

    def test_off_is_off_and_denied_is_denied(self):
        child = self.start_victim(self.build(self.go))
        off = self.start("--pid", child.pid, *HZ, "--runtimes=off")
        control = self.directory() / "control"
        denied = self.start("--pid", child.pid, *HZ, "--attributes-deny=ten*", "--control", control)
        for run in (off, denied):
            run.wait_events(200, child.pid)
        self.assertRegex(self.spanprof("status", "--control", control).stdout,
                         r"\n +go1\.\d+\S*: labels of goroutines: 1 process\n")
        off, denied = off.stop(), denied.stop()
        self.assertFalse([s for s in off.of(child.pid) if s.span_id or "tenant" in s.attributes])
        self.assertFalse([s for s in denied.of(child.pid) if {"tenant", "go.goroutine.id"} & s.attributes.keys()])
        self.assertTrue([s for s in denied.of(child.pid) if s.span_id])

    def test_a_version_that_is_not_known_is_said(self):
        program = self.build(self.go)
        data = program.read_bytes()
        version = re.search(rb"\xff Go buildinf:\x08.{17}.(go1\.\d+)", data, re.S)[1]
        program.write_bytes(data.replace(b"\xff Go buildinf:", b"\xff Go buildinf:", 1).replace(
            version, b"go1.97"[:len(version)].ljust(len(version), b"7")))
        child = self.start_victim(program)
        listed = self.run_command([tap.SPANPROF, "targets", "--verbose", "--pid", child.pid], expect=0)
        self.assertIn("go1.97", listed.stdout)
        self.assertIn("labels are not read: layout of goroutines unknown", listed.stdout)
        shown = self.run_command([tap.SPANPROF, "contexts", child.pid], expect=0)
        self.assertIn("labels are not read: layout of goroutines unknown", shown.stdout)
        control = self.directory() / "control"
        run = self.start("--pid", child.pid, *HZ, "--control", control)
        run.wait_events(200, child.pid)
        self.assertIn(f"{child.pid}: go1.97", self.spanprof("status", "--control", control).stdout)
        self.assertFalse([s for s in run.stop().of(child.pid) if s.span_id])


if __name__ == "__main__":
    tap.main()
