#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The spool under everything that can happen to it: receivers that are away, kill -9 at each of its steps,
full and read-only disks, strangers' files, two who want it. What counts is what a receiver has at the end:
each batch at least once, and the books (submitted + taken up = delivered + lost + left) come out even.
"""
import oracle

oracle.enter()

import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import tap
from export_case import RETRY, lost
from fault_server import close, closed_port, ok, reply, slow, status
from spool_case import DEAD, DELIVERED, EVENTS, FAILED, FAULT_AT, TAKEN, WRITTEN, SpoolCase

DAY = 86400 * 10**9


class Life(SpoolCase):
    def test_what_an_absent_receiver_misses_arrives_later_and_once(self):
        self.fill(5)
        server, values = self.drain()
        self.assertEqual(server.markers(), [f"batch-{i}" for i in range(5)], "oldest first")
        self.assertEqual((values[DELIVERED], values[TAKEN]), (5 * EVENTS, 5 * EVENTS))
        self.assertIn("5 requests with 500 samples are still to be sent", values["log"])
        server, _ = self.drain()
        self.assertEqual(server.requests, [])

    def test_a_receiver_that_comes_back_gets_everything_from_the_same_daemon(self):
        port = closed_port(self)
        driver = self.spawn(self.command(f"http://127.0.0.1:{port}/x", batches=20, drained=1, interval_ms=5),
                            env={"PATH": os.environ["PATH"]})
        driver.wait_for("samples wait")
        tap.wait_until(lambda: len(self.files()) >= 10, "ten files")
        server = self.serve(ok(), port=port)
        self.assertEqual(driver.wait(), 0)
        self.assertEqual(sorted(set(server.markers())), sorted(f"batch-{i}" for i in range(20)))
        self.assertEqual(len(server.markers()), 20, "nothing was lost in an answer, so nothing comes twice")
        self.assertIn(f"{DELIVERED} {20 * EVENTS}\n", driver.out)

    def test_after_two_hours_away_the_old_come_oldest_first_and_the_new_in_between(self):
        """Two hours of windows of 15 seconds, here of 5 ms each; new ones go on coming while the old are sent."""
        port, n = closed_port(self), 480
        self.put_spool_in_memory()
        driver = self.spawn(
            self.command(f"http://127.0.0.1:{port}/x", batches=1000000, interval_ms=5, age_ms=100,
                         spool_mode=FAILED), env={"PATH": os.environ["PATH"]})
        tap.wait_until(lambda: len(self.files()) >= n, "two hours", patience=240)
        server = self.serve(ok(), port=port)
        old = {f"batch-{i}" for i in range(n)}
        tap.wait_until(lambda: old <= set(server.markers()), "all of the old", patience=240)
        driver.process.kill()
        driver.wait()
        markers = [int(marker[6:]) for marker in server.markers()]
        first_new = next(i for i, marker in enumerate(markers) if i and marker > markers[i - 1] + 1)
        self.assertLess(first_new, markers.index(n - 1), "the new did not wait for the last of the old")
        self.assertTrue([marker for marker in markers if marker < n] == list(range(n)),
                        f"each once, oldest first: {markers[:n]}")
        self.assertNotIn("lost", driver.err)

    def put_spool_in_memory(self):
        """Where hundreds of flushes do not depend on what others do with the disk."""
        if os.access("/dev/shm", os.W_OK):
            directory = tempfile.mkdtemp(prefix="spanprof-test-", dir="/dev/shm")
            self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
            self.spool = pathlib.Path(directory) / "spool"

    def test_old_and_new_take_turns(self):
        self.fill(6)
        server = self.serve(ok())
        self.drive(server.url(), batches=3, padding=1, drained=1)
        order = [(request.marker, b"\x05" in request.body and len(request.raw))
                 for request in server.requests]
        self.assertEqual(len(order), 9)
        # new ones are batch-0..2 again, with a byte of padding: told apart by their size
        sizes = [len(request.body) for request in server.requests]
        new = [i for i, size in enumerate(sizes) if size > min(sizes)]
        self.assertEqual(len(new), 3)
        self.assertLess(max(new), 8, "the new ones did not wait for all of the old")
        self.assertEqual([r.marker for i, r in enumerate(server.requests) if i not in new],
                         [f"batch-{i}" for i in range(6)])

    def test_what_is_left_at_the_end_goes_there(self):
        server = self.serve(status(503))
        values = self.drive(server.url(), batches=4, run_ms=1, retry_ms=60000)
        self.assertEqual(len(self.files()), 4)
        self.assertNotIn(lost("stop"), values)
        server, _ = self.drain()
        self.assertEqual(sorted(server.markers()), [f"batch-{i}" for i in range(4)])

    def test_a_request_under_way_when_time_is_up_goes_there(self):
        server = self.serve(slow(5, ok()))
        self.drive(server.url(), batches=2, run_ms=1, stop_ms=50)
        self.assertEqual(len(self.files()), 2)

    def test_what_is_refused_leaves_its_queue(self):
        self.fill(2)
        _, values = self.drain(status(400), ok())
        self.assertEqual((values[lost("export_refused")], values[DELIVERED]), (EVENTS, EVENTS))

    def test_a_receiver_of_another_draft_is_told_and_its_samples_stay(self):
        """What real ones answer: a Collector whose signal is off, Collectors 0.113 and 0.139, an old Pyroscope."""
        plain, older = "text/plain; charset=utf-8", "an older version of the protocol"

        def collector(words):
            return 400, "application/x-protobuf", b"\x08\x03\x12" + bytes([len(words)]) + words, older

        drafts = {"no path": (404, plain, b"404 page not found\n", "another draft of OTLP profiles has another path"),
                  "other places": collector(b"unmarshal: invalid ProfileID length"),
                  "other fields": collector(b"proto: wrong wireType = 2 for field LinkIndex"),
                  "no values": (400, plain, b"failed to convert otel profile: sample value is required", older)}
        for name, (code, kind, body, cure) in drafts.items():
            with self.subTest(name):
                self.spool = self.directory() / "spool"
                self.fill(2)
                server = self.serve(reply(code, [("Content-Type", kind)], body))
                values = self.drive(server.url(), batches=1, spooled=3, retry_ms=20, age_ms=10)
                self.assertGreater(values[RETRY], 0)
                self.assertEqual(([key for key in values if key.startswith("lost_total")], len(self.files())), ([], 3))
                self.assertEqual(values["log"].count(cure), 1, values["log"])
                self.assertRegex(values["log"], r"answered 40\d, .* samples wait, next try in")
                upgraded, values = self.drain()
                self.assertEqual((upgraded.markers()[:2], values[DELIVERED]), (["batch-0", "batch-1"], 3 * EVENTS))

    def test_a_batch_that_alone_is_of_another_draft_is_buried(self):
        """A receiver that takes the others has none."""
        self.fill(3)

        def play(connection, server):
            is_first = server.requests[-1].marker == "batch-0"
            return (status(400, b"proto: wrong wireType = 0 for field X") if is_first else ok())(connection, server)

        _, values = self.drain(play, age_ms=300)
        self.assertEqual((values[lost("export_refused")], values[DELIVERED], values[DEAD]), (EVENTS, 2 * EVENTS, EVENTS))

    def test_a_batch_that_alone_breaks_the_connection_is_given_up_and_holds_nobody_up(self):
        self.fill(4)

        def play(connection, server):
            request = server.requests[-1]
            return close(connection, server) if request.marker == "batch-0" else ok()(connection, server)

        server, values = self.drain(play, age_ms=300)
        self.assertEqual((values[lost("export_age")], values[DELIVERED]), (EVENTS, 3 * EVENTS))
        others = [marker for marker in server.markers() if marker != "batch-0"]
        self.assertEqual(others, ["batch-1", "batch-2", "batch-3"])

    def test_an_outage_that_is_longer_than_the_age_of_requests_costs_nothing(self):
        self.fill(2)
        values = self.drive(self.away(), batches=1, age_ms=20, retry_ms=10, spooled=3, run_ms=300)
        self.assertEqual([name for name in values if name.startswith("lost_total")], [])
        self.assertEqual(len(self.files()), 3)

    def test_what_was_stored_in_one_form_is_sent_in_the_other(self):
        for stored, sent in ((0, 1), (1, 0)):
            with self.subTest(stored=stored, sent=sent):
                shutil.rmtree(self.spool, ignore_errors=True)
                self.fill(2, json=stored)
                server, _ = self.drain(json=sent)
                self.assertEqual(server.markers(), ["batch-0", "batch-1"])
                self.assertEqual([r.body[:1] == b"{" for r in server.requests], [bool(sent)] * 2)
                self.assertEqual(server.requests[0].headers["Content-Type"],
                                 "application/json" if sent else "application/x-protobuf")

    def test_of_the_version_before_is_read(self):
        """tests/data/spool-0.1.0 was stored by that version: two requests in protobuf, one in JSON."""
        for json in (0, 1):
            shutil.rmtree(self.spool, ignore_errors=True)
            self.spool.mkdir(mode=0o700)
            for path in (tap.SOURCE_DIR / "tests/data/spool-0.1.0").glob("*.batch"):
                shutil.copyfile(path, self.spool / path.name)
            server, values = self.drain(json=json)
            self.assertEqual(server.markers(), ["batch-0", "batch-1", "batch-0"])
            self.assertEqual((values[TAKEN], values[DELIVERED]), (3 * EVENTS, 3 * EVENTS))

    def test_files_are_private_and_compressed(self):
        self.fill(1, padding=0)
        (path,) = self.files()
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.spool.stat().st_mode & 0o777, 0o700)
        self.assertRegex(path.name, r"^\d{19}-000001-100\.batch$")
        self.assertEqual(path.read_bytes()[96:100], b"\x28\xb5\x2f\xfd", "zstd behind the header")


class Caps(SpoolCase):
    def test_over_its_bytes_the_oldest_go(self):
        values = self.drive(self.away(), batches=30, padding=100000, spool_bytes=1 << 20, interval_ms=5,
                            queue_bytes=8 << 20, run_ms=600)
        self.assertGreater(values[lost("spool_full")], 0)
        self.assertLessEqual(sum(path.stat().st_size for path in self.files()), 1 << 20)
        server, _ = self.drain()
        self.assertEqual(server.markers(), [f"batch-{i}" for i in range(30 - len(server.markers()), 30)],
                         "the newest are kept")

    def test_over_its_age_they_go(self):
        self.fill(2)
        first = self.files()[0]
        first.rename(first.with_name(f"{int(first.name[:19]) - 8 * DAY:019d}-000001-100.batch"))
        server, values = self.drain(spool_age_ms=7 * 86400 * 1000)
        self.assertEqual(server.markers(), ["batch-1"])
        self.assertEqual(values[lost("spool_age")], EVENTS)

    def test_a_hundred_thousand_files_are_sent_in_order(self):
        """Most are rubbish to the size: what is measured is that nothing is quadratic; the receiver gets the good ones."""
        self.fill(3)
        names = self.files()
        start = int(names[0].name[:19])
        for i in range(100000):
            os.close(
                os.open(self.spool / f"{start - 200000 + i:019d}-000000-1.batch", os.O_CREAT | os.O_WRONLY,
                        0o600))
        server, values = self.drain()
        self.assertEqual(server.markers(), ["batch-0", "batch-1", "batch-2"])
        self.assertEqual(values[lost("spool_corrupt")], 100000)


class Damage(SpoolCase):
    def test_a_damaged_file_is_set_aside_and_counted(self):
        def flip(at):
            def mutate(data):
                return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]
            return mutate

        for name, mutate in (("empty", lambda d: b""), ("half", lambda d: d[:len(d) // 2]),
                             ("longer",
                              lambda d: d + b"\0"), *((f"bit at {at}", flip(at))
                                                      for at in (0, 8, 12, 16, 40, 64, 72, 80, 88, 96, -1))):
            with self.subTest(name):
                shutil.rmtree(self.spool, ignore_errors=True)
                self.fill(2)
                first = self.files()[0]
                first.write_bytes(mutate(first.read_bytes()))
                server, values = self.drain()
                self.assertEqual(server.markers(), ["batch-1"])
                self.assertEqual((values[lost("spool_corrupt")], values["spool_files_corrupt_total{}"]),
                                 (EVENTS, 1))
                self.assertTrue(first.with_name(first.name + ".corrupt").exists())

    def test_strangers_files_are_left_alone(self):
        self.fill(1)
        secret = self.directory() / "secret"
        secret.write_text("nobody's business")
        stamp = int(self.files()[0].name[:19]) - 1
        (self.spool / f"{stamp:019d}-000001-7.batch").symlink_to(secret)
        os.mkfifo(self.spool / f"{stamp - 1:019d}-000001-7.batch")
        (self.spool / "README").write_text("x")
        (self.spool / f"{stamp:019d}-1-7.batch").write_text("not a name of ours to the letter")
        server = self.serve(ok())
        self.drive(server.url(), batches=0, drained=1)
        self.assertEqual(server.markers(), ["batch-0"])
        self.assertEqual(secret.read_text(), "nobody's business")
        self.assertEqual(len(list(self.spool.iterdir())), 5, "four of others, and the lock")

    def test_names_with_numbers_that_cannot_be_are_no_losses(self):
        self.fill(1)
        names = [f"{1:019d}-000001-{2**64 - 1}.batch", f"{1:019d}-000001-{2**40 + 1}.batch", f"{10**19 - 1}-000001-5.batch"]
        for name in names:
            (self.spool / name).write_text("x")
        server = self.serve(ok())
        values = self.drive(server.url(), batches=0, drained=1, spool_age_ms=7 * 86400 * 1000)
        self.assertEqual(server.markers(), ["batch-0"])
        self.assertEqual(values[DELIVERED], EVENTS)
        self.assertEqual([key for key, n in values.items() if key.startswith("lost_total") and n], [])
        for name in names:
            self.assertTrue((self.spool / name).exists(), name)

    def test_of_damaged_files_the_last_sixteen_are_kept(self):
        self.spool.mkdir(mode=0o700)
        for i in range(20):
            (self.spool / f"{10**18 + i:019d}-000001-7.batch.corrupt").write_text("x")
        self.fill(1)
        self.assertEqual(sorted(path.name[17:19] for path in self.spool.glob("*.corrupt")),
                         [f"{i:02d}" for i in range(4, 20)])

    def test_a_file_that_somebody_removes_is_not_waited_for(self):
        self.fill(3)
        server = self.serve(slow(0.3, ok()), ok())
        driver = self.spawn(self.command(server.url(), batches=0, drained=1),
                            env={"PATH": os.environ["PATH"]})
        tap.wait_until(lambda: server.requests, "a request")
        self.files()[1].unlink()
        self.assertEqual(driver.wait(), 0)
        self.assertEqual(server.markers(), ["batch-0", "batch-2"])


class Kill(SpoolCase):
    def steps(self):
        """The calls that three batches on the way to the disk make."""
        log = self.directory() / "calls"
        environment = {"LD_PRELOAD": str(FAULT_AT), "FAULT_DIR": str(self.spool), "FAULT_LOG": str(log)}
        self.drive(self.away(), batches=3, spooled=3, environment=environment, spool_mode=FAILED)
        shutil.rmtree(self.spool)
        calls = log.read_text().split()
        self.assertEqual(calls[:6], ["unlinkat", "openat", "write", "fdatasync", "renameat2", "fsync"])
        return calls

    def check_after(self, n_whole):
        """@n_whole: batches that had their name. The next one finds them, and only them, and removes what was half."""
        self.assertEqual(len(self.files()), n_whole)
        listed = json.loads(
            self.run_command([tap.SPANPROF, "spool", "ls", "--json", "--spool", self.spool], expect=0).stdout)
        self.assertEqual([entry["state"] for entry in listed], ["protobuf"] * n_whole)
        server, values = self.drain()
        self.assertEqual(server.markers(), [f"batch-{i}" for i in range(n_whole)])
        self.assertEqual(values.get(DELIVERED, 0), n_whole * EVENTS)
        self.assertEqual([path.name for path in self.spool.iterdir()], ["lock"])

    def test_at_each_step_of_writing_leaves_whole_batches_or_none(self):
        calls = self.steps()
        for kind in ("kill", "half"):
            for at in range(1, len(calls) + 1):
                if kind == "half" and calls[at - 1] != "write":
                    continue
                with self.subTest(kind=kind, at=at, call=calls[at - 1]):
                    shutil.rmtree(self.spool, ignore_errors=True)
                    environment = {
                        "LD_PRELOAD": str(FAULT_AT), "FAULT_DIR": str(self.spool), "FAULT_AT": str(at),
                        "FAULT_KIND": kind
                    }
                    self.drive(self.away(), batches=3, spooled=3, environment=environment,
                               expect=-signal.SIGKILL, spool_mode=FAILED)
                    self.check_after(calls[:at - 1].count("renameat2"))

    def test_between_delivery_and_removal_sends_once_more_and_never_less(self):
        self.fill(3)
        server = self.serve(ok())
        environment = {
            "LD_PRELOAD": str(FAULT_AT), "FAULT_DIR": str(self.spool), "FAULT_AT": "2", "FAULT_KIND": "kill"
        }
        self.drive(server.url(), batches=0, drained=1, environment=environment, expect=-signal.SIGKILL)
        again, _ = self.drain()
        self.assertEqual(sorted(set(server.markers() + again.markers())), ["batch-0", "batch-1", "batch-2"])
        self.assertLessEqual(len(server.markers() + again.markers()), 4)


class Disk(SpoolCase):
    def fail(self, kind, at, **options):
        environment = {
            "LD_PRELOAD": str(FAULT_AT), "FAULT_DIR": str(self.spool), "FAULT_AT": str(at), "FAULT_KIND": kind
        }
        return self.drive(self.away(), environment=environment, spool_mode=FAILED, **options)

    def test_errors_at_each_step_of_a_write_keep_the_batch_in_memory(self):
        for kind in ("ENOSPC", "EIO", "EROFS"):
            for at, call in ((2, "openat"), (3, "write"), (4, "fdatasync"), (5, "renameat2")):
                with self.subTest(kind=kind, call=call):
                    shutil.rmtree(self.spool, ignore_errors=True)
                    values = self.fail(kind, at, batches=2, retries=3)
                    self.assertGreaterEqual(values["spool_errors_total{}"], 2)
                    self.assertEqual((values[lost("stop")], self.files()), (2 * EVENTS, []))
                    self.assertIn("cannot write to the spool", values["log"])
                    self.assertEqual([path.name for path in self.spool.iterdir()], ["lock"], "no half file")

    def test_a_disk_that_is_full_in_the_middle_of_a_write_leaves_nothing_of_it(self):
        """The third call is the write: half of it is taken, the rest is not."""
        for at, n_whole in ((3, 0), (9, 1)):
            with self.subTest(at=at):
                shutil.rmtree(self.spool, ignore_errors=True)
                values = self.fail("partial", at, batches=2, padding=50000, retries=3)
                self.assertIn("cannot write to the spool: No space left on device", values["log"])
                self.assertEqual((values[lost("stop")], len(self.files())), ((2 - n_whole) * EVENTS, n_whole))
                self.assertEqual(len(list(self.spool.iterdir())), 1 + n_whole, "no half file beside the lock")
                self.assertEqual(self.drain()[0].markers(), ["batch-0"][:n_whole])

    def test_memory_takes_over_when_the_disk_is_full_and_the_receiver_gets_both(self):
        port = closed_port(self)
        environment = {
            "LD_PRELOAD": str(FAULT_AT), "FAULT_DIR": str(self.spool), "FAULT_AT": "9",
            "FAULT_KIND": "ENOSPC", "PATH": os.environ["PATH"]
        }
        driver = self.spawn(
            self.command(f"http://127.0.0.1:{port}/x", batches=4, drained=1, spool_mode=FAILED),
            env=environment)
        driver.wait_for("cannot write to the spool: No space left on device")
        self.assertEqual(len(self.files()), 1)
        server = self.serve(ok(), port=port)
        self.assertEqual(driver.wait(), 0)
        self.assertEqual(sorted(server.markers()), [f"batch-{i}" for i in range(4)])

    def test_a_really_full_disk(self):
        mount = self.directory() / "small"
        mount.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", mount],
                          capture_output=True).returncode:
            tap.skip("root: cannot mount a tmpfs")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", mount]))
        self.spool = mount / "spool"
        values = self.drive(self.away(), batches=10, padding=20000, retries=3)
        self.assertGreater(values["spool_errors_total{}"], 0)
        self.assertGreater(len(self.files()), 0)
        self.assertEqual(values[WRITTEN] + values[lost("stop")], 10 * EVENTS)
        server, _ = self.drain()
        self.assertEqual(len(server.markers()) * EVENTS, values[WRITTEN])

    def test_a_spool_that_cannot_be_used_is_told_and_done_without(self):
        file = self.directory() / "file"
        file.write_text("")
        link, target, open_to_all = (self.directory() / name for name in ("link", "target", "open"))
        target.mkdir()
        link.symlink_to(target)
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        for path, words in ((file, "no directory, or a symbolic link"), (link,
                                                                         "no directory, or a symbolic link"),
                            (open_to_all, "others may write there"), ("/proc/nonexistent", "No such file")):
            with self.subTest(str(path)):
                self.spool = path
                server = self.serve(ok())
                values = self.drive(server.url())
                self.assertIn(words, values["log"])
                self.assertIn("wait in memory alone", values["log"])
                self.assertEqual(values[DELIVERED], EVENTS)
        self.assertEqual(list(target.iterdir()), [])

    def test_a_read_only_spool_is_told(self):
        mount = self.directory() / "ro"
        mount.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700,ro", "none", mount],
                          capture_output=True).returncode:
            tap.skip("root: cannot mount a tmpfs")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", mount]))
        self.spool = mount
        server = self.serve(ok())
        values = self.drive(server.url())
        self.assertIn("Read-only file system", values["log"])
        self.assertEqual(values[DELIVERED], EVENTS)

    def test_of_two_only_one_has_it(self):
        first = self.spawn(self.command(self.away(), batches=1, run_ms=60000, spooled=99),
                           env={"PATH": os.environ["PATH"]})
        tap.wait_until(lambda: self.files(), "a file")
        server = self.serve(ok())
        values = self.drive(server.url())
        self.assertIn("another spanprof has it", values["log"])
        self.assertEqual(server.markers(), ["batch-0"], "its own, not the other's")
        self.assertEqual(len(self.files()), 1)
        done = self.run_command(
            [tap.SPANPROF, "spool", "flush", "--spool", self.spool, "--endpoint",
             server.url("")], expect=1)
        self.assertIn("another spanprof has it", done.stderr)
        first.process.kill()
        first.wait()
        self.drain()


class Verb(SpoolCase):
    def spanprof(self, *arguments, expect=0):
        clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        return self.run_command([tap.SPANPROF, "spool", *arguments, "--spool", self.spool], expect=expect,
                                env=clean)

    def test_ls_lists_the_oldest_first_and_changes_nothing(self):
        self.fill(2)
        self.files()[0].write_bytes(b"x")
        before = {path: path.read_bytes() for path in self.spool.iterdir()}
        lines = self.spanprof("ls").stdout.splitlines()
        self.assertRegex(lines[0], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ +100 samples .* corrupt ")
        self.assertRegex(lines[1], r" protobuf ")
        self.assertIn("2 requests, 200 samples", lines[2])
        self.assertEqual({path: path.read_bytes() for path in self.spool.iterdir()}, before)

    def test_flush_sends_everything(self):
        self.fill(3)
        server = self.serve(ok())
        done = self.spanprof("flush", "--endpoint", server.url(""))
        self.assertIn("300 samples delivered, 0 lost, 0 left", done.stdout)
        self.assertEqual(server.markers(), ["batch-0", "batch-1", "batch-2"])
        self.assertEqual(server.requests[0].path, "/v1development/profiles")
        self.assertEqual(self.files(), [])

    def test_flush_says_what_is_left(self):
        self.fill(3)
        server = self.serve(ok(), status(503))
        done = self.spanprof("flush", "--endpoint", server.url(""), expect=1)
        self.assertIn("100 samples delivered, 0 lost, 200 left", done.stdout)
        self.assertEqual(len(self.files()), 2)

    def test_extract_writes_what_was_submitted(self):
        self.fill(2)
        output = self.directory() / "out"
        self.spanprof("extract", "-o", output)
        files = sorted(output.iterdir())
        self.assertEqual([b"batch-%d" % i in path.read_bytes() for i, path in enumerate(files)], [True, True])
        self.assertEqual({path.suffix for path in files}, {".pb"})
        self.assertEqual(len(self.files()), 2)
        self.spanprof("extract", "-o", output, expect=1)

    def letters(self):
        return sorted((self.spool / "dead").glob("*.batch"))

    def bury(self, n, *plays, **options):
        """A receiver that refuses @n batches. The books call them lost, and the spool keeps them."""
        server = self.serve(*(plays or [status(401)]))
        values = self.drive(server.url(), batches=n, **options)
        self.assertEqual((values[lost("export_refused")], values[DEAD]), (n * EVENTS, n * EVENTS))
        self.assertIn("spanprof spool retry", values["log"])
        self.assertEqual((self.files(), len(self.letters())), ([], n))

    def test_what_was_refused_is_sent_again_when_a_person_says_so(self):
        self.bury(3)
        listed = self.spanprof("ls").stdout
        self.assertEqual(listed.count(" dead/"), 3)
        self.assertIn("3 more requests, 300 samples, were refused", listed)
        self.assertEqual([entry["dead"] for entry in json.loads(self.spanprof("ls", "--json").stdout)], [True] * 3)
        server = self.serve(ok(), status(413), ok())
        done = self.spanprof("retry", "--endpoint", server.url(""), expect=1)
        self.assertIn("200 samples of 2 requests delivered, 1 requests refused again, 0 unreadable, 1 left", done.stdout)
        self.assertEqual(server.markers(), ["batch-0", "batch-1", "batch-2"])
        server = self.serve(ok())
        self.spanprof("retry", "--endpoint", server.url(""))
        self.assertEqual((server.markers(), self.letters()), (["batch-1"], []))

    def test_letters_of_the_other_form_of_a_daemon_that_runs_and_of_a_receiver_that_is_away(self):
        self.bury(2, json=1)
        server = self.serve(status(503))
        self.fill(1)
        daemon = self.spawn(self.command(server.url(), batches=0, drained=1, retry_ms=60000),
                            env={"PATH": os.environ["PATH"]})
        tap.wait_until(lambda: server.requests, "the daemon has the spool")
        done = self.spanprof("retry", "--endpoint", self.away(), expect=1)
        self.assertIn("0 samples of 0 requests delivered", done.stdout)
        receiver = self.serve(ok())
        self.spanprof("retry", "--endpoint", receiver.url(""))
        self.assertEqual((receiver.markers(), self.letters()), (["batch-0", "batch-1"], []))
        self.assertEqual({r.headers["Content-Type"] for r in receiver.requests}, {"application/x-protobuf"})
        daemon.process.kill()
        daemon.wait()

    def test_letters_are_added_while_a_person_sends_others(self):
        self.bury(1)
        with open(self.spool / "dead/retry", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            values = self.drive(self.serve(status(403)).url(), batches=1)
            self.assertEqual((values[DEAD], len(self.letters())), (EVENTS, 2))
            done = self.spanprof("retry", "--endpoint", self.away(), expect=1)
            self.assertIn("another `spanprof spool retry` sends them", done.stderr)

    def test_letters_have_an_eighth_of_the_spool_and_a_damaged_one_stays(self):
        values = self.drive(self.serve(status(400)).url(), batches=10, padding=100_000,
                            spool_bytes=8 * 250_000)
        self.assertEqual((values[DEAD], len(self.letters())), (10 * EVENTS, 2))
        self.letters()[0].write_bytes(b"x")
        done = self.spanprof("retry", "--endpoint", self.serve(ok()).url(""), expect=1)
        self.assertIn("100 samples of 1 requests delivered, 0 requests refused again, 1 unreadable, 1 left", done.stdout)
        self.spanprof("extract", "-o", self.directory() / "out", expect=1)

    def test_without_room_for_letters_the_refusal_is_a_loss_that_is_told(self):
        self.spool.mkdir(mode=0o700)
        (self.spool / "dead").write_text("a file in their place")
        values = self.drive(self.serve(status(400)).url(), batches=1)
        self.assertEqual((values.get(DEAD, 0), values[lost("export_refused")], values["spool_errors_total{}"]), (0, EVENTS, 1))
        self.assertIn("cannot write to the dead letters", values["log"])
        self.fill(1)
        done = self.spanprof("ls")
        self.assertIn("1 requests, 100 samples", done.stdout)
        self.assertIn("/dead: ", done.stderr)
        (self.spool / "dead").unlink()
        self.assertIn("nothing was refused", self.spanprof("retry", "--endpoint", self.away()).stdout)

    def test_mistakes(self):
        self.spanprof("lst", expect=2)
        done = self.run_command([tap.SPANPROF, "spool", "ls"], expect=2)
        self.assertIn("no spool is configured", done.stderr)
        done = self.spanprof("ls", expect=1)
        self.assertIn("No such file", done.stderr)


tap.main()
