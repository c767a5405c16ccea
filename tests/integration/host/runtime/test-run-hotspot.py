#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Java under the daemon, without a flag: stacks reach the root, and the frames of
tests/victims/java/VictimJavaBusy.java stand in the order that its source fixes, whatever is interpreted,
compiled or inlined. One JDK; test-long-run-hotspot.py takes more."""
import oracle

oracle.enter()

import collections
import json
import os
import re
import shutil
import signal
import subprocess

import jdks
import session
import tap
import workers

HZ = ("--frequency", "1999")
SOURCE = tap.SOURCE_DIR / "tests/victims/java/VictimJavaBusy.java"
CLASS = "VictimJavaBusy"
SHAPES = ("Square", "Circle", "Line")
CHAINS = {
    "deep": ["deep"] + ["deepA", "deepB", "deepC"] * 21 + ["deepA"],
    "sort": ["sort", "lambda$sort$0"],
    "stream": ["stream", "lambda$stream$1"],
    "shapes": ["shapes", "next", *(x for depth in range(9, 0, -1) for x in (f"${SHAPES[depth % 3]}.area", "next"))],
    "thrown": ["caught", "thrower"],
    "caught": ["caught", "handle"],
    "loop": ["loop"],
    "over": ["over", "over"],
    "mirror": ["mirror", "called"],
}
# Of all samples that `main` is in. The rest is where the program is between two methods, in the library or in
# native code: an interpreted method is left and entered more often than it works, and on a busy machine the
# compiler comes late.
LEAST = 0.8
MODES = ("", "-Xint", "-XX:TieredStopAtLevel=1", "-XX:-TieredCompilation")
ROOT = 0.998
# Code between two safepoints has no debug information: what comes next may be taken for it.
WRONG = 0.01
UNNAMED = 0.15          # a busy machine names some too late, and says so
N = 1000
LOADED = "the walk over runtimes' frames was loaded"
REFUSED = "the walk could not be loaded here"


LIBRARY = "VictimJavaLibrary"
# Of each chain: the methods below it, the outermost first.
BELOW = {
    "each": [["eachOne", "spin"]],
    "sort": [["sortTwo", "spin"]],
    "supply": [["lambda$supply$1", "supplyOne", "spin"], ["lambda$supply$2", "supplyOne", "spin"],
               ["lambda$supply$3", "supplyTwo", "seek"]],
    "tree": [["lambda$tree$0", "treeOne", "add"], ["lambda$tree$0", "treeOne", "spin"]],
}


def library_methods(sample):
    names = [frame.name or "" for frame in reversed(sample.frames)]
    return [name.removeprefix(f"{LIBRARY}.") for name in names if name.startswith(f"{LIBRARY}.")]


def library_chain(sample):
    return library_methods(sample)[2]


def library_verdict(sample):
    """whole, inner, wrong or unnamed, of a stack in one of the chains above; None: another stack."""
    methods = library_methods(sample)
    if methods[:2] != ["main", "turn"] or len(methods) < 3:
        return None
    if not is_named(sample):
        return "unnamed"
    below = BELOW.get(methods[2], [])
    if methods[3:] in below:
        return "whole"
    return "inner" if any(methods[3:] == known[:len(methods) - 3] for known in below) else "wrong"


def own(sample):
    """Methods of the victim, the outermost first, as its source has them; None: another thread's."""
    names = [frame.name or "" for frame in reversed(sample.frames)]
    if not any(name == f"{CLASS}.main" for name in names):
        return None
    return [
        name.removeprefix(CLASS).removeprefix(".") for name in names
        if name.startswith(CLASS) and "$$Lambda" not in name
    ]


def is_named(sample):
    return all(frame.type != "unknown" for frame in sample.frames)


def settled(samples):
    """The later half: on a busy machine, names of a JVM's first seconds come too late for many samples."""
    return sorted(samples, key=lambda sample: sample.time_ns)[len(samples) // 2:]


def compilations(samples):
    """Of the victim's own methods: interpreted, c1 compiled, jit compiled, inlined."""
    return {f.compilation for s in samples for f in s.frames if (f.name or "").startswith(CLASS)}


def verdict(names):
    if names == ["main", "stream", "lambda$stream$2"]:      # the filter between the two calls of `burn`
        return "inner"
    for chain in CHAINS.values():
        whole = ["main", *chain, "burn"]
        if names == whole:
            return "whole"
        if names == whole[:len(names)]:
            return "inner"
    return "wrong"


class Hotspot(session.NamingCase):
    def javas(self):
        """{release: java} that chains are tried on."""
        return jdks.given() or dict(sorted(jdks.here().items())[:1])

    def java(self):
        return next(iter(self.javas().values()))

    def start_java(self, java, *options, chains=()):
        child = self.spawn([java, *options, "-cp", jdks.classes(SOURCE), CLASS, *chains], stdin=subprocess.PIPE)
        child.wait_for("ready")
        return child

    def named_java(self):
        """(java, its comm): a name that no other JVM of the machine has, since other tests run beside this one."""
        link = self.directory() / f"java-{os.getpid()}"
        link.symlink_to(self.java())
        return link, link.name

    def check_run(self, run, child, made=frozenset()):
        """@made: compilations that have to be among the samples."""
        self.wait_for(run, lambda samples: sum(own(s) is not None and is_named(s) for s in samples) >= N and
                      made <= compilations(samples), f"{N} samples of chains with all names, {set(made)}")
        result = run.stop()
        samples = [s for s in result.of(child.pid) if own(s) is not None]
        verdicts, wrong = collections.Counter(), collections.Counter()
        for sample in samples:
            said = verdict(own(sample)) if is_named(sample) else "unnamed"
            verdicts[said] += sample.value
            if said == "wrong":
                wrong[tuple(own(sample))] += sample.value
        print("# " + f"{child.pid}: {len(samples)} samples, {dict(verdicts)}", flush=True)
        n = verdicts.total() - verdicts["unnamed"]
        self.assertGreaterEqual(verdicts["whole"] / n, LEAST, verdicts)
        late = settled(samples)
        self.assertLessEqual(sum(not is_named(s) for s in late), UNNAMED * len(late), verdicts)
        self.assertLessEqual(verdicts["wrong"] / n, WRONG, wrong.most_common(3))
        ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in samples)
        # libjvm.so has 300,000 rows: a JVM that was there before has some ticks until they are in force
        ends.pop("pending", None)
        self.assertGreater(ends[None], N / 2, ends)
        self.assertGreaterEqual(ends[None] / sum(ends.values()), ROOT, ends)
        return result, samples

    def test_chains_are_whole_in_each_mode(self):
        for java in self.javas().values():
            for options in MODES:
                with self.subTest(java=java, options=options):
                    child = self.start_java(java, *options.split())
                    run = self.start("--pid", child.pid, *HZ)
                    made = {"c1 compiled"} if options == "-XX:TieredStopAtLevel=1" else set()
                    _, samples = self.check_run(run, child, made)
                    kinds = {f.type for s in samples for f in s.frames if (f.name or "").startswith(CLASS)}
                    self.assertEqual(kinds, {"jvm"})
                    if options == "-Xint":
                        self.assertEqual(compilations(samples), {"interpreted"})
                    child.stop()            # it burns, and names of the next one would come late

    def test_a_loop_without_a_safepoint_has_no_guessed_frame(self):
        """The serial collector leaves none in a counted loop, as `burn` is. What stands next to it in the
        code is of another method, which hardly runs: the stack ends at a caller."""
        child = self.start_java(self.java(), "-XX:+UseSerialGC", chains=["sort", "stream"])
        run = self.start("--pid", child.pid, *HZ)
        self.wait_for(run, lambda found: sum(map(bool, map(own, found))) >= N, f"{N} samples of chains")
        seen = collections.Counter()
        for sample in filter(own, run.stop().of(child.pid)):
            leaf = next((f.name for f in sample.frames if f.type == "jvm"), None)
            is_next = leaf in ("java.lang.Integer.compare", f"{CLASS}.lambda$stream$2")
            seen["next" if is_next else verdict(own(sample))] += sample.value
        print(f"# {child.pid}: {dict(seen)}", flush=True)
        self.assertLessEqual(seen["next"] + seen["wrong"], WRONG * seen.total(), seen)

    def test_a_short_loop_that_a_loop_of_the_library_calls_is_named(self):
        """No collector keeps a safepoint in `spin`, and the serial one in none: the code that runs between the
        places around a loop tells whose it is. `each` has that loop alone below the library's."""
        directory = jdks.classes(tap.SOURCE_DIR / f"tests/victims/java/{LIBRARY}.java")
        for options in ("", "-XX:+UseSerialGC"):
            with self.subTest(options=options):
                child = self.spawn([self.java(), *options.split(), "-cp", directory, LIBRARY, *BELOW],
                                   stdin=subprocess.PIPE)
                child.wait_for("ready")
                run = self.start("--pid", child.pid, *HZ)
                self.wait_for(run, lambda found: sum(library_verdict(s) in ("whole", "inner") for s in found) >= N,
                              f"{N} samples of chains")
                samples = settled([s for s in run.stop().of(child.pid) if library_verdict(s)])
                child.stop()
                seen = collections.Counter((library_chain(s), library_verdict(s)) for s in samples)
                print(f"# {child.pid} {options}: {dict(seen)}", flush=True)
                self.assertFalse([key for key in seen if key[1] == "wrong"], seen)
                n = sum(seen["each", verdict] for verdict in ("whole", "inner"))
                self.assertGreater(n, 0, seen)
                self.assertGreaterEqual(seen["each", "whole"], LEAST * n, seen)

    def test_a_call_behind_a_rare_branch_is_not_named(self):
        """The next place with debug information is in `rare`, which is inlined and nearly never called."""
        name = "VictimRare"
        directory = jdks.classes(tap.SOURCE_DIR / f"tests/victims/java/{name}.java")
        for options in ("", "-XX:TieredStopAtLevel=1"):
            with self.subTest(options=options):
                child = self.spawn([self.java(), *options.split(), "-cp", directory, name],
                                   stdin=subprocess.PIPE)
                child.wait_for("ready")
                run = self.start("--pid", child.pid, *HZ)
                self.wait_for(run, lambda found: sum(any(f.name == f"{name}.work" for f in s.frames)
                                                     for s in found) >= N, f"{N} samples of work")
                leaves = collections.Counter()
                for sample in run.stop().of(child.pid):
                    leaves[next((f.name for f in sample.frames if f.type == "jvm"), None)] += sample.value
                print(f"# {child.pid} {options}: {leaves.most_common(4)}", flush=True)
                self.assertLessEqual(leaves[f"{name}.rare"], WRONG * leaves.total(), leaves)

    def test_callers_are_right_while_frames_are_deoptimised(self):
        """tests/victims/java/VictimDeopt.java; the JVM's log says that it made code of `next` invalid."""
        name, depth = "VictimDeopt", 41
        directory = jdks.classes(tap.SOURCE_DIR / f"tests/victims/java/{name}.java")
        child = self.spawn([self.java(), "-XX:+PrintCompilation", "-cp", directory, name])
        child.wait_for("ready")
        run = self.start("--pid", child.pid, *HZ)

        def methods(sample):
            found = [f.name for f in reversed(sample.frames) if (f.name or "").startswith(f"{name}$")]
            return [x.rpartition(".")[2] for x in found]

        def of_work(samples):
            return [s for s in samples if is_named(s) and methods(s)[:1] == ["run"]]

        self.wait_for(run, lambda samples: len(of_work(samples)) >= 2 * N, f"{2 * N} samples")
        samples = of_work(run.stop().of(child.pid))
        whole = ["run", *["next"] * depth, "burn"]
        found = [methods(s) for s in samples]
        verdicts = collections.Counter("whole" if x == whole else "inner" if x == whole[:len(x)] else "wrong"
                                       for x in found)
        print(f"# {verdicts}", flush=True)
        self.assertRegex(child.out, r"One::next .*made not entrant")
        self.assertEqual([x for x in found if x != whole[:len(x)]], [], verdicts)
        self.assertGreaterEqual(verdicts["whole"], LEAST * len(samples), verdicts)
        ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in samples)
        ends.pop("pending", None)
        self.assertGreaterEqual(ends[None] / sum(ends.values()), ROOT, ends)

    def test_targets_says_that_loops_have_no_safepoint(self):
        for options, is_said in (("-XX:+UseSerialGC", True), ("-XX:+UseParallelGC", True),
                                 ("-XX:+UseG1GC", False), ("-XX:+UseSerialGC -Xint", False),
                                 ("-XX:+UseSerialGC -XX:+UseCountedLoopSafepoints", False)):
            with self.subTest(options=options):
                child = self.start_java(self.java(), *options.split(), chains=["over"])
                listed = json.loads(self.spanprof("targets", "--json", "--pid", child.pid).stdout)
                child.stop(9)
                self.assertRegex(listed[0]["runtime"], r"java \d+")
                self.assertEqual("-XX:+UseCountedLoopSafepoints" in listed[0]["runtime"], is_said, listed)

    def test_frames_say_how_they_were_made(self):
        child = self.start_java(self.java())
        run = self.start("--pid", child.pid, *HZ)
        made = {"jit compiled", "inlined"}
        self.wait_for(run, lambda samples: made <= compilations(samples), "compiled and inlined frames")
        samples = run.stop().of(child.pid)
        self.assertLessEqual(compilations(samples), made | {"interpreted", "c1 compiled"})
        self.assertFalse([f for s in samples for f in s.frames if f.compilation and f.type != "jvm"])

    def test_a_report_says_how_frames_ran(self):
        child = self.start_java(self.java())
        path = self.directory() / "java.pb"

        def told():
            """Of one more second: the compiler may come late, and so may names."""
            self.spanprof("record", "--pid", child.pid, "-F", "499", "-d", "1s", "-o", path)
            table = self.spanprof("report", path).stdout.partition("Innermost frames")[2].partition("\n\n")[0]
            return re.search(r"(?m)^ *\d+ +[\d.]+% +(jit compiled|inlined)$", table)

        tap.wait_until(told, "a row of compiled frames")

    def test_overloads_are_told_apart(self):
        child = self.start_java(self.java(), chains=["over", "sort"])
        run = self.start("--pid", child.pid, *HZ, "--java-signatures")
        overloads = [f"{CLASS}.over(int)", f"{CLASS}.over(long, java.lang.String[])", f"{CLASS}.burn(int)"]
        wanted = {*overloads, f"{CLASS}.main(java.lang.String[])",
                  "java.util.Collections.sort(java.util.List, java.util.Comparator)"}

        def callers(samples):
            """Who called the second one, of stacks that are whole and have all their names."""
            whole = [s.frames for s in samples if "profile.stack.truncated" not in s.attributes]
            stacks = [[frame.name for frame in reversed(frames)] for frames in whole
                      if "unknown" not in {frame.type for frame in frames}]
            return {names[names.index(overloads[1]) - 1] for names in stacks if overloads[1] in names}

        self.wait_for(run, lambda samples: wanted <= {f.name for s in samples for f in s.frames} and
                      callers(samples), f"frames named {wanted}")
        self.assertEqual(callers(run.stop().of(child.pid)), {overloads[0]})

    def test_a_jvm_that_starts_later_and_one_that_dies(self):
        java, comm = self.named_java()
        run, wait = self.start_counted("--comm", comm, *HZ)
        child = self.start_java(java)
        self.wait_named(run, child.pid, f"{CLASS}.burn")
        before = wait.counter("spanprof_runtime_processes")
        self.assertGreaterEqual(before, 1)
        child.stop(9)
        tap.wait_until(lambda: wait.counter("spanprof_runtime_processes") < before, "its runtime is forgotten")
        run.stop()

    def test_the_walk_is_loaded_beside_the_running_sampler(self):
        plain = self.spawn(["sh", "-c", "while :; do :; done"])
        java, comm = self.named_java()
        run = self.start("--comm", comm, "--pid", plain.pid, *HZ, "--log-level", "debug")
        run.wait_events(200, plain.pid)
        self.assertNotIn(LOADED, run.log)
        child = self.start_java(java)
        run.child.wait_for(LOADED)
        self.wait_named(run, child.pid, f"{CLASS}.burn")
        result = run.stop()             # books are exact
        self.assertEqual(result.log.count(LOADED), 1)
        self.assertNotIn("jvm", {f.type for s in result.of(plain.pid) for f in s.frames})

    def test_a_walk_that_cannot_be_loaded_is_said(self):
        control = self.directory() / "control.sock"
        types = self.directory() / "vmlinux"
        types.parent.chmod(0o755)       # for the user that the daemon becomes
        shutil.copyfile("/sys/kernel/btf/vmlinux", types)
        java, comm = self.named_java()
        run = self.start("--comm", comm, *HZ, "--control", control, environment={"SPANPROF_BTF": types})
        types.unlink()                  # the second load reads them again
        child = self.start_java(java)
        run.child.wait_for("frames of runtimes are not walked: this kernel cannot load the walk")
        run.wait_events(200, child.pid)
        tap.wait_until(lambda: f"{REFUSED}\n" in self.spanprof("status", "--control", control).stdout, "its reason")
        result = run.stop()
        self.assertNotIn("jvm", {f.type for s in result.of(child.pid) for f in s.frames})

    def test_a_worker_that_is_killed_costs_names_for_a_moment(self):
        child = self.start_java(self.java(), chains=["deep", "sort"])
        run, wait = self.start_counted("--pid", child.pid, *HZ)
        self.wait_named(run, child.pid, f"{CLASS}.deepA", f"{CLASS}.lambda$sort$0")
        first = workers.wait_for_reader(run, child.pid)
        self.assertEqual(workers.status_of(first)["Name"], "spanprof-parser")
        opened = {link for link in workers.descriptors(first) if not link.startswith("socket:")}
        self.assertEqual({link for link in opened if not link.endswith("/libjvm.so")},
                         {f"/proc/{child.pid}/mem", f"/proc/{child.pid}/pagemap"})
        os.kill(first, signal.SIGKILL)
        wait(1, "spanprof_workers_total", event="died")
        named = wait.counter("spanprof_runtime_frames_total", result="named")
        child.process.stdin.write(b"stream shapes\n")
        child.process.stdin.flush()
        self.wait_named(run, child.pid, f"{CLASS}.stream", f"{CLASS}$Circle.area", f"{CLASS}.burn")
        workers.wait_for_reader(run, child.pid, but=first)
        self.assertGreater(wait.counter("spanprof_runtime_frames_total", result="named"), named)
        result = run.stop()
        self.assertEqual(result.counter("workers_total", "died"), 1, result.log)
        self.assertEqual(result.counter("workers_total", "late"), 0, result.log)
        self.assertEqual(result.counter("workers_total", "malformed"), 0, result.log)
        # its death is no end of a stack: Java's frames are walked on, and native ones below them
        samples = [s for s in result.of(child.pid) if own(s) is not None]
        ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in samples)
        ends.pop("pending", None)
        self.assertGreaterEqual(ends[None] / sum(ends.values()), ROOT, ends)

    def test_off_is_off(self):
        child = self.start_java(self.java())
        run = self.start("--pid", child.pid, *HZ, "--runtimes=off")
        run.wait_events(300, child.pid)
        result = run.stop()
        self.assertEqual({f.type for s in result.of(child.pid) for f in s.frames} & {"jvm"}, set())
        self.assertEqual(result.counter("runtimes_total", "attached"), 0)

    def test_a_recording_says_that_it_is_off(self):
        child = self.start_java(self.java())
        done = self.run_command([tap.SPANPROF, "record", "--pid", child.pid, "-d", "2s", "--runtimes=python",
                                 "-o", self.directory() / "off.folded"], expect=0)
        self.assertIn("functions of Java are not read: `--runtimes` leaves hotspot out", done.stdout)

    def test_a_name_that_is_no_runtime(self):
        done = self.run_command([tap.SPANPROF, "run", "--runtimes=hotspot,cobol"], expect=2)
        self.assertIn("`cobol` is no runtime that spanprof knows", done.stderr)


if __name__ == "__main__":
    tap.main()
