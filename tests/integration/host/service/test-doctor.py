#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof doctor` says beforehand what `run` would meet: each finding is held against what run really does."""
import oracle

oracle.enter()

import ctypes
import errno
import http.server
import json
import os
import socket
import socketserver
import struct
import subprocess
import threading

import session
import tap

ALL = ("bpf", "perfmon", "sys_ptrace", "dac_read_search", "checkpoint_restore", "syslog")
NEEDED = ("bpf", "perfmon")


def without(*names):
    """A prefix that runs a program as an unprivileged user with our capabilities but these."""
    held = [name for name in ALL if name not in names]
    add = ",".join(["-all", *(f"+{name}" for name in held)])
    return [
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", f"--inh-caps={add}",
        f"--ambient-caps={add}", f"--bounding-set={add}"
    ]


SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 0x80000000, 0x50000, 0x7FFF0000


def forbid(number, action):
    """For preexec_fn: a filter that does @action on one system call, and allows the others."""
    lines = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, action), (0x06, 0, 0, SECCOMP_RET_ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)          # PR_SET_NO_NEW_PRIVS
    if libc.prctl(22, 2, ctypes.c_char_p(struct.pack("HxxxxxxP", len(lines), ctypes.addressof(program)))):
        os._exit(125)


class Doctor(session.TestCase):
    def pasteable(self, fix):
        """A shell takes it, and it begins with a command; what is no command is behind a `#`."""
        read = subprocess.run(["bash", "-n"], input=fix, capture_output=True, text=True)
        self.assertEqual((read.returncode, read.stderr), (0, ""), fix)
        word = fix.removeprefix("sudo ").split()[0]
        self.assertRegex(word, r"^(spanprof|apt-get|sysctl|systemctl|curl|chown|install|ss|ip|df|findmnt|unset|zgrep|grep"
                         r"|sed|rm|uname|dmesg|date|docker|kubectl|useradd|openssl|d=\S+;)$", fix)

    def doctor(self, *options, prefix=(), status=None, env=None):
        """name → finding, and the exit status."""
        done = self.run_command([*prefix, tap.SPANPROF, "doctor", "--json", *options],
                                env={**session.clean_environment(), **(env or {})})
        report = json.loads(done.stdout)
        findings = {f["name"]: f for f in report["checks"]}
        self.assertEqual(done.returncode, 1 if any(f["result"] == "fail" for f in report["checks"]) else 0,
                         done)
        for key in ("ok", "warn", "fail"):
            self.assertEqual(report[key], sum(f["result"] == key for f in report["checks"]))
        for finding in report["checks"]:
            self.assertEqual(bool(finding["fix"]), finding["result"] != "ok", finding)
            if finding["fix"]:
                self.pasteable(finding["fix"])
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout)
        return findings

    def test_all_is_well_where_run_works(self):
        receiver = session.Receiver(self)
        findings = self.doctor("--endpoint", receiver.url, status=0)
        self.assertGreaterEqual(len(findings), 22)
        self.assertEqual(findings["endpoint"]["text"],
                         f"{receiver.url}/v1development/profiles takes profiles")
        self.assertIn("loads and attaches", findings["kernel-half"]["text"])
        text = self.spanprof("doctor", "--endpoint", receiver.url).stdout
        self.assertEqual(
            len([line for line in text.splitlines() if line.startswith(("ok ", "warn ", "fail "))]),
            len(findings))

    def test_each_capability_missing_alone(self):
        receiver = session.Receiver(self)
        victim = self.victim("chain", 5, preexec_fn=None, rests=True)
        for name in ALL:
            with self.subTest(missing=name):
                label = "CAP_" + name.upper()
                findings = self.doctor("--endpoint", receiver.url, prefix=without(name))
                self.assertEqual(findings[label]["result"], "fail" if name in NEEDED else "warn", findings)
                others = [f for f in findings if f.startswith("CAP_") and f != label]
                self.assertTrue(all(findings[f]["result"] == "ok" for f in others), findings)
                self.assertEqual(findings["kernel-half"]["result"], "fail" if name in NEEDED else "ok")
                done = self.run_command([
                    *without(name), tap.SPANPROF, "run", "--endpoint", receiver.url, "--pid", victim.pid,
                    "--frequency", "1999", "--duration", "500ms"
                ], env=session.clean_environment())
                self.assertEqual(done.returncode, 78 if name in NEEDED else 0, done.stderr)
                self.assertIn(label, done.stderr)
                if name not in NEEDED:
                    self.assertRegex(done.stderr, r"[1-9]\d* samples delivered \+ 0 lost")

    def test_a_filter_of_system_calls_that_forbids_ours(self):
        """Numbers are x86-64's; a filter may answer with an error, as that of containers, or kill, as that of systemd."""
        receiver = session.Receiver(self)
        calls = {"bpf": 321, "perf_event_open": 298, "process_vm_readv": 310, "listxattr": 194}
        for name, number in calls.items():
            for action in (SECCOMP_RET_ERRNO | errno.EPERM, SECCOMP_RET_ERRNO | errno.ENOSYS,
                           SECCOMP_RET_KILL_PROCESS):
                if action == SECCOMP_RET_KILL_PROCESS and name != "process_vm_readv":
                    continue        # the check after it loads the kernel half, and dies
                with self.subTest(call=name, action=hex(action)):
                    done = subprocess.run([tap.SPANPROF, "doctor", "--json", "--endpoint", receiver.url],
                                          capture_output=True, text=True, timeout=60,
                                          env=session.clean_environment(),
                                          preexec_fn=lambda: forbid(number, action))
                    findings = {f["name"]: f for f in json.loads(done.stdout)["checks"]}
                    ours = name != "listxattr"
                    self.assertEqual(findings["seccomp"]["result"], "fail" if ours else "ok", findings)
                    self.assertEqual(name in findings["seccomp"]["text"], ours)
                    self.assertEqual(done.returncode, 1 if ours else 0)

    def test_no_btf(self):
        findings = self.doctor(env={"SPANPROF_BTF": "/nonexistent"})
        self.assertEqual(findings["btf"]["result"], "fail")
        self.assertEqual(findings["kernel-half"]["result"], "fail")
        done = self.spanprof("run", "--duration", "1s", expect=78,
                             env={**session.clean_environment(), "SPANPROF_BTF": "/nonexistent"})
        self.assertIn("CONFIG_DEBUG_INFO_BTF", done.stderr)

    def test_btf_that_is_none(self):
        path = self.directory() / "btf"
        for content in (b"", b"garbage" * 100):
            path.write_bytes(content)
            finding = self.doctor(env={"SPANPROF_BTF": str(path)})["btf"]
            self.assertEqual((finding["result"], "unset SPANPROF_BTF" in finding["fix"]), ("fail", True), finding)

    def test_a_spool_that_cannot_be_made_or_used(self):
        receiver = session.Receiver(self)
        for spool, word in (("/proc/1/spool", "cannot be made"), ("/nonexistent/spool/here", "No such file")):
            finding = self.doctor("--endpoint", receiver.url, "--spool", spool)["spool"]
            self.assertEqual(finding["result"], "fail", finding)
            self.assertIn(word, finding["text"])
        own = ["unshare", "--mount", "sh", "-c",
               "mount -t tmpfs none /var/lib && mkdir -m 700 -p /var/lib/spanprof/spool && exec \"$@\"", "sh"]
        finding = self.doctor("--endpoint", receiver.url, "--run-as", "nobody", prefix=own)["spool"]
        self.assertEqual(finding["result"], "fail", "root's, and the service is not root")
        self.assertIn("chown -R spanprof:spanprof /var/lib/spanprof/spool", finding["fix"])

    def test_a_port_that_is_taken(self):
        receiver = session.Receiver(self)
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            finding = self.doctor("--endpoint", receiver.url, "--metrics", f"127.0.0.1:{port}")["metrics"]
            self.assertEqual(finding["result"], "warn", finding)
            self.assertIn(f"ss -ltnp 'sport = :{port}'", finding["fix"])

    def test_what_a_recorder_and_crashes_take(self):
        receiver = session.Receiver(self)
        findings = self.doctor("--endpoint", receiver.url)
        self.assertIn("none is asked for", findings["recorder"]["text"])
        self.assertIn("are not told of", findings["crashes"]["text"])
        findings = self.doctor("--endpoint", receiver.url, "--recorder", "10m", "--max-memory", "64M", "--crashes")
        self.assertEqual(findings["recorder"]["result"], "warn", findings)
        self.assertIn("keeps 16 MiB at most, not 64", findings["recorder"]["text"])
        self.assertEqual(findings["crashes"]["result"], "ok", findings)
        self.assertRegex(findings["crashes"]["text"], r"no ticks, and [1-9]\d* KiB of maps")

    def test_what_a_recorder_and_boosts_of_the_daemon_are(self):
        receiver, sock = session.Receiver(self), self.directory() / "c.sock"
        victim = self.victim("chain", 5, rests=True)
        run = self.start("--control", sock, "-p", victim.pid, "--recorder", "5m")
        run.wait_events(1, victim.pid)
        # none could be had at 700 Hz; the daemon has another frequency
        finding = self.doctor("--endpoint", receiver.url, "--control", sock, "--frequency", "700")["boost"]
        self.assertEqual((finding["result"], finding["view"]), ("ok", "daemon"), finding)
        self.assertRegex(finding["text"], "^none is on; ")
        self.spanprof("boost", "--control", sock, "--process", victim.pid, "--frequency", 499, "--for", "10m")
        findings = self.doctor("--endpoint", receiver.url, "--control", sock)
        finding = findings["boost"]
        self.assertEqual((finding["result"], finding["view"]), ("ok", "daemon"), finding)
        self.assertRegex(finding["text"], rf"^process {victim.pid} at \d+ Hz, for .+ more$")
        finding = findings["recorder-reach"]
        self.assertEqual((finding["result"], finding["view"]), ("ok", "daemon"), finding)
        self.assertRegex(finding["text"], r"^reaches back .+ of 5 min: \d+ windows?, .+ went for age, 0 for room$")
        run.stop()

    def test_a_proxy_that_is_dead(self):
        """What it says of both ends in tickets: no password is in it."""
        finding = self.doctor("--endpoint", "http://me:hidden@collector.example:4318?key=hidden&more",
                              env={"http_proxy": "http://me:hidden@127.0.0.1:9"})["endpoint"]
        self.assertEqual(finding["result"], "fail", finding)
        self.assertIn("by the proxy http://127.0.0.1:9 of http_proxy", finding["text"])
        self.assertIn("curl -v -x \"$http_proxy\" 'http://collector.example:4318/v1development/profiles'",
                      finding["fix"])
        self.assertNotIn("hidden", str(finding))

    def test_a_selector_that_fits_nobody(self):
        receiver = session.Receiver(self)
        finding = self.doctor("--endpoint", receiver.url, "--comm", "no-such-prog")["targets"]
        self.assertEqual((finding["result"], finding["fix"]), ("warn", "spanprof targets --verbose"), finding)

    def test_tells_what_is_wrong_with_a_receiver(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(int(self.path.split("/")[1]))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        for status, result, word in ((200, "ok", ""), (404, "fail", "path"), (401, "fail", "headers"),
                                     (503, "warn", "receiver")):
            finding = self.doctor("--endpoint", f"http://127.0.0.1:{server.server_port}/{status}")["endpoint"]
            self.assertEqual(finding["result"], result, finding)
            self.assertIn(word, finding["fix"])
        closed = socket.socket()
        closed.bind(("127.0.0.1", 0))
        self.assertEqual(
            self.doctor("--endpoint", f"http://127.0.0.1:{closed.getsockname()[1]}",
                        status=1)["endpoint"]["result"], "fail")

    def test_sends_nothing_that_a_receiver_would_store_as_a_profile(self):
        receiver = session.Receiver(self)
        self.doctor("--endpoint", receiver.url)
        self.assertEqual(sum(len(path.read_bytes()) for path in receiver.paths()), 0)

    def test_looks_at_the_spool_and_the_daemon(self):
        receiver = session.Receiver(self)
        folder = self.directory()
        folder.chmod(0o755)
        findings = self.doctor("--endpoint", receiver.url, "--spool", folder, prefix=without())
        self.assertEqual(findings["spool"]["result"], "fail", "another user's directory")
        sock = self.directory() / "c.sock"
        victim = self.victim("chain", 5, rests=True)
        run = self.start("--control", sock, "-p", victim.pid)
        finding = self.doctor("--endpoint", receiver.url, "--control", sock)["daemon"]
        self.assertEqual(finding["text"], "runs, and says: ok")
        run.stop()

    def test_says_whose_view_it_is_where_none_runs_or_cannot_be_asked(self):
        receiver = session.Receiver(self)
        sock = self.directory() / "c.sock"
        findings = self.doctor("--endpoint", receiver.url, "--control", sock)
        self.assertEqual({finding["view"] for finding in findings.values()}, {"command"})
        self.assertRegex(findings["daemon"]["text"], r"^none runs \(.+\): all this is as this command sees it$")

        unit = ["unshare", "--mount", "sh", "-c",
                "mkdir -p /etc/systemd/system && mount -t tmpfs none /etc/systemd/system && "
                "touch /etc/systemd/system/spanprof.service && exec \"$@\"", "sh"]
        findings = self.doctor("--endpoint", receiver.url, "--control", sock, prefix=unit)
        self.assertIn("systemctl start spanprof", findings["sandbox"]["text"])

        with socket.socket(socket.AF_UNIX) as closed:
            closed.bind(str(sock))
            sock.chmod(0o600)
            sock.parent.chmod(0o755)
            findings = self.doctor("--endpoint", receiver.url, "--control", sock, prefix=without())
        self.assertEqual((findings["daemon"]["result"], findings["daemon"]["fix"]), ("warn", "sudo spanprof doctor"))
        self.assertIn("as this command sees it", findings["daemon"]["text"])

    def test_an_older_daemon_does_not_say_what_it_can_read(self):
        """It knows /readyz and /status, and no page of its view."""
        receiver, path = session.Receiver(self), self.directory() / "c.sock"

        class Older(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if self.path in ("/readyz", "/status", "/healthz") else 404)
                self.end_headers()
                self.wfile.write(b"ok\n")

            def address_string(self):
                return "a client"

            def log_message(self, *_):
                pass

        server = socketserver.ThreadingUnixStreamServer(str(path), Older)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        findings = self.doctor("--endpoint", receiver.url, "--control", path)
        self.assertEqual((findings["sandbox"]["result"], findings["daemon"]["text"]), ("warn", "runs, and says: ok"))
        self.assertIn("older than this command", findings["sandbox"]["text"])
        self.assertEqual(findings["kallsyms"]["view"], "command")


tap.main()
