#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looking at a running daemon and steering it: status, metrics, readiness, pause, kill switch, limits on itself."""
import oracle

oracle.enter()

import fcntl
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import threading

import fault_server
import drip
import prometheus
import session
import tap
from unix_http import Unix, ask


class Case(session.TestCase):
    rests = True            # the victim: no case waits until it has used some CPU time

    def begin(self, *options, **more):
        """A daemon with a control socket and a victim: (run, victim)."""
        self.socket = self.directory() / "control.sock"
        victim = self.victim("chain", 5, rests=self.rests)
        run = self.start("--control", self.socket, "-p", victim.pid, "--frequency", 499, *options, **more)
        return run, victim

    def ask(self, path, method="GET"):
        return ask(Unix(self.socket), path, method)

    def status(self):
        return json.loads(self.spanprof("status", "--json", "--control", self.socket).stdout)

    def metrics(self):
        status, text, headers = self.ask("/metrics")
        self.assertEqual(status, 200)
        self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        return prometheus.parse(text)


class Status(Case):
    def test_says_what_was_done(self):
        run, _ = self.begin()
        run.wait_events(20)
        status = tap.wait_until(lambda: (s := self.status())["delivered"] and s, "samples delivered")
        self.assertEqual(status["pid"], run.pid)
        self.assertEqual(status["targets"], 1)
        self.assertEqual(status["endpoint"], run.receiver.url + "/v1development/profiles")
        self.assertIsNone(status["paused"])
        self.assertIsNone(status["unready"])
        self.assertEqual(status["ticks"], status["delivered"] + status["lost"] + status["pending"])
        self.assertAlmostEqual(status["resident_bytes"] / 4096,
                               int(pathlib.Path(f"/proc/{run.pid}/statm").read_text().split()[1]), delta=512)
        text = self.spanprof("status", "--control", self.socket).stdout
        self.assertIn(f"pid {run.pid}, up ", text)
        self.assertIn(status["coverage_cause"], ("", "lost", "throttled", "stolen", "late", "unseen"))
        tap.wait_until(lambda: self.status()["coverage_ratio"] > 0, "a window of which the CPU time is known")
        self.assertRegex(self.spanprof("status", "--control", self.socket).stdout, r"\ncoverage +[\d.]+ % of \d+ samples")
        self.assertIn("499 Hz on ", text)
        self.assertIn("targets      1 of ", text)
        result = run.stop()
        self.assertGreaterEqual(result.summary["delivered"], status["delivered"])
        self.assertFalse(self.socket.exists() and self.connects())

    def test_says_which_settings_are_in_force_and_why(self):
        state = self.directory()
        state.chmod(0o777)
        configuration = self.directory() / "spanprof.conf"
        configuration.write_text("[daemon]\nmax-memory = 384MiB\n")
        run, _ = self.begin("--config", configuration, environment={"STATE_DIRECTORY": str(state),
                                                                    "SPANPROF_MAX_CPU": "90"})
        settings = {name: (entry["value"], entry["origin"]) for name, entry in self.status()["settings"].items()}
        self.assertEqual(settings["spool"], (f"{state}/spool", "STATE_DIRECTORY"))
        self.assertEqual(settings["max-memory"], ("384MiB", f"{configuration}:2"))
        self.assertEqual(settings["max-cpu"], ("90", "SPANPROF_MAX_CPU"))
        self.assertEqual(settings["control"], (str(self.socket), "command line"))
        self.assertEqual((settings["host-id"], settings["symbols"]), (("hashed", "default"), ("remote", "default")))
        uid = re.search(r"\nUid:\t(\d+)", pathlib.Path(f"/proc/{run.pid}/status").read_text())[1]
        self.assertEqual(settings["run-as"], (uid, "default: who runs it"))
        text = self.spanprof("status", "--control", self.socket).stdout
        self.assertIn(f"\nsettings     spool = {state}/spool (STATE_DIRECTORY)\n", text)
        self.assertIn(f"\n             max-memory = 384MiB ({configuration}:2)\n", text)
        run.stop()

    def test_says_that_nothing_outlives_a_daemon_without_a_spool(self):
        run, _ = self.begin()
        self.assertIn("settings     spool =  (default: none, what cannot be sent waits in memory)",
                      self.spanprof("status", "--control", self.socket).stdout)
        run.stop()

    def connects(self):
        try:
            Unix(self.socket).connect()
        except OSError:
            return False
        return True

    def test_the_daemon_has_given_up_what_it_does_not_need(self):
        run, _ = self.begin()
        text = pathlib.Path(f"/proc/{run.pid}/status").read_text()
        self.assertIn("NoNewPrivs:\t1", text)
        self.assertIn("Seccomp:\t2", text)
        run.stop()

    def test_a_log_that_nobody_reads_holds_up_nothing(self):
        pipe = self.directory() / "log"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
        run, _ = self.begin(prefix=["sh", "-c", f'exec "$@" 2>{pipe}', "sh"], ready=False)
        tap.wait_until(self.connects, "it listens")

        def lost():
            self.assertEqual([self.ask(path, "POST")[0] for path in ("/pause", "/resume")], [200, 200])
            return prometheus.value(self.metrics(), "spanprof_log_messages_lost_total")

        tap.wait_until(lost, "messages are lost")
        run.wait_events(20)
        os.read(reader, 1 << 16)
        lost()
        self.assertRegex(
            os.read(reader, 1 << 16).decode(),
            r"^spanprof: messages that are missing here, since nobody read them: \d+\n")
        run.stop(check=False)
        self.assertEqual(run.child.status, 0)

    def test_a_journal_that_nobody_reads_holds_up_nothing(self):
        """Its socket is in a mount namespace of the daemon's own; standard error is what JOURNAL_STREAM names."""
        folder = self.directory()
        journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(journal.close)
        journal.bind(str(folder / "socket"))
        (folder / "socket").chmod(0o666)        # as systemd makes it: the daemon is not root by then
        script = (
            f"mount -t tmpfs none /run && mkdir -p /run/systemd/journal && mount --bind {folder} /run/systemd/journal && "
            'JOURNAL_STREAM=$(stat --dereference --format %d:%i /proc/self/fd/2) exec "$@"')
        other = self.victim("chain", 5, rests=True)
        run, _ = self.begin(
            "-p", other.pid, "--log-level", "debug", ready=False,
            prefix=["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"])
        tap.wait_until(self.connects, "it listens")

        def lost():
            self.assertEqual([self.ask(path, "POST")[0] for path in ("/pause", "/resume")], [200, 200])
            return prometheus.value(self.metrics(), "spanprof_log_messages_lost_total")

        entries = []                # field → value

        def read():
            try:
                while True:
                    entries.append(
                        dict(
                            line.split("=", 1)
                            for line in journal.recv(1 << 16, socket.MSG_DONTWAIT).decode().splitlines()))
            except BlockingIOError:
                return sum(
                    int(n) for e in entries
                    for n in re.findall("missing here, since nobody read them: (.+)", e["MESSAGE"]))

        tap.wait_until(lost, "messages are lost")
        run.wait_events(20)
        read()
        tap.wait_until(lambda: lost() == read(), "it says how many are missing")
        self.assertEqual(
            {(e["SYSLOG_IDENTIFIER"], e["PRIORITY"].isdigit(), bool(e["MESSAGE"])) for e in entries},
            {("spanprof", True, True)})
        other.stop()
        tap.wait_until(lambda: read() >= 0 and str(other.pid) in {e.get("TARGET_PID") for e in entries},
                       "word of the target that has gone")
        self.assertTrue(
            any(e.get("REASON") and re.fullmatch("[0-9a-f]{32}", e["MESSAGE_ID"]) for e in entries))
        self.assertEqual(run.child.err, "")
        run.stop(check=False)
        self.assertEqual(run.child.status, 0)

    def test_whoever_answers_drives_no_terminal(self):
        path = self.directory() / "status.sock"
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(path))
        listener.listen()
        said = "spanprof \x1b[2J\u202eb\nlost 7\u200b\n".encode()

        def answer():
            for head in (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 503 No\r\n"):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(said) +
                                       said)

        thread = threading.Thread(target=answer)
        thread.start()
        self.addCleanup(thread.join)
        self.assertEqual(self.spanprof("status", "--control", path).stdout, "spanprof ?[2J?b\nlost 7?\n")
        self.assertIn("the daemon says: 503 spanprof ?[2J?b?lost 7??",
                      self.spanprof("status", "--control", path, expect=1).stderr)

    def test_fails_when_none_runs(self):
        done = self.spanprof("status", "--control", self.directory() / "none.sock", expect=1)
        self.assertIn("no spanprof runs here", done.stderr)

    def test_socket_is_for_its_owner_and_group_alone(self):
        run, _ = self.begin(prefix=["sh", "-c", 'umask 0; exec "$@"', "sh"])
        self.assertEqual(stat.S_IMODE(self.socket.stat().st_mode), 0o660)
        nobody = self.run_command([
            "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", tap.SPANPROF,
            "pause", "--control", self.socket
        ])
        self.assertEqual(nobody.returncode, 1)
        self.assertIsNone(self.status()["paused"])
        run.stop()

    def test_a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not(self):
        run, victim = self.begin()
        other = self.start("--control", self.socket, "-p", victim.pid, ready=False)
        other.child.wait_for("another spanprof does; runs without and tries again")
        other.wait_events(1)
        self.assertEqual(self.status()["pid"], run.pid)
        other.stop()
        run.child.kill()
        tap.wait_until(lambda: not self.socket.exists(), "its end: it takes its socket along")
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(self.socket))
        again = self.start("--control", self.socket, "-p", victim.pid)
        self.assertEqual(self.status()["pid"], again.pid)
        again.stop()


class Metrics(Case):
    def test_are_well_formed_and_named_by_convention(self):
        run, _ = self.begin()
        run.wait_events(20)
        self.assertEqual(prometheus.lint(self.metrics()), [])
        run.stop()

    def test_pass_the_linter_of_prometheus(self):
        run, _ = self.begin()
        run.wait_events(20)
        text = self.ask("/metrics")[1]
        self.assertEqual(prometheus.judge(self, "metrics", text=text), (0, []))
        status, lines = prometheus.judge(
            self, "metrics", text=text.replace("TYPE spanprof_ticks_total counter",
                                               "TYPE spanprof_ticks_total gauge"))
        self.assertEqual((status, [line.split(":")[0] for line in lines]), (1, ["spanprof_ticks_total"]))
        run.stop()

    def test_hold_every_counter_of_the_table(self):
        run, _ = self.begin()
        families = self.metrics()
        table = (tap.SOURCE_DIR / "bpf/border/counters.h").read_text()
        lines = re.findall(r'^ +X\(\w+, "(\w+)", "([^,]*?)",', table.replace('\\"', "'"), re.M)
        self.assertGreater(len(lines), 80)
        self.assertEqual(len(lines), len(re.findall(r"^ +X\(\w+, ", table, re.M)))
        for metric, label in lines:
            name = "spanprof_" + metric.replace("_nanoseconds_total", "_seconds_total")
            self.assertIn(name, families)
            labels = tuple(re.findall(r"(\w+)='(\w*)'", label))
            self.assertIn(labels, families[name].samples, (metric, label))
        run.stop()

    def test_stand_in_the_page_of_metrics_with_type_and_labels(self):
        """docs/METRICS.md is made from the sources; this daemon says what it really serves."""
        run, _ = self.begin("--off-cpu")
        families = self.metrics()
        run.stop()
        page = (tap.SOURCE_DIR / "docs/METRICS.md").read_text()
        rows = {}
        for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+) \| `?([^|`]*)`? \|", page, re.M):
            rows.setdefault((name, kind), set()).update(re.findall(r"(\w+)(?:=\"\w+\")?", labels))
        self.assertGreater(len(families), 100)
        for name, family in families.items():
            self.assertIn((name, family.type), rows)
            shown = {label for labels in family.samples for label, _ in labels}
            self.assertLessEqual(shown, rows[name, family.type], name)

    def test_tell_the_receivers_apart(self):
        """One takes, one refuses, one is away: each has its own series, and the books are those of the first."""
        refusing = fault_server.Server([fault_server.status(400)])
        self.addCleanup(refusing.close)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            closed = listener.getsockname()[1]
        configuration = self.directory() / "spanprof.conf"
        configuration.write_text(
            f"[export refusing]\nendpoint = {refusing.url('')}\n"
            f"[export away]\nendpoint = http://127.0.0.1:{closed}\nspool = {self.directory() / 'spool'}\n")
        run, victim = self.begin("--config", configuration)
        run.wait_events(20)
        victim.process.send_signal(signal.SIGSTOP)

        def settled():
            """Every request has its outcome everywhere. Nothing is sampled any more, so that a second look sees the same."""
            families = self.metrics()
            value = lambda name, receiver, **labels: prometheus.value(families, f"spanprof_receiver_{name}",
                                                                      receiver=receiver, **labels)
            n = prometheus.value(families, "spanprof_samples_delivered_total")
            pending = prometheus.value(families, "spanprof_ticks_total") - n - sum(
                families["spanprof_lost_total"].samples.values())
            same = n == value("lost_total", "refusing", reason="export_refused") == value(
                "spool_samples", "away")
            return (n and not pending and same) and (families, value, n)

        families, value, n = tap.wait_until(settled, "outcomes at each receiver")
        self.assertEqual(prometheus.lint(families), [])
        self.assertEqual(
            [value("samples_delivered_total", name) for name in ("[export]", "refusing", "away")], [n, 0, 0])
        self.assertEqual(value("lost_total", "[export]", reason="export_refused"), 0)
        self.assertEqual([value("failing", name) for name in ("[export]", "refusing", "away")], [0, 0, 1])
        self.assertEqual([value("unsaved_samples", name) for name in ("[export]", "refusing", "away")],
                         [0, 0, 0])
        self.assertEqual(prometheus.value(families, "spanprof_lost_total", reason="export_refused"), 0)
        self.assertEqual([value("spool_bytes", name) > 0 for name in ("refusing", "away")], [False, True])
        self.assertEqual(value("spool_max_bytes", "away"), 1 << 30)
        receivers = {r["name"]: r for r in self.status()["receivers"]}
        self.assertEqual(
            {name: (r["delivered"], r["lost"], r["in_spool"], r["failing"]) for name, r in receivers.items()},
            {"": (n, 0, 0, False), "refusing": (0, n, 0, False), "away": (0, 0, n, True)})
        text = self.spanprof("status", "--control", self.socket).stdout
        self.assertRegex(
            text,
            rf"receiver +\[export\] http://127.0.0.1:\d+/v1development/profiles: {n:.0f} samples delivered, 0 lost, 0 wait, 0 in its spool; last accepted \d+ s ago\n"
        )
        self.assertIn(
            f"receiver     [export refusing] {refusing.url('')}/v1development/profiles: 0 samples delivered, {n:.0f} lost",
            text)
        self.assertRegex(
            text,
            rf"\[export away\] .*: 0 samples delivered, 0 lost, 0 wait, {n:.0f} in its spool; has accepted nothing, FAILING\n"
        )
        result = run.stop()
        self.assertIn(f"[export away]: 0 samples delivered, 0 lost, {n:.0f} left in its spool", result.log)

    def test_say_what_the_cpu_time_of_targets_stands_for(self):
        run, _ = self.begin()
        tap.wait_until(lambda: prometheus.value(self.metrics(), "spanprof_expected_ticks_total") > 50, "CPU time")
        result = run.stop()
        rate = result.summary["frequency"] * 1.25 * result.summary["target_cpu_ns"] / 1e9
        self.assertLessEqual(result.counter("expected_ticks_total"), rate, "periods are drawn from 0.75 to 1.25")

    def test_agree_with_the_summary_and_with_proc(self):
        run, victim = self.begin()
        run.wait_events(20)
        victim.process.send_signal(signal.SIGSTOP)
        tap.wait_until(lambda: not self.status()["pending"], "all that was sampled has arrived")
        families = self.metrics()
        value = lambda name, **labels: prometheus.value(families, name, **labels)
        # connections
        self.assertAlmostEqual(value("process_open_fds"), len(os.listdir(f"/proc/{run.pid}/fd")), delta=3)
        started = float(self.run_command(["stat", "-c", "%Y", f"/proc/{run.pid}"]).stdout)
        self.assertAlmostEqual(value("process_start_time_seconds"), started, delta=3)
        self.assertGreater(value("spanprof_stage_seconds_total", stage="drain"), 0)
        self.assertLess(value("spanprof_export_age_seconds"), 60)
        ticks, delivered = value("spanprof_ticks_total"), value("spanprof_samples_delivered_total")
        result = run.stop()
        self.assertEqual(ticks, result.summary["ticks"] + result.summary["not_target"])
        self.assertEqual(delivered, result.summary["delivered"])

    def test_are_served_on_a_port_that_steers_nothing(self):
        run, _ = self.begin("--metrics", "127.0.0.1:0")
        port = int(run.child.wait_for(r"metrics are at http://127\.0\.0\.1:(\d+)/metrics")[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=tap.PATIENCE)
        self.assertEqual(prometheus.lint(prometheus.parse(ask(connection, "/metrics")[1])), [])
        self.assertEqual(ask(connection, "/pause", "POST")[0], 405)
        self.assertEqual(ask(connection, "/status")[0], 404)
        self.assertIsNone(self.status()["paused"])
        run.stop()

    def test_a_wrong_address_is_a_wrong_configuration(self):
        for address, status in (("9464", 2), ("127.0.0.1:", 2), ("127.0.0.1:99999", 2),
                                ("/nonexistent/directory/socket", 78)):
            self.spanprof("run", "--metrics", address, "--comm", "nobody", expect=status)


class Probes(Case):
    def test_a_dead_collector_fails_neither(self):
        closed = socket.socket()
        closed.bind(("127.0.0.1", 0))
        run, _ = self.begin(endpoint=f"http://127.0.0.1:{closed.getsockname()[1]}")
        tap.wait_until(
            lambda: self.status()["queued_samples"] > 0 or prometheus.value(self.metrics(
            ), "spanprof_export_requests_total", result="retry"), "a failed export")
        self.assertEqual(self.ask("/healthz")[:2], (200, "ok\n"))
        self.assertEqual(self.ask("/readyz")[:2], (200, "ok\n"))
        run.child.kill()

    def test_a_stuck_loop_does_not_answer(self):
        run, _ = self.begin()
        run.child.process.send_signal(signal.SIGSTOP)
        connection = Unix(self.socket)
        connection.timeout = 0.5
        with self.assertRaises(TimeoutError):
            connection.connect()
            connection.sock.settimeout(0.5)
            ask(connection, "/healthz")
        run.child.process.send_signal(signal.SIGCONT)
        self.assertEqual(self.ask("/healthz")[0], 200)
        run.stop()

    def test_are_answered_again_when_those_who_only_held_connections_are_gone(self):
        """Anybody may connect to a port: as often as it allows, and say nothing. First they leave, then they are sent away."""
        run, _ = self.begin("--metrics", "127.0.0.1:0")
        port = int(run.child.wait_for(r"metrics are at http://127\.0\.0\.1:(\d+)/metrics")[1])

        def answer():
            return ask(http.client.HTTPConnection("127.0.0.1", port, timeout=tap.PATIENCE), "/healthz")[:2]

        for leave in (True, False):
            idle = [drip.connect(port, i) for i in range(300)]
            tap.wait_until(lambda: len(os.listdir(f"/proc/{run.pid}/fd")) > 256, "as many as it allows")
            run.child.process.send_signal(signal.SIGSTOP)       # all in one turn of its loop
            for connection in idle if leave else ():
                connection.close()
            run.child.process.send_signal(signal.SIGCONT)
            self.assertEqual(answer(), (200, "ok\n"))
        run.wait_events(20)
        run.stop()

    def test_are_answered_while_hundreds_send_a_byte_now_and_then(self):
        """Each byte would put off a timeout for silence. By exec nobody on the network is asked at all."""
        run, _ = self.begin("--metrics", "127.0.0.1:0")
        port = int(run.child.wait_for(r"metrics are at http://127\.0\.0\.1:(\d+)/metrics")[1])
        for own_addresses in (True, False):
            with drip.Crowd(port, 400, b"GET /healthz HTTP/1.1\r\nX: ", own_addresses=own_addresses) as crowd:
                for path in ("/healthz", "/readyz", "/metrics") * 2:
                    self.assertEqual(
                        ask(http.client.HTTPConnection("127.0.0.1", port, timeout=tap.PATIENCE), path)[0],
                        200)
                self.assertEqual(self.probe("health"), (0, "ok\n"))
                tap.wait_until(lambda: crowd.n_closed > 0, "connections that are closed")
        with drip.Crowd(port, 10, b"GET /healthz HTTP/1.1\r\nX: ", comes_back=False) as crowd:
            tap.wait_until(lambda: crowd.n_closed == 10, "headers that are never whole end")
        families = self.metrics()
        closed = lambda reason: prometheus.value(families, "spanprof_connections_closed_total", reason=reason)
        self.assertGreater(closed("full"), 0)
        self.assertGreater(closed("address_full"), 0)
        self.assertGreaterEqual(closed("slow_headers"), 10)
        self.assertIn("closed a connection of 127.0.0.", run.child.err)
        run.wait_events(20)
        run.stop()

    def probe(self, which, socket=None):
        done = self.spanprof("status", "--probe", which, "--control", socket or self.socket, expect=None)
        return done.returncode, done.stdout

    def test_by_exec_say_what_the_pages_say(self):
        run, _ = self.begin()
        self.assertEqual([self.probe("health"), self.probe("ready")], [(0, "ok\n"), (0, "ok\n")])
        self.spanprof("pause", "--control", self.socket)
        self.assertEqual(self.probe("ready"), (0, "ok, paused\n"))
        self.spanprof("resume", "--control", self.socket)
        self.assertEqual(self.probe("health", self.directory() / "none.sock")[0], 1)
        run.child.process.send_signal(signal.SIGSTOP)
        self.assertEqual(self.probe("health"), (1, ""), "a loop that does not turn")
        run.child.process.send_signal(signal.SIGCONT)
        self.assertEqual(self.probe("health"), (0, "ok\n"))
        self.spanprof("status", "--probe", "life", "--control", self.socket, expect=2)
        run.stop()


class Pause(Case):
    rests = False

    def assert_no_ticks(self, victim):
        before = self.status()["ticks"]
        session.wait_cpu([victim.pid], 0.5)
        self.assertEqual(self.status()["ticks"], before)

    def test_stops_and_goes_on(self):
        run, victim = self.begin()
        run.wait_events(5)
        self.spanprof("pause", "--control", self.socket)
        self.assertEqual(self.status()["paused"], "command")
        self.assertIn("paused (command)", self.spanprof("status", "--control", self.socket).stdout)
        metric = lambda name: prometheus.value(self.metrics(), name)
        expected, n = metric("spanprof_expected_ticks_total"), metric("spanprof_windows_total")
        self.assert_no_ticks(victim)
        tap.wait_until(lambda: metric("spanprof_windows_total") > n, "a window within the pause")
        self.assertEqual(metric("spanprof_expected_ticks_total"), expected)
        self.assertEqual(self.ask("/readyz")[:2], (200, "ok, paused\n"))
        self.spanprof("resume", "--control", self.socket)
        before = self.status()["ticks"]
        tap.wait_until(lambda: self.status()["ticks"] > before, "ticks")
        self.assertEqual(prometheus.value(self.metrics(), "spanprof_pauses_total", reason="command"), 1)
        result = run.stop()
        periods = {sample.period for sample in result.samples}
        self.assertTrue(all(1e9 / 499 * 0.6 < period < 1e9 / 499 * 1.6 for period in periods), periods)

    def test_outlives_a_reload(self):
        run, victim = self.begin()
        self.spanprof("pause", "--control", self.socket)
        run.child.process.send_signal(signal.SIGHUP)
        run.child.wait_for(r"(?s)profiles go to.*profiles go to")
        self.assertEqual(self.status()["paused"], "command")
        self.assert_no_ticks(victim)
        run.stop()


class HostShare(Case):
    rests = False

    def test_a_host_samples_in_its_turns_alone(self):
        """Half of the hosts, 3 s each."""
        run, victim = self.begin("--sample-hosts", "50%/3s", "--export-interval", "1s")

        def pauses():
            return prometheus.value(self.metrics(), "spanprof_pauses_total", reason="hosts")

        def silent():
            """Ticks before and after some work, if both lie in one turn of other hosts. There is some work in
            front of it: ticks of the turn before may be on their way."""
            n = pauses()
            if self.status()["paused"] != "sample-hosts":
                return None
            session.wait_cpu([victim.pid], 0.02)
            gauge = prometheus.value(self.metrics(), "spanprof_paused")
            before = self.status()
            session.wait_cpu([victim.pid], 0.05)        # 25 ticks
            after = self.status()
            return (before["ticks"], after["ticks"], gauge) if after["paused"] and n == pauses() else None

        before, after, gauge = tap.wait_until(silent, "a turn of other hosts", 120)
        self.assertEqual((before, gauge), (after, 0), "no alert: it is no fault")
        tap.wait_until(lambda: self.status()["paused"] is None, "this host's turn")
        run.wait_events(20)
        result = run.stop()
        self.assertEqual({sample.resource["spanprof.hosts.percent"] for sample in result.samples}, {"50"})

    def test_a_part_that_is_none_is_refused(self):
        self.assertIn("is not PERCENT%/TIME", self.spanprof("run", "--sample-hosts", "10", expect=2).stderr)


class Taken(Case):
    """Another process has the port or the socket at the start: not the end, and not for good."""

    def log_of_taken(self, run, name):
        run.child.wait_for(rf"cannot listen on [^\n]*; runs without and tries again[^\n]*`{name}`")
        self.assertNotIn("--port", run.log)

    def test_a_port_of_metrics(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            run, _ = self.begin("--metrics", f"127.0.0.1:{port}")
            self.log_of_taken(run, "metrics")
            run.wait_events(1)
        run.child.wait_for(rf"metrics are at http://127.0.0.1:{port}/metrics")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=tap.PATIENCE)
        connection.request("GET", "/healthz")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        run.stop()

    def test_the_control_socket(self):
        path = self.directory() / "control.sock"
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
            other.listen()
            run = self.start("--control", path, "-p", self.victim("chain", 5, rests=True).pid, "--run-as", "root")
            self.log_of_taken(run, "control")
            run.wait_events(1)
        tap.wait_until(lambda: self.answers(path), "the socket of the daemon")
        run.stop()

    def answers(self, path):
        try:
            return ask(Unix(path), "/healthz", "GET")[0] == 200
        except OSError:
            return False


class Spool(Case):
    """The spool that somebody has set, and that of the service."""
    OWN = ["unshare", "--mount", "sh", "-c",
           "mount -t tmpfs none /var/lib && mkdir -m 700 -p /var/lib/spanprof/spool && "
           "chown -R 65534:65534 /var/lib/spanprof && exec \"$@\"", "sh"]

    def test_one_that_was_set_and_cannot_be_made_is_an_end(self):
        path = self.directory() / "spanprof.conf"
        path.write_text("[export]\nspool = /proc/1/spool\n")
        for options in (["--spool", "/proc/1/spool"], ["--config", path]):
            run = self.start("-p", self.victim("chain", 5, rests=True).pid, *options, ready=False)
            self.assertEqual(run.child.wait(), 78, run.child)
            self.assertIn("spool /proc/1/spool: ", run.log)

    def test_that_of_the_service_is_done_without_and_shown(self):
        run, _ = self.begin(environment={"STATE_DIRECTORY": "/proc/1"})
        run.child.wait_for("spool /proc/1/spool: .*; samples that cannot be sent wait in memory alone")
        self.assertEqual(prometheus.value(self.metrics(), "spanprof_spools_unusable"), 1)
        self.assertIn("its spool cannot be used", self.spanprof("status", "--control", self.socket).stdout)
        run.stop()

    def test_that_of_the_service_is_found_from_outside(self):
        def ask_for(*words):
            return self.run_command([*self.OWN, tap.SPANPROF, *words], env=session.clean_environment(),
                                    expect=0).stdout

        self.assertIn("0 requests, 0 samples, 0 bytes in /var/lib/spanprof/spool", ask_for("spool", "ls"))
        self.assertRegex(ask_for("config", "show"),
                         r"(?m)^spool += /var/lib/spanprof/spool +# STATE_DIRECTORY of the service$")
        ask_for("spool", "flush", "--endpoint", "http://127.0.0.1:9")


class KillSwitch(Case):
    rests = False

    def begin_in_own_etc(self):
        """The daemon sees an /etc of its own, which we reach by its root."""
        if not os.path.exists("/proc/filesystems") or "overlay" not in pathlib.Path(
                "/proc/filesystems").read_text():
            tap.skip("kernel: no overlayfs")
        work = self.directory()
        subprocess.run(["mkdir", work / "up", work / "work"], check=True)
        mount = f'mount -t tmpfs none {work} && mkdir {work}/up {work}/work && ' \
                f'mount -t overlay overlay -o lowerdir=/etc,upperdir={work}/up,workdir={work}/work /etc && mkdir -p /etc/spanprof && exec "$@"'
        self.prefix = ["unshare", "--mount", "sh", "-c", mount, "sh"]

    def file(self, run):
        return pathlib.Path(f"/proc/{run.pid}/root/etc/spanprof/disabled")

    def test_stops_sampling_and_survives_a_restart(self):
        self.begin_in_own_etc()
        run, victim = self.begin(prefix=self.prefix)
        run.wait_events(5)
        self.file(run).touch()
        run.child.wait_for(r"sampling is paused \(disabled\)")
        before = self.status()["ticks"]
        session.wait_cpu([victim.pid], 0.5)
        self.assertEqual(self.status()["ticks"], before)
        done = self.spanprof("resume", "--control", self.socket, expect=1)
        self.assertIn("still paused: disabled", done.stderr)
        # a new daemon must not sample a single time
        run.child.process.send_signal(signal.SIGHUP)
        run.child.wait_for(r"(?s)profiles go to.*profiles go to")
        session.wait_cpu([victim.pid], 0.5)
        self.assertEqual(self.status()["ticks"], before)
        self.file(run).unlink()
        run.child.wait_for("sampling goes on")
        tap.wait_until(lambda: self.status()["ticks"] > before, "ticks")
        run.stop()

    def test_at_the_start_nothing_is_sampled(self):
        self.begin_in_own_etc()
        self.prefix[4] = self.prefix[4].replace("&& exec", "&& touch /etc/spanprof/disabled && exec")
        run, victim = self.begin(prefix=self.prefix)
        session.wait_cpu([victim.pid], 0.5)
        self.assertEqual(self.status()["ticks"], 0)
        self.assertEqual(prometheus.value(self.metrics(), "spanprof_sampler_entries_total"), 0)
        result = run.stop()
        self.assertEqual(result.summary["sampler_entries"], 0)


class Limits(Case):
    rests = False

    def test_too_much_memory_pauses_and_says_so(self):
        run, victim = self.begin("--max-memory", "1MiB")
        run.child.wait_for("above max-memory")
        tap.wait_until(lambda: self.status()["paused"] == "memory", "paused")
        before = self.status()["ticks"]
        session.wait_cpu([victim.pid], 0.3)
        self.assertEqual(self.status()["ticks"], before)
        self.assertEqual(prometheus.value(self.metrics(), "spanprof_pauses_total", reason="memory"), 1)
        run.stop()

    def test_too_much_cpu_lowers_the_frequency_and_the_period_stays_true(self):
        run, victim = self.begin("--max-cpu", 1, "--frequency", 8000, "--all")
        run.child.wait_for(r"sampling at 4000 Hz from now on, not 8000: our own CPU time (is|over ten seconds would be) above 1 %")
        self.assertLessEqual(self.status()["frequency"], 4000)
        before = len(run.receiver.paths())
        tap.wait_until(lambda: len(run.receiver.paths()) > before + 2, "windows at the new frequency")
        self.assertGreaterEqual(
            prometheus.value(self.metrics(), "spanprof_frequency_changes_total", direction="lowered"), 1)
        result = run.stop(check=False)
        last = max(sample.period for sample in result.samples)
        self.assertGreater(last, 1e9 / 8000 * 1.5)


    def test_a_storm_of_short_programs_is_thinned_and_no_tick_is_uncounted(self):
        """Of the ticks that there were each is in a profile, or is counted as lost by its reason."""
        run, _ = self.begin("--max-cpu", 2, "--frequency", 2999, "--all")
        storm = self.spawn(["sh", "-c", "while :; do /bin/true; done"])
        run.child.wait_for(r"sampling at \d+ Hz from now on, not \d+: our own CPU time (is|over ten seconds would be) above 2 %")
        tap.wait_until(lambda: self.status()["frequency"] <= 2999 / 4, "it is thinned further", 60)
        before = len(run.receiver.paths())
        tap.wait_until(lambda: len(run.receiver.paths()) > before + 1, "a window of few ticks", 60)
        storm.kill()
        result = run.stop(check=False)
        summary = result.summary
        self.assertEqual(sum(sample.value for sample in result.samples) + sum(summary["lost_by_reason"].values()),
                         summary["ticks"], summary)
        self.assertGreater(max(sample.period for sample in result.samples), 2 * 1e9 / 2999)


class KernelFiles(Case):
    """What a sandbox hides from the daemon, as the daemon says it."""

    def covering(self, *paths):
        """A prefix: a mount namespace with what systemd puts over inaccessible files, an empty one with mode 000."""
        cover = self.directory() / "inaccessible"
        cover.touch(mode=0)
        cover.chmod(0)
        mounts = " && ".join(f"mount --bind {cover} {path}" for path in paths)
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{mounts} && exec "$@"', "sh"]

    def readable(self):
        """Of each file that it tells of: whether it can be read."""
        samples = self.metrics()["spanprof_kernel_file_readable"].samples
        return {dict(labels)["file"]: value == 1 for labels, value in samples.items()}

    def text(self):
        return self.spanprof("status", "--control", self.socket).stdout

    def test_all_can_be_read(self):
        run, _ = self.begin()
        self.assertEqual(set(self.readable().values()), {True})
        self.assertIn("all capabilities", run.log)
        self.assertNotIn("kernel frames have no names", run.log)
        run.wait_events(20)
        functions = sum(" t " in line.lower() for line in open("/proc/kallsyms"))
        n = tap.wait_until(lambda: self.status()["kernel_symbols"], "kernel frames")
        self.assertTrue(functions / 2 < n <= functions * 1.1, (n, functions))
        self.assertIn(f"\nkernel names of {n} functions\n", self.text())
        run.stop()

    def test_one_that_is_covered_and_uncovered(self):
        """CAP_SYSLOG is held all the time; CAP_DAC_READ_SEARCH opens the cover, and it reads as nothing."""
        configuration = self.directory() / "spanprof.conf"
        configuration.write_text("[sampling]\n")
        run, _ = self.begin("--config", configuration, prefix=self.covering("/proc/kallsyms"))
        tap.wait_until(lambda: prometheus.value(self.metrics(), "spanprof_frames_total", kind="kernel_hidden"),
                       "kernel frames")
        self.assertEqual({name for name, can in self.readable().items() if not can}, {"kallsyms"})
        self.assertRegex(run.log, r"kernel frames have no names: /proc/kallsyms .+ ProtectKernelTunables=no")
        self.assertEqual(run.log.count("kernel frames have no names"), 1, "it warns once")
        self.assertNotIn("all capabilities", run.log)
        self.assertRegex(self.text(), r"\nkernel names none: /proc/kallsyms is covered")
        self.assertEqual((self.status()["kernel_files"]["kallsyms"], self.status()["kernel_symbols"]), ("covered", 0))

        os.kill(run.pid, signal.SIGHUP)
        tap.wait_until(lambda: run.log.count("profiles go to") == 2, "a reload")
        self.assertEqual(run.log.count("kernel frames have no names"), 1, "nothing has changed")
        self.run_command(["nsenter", "--target", run.pid, "--mount", "umount", "/proc/kallsyms"], expect=0)
        os.kill(run.pid, signal.SIGHUP)
        tap.wait_until(lambda: run.log.count("profiles go to") == 3, "another reload")
        self.assertIn("/proc/kallsyms can be read now", run.log)
        self.assertEqual(run.log.count("all capabilities"), 1)
        self.assertEqual(set(self.readable().values()), {True})
        tap.wait_until(lambda: self.status()["kernel_symbols"], "names of kernel frames")
        self.assertGreater(run.stop().counter("frames_total", "kernel"), 0)

    def test_others_that_are_covered(self):
        paths = ["/proc/stat", "/sys/kernel/notes", "/proc/sys/kernel/perf_event_max_sample_rate",
                 "/sys/devices/system/cpu/online"]
        run, _ = self.begin(prefix=self.covering(*paths))
        self.assertEqual({name for name, can in self.readable().items() if not can},
                         {"stat", "notes", "sample-rate-limit", "online-cpus"})
        for path in paths:
            self.assertIn(f": {path} is covered", run.log)
            self.assertRegex(self.text(), rf"\nhidden +\S.+: {path} is covered")
        self.assertNotIn("all capabilities", run.log)
        run.stop()

    def test_a_proc_that_shows_processes_alone(self):
        """As ProcSubset=pid makes it."""
        run, _ = self.begin(prefix=["unshare", "--mount", "--propagation", "private", "sh", "-c",
                                    'mount -t proc -o subset=pid proc /proc && exec "$@"', "sh"], ready=False)
        run.child.wait_for("profiles go to")
        self.assertEqual(self.status()["kernel_files"]["kallsyms"], "absent")
        self.assertRegex(run.log, r"kernel frames have no names: /proc/kallsyms is not there.+ProcSubset=all")
        run.stop(check=False)

    def test_no_right_to_see_addresses(self):
        add = "-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search,+checkpoint_restore"
        run, _ = self.begin(prefix=["setpriv", f"--inh-caps={add}", f"--bounding-set={add}"])
        self.assertEqual(self.status()["kernel_files"]["kallsyms"], "no-syslog")
        self.assertRegex(run.log, r"kernel frames have no names: /proc/kallsyms hides its addresses: CAP_SYSLOG .+")
        self.assertNotIn("all capabilities", run.log)
        run.stop()

    def test_nobody_misses_what_is_not_wanted(self):
        run, _ = self.begin("--kernel-stacks=off", prefix=self.covering("/proc/kallsyms"))
        self.assertNotIn("kallsyms", self.readable())
        self.assertNotIn("kernel frames have no names", run.log)
        self.assertIn("all capabilities", run.log)
        self.assertIn("\nkernel names none: kernel-stacks = off\n", self.text())
        run.stop()

    def test_the_doctor_asks_the_daemon_and_not_itself(self):
        run, _ = self.begin(prefix=self.covering("/proc/kallsyms"))
        other = session.Receiver(self)          # a doctor's request is empty, which no run sends
        done = self.spanprof("doctor", "--json", "--control", self.socket, "--endpoint", other.url)
        findings = {finding["name"]: finding for finding in json.loads(done.stdout)["checks"]}
        self.assertEqual((findings["kallsyms"]["view"], findings["kallsyms"]["result"]), ("daemon", "warn"))
        self.assertIn("ProtectKernelTunables=no", findings["kallsyms"]["fix"])
        self.assertEqual({name for name, finding in findings.items() if finding["view"] == "daemon"},
                         {"btf", "CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH",
                          "CAP_CHECKPOINT_RESTORE", "CAP_SYSLOG", "kallsyms", "cgroup", "pid-namespace", "boost"})
        text = self.spanprof("doctor", "--control", self.socket, "--endpoint", other.url).stdout
        self.assertIn(f"\nAs the daemon that runs sees it (process {run.pid}):\n", text)
        self.assertIn("As this command sees it:\n", text)
        run.stop()
        alone = json.loads(self.spanprof("doctor", "--json", "--control", self.socket, "--endpoint", other.url,
                                         expect=None).stdout)
        kallsyms = next(finding for finding in alone["checks"] if finding["name"] == "kallsyms")
        self.assertEqual((kallsyms["view"], kallsyms["result"]), ("command", "ok"))


tap.main()
