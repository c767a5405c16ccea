#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unwind tables of some forty libraries and programs, row by row, against readelf's (readelf_rows.py); all
that the machine has: test-long-rows.py.

By hand: test-unwind-rows.py --files FILE… prints one line a file.
"""
import glob
import os
import pathlib
import subprocess
import sys

import session
import tap
from readelf_rows import LANDING_CODE, Table, compare, problems, readelf

LIBRARIES = """libc libm libstdc++ libgcc_s libcrypto libssl libz libzstd liblzma libcurl libexpat libglib-2.0 libelf libdw
    libsqlite3 libncursesw libreadline libpcre2-8 libgmp libxml2 libgnutls libsystemd libbpf ld-linux-x86-64 libgobject-2.0
    libpython3.11 libperl libprotobuf libxxhash libjansson libmpfr libarchive libdb-5.3 libldap-2.5 libkrb5""".split(
)
PROGRAMS = [
    "/usr/bin/python3", "/usr/bin/bash", "/usr/bin/git", "/usr/bin/perl", "/usr/bin/openssl",
    "/usr/bin/ld.bfd"
]


VICTIM = tap.SOURCE_DIR / "tests/victims/native/debug-frame.S"


def machine_files():
    """Real paths of what there is: at least the C library and this interpreter."""
    paths = []
    for name in LIBRARIES:
        paths += sorted(glob.glob(f"/usr/lib/x86_64-linux-gnu/{name}.so*"))[:1]
    paths += [p for p in PROGRAMS if os.path.exists(p)] + glob.glob("/usr/lib/jvm/*/lib/server/libjvm.so")[:1]
    return sorted({
        os.path.realpath(p) for p in paths if pathlib.Path(os.path.realpath(p)).read_bytes()[:4] == b"\x7fELF"
    })


class Rows(tap.TestCase):
    def check(self, path, *args):
        n, wrong, _, _ = problems(path, *args)
        self.assertEqual(wrong, [], path)
        self.assertGreater(n, 0)

    def test_of_libraries_agree_with_readelf(self):
        files = machine_files()
        self.assertGreater(len(files), 5)
        for path in files:
            with self.subTest(path):
                self.check(path)

    def test_are_added_where_an_exception_leaves(self):
        path = "/usr/lib/x86_64-linux-gnu/libgcc_s.so.1"
        code = subprocess.run([tap.need_tool("objdump"), "-d", path], capture_output=True, text=True).stdout
        table = compare(path)[3]
        self.assertEqual(len(table.landings), 2 * code.count(LANDING_CODE[0]))
        self.assertGreaterEqual(len(table.landings), 8)

    def test_take_few_bytes(self):
        """A regression of the packing shows here, whatever the machine's speed."""
        directory = "/usr/lib/x86_64-linux-gnu/"
        libc = Table(directory + "libc.so.6").counts
        if os.confstr("CS_GNU_LIBC_VERSION") == "glibc 2.36":
            self.assertLessEqual(libc["bytes"], 96 << 10)
        for counts in (libc, Table(directory + "libstdc++.so.6").counts):
            self.assertLess(counts["bytes"] / counts["rows"], 4.2)
        # One block of directory, one of rows: 1.5 KiB of text.
        self.assertEqual(Table(tap.VICTIMS / "victim-omit").counts["bytes"], 8192)

    def test_are_the_same_without_the_linkers_table(self):
        for name in ("libc.so.6", "libstdc++.so.6"):
            path = f"/usr/lib/x86_64-linux-gnu/{name}"
            with_table, scanned = Table(path), Table(path, "--scan")
            self.assertEqual(with_table.starts, scanned.starts)
            self.assertEqual(with_table.rules, scanned.rules)
            self.assertEqual(with_table.counts, scanned.counts)

    def compile(self, source, *options):
        directory = self.directory()
        (directory / "a.c").write_text(source)
        self.run_command([tap.need_tool("gcc"), "-O2", "-o", directory / "a", directory / "a.c", *options],
                         expect=0)
        return directory / "a"

    SOURCE = "#include <stdio.h>\nint main(int n, char **v) { char b[n + 99]; return snprintf(b, n, \"%s\", v[0]); }\n"

    def test_of_a_static_program_are_found_by_its_section_table(self):
        program = self.compile(self.SOURCE, "-static")
        self.assertNotIn("GNU_EH_FRAME", "\n".join(readelf("-lW", program)),
                         "this toolchain tests nothing here")
        self.check(program)

    def test_come_from_debug_frame_where_there_is_no_eh_frame(self):
        program = self.compile(self.SOURCE.replace("main", "start"), "-g", "-fno-asynchronous-unwind-tables",
                               "-fno-exceptions", "-nostdlib", "-Wl,-e,start",
                               "-Wl,--unresolved-symbols=ignore-all", "-no-pie", "-static")
        self.assertNotIn(".eh_frame", "\n".join(readelf("-SW", program)), "this toolchain tests nothing here")
        self.check(program, ".debug_frame")

    def test_come_from_debug_frame_beside_eh_frame(self):
        """An assembly file has its rows in .debug_frame alone, the C library's startup code in .eh_frame. Its
        rows are readelf's, and stacks through it are whole. Without that section they end in it."""
        where = self.directory()
        program, without = where / "program", where / "without"
        self.run_command([tap.need_tool("gcc"), "-o", program, VICTIM], expect=0)
        self.run_command([tap.need_tool("objcopy"), "--remove-section=.debug_frame", program, without],
                         expect=0)
        self.check(program, ".debug_frame")
        self.check(program)
        for name, ends_early in ((program, False), (without, True)):
            child = self.spawn([tap.SPANPROF, "record", "-F", "499", "--kernel-stacks=off", "-o",
                                where / "x.folded", "--", name], env=session.clean_environment())
            self.assertEqual(child.wait(), 0, child.err)
            rows = [line.rsplit(" ", 1) for line in (where / "x.folded").read_text().splitlines()]
            n_all = sum(int(n) for stack, n in rows if stack.endswith("hot"))
            n_whole = sum(int(n) for stack, n in rows if stack.endswith(";main;top;mid;hot"))
            self.assertGreater(n_all, 200, rows)
            if ends_early:
                self.assertEqual(n_whole, 0, rows)
            else:
                self.assertGreater(n_whole / n_all, 0.99, rows)


if __name__ == "__main__" and sys.argv[1:2] == ["--files"]:
    for name in sys.argv[2:]:
        n, differences, unsupported, table = compare(name)
        print(
            f"{os.path.basename(name):28} {n:8} rows {len(differences):6} differ  unsupported {dict(unsupported)}",
            {k: v for k, v in table.counts.items() if k[0] in "po"}, flush=True)
        print("".join(f"  {d}\n" for d in differences[:5]), end="")
elif __name__ == "__main__":
    tap.main()
