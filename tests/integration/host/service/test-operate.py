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
import subprocess
import threading
import time

import fault_server
import prometheus
import real_server
import session
import tap
from unix_http import Unix, ask, ask_once

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
        self.victim_ = self.victim("chain", 5, rests=True)
        self.file = self.directory() / "spanprof.conf"

    def configure(self, text):
        self.file.write_text(text)

    def run_configured(self, text, *options, **environment):
        self.configure(text)
        self.control = self.directory() / "control.sock"
        return self.start("--config", self.file, "--control", self.control, *options,
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
    def reloads(self, run):
        """Counted so far, by the metrics that an alert asks for."""
        families = prometheus.parse(ask(Unix(self.control), "/metrics", "GET")[1])
        return {result: prometheus.value(families, "spanprof_reloads_total", result=result)
                for result in ("applied", "refused")}

    def unit_reload(self, run):
        """What `systemctl reload` does: each ExecReload= of our unit, and the first that fails is its result."""
        unit = (tap.BUILD_DIR / "systemd/spanprof.service").read_text()
        for line in re.findall(r"^ExecReload=(.+)$", unit, re.M):
            words = line.replace("$MAINPID", str(run.pid)).split()
            if words[0].endswith("/spanprof"):
                words[0] = tap.SPANPROF
            done = subprocess.run(words, env={**os.environ, "SPANPROF_CONFIG": str(self.file)}, capture_output=True,
                                  text=True)
            if done.returncode:
                return done
        return done

    def test_by_the_unit_fails_when_the_new_one_is_wrong(self):
        run = self.run_configured(f"[targets]\npid = {self.victim_.pid}\n")
        run.wait_events(1)
        self.configure(f"[targets]\npid = {self.victim_.pid}\ncomm = [abc\n")
        done = self.unit_reload(run)
        self.assertEqual(done.returncode, 78, done)
        self.assertIn(f"{self.file}:3: comm", done.stderr)
        tap.wait_until(lambda: self.reloads(run) == {"applied": 0, "refused": 1}, "the daemon's own refusal")
        self.configure(f"[targets]\npid = {self.victim_.pid}\n")
        self.assertEqual(self.unit_reload(run).returncode, 0)
        tap.wait_until(lambda: self.reloads(run)["applied"] == 1, "the new configuration")
        run.stop()

    def test_applies_what_has_changed(self):
        run = self.run_configured(f"[targets]\npid = {self.victim_.pid}\n[sampling]\nfrequency = 499\n")
        run.wait_events(1, self.victim_.pid)
        other = self.victim("chain", 5, rests=True)
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
        self.assertEqual(self.reloads(run), {"applied": 0, "refused": 1})
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
        self.assertEqual(self.reloads(run), {"applied": 0, "refused": 1})
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

    def serving(self, path):
        """A configuration whose metrics are at @path, a socket or ADDRESS:PORT."""
        return f"[targets]\npid = {self.victim_.pid}\n[daemon]\nmetrics = {path}\n"

    def test_cuts_off_no_client(self):
        """Who asks in its midst is answered, at each try: by the control socket, the metrics and `status`."""
        metrics = self.directory() / "metrics.sock"
        run = self.run_configured(self.serving(metrics))
        run.wait_events(1)
        over, problems, counts = threading.Event(), [], []

        def keep_asking(path, pages):
            n = 0
            while not over.is_set():
                for page in pages:
                    try:
                        status = ask_once(Unix(path), page)[0]
                    except OSError as problem:
                        status = problem
                    if status != 200:
                        problems.append((str(path), page, status))
                n += 1
            counts.append(n)

        def keep_saying():
            n = 0
            while not over.is_set():
                done = self.spanprof("status", "--json", "--control", self.control, expect=None)
                # its patience is 5 s, which a busy machine may need for the change itself
                if done.returncode and "the daemon does not answer" not in done.stderr:
                    problems.append(done)
                n += 1
            counts.append(n)

        threads = [threading.Thread(target=keep_asking, args=(self.control, ("/status.json", "/metrics"))),
                   threading.Thread(target=keep_asking, args=(metrics, ("/metrics", "/healthz"))),
                   threading.Thread(target=keep_saying)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            self.reload(run)
        over.set()
        for thread in threads:
            thread.join()
        run.stop()
        self.assertEqual(problems, [])
        self.assertEqual(len([n for n in counts if n]), 3, counts)

    def test_answers_a_request_that_it_comes_into(self):
        """Half of it before, half after; a connection is given up when its headers take too long, so it may need a few."""
        run = self.run_configured(f"[targets]\npid = {self.victim_.pid}\n")
        run.wait_events(1)

        def answered():
            connection = Unix(self.control)
            connection.connect()
            connection.sock.sendall(b"GET /metrics HTTP/1.0\r\n")
            ask(Unix(self.control), "/healthz")         # which is accepted later, and answered: so is that one
            self.reload(run)
            try:
                connection.sock.sendall(b"\r\n")
                return connection.sock.recv(64).startswith(b"HTTP/1.")
            except (BrokenPipeError, ConnectionResetError):
                return False
            finally:
                connection.close()

        self.assertTrue(any(answered() for _ in range(5)))
        run.stop()

    def test_moves_sockets_and_takes_them_back(self):
        first, second = (self.directory() / "metrics.sock" for _ in range(2))
        second.parent.chmod(0o777)      # made by a daemon that is not root any more
        run = self.run_configured(self.serving(first))
        run.wait_events(1)
        for path in (second, first, second):
            self.configure(self.serving(path))
            self.reload(run)
            self.assertEqual([ask(Unix(where), "/healthz")[0] for where in (path, self.control)], [200, 200])
        second.unlink()                 # somebody tidied up: a reload makes it anew
        self.reload(run)
        self.assertEqual([ask(Unix(where), "/healthz")[0] for where in (second, self.control)], [200, 200])
        run.stop()

    def test_moves_a_port_to_all_addresses_and_back(self):
        port, = real_server.free_ports(1)
        run = self.run_configured(self.serving(f"127.0.0.1:{port}"))
        run.child.wait_for(rf"metrics are at http://127.0.0.1:{port}/")
        before = len(run.log)
        for address in ("0.0.0.0", "127.0.0.1"):
            self.configure(self.serving(f"{address}:{port}"))
            self.reload(run)
            with real_server.DIRECT.open(f"http://127.0.0.1:{port}/healthz") as answer:
                self.assertEqual(answer.status, 200)
        self.assertNotIn("cannot listen", run.log[before:])
        run.stop()

    def test_does_not_start_the_duration_anew(self):
        run = self.run_configured(f"[targets]\npid = {self.victim_.pid}\n", "--duration", "5s")
        ready = time.monotonic()
        tap.wait_until(lambda: len(run.receiver.paths()) > 1, "two windows of a second")
        before = time.monotonic() - ready
        self.reload(run)
        seconds = run.wait().summary["duration_ns"] / 1e9
        self.assertGreater(seconds, 4.9)
        self.assertLess(seconds, before + 4.9, "what it is if it begins anew")

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
            session.wait_cpu([self.victim_.pid], 0.05)  # else the window that is flushed may have no sample
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
        run = self.start("--config", self.file, "--stop-timeout", "60s", endpoint=server.url("/"))
        tap.wait_until(lambda: server.requests, "profiles")
        held.set()
        # an export that was not held may have just gone: the window that is flushed needs a sample
        session.wait_cpu([self.victim_.pid], 0.05)
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
            victim = self.victim("chain", 5, rests=True)
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
