#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What root's daemon keeps of its rights, and what still works without them."""
import oracle

oracle.enter()

import json
import os
import pathlib
import pwd
import re
import signal
import ssl
import stat
import subprocess

import otlp_read
import session
import tap
import unix_http
from fault_server import Server, closed_port, ok, status

NUMBERS = {
    "dac_read_search": 2, "sys_ptrace": 19, "syslog": 34, "perfmon": 38, "bpf": 39, "checkpoint_restore": 40
}
SIX = sum(1 << number for number in NUMBERS.values())
SYS_ADMIN = 1 << 21
STRANGER = 4321                         # a user of no name
WRITES = "open(f'/proc/{__import__(\"sys\").argv[1]}/mem', 'r+b', buffering=0)"
READS = "open(f'/proc/{__import__(\"sys\").argv[1]}/mem', 'rb', buffering=0)"


def becomes():
    """The user that root's daemon becomes on this machine."""
    for name in ("spanprof", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    return tap.skip("machine: there is neither a user spanprof nor nobody")


class Rights:
    """Of a process, by proc(5)."""

    def __init__(self, pid):
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        values = dict(re.findall(r"^(\w+):[ \t]*(.*)$", text, re.M))
        self.uids, self.gids = ({int(x) for x in values[key].split()} for key in ("Uid", "Gid"))
        self.groups, self.no_new_privileges = values["Groups"].split(), values["NoNewPrivs"] == "1"
        self.permitted, self.effective, self.bounding, self.inheritable, self.ambient = (
            int(values[key], 16) for key in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"))

    def prefix(self):
        """Runs a program with the same."""
        names = [name for name, number in ALL_CAPABILITIES.items() if self.effective & 1 << number]
        held = ",".join(["-all", *(f"+{name}" for name in names)])
        return [
            "setpriv", f"--reuid={min(self.uids)}", f"--regid={min(self.gids)}", "--clear-groups",
            f"--inh-caps={held}", f"--ambient-caps={held}", f"--bounding-set={held}", "--no-new-privs"
        ]


def capability_names():
    """setpriv's, in the order of their numbers."""
    done = subprocess.run(["setpriv", "--list-caps"], capture_output=True, text=True, check=True)
    return {name: number for number, name in enumerate(done.stdout.split())}


ALL_CAPABILITIES = {}


class Case(session.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tap.need_tool("setpriv")
        ALL_CAPABILITIES.update(capability_names())

    def assert_demoted(self, pid, uid, gid, capabilities=SIX, bounding=0):
        """Each of its threads, since capabilities are a thread's."""
        threads = os.listdir(f"/proc/{pid}/task")
        for thread in threads:
            rights = Rights(f"{pid}/task/{thread}")
            self.assertEqual((rights.uids, rights.gids), ({uid}, {gid}))
            self.assertEqual(rights.groups, [])
            self.assertEqual((hex(rights.permitted), hex(rights.effective)),
                             (hex(capabilities), hex(capabilities)))
            self.assertEqual((rights.inheritable, rights.ambient), (0, 0))
            self.assertEqual(hex(rights.bounding), hex(bounding))
            self.assertTrue(rights.no_new_privileges)
        return len(threads)

    def stranger(self, rests=True):
        """A victim that another user runs. @rests: a sixth of a CPU is enough for who waits for some samples."""
        prefix = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
        child = self.spawn([*prefix, tap.VICTIMS / "victim-chain", "5"],
                           env={**os.environ, **({"VICTIM_RESTS": "1"} if rests else {})})
        child.wait_for(r"^pid \d+")
        return child


class Daemon(Case):
    """With all that it may have: keys of root, a spool, sockets in a directory of root."""

    def certificates(self, folder):
        def openssl(*arguments):
            subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, cwd=folder)

        tap.need_tool("openssl")
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        openssl("req", "-x509", *new, "-subj", "/CN=ours", "-keyout", "ours.key", "-out", "ours.pem", "-days",
                "2")
        for name in ("server", "client"):
            openssl("req", *new, "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost", "-keyout",
                    f"{name}.key", "-out", f"{name}.csr")
            openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ours.pem", "-CAkey", "ours.key",
                    "-copy_extensions", "copy", "-days", "2", "-out", f"{name}.pem")
        for path in folder.iterdir():
            path.chmod(0o600)

    def server(self, folder, *plays):
        """Takes who shows our certificate, and closes each connection: the next one needs the key again."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ours.pem")
        server = Server(plays, context=context)
        self.addCleanup(server.close)
        return server

    def configure(self, path, server, folder, secret, pid):
        path.write_text(f"""[targets]
pid = {pid}
[export]
endpoint = {server.url('', host='localhost')}
headers = authorization={secret}
certificate = {folder}/ours.pem
client-certificate = {folder}/client.pem
client-key = {folder}/client.key
spool = {folder}/spool
export-interval = 1s
[daemon]
control = {folder}/control.sock
metrics = {folder}/metrics.sock
summary = {folder}/summary.json
""")
        path.chmod(0o600)

    def samples(self, server):
        path = self.directory() / "request.pb"
        found = []
        for request in list(server.requests):
            path.write_bytes(request.body)
            found += otlp_read.samples(path)
        return found

    def begin(self, *plays):
        folder = self.directory()
        folder.chmod(0o700)
        self.certificates(folder)
        (folder / "spool").mkdir(mode=0o700)
        server, victim = self.server(folder, *plays), self.stranger()
        self.configure(folder / "spanprof.conf", server, folder, "first", victim.pid)
        daemon = self.spawn([tap.SPANPROF, "run", "--config", folder / "spanprof.conf"],
                            env=session.clean_environment(SPANPROF_STOP_TIMEOUT="20s"))
        daemon.wait_for("profiles go to")
        return folder, server, victim, daemon

    def wait_samples(self, server, victim, secret):
        def arrived():
            found = [r for r in list(server.requests) if r.headers.get("authorization") == secret]
            return len(found) >= 2 and any(s.resource["process.pid"] == victim.pid and s.frames
                                           for s in self.samples(server))

        tap.wait_until(arrived, f"samples with `{secret}`")

    def asks(self, folder):
        self.assertIn(f"pid {self.daemon.pid}",
                      self.spanprof("status", "--control", folder / "control.sock").stdout)

    def test_keeps_six_capabilities_and_works_on(self):
        user = becomes()
        folder, server, victim, self.daemon = self.begin(status(503, keep=False), ok(keep=False))
        self.assertGreater(self.assert_demoted(self.daemon.pid, user.pw_uid, user.pw_gid), 1, "threads of it")
        self.wait_samples(server, victim, "first")
        tap.wait_until(lambda: server.n_connections > 2,
                       "connections, each made with the key after the rights were given up")
        self.asks(folder)
        self.assertEqual({p.stat().st_uid for p in [folder / "spool", *(folder / "spool").iterdir()]},
                         {user.pw_uid})

        # a file that root alone may read, twice: what was open before stays open
        for turn in ("second", "third"):
            self.configure(folder / "spanprof.conf", server, folder, turn, victim.pid)
            os.kill(self.daemon.pid, signal.SIGHUP)
            self.wait_samples(server, victim, turn)
            self.asks(folder)
        self.assert_demoted(self.daemon.pid, user.pw_uid, user.pw_gid)

        self.assertEqual(self.daemon.stop(), 0, self.daemon)
        self.assertEqual([p.name for p in folder.glob("*.sock")], [], "the sockets went with it")
        summary = json.loads((folder / "summary.json").read_text())
        self.assertEqual((summary["pending"], summary["lost"], summary["delivered"] > 0), (0, 0, True),
                         summary)
        self.assertNotRegex(self.daemon.err, r"stays user 0|cannot|denied")
        self.assertEqual(self.daemon.err.count("all capabilities"), 3, "all that it needs, at each start")

    def test_may_not_write_into_another_process_of_root(self):
        """With the rights that the daemon really has. To read there is what they are for."""
        other = self.spawn(["sleep", "600"])
        *_, daemon = self.begin(ok())
        prefix = Rights(daemon.pid).prefix()
        done = self.run_command([*prefix, "/usr/bin/python3", "-c", WRITES, other.pid])
        self.assertIn("PermissionError", done.stderr)
        self.run_command([*prefix, "/usr/bin/python3", "-c", READS, other.pid], expect=0)

    def test_its_sockets_go_also_if_it_is_killed(self):
        folder, *_, daemon = self.begin(ok())
        self.assertEqual(len([*folder.glob("*.sock")]), 2)
        daemon.process.kill()
        daemon.wait()
        tap.wait_until(lambda: not [*folder.glob("*.sock")], "the sockets to be removed")

    def test_a_socket_of_another_daemon_is_not_its_own_to_remove(self):
        folder, *_, first = self.begin(ok())
        victim = self.stranger()
        run = self.start("--pid", victim.pid, "--control", folder / "control.sock", ready=False)
        run.child.wait_for("another spanprof does; runs without")
        run.stop()
        self.assertTrue(stat.S_ISSOCK((folder / "control.sock").lstat().st_mode))
        self.assertEqual(first.stop(), 0)

    def test_a_reload_to_another_socket_is_told_at_the_old_one(self):
        """Connections to it are not left waiting, and a reload back has it again."""
        user = becomes()
        folder, server, victim, self.daemon = self.begin(ok())
        path, old, new = folder / "spanprof.conf", folder / "control.sock", self.directory() / "control.sock"
        new.parent.chmod(0o711)
        os.chown(new.parent, user.pw_uid, user.pw_gid)
        text = path.read_text()
        for turn, (here, there) in enumerate([(new, old), (old, None)]):
            path.write_text(text.replace(f"control = {old}", f"control = {here}"))
            os.kill(self.daemon.pid, signal.SIGHUP)
            tap.wait_until(lambda: self.daemon.err.count("profiles go to") > turn + 1, "the reload")
            self.assertIn("delivered", self.spanprof("status", "--control", here).stdout)
            if there:
                self.assertEqual(unix_http.ask(unix_http.Unix(there), "/status")[:2],
                                 (410, f"a reload has moved what was here: the control socket is {here}\n"))
        self.assertEqual(self.daemon.stop(), 0, self.daemon)
        self.assertFalse(old.exists())

    def test_a_reload_to_what_needs_root_is_refused(self):
        folder, server, victim, self.daemon = self.begin(ok())
        path = folder / "spanprof.conf"
        for old, new in ((f"metrics = {folder}/metrics.sock", "metrics = 127.0.0.1:81"),
                         (f"control = {folder}/control.sock", f"control = {folder}/other.sock")):
            n = self.daemon.err.count("the old one comes back")
            self.configure(path, server, folder, "first", victim.pid)
            path.write_text(path.read_text().replace(old, new))
            os.kill(self.daemon.pid, signal.SIGHUP)
            tap.wait_until(lambda: self.daemon.err.count("the old one comes back") > n, "the refusal")
            tap.wait_until(lambda: self.daemon.err.count("profiles go to") > n + 1, "the old one")
            self.asks(folder)
        self.assertRegex(self.daemon.err, r"(?i)permission denied")
        self.assertEqual(self.daemon.stop(), 0, self.daemon)


class Choice(Case):
    """Who it becomes."""

    def run_as(self, *options, prefix=()):
        victim = self.stranger()
        return self.start("--pid", victim.pid, *options, prefix=prefix)

    def stop(self, run):
        result = run.stop()
        self.assertGreaterEqual(result.summary["delivered"], 0)
        return result

    def test_stays_root_if_asked_to(self):
        run = self.run_as("--run-as", "root")
        self.assert_demoted(run.pid, 0, 0)
        self.stop(run)
        self.assertNotIn("stays user 0", run.log)

    def test_becomes_a_user_of_no_name(self):
        run = self.run_as("--run-as", STRANGER + 1)
        self.assert_demoted(run.pid, STRANGER + 1, STRANGER + 1)
        self.stop(run)

    def test_a_user_that_is_not_there(self):
        done = self.spanprof("run", "--run-as", "no-such-user", expect=78)
        self.assertIn("there is no user `no-such-user`", done.stderr)

    def test_without_the_right_to_change_it_says_so_once_and_keeps_six(self):
        names = ",".join(["-all", *(f"+{name}" for name in NUMBERS), "+sys_admin"])
        run = self.run_as(prefix=["setpriv", f"--bounding-set={names}"])
        self.assert_demoted(run.pid, 0, 0, bounding=SIX | SYS_ADMIN)
        self.stop(run)
        self.assertEqual(run.log.count("stays user 0: CAP_SETUID, CAP_SETGID or CAP_CHOWN is missing"), 1)

    def test_a_file_that_it_will_not_be_able_to_read_is_said_at_the_start(self):
        folder = self.directory()
        (folder / "ca.pem").touch(mode=0o600)
        names = ",".join([
            "-all", *(f"+{name}" for name in NUMBERS if name != "dac_read_search"), "+setuid", "+setgid",
            "+chown"
        ])
        run = self.start("--certificate", folder / "ca.pem", prefix=["setpriv", f"--bounding-set={names}"],
                         ready=False)
        self.assertEqual(run.child.wait(), 78, run.child)
        self.assertRegex(run.log,
                         rf"{folder}/ca.pem: user `\w+` may not read it, and CAP_DAC_READ_SEARCH is missing")

    def test_a_directory_of_other_things_is_not_given_away(self):
        folder = self.directory()
        (folder / "passwd").touch()
        run = self.start("--spool", folder, ready=False)
        self.assertEqual(run.child.wait(), 78, run.child)
        self.assertIn("holds what is none of a spool's", run.log)
        self.assertEqual((folder.stat().st_uid, (folder / "passwd").stat().st_uid), (0, 0))

    def test_what_it_has_left_in_the_spool_root_lists_and_sends_and_the_next_one_has_it(self):
        user, folder, victim = becomes(), self.directory() / "spool", self.stranger()
        run = self.start("--pid", victim.pid, "--spool", folder,
                         endpoint=f"http://127.0.0.1:{closed_port(self)}")
        tap.wait_until(lambda: [*folder.glob("*.batch")], "a request in the spool")
        run.stop(check=False)
        listed = json.loads(self.spanprof("spool", "ls", "--spool", folder, "--json").stdout)
        self.assertEqual({entry["state"] for entry in listed}, {"protobuf"})
        (folder / "lock").unlink()
        receiver = session.Receiver(self)
        self.spanprof("spool", "flush", "--spool", folder, "--endpoint", receiver.url)
        self.assertEqual([*folder.glob("*.batch")], [])
        self.assertEqual((folder / "lock").stat().st_uid, user.pw_uid, "made by who owns the spool")
        again = self.start("--pid", victim.pid, "--spool", folder, receiver=receiver)
        again.stop(check=False)
        self.assertNotIn("spool", again.log.split("stopped after")[0])

    def test_the_command_of_record_keeps_the_rights_of_its_caller(self):
        folder = self.directory()
        self.spanprof("record", "-o", folder / "x.folded", "--", "cp", "/proc/self/status", folder / "status",
                      expect=0)
        ours = dict(
            re.findall(r"^(Uid|CapPrm|CapEff|CapBnd|Groups|NoNewPrivs):(.*)$",
                       open("/proc/self/status").read(), re.M))
        its = dict(
            re.findall(r"^(Uid|CapPrm|CapEff|CapBnd|Groups|NoNewPrivs):(.*)$",
                       (folder / "status").read_text(), re.M))
        self.assertEqual(its, ours)


class Receive(Case):
    def receive(self, folder, *options, prefix=()):
        child = self.spawn([*prefix, tap.SPANPROF, "receive", "--port", "0", "-o", folder, *options],
                           env=session.clean_environment())
        url = child.wait_for(r"http://127\.0\.0\.1:\d+")[0]
        return child, url

    def assert_stores(self, url, folder, owner):
        before = len([*folder.glob("*.pb")])
        victim = self.stranger(rests=False)     # it has samples within the second
        self.start("--pid", victim.pid, "--duration", "1s", endpoint=url).wait(check=False)
        stored = sorted(folder.glob("*.pb"))
        self.assertGreater(len(stored), before)
        self.assertEqual(stored[-1].stat().st_uid, owner)

    def test_keeps_nothing(self):
        user, folder = becomes(), self.directory() / "store"
        for _ in range(2):
            child, url = self.receive(folder)
            self.assert_demoted(child.pid, user.pw_uid, user.pw_gid, 0)
            self.assertRegex(pathlib.Path(f"/proc/{child.pid}/status").read_text(), r"Seccomp:\s*2")
            self.assert_stores(url, folder, user.pw_uid)
            self.assertEqual(child.stop(signal.SIGINT), 0)

    def test_what_root_has_stored_before_goes_along(self):
        user, folder = becomes(), self.directory()
        for name in ("000041.pb", "000041.json"):
            (folder / name).touch()
        child, url = self.receive(folder)
        self.assert_stores(url, folder, user.pw_uid)
        self.assertTrue((folder / "000042.pb").exists())
        self.assertEqual({p.stat().st_uid for p in folder.iterdir()}, {user.pw_uid})
        child.stop(signal.SIGINT)

    def test_writes_to_the_directory_of_another_user_as_that_one(self):
        folder = self.directory() / "theirs"    # where none but root can have put it
        folder.parent.chmod(0o711)
        folder.mkdir()
        os.chown(folder, STRANGER, STRANGER)
        child, url = self.receive(folder)
        self.assert_demoted(child.pid, STRANGER, STRANGER, 0)
        self.assert_stores(url, folder, STRANGER)
        child.stop(signal.SIGINT)

    def test_among_other_things_it_stays_root_without_capabilities(self):
        folder = self.directory()
        (folder / "notes").touch()
        child, url = self.receive(folder)
        self.assert_demoted(child.pid, 0, 0, 0)
        self.assertIn("stays user 0, without capabilities", child.err)
        self.assert_stores(url, folder, 0)
        self.assertEqual((folder / "notes").stat().st_uid, 0)
        child.stop(signal.SIGINT)


tap.main()
