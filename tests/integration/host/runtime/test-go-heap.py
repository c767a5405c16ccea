#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Heap profiles of programs of Go, read from outside, beside what the programs say of themselves: each bucket
as runtime.MemProfile has it, each stack as runtime/pprof writes it. This machine's Go; test-long-go-heap.py
takes more."""
import collections
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import golang
import page_read
import tap

DUMP = tap.HARNESS / "go-heap-dump"
DEPTHS = 20                     # of VictimGoHeap.go, as the next
SIZES = {64, 128, 256, 512}
KNOWN = 32                      # addresses of a stack that runtime.MemProfileRecord has
EVERYWHERE = 0, "7fffffffffff"   # all buckets of a dump, without their stacks
MOVING = "Go changed the profile during every look; try again"
OFF = """package main

import (
        "fmt"
        "time"
)

func main() {
        fmt.Println("ready")
        time.Sleep(time.Hour)
}
"""

Bucket = collections.namedtuple("Bucket", "allocs frees alloc_bytes free_bytes stack")
Look = collections.namedtuple("Look", "cycle early tries buckets lines")


def buckets_of_program(text):
    """Counter of what `rest` and `dump` print last."""
    found = collections.Counter()
    for line in text[:text.rindex("done\n")].rsplit("done\n", 1)[-1].splitlines():
        words = line.split()
        if words[0] == "bucket" and words[1] != "0":
            found[Bucket(*map(int, words[1:5]), tuple(words[5:]))] += 1
    return found


def looks_of(text):
    looks = []
    for line in text.splitlines():
        words = line.split()
        if words[0] == "look":
            looks.append(Look(*map(int, words[1:]), []))
        else:
            looks[-1].lines.append(words)
    return looks


def buckets_of(look):
    found = collections.Counter()
    for size, allocs, frees, *stack in look.lines:
        size, allocs, frees = int(size), int(allocs), int(frees)
        found[Bucket(allocs, frees, allocs * size, frees * size, tuple(stack[:KNOWN]))] += 1
    return found


def stacks_of_raw(text):
    """({type: default?}, {stack of (function, file, line): values}) of `go tool pprof -raw`."""
    types = re.search(r"Samples:\n(.*)\n", text)[1].split()
    locations = collections.defaultdict(list)
    number = None
    for line in text[text.index("\nLocations\n"):text.index("\nMappings\n")].splitlines()[2:]:
        head = re.match(r"\s*(\d+): 0x[0-9a-f]+ (?:M=\d+ )?", line)
        if head:
            number, line = int(head[1]), line[head.end():]
        if place := re.match(r"\s*(\S.*?) (\S+?):(\d+)(?::\d+)? s=\d+", line):
            locations[number].append((place[1], place[2], int(place[3])))
        else:
            locations[number].append(line.strip())
    stacks = collections.defaultdict(lambda: [0] * len(types))
    body = text[text.index("Samples:\n"):text.index("\nLocations\n")]
    for values, stack in re.findall(r"^ *((?:-?\d+ +)*-?\d+): ((?:\d+ ?)*)$", body, re.M):
        frames = tuple(frame for location in stack.split() for frame in locations[int(location)])
        for i, value in enumerate(values.split()):
            stacks[frames][i] += int(value)
    return types, {stack: values for stack, values in stacks.items() if any(values)}


def states_of(pid):
    """{state of a thread}; one that ends meanwhile has none."""
    try:
        return {stat.read_text().rpartition(")")[2].split()[0] for stat in
                pathlib.Path(f"/proc/{pid}/task").glob("*/stat")}
    except (FileNotFoundError, ProcessLookupError):
        return set()


class HeapCase(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.go = golang.Go()
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.programs = pathlib.Path(directory.name)

    def build(self, go, *options):
        directory = self.programs / re.sub(r"\W", "", go.program + "".join(options))
        if not directory.exists():
            directory.mkdir()
            go.build(tap.SOURCE_DIR / "tests/victims/go/VictimGoHeap.go", directory / "go-heap", *options)
        return directory / "go-heap"

    def start_victim(self, program, rate=1, **options):
        child = self.spawn([program, str(rate)], stdin=subprocess.PIPE, **options)
        child.wait_for("descend")
        return child

    def tell(self, child, line):
        """What it has printed once it is done."""
        n = child.out.count("done\n")
        child.process.stdin.write(f"{line}\n".encode())
        child.process.stdin.flush()
        tap.wait_until(lambda: child.out.count("done\n") > n, f"{line} is done")
        return child.out

    def dump(self, child, looks=1, *words, expect=0):
        return looks_of(self.run_command([DUMP, child.pid, looks, *words], expect=expect, timeout=120).stdout)

    def heap(self, child, *words, expect=0):
        return self.run_command([tap.SPANPROF, "heap", child.pid, *words], expect=expect, timeout=120)

    def raw(self, go, path):
        return self.run_command([go.program, "tool", "pprof", "-symbolize=none", "-raw", path], expect=0,
                                env=go.environment, timeout=120).stdout

    def check_buckets(self, said, look):
        self.assertFalse(look.early)
        ours = buckets_of(look)
        self.assertEqual((dict(ours - said), dict(said - ours)), ({}, {}))
        return ours

    def check_rest(self, go, child, directory):
        """Beside runtime.MemProfile, and after the next collection, which adds buckets."""
        said = buckets_of_program(self.tell(child, f"rest {directory}"))
        self.assertGreater(len(said), 200)
        self.check_buckets(said, self.dump(child)[0])
        self.check_files(go, child, directory)
        self.tell(child, "more")
        said = buckets_of_program(self.tell(child, f"dump {directory}"))
        look = self.dump(child)[0]
        self.assertGreater(len(self.check_buckets(said, look)), 250)
        self.check_files(go, child, directory)

    def check_files(self, go, child, directory, tolerance=0):
        """Stacks, lines, inlined functions and all four values, as `go tool pprof` reads both files."""
        ours, theirs = directory / "ours.pb.gz", directory / "heap.pb.gz"
        self.heap(child, "-o", ours)
        types, found = stacks_of_raw(self.raw(go, ours))
        want_types, want = stacks_of_raw(self.raw(go, theirs))
        self.assertEqual(types, ["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count",
                                 "inuse_space/bytes[dflt]"])
        self.assertEqual([t.removesuffix("[dflt]") for t in want_types], [t.removesuffix("[dflt]") for t in types])
        self.assertEqual(set(found), set(want))
        for stack, values in want.items():
            for mine, value in zip(found[stack], values):
                self.assertLessEqual(abs(mine - value), tolerance, (stack, found[stack], values))
        return want

    def check_program(self, go, program):
        child = self.start_victim(program)
        self.check_rest(go, child, self.directory())
        return child

    def counts(self, look):
        """{(size, number of calls of descend()): objects} of those sizes that a load has."""
        found = collections.Counter()
        for size, allocs, _, depth in look.lines:
            if int(size) in SIZES and int(depth) <= DEPTHS:
                found[int(size), int(depth)] += int(allocs)
        return found

    def check_steps(self, look, before):
        """How often at each depth, of objects of one size: 20 20 20 19 19 …"""
        counts = self.counts(look)
        for size in SIZES:
            steps = [counts[size, depth] - before[size, depth] for depth in range(1, DEPTHS + 1)]
            self.assertEqual(steps, sorted(steps, reverse=True), (look.cycle, size))
            self.assertLessEqual(steps[0] - steps[-1], 1, (look.cycle, size))
        return sum(counts.values())

    def start_load(self, child):
        """(where descend() is, what was there before)"""
        start = int(re.search(r"descend ([0-9a-f]+)", child.out)[1], 16)
        where = (f"{start:x}", f"{start + 512:x}")
        before = self.counts(self.dump(child, 1, *where)[0])
        self.tell(child, "load")
        self.tell(child, "collect")
        return where, before

    def totals(self, look):
        """Of the four types of a file, in their order."""
        buckets = [[int(word) for word in line[:3]] for line in look.lines]
        return [sum(allocs for _, allocs, _ in buckets), sum(size * allocs for size, allocs, _ in buckets),
                sum(allocs - frees for _, allocs, frees in buckets),
                sum(size * (allocs - frees) for size, allocs, frees in buckets)]

    def heap_totals(self, go, child):
        """(cycle, totals) of what `heap` says, whose worker looks again until a look counts."""
        path = self.directory() / "totals.pb.gz"
        head = self.heap(child, "-o", path).stdout
        stacks = stacks_of_raw(self.raw(go, path))[1]
        return (int(re.search(r"as of the end of a garbage collection \(cycle (\d+)\)", head)[1]),
                [sum(column) for column in zip(*stacks.values())])

    def check_worker(self, go, child):
        """Beside a look before it, and one behind it."""
        before = self.dump(child, 1, *EVERYWHERE)[0]
        cycle, totals = self.heap_totals(go, child)
        after = self.dump(child, 1, *EVERYWHERE)[0]
        self.assertTrue(before.cycle <= cycle <= after.cycle, (before.cycle, cycle, after.cycle))
        for one, other, third in list(zip(self.totals(before), totals, self.totals(after)))[:2]:
            self.assertTrue(one <= other <= third, (one, other, third))

    def check_load(self, go, child, n):
        """Whatever goes on: each look that counts is of one moment."""
        where, before = self.start_load(child)
        looks = []
        while len(looks) < 10 * n and len({look.cycle for look in looks}) <= 4:
            looks += self.dump(child, n, *where)
        sums = [self.check_steps(look, before) for look in looks]
        self.assertEqual(len(looks) % n, 0)
        self.assertEqual(sums, sorted(sums))
        self.assertGreater(len({look.cycle for look in looks}), 4)
        self.check_worker(go, child)


class GoHeap(HeapCase):
    def test_each_bucket_is_as_the_program_itself_says(self):
        self.check_program(self.go, self.build(self.go))

    def test_stripped_and_at_any_address(self):
        self.check_program(self.go, self.build(self.go, "-buildmode=pie", "-ldflags=-s -w"))

    def test_sampled_counts_are_scaled_as_go_does_it(self):
        """An object is sampled in 4 KiB. Go's exp() and C's differ in the last bit: a value cut may differ by one."""
        directory = self.directory()
        child = self.start_victim(self.build(self.go), 4096)
        said = buckets_of_program(self.tell(child, f"rest {directory}"))
        self.check_buckets(said, self.dump(child)[0])
        want = self.check_files(self.go, child, directory, tolerance=1)
        text = self.heap(child).stdout
        self.assertIn("one sample in 4096 bytes", text)
        ours = stacks_of_raw(self.raw(self.go, directory / "ours.pb.gz"))[1]
        for i in range(4):
            total = sum(values[i] for values in want.values())
            self.assertLessEqual(abs(sum(values[i] for values in ours.values()) - total), 5)

    def test_looks_under_load_are_of_one_moment(self):
        child = self.start_victim(self.build(self.go))
        self.tell(child, f"rest {self.directory()}")
        self.check_load(self.go, child, 40)

    def stop(self, child):
        """Returns once each of its threads stands."""
        os.kill(child.pid, signal.SIGSTOP)
        tap.wait_until(lambda: states_of(child.pid) == {"T"}, "all threads stand")

    def test_stopped_at_any_moment(self):
        """A collection that is stopped in its midst is refused, not half believed."""
        child = self.start_victim(self.build(self.go))
        self.tell(child, f"rest {self.directory()}")
        where, before = self.start_load(child)
        n_counted = n_refused = 0
        for i in range(12):
            self.stop(child)
            done = self.run_command([DUMP, child.pid, 2, *where], timeout=120)
            if done.returncode:
                self.assertIn("no look counts (1)", done.stderr)
                if not n_refused:
                    self.check_refused(child, MOVING)
                n_refused += 1
            elif n_counted % 4 == 0:
                look = self.dump(child, 1, *EVERYWHERE)[0]
                self.assertEqual(self.heap_totals(self.go, child), (look.cycle, self.totals(look)))
            os.kill(child.pid, signal.SIGCONT)
            time.sleep(0.003 + 0.0017 * i)      # there is a collection each 20 ms: 12 other moments of it
            if done.returncode:
                continue
            one, other = looks_of(done.stdout)
            self.assertEqual(one.lines, other.lines)
            self.check_steps(one, before)
            n_counted += 1
        self.assertGreater(n_counted, 0)

    def test_a_profile_whose_lock_is_held_is_refused(self):
        """By the test, in place of the program, which stands."""
        child = self.start_victim(self.build(self.go))
        self.tell(child, f"rest {self.directory()}")
        self.stop(child)
        place = int(self.run_command([DUMP, child.pid, "lock"], expect=0).stdout.split()[1], 16)
        self.assertIn("(all)", self.heap(child).stdout)
        with open(f"/proc/{child.pid}/mem", "r+b", buffering=0) as memory:
            self.assertEqual(os.pread(memory.fileno(), 8, place), bytes(8))
            os.pwrite(memory.fileno(), b"\1", place)
            self.check_refused(child, MOVING)
            os.pwrite(memory.fileno(), b"\0", place)
        self.assertIn("(all)", self.heap(child).stdout)
        os.kill(child.pid, signal.SIGCONT)

    def test_before_the_first_collection(self):
        directory = self.directory()
        child = self.start_victim(self.build(self.go))
        look = self.dump(child)[0]
        self.assertTrue(look.early)
        early = "before Go has published counts: they are of now, and not of one moment"
        self.assertIn(early, self.heap(child).stdout)
        done = self.heap(child, "-o", "-", "--format", "folded")
        self.assertIn(early, done.stderr)
        self.assertNotIn(early, done.stdout)
        # the first question publishes all, and what the program has allocated since then, to answer
        said = {(b.alloc_bytes // b.allocs, b.stack): b.allocs
                for b in buckets_of_program(self.tell(child, f"dump {directory}"))}
        more = 0
        for bucket in buckets_of(look):
            n = said[bucket.alloc_bytes // bucket.allocs, bucket.stack]
            self.assertGreaterEqual(n, bucket.allocs)
            more += n - bucket.allocs
        self.assertLess(more, 50)
        self.assertFalse(self.dump(child)[0].early)
        self.assertIn("from before the first garbage collection", self.heap(child).stdout)

    def test_forms_of_its_output(self):
        directory = self.directory()
        child = self.start_victim(self.build(self.go))
        self.tell(child, f"rest {directory}")
        text = self.heap(child).stdout
        head, columns, total, first, *rows = text.splitlines()
        self.assertRegex(head, rf"process {child.pid} \(go-heap\), go1\.\d+\S*, one sample in 1 bytes, as of the end of a "
                         r"garbage collection \(cycle \d+\)")
        self.assertEqual(columns.split(), ["IN", "USE", "OBJECTS", "ALLOCATED", "FUNCTION"])
        self.assertRegex(total, r"^ *[\d.]+ MiB +\d+ +[\d.]+ MiB +\(all\)$")
        self.assertRegex(first, r"^ *1\.0 MiB +1 +1\.0 MiB +main\.allocate\.func1$")
        self.assertTrue(any(row.endswith("main.inner") for row in rows), rows)
        path = directory / "heap.json"
        self.assertIn("(all)", self.heap(child, "-o", path, "--format", "otlp").stdout)
        done = self.spanprof("validate", path)
        self.assertIn("valid, 0 errors, 0 warnings", done.stdout)
        # what it writes to standard output is that alone
        done = self.heap(child, "-o", "-", "--format", "folded")
        self.assertRegex(done.stdout, r"(?m)^.*main\.allocate;main\.viaInlined;main\.outer;main\.inner \d+$")
        self.assertNotIn("(all)", done.stdout)
        self.check_in_use_first(child, done.stdout)

    def check_in_use_first(self, child, folded):
        """Forms that show one type, or one first, show what is in use, as Go's own do."""
        look, directory = self.dump(child)[0], self.directory()
        allocated, _, in_use = self.totals(look)[1:]
        self.assertLess(in_use, allocated)
        self.assertEqual(sum(int(line.rpartition(" ")[2]) for line in folded.splitlines()), in_use)
        self.heap(child, "-o", directory / "heap.html")
        page = page_read.read(directory / "heap.html")
        kind = page.meta["mainKind"]
        self.assertEqual(page.meta["kinds"][kind]["type"], "inuse_space")
        self.assertEqual(sum(row.value for row in page.rows if row.kind == kind), in_use)
        self.heap(child, "-o", directory / "heap.svg")
        picture = (directory / "heap.svg").read_text()
        self.assertIn("inuse_space", picture)
        self.assertNotIn("alloc_", picture)

    def check_refused(self, child, words):
        done = self.heap(child, expect=1)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_programs_without_a_profile_are_told(self):
        child = self.start_victim(self.build(self.go), 0)
        self.check_refused(child, "the program has set runtime.MemProfileRate to 0")
        directory = self.directory()
        (directory / "off.go").write_text(OFF)
        child = self.spawn([self.go.build(directory / "off.go", directory / "off")])
        child.wait_for("ready")
        self.check_refused(child, "nothing in the program reads a heap profile, so Go's linker has switched it off")
        child = self.spawn(["sleep", "1000"])
        tap.wait_until(lambda: os.readlink(f"/proc/{child.pid}/exe").endswith(("sleep", "coreutils")), "it is executed")
        self.check_refused(child, "it is no program of Go")
        self.assertIn("`x` is no process id", self.spanprof("heap", "x", expect=2).stderr)
        self.assertIn("there is none", self.spanprof("heap", "4194303", expect=1).stderr)

    def test_programs_that_are_not_known_are_told(self):
        program = self.build(self.go, "-ldflags=-s -w")
        whole = program.read_bytes()
        version = re.search(rb"go1\.\d\d", self.run_command([self.go.program, "version", program], expect=0,
                                                           env=self.go.environment).stdout.encode())[0]
        other = program.with_name("other-release")
        other.write_bytes(whole.replace(version, b"go1.99"))
        other.chmod(0o755)
        self.check_refused(self.start_victim(other), "the layout of this release is not known")
        other = program.with_name("other-code")
        other.write_bytes(whole.replace(b"\0runtime.mProf_Flush\0", b"\0runtime.mProf_Flash\0"))
        other.chmod(0o755)
        self.check_refused(self.start_victim(other), "its code does not say where the profile is")


if __name__ == "__main__":
    tap.main()
