#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chains of calls of programs of each toolchain from Go 1.18 on, inlined ones included: those of the
program's own unwinder, with its lines; and how many stacks reach their root."""
import importlib

import golang
import tap

go_tests = importlib.import_module("test-go")


class Toolchains(go_tests.Stacks):
    def check_toolchain(self, minor):
        go = go_tests.GO.fetch(golang.RELEASES[minor])
        if not go:
            tap.skip(f"tool: Go {golang.RELEASES[minor]} could not be had")
        self.addCleanup(setattr, go_tests, "GO", go_tests.GO)
        go_tests.GO = go
        self.check_chains("plain", least=0.98)
        self.check_chains("pie", "-s", "-w", least=0.98)


# Go calls C, which calls Go. The work is in main.burn and in c_burn.
BOTH_WAYS = """package main

/*
extern void goLeaf(int);
static __attribute__((noinline)) int c_burn(int n) { volatile int s = 0; for (int i = 0; i < n; i++) s += i; return s; }
static __attribute__((noinline)) int c_middle(int n) { goLeaf(n); return c_burn(n) + 1; }
static __attribute__((noinline)) int c_outer(int n) { return c_middle(n) + 1; }
*/
import "C"

var sink int

//go:noinline
func burn(n int) { for i := 0; i < n; i++ { sink += i ^ sink } }

//export goLeaf
func goLeaf(n C.int) { burn(int(n)); sink++ }

//go:noinline
func call() { sink += int(C.c_outer(100000)) }

func main() {
        println("ready")
        for {
                call()
        }
}
"""
UP = ["c_middle", "c_outer", "main.call", "main.main"]


class BothWays(go_tests.Stacks):
    def test_from_go_into_c_and_back(self):
        (self.dir / "both.go").write_text(BOTH_WAYS)
        program = go_tests.GO.build(self.dir / "both.go", self.dir / "both")
        self.record(program, self.dir / "out.pb.gz", "--lines")
        total = whole = 0
        seen = set()
        for n, frames in go_tests.stacks(self.dir / "out.pb.gz"):
            names = [golang.plain(name) for _, name, _, _ in frames]
            own = [name for name in names if name in ("main.burn", "main.goLeaf", "c_burn", *UP)]
            if names[0] not in ("main.burn", "c_burn"):
                continue
            total += n
            if names[-1] not in go_tests.ROOTS:
                continue
            whole += n
            seen.add(names[0])
            self.assertEqual(own, (["main.burn", "main.goLeaf"] if names[0] == "main.burn" else ["c_burn"]) + UP)
        print(f"# {whole} of {total} stacks reach their root", flush=True)
        self.assertEqual(seen, {"main.burn", "c_burn"})
        self.assertGreaterEqual(whole, 0.98 * total)


for _name in [name for name in dir(go_tests.Stacks) if name.startswith("test_")]:
    setattr(Toolchains, _name, None)    # of this machine's Go alone
    setattr(BothWays, _name, None)
for _minor in golang.RELEASES:
    setattr(Toolchains, f"test_go_1_{_minor}", lambda self, minor=_minor: self.check_toolchain(minor))

if __name__ == "__main__":
    tap.main()
