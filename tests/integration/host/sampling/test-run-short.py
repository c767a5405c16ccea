#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks of processes that end before their unwind rows are in force: copied by the kernel half, walked by
the daemon. The victim's callers are known by name."""
import oracle

oracle.enter()

import os
import shutil

import otlp_read
import session
import tap
import tree
from dump import Dump

SYMBOLS = otlp_read.Symbols()
PENDING, NO_ROWS, NO_MAPPING, COMPLETE = 11, 3, 2, 0
HEADER = 216
CHUNK = 1024
HZ = 499

# Runs for some ms; its stack and rbp are what the lines before `spin` make of them.
LIAR = """
        .globl _start
        .text
_start:
        .cfi_startproc
        mov %%rsp, %%r15
%s
spin:   mov $6000000, %%rcx
1:      dec %%rcx
        jnz 1b
        mov $60, %%eax
        xor %%edi, %%edi
        syscall
        .cfi_endproc
"""
LIES = {
    "its own caller": """
        sub $4096, %rsp
        and $-16, %rsp
        lea spin(%rip), %rax
        mov %rsp, %rdi
2:      mov %rax, (%rdi)
        add $8, %rdi
        cmp %r15, %rdi
        jb 2b
        .cfi_def_cfa rsp, 8
""",
    "garbage": """
        sub $4096, %rsp
        mov $88172645463325252, %rax
        mov %rsp, %rdi
2:      imul $1103515245, %rax, %rax
        mov %rax, (%rdi)
        add $8, %rdi
        cmp %r15, %rdi
        jb 2b
        mov %rax, %rbp
        .cfi_def_cfa rsp, 8
""",
    "no stack": """
        mov $4096, %rsp
        .cfi_def_cfa rsp, 8
""",
    "frames behind the copy": """
        sub $65536, %rsp
        .cfi_def_cfa rsp, 60000
""",
}


class Copies(tap.TestCase):
    """The kernel half alone: nothing says what the target has mapped, so each of its samples has a copy."""

    def setUp(self):
        tap.need_root()
        tap.need_btf()

    def victim(self, depth, mode="depth"):
        """Runs on the process' first stack. Its own return addresses, leaf first."""
        child = self.spawn([tap.VICTIMS / "victim-omit", mode, depth])
        return child, [int(x, 0) for x in child.wait_for(r"^frames (.*)\n").group(1).split()]

    def test_hold_the_stack_of_their_sample(self):
        for depth, size in ((10, 3), (200, 9)):
            with self.subTest(depth=depth):
                dump = Dump(self, frequency=HZ, **{"stack-bytes": 1 << 30})
                child, returns = self.victim(depth)
                dump.row(child.pid)
                dump.wait_samples(20)
                dump.stop()
                stacks = {(x["cpu"], x["time"]): x for x in dump.lines("stack")}
                for sample in dump.samples():
                    self.assertEqual((sample["end"], sample["copied"], len(sample["user"])), (PENDING, 1, 1))
                    stack = stacks[sample["cpu"], sample["time"]]
                    self.assertEqual((stack["pc"], stack["tgid"], stack["cut"]),
                                     (sample["user"][0], child.pid, 0))
                    self.assertLessEqual(stack["address"], stack["sp"])
                    self.assertLess(stack["sp"] - stack["address"], CHUNK)
                    words = stack["words"][(stack["sp"] - stack["address"]) // 8:]
                    self.assertEqual([w for w in words if w in returns][-len(returns):], returns)
                    self.assertLessEqual(stack["size"], HEADER + size * CHUNK)
                child.kill()

    def test_are_cut_and_say_so(self):
        dump = Dump(self, frequency=HZ, **{"stack-bytes": 1 << 30})
        child, returns = self.victim(100, "large")
        dump.row(child.pid)
        dump.wait_samples(20)
        dump.stop()
        self.assertEqual(len(dump.lines("stack")), len(dump.samples()))
        for stack in dump.lines("stack"):
            # a register of main's holds an address far up the stack: that is taken for a frame's base
            self.assertIn((stack["cut"], len(stack["words"]) * 8), ((1, 13 * CHUNK), (1, 17 * CHUNK)))
            words = stack["words"][(stack["sp"] - stack["address"]) // 8:]
            held = [w for w in words if w in returns]
            self.assertGreater(len(held), 10)
            self.assertEqual(held, returns[:len(held)])

    def test_have_a_second_piece_behind_a_frame_that_is_larger_than_they_are(self):
        dump = Dump(self, frequency=HZ, **{"stack-bytes": 1 << 30})
        child, returns = self.victim(100, "buffer")
        dump.row(child.pid)
        dump.wait_samples(20)
        dump.stop()
        self.assertEqual(len(dump.lines("stack")), len(dump.samples()))
        for stack in dump.lines("stack"):
            self.assertGreater(stack["bp"] - stack["sp"], 100 << 10)
            self.assertEqual(stack["far"], stack["bp"] & ~(CHUNK - 1))
            # pages of the buffer that were never touched end the first piece
            self.assertLess(len(stack["words"]) * 8, 13 * CHUNK)
            self.assertLessEqual(stack["size"], HEADER + 17 * CHUNK)
            held = [w for w in stack["far_words"][(stack["bp"] - stack["far"]) // 8:] if w in returns]
            self.assertEqual(held[:len(returns)], returns)

    def test_end_with_the_budget_of_a_second(self):
        budget = 8 * (HEADER + 3 * CHUNK)
        dump = Dump(self, frequency=HZ, **{"stack-bytes": budget})
        child, _ = self.victim(10)
        os.sched_setaffinity(child.pid, [0])
        dump.row(child.pid)
        dump.wait_samples(1500)
        counters = dump.stop()["counters"]
        seconds = {}
        for stack in dump.lines("stack"):
            key = stack["cpu"], stack["time"] >> 30
            seconds[key] = seconds.get(key, 0) + stack["size"]
        self.assertGreater(len(seconds), 1)
        self.assertLessEqual(max(seconds.values()), budget)
        copied = sum(x["copied"] for x in dump.samples())
        self.assertEqual((counters["STACK_COPIES"], counters["STACK_COPIES"]), (copied, len(dump.lines("stack"))))
        self.assertGreater(counters["STACK_COPIES_BUDGET"], 1000)
        self.assertEqual(counters["STACK_COPIES"] + counters["STACK_COPIES_BUDGET"] +
                         counters["STACK_COPIES_FULL"], sum(x["end"] == PENDING for x in dump.samples()))

    def test_that_find_their_ring_full_lose_no_sample(self):
        dump = Dump(self, frequency=HZ, ring=1 << 20, **{"stack-bytes": 1 << 30})
        child, _ = self.victim(10)
        dump.row(child.pid)
        self.assertEqual(dump.command("hold 1"), 0)
        session.wait_cpu([child.pid], 1.5)
        counters = dump.stop()["counters"]
        self.assertGreater(counters["STACK_COPIES_FULL"], 0)
        self.assertEqual(counters["LOST_RING_FULL"], 0)
        self.assertEqual(counters["TICKS"], len(dump.samples()))
        self.assertEqual(sum(x["copied"] for x in dump.samples()), len(dump.lines("stack")))

    def test_are_not_made_where_rows_are_in_force(self):
        dump = Dump(self, frequency=HZ, **{"stack-bytes": 1 << 30})
        child, _ = self.victim(10)
        dump.rows(child.pid)
        dump.row(child.pid)
        dump.wait_samples(50)
        dump.stop()
        self.assertEqual((dump.lines("stack"), {x["end"] for x in dump.samples()}), ([], {COMPLETE}))


class Short(session.TestCase):
    judge = tree.Judge(SYMBOLS)

    def storm(self, ms, n, program=lambda i: tree.VICTIM, warm=True):
        run = self.start("--comm", "victim-tree*", "--frequency", HZ)
        if warm:        # a file that was never seen takes its time
            self.run_command([tree.VICTIM, 1500], expect=0)
        pids = set()
        for i in range(n):
            child = tap.Child([program(i), ms])
            pids.add(child.pid)
            child.wait()
            child.kill()
        result = run.stop()
        return result, [s for s in result.samples if s.resource["process.pid"] in pids]

    def check_storm(self, ms, n, share):
        result, samples = self.storm(ms, n)
        due, whole, right, wrong, ends = self.judge.count(samples)
        print(f"{ms} ms: {due} samples with a user part, {whole} whole, {right} whole and right, {wrong} wrong; {ends}; "
              f"{result.counter('stack_copies_total')} {result.counter('stack_walks_total')}")
        self.assertEqual(wrong, 0)
        self.assertEqual(right, whole)
        self.assertGreater(result.counter("stack_walks_total", "walked"), 0)
        self.assertGreaterEqual(whole / due, share)

    def test_processes_of_20_ms_are_walked_whole(self):
        self.check_storm(20, 100, 0.98)

    def test_processes_of_100_ms_are_walked_whole(self):
        self.check_storm(100, 30, 0.985)

    def test_processes_whose_rows_never_come_end_after_what_is_sure(self):
        """Each runs a file of its own, which nobody can open any more when its turn comes."""
        directory = self.directory()

        def program(i):
            path = directory / f"victim-tree-{i}"
            shutil.copy(tree.VICTIM, path)
            return path

        result, samples = self.storm(3, 60, program, warm=False)
        ends = self.judge.count(samples)[4]
        print(ends, result.counter("stack_copies_total"), result.counter("stack_walks_total"))
        self.assertGreater(ends.get("pending", 0), 0)
        self.assertGreater(result.counter("stack_walks_total", "late"), 0)
        for sample in samples:
            self.assertFalse(self.judge.is_wrong(sample), "no guess behind what is sure")

    def test_stacks_that_lie_come_to_an_end(self):
        directory, paths = self.directory(), []
        for i, code in enumerate(LIES.values()):
            source, path = directory / f"liar-{i}.s", directory / f"victim-tree-l{i}"
            source.write_text(LIAR % code)
            self.run_command([tap.need_tool("gcc"), "-nostdlib", "-static", "-o", path, source], expect=0)
            paths.append(path)
        result, samples = self.storm(0, 80, lambda i: paths[i % len(paths)], warm=False)
        ends = self.judge.count(samples)[4]
        print(ends, result.counter("stack_copies_total"), result.counter("stack_walks_total"))
        self.assertGreater(len(samples), 20)
        self.assertEqual(ends.get("internal", 0), 0)


if __name__ == "__main__":
    tap.main()
