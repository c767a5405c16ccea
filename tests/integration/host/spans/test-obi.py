#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Spans of OBI's map in the daemon's payload. The map is made, pinned and written by the test, in OBI's way:
as OTEP 4855 has it, a least-recently-used hash; the key is bpf_get_current_pid_tgid(), the value a trace id
and a span id as on the wire."""
import ctypes
import json
import os
import platform
import re
import struct
import subprocess

import oracle

oracle.enter()

import session  # noqa: E402
import tap  # noqa: E402

CREATE, UPDATE, DELETE, PIN, GET = 0, 2, 3, 6, 7
HASH, LRU_HASH = 1, 9
NUMBER = {"x86_64": 321, "aarch64": 280}[platform.machine()]


def bpf(command, attr):
    buffer = ctypes.create_string_buffer(attr.ljust(128, b"\0"), 128)
    result = ctypes.CDLL(None, use_errno=True).syscall(NUMBER, command, buffer, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def file_system(test):
    """A directory of the kind that pins go to, for root alone, as the one of a machine."""
    if os.stat("/proc/self/ns/pid").st_ino != 0xEFFFFFFC:
        tap.skip("machine: this is not the first PID namespace, whose ids OBI writes")
    path = test.directory() / "bpf"
    path.mkdir()
    subprocess.run(["mount", "-t", "bpf", "-o", "mode=0700", "bpf", path], check=True)
    test.addCleanup(subprocess.run, ["umount", "-l", path], check=True)
    (path / "otel").mkdir(mode=0o1700)
    return path / "otel"


class Map:
    """OBI, as far as its map tells of it: end() takes its hands off and leaves the pin."""

    def __init__(self, test, path, kind=LRU_HASH, entries=16384, value_size=24):
        self.path = path
        self.fd = bpf(CREATE, struct.pack("=IIIII", kind, 8, value_size, entries, 0))
        test.addCleanup(self.end)
        name = ctypes.create_string_buffer(os.fsencode(path))
        bpf(PIN, struct.pack("=QII", ctypes.addressof(name), self.fd, 0))

    def element(self, command, tgid, tid, value=b""):
        key = ctypes.create_string_buffer(struct.pack("=II", tid, tgid), 8)
        room = ctypes.create_string_buffer(value, len(value) or 1)
        bpf(command, struct.pack("=IxxxxQQQ", self.fd, ctypes.addressof(key),
                                 ctypes.addressof(room) if value else 0, 0))

    def begin(self, tgid, tid, trace, span):
        """A request begins on a thread."""
        self.element(UPDATE, tgid, tid, bytes.fromhex(trace) + bytes.fromhex(span))

    def finish(self, tgid, tid):
        self.element(DELETE, tgid, tid)

    def reopen(self):
        """OBI starts again, and takes the map that is pinned."""
        name = ctypes.create_string_buffer(os.fsencode(self.path))
        self.fd = bpf(GET, struct.pack("=QII", ctypes.addressof(name), 0, 0))

    def end(self):
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


TRACE = "0af7651916cd43dd8448eb211c80319c"


def span(number):
    return f"b7ad6b716920{number:04x}"


class Obi(session.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = file_system(self)
        self.path = self.folder / "traces_ctx_v1"

    def run_with(self, *children, options=(), frequency=1999):
        pids = ",".join(str(child.pid) for child in children)
        return self.start("--pid", pids, "--obi-map", self.path, "--frequency", frequency, *options)

    def chain(self):
        """A process of one thread that uses a part of a CPU and publishes nothing."""
        return self.victim("chain", "3", rests=True)

    @staticmethod
    def arrived(run, pid):
        """Every sample of the process that has arrived so far."""
        return [sample for path in run.receiver.paths() if path.with_suffix(".json").exists()
                for sample in session.otlp_read.samples(path) if sample.resource["process.pid"] == pid]

    def wait_span(self, run, pid, number):
        return tap.wait_until(lambda: [x for x in self.arrived(run, pid) if x.span_id == span(number)],
                              f"samples of span {span(number)}; {run.child}", 60)

    def settle(self, run, pid):
        """The number of samples by now; returns once many more have come."""
        n = len(self.arrived(run, pid))
        tap.wait_until(lambda: len(self.arrived(run, pid)) > n + 200, f"more samples of {pid}", 60)
        return n

    def spans_of(self, samples):
        samples = list(samples)
        self.assertLessEqual({x.trace_id for x in samples if x.span_id}, {TRACE})
        return {x.span_id for x in samples} - {None, ""}

    def contexts(self, result, which):
        return result.counter("obi_contexts_total", which)

    def test_the_span_of_each_thread_and_no_other_one(self):
        of_obi = Map(self, self.path)
        child = self.victim("threads", "3")
        tids = [int(tid) for tid in re.findall(r"^thread (\d+) burn", child.out, re.M)]
        run = self.run_with(child, frequency=499)
        self.settle(run, child.pid)
        for number, tid in enumerate(tids[:2], 1):
            of_obi.begin(child.pid, tid, TRACE, span(number))
        for number in (1, 2):
            self.wait_span(run, child.pid, number)
        of_obi.finish(child.pid, tids[0])
        begin = len(self.arrived(run, child.pid))
        self.settle(run, child.pid)
        result = run.stop()
        self.assertGreater(len(result.of(child.pid)), begin)
        by_thread = {tid: self.spans_of(x for x in result.of(child.pid) if x.thread_id == tid)
                     for tid in tids}
        self.assertEqual(by_thread, {tids[0]: {span(1)}, tids[1]: {span(2)}, tids[2]: set()})
        without = [x for x in result.of(child.pid) if x.thread_id == tids[0] and not x.span_id]
        self.assertTrue(without)
        self.assertEqual(self.contexts(result, "read"), sum(1 for x in result.samples if x.span_id))
        self.assertGreater(self.contexts(result, "missed"), 0)
        self.assertEqual(self.contexts(result, "stale"), 0)

    def test_an_entry_that_was_there_before_counts_once_it_changes(self):
        of_obi = Map(self, self.path)
        first, second = self.chain(), self.chain()
        for child in (first, second):
            of_obi.begin(child.pid, child.pid, TRACE, span(7))
        run = self.run_with(first, second)
        for child in (first, second):
            self.settle(run, child.pid)
        of_obi.begin(second.pid, second.pid, TRACE, span(8))
        self.wait_span(run, second.pid, 8)
        # What is the thread's own from then on may be anything, also what it was.
        of_obi.begin(second.pid, second.pid, TRACE, span(7))
        self.wait_span(run, second.pid, 7)
        result = run.stop()
        self.assertEqual(self.spans_of(result.of(first.pid)), set())
        self.assertEqual(self.spans_of(result.of(second.pid)), {span(7), span(8)})
        self.assertGreater(self.contexts(result, "stale"), 0)

    def test_a_process_is_not_what_another_one_with_its_id_was(self):
        """The entry is there as the process runs its program: of its id, and not its own."""
        of_obi = Map(self, self.path)
        other = self.chain()
        run = self.run_with(other, options=["--comm", "victim-chain"])
        self.settle(run, other.pid)
        child = self.spawn(["sh", "-c", f"read go; exec {tap.VICTIMS}/victim-chain 3"], stdin=-1,
                           env={**os.environ, "VICTIM_RESTS": "1"})
        of_obi.begin(child.pid, child.pid, TRACE, span(9))
        child.process.stdin.write(b"go\n")
        child.process.stdin.flush()
        child.wait_for(r"^pid \d+")
        self.settle(run, child.pid)
        of_obi.begin(child.pid, child.pid, TRACE, span(10))
        self.wait_span(run, child.pid, 10)
        result = run.stop()
        self.assertEqual(self.spans_of(result.of(child.pid)), {span(10)})

    def test_who_publishes_is_believed_alone(self):
        of_obi = Map(self, self.path)
        child = self.victim("threads", "1", "0", "0", "64")
        tid = int(re.search(r"^thread (\d+) burn", child.out, re.M)[1])
        run = self.run_with(child, frequency=499)
        self.settle(run, child.pid)
        of_obi.begin(child.pid, tid, TRACE, span(3))
        self.settle(run, child.pid)
        result = run.stop()
        self.assertEqual({x.span_id for x in result.of(child.pid) if x.span_id}, {f"{1:016x}"})
        self.assertEqual(self.contexts(result, "read"), 0)

    def test_waits_have_the_span_too(self):
        of_obi = Map(self, self.path)
        child = self.victim("threads", "0", "1")
        tid = int(re.search(r"^thread (\d+) sleep", child.out, re.M)[1])
        run = self.start("--pid", child.pid, "--obi-map", self.path, "--off-cpu")
        tap.wait_until(lambda: self.arrived(run, child.pid), "waits", 60)
        of_obi.begin(child.pid, tid, TRACE, span(4))
        self.wait_span(run, child.pid, 4)
        result = run.stop()
        self.assertEqual(self.spans_of(x for x in result.waits if x.thread_id == tid), {span(4)})
        self.assertEqual(self.spans_of(x for x in result.waits if x.thread_id == child.pid), set())

    def test_obi_comes_after_us_makes_another_map_and_goes(self):
        child = self.chain()
        run = self.run_with(child)
        self.settle(run, child.pid)
        first = Map(self, self.path)
        run.child.wait_for("reading spans of OBI; 0 entries")
        first.begin(child.pid, child.pid, TRACE, span(1))
        self.wait_span(run, child.pid, 1)
        # another map, of another size, in which the thread has an entry already
        self.path.unlink()
        first.end()
        second = Map(self, self.path, entries=512)
        second.begin(child.pid, child.pid, TRACE, span(2))
        run.child.wait_for("reading spans of OBI; 1 entries")
        self.settle(run, child.pid)
        second.begin(child.pid, child.pid, TRACE, span(3))
        self.wait_span(run, child.pid, 3)
        # it ends, and its pin stays with what it had written
        second.end()
        tap.wait_until(lambda: not self.arrived(run, child.pid)[-1].span_id, "a sample without a span", 60)
        second.reopen()
        tap.wait_until(lambda: len(re.findall("reading spans of OBI; 1 entries", run.child.err)) == 2,
                       "the map to be read again", 60)
        self.settle(run, child.pid)
        second.begin(child.pid, child.pid, TRACE, span(4))
        self.wait_span(run, child.pid, 4)
        self.path.unlink()
        run.child.wait_for("OBI's map is gone")
        result = run.stop()
        self.assertEqual(self.spans_of(result.of(child.pid)), {span(1), span(3), span(4)})

    def test_a_map_of_another_kind_is_left_alone(self):
        for options in ({"kind": HASH}, {"value_size": 32}):
            with self.subTest(**options):
                other = Map(self, self.path, **options)
                child = self.chain()
                run = self.run_with(child)
                run.child.wait_for("is another map than OBI's")
                self.settle(run, child.pid)
                result = run.stop()
                self.assertEqual(self.spans_of(result.of(child.pid)), set())
                self.assertEqual(result.log.count("is another map than OBI's"), 1)
                self.assertEqual(self.doctor()["result"], "warn")
                self.path.unlink()
                other.end()

    def doctor(self):
        done = self.run_command([tap.SPANPROF, "doctor", "--json"],
                                env={**session.clean_environment(), "SPANPROF_OBI_MAP": str(self.path)})
        return {x["name"]: x for x in json.loads(done.stdout)["checks"]}.get("obi")

    def test_doctor_says_what_fills_an_empty_map(self):
        self.assertIsNone(self.doctor())
        of_obi = Map(self, self.path)
        finding = self.doctor()
        self.assertEqual(finding["result"], "warn")
        self.assertIn("OTEL_EBPF_BPF_POPULATE_TRACE_CONTEXT=true", finding["fix"])
        of_obi.begin(1, 1, TRACE, span(1))
        self.assertEqual(self.doctor()["result"], "ok")


if __name__ == "__main__":
    tap.main()
