#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of Go that were linked as for production, without symbols (-s -w): each function has the name that
the symbol table of the same program with symbols has for its address, however it was linked; and in what is
recorded and sent."""
import oracle

oracle.enter()

import bisect
import gzip
import json
import os
import re
import shutil
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
            self.spanprof("record", "--pid", child.pid, "--duration", "2s", *HZ, "-o", out)
            child.kill()
            seen = {
                name for line in out.read_text().splitlines() for name in line.rsplit(" ", 1)[0].split(";")
            }
            self.assertLessEqual(HOT | {"main.main", "runtime.main"}, seen, form)

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
        for frame in {f for s in result.of(good.pid) for f in s.frames if f.path == str(bare) and f.name}:
            self.assertIn(golang.plain(frame.name),
                          functions[starts[bisect.bisect_right(starts, frame.address) - 1]])


tap.main()
