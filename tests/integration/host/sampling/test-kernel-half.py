#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernel half on the real kernel, driven by tests/harness/sample-dump; no daemon around it.

Truth comes from the victims (return addresses by the compiler), /proc, wait4() and kallsyms.
"""
import bisect
import collections
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import tap
from dump import EXEC, EXIT, MAPPINGS, PROGRAM, SETTLED, TICK_NS, Dump, start_time, verified

REJECTED, TARGET, UNDECIDED = 0, 1, 2
NO_ROWS, FAULT, BAD_CFA, UNSUPPORTED, DEPTH, FP_END = 3, 4, 5, 6, 7, 8
WALK_LOADING, WALK_ON = 1, 2         # enum runtime_walk
UNPUBLISHED, PRESENT, NONE, BUSY, AMBIGUOUS, UNREADABLE = 0, 1, 2, 3, 4, 6
EXIT_UNUSABLE = 78



class KernelHalf(tap.TestCase):
    def setUp(self):
        tap.need_root()
        tap.need_btf()

    def frames_victim(self, depth, mode="spin", prefix=()):
        """A victim, the range of its leaf, and its return addresses from the leaf's on."""
        child = self.spawn([*prefix, tap.VICTIMS / "victim-frames", depth, mode])
        first, last, *returns = map(int, child.wait_for(r"^frames (.*)\n").group(1).split())
        self.assertEqual(len(returns), depth - 1)
        return child, range(first, last), returns

    def settled(self, samples, leaf):
        """Without those before the victim got to its leaf."""
        for i, sample in enumerate(samples):
            if sample["user"] and sample["user"][0] in leaf:
                return samples[i:]
        return []

    def sample_frames(self, depth, n=15, mode="spin", limit=512, kernel=0):
        dump = Dump(self, frequency=499, depth=limit, kernel=kernel)
        victim, leaf, returns = self.frames_victim(depth, mode)
        dump.rowless(victim.pid)
        dump.row(victim.pid)
        dump.wait(lambda: len(self.settled(dump.samples(), leaf)) >= n, "samples in the leaf")
        dump.stop()
        samples = self.settled(dump.samples(), leaf)
        victim.kill()
        return samples, leaf, returns

    def check_chain(self, samples, leaf, expected, end):
        for sample in samples:
            self.assertIn(sample["user"][0], leaf)
            self.assertEqual(sample["user"][1:], expected)
            self.assertEqual(sample["end"], end)

    # --- the walk

    def test_yields_the_exact_chain(self):
        for depth in (3, 5, 30, 100, 511, 512):
            with self.subTest(depth=depth):
                samples, leaf, returns = self.sample_frames(depth)
                self.check_chain(samples, leaf, returns, FP_END)

    def test_cuts_at_the_depth(self):
        for depth, limit, end in ((513, 512, DEPTH), (1024, 1024, FP_END), (1025, 1024, DEPTH), (30, 7,
                                                                                                 DEPTH)):
            with self.subTest(depth=depth, limit=limit):
                samples, leaf, returns = self.sample_frames(depth, limit=limit)
                self.check_chain(samples, leaf, returns[:limit - 1], end)

    def test_says_how_a_broken_chain_ends(self):
        for mode, end in (("unaligned", BAD_CFA), ("fault", FAULT), ("zero", FP_END), ("far", NO_ROWS),
                          ("loop", NO_ROWS)):
            with self.subTest(mode=mode):
                samples, leaf, returns = self.sample_frames(10, mode=mode)
                self.check_chain(samples, leaf, returns[:3], end)

    def test_the_walk_over_runtimes_takes_over_at_once(self):
        dump = Dump(self, frequency=4999, kernel=1)
        victim, leaf, returns = self.frames_victim(30)
        dump.rowless(victim.pid)
        dump.row(victim.pid)
        dump.wait(lambda: self.settled(dump.samples(), leaf), "samples in the leaf")
        n = len(dump.samples())
        self.assertEqual(dump.command("runtimes"), WALK_LOADING)
        tap.wait_until(lambda: dump.command("runtimes") == WALK_ON, "the walk is on")
        self.assertGreater(len(dump.samples()), n, "ticks are taken while it is loaded")
        dump.wait_samples(100, since=max(s["time"] for s in dump.samples()) + 1)
        last = dump.stop()
        self.check_chain(self.settled(dump.samples(), leaf), leaf, returns, FP_END)
        self.assertEqual(last["counters"]["TICKS"], len(dump.samples()) + last["lost"])

    def test_walks_no_stack_of_32_bit_code(self):
        """The address where it was interrupted is all that is known; its two bytes of code are one instruction."""
        # An ELF32 whose only instruction jumps to itself.
        code = b"\xeb\xfe"
        head = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 2, 3, 1, 0x10054, 52, 0, 0, 52, 32, 1, 0, 0,
                           0)
        load = struct.pack("<IIIIIIII", 1, 0, 0x10000, 0x10000, 84 + len(code), 84 + len(code), 5, 0x1000)
        path = self.directory() / "spin32"
        path.write_bytes(head + load + code)
        path.chmod(0o755)
        try:
            victim = self.spawn([path])
        except OSError as error:
            tap.skip(f"kernel: runs no 32-bit programs ({error})")
        dump = Dump(self, frequency=499)
        dump.row(victim.pid)
        for sample in dump.wait_samples(10):
            self.assertEqual((sample["user"], sample["end"]), ([0x10054], UNSUPPORTED))

    # --- who is sampled

    def test_samples_only_the_chosen(self):
        dump = Dump(self, frequency=499)
        chosen, leaf, _ = self.frames_victim(10)
        other, _, _ = self.frames_victim(10)
        dump.row(chosen.pid, generation=7)
        dump.row(other.pid, state=REJECTED)
        samples = dump.wait_samples(30)
        counters = dump.stop()["counters"]
        samples = dump.samples()
        self.assertEqual({x["tgid"] for x in samples}, {chosen.pid})
        self.assertEqual({x["generation"] for x in samples}, {7})
        self.assertEqual({(x["kind"], x["value"], x["context"]) for x in samples}, {(1, 1, UNPUBLISHED)})
        self.assertEqual({x["comm"] for x in samples}, {"victim-frames"})
        self.assertEqual(counters["TICKS"], len(samples))
        self.assertGreater(counters["SAMPLER_ENTRIES"], counters["TICKS"])

    def test_each_tick_goes_by_the_row_of_now(self):
        """CPUs keep rows that they have read, until any row changes."""
        dump = Dump(self, frequency=499)
        victim, _, _ = self.frames_victim(10)
        other, _, _ = self.frames_victim(10)
        dump.row(other.pid)
        for generation in (7, 8):
            dump.row(victim.pid, generation=generation)
            samples = dump.wait_samples(10, victim.pid, since=time.monotonic_ns())
            self.assertEqual({x["generation"] for x in samples}, {generation})
        dump.row(victim.pid, state=REJECTED)
        rejected = time.monotonic_ns()
        dump.wait_samples(20, other.pid, since=rejected)
        self.assertEqual(dump.samples(victim.pid, since=rejected), [])

    def test_samples_strangers_while_undecided_but_never_itself(self):
        spared, _, _ = self.frames_victim(10)
        victim, _, _ = self.frames_victim(10)
        dump = Dump(self, frequency=499, default=UNDECIDED, spare=spared.pid)
        samples = dump.wait_samples(30, victim.pid)
        dump.stop()
        self.assertEqual({x["generation"] for x in dump.samples(victim.pid)}, {0})
        self.assertEqual(dump.samples(spared.pid), [])
        self.assertTrue(samples)

    def test_spares_its_helpers_by_parent_and_name(self):
        directory = self.directory()
        shutil.copy(tap.VICTIMS / "victim-frames", directory / "another-name")
        spared, _, _ = self.frames_victim(10)
        renamed = self.spawn([directory / "another-name", "10"])
        grandchild = self.spawn(["sh", "-c", f"{tap.VICTIMS}/victim-frames 10 & echo pid $!; wait"])
        grandchild.wait_for(r"^pid (\d+)")
        stranger = int(re.search(r"^pid (\d+)", grandchild.out, re.M)[1])
        (directory / "victim-frames").symlink_to("/bin/sh")
        helper = self.spawn([directory / "victim-frames", "-c",
                             f"{tap.VICTIMS}/victim-frames 10 & echo spared $!; "
                             f"{directory}/another-name 10 & echo pid $!; wait"])
        others = int(helper.wait_for(r"^pid (\d+)")[1])
        helpers = int(re.search(r"^spared (\d+)", helper.out, re.M)[1])
        dump = Dump(self, **{"spare-children": "victim-frames"}, frequency=499, default=UNDECIDED,
                    spare=os.getpid())
        before, begun = self.cpu_time(spared.pid), self.cpu_time(helpers)
        dump.wait_samples(30, renamed.pid)
        dump.wait_samples(30, stranger)
        dump.wait_samples(30, others)
        dump.wait(lambda: self.cpu_time(helpers) > begun + 0.1, "ticks on a helper's helper")
        self.assertEqual(dump.samples(helpers), [])
        dump.wait(lambda: self.cpu_time(spared.pid) > before + 0.1, "ticks on the one that is spared")
        dump.row(spared.pid)                            # chosen is chosen
        dump.wait_samples(10, spared.pid)
        self.assertNotIn(0, {x["generation"] for x in dump.samples(spared.pid)})

    def test_stops_sampling_when_the_row_goes(self):
        dump = Dump(self, frequency=499)
        victim, _, _ = self.frames_victim(10)
        dump.row(victim.pid)
        dump.wait_samples(5)
        self.assertEqual(dump.command(f"remove {victim.pid}"), 0)
        self.assertEqual(dump.command(f"remove {victim.pid}"), 0, "no row is no error")
        removed = time.monotonic_ns()
        other, _, _ = self.frames_victim(5)
        dump.row(other.pid)
        dump.wait_samples(20, other.pid)
        self.assertEqual(dump.samples(victim.pid, since=removed), [])

    def test_row_of_an_earlier_process_is_void(self):
        dump = Dump(self, frequency=499)
        victim, _, _ = self.frames_victim(10)
        control, _, _ = self.frames_victim(10)
        dump.row(control.pid)
        for wrong in (-100 * TICK_NS, -TICK_NS, TICK_NS):
            dump.row(victim.pid, start=start_time(victim.pid) + wrong)
            seen = time.monotonic_ns()
            dump.wait_samples(20, control.pid, since=seen)
            self.assertEqual(dump.samples(victim.pid), [], f"off by {wrong}")
        dump.row(victim.pid, start=start_time(victim.pid))
        for sample in dump.wait_samples(5, victim.pid):
            self.assertEqual(sample["start"] // TICK_NS * TICK_NS, start_time(victim.pid))
        dump.row(victim.pid, start=dump.samples(victim.pid)[0]["start"], generation=2)
        dump.wait(lambda: dump.samples(victim.pid)[-1]["generation"] == 2, "the exact start is right, too")

    def test_says_when_the_process_table_is_full(self):
        dump = Dump(self)
        n = 16384  # ABI_MAX_PROCESSES
        rows = [f"row {1 << 22 | i} 0 0 0 {TARGET} 1" for i in range(n + 1)]  # no process has such an id
        dump.child.process.stdin.write("\n".join(rows).encode() + b"\n")
        dump.child.process.stdin.flush()
        dump.wait(lambda: rows[-1] in dump.child.out, "all rows")
        results = {x["done"]: x["result"] for x in dump.lines("done")}
        self.assertEqual(collections.Counter(results[x] for x in rows[:n]), {0: n})
        self.assertEqual(results[rows[n]], 2, "SAMPLER_E_FULL")
        self.assertEqual(dump.command(f"remove {1 << 22}"), 0)
        self.assertEqual(dump.command(rows[n]), 0, "one that goes makes room")

    # --- losses

    def test_counts_what_a_full_ring_refuses(self):
        dump = Dump(self, frequency=4999, ring=4096)
        victim, _, _ = self.frames_victim(30)
        dump.command("hold 1")
        dump.row(victim.pid)

        def lost():
            dump.command("counters")
            return dump.lines("counters")[-1]["counters"]["LOST_RING_FULL"] > 20

        dump.wait(lost, "the ring is full")
        dump.command("hold 0")
        dump.command("hold 1")
        dump.wait(lost, "it is full again")
        last = dump.stop()
        counters = last["counters"]
        self.assertEqual(counters["TICKS"], len(dump.samples()) + counters["LOST_RING_FULL"])
        self.assertEqual(last["lost"], counters["LOST_RING_FULL"])
        self.assertGreater(len(dump.samples()), 5)
        self.assertEqual(counters["malformed"], 0)

    def test_every_tick_is_delivered_at_a_high_frequency(self):
        dump = Dump(self, frequency=4999)
        victims = [self.frames_victim(100)[0] for _ in range(3)]
        for victim in victims:
            dump.row(victim.pid)
        dump.wait_samples(3000)
        counters = dump.stop()["counters"]
        self.assertEqual(counters["TICKS"], len(dump.samples()))
        self.assertEqual(counters["LOST_RING_FULL"], 0)

    # --- the kernel part

    @staticmethod
    def kernel_symbol(address, symbols=[]):
        if not symbols:
            with open("/proc/kallsyms") as file:
                symbols.extend(sorted((int(x.split()[0], 16), x.split()[2]) for x in file))
        return symbols[bisect.bisect(symbols, (address, "~")) - 1][1]

    def test_kernel_part_when_asked_for(self):
        samples, leaf, returns = self.sample_frames(5, n=60, mode="kernel", kernel=1)
        self.check_chain(samples, leaf, returns, FP_END)
        kernel = [x["kernel"] for x in samples if x["kernel"]]
        self.assertGreater(len(kernel), len(samples) // 2, "reading zeros is the kernel's work")
        self.assertTrue(all(y >= 1 << 63 for x in kernel for y in x))
        names = [[self.kernel_symbol(y) for y in x] for x in kernel]
        roots = collections.Counter(x[-1] for x in names)
        self.assertTrue(any("SYSCALL_64" in x for x in roots), roots)
        self.assertTrue(
            any("read_zero" in y or "read_iter_zero" in y or "vfs_read" in y for x in names for y in x),
            names[0])

    def test_no_kernel_part_otherwise(self):
        samples, leaf, returns = self.sample_frames(5, n=60, mode="kernel")
        self.assertEqual({len(x["kernel"]) for x in samples}, {0})
        self.check_chain(samples, leaf, returns, FP_END)

    # --- the context ring

    def ring_victim(self, capacity=64, prefix=()):
        victim = self.spawn([*prefix, tap.VICTIMS / "victim-slot", capacity], stdin=subprocess.PIPE)
        address, tid = map(int, victim.wait_for(r"^ring (\d+ \d+)\n").group(1).split())

        def tell(text):
            n = victim.out.count("done\n")
            victim.process.stdin.write(text.encode() + b"\n")
            victim.process.stdin.flush()
            tap.wait_until(lambda: victim.out.count("done\n") > n, text)
            return time.monotonic_ns()

        return victim, address, tid, tell

    def contexts(self, dump, pid, since, n=5):
        return {(x["context"], *(x["slot"] if x["context"] == PRESENT else ()))
                for x in dump.wait_samples(n, pid, since=since) if x["tid"] == pid}

    def test_reads_the_slot_of_the_thread(self):
        for capacity in (1, 61, 64):
            with self.subTest(capacity=capacity):
                victim, address, tid, tell = self.ring_victim(capacity)
                dump = Dump(self, frequency=499)
                dump.row(victim.pid, start_time(victim.pid), address, capacity)
                tell("fill 7 8 9")
                self.assertEqual(self.contexts(dump, victim.pid, tell("slot 0 0 0 0")), {(NONE,)})
                self.assertEqual(self.contexts(dump, victim.pid, tell(f"slot 1 {2**64 - 1} 3 0")),
                                 {(PRESENT, 1, 2**64 - 1, 3)})
                self.assertEqual(self.contexts(dump, victim.pid, tell("slot 0 0 5 0")), {(PRESENT, 0, 0, 5)})
                self.assertEqual(self.contexts(dump, victim.pid, tell("slot 1 2 3 1")), {(BUSY,)})

    def test_believes_no_slot_of_a_process_without_a_share(self):
        victim, address, tid, tell = self.ring_victim()
        dump = Dump(self, frequency=499)
        dump.row(victim.pid, 0, address, 64)
        self.assertEqual(self.contexts(dump, victim.pid, tell("slot 1 2 3 0")), {(PRESENT, 1, 2, 3)})
        self.assertEqual(dump.command(f"unshared {victim.pid}"), 0)
        self.assertEqual(self.contexts(dump, victim.pid, time.monotonic_ns()), {(AMBIGUOUS,)})

    def test_every_byte_of_the_header_must_be_right(self):
        victim, address, tid, tell = self.ring_victim()
        dump = Dump(self, frequency=999)
        dump.row(victim.pid, 0, address, 64)
        tell("slot 1 2 3 0")
        header = struct.pack("<IIII16x", 0x4F54454C, 1, 64, 32)
        for offset, byte in enumerate(header):
            with self.subTest(offset=offset):
                self.assertEqual(self.contexts(dump, victim.pid, tell(f"byte {offset} {byte ^ 1}"), 2),
                                 {(UNREADABLE, )})
                self.assertEqual(self.contexts(dump, victim.pid, tell(f"byte {offset} {byte}"), 2),
                                 {(PRESENT, 1, 2, 3)})

    def test_ring_unmapped_while_in_use(self):
        victim, address, tid, tell = self.ring_victim()
        dump = Dump(self, frequency=499)
        dump.row(victim.pid, 0, address, 64)
        self.assertEqual(self.contexts(dump, victim.pid, tell("slot 1 2 3 0")), {(PRESENT, 1, 2, 3)})
        self.assertEqual(self.contexts(dump, victim.pid, tell("unmap")), {(UNREADABLE,)})

    def test_row_that_does_not_fit_the_ring(self):
        victim, address, tid, tell = self.ring_victim()
        dump = Dump(self, frequency=499)
        tell("slot 1 2 3 0")
        for ring, capacity in ((address, 63), (address, 0), (address + 8, 64), (address + 32, 64), (8, 64),
                               (2**64 - 8, 64)):
            with self.subTest(ring=ring - address, capacity=capacity):
                dump.row(victim.pid, 0, ring, capacity)
                self.assertEqual(self.contexts(dump, victim.pid, time.monotonic_ns()), {(UNREADABLE,)})

    # --- PID namespaces

    def ids_by_level(self, pid):
        with open(f"/proc/{pid}/status") as file:
            return [int(x) for x in re.search(r"NSpid:\t(.*)\n", file.read()).group(1).split()]

    @staticmethod
    def only_child(pid):
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return int(file.read().split()[0])

    @staticmethod
    def cpu_time(pid):
        with open(f"/proc/{pid}/schedstat") as file:
            return int(file.read().split()[0]) / 1e9

    UNSHARE = ("unshare", "--pid", "--fork", "--kill-child")

    def test_ids_of_a_target_in_a_namespace(self):
        tap.need_tool("unshare")
        for prefix, level in ((self.UNSHARE, 1), (self.UNSHARE * 2, 2)):
            with self.subTest(level=level):
                victim, address, tid, tell = self.ring_victim(prefix=prefix)
                pid = victim.pid
                for _ in range(level):
                    pid = self.only_child(pid)
                ids = self.ids_by_level(pid)
                self.assertEqual((len(ids), ids[-1]), (level + 1, tid))
                dump = Dump(self, frequency=499)
                dump.row(pid, start_time(pid), address, 64)
                self.assertEqual(self.contexts(dump, pid, tell("slot 1 2 3 0")), {(PRESENT, 1, 2, 3)})
                seen = {(x["tgid"], x["tid"], x["ns_tid"]) for x in dump.samples()}
                self.assertIn((pid, pid, tid), seen)
                for tgid, task, ns_tid in seen:  # the thread that reads commands is hit now and then
                    self.assertEqual((tgid, ns_tid), (pid, self.ids_by_level(f"{pid}/task/{task}")[-1]))

    def test_daemon_in_a_namespace_sees_its_own_ids(self):
        tap.need_tool("unshare")
        outside, _, _ = self.frames_victim(5)
        sibling, _, _ = self.frames_victim(5, prefix=self.UNSHARE)  # at the same level, but beside ours
        directory = self.directory()
        # In one namespace: a victim, a victim one level further down, then the sampler.
        script = (
            f"{tap.VICTIMS}/victim-frames 5 >/dev/null & echo $! >{directory}/plain;"
            f" unshare --pid --fork --kill-child {tap.VICTIMS}/victim-frames 5 >/dev/null & echo $! >{directory}/nested;"
            f" exec {PROGRAM} \"$@\"")
        dump = Dump(self, prefix=(*self.UNSHARE, "sh", "-c", "shift; " + script, "sh"), frequency=499,
                    default=TARGET, spare=0)  # it is number 1 in its namespace, as the sibling is
        plain = int((directory / "plain").read_text())
        nested = int((directory / "nested").read_text())
        dump.wait_samples(10, plain)
        dump.wait(lambda: [x for x in dump.samples() if x["ns_tid"] == 1], "the nested victim")
        for other in (outside.pid, self.only_child(sibling.pid)):
            before = self.cpu_time(other)
            dump.wait(lambda: self.cpu_time(other) > before + 0.1, "ticks on those that do not count")
        by_ids = {(x["tgid"], x["tid"], x["ns_tid"]) for x in dump.samples() if x["comm"] == "victim-frames"}
        below = {x for x in by_ids if x[2] == 1}
        self.assertIn((plain, plain, plain), by_ids)
        self.assertEqual(len(below), 1, by_ids)
        self.assertGreater(below.pop()[0], nested, "a child of unshare, by its id in the sampler's namespace")
        self.assertEqual(len(by_ids), 2, "the others do not exist here")
        self.assertEqual((outside.status, sibling.status), (None, None))

    # --- notices

    def test_tells_of_exec_and_exit(self):
        dump = Dump(self)
        child = self.spawn(["sh", "-c", "exec sleep 0.05"])
        self.assertEqual(child.wait(), 0)
        dump.wait(lambda: dump.notices(EXIT, child.pid), "notice of exit")
        dump.stop()
        self.assertEqual([x["comm"] for x in dump.notices(EXEC, child.pid)], ["sh", "sleep"])
        self.assertEqual([x["comm"] for x in dump.notices(EXIT, child.pid)], ["sleep"])
        order = [x["notice"] for x in dump.lines("notice") if x["tgid"] == child.pid]
        self.assertEqual(order, [EXEC, EXEC, EXIT])
        self.assertEqual(len({x["start"] for x in dump.lines("notice") if x["tgid"] == child.pid}), 1,
                         "exec keeps the start time")

    def test_exit_is_the_last_threads_and_has_the_groups_cpu_time(self):
        # Threads burn 150 ms each; the leader leaves first and is a zombie until the last one is gone.
        # A script that starts Python would have children, whose time os.wait4() adds.
        script = ("import ctypes, threading, time\n"
                  "def burn():\n"
                  "    end = time.thread_time() + 0.15\n"
                  "    while time.thread_time() < end: pass\n"
                  "for _ in range(3): threading.Thread(target=burn).start()\n"
                  "ctypes.CDLL(None).pthread_exit(None) if %d else None\n")
        for leader_first in (0, 1):
            with self.subTest(leader_first=leader_first):
                dump = Dump(self)
                process = subprocess.Popen([sys.executable, "-c", script % leader_first],
                                           stderr=subprocess.DEVNULL)
                _, _, usage = os.wait4(process.pid, 0)
                process.returncode = 0
                dump.wait(lambda: dump.notices(EXIT, process.pid), "notice of exit")
                dump.stop()
                exits = dump.notices(EXIT, process.pid)
                self.assertEqual(len(exits), 1)
                used = usage.ru_utime + usage.ru_stime
                self.assertGreater(used, 0.45)
                self.assertAlmostEqual(exits[0]["value"] / 1e9, used, delta=0.03)

    def test_what_an_exit_did_not_know_is_told_once_it_is_reaped(self):
        dump = Dump(self, default=UNDECIDED)
        used = dump.check_settled(tap.VICTIMS / "victim-short")
        dump.stop()
        self.assertEqual({x["comm"] for pid in used for x in dump.notices(SETTLED, pid)}, {"victim-short"})

    def test_of_the_rejected_no_more_is_told_than_their_exit(self):
        dump = Dump(self)
        self.spawn([tap.VICTIMS / "victim-short", "2"]).wait()
        last = self.spawn(["true"])
        last.wait()
        dump.wait(lambda: dump.notices(EXIT, last.pid), "notice of exit")
        time.sleep(0.2)
        dump.stop()
        self.assertEqual([x for x in dump.lines("notice") if x["notice"] == SETTLED], [])

    def test_strangers_are_told_of_when_their_address_space_changes(self):
        dump = Dump(self, frequency=499, watch=1)
        victim, address, tid, tell = self.ring_victim()
        dump.wait(lambda: dump.notices(MAPPINGS, victim.pid), "the first sight")
        first = dump.notices(MAPPINGS, victim.pid)
        tell("map")
        dump.wait(lambda: len(dump.notices(MAPPINGS, victim.pid)) > len(first), "a change")
        times = [x["time"] for x in dump.notices(MAPPINGS, victim.pid)]
        for _ in range(40):
            tell("map")
            time.sleep(0.05)
        dump.wait(lambda: len(dump.notices(MAPPINGS, victim.pid)) > len(times), "more changes")
        times = [x["time"] for x in dump.notices(MAPPINGS, victim.pid)]
        least = [min(15_625_000 << i, 500_000_000) for i in range(len(times))]
        self.assertTrue(all(b - a >= x for a, b, x in zip(times, times[1:], least)),
                        "each interval is twice the last")
        self.assertGreater(len(times), 5, "a program that starts is looked at often")
        self.assertEqual(dump.samples(), [], "strangers are not sampled")

    def test_quiet_about_strangers_that_do_not_change(self):
        dump = Dump(self, frequency=499, watch=1)
        still, _, _ = self.frames_victim(5)
        moving, _, _, tell = self.ring_victim()
        dump.wait(lambda: dump.notices(MAPPINGS, still.pid), "the first sight")
        dump.wait(lambda: dump.notices(MAPPINGS, moving.pid), "the first sight")
        settled = time.monotonic_ns()       # it may have been seen while it was starting
        for _ in range(2):
            n = len(dump.notices(MAPPINGS, moving.pid))
            tell("map")
            dump.wait(lambda: len(dump.notices(MAPPINGS, moving.pid)) > n, "a change")
        self.assertLessEqual(len(dump.notices(MAPPINGS, still.pid, settled)), 1)
        self.assertEqual(dump.samples(), [])

    def test_watches_the_rejected_where_publishing_may_choose_them(self):
        dump = Dump(self, frequency=499, watch=1)
        rejected, _, _, tell = self.ring_victim()
        dump.row(rejected.pid, state=REJECTED)
        since = time.monotonic_ns()         # some of before may still be in the ring
        tell("map")
        dump.wait(lambda: dump.notices(MAPPINGS, rejected.pid, since), "a change")
        self.assertEqual(dump.samples(), [])

    def test_leaves_others_alone_where_only_targets_are_watched(self):
        dump = Dump(self, frequency=499, watch=2)
        rejected, _, _, tell_rejected = self.ring_victim()
        other, _, _, tell_other = self.ring_victim()
        target, _, _, tell_target = self.ring_victim()
        dump.row(rejected.pid, state=REJECTED)
        dump.row(target.pid)
        for _ in range(2):
            m = len(dump.notices(MAPPINGS, target.pid))
            for tell in (tell_rejected, tell_other, tell_target):
                tell("map")
            dump.wait(lambda: len(dump.notices(MAPPINGS, target.pid)) > m, "a change")
        self.assertEqual({x["tgid"] for x in dump.notices(MAPPINGS)}, {target.pid})

    def test_tells_of_changes_in_a_target_without_a_ring(self):
        dump = Dump(self, frequency=499, watch=1)
        without, _, _, tell = self.ring_victim()
        ringed, address, _, tell_ringed = self.ring_victim()
        dump.row(ringed.pid, 0, address, 64)
        dump.row(without.pid)
        since = time.monotonic_ns()
        tell_ringed("map")
        tell("map")
        dump.wait(lambda: dump.notices(MAPPINGS, without.pid, since), "a change")
        self.assertEqual(dump.notices(MAPPINGS, ringed.pid, since), [],
                         "its ring is known, there is nothing to look for")

    # --- wake-ups

    def fall_asleep(self, dump):
        dump.send("sleep")
        dump.wait(lambda: dump.lines("asleep"), "the sleep")

    def wait_woken(self, dump):
        dump.wait(lambda: dump.lines("woken"), "the end of the sleep")
        self.assertEqual([x["woken"] for x in dump.lines("woken")], [1], "by whom, not by the minute's end")
        dump.command("counters")
        self.assertEqual(dump.lines("counters")[-1]["counters"]["WAKE_UPS"], 1)

    def test_a_sleeper_is_woken_by_the_first_sample_alone(self):
        dump = Dump(self, frequency=499)
        victim, _, _ = self.frames_victim(5)
        dump.row(victim.pid)
        dump.wait_samples(3)
        dump.command("counters")
        self.assertEqual(dump.lines("counters")[-1]["counters"]["WAKE_UPS"], 0, "who is awake is not woken")
        os.kill(victim.pid, signal.SIGSTOP)
        tap.wait_until(
            lambda: pathlib.Path(f"/proc/{victim.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T",
            "a victim that stands still")
        self.fall_asleep(dump)
        n = len(dump.samples())
        os.kill(victim.pid, signal.SIGCONT)
        self.wait_woken(dump)
        dump.wait_samples(n + 5)
        self.assertEqual(dump.stop()["counters"]["WAKE_UPS"], 1)

    def test_a_sleeper_is_woken_by_a_targets_exit(self):
        dump = Dump(self)
        victim = self.spawn(["sleep", "1000"])
        dump.row(victim.pid)
        self.fall_asleep(dump)
        victim.kill()
        self.wait_woken(dump)
        dump.wait(lambda: dump.notices(EXIT, victim.pid), "notice of exit")

    def test_a_sleeper_is_woken_by_strangers_only_for_want_of_room(self):
        dump = Dump(self)
        self.fall_asleep(dump)
        churns = [
            self.spawn(["sh", "-c", "while :; do /bin/true; done"])
            for _ in range(min(8, max(2, os.cpu_count())))
        ]
        self.wait_woken(dump)
        for churn in churns:
            churn.kill()
        self.assertGreater(len(dump.lines("notice")), 500, "half of the ring, which has 128 KiB for each CPU")

    # --- period

    def test_jitter_draws_new_periods(self):
        dump = Dump(self, frequency=499, jitter=1)
        victim, _, _ = self.frames_victim(5)
        dump.row(victim.pid)
        periods = []
        for _ in range(8):
            self.assertEqual(dump.command("jitter"), 0)
            since = time.monotonic_ns()
            gaps = []
            by_cpu = collections.defaultdict(list)
            for sample in dump.wait_samples(40, victim.pid, since=since):
                by_cpu[sample["cpu"]].append(sample["time"])
            for times in by_cpu.values():
                gaps += [b - a for a, b in zip(times, times[1:])]
            periods.append(sorted(gaps)[len(gaps) // 4])
        self.assertGreater(max(periods) - min(periods), 0.03 * 1e9 / 499, periods)

    # --- what it needs and costs

    def test_without_kernel_types_one_line_says_so(self):
        done = self.run_command([PROGRAM, "btf=/nonexistent/vmlinux"], expect=EXIT_UNUSABLE)
        self.assertRegex(done.stderr, r"\Aspanprof: .*/nonexistent/vmlinux.*CONFIG_DEBUG_INFO_BTF.*\n\Z")

    def exact_chain_behind(self, *prefix, **options):
        """A sampler that is started by these words has the whole chain."""
        dump = Dump(self, prefix=prefix, frequency=499, watch=1, kernel=1, **options)
        victim, leaf, returns = self.frames_victim(30)
        dump.rowless(victim.pid)
        dump.row(victim.pid)
        dump.wait(lambda: self.settled(dump.samples(), leaf), "samples")
        dump.stop()
        self.check_chain(self.settled(dump.samples(), leaf), leaf, returns, FP_END)

    def test_no_kernel_is_refused_by_its_version(self):
        tap.need_tool("setarch")
        # The personality UNAME26 makes uname() say 2.6.40 and later, for programs that cannot count further.
        self.exact_chain_behind("setarch", "--uname-2.6")

    def test_a_kernel_without_bpf_loop_has_the_same_chain(self):
        """As Linux 5.15 and 5.16: neither its types nor its verifier know the function."""
        types = self.directory() / "vmlinux"
        types.write_bytes(pathlib.Path("/sys/kernel/btf/vmlinux").read_bytes()
                          .replace(b"\0BPF_FUNC_loop\0", b"\0BPF_FUNC_none\0"))
        self.exact_chain_behind("env", f"LD_PRELOAD={tap.BUILD_DIR}/tests/harness/libdeny-bpf.so", "DENY_FUNCTIONS=181",
                                "DENY_RELEASE=5.14.0-570.el9.x86_64", btf=types)

    def test_names_the_missing_capability(self):
        tap.need_tool("setpriv")
        for granted, missing in (("", "CAP_BPF CAP_PERFMON"), (",+bpf", "CAP_PERFMON"), (",+perfmon",
                                                                                         "CAP_BPF")):
            with self.subTest(granted=granted):
                done = self.run_command(["setpriv", f"--bounding-set=-all{granted}", PROGRAM],
                                        expect=EXIT_UNUSABLE)
                self.assertRegex(done.stderr,
                                 rf"\Aspanprof: not permitted to [^\n]*: missing {missing} \([^\n]*\n\Z")

    def test_two_capabilities_are_enough(self):
        tap.need_tool("setpriv")
        self.exact_chain_behind("setpriv", "--bounding-set=-all,+bpf,+perfmon")

    def test_program_and_maps_stay_small(self):
        dump = Dump(self, watch=1, kernel=1, depth=1024)
        found = verified(dump.child.pid)
        if not found:
            tap.skip("kernel: tells no instruction counts (before 5.16)")
        self.assertEqual(len(found), 9, "the walk over runtimes is loaded when it is wanted")
        # 151 for each of the 128 words of a frame of made code (rules_doubt()), and the rest of a walk
        most = 26000 + 151 * 128
        self.assertLess(max(found.values()), most, "the walk's state has got onto the BPF stack?")
        dump.command("counters")
        last = dump.lines("counters")[-1]
        self.assertGreater(last["map_bytes"], 128 << 10)
        self.assertLess(last["map_bytes"], 3 << 20)
        self.assertEqual(last["cpus"], os.sysconf("SC_NPROCESSORS_ONLN"))

    def test_sees_throttling_and_a_lowered_rate(self):
        path = "/proc/sys/kernel/perf_event_max_sample_rate"
        with open(path) as file:
            before = file.read()

        def write(text):
            with open(path, "w") as file:
                file.write(text)

        dump = Dump(self, frequency=4999)
        victim, _, _ = self.frames_victim(5)
        dump.row(victim.pid)
        dump.wait_samples(5)
        try:
            write("250")
            end = time.monotonic() + tap.PATIENCE
            while time.monotonic() < end:
                dump.command("counters")
                counters = dump.lines("counters")[-1]["counters"]
                if counters["THROTTLED"] and counters["RATE_LOWERED"]:
                    break
        finally:
            write(before)
        self.assertGreater(counters["THROTTLED"], 0)
        self.assertEqual(counters["RATE_LOWERED"], 1)
        self.assertIn(f"fell from {before.strip()} to 250: samples will be lost", dump.child.err)
        dump.command("counters")
        self.assertEqual(
            dump.lines("counters")[-1]["counters"]["RATE_LOWERED"], 1, "a rate that rises is no loss")


tap.main()
