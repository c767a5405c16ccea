#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goroutines that wait, with each toolchain from Go 1.18 on, beside the program's own profile; and the tables
of layouts and reasons beside its debug information and its source."""
import importlib
import pathlib
import re

import golang
import tap

goroutines = importlib.import_module("test-run-goroutines")
labels = importlib.import_module("test-long-run-go-labels")

FORMS = [(), ("-buildmode=pie",), ("-race",), ("-ldflags=-s -w",)]
LAYOUT = tap.SOURCE_DIR / "daemon/host/runtime/go/go-layout.c"
REASONS = tap.SOURCE_DIR / "daemon/host/runtime/go/goroutine.c"
FIELDS = ("sched", "syscallsp", "syscallbp", "atomicstatus", "waitreason", "startpc")


def layout(minor):
    """The table's line for a version: offsets of FIELDS; of sched that of bp in it."""
    rows = [tuple(map(int, row)) for row in re.findall(r"\{ " + r"(\d+), " * 6 + r"(\d+) \},", LAYOUT.read_text())]
    return dict(zip(FIELDS, max(row for row in rows if row[0] <= minor)[1:], strict=True))


def reasons(minor):
    """The words of a version, in order."""
    name = "from_26" if minor >= 26 else "until_25"
    table = re.search(rf"Reason {name}\[\] = \{{\n(.*?)\n\}};", REASONS.read_text(), re.S)[1]
    rows = re.findall(r'\{ "(.*?)", (\d+), (\d+|NO_END) \},', table)
    return [words for words, first, last in rows
            if last == "0" or int(first) <= minor <= (255 if last == "NO_END" else int(last))]


class Toolchains(goroutines.Goroutines):
    def toolchain(self, minor):
        go = self.go.fetch(golang.RELEASES[minor])
        return go or tap.skip(f"tool: Go {golang.RELEASES[minor]} could not be had")

    def check_toolchain(self, minor):
        go = self.toolchain(minor)
        for options in FORMS:
            if "-race" in options:
                tap.need_tool("gcc")
            with self.subTest(options=options):
                print(f"# Go 1.{minor} {' '.join(options)}", flush=True)
                self.check_program(self.build(go, *options))

    def check_tables(self, minor):
        tap.need_tool("readelf")
        go = self.toolchain(minor)
        labels.MEMBERS |= {("runtime.g", field) for field in (*FIELDS, "stack")}
        labels.MEMBERS |= {("runtime.gobuf", field) for field in ("sp", "pc", "bp")}
        found = labels.debug_layout(self.build(go))
        of_g = {field: found.get(("runtime.g", field), 0) for field in FIELDS}
        of_g["sched"] += found["runtime.gobuf", "bp"]
        self.assertEqual(of_g, layout(minor))
        self.assertEqual((found["runtime.g", "stack"], found["runtime.g", "sched"] + found["runtime.gobuf", "sp"],
                          found["runtime.g", "sched"] + found["runtime.gobuf", "pc"]), (0, 56, 64))
        source = (pathlib.Path(go.program).parents[1] / "src/runtime/runtime2.go").read_text()
        self.assertEqual(re.findall(r'^\twaitReason\w+ .*// "(.*)"$', source, re.M), reasons(minor))


for _minor in golang.RELEASES:
    setattr(Toolchains, f"test_go_1_{_minor}", lambda self, minor=_minor: self.check_toolchain(minor))
    setattr(Toolchains, f"test_tables_of_go_1_{_minor}", lambda self, minor=_minor: self.check_tables(minor))

if __name__ == "__main__":
    tap.main()
