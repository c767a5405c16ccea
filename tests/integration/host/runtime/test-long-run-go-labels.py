#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Labels of goroutines with each toolchain from Go 1.18 on, in each form of linking; and the table of layouts
beside their debug information."""
import importlib
import os
import re
import subprocess

import golang
import tap

labels = importlib.import_module("test-run-go-labels")

ROUND = 10_000
TABLE = tap.SOURCE_DIR / "daemon/host/runtime/go/go-layout.c"
# options → whether a part of the work is in C
FORMS = {("-ldflags=-s -w",): False, ("-buildmode=pie",): False, ("-ldflags=-s -w",
                                                                   "-buildmode=pie"): True, ("-race",): True}
MEMBERS = {("runtime.g", "m"), ("runtime.g", "goid"), ("runtime.g", "labels"), ("runtime.m", "curg")}


def layout(minor):
    """The table's line for a version: {(type, member): offset}."""
    rows = [tuple(map(int, row)) for row in re.findall(r"\{ (\d+), (\d+), (\d+), (\d+), (\d+), GO_", TABLE.read_text())]
    row = max(row for row in rows if row[0] <= minor)
    return {("runtime.g", "m"): row[1], ("runtime.g", "goid"): row[2], ("runtime.g", "labels"): row[3],
            ("runtime.m", "curg"): row[4]}


def debug_layout(program):
    """The same as the debug information of a program says it."""
    out = subprocess.run(["readelf", "--debug-dump=info", program], capture_output=True, text=True,
                         errors="replace", check=True).stdout
    found, type_, member, depth, tag = {}, None, None, 0, ""
    for line in out.splitlines():
        if entry := re.match(r" *<(\d+)><\w+>: Abbrev Number: \d+ \((\w+)\)", line):
            depth, tag, member = int(entry[1]), entry[2], None
            type_ = None if depth == 1 else type_
        elif name := re.search(r"DW_AT_name +: (?:\(.*?\): )?(\S+)", line):
            if depth == 1 and tag == "DW_TAG_structure_type":
                type_ = name[1]
            elif depth == 2:
                member = name[1]
        elif place := re.search(r"DW_AT_data_member_location: (\d+)", line):
            if (type_, member) in MEMBERS:
                found[type_, member] = int(place[1])
    return found


class Toolchains(labels.GoLabels):
    def toolchain(self, minor):
        go = self.go.fetch(golang.RELEASES[minor])
        return go or tap.skip(f"tool: Go {golang.RELEASES[minor]} could not be had")

    def check_toolchain(self, minor):
        go = self.toolchain(minor)
        tap.need_tool("gcc")
        for options, c in FORMS.items():
            with self.subTest(options=options):
                print(f"# Go 1.{minor} {' '.join(options)}", flush=True)
                self.check_program(self.build(go, *options, c=c))
        with self.subTest(options="c-shared"):
            self.check_library(go)
        if minor < 24:  # more labels than a bucket of a map holds
            self.check_program(self.build(go), labels=12)

    def test_many_samples(self):
        """SPANPROF_TEST_LABEL_SAMPLES says how many, for a run by hand: a victim for each 10,000."""
        program, left = self.build(self.go), int(os.environ.get("SPANPROF_TEST_LABEL_SAMPLES", ROUND))
        total = 0
        while left > 0:
            _, linked = self.check_program(program, goroutines=24, n=min(left, ROUND), hz=("--frequency", "4999"))
            total, left = total + len(linked), left - len(linked)
            print(f"# {total} samples with spans so far, none wrong", flush=True)

    def check_layout(self, minor):
        tap.need_tool("readelf")
        self.assertEqual(layout(minor), debug_layout(self.build(self.toolchain(minor))))


for _minor in golang.RELEASES:
    setattr(Toolchains, f"test_go_1_{_minor}", lambda self, minor=_minor: self.check_toolchain(minor))
    setattr(Toolchains, f"test_layout_of_go_1_{_minor}", lambda self, minor=_minor: self.check_layout(minor))

if __name__ == "__main__":
    tap.main()
