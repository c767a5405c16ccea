#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Allocations that programs tell by the probe otel_memory:alloc (--allocations), of a program that counts its
own (tests/victims/native/victim-alloc.c), and of files whose notes say anything."""
import oracle

oracle.enter()

import collections
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys

import groups
import otlp_read
import probes
import session
import tap

LIBRARY = tap.BUILD_DIR / "sdk/libspanprof-alloc.so"
MEAN = 2048
SIZES = {"alloc_f": (1000, 10), "alloc_g": (2000, 3), "alloc_h": (4000, 1)}     # bytes, and how many a round
TRACE = f"{7:016x}{8:016x}"
SPANS = {f"{1111:016x}": "first", f"{2222:016x}": "second"}
ROUNDS, REST_US = 400, 15000    # some 450 samples a second: below what a process may have
SIGMAS = 5                      # draws differ from run to run: one in 2 million is off by more
PROCESS_BUDGET = 1000

# maps files as code, and waits
MAPPER = """
import mmap, os, sys
maps = [mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)
        for path in sys.argv[1:]]
print("pid", flush=True)
sys.stdin.read()
"""


def chance(size):
    return -math.expm1(-size / MEAN)


class Allocations(session.NamingCase):
    def setUp(self):
        super().setUp()
        tap.need_kernel((6, 6), "lets `run` attach to no probe")

    def begin(self, *arguments, library=LIBRARY, mean=MEAN):
        return self.victim("alloc", *map(str, arguments), stdin=subprocess.PIPE,
                           env={**os.environ, "LD_PRELOAD": str(library), "SPANPROF_ALLOC_BYTES": str(mean)})

    def watch(self, *pids):
        return self.start_counted(*(word for pid in pids for word in ("--pid", pid)), "--allocations",
                                  "--frequency", 199)

    def check_near(self, value, truth, variance, what):
        self.assertLessEqual(abs(value - truth), SIGMAS * math.sqrt(variance), f"{what}: {value}, and not {truth}")

    def test_bytes_and_objects_are_told_by_function_and_span(self):
        victim = self.begin(ROUNDS, REST_US)
        run, wait = self.watch(victim.pid)
        wait(2, "spanprof_alloc_probes_total", result="attached")
        victim.process.stdin.close()
        victim.wait(120)
        result = run.stop()
        truth = session.truth_of(victim)
        told = [s for s in result.allocations if s.resource["process.pid"] == victim.pid]
        symbols, sums, spans = otlp_read.Symbols(), collections.Counter(), collections.Counter()
        for sample in told:
            self.assertIn((sample.type, sample.unit, sample.period_type, sample.period),
                          {("alloc_space", "bytes", "space", 1), ("alloc_objects", "count", "space", 1)})
            self.assertNotIn("profile.stack.truncated", sample.attributes)
            names = [symbols.name(frame) for frame in sample.frames]
            found = [name for name in names if name in SIZES]
            # what the C library allocates for itself, and starts that the victim does not count
            if not found:
                continue
            self.assertEqual(names[names.index(found[0]) + 1], "round_of", names)
            self.assertIn("main", names)
            sums[sample.type, found[0]] += sample.value
            if sample.type == "alloc_space" and sample.span_id:
                self.assertEqual(sample.trace_id, TRACE)
                spans[SPANS[sample.span_id]] += sample.value
        n_rounds = truth["f"] / 10000
        for name, (size, n) in SIZES.items():
            n *= n_rounds
            p = chance(size)
            self.assertEqual(truth[name[-1]], n * size)
            self.check_near(sums["alloc_space", name], n * size, n * size**2 * (1 - p) / p, name)
            self.check_near(sums["alloc_objects", name], n, n * (1 - p) / p + n * p / 4, f"objects of {name}")
        for span in SPANS.values():
            variance = sum(n * size**2 * (1 - chance(size)) / chance(size) for size, n in SIZES.values())
            self.check_near(spans[span], truth[span], variance * truth[span] / 20000, span)
        counted = result.counter("allocations_total")
        self.assertEqual({key for key, n in counted.items() if n}, {"taken"})
        self.assertEqual(result.counter("alloc_probes_total", "attached"), 2)     # of allocations, and of frees

    def test_a_storm_is_counted_and_takes_no_tick(self):
        victim = self.begin(10**9, 0, mean=1)
        run, wait = self.watch(victim.pid)
        wait(2, "spanprof_alloc_probes_total", result="attached")
        victim.process.stdin.close()
        wait(20 * PROCESS_BUDGET, "spanprof_allocations_total", result="budget")
        run.wait_events(50, victim.pid)
        victim.kill()
        result = run.stop()         # with the books of ticks
        counted = result.counter("allocations_total")
        self.assertGreater(counted["taken"], 0)
        self.assertEqual(counted["ring_full"], 0)

    def test_storms_of_another_user_leave_a_process_its_allocations(self):
        """All on one CPU. Two processes tell more than that takes in a second; the honest one tells some 350."""
        folder, rounds = self.directory(), 80
        program, library = (shutil.copy(path, folder) for path in (tap.VICTIMS / "victim-alloc", LIBRARY))
        folder.chmod(0o755)

        def begin(user, *arguments):
            child = self.spawn([program, *map(str, arguments)], stdin=subprocess.PIPE,
                               preexec_fn=lambda: groups.become(user),
                               env={**os.environ, "LD_PRELOAD": str(library), "SPANPROF_ALLOC_BYTES": "1"})
            child.wait_for(r"^pid \d+")
            return child

        storms = [begin(groups.ATTACKER, 10**9, 0) for _ in range(2)]
        honest = begin(groups.HONEST, rounds, 40000)
        run, wait = self.watch(honest.pid, *(storm.pid for storm in storms))
        wait(2, "spanprof_alloc_probes_total", result="attached")
        for storm in storms:
            storm.process.stdin.close()
        wait(20 * PROCESS_BUDGET, "spanprof_allocations_total", result="budget")
        honest.process.stdin.close()
        honest.wait(120)
        for storm in storms:
            storm.kill()
        result, symbols = run.stop(), otlp_read.Symbols()
        told = sum(sample.value for sample in result.allocations if sample.type == "alloc_objects" and
                   sample.resource["process.pid"] == honest.pid and
                   any(symbols.name(frame) in SIZES for frame in sample.frames))
        truth, counted = rounds * sum(n for _, n in SIZES.values()), result.counter("allocations_total")
        # none fell to the budget: it came while another's was taken, or the ring was full
        self.assertGreaterEqual(told + counted["nested"] + counted["ring_full"], truth, counted)
        # Without shares the storms had the CPU's budget of each second after a part of it: it would tell few.
        self.assertGreaterEqual(told, truth / 2, counted)

    def mapper(self, folder, *names, program=sys.executable):
        mapper = self.spawn([program, "-c", MAPPER, *(folder / name for name in names)],
                            stdin=subprocess.PIPE)
        mapper.wait_for("^pid")
        return mapper

    def test_notes_that_say_anything_are_refused_and_counted(self):
        folder, files = self.directory(), {
            "nowhere": probes.elf(probes.note(place=2**64 - 16)),
            "data": probes.elf(probes.note(place=probes.DATA)),
            "unmapped": probes.elf(probes.note(place=0x5000)),
            "no-nop": probes.elf(probes.note(), code=b"\x0b" * 64),
            "semaphore": probes.elf(probes.note(semaphore=probes.CODE)),
            "arguments": probes.elf(probes.note(arguments=b"8@nothing")),
            "long": probes.elf(probes.note(size=2**32 - 1)),
            "million": probes.elf(probes.note() * 1_000_000),
        }
        n_refused = 7
        for number in range(12):        # more than the table takes, and than their user's share of it
            files[f"many-{number}"] = probes.elf(probes.note() * 20) + bytes([number])
        for name, data in files.items():
            (folder / name).write_bytes(data)
        mapper = self.mapper(folder, *files)
        victim = self.begin(10**9, REST_US)
        run, wait = self.watch(mapper.pid, victim.pid)
        wait(n_refused, "spanprof_alloc_probes_total", result="refused")
        wait(1 + 12 * 4, "spanprof_alloc_probes_total", result="over_cap")
        victim.process.stdin.close()
        # another process' probe is attached to, and told
        wait(200, "spanprof_allocations_total", result="taken")
        victim.kill()
        result = run.stop()
        counted = result.counter("alloc_probes_total")
        self.assertEqual(counted["refused"], n_refused)
        self.assertLessEqual(counted["attached"] + counted["failed"], 128)
        # each probe of these files: attached, or counted as another
        self.assertEqual(sum(counted.values()), 2 + n_refused + 1 + 12 * 20)
        self.assertIsNone(mapper.status)

    def test_a_file_that_found_no_place_gets_one_later(self):
        folder, names = self.directory(), [f"many-{number}" for number in range(12)]
        for number, name in enumerate(names):
            (folder / name).write_bytes(probes.elf(probes.note() * 16) + bytes([number]))
        program = folder / f"maps-{os.getpid()}"        # a name that no other process has
        program.symlink_to(os.path.realpath(sys.executable))
        full = self.mapper(folder, *names, program=program)
        run, wait = self.start_counted("--comm", program.name, "--allocations", "--frequency", 199)
        wait(16, "spanprof_alloc_probes_total", result="over_cap")
        before = wait.counter("spanprof_alloc_probes_total", result="attached")
        # files are met in the order of addresses
        maps = pathlib.Path(f"/proc/{full.pid}/maps").read_text()
        last = [name for name in re.findall(r"/(many-\d+)$", maps, re.M)][-1]
        full.kill()

        def look():
            # a process that has it: one of them comes when the places are free
            found = wait.counter("spanprof_targets_total", event="found")
            self.mapper(folder, last, program=program)
            wait(found + 1, "spanprof_targets_total", event="found")
            return wait.counter("spanprof_alloc_probes_total", result="attached") > before

        tap.wait_until(look, "the last file's probes are attached to")
        run.stop()

    def test_a_file_that_nobody_runs_any_more_is_left(self):
        place = self.directory() / "mounted"
        place.mkdir()
        self.run_command(["mount", "-t", "tmpfs", "none", place])
        self.addCleanup(subprocess.run, ["umount", "-l", place], check=False, capture_output=True)
        library = shutil.copy(LIBRARY, place / "alloc.so")
        victim, other = self.begin(10**9, REST_US, library=library), self.victim("chain", "300", rests=True)
        run, wait = self.watch(victim.pid, other.pid)
        wait(2, "spanprof_alloc_probes_total", result="attached")
        victim.kill()
        tap.wait_until(lambda: subprocess.run(["umount", place], capture_output=True, check=False).returncode == 0,
                       "umount", 120)
        self.assertIsNone(run.child.status)
        run.stop()


if __name__ == "__main__":
    tap.main()
