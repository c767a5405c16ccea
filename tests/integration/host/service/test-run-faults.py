#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around the daemon: hostile rings, strange files, receivers that fail, rights that are
missing. The books add up whatever happens, nobody's span is ever wrong, and each refusal says in one line
what to do."""
import oracle

oracle.enter()

import os
import pathlib
import re
import shutil
import signal
import struct
import sys
import time

import fault_server
import otlp_read
import session
import tap

HZ = ("--frequency", "499")
SYMBOLS = otlp_read.Symbols()
SETTINGS = bytes.fromhex("000006040000000000000400ffffff")  # HTTP/2: how a gRPC server answers HTTP/1
UNUSABLE = 78
# a window may hold 40 MiB and its request, the queue 8 MiB, the rest is the program's own
MEMORY_KIB = 128 << 10


def memory_kib(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


class HostileRings(session.NamingCase):
    """Each ring is told what to do; what its thread's span was, and when, is written down on this side."""

    WRONG = ("magic", "version", "version-zero", "capacity-zero", "capacity-over", "capacity-beyond",
             "slot-size", "reserved")
    HZ = ("--frequency", "999")         # its victims rest

    def ring(self, *commands):
        child, tell = self.commanded("ring", rests=True)
        child.changes, child.span, child.is_right = [], None, True  # changes: (before, after, span or None)

        def note(line):
            """Does a command; afterwards the thread's span is what `set` said, or none where memory or header is gone."""
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            answer = tell(line)
            after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            word, *arguments = line.split()
            if word in ("unmap", "remap", "clear", "publish"):
                child.span = None
            elif word == "set":
                child.span = int(arguments[2], 16)
            if word in ("wrong", "capacity", "unmap", "remap", "right", "publish"):
                child.is_right = word in ("right", "publish")
            child.changes.append((before, after, child.span if child.is_right else None))
            return answer

        child.tell = note
        for command in commands:
            note(command)
        return child

    def allowed(self, child, time_ns):
        """The spans that the thread may have had at a time; the error of the clocks on both sides."""
        spans, slack = {None}, session.CLOCK_SLACK_NS
        for i, (before, _, span) in enumerate(child.changes):
            end = child.changes[i + 1][1] if i + 1 < len(child.changes) else 1 << 63
            if before - slack <= time_ns <= end + slack:
                spans.add(span)
        return spans

    def check_spans(self, result, *children):
        for child in children:
            for sample in result.of(child.pid):
                span = int(sample.span_id, 16) if sample.span_id else None
                self.assertIn(span, self.allowed(child, result.monotonic_ns(sample)), child)

    def wait_spans(self, run, spans, what):
        """Waits until each of these spans has been seen in some sample."""
        unseen, read = set(spans), set()

        def seen():
            for path in set(run.receiver.paths()) - read:
                if path.with_suffix(".json").exists():
                    read.add(path)
                    unseen.difference_update(int(s.span_id or "0", 16) for s in otlp_read.samples(path))
            return not unseen

        tap.wait_until(seen, f"{what}: {unseen}")

    def check_healthy(self, result, healthy):
        """The neighbour has its span in nearly every sample."""
        samples = result.of(healthy.pid)
        self.check_spans(result, healthy)
        self.assertGreater(len(samples), 50)
        self.assertGreater(sum(bool(s.span_id) for s in samples), 0.9 * len(samples),
                           result.summary["counters"]["contexts_total"])

    def test_a_ring_that_is_wrong_from_the_start_is_never_used(self):
        healthy = self.ring("publish", "set 1 2 77")
        hostile = [
            self.ring("publish", f"set 1 2 {i + 1}", f"wrong {field}") for i, field in enumerate(self.WRONG)
        ]
        run, wait = self.start_counted("-C", "victim-ring", *self.HZ)
        wait(len(self.WRONG) - 1, "spanprof_rings_total", result="invalid")
        # 1.5 s at a sixth of a CPU: a look at them is made each second
        session.wait_cpu([child.pid for child in (healthy, *hostile)], 0.25, of=min)
        result = run.stop()
        for child in hostile:
            samples = result.of(child.pid)
            self.assertGreater(len(samples), 0)
            self.assertEqual({s.span_id for s in samples}, {None})
        self.check_healthy(result, healthy)
        self.assertGreaterEqual(result.counter("rings_total", "invalid"),
                                len(self.WRONG) - 1, "a wrong magic is no ring at all")
        self.assertGreater(result.counter("contexts_total", "unpublished"), 0)

    def test_a_ring_that_goes_wrong_while_in_use(self):
        healthy = self.ring("publish", "set 1 2 77")
        hostile = [self.ring("publish", f"set 1 2 {i + 1}") for i in range(len(self.WRONG))]
        run, wait = self.start_counted("-C", "victim-ring", *self.HZ)
        everybody = [child.pid for child in (healthy, *hostile)]
        session.wait_cpu(everybody, 0.1, of=min)
        for i, (child, field) in enumerate(zip(hostile, self.WRONG)):
            child.tell(f"wrong {field}")
            child.tell(f"set 1 2 {i + 101}")
        wait(len(self.WRONG), "spanprof_rings_total", result="lost")
        session.wait_cpu(everybody, 0.1, of=min)
        for child in hostile:
            child.tell("right")
        self.wait_spans(run, {0x101 + i for i in range(len(self.WRONG))}, "rings that are right again")
        result = run.stop()
        self.check_spans(result, *hostile)
        self.check_healthy(result, healthy)
        self.assertGreaterEqual(result.counter("rings_total", "lost"), len(self.WRONG),
                                result.summary["counters"]["rings_total"])

    def test_memory_that_goes_moves_or_changes_under_the_ring(self):
        healthy = self.ring("publish", "set 1 2 77")
        hostile = [self.ring("publish", f"set 1 2 {i + 1}") for i in range(4)]
        everybody = [child.pid for child in (healthy, *hostile)]
        run, wait = self.start_counted(*self.HZ)
        self.wait_spans(run, {1, 2, 3, 4}, "rings that are right are found")
        hostile[0].tell("unmap")
        hostile[1].tell("remap")
        hostile[2].tell("move")
        hostile[3].tell("capacity 16777217")
        wait(len(hostile), "spanprof_rings_total", result="lost")
        session.wait_cpu(everybody, 0.15, of=min)
        hostile[0].tell("publish")
        hostile[0].tell("set 3 4 11")
        hostile[1].tell("right")
        hostile[1].tell("set 3 4 12")
        hostile[2].tell("set 3 4 13")
        hostile[3].tell("right")
        hostile[3].tell("set 3 4 14")
        self.wait_spans(run, {0x11, 0x12, 0x13, 0x14}, "rings that are right again are found again")
        result = run.stop()
        self.check_spans(result, *hostile)
        self.check_healthy(result, healthy)
        seen = {int(s.span_id, 16) for child in hostile for s in result.of(child.pid) if s.span_id}
        self.assertTrue({1, 2, 3, 4} <= seen, seen)
        self.assertGreaterEqual(result.counter("rings_total", "lost"), len(hostile))

    def test_memory_that_changes_all_the_time(self):
        healthy = self.ring("publish", "set 1 2 77")
        restless = self.ring("publish")
        run = self.start(*self.HZ)
        for i in range(80):
            restless.tell("publish 1024" if i % 5 == 0 else "move" if i % 5 == 3 else "right")
            restless.tell(f"set 5 6 {i + 1000:x}")
            time.sleep(0.02)
            if i % 5 == 4:
                restless.tell("unmap")
        restless.tell("publish")
        restless.tell("set 5 6 ffff")
        session.wait_cpu([healthy.pid], 0.3)
        result = run.stop()
        self.check_spans(result, restless)
        self.check_healthy(result, healthy)

    def test_a_writer_that_never_finishes(self):
        healthy, busy = self.ring("publish", "set 1 2 77"), self.ring("publish", "set 1 2 5", "busy 1")
        run = self.start(*self.HZ)
        session.wait_cpu([busy.pid, healthy.pid], 0.35, of=min)
        result = run.stop()
        self.assertEqual({s.span_id for s in result.of(busy.pid)}, {None})
        self.assertGreater(result.counter("contexts_total", "busy"), 50)
        self.check_healthy(result, healthy)


class Caps(session.TestCase):
    def test_more_spans_than_a_window_holds(self):
        """65,536 links a window; each sample has one of its own. Its receiver keeps nothing: to read them all takes longer."""
        victim = self.victim("spans", 2)
        server = fault_server.Server([fault_server.ok()])
        self.addCleanup(server.close)
        run = self.start("-F", "9999", "--export-interval", "60s", "--max-queue", "64MiB",
                         endpoint=f"http://127.0.0.1:{server.port}")
        session.wait_cpu([victim.pid], 8.5, patience=200)  # 83,000 samples, less those of the first window
        peak = memory_kib(run.pid)
        result = run.stop()
        self.assertGreater(result.summary["lost_by_reason"].get("window_full", 0), 100, result.summary)
        self.assertGreater(result.summary["delivered"], 50_000)
        self.assertLess(peak, MEMORY_KIB)

    def test_a_small_queue_drops_the_oldest_and_says_so(self):
        victim = self.victim("spans", 2)
        server = fault_server.Server([fault_server.hang])
        self.addCleanup(server.close)
        run = self.start("-F", "4999", "--max-queue", "64KiB", endpoint=f"http://127.0.0.1:{server.port}",
                         environment={"SPANPROF_STOP_TIMEOUT": "200ms"})
        session.wait_cpu([victim.pid], 1)
        tap.wait_until(lambda: "queue is full" in run.log, "a full queue")
        peak = memory_kib(run.pid)
        result = run.stop()
        self.assertGreater(result.summary["lost_by_reason"]["export_queue"], 0)
        self.assertEqual(result.summary["delivered"], 0)
        self.assertLess(peak, MEMORY_KIB)


class Receivers(session.TestCase):
    def serve(self, *plays):
        server = fault_server.Server(list(plays))
        self.addCleanup(server.close)
        return f"http://127.0.0.1:{server.port}"

    def test_a_receiver_that_never_takes_anything(self):
        """Each on a daemon of its own, side by side."""
        port = fault_server.closed_port(self)
        cases = {  # endpoint and options, what the log says, how the samples end
            "refused": ([f"http://127.0.0.1:{port}"],
                        rf"127\.0\.0\.1:{port}/v1development/profiles: .*is a receiver running there\?; \d+ samples wait", "stop"),
            "no such name": (["http://collector.invalid:4318"], r"(?i)collector\.invalid.*resolv", "stop"),
            "no answer in time": ([self.serve(fault_server.hang), "--timeout", "300ms"], r"(?i)timed? ?out", "stop"),
            "an error that will not go away": ([self.serve(fault_server.status(400, b"bad dictionary"))],
                                               r'answered 400, "bad dictionary"', "export_refused"),
            "gRPC": ([self.serve(fault_server.raw(SETTINGS))], "looks like a gRPC endpoint .*4318", "stop"),
        }
        victim = self.victim("chain", 5, rests=True)
        runs = {what: self.start("-p", victim.pid, *HZ, *options, endpoint=endpoint,
                                 environment={"SPANPROF_STOP_TIMEOUT": "300ms"}, ready=False)
                for what, ([endpoint, *options], _, _) in cases.items()}
        for run in runs.values():
            run.child.wait_for("spanprof: export: ")
        session.wait_cpu([victim.pid], 0.1)
        for what, run in runs.items():
            with self.subTest(what):
                self.check_lost(run.stop(), *cases[what][1:])

    def test_no_password_of_the_endpoint_is_logged(self):
        victim = self.victim("chain", 5, rests=True)
        run = self.start(
            "-p", victim.pid, *HZ,
            endpoint=f"http://me:sekret@127.0.0.1:{fault_server.closed_port(self)}/x?token=sekret",
            environment={"SPANPROF_STOP_TIMEOUT": "0"})
        run.child.wait_for("spanprof: export: ")
        self.assertNotIn("sekret", run.stop().log)

    def check_lost(self, result, pattern, reason):
        self.assertRegex(result.log, pattern)
        self.assertEqual(result.summary["delivered"], 0)
        self.assertGreater(result.summary["lost_by_reason"][reason], 0, result.summary)
        self.assertEqual(set(result.summary["lost_by_reason"]) - {reason, "stop"}, set())

    def test_a_receiver_that_dies_and_comes_back(self):
        victim = self.victim("chain", 5, rests=True)
        run = self.start("-p", victim.pid, *HZ)
        run.wait_events(50)
        run.receiver.child.kill()
        run.child.wait_for("spanprof: export: ")
        again = self.spawn(
            [tap.SPANPROF, "receive", "--port", run.receiver.port, "-o", run.receiver.directory],
            env=session.clean_environment())
        again.wait_for("listening on")
        run.child.wait_for("takes samples again")
        run.receiver.child = again
        result = run.stop(all_stored=False)
        self.assertEqual(result.summary["lost"], 0, result.summary)

    def test_a_receiver_that_is_killed_for_good(self):
        victim = self.victim("chain", 5, rests=True)
        run = self.start("-p", victim.pid, *HZ, environment={"SPANPROF_STOP_TIMEOUT": "300ms"})
        run.wait_events(50)
        run.receiver.child.process.kill()
        run.receiver.child.wait()
        run.child.wait_for("spanprof: export: ")
        status = run.child.stop()
        result = session.Result(run, status)
        result.check(self, all_stored=False)
        self.assertGreater(result.summary["lost_by_reason"]["stop"], 0)
        self.assertGreater(result.summary["delivered"], 0)


class Targets(session.TestCase):
    """The daemon never waits for a target."""

    def test_a_program_whose_file_was_replaced_by_a_pipe(self):
        directory = self.directory()
        path = directory / "victim-renamed"
        shutil.copy(tap.VICTIMS / "victim-chain", path)
        victim = self.spawn([path, "5"])
        victim.wait_for("^pid")
        path.unlink()
        os.mkfifo(path)  # whoever opens it by name waits for ever
        other = self.victim("shares", rests=True)
        run = self.start("-C", "victim-*", *HZ)
        session.wait_cpu([victim.pid], 0.7)
        run.wait_events(50, other.pid)
        result = run.stop()
        build_id = SYMBOLS.build_id(str(tap.VICTIMS / "victim-chain"))
        leaves = [s.frames[0] for s in result.of(victim.pid) if s.frames and s.frames[0].type != "kernel"]
        self.assertGreater(len(leaves), 50)
        self.assertGreater(sum(f.build_id == build_id for f in leaves), 0.95 * len(leaves),
                           "the file that is mapped was read")

    def test_a_library_that_was_cut_while_mapped(self):
        path = self.directory() / "library.so"
        shutil.copy(os.path.realpath("/lib/x86_64-linux-gnu/libz.so.1"), path)
        code = (
            "import mmap, os, sys\n"
            "f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC)\n"
            "os.truncate(sys.argv[1], 0); print('cut', flush=True)\n"
            "while True: sum(range(1000))")
        victim = self.spawn([sys.executable, "-c", code, path])
        victim.wait_for("^cut")
        run = self.start("-p", victim.pid, *HZ)
        session.wait_cpu([victim.pid], 0.7)
        self.assertGreater(len(run.stop().of(victim.pid)), 50)

    def test_a_stopped_target(self):
        stopped, other = self.victim("chain", 5), self.victim("shares", rests=True)
        os.kill(stopped.pid, signal.SIGSTOP)
        run = self.start("-p", f"{stopped.pid},{other.pid}", *HZ)
        run.wait_events(20, other.pid)
        os.kill(stopped.pid, signal.SIGCONT)
        run.wait_events(50, stopped.pid)
        os.kill(stopped.pid, signal.SIGSTOP)
        run.wait_events(100, other.pid)
        run.stop()

    def test_a_publisher_that_is_stopped_is_found(self):
        child, tell = self.commanded("ring")
        tell("publish")
        tell("set 1 2 3")
        os.kill(child.pid, signal.SIGSTOP)
        run = self.start(*HZ)
        os.kill(child.pid, signal.SIGCONT)
        run.wait_events(50, child.pid)
        self.assertEqual({s.span_id for s in run.stop().of(child.pid) if s.span_id}, {"0000000000000003"})


class Storms(session.TestCase):
    def test_the_cpu_time_of_processes_that_are_gone_at_once_is_known_to_the_last_bit(self):
        """What the samples are compared with must not fall short, or coverage is better than it can be."""
        path = self.directory() / f"storm-{os.getpid()}"  # no other test's
        shutil.copy(tap.VICTIMS / "victim-short", path)
        run = self.start("-C", path.name, "-F", "2003")
        used = 0
        for _ in range(300):
            pid = os.posix_spawn(path, [path, "2"], {},
                                 file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
            usage = os.wait4(pid, 0)[2]
            used += usage.ru_utime + usage.ru_stime
        run.wait_events(500)
        time.sleep(0.5)  # a grace period: if it takes longer, the last few miss some hundredths of a ms each
        result = run.stop()
        self.assertAlmostEqual(result.summary["target_cpu_ns"] / 1e9, used, delta=0.005 * used + 0.001)
        ticks = result.summary["delivered"]
        if "coverage_ratio" in result.summary:
            self.assertLess(result.summary["coverage_ratio"], 1 + 5 / ticks ** 0.5)
        else:   # where a machine's host takes CPU time away, there are more ticks than CPU time
            self.assertIn("coverage: not known", result.log)


class Refusals(session.TestCase):
    def refused(self, *options, status=UNUSABLE, prefix=(), environment=None, program=tap.SPANPROF):
        done = self.run_command([
            *prefix, program, "run", "--duration", "1s", "--endpoint", "http://127.0.0.1:9", "--stop-timeout",
            "0", *options
        ], env={**session.clean_environment(), **(environment or {})}, expect=status)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def as_nobody(self):
        directory = self.directory()
        directory.chmod(0o755)
        program = directory / "spanprof"
        shutil.copy(tap.SPANPROF, program)
        program.chmod(0o755)
        return program

    def test_without_root(self):
        line = self.refused(
            prefix=[tap.need_tool("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups"],
            program=self.as_nobody())
        self.assertRegex(line,
                         r"not permitted to .*: missing CAP_BPF CAP_PERFMON \(run as root or grant them\)")

    def test_without_each_capability(self):
        for taken, missing in (("-sys_admin,-bpf", "CAP_BPF"), ("-sys_admin,-perfmon", "CAP_PERFMON"),
                               ("-sys_admin,-bpf,-perfmon", "CAP_BPF CAP_PERFMON")):
            with self.subTest(taken=taken):
                line = self.refused(prefix=[tap.need_tool("setpriv"), f"--bounding-set={taken}"])
                self.assertRegex(line, rf"not permitted to [^:]*: missing {missing} \(")

    def test_without_a_capability_that_is_only_useful(self):
        nobody = self.spawn([tap.need_tool("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups",
                             shutil.copy(tap.VICTIMS / "victim-chain", self.as_nobody().parent), "5"])
        nobody.wait_for("^pid")
        run = self.start("-p", nobody.pid, *HZ, prefix=["setpriv", "--bounding-set=-sys_admin,-sys_ptrace"])
        session.wait_cpu([nobody.pid], 0.5)
        result = run.stop()
        self.assertRegex(result.log, "missing, and what that costs: .*CAP_SYS_PTRACE: ")
        result.check(self)

    def test_without_type_information(self):
        line = self.refused(environment={"SPANPROF_BTF": "/nonexistent/vmlinux"})
        self.assertRegex(line,
                         r"type information is missing \(/nonexistent/vmlinux: .*CONFIG_DEBUG_INFO_BTF=y")

    def test_a_kernel_without_what_is_needed(self):
        """Type information of a kernel that has none of our types: a header and nothing else."""
        path = self.directory() / "btf"
        path.parent.chmod(0o755)        # as the kernel's own: anybody may read it
        path.write_bytes(struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 0, 0, 1) + b"\0")
        line = self.refused(environment={"SPANPROF_BTF": str(path)})
        self.assertRegex(line, "this kernel cannot ")
        self.assertNotIn("Unknown error", line, "the loader's codes are not the system's")

    def test_a_kernel_that_allows_no_bpf(self):
        """No memory to lock, no file descriptors: refusals come in many ways."""
        done = self.run_command(["prlimit", "--nofile=12:12", tap.SPANPROF, "run", "-d", "1s"],
                                env=session.clean_environment())
        self.assertIn(done.returncode, (1, UNUSABLE), done.stderr)
        self.assertLess(len(done.stderr.splitlines()), 5, done.stderr)

    def test_usage(self):
        for arguments, text in ((["--nonsense"], "nonsense"), (["-p", "zero"], "zero"),
                                (["--frequency", "0"], "range"), (["./app"], "record -- ./app")):
            with self.subTest(arguments=arguments):
                done = self.spanprof("run", *arguments, expect=2, env=session.clean_environment())
                self.assertIn(text, done.stderr)

    def test_a_bad_line_of_the_configuration(self):
        path = self.directory() / "spanprof.conf"
        path.write_text("[sampling]\nfrequency = 99\njiter = on\n")
        done = self.spanprof("run", "-c", path, expect=UNUSABLE, env=session.clean_environment())
        self.assertIn(f"{path}:3: ", done.stderr)


tap.main()
