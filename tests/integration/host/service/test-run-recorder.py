#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The flight recorder (run --recorder, `spanprof keep`), against programs that know what they did
(tests/victims/spans/victim-traces.c, native/victim-shares.c)."""
import oracle

oracle.enter()

import bisect
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess

import otlp_read
import session
import tap

FREQUENCY, TICKS = 99, 10       # of 990 Hz
N_TRACES, BURN_MS = 5, 200
LEAST = 180                     # own samples of a request that burned BURN_MS
CLOSE = 10      # pairs of samples that are next to each other
EXPORTED = 150                  # samples of the export to wait for
CROWD = 3000                    # ticks for the recorder alone
CAP = 64 << 20

Part = collections.namedtuple("Part", "pid trace span cpu_ns begin_ns end_ns")


def trace_id(n):
    return f"{9:016x}{n:016x}"


class Recorder(session.NamingCase):
    def record(self, *options):
        self.socket = self.directory() / "control.sock"
        return self.start("--recorder", "60s", "--control", self.socket, "--frequency", FREQUENCY, *options)

    def status(self):
        return json.loads(self.spanprof("status", "--json", "--control", self.socket).stdout)

    def keep(self, *options, name="kept.otlp", **more):
        path = self.directory() / name
        done = self.spanprof("keep", "--control", self.socket, "-o", path, *options, **more)
        return (path, list(otlp_read.samples(path))) if not more and name.endswith(".otlp") else (path, done)

    def check_books(self, result):
        """Each tick that was the recorder's alone is in one of its windows, or counted."""
        ticks, windows = result.counter("recorder_ticks_total"), result.counter("recorder_windows_total")
        self.assertEqual(ticks["taken"], sum(n for event, n in ticks.items() if event != "taken"), ticks)
        self.assertEqual(windows["kept"], windows["aged"] + windows["over_cap"] + windows["dropped"], windows)
        self.assertEqual(windows["cut"], 0)

    def close_pairs(self, samples):
        """Times of two samples with no room for a third one between them."""
        times = sorted(s.time_ns for s in samples if s.type == "samples")
        return [(a, b) for a, b in zip(times, times[1:]) if b - a < 1.5e9 / FREQUENCY]

    def test_the_export_is_every_tenth_tick(self):
        victim = self.victim("shares")
        run = self.record("--pid", victim.pid)
        os.sched_setaffinity(victim.pid, {min(os.sched_getaffinity(0))})        # ticks of one CPU
        # on a busy machine a third one is often another program's
        self.wait_for(run, lambda all: len(all) >= EXPORTED and len(self.close_pairs(all)) > CLOSE,
                      "samples that are one tick of the export apart")
        _, kept = self.keep()
        result = run.stop()
        victim.stop()
        self.check_books(result)
        times = sorted(s.time_ns for s in kept)
        exported = sorted(s.time_ns for s in result.of(victim.pid) if s.time_ns <= times[-1])
        self.assertGreaterEqual(len(exported), EXPORTED)
        self.assertEqual(set(exported) - set(times), set())
        # at most nine are between two that are exported, where no third one can be
        period = statistics.mean(s.period for s in result.of(victim.pid))
        self.assertAlmostEqual(period * FREQUENCY / 1e9, 1, delta=0.1)
        self.assertAlmostEqual(kept[0].period * TICKS / period, 1, delta=0.1)
        between = [bisect.bisect_left(times, b) - bisect.bisect_right(times, a)
                   for a, b in self.close_pairs(result.of(victim.pid)) if b <= times[-1]]
        self.assertGreaterEqual(len(between), CLOSE)
        self.assertLessEqual(max(between), TICKS - 1)
        ticks = result.counter("recorder_ticks_total", "taken") / result.counter("ticks_total")
        # others share its CPU: whether it runs at a tick is chance
        chance = 5 / len(exported) ** 0.5
        self.assertAlmostEqual(ticks / (TICKS - 1), 1, delta=chance)
        # both say how much CPU the victim had
        sent = [s for s in result.of(victim.pid) if s.time_ns <= times[-1]]
        cpu = [sum(s.value * s.period for s in samples) for samples in (kept, sent)]
        self.assertAlmostEqual(cpu[0] / cpu[1], 1, delta=chance)

    def requests(self):
        """(run, the parts that the victim tells)"""
        log = self.directory() / "log"
        log.touch()
        victim = self.victim("traces", log, str(N_TRACES), str(BURN_MS), stdin=subprocess.PIPE)
        self.victim_back = int(victim.wait_for(r"back (\d+)")[1])
        run = self.record("--pid", f"{victim.pid},{self.victim_back}", "--off-cpu")
        victim.process.stdin.write(b"go\n")
        victim.process.stdin.flush()
        victim.wait_for("^done")
        lines = [line.split() for line in log.read_text().splitlines()]
        parts = [Part(*map(int, words[1:])) for words in lines if words[0] == "part"]
        self.assertEqual(len(parts), 2 * N_TRACES)
        return run, victim, parts

    def check_part(self, run, samples, part, name, symbols):
        own = [s for s in samples if s.span_id == f"{part.span:016x}" and s.type == "samples"]
        for sample in own:
            self.assertEqual(sample.resource["process.pid"], part.pid)
            self.assertTrue(part.begin_ns <= sample.time_ns - run.offset_ns <= part.end_ns, (sample, part))
        self.assertIn(name, {symbols.name(frame) for sample in own for frame in sample.frames})
        return sum(s.value for s in own)

    def test_a_request_is_kept_with_its_own_samples_of_both_processes(self):
        run, victim, parts = self.requests()
        symbols, counts = otlp_read.Symbols(), []
        for n in range(1, N_TRACES + 1):
            _, samples = self.keep("--trace", trace_id(n), name=f"{n}.otlp")
            self.assertEqual({s.trace_id for s in samples}, {trace_id(n)})
            front, back = [p for p in parts if p.trace == n]
            counts += [self.check_part(run, samples, front, "traces_front", symbols),
                       self.check_part(run, samples, back, "traces_back", symbols)]
            ticks = sorted((s.time_ns, s.span_id) for s in samples if s.type == "samples")
            self.assertEqual([span for _, span in ticks], sorted(span for _, span in ticks))
        self.assertGreaterEqual(statistics.median(counts), LEAST, counts)
        self.check_selections(parts, counts)
        self.check_forms(counts)
        path, done = self.keep("--trace", trace_id(N_TRACES + 1), expect=1)
        self.assertRegex(done.stderr, "has nothing of it")
        self.assertFalse(path.exists())
        self.check_books(run.stop())

    def check_selections(self, parts, counts):
        _, samples = self.keep("--span", f"{parts[0].span:016x}", name="span.otlp")
        self.assertEqual(sum(s.value for s in samples if s.type == "samples"), counts[0])
        _, samples = self.keep("--process", self.victim_back, name="process.otlp")
        self.assertEqual({s.resource["process.pid"] for s in samples}, {self.victim_back})
        _, samples = self.keep("--start", "-3600s", name="start.otlp")
        self.assertLessEqual({trace_id(n) for n in range(1, N_TRACES + 1)}, {s.trace_id for s in samples})
        _, done = self.keep("--start", "2000-01-01T00:00:00Z", "--end", "2000-01-02T00:00:00Z", expect=1)
        self.assertRegex(done.stderr, "has nothing of it")

    def check_forms(self, counts):
        """A page and a pprof have the same samples."""
        for name in "page.html", "page.pb.gz":
            path, _ = self.keep("--trace", trace_id(1), "--type", "samples", name=name)
            out = self.spanprof("report", path).stdout
            self.assertRegex(out, rf"(?m)^  value +{counts[0] + counts[1]}\b", name)

    def test_a_request_is_shipped_with_the_reason(self):
        run, victim, parts = self.requests()
        _, kept = self.keep("--trace", trace_id(2))
        self.spanprof("keep", "--control", self.socket, "--trace", trace_id(2))
        tap.wait_until(lambda: sum(s.value for path in run.receiver.paths() for s in otlp_read.samples(path)
                                   if s.type == "kept_samples") >= sum(s.value for s in kept if s.type == "samples"),
                       "what is kept at the receiver")
        done = self.spanprof("keep", "--control", self.socket, "--type", "samples", expect=2)
        self.assertRegex(done.stderr, "write a file with -o")
        result = run.stop()
        self.check_books(result)
        self.assertEqual({s.resource["profile.kept.reason"] for s in result.kept}, {"trace"})
        self.assertNotIn("profile.kept.reason", result.samples[0].resource)
        self.assertEqual({s.trace_id for s in result.kept}, {trace_id(2)})
        # the same events, each once, in the order of time
        for name in {s.type for s in kept}:
            here = sorted((s.time_ns, s.span_id, s.value) for s in kept if s.type == name)
            there = sorted((s.time_ns, s.span_id, s.value) for s in result.kept if s.type == "kept_" + name)
            self.assertEqual(here, there)
        self.assertEqual(result.counter("recorder_shipped_events_total"), len(kept))
        self.assertEqual(result.counter("recorder_keeps_total"), {"asked": 1, "refused": 0})

    def test_old_windows_go(self):
        victim = self.victim("chain", "3", rests=True)
        run = self.record("--pid", victim.pid, "--recorder", "2s")
        run.wait_events(5, victim.pid)
        before = self.status()["recorder"]
        self.assertGreater(before["windows"], 0)
        self.assertGreater(before["reach_seconds"], 0)
        tap.wait_until(lambda: "went for age" in (out := self.spanprof(
            "status", "--control", self.socket).stdout) and not re.search(r" 0 went for age", out),
                       "a window that is too old")
        result = run.stop()
        self.check_books(result)
        self.assertGreater(result.counter("recorder_windows_total", "aged"), 0)
        self.assertGreater(result.counter("recorder_windows_total", "dropped"), 0)

    def test_a_crowd_of_traces_and_stacks_stays_inside_the_cap(self):
        victim = self.victim("traces", "crowd", "2")
        run = self.record("--pid", victim.pid, "--recorder-frequency", "9999", "--frequency", "999")

        def look():
            recorder = self.status()["recorder"]
            self.assertLessEqual(recorder["bytes"], recorder["max_bytes"])
            self.assertLessEqual(recorder["max_bytes"], CAP)
            return recorder["bytes"] > 50_000 and recorder["windows"] > 2

        tap.wait_until(look, "windows of the crowd")
        run.wait_events(CROWD // TICKS, victim.pid)
        peak = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{run.pid}/status").read_text())
        self.assertLess(int(peak[1]) << 10, 4 * CAP)
        result = run.stop()
        self.check_books(result)
        self.assertGreater(result.counter("recorder_ticks_total", "taken"), CROWD)

    def test_record_takes_none_over_from_a_file_of_run(self):
        victim = self.victim("chain", "3", rests=True)
        path, out = self.directory() / "run.conf", self.directory() / "out.otlp"
        path.write_text("[sampling]\nrecorder = 10m\n")
        self.spanprof("record", "-c", path, "--pid", victim.pid, "-d", "1s", "-o", out)
        samples = list(otlp_read.samples(out))
        self.assertEqual({s.type for s in samples}, {"samples"})
        # all are of the export's rate: no two of a thread are closer than its period may be
        self.assertGreater(samples[0].period, 1e9 / FREQUENCY / 2)

    def test_without_a_recorder_there_is_none(self):
        victim = self.victim("chain", "3", rests=True)
        self.socket = self.directory() / "control.sock"
        run = self.start("--pid", victim.pid, "--control", self.socket)
        run.wait_events(3, victim.pid)
        _, done = self.keep(expect=1)
        self.assertRegex(done.stderr, "404 there is no flight recorder: set recorder = 10m")
        result = run.stop()
        self.assertEqual(set(result.counter("recorder_ticks_total").values()), {0})


if __name__ == "__main__":
    tap.main()
