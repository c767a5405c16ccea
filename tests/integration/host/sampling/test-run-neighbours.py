#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one process does costs no other its samples, stacks, names or spans: the attacks of docs/SECURITY.md, "Shares",
by unprivileged processes, and an honest program that starts afterwards, compared with what it has alone.

Attackers and the honest one are of one user in two control groups, and of two users in one.
"""
import oracle

oracle.enter()

import collections
import platform
import signal
import subprocess
import time

import crafted_elf
import groups
import otlp_read
import prometheus
import session
import tap
import unix_http

SYMBOLS = otlp_read.Symbols()
SPAN = ("00000000000000010000000000000002", "0000000000000003")
STANDSTILL_S = 1.5                      # of the daemon's loop
FORGERS, FORGED_A_SECOND = 4, 30        # each starts one after the other, so many
SAMPLING_ERROR = 0.08                   # of the time of who shares its CPU, by some hundred samples
KNOWN_NAMES, REJECTED_NAMES = 512, 1024         # as docs/CAPS.md has them
SETTLED_NS = 500_000_000                # what is new is found by then, with and without an attack


class Honest:
    """Samples of an honest process: how many, and which parts of them are whole, named, with their span;
    and which part of its CPU time they stand for. @used: that time, and when."""

    def __init__(self, result, pid, used):
        samples = result.of(pid)
        cpu_ns, at_ns = used
        self.delivered = sum(s.value * s.period for s in samples if result.monotonic_ns(s) < at_ns) / cpu_ns
        first = min(s.time_ns for s in samples)
        samples = [s for s in samples if s.time_ns > first + SETTLED_NS]
        self.n = len(samples)
        self.parts = {
            "whole": len([s for s in samples if "profile.stack.truncated" not in s.attributes]) / self.n,
            "named": len([s for s in samples if s.frames and s.frames[0].build_id and
                          SYMBOLS.name(s.frames[0])]) / self.n,
            "spans": len([s for s in samples if (s.trace_id, s.span_id) == SPAN]) / self.n,
        }

    def __str__(self):
        return f"{self.n} samples, delivered {self.delivered:.3f}, " + ", ".join(
            f"{part} {share:.3f}" for part, share in self.parts.items())


class Neighbours(groups.Neighbours):
    def honest(self, run, place):
        child = self.child(place, "ring", stdin=subprocess.PIPE)
        child.process.stdin.write(b"publish\nset 1 2 3\n")
        child.process.stdin.flush()
        session.wait_cpu([child.pid], 1.0)
        return child, (session.cpu_ns(child.pid), time.clock_gettime_ns(time.CLOCK_MONOTONIC))

    options = ()

    def start_daemon(self):
        control = self.directory() / "control.sock"
        return self.start("--comm", "victim-*,forged-go*", "--frequency", "499",
                          "--jitter=off", "--control", control, *self.options), control

    def alone(self):
        run, _ = self.start_daemon()
        child, used = self.honest(run, (groups.HONEST, None))
        result = run.stop()
        child.kill()
        return Honest(result, child.pid, used)

    def beside(self, attack, at_work, attacker, honest):
        attackers = attack(attacker)
        run, control = self.start_daemon()
        tap.wait_until(lambda: at_work(attackers, lambda name, **labels: prometheus.value(
            unix_http.metrics(control), name, **labels)), "the attack to be at work", 600)
        child, used = self.honest(run, honest)
        result = run.stop()
        for one in (child, *attackers):
            one.kill()
        self.assertEqual({k: v for k, v in result.summary["lost_by_reason"].items() if k != "not_target"}, {})
        return Honest(result, child.pid, used), result

    def compare(self, attack, at_work, least=None):
        alone = self.alone()
        print(f"alone: {alone}")
        for title, attacker, honest in self.places():
            with self.subTest(title):
                beside, result = self.beside(attack, at_work, attacker, honest)
                print(f"{title}: {beside}")
                for part, share in alone.parts.items():
                    self.assertGreaterEqual(beside.parts[part], 0.99 * share - 0.005, f"{part} beside, and alone")
                self.assertGreaterEqual(beside.delivered, 0.99 * alone.delivered - SAMPLING_ERROR)
                self.assertGreater(alone.parts["spans"], 0.9)
                if least:
                    least(result)

    def test_short_threads_that_use_every_slot_of_their_rings(self):
        """One of them ends then, so that there is room again, of which nothing is known."""
        def at_work(attackers, value):
            if value("spanprof_ring_threads_over_cap_total") and attackers[0].status is None:
                attackers[0].stop()
            return value("spanprof_ring_threads_over_cap_total") and value("spanprof_targets") < 6

        self.compare(lambda place: [self.child(place, "hostile", "slots", 4096) for _ in range(6)], at_work)

    def test_more_libraries_with_rows_than_there_are_tables(self):
        library = crafted_elf.make_files(self.directory())["shrunk"].read_bytes()
        directory = self.files(4200, library)
        self.compare(lambda place: [self.child(place, "hostile", "crowd", 4200, directory)],
                     lambda _, value: value("spanprof_unwind_tables_total", result="over_cap") > 0)

    def test_more_files_than_are_known_at_once(self):
        directories = [self.files(8000, b"no program") for _ in range(3)]
        self.compare(lambda place: [self.child(place, "hostile", "crowd", 8000, one) for one in directories],
                     lambda _, value: value("spanprof_objects_total", result="over_cap") > 0 and
                     value("spanprof_without_room_total", user=str(groups.ATTACKER)) > 0,
                     lambda result: self.assertRegex(result.log, r"files that are mapped as code: \d+ without room, the "
                                                     rf"last one of process \d+ of user {groups.ATTACKER}, "))

    def test_forged_programs_of_go_without_end(self):
        """Each is long to read, and gone before the next one comes: the time for them is their user's."""
        if platform.machine() != "x86_64":
            tap.skip("machine: the forged program is long to search on x86-64 alone")
        compiler = tap.need_tool("gcc")
        for i in range(FORGERS):
            program = self.programs / f"forged-go{i}"
            source = tap.SOURCE_DIR / "tests/victims/native/forged-go.c"
            subprocess.run([compiler, "-O2", "-o", program, source], check=True)
        self.compare(lambda place: [self.child(place, "crowd", "storm", 1_000_000, FORGED_A_SECOND,
                                               self.programs / f"forged-go{i}") for i in range(FORGERS)],
                     lambda _, value: value("spanprof_runtimes_total", result="over_cap") > 0)

    def test_short_programs_with_ever_new_names(self):
        """More names are met than the kernel half's tables have room for, of those chosen and of those not."""
        def at_work(_, value):
            return (value("spanprof_targets_total", event="found") > KNOWN_NAMES and
                    value("spanprof_targets_total", event="rejected") > REJECTED_NAMES)

        self.compare(lambda place: [self.child(place, "hostile", "renames", 3) for _ in range(4)], at_work)

    def test_hundreds_of_threads_that_sleep_some_milliseconds(self):
        """Their waits have rings and sums of their own: the books of ticks balance with none lost (beside())."""
        self.options = ("--off-cpu",)
        self.compare(lambda place: [self.child(place, "hostile", "sleepers", 400)],
                     lambda _, value: value("spanprof_waits_total", event="begun") > 100_000)

    def test_waits_of_hundreds_of_threads_leave_room_while_the_daemon_stands_still(self):
        """Their ring would be full after some tenths of a second: it is thinned by process, each counted.
        Of four honest processes one may share a hash of 64 values with it, or not be drawn for a walk."""
        self.options = ("--off-cpu", "--off-cpu-max-switches", "0")
        attacker = self.child((groups.ATTACKER, None), "hostile", "sleepers", 400)
        honest = {self.child((groups.HONEST, None), "hostile", "sleepers", 2).pid for _ in range(4)}
        run, control = self.start_daemon()

        def waits(event):
            return prometheus.value(unix_http.metrics(control), "spanprof_waits_total", event=event)

        tap.wait_until(lambda: waits("walked") > 1000, "waits to be walked", 60)
        self.assertEqual(waits("ring_full"), 0)
        before = waits("thinned")
        run.child.process.send_signal(signal.SIGSTOP)
        begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        time.sleep(STANDSTILL_S)
        end_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        run.child.process.send_signal(signal.SIGCONT)
        tap.wait_until(lambda: waits("thinned") > before, "waits to be thinned", 60)
        self.assertEqual(waits("ring_full"), 0, "each process finds room")
        attacker.kill()
        result = run.stop()
        late_ns = begin_ns + (end_ns - begin_ns) // 2
        late = collections.Counter(wait.resource["process.pid"] for wait in result.waits
                                   if wait.frames and late_ns < result.monotonic_ns(wait) < end_ns)
        print(f"# stacks of the second half: {dict(late)}, honest: {honest}", flush=True)
        self.assertGreaterEqual(len(honest & set(late)), 2, "stacks of the second half")

    def files(self, n, data):
        directory = self.directory()
        directory.chmod(0o755)
        for i in range(n):
            (directory / f"{i}").write_bytes(data)
        return directory


tap.main()
