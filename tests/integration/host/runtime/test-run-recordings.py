#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What JVMs record of themselves, read while they write it (--jfr), against programs that throw a known
number of exceptions, and against `convert` of the same recording (tests/victims/java/VictimRecorded.java)."""
import oracle

oracle.enter()

import collections
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import groups
import jdks
import otlp_read
import session
import tap

KNOWN = "VictimRecorded$Known"
THROWS = ("VictimRecorded.fail", "VictimRecorded.fall", "VictimRecorded.main")
OPTIONS = ("-Xlog:jfr*=error", "-Xmx64m", "-XX:TieredStopAtLevel=1")
WANTED = ("settings=none", "+jdk.ObjectAllocationSample#enabled=true", "+jdk.ObjectAllocationSample#throttle=1000/s",
          "+jdk.ObjectAllocationSample#stackTrace=true", "+jdk.JavaExceptionThrow#enabled=true",
          "+jdk.JavaExceptionThrow#stackTrace=true")
YEAR_2200_NS = 7258118400 * 10**9
# processes that look like a JVM which records: argument 1 is mapped as code, 2 is their number, and the files
# behind it are kept open, for reading alone if the path begins with `<`
PRETENDER = """
import mmap, os, sys
with open(sys.argv[1], "r+b") as file:
    code = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)
kept = [os.open(path.lstrip("<"), os.O_RDONLY if path.startswith("<") else os.O_RDWR) for path in sys.argv[3:]]
for i in range(int(sys.argv[2]) - 1):
    if os.fork() == 0:
        break
else:
    print("ready", flush=True)
sys.stdin.read()
"""

# a JVM's attach socket, made at SIGQUIT, at which nothing but JFR.check has an answer; it prints commands,
# and capabilities of who asks
SILENT = """
import mmap, os, signal, socket, struct, sys
with open(sys.argv[1], "r+b") as file:
    code = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)
signal.signal(signal.SIGQUIT, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGQUIT])
print("ready", flush=True)
signal.sigwait([signal.SIGQUIT])
server = socket.socket(socket.AF_UNIX)
server.bind(f"/tmp/.java_pid{os.getpid()}")
server.listen()
while True:
    connection, _ = server.accept()
    words = b""
    while words.count(0) < 5:
        words += connection.recv(4096)
    command = words.split(bytes(1))[2].decode()
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    with open(f"/proc/{pid}/status") as file:
        rights = [line.split()[1] for line in file if line.startswith(("CapPrm:", "CapEff:"))]
    print(command, "by", *rights, flush=True)
    if command == "JFR.check":
        connection.sendall(b"0\\nNo available recordings.")
    connection.close()
"""


def known(samples):
    """Exceptions of the victim's own class, by its function that throws."""
    sums = collections.Counter()
    for sample in samples:
        if sample.type == "exceptions" and sample.attributes.get("exception.type") == KNOWN:
            names = [frame.name for frame in sample.frames if frame.name.startswith("VictimRecorded.")]
            sums[tuple(names)] += sample.value
    return sums


def sums_of(path):
    """{(type, functions): value} of what a recording of a JVM may have, in a file of ours."""
    sums = collections.Counter()
    for sample in otlp_read.samples(path):
        if sample.type in ("alloc_space", "exceptions"):
            sums[sample.type, tuple(frame.name for frame in sample.frames)] += sample.value
    return sums


def opened(pid):
    """Paths of the files that a process has open."""
    paths = []
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            paths.append(os.readlink(link))
    return paths


class Recordings(session.NamingCase):
    def java(self, *options):
        return self.plain_java("-XX:StartFlightRecording:" + ",".join((*WANTED, *options)))

    def plain_java(self, *options):
        javas = jdks.here()
        release = max((name for name in javas if int(name) >= 17), key=int, default=None)
        if release is None:
            tap.skip("tool: a JDK from 17 on is not installed")
        directory = jdks.classes(tap.SOURCE_DIR / "tests/victims/java/VictimRecorded.java", release=11)
        return [javas[release], *OPTIONS, *options, "-cp", directory, "VictimRecorded"]

    def test_what_is_recorded_comes_while_it_is_written(self):
        victim = self.spawn(self.java(), stdin=subprocess.PIPE)
        victim.wait_for("ready")
        run = self.start("--pid", victim.pid, "--jfr")
        other = self.start("--pid", victim.pid)

        def wait_known(n):
            tap.wait_until(lambda: known(otlp_read.samples(*(
                path for path in run.receiver.paths() if path.with_suffix(".json").exists()))).total() >= n,
                f"{n} exceptions", 120)

        self.tell(victim, "throw 3000")
        wait_known(3000)
        self.tell(victim, "turn")
        self.tell(victim, "throw 700")
        wait_known(3700)
        victim.process.stdin.close()
        victim.wait(60)
        result = run.stop()
        self.assertEqual(known(result.recorded), {THROWS: 3700})
        mine = [s for s in result.recorded if s.type == "alloc_space" and
                any(f.name == "VictimRecorded.fall" for f in s.frames)]
        self.assertGreater(sum(sample.value for sample in mine), 3700 * 500)
        for sample in result.recorded:
            self.assertEqual(sample.resource["process.pid"], victim.pid)
            self.assertEqual({frame.type for frame in sample.frames} - {"jvm", "native"}, set())
        self.assertGreater(result.counter("recording_samples_total", "read"), 0)
        self.assertEqual(result.counter("recording_samples_total", "lost"), 0)
        self.assertEqual(result.counter("recordings_unreadable_total"), 0)
        self.assertEqual(other.stop().recorded, [])

    def test_a_recorded_command_has_all_that_its_jvm_wrote(self):
        directory = self.directory()
        recorder = self.spawn([tap.SPANPROF, "record", "--jfr", "-o", directory / "ours.pb", "--",
                               *self.java(f"filename={directory}/theirs.jfr")], stdin=subprocess.PIPE)
        tap.wait_until(lambda: any(path.endswith(".jfr") for path in opened(recorder.pid)), "the chunk is opened", 120)
        recorder.process.stdin.write(b"throw 2000\n")
        recorder.process.stdin.close()
        self.assertEqual(recorder.wait(120), 0, recorder)
        self.run_command([tap.SPANPROF, "convert", directory / "theirs.jfr", "-o", directory / "theirs.pb"], expect=0)
        ours, theirs = sums_of(directory / "ours.pb"), sums_of(directory / "theirs.pb")
        self.assertEqual(ours, theirs, recorder)
        self.assertEqual({kind for kind, _ in ours}, {"alloc_space", "exceptions"})
        self.assertEqual(known(otlp_read.samples(directory / "ours.pb")).total(), 2000)

    def jcmd(self, pid):
        return self.run_command([jdks.tool("jcmd"), str(pid), "JFR.check"], expect=0).stdout

    def record(self, *pids, output=None):
        words = [word for pid in pids for word in ("-p", str(pid))]
        return self.spawn([tap.SPANPROF, "record", "--jfr", *words, "-o", output or self.directory() / "ours.pb"])

    def test_record_starts_a_recording_and_stops_it(self):
        """… also where it is killed."""
        victim = self.spawn(self.plain_java(), stdin=subprocess.PIPE)
        victim.wait_for("ready")
        output = self.directory() / "ours.pb"
        recorder = self.record(victim.pid, output=output)
        recorder.wait_for("a recording of allocations is started")
        recorder.wait_for("chosen: ")
        self.assertIn(f"name=spanprof-{recorder.pid}", self.jcmd(victim.pid))
        # some MB for each sample at the least; what was written last comes with the stop
        self.tell(victim, "throw 500000")
        self.assertEqual(recorder.stop(signal.SIGINT, 120), 0, recorder)
        sums = {names: value for (kind, names), value in sums_of(output).items() if kind == "alloc_space"}
        self.assertGreater(sum(value for names, value in sums.items() if "VictimRecorded.fall" in names), 2e8, sums)
        self.assertIn("No available recordings", self.jcmd(victim.pid))
        killed = self.record(victim.pid, output=output)
        killed.wait_for("a recording of allocations is started")
        killed.stop(signal.SIGKILL)
        tap.wait_until(lambda: "No available recordings" in self.jcmd(victim.pid), "it is stopped", 60)
        victim.process.stdin.close()
        victim.wait(60)
        self.assertNotIn("Full thread dump", victim.out)

    def test_record_refuses_what_it_cannot_ask(self):
        cases = {"it is no JVM": ["sleep", "600"],
                 "switched off (-XX:+DisableAttachMechanism)": self.plain_java("-XX:+DisableAttachMechanism")}
        for says, command in cases.items():
            child = self.spawn(command, stdin=subprocess.PIPE)
            if command[0] != "sleep":
                child.wait_for("ready")
            recorder = self.record(child.pid)
            self.assertNotEqual(recorder.wait(120), 0)
            self.assertIn(says, recorder.err)
            self.assertIsNone(child.process.poll(), says)
            child.process.kill()
            child.wait(60)

    def test_a_start_without_an_answer_is_followed_by_a_stop(self):
        """It may be taken all the same. A file of another tool that asked is used, and stays."""
        code = self.directory() / "libjvm.so"
        code.write_bytes(bytes(4096))
        child = self.spawn([sys.executable, "-c", SILENT, code], stdin=subprocess.PIPE)
        self.addCleanup(pathlib.Path(f"/tmp/.java_pid{child.pid}").unlink, missing_ok=True)
        child.wait_for("ready")
        stale = pathlib.Path(f"/tmp/.attach_pid{child.pid}")
        stale.touch()
        self.addCleanup(stale.unlink)
        recorder = self.record(child.pid)
        self.assertNotEqual(recorder.wait(120), 0)
        self.assertIn("it does not answer", recorder.err)
        child.wait_for(rf"JFR\.stop name=spanprof-{recorder.pid} by")
        self.assertIn(f"JFR.start name=spanprof-{recorder.pid} ", child.out)
        self.assertEqual(set(re.findall(r" by (.*)", child.out)), {"0000000000000000 0000000000000000"})
        child.process.kill()
        child.wait(60)

    def test_what_records_already_is_left_alone(self):
        victim = self.spawn(self.java(), stdin=subprocess.PIPE)
        victim.wait_for("ready")
        recorder = self.record(victim.pid)
        recorder.wait_for("it records already")
        recorder.wait_for("chosen: ")
        recorder.stop(signal.SIGINT, 120)
        self.assertNotIn("spanprof", self.jcmd(victim.pid))
        victim.process.stdin.close()
        victim.wait(60)

    def pretend(self, constants, n=1, group=None, data=()):
        """@n processes with a chunk whose header says where its constants are, or with those of @data, a pipe
        that is named as one, and another one's chunk, which they read."""
        enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"] if group else []
        directory = self.directory()
        repository = directory / "2026_11_30_14_33_33_7"
        repository.mkdir()
        code, chunk, pipe, other = (directory / "libjvm.so", repository / "2026_11_30_14_33_34.jfr",
                                    repository / "2026_11_30_14_33_33.jfr", repository / "2026_11_30_14_33_32.jfr")
        code.write_bytes(bytes(4096))
        # a header that promises a chunk which is not there
        places = (1 << 20, constants, 2 * constants, 10**18, 10**9, 1, 10**9)
        header = b"FLR\0\0\2\0\1" + b"".join(n.to_bytes(8, "big") for n in places)
        chunks = [chunk.with_stem(f"{chunk.stem}_{i}") for i in range(len(data))] or [chunk]
        for path, content in zip(chunks, data or [header + bytes((3, 0, 0, 1)) + b"no event" * 512]):
            path.write_bytes(content)
        other.write_bytes(b"no chunk" * 512)
        os.mkfifo(pipe)
        program = directory / "pretender"
        program.symlink_to(os.path.realpath(sys.executable))
        child = self.spawn([*enter, program, "-c", PRETENDER, code, str(n), pipe, f"<{other}", *chunks],
                           stdin=subprocess.PIPE)
        child.wait_for("ready")
        return child

    def test_what_cannot_be_asked_is_read_all_the_same(self):
        """… if it records already; and of several, one may be no JVM."""
        none = self.spawn(["sleep", "600"])
        child = self.pretend(100)
        recorder = self.record(none.pid, child.pid)
        recorder.wait_for(f"process {none.pid}: it is no JVM")
        recorder.wait_for(f"process {child.pid}: it records already")
        recorder.wait_for("chosen: 2 processes")
        recorder.stop(signal.SIGINT, 120)
        child.process.stdin.close()
        child.wait(60)
        none.process.kill()
        none.wait(60)

    def test_more_processes_than_there_is_room_for(self):
        """Those of another control group are read all the same: theirs is counted as no recording."""
        child = self.pretend(0, 257, groups.make(self, "spanprof-recordings", "attacker.service"))
        run, wait = self.start_counted("--comm", "pretender", "--jfr")
        wait(1, "spanprof_recordings_over_cap_total")
        honest = self.pretend(100, 1, groups.make(self, "spanprof-recordings", "honest.service"))
        wait(1, "spanprof_recordings_unreadable_total")
        for one in (child, honest):
            one.process.stdin.close()
            one.wait(60)
        self.assertEqual(run.stop().counter("recordings_unreadable_total"), 1)

    def test_a_file_that_is_no_recording_is_counted(self):
        child = self.pretend(100)
        run, wait = self.start_counted("--pid", child.pid, "--jfr")
        wait(1, "spanprof_recordings_unreadable_total")
        result = run.stop()
        self.assertEqual(result.recorded, [])
        self.assertEqual(result.counter("recording_samples_total", "read"), 0)
        self.assertEqual(result.counter("recordings_unreadable_total"), 1)
        child.process.stdin.close()
        child.wait(60)

    def chunk(self, n_events, begin_ns):
        data = bytearray(subprocess.run([tap.HARNESS / "make-jfr", str(n_events), "5", "10"], check=True,
                                        capture_output=True).stdout)
        data[32:40] = begin_ns.to_bytes(8, "big")
        return bytes(data)

    def test_two_chunks_that_are_open_are_read_once(self):
        """… however often they are looked at again. A quarter of the events are allocations, another one locks."""
        soon_ns = time.time_ns() + 100 * 10**9
        child = self.pretend(0, data=[self.chunk(400, soon_ns), self.chunk(1200, soon_ns + 10**9)])
        run, wait = self.start_counted("--pid", child.pid, "--jfr", "--export-interval", "1s")
        wait(800, "spanprof_recording_samples_total", result="read")
        wait(wait.counter("spanprof_windows_total") + 5, "spanprof_windows_total")
        self.assertEqual(wait.counter("spanprof_recording_samples_total", result="read"), 800)
        run.stop(check=False)           # they are of later times
        child.process.stdin.close()
        child.wait(60)

    def test_events_that_are_still_to_come_are_refused(self):
        child = self.pretend(0, data=[self.chunk(400, YEAR_2200_NS)])
        run, wait = self.start_counted("--pid", child.pid, "--jfr")
        wait(200, "spanprof_recording_samples_total", result="lost")
        result = run.stop()
        child.process.stdin.close()
        child.wait(60)
        self.assertEqual(result.recorded, [])
        self.assertEqual(result.counter("recording_samples_total", "read"), 0)
        self.assertEqual(result.counter("recording_samples_total", "lost"), 200)
        self.assertEqual(result.counter("recordings_unreadable_total"), 1, "both workers together")


if __name__ == "__main__":
    tap.main()
