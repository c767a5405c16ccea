#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Heap profiles of programs of Go in exports (run --allocations): what is in use, and what was allocated from
look to look, beside what a reader of the program's own profile finds before and after."""
import oracle

oracle.enter()

import collections
import importlib
import os

import groups
import otlp_read
import session
import tap

heap = importlib.import_module("test-go-heap")
MEMORY = 128 << 20
ALLOCATED, IN_USE = ("alloc_objects", "alloc_space"), ("inuse_objects", "inuse_space")


class Heaps(heap.HeapCase, session.NamingCase):
    def begin(self):
        """A program whose collections have published counts. It collects when it is told to, and each two minutes."""
        child = self.start_victim(self.build(self.go))
        self.tell(child, f"rest {self.directory()}")
        return child

    def totals_of(self, child):
        return dict(zip(ALLOCATED + IN_USE, self.totals(self.dump(child, 1, *heap.EVERYWHERE)[0])))

    def sums(self, samples, pid):
        """{type: value} of a program of Go in samples of one request, or of several."""
        sums = collections.Counter()
        for sample in samples:
            if sample.resource["process.pid"] == pid and sample.period_type == "space":
                sums[sample.type] += sample.value
        return sums

    def check(self, result, pid, base, end):
        """@base, @end: what the program had before and after its first look, and its last one. They are alike
        unless it has collected in between."""
        allocated, in_use = collections.Counter(), {}
        for path in result.paths:
            found = self.sums(otlp_read.samples(path), pid)
            allocated.update({name: found[name] for name in ALLOCATED})
            in_use = found if any(found[name] for name in IN_USE) else in_use
        for name in ALLOCATED:
            self.assertTrue(end[0][name] - base[1][name] <= allocated[name] <= end[1][name] - base[0][name],
                            (name, allocated, base, end))
        for name in IN_USE:
            self.assertIn(in_use[name], [look[name] for look in end], name)
        self.check_frames(result, pid)

    def check_frames(self, result, pid):
        names = set()
        for sample in result.allocations + result.in_use:
            if sample.resource["process.pid"] == pid:
                self.assertEqual(({frame.type for frame in sample.frames} - {"native"}, sample.period), (set(), 1))
                names.add(tuple(frame.name for frame in sample.frames[:4]))
        self.assertIn(("main.inner", "main.outer", "main.viaInlined", "main.allocate"), names)

    def test_each_look_tells_what_was_allocated_since_the_one_before(self):
        older = self.begin()
        before = self.totals_of(older)
        run, wait = self.start_counted("--exe", self.build(self.go), "--allocations")
        wait(1, "spanprof_go_heaps_total", result="read")
        base = before, self.totals_of(older)
        younger = self.begin()
        for child in (older, younger):
            self.tell(child, "more")
        ends = {child.pid: self.totals_of(child) for child in (older, younger)}
        nothing = dict.fromkeys(ALLOCATED, 0)
        least = {older.pid: ends[older.pid]["alloc_space"] - base[1]["alloc_space"],
                 younger.pid: ends[younger.pid]["alloc_space"]}
        self.assertGreater(least[older.pid], 1 << 20)
        self.wait_for(run, lambda samples: all(self.sums(samples, pid)["alloc_space"] >= n for pid, n in least.items()),
                      "what both have allocated")
        result = run.stop()
        self.check(result, older.pid, base, (ends[older.pid], self.totals_of(older)))
        self.check(result, younger.pid, (nothing, nothing), (ends[younger.pid], self.totals_of(younger)))
        self.assertEqual({sample.resource["process.pid"] for sample in result.in_use}, {older.pid, younger.pid})
        self.assertEqual([result.counter("go_heaps_total", word) for word in ("off", "gone")], [0, 0])
        self.assertEqual((result.counter("go_heap_stacks_lost_total"), result.counter("go_heaps_over_cap_total")), (0, 0))

    def near_limit(self, *options):
        """A run, its wait(), what brings a program of it near the limit of its group, and what counts kills there."""
        group, n_killed = groups.limit_memory(self, f"spanprof-heaps-{os.getpid()}", MEMORY)
        usage = next(path for path in (group / "memory.usage_in_bytes", group / "memory.current") if path.exists())
        child = self.begin()
        groups.enter(group, child.pid)
        run, wait = self.start_counted("--pid", child.pid, "--allocations", *options)
        wait(1, "spanprof_go_heaps_total", result="read")
        self.assertEqual(wait.counter("spanprof_go_heaps_hurried_total", result="asked"), 0)

        def fill():
            self.tell(child, f"hold {MEMORY * 8 // 10 >> 20}")
            while int(usage.read_text()) < MEMORY * 92 // 100:
                self.tell(child, "hold 1")

        return run, wait, fill, n_killed

    def wait_marked(self, run):
        self.wait_for(run, lambda samples: any(s.attributes.get("profile.heap.reason") == "near_limit" for s in samples),
                      "the look")

    def test_a_look_comes_before_the_limit_of_memory(self):
        """A group that stays below its limit, but near it."""
        run, _, fill, n_killed = self.near_limit()
        fill()
        self.wait_marked(run)
        result = run.stop()
        marked = [s for s in result.in_use if s.attributes.get("profile.heap.reason") == "near_limit"]
        held = sum(s.value for s in marked if s.type == "inuse_space" and "main.hold" in [f.name for f in s.frames])
        self.assertGreater(held, MEMORY * 3 // 4)
        # one before that may have seen how fast it grows
        self.assertEqual({s.attributes.get("profile.heap.reason") for s in result.in_use} - {"fast_growth"},
                         {None, "near_limit"})
        self.assertEqual(n_killed(), 0)
        self.assertGreaterEqual(result.counter("go_heaps_hurried_total", "asked"), 1)

    def test_no_look_comes_in_a_pause(self):
        """… and that one comes after it."""
        control = self.directory() / "control.sock"
        run, wait, fill, _ = self.near_limit("--control", control)
        self.spanprof("pause", "--control", control)
        fill()
        wait(wait.counter("spanprof_windows_total") + 2, "spanprof_windows_total")
        self.assertEqual(wait.counter("spanprof_go_heaps_hurried_total", result="asked"), 0)
        self.spanprof("resume", "--control", control)
        self.wait_marked(run)
        run.stop()

    def test_programs_without_a_profile_are_named_in_the_log(self):
        directory = self.directory()
        (directory / "off.go").write_text(heap.OFF)
        off = self.spawn([self.go.build(directory / "off.go", directory / "off")])
        off.wait_for("ready")
        zero, early = (self.start_victim(self.build(self.go), rate) for rate in (0, 1))
        run, wait = self.start_counted(*(word for child in (off, zero, early) for word in ("--pid", child.pid)),
                                       "--allocations")
        wait(2, "spanprof_go_heaps_total", result="off")
        wait(1, "spanprof_go_heaps_total", result="early")
        result = run.stop()
        self.assertRegex(result.log, rf"process {off.pid} \(go1\.\d+\S*\): no heap profile: nothing in the program reads")
        self.assertRegex(result.log, rf"process {zero.pid} \(go1\.\d+\S*\): no heap profile: the program has set")
        self.assertEqual((result.allocations, result.in_use, result.counter("go_heaps_total", "read")), ([], [], 0))


if __name__ == "__main__":
    tap.main()
