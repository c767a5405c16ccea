#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks by unwind rows on the real kernel: programs that keep no frame pointers.

Truth: the victim knows its return addresses from the compiler; symbol tables name libc's frames; real
programs must end at their root. sample-dump loads the rows as the daemon does, without a daemon around it.
"""
import collections
import json
import os
import random
import signal
import sys
import time

import session
import tap
from dump import ENDS, Dump

COMPLETE, DEPTH, STALE = 0, 7, 9
GATE = 0.995  # of the user stacks of real programs
# Many short chains: one long one makes clang recurse thousands of frames deep when it emits the functions, at
# the end.
TEMPLATES = """
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <utility>
template <int K, int N> struct F {
        static int f(int x) {
                std::map<std::string, std::function<int(int)>> m;
                m["a"] = [x](int y) { return x * y + N + K; };
                return m["a"](N) + std::regex_match("aab", std::regex("a+b*")) + F<K, N - 1>::f(x);
        }
};
template <int K> struct F<K, 0> { static int f(int x) { return x; } };
template <int... K> int all(std::integer_sequence<int, K...>, int x) {
        int sum = 0, each[] = { F<K, 10>::f(x)... };
        for (int i : each)
                sum += i;
        return sum;
}
int main(int n, char **) { return all(std::make_integer_sequence<int, 80>(), n); }
"""
BUSY_JAVA = """
import java.util.*;
public class Busy {
    static long f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
    public static void main(String[] a) {
        System.out.println("ready");
        for (long s = 0;; s++) {
            Map<String, List<Integer>> m = new HashMap<>();
            for (int i = 0; i < 3000; i++)
                m.computeIfAbsent("k" + i % 997, k -> new ArrayList<>()).add(i);
            String t = String.join(",", new TreeMap<>(m).keySet());
            s += f(18) + t.split(",").length + m.values().stream().mapToInt(List::size).sum();
        }
    }
}
"""

# Programs whose rows lie about a stack that they have made for the purpose: (how it ends, frames, code up to
# the loop).
LIES = {
    # Each return address leads to the same place: the stack only rises, and the depth ends it.
    "circle": (
        "depth", 512,
        "lea spin+1(%rip), %rax; mov $4096, %ecx; 1: push %rax; dec %ecx; jnz 1b; .cfi_def_cfa %rsp, 8"),
    "down": ("bad_cfa", 1, ".cfi_def_cfa %rsp, -64"),
    "unaligned": ("bad_cfa", 1, ".cfi_def_cfa %rsp, 12"),
    "kernel": ("fault", 1, "movabs $0xffff888000000000, %rbp; .cfi_def_cfa %rbp, 16"),
    "beyond": ("fault", 1, "mov $-8, %rbp; .cfi_def_cfa %rbp, 0"),  # of all addresses
    # Signal frames, which alone may lead downwards, each its own caller: eight of them.
    "signals": ("bad_cfa", 10,
                "sub $1024, %rsp; and $-16, %rsp; lea sigreturn(%rip), %rax; mov %rax, 168(%rsp); "
                "mov %rsp, 160(%rsp); push %rax; .cfi_def_cfa %rsp, 8"),
    # A word that leads down to another stack, and from there to itself: it is followed eight times.
    "switches": ("bad_cfa", 9,
                 "sub $64, %rsp; lea -8(%rsp), %rax; mov %rax, 8(%rsp); .cfi_escape 0x0f, 5, 0x77, 8, 0x06, 0x23, 8; "
                 "call 1f; 1: add $8, %rsp"),
}
LIAR = """
        .text
        .globl main
        .skip 64, 0x90                  # no row: known by its code alone
sigreturn: mov $15, %%rax
        syscall
        .skip 64, 0x90
ready:  .ascii "ready\\n"
main:   .cfi_startproc
        mov $1, %%eax                   # write
        mov $1, %%edi
        lea ready(%%rip), %%rsi
        mov $6, %%edx
        syscall
        %s
spin:   nop
        jmp spin
        .cfi_endproc
        .section .note.GNU-stack,"",@progbits
"""

# Functions of assembly: their names, how they reach hot(), and what their rows say. Each has a caller in C.
# OCaml 5's caml_start_program, caml_c_call and caml_runstack; OpenSSL's AES by rax and r11, with its callee.
ASSEMBLY = """
        .text
        .globl start, c_call, runstack, by_rax, by_r11, lost_r11
start:  .cfi_startproc                  # rdi: function, rsi: end of a stack on the heap
        mov %rsp, system_sp(%rip)
        mov %rsp, -8(%rsi)
        lea -16(%rsi), %rsp
        .cfi_escape 0x0f, 5, 0x77, 8, 0x06, 0x23, 8
        call *%rdi
        mov 8(%rsp), %rsp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
c_call: .cfi_startproc
        .cfi_signal_frame
        mov %rsp, %r10
        mov system_sp(%rip), %rsp
        sub $24, %rsp
        mov %r10, 8(%rsp)
        .cfi_escape 0x0f, 5, 0x77, 8, 0x06, 0x23, 8
        call *%rdi
        mov 8(%rsp), %rsp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
runstack: .cfi_startproc
        .cfi_signal_frame
        mov %rsp, parent(%rip)
        lea parent(%rip), %r10
        lea -64(%rsi), %rsp
        mov %r10, 56(%rsp)
        .cfi_escape 0x0f, 8, 0x77, 56, 0x06, 0x23, 0, 0x06, 0x23, 8
        call *%rdi
        mov parent(%rip), %rsp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
by_rax: .cfi_startproc
        mov %rsp, %rax
        .cfi_def_cfa_register %rax
        sub $88, %rsp
        and $-64, %rsp
        call spin
        mov %rax, %rsp
        .cfi_def_cfa_register %rsp
        ret
        .cfi_endproc
by_r11: .cfi_startproc
        lea 8(%rsp), %r11
        .cfi_def_cfa %r11, 0
        sub $168, %rsp
        and $-128, %rsp
        call nested
        lea -8(%r11), %rsp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
lost_r11: .cfi_startproc                # its callee uses r11, against its row
        mov %rsp, %r11
        .cfi_def_cfa_register %r11
        push %r11
        call taken
        pop %rsp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
nested: .cfi_startproc
        push %rdx
        .cfi_adjust_cfa_offset 8
        call spin
        pop %rdx
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
taken:  .cfi_startproc
        lea 8(%rsp), %r11               # on the stack, and above
        call spin
        ret
        .cfi_endproc
spin:   .cfi_startproc
        mov $2000000, %ecx
1:      dec %ecx
        jnz 1b
        ret
        .cfi_endproc
        .comm system_sp, 8
        .comm parent, 8
        .section .note.GNU-stack,"",@progbits
"""
AROUND_ASSEMBLY = """
#include <stdlib.h>
#include <unistd.h>
#define SELF __attribute__((noinline)) void
void start(void (*)(void), char *), c_call(void (*)(void)), runstack(void (*)(void), char *);
void by_rax(void), by_r11(void), lost_r11(void);
static volatile long k;
SELF hot(void) { for (long i = 0; i < 2000000; i++) k += i; }
SELF mid(void) { c_call(hot); k++; }
SELF top(void) { mid(); k++; }
SELF effect(void) { hot(); k++; }
int main(void) {
        char *stack = aligned_alloc(64, 65536);
        for (write(1, "ready\\n", 6);;) {
                start(top, stack + 65536);
                runstack(effect, stack + 65536);
                by_rax();
                by_r11();
                lost_r11();
        }
}
"""
CHAINS = [["hot", "c_call", "mid", "top", "start", "main"], ["hot", "effect", "runstack", "main"],
          ["spin", "by_rax", "main"], ["spin", "nested", "by_r11", "main"]]

# Sets return probes at offsets of a file, in all processes, as bpftrace and tracers of TLS do.
RETURN_PROBES = """
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
        struct perf_event_attr a = { .size = sizeof(a), .config = 1, .uprobe_path = (unsigned long)argv[1] };
        FILE *type = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
        if (!type || fscanf(type, "%u", &a.type) != 1)
                return puts("none");
        for (int i = 2; i < argc; i++) {
                a.probe_offset = strtoul(argv[i], NULL, 0);
                for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++)
                        if (syscall(SYS_perf_event_open, &a, -1, cpu, -1, 0) < 0)
                                return puts("none");
        }
        puts("set");
        fflush(stdout);
        pause();
}
"""
PROBED = """
#include <pthread.h>
#include <unistd.h>
#define SELF __attribute__((noinline)) int
SELF leaf(int x) { for (volatile int i = 0; i < 1000000; i++); return x; }
SELF mid(int x) { if (x < 0) pause(); return leaf(x) + 1; }
SELF self(int n) { return n ? self(n - 1) + 1 : mid(n) + 1; }
SELF top(int x) { return self(2) + x; }
void *run(void *x) { for (;;) top(1); }
int main(void) {
        pthread_t thread;
        write(1, "ready\\n", 6);
        pthread_create(&thread, NULL, run, NULL);
        for (;;) top(2);
}
"""


class Maps:
    """Names of what is mapped where, from /proc and nm."""

    def __init__(self, pid):
        self.mappings = []
        with open(f"/proc/{pid}/maps") as file:
            for line in file:
                fields = line.split()
                if "x" in fields[1]:
                    start, end = (int(x, 16) for x in fields[0].split("-"))
                    self.mappings.append((start, end, int(fields[2],
                                                          16), fields[5] if len(fields) > 5 else ""))

    def find(self, address):
        for start, end, offset, path in self.mappings:
            if start <= address < end:
                return os.path.basename(path) or "anonymous", address - start + offset
        return None, address

    def where(self, address):
        name, offset = self.find(address)
        return f"{name}+{offset:x}"


class Stacks(tap.TestCase):
    def setUp(self):
        tap.need_root()
        tap.need_btf()

    def victim(self, *args):
        """The victim, its return addresses (leaf first), and the pcs where a signal came in."""
        child = self.spawn([tap.VICTIMS / "victim-omit", *args])
        returns = list(map(int, child.wait_for(r"^frames (.*)\n").group(1).split()))
        interrupted = child.wait_for(r"^interrupted (.*)\n") if args[0] in ("signal", "altstack") else None
        return child, returns, range(*map(int, interrupted.group(1).split())) if interrupted else None

    def sample(self, pid, n=50, frequency=499, **options):
        dump = Dump(self, frequency=frequency, **options)
        dump.rows(pid)
        dump.row(pid)
        samples = dump.wait_samples(n, pid)
        dump.stop()
        return samples

    def own(self, addresses, maps):
        """Those that return into the victim itself."""
        return [x for x in addresses if maps.find(x - 1)[0] == "victim-omit"]

    def check(self, mode, n_frames, *args):
        """Every stack: complete, the victim's frames exactly, and as many as there must be with those of libc."""
        child, returns, interrupted = self.victim(mode, *args)
        maps, samples = Maps(child.pid), self.sample(child.pid)
        returns = self.own(returns, maps)
        for sample in samples:
            text = [maps.where(x) for x in sample["user"]]
            self.assertEqual(sample["end"], COMPLETE, text)
            own = self.own(sample["user"][1:], maps)
            if interrupted:
                pc = sample["user"][sample["interrupted"]]
                self.assertIn(pc, interrupted, text)
                own.remove(pc)
            else:
                self.assertEqual(sample["interrupted"], 0)
            # In this order, all of them; beside them only _start, and who has called into a library.
            rest = iter(own)
            self.assertEqual([x for x in returns if x in rest], returns, text)
            self.assertLessEqual(len(own) - len(returns), 2, text)
            self.assertIn(len(sample["user"]), n_frames, text)

    def test_of_a_program_without_frame_pointers(self):
        for depth in (6, 30, 100, 511, 512):
            with self.subTest(depth=depth):
                self.check("depth", [depth], str(depth))

    def test_are_cut_at_the_depth(self):
        child, returns, _ = self.victim("depth", "1100")
        for limit in (1, 7, 512, 1024):
            with self.subTest(limit=limit):
                for sample in self.sample(child.pid, depth=limit, n=10):
                    self.assertEqual((sample["end"], len(sample["user"])), (DEPTH, limit))
                    self.assertEqual(sample["user"][1:], returns[:limit - 1])

    def test_through_qsort(self):
        self.check("qsort", range(8, 24))

    def test_through_a_signal_handler(self):
        self.check("signal", [9])
        self.check("altstack", [9])

    def test_through_alloca_alignment_and_saved_registers(self):
        for mode in ("alloca", "align", "saved"):
            with self.subTest(mode=mode):
                self.check(mode, [6])

    def test_through_a_call_that_does_not_return(self):
        self.check("noreturn", [7])

    def compiled(self, name, text):
        path = self.directory() / name
        path.with_suffix(".c").write_text(text)
        # No tail calls: each function stands on the stack.
        self.run_command(["gcc", "-O1", "-fno-optimize-sibling-calls", "-fno-pie", "-no-pie", "-pthread", "-o", path,
                          path.with_suffix(".c")], expect=0)
        nm = self.run_command(["nm", "-n", path], expect=0).stdout
        return path, [(int(x.split()[0], 16), x.split()[2]) for x in nm.splitlines() if x.split()[1] in "tT"]

    def test_through_return_probes_of_others(self):
        """Two on one function, nested ones, in two threads: as without them."""
        probe, _ = self.compiled("probe", RETURN_PROBES)
        path, symbols = self.compiled("probed", PROBED)
        at = {name: start for start, name in symbols}
        offsets = [hex(at[x] - 0x400000) for x in ("mid", "mid", "self", "top")]
        setter = self.spawn([probe, path, *offsets])
        if setter.wait_for(r"^(set|none)\n").group(1) == "none":
            tap.skip("kernel: no return probes")
        child = self.spawn([path])
        child.wait_for("ready")
        maps, chains = Maps(child.pid), collections.Counter()
        with open(f"/proc/{child.pid}/maps") as file:
            self.assertIn("[uprobes]", file.read())
        for sample in self.sample(child.pid, n=300, frequency=999):
            pcs = [x - (i > 0) for i, x in enumerate(sample["user"])]
            chains[ENDS[sample["end"]], *([name for start, name in symbols if start <= x][-1] for x in pcs
                                          if maps.find(x)[0] == path.name)] += 1
        print(f"# {chains.most_common(6)}")
        own = ["leaf", "mid", "self", "self", "self", "top"]
        for root in (["run"], ["main", "_start"]):
            self.assertGreaterEqual(chains["complete", *own, *root], 50, chains)
        # A tick in between a probe and the work is rare.
        whole = sum(n for x, n in chains.items() if x[0] == "complete")
        self.assertGreaterEqual(whole / chains.total(), 0.98, chains)

    def test_of_threads_that_wait_through_return_probes_of_others(self):
        """The daemon walks these: the kernel's list of calls comes with the thread."""
        probe, _ = self.compiled("probe", RETURN_PROBES)
        path, symbols = self.compiled("probed", PROBED.replace("top(2)", "wait_in(4)")
                                      .replace("void *run", "SELF wait_in(int n) "
                                               "{ return (n ? wait_in(n - 1) : mid(-1)) + 1; }\nvoid *run"))
        at = {name: start for start, name in symbols}
        setter = self.spawn([probe, path, *(hex(at[x] - 0x400000) for x in ("mid", "mid", "wait_in"))])
        if setter.wait_for(r"^(set|none)\n").group(1) == "none":
            tap.skip("kernel: no return probes")
        child = self.spawn([path])
        child.wait_for("ready")
        done = self.run_command([tap.SPANPROF, "stacks", child.pid, "--json"], expect=0)
        chains = [[frame["function"] for frame in thread["frames"]] for thread in json.loads(done.stdout)["threads"]]
        self.assertIn(["mid", *5 * ["wait_in"], "main", "_start"],
                      [[name for name in chain if name in at] for chain in chains], chains)

    def assembled(self):
        """A program of ASSEMBLY, and where each of its functions begins."""
        directory = self.directory()
        (directory / "a.s").write_text(ASSEMBLY)
        (directory / "b.c").write_text(AROUND_ASSEMBLY)
        self.run_command(["gcc", "-O2", "-no-pie", "-o", directory / "a", directory / "a.s", directory / "b.c"],
                         expect=0)
        nm = self.run_command(["nm", "-n", directory / "a"], expect=0).stdout
        return directory / "a", [(int(x.split()[0], 16), x.split()[2]) for x in nm.splitlines()
                                 if x.split()[1] in "tT"]

    def test_by_registers_that_callees_keep_and_stacks_that_memory_leads_to(self):
        path, symbols = self.assembled()
        child = self.spawn([path])
        child.wait_for("ready")
        maps, chains = Maps(child.pid), collections.Counter()
        for sample in self.sample(child.pid, n=400, frequency=1999):
            if sample["end"] == 1:
                continue
            pcs = [x - (i > 0) for i, x in enumerate(sample["user"])]
            names = [[name for start, name in symbols if start <= x][-1] for x in pcs
                     if maps.find(x)[0] == path.name]
            chains[ENDS[sample["end"]], *names] += 1
        print(f"# {chains.most_common()}")
        for chain in CHAINS:
            self.assertGreaterEqual(chains["complete", *chain, "_start"], 20, chains)
        # A register that a callee has taken leads nowhere: the stack says so, and no caller is made up.
        self.assertGreaterEqual(chains["unsupported", "spin", "taken", "lost_r11"], 20, chains)
        bad = chains.total() - sum(n for x, n in chains.items() if x[0] == "complete" and list(x[1:-1]) in CHAINS)
        self.assertLessEqual(bad - chains["unsupported", "spin", "taken", "lost_r11"], 8, chains)

    def test_into_libraries_and_the_kernel(self):
        self.check("plt", range(5, 9))
        self.check("syscall", range(5, 8))

    def test_while_signals_come_and_go(self):
        child, returns, _ = self.victim("sigreturn")
        samples = self.sample(child.pid, n=300, frequency=1999)
        ends = collections.Counter(ENDS[x["end"]] for x in samples)
        # The kernel writes the handler's registers one after the other; a tick in between sees half of them.
        self.assertGreaterEqual(ends["complete"] / len(samples), 0.99, ends)

    def test_of_a_thread_end_at_clone(self):
        child, returns, _ = self.victim("thread")
        maps = Maps(child.pid)
        for sample in self.sample(child.pid):
            self.assertEqual(sample["end"], COMPLETE)
            self.assertEqual(len(sample["user"]), 4, [maps.where(x) for x in sample["user"]])
            self.assertEqual(maps.find(sample["user"][-1])[0], "libc.so.6")

    def test_without_rows_end_after_the_pc(self):
        child, returns, _ = self.victim("depth", "30")
        dump = Dump(self, frequency=499)
        dump.row(child.pid)
        for sample in dump.wait_samples(20, child.pid):
            self.assertEqual((len(sample["user"]), ENDS[sample["end"]]), (1, "pending"))
        dump.rows(child.pid)
        since = dump.samples()[-1]["time"]
        self.assertEqual(dump.wait_samples(20, child.pid, since + 1)[-1]["end"], COMPLETE)
        self.assertEqual(dump.command(f"norows {child.pid}"), 0)
        since = dump.samples()[-1]["time"]
        last = dump.wait_samples(20, child.pid, since + 1)[-1]
        self.assertEqual((len(last["user"]), ENDS[last["end"]]), (1, "pending"))
        dump.stop()

    def test_that_lie_come_to_an_end(self):
        for name, (end, n_frames, code) in LIES.items():
            with self.subTest(name):
                directory = self.directory()
                (directory / "liar.s").write_text(LIAR % code)
                self.run_command([tap.need_tool("gcc"), "-o", directory / "liar", directory / "liar.s"],
                                 expect=0)
                child = self.spawn([directory / "liar"])
                child.wait_for("ready")
                for sample in self.sample(child.pid, n=20):
                    self.assertEqual((ENDS[sample["end"]], len(sample["user"])), (end, n_frames))
                child.kill()

    def children(self, dump, server, since):
        """Ends of samples of its children from now on: nothing but the kernel half knows of these."""
        samples = dump.wait(lambda: [x for x in dump.samples(since=since)
                                     if x["tgid"] != server.pid and x["comm"] == "victim-brief"][60:],
                            "samples of children")
        return collections.Counter(ENDS[x["end"]] for x in samples)

    def test_of_a_forked_child_are_walked_by_its_parents_rows(self):
        server = self.spawn([tap.VICTIMS / "victim-brief", "serve", 100000, 20])
        server.wait_for(r"^child \d+")
        dump = Dump(self, frequency=499, default=2)
        dump.row(server.pid)
        dump.wait_samples(1)
        ends = self.children(dump, server, dump.samples()[-1]["time"] + 1)
        self.assertLess(ends["complete"] / ends.total(), 0.2, ends)
        dump.rows(server.pid)
        ends = self.children(dump, server, dump.samples()[-1]["time"] + 100_000_000)
        self.assertGreater(ends["complete"] / ends.total(), 0.9, ends)
        self.assertEqual(dump.command(f"norows {server.pid}"), 0)
        ends = self.children(dump, server, dump.samples()[-1]["time"] + 100_000_000)
        self.assertLess(ends["complete"] / ends.total(), 0.2, f"its parent has no nodes any more: {ends}")
        dump.stop()

    def test_are_never_those_of_another_process(self):
        """Nodes are replaced all the time, and their memory changes hands between two processes."""
        deep, returns, _ = self.victim("depth", "300")
        other, other_returns, _ = self.victim("saved")
        dump = Dump(self, frequency=3999, ring=8 << 20)
        for victim in (deep, other):
            dump.rows(victim.pid)
            dump.row(victim.pid)
        self.assertEqual(dump.command(f"churn {deep.pid} {other.pid} 400000"), 0)
        dump.stop()
        ends = collections.Counter()
        for sample in dump.samples():
            ends[ENDS[sample["end"]]] += 1
            if sample["end"] == STALE:
                self.assertEqual(len(sample["user"]), 1, "of a walk that met two sets only the pc is sure")
                continue
            expected = returns if sample["tgid"] == deep.pid else other_returns
            self.assertEqual(sample["end"], COMPLETE, ends)
            self.assertEqual(sample["user"][1:1 + len(expected)], expected)
        self.assertGreater(ends["complete"], 100, ends)
        self.assertEqual(set(ends) - {"complete", "stale"}, set(), ends)

    def code_victim(self, dump):
        """A victim that makes code, sampled with the rows that it has by now; and what makes it make some."""
        victim, made = self.spawn([tap.VICTIMS / "victim-dlopen", "code"]), []
        victim.wait_for("^pid")
        dump.rows(victim.pid)
        dump.row(victim.pid)
        dump.wait_samples(5, victim.pid)

        def make():
            made.append(1)
            victim.process.send_signal(signal.SIGUSR1)
            victim.wait_for(f"(?m)^made {len(made)}$")

        return victim, make

    def wait_later_samples(self, dump, pid, n=20, end=None):
        since = time.monotonic_ns()
        dump.wait(lambda: len([x for x in dump.samples(pid, since) if end in (None, ENDS[x["end"]])]) >= n,
                  f"samples, {end}")
        return dump.samples(pid, since)

    def calls(self, dump):
        dump.command("counters")
        return dump.lines("counters")[-1]["counters"]["CALLS"]

    def test_call_the_daemon_when_they_leave_what_is_known(self):
        dump = Dump(self, frequency=499)
        victim, make = self.code_victim(dump)
        dump.command("listen")
        self.wait_later_samples(dump, victim.pid)
        self.assertEqual(self.calls(dump), 0, "all its memory is known")
        make()
        dump.wait(lambda: self.calls(dump), "a call")
        self.wait_later_samples(dump, victim.pid, end="no_mapping")
        self.assertEqual(self.calls(dump), 1, "nobody listens any more")
        dump.rows(victim.pid)
        self.wait_later_samples(dump, victim.pid, n=1)
        dump.command("listen")
        ends = {ENDS[x["end"]] for x in self.wait_later_samples(dump, victim.pid)}
        self.assertNotIn("no_mapping", ends)
        self.assertEqual(self.calls(dump), 1, "memory that is known and has no rows")
        make()
        dump.wait(lambda: self.calls(dump) == 2, "the call of another set of nodes")
        dump.stop()

    def test_call_the_daemon_once_a_second_at_most(self):
        """As long as the nodes stay what they are, and however often it listens. The sampler's seconds have 2^30 ns."""
        dump = Dump(self, frequency=499)
        victim, make = self.code_victim(dump)
        begin = time.monotonic_ns() >> 30
        make()

        def calls():
            dump.command("listen")
            return self.calls(dump)

        dump.wait(lambda: calls() >= 3, "three calls")
        self.wait_later_samples(dump, victim.pid, n=100, end="no_mapping")
        n = calls()
        self.assertLessEqual(n, (time.monotonic_ns() >> 30) - begin + 1)
        dump.stop()

    def check_program(self, argv, n=400, settle=None, gate=GATE, recurses=False):
        """@recurses: it is known to go deeper than the default depth now and then; a stack that is cut there is in order."""
        child = self.spawn(argv)
        tap.wait_until(lambda: os.path.exists(f"/proc/{child.pid}/maps"), "it runs")
        if settle:
            child.wait_for(settle)
        else:
            # it has mapped its code by then, however busy the machine is
            session.wait_cpu([child.pid], 0.5)
        samples = self.sample(child.pid, n=n, frequency=1999)
        maps = Maps(child.pid)
        bad = collections.Counter(
            (ENDS[x["end"]], maps.where(x["user"][-1])) for x in samples
            if x["end"] > 1 and not (recurses and x["end"] == DEPTH and len(x["user"]) == 512))
        user = [x for x in samples if x["end"] != 1]
        self.assertGreaterEqual(1 - sum(bad.values()) / len(user), gate, f"{argv[0]}: {bad.most_common(5)}")
        print(f"# {os.path.basename(argv[0])}: {len(user)} stacks, incomplete {dict(bad)}")
        child.kill()

    def test_of_python_are_complete(self):
        self.check_program([os.path.realpath(sys.executable), "-c", "while 1: sorted(str(i) for i in range(1000))"])

    def test_of_perl_are_complete(self):
        self.check_program(
            [tap.need_tool("perl"), "-e", "while (1) { $x = join q(,), sort map { rand } 1..500 }"])

    def test_of_openssl_are_complete(self):
        # Assembler whose CFA hangs on registers that callees keep, or lies in an array on the stack.
        for what in ("-evp sha256", "-evp aes-128-gcm", "-evp chacha20-poly1305", "rsa2048",
                     # a block at a time it would never come to the loops that call others
                     "-bytes 16384 -evp aes-256-gcm", "-bytes 16384 -evp aes-128-xts"):
            with self.subTest(what=what):
                self.check_program([tap.need_tool("openssl"), "speed", "-seconds", "60", *what.split()])

    def test_of_git_are_complete(self):
        directory = self.directory()
        for name in "ab":
            source = random.Random(name)
            (directory / name).write_text("".join(f"{source.randrange(1000)}\n" for _ in range(60000)))
        self.check_program([
            tap.need_tool("git"), "diff", "--no-index", "--minimal", "--stat", directory / "a",
            directory / "b"
        ])

    def compiled_file(self):
        path = self.directory() / "a.cc"
        path.write_text(TEMPLATES)
        return path

    def test_of_gcc_are_complete(self):
        name = self.run_command([tap.need_tool("g++"), "-print-prog-name=cc1plus"], expect=0).stdout.strip()
        machine = self.run_command(["g++", "-print-multiarch"], expect=0).stdout.strip()
        self.check_program([name, "-quiet", "-O2", "-imultiarch", machine, "-o", "/dev/null",
                            # its garbage collector marks by recursion
                            self.compiled_file()], recurses=True)

    def test_of_clang_are_complete(self):
        self.check_program([tap.need_tool("clang++"), "-O2", "-c", "-o", "/dev/null",
                            self.compiled_file()])

    def test_of_sqlite_are_complete(self):
        self.check_program([tap.need_tool("sqlite3"), ":memory:",
                            "with recursive c(x) as (select 1 union all select x+1 from c limit 900000000) "
                            "select sum(x%7) from c"])

    def test_of_a_throwing_program_are_complete(self):
        if not (tap.VICTIMS / "victim-throw").exists():
            tap.skip("tool: no C++ compiler")
        # 0.5 % stand in libgcc where it has overwritten its own return address, but not yet put the landing
        # pad's
        # address in its place (docs/UNWINDING.md): no row can say so.
        self.check_program([tap.VICTIMS / "victim-throw"], settle="ready", n=1000, gate=0.98)

    def test_of_a_static_program_are_complete(self):
        directory = self.directory()
        source = tap.SOURCE_DIR / "tests/victims/native/victim-omit.c"
        self.run_command([
            tap.need_tool("gcc"), "-O2", "-fomit-frame-pointer", "-static", "-D_GNU_SOURCE", "-o",
            directory / "victim", source
        ], expect=0)
        self.check_program([directory / "victim", "qsort"], settle="frames")

    def test_of_node_are_complete(self):
        self.check_program(
            [tap.need_tool("node"), "-e", "function f(n){return n<2?n:f(n-1)+f(n-2)} while(1) f(25)"])

    def test_of_a_jvm_with_frame_pointers_are_complete(self):
        directory = self.directory()
        (directory / "Busy.java").write_text(BUSY_JAVA)
        # All threads: interpreted and compiled code, compilers, the collector, which is one: several wait for
        # each other in assembly without call frame information (SpinPause). The code heap has its final size
        # from the start, as this harness is not told of new mappings; the daemon is.
        self.check_program([
            tap.need_tool("java"), "-XX:+UseSerialGC", "-XX:+PreserveFramePointer", "-XX:-SegmentedCodeCache",
            "-XX:InitialCodeCacheSize=64m", "-XX:ReservedCodeCacheSize=64m", directory / "Busy.java"
        ], settle="ready", n=1000)


if __name__ == "__main__":
    tap.main()
