#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names and lines from end to end: a program of which is known what is inlined where, recorded, reported and converted."""
import re
import subprocess

import tap

# The work is all in `mix`, which is inlined into `shop::checkout`; line numbers count from 1.
SOURCE = """#include <time.h>
static inline __attribute__((always_inline)) unsigned mix(unsigned x) {
        for (int i = 0; i < 1000; i++) {
                x = x * 1103515245u + 12345u;
        }
        return x;
}
namespace shop {
__attribute__((noinline)) unsigned checkout(unsigned x) {
        return mix(x) ^ 7;
}
}
int main() {
        struct timespec used = {};
        unsigned x = 1;
        while (used.tv_sec < 1) {
                for (int i = 0; i < 1000; i++)
                        x = shop::checkout(x);
                clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        }
        return x == 42;
}
"""


class Names(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        tap.need_root()
        tap.need_btf()
        for tool in ("g++", "objcopy", "strip", "addr2line"):
            tap.need_tool(tool)

    def setUp(self):
        self.dir = self.directory()
        self.program = self.dir / "shop"
        (self.dir / "shop.cc").write_text(SOURCE)
        subprocess.run(["g++", "-O1", "-g", "-Wl,--build-id", "-o", self.program, self.dir / "shop.cc"],
                       check=True)

    def record(self, name, *options):
        path = self.dir / name
        self.spanprof("record", *options, "-o", path, "--", self.program, timeout=120)
        return path

    def folded(self, path):
        """{stack: samples} of the stacks that begin in main."""
        stacks = (line.rsplit(" ", 1) for line in path.read_text().splitlines())
        return {stack: int(n) for stack, n in stacks if ";main;" in f";{stack};"}

    def in_mix(self, text):
        """The lines of `mix` that a report shows."""
        return {int(n) for n in re.findall(r"mix\(?[^ ]* shop\.cc:(\d+)", text)}

    def test_record_names_cxx_and_what_was_inlined(self):
        plain = self.folded(self.record("plain.folded", "--lines=off"))
        self.assertTrue(plain)
        self.assertTrue(any(stack.endswith("main;shop::checkout") for stack in plain), plain)
        self.assertFalse([stack for stack in plain if "mix" in stack])
        for options in ((), ("--lines",)):
            lines = self.folded(self.record("lines.folded", *options))
            self.assertTrue(any(stack.endswith("main;shop::checkout;mix") for stack in lines), lines)

    def test_stacks_show_what_was_inlined(self):
        with subprocess.Popen([self.program]) as child:
            shown = self.spanprof("stacks", child.pid).stdout
            without = self.spanprof("stacks", "--lines=off", child.pid).stdout
        self.assertRegex(shown, r"\bmix\b")
        self.assertRegex(shown, r"shop\.cc:\d+")
        self.assertNotIn("shop.cc:", without)

    def test_report_and_convert_add_lines_to_a_recording(self):
        recording = self.record("shop.otlp", "--lines=off")
        self.assertFalse(self.in_mix(self.spanprof("report", "--lines=off", recording).stdout))
        text = self.spanprof("report", recording).stdout
        self.assertRegex(text, r"(?m) mix +shop$")
        self.assertFalse(self.in_mix(text), "a function is one row")
        text = self.spanprof("report", "--lines", recording).stdout
        self.assertTrue(self.in_mix(text), text)
        self.assertLessEqual(self.in_mix(text), set(range(2, 8)))
        self.assertRegex(text, r"shop::checkout shop\.cc:1[01]")
        converted = self.dir / "shop.folded"
        self.spanprof("convert", "--lines", "-o", converted, recording)
        self.assertTrue(any(stack.endswith("main;shop::checkout;mix") for stack in self.folded(converted)))
        shipped = self.dir / "with-lines.otlp"
        self.spanprof("convert", "--lines", "-o", shipped, recording)
        self.assertRegex(self.spanprof("report", "--lines=off", shipped).stdout, r"\bmix +shop\b")

    def test_debug_files_have_the_lines_of_stripped_programs(self):
        recording = self.record("shop.otlp", "--lines=off")
        whole = self.dir / "shop.debug"
        self.program.rename(whole)
        subprocess.run(["objcopy", "--strip-all", whole, self.program], check=True)
        report = self.spanprof("report", "--lines", recording)
        self.assertNotIn("shop.cc:", report.stdout)
        self.assertRegex(
            report.stderr,
            r"no source lines of .*\bshop\b.*: there is no debug information of it on this machine")
        self.assertNotIn("vdso", report.stderr)
        self.assertNotIn("source lines", self.spanprof("report", recording).stderr, "nobody has asked")
        subprocess.run(["objcopy", "--only-keep-debug", whole, whole], check=True)
        subprocess.run(["objcopy", f"--add-gnu-debuglink={whole}", self.program], check=True)
        self.assertTrue(self.in_mix(self.spanprof("report", "--lines", recording).stdout))
        whole.write_bytes(whole.read_bytes()[:-100])
        report = self.spanprof("report", "--lines", recording)
        self.assertNotIn("shop.cc:", report.stdout, "cut off")
        self.assertRegex(report.stderr, r"no source lines of .*\bshop\b")


if __name__ == "__main__":
    tap.main()
