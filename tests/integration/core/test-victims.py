#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each victim does what its first comment says: looked at from outside, by /proc, readelf and nm."""
import os
import pathlib
import re
import resource
import signal
import struct
import time

import tap



def victim(name):
    return tap.VICTIMS / f"victim-{name}"


def read_memory(pid, address, size):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        return os.pread(memory.fileno(), size, address)


def mapping_of(pid, address):
    """(start, end, line of maps) of the mapping that holds an address, or None."""
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        start, end = (int(x, 16) for x in line.split()[0].split("-"))
        if start <= address < end:
            return start, end, line
    return None


def task_cpu_ns(pid, tid):
    return int(pathlib.Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[0])


class Victim(tap.TestCase):
    def run_victim(self, name, *arguments):
        return self.run_command([victim(name), *map(str, arguments)], expect=0).stdout

    def test_all_refuse_nonsense(self):
        for name in ("chain", "exec", "forker", "periodic", "request", "shares", "short", "threads"):
            with self.subTest(name=name):
                self.assertIn("usage: victim-", self.run_command([victim(name), "nonsense"], expect=2).stderr)
        self.assertIn("usage: victim-chain", self.run_command([victim("chain")], expect=2).stderr)


class Chain(Victim):
    def symbols(self, path):
        """name → (address, size) by nm."""
        table = self.run_command([tap.need_tool("nm"), "-S", path], expect=0).stdout
        return {m[3]: (int(m[1], 16), int(m[2], 16)) for m in re.finditer(r"(\w+) (\w+) [tT] (\w+)", table)}

    def stopped_pc_sp(self, child):
        """/proc/PID/syscall of a stopped thread that is in no system call: `-1 SP PC`."""
        os.kill(child.pid, signal.SIGSTOP)
        stat = pathlib.Path(f"/proc/{child.pid}/stat")
        tap.wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "stopped")
        sp, pc = pathlib.Path(f"/proc/{child.pid}/syscall").read_text().split()[-2:]
        return int(pc, 16), int(sp, 16)

    def check_chain(self, name, depth):
        child = self.spawn([victim(name), depth])
        line = child.wait_for(r"^pid (\d+) depth (\d+) leaf 0x(\w+) frame 0x(\w+)$")
        self.assertEqual((int(line[1]), int(line[2])), (child.pid, depth))
        leaf, frame = int(line[3], 16), int(line[4], 16)
        symbols = self.symbols(victim(name))
        self.assertEqual(leaf - frame, symbols["chain_leaf"][0] - symbols["chain_frame"][0])
        time.sleep(0.05)  # out of the printf and into the leaf
        pc, sp = self.stopped_pc_sp(child)
        self.assertTrue(leaf <= pc < leaf + symbols["chain_leaf"][1], hex(pc))
        _, end, mapping = mapping_of(child.pid, sp)
        self.assertIn("[stack]", mapping)
        words = struct.unpack(f"<{(end - sp) // 8}Q", read_memory(child.pid, sp, (end - sp) // 8 * 8))
        # each frame of the chain but the outermost returns into chain_frame()
        self.assertEqual(sum(frame < word < frame + symbols["chain_frame"][1] for word in words), depth - 1)
        return leaf, symbols["chain_leaf"][0]

    def test_shows_its_depth_to_a_walk_by_frame_pointers(self):
        child = self.spawn([victim("chain"), 30])
        child.wait_for("^pid")
        data = self.directory() / "perf.data"
        perf = tap.need_tool("perf")
        self.run_command([
            perf, "record", "-q", "-e", "cpu-clock:u", "-F", "99", "-g", "-o", data, "-p", child.pid, "sleep",
            "0.5"
        ], expect=0)
        text = self.run_command([perf, "script", "-i", data, "-F", "ip,sym"], expect=0).stdout
        stacks = {
            tuple(re.findall(r"chain_\w+", stack)) for stack in text.split("\n\n") if "chain_leaf" in stack
        }
        self.assertEqual(stacks, {("chain_leaf", *29 * ["chain_frame"])})

    def elf_type(self, name):
        header = self.run_command([tap.need_tool("readelf"), "-hlW", victim(name)], expect=0).stdout
        return re.search(r"Type: +(\w+)", header)[1], "INTERP" in header

    def test_has_the_depth_that_was_asked_for(self):
        for depth in (1, 2, 30, 600):
            with self.subTest(depth=depth):
                self.check_chain("chain", depth)

    def test_is_a_pie_that_is_moved(self):
        self.assertEqual(self.elf_type("chain"), ("DYN", True))
        leaf, symbol = self.check_chain("chain", 5)
        self.assertNotEqual(leaf, symbol)

    def test_is_static_and_not_moved(self):
        self.assertEqual(self.elf_type("chain-static"), ("EXEC", False))
        leaf, symbol = self.check_chain("chain-static", 30)
        self.assertEqual(leaf, symbol)


class Shares(Victim):
    def shares(self, name, *arguments):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = self.run_victim(name, *arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = {m[1]: int(m[2]) for m in re.finditer(r"^(share_\d+|work_[ab]) (\d+)$", out, re.M)}
        used_ns = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9
        total = sum(cpu.values())
        self.assertLessEqual(total, used_ns + 4e6)  # a tick
        self.assertGreater(total, used_ns / 2)
        return {function: ns / total for function, ns in cpu.items()}

    def test_are_50_30_15_5(self):
        shares = self.shares("shares", 1)
        self.assertEqual(len(shares), 4)
        for percent in (50, 30, 15, 5):
            self.assertAlmostEqual(shares[f"share_{percent}"], percent / 100, delta=0.06)

    def test_repeat_with_the_period(self):
        shares = self.shares("periodic", 10.101, 1)
        self.assertAlmostEqual(shares["work_a"], 0.3, delta=0.2)  # by the clock: on a full machine it varies
        self.assertIn("period_ns 10101000\n", self.run_victim("periodic", 10.101, 0.01))
        self.assertIn("period_ns 10000000\n", self.run_victim("periodic", 10, 0.01))


class Lives(Victim):
    def test_exec_keeps_the_pid(self):
        out = self.run_victim("exec", 3, 5)
        pids, nths = zip(*re.findall(r"^pid (\d+) exec (\d+)$", out, re.M))
        self.assertEqual(nths, ("0", "1", "2", "3"))
        self.assertEqual(len(set(pids)), 1)

    def test_short_burns_and_ends(self):
        self.assertGreaterEqual(int(re.search(r"cpu_ns (\d+)", self.run_victim("short"))[1]), 20_000_000)

    def test_forker_counts_what_it_does(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        total = re.search(r"^total seconds \S+ forks (\d+) maps (\d+) ns_per_fork (\d+) ns_per_map (\d+)$",
                          self.run_victim("forker", 0.3), re.M)
        forks, maps, ns_per_fork, ns_per_map = map(int, total.groups())
        self.assertGreater(forks, 0)
        self.assertEqual(maps, 64 * forks)
        self.assertGreater(min(ns_per_fork, ns_per_map), 0)
        # two pages touched in each mapping: the kernel's own count of faults
        self.assertGreaterEqual(resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before, 2 * maps)

    def test_request_reports_its_figures(self):
        out = self.run_victim("request", 2.5, 20)
        seconds = re.findall(r"^second (\d+) requests (\d+) p50_ns (\d+) p99_ns (\d+)$", out, re.M)
        total = re.search(r"^total seconds \S+ requests (\d+) p50_ns (\d+) p99_ns (\d+)$", out, re.M)
        self.assertGreater(len(seconds), 0)
        self.assertGreaterEqual(int(total[1]), sum(int(second[1]) for second in seconds))
        for *_, p50, p99 in (*seconds, total.groups()):
            self.assertLessEqual(int(p50), int(p99))
        self.assertGreaterEqual(int(total[2]), 10_000)  # the work alone takes about 20 µs


class Threads(Victim):
    def start(self, *arguments):
        child = self.spawn([victim("threads"), *arguments])
        child.wait_for(r"^pid \d+ ready$")
        return child, re.findall(r"^thread (\d+) (\S+) span (\d+)$", child.out, re.M)

    def test_have_their_names_and_burn_or_sleep(self):
        child, threads = self.start(2, 3)
        self.assertEqual([name for _, name, _ in threads],
                         ["burn-0", "burn-1", "sleep-0", "sleep-1", "sleep-2"])
        for tid, name, _ in threads:
            self.assertEqual(pathlib.Path(f"/proc/{child.pid}/task/{tid}/comm").read_text(), name + "\n")
        time.sleep(0.3)
        kernel = {name: task_cpu_ns(child.pid, tid) for tid, name, _ in threads}
        self.assertEqual(child.stop(), 0)
        own = {name: int(ns) for name, ns in re.findall(r"^cpu \d+ (\S+) (\d+)$", child.out, re.M)}
        for name, ns in kernel.items():
            self.assertGreaterEqual(own[name], ns)  # read later
        self.assertGreater(min(own["burn-0"], own["burn-1"]), 5 * max(own[f"sleep-{i}"] for i in range(3)))

    def test_share_a_slot_of_a_small_ring(self):
        child, threads = self.start(2, 1, 0, 1)
        self.assertEqual([span for _, _, span in threads], ["1", "2", "3"])
        header = struct.pack("<4sIII16x", b"LETO", 1, 1, 32)
        found = []
        for line in pathlib.Path(f"/proc/{child.pid}/maps").read_text().splitlines():
            start = int(line.split("-")[0], 16)
            if " rw-p " in line and read_memory(child.pid, start, 32) == header:
                found.append(read_memory(child.pid, start + 32, 32))
        self.assertEqual(found, [struct.pack("<QQQII", 7, 8, 3, 0, 3)])  # the last one to set it, and three writes


class Ring(Victim):
    """Contents are compared with bytes put together here."""

    HEADER = struct.pack("<4sIII16x", b"LETO", 1, 4096, 32)

    def setUp(self):
        self.child = self.spawn([victim("ring")], stdin=-1)
        line = self.child.wait_for(r"^pid (\d+) tid (\d+) burn 0x\w+$")
        self.tid = int(line[2])
        self.n_answers = 0

    def ask(self, command):
        """Sends a command, returns the words of the answer."""
        self.child.process.stdin.write(command.encode() + b"\n")
        self.child.process.stdin.flush()
        self.n_answers += 1
        return tap.wait_until(lambda: self.answers()[self.n_answers:], f"an answer to {command}")[0].split()

    def answers(self):
        return self.child.out.split("\n")[:-1]

    def publish(self, command="publish 4096"):
        ok, address, capacity, size = self.ask(command)
        self.assertEqual((ok, int(capacity)), ("ok", int(command.split()[1])))
        return int(address, 16), int(size)

    def memory(self, address, size=32):
        return read_memory(self.child.pid, address, size)

    def slot(self, address):
        return self.memory(address + 32 + 32 * (self.tid % 4096))

    def test_publishes_and_ends_with_its_input(self):
        address, size = self.publish()
        self.assertEqual(address % 4096, 0)
        self.assertEqual(size, 135168)  # 32 + 4096 × 32, in whole pages
        self.assertEqual(self.memory(address), self.HEADER)
        self.child.process.stdin.close()
        self.assertEqual(self.child.wait(), 0)

    def test_publishes_behind_other_memory(self):
        address, _ = self.publish("publish 4096 5")
        start, _, _ = mapping_of(self.child.pid, address)
        self.assertLessEqual(start, address - 5 * 4096)
        self.assertEqual(self.memory(address), self.HEADER)

    def test_sets_clears_and_keeps_busy_the_slot_of_the_burner(self):
        address, _ = self.publish()
        self.assertEqual(self.ask("set a1 b2 c3"), ["ok"])
        self.assertEqual(self.slot(address), struct.pack("<QQQQ", 0xA1, 0xB2, 0xC3, 0))
        self.assertEqual(self.ask("busy 1"), ["ok"])
        self.assertEqual(self.slot(address), struct.pack("<QQQQ", 0xA1, 0xB2, 0xC3, 1))
        self.assertEqual(self.ask("clear"), ["ok"])
        self.assertEqual(self.slot(address), bytes(32))
        comm = pathlib.Path(f"/proc/{self.child.pid}/task/{self.tid}/comm")
        self.assertEqual(comm.read_text(), "burner\n")

    def test_gets_each_field_wrong_alone(self):
        address, _ = self.publish()
        for field, words in {
            "magic": (0x4F54454D, 1, 4096, 32, 0),
            "version": (0x4F54454C, 2, 4096, 32, 0),
            "version-zero": (0x4F54454C, 0, 4096, 32, 0),
            "capacity-zero": (0x4F54454C, 1, 0, 32, 0),
            "capacity-over": (0x4F54454C, 1, 16777217, 32, 0),
            "capacity-beyond": (0x4F54454C, 1, 16777216, 32, 0),
            "slot-size": (0x4F54454C, 1, 4096, 64, 0),
            "reserved": (0x4F54454C, 1, 4096, 32, 1),
        }.items():
            self.assertEqual(self.ask(f"wrong {field}"), ["ok"])
            self.assertEqual(self.memory(address), struct.pack("<IIII15xB", *words), field)
        self.assertEqual(self.ask("right"), ["ok"])
        self.assertEqual(self.memory(address), self.HEADER)
        self.assertEqual(self.ask("capacity 7"), ["ok"])
        self.assertEqual(self.memory(address), struct.pack("<IIII16x", 0x4F54454C, 1, 7, 32))

    def test_moves_replaces_and_unmaps(self):
        address, size = self.publish()
        self.ask("set a1 b2 c3")
        moved = int(self.ask("move")[1], 16)
        self.assertNotEqual(moved, address)
        self.assertIsNone(mapping_of(self.child.pid, address))
        self.assertEqual(self.memory(moved), self.HEADER)
        self.assertEqual(self.slot(moved), struct.pack("<QQQQ", 0xA1, 0xB2, 0xC3, 0))
        self.assertEqual(self.ask("remap"), ["ok"])
        self.assertEqual(self.memory(moved, size), bytes(size))
        self.assertEqual(self.ask("unmap"), ["ok"])
        self.assertIsNone(mapping_of(self.child.pid, moved))
        self.assertEqual(self.ask("right")[:3], ["error", "no", "ring:"])

    def test_maps_decoys_and_memory_that_nobody_touches(self):
        _, address, size = self.ask("decoys 3")
        self.assertEqual(int(size), 3 * 4096)
        for page in range(3):
            self.assertEqual(self.memory(int(address, 16) + page * 4096), b"LETO" + bytes(28))
        status = pathlib.Path(f"/proc/{self.child.pid}/status")
        before = int(re.search(r"VmRSS:\s+(\d+)", status.read_text())[1])
        _, address, size = self.ask("untouched 1024")
        self.assertEqual(int(size), 1 << 30)
        start, end, _ = mapping_of(self.child.pid, int(address, 16))
        self.assertGreaterEqual(end - start, 1 << 30)
        self.assertLess(int(re.search(r"VmRSS:\s+(\d+)", status.read_text())[1]) - before, 1024)  # kB

    def test_answers_nonsense_with_an_error(self):
        for command in ("jump", "right", "publish 0", "set 1"):
            self.assertEqual(self.ask(command)[0], "error", command)


tap.main()
