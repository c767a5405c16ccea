# SPDX-License-Identifier: Apache-2.0
"""`perf record` of the whole machine beside the daemon: the oracle for what programs spend their time on.

    oracle = perf.Recording(test, frequency=499)        it records when this returns
    …
    ours, theirs = oracle.common(result, pids)          samples of both, of the time when both sampled
"""
import os

import compare
import tap


class Recording:
    def __init__(self, test, frequency=499, pid=None):
        """@pid: records that process alone. perf reads the files of all that it records, and some ends it."""
        self.test, self.perf, self.all = test, tap.need_tool("perf"), None
        directory = test.directory()
        self.data = directory / "perf.data"
        control, answer = directory / "control", directory / "answer"
        for path in (control, answer):
            os.mkfifo(path)
        # Open for both directions: nothing in a pipe is lost while perf has not opened it yet.
        self.control, answers = os.open(control, os.O_RDWR), os.open(answer, os.O_RDWR | os.O_NONBLOCK)
        test.addCleanup(os.close, self.control)
        test.addCleanup(os.close, answers)
        # Without its store of build ids, which nobody asks here.
        self.child = test.spawn([
            self.perf, "record", "-q", "-B", "-N", *(["-a"] if pid is None else ["-p", pid]), "-g", "-k",
            "CLOCK_MONOTONIC", "-e", "cpu-clock", "-F", frequency, f"--control=fifo:{control},{answer}", "-o",
            self.data
        ])
        os.write(self.control, b"ping\n")
        tap.wait_until(lambda: self.answered(answers), f"an answer of {self.child}")

    @staticmethod
    def answered(answers):
        try:
            return b"ack" in os.read(answers, 64)
        except BlockingIOError:
            return False

    def samples(self):
        """All samples; ends the recording at the first call."""
        if self.all is None:
            if self.child.status is None:       # of one process it ends with that
                os.write(self.control, b"stop\n")
            self.test.assertEqual(self.child.wait(), 0, self.child)
            text = self.test.run_command([self.perf, "script", "-i", self.data, "--ns", "--max-stack", "1",
                                          "-F", "comm,pid,tid,time,ip,sym,dso"], expect=0).stdout
            self.all = list(compare.perf_script(text))
        return self.all

    def common(self, result, pids):
        """(ours, perf's): samples of these processes while both sampled; those are the same stretches of the programs."""
        ours = [(result.monotonic_ns(s), s) for s in result.samples
                if s.resource["process.pid"] in pids and s.frames]
        theirs = [(s.time_ns, s) for s in self.samples() if s.pid in pids and s.frames]
        self.test.assertTrue(ours and theirs, f"{len(ours)} samples of ours, {len(theirs)} of perf's")
        first = max(min(t for t, _ in ours), min(t for t, _ in theirs))
        last = min(max(t for t, _ in ours), max(t for t, _ in theirs))
        return [[s for t, s in them if first <= t <= last] for them in (ours, theirs)]
