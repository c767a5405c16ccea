#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Targets that make it hard for who looks at them, each beside a healthy one of which no sample may be lost;
and what a look costs the target itself: nothing of its memory."""
import oracle

oracle.enter()

import ctypes
import os
import pathlib
import re
import shutil
import signal
import time

import crafted_elf
import fuse_server
import groups
import otlp_read
import prometheus
import session
import tap
import unix_http

SYMBOLS = otlp_read.Symbols()
HZ = ("--frequency", "499")
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 17, 0x4206, 0x4207, 0x40000000
SPAN = ("00000000000000010000000000000002", "0000000000000003")


def searches(control):
    """Searches for a ring that came to the end of a target's memory, as the daemon counts them now."""
    return prometheus.value(unix_http.metrics(control), "spanprof_ring_scans_total", result="complete")


def memory_kib(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {name: int(re.search(rf"{name}:\s+(\d+)", text)[1]) for name in ("VmRSS", "VmPTE")}


def states(pid):
    """Of its threads: R, S, D, T, t …"""
    return {(task / "stat").read_text().rpartition(") ")[2][0]
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir()}


def is_inside(sample, function):
    return any(f.build_id and SYMBOLS.name(f) == function for f in sample.frames)


class Hostile(session.TestCase):
    def beside(self, *arguments, cpu=0.8, prepare=None, comm="victim-hostile,victim-ring", until=None,
               **more):
        """A hostile target, and a healthy one under the daemon's eyes all the time. @until: of what the daemon counts."""
        healthy, tell = self.commanded("ring")
        tell("publish")
        tell("set 1 2 3")
        hostile = self.victim("hostile", *arguments)
        if prepare:
            prepare()
        control = self.directory() / "control.sock"
        run = self.start("--comm", comm, "--control", control, *HZ, **more)
        before = session.cpu_ns(healthy.pid)
        begin = session.cpu_ns(run.pid)
        session.wait_cpu([healthy.pid], cpu)
        late, tell = self.commanded("ring")             # who comes later is found, too
        tell("publish")
        tell("set 1 2 3")
        run.wait_events(30, late.pid)
        tap.wait_until(lambda: not until or until(unix_http.metrics(control)), "what is waited for")
        used, busy = (session.cpu_ns(healthy.pid) - before) / 1e9, (session.cpu_ns(run.pid) - begin) / 1e9
        result = run.stop()
        samples = result.of(healthy.pid)
        burning = [s for s in samples if is_inside(s, "ring_burn")]
        print(
            f"{arguments[0]}: healthy {len(samples)} samples of {used * 499:.0f} ticks, daemon used {busy:.3f} s, "
            f"hostile {len(result.of(hostile.pid))}, lost {result.summary['lost_by_reason']}")
        self.assertEqual({k: v for k, v in result.summary["lost_by_reason"].items() if k != "not_target"}, {})
        self.assertGreater(len(samples), 0.8 * used * 499)
        self.assertGreater(len(burning), 0.97 * len(samples) - 3)
        self.assertEqual({(s.trace_id, s.span_id) for s in burning[len(burning) // 2:]}, {SPAN})
        self.assertIsNone(hostile.status, hostile)
        self.assertTrue([s for s in result.of(hostile.pid) if is_inside(s, "hostile_burn")],
                        "it is sampled all the same")
        return result, hostile

    def test_mappings_that_change_while_they_are_read(self):
        result, _ = self.beside("churn", 65530)
        self.assertGreater(result.counter("maps_paused_total"), 0, "not all in one turn of the loop")

    def test_a_gigabyte_of_maps(self):
        """Reading it all would take a second, and a look is more than one read."""
        result, _ = self.beside("names", 60000, self.directory())
        self.assertGreater(result.counter("maps_cut_total"), 0)
        self.assertGreater(result.counter("maps_paused_total"), 0, "nor is it read in one turn of the loop")

    def test_a_ring_that_moves_every_millisecond(self):
        result, _ = self.beside("remap")
        self.assertLess(result.counter("rings_total", "found"), 500, "it is not followed at any price")

    def test_a_thousand_rings(self):
        self.beside("rings", 1000)

    def test_names_that_lie(self):
        """Lines of maps that look like two, deleted when they are not, anonymous when they are files; then
        the paths become a FIFO, a directory, another program. And a comm that is no UTF-8."""
        directory = self.directory()
        names = [
            "a\nb", "gone (deleted)", "[anon:spanprof]", "[vdso]", "fifo", "directory", "replaced",
            "\x1b]0;x", "n" * 250
        ]
        for name in names:
            shutil.copy(tap.VICTIMS / "victim-short", directory / name)

        def prepare():
            for name in ("fifo", "directory", "replaced"):
                (directory / name).unlink()
            os.mkfifo(directory / "fifo")
            (directory / "directory").mkdir()
            shutil.copy(tap.VICTIMS / "victim-chain", directory / "replaced")

        victims = ["files", *(directory / name for name in names)]
        result, hostile = self.beside(*victims, comm="h*,victim-ring", prepare=prepare)
        for sample in result.of(hostile.pid):
            self.assertEqual(sample.resource["process.executable.name"], "victim-hostile")
            self.assertFalse([f.path for f in sample.frames if "\n" in f.path])

    def test_a_replaced_program_keeps_its_own_build_id(self):
        path = self.directory() / "program"
        shutil.copy(tap.VICTIMS / "victim-chain", path)
        child = self.spawn([path, 5])
        child.wait_for(r"^pid \d+")
        shutil.copy(tap.VICTIMS / "victim-shares", path.with_suffix(".new"))
        path.with_suffix(".new").rename(path)
        run = self.start("--pid", child.pid, *HZ)
        run.wait_events(60, child.pid)
        own = [f for s in run.stop().of(child.pid) for f in s.frames if f.path.endswith("/program")]
        self.assertGreater(len(own), 60)
        self.assertEqual({f.build_id for f in own}, {SYMBOLS.build_id(str(tap.VICTIMS / "victim-chain"))})

    def test_a_file_that_never_answers(self):
        """On FUSE; its server falls silent once it is mapped."""
        mount = self.directory()
        try:
            server = fuse_server.FuseServer(mount, "program", (tap.VICTIMS / "victim-short").read_bytes())
        except OSError as error:
            tap.skip(f"kernel: mounts no FUSE here: {error}")
        self.addCleanup(server.close)
        result, hostile = self.beside("files", server.file, comm="h*,victim-ring", prepare=server.be_silent)
        self.assertGreater(result.counter("objects_total", "remote"), 0)
        with open(f"/proc/{hostile.pid}/maps") as maps:
            self.assertIn(server.file, maps.read())

    def test_files_with_crafted_tables(self):
        """Each costs what is broken in it; what is whole beside that keeps its rows."""
        paths = crafted_elf.make_files(self.directory())
        mapped = [paths["shrunk"], *(path for kind, path in paths.items() if kind != "shrunk")]

        def are_read(metrics):
            # Of 40 functions: all of two files, half of two, nearly all of one and one of the sparse file.
            bad = prometheus.value(metrics, "spanprof_unwind_entries_bad_total")
            loaded = prometheus.value(metrics, "spanprof_unwind_tables_total", result="loaded")
            # those of the libraries are among them
            return bad > 130 and loaded > len(crafted_elf.KINDS)

        result, _ = self.beside("files", *mapped, comm="h*,victim-ring", until=are_read,
                                prepare=lambda: os.truncate(paths["shrunk"], 64))
        self.assertEqual(
            {k: v for k, v in result.counter("workers_total").items() if k in ("died", "malformed")},
            {"died": 0, "malformed": 0})

    def stop_by_signal(self, pid):
        os.kill(pid, signal.SIGSTOP)
        tap.wait_until(lambda: states(pid) == {"T"}, "stopped")
        return lambda: os.kill(pid, signal.SIGCONT)

    def stop_by_ptrace(self, pid):
        """As a debugger does that has stopped at a breakpoint."""
        ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        ptrace.argtypes = [ctypes.c_long] * 4
        threads = [int(task) for task in os.listdir(f"/proc/{pid}/task")]
        for tid in threads:
            for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
                self.assertEqual(ptrace(request, tid, 0, 0), 0, os.strerror(ctypes.get_errno()))
            os.waitpid(tid, WALL)
        self.assertEqual(states(pid), {"t"})
        return lambda: [self.assertEqual(ptrace(PTRACE_DETACH, tid, 0, 0), 0) for tid in threads]

    def stop_by_freezer(self, pid):
        """As a container that is paused."""
        group = groups.make(self, f"spanprof-test-frozen-{os.getpid()}")
        self.addCleanup(
            lambda: tap.wait_until(lambda: not (group / "cgroup.procs").read_text(), "an empty group"))
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        groups.enter(group, pid)
        (group / "cgroup.freeze").write_text("1")
        tap.wait_until(lambda: "frozen 1" in (group / "cgroup.events").read_text(), "frozen")
        return lambda: (group / "cgroup.freeze").write_text("0")

    def test_targets_that_stand_still_are_known_when_they_go_on(self):
        """Stopped, held by a debugger, frozen, and one that the kernel lets do nothing until its child is
        done: what they publish is read all the same, in time, since nobody waits for them."""
        pids, go_on = [], []
        for stop in (None, self.stop_by_signal, self.stop_by_ptrace, self.stop_by_freezer):
            child, tell = self.commanded("ring")
            tell("publish")
            tell("set 1 2 3")
            pids.append(child.pid)
            go_on += [stop(child.pid)] if stop else []
        parent = self.spawn([tap.VICTIMS / "victim-family", "vfork", 1, 600000])
        tap.wait_until(lambda: states(parent.pid) == {"D"}, "it waits for its child")
        run = self.start("--comm", "victim-ring,victim-family", *HZ)
        run.wait_events(100, pids[0])
        begin_ns = {pid: time.clock_gettime_ns(time.CLOCK_MONOTONIC) for pid in pids[1:]}
        for one in go_on:
            one()
        for pid in pids:
            run.wait_events(100, pid)
        result = run.stop()
        self.assertEqual({k: v for k, v in result.summary["lost_by_reason"].items() if k != "not_target"}, {})
        for pid in pids:
            burning = [s for s in result.of(pid) if is_inside(s, "ring_burn")]
            self.assertGreater(len(burning), 90)
            self.assertEqual({(s.trace_id, s.span_id) for s in burning}, {SPAN}, "from the first sample on")
            self.assertGreaterEqual(min(map(result.monotonic_ns, result.of(pid))), begin_ns.get(pid, 0))
        self.assertEqual(result.of(parent.pid), [])
        self.assertTrue([s for s in result.samples if is_inside(s, "family_child")],
                        "the child, in its parent's memory")

    def test_a_look_costs_a_target_no_memory(self):
        for mode, n in (("reserve", 8), ("still", 60000)):
            with self.subTest(mode=mode):
                victim = self.victim("hostile", mode, n)
                tap.wait_until(lambda: session.cpu_ns(victim.pid) > 3e7, "it is at work")
                before = memory_kib(victim.pid)
                control = self.directory() / "control.sock"
                run = self.start("--pid", victim.pid, "--control", control, *HZ)
                run.wait_events(100, victim.pid)
                tap.wait_until(lambda: searches(control), "it was searched to the end")
                after = memory_kib(victim.pid)
                result = run.stop()
                print(mode, before, after, result.counter("ring_scans_total"))
                for name in before:
                    self.assertLessEqual(after[name] - before[name], 64, f"{name}: {before} {after}")
                self.assertGreater(len(result.of(victim.pid)), 100)


if __name__ == "__main__":
    tap.main()
