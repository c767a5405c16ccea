#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Heap profiles of programs of Go beside their own, with each toolchain from Go 1.18 on, in each form of
linking, at rest and under load."""
import importlib
import re

import golang
import tap

heap = importlib.import_module("test-go-heap")

FORMS = [(), ("-buildmode=pie", "-ldflags=-s -w"), ("-race",)]


class Toolchains(heap.HeapCase):
    def check_toolchain(self, minor):
        go = self.go.fetch(golang.RELEASES[minor])
        if not go:
            tap.skip(f"tool: Go {golang.RELEASES[minor]} could not be had")
        for options in FORMS:
            if "-race" in options:
                tap.need_tool("gcc")
            with self.subTest(options=options):
                print(f"# Go 1.{minor} {' '.join(options)}", flush=True)
                child = self.check_program(go, self.build(go, *options))
                self.check_load(go, child, 120)
                child.kill()

    def test_the_releases_are_those_that_are_read(self):
        text = (tap.SOURCE_DIR / "daemon/host/runtime/go/go-layout.h").read_text()
        self.assertEqual([int(n) for n in re.findall(r"GO_(?:FIRST|LAST)_MINOR = (\d+)", text)],
                         [min(golang.RELEASES), max(golang.RELEASES)])


for _minor in golang.RELEASES:
    setattr(Toolchains, f"test_go_1_{_minor}", lambda self, minor=_minor: self.check_toolchain(minor))

if __name__ == "__main__":
    tap.main()
