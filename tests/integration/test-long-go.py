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


for _name in [name for name in dir(go_tests.Stacks) if name.startswith("test_")]:
    setattr(Toolchains, _name, None)    # of this machine's Go alone
for _minor in golang.RELEASES:
    setattr(Toolchains, f"test_go_1_{_minor}", lambda self, minor=_minor: self.check_toolchain(minor))

if __name__ == "__main__":
    tap.main()
