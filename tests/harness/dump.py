# SPDX-License-Identifier: Apache-2.0
"""The kernel half alone, as tests drive it: sample-dump, its commands and what it prints."""
import json
import os
import pathlib
import subprocess

import tap

PROGRAM = os.environ.get("SAMPLE_DUMP", str(tap.HARNESS / "sample-dump"))  # there is one with another kernel half
TARGET = 1
EXEC, EXIT, MAPPINGS, SETTLED = 1, 2, 3, 4
TICK_NS = 10_000_000
ENDS = ("complete no_user no_mapping no_rows fault bad_cfa unsupported depth fp_end stale internal pending long malformed "
        "runtime").split()


def start_time(pid):
    """Field 22 of /proc/PID/stat as the daemon hands it to the kernel half."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[19]) * TICK_NS


def verified(pid):
    """Instructions that the verifier went through, by program of a process: {tag: n}. Kernels before 5.16 tell none."""
    found = {}
    for file in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            info = dict(line.split(":\t", 1) for line in file.read_text().splitlines() if ":\t" in line)
        except FileNotFoundError:
            continue                    # a file that it has closed meanwhile
        if "verified_insns" in info:
            found[info["prog_tag"]] = int(info["verified_insns"])
    return found


class Dump:
    """sample-dump, its commands and what it has printed."""

    def __init__(self, test, prefix=(), **options):
        self.test = test
        self.child = test.spawn([*prefix, PROGRAM, *(f"{k}={v}" for k, v in options.items())],
                                stdin=subprocess.PIPE)
        self.wait(lambda: self.lines("ready"), "sample-dump is ready")

    def lines(self, key):
        text = self.child.out
        whole = text[:text.rfind("\n") + 1]
        return [x for x in map(json.loads, whole.splitlines()) if key in x]

    def wait(self, condition, what):
        def look():
            if self.child.status is not None:
                raise AssertionError(f"sample-dump ended before {what}: {self.child}")
            return condition()

        return tap.wait_until(look, what)

    def send(self, text):
        self.child.process.stdin.write(text.encode() + b"\n")
        self.child.process.stdin.flush()

    def command(self, text):
        n = sum(x["done"] == text for x in self.lines("done"))
        self.send(text)
        self.wait(lambda: sum(x["done"] == text for x in self.lines("done")) > n, text)
        return [x for x in self.lines("done") if x["done"] == text][-1]["result"]

    def row(self, tgid, start=0, ring=0, capacity=0, state=TARGET, generation=None):
        """@generation: a walk by rows needs the one that it has if none is given."""
        generation = generation or tgid
        self.test.assertEqual(self.command(f"row {tgid} {start} {ring} {capacity} {state} {generation}"), 0)

    def rowless(self, tgid):
        """Has a process walked by frame pointers: says that no rows exist for its code."""
        self.test.assertEqual(self.command(f"rowless {tgid}"), 0)

    def samples(self, tgid=None, since=0):
        return [x for x in self.lines("sample") if tgid in (None, x["tgid"]) and x["time"] >= since]

    def notices(self, kind, tgid=None, since=0):
        return [x for x in self.lines("notice")
                if x["notice"] == kind and tgid in (None, x["tgid"]) and x["time"] >= since]

    def wait_samples(self, n, tgid=None, since=0):
        self.wait(lambda: len(self.samples(tgid, since)) >= n, f"{n} samples of {tgid}")
        return self.samples(tgid, since)

    def stop(self):
        """Ends it. Returns the last counters."""
        self.child.process.stdin.write(b"stop\n")
        self.child.process.stdin.close()
        self.test.assertEqual(self.child.wait(), 0, str(self.child))
        return self.lines("counters")[-1]

    def rows(self, tgid):
        """Loads the unwind tables of a process; in force when it returns."""
        self.test.assertEqual(self.command(f"rows {tgid}"), 0)

    def check_settled(self, program, n=30):
        """The scheduler looks every few milliseconds; a process of two has hardly been looked at when it
        exits. What its exit did not know is told once it is reaped."""
        used = {}
        for _ in range(n):
            pid = os.posix_spawn(program, [program, "2"], {},
                                 file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
            _, _, usage = os.wait4(pid, 0)
            used[pid] = usage.ru_utime + usage.ru_stime

        def told(kind, pid):
            return sum(x["value"] for x in self.notices(kind, pid)) / 1e9

        # One that is reaped before it has left its CPU is accounted for no more: its exit knew all, and no
        # other notice comes.
        self.wait(lambda: all(self.notices(EXIT, pid) and
                              abs(told(EXIT, pid) + told(SETTLED, pid) - seconds) < 0.0001
                              for pid, seconds in used.items()), "what exits left")
        known = {pid: told(EXIT, pid) for pid in used}
        self.test.assertLess(sum(known.values()),
                             sum(used.values()) - n * 0.00001, "else this test tests nothing")
        return used
