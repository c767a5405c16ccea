#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Java: how right stacks are, beside async-profiler, OEP and perf with a map; what many JVMs cost.

usage: tests/bench/runtimes.py [--seconds N] [--jvms N,…] [--java PATH]… [--python PATH]… [--async LIBRARY]
                               [--oep PROGRAM] [PART…]

    right   tests/victims/java/VictimJavaBusy.java: of all samples that `main` is in, the share with a whole chain
            of calls, and what the others are (below). Profilers take turns
    whole   the same of `spanprof record` at 1,999 Hz, until --samples are there, --rounds times for each
            --java (this machine's, PyPI's, and Debian's 8, 26 and 27); how many samples of that thread
            are without `main`. With --async that profiler follows, in the same process. With --oep
            opentelemetry-ebpf-profiler takes turns with ours, in the same process at the same rate, and
            releases of --python (this machine's) follow: victim-python.py, of the thread that `main` is in
    leaves  what is said of a pc of compiled code between two descriptions, beside what a second JVM with
            DebugNonSafepoints knows of the same code (java_leaves.py): % of --rounds turns of --seconds, for
            each --java and --collector, of VictimJavaMix.java and VictimJavaBusy.java (--victim). Needs perf.
            Without --java: those whose flag is right, with Debian's JDK 11
    many    --jvms (30,200) small JVMs (-Xmx16m, shared classes), which work 20 ms, then sleep --nap ms; one
            more each --stagger s. Memory and CPU of the daemon, and in how many of them a method has its
            name (the daemon is in a session of its own, so that its share of the CPUs is a service's)
    shares  each chain's share of time beside the CPU time that the victim itself has measured for it, at
            --share-hz: how far the worst one is off
    cost    the kernel half's time for a sample and for a frame that was met before or never, at --cost-hz
            (999); CPU time of each tool for a sample at 99 Hz, once it is warm. With --old SPANPROF, several
            builds sample one process at once: each is dearer than alone, and they can be told apart
    speed   what the victim does in a second of its CPU time with a profiler at 99 Hz, of what it does without
    first   from the start of a JVM to the first sample with a name of Java
    methods --machines (30) JVMs that run --methods (20000) methods each, at 999 Hz: the daemon's memory at
            its highest, with all names that it kept meanwhile

LIBRARY is libasyncProfiler.so, of Maven Central (tools.profiler:async-profiler; in the jar linux-x64/).
Without it, and without perf, their rows are missing. perf reads a map that jcmd writes (Compiler.perfmap,
JDK 17 and later), and the victim runs with PreserveFramePointer there. Needs root.

A sample is `whole` from `main` to `burn`, where the victim spends nearly all of its time. The others end
early, by their innermost frame:

    own       in a method of the chain
    lambda    in the method that the JVM makes of a lambda
    library   in Java code of others
    native    in native code, or in a stub
    runner    in `main`, or in what it calls between two chains
    unnamed   anywhere a frame of Java has no name
    wrong     methods in an order that the source does not have

Some of them are right: the program was there. Nothing says of which, so all count as missed. `of all` is
what is whole of the thread's samples with those that are without `main`.
"""
import collections
import contextlib
import importlib
import itertools
import operator
import os
import pathlib
import re
import signal
import subprocess
import time

import bench
import headline
import java_leaves
import oracle

oracle.enter()

import jdks
import otlp_read
import pythons
import tap

hotspot = importlib.import_module("test-run-hotspot")
python_victim = importlib.import_module("test-run-python")
CHAIN_HZ = 499
LEAF_HZ = 1999
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


def javas_of(options):
    known = {} if options.java else {**jdks.eight(), **jdks.fetched(), **jdks.newest(), **jdks.here()}
    return options.java or [known[release] for release in sorted(known, key=int)]


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


UNNAMED = "(no name)"


# OEP says `int Class.method(int)`
SIGNATURE = re.compile(r"^\S+ ([\w.$/+<>-]+)\(.*\)$")


def names_of(sample):
    """The outermost first, down to the program's own code; those of the kernel are left out."""
    return tuple(SIGNATURE.sub(r"\1", frame.name) if frame.name and frame.type == "jvm" else
                 frame.name or (UNNAMED if frame.type in ("jvm", "unknown") else "native")
                 for frame in reversed(sample.frames) if frame.type != "kernel")


def recorded(b, child, seconds, *more):
    path = b.directory() / "out.pb"
    tool = b.spawn([tap.SPANPROF, "record", "--pid", child.pid, "-F", CHAIN_HZ, "-d", f"{seconds:.0f}s", "-o", path,
                    *more])
    tool.wait(patience=seconds + 60)
    return list(otlp_read.samples(path))


def by_us(b, _, child, seconds):
    chains = collections.Counter()
    for sample in recorded(b, child, seconds):
        chains[names_of(sample)] += sample.value
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


MISSES = ("own", "lambda", "library", "native", "runner", "unnamed", "wrong")
JAVA = re.compile(r"[\w.$/+-]+\.[\w$<>-]+(?:\(.*)?")


def kind_of(names):
    """`whole`, or one of MISSES; None: another thread's."""
    if f"{hotspot.CLASS}.main" not in names:
        return None
    own = [name.removeprefix(hotspot.CLASS).removeprefix(".") for name in names
           if name.startswith(hotspot.CLASS) and "$$Lambda" not in name]
    said, leaf = hotspot.verdict(own), names[-1]
    if said == "wrong":
        return "unnamed" if UNNAMED in names else "wrong"
    if UNNAMED in names:
        return "unnamed"
    if "$$Lambda" in leaf:
        return "lambda"
    if own == ["main"]:
        return "runner"
    if leaf.startswith(hotspot.CLASS):
        return "whole" if said == "whole" else "own"
    return "library" if JAVA.fullmatch(leaf) and ".so" not in leaf else "native"


def judge(chains):
    """(kinds of all samples of the victim's thread, misses by kind and the last frames)."""
    seen, missed = collections.Counter(), collections.Counter()
    for names, n in chains.items():
        kind = kind_of(names)
        if kind:
            seen[kind] += n
            if kind != "whole":
                missed[kind, names[-2:]] += n
    return seen, missed


def shares_of(seen):
    n = seen.total()
    return [f"{100 * seen[kind] / n:.2f}" if n else "–" for kind in ("whole", *MISSES)]


def say_missed(missed, most):
    wrong = [(key, n) for key, n in missed.items() if key[0] == "wrong"]
    for (kind, names), times in [*wrong, *missed.most_common(most)]:
        print(f"#   {times} {kind}: … {' '.join(name[:80] for name in names)}", flush=True)


def tools_of(options):
    tools = {"spanprof": by_us}
    if options.agent:
        tools["async-profiler"] = by_async
    if bench.tool("perf"):
        tools["perf, map, frame pointers"] = by_perf
    return tools


def right(options):
    rows = []
    tools = tools_of(options)
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
                seen, missed = judge(chains)
                say_missed(missed, 4)
                n = seen.total()
                rows.append([jdks.release(java), mode or "default", name, chains.total(), n, *shares_of(seen)])
                print("#", *rows[-1], flush=True)
    outer.close()
    bench.table(f"Chains at {CHAIN_HZ} Hz, % of own",
                ["JDK", "mode", "profiler", "samples", "own", "whole", *MISSES], rows)


def kind_of_java(sample):
    return kind_of(names_of(sample))


def kind_of_python(sample):
    """The same of victim-python.py, whose chains show no native frames."""
    own = python_victim.own(sample)
    names = python_victim.chain_of(own) if own else []
    if "main" not in names:
        return None
    if any(f.type == "unknown" or f.type == "cpython" and not f.name for f in sample.frames):
        return "unnamed"
    if not python_victim.is_at_work(sample):
        return "library"
    said = python_victim.verdict(names)
    return "runner" if names == ["main"] else "own" if said == "inner" else said


def judge_thread(samples, kind_of_sample):
    """(kinds, misses as judge() says, samples of the thread without `main` by their mark)."""
    seen, missed, others = (collections.Counter() for _ in range(3))
    kinds = [(sample, kind_of_sample(sample)) for sample in samples]
    threads = {sample.thread_id for sample, kind in kinds if kind}
    for sample, kind in kinds:
        if kind:
            seen[kind] += sample.value
            if kind != "whole":
                missed[kind, names_of(sample)[-2:]] += sample.value
        elif sample.thread_id in threads:
            others[sample.attributes.get("profile.stack.truncated", "no mark")] += sample.value
    return seen, missed, others


def whole_by_us(b, options, child, kind_of_sample):
    told = tuple(collections.Counter() for _ in range(3))
    while told[0].total() < options.samples:
        found = recorded(b, child, options.seconds, "--depth", "1024")
        told = tuple(map(operator.add, told, judge_thread(found, kind_of_sample)))
    return told


def whole_by_oep(_, options, child, kind_of_sample):
    """As many samples as a thread has that always runs. It samples the whole machine; others' are left out."""
    with bench.Bench() as b:
        tool = bench.Oep(b, options.oep, CHAIN_HZ)
        time.sleep(bench.SETTLE_S)
        begin = time.time_ns()
        time.sleep(max(options.seconds, options.samples / CHAIN_HZ))
        end = time.time_ns()
        tool.stop()
        return judge_thread([s for s in tool.all_samples() if begin <= s.time_ns < end and
                             int(s.resource.get("process.pid", 0)) == child.pid], kind_of_sample)


def programs_of(options, directory):
    """[(release, what starts its victim, what judges a sample of it)]."""
    javas = [] if options.python and not options.java else javas_of(options)
    found = options.python or (pythons.here().values() if options.oep and not options.java else ())

    def start_python(b, python):
        child = b.spawn([python, python_victim.SOURCE], stdin=subprocess.PIPE)
        child.wait_for("ready")
        return child

    return [*((f"JDK {jdks.release(java)}", lambda b, java=java: start(b, java, directory), kind_of_java)
              for java in javas),
            *((f"Python {'.'.join(map(str, pythons.version(python)))}",
               lambda b, python=python: start_python(b, python), kind_of_python) for python in found)]


def whole(options):
    global CHAIN_HZ
    rows, CHAIN_HZ = [], 1999
    tools = {"spanprof": whole_by_us, **({bench.Oep.name: whole_by_oep} if options.oep else {})}
    with bench.Bench() as outer:
        for name, start_victim, kind_of_sample in programs_of(options, classes(outer)):
            for number in range(options.rounds):
                row = [name, number + 1]
                with bench.Bench() as b:
                    child = start_victim(b)
                    for tool in sorted(tools, reverse=number % 2 == 0):
                        seen, missed, others = tools[tool](b, options, child, kind_of_sample)
                        say_missed(missed, 6)
                        n = seen.total() + others.total()
                        rows.append([*row, tool, seen.total(), others.total(),
                                     f"{100 * seen['whole'] / n:.2f}" if n else "–", *shares_of(seen)])
                        print("#", *rows[-1], dict(others), f"load {os.getloadavg()[0]:.0f}", flush=True)
                    if options.agent and kind_of_sample == kind_of_java:
                        rows += whole_by_async(b, options, child, row)
    bench.table(f"Chains at {CHAIN_HZ} Hz, % of n",
                ["release", "round", "profiler", "n", "without main", "of all", "whole", *MISSES], rows)


def whole_by_async(b, options, child, row):
    """Of the same process, afterwards. Samples without `main` may be of any thread, so they are not counted."""
    try:
        seen, missed = judge(by_async(b, options, child, options.seconds))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"# async-profiler: {error}", flush=True)
        return []
    say_missed(missed, 3)
    print("#", *row, "async-profiler", seen.total(), "?", "?", *shares_of(seen), flush=True)
    return [[*row, "async-profiler", seen.total(), "?", "?", *shares_of(seen)]]


# ---- leaves between two descriptions ----

MIX = "VictimJavaMix"
COLLECTORS = ("", "-XX:+UseSerialGC")


def mix_classes(b):
    directory = classes(b)
    source = tap.SOURCE_DIR / f"tests/victims/java/{MIX}.java"
    done = bench.run([tap.need_tool("javac"), "--release", "8", "-nowarn", "-d", directory, source])
    if done.returncode:
        raise SystemExit(done.stderr)
    return directory


def judges_of(options):
    """The java programs of leaves. One whose flag is wrong is only taken if it is asked for."""
    known = {**jdks.fetched(), **jdks.new_eleven(), **jdks.here()}
    javas = options.java or [known[release] for release in sorted(known, key=int)]
    wrong = [java for java in javas if not java_leaves.is_judge(java)]
    for java in wrong:
        print(f"# {java}: {'.'.join(map(str, jdks.version(java)))} describes code wrongly (JDK-8201516)", flush=True)
    return options.java or [java for java in javas if java not in wrong]


def leaves(options):
    rows, tools = [], {"": java_leaves.DUMP}
    if options.old_leaves:
        tools["old"] = pathlib.Path(options.old_leaves) / "tests/harness/hotspot-dump"
    cases = itertools.product(judges_of(options), options.victim or (MIX, hotspot.CLASS),
                              options.collector or COLLECTORS)
    with bench.Bench() as outer:
        directory = mix_classes(outer)
        for java, victim, collector in cases:
            row = [jdks.release(java), victim, collector or "default"]
            for name, found in leaves_of(options, tools, directory, java, victim, collector).items():
                rows += rows_of_leaves([*row, name], options, *found)
    bench.table(f"Leaves at {LEAF_HZ} Hz, % of n",
                ["JDK", "victim", "collector", "build", "by", "n", "of compiled, %", *java_leaves.KINDS], rows)


def rows_of_leaves(row, options, seen, wrong, n_compiled):
    rows = []
    for (_, said, at, *others), times in wrong.most_common(options.show):
        print(f"#   {times} wrong: {said} | {at} | {' | '.join(others)}", flush=True)
    for compiler in ("C1", "C2"):
        n = sum(seen[kind, compiler] for kind in java_leaves.KINDS)
        if n >= options.least:
            shares = [f"{100 * seen[kind, compiler] / n:.2f}" for kind in java_leaves.KINDS]
            rows.append([*row, compiler, n, f"{100 * n / n_compiled:.0f}", *shares])
            print("#", *rows[-1], f"load {os.getloadavg()[0]:.0f}", flush=True)
    return rows


def leaves_of(options, tools, directory, java, victim, collector):
    """{build: (what was seen, what was wrong, samples in compiled code)} of all rounds."""
    found = {name: (collections.Counter(), collections.Counter(), 0) for name in tools}
    for _ in range(options.rounds):
        with bench.Bench() as b:
            def start_twin(*flags):
                child = b.spawn([java, *collector.split(), *options.flag, *flags, "-cp", directory, victim],
                                stdin=subprocess.PIPE)
                child.wait_for("ready", patience=options.patience)
                return child

            told, n = java_leaves.compare(b, start_twin, LEAF_HZ, options.seconds, options.warm,
                                          tools.values())
        for name, (seen, wrong) in zip(tools, told):
            found[name] = found[name][0] + seen, found[name][1] + wrong, found[name][2] + n
    return found


# ---- shares of time ----


def told(child):
    """({chain: CPU ns}, turns) of a victim that logs, so far."""
    n = child.out.count("\nturns ")
    child.process.stdin.write(b"?\n")
    child.process.stdin.flush()
    tap.wait_until(lambda: child.out.count("\nturns ") > n, "the victim's log")
    words = re.findall(r"^cpu (.*)$", child.out, re.M)[-1].split()
    return (dict(zip(words[::2], map(int, words[1::2]))),
            int(re.findall(r"^turns (\d+)$", child.out, re.M)[-1]))


def chain_of(names):
    own = [name.removeprefix(hotspot.CLASS + ".") for name in names if name.startswith(hotspot.CLASS + ".")]
    return own[1] if own[:1] == ["main"] and len(own) > 1 and own[1] in hotspot.CHAINS else None


def shares(options):
    global CHAIN_HZ
    rows, CHAIN_HZ = [], options.share_hz
    with bench.Bench() as outer:
        directory = classes(outer)
        for java in options.java or [first_java(options)]:
            for name, tool in tools_of(options).items():
                flags = ["-XX:+PreserveFramePointer"] if tool == by_perf else []
                with bench.Bench() as b:
                    child = start(b, java, directory, "-Dlog", *flags)
                    before, _ = told(child)
                    try:
                        chains = tool(b, options, child, options.seconds)
                    except (OSError, subprocess.CalledProcessError) as error:
                        print(f"# {name} with {java}: {error}", flush=True)
                        continue
                    after, _ = told(child)
                spent = {chain: ns - before[chain] for chain, ns in after.items()}
                seen = collections.Counter()
                for names, n in chains.items():
                    seen[chain_of(names)] += n
                n = seen.total() - seen[None]
                off = {chain: 100 * (seen[chain] / n - ns / sum(spent.values())) if n else float("nan")
                       for chain, ns in spent.items()}
                print("#", name, {chain: round(points, 2) for chain, points in off.items()}, flush=True)
                rows.append([jdks.release(java), name, n, f"{100 * seen[None] / seen.total():.1f}",
                             f"{max(map(abs, off.values())):.2f}"])
    bench.table(f"Share of time of each chain, {CHAIN_HZ} Hz",
                ["JDK", "profiler", "samples", "of no chain %", "worst chain off by, points"], rows)


# ---- cost ----

DEPTH, N_CHAINS = 60, 300
CHAIN = "    static int m%d_%d(int n) { return %s; }\n"
BURN = "    static int burn(int n) { for (int i = 0; i < 20000; i++) n = n * 31 + (i ^ n >>> 7); return n; }\n"


def deep_chains(b):
    """A program with 300 chains of 60 methods: `java Deep N` runs the first N of them in turns."""
    directory = b.directory()
    for chain in range(N_CHAINS):
        methods = "".join(CHAIN % (chain, i, "Deep.burn(n)" if i + 1 == DEPTH else f"m{chain}_{i + 1}(n) + 1")
                          for i in range(DEPTH))
        (directory / f"D{chain}.java").write_text(f"class D{chain} {{\n{methods}}}\n")
    cases = "".join(f"            case {i}: n += D{i}.m{i}_0(n); break;\n" for i in range(N_CHAINS))
    (directory / "Deep.java").write_text(
        f"public class Deep {{\n{BURN}    static int n;\n    static void step(int i) {{\n        switch (i) {{\n"
        f"{cases}            default: n += burn(n);\n        }}\n    }}\n"
        "    public static void main(String[] words) {\n        int count = Integer.parseInt(words[0]);\n"
        "        for (int i = 0;; i++) {\n            step(count == 0 ? -1 : i % count);\n"
        "            if (i == 40000) System.out.println(\"ready\");\n        }\n    }\n}\n")
    done = bench.run([tap.need_tool("javac"), "--release", "8", "-nowarn", "-d", directory,
                      *directory.glob("*.java")])
    if done.returncode:
        raise SystemExit(done.stderr)
    return directory


def programs(group):
    """(ns, runs) of all BPF programs that a control group's processes hold."""
    held = {}
    for pid in (group.paths[0] / "cgroup.procs").read_text().split():
        for path in pathlib.Path(f"/proc/{pid}/fdinfo").glob("*"):
            with contextlib.suppress(OSError):
                said = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
                if "run_time_ns" in said:
                    held[int(said["prog_id"])] = (int(said["run_time_ns"]), int(said["run_cnt"]))
    return tuple(map(sum, zip(*held.values())))


def programs_for(groups, seconds):
    before = [programs(group) for group in groups]
    time.sleep(seconds)
    after = [programs(group) for group in groups]
    return [(ns[0] - held[0], ns[1] - held[1]) for ns, held in zip(after, before)]


def sampled(b, child, hz, seconds, spanprofs=None):
    """For each build of spanprof, all on one process at once: (ns of the kernel half a sample, frames a
    sample, CPU µs of the daemon a sample, samples), once warm. What ticks of other processes cost is measured
    while the victim stands still, and left out."""
    daemons = []
    for spanprof in spanprofs or [tap.SPANPROF]:
        payload, environment = b.receiver()
        group = b.cgroup(f"daemon-{len(daemons)}")
        daemon = b.spawn([spanprof, "run", "--pid", child.pid, "-F", hz, "--export-interval", "1s"],
                         cgroup=group, env=environment)
        daemon.wait_for("profiles go to")
        daemons.append((daemon, group, payload))
    time.sleep(max(10, seconds / 2))
    groups = [group for _, group, _ in daemons]
    cpu, begin = [group.cpu_ns for group in groups], time.time_ns()
    kernel = programs_for(groups, seconds)
    cpu, end = [group.cpu_ns - before for group, before in zip(groups, cpu)], time.time_ns()
    child.process.send_signal(signal.SIGSTOP)
    time.sleep(0.2)
    others = programs_for(groups, seconds / 3)
    child.process.send_signal(signal.SIGCONT)
    figures = []
    for i, (daemon, _, payload) in enumerate(daemons):
        daemon.stop()
        found = [s for path in payload.glob("*.pb") for s in otlp_read.samples(path) if begin <= s.time_ns < end]
        n = sum(s.value for s in found)
        frames = sum(s.value * sum(f.type == "jvm" and f.compilation != "inlined" for f in s.frames) for s in found)
        (ns, runs), (others_ns, others_runs) = kernel[i], others[i]
        ns -= others_ns / max(1, others_runs) * max(0, runs - n)
        figures.append((ns / n, frames / n, cpu[i] / n / 1000, n))
    return figures


def by_tool(b, tool, seconds, count):
    """CPU µs of another tool a sample."""
    group = b.cgroup("tool")
    child = b.spawn(tool, cgroup=group)
    child.wait(patience=seconds + 60)
    return group.cpu_ns / 1000 / count()


def cost(options):
    was_on = headline.STATISTICS.read_text()
    headline.STATISTICS.write_text("1")
    java, flags = first_java(options), ["-XX:-Inline", "-XX:ReservedCodeCacheSize=64m", "-Xss4m"]
    figures, builds = {}, [tap.SPANPROF, *options.old]
    try:
        with bench.Bench() as outer:
            directory = deep_chains(outer)
            for name, count in (("no chain", 0), ("one chain of 60", 1), ("300 chains of 60", N_CHAINS)):
                with bench.Bench() as b:
                    child = b.spawn([java, *flags, "-cp", directory, "Deep", count], stdin=subprocess.PIPE)
                    child.wait_for("ready")
                    figures[name] = sampled(b, child, options.cost_hz, options.seconds, builds)
        rows = []
        for i, build in enumerate(builds):
            base, base_frames = figures["no chain"][i][:2]
            for name, of_builds in figures.items():
                kernel, frames, cpu, n = of_builds[i]
                each = f"{(kernel - base) / (frames - base_frames):.0f}" if frames - base_frames > 1 else "–"
                rows.append([f"{name}, {build}" if options.old else name, n, f"{frames:.1f}", f"{kernel / 1000:.2f}",
                             each, f"{cpu:.1f}"])
        bench.table(f"Kernel half, code of C2 without inlining, {options.cost_hz} Hz",
                    ["program", "samples", "frames", "µs a sample", "ns a frame", "daemon, µs a sample"], rows)
        rows = []
        with bench.Bench() as b:
            child = start(b, java, classes(b), "-XX:+PreserveFramePointer")
            (kernel, frames, cpu, n), = sampled(b, child, 99, options.seconds)
            rows.append(["spanprof run", n, f"{kernel / 1000:.1f}", f"{cpu:.0f}"])
            perf = bench.tool("perf")
            if perf:
                data = b.directory() / "data"
                cpu = by_tool(b, [perf, "record", "-q", "-g", "-e", "cpu-clock", "-F", 99, "-p", child.pid, "-o", data,
                                  "--", "sleep", options.seconds], options.seconds, lambda: perf_count(perf, data))
                rows.append(["perf record -g, no names", "", "?", f"{cpu:.0f}"])
        bench.table("A sample of VictimJavaBusy, 99 Hz", ["profiler", "samples", "kernel half, µs", "tool, µs"], rows)
    finally:
        headline.STATISTICS.write_text(was_on)


def perf_count(perf, data):
    return max(1, bench.run([perf, "script", "-F", "ip", "-G", "-i", data]).stdout.count("\n"))


# ---- the target's speed ----


def speed(options):
    rows = []
    with bench.Bench() as outer:
        directory = classes(outer)
        for name, tool in {"nobody": None, **tools_of(options)}.items():
            if tool == by_perf:
                continue        # it needs another victim: with frame pointers
            ratios = []
            with bench.Bench() as b:
                global CHAIN_HZ
                CHAIN_HZ = 99
                child = start(b, first_java(options), directory, "-Dlog")
                for _ in range(options.rounds):
                    rates = []
                    for is_on in (False, True, False):
                        before = told(child)
                        if is_on and tool:
                            tool(b, options, child, options.seconds)
                        else:
                            time.sleep(options.seconds)
                        after = told(child)
                        spent = sum(after[0].values()) - sum(before[0].values())
                        rates.append((after[1] - before[1]) / spent)
                    ratios.append(100 * 2 * rates[1] / (rates[0] + rates[2]))
            rows.append([name, *(f"{x:.2f}" for x in (min(ratios), sorted(ratios)[len(ratios) // 2], max(ratios)))])
    bench.table(f"The victim's speed with a profiler at 99 Hz, percent of that without, {options.rounds} rounds",
                ["profiler", "least", "median", "most"], rows)


# ---- the first name ----


def first(options):
    times = []
    for _ in range(options.rounds):
        with bench.Bench() as b:
            directory = classes(b)
            payload, environment = b.receiver()
            daemon = b.spawn([tap.SPANPROF, "run", "--exe", "java", "-F", 999, "--export-interval", "1s"],
                             env=environment)
            daemon.wait_for("profiles go to")
            time.sleep(2)
            begin = time.time_ns()
            child = b.spawn([first_java(options), "-cp", directory, hotspot.CLASS], stdin=subprocess.PIPE)
            found, end = [], time.monotonic() + options.patience
            while not found and time.monotonic() < end:
                time.sleep(0.5)
                found = [s.time_ns for path in payload.glob("*.pb") for s in otlp_read.samples(path)
                         if int(s.resource.get("process.pid", 0)) == child.pid and
                         any(f.type == "jvm" and f.name for f in s.frames)]
            times += [(min(found) - begin) / 1e6] if found else []
            print("#", times[-1:] or "never", flush=True)
            daemon.stop()
    times.sort()
    bench.table("From the start of a JVM to the first named frame of Java, ms", ["rounds", "least", "median", "most"],
                [[len(times), *(f"{times[i]:.0f}" for i in (0, len(times) // 2, -1))]] if times else [])


# ---- many JVMs ----


def rss_kib(pid, key="VmRSS"):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:                   # a worker reads one file, and ends
        return 0
    found = re.search(rf"^{key}:\s+(\d+)", status, re.M)
    return int(found[1]) if found else 0


def pss_kib(pid):
    """Pages that several processes share count in parts: workers are forks of one."""
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+)", text, re.M)
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
                             cgroup=group, is_service=True, env=environment)
            daemon.wait_for("profiles go to")
            command = [first_java(options), *SMALL, f"-Dnap={options.nap}", "-cp", directory, hotspot.CLASS, "shapes"]
            begin, pids, named = time.monotonic(), set(), set()
            for _ in range(n):
                pids.add(b.spawn(command, stdin=subprocess.PIPE).pid)
                time.sleep(options.stagger)
            while named < pids and time.monotonic() - begin < options.patience:
                time.sleep(2)
                named |= named_pids(payload, pids)
            took = time.monotonic() - begin
            cpu = group.cpu_ns
            time.sleep(options.seconds)
            tree = workers_of(daemon.pid)
            rows.append([n, len(named), f"{took:.0f}", f"{os.getloadavg()[0]:.0f}", f"{rss_kib(daemon.pid) / 1024:.0f}", len(tree),
                         f"{sum(map(pss_kib, tree)) / 1024:.0f}", f"{cpu / 1e6:.0f}",
                         f"{(group.cpu_ns - cpu) / 1e6 / options.seconds:.0f}"])
            daemon.stop()
    bench.table("Many JVMs at 99 Hz", ["JVMs", "named", "after s", "load", "daemon MiB", "workers",
                                       "their PSS, MiB", "CPU until then, ms", "CPU ms/s after"], rows)


# ---- many methods ----

N_IN_CLASS = 1000
METHOD = "    static int m%d(int n) { for (int i = 0; i < 200; i++) n = n * 31 + i; return n; }\n"


def many_methods(b, n_classes):
    """Classes with 1,000 methods each, which `Main` runs one after the other."""
    directory = b.directory()
    for i in range(n_classes):
        methods = "".join(METHOD % k for k in range(N_IN_CLASS))
        calls = "".join(f"        n += m{k}(n);\n" for k in range(N_IN_CLASS))
        text = f"class C{i} {{\n{methods}    static int run(int n) {{\n{calls}        return n;\n    }}\n}}\n"
        (directory / f"C{i}.java").write_text(text)
    runs = "".join(f"            n += C{i}.run(n);\n" for i in range(n_classes))
    (directory / "Main.java").write_text(
        "public class Main {\n    static int n;\n    public static void main(String[] words) {\n"
        f'        for (int round = 0;; round++) {{\n{runs}            if (round == 2) System.out.println("ready");\n'
        "        }\n    }\n}\n")
    done = bench.run([tap.need_tool("javac"), "--release", "8", "-nowarn", "-d", directory,
                      *directory.glob("*.java")])
    if done.returncode:
        raise SystemExit(done.stderr)
    return directory


def methods(options):
    with bench.Bench() as b:
        directory = many_methods(b, -(-options.methods // N_IN_CLASS))
        payload, environment = b.receiver()
        control = b.directory() / "control.sock"
        daemon = b.spawn([tap.SPANPROF, "run", "--exe", "java", "-F", 999, "--export-interval", "2s",
                          "--control", control], env=environment)
        daemon.wait_for("profiles go to")
        command = ["nice", "-n", "19", first_java(options), "-Xmx32m", "-Xss256k", "-XX:+UseSerialGC",
                   "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=96m", "-cp", directory, "Main"]
        pids = {b.spawn(command, stdin=subprocess.PIPE).pid for _ in range(options.machines)}
        end = time.monotonic() + options.seconds
        named, frames = collections.defaultdict(set), 0
        while time.monotonic() < end:
            time.sleep(2)
            for path in sorted(payload.glob("*.pb")):
                for sample in otlp_read.samples(path):
                    pid = int(sample.resource.get("process.pid", 0))
                    if pid in pids:
                        named[pid] |= {f.name for f in sample.frames if f.name and f.name.startswith("C")}
                path.unlink()
        told = bench.run([tap.SPANPROF, "status", "--control", control]).stdout
        frames = re.search(r"runtimes.*", told)
        tree = workers_of(daemon.pid)
        rows = [[len(pids), len(named), sum(map(len, named.values())), f"{rss_kib(daemon.pid) / 1024:.0f}",
                 f"{rss_kib(daemon.pid, 'VmHWM') / 1024:.0f}", len(tree),
                 f"{sum(map(pss_kib, tree)) / 1024:.0f}", f"{sum(map(pss_kib, [daemon.pid, *tree])) / 1024:.0f}"]]
        print("#", frames[0] if frames else told, flush=True)
        daemon.stop()
    bench.table(f"{options.methods} methods in each, {options.seconds:.0f} s at 999 Hz",
                ["JVMs", "named", "methods named", "daemon MiB", "at its highest", "workers", "their PSS, MiB",
                 "all PSS, MiB"], rows)


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
    parser.add_argument("--nap", type=int, default=2000, help="ms that each of many JVMs sleeps between its turns")
    parser.add_argument("--stagger", type=float, default=0.3, help="seconds from the start of one to the next")
    parser.add_argument("--machines", type=int, default=30, help="JVMs of methods")
    parser.add_argument("--methods", type=int, default=20000, help="methods of each of them")
    parser.add_argument("--java", action="append", default=[], help="a JDK's java (default: the first of this machine)")
    parser.add_argument("--samples", type=int, default=10000, help="of each round of whole")
    parser.add_argument("--share-hz", type=int, default=499, help="rate of shares")
    parser.add_argument("--cost-hz", type=int, default=999, help="rate of cost")
    parser.add_argument("--flag", action="append", default=[], help="of each JVM of leaves: --flag=-XX:…")
    parser.add_argument("--victim", action="append", default=[], help="of leaves (default: both)")
    parser.add_argument("--collector", action="append", default=[],
                        help="of leaves, a flag (default: the JVM's, and serial)")
    parser.add_argument("--old-leaves", metavar="BUILD",
                        help="of leaves: another build, whose hotspot-dump is asked of the same ones")
    parser.add_argument("--show", type=int, default=3, help="how many wrong leaves of a row are printed")
    parser.add_argument("--warm", type=float, default=5, help="seconds that JVMs of leaves run before")
    parser.add_argument("--least", type=int, default=1000, help="samples of a row of leaves")
    parser.add_argument("--old", action="append", default=[], metavar="SPANPROF",
                        help="of cost: another build, on the same process at once")
    parser.add_argument("--async", dest="agent", help="libasyncProfiler.so")
    parser.add_argument("--python", action="append", default=[], help="an interpreter for whole")
    parser.add_argument("--oep", help="of whole: program of opentelemetry-ebpf-profiler")


if __name__ == "__main__":
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, Linux {os.uname().release}")
    bench.main(__doc__, {"right": right, "whole": whole, "leaves": leaves, "shares": shares, "cost": cost,
                         "speed": speed, "first": first, "many": many, "methods": methods}, add_options)
