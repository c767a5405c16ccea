#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a signal for the end means to each verb, when it comes twice at once and when somebody is impatient.

timeout(1), told to end, does what it does when its time is over: it tells its child and then its whole group.
So a program behind it gets each signal twice within microseconds.
"""
import oracle

oracle.enter()

import fcntl
import http.client
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import termios
import threading

import otlp_read
import session
import tap
import wire
from fault_server import Server, hang, ok
from stations import VICTIM, wrote
from workers import status_of

INTERRUPT, TERMINATE, HANG_UP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
TIMEOUT = ("timeout", "600")
TIOCSIG = 0x40045436            # asm-generic/ioctls.h


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def has_told_all(timeout):
    """Whether timeout waits again after it has sent its signal, which it ignores from its first one on."""
    status = status_of(timeout.pid)
    return int(status["SigIgn"], 16) & 1 << TERMINATE - 1 and status["State"][0] == "S"


def has_taken_its_signals(pid):
    """Whether none waits for the process any longer, or it has ended."""
    return not int(status_of(pid).get("ShdPnd", "0"), 16)


class Stop(session.TestCase):
    def setUp(self):
        tap.need_tool("timeout")
        self.where = self.directory()

    def behind_timeout(self, *arguments, **options):
        """(timeout, pid of spanprof): timeout alone would not take the other along."""
        options.setdefault("env", session.clean_environment())
        child = self.spawn([*TIMEOUT, tap.SPANPROF, *arguments], **options)
        return child, self.behind(child)

    def behind(self, child):
        pid = tap.wait_until(lambda: (children(child.pid) or [0])[0], "what timeout starts")
        self.addCleanup(lambda: os.path.exists(f"/proc/{pid}") and os.kill(pid, signal.SIGKILL))
        return pid

    def end_by_impatience(self, child, pid=None):
        """Tells it (or @pid, behind timeout) again and again until it has ended, and returns its status."""

        def ends():
            if child.status is None:
                os.kill(pid or child.pid, TERMINATE)
            return child.status is not None

        tap.wait_until(ends, f"its end by more signals; {child}")
        return child.status

    def check_recording(self, path, summary, pid):
        """Every tick is in the recording or counted as lost, and none is lost by the stop."""
        self.assertEqual(oracle.check([path]), [])
        samples = [s for s in otlp_read.samples(path) if s.type not in session.NO_TICKS]
        books = json.loads(summary.read_text())
        self.assertEqual(books["ticks"], books["delivered"] + books["lost"], books)
        self.assertEqual((books["pending"], books["counters"]["lost_total"]["stop"]), (0, 0), books)
        self.assertEqual(sum(s.value for s in samples), books["delivered"])
        names = {f.name for s in samples if s.resource["process.pid"] == pid for f in s.frames}
        self.assertTrue(any(name.startswith("share_") for name in names), names)


class Run(Stop):
    def check(self, result, pid):
        """Beside what each run of session.py is checked for: the books balance, and the payload has them."""
        self.assertEqual(result.counter("lost_total", "stop"), 0, result.log)
        names = {f.name for s in result.of(pid) for f in s.frames}
        self.assertTrue(any(name.startswith("share_") for name in names), names)

    def test_two_signals_at_once_lose_nothing_of_the_last_window(self):
        for number in (TERMINATE, INTERRUPT):
            with self.subTest(number=number):
                victim = self.victim("shares", rests=True)
                run = self.start("--pid", victim.pid, "--frequency", "499", "--symbols", "local", "--export-interval", "60s",
                                 prefix=TIMEOUT)
                self.behind(run.child)
                run.wait_events(1)              # the first window; the last one is open until the end
                session.wait_cpu([victim.pid], 1)
                result = run.stop(number)
                self.check(result, victim.pid)
                self.assertGreater(result.summary["delivered"], 499 / 2, "of a second of CPU and more")

    def test_a_stop_of_the_whole_group_reaches_its_helpers_and_loses_nothing(self):
        """As a service manager has it: each process of the group is told, and by its own id."""
        victim = self.victim("shares", rests=True)
        run = self.start("--pid", victim.pid, "--frequency", "499", "--symbols", "local")
        run.wait_events(50)
        helpers = children(run.pid)
        self.assertGreater(len(helpers), 2, "parsers and the sweeper")
        for pid in (*helpers, run.pid, *helpers):
            os.kill(pid, TERMINATE)
        result = run.wait()
        self.check(result, victim.pid)
        self.assertEqual(result.counter("workers_total", "died"), 0, result.log)

    def test_a_later_signal_gives_up_and_says_how_many_samples(self):
        server = Server([hang])
        self.addCleanup(server.close)
        victim = self.victim("shares", rests=True)
        run = self.start("--pid", victim.pid, "--frequency", "499", endpoint=server.url(""))
        tap.wait_until(lambda: server.requests, "a request that is never answered")
        status = self.end_by_impatience(run.child)
        result = run.result(status, check=False)
        result.check_books(self)
        self.assertEqual(status, 0, run.child)
        given_up = re.search(r"(\d+) samples in \d+ requests are given up: they are not sent", result.log)
        self.assertTrue(given_up, result.log)
        self.assertEqual(int(given_up[1]), result.counter("lost_total", "stop"))
        self.assertGreater(int(given_up[1]), 0)


class Record(Stop):
    def begin(self, victim, *prefix, output):
        path, summary = self.where / output, self.where / "summary.json"
        child = self.spawn([*prefix, tap.SPANPROF, "record", "--log-level", "info", "-F", "499", "-o", path,
                            "--summary", summary, "-p", victim.pid], env=session.clean_environment())
        child.wait_for("profiling 1 process")
        session.wait_cpu([victim.pid], 1)
        return child, path, summary

    def test_two_signals_at_once_leave_a_whole_recording(self):
        for number in (TERMINATE, INTERRUPT, HANG_UP):
            with self.subTest(number=number):
                victim = self.victim("shares", rests=True)
                child, path, summary = self.begin(victim, *TIMEOUT, output=f"{number}.otlp")
                self.behind(child)
                self.assertEqual(child.stop(number), 0, child)
                self.check_recording(path, summary, victim.pid)

    def on_terminal(self, *arguments):
        """(child, leader): it leads a session of its own, whose terminal is ours."""
        leader, follower = pty.openpty()

        def take():
            os.setsid()
            fcntl.ioctl(follower, termios.TIOCSCTTY, 0)

        child = self.spawn([tap.SPANPROF, "record", *arguments], stdin=follower, cwd=self.where,
                           env=session.clean_environment(), preexec_fn=take)
        os.close(follower)
        return child, leader

    def test_what_sudo_passes_on_beside_the_terminal_is_no_second_signal_for_the_command(self):
        """Another one is passed on: of the same number, the kernel may make one of both before we look."""
        script = ("trap 'echo got >>signals' INT TERM; echo pid $$; while [ ! -e end ]; do sleep 0.05; done; "
                  "exit 5")
        path = self.where / "x.folded"
        child, leader = self.on_terminal("-o", path, "--", "sh", "-c", script)
        self.addCleanup(os.close, leader)
        child.wait_for(r"^pid \d+")
        fcntl.ioctl(leader, TIOCSIG, int(INTERRUPT))    # as Ctrl-C, but it is sent when this returns
        child.process.send_signal(TERMINATE)
        tap.wait_until(path.exists, f"the recording; {child}")
        tap.wait_until(lambda: has_taken_its_signals(child.pid), "the end of what waits")
        (self.where / "end").touch()
        self.assertEqual(child.wait(), 5, child)
        self.assertEqual((self.where / "signals").read_text(), "got\n")

    def test_a_terminal_that_hangs_up_leaves_a_whole_recording(self):
        """The kernel tells its session, and the shell its jobs."""
        victim = self.victim("shares", rests=True)
        path, summary = self.where / "out.otlp", self.where / "summary.json"
        child, leader = self.on_terminal("--log-level", "info", "-F", "499", "-o", path, "--summary",
                                       summary, "-p", victim.pid)
        child.wait_for("profiling 1 process")
        session.wait_cpu([victim.pid], 1)
        os.close(leader)
        child.process.send_signal(HANG_UP)
        self.assertEqual(child.wait(), 0, child)
        self.check_recording(path, summary, victim.pid)

    def test_a_later_signal_gives_the_recording_up_and_says_so(self):
        """The reader of the pipe never comes."""
        os.mkfifo(self.where / "pipe.otlp")
        victim = self.victim("shares", rests=True)
        child, path, _ = self.begin(victim, output="pipe.otlp")
        self.assertEqual(self.end_by_impatience(child), 128 + TERMINATE, child)
        said = re.search(r"the recording is given up, (\d+) samples; (\S+) is not written", child.err)
        self.assertTrue(said, child)
        self.assertGreater(int(said[1]), 0)
        self.assertEqual(said[2], str(path))


class Desk(Stop):
    def test_top_shows_whole_blocks_up_to_its_end(self):
        victim = self.victim("shares", rests=True)
        child, _ = self.behind_timeout("top", "--json", "-i", "200ms", "-p", victim.pid)
        child.wait_for("share_")
        self.assertEqual(child.stop(TERMINATE), 0, child)
        self.assertTrue(child.out.endswith("\n"))
        for line in child.out.splitlines():
            self.assertIn("samples", json.loads(line))

    def test_stacks_shows_what_it_has_seen_by_then(self):
        victim = self.victim("shares")          # one that rests may be seen asleep at the end
        child, pid = self.behind_timeout("stacks", str(victim.pid), "-d", "600", "--log-level", "info")
        child.wait_for("profiling 1 process")
        session.wait_cpu([victim.pid], 1)
        self.assertEqual(child.stop(TERMINATE), 0, child)
        self.assertRegex(child.out, r"share_\d+")

    def test_stacks_says_that_it_gives_them_up_at_a_later_signal(self):
        pipe = self.where / "pipe.otlp"
        os.mkfifo(pipe)
        victim = self.victim("shares", rests=True)
        child = self.spawn([tap.SPANPROF, "stacks", str(victim.pid), "-o", pipe, "--log-level", "info"],
                           env=session.clean_environment())
        child.wait_for("profiling 1 process")
        self.assertEqual(self.end_by_impatience(child), 128 + TERMINATE, child)
        self.assertIn("the stacks of 1 threads are given up, and not written", child.err)


class Receive(Stop):
    N_SAMPLES = 3

    def forward(self, play):
        """`spanprof receive` behind timeout, with a request under way to a receiver that has @play."""
        self.server = Server([play])
        self.addCleanup(self.server.close)
        child, pid = self.behind_timeout("receive", "--port", "0", "--forward", self.server.url("/base"),
                                         cwd=self.where,
                                         env=session.clean_environment(SPANPROF_STOP_TIMEOUT="60s"))
        port = int(child.wait_for(r"^listening on http://127\.0\.0\.1:(\d+), forwarding to ")[1])
        profile = b"".join(wire.field(2, b"\x08\x01") for _ in range(self.N_SAMPLES))
        body = wire.field(1, wire.field(2, wire.field(2, profile))) + wire.field(2, wire.field(5, b""))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=tap.PATIENCE)
        self.addCleanup(connection.close)
        connection.request("POST", "/v1development/profiles", body, {"Content-Type": "application/x-protobuf"})
        self.assertEqual(connection.getresponse().status, 200)
        tap.wait_until(lambda: self.server.requests, f"the request further on; {child}")
        return child, pid

    def test_two_signals_at_once_wait_for_the_next_receiver(self):
        answers = threading.Event()

        def late(connection, server):
            answers.wait(tap.PATIENCE)
            return ok()(connection, server)

        child, pid = self.forward(late)
        child.process.send_signal(TERMINATE)
        os.kill(pid, INTERRUPT)         # of two that have the same number the kernel may make one
        tap.wait_until(lambda: has_told_all(child), "what timeout sends")
        tap.wait_until(lambda: has_taken_its_signals(pid), "what has come of it")
        answers.set()
        self.assertEqual(child.wait(), 0, child)
        self.assertIn(f"forwarded {self.N_SAMPLES} samples, lost 0", child.out)

    def test_a_later_signal_gives_up_and_says_how_many_samples(self):
        child, pid = self.forward(hang)
        self.assertEqual(self.end_by_impatience(child, pid), 0, child)
        self.assertIn(f"{self.N_SAMPLES} samples in 1 requests are given up: they are not sent", child.err)
        self.assertIn(f"forwarded 0 samples, lost {self.N_SAMPLES}", child.out)


class Coroutines(Stop):
    def test_a_command_gets_one_of_two_signals_at_once(self):
        script = ("trap 'echo got >>signals' INT TERM; echo ready; while [ ! -e end ]; do sleep 0.05; done; "
                  "exit 5")
        child = self.spawn([tap.SPANPROF, "coro", "-o", self.where / "t.jsonl", "--", "sh", "-c", script],
                           cwd=self.where, env=session.clean_environment(TMPDIR=self.where))
        child.wait_for("^ready")
        os.kill(child.pid, INTERRUPT)
        os.kill(child.pid, TERMINATE)
        tap.wait_until(lambda: has_taken_its_signals(child.pid), "its signals")
        tap.wait_until((self.where / "signals").exists, "the command's own")
        (self.where / "end").touch()
        self.assertEqual(child.wait(), 5, child)
        self.assertEqual((self.where / "signals").read_text(), "got\n")

    def test_a_trace_is_whole_after_two_signals_at_once(self):
        path = self.where / "t.jsonl"
        child, _ = self.behind_timeout("coro", "-o", path, "--", VICTIM, "end=hold",
                                       stdin=subprocess.PIPE,
                                       env=session.clean_environment(TMPDIR=self.where))
        child.wait_for("^done")
        self.assertEqual(child.stop(TERMINATE), 128 + TERMINATE, child)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        # behind them are rows of stations and mappings
        events = [line for line in lines if "ts" in line]
        self.assertEqual(len(events), sum(n for n, _last in wrote(child.out).values()))


tap.main()
