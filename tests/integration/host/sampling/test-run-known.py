#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes of known files: short ones, forked ones and late libraries, in code without frame pointers. The
share of whole stacks by count, generous, and no stack that says it is whole and is not."""
import oracle

oracle.enter()

import collections
import re
import time

import otlp_read
import session
import tap

SYMBOLS = otlp_read.Symbols()
BRIEF = tap.VICTIMS / "victim-brief"
CHAIN = ["brief_leaf", "brief_three", "brief_two", "brief_one", "main"]
LIBRARY = ["library_inner", "library_burn", *CHAIN]
HZ = ("--frequency", "199")
TRUNCATED = "profile.stack.truncated"


def names(sample):
    return [SYMBOLS.name(f) for f in sample.frames if f.type != "kernel"]


def own(sample, chain):
    return [n for n in names(sample) if n in chain]


class Known(session.TestCase):
    def burn(self, n, ms):
        """@n processes one after the other; their pids."""
        pids = set()
        for _ in range(n):
            out = self.run_command([BRIEF, "burn", ms], expect=0).stdout
            pids.add(int(re.match(r"pid (\d+)", out)[1]))
        return pids

    def judge(self, what, samples, share, chain):
        """Samples in the chain's first function; whole: all of it, in order, with the root."""
        self.assertGreater(len(samples), 50, what)
        whole = 0
        for sample in samples:
            found, called = own(sample, chain), names(sample)
            if found == chain and called[-1] == "_start" and TRUNCATED not in sample.attributes:
                whole += 1
            elif TRUNCATED not in sample.attributes:
                self.assertTrue("brief_leaf" not in found or found[found.index("brief_leaf"):] == CHAIN,
                                f"a stack that says it is whole: {called}")
        cut = collections.Counter(s.attributes[TRUNCATED] for s in samples if TRUNCATED in s.attributes)
        print(f"{what}: {whole} of {len(samples)} stacks whole ({whole / len(samples):.3f}); {dict(cut)}")
        self.assertGreater(whole / len(samples), share, what)

    def warm(self, run):
        """From here on the files are known."""
        victim = self.spawn([BRIEF, "burn", 600])
        self.assertEqual(victim.wait(), 0, victim)
        run.wait_events(30, victim.pid)

    def test_short_processes(self):
        run = self.start("--comm", "victim-brief", *HZ)
        self.warm(run)
        pids = {ms: self.burn(n, ms) for ms, n in ((20, 60), (100, 20))}
        result = run.stop()
        for ms, share in ((20, 0.6), (100, 0.9)):
            self.judge(f"processes of {ms} ms",
                       [s for s in result.samples if s.resource["process.pid"] in pids[ms]], share, CHAIN)
        tables = result.counter("unwind_tables_total")
        self.assertLessEqual(tables["loaded"], 6, "each file is read once: program, ld.so, libc, vdso")
        self.assertGreater(result.counter("calls_total")["at_once"], 70)

    def test_forked_children(self):
        run = self.start("--comm", "victim-brief", *HZ)
        self.warm(run)
        server = self.spawn([BRIEF, "serve", 60, 20])
        self.assertEqual(server.wait(), 0, server)
        result = run.stop()
        children = set(map(int, re.findall(r"^child (\d+)", server.out, re.M)))
        self.judge("forked children", [s for s in result.samples if s.resource["process.pid"] in children], 0.9,
                   CHAIN)
        self.assertEqual(result.counter("forks_over_cap_total"), 0)

    def forked(self, *options, library=()):
        """Samples of children that end at once."""
        run = self.start(*options, *HZ)
        self.warm(run)
        servers = [self.spawn([BRIEF, "serve", 100, ms, *library]) for ms in (5, 10, 15)]
        for server in servers:
            self.assertEqual(server.wait(), 0, server)
        result = run.stop()
        children = {int(pid) for server in servers for pid in re.findall(r"^child (\d+)", server.out, re.M)}
        samples = [s for s in result.samples if s.resource["process.pid"] in children]
        self.assertGreater(len(samples), 100)
        return samples

    def test_forked_children_that_end_at_once_have_files_and_names(self):
        for options in (("--comm", "victim-brief"), ("--all",)):
            with self.subTest(options=options):
                samples = self.forked(*options)
                for sample in samples:
                    user = [f for f in sample.frames if f.type != "kernel"]
                    self.assertTrue(all(f.path for f in user), f"frames without a file: {user}")
                whole = [s for s in samples if TRUNCATED not in s.attributes and own(s, ["brief_leaf"])]
                self.assertGreater(len(whole), 100)
                for sample in whole:
                    self.assertEqual(own(sample, CHAIN), CHAIN)

    def test_forked_children_that_end_at_once_have_no_names_of_their_parent_in_their_library(self):
        for options in (("--comm", "victim-brief"), ("--all",)):
            with self.subTest(options=options):
                samples = self.forked(*options, library=[tap.VICTIMS / "libswap-b.so"])
                inside = [s for s in samples if "library_inner" in names(s)]
                self.assertGreater(len(inside), 50)
                for sample in inside:
                    self.assertEqual(names(sample)[0], "library_inner")
                    found = own(sample, LIBRARY)
                    self.assertEqual(found, LIBRARY[:len(found)])
                for sample in samples:
                    found = own(sample, CHAIN)
                    self.assertEqual(found, [n for n in CHAIN if n in found])

    def test_forked_children_with_a_library_of_their_own(self):
        run = self.start("--comm", "victim-brief", *HZ)
        self.warm(run)
        library = tap.VICTIMS / "libswap-b.so"
        server = self.spawn([BRIEF, "serve", 30, 150, library])
        self.assertEqual(server.wait(), 0, server)
        result = run.stop()
        children = set(map(int, re.findall(r"^child (\d+)", server.out, re.M)))
        samples = [s for s in result.samples if s.resource["process.pid"] in children]
        inside = [s for s in samples if names(s)[:1] == ["library_inner"]]
        self.judge("children in a library of their own", inside, 0.7, LIBRARY)

    def libraries(self, n):
        """Copies of a library, which differ in nothing but their file."""
        data, directory = (tap.VICTIMS / "libswap-a.so").read_bytes(), self.directory()
        for i in range(n):
            (directory / f"libnumber-{i}.so").write_bytes(data)
        return sorted(directory.glob("*.so"))

    def test_libraries_that_were_seen_before(self):
        run = self.start("--comm", "victim-dlopen", *HZ)
        paths = self.libraries(12)
        pids = []
        for _ in range(2):
            victim = self.spawn([tap.VICTIMS / "victim-dlopen", "series", 0.1, *paths])
            self.assertEqual(victim.wait(), 0, victim)
            pids.append(victim.pid)
            time.sleep(0.5)
        result = run.stop()
        chain = ["library_inner", "library_burn", "main"]
        inside = [s for s in result.samples if s.resource["process.pid"] == pids[1] and
                  names(s)[:1] == ["library_inner"]]
        self.judge("libraries seen before", inside, 0.85, chain)
        tables = result.counter("unwind_tables_total")
        self.assertLessEqual(tables["loaded"], 12 + 6, "the second process brought nothing new")
        self.assertGreaterEqual(tables["known"], 12)

    def test_two_files_of_one_build_id_are_two(self):
        """Rows of one would be wrong for the other: their functions have frames of other sizes."""
        run = self.start("--comm", "victim-dlopen", *HZ)
        directory = self.directory()
        first, second = ((tap.VICTIMS / f"libswap-{x}.so").read_bytes() for x in "ab")
        ids = []
        for data in (first, second):
            at = data.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16
            ids.append((at, data[at:at + 20]))
        self.assertNotEqual(ids[0][1], ids[1][1])
        at = ids[1][0]
        (directory / "libfirst.so").write_bytes(first)
        (directory / "libsecond.so").write_bytes(second[:at] + ids[0][1] + second[at + 20:])
        pids = []
        for order in (("libfirst.so", "libsecond.so"), ("libsecond.so", "libfirst.so")):
            victim = self.spawn(
                [tap.VICTIMS / "victim-dlopen", "series", 0.8, *(directory / name for name in order)])
            self.assertEqual(victim.wait(), 0, victim)
            pids.append(victim.pid)
            time.sleep(0.3)
        result = run.stop()
        samples = [s for s in result.samples if s.resource["process.pid"] in pids]
        inside = [s for s in samples if any(f.build_id == ids[0][1].hex() for f in s.frames)]
        whole = [s for s in inside if TRUNCATED not in s.attributes and names(s)[-1] == "_start"]
        for sample in whole:
            called = names(sample)
            self.assertIn("main", called, called)
            # ld.so runs the library's initialisers deep below dlopen().
            if "call_init" not in called:
                self.assertLessEqual(len(called), 8, called)
        print(f"one build id: {len(whole)} of {len(inside)} stacks whole")
        self.assertGreater(len(inside), 200)
        self.assertGreater(len(whole) / len(inside), 0.85)


if __name__ == "__main__":
    tap.main()
