#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon killed with a spool, life after life: what was on the disk arrives, and a profile that arrives
twice is the same one. The receiver counts samples by the ids of their profiles."""
import oracle

oracle.enter()

import os
import random
import shutil
import signal
import time

import otlp_read
import session
import tap
from fault_server import Server, close, hang, ok, reset, slow, status

LIVES = 8


def profiles(requests):
    """(id, the whole profile as bytes, its samples' value) of each profile; the same one may come again."""
    for request in requests:
        for resource in request.resource_profiles:
            for scope in resource.scope_profiles:
                for profile in scope.profiles:
                    n = sum(sum(s.values) or len(s.timestamps_unix_nano) for s in profile.samples)
                    yield profile.profile_id, profile.SerializeToString(deterministic=True), n


class Killed(session.TestCase):
    def setUp(self):
        self.spool, self.victim_pid = self.directory() / "spool", self.victim("shares", 3600, rests=True).pid
        self.play = ok()
        self.server = Server([lambda connection, server: self.play(connection, server)])
        self.addCleanup(self.server.close)

    def begin(self):
        return self.start("--pid", self.victim_pid, "--frequency", 199, "--spool", self.spool,
                          endpoint=self.server.url(""))

    def kill(self, run):
        run.child.process.kill()
        self.assertEqual(run.child.wait(), -signal.SIGKILL, run.child)

    def on_disk(self):
        """The profiles of the files that are there, {id: samples}."""
        output = self.directory() / "out"
        self.run_command([tap.SPANPROF, "spool", "extract", "--spool", self.spool, "-o", output], expect=0)
        return {name: n for name, _, n in profiles(otlp_read.load(path) for path in output.glob("*.pb"))}

    def files(self):
        return list(self.spool.glob("*.batch"))

    def received(self):
        """{id: samples} of what was answered or read, and that a second time it is the same."""
        seen, counts = {}, {}
        for name, data, n in profiles(
                otlp_read.parse(request.body) for request in list(self.server.requests)):
            self.assertEqual(seen.setdefault(name, data), data)
            counts[name] = n
        return counts

    def live_and_die_in_mid_request(self):
        self.play = hang
        n = len(self.server.requests)
        run = self.begin()
        tap.wait_until(lambda: len(self.server.requests) > n and self.files(),
                       f"a request under way that is on the disk; {run.child}")
        self.kill(run)
        disk = self.on_disk()
        self.assertGreater(sum(disk.values()), 0)
        return disk

    def live_and_die_by_chance(self, chance):
        faults = [ok(), slow(0.2, ok()), slow(0.2, close), status(503), close, reset]
        self.play = lambda connection, server: chance.choice(faults)(connection, server)
        n = len(self.server.requests)
        run = self.begin()
        tap.wait_until(lambda: len(self.server.requests) > n or self.files(), f"a request; {run.child}")
        time.sleep(chance.random())
        self.kill(run)
        return self.on_disk()

    def test_again_and_again_loses_nothing_that_was_on_the_disk(self):
        seed = random.randrange(1 << 32)
        chance, stored = random.Random(seed), {}
        for life in range(LIVES):
            stored.update(
                self.live_and_die_by_chance(chance) if life % 2 else self.live_and_die_in_mid_request())
        self.play = ok()
        run = self.begin()
        tap.wait_until(lambda: set(stored) <= set(self.received()) and not self.files(),
                       f"all that was stored, seed {seed}; {run.child}")
        result = run.stop(check=False)
        received = self.received()
        self.assertEqual({name: received[name] for name in stored}, stored, f"seed {seed}")
        s, spooled = result.summary, result.counter("spool_samples_total")
        self.assertEqual(s["ticks"] + spooled["taken"], s["delivered"] + s["lost"] + spooled["written"], s)
        self.assertEqual([why for why in s["lost_by_reason"] if why.startswith(("export", "spool", "stop"))],
                         [], s)
        self.assertEqual(result.counter("spool_files_corrupt_total"), 0)
        self.assertEqual({path.name for path in self.spool.iterdir()} - {"rows"}, {"lock"})

    def test_whose_directory_was_removed_goes_on_in_the_one_that_is_there(self):
        self.play = status(503)
        run = self.begin()
        tap.wait_until(self.files, f"a batch on the disk; {run.child}")
        owner = self.spool.stat().st_uid        # who the daemon is by now: what is root's it may not write
        shutil.rmtree(self.spool)
        self.spool.mkdir(0o700)
        os.chown(self.spool, owner, owner)
        new = self.spool.stat().st_ino
        tap.wait_until(self.files, f"a batch in the new directory; {run.child}")
        self.assertEqual(self.spool.stat().st_ino, new)
        run.child.wait_for("was removed or replaced; going on in the one that is there now")
        stored = self.on_disk()
        self.play = ok()
        tap.wait_until(lambda: set(stored) <= set(self.received()) and not self.files(),
                       f"all that was stored; {run.child}")
        result = run.stop(check=False)
        s, spooled = result.summary, result.counter("spool_samples_total")
        self.assertEqual(s["ticks"] + spooled["taken"], s["delivered"] + s["lost"] + spooled["written"], s)
        # what memory had as well was sent from there; what only the old directory had is counted
        self.assertLessEqual(set(s["lost_by_reason"]), {"spool_corrupt"}, s)
        self.assertGreaterEqual(s["delivered"], sum(stored.values()), s)


tap.main()
