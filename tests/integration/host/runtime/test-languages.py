#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of many languages, each with main → top → mid → hot: nearly all stacks are whole and have these
names, and none skips a caller. With --long each language of LANGUAGES, else those with `usual`. Interpreters
that nobody reads have whole stacks of their own functions.

docs/RUNTIMES.md has a row for each, which check-languages.py holds against this list."""
import oracle

oracle.enter()

import collections
import dataclasses
import pathlib
import re
import subprocess

import debian
import fresh
import otlp_read
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
# Calls of C, the collector and a handler of effects go to other stacks each.
OCAML_5 = """
external hot_called : int -> int = "c_hot_called"
external hot_handled : int -> int = "c_hot_handled"
type _ Effect.t += Ask : int Effect.t
let sink = ref 0
let rec list n rest = if n = 0 then rest else list (n - 1) (n :: rest)
let[@inline never] mid_called () = sink := hot_called 2000000; incr sink
let[@inline never] top_called () = mid_called (); incr sink
let[@inline never] mid_kept () = for _ = 1 to 40 do sink := List.length (list 40000 []) done; incr sink
let[@inline never] top_kept () = mid_kept (); incr sink
let[@inline never] mid_handled () =
  sink := hot_handled 2000000 + Effect.perform Ask;
  sink := !sink + hot_handled 2000000
let[@inline never] top_handled () = mid_handled (); incr sink
let[@inline never] handle () =
  Effect.Deep.match_with top_handled ()
    { retc = (fun () -> ()); exnc = raise;
      effc = fun (type a) (e : a Effect.t) -> match e with
        | Ask -> Some (fun (k : (a, unit) Effect.Deep.continuation) -> Effect.Deep.continue k 1)
        | _ -> None };
  incr sink
let[@inline never] main () = for _ = 1 to 60 do top_called (); top_kept (); handle () done
let () = main ()
"""
OCAML_5_C = """
#include <caml/mlvalues.h>
static volatile long sink;
#define HOT(_name) __attribute__((noinline)) value _name(value n) { \\
        long s = 0; \\
        for (long i = 0; i < Long_val(n); i++) s = (s * 31 + i) % 65521; \\
        return Val_long(sink = s); }
HOT(c_hot_called)
HOT(c_hot_handled)
"""
OCAML_5_CHAINS = (("main", "top_called", "mid_called", "c_hot_called"),
                  ("main", "top_kept", "mid_kept", "caml_call_gc"),
                  ("main", "handle", "top_handled", "mid_handled", "c_hot_handled"))
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
PASCAL = """
program victim;
var sink: int64; n: integer;
procedure hot;
var s, i: int64;
begin
  s := 0;
  for i := 0 to 2000000 do s := (s * 31 + i) mod 65521;
  sink := s;
end;
procedure mid; begin hot; sink := sink + 1; end;
procedure top; begin mid; sink := sink + 1; end;
begin
  for n := 1 to 120 do top;
end.
"""
ZIG = """
var sink: u64 = 0;
noinline fn hot() void {
    var s: u64 = 0;
    var i: u64 = 0;
    while (i < 2000000) : (i += 1) s = (s *% 31 +% i) % 65521;
    @as(*volatile u64, &sink).* = s;
}
noinline fn mid() void { hot(); @as(*volatile u64, &sink).* += 1; }
noinline fn top() void { mid(); @as(*volatile u64, &sink).* += 1; }
pub fn main() void {
    var n: u32 = 0;
    while (n < 120) : (n += 1) top();
}
"""
KOTLIN = """
@Volatile var sink = 0L
fun hot() { var s = 0L; for (i in 0L until 2000000L) s = (s * 31 + i) % 65521; sink = s }
fun mid() { hot(); sink++ }
fun top() { mid(); sink++ }
fun main(words: Array<String>) { for (i in 1..300) top() }
"""
SCALA = """
object Victim {
    @volatile var sink = 0L
    def hot(): Unit = {
        var s = 0L; var i = 0L
        while (i < 2000000L) { s = (s * 31 + i) % 65521; i += 1 }
        sink = s
    }
    def mid(): Unit = { hot(); sink += 1 }
    def top(): Unit = { mid(); sink += 1 }
    def main(words: Array[String]): Unit = for (_ <- 1 to 300) top()
}
"""
CLOJURE = """
(def sink (atom 0))
(defn hot [] (reset! sink (loop [i 0 s 0] (if (< i 2000000) (recur (inc i) (rem (+ (* s 31) i) 65521)) s))))
(defn mid [] (hot) (swap! sink inc))
(defn top [] (mid) (swap! sink inc))
(defn main [] (dotimes [_ 120] (top)))
(main)
"""
GROOVY = """
class Victim {
    static volatile long sink
    static void hot() { long s = 0; for (long i = 0; i < 2000000L; i++) s = (s * 31 + i) % 65521; sink = s }
    static void mid() { hot(); sink++ }
    static void top() { mid(); sink++ }
    static void main(String[] words) { for (int i = 0; i < 60; i++) top() }
}
"""
# compilers that Maven has, and what their programs need
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>victims</groupId><artifactId>languages</artifactId><version>1</version><dependencies><dependency>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency></dependencies></project>"""
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def on_java(artifact, source, compiler, program, chain):
    """A language of the JVM, by a compiler (group, name, version); program: what `java` is told to run."""
    name, text = source
    pom = f"cat >pom.xml <<'.'\n{POM.format(*artifact)}\n.\nmvn -q -B {COPY} -DoutputDirectory=jars"
    return Language("mvn", (name, text), chain, ["sh", "-c", f"{pom} && {compiler or ':'}"],
                    ["java", "-cp", ".:jars/*", *program])


# a compiler that PyPI has
ZIG_BUILD = "python3 -m venv venv && venv/bin/pip install -q ziglang==0.17.1 && " \
            "venv/bin/python -m ziglang build-exe -O ReleaseFast -fno-strip --name program a.zig"

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
    "Pascal": Language("fpc", ("a.pas", PASCAL),
                       ["main", r"P\$VICTIM_\$\$_TOP", r"P\$VICTIM_\$\$_MID", r"P\$VICTIM_\$\$_HOT"],
                       ["fpc", "-g", "-O1", "-oprogram", "a.pas"]),
    "Zig": Language("python3", ("a.zig", ZIG), [r"a\.main", r"a\.top", r"a\.mid", r"a\.hot"],
                    ["sh", "-c", ZIG_BUILD]),
    "Kotlin": on_java(("org.jetbrains.kotlin", "kotlin-compiler-embeddable", "2.4.21"), ("a.kt", KOTLIN),
                      "java -cp 'jars/*' org.jetbrains.kotlin.cli.jvm.K2JVMCompiler -no-stdlib -no-reflect "
                      "-cp jars/kotlin-stdlib-2.4.21.jar -d . a.kt", ["AKt"],
                      [r"AKt\.main", r"AKt\.top", r"AKt\.mid", r"AKt\.hot"]),
    "Scala": on_java(("org.scala-lang", "scala-compiler", "2.13.16"), ("a.scala", SCALA),
                     "java -cp 'jars/*' scala.tools.nsc.Main -cp jars/scala-library-2.13.16.jar -d . a.scala",
                     ["Victim"], [r"Victim\.main", r"Victim\$\.top", r"Victim\$\.mid", r"Victim\$\.hot"]),
    "Clojure": on_java(("org.clojure", "clojure", "1.12.0"), ("a.clj", CLOJURE), None, ["clojure.main", "a.clj"],
                       [rf"user\${name}\.invokeStatic" for name in ("main", "top", "mid", "hot")]),
    "Groovy": on_java(("org.apache.groovy", "groovy", "5.0.8"), ("a.groovy", GROOVY), None,
                      ["groovy.ui.GroovyMain", "a.groovy"],
                      [r"Victim\.main", r"Victim\.top", r"Victim\.mid", r"Victim\.hot"]),
    "Crystal": Language("crystal", ("a.cr", CRYSTAL),
                        ["__crystal_main", r"\*Work#top:Int64", r"\*Work#mid:Int64", r"\*Work#hot:Int64"],
                        ["crystal", "build", "--release", "-o", "program", "a.cr"]),
}

# tool, what runs until it is ended; nobody reads their functions, and each calls C from main() on
INTERPRETERS = {
    "Perl": ["perl", "-e", "sub hot { my $s = 0; $s = ($s * 31 + $_) % 65521 for 0 .. 300000; $s } hot() for 1 .. 60"],
    "Lua": ["lua5.4", "-e", "for n = 1, 200 do local s = 0 for i = 0, 300000 do s = (s * 31 + i) % 65521 end end"],
    "Tcl": ["tclsh", "a.tcl"],
    "R": ["Rscript", "-e", "hot <- function() { s <- 0; for (i in 1:300000) s <- (s * 31 + i) %% 65521; s }\n"
          "for (n in 1:40) hot()"],
}
# languages with a method of their own, test_<name>
METHODS = ("Haskell", "OCaml 5")
TCL = "proc hot {} { for {set i 0} {$i < 100000} {incr i} { set s [expr {($i * 31 + 7) % 65521}] } }\n" \
      "for {set n 0} {$n < 60} {incr n} hot\n"


class Languages(session.TestCase):
    def record(self, words, where, file):
        child = self.spawn([tap.SPANPROF, "record", "-F", "499", "--kernel-stacks=off", "-o", file, "--", *words],
                           env=session.clean_environment(), cwd=where)
        self.assertEqual(child.wait(), 0, child.err)

    def rows(self, words, where):
        self.record(words, where, "x.folded")
        rows = [line.rsplit(" ", 1) for line in (where / "x.folded").read_text().splitlines()]
        return [(stack.split(";"), int(n)) for stack, n in rows]

    def test_haskell(self):
        """
        A program of Debian that GHC has compiled. Its C code has rows, and stacks from there are whole. Code
        of Haskell has none, nor a stack that C knows: it ends a stack, which says so, and is in no whole one.
        """
        def make(root):
            with debian.Suite("bookworm") as suite:
                suite.unpack(["hledger"], root, "./usr/bin/hledger")

        program = debian.kept("haskell", "usr/bin/hledger", make, lambda root: None)
        if not program:
            tap.skip("machine: no package of hledger")
        where = self.directory()
        (where / "a.journal").write_text("".join(
            f"2024-{i % 12 + 1:02}-{i % 28 + 1:02} a\n    b{i % 50}  ${i % 1000}\n    c\n\n" for i in range(20000)))
        self.record([program, "-f", "a.journal", "bal"], where, "x.otlp")
        said = self.run_command(["readelf", "--wide", "--debug-dump=frames", program], timeout=300).stdout
        described = [(int(start, 16), int(end, 16)) for start, end in re.findall(r" pc=(\w+)\.\.(\w+)", said)]
        found = collections.Counter()
        for sample in otlp_read.samples(where / "x.otlp"):
            own = [frame.address for frame in sample.frames if frame.path.endswith("/hledger")]
            is_described = all(any(start <= at < end for start, end in described) for at in own)
            found[sample.attributes.get("profile.stack.truncated"), is_described] += bool(own)
        self.assertGreater(sum(found.values()), 200, found)
        self.assertGreater(found[None, True], 50, found)
        self.assertEqual(found[None, False], 0, found)
        self.assertGreater(found[None, True] + found["no_rows", False], RIGHT * sum(found.values()), found)

    def test_ocaml_5(self):
        """Of Debian 13. C runs on a stack of the system, each handler of effects on a stack of its own."""
        root = fresh.Root(self, "ocaml", ["ocaml-nox", "gcc", "libc6-dev"])
        root.write("root/a.ml", OCAML_5)
        root.write("root/c.c", OCAML_5_C)
        root.run(self, "ocamlopt -ccopt -O2 -inline 0 -o program c.c a.ml")
        rows = self.rows(root.words("exec ./program", "/root", {}), self.directory())
        for chain in OCAML_5_CHAINS:
            names = [name if name.startswith("c") else rf"A\.{name}_\d+" for name in chain]
            self.check_chain(rows, names)

    def check_chain(self, rows, chain):
        n_all, n_whole, n_wrong = self.judge(rows, chain)
        some = [";".join(frames) for frames, n in sorted(rows, key=lambda row: -row[1])[:5]]
        self.assertGreater(n_all, 100, some)
        self.assertEqual(n_wrong, 0, some)
        self.assertGreater(n_whole / n_all, RIGHT, some)

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
        self.check_chain(self.rows(language.make(where), where), language.chain)

    test.__name__ = "test_" + re.sub(r"\W", lambda match: "x" if match.group() == "+" else "_", name.lower())
    setattr(Languages, test.__name__, test)


def add_interpreter(name, words):
    def test(self):
        tap.need_tool(words[0])
        where = self.directory()
        (where / "a.tcl").write_text(TCL)
        self.record(words, where, "x.otlp")
        samples = [sample for sample in otlp_read.samples(where / "x.otlp") if sample.frames]
        whole = [sample for sample in samples if "profile.stack.truncated" not in sample.attributes]
        self.assertGreater(len(samples), 100)
        self.assertGreater(len(whole), RIGHT * len(samples))
        begun = [sample for sample in whole if sample.frames[-1].name in ("_start", "") and len(sample.frames) > 3]
        self.assertGreater(len(begun), RIGHT * len(whole))

    test.__name__ = f"test_interpreter_{name.lower()}"
    setattr(Languages, test.__name__, test)


for name, language in LANGUAGES.items():
    if language.usual or tap.LONG:
        add(name, language)
assert all(hasattr(Languages, f"test_{name.lower().replace(' ', '_')}") for name in METHODS)
for name, words in INTERPRETERS.items():
    if tap.LONG:
        add_interpreter(name, words)

tap.main()
