#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The comparison that other tests rest on: it must accept what is equal and refuse what is not."""
import collections
import pathlib
import random
import sys

import compare
import tap

# A long tail, as programs have: 40 functions, share proportional to 1 / rank.
WEIGHTS = {f"function_{i}": 1 / (i + 1) for i in range(40)}


def draw(rng, n, weights):
    return collections.Counter(rng.choices(list(weights), list(weights.values()), k=n))


def shifted(points):
    """WEIGHTS with @points percentage points taken from the hottest function and given to the fifth."""
    whole = sum(WEIGHTS.values())
    return {**WEIGHTS, "function_0": WEIGHTS["function_0"] - points / 100 * whole,
            "function_4": WEIGHTS["function_4"] + points / 100 * whole}


class Proportions(tap.TestCase):
    def test_p_values_are_those_of_the_tables(self):
        # 55 of 100 and 40 of 100: pooled 0.475, z = (0.15 - 0.01) / sqrt(0.475 · 0.525 · 0.02) = 1.9824,
        # two-sided 0.0474
        self.assertAlmostEqual(compare.proportion_p(55, 100, 40, 100), 0.0474, places=4)
        # z = (0.01 - 0.0001) / sqrt(0.105 · 0.895 · 0.0002) = 2.2837, two-sided 0.0224
        self.assertAlmostEqual(compare.proportion_p(1100, 10000, 1000, 10000), 0.0224, places=4)
        self.assertEqual(compare.proportion_p(5, 10, 50, 100), 1.0)
        self.assertEqual(compare.proportion_p(0, 10, 0, 20), 1.0)

    def test_accepts_equal_distributions(self):
        rng = random.Random(1)
        alarms = sum(
            not compare.two_samples(draw(rng, 4000, WEIGHTS), draw(rng, 6000, WEIGHTS), alpha=0.01).agrees
            for _ in range(300))
        # At alpha 0.01 at most 3 of 300 are expected; 11 or more has a probability of 0.0003.
        self.assertLess(alarms, 11)

    def test_alarms_are_not_impossible(self):
        rng = random.Random(2)
        alarms = sum(
            not compare.two_samples(draw(rng, 4000, WEIGHTS), draw(rng, 4000, WEIGHTS), alpha=0.5).agrees
            for _ in range(100))
        self.assertGreater(alarms, 10)

    def test_rejects_shifted_distributions(self):
        rng = random.Random(3)
        for points in (5, 10):
            for _ in range(50):
                result = compare.two_samples(draw(rng, 5000, WEIGHTS), draw(rng, 5000, shifted(points)))
                self.assertFalse(result.agrees, f"{points} points\n{result}")
                self.assertTrue({row.category for row in result.different} <= {"function_0", "function_4"},
                                str(result))

    def test_rejects_a_function_that_only_one_side_has(self):
        a = collections.Counter(x=9500, y=500)
        b = collections.Counter(x=9500, z=500)
        self.assertEqual({row.category for row in compare.two_samples(a, b).different}, {"y", "z"})

    def test_small_functions_are_judged_together(self):
        small = {f"small_{i}": 20 for i in range(50)}
        a, b = collections.Counter(big=9000, **small), collections.Counter(big=9000, other=1000)
        self.assertEqual({row.category for row in compare.two_samples(a, b).different},
                         {compare.REST, "other"})
        b = collections.Counter(big=9000, **{f"tiny_{i}": 20 for i in range(50)})
        self.assertTrue(compare.two_samples(a, b).agrees)

    def test_too_few_samples_are_no_agreement(self):
        with self.assertRaises(ValueError):
            compare.two_samples(collections.Counter(x=100), collections.Counter(x=10000))
        with self.assertRaises(ValueError):
            compare.two_samples(collections.Counter(), collections.Counter())

    def test_says_it_on_the_command_line(self):
        directory = self.directory()
        for name, count in (("a", 500), ("b", 510), ("c", 900)):
            (directory / name).write_text(f"{count}\tmain\n{1000 - count}\twork hard\n")
        script = pathlib.Path(compare.__file__)
        self.run_command([sys.executable, script, directory / "a", directory / "b"], expect=0)
        done = self.run_command([sys.executable, script, directory / "a", directory / "c"], expect=1)
        self.assertIn("2 of 2 categories differ", done.stdout)


# perf script 6.1 of `perf record -e cpu-clock [-g]`, with --ns -F comm,pid,tid,time,ip,sym,dso
WITH_STACKS = """\
xz 18460/18460  4462.738387407: 
\t          167adf __strlen_evex (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t  656c61636f6c2f [unknown] ([unknown])

Web Content 18458/18459  4462.753603183: 
\tffffffff816dfdb6 __d_lookup_rcu ([kernel.kallsyms])
\tffffffffc0aa1234 ext4_find_extent+0x14 ([ext4])
\t           f786a std::map<int, (anonymous namespace)::T>::at(int) const (/opt/a (b)/lib.so)

head 18463/18463  4462.754605445: 

"""
WITHOUT_STACKS = """\
            head 18564/18564  4467.168270949:      7f046ff7587a get_common_indices.constprop.0 (/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2)
              dd 18565/18565  4467.173839130:      7f91f1ece25f [unknown] (/usr/lib/x86_64-linux-gnu/liblzma.so.5.4.1)
"""


class PerfScript(tap.TestCase):
    def test_reads_stacks(self):
        xz, web, head = compare.perf_script(WITH_STACKS)
        self.assertEqual((xz.comm, xz.pid, xz.time_ns), ("xz", 18460, 4462738387407))
        self.assertEqual(xz.frames, [
            compare.Frame(0x167ADF, "__strlen_evex", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
            compare.Frame(0x656C61636F6C2F, "[unknown]", "[unknown]")])
        self.assertEqual((web.comm, web.pid, web.tid), ("Web Content", 18458, 18459))
        self.assertEqual(
            [f.symbol for f in web.frames],
            ["__d_lookup_rcu", "ext4_find_extent", "std::map<int, (anonymous namespace)::T>::at(int) const"])
        self.assertEqual(web.frames[2].object, "/opt/a (b)/lib.so")
        self.assertEqual(head.frames, [])

    def test_reads_single_frames(self):
        first, second = compare.perf_script(WITHOUT_STACKS)
        self.assertEqual(first.frames[0].symbol, "get_common_indices.constprop.0")
        self.assertEqual(second.comm, "dd", "a name that could be an address")
        self.assertEqual(second.frames, [compare.Frame(0x7F91F1ECE25F, "[unknown]",
                                                       "/usr/lib/x86_64-linux-gnu/liblzma.so.5.4.1")])

    def test_counts_innermost_frames(self):
        them = list(compare.perf_script(WITH_STACKS + WITHOUT_STACKS))
        self.assertEqual(compare.objects(them), {"libc.so.6": 1, "[kernel]": 1, "ld-linux-x86-64.so.2": 1,
                                                 "liblzma.so.5.4.1": 1})
        self.assertEqual(compare.functions(them)["libc.so.6", "__strlen_evex"], 1)

    def test_refuses_what_is_no_perf_script(self):
        for text in ("garbage\n", "xz 1/1 2.0:\n\tnonsense\n"):
            with self.assertRaises(ValueError):
                list(compare.perf_script(text))


tap.main()
