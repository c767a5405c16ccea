#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program on a filesystem whose server has stopped answering: no verb waits for it, and each says why the
program's stacks have no names."""
import oracle

oracle.enter()

import json
import pathlib

import fuse_server
import otlp_read
import session
import tap


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
