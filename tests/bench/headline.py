#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a host pays for --all with names: CPU in BPF, of the daemon and its workers, a minute and a sample.

usage: tests/bench/headline.py [--seconds N] [--rounds N] [--hz N,…] [--together] [--write]
                               [--oep PROGRAM | --rival COMMAND] [quiet] [beside] [compilers]
                               [storm] [idle] [crowd] [crowd-compilers]

    quiet      two burners, and nothing else that we start
    beside     the same, with a shell that starts one short program after the other
    compilers  compilers of C++ on all CPUs in the place of the burners
    storm      one short program after the other, and nothing else
    idle       300 services that wake once a second, and three that rest most of the time
    crowd      10 JVMs and 15 Pythons that live 12 s, started together, again and again
    crowd-compilers            the same beside compilers of C++ on all CPUs

The peak of memory is that of the tool's control group, with page cache and maps of BPF. --write puts medians
into the rows of docs/PERFORMANCE.md that are called so (headline.quiet.99), or adds them, with date, CPU and
command. It needs --oep: an aim is a part of what the peer takes, and a figure above it is bold. A row that is
there keeps what it says and its aim; what the text below the table says of it is left to the reader.

Of a crowd, two more figures: its samples but those of the runtime's own threads, and which part of them is
named: they have functions of Java or Python, each with its name. --oep: the same of the rival. Needs a
JDK, and tests/interop/setup-venv.sh.

Each tool has --seconds at each rate (600: the figures that count) after a start of 12 s that is not counted,
in which this program burns too: what a tool does once for a Python and for the kernel's names falls into it.
The tools take turns, or run at the same time (--together), where each also pays for the other's samples.
The rival is opentelemetry-ebpf-profiler, where --oep names its program (this Python then has grpcio, of
PyPI, for the receiver); else COMMAND, in which {hz} stands for the rate; else `perf record -a -g`, which only
copies, and whose work in interrupts nothing counts. The samples of the last two are taken to be as many as
ours. From the rates follows what a
minute costs without a sample, and what one more sample does (least squares). SPANPROF names the build
(default: ./build). Needs root.
"""
import datetime
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import statistics
import sys
import time

import bench  # first: it knows where the test library is
import oracle

oracle.enter()

import jdks
import otlp_read
import search
import starts
import tap

BURN_S = 2
N_JAVA, N_PYTHON, LIFE_S = 10, 15, 12
# Functions by the hundred, as programs have that begin. Each works as long as it rests.
PYTHON = f"""
import time
for i in range(300):
    exec(f"def work_{{i}}(n):\\n    while n: n -= 1")
end, i = time.monotonic() + {LIFE_S}, 0
while time.monotonic() < end:
    begin = time.monotonic()
    while time.monotonic() < begin + 0.02:
        globals()[f"work_{{i % 300}}"](20000)
        i += 1
    time.sleep(0.02)
"""
JAVA = """
public class Crowd {
%s
    static int work(int i, int n) {
        switch (i) {
%s
        default: return n;
        }
    }

    public static void main(String[] arguments) throws Exception {
        long end = System.nanoTime() + %dL * 1000000000;
        int i = 0, sum = 0;
        while (System.nanoTime() < end) {
            long begin = System.nanoTime();
            while (System.nanoTime() < begin + 20000000)
                sum += work(i++ %% 300, 20000);
            Thread.sleep(20);
        }
        System.out.println(sum);
    }
}
""" % ("\n".join(f"static int work_{i}(int n) {{ int s = {i}; while (n-- > 0) s = s * 31 + n; return s; }}"
                 for i in range(300)),
       "\n".join(f"case {i}: return work_{i}(n);" for i in range(300)), LIFE_S)
CROWD = """
while :; do
        for i in $(seq {n_java}); do setpriv --pdeathsig KILL {java} -cp {classes} Crowd >/dev/null & done
        for i in $(seq {n_python}); do setpriv --pdeathsig KILL {python} {script} & done
        wait
done
"""
CROWD_NAMES = {"crowd-java", "crowd-python"}    # of executables
RUNTIMES = {"jvm", "cpython"}                   # types of frames
TRUNCATED = "profile.stack.truncated"
STATISTICS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
PERFORMANCE = tap.SOURCE_DIR / "docs/PERFORMANCE.md"
# host → what a row of it says that is not there yet, and which part of the peer's CPU is its aim
AIMS = {
    "quiet": ("", 4),
    "beside": (" beside short programs", 4),
    "compilers": (" beside two compilers of C++", 4),
    "storm": (" in a storm of short programs", 6),
    "idle": (" on a host of 300 idle services and three with some work", 8),
    "crowd": (" in a crowd of 10 JVMs and 15 Pythons that live 12 s", 2),
    "crowd-compilers": (" in a crowd of 10 JVMs and 15 Pythons beside compilers", 5)
}
PARTS = {2: "half", 3: "a third", 4: "a fourth", 5: "a fifth", 6: "a sixth", 8: "an eighth"}
N_IDLE, N_RESTING = 300, 3


def settle():
    end = time.monotonic() + BURN_S
    while time.monotonic() < end:
        os.stat("/")
    time.sleep(bench.SETTLE_S - BURN_S)


class Ours:
    name = "spanprof"

    def __init__(self, b, hz, _options):
        self.cgroup, self.summary = b.cgroup("spanprof"), b.directory() / "summary.json"
        self.directory, environment = b.receiver()
        self.begin = time.monotonic()
        self.child = b.spawn([tap.SPANPROF, "run", "--all", "-F", hz, "--symbols", "local", "--summary",
                              self.summary], cgroup=self.cgroup, env=environment)
        self.child.wait_for("profiles go to")

    def stop(self, _begin, _end):
        """Samples a minute."""
        self.child.stop()
        return json.loads(self.summary.read_text())["ticks"] / (time.monotonic() - self.begin) * 60

    def all_samples(self):
        return otlp_read.samples(*sorted(self.directory.glob("*.pb")))


class Oep:
    name = "rival"

    def __init__(self, b, hz, options):
        self.tool = bench.Oep(b, options.oep, hz)
        self.cgroup = self.tool.cgroup

    def stop(self, begin, end):
        self.tool.stop()
        return self.tool.samples(begin, end) / (end - begin) * 60

    def all_samples(self):
        return self.tool.all_samples()


class Other:
    name = "rival"

    def __init__(self, b, hz, options):
        self.cgroup = b.cgroup("rival")
        command = [bench.tool("perf"), "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", hz, "-o",
                   b.directory() / "data"]
        if options.rival:
            command = shlex.split(options.rival.replace("{hz}", str(hz)))
        self.child = b.spawn(command, cgroup=self.cgroup)

    def stop(self, _begin, _end):
        """Nobody counts them."""
        self.child.stop()

    @staticmethod
    def all_samples():
        return ()


def measure(b, hz, options, kinds):
    """Tools at the same time: name → (CPU ms, BPF ms, samples) a minute, peak MiB, samples of a crowd, named ones."""
    tools = [kind(b, hz, options) for kind in kinds]
    settle()
    begin, before = time.time(), [(tool.cgroup.cpu_ns, tool.cgroup.bpf_ns) for tool in tools]
    time.sleep(options.seconds)
    after, end = [(tool.cgroup.cpu_ns, tool.cgroup.bpf_ns) for tool in tools], time.time()
    minutes = 1e6 * (end - begin) / 60
    return {tool.name: ((cpu - cpu_before) / minutes, (bpf - bpf_before) / minutes, tool.stop(begin, end),
                        tool.cgroup.peak_bytes / 2**20, *count_crowd(tool.all_samples(), begin, end))
            for tool, (cpu, bpf), (cpu_before, bpf_before) in zip(tools, after, before)}


def count_crowd(samples, begin, end):
    """(samples of a crowd, those of them that are named) between two times of time.time()."""
    n = n_named = 0
    for sample in samples:
        if (sample.resource.get("process.executable.name") not in CROWD_NAMES or
                not begin <= sample.time_ns / 1e9 < end):
            continue
        names = [frame.name for frame in sample.frames if frame.type in RUNTIMES]
        has_unknown = any(frame.type == "unknown" for frame in sample.frames)
        if not names and not has_unknown and TRUNCATED not in sample.attributes:
            continue                            # a thread of the runtime itself: compilers, collectors
        n += 1
        n_named += bool(names) and all(names) and not has_unknown
    return n, n_named


def line(points):
    """Least squares: value at 0, slope."""
    n, x, y = len(points), sum(p[0] for p in points), sum(p[1] for p in points)
    spread = n * sum(p[0]**2 for p in points) - x * x
    slope = (n * sum(p[0] * p[1] for p in points) - x * y) / spread if spread else 0
    return (y - slope * x) / n, slope


def burners(b):
    for cpu in sorted(os.sched_getaffinity(0)):
        b.victim("omit", "depth", 30, cpu=cpu, ready="^frames")


def beside_short(b):
    burners(b)
    b.spawn(["sh", "-c", starts.SHORT])


def storm(b):
    b.spawn(["sh", "-c", starts.SHORT])


def idle(b):
    """A service that does nothing is no Python here: 300 of them would need the machine's memory."""
    for _ in range(N_IDLE):
        b.spawn(["perl", "-e", "sleep 1 while 1"])
    for _ in range(N_RESTING):
        b.spawn([tap.VICTIMS / "victim-chain", 30], env={**os.environ, "VICTIM_RESTS": "1"}).wait_for("^pid")


def crowd(b):
    """The Python is one that needs no library of its own; a JVM finds its files by its path."""
    directory = b.directory()
    java, python = pathlib.Path(os.path.realpath(jdks.tool("javac"))), directory / "crowd-python"
    home = directory / "jdk"
    (home / "bin").mkdir(parents=True)
    for path in java.parents[1].iterdir():
        if path.name != "bin":
            (home / path.name).symlink_to(path)
    shutil.copy(java.parent / "java", home / "bin/crowd-java")
    shutil.copy(os.path.realpath("/usr/bin/python3"), python)
    (directory / "crowd.py").write_text(PYTHON)
    (directory / "Crowd.java").write_text(JAVA)
    bench.run([java, "-d", directory, directory / "Crowd.java"], check=True)
    words = CROWD.format(n_java=N_JAVA, n_python=N_PYTHON, java=home / "bin/crowd-java", classes=directory,
                         python=python, script=directory / "crowd.py")
    b.spawn(["sh", "-c", words], env={**os.environ, "PYTHONHOME": "/usr"})


def crowd_beside_compilers(b):
    search.start_compilers(b)
    crowd(b)


def check_figures():
    """The test of the rows, which reads them."""
    spec = importlib.util.spec_from_file_location("check_figures", tap.SOURCE_DIR / "tests/check-figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name_of(line):
    return line[1:].split("|")[0].strip() if line.startswith("|") else ""


def set_row(text, name, cells, rows):
    """@text with this row: in the place of that with its name, else behind the last of the headline's.
    Where the row below says "the same", it has what that meant in @rows, by name and column."""

    def line_of(row, values):
        return f"| {' | '.join([row, *values])} |".replace("|  |", "| |")

    lines = text.split("\n")
    places = {name_of(line): i for i, line in enumerate(lines)}
    at = places.get(name)
    if at is None:
        at = 1 + max(i for row, i in places.items() if row.startswith("headline."))
        lines.insert(at, "")
    lines[at], below = line_of(name, cells), name_of(lines[at + 1])
    if below in rows and "| the same |" in lines[at + 1]:
        lines[at + 1] = line_of(below, list(rows[below].values())[1:])
    return "\n".join(lines)


def write_rows(options, host, costs):
    where, aim = AIMS[host]
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    text, rows_of = PERFORMANCE.read_text(), check_figures().rows_of
    words = [f"--seconds {options.seconds:g}", f"--rounds {options.rounds}", f"--hz {options.hz}",
             *(["--together"] if options.together else [])]
    for hz in sorted({hz for hz, _ in costs}):
        ours, peer = (statistics.median(costs[hz, name]) for name in ("spanprof", "rival"))
        name, figure, rows = f"headline.{host.replace('-', '.')}.{hz}", f"{ours:.0f} µs", rows_of(text, [])
        new = {"what": f"CPU a sample with names, `--all`{where}, {hz} Hz", "aim": f"{PARTS[aim]} of OEP"}
        row = rows.get(name, new)
        part_of = [n for n, word in PARTS.items() if row["aim"].removesuffix(" of OEP") == word]
        if not part_of:
            sys.exit(f"{name}: its aim is no part of OEP's CPU: {row['aim']}")
        text = set_row(text, name, [
            row["what"], f"**{figure}**" if ours > peer / part_of[0] else figure, row["aim"], f"OEP {peer:.0f} µs",
            f"{datetime.date.today()}, {cpu.group(1) if cpu else os.uname().machine}, "
            f"{'both at once' if options.together else 'in turns'}, {options.seconds:g} s, load before {options.load:.1f}",
            f"`headline.py --oep PROGRAM {' '.join(words)} {host}`"], rows)
    PERFORMANCE.write_text(text)


def part(options, host, what, start_load):
    rows, points, costs = [], {"spanprof": [], "rival": []}, {}
    for hz in map(int, options.hz.split(",")):
        for _ in range(options.rounds):
            with bench.Bench() as b:
                start_load(b)
                tools = [Ours]
                if options.oep or options.rival or bench.tool("perf"):
                    tools.append(Oep if options.oep else Other)
                found = {}
                for group in [tools] if options.together else [[tool] for tool in tools]:
                    found |= measure(b, hz, options, group)
            for name, (cpu, bpf, samples, peak, n_crowd, n_named) in found.items():
                if samples is None:
                    samples = found["spanprof"][2]
                points[name].append((samples, cpu + bpf))
                costs.setdefault((hz, name), []).append(1e3 * (cpu + bpf) / max(1, samples))
                rows.append([hz, name, f"{samples:.0f}", f"{cpu:.0f}", f"{bpf:.0f}",
                             f"{1e3 * (cpu + bpf) / max(1, samples):.1f}", f"{peak:.0f}", n_crowd or "–",
                             f"{100 * n_named / n_crowd:.1f} %" if n_crowd else "–"])
    bench.table(what, ["Hz", "tool", "samples a minute", "CPU ms a minute", "BPF ms a minute",
                       "µs a sample, in all", "peak MiB", "samples of the crowd", "named"], rows)
    for name, seen in points.items():
        if len({x for x, _ in seen}) > 1:
            fixed, slope = line(seen)
            print(f"{name}: {fixed:.0f} ms a minute and {1e3 * slope:.1f} µs a sample")
    if options.write:
        write_rows(options, host, costs)


HOSTS = {
    "quiet": ("quiet", burners),
    "beside": ("beside short programs", beside_short),
    "compilers": ("beside compilers", search.start_compilers),
    "storm": ("storm of short programs", storm),
    "idle": ("idle services", idle),
    "crowd": ("crowd of runtimes", crowd),
    "crowd-compilers": ("crowd beside compilers", crowd_beside_compilers)
}


def add_options(parser):
    parser.add_argument("--seconds", type=float, default=600, help="of each tool at each rate")
    parser.add_argument("--hz", default="19,49,99", help="rates")
    parser.add_argument("--together", action="store_true", help="both tools at the same time")
    parser.add_argument("--write", action="store_true", help="put the figures into docs/PERFORMANCE.md")
    rivals = parser.add_mutually_exclusive_group()
    rivals.add_argument("--oep", help="program of opentelemetry-ebpf-profiler")
    rivals.add_argument("--rival", help="command line of another profiler")


def measured(host):
    def measure_host(options):
        if options.write and not options.oep:
            sys.exit("--write needs --oep: the aims are parts of what it takes")
        options.load = os.getloadavg()[0]
        print(f"load {options.load:.1f}, {os.cpu_count()} CPUs, Linux {os.uname().release}")
        part(options, host, *HOSTS[host])

    return measure_host


if __name__ == "__main__":
    was_on = STATISTICS.read_text()
    bench.need_root()
    STATISTICS.write_text("1")
    try:
        bench.main(__doc__, {host: measured(host) for host in HOSTS}, add_options)
    finally:
        STATISTICS.write_text(was_on)
