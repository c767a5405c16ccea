#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where outputs go: each verb that writes to a path of the user, as root under sudo, against links, pipes and
devices of a hostile neighbour.

Devices are copies in a directory of this test; the machine's own are never written to.
"""
import contextlib
import json
import os
import pty
import select
import stat
import subprocess

import session
import tap

CALLER, STRANGER = 65533, 65534
FAILURE, USAGE, ENGINE, CONFIG = 1, 2, 125, 78
SECRET = "root:only\n"
EVENT = '{"probe_id":1,"tid":2,"addr":"0x00007f0000000001","seq":1,"is_active":true,"ts":5}\n'


class Outputs(tap.TestCase):
    def setUp(self):
        tap.need_root()
        self.verb, self.env = "", session.clean_environment(SUDO_UID=CALLER, SUDO_GID=CALLER)
        self.furnish()

    def furnish(self):
        self.dir = self.directory()
        self.dir.chmod(0o755)
        self.private = self.place("private", 0o700)
        self.secret = self.file(self.private / "secret", SECRET, 0o600)
        self.sticky = self.place("sticky", 0o1777)
        self.profile = self.file(self.dir / "in.folded", "main;work 3\n", 0o644)
        self.trace = self.file(self.dir / "in.jsonl", EVENT, 0o644)

    def place(self, name, mode, owner=0):
        path = self.dir / name
        path.mkdir()
        path.chmod(mode)
        os.chown(path, owner, owner)
        return path

    def file(self, path, content, mode, owner=0):
        path.write_text(content)
        path.chmod(mode)
        os.chown(path, owner, owner)
        return path

    def link(self, path, goal, owner):
        path.symlink_to(goal)
        os.chown(path, owner, owner, follow_symlinks=False)
        return path

    def look(self, path):
        info = path.lstat()
        return path.read_text(errors="replace") if stat.S_ISREG(info.st_mode) else None, stat.S_IMODE(
            info.st_mode), info.st_uid

    # Each verb: name → (suffix of its output, its status when that is refused, how it is called)
    VERBS = {
        "convert": (".json", FAILURE, lambda self, path: ["convert", self.profile, "-o", path]),
        "report": (".md", FAILURE, lambda self, path: ["report", self.profile, "-o", path]),
        "report a page": (".html", FAILURE, lambda self, path: ["report", self.profile, "-o", path]),
        "report of coroutines": (".txt", FAILURE, lambda self, path: ["report", self.trace, "-o", path]),
        "report --diff": (".html", FAILURE,
                          lambda self, path: ["report", "--diff", self.profile, self.profile, "-o", path]),
        "corotracer -export to a database": (
            ".db", FAILURE,
            lambda self, path: ["corotracer", "-export", "sqlite", "-in", self.trace, "-sqlite-out", path]),
        "coro": (".jsonl", ENGINE, lambda self, path: ["coro", "-o", path, "--", "true"]),
        "coro to a database": (".db", ENGINE, lambda self, path: ["coro", "-o", path, "--", "true"]),
        "corotracer": (".jsonl", FAILURE, lambda self, path: [
            "corotracer", "-cmd", "true", "-shm", self.private / "shm", "-sock", self.private / "sock",
            "-out", path
        ]),
        "corotracer -export": (
            ".csv", FAILURE,
            lambda self, path: ["corotracer", "-export", "csv", "-in", self.trace, "-csv-out", path]),
        "record": (".folded", FAILURE, lambda self, path: ["record", "-o", path, "--", "true"]),
        "run --summary": (".summary", CONFIG, lambda self, path: [
            "run", "--comm", "no-such-program", "-d", "100ms", "--endpoint", "http://127.0.0.1:9",
            "--summary", path
        ]),
    }
    LIVE = ("coro", "corotracer")
    DATABASES = ("coro to a database", "corotracer -export to a database")

    def write(self, verb, path, expect=0, **options):
        options.setdefault("env", self.env)
        return self.spanprof(*self.VERBS[verb][2](self, path), expect=expect, **options)

    def verbs(self, leave_out=()):
        """Each with new directories."""
        for self.verb, (suffix, status, _) in self.VERBS.items():
            if self.verb not in leave_out:
                self.furnish()
                yield self.verb, suffix, status

    def _formatMessage(self, msg, standardMsg):
        return f"{self.verb}: {super()._formatMessage(msg, standardMsg)}"

    def test_follows_no_link_of_a_stranger_in_a_sticky_directory(self):
        for verb, suffix, status in self.verbs():
            goal = self.file(self.private / f"goal{suffix}", SECRET, 0o600)
            path = self.link(self.sticky / f"x{suffix}", goal, STRANGER)
            dangling = self.link(self.sticky / f"y{suffix}", self.private / f"new{suffix}", STRANGER)
            way = self.link(self.sticky / "way", self.private, STRANGER)
            for output in (path, dangling, way / goal.name):
                done = self.write(verb, output, status)
                self.assertIn("a link on the way to it belongs to another user", done.stderr)
                self.assertIn("name the file itself, or remove the link", done.stderr)
            self.assertEqual(self.look(goal), (SECRET, 0o600, 0))
            self.assertEqual(sorted(p.name for p in self.private.iterdir()), sorted({goal.name, "secret"}))

    def test_leaves_files_of_strangers_and_what_they_put_beside_alone(self):
        for verb, suffix, status in self.verbs(self.DATABASES):
            theirs = self.file(self.sticky / f"x{suffix}", "theirs\n", 0o666, STRANGER)
            done = self.write(verb, theirs, status)
            self.assertIn("belongs to another user: remove it, or choose another name", done.stderr)
            self.assertEqual(self.look(theirs), ("theirs\n", 0o666, STRANGER))
            beside = [self.file(self.sticky / f"y{suffix}.new", "theirs\n", 0o666, STRANGER),
                      self.link(self.sticky / f"y{suffix}.tmp", self.secret, STRANGER)]
            self.write(verb, self.sticky / f"y{suffix}")
            self.assertEqual(self.look(beside[0]), ("theirs\n", 0o666, STRANGER),
                             "an open descriptor of theirs would see it all")
            self.assertEqual(self.look(self.secret), (SECRET, 0o600, 0))

    def test_a_summary_is_not_written_into_what_a_stranger_has_opened(self):
        theirs = self.file(self.sticky / "s.new", "", 0o666, STRANGER)
        with theirs.open() as opened:
            self.write("run --summary", self.sticky / "s")
            self.assertEqual(opened.read(), "")
        self.assertEqual(self.look(self.sticky / "s")[1:], (0o600, 0))
        json.loads((self.sticky / "s").read_text())

    def test_replaces_a_name_and_not_the_file_that_others_have_under_another(self):
        for verb, suffix, status in self.verbs(("corotracer", *self.DATABASES)):
            path = self.sticky / f"x{suffix}"
            os.link(self.secret, path)
            self.write(verb, path)
            self.assertEqual(self.look(self.secret), (SECRET, 0o600, 0))
            self.assertFalse(path.samefile(self.secret))
            self.assertEqual(self.look(path)[1:], (0o600, 0), "root's stays root's")
        os.link(self.secret, self.sticky / "t.jsonl")
        done = self.write("corotracer", self.sticky / "t.jsonl", FAILURE)
        self.assertIn("hard links", done.stderr)
        self.assertEqual(self.look(self.secret), (SECRET, 0o600, 0))

    def test_keeps_owner_and_mode_of_what_it_replaces(self):
        for verb, suffix, status in self.verbs(self.DATABASES):
            home = self.place("home", 0o755, CALLER)
            ours = self.file(home / f"ours{suffix}", "", 0o600, 0)
            theirs = self.file(home / f"theirs{suffix}", "", 0o600, CALLER)
            self.write(verb, ours)
            self.write(verb, theirs)
            self.assertEqual((self.look(ours)[1:], self.look(theirs)[1:]), ((0o600, 0), (0o600, CALLER)))

    def test_writes_into_a_pipe(self):
        for verb, suffix, status in self.verbs(self.DATABASES):
            path = self.private / f"pipe{suffix}"
            os.mkfifo(path, 0o600)
            with subprocess.Popen(["sh", "-c", 'cat <"$0"', path], stdout=subprocess.PIPE) as reader:
                if verb == "run --summary":     # which waits for no reader
                    held = self.hold(path)
                self.write(verb, path)
                if verb == "run --summary":
                    os.close(held)
                got = reader.communicate(timeout=tap.PATIENCE)[0]
            # of `true` there may be nothing to tell
            self.assertEqual(bool(got), verb not in self.LIVE + ("record",), got)
            self.assertTrue(stat.S_ISFIFO(path.lstat().st_mode))
            theirs = self.sticky / f"pipe{suffix}"
            os.mkfifo(theirs, 0o666)
            os.chown(theirs, STRANGER, STRANGER)
            self.assertIn("belongs to another user", self.write(verb, theirs, status).stderr)

    def hold(self, path):
        """Another writer, from when there is a reader, so that that does not end before ours begins."""

        def hold():
            with contextlib.suppress(OSError):
                return os.open(path, os.O_WRONLY | os.O_NONBLOCK)

        return tap.wait_until(hold, "a reader")

    def test_a_summary_waits_for_no_reader(self):
        os.mkfifo(self.private / "pipe", 0o600)
        done = self.write("run --summary", self.private / "pipe", CONFIG)
        self.assertIn("nobody reads this pipe: start its reader first", done.stderr)

    def device(self, name, kind, major, minor):
        path = self.private / name
        try:
            os.mknod(path, kind | 0o600, os.makedev(major, minor))
        except OSError as error:
            tap.skip(f"machine: no device can be made here: {error}")
        return path

    def test_writes_into_null_and_leaves_it_there(self):
        for verb, suffix, status in self.verbs(self.DATABASES):
            path = self.device(f"null{suffix}", stat.S_IFCHR, 1, 3)
            self.write(verb, path)
            info = path.lstat()
            self.assertTrue(stat.S_ISCHR(info.st_mode))
            self.assertEqual((info.st_rdev, stat.S_IMODE(info.st_mode)), (os.makedev(1, 3), 0o600))
            self.assertEqual(sorted(p.name for p in self.private.iterdir()), [path.name, "secret"])

    def test_refuses_other_devices_before_it_opens_them(self):
        """A loop device that is opened would be there afterwards, or be an error of another kind."""
        for verb, suffix, status in self.verbs(self.DATABASES):
            for path in (self.device(f"loop{suffix}", stat.S_IFBLK, 7,
                                     1999), self.device(f"zero{suffix}", stat.S_IFCHR, 1, 5)):
                done = self.write(verb, path, status)
                self.assertIn(
                    "it is a device or a socket: choose a file, a pipe, a terminal, /dev/null, or - for standard output",
                    done.stderr)

    def test_writes_to_a_terminal(self):
        for verb in ("report", "run --summary", "convert"):
            with self.subTest(verb=verb):
                master, slave = pty.openpty()
                self.addCleanup(os.close, master)
                link = self.link(self.private / f"tty{self.VERBS[verb][0]}", os.ttyname(slave), 0)
                child = self.spawn([tap.SPANPROF, *self.VERBS[verb][2](self, link)], env=self.env)
                got = b""
                while child.status is None or select.select([master], [], [], 0)[0]:
                    if select.select([master], [], [], 0.1)[0]:
                        got += os.read(master, 65536)
                os.close(slave)
                self.assertEqual(child.status, 0, child)
                self.assertGreater(len(got), 20)
                self.assertTrue(link.is_symlink())

    def test_a_directory_is_in_the_way(self):
        for verb, suffix, status in self.verbs():
            path = self.private / f"x{suffix}"
            path.mkdir()
            self.assertRegex(self.write(verb, path, status).stderr, "directory|no database")
            self.assertEqual(list(path.iterdir()), [])

    def test_a_full_disk_loses_nothing_of_the_old_file(self):
        for verb, suffix, status in self.verbs((*self.LIVE, *self.DATABASES)):
            small = self.place("small", 0o700)
            self.run_command(["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "none", small], expect=0)
            self.addCleanup(self.run_command, ["umount", small])
            path = self.file(small / f"x{suffix}", "before\n", 0o600)
            with self.assertRaises(OSError):
                (small / "filler").write_bytes(b"x" * 65536)
            done = self.write(verb, path, None)
            # of `true` there may be no sample, and nothing to write
            if verb == "record" and not done.returncode:
                self.assertEqual((small / "x.folded.old").read_text(), "before\n")
            else:
                self.assertEqual(done.returncode, FAILURE, done.stderr)
                self.assertIn("No space left on device", done.stderr)
                self.assertEqual(self.look(path), ("before\n", 0o600, 0))
                self.assertEqual(sorted(p.name for p in small.iterdir()), ["filler", path.name])

    def test_follows_links_of_its_own_and_makes_what_they_lead_to(self):
        for verb, suffix, status in self.verbs():
            goal = self.private / f"later{suffix}"
            link = self.link(self.dir / f"link{suffix}", goal, 0)
            self.write(verb, link)
            self.assertTrue(link.is_symlink())
            self.assertTrue(stat.S_ISREG(goal.lstat().st_mode))

    def rights(self, path):
        return self.look(path)[1:]

    def test_an_output_is_never_more_readable_than_its_inputs(self):
        for verb, suffix, status in self.verbs((*self.LIVE, "coro to a database", "record", "run --summary")):
            path = self.private / f"x{suffix}"
            self.write(verb, path)
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o644,
                             "everybody may read what it is made from")
            path.unlink()
            self.profile.chmod(0o600)
            self.trace.chmod(0o600)
            self.write(verb, path)
            self.assertEqual(self.rights(path), (0o600, 0), "not the caller's either: the input is root's")
            path.unlink()
            self.file(path, "", 0o644)
            self.write(verb, path)
            self.assertEqual(self.rights(path), (0o600, 0))

    def test_writes_over_no_input(self):
        before = self.profile.read_text()
        self.link(self.private / "link.folded", self.profile, 0)
        os.link(self.profile, self.private / "hard.folded")
        for verb in ("convert", "report"):
            for output in (self.profile, self.private / "link.folded", self.private / "hard.folded"):
                done = self.spanprof(verb, self.profile, "-o", output, "--format", "folded", expect=USAGE,
                                     env=self.env)
                self.assertIn("is input and output", done.stderr)
        self.assertEqual(self.profile.read_text(), before)

    def test_a_database_needs_a_directory_that_nobody_else_may_change(self):
        for verb in self.DATABASES:
            with self.subTest(verb=verb):
                for suffix in ("-wal", "-shm", "-journal"):
                    self.link(self.sticky / f"x.db{suffix}", self.secret, STRANGER)
                done = self.write(verb, self.sticky / "x.db", self.VERBS[verb][1])
                self.assertIn("others may write to its directory", done.stderr)
                self.assertFalse((self.sticky / "x.db").exists())
                for one in self.sticky.iterdir():
                    one.unlink()

    def test_a_directory_of_received_requests_is_nobody_elses(self):
        # root writes to another user's directory as that user, but not to one that this user has put there,
        # unless it is the user whom root becomes anyway (nobody)
        theirs = self.place("sticky/theirs", 0o755, 54321)
        self.link(self.sticky / "link", self.private, STRANGER)
        everybodys = self.place("everybodys", 0o777)
        for path, what in ((theirs, "belongs to another user"), (everybodys, "others may write"),
                           (self.sticky / "link", "a link on the way")):
            done = self.spanprof("receive", "--port", "0", "-o", path, expect=FAILURE, env=self.env)
            self.assertIn(what, done.stderr)

    def test_standard_output(self):
        for output in ("-", "/dev/stdout"):
            done = self.spanprof("convert", self.profile, "-o", output, "--format", "folded", env=self.env)
            self.assertEqual(done.stdout, "main;work 3\n")
        done = self.write("run --summary", "-")
        self.assertIn("ticks", json.loads(done.stdout))
        self.assertEqual(self.spanprof("coro", "-o", "-", "--", "true", env=self.env).stdout, "")


tap.main()
