#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Erlang under the daemon, without a flag: functions and lines of tests/victims/beam/victim_beam.erl are what
its processes have said of the same chains (process_info(self(), current_stacktrace)). With --long also the
releases of other suites of Debian (SPANPROF_TEST_ERLS names more programs than this machine's)."""
import oracle

oracle.enter()

import collections
import itertools
import os
import pathlib
import re
import shutil

import erlangs
import session
import tap

HZ = ("--frequency", "1999", "--symbols", "local", "--depth", "512")
SOURCE = tap.SOURCE_DIR / "tests/victims/beam/victim_beam.erl"
N = 10000 if tap.LONG else 2500
WHOLE = 0.99            # of samples of processes of the victim: those in a chain, or on the way to its burn/1
OTHER = 0.01            # of samples: code between a scheduler and a process, which says that it is not whole
NAMED = 0.98            # of samples: a busy machine names some frames too late
ROOT = "victim_beam:-start/3-fun-0-/3"
BURN = "victim_beam:burn/1"
OWN = "victim_beam:"
# own functions that burn/1 leads to, and what stands in front of them: a last call leaves no frame
CALLERS = {OWN + name: {OWN + caller for caller in callers} for name, callers in {
    "burns/1": ["burn/1"], "spin/2": ["burn/1"], "fresh/2": ["burn/1"], "both/3": ["fresh/2"],
    "narrow/1": ["both/3"], "wide/3": ["both/3"], "small/1": ["narrow/1"], "least/1": ["small/1"],
    "last/1": ["least/1", "wide/3"]}.items()}
BESIDE = 3              # functions of a chain's library that are called on the way, and return
TOLD = 150              # samples of each process of Erlang that is told
# work that dirty schedulers do, and how their threads are called (OTP 25, and newer)
DIRTY = {"large": r"\d+_dirty_cpu|erts_dcpus", "file": r"\d+_dirty_io|erts_dios"}
DIRTY_SAMPLES = 150
MOVED = {"__munmap", "munmap", "__mremap", "mremap"}      # the heap that a stack was in is given back
C_CHAINS = ("select", "binary", "external", "matched", "bignum", "collect", "digest")


def all_erls():
    given = [path for path in os.environ.get("SPANPROF_TEST_ERLS", "").split(":") if path]
    fetched = map(erlangs.fetched, erlangs.SUITES) if tap.LONG else []
    own = shutil.which("erl") if shutil.which("erlc") else None
    return list(filter(None, (*given, *fetched, own))) or tap.skip("tool: erlang-base is not installed")


def collapsed(frames):
    """Erlang says the same place once, however often it follows itself."""
    return [place for place, _ in itertools.groupby(frames)]


def split(text):
    name, line = text.rsplit("@", 1)
    return name, int(line)


def of_erlang(sample):
    """Functions of Erlang with their lines, the outermost first, and the C code behind them."""
    frames = list(reversed(sample.frames))
    n = next((i for i, f in enumerate(frames) if f.type != "beam"), len(frames))
    return [(f.name, f.line or 0) for f in frames[:n]], frames[n:]


def is_functions(name):
    """Whether it is a function of the map, which has the code that ends stacks, too."""
    return name.startswith("$") and not name.startswith("$erts_beamasm:")


def of_map(sample):
    """burn/1 and its callers by Erlang's own perf map, the outermost first, from where all of them have names."""
    names = [(f.name or "").replace("'", "") for f in sample.frames]
    names = names[names.index("$" + BURN):] if "$" + BURN in names else []
    return collapsed(name[1:] for name in itertools.takewhile(is_functions, names))[::-1]


def verdict(places, truth):
    names = [name for name, _ in places]
    if BURN in names:
        at = names.index(BURN)
        below = list(itertools.pairwise(names[at:]))
        others = sum(not name.startswith(OWN) for _, name in below)
        if others > BESIDE or any(name.startswith(OWN) and caller not in CALLERS.get(name, ())
                                  for caller, name in below):
            return "wrong"
        return "whole" if tuple(places[:at]) in truth else "wrong"
    for some in truth:
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(places, some)))
        chain = {name for name, _ in some}
        if same >= 1 and len(places) - same <= BESIDE and not any(name.startswith(OWN) and name not in chain
                                                                  for name in names[same:]):
            return "inner"
    return "wrong" if len(places) > BESIDE or any(name.startswith(OWN) for name in names[1:]) else "inner"


class Beam(session.NamingCase):
    def command(self, erl, *arguments):
        """The victim, compiled for each release once a test."""
        if erl not in self.compiled:
            self.compiled[erl] = directory = self.directory()
            source = shutil.copy(SOURCE, directory)
            self.run_command([pathlib.Path(erl).with_name("erlc"), "-o", directory, source], expect=0)
        return [erl, "-noshell", "-noinput", "-pa", self.compiled[erl], *self.flags, "-run", "victim_beam", "main",
                *arguments]

    flags = ()

    def setUp(self):
        super().setUp()
        self.compiled = {}

    def truth(self, erl, *chains):
        """{chain: {((function, line), …) above burn/1}}"""
        said = self.run_command(self.command(erl, "print", *chains), expect=0).stdout
        truth = collections.defaultdict(set)
        for line in said.splitlines():
            chain, places = line.split(" ", 1)
            *above, last = map(split, places.split(";"))
            self.assertEqual(last[0], BURN)
            truth[chain].add(tuple(collapsed(above)))
        return truth

    def sampled(self, erl, *arguments):
        child = self.spawn(self.command(erl, *arguments))
        child.wait_for("ready")
        run = self.start("--pid", child.pid, *HZ)
        self.wait_for(run, lambda samples: sum(bool(of_erlang(s)[0]) for s in samples) >= N,
                      f"{N} samples with functions of Erlang")
        result = run.stop()
        child.stop(9)
        samples = result.of(child.pid)
        begin = min(s.time_ns for s in samples if of_erlang(s)[0])
        return [s for s in samples if s.time_ns >= begin], result

    def check(self, what, samples, truth):
        verdicts, wrong, ends, beside = (collections.Counter() for _ in range(4))
        for sample in samples:
            places, native = of_erlang(sample)
            said = "none" if not places else "scheduler" if places[0][0] == "(scheduler)" else "other"
            if any(f.type in ("beam", "unknown") for f in native) or any(not name for name, _ in places):
                said = "unnamed"
            elif places and places[0][0] == ROOT:
                said = verdict(collapsed(places), truth)
                beside["C" if native else "Erlang", said] += 1
            ends[sample.attributes.get("profile.stack.truncated")] += 1
            verdicts[said] += 1
            if said in ("wrong", "other", "none"):
                wrong[said, tuple(f"{name}@{line}" for name, line in collapsed(places)) or
                      tuple(f.name for f in sample.frames)] += 1
        print(f"# {what}: {len(samples)} samples, {dict(verdicts)}, ends {dict(ends)}, {dict(beside)}", flush=True)
        for stack, n in wrong.most_common(6):
            print(f"# {n} {stack[0]}: {' > '.join(stack[1][-8:])}", flush=True)
        self.assertEqual(verdicts["wrong"], 0)
        own, named = verdicts["whole"] + verdicts["inner"], len(samples) - verdicts["unnamed"]
        self.assertGreaterEqual(own + verdicts["scheduler"], WHOLE * named - OTHER * len(samples))
        self.assertLessEqual(verdicts["unnamed"], (1 - NAMED) * len(samples))
        self.assertGreater(own, 0.5 * len(samples))
        return beside

    def test_chains_and_lines(self):
        for erl in all_erls():
            with self.subTest(erl=erl):
                truth = self.truth(erl)
                samples, result = self.sampled(erl, "4")
                self.check(f"{erl}, all chains", samples, set().union(*truth.values()))
                self.assertEqual(result.counter("workers_total", "malformed"), 0, result.log)

    def test_c_code_is_joined_with_the_functions_that_call_it(self):
        for erl in all_erls():
            with self.subTest(erl=erl):
                truth = self.truth(erl)
                samples, _ = self.sampled(erl, "1", *C_CHAINS)
                beside = self.check(f"{erl}, C at the leaf", samples, set().union(*(truth[name] for name in C_CHAINS)))
                self.assertGreater(beside["C", "whole"], 0.5 * sum(beside.values()))

    def test_the_work_of_dirty_schedulers_is_joined_with_its_process(self):
        """Their threads never run code of the JIT: the collection of a large heap, and reads of files."""
        for erl in all_erls():
            with self.subTest(erl=erl):
                truth = set().union(*self.truth(erl, *DIRTY).values())
                child = self.spawn(self.command(erl, "1", *DIRTY))
                child.wait_for("ready")
                run = self.start("--pid", child.pid, *HZ)

                def dirty(samples, kind):
                    return [s for s in samples if re.match(DIRTY[kind], s.attributes["thread.name"])]

                def own(samples):
                    return [s for s in samples if ROOT in (f.name for f in s.frames)]

                self.wait_for(run, lambda samples: all(len(own(dirty(samples, kind))) >= DIRTY_SAMPLES
                                                       for kind in DIRTY), f"{DIRTY_SAMPLES} samples of each kind")
                result = run.stop()
                child.stop(9)
                samples = result.of(child.pid)
                begin = min(s.time_ns for s in samples if of_erlang(s)[0])
                samples = [s for kind in DIRTY for s in dirty(samples, kind) if s.time_ns >= begin]
                verdicts = collections.Counter()
                for sample in samples:
                    places, native = of_erlang(sample)
                    self.assertTrue(native, "C code is innermost")
                    if any(not name for name, _ in places) or any(f.type == "unknown" for f in native):
                        verdicts["unnamed"] += 1
                    elif places and places[0][0] == ROOT:
                        verdicts[verdict(collapsed(places), truth)] += 1
                        self.assertIn(sample.attributes.get("coroutine.name"), (None, "erlang:apply/2"))
                    elif len(places) <= 1 and MOVED & {f.name for f in native}:
                        verdicts["moved"] += 1
                    else:
                        verdicts[places[0][0] if places else sample.attributes.get("profile.stack.truncated")] += 1
                # it has left no return address: a collection was due when it called itself
                innermost = collections.Counter(of_erlang(s)[0][-1][0] for s in own(dirty(samples, "large")))
                print(f"# {erl}: {verdicts}, {innermost}", flush=True)
                self.assertGreater(innermost["lists:seq_loop/3"], 0)
                self.assertFalse(innermost["victim_beam:burns/1"], "its callee is missing")
                self.assertEqual(verdicts["wrong"], 0)
                rest = sum(verdicts[said] for said in ("inner", "(scheduler)", "unnamed", "moved"))
                self.assertGreaterEqual(verdicts["whole"] + rest, WHOLE * len(samples))
                self.assertGreater(verdicts["whole"], rest)
                self.assertEqual(result.counter("workers_total", "malformed"), 0, result.log)

    def test_a_sample_tells_the_process_of_erlang(self):
        """By its registered name, else by the function that it began with; and by its pid, where ids are wanted."""
        for erl in all_erls():
            with self.subTest(erl=erl):
                child = self.spawn(self.command(erl, "processes"))
                child.wait_for("ready")
                said = re.findall(r"^process (\S+) (\S+) (\S+)$", child.out, re.M)
                truth, pids = ({line[0]: line[i] for line in said} for i in (1, 2))
                self.assertEqual(truth, {OWN + "loops/1": OWN + "loops/1", OWN + "named/1": "burner"})
                run = self.start("--pid", child.pid, *HZ, "--coroutine-ids")

                def told(samples):
                    """[(what begins the stack, what tells the process)]"""
                    return [(of_erlang(s)[0][0][0], s.attributes.get("coroutine.name")) for s in samples
                            if of_erlang(s)[0] and of_erlang(s)[0][0][0] in truth]

                self.wait_for(run, lambda samples: all(sum(said == name for _, said in told(samples)) >= TOLD
                                                       for name in truth.values()), f"{TOLD} samples of each")
                result = run.stop()
                child.stop(9)
                samples = told(result.of(child.pid))
                begun = [(of_erlang(s)[0][0][0], s.attributes.get("coroutine.id")) for s in result.of(child.pid)
                         if of_erlang(s)[0]]
                told_pids = {pair for pair in begun if pair[0] in truth and pair[1]}
                self.assertEqual(told_pids, set(pids.items()))
                self.assertGreaterEqual(result.counter("erlang_processes_total", "named"), 2 * TOLD)
                print(f"# {erl}: {dict(collections.Counter(samples))}", flush=True)
                self.assertFalse([pair for pair in samples if pair[1] not in (None, truth[pair[0]])])
                self.assertLessEqual(sum(name is None for _, name in samples), (1 - NAMED) * len(samples))

    def test_the_release_is_named_by_targets(self):
        for erl in all_erls():
            with self.subTest(erl=erl):
                child = self.spawn(self.command(erl, "sleep"))
                child.wait_for("ready")
                said = self.run_command([tap.SPANPROF, "targets", "--verbose", "--pid", child.pid], expect=0).stdout
                child.stop(9)
                release = self.run_command([erl, "-noshell", "-eval",
                                            "io:put_chars(erlang:system_info(otp_release)), halt()."], expect=0).stdout
                self.assertRegex(said, re.escape(f"Erlang/OTP {release}") + "  ")

    def test_frame_pointers_are_refused_in_words_and_no_chain_is_wrong(self):
        """`+JPperf true` puts a frame pointer beside each return address, which looks as one."""
        for erl in all_erls():
            with self.subTest(erl=erl):
                self.check_frame_pointers(erl)

    def check_frame_pointers(self, erl):
        self.flags = ()
        truth = set().union(*self.truth(erl).values())
        above = {tuple(collapsed(name for name, _ in chain)) for chain in truth}
        self.flags = ("+JPperf", "true")
        child = self.spawn(self.command(erl, "1"))
        for name in (f"perf-{child.pid}.map", f"jit-{child.pid}.dump"):
            self.addCleanup(pathlib.Path("/tmp", name).unlink, missing_ok=True)
        child.wait_for("ready")
        said = self.run_command([tap.SPANPROF, "targets", "--verbose", "--pid", child.pid], expect=0).stdout
        self.assertRegex(said, r"Erlang/OTP \d+: not walked: frame pointers \(\+JPperf true\)")
        run = self.start("--pid", child.pid, *HZ)
        self.wait_for(run, lambda samples: sum(bool(of_map(s)) for s in samples) >= N // 5,
                      f"{N // 5} samples in {BURN} by the perf map")
        samples = run.stop().of(child.pid)
        child.stop(9)
        self.assertFalse([f for s in samples for f in s.frames if f.type == "beam"])
        chains = [tuple(names[:-1]) for names in map(of_map, samples) if len(names) > 1]
        wrong = collections.Counter(names for names in chains
                                    if not any(chain[-len(names):] == names for chain in above))
        print(f"# {len(samples)} samples, {len(chains)} with callers of {BURN}, {len(wrong)} wrong", flush=True)
        for names, n in wrong.most_common(6):
            shown = names if len(names) <= 8 else (*names[:2], "…", *names[-6:])
            print(f"# {n} {' > '.join(shown)}", flush=True)
        self.assertFalse(wrong)
        self.assertGreater(len(chains), 0)

    def test_a_process_that_waits_on_a_dirty_scheduler_shows_its_functions(self):
        """`spanprof stacks`: by the rules of the kernel half, on the host. A scheduler without work is called so."""
        path = self.directory() / "fifo"
        os.mkfifo(path)
        child = self.spawn(self.command(all_erls()[-1], "blocks", path))
        child.wait_for("ready")
        shown = re.compile(r"^ +victim_beam:blocks/1 +victim_beam\.erl:\d+$\n^ +victim_beam:main/1 ", re.M)
        # it may not wait yet
        said = tap.wait_until(lambda: (text := self.run_command([tap.SPANPROF, "stacks", child.pid]).stdout)
                              and shown.search(text) and text, "functions of the thread that waits")
        self.assertRegex(said, r"(?m)^ +\(scheduler\) *$")
        child.stop(9)

    def test_off_is_off(self):
        child = self.spawn(self.command(all_erls()[-1], "1", "recursion"))
        child.wait_for("ready")
        run = self.start("--pid", child.pid, *HZ, "--runtimes=python")
        run.wait_events(300, child.pid)
        result = run.stop()
        child.stop(9)
        self.assertFalse([f for s in result.of(child.pid) for f in s.frames if f.type == "beam"])


if __name__ == "__main__":
    tap.main()
