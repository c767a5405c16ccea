#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The flight recorder (run --recorder, `spanprof keep`), against programs that know what they did
(tests/victims/spans/victim-traces.c, native/victim-shares.c)."""
import oracle

oracle.enter()

import bisect
import collections
import contextlib
import gzip
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess

import collector
import otlp_read
import real_server
import session
import tap
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

FREQUENCY, TICKS = 99, 10       # of 990 Hz
N_TRACES, BURN_MS = 5, 200
LEAST = 180                     # own samples of a request that burned BURN_MS
CLOSE = 10      # pairs of samples that are next to each other
EXPORTED = 150                  # samples of the export to wait for
CROWD = 3000                    # ticks for the recorder alone
CAP = 64 << 20
SLOW, TIMES, LIMIT_MS = 3, 5, 600       # a trace of TIMES * BURN_MS

Part = collections.namedtuple("Part", "pid trace span cpu_ns begin_ns end_ns")


def trace_id(n):
    return f"{9:016x}{n:016x}"

PROTOBUF = {"Content-Type": "application/x-protobuf"}


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

    def requests(self, *options, slow=()):
        """(run, the parts that the victim tells). @slow: number of a trace that takes longer, and how many times."""
        log = self.directory() / "log"
        log.touch()
        victim = self.victim("traces", log, str(N_TRACES), str(BURN_MS), *map(str, slow), stdin=subprocess.PIPE)
        self.victim_back = int(victim.wait_for(r"back (\d+)")[1])
        run = self.record("--pid", f"{victim.pid},{self.victim_back}", "--off-cpu", *options)
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

    def wait_kept(self, run, n):
        self.wait_for(run, lambda all: sum(s.value for s in all if s.type == "kept_samples") >= n,
                      "what is kept at the receiver")

    def test_a_request_is_shipped_with_the_reason(self):
        run, victim, parts = self.requests()
        _, kept = self.keep("--trace", trace_id(2))
        self.spanprof("keep", "--control", self.socket, "--trace", trace_id(2))
        self.wait_kept(run, sum(s.value for s in kept if s.type == "samples"))
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
        self.assertEqual({event: n for event, n in result.counter("recorder_keeps_total").items() if n}, {"asked": 1})

    def lasted(self, parts, ms):
        """Traces with a span that lasted so long, by the victim's clock."""
        return {trace_id(part.trace) for part in parts if part.end_ns - part.begin_ns > ms * 1e6}

    def check_slow(self, kept, parts):
        """No trace is kept that was not slow, and the one that burned long is."""
        self.assertIn(trace_id(SLOW), kept)
        self.assertLessEqual(kept, self.lasted(parts, LIMIT_MS))

    def test_slow_requests_are_kept_and_no_other(self):
        run, victim, parts = self.requests(slow=(SLOW, TIMES))
        path, kept = self.keep("--slower-than", f"{LIMIT_MS}ms")
        self.check_slow({s.trace_id for s in kept}, parts)
        # the whole trace: its other process, too
        self.assertEqual({s.resource["process.pid"] for s in kept if s.trace_id == trace_id(SLOW)},
                         {victim.pid, self.victim_back})
        _, done = self.keep("--slower-than", "1h", expect=1)
        self.assertRegex(done.stderr, "nothing to write|has nothing of it")
        _, done = self.keep("--slower-than", f"{LIMIT_MS}ms", "--operation", "none", expect=1)
        n = sum(s.value for s in kept if s.type == "samples")
        out = self.spanprof("report", "--slower-than", f"{LIMIT_MS}ms", "--type", "samples", path).stdout
        self.assertRegex(out, rf"(?m)^  value +{n}\b")
        # the daemon ships the same traces
        done = self.spanprof("keep", "--control", self.socket, "--slower-than", f"{LIMIT_MS}ms")
        self.assertRegex(done.stderr, r"\b[1-9]\d* traces are shipped")
        self.wait_kept(run, n)
        result = run.stop()
        self.assertEqual({s.trace_id for s in result.kept}, {s.trace_id for s in kept})
        self.assertEqual({s.resource["profile.kept.reason"] for s in result.kept}, {"slower-than"})
        self.check_books(result)

    def test_a_rule_keeps_a_slow_request_by_itself(self):
        run, victim, parts = self.requests("--recorder-slower-than", f"{LIMIT_MS}ms", slow=(SLOW, TIMES))
        self.wait_for(run, lambda all: any(s.type == "kept_samples" and s.trace_id == trace_id(SLOW) for s in all),
                      "the slow request at the receiver")
        result = run.stop()
        self.check_slow({s.trace_id for s in result.kept}, parts)
        self.assertEqual({s.resource["profile.kept.reason"] for s in result.kept}, {"slower-than"})
        self.assertEqual({s.resource["process.pid"] for s in result.kept if s.trace_id == trace_id(SLOW)},
                         {victim.pid, self.victim_back})
        keeps = result.counter("recorder_keeps_total")
        self.assertGreaterEqual(keeps["by_rule"], len({s.trace_id for s in result.kept}))
        self.assertEqual((keeps["asked"], keeps["rules_over_rate"]), (0, 0))

    def post(self, port, path, token=None, method="POST", body=b"", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=tap.PATIENCE)
        with contextlib.closing(connection):
            own = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request(method, path, body, {**own, **headers})
            answer = connection.getresponse()
            answer.read()
            return answer.status

    def test_who_has_a_token_asks_by_http(self):
        token = self.directory() / "token"
        token.write_text("s3cret\nn3xt\n")
        token.chmod(0o644)
        run, _, _ = self.requests("--metrics", "127.0.0.1:0", "--recorder-token", token)
        port = int(run.child.wait_for(r"metrics are at http://127\.0\.0\.1:(\d+)/metrics")[1])
        page = f"/recorder/keep/trace/{trace_id(3)}/reason/alert-1"
        self.assertEqual([self.post(port, page, token) for token in (None, "s3cre", "n3xt1")], [401] * 3)
        self.assertEqual(self.post(port, page, "s3cret", "GET"), 404)
        for other in "/recorder/close", "/recorder/get/0", "/pause":
            self.assertEqual(self.post(port, other, "s3cret"), 405)
        self.assertEqual(self.post(port, "/recorder/keep/trace/x", "s3cret"), 400)
        # what an alert's webhook posts is read, and not looked at
        self.assertEqual(self.post(port, page, "n3xt", body=b"{" * 30000), 200)
        self.assertEqual(self.post(port, "/metrics", method="GET"), 200)
        self.wait_kept(run, 1)
        answers = [self.post(port, f"/recorder/keep/trace/{trace_id(9)}", "n3xt") for _ in range(60)]
        self.assertEqual(answers.count(429), 2)
        result = run.stop()
        self.assertEqual({s.trace_id for s in result.kept}, {trace_id(3)})
        self.assertEqual({s.resource["profile.kept.reason"] for s in result.kept}, {"alert-1"})
        keeps = result.counter("recorder_keeps_total")
        self.assertEqual((keeps["by_hook"], keeps["hooks_over_rate"], keeps["unauthorized"]), (60, 2, 3))

    @staticmethod
    def spans_of(*traces):
        """A request with a span of each."""
        request = trace_service_pb2.ExportTraceServiceRequest()
        for n in traces:
            span = request.resource_spans.add().scope_spans.add().spans.add()
            span.trace_id, span.span_id = bytes.fromhex(trace_id(n)), b"12345678"
        return request.SerializeToString()

    def choosing(self, *options):
        """A run that takes chosen traces, once its requests are over, and where it does."""
        port, = real_server.free_ports(1)
        token = self.directory() / "token"
        token.write_text("s3cret\n")
        token.chmod(0o644)
        run, _, _ = self.requests("--recorder-listen", f"127.0.0.1:{port}", "--recorder-token", token, *options)
        return run, port

    def check_chosen(self, run, *traces):
        self.wait_for(run, lambda all: {trace_id(n) for n in traces} <=
                      {s.trace_id for s in all if s.type == "kept_samples"}, "the chosen traces at the receiver")
        result = run.stop()
        self.assertEqual({s.trace_id for s in result.kept}, {trace_id(n) for n in traces})
        self.assertEqual({s.resource["profile.kept.reason"] for s in result.kept}, {"tail-sampling"})
        return result.counter("recorder_keeps_total")

    def test_who_samples_traces_tells_which_are_chosen(self):
        run, port = self.choosing()
        data, packed = self.spans_of(2, 4, 2, 77), {"Content-Encoding": "gzip"}
        self.assertEqual(self.post(port, "/v1/traces", None, body=data, **PROTOBUF), 401)
        self.assertEqual(self.post(port, "/v1/traces", "s3cre", body=data, **PROTOBUF), 401)
        self.assertEqual(self.post(port, "/v1/profiles", "s3cret", body=data, **PROTOBUF), 404)
        self.assertEqual(self.post(port, "/v1/traces", "s3cret", body=data[:-1], **PROTOBUF), 400)
        json_type = {"Content-Type": "application/json"}
        self.assertEqual(self.post(port, "/v1/traces", "s3cret", body=b"{}", **json_type), 400)
        self.assertEqual(self.post(port, "/v1/traces", "s3cret", body=bytes((2 << 20) + 1), **PROTOBUF), 413)
        os.kill(run.pid, signal.SIGHUP)
        tap.wait_until(lambda: run.child.err.count("chosen traces are taken at") > 1, "the daemon after a reload")
        self.assertEqual(self.post(port, "/v1/traces", "s3cret", body=gzip.compress(data), **PROTOBUF, **packed), 200)
        keeps = self.check_chosen(run, 2, 4)
        self.assertEqual((keeps["by_hook"], keeps["hooks_over_rate"], keeps["unauthorized"]), (3, 0, 2))
        self.assertEqual(keeps["unread"], 4)

    def test_what_was_chosen_as_it_stops_is_shipped(self):
        run, port = self.choosing("--export-interval", "1h")
        self.assertEqual(self.post(port, "/v1/traces", "s3cret", body=self.spans_of(3), **PROTOBUF), 200)
        result = run.stop()
        self.assertEqual({s.trace_id for s in result.kept}, {trace_id(3)})
        keeps = result.counter("recorder_keeps_total")
        self.assertEqual((keeps["by_hook"], keeps["refused"]), (1, 0))

    def test_what_has_no_room_as_it_stops_is_refused(self):
        """Half of this queue holds no request of the recorder's beside another: the last window is not pushed out for one."""
        run, port = self.choosing("--export-interval", "1h", "--max-queue", "512KiB")
        self.assertEqual(self.post(port, "/v1/traces", "s3cret", body=self.spans_of(2, 3), **PROTOBUF), 200)
        result = run.stop()
        self.assertEqual(result.kept, [])
        keeps = result.counter("recorder_keeps_total")
        self.assertEqual((keeps["by_hook"], keeps["refused"]), (2, 2))

    def test_a_real_collector_sends_what_it_has_chosen(self):
        collector.need()
        run, port = self.choosing()
        real = collector.Collector(self, {}, signal="traces", onward={"otlp_http": {
            "endpoint": f"http://127.0.0.1:{port}", "headers": {"Authorization": "Bearer s3cret"}}})
        spans = [{"traceId": trace_id(3), "spanId": "00000000000000ab", "name": "cart", "startTimeUnixNano": "1",
                  "endTimeUnixNano": "2"}]
        body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
        self.assertEqual(self.post(int(real.url.rsplit(":", 1)[1]), "/v1/traces", body=body,
                                   **{"Content-Type": "application/json"}), 200)
        self.check_chosen(run, 3)
        self.assertEqual(real.dropped(), [])

    def test_a_place_that_another_has_is_tried_again(self):
        token = self.directory() / "token"
        token.write_text("s3cret\n")
        token.chmod(0o644)
        with socket.create_server(("127.0.0.1", 0)) as other:
            where = f"127.0.0.1:{other.getsockname()[1]}"
            run = self.start("--comm", "nobody", "--recorder", "60s", "--recorder-listen", where,
                             "--recorder-token", token)
            run.child.wait_for(f"cannot listen on {where}: another process does")
        run.child.wait_for(f"chosen traces are taken at http://{where}/v1/traces")
        run.stop()

    def test_chosen_traces_need_a_token(self):
        done = self.spanprof("run", "--comm", "nobody", "--recorder", "60s", "--recorder-listen", "127.0.0.1:1",
                             "--control", self.directory() / "control.sock", expect=78)
        self.assertIn("recorder-listen needs recorder-token", done.stderr)

    def test_a_token_that_cannot_be_read_is_a_wrong_configuration(self):
        self.spanprof("run", "--comm", "nobody", "--recorder", "60s", "--recorder-token", "/nonexistent",
                      "--control", self.directory() / "control.sock", expect=78)

    def test_a_relative_path_of_tokens_is_a_wrong_configuration(self):
        path = self.directory() / "run.conf"
        path.write_text("[sampling]\nrecorder = 1m\nrecorder-token = keep-token\n")
        done = self.spanprof("config", "check", "-c", path, expect=78)
        self.assertIn("`keep-token` is no path from /", done.stderr)

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
