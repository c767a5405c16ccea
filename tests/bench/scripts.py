#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PHP, Ruby and Erlang: what the kernel half takes a sample of theirs, beside one of native code.

usage: tests/bench/scripts.py [--seconds S] [--rounds N] [--only LANGUAGE]… [--oep PROGRAM] [PART…]

    kernel  chains of 30 and of 120 functions, which differ in nothing else: a sample, and a frame more, by
            the kernel's statistics (kernel.bpf_stats_enabled), and the same of 30 native frames, which are
            walked by rows. Programs take turns, and the lowest of each counts
    programs    Composer beside Excimer, RuboCop beside StackProf, as test-long-scripts.py has them: how far
            shares of the 20 functions on most stacks are off those of that profiler, in the same process

--oep: the same of opentelemetry-ebpf-profiler, of the whole machine: of `kernel` in the same turns, of
`programs` in the same run. What it takes while the program of `kernel` stands still is not counted, so a busy
machine blurs this figure. Its samples are those that have a frame of the language: a `–` says that it has
named none.

Programs are this machine's; --program LANGUAGE=PATH is another one. Needs root.
"""
import importlib
import os
import pathlib
import shutil
import signal
import sys
import time

import bench
import oracle

oracle.enter()

import cpython
import node
import tap

DEPTHS = (30, 120)
HZ = 1999
PHP = """<?php
function burn($n) { $s = $n; for ($i = 0; $i < 20000; $i++) $s = ($s * 31 + $i) & 0xffff; return $s; }
function down($n) { return $n > 1 ? down($n - 1) + 1 : burn($n); }
echo "ready\\n";
while (true)
    down((int)$argv[1]);
"""
RUBY = """def burn(n)
  s = n
  i = 0
  while i < 20000
    s = (s * 31 + i) & 0xffff
    i += 1
  end
  s
end
def down(n)
  n > 1 ? down(n - 1) + 1 : burn(n)
end
depth = ARGV[0].to_i
$stdout.sync = true
puts 'ready'
while true
  down(depth)
end
"""
ERLANG = """-module(chain).
-export([main/1]).
burn(0, S) -> S;
burn(I, S) -> burn(I - 1, (S * 31 + I) band 65535).
down(1) -> burn(20000, 1) + 1;
down(N) -> down(N - 1) + 1.
forever(N) -> down(N), forever(N).
main([N]) -> io:format("ready~n"), forever(list_to_integer(N)).
"""


def script(b, name, text):
    path = b.directory() / name
    path.write_text(text)
    return path


def php(b, program, depth):
    return [program, script(b, "chain.php", PHP), depth]


def ruby(b, program, depth):
    return [program, script(b, "chain.rb", RUBY), depth]


def erlang(b, program, depth):
    """One scheduler: all others would look for work."""
    source = script(b, "chain.erl", ERLANG)
    bench.run([pathlib.Path(program).with_name("erlc"), "-o", source.parent, source], check=True)
    return [program, "-noshell", "-noinput", "+S", "1:1", "-pa", source.parent, "-run", "chain", "main", depth]


def native(_b, program, depth):
    return [program, "depth", depth]


# by the type of their frames: how it is started, program, what it says first
LANGUAGES = {"native": (native, tap.VICTIMS / "victim-omit", "^frames"), "php": (php, "php", "ready"),
             "ruby": (ruby, "ruby", "ready"), "beam": (erlang, "erl", "ready")}
NAMED_BY_OEP = ("php", "ruby")


def programs(options):
    """{language: program} of those that are here."""
    given = dict(word.split("=", 1) for word in options.program)
    found = {name: given.get(name) or shutil.which(program) for name, (_, program, _) in LANGUAGES.items()
             if not options.only or name == "native" or name in options.only}
    return {name: program for name, program in found.items() if program}


def count(samples, language):
    """(samples with a frame of that language, such frames in them)."""
    rows = [(s.value, sum(f.type == language for f in s.frames)) for s in samples]
    return sum(n for n, frames in rows if frames), sum(n * frames for n, frames in rows)


def spent(b, options, language, program, depth):
    """(ns a sample, frames a sample)."""
    make, _, ready = LANGUAGES[language]
    return node.spent(b, options, make(b, program, depth), ready, HZ,
                      lambda samples, _: count(samples, language))


def spent_by_oep(b, options, language, program, depth):
    """The same of OEP; None: it has named no frame."""
    make, _, ready = LANGUAGES[language]
    child = b.spawn(make(b, program, depth))
    child.wait_for(ready)
    tool = bench.Oep(b, options.oep, HZ)
    time.sleep(bench.SETTLE_S)

    def turn():
        begin, before = time.time(), tool.cgroup.bpf_ns
        time.sleep(options.seconds)
        return begin, time.time(), tool.cgroup.bpf_ns - before

    os.kill(child.pid, signal.SIGSTOP)
    _, _, others = turn()
    os.kill(child.pid, signal.SIGCONT)
    begin, end, ns = turn()
    tool.stop()
    n, frames = count((s for s in tool.all_samples() if begin <= s.time_ns / 1e9 < end and
                       s.resource.get("process.pid") == child.pid), language)
    return (max(0, ns - others) / n, frames / n) if n else None


def lowest_of(options):
    """{(tool, language, depth): (ns, frames)}, all in turns."""
    found = {}

    def keep(key, one):
        if one:
            found[key] = min(found.get(key, one), one)
            print("#", *key, f"{one[0]:.0f} ns, {one[1]:.1f} frames, load {os.getloadavg()[0]:.0f}", flush=True)

    here = programs(options)
    for _ in range(options.rounds):
        for (language, program), depth in ((one, depth) for depth in DEPTHS for one in here.items()):
            with bench.Bench() as b:
                keep(("spanprof", language, depth), spent(b, options, language, program, depth))
            if options.oep and language in NAMED_BY_OEP and depth == DEPTHS[0]:
                with bench.Bench() as b:
                    keep(("OEP", language, depth), spent_by_oep(b, options, language, program, depth))
    return found


def kernel(options):
    old = cpython.STATISTICS.read_text()
    cpython.STATISTICS.write_text("1")
    try:
        found = lowest_of(options)
    finally:
        cpython.STATISTICS.write_text(old)
    rows, base = [], found["spanprof", "native", DEPTHS[0]][0]
    for language in programs(options):
        (low, few), (high, many) = (found["spanprof", language, depth] for depth in DEPTHS)
        theirs = found.get(("OEP", language, DEPTHS[0]))
        rows.append([language, f"{few:.1f}", f"{low / 1000:.2f}", f"{low / base:.2f}",
                     f"{(high - low) / (many - few):.0f}", f"{theirs[0] / 1000:.1f}" if theirs else "–"])
    bench.table(f"Kernel half at {HZ} Hz, lowest of {options.rounds}",
                ["code", "frames", "µs a sample", "of a native one", "ns a frame more", "OEP, µs a sample"], rows)


def beside(options):
    """The class of test-long-scripts.py, which samples a program with OEP, too, and its rows of the table."""
    sys.path.append(str(tap.SOURCE_DIR / "tests/integration/host/runtime"))
    long_scripts = importlib.import_module("test-long-scripts")
    rows = []

    class Beside(long_scripts.Scripts):
        def recorded(self, *arguments, **more):
            b = bench.Bench()
            self.addCleanup(b.close)
            self.tool = bench.Oep(b, options.oep, HZ // 2) if options.oep else None
            time.sleep(bench.SETTLE_S if self.tool else 0)
            return super().recorded(*arguments, **more)

        def samples_of(self, *arguments, **more):
            samples = super().samples_of(*arguments, **more)
            self.peers = []
            if self.tool:
                self.tool.stop()
                self.peers = [s for s in self.tool.all_samples()
                              if s.resource.get("process.pid") == samples[0].resource["process.pid"]]
            return samples

        def of_peers(self, what, names):
            if what == "Composer":
                on, _, n = self.of_php(self.peers)
                return {name: on[name] for name in names}, n
            return self.of_ruby(self.peers, lambda f: long_scripts.plain(f.name) == "work")

        def compare(self, what, ours, n_ours, theirs, n_theirs):
            """Nothing is asserted here: the table has it."""
            for tool, (on, n) in {"spanprof": (ours, n_ours), "OEP": self.of_peers(what, ours)}.items():
                if n:
                    off = long_scripts.points_off(on, n, theirs, n_theirs)
                    name, (points, our, their) = next(iter(off.items()))
                    rows.append([what, tool, n, n_theirs, f"{points:.2f}", f"{name}: {our:.1f} %, {their:.1f} %"])
                elif tool == "spanprof" or self.tool:
                    rows.append([what, tool, n, n_theirs, "–", f"of {len(self.peers)} samples none in the work"])

    return Beside, rows


def programs_beside(options):
    case, rows = beside(options)
    tests = {"php": "test_composers_map_of_classes", "ruby": "test_rubocop"}
    for language, name in tests.items():
        if not options.only or language in options.only:
            case(name).debug()
    bench.table("Shares of the 20 functions on most stacks, off the language's own profiler",
                ["program", "of", "samples", "of that profiler", "points at most", "where"], rows)


def add_options(parser):
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement")
    parser.add_argument("--settle", type=float, default=3, help="seconds until rows and names are there")
    parser.add_argument("--only", action="append", default=[], choices=("php", "ruby", "beam"),
                        help="of these languages")
    parser.add_argument("--program", action="append", default=[], metavar="LANGUAGE=PATH",
                        help="another program than this machine's")
    parser.add_argument("--oep", help="program of opentelemetry-ebpf-profiler")


if __name__ == "__main__":
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, Linux {os.uname().release}")
    bench.main(__doc__, {"kernel": kernel, "programs": programs_beside}, add_options)
