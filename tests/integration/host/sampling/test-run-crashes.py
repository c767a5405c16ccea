#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The last stack of a process that a signal ends, by victims that know where they are, in which span, and why."""
import oracle

oracle.enter()

import os
import pathlib
import platform
import resource
import shutil
import signal
import subprocess
import sys

import golang
import groups
import jdks
import session
import tap

CHAIN = ["crash_here", "crash_serve"]
SPAN = (f"{4711:016x}{4712:016x}", f"{1234:016x}")
SENT = [signal.SIGQUIT, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE,
        signal.SIGSEGV, signal.SIGSYS, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGPIPE, signal.SIGALRM,
        signal.SIGUSR1, signal.SIGVTALRM, signal.SIGKILL]
# faults of the program itself: the kernel's name of the signal, of its code, and the address if it is known
FAULTS = {"null": ("SIGSEGV", "SEGV_MAPERR", "0x1234"), "bus": ("SIGBUS", "BUS_ADRERR", None)}
if platform.machine() == "x86_64":
    FAULTS |= {"code": ("SIGILL", "ILL_ILLOPN", None), "divide": ("SIGFPE", "FPE_INTDIV", None)}
else:
    FAULTS |= {"code": ("SIGILL", "ILL_ILLOPC", None)}      # a division by zero is no fault there
WITH_CORE = SENT[:10]           # delivered as they are; others as SIGKILL, without a code
OPTIONS = ("--comm", "victim-crash", "--crashes", "--symbols=local", "--frequency", 199)
N_STORM = 100
LIMIT = 64 << 20        # bytes of memory
BUDGET = 16             # crashes of a control group that a CPU tells of in a second


class Crashes(session.NamingCase):
    def begin(self, *arguments):
        return self.victim("crash", *arguments, stdin=subprocess.PIPE, preexec_fn=self.no_core)

    @staticmethod
    def no_core():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        tap._die_with_parent()

    def order(self, child, line):
        child.process.stdin.write(line.encode() + b"\n")
        child.process.stdin.flush()

    def run_with(self, orders, arguments=()):
        """Victims that get one order each, once each was sampled: (result, {order: crashes of its process})."""
        run = self.start(*OPTIONS)
        victims = {order: self.begin(*arguments) for order in orders}
        for child in victims.values():
            run.wait_events(1, child.pid)
        for order, child in victims.items():
            self.order(child, order)
        for child in victims.values():
            child.wait()
        result = run.stop()
        return result, {order: [sample for sample in result.crashes if sample.resource["process.pid"] == child.pid]
                        for order, child in victims.items()}

    def functions(self, sample):
        return [frame.name for frame in sample.frames if frame.type != "kernel"]

    def whole(self, sample):
        """Where it was, and for whom. Return: its functions."""
        names = self.functions(sample)
        self.assertIn("crash_here", names)
        self.assertEqual(names[names.index("crash_here"):][:2], CHAIN, names)
        self.assertNotIn("profile.stack.truncated", sample.attributes)
        self.assertEqual((sample.trace_id, sample.span_id), SPAN)
        self.assertEqual(sample.value, 1)
        return names

    def test_each_signal_has_its_stack_and_span(self):
        orders = [str(int(number)) for number in SENT]
        result, found = self.run_with(orders)
        for number, order in zip(SENT, orders):
            self.assertEqual(len(found[order]), 1, (number, result.counter("crashes_total"), result.log))
            self.assertEqual(found[order][0].attributes["signal.name"], number.name)
            self.assertEqual(found[order][0].attributes.get("signal.code"),
                             "SI_TKILL" if number in WITH_CORE else None)
            names = self.whole(found[order][0])
            self.assertIn("main", names)
        self.assertEqual(result.counter("crashes_total", "seen"), len(SENT))

    def test_faults_have_their_code_and_address(self):
        result, found = self.run_with(list(FAULTS))
        for order, (name, code, address) in FAULTS.items():
            self.assertEqual(len(found[order]), 1, (order, result.log))
            said = found[order][0].attributes
            self.assertEqual((said["signal.name"], said["signal.code"]), (name, code))
            self.assertIn("signal.address", said)
            if address:
                self.assertEqual(said["signal.address"], address)
            self.whole(found[order][0])
        self.assertRegex(result.log, r"process \d+ \(victim-crash\), thread \d+ \(victim-crash\) crashed: SIG\w+ "
                         r"\(\w+\) at 0x[0-9a-f]+, in span 00000000000004d2 of trace")

    def test_a_thread_other_than_the_first_one_is_named(self):
        result, found = self.run_with(["null"], arguments=["thread"])
        (sample,) = found["null"]
        self.assertEqual(sample.attributes["thread.name"], "crash-worker")
        self.assertNotEqual(sample.thread_id, sample.resource["process.pid"])
        self.assertIn("thread_main", self.whole(sample))

    def test_more_than_are_remembered_leave_each_its_stack(self):
        """A process is remembered while it ends, so that it is told of once."""
        run = self.start(*OPTIONS, environment=groups.small_maps(crashed=1))
        victims = [self.begin("thread") for _ in range(8)]
        for child in victims:
            run.wait_events(1, child.pid)
        for child in victims:
            self.order(child, "null")
            child.wait()
        result = run.stop()
        found = [sample.resource["process.pid"] for sample in result.crashes]
        self.assertEqual(sorted(found), sorted(child.pid for child in victims), result.log)
        for sample in result.crashes:
            self.whole(sample)

    def test_what_is_handled_or_asked_for_is_no_crash(self):
        asked = [str(int(number)) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
        result, found = self.run_with(["null 1", "6 1", *asked])
        self.assertEqual(found, {order: [] for order in found})
        self.assertEqual(result.counter("crashes_total", "seen"), 0)
        self.assertNotIn("crashed", result.log)

    def test_nothing_is_told_without_the_option(self):
        run = self.start("--comm", "victim-crash", "--frequency", 199)
        child = self.begin()
        run.wait_events(1, child.pid)
        self.order(child, "null")
        child.wait()
        result = run.stop()
        self.assertEqual(result.crashes, [])
        self.assertNotIn("crashed", result.log)

    def test_the_end_by_others_shows_where_it_waited(self):
        run = self.start(*OPTIONS)
        child = self.begin()
        run.wait_events(1, child.pid)
        self.order(child, "wait")
        child.wait_for(r"^waits$")
        tap.wait_until(lambda: pathlib.Path(f"/proc/{child.pid}/stat").read_text().rsplit(")")[1].split()[0] == "S",
                       "pause()")
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        (sample,) = run.stop().crashes
        self.assertEqual(sample.attributes["signal.name"], "SIGKILL")
        self.assertNotIn("signal.code", sample.attributes)
        self.assertNotIn("memory.resident", sample.attributes)
        self.whole(sample)

    def test_a_process_that_had_no_memory_left_says_so(self):
        group, n_killed = groups.limit_memory(self, "spanprof-test-crash", LIMIT)
        if (group / "memory.swap.max").exists():
            (group / "memory.swap.max").write_text("0")
        run = self.start(*OPTIONS)
        child = self.begin()
        groups.enter(group, child.pid)
        run.wait_events(1, child.pid)
        self.order(child, "memory")
        child.wait()
        self.assertEqual(n_killed(), 1)
        result = run.stop()
        (sample,) = result.crashes
        self.assertEqual((sample.attributes["signal.name"], sample.attributes["signal.code"]),
                         ("SIGKILL", "out of memory"))
        # what it had, besides pages that it shares with others outside of the group
        resident = sample.attributes["memory.resident"]
        self.assertTrue(LIMIT // 2 < resident < LIMIT * 2, resident)
        self.assertIn(f"SIGKILL (out of memory), with {resident >> 20} MiB in memory", result.log)
        self.whole(sample)

    def test_functions_of_python_that_were_met_have_their_names(self):
        """The innermost one is at a line that was never sampled before, and the process is gone."""
        run = self.start("--comm", "python*", "--crashes", "--symbols=local", "--frequency", 199)
        source = ("import ctypes, sys, time\n"
                  "def burn():\n    end = time.time() + float(sys.argv[1])\n    while time.time() < end: pass\n"
                  "def fall():\n    burn()\n    ctypes.string_at(16)\n"
                  "def serve():\n    burn()\n    fall()\n"
                  "serve()\n")
        child = self.spawn([sys.executable, "-c", source, "4"], preexec_fn=self.no_core)
        child.wait()
        (sample,) = [sample for sample in run.stop().crashes if sample.resource["process.pid"] == child.pid]
        names = [name for name in self.functions(sample) if name in ("burn", "fall", "serve", "<module>")]
        self.assertIn(names, (["fall", "serve", "<module>"], ["serve", "<module>"]), self.functions(sample))
        self.assertEqual(sample.attributes["signal.name"], "SIGSEGV")

    def crashes_of(self, comm, command, orders, n=1, **options):
        """{order: the one crash} of programs that get an order each, once they were sampled @n times."""
        run = self.start("--comm", comm, *OPTIONS[2:])
        children = {order: self.spawn(command, stdin=subprocess.PIPE, preexec_fn=self.no_core, **options)
                    for order in orders}
        for child in children.values():
            run.wait_events(n, child.pid)
        for order, child in children.items():
            self.order(child, order)
            child.wait()
        result, crashes = run.stop(), {}
        for order, child in children.items():
            found = [sample for sample in result.crashes if sample.resource["process.pid"] == child.pid]
            self.assertEqual(len(found), 1, (order, result.log))
            self.assertEqual((found[0].trace_id, found[0].span_id), SPAN, self.functions(found[0]))
            self.assertNotIn("profile.stack.truncated", found[0].attributes, self.functions(found[0]))
            crashes[order] = found[0]
        return crashes

    def assert_chain(self, sample, *chain):
        names = self.functions(sample)
        self.assertIn(chain[0], names)
        self.assertEqual(tuple(names[names.index(chain[0]):][:len(chain)]), chain, names)

    def test_rust_has_its_own_stack_also_where_it_panics(self):
        """Its handler of SIGSEGV puts the default back: the same instruction faults again."""
        program = self.directory() / "crash-rust"
        sdk = (tap.BUILD_DIR / "sdk").resolve()
        self.run_command([tap.need_tool("rustc"), "-O", "-C", "panic=abort", "-L", sdk, "-C", f"link-arg=-Wl,-rpath,{sdk}",
                          "-o", program, tap.SOURCE_DIR / "tests/victims/rust/victim-crash.rs"], expect=0, timeout=120)
        expected = {"null": ("SIGSEGV", "SEGV_MAPERR"), "bounds": ("SIGABRT", "SI_TKILL")}
        for order, sample in self.crashes_of("crash-rust", [program], expected).items():
            said = sample.attributes
            self.assertEqual((said["signal.name"], said["signal.code"]), expected[order])
            self.assert_chain(sample, "victim_crash::crash_here", "victim_crash::serve", "victim_crash::main")

    def test_go_has_its_own_stack_where_it_ends_by_a_signal(self):
        sources, sdk = tap.SOURCE_DIR / "tests/victims/go", tap.SOURCE_DIR / "sdk/include"
        library = (tap.BUILD_DIR / "sdk/libspanprof-context.a").resolve()
        go = golang.Go(variables={"CGO_CFLAGS": f"-I{sdk}", "CGO_LDFLAGS": f"{library}"})
        program = go.build(sources / "VictimGoCrash.go", self.directory() / "crash-go")
        sample = self.crashes_of("crash-go", [program], ["null"], env={**os.environ, "GOTRACEBACK": "crash"})["null"]
        self.assertEqual(sample.attributes["signal.name"], "SIGABRT")
        self.assert_chain(sample, "runtime.sigpanic", "main.crashHere", "main.serve", "main.main")

    def test_a_jvm_has_its_own_stack_below_its_report(self):
        """Methods have their names by samples at the same places before: the process is gone."""
        classes = self.directory()
        self.run_command([tap.need_tool("javac"), *jdks.BRIEF, "-d", classes, tap.SOURCE_DIR / "sdk/java/spanprof/ThreadContext.java",
                          tap.SOURCE_DIR / "tests/victims/java/VictimCrash.java"], expect=0, timeout=120)
        library = (tap.BUILD_DIR / "sdk/libspanprof-context.so").resolve()
        command = [tap.need_tool("java"), f"-Dspanprof.library={library}", "-Xint",
                   f"-XX:ErrorFile={classes}/hs_err.log", "-cp", classes, "VictimCrash"]
        sample = self.crashes_of("java", command, ["crash"], n=100, env=session.clean_environment())["crash"]
        self.assertEqual(sample.attributes["signal.name"], "SIGABRT")
        self.assert_chain(sample, "VictimCrash.crashHere", "VictimCrash.serve", "VictimCrash.main")

    def test_a_storm_is_counted_and_takes_no_tick(self):
        run, wait = self.start_counted(*OPTIONS)
        children = [self.begin("rest") for _ in range(N_STORM)]
        wait(N_STORM, "spanprof_targets")
        for child in children:
            self.order(child, "null")
        for child in children:
            child.wait()
        result = run.stop()
        told, over = len(result.crashes), result.counter("crashes_total", "over_budget")
        self.assertEqual(result.counter("crashes_total", "seen"), N_STORM)
        self.assertEqual(told + over, N_STORM)
        self.assertGreaterEqual(told, BUDGET)
        self.assertEqual(result.counter("lost_total", "ring_full"), 0)

    def test_a_storm_of_another_user_takes_no_stack(self):
        """All on one CPU. Whether it is in the second of the storm does not matter: it has its stack in any."""
        folder = self.directory()
        folder.chmod(0o755)
        program = shutil.copy(tap.VICTIMS / "victim-crash", folder)

        def begin(user):
            return self.spawn([program, "rest"], stdin=subprocess.PIPE,
                              preexec_fn=lambda: (self.no_core(), groups.become(user)))

        run, wait = self.start_counted(*OPTIONS)
        honest = begin(groups.HONEST)
        run.wait_events(1, honest.pid)
        crowd = [begin(groups.ATTACKER) for _ in range(N_STORM)]
        wait(N_STORM + 1, "spanprof_targets")
        for child in *crowd, honest:
            self.order(child, "null")
        for child in *crowd, honest:
            child.wait()
        result = run.stop()
        self.assertEqual(result.counter("crashes_total", "seen"), N_STORM + 1)
        (sample,) = [sample for sample in result.crashes if sample.resource["process.pid"] == honest.pid]
        self.whole(sample)


tap.main()
