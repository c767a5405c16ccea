#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Written ahead: what was submitted is on the disk while its first attempt runs. Death at any moment loses
nothing that was accepted, a second delivery is the first one to the byte, a healthy receiver costs no flush,
and a disk that is full or hangs holds up nobody."""
import oracle

oracle.enter()

import os
import random
import re
import signal
import threading
import time

import tap
from export_case import lost
from fault_server import close, hang, ok, reset, slow, status
from spool_case import AHEAD, DELIVERED, EVENTS, FAILED, FAULT_AT, FLUSH, TAKEN, WRITTEN, SpoolCase

PATH = {"PATH": os.environ["PATH"]}
KILLS = 110


class AheadCase(SpoolCase):
    def preload(self, **variables):
        return {
            **PATH, "LD_PRELOAD": str(FAULT_AT), "FAULT_DIR": str(self.spool),
            **{f"FAULT_{k.upper()}": str(v) for k, v in variables.items()}
        }

    def once_stored(self, then):
        """A play that answers when the batch is on the disk: else a fast answer may come before its turn to be written."""
        def play(connection, server):
            tap.wait_until(self.files, "a file in the spool")
            return then(connection, server)
        return play

    def calls(self, *plays, **options):
        """What a run did to the disk."""
        self.log = self.directory() / "calls"
        self.log.write_text("")
        server = self.serve(*plays)
        options = {"timeout_ms": 60000, "flush_after_ms": 3600000, **options}
        values = self.drive(server.url(), environment=self.preload(log=self.log), **options)
        return self.log.read_text().split(), values, server

    def accepted(self, driver):
        """Everything before this batch was delivered or on the disk."""
        return max((int(n) for n in re.findall(r"^accepted (\d+)\n", driver.out, re.M)), default=None)

    def check_bodies(self, *servers):
        """What came twice is the same to the byte, and with that has the same profile ids."""
        bodies = {}
        for request in (request for server in servers for request in server.requests):
            self.assertEqual(bodies.setdefault(request.marker, request.body), request.body)
        return bodies.keys()


class Ahead(AheadCase):
    def test_what_is_under_way_is_on_the_disk(self):
        server = self.serve(hang)
        driver = self.spawn(
            self.command(server.url(), batches=3, run_ms=600000, timeout_ms=600000, accepted=1), env=PATH)
        driver.wait_for("^accepted 3$")
        tap.wait_until(lambda: server.requests, "a request")
        self.assertEqual(server.markers(), ["batch-0"])
        driver.process.kill()
        self.assertEqual(driver.wait(), -signal.SIGKILL)
        self.assertEqual(len(self.files()), 3)
        again, values = self.drain()
        self.assertEqual(again.markers(), ["batch-0", "batch-1", "batch-2"])
        self.assertEqual((values[DELIVERED], values[TAKEN]), (3 * EVENTS, 3 * EVENTS))
        self.check_bodies(server, again)

    def test_without_it_what_is_under_way_is_lost(self):
        """The price of `failed`, so that the test above is seen to test something."""
        server = self.serve(hang)
        driver = self.spawn(
            self.command(server.url(), batches=1, run_ms=600000, timeout_ms=600000, spool_mode=FAILED),
            env=PATH)
        tap.wait_until(lambda: server.requests, "a request")
        driver.process.kill()
        driver.wait()
        self.assertEqual(self.files(), [])

    def test_a_healthy_receiver_costs_no_flush_and_leaves_nothing(self):
        calls, values, server = self.calls(self.once_stored(ok()), batches=1)
        self.assertEqual(calls, ["unlinkat", "openat", "write", "renameat2", "unlinkat"])
        self.assertEqual((values[WRITTEN], values[TAKEN], values[DELIVERED]), (EVENTS,) * 3)
        self.assertEqual(self.files(), [])

    def test_to_be_flushed_costs_two_flushes(self):
        calls, _, _ = self.calls(self.once_stored(ok()), batches=1, spool_mode=FLUSH)
        self.assertEqual(calls,
                         ["unlinkat", "openat", "write", "fdatasync", "renameat2", "fsync", "unlinkat"])

    def test_only_what_failed_costs_nothing_while_all_is_well(self):
        calls, values, _ = self.calls(ok(), batches=20, spool_mode=FAILED)
        self.assertEqual((calls, values[DELIVERED]), ([], 20 * EVENTS))

    def test_what_failed_is_flushed_then(self):
        calls, _, server = self.calls(self.once_stored(status(503)), ok(), batches=1, drained=1)
        self.assertEqual(calls,
                         ["unlinkat", "openat", "write", "renameat2", "fdatasync", "fsync", "unlinkat"])
        self.assertEqual(server.markers(), ["batch-0"] * 2)
        self.check_bodies(server)

    def once_flushed(self, n, then):
        """A play that answers when @n batches are flushed."""
        def play(connection, server):
            tap.wait_until(lambda: self.log.read_text().split().count("fsync") == n, f"{n} flushes")
            self.flushed = n
            return then(connection, server)
        return play

    def test_what_is_not_answered_for_a_while_is_flushed_meanwhile_and_only_once(self):
        calls, _, server = self.calls(self.once_flushed(1, status(503)), ok(), batches=1, drained=1,
                                      flush_after_ms=1)
        self.assertEqual(calls,
                         ["unlinkat", "openat", "write", "renameat2", "fdatasync", "fsync", "unlinkat"])
        self.assertEqual((server.markers(), self.flushed), (["batch-0"] * 2, 1))

    def test_each_that_waits_behind_it_is_flushed_too(self):
        calls, values, _ = self.calls(self.once_flushed(3, ok()), ok(), batches=3, interval_ms=50,
                                      flush_after_ms=100)
        self.assertEqual((self.flushed, calls.count("fdatasync"), calls.count("fsync"), values[DELIVERED]),
                         (3, 3, 3, 3 * EVENTS))

    def test_what_has_no_room_in_memory_is_sent_from_the_disk(self):
        """While the first hangs, the queue overflows: those that the disk has are let go, and fetched later."""
        released = threading.Event()

        def play(connection, server):
            released.wait(60)
            return ok()(connection, server)

        server = self.serve(play)
        driver = self.spawn(
            self.command(server.url(), batches=20, padding=100000, queue_bytes=450000, interval_ms=5,
                         drained=1, timeout_ms=600000, accepted=1), env=PATH)
        driver.wait_for("^accepted 20$")
        released.set()
        self.assertEqual(driver.wait(), 0)
        self.assertEqual(sorted(server.markers()), sorted(f"batch-{i}" for i in range(20)), "each once")
        self.assertIn(f"{DELIVERED} {20 * EVENTS}\n", driver.out)

    def test_books_come_out_even_with_every_kind_of_end(self):
        for mode in (AHEAD, FLUSH, FAILED):
            for plays in ([status(400)], [ok(b"\x0a\x02\x08\x01")], [status(503),
                                                                     ok()], [close, ok()], [status(503)]):
                self.drive(self.serve(*plays).url(), batches=5, run_ms=50, spool_mode=mode)
                self.drain()


class Kill(AheadCase):
    def run_until_killed(self, url, first, environment=PATH, after=None, **options):
        """Submits batches without end. @after: seconds from the first that is accepted. Return: accepted ones."""
        driver = self.spawn(
            self.command(url, batches=1000000, interval_ms=1, retry_ms=3, first=first, accepted=20,
                         **options), env=environment)
        if after is not None:
            driver.wait_for("^accepted")
            time.sleep(after)
            driver.process.kill()
        self.assertEqual(driver.wait(), -signal.SIGKILL, driver)
        accepted = self.accepted(driver) or first
        driver.kill()
        return [f"batch-{i}" for i in range(first, accepted)]

    def check_after(self, server, accepted):
        again, values = self.drain()
        delivered = self.check_bodies(server, again)
        self.assertEqual(set(accepted) - delivered, set())
        self.assertNotIn(lost("spool_corrupt"), values)
        self.assertEqual([path.name for path in self.spool.iterdir()], ["lock"])

    def test_at_each_step_loses_nothing_that_was_accepted(self):
        """Of the first calls that the steady state makes: each of its steps is among them several times."""
        for mode in (AHEAD, FLUSH):
            for at in range(1, 19):
                with self.subTest(mode=mode, at=at):
                    server = self.serve(self.once_stored(status(503)) if at % 3 == 0 else ok(), ok())
                    accepted = self.run_until_killed(server.url(), 0, self.preload(at=at, kind="kill"),
                                                     spool_mode=mode)
                    self.check_after(server, accepted)

    def test_at_random_moments_loses_nothing_that_was_accepted(self):
        """Lives of one spool, one after the other, with a receiver that now takes, now refuses, now is gone."""
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)
        faults = [status(503), close, reset, slow(0.01, ok()), slow(0.01, close)]

        def play(connection, server):
            return (ok() if chance.random() < 0.7 else chance.choice(faults))(connection, server)

        server, accepted = self.serve(play), []
        for life in range(KILLS):
            accepted += self.run_until_killed(server.url(), life * 100000, after=chance.random() ** 2 * 0.08,
                                              spool_mode=chance.choice((AHEAD, AHEAD, AHEAD, FLUSH)))
        self.assertGreaterEqual(len(accepted), KILLS, "one at least of each life")
        again, values = self.drain()
        delivered = self.check_bodies(server, again)
        self.assertEqual(set(accepted) - delivered, set(), f"seed {seed}")
        self.assertNotIn(lost("spool_corrupt"), values, f"seed {seed}")


class Disk(AheadCase):
    def test_that_falls_behind_stores_the_rest_later(self):
        """Less may be on its way to the disk than memory holds: what was not taken at first is, once there is room."""
        go, server = self.directory() / "go", self.serve(hang)
        driver = self.spawn(
            self.command(server.url(), batches=9, padding=100000, queue_bytes=850000, timeout_ms=600000,
                         accepted=100, run_ms=600000), env=self.preload(at=1, kind="hang", go=go))
        tap.wait_until(lambda: server.requests, "the first request")
        self.assertEqual(driver.out.count("accepted"), 0)
        go.touch()
        driver.wait_for("^accepted 9$")
        self.assertEqual(len(self.files()), 9)

    def test_that_is_full_or_fails_holds_up_nobody(self):
        for kind in ("ENOSPC", "EIO", "EROFS"):
            with self.subTest(kind):
                told = threading.Event()

                def play(connection, server):
                    told.wait(60)
                    return ok()(connection, server)

                server = self.serve(play)
                driver = self.spawn(self.command(server.url(), batches=5, drained=1, timeout_ms=60000),
                                    env=self.preload(at=1, kind=kind))
                driver.wait_for("cannot write to the spool: .*; 100 samples stay in memory")
                told.set()
                self.assertEqual(driver.wait(), 0)
                self.assertEqual(server.markers(), [f"batch-{i}" for i in range(5)])
                self.assertIn(f"{DELIVERED} {5 * EVENTS}\n", driver.out)
                self.assertEqual(self.files(), [])

    def test_that_hangs_holds_up_nobody(self):
        go, server = self.directory() / "go", self.serve(ok())
        driver = self.spawn(self.command(server.url(), batches=6, interval_ms=1, drained=1, timeout_ms=60000),
                            env=self.preload(at=1, kind="hang", go=go))
        tap.wait_until(lambda: len(server.requests) == 6, "all requests")
        go.touch()
        self.assertEqual(driver.wait(), 0)
        self.assertEqual(server.markers(), [f"batch-{i}" for i in range(6)])
        self.assertEqual(self.files(), [], "what was written after it was delivered is gone again")
        again, _ = self.drain()
        self.assertEqual(again.requests, [])

    def leave_behind(self, url, at, **options):
        """A run whose disk hangs from call @at on, for good: if the stop waited for it, this would not end."""
        values = self.drive(url, environment=self.preload(at=at, kind="hang", go=self.directory() / "never"),
                            time_limit_ms=300, stop_ms=300, flush_after_ms=3600000, **options)
        self.assertIn("the disk of the spool does not answer, stopping without it", values["log"])
        return values

    def test_that_hangs_does_not_hold_up_the_stop_and_what_it_did_not_store_is_counted(self):
        for mode in (AHEAD, FLUSH, FAILED):
            with self.subTest(mode=mode):
                values = self.leave_behind(self.away(), 1, batches=5, retries=1, spool_mode=mode)
                self.assertEqual((values[lost("stop")], values["spool_errors_total{}"]), (5 * EVENTS, 5))
                self.assertEqual(values['export_requests_total{result="dropped"}'], 5)
                self.assertIn("5 requests with 500 samples were not stored", values["log"])
                self.assertEqual(self.files(), [])

    def test_that_hangs_after_some_loses_at_the_stop_only_the_others(self):
        """Six calls a batch: the third one's write hangs."""
        values = self.leave_behind(self.away(), 15, batches=5, retries=1, spool_mode=FAILED)
        self.assertEqual((values[lost("stop")], values[WRITTEN]), (3 * EVENTS, 2 * EVENTS))
        again, _ = self.drain()
        self.assertEqual(again.markers(), ["batch-0", "batch-1"])

    def test_that_hangs_in_a_flush_at_the_stop_loses_nothing_that_has_its_name(self):
        values = self.leave_behind(self.away(), 5, batches=1, retries=1)
        self.assertEqual((values[WRITTEN], len(self.files())), (EVENTS, 1))
        self.assertNotIn(lost("stop"), values)
        self.assertEqual(self.drain()[0].markers(), ["batch-0"])

    def test_that_hangs_in_a_removal_at_the_stop_sends_once_more(self):
        values = self.leave_behind(self.serve(self.once_stored(ok())).url(), 5, batches=1)
        self.assertEqual((values[DELIVERED], values[WRITTEN], values[TAKEN]), (EVENTS,) * 3)
        self.assertEqual(self.drain()[0].markers(), ["batch-0"])

    def test_that_hangs_with_old_ones_in_it_does_not_hold_up_the_new(self):
        """The next of the old is asked for behind a write that hangs; memory waits for it no longer than two seconds."""
        self.fill(3)
        go, server = self.directory() / "go", self.serve(ok())
        driver = self.spawn(
            self.command(server.url(), batches=60, interval_ms=50, first=100, drained=1, timeout_ms=60000),
            env=self.preload(at=1, kind="hang", go=go))
        new = [f"batch-{i}" for i in range(100, 160)]
        tap.wait_until(lambda: set(new) <= set(server.markers()), "all that is new")
        self.assertLess(len(set(server.markers())), 63, "an old one is still to come, or nothing hung")
        go.touch()
        self.assertEqual(driver.wait(), 0)
        self.assertEqual(sorted(set(server.markers())), sorted(new + [f"batch-{i}" for i in range(3)]))
        self.assertEqual([marker for marker in server.markers() if marker in new], new)
        self.assertEqual(self.files(), [])

    def test_caps_are_kept_by_what_is_under_way_too(self):
        """The first hangs; what is held is never dropped, and what has no room beside it stays in memory."""
        released = threading.Event()

        def play(connection, server):
            released.wait(60)
            return ok()(connection, server)

        server = self.serve(play)
        driver = self.spawn(
            self.command(server.url(), batches=15, padding=100000, spool_bytes=1 << 20, queue_bytes=8 << 20,
                         drained=1, timeout_ms=600000), env=PATH)
        driver.wait_for("cannot write to the spool: No space left on device")
        self.assertLessEqual(sum(path.stat().st_size for path in self.files()), 1 << 20)
        released.set()
        self.assertEqual(driver.wait(), 0)
        self.assertEqual(server.markers(), [f"batch-{i}" for i in range(15)])
        self.assertNotIn("lost_total", driver.out)

    def test_what_the_cap_drops_while_it_is_under_way_counts_once(self):
        """An old one hangs while new ones fill the spool, which drops it; then it is delivered."""
        released = threading.Event()

        def play(connection, server):
            released.wait(60)
            return ok()(connection, server)

        self.fill(2, padding=100000)
        server = self.serve(play)
        driver = self.spawn(
            self.command(server.url(), batches=15, first=2, padding=100000, interval_ms=100,
                         spool_bytes=1 << 20, queue_bytes=8 << 20, drained=1, timeout_ms=600000), env=PATH)
        driver.wait_for("cannot write to the spool: No space left on device")
        released.set()
        self.assertEqual(driver.wait(), 0)
        values = {name: int(value) for name, value in re.findall(r"^(\S+) (\d+)$", driver.out, re.M)}
        markers = server.markers()
        self.assertEqual(values[DELIVERED], len(set(markers)) * EVENTS)
        self.assertEqual(values.get(lost("spool_full"), 0), (17 - len(set(markers))) * EVENTS,
                         f"each ends once: {markers}")
        self.assertIn("batch-0", markers)


tap.main()
