#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python: how right stacks are beside py-spy, what code objects cost in memory, how soon names are there.

usage: tests/bench/cpython.py [--seconds N] [--python PATH]… [--py-spy X] [--rounds N] [PART…]

    right   tests/victims/python/victim-python.py: share of its own samples with a whole chain of calls, with
            the chain cut short of the leaf, and with calls that the source does not have; whole ones beside
            the victim's own log of its time in the leaf; lines; each chain's share of time beside that log; CPU
            time of the tool. Profilers take turns
    code    20,000 functions, each of them named: bytes that the daemon holds for names of runtimes, and how
            its resident memory grows
    kernel  what the kernel half's programs take a sample and a frame of Python, by the kernel's statistics
            (kernel.bpf_stats_enabled): chains of 66 and 201 frames, which differ in nothing else
    spans   what the kernel half takes a sample of a thread with a span of OpenTelemetry's SDK, with the way
            to the span and without: turns of a second in one run, in which the bench takes the process's
            types out of the daemon's map, and puts them back. Needs bpftool and the publisher otel-python
    first   time from the begin of the process, and of the daemon beside one that runs already, to the first
            sample whose function has a name
    throughput
            what a program does a second with a profiler at 99 Hz, beside what it does without: its own count.
            Tools take turns, forth and back, in each round

py-spy is on PyPI. Without --py-spy it has no row; it stops the victim for each sample. Needs root.
"""
import collections
import contextlib
import importlib
import json
import mmap
import os
import pathlib
import re
import signal
import statistics
import struct
import subprocess
import time
import types

import bench
import oracle

oracle.enter()

import otlp_read
import prometheus
import pythons
import session
import tap

victim = importlib.import_module("test-run-python")
HZ = 499
STATISTICS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
PERF_EVENT = 7                      # BPF_PROG_TYPE_PERF_EVENT, which runs at each tick
MORE_FRAMES = 198 - 63              # of `deeper` than of `deep`
CODES, CHAIN = 20000, 200           # functions; those of one stack
FUNCTIONS = """import sys
sys.setrecursionlimit(10000)
scope = {}
for i in range(%d):
    scope[f"code_{i}"] = None
    last = i %% %d == %d
    call = "burn()" if last else f"code_{i + 1}()"
    exec(compile(f"def code_{i}():\\n    return {call}\\n", "made.py", "exec"), scope)
def burn():
    total = 0
    for i in range(60000):
        total = (total * 31 + i) & 0xffff
scope["burn"] = burn
print("ready", flush=True)
while True:
    for i in range(0, %d, %d):
        scope[f"code_{i}"]()
""" % (CODES, CHAIN, CHAIN - 1, CODES, CHAIN)


# counts its rounds where the bench can read them
ROUNDS = """import mmap, struct, sys
file = open(sys.argv[1], "r+b")
memory = mmap.mmap(file.fileno(), 8)
class Item:
    def __init__(self, n):
        self.n = n
    def value(self, depth):
        return self.value(depth - 1) + 1 if depth else self.n
def items(n):
    for i in range(n):
        yield Item(i)
def work():
    return sorted((item.value(20) for item in items(50)), key=lambda x: -x)
print("ready", flush=True)
n = 0
while True:
    work()
    n += 1
    struct.pack_into("Q", memory, 0, n)
"""


def interpreters(options):
    return options.python or [str(path) for path in pythons.here().values()]


def release(python):
    return ".".join(map(str, pythons.version(python)))


# ---- how right ----


def frame(text):
    """A frame of py-spy: `name (file:line)`."""
    found = re.fullmatch(r"(.*) \((.*):(\d+)\)", text)
    name, file, line = found.groups() if found else (text, "", 0)
    return types.SimpleNamespace(name=name, file=file, line=int(line), type="cpython")


def by_us(b, _, child, seconds, cgroup):
    path = b.directory() / "out.pb"
    b.spawn([tap.SPANPROF, "record", "--pid", child.pid, "-F", HZ, "--depth", "1024", "-d", f"{seconds:.0f}s", "-o",
             path], cgroup=cgroup).wait(patience=seconds + 60)
    return [(sample.frames, sample.value) for sample in otlp_read.samples(path)]


def by_py_spy(b, options, child, seconds, cgroup):
    path = b.directory() / "out.raw"
    b.spawn([options.py_spy, "record", "-p", child.pid, "-r", HZ, "-d", f"{seconds:.0f}", "-f", "raw", "--full-filenames",
             "-o", path], cgroup=cgroup).wait(patience=seconds + 60)
    found = []
    for line in path.read_text().splitlines():
        stack, _, n = line.rpartition(" ")
        found.append(([frame(text) for text in reversed(stack.split(";"))], int(n)))
    return found


def judge(samples, child):
    """(n, percent whole, short, wrong, whole beside the time in leaves by the victim's log, of lines
    right, most points that a chain's share is off)."""
    truth, mine = session.truth_of(child), []
    seen, spent, right, wrong = collections.Counter(), collections.Counter(), 0, 0
    for frames, n in samples:
        sample = types.SimpleNamespace(frames=frames)
        own = victim.own(sample)
        if own and victim.chain_of(own) != ["thread_main"]:
            mine.append(types.SimpleNamespace(frames=frames, value=n))
        if not own or not victim.is_at_work(sample):
            continue
        names = victim.chain_of(own)
        if names == ["thread_main"]:            # it sleeps: py-spy takes samples of that
            continue
        seen[victim.verdict(names)] += n
        good, bad = victim.lines_of(own)
        right, wrong = right + n * good, wrong + n * len(bad)
        if names[0] == "main" and len(names) > 1:
            spent[names[1]] += n
    n, all_spent, all_truth = seen.total(), spent.total(), sum(truth.values())
    off = max(abs(spent[name] / all_spent - truth[name] / all_truth) for name in truth) if all_spent else 0
    return [n, *(f"{100 * seen[word] / n:.1f}" if n else "–" for word in ("whole", "inner", "wrong")),
            f"{100 * victim.whole_share(mine) / victim.leaf_share(child):.1f}" if n else "–",
            f"{100 * right / (right + wrong):.2f}" if right else "–", f"{100 * off:.1f}"]


def right(options):
    rows = []
    tools = {"spanprof": by_us, **({"py-spy": by_py_spy} if options.py_spy else {})}
    for python in interpreters(options):
        for name, tool in tools.items():
            with bench.Bench() as b:
                child = b.spawn([python, victim.SOURCE], stdin=subprocess.PIPE)
                child.wait_for("ready")
                group = b.cgroup(name)
                try:
                    samples = tool(b, options, child, options.seconds, group)
                except OSError as error:
                    print(f"# {name} with {python}: {error}", flush=True)
                    continue
                cpu = group.cpu_ns
                child.process.stdin.close()
                child.wait()
                rows.append([release(python), name, *judge(samples, child),
                             f"{cpu / 1e6 / options.seconds:.1f}"])
                print("#", *rows[-1], flush=True)
    bench.table(f"Chains at {HZ} Hz", ["Python", "profiler", "own", "whole %", "short %", "wrong %", "of the leaf's time %",
                                       "lines right %", "share off, points", "CPU ms/s"], rows)


# ---- memory of code objects ----


def rss_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"^VmRSS:\s+(\d+)", file.read(), re.M)[1])


def metric(control, name):
    done = bench.run(["curl", "-s", control])
    return prometheus.value(prometheus.parse(done.stdout), name)


def code(options):
    rows = []
    for python in interpreters(options):
        with bench.Bench() as b:
            payload, environment = b.receiver()
            child = b.spawn([python, "-c", FUNCTIONS])
            child.wait_for("ready")
            daemon = b.spawn([tap.SPANPROF, "run", "--pid", child.pid, "-F", HZ, "--depth", "1024", "--export-interval",
                              "2s", "--metrics", "127.0.0.1:0"], env=environment)
            url = daemon.wait_for(r"metrics are at (http://\S+)")[1]
            before, named = rss_kib(daemon.pid), set()
            end = time.monotonic() + options.patience
            while len(named) < CODES and time.monotonic() < end:
                time.sleep(2)
                for path in payload.glob("*.pb"):
                    named |= {f.name for s in otlp_read.samples(path) for f in s.frames
                              if f.name and f.name.startswith("code_")}
                    path.unlink()
            rows.append([release(python), len(named), f"{metric(url, 'spanprof_runtime_bytes') / 2**20:.2f}",
                         f"{(rss_kib(daemon.pid) - before) / 1024:.1f}"])
            daemon.stop()
    bench.table(f"{CODES} functions", ["Python", "named", "held for names, MiB", "RSS grew, MiB"], rows)


# ---- the kernel half ----


def program_times(pid):
    """{id: (ns, runs)} of the programs at ticks that a daemon holds, as its descriptors tell."""
    times = {}
    for path in pathlib.Path(f"/proc/{pid}/fdinfo").glob("*"):
        with contextlib.suppress(OSError):
            told = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
            if int(told.get("prog_type", 0)) == PERF_EVENT:
                times[int(told["prog_id"])] = (int(told["run_time_ns"]), int(told["run_cnt"]))
    return times


def joins(url):
    done = bench.run(["curl", "-s", url])
    told = prometheus.parse(done.stdout)
    return sum(prometheus.value(told, "spanprof_python_joins_total", result=word)
               for word in ("whole", "partial", "cut"))


def spent(b, options, child):
    """(ns, runs, samples of Python) of our programs in some seconds; most runs are ticks of other processes."""
    payload, environment = b.receiver()
    daemon = b.spawn([tap.SPANPROF, "run", "--pid", child.pid, "-F", HZ, "--depth", "1024", "--export-interval", "1s",
                      "--metrics", "127.0.0.1:0"], env=environment)
    url = daemon.wait_for(r"metrics are at (http://\S+)")[1]
    time.sleep(options.settle)          # rows are there, and names
    begin, n = program_times(daemon.pid), joins(url)
    time.sleep(options.seconds)
    rows = [(now[0] - begin[key][0], now[1] - begin[key][1]) for key, now in program_times(daemon.pid).items()
            if key in begin]
    n = joins(url) - n
    daemon.stop()
    return *(sum(column) for column in zip(*rows)), n


def kernel(options):
    rows, old = [], STATISTICS.read_text()
    STATISTICS.write_text("1")
    try:
        for python in interpreters(options):
            taken, stranger = {}, None
            for name in ("idle", "deep", "deeper", "sort"):
                with bench.Bench() as b:
                    command = [victim.SOURCE, name] if name != "idle" else [
                        "-c", "print('ready', flush=True); input()"]
                    child = b.spawn([python, *command], stdin=subprocess.PIPE)
                    child.wait_for("ready")
                    ns, runs, n = spent(b, options, child)
                if name == "idle":
                    stranger = ns / runs
                else:
                    taken[name] = (ns - (runs - n) * stranger) / n
                print("#", release(python), name, f"{ns / 1e6:.1f} ms in {runs} runs, {n:.0f} of them Python's",
                      flush=True)
            rows.append([release(python), f"{stranger:.0f}",
                         *(f"{taken[name] / 1e3:.2f}" for name in ("sort", "deep", "deeper")),
                         f"{(taken['deeper'] - taken['deep']) / MORE_FRAMES:.0f}"])
    finally:
        STATISTICS.write_text(old)
    bench.table(f"Kernel half at {HZ} Hz", ["Python", "ns a tick of others", "sorted(), µs a sample", "66 frames, µs",
                                            "201 frames, µs", "ns a frame"], rows)


# ---- spans of an SDK ----

SPANS_SIZE = 176                    # bytes of struct python_spans, the last part of a process's entry
WITH_SPAN = """import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
tracer = trace.get_tracer("bench")
with tracer.start_as_current_span("outer"), tracer.start_as_current_span("inner"):
    print("ready", flush=True)
    x = 1
    while True:
        x = x * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
"""


def bpftool(*arguments):
    done = bench.run([tap.need_tool("bpftool"), "-j", "map", *arguments])
    if done.returncode:
        raise SystemExit(f"bpftool map {arguments[0]}: {done.stderr}")
    return json.loads(done.stdout) if done.stdout.strip() else None


class Entry:
    """The entry of a process in the daemon's map, whose last @size bytes say where its spans are."""

    def __init__(self, daemon, pid, name="python_processe", size=SPANS_SIZE):
        self.size = size
        told = "".join(path.read_text() for path in pathlib.Path(f"/proc/{daemon.pid}/fdinfo").glob("*"))
        own = set(map(int, re.findall(r"^map_id:\s*(\d+)$", told, re.M)))
        (self.map,) = {row["id"] for row in bpftool("show") if row.get("name") == name} & own
        self.key = [f"{byte:#04x}" for byte in struct.pack("<I", pid)]
        self.value = bpftool("lookup", "id", self.map, "key", *self.key)["value"]

    def set(self, with_span):
        value = list(self.value)
        if not with_span:           # context_type or isolate, the first word: nothing is read then
            value[-self.size:8 - self.size] = ["0x00"] * 8
        bpftool("update", "id", self.map, "key", *self.key, "value", *value)


def turn(daemon, url, seconds):
    """(ns, runs, samples of Python)."""
    begin, n = program_times(daemon.pid), joins(url)
    time.sleep(seconds)
    rows = [(now[0] - begin[key][0], now[1] - begin[key][1]) for key, now in program_times(daemon.pid).items()
            if key in begin]
    return *(sum(column) for column in zip(*rows)), joins(url) - n


def spans(options):
    old, taken = STATISTICS.read_text(), {True: [], False: []}
    STATISTICS.write_text("1")
    try:
        with bench.Bench() as b:
            child = b.spawn([tap.BUILD_DIR / "publishers/otel-python/venv/bin/python", "-c", WITH_SPAN])
            child.wait_for("ready")
            payload, environment = b.receiver()
            daemon = b.spawn(["nice", "-n", "-10", tap.SPANPROF, "run", "--pid", child.pid, "-F", "3999",
                              "--export-interval", "1s", "--metrics", "127.0.0.1:0"], env=environment)
            url = daemon.wait_for(r"metrics are at (http://\S+)")[1]
            tap.wait_until(lambda: prometheus.value(prometheus.parse(bench.run(["curl", "-s", url]).stdout),
                                                    "spanprof_sdk_spans_total", result="read"), "spans",
                           options.patience)
            time.sleep(options.settle)
            entry = Entry(daemon, child.pid)
            os.kill(child.pid, signal.SIGSTOP)
            ns, runs, _ = turn(daemon, url, 2)
            stranger = ns / runs
            os.kill(child.pid, signal.SIGCONT)
            for i in range(2 * options.rounds):
                entry.set(with_span=i % 2 == 0)
                ns, runs, n = turn(daemon, url, 1)
                if n > 100:
                    taken[i % 2 == 0].append((ns - (runs - n) * stranger) / n)
            entry.set(True)
            daemon.stop()
    finally:
        STATISTICS.write_text(old)
    bench.table(f"A sample of Python at 3,999 Hz, {stranger:.0f} ns of others",
                ["way to the span", "turns", "lowest, ns", "median, ns"],
                [[name, len(rows), f"{min(rows):.0f}", f"{statistics.median(rows):.0f}"]
                 for name, rows in (("with", taken[True]), ("without", taken[False]))])


# ---- the first name ----


def first_named_ns(payload, pid, patience):
    """Time of the first sample of a process whose function of Python has a name; 0 = there is none."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = [s.time_ns for path in payload.glob("*.pb") for s in otlp_read.samples(path)
                 if s.resource["process.pid"] == pid and any(f.type == "cpython" and f.name for f in s.frames)]
        if found:
            return min(found)
        time.sleep(0.5)
    return 0


def first(options):
    rows = []
    for python in interpreters(options):
        later, earlier = [], []
        for _ in range(options.rounds):
            with bench.Bench() as b:
                payload, environment = b.receiver()
                command = [tap.SPANPROF, "run", "--exe", "python*", "-F", "999", "--export-interval", "1s"]
                old = b.spawn([python, victim.SOURCE, "deep"], stdin=subprocess.PIPE)
                old.wait_for("ready")
                begin = time.time_ns()
                daemon = b.spawn(command, env=environment)
                daemon.wait_for("profiles go to")
                earlier.append((first_named_ns(payload, old.pid, options.patience) - begin) / 1e6)
                begin = time.time_ns()
                new = b.spawn([python, victim.SOURCE, "deep"], stdin=subprocess.PIPE)
                later.append((first_named_ns(payload, new.pid, options.patience) - begin) / 1e6)
                daemon.stop()
        rows.append([release(python), bench.spread(later), bench.spread(earlier)])
    bench.table("First sample with a named function, ms after the begin",
                ["Python", "of the process", "of the daemon, the process ran already"], rows)


# ---- the target's own speed ----


def rate(memory, seconds):
    """Rounds of the program a second."""
    begin, n = time.monotonic(), struct.unpack_from("Q", memory)[0]
    time.sleep(seconds)
    return (struct.unpack_from("Q", memory)[0] - n) / (time.monotonic() - begin)


def throughput(options):
    rows = []

    def command(name, pid, path, seconds):
        if name == "spanprof":
            return [tap.SPANPROF, "record", "--pid", pid, "-F", 99, "-d", f"{seconds:.0f}s", "-o", path]
        return [options.py_spy, "record", "-p", pid, "-r", 99, "-d", f"{seconds:.0f}", "-f", "raw", "-o", path,
                *name.split()[1:]]

    tools = ["spanprof", *(["py-spy", "py-spy --nonblocking"] if options.py_spy else [])]
    for python in interpreters(options):
        with bench.Bench() as b:
            path = b.directory() / "rounds"
            path.write_bytes(bytes(8))
            with open(path, "rb") as file:
                memory = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
            child = b.spawn([python, "-c", ROUNDS, path])
            child.wait_for("ready")
            time.sleep(1)
            ratios = collections.defaultdict(list)
            for _ in range(options.rounds):
                rates = collections.defaultdict(list)
                turns = ["nobody", *tools]
                for name in turns + turns[::-1]:
                    if name == "nobody":
                        rates[name].append(rate(memory, options.seconds))
                        continue
                    tool = b.spawn(command(name, child.pid, b.directory() / "out", options.seconds + 2))
                    time.sleep(1)       # its start is not meant
                    rates[name].append(rate(memory, options.seconds))
                    tool.wait(patience=60)
                for name in tools:
                    ratios[name].append(100 * sum(rates[name]) / sum(rates["nobody"]))
                apart = rates["nobody"]
                ratios["nobody, forth and back"].append(100 * apart[0] / apart[1])
        for name, values in ratios.items():
            rows.append([release(python), name, *(f"{x:.2f}" for x in (
                min(values), sorted(values)[len(values) // 2], max(values)))])
            print("#", *rows[-1], flush=True)
    bench.table(f"A program's speed with a profiler at 99 Hz, percent of that without, {options.rounds} rounds",
                ["Python", "profiler", "least", "median", "most"], rows)


def add_options(parser):
    parser.add_argument("--seconds", type=float, default=10, help="of each tool")
    parser.add_argument("--patience", type=float, default=120, help="seconds until all functions have names")
    parser.add_argument("--python", action="append", default=[], help="an interpreter (default: those that are here)")
    parser.add_argument("--settle", type=float, default=4, help="seconds before the kernel half is measured")
    parser.add_argument("--py-spy")


if __name__ == "__main__":
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, Linux {os.uname().release}")
    bench.main(__doc__, {"right": right, "code": code, "kernel": kernel, "spans": spans, "first": first,
                         "throughput": throughput}, add_options)
