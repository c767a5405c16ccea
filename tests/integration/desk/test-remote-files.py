#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs on FUSE. One whose server answers has whole stacks with names, as one on a disk has. For one whose
server has stopped answering no verb waits, and each says why the program's stacks have no names."""
import oracle

oracle.enter()

import json
import os
import pathlib

import fuse_server
import otlp_read
import session
import tap

NOBODY = 65534


CHAIN = "main;chain_frame;chain_frame;chain_frame;chain_leaf"
DEPTH = "4"
RESTS = session.clean_environment(VICTIM_RESTS=1)       # a sixth of a CPU for seconds is enough


class Answering(session.TestCase):
    """The kernel asks for names and attributes each time, as it does of sshfs after a second."""

    def serve(self, **options):
        data, where = (tap.VICTIMS / "victim-chain").read_bytes(), self.directory()
        where.chmod(0o755)
        try:
            server = fuse_server.FuseServer(where, "chain", data, valid=0, **options)
        except OSError as error:
            tap.skip(f"kernel: mounts no FUSE here: {error}")
        self.addCleanup(server.close)
        return server

    def record(self, *arguments):
        """Samples, and the share of these that have the whole chain by name."""
        where = self.directory()
        child = self.spawn([tap.SPANPROF, "record", "-F", "999", "-o", "x.folded", *arguments],
                           env=RESTS, cwd=where)
        self.assertEqual(child.wait(), 0, child.err)
        rows = [line.rsplit(" ", 1) for line in (where / "x.folded").read_text().splitlines()]
        n_all = sum(int(n) for _, n in rows)
        self.assertGreater(n_all, 50)
        return child, sum(int(n) for stack, n in rows if CHAIN in stack) / n_all

    def test_a_command_on_it_has_whole_stacks_and_names(self):
        server = self.serve()
        child, share = self.record("--", server.file, DEPTH, "4")
        self.assertGreater(share, 0.9, child.out)
        self.assertNotIn("not read", child.err + child.out)

    def test_one_that_lets_only_its_user_in_is_read_as_that_user(self):
        server = self.serve(user=NOBODY, allow_other=False)
        victim = self.spawn([server.file, DEPTH, "60"], user=NOBODY, group=NOBODY, extra_groups=[], env=RESTS)
        session.wait_cpu([victim.pid], 0.1)
        with self.assertRaises(PermissionError):
            open(server.file, "rb")  # we are root, and it is not enough
        child, share = self.record("-p", str(victim.pid), "-d", "3")
        self.assertGreater(share, 0.9, child.out)

    def test_pieces_of_any_size_are_put_together(self):
        server = self.serve()
        victim = self.spawn([server.file, DEPTH, "60"], env=RESTS)
        session.wait_cpu([victim.pid], 0.1)
        server.piece = 1021
        child, share = self.record("-p", str(victim.pid), "-d", "3")
        self.assertGreater(share, 0.9, child.out)

    def test_one_that_gives_a_byte_at_a_time_is_given_up(self):
        server = self.serve()
        server.data += bytes(1 << 20)
        victim = self.spawn([server.file, DEPTH, "60"], env=RESTS)
        session.wait_cpu([victim.pid], 0.1)
        server.piece = 1
        child, share = self.record("-p", str(victim.pid), "-d", "3")
        self.assertIn("not read", child.err)

    def test_targets_says_nothing_of_it(self):
        server = self.serve()
        victim = self.spawn([server.file, DEPTH, "60"], env=RESTS)
        session.wait_cpu([victim.pid], 0.1)
        listed = self.spawn([tap.SPANPROF, "targets", "-p", str(victim.pid), "--json"],
                            env=session.clean_environment())
        self.assertEqual(listed.wait(), 0, listed.err)
        self.assertNotIn("not read", listed.err)
        self.assertNotIn("unread_filesystem", json.loads(listed.out)[0])

    def test_what_was_read_once_has_names_after_its_server_has_stopped(self):
        server = self.serve()
        victim = self.spawn([server.file, DEPTH, "60"], env=RESTS)
        session.wait_cpu([victim.pid], 0.1)
        where, closed = self.directory(), server.n_closed
        child = self.spawn([tap.SPANPROF, "record", "-F", "999", "-d", "4", "-p", str(victim.pid),
                            "-o", "x.folded"], env=session.clean_environment(), cwd=where)
        tap.wait_until(lambda: server.n_closed > closed, "a reader of the file")
        server.be_silent()
        self.assertEqual(child.wait(), 0, child.err)
        self.assertIn(CHAIN, (where / "x.folded").read_text())


def copied_bytes():
    """Bytes that copiers have in memory, by process."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text() != "spanprof-remote\n":
                continue
            for fd in (process / "fd").iterdir():
                if os.readlink(fd).startswith("/memfd:spanprof"):
                    found[int(process.name)] = fd.stat().st_size
        except OSError:
            pass  # it has ended
    return found


class Hanging(session.TestCase):
    def test_a_copier_that_hangs_in_the_middle_of_its_file_keeps_no_bytes_of_it(self):
        try:
            server = fuse_server.FuseServer(self.directory(), "program", pathlib.Path("/bin/bash").read_bytes())
        except OSError as error:
            tap.skip(f"kernel: mounts no FUSE here: {error}")
        victim = self.spawn([server.file, "-c", "while :; do i=$((i+1)); done"])
        self.addCleanup(server.close)  # before the program is waited for, which may hang in it
        session.wait_cpu([victim.pid], 0.2)
        before = copied_bytes()
        server.n_reads_left = 6  # of 64 KiB
        child = self.spawn([tap.SPANPROF, "record", "-p", str(victim.pid), "-d", "5", "-o", "x.folded"],
                           env=session.clean_environment(), cwd=self.directory())
        mine = lambda: {pid: size for pid, size in copied_bytes().items() if pid not in before}
        child.wait()  # the program may hang, too: then there is no sample
        self.assertIn("not read", child.err)
        tap.wait_until(lambda: not any(mine().values()), "copies of nothing", 5)


class Silent(session.TestCase):
    SCRIPT = "while :; do i=$((i+1)); done"

    def setUp(self):
        directory = self.directory()
        try:
            # the kernel asks for names and attributes each time, as it does of sshfs after a second
            shell = pathlib.Path("/bin/bash").read_bytes()
            self.server = fuse_server.FuseServer(directory, "program", shell, valid=0)
        except OSError as error:
            tap.skip(f"kernel: mounts no FUSE here: {error}")
        self.addCleanup(self.server.close)
        self.victim = self.spawn([self.server.file, "-c", self.SCRIPT])
        session.wait_cpu([self.victim.pid], 0.2)  # all of its pages that it needs are there
        self.server.be_silent()
        self.where = self.directory()

    def verb(self, *arguments, expect=0):
        """Runs to its end, which a wait for the server would never be."""
        child = self.spawn([tap.SPANPROF, *arguments], env=session.clean_environment(), cwd=self.where)
        status = child.wait()
        if expect is not None:
            self.assertEqual(status, expect, child.err)
        return child

    def sampled(self):
        """Ids of the processes that a recording has samples of."""
        return {sample.resource["process.pid"] for sample in otlp_read.samples(self.where / "x.otlp")}

    def test_record_of_the_program_ends_in_time_and_says_the_filesystem(self):
        done = self.verb("record", "-p", str(self.victim.pid), "-d", "2", "-F", "499", "-o", "x.otlp")
        self.assertRegex(done.err, rf"process {self.victim.pid} \(program\) runs code of files on fuse: these are not read")
        self.assertIn("files on FUSE or a network are not read", done.out)
        self.assertNotIn("--perf-basic-prof", done.out)
        self.assertEqual(self.sampled(), {self.victim.pid})

    def test_record_of_everything_ends_in_time_and_has_the_others(self):
        other = self.spawn([tap.VICTIMS / "victim-chain", "60"])
        session.wait_cpu([other.pid], 0.1)
        done = self.verb("record", "-a", "-d", "2", "-F", "499", "-o", "x.otlp")
        self.assertIn("fuse", done.err)
        self.assertLessEqual({self.victim.pid, other.pid}, self.sampled())

    def test_a_command_beside_it_is_recorded(self):
        done = self.verb("record", "-o", "x.folded", "--", "sh", "-c", "i=0; while [ $((i+=1)) -lt 300000 ]; do :; done")
        self.assertNotIn("fuse", done.err)

    def test_the_daemon_goes_on_emptying_its_rings(self):
        """An honest program beside it has its ticks, whole, and none is lost for a full ring."""
        other = self.spawn([tap.VICTIMS / "victim-chain", "60"])
        run = self.start("--comm", "program,victim-chain", "--frequency", "499", "--symbols", "local")
        session.wait_cpu([other.pid], 1.0)
        session.wait_cpu([self.victim.pid], 0.2)
        result = run.stop()
        self.assertNotIn("ring_full", result.summary["lost_by_reason"])
        samples = result.of(other.pid)
        whole = [s for s in samples if "profile.stack.truncated" not in s.attributes]
        self.assertGreater(len(samples), 100)
        self.assertGreaterEqual(len(whole), 0.9 * len(samples), "but for those of the first moments")

    def test_top_and_stacks_answer(self):
        self.verb("top", "-p", str(self.victim.pid), "-n", "1", "-i", "1")
        self.assertIn(f"{self.victim.pid} program", self.verb("stacks", str(self.victim.pid)).out)

    def test_targets_and_doctor_say_the_filesystem(self):
        pid = str(self.victim.pid)
        done = self.verb("targets", "-p", pid)
        self.assertIn(f"process {pid} runs code of files on fuse: these are not read", done.err)
        entry, = json.loads(self.verb("targets", "-p", pid, "--json").out)
        self.assertEqual((entry["pid"], entry["unread_filesystem"]), (self.victim.pid, "fuse"))
        self.assertRegex(self.verb("doctor", "-p", pid, expect=None).out, r"filesystems +.*files on fuse")

    def test_a_process_that_is_asked_for_comes_first(self):
        rows = self.verb("targets", "-p", str(self.victim.pid), "--verbose").out.splitlines()[1:]
        pids = [int(row.split()[0]) for row in rows]
        self.assertEqual(pids[0], self.victim.pid)
        self.assertGreater(len(pids), 1)
        self.assertEqual(pids[1:], sorted(set(pids) - {self.victim.pid}))

    def test_a_program_on_a_disk_is_told_of_nothing(self):
        other = self.spawn([tap.VICTIMS / "victim-chain", "60"])
        session.wait_cpu([other.pid], 0.1)
        self.assertNotIn("not read", self.verb("targets", "-p", str(other.pid)).err)
        entry, = json.loads(self.verb("targets", "-p", str(other.pid), "--json").out)
        self.assertNotIn("unread_filesystem", entry)


tap.main()
