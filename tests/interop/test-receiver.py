#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The receiver of sdk/collector in a real Collector: it starts the daemon, or is found by it, and no window is lost when either starts again."""
import importlib
import json
import os
import pwd
import re
import signal

import oracle
import tap

oracle.enter()

import collector
import otlp_read
import session


def sender():
    """The user that the daemon becomes."""
    names = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    return names.get("spanprof", names["nobody"])


class Receiver(session.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        collector.need()
        cls.check_otlp = importlib.import_module("check_otlp")

    def setUp(self):
        self.here = self.directory()
        self.here.chmod(0o711)
        self.socket = self.here / "room" / "collector.sock"

    def command(self, victim, *more):
        return [tap.SPANPROF, "run", "--pid", str(victim.pid), "--export-interval", "1s", "--spool", self.here / "spool",
                "--summary", self.here / "summary.json", *more]

    def collector(self, **options):
        return collector.Collector(self, receiver={"socket": self.socket, **options})

    def counts(self, *collectors):
        """Samples by process that the file exporters of these Collectors wrote."""
        counts = {}
        for running in collectors:
            for line in running.paths["out.json"].read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    continue                    # it is being written, or its Collector was killed
                for sample in otlp_read.request_samples(self.check_otlp.decode(line)):
                    pid = sample.resource["process.pid"]
                    counts[pid] = counts.get(pid, 0) + sample.value
        return counts

    def wait_more(self, pid, *collectors):
        before = self.counts(*collectors).get(pid, 0)
        tap.wait_until(lambda: self.counts(*collectors).get(pid, 0) > before + 20, f"more samples; {collectors[-1].child}")

    def daemon_of(self, running):
        """What the receiver says in the Collector's log."""
        pids = [json.loads(match) for match in re.findall(r'spanprof runs.*?"pid": ?(\d+)', running.child.err)]
        return pids[-1]

    def summary(self):
        return json.loads((self.here / "summary.json").read_text())

    def test_starts_the_daemon_and_has_each_of_its_samples(self):
        victim = self.victim("chain", "60", rests=True)
        running = self.collector(command=self.command(victim))
        self.wait_more(victim.pid, running)
        found = os.stat(self.socket)
        self.assertEqual((found.st_mode & 0o777, found.st_uid), (0o600, sender()))
        daemon = self.daemon_of(running)
        running.end()
        self.assertFalse(os.path.exists(f"/proc/{daemon}"))
        summary = self.summary()
        self.assertEqual((summary["lost"], summary["pending"]), (0, 0), summary)
        self.assertEqual(self.counts(running), {victim.pid: summary["delivered"]})

    def test_starts_a_daemon_again_that_was_killed(self):
        victim = self.victim("chain", "60", rests=True)
        running = self.collector(command=self.command(victim))
        self.wait_more(victim.pid, running)
        first = self.daemon_of(running)
        os.kill(first, signal.SIGKILL)
        running.child.wait_for(r"spanprof ended, and is started again.*signal: killed")
        tap.wait_until(lambda: self.daemon_of(running) != first, f"another daemon; {running.child}")
        self.wait_more(victim.pid, running)
        running.end()

    def test_that_is_killed_leaves_no_daemon_and_loses_nothing(self):
        """The daemon gets a signal with it, keeps what it has in its spool, and the next one sends that to the next Collector."""
        victim = self.victim("chain", "60", rests=True)
        first = self.collector(command=self.command(victim))
        self.wait_more(victim.pid, first)
        daemon = self.daemon_of(first)
        first.child.process.kill()
        first.child.wait()
        tap.wait_until(lambda: not os.path.exists(f"/proc/{daemon}"), "the end of its daemon")
        before = self.summary()
        self.assertEqual((before["lost"], before["ticks"]), (0, before["delivered"] + before["pending"]), before)
        second = self.collector(command=self.command(victim))
        self.wait_more(victim.pid, second)
        second.end()
        after = self.summary()
        self.assertEqual((after["lost"], after["pending"]), (0, 0), after)
        # a request whose answer died with the Collector is sent twice: at least once is what OTLP promises
        self.assertGreaterEqual(self.counts(first, second)[victim.pid], before["ticks"] + after["ticks"])

    def test_is_found_by_a_daemon_of_its_own_service_over_restarts(self):
        victim = self.victim("chain", "60", rests=True)
        first = self.collector()
        run = self.start("--pid", victim.pid, "--spool", self.here / "spool", endpoint=f"unix:{self.socket}")
        self.wait_more(victim.pid, first)
        first.child.process.kill()              # its socket stays behind
        first.child.wait()
        run.child.wait_for(r"(?i)connect|refused")
        second = self.collector()
        self.wait_more(victim.pid, second)
        summary = run.stop(check=False).summary
        second.end()
        self.assertEqual((summary["lost"], summary["ticks"]), (0, summary["delivered"] + summary["pending"]), summary)
        self.assertGreaterEqual(self.counts(first, second)[victim.pid], summary["delivered"])

    def test_ends_with_a_daemon_that_can_never_run(self):
        """Its command line is wrong: it says why, and the Collector does not start it for ever."""
        status, said = self.run_to_its_end(command=[tap.SPANPROF, "run", "--no-such-option"])
        self.assertRegex(said, "spanprof: .*no-such-option")
        self.assertRegex(said, "spanprof cannot run so, see its message above: exit status 2")
        # the daemon may be late on a busy machine, but then the Collector has begun
        self.assertTrue(status or "Everything is ready" in said, said)

    def test_has_all_that_a_daemon_prints_before_its_end(self):
        _, said = self.run_to_its_end(command=["sh", "-c", "seq 2000; exit 2"])
        self.assertEqual(re.findall(r"\t(\d+)\t\{", said), [str(number) for number in range(1, 2001)])

    def test_ends_with_a_daemon_that_cannot_go_on(self):
        """It has run for a while, so the Collector is ready, and ends by itself."""
        running = self.collector(command=["sh", "-c", "sleep 4; exit 78"])
        running.child.wait()
        self.assertRegex(running.child.err, "spanprof cannot run so, see its message above: exit status 78")
        self.assertNotIn("is started again", running.child.err)

    def run_to_its_end(self, **options):
        path = self.here / "config.yaml"
        path.write_text(collector.config({"spanprof": {"socket": self.socket, **options}}, {"debug": {}}, "profiles"))
        done = self.run_command([collector.PROGRAM, "--config", f"file:{path}", "--feature-gates=service.profilesSupport"])
        return done.returncode, done.stdout + done.stderr

    def refuse(self, message, **options):
        status, said = self.run_to_its_end(**options)
        self.assertNotEqual(status, 0)
        self.assertRegex(said, message)

    def test_refuses_what_cannot_work_and_says_what_to_do(self):
        plain = self.here / "plain"
        plain.write_text("mine\n")
        self.refuse('socket: "run.sock" is no absolute path', socket="run.sock")
        self.refuse("socket: a path of 121 bytes, at most 107", socket="/" + 120 * "x")
        self.refuse("command: it is empty; leave it out", socket=str(self.socket), command=[])
        for option, words in (("endpoint", ["--endpoint", "http://localhost:4318"]), ("backend", ["--backend", "datadog"]),
                              ("endpoint", ["--endpoint=http://localhost:4318"]), ("backend", ["--backend=datadog"])):
            self.refuse(f"command: leave out --{option}; the daemon is to send to this receiver", socket=str(self.socket),
                        command=["spanprof", "run", *words])
        self.refuse("no socket; remove it, or set another `socket`", socket=str(plain))
        self.assertEqual(plain.read_text(), "mine\n")
        self.refuse("user: this host has no user who-is-this; set the `run-as` of the daemon", socket=str(self.socket),
                    user="who-is-this")
        self.refuse("no-such-program", socket=str(self.socket), command=["/no-such-program", "run"])
        self.assertFalse(self.socket.exists())
        self.collector()
        self.refuse("another process listens on .*; stop it, or set another `socket`", socket=str(self.socket))


if __name__ == "__main__":
    tap.main()
