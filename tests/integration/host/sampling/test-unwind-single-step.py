#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unwinds at every instruction of real programs, by the kernel half's own lines on the host.

Two truths: nearly every stack must end at its root, the exceptions being places that are known to have no
(right) call frame information; and at each new pc, libdw must agree on the same registers. A third, from exec
on: each stack must be the calls that the program has made, whatever the file says of its code.
"""
import collections
import os
import re
import sys

import tap

STEP = tap.ORACLES / "single-step"


class SingleStep(tap.TestCase):
    def check(self, argv, steps, skip, gate, least_derived=0, env=None):
        done = self.run_command([STEP, steps, skip, *argv], expect=0, timeout=280, env=env)
        last = re.search(r"steps (\d+) complete (\d+) pcs (\d+) compared (\d+) differ (\d+) .* called (\d+) wrong (\d+) "
                         r"whole (\d+) derived (\d+)", done.stdout)
        self.assertTrue(last, done.stdout[-2000:] + done.stderr[-2000:])
        n, _, _, compared, differ, called, wrong, whole, derived = map(int, last.groups())
        self.assertGreater(compared, 100)
        self.assertEqual(differ, 0, [x for x in done.stdout.splitlines() if x.startswith("differs")][:10])
        self.assertEqual(wrong, 0, [x for x in done.stdout.splitlines() if x.startswith("wrong")][:10])
        self.assertGreaterEqual(whole, called * gate)
        self.assertGreaterEqual(called, 0 if str(skip).endswith("ms") else n)
        self.assertGreaterEqual(derived, least_derived)
        print(f"# {argv[0]}: {n} steps, {whole} of {called} whole, {wrong} wrong; {derived} places with derived rows",
              flush=True)
        incomplete = collections.Counter()
        for line in done.stdout.splitlines():
            if line.startswith("incomplete"):
                _, count, end, where = line.split()
                incomplete[where] += int(count)
        self.assertGreaterEqual(1 - sum(incomplete.values()) / n, gate, incomplete.most_common(10))
        return incomplete

    def test_a_program_from_exec_to_its_end(self):
        self.check(["/bin/true"], 400000, 0, 0.999)

    def test_a_program_that_is_called_back_by_libc(self):
        self.check([tap.VICTIMS / "victim-omit", "qsort"], 60000, 0, 0.999)

    def test_a_program_without_frame_pointers_from_exec(self):
        self.check([tap.VICTIMS / "victim-omit", "saved"], 60000, 0, 0.999)

    def test_musl_without_call_frame_information(self):
        """Nearly all rows are derived from the code."""
        program = self.directory() / "musl-busy"
        self.run_command([tap.need_tool("musl-gcc"), "-O2", "-static", "-o", program,
                          tap.SOURCE_DIR / "tests/victims/native/musl-busy.c"], expect=0)
        self.check([program, 12], 60000, 0, 0.999, least_derived=1000)

    def test_python(self):
        self.check([os.path.realpath(sys.executable), "-S", "-c", "while 1: sorted(str(i) for i in range(99))"],
                   20000, "500ms", 0.999)

    def test_a_program_that_throws(self):
        victim = tap.VICTIMS / "victim-throw"
        if not victim.exists():
            tap.skip("tool: no C++ compiler")
        # libgcc overwrites its own return address before it leaves: some 44 instructions until the landing
        # pad's
        # address is in its place, of which those show that leave for a frame of another size. 99.91 % in the
        # long run.
        incomplete = self.check([victim], 100000, "300ms", 0.9985)
        self.assertEqual({where.split("+")[0].rsplit("/", 1)[-1] for where in incomplete} - {"libgcc_s.so.1"},
                         set())


if __name__ == "__main__":
    tap.main()
