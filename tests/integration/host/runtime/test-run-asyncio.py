#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tasks of asyncio under the daemon: each sample of tests/victims/python/victim-asyncio.py has the name of
the task that its stack says, and the coroutines that await it stand around it. Python 3.14 and newer;
`--long` takes Debian's 3.14 and 3.15, too (SPANPROF_TEST_PYTHONS names more)."""
import oracle

oracle.enter()

import collections
import re
import subprocess

import pythons
import session
import tap

HZ = ("--frequency", "1999", "--symbols", "local")
SOURCE = tap.SOURCE_DIR / "tests/victims/python/victim-asyncio.py"
TEXT = SOURCE.read_text().splitlines()
# of the function that computes: the task's name, and the victim's functions in front of it
TASKS = {
    "work_alpha": ("alpha", ["main", "parent", "grand", "inner"]),
    "work_gamma": ("Grüße γ", ["main", "group"]),
    "work_long": ("n" * 300, ["main", "group"]),
    "work_second": ("Task-2", ["main"]),
    "work_third": ("Task-3", ["main"]),
    "work_shared": ("shared", []),      # two await it: there is no one chain
    **{f"short_{i}": (f"short-{i}", ["main", "short"]) for i in range(8)},
}
OTHERS = {"Task-1", "parent", "group", "short", "waiter-0", "waiter-1", "alpha"}
AWAITERS = ("main", "parent", "grand", "inner", "short")
N = 1500
LEAST = 0.95            # of samples in a task have its name; none has another one's


def own(sample):
    """Functions of the victim, the outermost first."""
    frames = [f for f in reversed(sample.frames) if f.type == "cpython"]
    return [f for f in frames if f.file == str(SOURCE) or re.match(r"(work|short)_", f.file or "")]


def task_of(frames):
    return next((f.name for f in frames if f.name in TASKS), None)


class Asyncio(session.NamingCase):

    def pythons(self):
        found = pythons.all_of_them() if tap.LONG else pythons.here()
        newer = {v: p for v, p in found.items() if v >= (3, 14)}
        if not newer:
            self.skipTest("machine: no Python 3.14 (SPANPROF_TEST_PYTHONS names one)")
        return newer

    def check_names(self, samples):
        named, missing, wrong = 0, 0, collections.Counter()
        for sample in samples:
            frames = own(sample)
            name, task = sample.attributes.get("coroutine.name"), task_of(frames)
            if task is None:
                if name is not None and (name not in OTHERS or any(f.name == "callback" for f in frames)):
                    wrong[(name, frames[-1].name if frames else "")] += 1
                continue
            expected = TASKS[task][0]
            if name is None:
                missing += 1
            # a call of it makes a coroutine, in the caller's task
            elif frames[-1].name == task and name in OTHERS:
                continue
            # the bytes that are read of a long name are its begin
            elif name == expected or (len(name) >= 32 and expected.startswith(name)):
                named += 1
            else:
                wrong[(name, task)] += 1
        print(f"# names: {named} right, {missing} missing, {sum(wrong.values())} wrong", flush=True)
        self.assertFalse(wrong, wrong.most_common(5))
        self.assertGreater(named / (named + missing), LEAST)

    def check_awaiters(self, samples):
        whole, cut, wrong, lines = 0, 0, collections.Counter(), 0
        for sample in samples:
            frames = [f for f in own(sample) if f.name != "<module>"]
            task = task_of(frames)
            if task is None:
                continue
            names = [f.name for f in frames]
            chain = names[:names.index(task)]
            if chain == TASKS[task][1]:
                whole += 1
            elif not chain:
                cut += 1
            else:
                wrong[(task, tuple(chain))] += 1
            for outer, inner in zip(frames, frames[1:]):
                if outer.name in AWAITERS and outer.file == str(SOURCE):
                    mark = re.search(r"# > (.*)", TEXT[outer.line - 1])
                    self.assertTrue(mark and re.match(mark[1], inner.name), (outer, inner.name))
                    lines += 1
        print(f"# awaiters: {whole} whole, {cut} cut, {sum(wrong.values())} wrong; {lines} lines right",
              flush=True)
        self.assertFalse(wrong, wrong.most_common(5))
        self.assertGreater(whole / (whole + cut), LEAST)

    @staticmethod
    def is_enough(samples):
        seen = collections.Counter(task_of(own(s)) for s in samples)
        return sum(seen.values()) >= N and set(TASKS) <= set(seen)

    def test_tasks_and_awaiters(self):
        for version, python in self.pythons().items():
            with self.subTest(python=version):
                child = self.spawn([python, SOURCE], stdin=subprocess.PIPE)
                child.wait_for("ready")
                run = self.start("--pid", child.pid, *HZ)
                self.wait_for(run, self.is_enough, f"{N} samples, each task among them")
                # a busy machine names some frames too late, and what they are of is not known then
                samples = [s for s in run.stop().of(child.pid)
                           if own(s) and "unknown" not in {f.type for f in s.frames}]
                self.check_names(samples)
                self.check_awaiters(samples)
                child.process.stdin.close()
                child.wait()


if __name__ == "__main__":
    tap.main()
