#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of functions in what is sent: of code that targets make while they run, beside what the maker said
was where and when; and with `symbols = local`, beside nm."""
import oracle

oracle.enter()

import collections
import contextlib
import json
import os
import pathlib
import re
import random
import shutil
import signal
import struct
import subprocess
import sys

import fuse_server
import jdks
import otlp_read
import perf
import session
import tap

HZ = ("--frequency", "499")
# of all victims here: who waits for names needs some samples of each
os.environ["VICTIM_RESTS"] = "1"


def threads(pid):
    names = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):      # it has ended meanwhile
            names.append((task / "comm").read_text().strip())
    return names


class Code(session.NamingCase):
    def maker(self, *names, **options):
        """A victim that has made these functions: (child, tell, {name: (start, end)})."""
        child, tell = self.commanded("code", **options)
        path = pathlib.Path(f"/tmp/perf-{child.pid}.map")
        path.unlink(missing_ok=True)            # of a process that had this number before
        self.addCleanup(path.unlink, missing_ok=True)
        ranges = {}
        for name in names:
            self.make(tell, ranges, name)
        return child, tell, ranges

    @staticmethod
    def make(tell, ranges, name):
        start, size = tell(f"make {name}").split()[-2:]
        ranges[name] = (int(start, 16), int(start, 16) + int(size, 16))

    def check_names(self, result, pid, ranges, start=0):
        """Every frame in memory without a file has the name of the range that it lies in, or none. Returns the named ones."""
        named = []
        for sample in result.of(pid):
            if result.monotonic_ns(sample) < start:
                continue
            for frame in sample.frames:
                if frame.type == "unknown" and frame.name:
                    self.assertEqual(
                        [name for name, (first, end) in ranges.items() if first <= frame.address < end],
                        [frame.name])
                    named.append(frame)
        return named

    def test_a_map_that_grows_under_the_defaults(self):
        child, tell, ranges = self.maker("alpha", "a name with blanks")
        tell("map")
        run, wait = self.start_counted("--pid", child.pid, *HZ)
        self.wait_named(run, child.pid, "alpha", "a name with blanks")
        self.make(tell, ranges, "made later")
        start, end = ranges["made later"]
        tell("line this is no line of a map")
        tell(f"line 0x{start:x} 0x{end - start:x} made later")
        self.wait_named(run, child.pid, "made later")
        wait(3, "spanprof_code_records_total", result="taken")
        n_started = wait.counter("spanprof_workers_total", event="started")
        tell(f"line 0x{end:x} 0x10 nobody runs this")
        wait(4, "spanprof_code_records_total", result="taken")
        result = run.stop()
        self.assertGreater(result.counter("workers_total", "started"), n_started,
                           "a worker has read the line")
        self.assertEqual(result.counter("workers_total", "malformed"), 0)
        self.assertTrue(self.check_names(result, child.pid, ranges))
        self.assertEqual(result.counter("code_files_total"),
                         {"read": 1, "refused": 0, "unreadable": 0, "stuck": 0, "failed": 0})
        self.assertEqual(result.counter("code_records_total"), {"taken": 4, "malformed": 1, "over_cap": 0})
        files = {frame.name for sample in result.of(child.pid) for frame in sample.frames
                 if frame.build_id and frame.type != "kernel"}
        self.assertEqual(files, {""}, "functions in files are the backend's matter")

    def test_a_map_that_comes_late(self):
        child, tell, ranges = self.maker("alpha")
        run, wait = self.start_counted("--pid", child.pid, *HZ)
        wait(1, "spanprof_code_frames_total", result="none")
        tell("map")
        self.wait_named(run, child.pid, "alpha")
        result = run.stop()
        self.assertTrue(self.check_names(result, child.pid, ranges))

    def test_a_jitdump_and_a_place_that_is_used_again(self):
        child, tell, ranges = self.maker("alpha", "beta")
        tell(f"dump {self.directory()}")
        run = self.start("--pid", child.pid, *HZ)
        self.wait_named(run, child.pid, "alpha", "beta")
        _, _, start, _, before, after = tell("replace alpha gamma").split()
        self.wait_named(run, child.pid, "gamma")
        known = session.time.clock_gettime_ns(session.time.CLOCK_MONOTONIC)
        self.wait_for(
            run, lambda samples: sum("gamma" in (f.name for f in s.frames) for s in samples
                                     if s.time_ns - run.offset_ns > known) >= 30, "30 samples more of gamma")
        result = run.stop()
        names = [(result.monotonic_ns(sample), frame.name) for sample in result.of(child.pid)
                 for frame in sample.frames
                 if ranges["alpha"][0] <= frame.address < ranges["alpha"][1] and frame.name]
        self.assertEqual(int(start, 16), ranges["alpha"][0])
        self.assertEqual({name for time, name in names if time < int(before)}, {"alpha"},
                         "it was alpha then, and stays so")
        new = [time for time, name in names if name == "gamma"]
        self.assertGreater(min(new), int(after))
        self.assertEqual({name for time, name in names if time >= known}, {"gamma"},
                         "since it was first sent, it is known")
        self.check_names(result, child.pid,
                         {name: place
                          for name, place in ranges.items() if name == "beta"} | {"gamma": ranges["alpha"]},
                         known)

    def test_no_names_unless_they_are_wanted(self):
        child, tell, _ = self.maker("alpha")
        tell("map")
        run = self.start("--pid", child.pid, *HZ, "--jit-symbols=off")
        run.wait_events(100, child.pid)
        self.assertNotIn("jit-names", threads(run.pid))
        self.assertNotIn("names", threads(run.pid))
        result = run.stop()
        self.assertEqual({f.name for s in result.of(child.pid) for f in s.frames if f.type == "unknown"},
                         {""})
        self.assertEqual(sum(result.counter("code_files_total").values()), 0)
        self.assertEqual(sum(result.counter("code_frames_total").values()), 0)

    def test_the_map_of_another_user(self):
        child, tell, ranges = self.maker("alpha")
        path = pathlib.Path(f"/tmp/perf-{child.pid}.map")
        start, end = ranges["alpha"]
        path.write_text(f"{start:x} {end - start:x} a lie\n")
        os.chown(path, 4711, 4711)
        run, wait = self.start_counted("--pid", child.pid, *HZ)
        wait(1, "spanprof_code_files_total", result="refused")
        run.wait_events(100, child.pid)
        result = run.stop()
        self.assertEqual({f.name for s in result.of(child.pid) for f in s.frames if f.type == "unknown"},
                         {""})
        self.assertEqual(result.counter("code_files_total", "refused"), 1)
        self.assertEqual(result.counter("code_files_total", "read"), 0)

    def test_a_map_in_the_targets_own_namespaces(self):
        """It has another number itself, and another /tmp, in which there is its map."""
        child, tell = self.commanded_in("unshare", "--mount", "--pid", "--fork",
                                        "--kill-child", "--mount-proc", "sh", "-c",
                                        self.exec_after("mount -t tmpfs none /tmp"))
        ranges = {}
        self.make(tell, ranges, "in its own world")
        tell("map")
        pid = next(
            int(p.name) for p in pathlib.Path("/proc").iterdir()
            if p.name.isdigit() and self.is_inside(p, child))
        run = self.start("--pid", pid, *HZ)
        self.wait_named(run, pid, "in its own world")
        self.assertTrue(self.check_names(run.stop(), pid, ranges))

    @staticmethod
    def exec_after(command):
        """What the shell is to do: it may not see the victim any more when /tmp is another one."""
        return f"exec 9<{tap.VICTIMS / 'victim-code'}; {command} && exec /proc/self/fd/9"

    def commanded_in(self, *prefix):
        child = self.spawn(prefix, stdin=subprocess.PIPE)
        child.wait_for(r"^pid \d+")

        def tell(line):
            n = len(child.out)
            child.process.stdin.write(line.encode() + b"\n")
            child.process.stdin.flush()
            return tap.wait_until(lambda: child.out[n:]
                                  if child.out[n:].endswith("\n") else None, line).strip()

        return child, tell

    @staticmethod
    def is_inside(directory, child):
        """Whether a process is what @child, `unshare --fork`, has started."""
        try:
            return f"\nPPid:\t{child.pid}\n" in (directory / "status").read_text(errors="replace")
        except OSError:
            return False

    def test_a_tmp_that_never_answers(self):
        """Who looks for the map hangs; nobody else does, and not for ever."""
        directory = self.directory()
        try:
            server = fuse_server.FuseServer(directory, "nothing", b"")
        except OSError as error:
            tap.skip(f"kernel: no FUSE here ({error})")
        self.addCleanup(server.close)
        (directory / "nothing").stat()
        child, tell = self.commanded_in("unshare", "--mount", "sh", "-c",
                                        self.exec_after(f"mount --bind {directory} /tmp"))
        tell("make alpha")
        server.be_silent()
        healthy, tell, ranges = self.maker("beta")
        tell("map")
        run = self.start("--pid", child.pid, "--pid", healthy.pid, *HZ, "--symbols=local")
        run.wait_events(100, child.pid)
        before = session.cpu_ns(healthy.pid)
        session.wait_cpu([healthy.pid], 0.5)
        used = (session.cpu_ns(healthy.pid) - before) / 1e9
        result = run.stop()
        self.assertEqual(result.summary["lost"], 0)
        self.assertGreater(len(result.of(healthy.pid)), 0.8 * used * 499 - 10)
        self.check_names(result, healthy.pid, ranges)


class Local(session.NamingCase):
    def check_names(self, result, symbols, places=None):
        """Every name of a frame in a file is the one that nm has for it; @places: where a file is read from
        instead. Of functions that are inlined at an address nm knows the outermost. Returns the functions
        seen, by object."""
        seen = {}
        for sample in result.samples:
            for frame, caller in zip(sample.frames, [*sample.frames[1:], None]):
                if not frame.build_id or frame.type == "kernel" or frame.path == "[vdso]":
                    continue
                if caller and (caller.path, caller.address) == (frame.path, frame.address):
                    continue
                path = (places or {}).get(frame.path, frame.path)
                table = symbols.object(path, frame.build_id)
                if table is None:
                    self.assertEqual(frame.name, "")
                elif frame.name:
                    self.assertEqual(table.canonical(frame.name), table.name(frame.address), frame)
                    seen.setdefault(frame.path, set()).add(frame.name)
        return seen

    def test_functions_in_files_as_nm_has_them(self):
        victim = self.victim("chain", 20)
        control = self.directory() / "control.sock"
        run = self.start("--pid", victim.pid, *HZ, "--symbols", "local", "--control", control)
        self.wait_named(run, victim.pid, "main")
        self.assertIn("names", threads(run.pid))
        status = json.loads(self.spanprof("status", "--json", "--control", control).stdout)
        self.assertEqual((status["symbols"], status["code_processes"]), ("local", 0))
        self.assertRegex(
            self.spanprof("status", "--control", control).stdout,
            r"(?m)^names +local: [1-9]\d* found, \d+ wait, 0 dropped;")
        begin_ns = session.time.clock_gettime_ns(session.time.CLOCK_MONOTONIC)
        self.wait_for(run, lambda samples: sum(s.time_ns - run.offset_ns > begin_ns for s in samples) >= 100,
                      "100 samples more")
        result = run.stop()
        symbols = otlp_read.Symbols()
        path = os.path.realpath(tap.VICTIMS / "victim-chain")
        functions = self.check_names(result, symbols)
        self.assertIn("main", functions[path])
        late = {(f.path, f.address) for s in result.samples if result.monotonic_ns(s) > begin_ns
                for f in s.frames if f.path == path and not f.name and symbols.name(f) != "[unknown]"}
        self.assertLessEqual(len(late), result.counter("frames_unnamed_total", "late"),
                             "what has no name is counted as late")
        self.assertGreater(result.counter("names_total", "named"), 0)
        kernel = [f for s in result.samples for f in s.frames if f.type == "kernel"]
        self.assertEqual([f for f in kernel if not f.name and f.path], [])

    def test_names_are_those_of_perf_on_the_same_addresses(self):
        victim = self.victim("chain", 20)
        recording = perf.Recording(self, pid=victim.pid)
        run = self.start("--pid", victim.pid, *HZ, "--symbols", "local")
        self.wait_named(run, victim.pid, "main")
        begin_ns = session.time.clock_gettime_ns(session.time.CLOCK_MONOTONIC)
        self.wait_for(run, lambda samples: sum(s.time_ns - run.offset_ns > begin_ns for s in samples) >= 200,
                      "200 samples more")
        path = os.path.realpath(tap.VICTIMS / "victim-chain")
        result, symbols = run.stop(), otlp_read.Symbols()
        # of a stack, even of one frame, perf prints addresses as the file has them
        theirs = {
            f.address: symbols.canonical(path, f.symbol) for s in recording.samples() for f in s.frames[:1]
            if f.object == path
        }
        named = {f.address: f.name for s in result.samples for f in s.frames if f.path == path and f.name}
        table = symbols.object(path, symbols.build_id(path))
        common = {
            address: (table.canonical(name), theirs[address]) for address, name in named.items()
            if address in theirs
        }
        self.assertTrue(common, f"{named}; {theirs}")
        self.assertEqual({address: names for address, names in common.items() if len(set(names)) > 1}, {})

    def test_files_that_are_deleted_or_out_of_sight(self):
        directory = self.directory()
        deleted = directory / "deleted"
        shutil.copy(tap.VICTIMS / "victim-chain", deleted)
        gone = self.spawn([deleted, "20"])
        gone.wait_for(r"^pid \d+")
        deleted.unlink()
        place = directory / "place"
        place.mkdir()
        hidden = self.spawn(["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none {place} && "
                             f"cp {tap.VICTIMS / 'victim-chain'} {place}/hidden && exec {place}/hidden 20"])
        hidden.wait_for(r"^pid \d+")
        self.assertFalse((place / "hidden").exists())
        run = self.start("--pid", gone.pid, "--pid", hidden.pid, *HZ, "--symbols", "local")
        self.wait_named(run, gone.pid, "main")
        self.wait_named(run, hidden.pid, "main")
        result = run.stop()
        original = os.path.realpath(tap.VICTIMS / "victim-chain")
        functions = self.check_names(result, otlp_read.Symbols(),
                                     {str(deleted): original, f"{place}/hidden": original})
        self.assertIn("main", functions[str(deleted)])
        self.assertIn("main", functions[f"{place}/hidden"])

    def hostile(self, n=400_000):
        """A victim in a file whose symbols take minutes to sort: all at one address, none with a telling name. Its path."""
        path = self.directory() / "hostile"
        data = bytearray((tap.VICTIMS / "victim-chain").read_bytes())
        headers, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
        kinds = {
            struct.unpack_from("<I", data, headers + i * size + 4)[0]: headers + i * size
            for i in range(count)
        }
        symbols = kinds[2]                              # SHT_SYMTAB
        strings = headers + size * struct.unpack_from("<I", data, symbols + 40)[0]
        draw = random.Random(1)
        for header, content in ((symbols, b"".join(
                struct.pack("<IBBHQQ", draw.randrange(4000), 2, 0, 1, 0x1000, 1)
                for _ in range(n))), (strings, b"_" * 4090 + b"\0")):
            struct.pack_into("<QQ", data, header + 24, len(data), len(content))
            data += content
        path.write_bytes(data)
        path.chmod(0o755)
        return path

    @staticmethod
    def readers(run, path):
        """Workers that have a file open."""
        found = []
        for pid in pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                if any(os.readlink(fd) == str(path) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir()):
                    found.append(int(pid))
        return found

    def test_files_are_read_by_workers_whose_death_costs_their_names_alone(self):
        path = self.hostile()
        hostile = self.spawn([path, "20"])
        hostile.wait_for(r"^pid \d+")
        healthy = self.victim("chain", 20)
        run, wait = self.start_counted("--pid", hostile.pid, "--pid", healthy.pid, *HZ, "--symbols", "local")
        ends = [signal.SIGKILL, signal.SIGSEGV]

        def kill_two():
            for pid in self.readers(run, path):
                with contextlib.suppress(OSError):      # it has just ended: too late, on a slow machine
                    status = pathlib.Path(f"/proc/{pid}/status").read_text()
                    self.assertRegex(status, r"(?s)Name:\tspanprof-parser\n.*CapEff:\t0+\n.*Seccomp:\t2\n")
                    ends.append(ends.pop(0))
                    os.kill(pid, ends[0])
            return wait.counter("spanprof_workers_total", event="died") >= 2

        tap.wait_until(kill_two, "two that read it, killed", 120)
        wait(1, "spanprof_symbol_tables_total", result="failed")
        wait(1, "spanprof_names_total", result="failed")
        self.wait_named(run, healthy.pid, "main")
        n = len(run.receiver.paths())
        tap.wait_until(lambda: len(run.receiver.paths()) > n, "another window")
        result = run.stop()
        self.assertEqual(result.summary["lost"], 0)
        self.assertGreaterEqual(result.counter("workers_total", "died"), 2, result.log)
        self.assertEqual(result.counter("workers_total", "malformed"), 0, result.log)
        self.assertEqual({f.name for s in result.of(hostile.pid) for f in s.frames if f.path == str(path)},
                         {""}, "the address stays")
        self.check_names(result, otlp_read.Symbols(), {str(path): "/no/such/file"})

    def program(self, name="program"):
        """A copy of a victim that anybody may run, long enough that neither its head nor its tail has a name. Its path."""
        path = self.directory() / name
        path.parent.chmod(0o755)
        path.write_bytes((tap.VICTIMS / "victim-chain").read_bytes() + bytes(8192))
        path.chmod(0o755)
        return path

    def stranger(self, lie, path):
        """A process of nobody that has mounted @lie over @path, and runs it."""
        for tool in ("setpriv", "unshare"):
            tap.need_tool(tool)
        os.chown(lie, 65534, 65534)
        nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "--user",
                  "--map-root-user", "--mount")
        if subprocess.run([*nobody, "true"], capture_output=True, check=False).returncode:
            tap.skip("kernel: no user namespaces for users")
        child = self.spawn([*nobody, "sh", "-c", f"mount --bind {lie} {path} && exec {path} 20"])
        child.wait_for(r"^pid \d+")
        self.assertEqual(pathlib.Path(f"/proc/{child.pid}/exe").readlink(), path)
        return child

    def check_not_lied_to(self, lie, path, lies):
        """Whom the daemon meets first is the stranger; what the honest process runs has its own names all the same."""
        honest = self.spawn([path, "20"])
        honest.wait_for(r"^pid \d+")
        os.kill(honest.pid, signal.SIGSTOP)
        stranger = self.stranger(lie, path)
        run = self.start("--pid", stranger.pid, "--pid", honest.pid, *HZ, "--symbols", "local")
        self.wait_named(run, stranger.pid, lies)
        os.kill(honest.pid, signal.SIGCONT)
        self.wait_for(
            run,
            lambda samples: sum(s.resource["process.pid"] == honest.pid and any(f.name and f.path == str(path)
                                                                                for f in s.frames)
                                for s in samples) >= 100, "100 samples with names")
        result = run.stop()
        names = {pid: {f.name for s in result.of(pid) for f in s.frames if f.path == str(path)} - {""}
                 for pid in (honest.pid, stranger.pid)}
        self.assertIn("chain_leaf", names[honest.pid])
        self.assertNotIn(lies, names[honest.pid])
        self.assertNotIn("chain_leaf", names[stranger.pid])

    def test_a_stranger_with_the_same_path_and_build_id(self):
        """A user mounts a program of his own over that of another, in a namespace of his own; its build id is what he told the linker."""
        tap.need_tool("cc")
        path = self.program()
        lie, build_id = path.parent / "lie", otlp_read.Symbols().build_id(path)
        source = path.parent / "lie.c"
        source.write_text('''__asm__(".text\\n.globl attacker_says_so\\n.type attacker_says_so,@function\\n"
                                 "attacker_says_so: 1: jmp 1b\\n.fill 0x4000,1,0x90\\n.size attacker_says_so,.-attacker_says_so");
                void attacker_says_so(void);
                int printf(const char *, ...), getpid(void), fflush(void *);
                int main(void) { printf("pid %d\\n", getpid()); fflush((void *)0); attacker_says_so(); return 0; }'''
                          )
        self.run_command(["cc", "-o", lie, source, f"-Wl,--build-id=0x{build_id}"], expect=0)
        self.assertEqual(otlp_read.Symbols().build_id(lie), build_id)
        self.check_not_lied_to(lie, path, "attacker_says_so")

    def test_a_stranger_that_is_alike_but_for_its_names(self):
        """The same code with the same build id, size, time, head and tail: only the kernel tells these files apart."""
        path = self.program()
        lie, data = path.parent / "lie", path.read_bytes()
        lie.write_bytes(data.replace(b"chain_leaf", b"evil__leaf").replace(b"chain_frame", b"evil__frame"))
        lie.chmod(0o755)
        self.assertEqual([data[:4096], data[-4096:]], [lie.read_bytes()[:4096], lie.read_bytes()[-4096:]])
        os.utime(lie, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        self.check_not_lied_to(lie, path, "evil__leaf")

    def test_a_file_that_takes_the_place_of_another(self):
        """It has the path, the build id, the size and the time of the one before, whose process still runs."""
        path = self.program()
        data, times = path.read_bytes(), path.stat()
        before = self.spawn([path, "20"])
        before.wait_for(r"^pid \d+")
        new = path.parent / "new"
        new.write_bytes(data.replace(b"chain_leaf", b"later_leaf"))
        new.chmod(0o755)
        os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns))
        new.rename(path)
        after = self.spawn([path, "20"])
        after.wait_for(r"^pid \d+")
        run = self.start("--pid", before.pid, "--pid", after.pid, *HZ, "--symbols", "local")
        self.wait_named(run, before.pid, "chain_leaf")
        self.wait_named(run, after.pid, "later_leaf")
        result = run.stop()
        for pid, wrong in ((before.pid, "later_leaf"), (after.pid, "chain_leaf")):
            self.assertNotIn(wrong, {f.name for s in result.of(pid) for f in s.frames})

    def test_a_file_that_is_written_anew_in_its_place(self):
        """The inode, the size and the time stay as they were."""
        path = self.program()
        data, times = path.read_bytes(), path.stat()
        run, wait = self.start_counted("--comm", path.name, *HZ, "--symbols", "local")
        first = self.spawn([path, "20"])
        self.wait_named(run, first.pid, "chain_leaf")
        first.stop()
        with path.open("r+b") as file:
            file.write(data.replace(b"chain_leaf", b"later_leaf"))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertEqual([path.stat().st_ino, path.stat().st_mtime_ns], [times.st_ino, times.st_mtime_ns])
        second = self.spawn([path, "20"])
        self.wait_named(run, second.pid, "later_leaf")
        result = run.stop()
        self.assertNotIn("chain_leaf", {f.name for s in result.of(second.pid) for f in s.frames})

    def test_a_file_without_a_build_id(self):
        path = self.program()
        self.run_command(["objcopy", "--remove-section", ".note.gnu.build-id", path], expect=0)
        victim = self.spawn([path, "20"])
        victim.wait_for(r"^pid \d+")
        run = self.start("--pid", victim.pid, *HZ, "--symbols", "local")
        self.wait_named(run, victim.pid, "main", "chain_leaf")
        self.assertEqual(run.stop().counter("names_total", "no_build_id"), 0)

    def test_a_stripped_twin_has_no_names_of_the_other(self):
        path = self.program()
        twin = path.parent / "twin"
        shutil.copy(path, twin)
        self.run_command(["strip", twin], expect=0)
        hidden = self.spawn(
            ["unshare", "--mount", "sh", "-c", f"mount --bind {twin} {path} && exec {path} 20"])
        hidden.wait_for(r"^pid \d+")
        run, wait = self.start_counted("--comm", path.name, *HZ, "--symbols", "local")
        wait(1, "spanprof_names_total", result="stripped")
        whole = self.spawn([path, "20"])
        self.wait_named(run, whole.pid, "main", "chain_leaf")
        result = run.stop()
        self.assertEqual({f.name for s in result.of(hidden.pid) for f in s.frames if f.path == str(path)},
                         {""})

    def test_a_library_keeps_its_names_beside_short_processes(self):
        """Each of them maps the C library, mostly met last and mostly gone when its file is asked for."""
        directory = self.directory()
        short = self.spawn(["sh", "-c", f"while :; do {tap.VICTIMS / 'victim-short'} 3 >/dev/null; done"])
        user = directory / "user.py"
        user.write_text(
            "import time\nwhile True:\n  for n in range(1, 400): sorted(str(n).encode() * n); '%.17g' % n ** .5; time.time()\n"
        )
        run, wait = self.start_counted("--all", *HZ, "--symbols", "local")
        wait(20, "spanprof_names_total", result="named")
        python = self.spawn([sys.executable, user])
        run.wait_events(2000, python.pid, 120)
        short.kill()
        result, symbols = run.stop(), otlp_read.Symbols()
        frames = collections.Counter(f for s in result.of(python.pid) for f in s.frames if "/libc." in f.path)
        named = {f.address for f in frames if f.name}
        nameless = {
            f.address for f, n in frames.items()
            if n >= 50 and f.address not in named and symbols.name(f) != "[unknown]"
        }
        self.assertTrue(named)
        self.assertEqual(nameless, set(), "met again and again")
        self.assertEqual(result.counter("names_total", "unreadable"), 0,
                         "a process that has ended is no reason to wait")

    def test_nothing_runs_for_remote(self):
        victim = self.victim("chain", 20)
        run = self.start("--pid", victim.pid, *HZ)
        run.wait_events(100, victim.pid)
        names = threads(run.pid)
        self.assertNotIn("names", names)
        self.assertNotIn("jit-names", names)
        self.assertRegex(self.spanprof("doctor", expect=None).stdout, r"(?m)^ok +symbols .*symbols = remote")
        result = run.stop()
        self.assertEqual(sum(result.counter("names_total").values()), 0)
        self.assertEqual({f.name for s in result.of(victim.pid) for f in s.frames if f.type != "kernel"},
                         {""})


# What is inlined where is for addr2line to say.
INLINES = """#include <time.h>
static inline __attribute__((always_inline)) unsigned mix(unsigned x) {
        for (int i = 0; i < 1000; i++)
                x = x * 1103515245u + 12345u;
        return x;
}
namespace shop {
static inline __attribute__((always_inline)) unsigned fold(unsigned x) {
        return mix(x) + 3;
}
__attribute__((noinline)) unsigned checkout(unsigned x) {
        return fold(x) ^ 7;
}
}
int main() {
        struct timespec used = {};
        unsigned x = 1;
        while (used.tv_sec < 60) {
                struct timespec rest = { 0, 10000000 };
                for (int i = 0; i < 1000; i++)
                        x = shop::checkout(x);
                nanosleep(&rest, nullptr);
                clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        }
        return x == 42;
}
"""


class Lines(session.NamingCase):
    def setUp(self):
        for tool in ("g++", "addr2line", "objcopy"):
            tap.need_tool(tool)
        self.dir = self.directory()
        self.program = self.dir / "shop"
        (self.dir / "shop.cc").write_text(INLINES)
        subprocess.run(["g++", "-O2", "-g", "-Wl,--build-id", "-o", self.program, self.dir / "shop.cc"], check=True)

    def chains(self, result, pid):
        """{address: ((function, file, line), …)} of each location in the program, the innermost first."""
        chains = {}
        for sample in result.of(pid):
            frames = [frame for frame in sample.frames if frame.path == str(self.program)]
            for frame in frames:
                chains.setdefault(frame.address, set()).add(tuple(
                    (f.name, f.file, f.line) for f in frames if f.address == frame.address))
        return chains

    @staticmethod
    def truth(path, address):
        """Lines are addr2line's. Their functions are those of the source: addr2line gives the innermost the
        name of the outermost, and where there is no symbol, the one without a namespace, as we do."""
        said = subprocess.run(["addr2line", "-e", path, "-i", hex(address)], check=True, capture_output=True,
                              text=True).stdout
        chain, lines = [], INLINES.splitlines()
        for file, line in re.findall(r"(?m)^(.*):(\d+)", said):
            names = (re.search(r" (mix|fold|checkout|main)\(.*\) {$", text) for text in lines[int(line) - 1::-1])
            name = next(match[1] for match in names if match)
            chain.append((f"shop::{name}" if name == "checkout" else name, file, int(line)))
        return tuple(chain)

    def check_lines(self, source):
        """@source: the file with debug information."""
        victim = self.spawn([self.program])
        run, wait = self.start_counted("--pid", victim.pid, *HZ, "--symbols", "local")
        self.wait_named(run, victim.pid, "mix", "shop::checkout", "main")
        result = run.stop()
        chains = self.chains(result, victim.pid)
        lined = {address for address, seen in chains.items() if any(chain[-1][2] for chain in seen)}
        self.assertTrue(any(chain[:3] for address in lined for chain in chains[address] if len(chain) == 3))
        for address in lined:
            truth = self.truth(source, address)
            # before its lines were there, a location had its function alone, or nothing
            self.assertLessEqual(chains[address] - {truth}, {((truth[-1][0], "", 0),), (("", "", 0),)})
            self.assertIn(truth, chains[address])
        self.assertGreaterEqual(result.counter("lines_total", "read"), len(lined))
        self.assertEqual(result.counter("lines_total", "failed"), 0)
        self.assertEqual(result.counter("workers_total", "died"), 0)

    def test_lines_and_inlined_functions_are_those_of_addr2line(self):
        self.check_lines(self.program)

    def test_a_debug_file_beside_a_stripped_program_has_them(self):
        debug = self.dir / "shop.debug"
        subprocess.run(["objcopy", "--only-keep-debug", self.program, debug], check=True)
        subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", self.program], check=True)
        self.check_lines(debug)

    def test_none_are_read_if_they_are_switched_off(self):
        victim = self.spawn([self.program])
        run, _ = self.start_counted("--pid", victim.pid, *HZ, "--symbols", "local", "--lines=off")
        self.wait_named(run, victim.pid, "shop::checkout")
        result = run.stop()
        frames = [f for sample in result.of(victim.pid) for f in sample.frames if f.path == str(self.program)]
        self.assertEqual({(f.file, f.line) for f in frames}, {("", 0)})
        self.assertNotIn("mix", {f.name for f in frames})
        self.assertEqual(set(result.counter("lines_total").values()), {0})


class Runtimes(session.NamingCase):
    """Programs of others that write such files."""

    @staticmethod
    def names_in(path):
        return {
            line.split(" ", 2)[2] for line in path.read_text(errors="replace").splitlines()
            if line.count(" ") >= 2
        }

    def check_names(self, result, pid, known, pattern):
        names = {f.name for s in result.of(pid) for f in s.frames if f.type == "unknown" and f.name}
        self.assertEqual(names - known, set())
        self.assertTrue([name for name in names if re.search(pattern, name)], names)

    def test_node(self):
        if not shutil.which("node"):
            tap.skip("machine: no node")
        script = self.directory() / "spin.js"
        script.write_text(
            "function burnOne(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s; }\n"
            "console.log('ready'); let x = 0; for (;;) x += burnOne(1e6);\n")
        # V8 writes a log there
        child = self.spawn(["node", "--perf-basic-prof", script], cwd=script.parent)
        path = pathlib.Path(f"/tmp/perf-{child.pid}.map")
        self.addCleanup(path.unlink, missing_ok=True)
        child.wait_for("ready")
        # its own reader needs no map
        run = self.start("--pid", child.pid, "--runtimes", "off", *HZ)
        self.wait_for(run, lambda samples: any("burnOne" in f.name for s in samples for f in s.frames),
                      "burnOne")
        result = run.stop()
        self.check_names(result, child.pid, self.names_in(path), r"burnOne.*spin\.js")

    def test_java(self):
        for tool in ("java", "javac", "jcmd"):
            if not shutil.which(tool):
                tap.skip(f"machine: no {tool}")
        directory = self.directory()
        (directory / "Spin.java").write_text(
            "public class Spin { static int burn(int n) { int s = 0; for (int i = 0; i < n; i++) s = s * 31 + i; return s; }\n"
            "public static void main(String[] a) { System.out.println(\"ready\"); int x = 0; for (;;) x += burn(1000000 + (x & 1)); } }\n"
        )
        self.run_command(["javac", *jdks.BRIEF, "-d", directory, directory / "Spin.java"], expect=0, timeout=120)
        child = self.spawn(["java", "-XX:+PreserveFramePointer", "-cp", directory, "Spin"])
        path = pathlib.Path(f"/tmp/perf-{child.pid}.map")
        self.addCleanup(path.unlink, missing_ok=True)
        child.wait_for("ready")
        session.wait_cpu([child.pid], 1.0)
        run = self.start("--pid", child.pid, "--runtimes", "off", *HZ)
        run.wait_events(50, child.pid)
        known = set()

        def burned(samples):
            """A map is of one moment: it is written again until the compiler has settled."""
            self.run_command(["jcmd", child.pid, "Compiler.perfmap"], timeout=120)
            known.update(self.names_in(path) if path.exists() else [])
            return any("Spin.burn" in f.name or "Spin.main" in f.name for s in samples for f in s.frames)

        self.wait_for(run, burned, "Spin.burn or Spin.main")
        self.check_names(run.stop(), child.pid, known, r"Spin\.(burn|main)")


if __name__ == "__main__":
    tap.main()
