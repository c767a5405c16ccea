#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of many languages, each with main → top → mid → hot: nearly all stacks are whole and have these
names, and none skips a caller. With --long each language of LANGUAGES, else those with `usual`.

docs/RUNTIMES.md has a row for each, which check-languages.py holds against this list."""
import oracle

oracle.enter()

import dataclasses
import pathlib
import re
import subprocess

import session
import tap

RIGHT = 0.95  # of the stacks that reach hot()


@dataclasses.dataclass
class Language:
    tool: str  # the program that must be here
    source: tuple  # name, text
    chain: list  # patterns of names, from the outside in
    build: list = dataclasses.field(default_factory=list)
    run: list = dataclasses.field(default_factory=lambda: ["./program"])
    usual: bool = False  # in each run of the tests, else with --long

    def make(self, directory):
        """Builds the program there. Returns the words that run it."""
        tap.need_tool(self.tool)
        name, text = self.source
        (pathlib.Path(directory) / name).write_text(text)
        if self.build:
            done = subprocess.run(self.build, cwd=directory, capture_output=True, text=True)
            if done.returncode:
                raise AssertionError(f"{' '.join(self.build)}: {done.stdout}{done.stderr}")
        return self.run


C = """
static volatile long sink;
__attribute__((noinline)) void hot(void) {
    long s = 0;
    for (long i = 0; i < 2000000; i++) s = (s * 31 + i) % 65521;
    sink = s;
}
__attribute__((noinline)) void mid(void) { hot(); sink++; }
__attribute__((noinline)) void top(void) { mid(); sink++; }
int main(void) { for (int i = 0; i < 120; i++) top(); return 0; }
"""
CXX = (C.replace(" top(void) {", " a::top() {").replace(" mid(void) {", " a::mid() {")
       .replace(" hot(void) {", " a::hot() {").replace(" top();", " a::top();")
       .replace("static", "namespace a { void hot(); void mid(); void top(); }\nstatic", 1))
GO = """package main

var sink int

//go:noinline
func hot() {
    s := 0
    for i := 0; i < 2000000; i++ {
        s = (s*31 + i) % 65521
    }
    sink = s
}

//go:noinline
func mid() { hot(); sink++ }

//go:noinline
func top() { mid(); sink++ }

func main() {
    for i := 0; i < 120; i++ {
        top()
    }
}
"""
RUST = """
use std::hint::black_box;
#[inline(never)] fn hot() -> u64 { (0..2000000u64).fold(0, |s, i| black_box((s * 31 + i) % 65521)) }
#[inline(never)] fn mid() -> u64 { hot() + black_box(1) }
#[inline(never)] fn top() -> u64 { mid() + black_box(1) }
fn main() { for _ in 0..120 { black_box(top()); } }
"""
D = """

__gshared long sink;
pragma(inline, false) void hot() { long s = 0; foreach (i; 0 .. 2000000) s = (s * 31 + i) % 65521; sink = s; }
pragma(inline, false) void mid() { hot(); sink++; }
pragma(inline, false) void top() { mid(); sink++; }
void main() { foreach (i; 0 .. 120) top(); }
"""
ADA = """
procedure Program is
   S : Long_Integer := 0;
   pragma Volatile (S);
   procedure Hot is
      T : Long_Integer := 0;
   begin
      for I in Long_Integer range 0 .. 2_000_000 loop T := (T * 31 + I) mod 65521; end loop;
      S := T;
   end Hot;
   pragma No_Inline (Hot);
   procedure Mid is begin Hot; S := S + 1; end Mid;
   pragma No_Inline (Mid);
   procedure Top is begin Mid; S := S + 1; end Top;
   pragma No_Inline (Top);
begin
   for I in 1 .. 120 loop Top; end loop;
end Program;
"""
FORTRAN = """
module work
  integer(8), volatile :: sink = 0
contains
  subroutine hot()
    integer(8) :: i, s
    s = 0
    do i = 0, 2000000
      s = mod(s * 31 + i, 65521_8)
    end do
    sink = s
  end subroutine
  subroutine mid()
    call hot()
    sink = sink + 1
  end subroutine
  subroutine top()
    call mid()
    sink = sink + 1
  end subroutine
end module
program victim
  use work
  integer :: i
  do i = 1, 120
    call top()
  end do
end program
"""
OCAML = """
let sink = ref 0
let rec loop i s = if i = 2000000 then s else loop (i + 1) ((s * 31 + i) mod 65521)
let[@inline never] hot () = sink := loop 0 0; incr sink
let[@inline never] mid () = hot (); incr sink
let[@inline never] top () = mid (); incr sink
let[@inline never] main () = for _ = 1 to 120 do top () done
let () = main ()
"""
NIM = """
var sink {.volatile.}: int
proc hot() {.noinline.} =
  var s = 0
  for i in 0 ..< 2000000: s = (s * 31 + i) mod 65521
  sink = s
proc mid() {.noinline.} =
  hot()
  sink += 1
proc top() {.noinline.} =
  mid()
  sink += 1
for i in 1 .. 120: top()
"""
CRYSTAL = """
class Work
  @sink = 0_i64
  @[NoInline]
  def hot
    s = 0_i64
    i = 0_i64
    while i < 2000000
      s = (s &* 31 &+ i) % 65521
      i &+= 1
    end
    @sink = s
  end
  @[NoInline]
  def mid
    hot
    @sink &+= 1
  end
  @[NoInline]
  def top
    mid
    @sink &+= 1
  end
end
work = Work.new
120.times { work.top }
"""

LANGUAGES = {
    "C": Language("gcc", ("a.c", C), ["main", "top", "mid", "hot"],
                  ["gcc", "-O2", "-fomit-frame-pointer", "-o", "program", "a.c"], usual=True),
    "C++": Language("g++", ("a.cc", CXX), ["main", "a::top", "a::mid", "a::hot"],
                    ["g++", "-O2", "-o", "program", "a.cc"], usual=True),
    "Go": Language("go", ("a.go", GO), [r"main\.main", r"main\.top", r"main\.mid", r"main\.hot"],
                   ["go", "build", "-o", "program", "a.go"], usual=True),
    "Rust": Language("rustc", ("a.rs", RUST), ["a::main", "a::top", "a::mid", "a::hot"],
                     ["rustc", "-O", "-o", "program", "a.rs"], usual=True),
    "Fortran": Language("gfortran", ("a.f90", FORTRAN),
                        ["main", "MAIN__", "__work_MOD_top", "__work_MOD_mid", "__work_MOD_hot"],
                        ["gfortran", "-O1", "-fno-inline", "-o", "program", "a.f90"], usual=True),
    "D": Language("gdc", ("a.d", D), [r"_Dmain", r"a\.top\(\)", r"a\.mid\(\)", r"a\.hot\(\)"],
                  ["gdc", "-O1", "-fno-inline", "-o", "program", "a.d"]),
    "Ada": Language("gnatmake", ("program.adb", ADA),
                    ["program", r"program\.top", r"program\.mid", r"program\.hot"],
                    ["gnatmake", "-O1", "program.adb"]),
    "OCaml 4": Language("ocamlopt", ("a.ml", OCAML),
                        [r"A\.main_\d+", r"A\.top_\d+", r"A\.mid_\d+", r"A\.hot_\d+"],
                        ["ocamlopt", "-inline", "0", "-o", "program", "a.ml"]),
    "Nim": Language("nim", ("program.nim", NIM),
                    ["NimMainInner", r"program\.top", r"program\.mid", r"program\.hot"],
                    ["nim", "c", "-d:release", "--hints:off", "--nimcache:cache", "program.nim"]),
    "Crystal": Language("crystal", ("a.cr", CRYSTAL),
                        ["__crystal_main", r"\*Work#top:Int64", r"\*Work#mid:Int64", r"\*Work#hot:Int64"],
                        ["crystal", "build", "--release", "-o", "program", "a.cr"]),
}


class Languages(session.TestCase):
    def record(self, words, where):
        child = self.spawn([tap.SPANPROF, "record", "-F", "499", "--kernel-stacks=off", "-o", "x.folded", "--", *words],
                           env=session.clean_environment(), cwd=where)
        self.assertEqual(child.wait(), 0, child.err)
        rows = [line.rsplit(" ", 1) for line in (where / "x.folded").read_text().splitlines()]
        return [(stack.split(";"), int(n)) for stack, n in rows]

    def judge(self, rows, chain):
        """Samples below hot(), those of them with the whole chain, and those that skip a caller of it."""
        patterns = [re.compile(f"(?:.*[ :])?{name}") for name in chain]
        n_all = n_whole = n_wrong = 0
        for frames, n in rows:
            found = [i for frame in frames for i, pattern in enumerate(patterns) if pattern.fullmatch(frame)]
            if len(chain) - 1 not in found:
                continue
            n_all += n
            n_whole += n * (found == list(range(len(chain))))
            # what ends early lacks the outermost callers alone
            n_wrong += n * (found != list(range(found[0], len(chain))))
        return n_all, n_whole, n_wrong


def add(name, language):
    def test(self):
        where = self.directory()
        rows = self.record(language.make(where), where)
        n_all, n_whole, n_wrong = self.judge(rows, language.chain)
        some = [";".join(frames) for frames, n in sorted(rows, key=lambda row: -row[1])[:5]]
        self.assertGreater(n_all, 100, some)
        self.assertEqual(n_wrong, 0, some)
        self.assertGreater(n_whole / n_all, RIGHT, some)

    test.__name__ = "test_" + re.sub(r"\W", lambda match: "x" if match.group() == "+" else "_", name.lower())
    setattr(Languages, test.__name__, test)


for name, language in LANGUAGES.items():
    if language.usual or tap.LONG:
        add(name, language)

tap.main()
