#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where memory grows (--page-faults), against a program that counts its own faults (tests/victims/native/victim-faults.c)."""
import oracle

oracle.enter()

import collections
import os
import pathlib
import re
import subprocess
import sys

import otlp_read
import session
import tap

SHARES = {"touch_f": 0.5, "touch_g": 0.3, "touch_h": 0.2}
SECONDS = 7      # of the victim, at least
FAULTS = 1_000_000      # of it, at least: with fewer, chance would make more than the shares may be off by
ROUNDS = 20     # of MEMORY, at least
FREQUENCY = 1999        # Hz: by 2 points from chance, samples of a CPU and second must be many
FILE_BYTES = 16 << 20
KINDS = {"heap", "stack", "anonymous", "file", "shared", "other", "unknown"}

# Pages of four kinds of memory, as many of each, over and over. No huge pages: each page is a fault.
MEMORY = """
import ctypes, mmap, sys, tempfile, time
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_void_p
libc.sbrk.argtypes = [ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
size = 4000 * 4096
file = tempfile.NamedTemporaryFile(dir=sys.argv[1])
file.truncate(size)
libc.sbrk(-libc.sbrk(0) % 4096)
heap = libc.sbrk(size)
print("pid", flush=True)
sys.stdin.readline()
end, rounds = time.monotonic() + 5, 0
while time.monotonic() < end or rounds < int(sys.argv[2]):
    rounds += 1
    for flags, number in (mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1), (mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, -1), \\
            (mmap.MAP_PRIVATE, file.fileno()):
        with mmap.mmap(number, size, flags) as memory:
            memory.madvise(15)          # MADV_NOHUGEPAGE
            for at in range(0, size, 4096):
                memory[at] = 1
    libc.madvise(heap, size, mmap.MADV_DONTNEED)
    libc.madvise(heap, size, 15)
    for at in range(0, size, 4096):
        ctypes.memset(heap + at, 1, 1)
"""

# Huge pages of two kinds, two of each, over and over. The first second has few samples: it goes on for more.
HUGE = """
import mmap, sys, time
size = 2 << 20
print("pid", flush=True)
sys.stdin.readline()
end, rounds = time.monotonic() + 4, 0
while time.monotonic() < end or rounds < int(sys.argv[1]):
    rounds += 1
    for flags in mmap.MAP_PRIVATE, mmap.MAP_SHARED:
        with mmap.mmap(-1, 2 * size, flags | mmap.MAP_ANONYMOUS | 0x40000) as memory:      # MAP_HUGETLB
            memory[0] = memory[size] = 1
"""
HUGE_PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")
HUGE_ROUNDS = 4000     # at least


class PageFaults(session.NamingCase):
    def run_victim(self, *arguments, options=()):
        """(result, what the victim counted, its samples)"""
        victim = self.victim("faults", *map(str, arguments), stdin=subprocess.PIPE)
        run = self.start("--pid", victim.pid, "--page-faults", "--frequency", FREQUENCY, *options)
        run.child.wait_for("sampling|profiles go to")
        victim.process.stdin.close()
        victim.wait(60)
        result = run.stop()
        truth = session.truth_of(victim)
        faults = [s for s in result.faults if s.resource["process.pid"] == victim.pid]
        return result, truth, faults

    def need_mappings(self):
        tap.need_kernel((5, 17), "tells no program the mapping of an address")

    def check_books(self, result):
        """Each sample is delivered or counted, and so are the faults that it stands for."""
        samples, faults = result.counter("page_fault_samples_total"), result.counter("page_faults_total")
        self.assertGreater(samples["taken"], 0)
        lost = {key: n for key, n in samples.items() if n and key not in ("taken", "unknown")}
        self.assertEqual(lost, {})
        self.assertEqual(sum(s.value for s in result.faults), faults["sampled"])
        self.assertEqual((faults["budget"], faults["kernel_internal"]), (0, 0))

    def check_shares(self, faults):
        symbols, sums = otlp_read.Symbols(), collections.Counter()
        for sample in faults:
            if sample.attributes["page_fault.kind"] == "minor":
                sums[next(filter(SHARES.get, map(symbols.name, sample.frames)), None)] += sample.value
        known = sum(sums[name] for name in SHARES)
        self.assertGreaterEqual(known, 0.99 * sum(sums.values()), sums)
        for name, share in SHARES.items():
            self.assertAlmostEqual(sums[name] / known, share, delta=0.02, msg=sums)

    def check_sums(self, faults, truth):
        minor = sum(s.value for s in faults if s.attributes["page_fault.kind"] == "minor")
        self.assertAlmostEqual(minor / truth["minor"], 1, delta=0.02, msg=truth)

    def test_rounds_of_a_round_number_are_seen_as_they_are(self):
        result, truth, faults = self.run_victim(SECONDS, 100, FAULTS)
        self.check_books(result)
        self.check_shares(faults)
        self.check_sums(faults, truth)
        for sample in faults:
            self.assertEqual((sample.unit, sample.period_type, sample.period), ("count", "page_faults", 1))
            self.assertIn(sample.attributes["memory.kind"], KINDS)
        self.need_mappings()
        anonymous = sum(s.value for s in faults if s.attributes["memory.kind"] == "anonymous")
        self.assertGreater(anonymous, 0.98 * sum(s.value for s in faults))
        self.assertFalse([s for s in faults if "memory.huge_page" in s.attributes])

    def test_long_rounds_are_seen_as_they_are(self):
        _, truth, faults = self.run_victim(SECONDS, 5000, FAULTS)
        self.check_shares(faults)
        self.check_sums(faults, truth)

    def memory_table(self, paths):
        """What `report` prints: {memory: (faults, bytes)}"""
        out = self.run_command([tap.SPANPROF, "report", "--type", "page_faults", *paths]).stdout
        body = out.split("\nMemory\n")[1].split("\n\n")[0].splitlines()[1:]
        rows = [re.fullmatch(r" *(\d+) +[\d.]+% +([\d.]+ [KMG]?i?B)? +(\S.*)", line) for line in body]
        return {row[3]: (int(row[1]), row[2]) for row in rows}

    def check_pprof(self, result, sums):
        path = self.directory() / "faults.pb.gz"
        self.run_command([tap.SPANPROF, "convert", "--type", "page_faults", "-o", path, *result.paths])
        out = self.run_command([tap.SPANPROF, "report", path]).stdout
        self.assertRegex(out, rf"(?m)^Profile +page_faults in count\n +value +{sum(sums.values())}$")

    def test_major_faults_name_the_file(self):
        self.need_mappings()
        path = self.directory() / "read from disk"
        path.write_bytes(os.urandom(FILE_BYTES))
        result, truth, faults = self.run_victim(SECONDS, 20000, 0, path)
        if not truth["file"]:
            tap.skip("machine: the page cache keeps the file, as on a file system in memory")
        symbols, named, other = otlp_read.Symbols(), 0, 0
        for sample in faults:
            is_major = sample.attributes["page_fault.kind"] == "major"
            # memory that comes back from the swap has no file
            self.assertEqual("file.name" in sample.attributes,
                             is_major and sample.attributes["memory.kind"] == "file", sample)
            if sample.attributes.get("file.name") == path.name:
                self.assertEqual(sample.attributes["memory.kind"], "file")
                self.assertIn("touch_file", map(symbols.name, sample.frames))
                named += sample.value
            elif is_major:
                other += sample.value
        self.assertAlmostEqual((named + other) / truth["major"], 1, delta=0.02, msg=truth)
        self.assertGreaterEqual(named / truth["major"], 0.95, truth)
        self.assertEqual(self.memory_table(result.paths)[f"file, read from a disk: {path.name}"], (named, None))

    def test_kinds_of_memory_are_told(self):
        self.need_mappings()
        victim = self.spawn([sys.executable, "-c", MEMORY, self.directory(), str(ROUNDS)],
                            stdin=subprocess.PIPE)
        victim.wait_for("^pid")
        run = self.start("--pid", victim.pid, "--page-faults", "--frequency", FREQUENCY)
        victim.process.stdin.close()
        victim.wait(60)
        result = run.stop()
        sums = collections.Counter()
        for sample in result.faults:
            sums[sample.attributes["memory.kind"]] += sample.value
        # the lock of the mappings is free: nobody else changes them
        self.assertEqual(result.counter("page_fault_samples_total", "unknown"), 0)
        self.assertIn("cpython", {frame.type for sample in result.faults for frame in sample.frames})
        for kind in ("anonymous", "shared", "file", "heap"):
            self.assertAlmostEqual(sums[kind] / sum(sums.values()), 0.25, delta=0.05, msg=sums)
        table = self.memory_table(result.paths)
        for kind, n in sums.items():
            told = sum(row[0] for memory, row in table.items() if memory.split(",")[0] == kind)
            self.assertEqual(told, n, table)
        # about so many bytes, where each fault is a page
        for memory, (_, size) in table.items():
            self.assertEqual(bool(size), memory in ("heap", "stack", "anonymous"), table)
        self.assertRegex(table["heap"][1], r"MiB$|GiB$")
        self.check_pprof(result, sums)

    def test_private_huge_pages_of_hugetlbfs_are_anonymous(self):
        self.need_mappings()
        before = HUGE_PAGES.read_text()
        self.addCleanup(HUGE_PAGES.write_text, before)
        HUGE_PAGES.write_text(str(int(before) + 4))
        if int(HUGE_PAGES.read_text()) < int(before) + 4:
            tap.skip("machine: its memory has no huge page left")
        victim = self.spawn([sys.executable, "-c", HUGE, str(HUGE_ROUNDS)], stdin=subprocess.PIPE)
        victim.wait_for("^pid")
        run = self.start("--pid", victim.pid, "--page-faults", "--frequency", FREQUENCY)
        victim.process.stdin.close()
        victim.wait(60)
        result = run.stop()
        sums = collections.Counter()
        for sample in result.faults:
            sums[sample.attributes["memory.kind"], sample.attributes.get("memory.huge_page")] += sample.value
        self.assertEqual(sums["file", "possible"], 0, sums)
        huge = [sums[kind, "possible"] for kind in ("anonymous", "shared")]
        self.assertGreater(min(huge) / sum(huge), 0.2, sums)

    def test_a_recording_says_that_it_has_them(self):
        path = self.directory() / "growth.otlp"
        done = self.run_command([tap.SPANPROF, "record", "--page-faults", "-o", path, "--", tap.VICTIMS / "victim-faults",
                                 "2", "100"], stdin=subprocess.DEVNULL)
        said = re.search(r"growth +(\d+) page faults by \d+ samples: `report --type page_faults` of\s+the file has them",
                         done.stderr)
        self.assertTrue(said, done.stderr)
        self.assertEqual(sum(n for n, _ in self.memory_table([path]).values()), int(said[1]))

    def test_nothing_of_it_is_there_unless_it_is_asked_for(self):
        victim = self.victim("faults", "1", "100", stdin=subprocess.PIPE)
        run = self.start("--pid", victim.pid)
        victim.process.stdin.close()
        victim.wait(60)
        result = run.stop()
        self.assertEqual(result.faults, [])
        self.assertEqual(set(result.counter("page_fault_samples_total").values()), {0})
        self.assertEqual(set(result.counter("page_faults_total").values()), {0})


if __name__ == "__main__":
    tap.main()
