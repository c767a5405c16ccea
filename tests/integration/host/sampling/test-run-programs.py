#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of spanprof, with outside truth: `perf record` of the same run, or the victims' own clocks."""
import oracle

oracle.enter()

import collections
import math
import os
import random
import re
import subprocess
import sys
import threading
import time

import compare
import otlp_read
import perf
import session
import shares
import tap

SYMBOLS = otlp_read.Symbols()
BENCHMARK = """
import json, re
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
text = json.dumps([{"a": i, "b": [str(i)] * 5} for i in range(500)])
while True:
    fib(16)
    sorted(json.loads(text), key=lambda x: -x["a"])
    re.findall(r"[a-z]+\\d*", text)
"""


def nm(path):
    """name → (address, size) of the functions of a program."""
    text = subprocess.run(["nm", "-S", path], capture_output=True, text=True, check=True).stdout
    return {
        m[3]: (int(m[1], 16), int(m[2], 16)) for m in re.finditer(r"^(\w+) (\w+) [tT] (\w+)$", text, re.M)
    }


def user_leaf(sample):
    return next((frame for frame in sample.frames if frame.type != "kernel"), None)


class AgainstPerf(session.TestCase):
    def agrees(self, result, recording, pids):
        ours, theirs = recording.common(result, pids)
        for a, b in ((otlp_read.objects(ours), compare.objects(theirs)),
                     (otlp_read.functions(ours, SYMBOLS), otlp_read.perf_functions(theirs, SYMBOLS))):
            comparison = compare.two_samples(a, b, alpha=session.ALPHA / 2)
            self.assertTrue(comparison.agrees, comparison)
        return ours, comparison

    def profile(self, pattern, start, cpu=2.0):
        """
        Chooses by name, starts, samples beside perf. (result, recording, pids of what start() started). perf
        knows no runtimes: where ours has a frame of one, it has the interpreter's own.
        """
        run = self.start("--comm", pattern, "--frequency", "999", "--runtimes", "off")
        recording = perf.Recording(self, frequency=999)
        pids = start()
        session.wait_cpu(pids, cpu)
        result = run.stop()
        return result, recording, set(pids)

    def test_recordings_of_perf_are_whole_beside_us(self):
        """A command's own events come after ours in the kernel: what ours left in the notice of a mapping, perf would read."""
        directory = self.directory()
        child = self.victim("chain", 5)
        run = self.start("--pid", child.pid)
        run.wait_events(20, child.pid)
        self.run_command([
            tap.need_tool("perf"), "record", "-q", "-B", "-N", "-e", "cpu-clock", "-o",
            directory / "perf.data", "--", "/bin/true"
        ], expect=0)
        shown = self.run_command(
            ["perf", "script", "-i", directory / "perf.data", "--show-mmap-events", "-F", "comm,ip"],
            expect=0)
        self.assertRegex(shown.stdout, r"PERF_RECORD_MMAP2 .* \w+:\w+ [1-9]\d* \d+\]: r-xp .*/true",
                         "with an inode, as it was asked for")
        self.assertGreater(len(run.stop().of(child.pid)), 0)

    def test_xz(self):
        def start():
            child = self.spawn([tap.need_tool("xz"), "-T2", "-3", "--block-size=512KiB", "-c"],
                               stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            threading.Thread(target=self.feed, args=[child.process.stdin], daemon=True).start()
            return [child.pid]

        result, recording, pids = self.profile("xz", start)
        ours, comparison = self.agrees(result, recording, pids)
        self.assertEqual({s.resource["process.executable.name"] for s in ours}, {"xz"})
        self.assertGreaterEqual(len({s.thread_id for s in ours}), 2, "-T2 works in threads of its own")
        self.assertGreater(
            otlp_read.objects(ours)
            ["liblzma.so." + os.path.realpath("/lib/x86_64-linux-gnu/liblzma.so.5").split("liblzma.so.")[1]],
            len(ours) / 2)

    @staticmethod
    def feed(pipe):
        words = [bytes(random.choices(range(97, 123), k=random.randint(2, 9))) for _ in range(3000)]
        text = b" ".join(random.choices(words, k=200000))
        try:
            while True:
                pipe.write(text)
        except (OSError, ValueError):
            pass

    def test_openssl_speed(self):
        def start():
            child = self.spawn([tap.need_tool("openssl"), "speed", "-seconds", "60", "-multi", "2", "sha256"])
            children = f"/proc/{child.pid}/task/{child.pid}/children"
            return tap.wait_until(lambda: (lambda x: x if len(x) == 2 else None)(
                [int(y) for y in open(children).read().split()]), "two children of openssl")

        result, recording, pids = self.profile("openssl", start)
        self.assertEqual(result.pids & pids, pids)
        ours, _ = self.agrees(result, recording, pids)
        libcrypto = {f.build_id for s in ours for f in s.frames if "libcrypto" in f.path}
        self.assertEqual(len(libcrypto), 1)

    def test_python(self):
        def start():
            path = self.directory() / "benchmark.py"
            path.write_text(BENCHMARK)
            return [self.spawn([os.path.realpath(sys.executable), path]).pid]

        result, recording, pids = self.profile("python3*", start)
        _, comparison = self.agrees(result, recording, pids)
        self.assertIn("_PyEval_EvalFrameDefault",
                      {str(row.category[1]) for row in comparison.rows if row.category != "(rest)"})

    def check_chain(self, name, depth=12):
        path = tap.VICTIMS / f"victim-{name}"
        symbols = nm(path)
        child = self.victim(name, depth)
        run = self.start("--pid", child.pid, "--frequency", "999")
        recording = perf.Recording(self, frequency=999)
        session.wait_cpu([child.pid], 0.75)
        result = run.stop()
        build_id = re.search(r"Build ID: (\w+)",
                             self.run_command(["readelf", "-nW", path], expect=0).stdout)[1]
        ours, _ = self.agrees(result, recording, {child.pid})
        n_leaf = 0
        for sample in ours:
            frames = [f for f in sample.frames if f.type != "kernel"]
            if not frames or SYMBOLS.name(frames[0]) != "chain_leaf":
                continue  # its start, and what the kernel made of it
            n_leaf += 1
            self.assertEqual([(f.build_id, os.path.basename(f.path)) for f in frames[:depth]],
                             [(build_id, f"victim-{name}")] * depth)
            for frame, function in zip(frames, ["chain_leaf"] + ["chain_frame"] * (depth - 1) + ["main"]):
                start, size = symbols[function]
                self.assertTrue(start <= frame.address < start + size, (hex(frame.address), function))
        self.assertGreater(n_leaf, 0.97 * len(ours))

    def test_a_static_program_at_a_fixed_address(self):
        self.check_chain("chain-static")

    def test_a_position_independent_program(self):
        self.check_chain("chain")


class AgainstClocks(session.TestCase):
    def counts(self, samples):
        return collections.Counter(SYMBOLS.name(user_leaf(s)) for s in samples if user_leaf(s))

    def test_functions_have_their_shares(self):
        for jitter in ("on", "off"):
            with self.subTest(jitter=jitter):
                run = self.start("--comm", "victim-shares", "--frequency", "1999", f"--jitter={jitter}")
                child = self.victim("shares", 0, random.randrange(10**9))
                session.wait_cpu([child.pid], 1.25)
                self.assertEqual(child.stop(), 0)
                result = run.stop()
                shares.check(self, self.counts(result.of(child.pid)),
                             session.truth_of(child, r"^(share_\d+) (\d+)$"))

    def sampled_cpu_ns(self, result, pid):
        """What the samples say: each stands for the period of its profile."""
        return sum(s.value * s.period for s in result.of(pid))

    def periodic(self, *options, cpus, periods, seconds):
        """(share of work_a seen, true, number of samples) of victims that repeat, each bound to a CPU, and the result."""
        run = self.start("--comm", "victim-periodic", *options)
        children = [
            self.spawn(["taskset", "-c", cpu, tap.VICTIMS / "victim-periodic", ms], stdin=subprocess.DEVNULL)
            for cpu, ms in zip(cpus, periods)
        ]
        for child in children:
            child.wait_for("^pid")
        before = time.monotonic()
        tap.wait_until(lambda: time.monotonic() > before + seconds, f"{seconds} s are over")
        for child in children:
            self.assertEqual(child.stop(), 0)
        result = run.stop()
        rows = []
        for child in children:
            counts, truth = self.counts(result.of(child.pid)), session.truth_of(child, r"^(work_[ab]) (\d+)$")
            n = counts["work_a"] + counts["work_b"]
            self.assertGreater(n, 25)
            rows.append(
                (counts["work_a"] / n, truth["work_a"] / sum(truth.values()), n, child, sum(truth.values())))
        return rows, result

    def test_periodic_work_is_not_seen_in_lock_step(self):
        """
        Each CPU draws a new period about once a second. One that is within a third of a percent of the
        victim's (one in fifty) sees a single phase for that second, so the error is not binomial alone. A
        simulation of the draws gives at most 0.07 in 6,000 runs of 16 s; that is the first term, the second
        is what few samples add on a busy machine.
        Without jitter the error is 0.3 or 0.7.
        """
        cpus = sorted(os.sched_getaffinity(0))[:2]
        rows, result = self.periodic("--frequency", "99", cpus=cpus, periods=["10", "10.101"], seconds=16)
        for seen, true, n, child, cpu_ns in rows:
            self.assertLess(abs(seen - true), 0.08 + 4 * math.sqrt(true * (1 - true) / n),
                            (child.argv, seen, true, n))
            # A window's period is the mean of all CPUs; this one's own differs by up to a quarter, each
            # second anew:
            # 0.25 / sqrt(3 * 16) is one deviation of the mean of 16 s.
            estimate = self.sampled_cpu_ns(result, child.pid)
            self.assertLess(abs(estimate / cpu_ns - 1), 4 * (1 / math.sqrt(n) + 0.25 / math.sqrt(48)),
                            (estimate, cpu_ns))

    def test_without_jitter_it_is(self):
        """The control of the test above. The phase is a matter of luck: one in fifty runs meets the edge of A and B."""
        cpu = sorted(os.sched_getaffinity(0))[0]
        for _ in range(4):
            (seen, true, *_), = self.periodic("--frequency", "100", "--jitter=off", cpus=[cpu],
                                              periods=["10"], seconds=2)[0]
            if abs(seen - true) > 0.2:
                return
        self.fail("four runs in step with the sampler were right")

    def test_samples_stand_for_the_cpu_time_that_was_used(self):
        """
        The error of n × period is below that of n random samples. 487 Hz is in step with no scheduler's tick:
        100, 250, 300 and 1000 Hz would see a program that shares its CPU always behind its neighbours. With
        jitter the CPU that the program is on may be up to a quarter faster or slower than the mean of all,
        anew each second: three draws or more.
        """
        for frequency, jitter, spread in ((487, "off", 0.05), (999, "on", 0.3)):
            with self.subTest(frequency=frequency, jitter=jitter):
                run = self.start("--comm", "victim-shares", "--frequency", frequency, f"--jitter={jitter}")
                child = self.victim("shares")        # a rest would be in step with 487 Hz
                session.wait_cpu([child.pid], 3.0)
                self.assertEqual(child.stop(), 0)
                result = run.stop()
                true, n = sum(session.truth_of(child,
                                               r"^(share_\d+) (\d+)$").values()), len(result.of(child.pid))
                self.assertLess(abs(self.sampled_cpu_ns(result, child.pid) / true - 1),
                                spread + 4 / math.sqrt(n))
                for sample in result.samples:
                    self.assertLess(abs(sample.period * frequency / 1e9 - 1), 0.3 if jitter == "on" else 0.05)
                # The daemon's own account: it counts the clock of a process that was gone before the end.
                self.assertLess(abs(result.summary["target_cpu_ns"] / true - 1), 0.15)
                if "coverage_ratio" in result.summary:
                    self.assertLess(abs(result.summary["coverage_ratio"] - 1), spread + 4 / math.sqrt(n))
                else:
                    self.assertIn("coverage: not known", result.log)

    def test_idle_cpus_do_not_make_the_period_longer(self):
        """One CPU works, the others have what they have: the period is the working one's."""
        cpu = sorted(os.sched_getaffinity(0))[0]
        run = self.start("--comm", "victim-shares", "--frequency", 487, "--jitter=off")
        child = self.spawn(["taskset", "-c", cpu, tap.VICTIMS / "victim-shares"])
        child.wait_for("^pid")
        session.wait_cpu([child.pid], 2.0)
        result = run.stop()
        self.assertTrue(result.samples)
        for sample in result.samples:
            self.assertLess(abs(sample.period * 487 / 1e9 - 1), 0.05)


class Narrow(session.NamingCase):
    def chains(self, *flags):
        """How often each chain of functions was met, innermost first, by nm. All say that they may be cut."""
        program = self.directory() / "narrow-busy"
        built = self.run_command([tap.need_tool("gcc"), "-m32", "-O2", "-nostdlib", "-static", "-fno-pic", "-no-pie",
                                  *flags, "-o", program, tap.SOURCE_DIR / "tests/victims/native/narrow-busy.c"])
        if built.returncode:
            tap.skip("machine: gcc makes no code of 32 bits here")
        victim = self.spawn([program])
        run = self.start("--pid", victim.pid, "--frequency", 999, "--symbols=local")
        session.wait_cpu([victim.pid], 0.5)
        self.wait_named(run, victim.pid, "narrow_hot")
        samples, functions, found = run.stop().of(victim.pid), nm(program), collections.Counter()
        self.assertGreater(len(samples), 200)
        for sample in samples:
            self.assertEqual(sample.attributes.get("profile.stack.truncated"), "unsupported")
            user = [frame for frame in sample.frames if frame.type != "kernel"]
            chain = tuple(next(name for name, (start, size) in functions.items()
                               if 0 <= frame.address - start < size) for frame in user)
            for frame, name in zip(user, chain):
                self.assertIn(frame.name, (None, "", name))
            found[chain] += 1
        return found

    def test_a_program_of_32_bits_has_its_innermost_function_and_says_so(self):
        found = self.chains("-fomit-frame-pointer")
        self.assertGreater(found["narrow_hot",] / sum(found.values()), 0.95, found)
        self.assertEqual({len(chain) for chain in found}, {1})

    def test_frame_pointers_of_32_bits_lead_to_callers(self):
        found = self.chains("-fno-omit-frame-pointer")
        whole = ("narrow_hot", "narrow_middle", "narrow_outer", "_start")
        self.assertGreater(found[whole] / sum(found.values()), 0.95, found)
        for chain in found:
            self.assertTrue(len(chain) == 1 or chain == whole[-len(chain):], found)

    def test_a_caller_of_32_bits_without_a_frame_pointer_is_not_skipped(self):
        found = self.chains("-fno-omit-frame-pointer", "-DBARE")
        self.assertGreater(found["narrow_hot", "narrow_middle"] / sum(found.values()), 0.95, found)
        for chain in found:
            self.assertTrue(len(chain) == 1 or chain in (("narrow_hot", "narrow_middle"), ("narrow_outer", "_start")),
                            found)


tap.main()
