#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What starts cost: the daemon's own, and those of other processes while it runs.

usage: tests/bench/starts.py [--rounds N] [--seconds N] [--old SPANPROF] [start] [short] [programs] [parts]
                             [idle] [known]

    start   daemon → ready; CPU until then; → first sample of a program that runs already; → first delivery
    short   CPU and peak memory of the daemon's cgroup beside a shell that starts one short program after the
            other: all of them are targets, or none is (by name, by user)
    programs    CPU and switches of the daemon for each of 240 short programs, all of them targets; alone with
            them: unshare -fp --mount-proc python3 tests/bench/starts.py programs
    parts   what a program of `programs` costs the daemon: CPU by what it is for, in the kernel and outside,
            told by `spanprof record` of the daemon; system calls, counted by strace. One round. The recorder's
            ticks are in these times: compare shares, and calls
    idle    CPU per minute with --all while a shell starts two programs a second
    known   a start with --all on a host of 100 programs of /usr/bin, all with their libraries mapped:
            → ready; → the last table of unwind rows, which comes with the first sample of its program; CPU
            from the start until 4 s, of the daemon and of its workers. The same of the second daemon of a
            spool, and of one that chooses none. It needs tests/bench/held.so of the build

--old names another build, which takes turns with this one (SPANPROF, default ./build) in the same run. The
rival of `short` is `perf record -a -g`, which only copies. Needs root.
"""
import collections
import json
import os
import pathlib
import signal
import time

import bench
import session
import tap
import unix_http

PERF = bench.tool("perf")
SHORT = "while :; do /bin/true; ls /usr/lib >/dev/null; sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done"
FEW = SHORT.replace("while :", "n=80; while [ $((n=n-1)) -ge 0 ]")
N_FEW = 240
BURN_S = 0.5                    # some ticks at 99 Hz
SETTLE_S = 4                    # two full searches of this Python
PARTS_HZ = 4999
N_KNOWN = 100
KNOWN_S = 4
HELD = tap.BUILD_DIR / "tests/bench/held.so"
SELDOM = "while :; do sleep 0.5; done"


class Daemon:

    def __init__(self, b, program, *options):
        self.cgroup = b.cgroup("daemon")
        self.summary = b.directory() / "summary.json"
        _, environment = b.receiver()
        self.begin = time.monotonic()
        self.child = b.spawn([program, "run", "--summary", self.summary, *options], cgroup=self.cgroup,
                             env=environment)
        self.child.wait_for("profiles go to")
        self.ready_ms = (time.monotonic() - self.begin) * 1e3
        self.ready_cpu_ms = self.cgroup.cpu_ns / 1e6

    def cpu_ms(self, seconds, settle=1.5):
        """CPU of @seconds, without the start and its first window."""
        time.sleep(settle)
        before = self.cgroup.cpu_ns
        time.sleep(seconds)
        return (self.cgroup.cpu_ns - before) / 1e6

    def stop(self):
        self.peak_mib = self.cgroup.peak_bytes / (1 << 20)
        self.child.stop()
        return json.loads(self.summary.read_text())


def programs(options):
    old = [("--old", pathlib.Path(options.old).resolve())] if options.old else []
    return [("this build", tap.SPANPROF)] + old


def start(options):
    figures = {}
    for _ in range(options.rounds):
        for name, program in programs(options):
            with bench.Bench() as b:
                b.victim("chain", 30)
                daemon = Daemon(b, program, "--comm", "victim-chain")
                time.sleep(1.5)
                summary = daemon.stop()
                figures.setdefault(name, []).append((daemon.ready_ms, daemon.ready_cpu_ms,
                                                     summary["first_sample_ns"] / 1e6,
                                                     summary["first_delivery_ns"] / 1e6))
    bench.table("start: ms", ["build", "ready", "CPU until then", "first sample", "first delivery"],
                [[name, *map(bench.spread, zip(*values))] for name, values in figures.items()])


def rival(b, seconds):
    """CPU ms a second of perf."""
    group = b.cgroup("perf")
    child = b.spawn([PERF, "record", "-a", "-g", "-F", "99", "-o", b.directory() / "data"], cgroup=group)
    time.sleep(1.5)
    before = group.cpu_ns
    time.sleep(seconds)
    cpu_ms = (group.cpu_ns - before) / 1e6
    peak = group.peak_bytes / (1 << 20)
    child.stop()
    return cpu_ms / seconds, peak


def short(options):
    figures = {}
    for _ in range(options.rounds):
        for what, *arguments in (("--all, 99 Hz", "--all"), ("--comm of none, 999 Hz", "-C", "none", "-F", "999"),
                                 ("--user of none, 999 Hz", "--user", "54321", "-F", "999")):
            for name, program in programs(options):
                with bench.Bench() as b:
                    b.spawn(["sh", "-c", SHORT])
                    daemon = Daemon(b, program, *arguments)
                    cpu_ms = daemon.cpu_ms(options.seconds)
                    ticks = daemon.stop()["ticks"]
                    per_sample = cpu_ms / options.seconds / max(1, ticks / (options.seconds + 1.5))
                    figures.setdefault((name, what), []).append(
                        (cpu_ms / options.seconds, per_sample * 10 * ("--all" in arguments),
                         daemon.peak_mib))
        if PERF:
            with bench.Bench() as b:
                b.spawn(["sh", "-c", SHORT])
                cpu_ms, peak = rival(b, options.seconds)
                figures.setdefault(("perf record -a -g", "99 Hz"), []).append((cpu_ms, 0, peak))
    bench.table("beside short programs", ["tool", "what", "CPU ms a second", "CPU s per 10,000 samples", "peak MiB"],
                [[*key, *map(bench.spread, zip(*values))] for key, values in figures.items()])


def switches(pid):
    """Of all threads of a process, until now."""
    return sum(int(line.split()[1]) for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status")
               for line in status.read_text().splitlines() if "ctxt_switches" in line)


def burn():
    """So that the daemon meets this bench's own Python, loads the walk for it, searches it, and reads the kernel's
    names for a stack in the kernel, before it is measured."""
    end = time.monotonic() + BURN_S
    while time.monotonic() < end:
        pass
    with open("/dev/zero", "rb", buffering=0) as zero:
        while time.monotonic() < end + BURN_S:
            zero.read(1 << 20)


class AllDaemon(Daemon):
    """With --all, and what it does but once is done: rows, kallsyms, the walk of runtimes."""

    def __init__(self, b, program):
        super().__init__(b, program, "--all")
        burn()
        run_few(b)


def run_few(b):
    b.spawn(["sh", "-c", FEW]).process.wait()
    time.sleep(1)


# A chain of calls belongs to the first part one of whose functions is in it.
PARTS = (
    ("the walk of runtimes is loaded", ("kernel_half_load_runtimes",)),
    ("environment, arguments", ("process_look_new", "process_look")),
    ("control group", ("read_groups", "notice_history_identity")),
    ("mappings, files, their rows", ("mapping_tracker_ensure", "daemon_step_tables")),
    ("who it is, its row", ("targets_admit",)),
    ("search for contexts", ("search_work", "search_here", "do_read", "do_read_memory", "do_fill")),
    ("samples: walk, sum", ("daemon_on_sample", "deferred_work")),
    ("notices of exec and exit", ("daemon_on_notice",)),
    ("notices of mappings", ("sideband_drain",)),
    ("turns of the loop, and the rest", ()),
)
ENTRIES = ("entry_SYSCALL_64_after_hwframe", "asm_exc_page_fault", "el0t_64_sync", "ret_from_fork_asm")


def part_of(calls):
    for name, functions in PARTS:
        if not functions or not calls.isdisjoint(functions):
            return name
    return None


def parts(options):
    for name, program in programs(options):
        sums = collections.Counter()
        with bench.Bench() as b:
            daemon, folded = AllDaemon(b, program), b.directory() / "daemon.folded"
            recorder = b.spawn([tap.SPANPROF, "record", "--pid", daemon.child.pid, "--frequency", PARTS_HZ, "-o",
                                folded])
            time.sleep(1)
            run_few(b)
            recorder.process.send_signal(signal.SIGINT)
            recorder.process.wait()
            daemon.stop()
            for line in folded.read_text().splitlines():
                calls, n = line.rsplit(" ", 1)
                calls = set(calls.split(";"))
                sums[part_of(calls), not calls.isdisjoint(ENTRIES)] += int(n)
        us = 1e6 / PARTS_HZ / N_FEW
        bench.table(f"parts: µs of the daemon a program, {name}", ["what", "kernel", "outside"],
                    [[part, *(f"{us * sums[part, in_kernel]:.1f}" for in_kernel in (True, False))]
                     for part, _ in PARTS])
        count_calls(name, program)


def count_calls(name, program):
    if not bench.tool("strace"):
        print("no strace: system calls were not counted")
        return
    with bench.Bench() as b:
        daemon, counts = AllDaemon(b, program), b.directory() / "counts"
        tracer = b.spawn([bench.tool("strace"), "-f", "-c", "-o", counts, "-p", daemon.child.pid])
        time.sleep(1)
        run_few(b)
        tracer.process.send_signal(signal.SIGINT)
        tracer.process.wait()
        daemon.stop()
        # % time, seconds, µs a call, calls, errors if there are any, name
        rows = [line.split() for line in counts.read_text().splitlines()[2:]]
    calls = {row[-1]: int(row[3]) / N_FEW for row in rows if len(row) > 4 and row[3].isdigit()}
    bench.table(f"system calls a program, {name}", ["call", "a program"],
                [[call, f"{n:.2f}"] for call, n in sorted(calls.items(), key=lambda item: -item[1])
                 if n >= 0.05 or call == "total"])


def short_programs(options):
    figures = {}
    for _ in range(options.rounds):
        for name, program in programs(options):
            with bench.Bench() as b:
                daemon = AllDaemon(b, program)
                # without workers, which may read files of the first ones until now
                cpu_ns, n = session.cpu_ns(daemon.child.pid), switches(daemon.child.pid)
                run_few(b)
                cpu_ns, n = session.cpu_ns(daemon.child.pid) - cpu_ns, switches(daemon.child.pid) - n
                daemon.stop()
                figures.setdefault(name, []).append((cpu_ns / 1e3 / N_FEW, n / N_FEW))
    bench.table(f"{N_FEW} short programs", ["build", "CPU µs a program", "switches a program"],
                [[name, *map(bench.spread, zip(*values))] for name, values in figures.items()])


def idle(options):
    figures = {}
    for _ in range(options.rounds):
        for name, program in programs(options):
            with bench.Bench() as b:
                b.spawn(["sh", "-c", SELDOM])
                daemon = Daemon(b, program, "--all")
                burn()
                cpu_ms = daemon.cpu_ms(options.seconds, SETTLE_S)
                daemon.stop()
                figures.setdefault(name, []).append(cpu_ms / options.seconds * 60)
    bench.table("idle with --all, two programs a second", ["build", "CPU ms a minute"],
                [[name, bench.spread(values)] for name, values in figures.items()])


def is_program(path):
    """Whether the dynamic linker starts it, as whoever asks: so it honours LD_PRELOAD."""
    if path.is_symlink() or not path.is_file() or path.stat().st_mode & 0o6000:
        return False
    with path.open("rb") as file:
        head = file.read(4096)
    return head[:5] == b"\x7fELF\x02" and b"/ld-linux" in head


def hold_programs(b):
    """Return: how many files their code is of."""
    found = [path for path in sorted(pathlib.Path("/usr/bin").iterdir()) if is_program(path)]
    environment = dict(os.environ, LD_PRELOAD=str(HELD))
    children = [b.spawn([path], env=environment) for path in found[::max(1, len(found) // N_KNOWN)][:N_KNOWN]]
    time.sleep(3)
    return len({line.split()[4] for child in children
                for line in pathlib.Path(f"/proc/{child.pid}/maps").read_text().splitlines()
                if " r-xp " in line})


def tables_done(control):
    family = unix_http.metrics(control)["spanprof_unwind_tables_total"]
    return sum(n for labels, n in family.samples.items() if dict(labels)["result"] != "known")


def last_table_ms(b, program, *options):
    """Start → the last table of unwind rows, and how many. Who asks costs CPU."""
    control = b.directory() / "control"
    daemon = Daemon(b, program, *options, "--control", control)
    n, last_ms = 0, 0
    while (time.monotonic() - daemon.begin) * 1e3 < last_ms + 2000:
        now = tables_done(control)
        if now > n:
            n, last_ms = now, (time.monotonic() - daemon.begin) * 1e3
        time.sleep(0.02)
    daemon.stop()
    return n, last_ms


def start_cpu(b, program, *options):
    """A start: ms until it is ready, and CPU ms up to KNOWN_S, of the daemon and of its workers."""
    daemon = Daemon(b, program, *options)
    time.sleep(max(0, daemon.begin + KNOWN_S - time.monotonic()))
    own_ms, all_ms = session.cpu_ns(daemon.child.pid) / 1e6, daemon.cgroup.cpu_ns / 1e6
    daemon.stop()
    return daemon.ready_ms, own_ms, all_ms - own_ms


def known(options):
    figures = {}
    with bench.Bench() as held:
        n_files = hold_programs(held)
        for _ in range(options.rounds):
            for name, program in programs(options):
                spool = held.directory() / "spool"
                for what, *arguments in (("--all", "--all"), ("--all, the second", "--all", "--spool", spool),
                                         ("--comm of none", "-C", "none")):
                    runs = [last_table_ms, start_cpu]
                    if spool in arguments:
                        runs.insert(0, start_cpu)       # the first
                    seen = []
                    for run in runs:
                        with bench.Bench() as b:
                            seen.append(run(b, program, *arguments))
                    figures.setdefault((name, what), []).append((*seen[-2], *seen[-1]))
    bench.table(f"a start on a host of {N_KNOWN} programs, {n_files} files with code",
                ["build", "targets", "tables", "last table ms", "ready ms", "CPU ms: daemon", "its workers"],
                [[*key, *map(bench.spread, zip(*values))] for key, values in figures.items()])


def main():
    parser = bench.argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--old")
    parser.add_argument("parts", nargs="*", default=["start", "short", "programs", "idle"])
    options = parser.parse_args()
    bench.need_root()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, Linux {os.uname().release}")
    for part in options.parts:
        {"start": start, "short": short, "programs": short_programs, "parts": parts, "idle": idle,
         "known": known}[part](options)


if __name__ == "__main__":
    main()
