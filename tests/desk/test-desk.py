#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What people come to the tool with, in the words they would type, and what they must see for it.

Each case is one task of the first hour. A case says what must be seen, and nothing of how it looks
otherwise."""
import oracle

oracle.enter()

import json
import re
import shutil
import signal

import golang
import jdks
import pythons
import session
import tap

DATA = tap.SOURCE_DIR / "tests/data"
COROUTINES = tap.BUILD_DIR / "sdk/example/example-coroutines"


class Desk(session.TestCase):
    def setUp(self):
        self.where = self.directory()

    def at_desk(self, *words, expect=0):
        return self.spanprof(*words, expect=expect, cwd=self.where, env=session.clean_environment())

    def record(self, *words):
        """Of a victim that works for a while: what is said in the end."""
        child = self.spawn([tap.SPANPROF, "record", "-F", "499", *words, "--", tap.VICTIMS / "victim-shares"],
                           cwd=self.where, env=session.clean_environment())
        session.wait_cpu([int(child.wait_for(r"^pid (\d+)$")[1])], 1)
        self.assertEqual(child.stop(signal.SIGTERM), 0, child)
        return child

    def test_what_is_slow_in_this_program(self):
        """The hottest function first, the losses, and where the page is; which a report reads again. Standard
        output is the program's alone."""
        child = self.record("--top", "100")
        rows = re.findall(r"^ +([\d.]+) % +([\d.]+) % +(\S+) +victim-shares$", child.err, re.M)
        self.assertEqual(rows[0][2], "victim_spin", "it is inlined into all that work")
        shares = [(float(total), name) for _, total, name in rows if name.startswith("share_")]
        self.assertEqual(max(shares)[1], "share_50", child)
        self.assertRegex(child.err, r"(?m)^  lost +\d+")
        self.assertNotIn("total", child.out)
        self.assertRegex(child.err, r"(?m)^spanprof: spanprof\.html: [\d.]+ KiB$")
        again = json.loads(self.at_desk("report", "--json", "spanprof.html").stdout)["profiles"][0]
        self.assertEqual(again["functions"][0]["function"], "victim_spin")

    def test_what_does_this_process_do(self):
        """Whom it records, before the time is spent."""
        victim = self.victim("shares")
        child = self.spawn([tap.SPANPROF, "record", "--top", "100", "-p", str(victim.pid), "-o", "a.pb.gz"],
                           cwd=self.where, env=session.clean_environment())
        child.wait_for(rf"chosen: 1 process: victim-shares \({victim.pid}\)")
        session.wait_cpu([victim.pid], 0.5)
        self.assertEqual(child.stop(signal.SIGINT), 0, child)
        self.assertIn("share_50", child.out)

    def test_a_program_of_node(self):
        """Its own functions by name; without its reader, the option that gives them."""
        if not shutil.which("node"):
            self.skipTest("tool: no node")
        (self.where / "app.js").write_text(
            "function tokenize(t) { let n = 0; for (let i = 0; i < t.length; i++) n += t.charCodeAt(i) === 32; return n; }\n"
            "const text = Array.from({length: 20000}, (_, i) => 'w' + i).join(' ');\n"
            "console.log('pid', process.pid);\n"
            "let n = 0; while (true) n += tokenize(text);\n")
        for options, is_named in ((("--runtimes=off", ), False), ((), True)):
            child = self.spawn([tap.SPANPROF, "record", *options, "-o", "a.pb.gz", "--", "node", "app.js"],
                               cwd=self.where, env=session.clean_environment())
            session.wait_cpu([int(child.wait_for(r"^pid (\d+)$")[1])], 2)
            self.assertEqual(child.stop(signal.SIGTERM), 128 + signal.SIGTERM, child)
            hint = (r"unnamed +[\d.]+ % of the stacks go through code outside of files: functions of JavaScript are "
                    r"not read: `--runtimes` leaves v8 out")
            self.assertEqual(bool(re.search(hint, child.err)), not is_named, child)
            shown = self.at_desk("report", "--top", "1000", "a.pb.gz").stdout
            # what is called may be a part of who calls it
            self.assertEqual("app.js" in shown, is_named, f"{child}\n{shown}")

    def hottest(self, *command, options=()):
        """[(self, total, function, file)] of the table that a recording of @command ends with; the recording is a.otlp."""
        said = self.at_desk("record", "-F", "499", *options, "-o", "a.otlp", "--", *map(str, command)).stderr
        rows = re.findall(r"(?m)^ +([\d.]+) % +([\d.]+) %  (\S.*?)  +(\S+)$", said)
        return [(float(own), float(total), function, file) for own, total, function, file in rows]

    def lines_of(self, source):
        """{text of a line: percent of its own} of the source with numbers beside its lines."""
        shown = self.at_desk("report", "--annotate", source, "a.otlp").stdout
        return {text.strip(): float(own)
                for own, text in re.findall(r"(?m)^ +([\d.]+)% +[\d.]+% +\d+  (.*)$", shown)}

    def test_the_hottest_function_of_a_program_of_cxx_and_its_line(self):
        tool = tap.need_tool("g++")
        (self.where / "hot.cc").write_text(
            "#include <cstdint>\n#include <cstdio>\n#include <vector>\n"
            "static uint64_t mix(uint64_t x) {\n"
            "  for (int i = 0; i < 40; i++)\n"
            "    x = x * 6364136223846793005u + (x >> 7);\n"
            "  return x;\n}\n"
            "template <typename T> __attribute__((noinline)) uint64_t hash_all(const std::vector<T> &all) {\n"
            "  uint64_t sum = 0;\n  for (const T &one : all) sum += mix(one);\n  return sum;\n}\n"
            "int main() {\n  std::vector<uint64_t> all(50000, 7);\n  uint64_t sum = 0;\n"
            "  for (int i = 0; i < 250; i++) all[i] = sum += hash_all(all);\n  printf(\"%d\\n\", (int)sum);\n}\n")
        self.run_command([tool, "-O2", "-g", "-o", self.where / "hot", self.where / "hot.cc"],
                         expect=0, timeout=120)
        rows = self.hottest("./hot")
        self.assertEqual(rows[0][2:], ("mix", "hot"), "what is inlined has its name")
        self.assertGreater(max(total for _, total, function, _ in rows if function.startswith("hash_all")), 90, rows)
        self.assertGreater(self.lines_of("hot.cc")["x = x * 6364136223846793005u + (x >> 7);"], 20)

    def test_the_hottest_function_of_a_program_of_python_and_its_line(self):
        (self.where / "hot.py").write_text("def count(n):\n    while n:\n        n -= 1\n\n"
                                           "def other():\n    count(300000)\n\n"
                                           "for i in range(40):\n    count(900000)\n    other()\n")
        python = next(iter(pythons.here().values()))
        rows = self.hottest(python, "hot.py")
        self.assertIn(("count", "hot.py"), [row[2:] for row in rows])
        self.assertGreater([total for _, total, function, _ in rows if function == "count"][0], 60, rows)
        lines = self.lines_of("hot.py")
        self.assertGreater(lines["while n:"] + lines["n -= 1"], 10, lines)

    def test_the_hottest_function_of_numpy(self):
        """That of its library, below the function of Python that calls it."""
        found = [python for python in pythons.here().values()
                 if self.run_command([python, "-c", "import numpy"]).returncode == 0]
        if not found:
            self.skipTest("package: no python3-numpy")
        (self.where / "matrix.py").write_text(
            "import numpy\ndef multiply():\n    a = numpy.ones((500, 500))\n"
            "    for _ in range(40): a = a @ a; a /= a.max()\nmultiply()\n")
        rows = self.hottest(found[0], "matrix.py")
        self.assertRegex(rows[0][3], r"(?i)blas|numpy|_multiarray", rows)
        shares = {(file, function): total for _, total, function, file in self.hottest(
            found[0], "matrix.py", options=("--top", "1000"))}
        self.assertGreater(shares["matrix.py", "multiply"], 40, shares)

    def test_the_hottest_function_of_a_program_of_java(self):
        (self.where / "Hot.java").write_text(
            "public class Hot {\n"
            "  static long checksum(byte[] all) { long n = 0; for (byte one : all) n = n * 31 + one; return n; }\n"
            "  public static void main(String[] words) {\n    long sum = 0;\n"
            "    for (int i = 0; i < 40000; i++) sum += checksum(new byte[1 << 16]);\n"
            "    System.out.println(sum);\n  }\n}\n")
        self.run_command([jdks.tool("javac"), *jdks.BRIEF, self.where / "Hot.java"], expect=0, timeout=120)
        for release, java in jdks.usual().items():
            with self.subTest(release):
                self.assertEqual(self.hottest(java, "-cp", self.where, "Hot")[0][2:], ("Hot.checksum", "Hot.java"))

    def test_the_hottest_function_of_a_program_of_rust(self):
        tool = tap.need_tool("rustc")
        (self.where / "hot.rs").write_text(
            "#[inline(never)] fn collatz(mut n: u64) -> u32 {\n    let mut k = 0;\n"
            "    while n != 1 { n = if n & 1 == 0 { n >> 1 } else { 3 * n + 1 }; k += 1; }\n    k\n}\n"
            "fn main() { println!(\"{:?}\", (1..3000000).map(collatz).max()); }\n")
        self.run_command([tool, "-O", "-o", self.where / "hot", self.where / "hot.rs"], expect=0, timeout=300)
        self.assertEqual(self.hottest("./hot")[0][2:], ("hot::collatz", "hot"))

    def test_the_hottest_function_of_a_program_of_go_and_what_gos_own_tools_make_of_it(self):
        """`go tool pprof -list` has its lines, and `go build -pgo` takes the profile."""
        go = golang.Go()
        (self.where / "main.go").write_text(
            "package main\n\n//go:noinline\nfunc collatz(n uint64) (k int) {\n\tfor n != 1 {\n"
            "\t\tif n&1 == 0 {\n\t\t\tn >>= 1\n\t\t} else {\n\t\t\tn = 3*n + 1\n\t\t}\n\t\tk++\n\t}\n\treturn\n}\n\n"
            "func main() {\n\tbest := 0\n\tfor i := uint64(1); i < 4000000; i++ {\n"
            "\t\tif k := collatz(i); k > best {\n\t\t\tbest = k\n\t\t}\n\t}\n\tprintln(best)\n}\n")
        go.build(self.where / "main.go", self.where / "hot")
        self.assertEqual(self.hottest("./hot")[0][2:], ("main.collatz", "hot"))
        self.at_desk("report", "a.otlp", "-o", "cpu.pb.gz")
        listed = self.run_command([go.program, "tool", "pprof", "-list", "main.collatz", "cpu.pb.gz"], expect=0,
                                  cwd=self.where, env=go.environment, timeout=120).stdout
        self.assertRegex(listed, r"(?m)^ +[\d.]+m?s +[\d.]+m?s +9:\t+n = 3\*n \+ 1$")
        self.at_desk("report", "a.otlp", "-o", "default.pgo")
        go.build(self.where / "main.go", self.where / "faster", f"-pgo={self.where / 'default.pgo'}")

    def test_all_time_as_one_also_that_without_a_cpu(self):
        """Wall time: a recording with waits, and a report of both. What is asked for wall time says so."""
        (self.where / "naps.py").write_text("import time\n"
                                            "def nap():\n    time.sleep(0.05)\n"
                                            "def work():\n    sum(range(200000))\n"
                                            "for _ in range(60): work(); nap()\n")
        python = next(iter(pythons.here().values()))
        self.hottest(python, "naps.py", options=("--off-cpu", ))
        wall = json.loads(self.at_desk("report", "--wall", "--json", "--top", "1000", "a.otlp").stdout)["profiles"][0]
        totals = {row["function"]: row["total"] for row in wall["functions"]}
        self.assertGreater(totals["nap"], 40 * 0.05e9, "the first ones come before names are read")
        said = self.at_desk("record", "--idle", "--", "true", expect=2).stderr
        self.assertIn("`report --wall`", said)

    def test_a_build_that_became_slower_fails_in_continuous_integration(self):
        python = next(iter(pythons.here().values()))
        for name, n in (("before", 100000), ("after", 1500000)):
            (self.where / "bench.py").write_text(
                "def parse(n):\n    while n: n -= 1\ndef other(n):\n    while n: n -= 1\n"
                f"for _ in range(12): parse({n}); other(1000000)\n")
            baseline = () if name == "before" else ("--compare", "before.pb", "--fail-above", "10")
            done = self.at_desk("record", "-F", "1999", *baseline, "-o", f"{name}.pb", "--", python, "bench.py",
                                expect=3 if baseline else 0)
        self.assertRegex(done.stderr, r"parse: \+[\d.]+ points of samples ")

    def test_a_selector_that_matches_nobody(self):
        """Said at the start, and at the end with what tells why; the status says it, too."""
        done = self.at_desk("record", "-u", "nosuchunit", "-d", "300ms", "-o", "a.pb", expect=1)
        self.assertIn("none of the processes that run is chosen", done.stderr)
        self.assertIn("not one sample: no process that ran meanwhile was chosen; `spanprof targets --verbose`",
                      done.stderr)
        self.assertIn("a recording without one sample", self.at_desk("report", "a.pb", expect=1).stderr)

    def test_a_program_that_waits(self):
        """That it used no CPU, and that waits can be had."""
        said = r"not one sample: .* used [\d.]+ ms of CPU, and a sample stands for [\d.]+ ms.*--off-cpu"

        def is_said():          # a tick may hit its start: then there is one
            return re.search(said, self.at_desk("record", "-F", "20", "--", "sleep", "0.2").stderr)

        self.assertTrue(tap.wait_until(is_said, "a recording without a sample"))

    def test_what_does_it_wait_for(self):
        """Threads, on what, in which function; and how long they waited together."""
        done = self.at_desk("record", "--off-cpu", "-o", "a.pb", "--", "python3", "-c",
                            "import time\nfor _ in range(20): sum(range(300000)); time.sleep(0.02)")
        waited = re.search(r"(?m)^  waits +([\d.]+) s of threads without a CPU", done.stderr)
        self.assertGreater(float(waited[1]), 0.3, done.stderr)
        share = re.search(r"(?m)^ +([\d.]+) % +python3 +blocked +sleep ", done.stderr)
        self.assertGreater(float(share[1]), 10, done.stderr)

    def test_what_other_profilers_are_asked(self):
        """A word for what has another name here."""
        for words, hint in ((["record", "-g", "--", "true"], "stacks are always taken"),
                            (["record", "-e", "cycles", "--", "true"], "CPU time is what is sampled"),
                            (["stat", "--", "true"], "`spanprof record -- COMMAND`")):
            self.assertIn(hint, self.at_desk(*words, expect=2).stderr)

    def test_which_function_became_slower(self):
        """One answer in text and page, whatever folder each build lies in; a status for scripts."""
        before, after = (self.where / name for name in ("before.folded", "after.folded"))
        before.write_text("main;fold 300\nmain;sort 700\n")
        after.write_text("main;fold 450\nmain;sort 550\n")
        shown = self.at_desk("report", "--diff", before, after).stdout
        self.assertRegex(shown, r"(?m)^ +\+15\.0 +300 +30\.0% +450 +45\.0% +fold")
        self.at_desk("report", "--diff", before, after, "-o", "diff.html")
        self.assertGreater((self.where / "diff.html").stat().st_size, 10000)
        judged = self.at_desk("report", "--diff", "--fail-above", "5", before, after, expect=3)
        self.assertRegex(judged.stderr, r"fold: \+15\.0 points of samples .*beyond noise")

    def test_a_profile_of_go(self):
        """Its samples once, and what Go's tool says of them first."""
        kinds = json.loads(self.at_desk("report", "--json", DATA / "go-cpu.pb.gz").stdout)["profiles"]
        self.assertEqual([kind["type"] for kind in kinds], ["samples"])
        said = re.search(r"%  (\S+)$", (DATA / "go-cpu.top.txt").read_text(), re.M)[1]
        self.assertEqual(kinds[0]["functions"][0]["function"], said)

    def test_which_line_is_it(self):
        """The source with numbers beside its lines, at the terminal and as a page."""
        (self.where / "main.go").write_text("// a line\n" * 200)
        self.assertRegex(self.at_desk("report", "--annotate", "main.go", DATA / "go-cpu.pb.gz").stdout,
                         r"(?m)^ +[\d.]+% +[\d.]+% +\d+  // a line$")
        self.at_desk("report", "--annotate", "main.go", DATA / "go-cpu.pb.gz", "-o", "main.html")
        self.assertRegex((self.where / "main.html").read_text(), r"Hottest by their own share: <a href=")

    def test_what_does_the_machine_do_now(self):
        """Functions of the process that works, in a second."""
        victim = self.victim("shares")

        def shown():
            done = self.at_desk("top", "-p", str(victim.pid), "-n", "1", "-i", "1", "--json")
            return [row["name"] for row in json.loads(done.stdout)["functions"]]

        self.assertTrue(tap.wait_until(lambda: "share_50" in shown(), "its hottest function"))

    def test_which_task_of_asyncio_is_it(self):
        """Their names from Python 3.14 on, in the tables of a recording, of a report and of top; before, that there are none."""
        (self.where / "shop.py").write_text(
            "import asyncio, os, time\n"
            "def price(n):\n    t = 0\n    for i in range(n): t = (t * 31 + i) & 0xffff\n    return t\n"
            "async def serve(n):\n"
            "    while time.process_time() < 1.5: price(n); await asyncio.sleep(0)\n"
            "async def main():\n"
            "    await asyncio.gather(*(asyncio.create_task(serve(n), name=name)\n"
            "                           for n, name in ((20000, 'checkout'), (4000, 'search'))))\n"
            "asyncio.run(main())\n")
        found = pythons.all_of_them() if tap.LONG else pythons.here()
        for version, python in {max(found): found[max(found)], min(found): found[min(found)]}.items():
            with self.subTest(version):
                said = self.at_desk("record", "-o", "a.otlp", "--", python, "shop.py").stderr
                rows = re.findall(r"(?m)^ +[\d.]+ %  (checkout|search) +python", said)
                self.assertEqual(rows, ["checkout", "search"] if version >= (3, 14) else [], said)
                self.assertEqual("  tasks      of asyncio have no names here: those are read of Python 3.14" in said,
                                 version < (3, 14), said)
                if version < (3, 14):
                    continue
                self.assertRegex(self.at_desk("report", "a.otlp").stdout, r"\nTasks\n.*\n +\d+ +[\d.]+%  checkout ")
                alone = self.at_desk("report", "--json", "--coroutine", "search", "a.otlp").stdout
                self.assertEqual([row["name"] for row in json.loads(alone)["profiles"][0]["coroutines"]], ["search"])

    def test_who_never_woke_up(self):
        """The order that waits for nobody, by its function; nothing is left beside the trace."""
        if not COROUTINES.exists():
            self.skipTest("tool: the example of coroutines is not built")
        self.at_desk("coro", "-o", "orders.db", "--", str(COROUTINES))
        shown = self.at_desk("report", "orders.db").stdout
        self.assertRegex(shown, r"(?i)lost wake-up")
        self.at_desk("report", "orders.db", "-o", "orders.html")
        self.assertEqual(sorted(path.name for path in self.where.iterdir()), ["orders.db", "orders.html"])

    def test_give_it_to_others(self):
        """One file that needs no network, and forms that other tools read."""
        self.record("-o", "a.otlp")
        for name in ("a.html", "a.svg", "a.folded", "a.pb.gz", "a.speedscope.json", "a.md"):
            self.at_desk("report", "a.otlp", "-o", name)
            self.assertGreater((self.where / name).stat().st_size, 0, name)
        page = (self.where / "a.html").read_text()
        self.assertEqual(re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]+", page), [])
        self.assertIn("Content-Security-Policy", page)


if __name__ == "__main__":
    tap.main()
