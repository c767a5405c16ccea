#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python under the daemon, without a flag: functions and lines of tests/victims/python/victim-python.py stand
in the order that its source fixes, between the native frames that call them. The system's release; `--long`
takes all, and Debian's newer ones (SPANPROF_TEST_PYTHONS names more)."""
import oracle

oracle.enter()

import collections
import os
import re
import signal
import subprocess

import python_chains
import pythons
import session
import tap
import workers

# a function of 3.8 has three native frames, its evaluator's among them: 202 functions are 606
HZ = ("--frequency", "1999", "--symbols", "local", "--depth", "1024")
SOURCE = tap.SOURCE_DIR / "tests/victims/python/victim-python.py"
WORKERS = tap.SOURCE_DIR / "tests/victims/python/victim-fork.py"
TASKS = python_chains.Chains(tap.SOURCE_DIR / "tests/victims/python/victim-tasks.py",
                             [["task", "step", "burn"], ["other", "burn"]])
TEXT = SOURCE.read_text().splitlines()
DEEP = ["deep_a", "deep_b", "deep_c"]
CHAINS = {
    "deep": ["deep", *DEEP * 21, "deep_a"],
    "deeper": ["deeper", *DEEP * 66, "deep_a"],
    "shapes": ["shapes", "area", "total"],
    "sort": ["sort", "<lambda>"],
    "reduce": ["reduce", "add"],
    "generators": ["generators", "outer_yielding", "yielding"],
    "coroutines": ["coroutines", "co_outer", "co_inner"],
    "caught": ["caught", "handle"],
    "star": ["star", "wrapped", "starred"],
    "native": ["native", "compare"],
}
WHOLE = [["main", *chain, "burn"] for chain in CHAINS.values()]
WHOLE += [["main", "c_time"], ["thread_main", "other", "burn"]]
QUALIFIED = {
    "Shape.area", "Shape.total", "sort.<locals>.<lambda>", "reduce.<locals>.add", "star.<locals>.wrap.<locals>.wrapped"
}
# runs the function whose name it has read last
GROWS = """import sys, threading
work = int
def read():
    for line in sys.stdin:
        exec(f"def {line.strip()}(n):\\n    while n: n -= 1", globals())
        globals()["work"] = globals()[line.strip()]
threading.Thread(target=read, daemon=True).start()
print("ready", flush=True)
while True: work(10000)
"""
# a recursion of as many functions as it is told, the module's own included
RECURSION = """import sys, time
sys.setrecursionlimit(10000)
def rung(n):
    return rung(n - 1) if n else burn()
def burn():
    total = 0
    for i in range(60000):
        total = (total * 31 + i) & 0xffff
print("ready", flush=True)
while True:
    rung(int(sys.argv[1]) - 3)
    time.sleep(0.01)
"""
DEPTH = 1024            # frames of a sample at most
ROOT = 0.998
SHARE = 0.04            # of all time, a chain may differ from its own log


def own(sample):
    """Frames of the victim, the outermost first; None: not a thread of Python's."""
    frames = [f for f in reversed(sample.frames) if f.type == "cpython" and f.file == str(SOURCE)]
    return frames if {f.name for f in frames} & {"main", "thread_main"} else None


def is_at_work(sample):
    """Whether the innermost function of Python is the victim's: not a library's, which the chains do not show.
    Nor one that a busy machine has named too late, which no longer says which function it was."""
    return ("unknown" not in {f.type for f in sample.frames} and
            next(f for f in sample.frames if f.type == "cpython").file == str(SOURCE))


def chain_of(frames):
    return [f.name.rsplit(".", 1)[-1] for f in frames if f.name != "<module>"]


def verdict(names):
    if names in WHOLE:
        return "whole"
    if any(names == whole[:len(names)] for whole in WHOLE) or names in (
            ["main", "caught", "thrower"], ["main", "star", "wrap"], ["main", "shapes", "__init__"]):
        return "inner"
    return "wrong"


def lines_of(frames):
    """(right, wrong lines) of frames whose line is known: it says what it calls, or that it is the leaf's."""
    right, wrong = 0, []
    for outer, inner in zip(frames, frames[1:] + [None]):
        name = inner.name.rsplit(".", 1)[-1] if inner else ""
        mark = f"# > .*{re.escape(name)}|# > \\*" if inner else f"# = {outer.name}"
        if outer.name == "<module>" or (not inner and outer.name not in ("burn", "c_time")):
            continue
        text = TEXT[outer.line - 1] if 0 < outer.line <= len(TEXT) else ""
        # the innermost function may be at its begin: RESUME has the line of the `def`
        if re.search(mark, text) or (not inner and re.match(r"def (burn|c_time)", text)):
            right += 1
        else:
            wrong.append((outer.name, outer.line, name))
    return right, wrong


def workers_chain(sample):
    """Functions of a worker of victim-fork.py, the outermost first; none where a busy machine has not all of them."""
    if "profile.stack.truncated" in sample.attributes or "unknown" in {f.type for f in sample.frames}:
        return []
    return [f.name for f in reversed(sample.frames)
            if f.type == "cpython" and f.file in (str(WORKERS), "made.py") and f.name != "<module>"]


def leaf_share(child):
    """By the victim's own log, the share of its CPU time that it was in the innermost functions of its chains."""
    leaf, total = re.search(r"^leaf (\d+) of (\d+)$", child.out, re.M).groups()
    return int(leaf) / int(total)


def whole_share(samples):
    """Of samples with all names, those with a whole chain."""
    named = [s for s in samples if "unknown" not in {f.type for f in s.frames}]
    return (sum(s.value for s in named if is_at_work(s) and verdict(chain_of(own(s))) == "whole") /
            sum(s.value for s in named))


class Python(session.NamingCase):
    N = 10000 if tap.LONG else 1500
    # of the time in innermost functions: 1,500 samples are off by 0.3 points
    WHOLE = 0.99 if tap.LONG else 0.985

    def pythons(self):
        return pythons.all_of_them() if tap.LONG else pythons.usual()

    def python(self):
        return next(iter(self.pythons().values()))

    def start_python(self, python, *chains):
        child = self.spawn([python, SOURCE, *chains], stdin=subprocess.PIPE)
        child.wait_for("ready")
        return child

    def is_enough(self, samples, qualified):
        """Enough to judge. Names of libc, and those of a worker that has much to do, arrive a moment later."""
        mine = [[f.name or "" for f in s.frames] for s in samples if own(s) and is_at_work(s)]
        seen = {name for names in mine for name in names}
        return (len(mine) >= self.N and qualified | {"c_time"} <= seen and
                any("compare" in names and any("qsort" in name for name in names) for names in mine))

    def check_lines(self, samples):
        right, wrong = 0, collections.Counter()
        for sample in samples:
            n, bad = lines_of(own(sample))
            right += n
            wrong.update(bad)
        print(f"# lines: {right} right, {sum(wrong.values())} wrong", flush=True)
        self.assertFalse(wrong, wrong.most_common(5))
        self.assertGreater(right, self.N)

    def check_chains(self, version, samples):
        verdicts, wrong = collections.Counter(), collections.Counter()
        for sample in samples:
            said = verdict(chain_of(own(sample)))
            verdicts[said] += sample.value
            if said == "wrong":
                wrong[tuple(chain_of(own(sample)))] += sample.value
        n = sum(verdicts.values())
        print(f"# {version}: {n} samples, {dict(verdicts)}", flush=True)
        self.assertFalse(wrong, wrong.most_common(3))

    def check_whole(self, child, samples):
        """Stacks end short of the innermost functions as long as the program was not in them, and no longer."""
        found, truth = whole_share(samples), leaf_share(child)
        print(f"# whole: {found:.2%}, in innermost functions by the log: {truth:.2%}, of these whole: {found / truth:.2%}",
              flush=True)
        self.assertGreaterEqual(found / truth, self.WHOLE)
        self.assertLessEqual(found / truth, 2 - self.WHOLE)

    def check_native(self, result, samples):
        """Native callers keep their places, and the evaluator's frames are gone."""
        seen, unnamed = set(), 0
        for sample in samples:
            names = [f.name for f in reversed(sample.frames)]
            kinds = [f.type for f in reversed(sample.frames)]
            if "unknown" in kinds:
                unnamed += 1
                continue
            if "compare" in names:
                between = names[names.index("native") + 1:names.index("compare")]
                self.assertTrue(between, names)
                if any("qsort" in name for name in between):
                    seen.add("qsort")
            if "sort.<locals>.<lambda>" in names:
                at = names.index("sort")
                self.assertIn("native", kinds[at + 1:names.index("sort.<locals>.<lambda>")], names)
                seen.add("sort")
            if names[-1] != "c_time" and "c_time" in names:
                seen.add("c_time")
        self.assertLessEqual({"qsort", "c_time"}, seen)
        # a busy machine names some too late, and code of no file has no kind
        self.assertLess(unnamed, 0.1 * len(samples), result.counter("runtime_frames_total"))

    def check_shares(self, child, samples):
        """The victim's own log of CPU time."""
        child.process.stdin.close()
        child.wait()
        truth = session.truth_of(child)
        counts = collections.Counter(chain_of(own(s))[1] for s in samples if len(chain_of(own(s))) > 1
                                     for _ in range(s.value) if chain_of(own(s))[0] == "main")
        total, n = sum(truth.values()), sum(counts.values())
        off = {name: counts[name] / n - truth[name] / total for name in truth}
        print("# shares, points off: " + ", ".join(f"{k} {100 * v:+.1f}" for k, v in off.items()), flush=True)
        self.assertLess(max(map(abs, off.values())), SHARE, off)

    def test_chains_and_lines(self):
        for version, python in self.pythons().items():
            with self.subTest(python=python):
                child = self.start_python(python)
                run = self.start("--pid", child.pid, *HZ)
                qualified = QUALIFIED if version >= (3, 11) else set()
                self.wait_for(run, lambda samples: self.is_enough(samples, qualified), f"{self.N} samples of chains, all names")
                result = run.stop()
                samples = [s for s in result.of(child.pid) if own(s)]
                work = [s for s in samples if is_at_work(s)]
                self.check_chains(version, work)
                self.check_lines(work)
                self.check_native(result, work)
                self.assertLessEqual(qualified, {f.name for s in work for f in s.frames})
                joins = {x: result.counter("python_joins_total", x) for x in ("whole", "partial", "cut")}
                print("# joins", joins, flush=True)
                self.assertGreaterEqual(joins["whole"] / sum(joins.values()), ROOT, joins)
                ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in samples)
                ends.pop("pending", None)
                self.assertGreaterEqual(ends[None] / sum(ends.values()), ROOT, ends)
                self.check_shares(child, samples)
                self.check_whole(child, samples)

    def test_workers_that_were_forked(self):
        """Each shows its own functions, and none of the others'."""
        for version, python in self.pythons().items():
            with self.subTest(python=version):
                child = self.spawn([python, WORKERS], stdin=subprocess.PIPE)
                child.wait_for("ready")
                pids = [int(pid) for pid in re.findall(r"^worker \d (\d+)$", child.out, re.M)]
                run = self.start("--pid", ",".join(map(str, pids)), *HZ)
                whole = {pid: ("worker", f"made_work_{i}", f"work_{i}", "burn") for i, pid in enumerate(pids)}

                def chains(samples):
                    return {(s.resource["process.pid"], *workers_chain(s)) for s in samples}

                self.wait_for(run, lambda samples: {(pid, *whole[pid]) for pid in pids} <= chains(samples),
                              "a whole stack of each worker")
                wrong = {(pid, *names) for pid, *names in chains(run.stop().samples)
                         if tuple(names) != whole[pid][:len(names)]}
                self.assertFalse(wrong)
                child.process.stdin.close()
                child.wait()

    def test_threads_that_live_for_one_task_each(self):
        for version, python in self.pythons().items():
            with self.subTest(python=version):
                child = self.spawn([python, TASKS.source])
                child.wait_for("ready")
                run = self.start("--pid", child.pid, *HZ)
                self.wait_for(run, lambda samples: python_chains.Judged(TASKS, samples).n >= 2 * self.N, "samples of tasks")
                result = run.stop()
                child.stop(9)
                python_chains.Judged(TASKS, result.samples).check(self, 0.98)
                # the rest are threads that begin or end
                share = python_chains.share(result.of(child.pid))
                print(f"# {version}: with functions {share:.1%}", flush=True)
                self.assertGreater(share, 0.96)

    def test_a_program_that_starts_later_and_ends(self):
        python = self.directory() / f"python-{os.getpid()}"     # a name that no other process has
        python.symlink_to(self.python())
        run, wait = self.start_counted("--comm", python.name, *HZ)
        child = self.start_python(python, "deep")
        self.wait_named(run, child.pid, "deep_a", "burn")
        before = wait.counter("spanprof_runtime_processes")
        self.assertGreaterEqual(before, 1)
        child.stop(9)
        tap.wait_until(lambda: wait.counter("spanprof_runtime_processes") < before, "its runtime is forgotten")
        run.stop()

    def test_recursions_are_whole_up_to_the_depth_and_end_there(self):
        """256 functions and more: whole as long as a sample has room for them, and their native callers. What
        is longer has its innermost ones, says `depth`, and is no `whole` join."""
        for version, python in self.pythons().items():
            for n in (256, 257, 600, 1200):
                with self.subTest(python=python, n=n):
                    child = self.spawn([python, "-c", RECURSION, n])
                    child.wait_for("ready")
                    run = self.start("--pid", child.pid, *HZ)
                    # up to 3.10 each has one or two native frames, too
                    has_room = n * (1 if version >= (3, 11) else 3) < DEPTH - 20

                    def deepest(samples):
                        found = [[f.name for f in s.frames if f.type == "cpython"] for s in samples
                                 if s.frames[0].name == "burn" and "unknown" not in {f.type for f in s.frames}]
                        return [names for names in found if len(names) > 200]

                    self.wait_for(run, lambda samples: len(deepest(samples)) >= 50, "recursions with names")
                    result = run.stop()
                    child.stop(9)
                    whole = ["burn", *["rung"] * (n - 2), "<module>"]
                    seen = collections.Counter((len(names), names == whole, names == whole[:len(names)])
                                               for names in deepest(result.of(child.pid)))
                    # the first ticks are walked natively
                    ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in result.of(child.pid)
                                               if sum(f.type == "cpython" for f in s.frames) > 200)
                    joins = {x: result.counter("python_joins_total", x) for x in ("whole", "partial", "cut")}
                    print(f"# {version} {n}: {dict(seen)}, ends {dict(ends)}, joins {joins}", flush=True)
                    self.assertEqual({right for *_, right in seen}, {True}, seen)
                    if has_room:
                        self.assertGreater(seen[n, True, True], 0.9 * sum(seen.values()), seen)
                        self.assertGreater(joins["whole"], 0.9 * sum(joins.values()), joins)
                    else:
                        self.assertGreater(ends["depth"], 0.9 * sum(ends.values()), ends)
                        self.assertLess(joins["whole"], 0.1 * sum(joins.values()), joins)

    def test_deep_recursion_through_c_ends_at_the_depth(self):
        """More native frames than the depth has room for: marks of Python and evaluators take no room."""
        for python in self.pythons().values():
            with self.subTest(python=python):
                child = self.start_python(python, "nested")
                run = self.start("--pid", child.pid, *HZ)
                self.wait_for(run, lambda samples: any(map(self.is_nested, samples)), "nested evaluators")
                ends = collections.Counter(
                    s.attributes.get("profile.stack.truncated") for s in run.stop().of(child.pid) if self.is_nested(s))
                print("# ends", dict(ends), flush=True)
                self.assertNotIn("internal", ends)
                child.stop(9)

    @staticmethod
    def is_nested(sample):
        return sum(f.name == "nested_at" for f in sample.frames) > 60

    def test_memory_is_read_by_a_worker_and_its_death_costs_a_moment(self):
        child = self.spawn([self.python(), "-c", GROWS], stdin=subprocess.PIPE)
        child.wait_for("ready")

        def begin(name):
            child.process.stdin.write(f"{name}\n".encode())
            child.process.stdin.flush()
            self.wait_named(run, child.pid, name)

        run, wait = self.start_counted("--pid", child.pid, *HZ)
        begin("first_name")
        reader = workers.wait_for_reader(run, child.pid)
        self.assertEqual(workers.status_of(reader)["Name"], "spanprof-parser")
        opened = {link for link in workers.descriptors(reader) if not link.startswith("socket:")}
        self.assertEqual(opened, {f"/proc/{child.pid}/mem", f"/proc/{child.pid}/pagemap",
                                  os.readlink(f"/proc/{child.pid}/exe")})
        self.assertNotIn(f"/proc/{child.pid}/mem", workers.descriptors(run.pid))
        whole = wait.counter("spanprof_python_joins_total", result="whole")
        os.kill(reader, signal.SIGKILL)
        wait(1, "spanprof_workers_total", event="died")
        begin("second_name")
        workers.wait_for_reader(run, child.pid, but=reader)
        result = run.stop()
        self.assertGreaterEqual(result.counter("workers_total", "died"), 1, result.log)
        self.assertEqual(result.counter("workers_total", "malformed"), 0, result.log)
        self.assertGreater(result.counter("python_joins_total", "whole"), whole, "stacks are walked all the same")
        unknown = sum(s.value for s in result.of(child.pid) if "unknown" in {f.type for f in s.frames})
        asked = result.counter("runtime_frames_total")
        print(f"# {unknown} samples without all names, {asked}", flush=True)
        self.assertLessEqual(unknown, asked["unnamed"] + asked["late"] / 2, "a name that is late is asked for again")

    def test_off_is_off(self):
        child = self.start_python(self.python(), "deep")
        run = self.start("--pid", child.pid, *HZ, "--runtimes=hotspot")
        run.wait_events(300, child.pid)
        result = run.stop()
        self.assertEqual({f.type for s in result.of(child.pid) for f in s.frames} & {"cpython"}, set())
        self.assertEqual(result.counter("runtimes_total", "attached"), 0)


if __name__ == "__main__":
    tap.main()
