#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Java: how right stacks are, beside async-profiler and perf with a map; what many JVMs cost.

usage: tests/bench/runtimes.py [--seconds N] [--jvms N,…] [--java PATH]… [--async LIBRARY] [PART…]

    right   tests/victims/VictimJavaBusy.java: share of its own samples with a whole chain of calls, with the
            chain cut short of the leaf, and with calls that the source does not have. Profilers take turns
    many    --jvms (30,200) small JVMs (-Xmx16m, shared classes): memory and CPU of the daemon, and in how
            many of them a method has its name

LIBRARY is libasyncProfiler.so, of Maven Central (tools.profiler:async-profiler; in the jar linux-x64/).
Without it, and without perf, their rows are missing. perf reads a map that jcmd writes (Compiler.perfmap,
JDK 17 and later), and the victim runs with PreserveFramePointer there. Shares are of samples in which the
victim's own code was innermost: nothing is said of the library's. Needs root.
"""
import collections
import importlib
import os
import pathlib
import re
import subprocess
import sys
import time

import bench
import oracle

oracle.enter()

import jdks
import otlp_read
import tap

sys.path.append(str(tap.SOURCE_DIR / "tests/integration"))
hotspot = importlib.import_module("test-run-hotspot")
CHAIN_HZ = 499
SMALL = ["-Xmx16m", "-Xss256k", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
         "-XX:ReservedCodeCacheSize=8m"]


def classes(b):
    directory = b.directory()
    done = bench.run([tap.need_tool("javac"), "--release", "8", "-nowarn", "-d", directory, hotspot.SOURCE])
    if done.returncode:
        raise SystemExit(done.stderr)
    return directory


def first_java(options):
    return options.java[0] if options.java else next(iter(jdks.here().values()))


def start(b, java, directory, *options, chains=()):
    child = b.spawn([java, *options, "-cp", directory, hotspot.CLASS, *chains], stdin=subprocess.PIPE)
    child.wait_for("ready")
    return child


# ---- how right ----


def by_async(b, options, child, seconds):
    """Chains that async-profiler's folded stacks have: {tuple of names, the outermost first: samples}."""
    out = b.directory() / "out.folded"
    jcmd, pid = jdks.tool("jcmd"), child.pid
    interval = round(1e9 / CHAIN_HZ)

    def say(text):
        subprocess.run([jcmd, str(pid), "JVMTI.agent_load", options.agent, f'"{text}"'], check=True,
                       stdout=subprocess.DEVNULL)

    say(f"start,event=cpu,interval={interval}")
    time.sleep(seconds)
    say(f"stop,collapsed,file={out}")
    chains = collections.Counter()
    for line in out.read_text().splitlines():
        stack, _, n = line.rpartition(" ")
        chains[tuple(name.replace("/", ".") for name in stack.split(";"))] += int(n)
    return chains


def by_us(b, _, child, seconds):
    path = b.directory() / "out.pb"
    tool = b.spawn([tap.SPANPROF, "record", "--pid", child.pid, "-F", CHAIN_HZ, "-d", f"{seconds:.0f}s", "-o", path])
    tool.wait(patience=seconds + 60)
    chains = collections.Counter()
    for sample in otlp_read.samples(path):
        names = [frame.name or "(unknown)" for frame in reversed(sample.frames)]
        chains[tuple(names)] += sample.value
    return chains


def by_perf(b, _, child, seconds):
    """Only what runs when the map is written has names, and what is interpreted has none at all."""
    data = b.directory() / "data"
    perf = bench.tool("perf")
    tool = b.spawn([perf, "record", "-q", "-g", "-e", "cpu-clock", "-F", CHAIN_HZ, "-p", child.pid, "-o", data,
                    "--", "sleep", seconds])
    tool.wait(patience=seconds + 60)
    bench.run([jdks.tool("jcmd"), child.pid, "Compiler.perfmap"])
    told = bench.run([perf, "script", "-F", "ip,sym", "-i", data]).stdout
    pathlib.Path(f"/tmp/perf-{child.pid}.map").unlink(missing_ok=True)
    chains = collections.Counter()
    for block in told.split("\n\n"):
        names = [line.split(None, 1)[1] if len(line.split(None, 1)) > 1 else "[unknown]"
                 for line in block.splitlines() if line.strip()]
        names = [re.sub(r"^.* ([\w.$]+)\(.*$", r"\1", name.partition("+0x")[0]) for name in names]
        chains[tuple(reversed(names))] += 1
    return chains


def judge(chains):
    """Of the victim's own samples: how many, and percent whole, short, wrong."""
    seen, wrong = collections.Counter(), collections.Counter()
    for names, n in chains.items():
        if f"{hotspot.CLASS}.main" not in names or not names[-1].startswith(hotspot.CLASS + "."):
            continue
        own = [name.removeprefix(hotspot.CLASS).removeprefix(".") for name in names
               if name.startswith(hotspot.CLASS) and "$$Lambda" not in name]
        said = hotspot.verdict(own)
        seen[said] += n
        if said == "wrong":
            wrong[tuple(own)] += n
    return seen, wrong


def right(options):
    rows = []
    tools = {"spanprof": by_us}
    if options.agent:
        tools["async-profiler"] = by_async
    if bench.tool("perf"):
        tools["perf, map, frame pointers"] = by_perf
    outer = bench.Bench()
    directory = classes(outer)
    for java in options.java or [first_java(options)]:
        for mode in ("", "-Xint"):
            for name, tool in tools.items():
                flags = [*mode.split(), *(["-XX:+PreserveFramePointer"] if tool == by_perf else [])]
                with bench.Bench() as b:
                    child = start(b, java, directory, *flags)
                    try:
                        chains = tool(b, options, child, options.seconds)
                    except (OSError, subprocess.CalledProcessError) as error:
                        print(f"# {name} with {java}: {error}", flush=True)
                        continue
                seen, wrong = judge(chains)
                n = seen.total()
                for own, times in wrong.most_common(2):
                    print(f"# {name} {mode} wrong: {times} × {' '.join(own)[:120]}", flush=True)
                share = [f"{100 * seen[word] / n:.1f}" if n else "–" for word in ("whole", "inner", "wrong")]
                rows.append([jdks.release(java), mode or "default", name, chains.total(), n, *share])
                print("#", *rows[-1], flush=True)
    outer.close()
    bench.table(f"Chains at {CHAIN_HZ} Hz", ["JDK", "mode", "profiler", "samples", "own", "whole %", "short %", "wrong %"],
                rows)


# ---- many JVMs ----


def rss_kib(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:                   # a worker reads one file, and ends
        return 0
    found = re.search(r"^VmRSS:\s+(\d+)", status, re.M)
    return int(found[1]) if found else 0


def workers_of(pid):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        if int(fields[1]) == pid:
            found.append(int(path.parent.name))
            found += workers_of(found[-1])
    return found


def many(options):
    rows = []
    for n in map(int, options.jvms.split(",")):
        with bench.Bench() as b:
            directory = classes(b)
            payload, environment = b.receiver()
            group = b.cgroup("daemon")
            daemon = b.spawn([tap.SPANPROF, "run", "--exe", "java", "-F", 99, "--export-interval", "2s"],
                             cgroup=group, env=environment)
            daemon.wait_for("profiles go to")
            command = [first_java(options), *SMALL, "-cp", directory, hotspot.CLASS, "shapes"]
            children = [b.spawn(command, stdin=subprocess.PIPE) for _ in range(n)]
            pids = {child.pid for child in children}
            begin = time.monotonic()
            named = set()
            while named < pids and time.monotonic() - begin < options.patience:
                time.sleep(2)
                named |= named_pids(payload, pids)
            took = time.monotonic() - begin
            cpu = group.cpu_ns
            time.sleep(options.seconds)
            tree = workers_of(daemon.pid)
            rows.append([n, len(named), f"{took:.0f}", f"{rss_kib(daemon.pid) / 1024:.0f}", len(tree),
                         f"{sum(map(rss_kib, tree)) / 1024:.0f}", f"{cpu / 1e6:.0f}",
                         f"{(group.cpu_ns - cpu) / 1e6 / options.seconds:.0f}"])
            daemon.stop()
    bench.table("Many JVMs at 99 Hz", ["JVMs", "named", "after s", "daemon MiB", "workers", "their RSS, MiB",
                                       "CPU until then, ms", "CPU ms/s after"], rows)


def named_pids(payload, pids):
    """Those whose own method stands in a request by its name."""
    found = set()
    for path in sorted(payload.glob("*.pb")):
        for sample in otlp_read.samples(path):
            pid = int(sample.resource.get("process.pid", 0))
            if pid in pids and any((f.name or "").startswith(hotspot.CLASS + ".") for f in sample.frames):
                found.add(pid)
        path.unlink()
    return found


def add_options(parser):
    parser.add_argument("--seconds", type=float, default=10, help="of each tool in each round")
    parser.add_argument("--patience", type=float, default=120, help="seconds until all of many JVMs have names")
    parser.add_argument("--jvms", default="30,200", help="how many JVMs")
    parser.add_argument("--java", action="append", default=[], help="a JDK's java (default: the first of this machine)")
    parser.add_argument("--async", dest="agent", help="libasyncProfiler.so")


if __name__ == "__main__":
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, Linux {os.uname().release}")
    bench.main(__doc__, {"right": right, "many": many}, add_options)
