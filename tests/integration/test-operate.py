#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an operator does to a daemon that runs: reload, and what the service manager hears of it."""
import oracle

oracle.enter()

import os
import pathlib
import re
import signal
import socket
import threading
import time

import fault_server
import session
import tap

HZ = ["--frequency", 499]


class Manager:
    """The service manager's end of sd_notify(3)."""

    def __init__(self, test):
        self.path = test.directory() / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.path.chmod(0o777)          # as systemd's is: who reads knows by SCM_CREDENTIALS who sent
        self.path.parent.chmod(0o755)
        self.messages = []
        # senders wait for a manager that does not read
        threading.Thread(target=self._read_all, daemon=True).start()

    def _read_all(self):
        while True:
            self.messages.append(
                dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines()))

    def read(self):
        return list(self.messages)

    def wait(self, key, value=None, after=0):
        def found():
            return next((m for m in self.read()[after:] if key in m and value in (None, m[key])), None)

        return tap.wait_until(found, f"{key}={value} among {self.messages}")

    def of(self, key):
        return [m[key] for m in self.read() if key in m]


class Case(session.TestCase):
    def setUp(self):
        self.manager = Manager(self)
        self.victim_ = self.victim("chain", 5)
        self.file = self.directory() / "spanprof.conf"

    def configure(self, text):
        self.file.write_text(text)

    def run_configured(self, text, *options, **environment):
        self.configure(text)
        return self.start("--config", self.file, *options,
                          environment={"NOTIFY_SOCKET": self.manager.path, **environment})

    def wait_stopped(self, run):
        tap.wait_until(
            lambda: pathlib.Path(f"/proc/{run.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T",
            "stopped")

    @staticmethod
    def unread(port):
        """Bytes that a client of this port on loopback has got and not read, by /proc/net/tcp."""
        rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(int(row[4].split(":")[1], 16) for row in rows if row[2].endswith(f":{port:04X}"))

    def reload(self, run):
        """Sends SIGHUP; returns when the manager has been told that it is over."""
        n = len(self.manager.read())
        run.child.process.send_signal(signal.SIGHUP)
        self.manager.wait("RELOADING", "1", n)
        n = next(i for i, m in enumerate(self.manager.messages) if i >= n and "RELOADING" in m)
        return self.manager.wait("READY", "1", n + 1)


class Reload(Case):
    def test_applies_what_has_changed(self):
        run = self.run_configured(f"[targets]\npid = {self.victim_.pid}\n[sampling]\nfrequency = 499\n")
        run.wait_events(1, self.victim_.pid)
        other = self.victim("chain", 5)
        self.configure(f"[targets]\npid = {other.pid}\n[sampling]\nfrequency = 997\n")
        self.reload(run)
        run.child.wait_for("at 997 Hz")
        run.wait_events(1, other.pid)
        result = run.stop()
        self.assertEqual(result.pids, {self.victim_.pid, other.pid})
        self.assertEqual(result.summary["frequency"], 997)
        self.assertGreater(result.summary["target_cpu_ns"], 0)

    def test_keeps_the_old_configuration_when_the_new_one_is_wrong(self):
        run = self.run_configured(f"[targets]\npid = {self.victim_.pid}\n[sampling]\nfrequency = 499\n")
        run.wait_events(1)
        self.configure("[sampling]\nfrequency = often\nfrequenzy = 5\n")
        self.reload(run)
        self.assertIn(f"{self.file}:2: frequency: `often` is no number", run.log)
        self.assertIn("did you mean `frequency`?", run.log)
        self.assertIn("the old one stays in force", run.log)
        self.assertEqual(len(re.findall("at 499 Hz", run.log)), 1, "it must not have been made anew")
        before = run.receiver.paths()
        tap.wait_until(lambda: len(run.receiver.paths()) > len(before), "profiles go on")
        run.stop()

    def test_comes_back_to_the_old_one_when_the_new_one_cannot_be_used(self):
        run = self.run_configured(f"[targets]\npid = {self.victim_.pid}\n")
        run.wait_events(1)
        gone = self.victim("short")
        gone.wait()
        self.configure(f"[targets]\npid = {gone.pid}\n")
        self.reload(run)
        self.assertIn(f"there is no process {gone.pid}", run.log)
        self.assertIn("the old one comes back", run.log)
        n = len(run.receiver.paths())
        tap.wait_until(lambda: len(run.receiver.paths()) > n, "profiles of the old configuration")
        result = run.stop()
        self.assertEqual(result.pids, {self.victim_.pid})

    def test_many_at_once_lose_no_tick(self):
        run = self.run_configured(f"[targets]\npid = {self.victim_.pid}\n", *HZ)
        for _ in range(8):
            run.child.process.send_signal(signal.SIGHUP)
            time.sleep(0.1)
        run.wait_events(50)
        result = run.stop()         # ticks = delivered + lost, over all of them
        self.assertGreaterEqual(len(self.manager.of("RELOADING")), 2)
        self.assertEqual(result.summary["lost"], 0, result.summary["lost_by_reason"])

    def test_does_not_start_the_duration_anew(self):
        run = self.run_configured(f"[targets]\npid = {self.victim_.pid}\n", "--duration", "3s")
        run.wait_events(1)
        self.reload(run)
        result = run.wait()
        self.assertLess(result.summary["duration_ns"], 3.9e9)
        self.assertGreater(result.summary["duration_ns"], 2.9e9)

    def test_gives_way_to_the_end(self):
        run = self.run_configured(f"[targets]\npid = {self.victim_.pid}\n")
        run.wait_events(1)
        os.kill(run.pid, signal.SIGHUP)
        result = run.stop(signal.SIGTERM)
        self.assertEqual(result.summary["lost"], 0, result.summary["lost_by_reason"])

    def test_hears_the_end_in_the_moment_of_the_change(self):
        """The answer that ends the flush of a reload and SIGTERM are both there when the daemon looks."""
        for _ in range(5):
            held, arrived, answer = threading.Event(), threading.Event(), threading.Event()

            def play(connection, server):
                if held.is_set():
                    arrived.set()
                    answer.wait(tap.PATIENCE)
                return fault_server.ok()(connection, server)

            server = fault_server.Server([play])
            self.addCleanup(server.close)
            self.addCleanup(answer.set)
            self.configure(f"[targets]\npid = {self.victim_.pid}\n[sampling]\nfrequency = 499\n")
            run = self.start("--config", self.file, endpoint=server.url("/"))
            tap.wait_until(lambda: server.requests, "profiles")
            held.set()
            os.kill(run.pid, signal.SIGHUP)
            tap.wait_until(lambda: "reading the configuration anew" in run.log, "the reload")
            tap.wait_until(arrived.is_set, "the request that flushes")
            os.kill(run.pid, signal.SIGSTOP)
            self.wait_stopped(run)
            answer.set()
            tap.wait_until(lambda: self.unread(server.port), "the answer at the daemon's socket")
            os.kill(run.pid, signal.SIGTERM)
            os.kill(run.pid, signal.SIGCONT)
            self.assertEqual(run.child.wait(), 0, run.child)
            self.assertEqual(len(re.findall("at 499 Hz", run.log)), 1, run.log)

    def test_hears_another_reload_while_it_flushes_for_one(self):
        held, arrived, answer = threading.Event(), threading.Event(), threading.Event()

        def play(connection, server):
            if held.is_set():
                arrived.set()
                answer.wait(tap.PATIENCE)
            return fault_server.ok()(connection, server)

        def configure(frequency):
            self.configure(f"[targets]\npid = {self.victim_.pid}\n[sampling]\nfrequency = {frequency}\n")

        server = fault_server.Server([play])
        self.addCleanup(server.close)
        self.addCleanup(answer.set)
        configure(499)
        run = self.start("--config", self.file, endpoint=server.url("/"))
        tap.wait_until(lambda: server.requests, "profiles")
        held.set()
        configure(397)
        os.kill(run.pid, signal.SIGHUP)
        tap.wait_until(arrived.is_set, "the request that flushes")
        configure(199)
        os.kill(run.pid, signal.SIGHUP)
        tap.wait_until(lambda: run.log.count("reading the configuration anew") == 2, "the second reload")
        answer.set()
        tap.wait_until(lambda: "at 199 Hz" in run.log, "the configuration that was read last")
        self.assertNotIn("at 397 Hz", run.log)
        self.assertEqual(run.stop().summary["lost"], 0, run.log)

    def test_ends_by_itself_though_a_signal_comes_in_between(self):
        """The victim's exit ends the daemon; a signal while it flushes does not cut that short."""
        for _ in range(5):
            victim = self.victim("chain", 5)
            run = self.start("--pid", victim.pid, "--frequency", 499)
            run.wait_events(20, victim.pid)
            victim.stop()
            result = run.stop(signal.SIGTERM) if run.child.status is None else run.wait()
            self.assertEqual(result.summary["lost"], 0, result.summary["lost_by_reason"])

    def test_is_the_end_on_a_terminal(self):
        leader, follower = os.openpty()
        self.addCleanup(os.close, leader)
        run = self.spawn([tap.SPANPROF, "run", "--pid", self.victim_.pid], stdin=follower,
                         env=session.clean_environment())
        os.close(follower)
        run.wait_for("profiles go to")
        self.assertEqual(run.stop(signal.SIGHUP), 0, run)


class Notification(Case):
    def test_tells_ready_reloading_and_stopping_in_order(self):
        run = self.run_configured(f"[targets]\npid = {self.victim_.pid}\n")
        self.manager.wait("READY", "1")
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.reload(run)
        tap.wait_until(lambda: any(re.match(r"\d+ targets, \d+ samples delivered, \d+ lost", s)
                                   for s in self.manager.of("STATUS")), "a STATUS= with what was done")
        run.stop()
        stages = [key for m in self.manager.read() for key in ("READY", "RELOADING", "STOPPING") if key in m]
        self.assertEqual(stages, ["READY", "RELOADING", "READY", "STOPPING"])
        reloading = next(m for m in self.manager.messages if "RELOADING" in m)
        self.assertGreaterEqual(int(reloading["MONOTONIC_USEC"]), before)

    def test_feeds_the_watchdog_from_the_loop_alone(self):
        run = self.run_configured(f"[targets]\npid = {self.victim_.pid}\n", WATCHDOG_USEC="400000")
        self.manager.wait("WATCHDOG", "1")
        run.child.process.send_signal(signal.SIGSTOP)       # a loop that does not turn
        self.wait_stopped(run)
        n = len(self.manager.read())
        time.sleep(1)
        self.assertEqual(len(self.manager.read()), n)
        run.child.process.send_signal(signal.SIGCONT)
        self.manager.wait("WATCHDOG", "1", n)
        run.stop()


tap.main()
