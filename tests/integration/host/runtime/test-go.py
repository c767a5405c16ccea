#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of Go that were linked as for production, without symbols (-s -w): each function has the name that
the symbol table of the same program with symbols has for its address, however it was linked; and in what is
recorded and sent."""
import oracle

oracle.enter()

import bisect
import collections
import gzip
import json
import os
import re
import shutil
import signal
import struct
import subprocess

import golang
import session
import tap
import wire

# The work is all in three functions, for ever.
SOURCE = """package main

type tree struct {
        left, right *tree
        value       int
}

//go:noinline
func (t *tree) sum() int {
        if t == nil {
                return 0
        }
        return t.value + t.left.sum() + t.right.sum()
}

func grow(n int) *tree {
        if n == 0 {
                return nil
        }
        return &tree{grow(n - 1), grow(n - 1), n}
}

//go:noinline
func mix[T int | uint64](n, x T) T {
        for i := T(0); i < n; i++ {
                x = x*31 + i
        }
        return x
}

//go:noinline
func call(f func(int)) { f(20000) }

func main() {
        total, t := 0, grow(12)
        println("ready")
        for {
                total += t.sum() + mix(20000, total)
                call(func(n int) {
                        for i := 0; i < n; i++ {
                                total ^= total*7 + i
                        }
                })
        }
}
"""
HOT = {"main.(*tree).sum", "main.mix[go.shape.int]", "main.main.func1"}
HZ = ("--frequency", "499")
# Options of Go's linker, and of its compiler.
FORMS = {"plain": ("", []), "pie": ("", ["-buildmode=pie"]), "external": ("-linkmode=external", []),
         "external-pie": ("-linkmode=external", ["-buildmode=pie"]),
         "gold-pie": ("-linkmode=external -extldflags=-fuse-ld=gold", ["-buildmode=pie"])}
GO = None


def build(directory, form, name, *linker):
    """A program, linked with these options too."""
    flags, options = FORMS[form]
    (directory / "hot.go").write_text(SOURCE)
    return GO.build(directory / "hot.go", directory / name, *options,
                    "-ldflags=" + " ".join([flags, *linker]))


def sections(path):
    """{name: (address, offset, size)}"""
    out = subprocess.check_output(["readelf", "-SW", path], text=True)
    return {
        m[0]: tuple(int(n, 16) for n in m[1:]) for m in re.findall(r"\] (\S+) +\S+ +(\w+) (\w+) (\w+)", out)
    }


def payload(path, build_id, addresses):
    """A profile of which each sample is one frame of this program."""
    start = 1_700_000_000_000_000_000
    profile = {
        "sampleType": {"typeStrindex": 1,
                       "unitStrindex": 2}, "timeUnixNano": str(start), "durationNano": "1000000000",
        "periodType": {"typeStrindex": 3, "unitStrindex": 4}, "period": "1000000", "profileId": "11" * 16,
        "samples": [{"stackIndex": i + 1, "timestampsUnixNano": [str(start + i)]}
                    for i in range(len(addresses))]
    }
    return {
        "resourceProfiles": [{
            "resource": {"attributes": []}, "scopeProfiles": [{"scope": {}, "profiles": [profile]}]
        }], "dictionary": {
            "stringTable": [
                "", "samples", "count", "cpu", "nanoseconds", "process.executable.build_id.go",
                str(path), "profile.frame.type"
            ], "functionTable": [{}], "linkTable": [{}],
            "attributeTable": [{}, {"keyStrindex": 5, "value": {"stringValue": build_id}},
                               {"keyStrindex": 7, "value": {"stringValue": "native"}}], "mappingTable": [{}, {
                                   "memoryStart": "0", "memoryLimit": str(1 << 40), "filenameStrindex": 6,
                                   "attributeIndices": [1]
                               }],
            "locationTable": [{}] + [{"mappingIndex": 1, "address": str(a), "attributeIndices": [2]}
                                     for a in addresses],
            "stackTable": [{}] + [{"locationIndices": [i + 1]} for i in range(len(addresses))]
        }
    }


def damage(path, to):
    """Where the names end is beyond the file; nothing that the program itself looks at."""
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, sections(path)[".gopclntab"][1] + 40, 1 << 62)
    to.write_bytes(data)
    to.chmod(0o755)
    return to


class Names(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        tap.need_tool("gcc")
        global GO
        GO = golang.Go()

    def setUp(self):
        self.dir = self.directory()

    def names_of(self, path, addresses, build_id=None):
        """{address: name}, as `spanprof convert` has them."""
        (self.dir / "in.json").write_text(json.dumps(payload(path, build_id or GO.build_id(path), addresses)))
        self.spanprof("convert", "-o", self.dir / "out.pb.gz", self.dir / "in.json")
        profile = wire.parse(gzip.decompress((self.dir / "out.pb.gz").read_bytes()))
        functions = {f[1][0]: profile[6][f[2][0]].decode() for f in map(wire.parse, profile[5])}
        locations = [wire.parse(x) for x in profile[4]]
        return {x[3][0]: functions[wire.parse(x[4][0])[1][0]] for x in locations if x[4]}

    def check(self, names, bare, build_id=None):
        """Each function of Go in @names has its name in @bare; nothing has another one. Return: what must have none in it."""
        functions = GO.functions(names)
        symbols = {name: a for a, known in functions.items() for name in known}
        found = self.names_of(bare, sorted(functions), build_id)
        self.assertEqual(
            {hex(a): (functions[a], n) for a, n in found.items() if golang.plain(n) not in functions[a]}, {})
        self.assertEqual(
            {
                hex(a): n for a, n in functions.items()
                if a not in found and symbols["runtime.text"] <= a < symbols["runtime.etext"]
            }, {})
        self.assertLessEqual(HOT, set(found.values()))

    def test_every_function_however_it_is_linked(self):
        for form in FORMS:
            with self.subTest(form=form):
                if "gold" in form and not shutil.which("gold"):
                    continue            # the others remain
                bare = build(self.dir, form, "bare", "-s", "-w")
                self.assertNotIn(".symtab", sections(bare), "else this test tests nothing")
                self.check(build(self.dir, form, "names"), bare)

    def test_without_sections(self):
        """What is left of them when sstrip has been at work, or where a linker has put the table in with other data."""
        for form in ("plain", "external-pie"):
            names, bare = build(self.dir, form, "names"), build(self.dir, form, "bare", "-s", "-w")
            build_id, data = GO.build_id(bare), bytearray(bare.read_bytes())
            data[40:48], data[60:64] = bytes(8), bytes(4)       # e_shoff; e_shnum, e_shstrndx
            bare.write_bytes(data)
            self.assertEqual(sections(bare), {})
            with self.subTest(form=form):
                self.check(names, bare, build_id)

    def test_with_a_few_symbols_left(self):
        names = build(self.dir, "plain", "names")
        few = self.dir / "few"
        subprocess.run(["strip", "--keep-symbol=main.main", "-o", few, names], check=True)
        self.assertIn(".symtab", sections(few))
        self.check(names, few)

    def test_a_damaged_table_names_nothing(self):
        bare = build(self.dir, "plain", "bare", "-s", "-w")
        addresses = sorted(GO.functions(build(self.dir, "plain", "names")))
        self.assertTrue(self.names_of(bare, addresses))
        self.assertEqual(self.names_of(damage(bare, self.dir / "damaged"), addresses), {})


# Each leaf prints the calls that have led to it once, as Go's own unwinder knows them; then it works.
CHAINS = """package main

import (
        "fmt"
        "runtime"
        "sort"
        "strings"
)

type shape interface{ area(n int) int }
type square struct{ side int }

var told [6]bool
var sink int

func tell(which int) {
        if told[which] {
                return
        }
        told[which] = true
        pcs := make([]uintptr, 64)
        frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
        var out []string
        for {
                frame, more := frames.Next()
                out = append(out, fmt.Sprintf("%s:%d", frame.Function, frame.Line))
                if !more {
                        break
                }
        }
        fmt.Println("chain", strings.Join(out, ";"))
}

//go:noinline
func leaf0(n int) (s int) { tell(0); for i := 0; i < n; i++ { s += i * s }; return }
func inner(n int) int { return leaf0(n) + 1 }
func middle(n int) int { return inner(n) * 3 }
func outer(n int) int { return middle(n) ^ 5 }

//go:noinline
func leaf1(n int) (s int) { tell(1); for i := 0; i < n; i++ { s ^= i + s }; return }
func (s square) area(n int) int { return leaf1(n) * s.side }

//go:noinline
func leaf2(n int) (s int) { tell(2); for i := 0; i < n; i++ { s += i ^ s }; return }
func descend(n int) int { if n == 0 { return leaf2(30000) }; return descend(n-1) + 1 }

//go:noinline
func leaf3(n int) (s int) { tell(3); for i := 0; i < n; i++ { s += s>>1 + i }; return }

// Its first instruction faults: in front of that lies another function.
//go:noinline
func load(p *int) int { return *p }

//go:noinline
func guarded() (r int) {
        defer func() { recover(); r = leaf3(30000) }()
        return load(nil)
}

//go:noinline
func leaf4(n int) int { tell(4); m := map[int]string{}; for i := 0; i < n; i++ { m[i] = fmt.Sprint(i) }; return len(m) }
func build() int { return leaf4(200) }

func leaf5(a []int) int { for i := range a { a[i] = (i * 7919) % 2003 }; sort.Ints(a); return a[5] }

func main() {
        var s shape = square{3}
        numbers, done := make([]int, 500), make(chan int)
        for {
                sink += outer(30000)
                sink += s.area(30000)
                sink += descend(5)
                sink += guarded()
                sink += build()
                sink += leaf5(numbers)
                go func() { done <- descend(9) }()
                sink += <-done
                if told[3] && told[4] && sink != 1 {
                        sink = 1
                        println("ready")
                }
        }
}
"""
ROOTS = {"runtime.goexit", "runtime.mcall", "runtime.mstart", "runtime.rt0_go", "runtime.morestack"}
# Between a panic and deferred functions in older releases. Go's unwinder takes them for wrappers, and hides
# them.
HIDDEN = {"runtime.deferCallSave", "runtime.runOpenDeferFrame"}
# A function that is too large to be inlined, but for a hot call.
HOT_CALL = """package main

func mix(a []int, n int) int {
        s := n
        for i := range a {
                s += a[i] * 31
                s ^= s >> 7
                a[i] = s & 1023
                if s%5 == 0 {
                        s += i * 3
                } else if s%7 == 0 {
                        s -= i
                }
                s = s*17 + 3
                s ^= s << 3
                s -= n * i
                if s < 0 {
                        s = -s
                }
                s += i >> 2
        }
        return s
}

//go:noinline
func run(a []int) (t int) {
        for i := 0; i < 1000; i++ {
                t += mix(a, i)
        }
        return
}

func main() {
        a, t := make([]int, 512), 0
        println("ready")
        for {
                t += run(a)
        }
}
"""


def numbers(data):
    """Packed varints."""
    out, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            out.append(value)
            value = shift = 0
    return out


def stacks(path):
    """[(number of samples, [(address, name, file, line)], the innermost first)] of a pprof file."""
    profile = wire.parse(gzip.decompress(path.read_bytes()))
    text = [s.decode() for s in profile[6]]
    functions = {f[1][0]: f for f in map(wire.parse, profile[5])}
    places = collections.defaultdict(list)
    for location in map(wire.parse, profile[4]):
        for line in map(wire.parse, location.get(4, [b""])):
            function = functions.get(line.get(1, [0])[0], {})
            places[location[1][0]].append((location.get(3, [0])[0], text[function.get(2, [0])[0]],
                                           text[function.get(4, [0])[0]], line.get(2, [0])[0]))
    return [(numbers(s[2][0])[0], [place for i in numbers(s[1][0]) for place in places[i]])
            for s in map(wire.parse, profile[2])]


def check_stacks(test, form, said, sampled, least):
    """Chains are those that the program's own unwinder has told. Returns {address: (file, line)} of leaves."""
    truth = set()
    for chain in re.findall(r"^chain (.*)$", said, re.M):
        inner, *callers = chain.split(";")
        truth.add((inner.rsplit(":", 1)[0], *callers[:-1]))
    test.assertGreaterEqual(len(truth), 5)
    told = {chain[0] for chain in truth}
    total = whole = known = 0
    wrong, lines = {}, {}
    for n, frames in sampled:
        frames = [frame for frame in frames if golang.plain(frame[1]) not in HIDDEN]
        names = [golang.plain(name) for _, name, _, _ in frames]
        total += n
        if names[-1] not in ROOTS:
            continue
        whole += n
        lines.update({a: (f, line) for a, name, f, line in frames[:1] if name.startswith("main.")})
        at = next((i for i, name in enumerate(names) if name in told), None)
        # leaf2 has two callers, of which the first alone has told
        if at is None or names[at] == "main.leaf2" and "main.main" not in names:
            continue
        chain = (names[at], *(f"{name}:{line}" for name, (_, _, _, line) in
                              zip(names[at + 1:-1], frames[at + 1:-1])))
        known += n
        if chain not in truth:
            wrong[chain] = wrong.get(chain, 0) + n
    test.assertEqual(wrong, {})
    test.assertGreater(total, 300)
    test.assertGreater(known, total / 3)
    print(f"# {form}: {whole} of {total} stacks reach their root; {known} chains are known, and right",
          flush=True)
    # the others are in front of the program's rows, which a busy machine has late
    test.assertGreaterEqual(whole, total * least, f"{whole} of {total}")
    return lines


class Stacks(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        Names.setUpClass()

    def setUp(self):
        self.dir = self.directory()

    def record(self, path, out, *options, processors="2"):
        child = self.spawn([path], env={**os.environ, "GOMAXPROCS": processors})
        tap.wait_until(lambda: "ready" in child.err, child)
        recorder = self.spawn([tap.SPANPROF, "record", "--pid", child.pid, *HZ, *options, "-o", out, "--log-level",
                               "info"])
        recorder.wait_for("profiling 1 process")
        session.wait_cpu([child.pid], 2)
        self.assertEqual(recorder.stop(signal.SIGINT), 0, recorder)
        said = child.out
        child.kill()
        return said

    def check_chains(self, form, *linker, least=0.9):
        (self.dir / "chains.go").write_text(CHAINS)
        flags, options = FORMS[form]
        program = GO.build(self.dir / "chains.go", self.dir / f"chains-{form}", *options,
                           "-ldflags=" + " ".join([flags, *linker]))
        said = self.record(program, self.dir / "out.pb.gz", "--lines")
        lines = check_stacks(self, form, said, stacks(self.dir / "out.pb.gz"), least)
        return program, lines

    def test_chains_of_a_program_that_inlines_are_those_of_its_own_unwinder(self):
        program, lines = self.check_chains("plain")
        out = subprocess.run([GO.program, "tool", "addr2line", program], check=True, text=True,
                             input="".join(f"{a:#x}\n" for a in lines), capture_output=True,
                             env=GO.environment).stdout.splitlines()
        self.assertGreater(len(lines), 10)
        self.assertEqual({a: f"{f}:{line}" for a, (f, line) in lines.items()},
                         dict(zip(lines, out[1::2])))

    def test_chains_of_a_stripped_program_that_may_lie_anywhere(self):
        self.check_chains("pie", "-s", "-w")

    def test_a_profile_makes_the_compiler_inline_a_hot_call(self):
        (self.dir / "hot.go").write_text(HOT_CALL)
        program = GO.build(self.dir / "hot.go", self.dir / "hot")
        self.record(program, self.dir / "hot.otlp", processors="1")
        self.spanprof("report", "-o", self.dir / "default.pgo", self.dir / "hot.otlp")

        def inlined(*options):
            result = subprocess.run(
                [GO.program, "build", "-o", self.dir / "again", *options, "-gcflags=-m", "hot.go"], check=True,
                capture_output=True, text=True, env=GO.environment, cwd=self.dir)
            return "inlining call to mix" in result.stderr

        self.assertFalse(inlined("-pgo=off"))
        self.assertTrue(inlined(f"-pgo={self.dir / 'default.pgo'}"))

    def test_a_profile_without_first_lines_is_refused(self):
        folded = self.dir / "in.folded"
        folded.write_text("main;work 5\n")
        result = self.spanprof("report", "-o", self.dir / "default.pgo", folded, expect=1)
        self.assertIn("no function's first line is known", result.stderr)
        self.assertFalse((self.dir / "default.pgo").exists())


class Daemon(session.NamingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        Names.setUpClass()

    def setUp(self):
        self.dir = self.directory()

    def start_program(self, path):
        child = self.spawn([path], env={**os.environ, "GOMAXPROCS": "1"})
        tap.wait_until(lambda: "ready" in child.err, child)
        return child

    def test_hot_functions_are_recorded_by_name(self):
        for form in ("plain", "pie"):
            bare, out = build(self.dir, form, form, "-s", "-w"), self.dir / f"{form}.folded"
            child = self.start_program(bare)
            self.record_until(lambda: session.wait_cpu([child.pid], 1.5), "--pid", child.pid, *HZ, "-o", out)
            child.kill()
            seen = {
                name for line in out.read_text().splitlines() for name in line.rsplit(" ", 1)[0].split(";")
            }
            self.assertLessEqual(HOT | {"main.main", "runtime.main"}, seen, form)

    @staticmethod
    def lined(samples, path):
        """[(1, [(address, name, file, line)])] of those whose frames in the program all have a line. A new
        address has none in the window that it comes in."""
        stacks = ([(f.address, f.name, f.file, f.line) for f in sample.frames if f.path == str(path)]
                  for sample in samples)
        return [(1, frames) for frames in stacks if frames and all(line for _, _, _, line in frames)]

    def test_run_ships_lines_and_inlined_functions_without_an_option(self):
        for form in ("plain", "pie"):
            flags, options = FORMS[form]
            (self.dir / "chains.go").write_text(CHAINS)
            path = GO.build(self.dir / "chains.go", self.dir / f"chains-{form}", *options,
                            f"-ldflags={flags} -s -w")
            child = self.start_program(path)
            run = self.start("--pid", child.pid, *HZ, "--symbols", "local")
            self.wait_named(run, child.pid, "main.inner", "main.square.area")
            self.wait_for(run, lambda samples: len(self.lined(samples, path)) >= 700, "700 samples with lines")
            result = run.stop()
            said = child.out
            child.kill()
            check_stacks(self, form, said, self.lined(result.of(child.pid), path), 0.9)
            self.assertEqual(result.counter("lines_total", "failed"), 0)

    def test_workers_read_the_table_and_refuse_a_damaged_one(self):
        bare = build(self.dir, "plain", "bare", "-s", "-w")
        good, bad = self.start_program(bare), self.start_program(damage(bare, self.dir / "damaged"))
        run, wait = self.start_counted("--pid", good.pid, "--pid", bad.pid, *HZ, "--symbols", "local")
        self.wait_named(run, good.pid, *HOT)
        wait(1, "spanprof_go_tables_total", result="refused")
        wait(1, "spanprof_names_total", result="stripped")
        result = run.stop()
        self.assertEqual(result.counter("go_tables_total"), {"read": 1, "refused": 1})
        self.assertEqual(result.counter("workers_total", "died"), 0)
        self.assertEqual(
            {f.name for s in result.of(bad.pid) for f in s.frames if f.path == str(self.dir / "damaged")},
            {""})
        functions = GO.functions(build(self.dir, "plain", "names"))
        starts = sorted(functions)
        # of several functions at an address the outermost one was not inlined
        whole = {f for s in result.of(good.pid) for f, outer in zip(s.frames, [*s.frames[1:], None])
                 if f.path == str(bare) and f.name and (outer is None or outer.address != f.address)}
        self.assertTrue(whole)
        for frame in whole:
            self.assertIn(golang.plain(frame.name),
                          functions[starts[bisect.bisect_right(starts, frame.address) - 1]])


if __name__ == "__main__":
    tap.main()
