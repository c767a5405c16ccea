#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What names cost the daemon: `symbols = remote` beside `local`, and code that targets make named or not.

usage: naming.py [--rounds N] [--seconds S] [--frequency HZ] [--old SPANPROF] [PART…]

    programs   node (with its perf-map), Python, and victims, all at work; the daemon's CPU time and peak
               memory in a cgroup
    map        one process whose perf-map has --lines functions: from the start of the daemon to the first
               sample with a name
    compilers  --all beside two compilers of C++, whose files are no longer in the page cache: the peak of
               the control group, and what it consisted of. --old names another build, which takes turns
    lines      --all beside one compiler of C, then of C++, again and again: CPU time of the daemon and its
               workers with lines, without them, and with those of another build (--old), all at the same
               time, so each pays for the others' samples: compare them. Debug files that are packed
               (libc6-dbg) make lines dear. Alone with them: by unshare -fp --mount-proc
"""
import json
import os
import pathlib
import shutil
import threading
import time

import bench
import search
import starts

NODE = "function burn(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s; }\n" \
       "console.log('ready'); let x = 0; for (;;) x += burn(1e6);\n"
PYTHON = "import json\nprint('ready', flush=True)\nwhile True: json.loads(json.dumps({str(i): [i] * 5 for i in range(200)}))\n"
MODES = {
    "remote, jit off": ["--symbols=remote", "--jit-symbols=off"], "remote": ["--symbols=remote"],
    "local": ["--symbols=local"]
}


def programs(kit):
    """Starts them; returns their pids."""
    directory = kit.directory()
    (directory / "spin.js").write_text(NODE)
    children = [kit.spawn(["node", "--perf-basic-prof", "spin.js"], cwd=directory)
                ] if shutil.which("node") else []
    children.append(kit.spawn(["python3", "-c", PYTHON]))
    for child in children:
        child.wait_for("ready")
        kit.callback(pathlib.Path(f"/tmp/perf-{child.pid}.map").unlink, missing_ok=True)
    return [child.pid for child in children] + [kit.victim("chain", depth).pid for depth in (10, 30)]


def run_once(options, mode):
    with bench.Bench() as kit:
        pids = programs(kit)
        _, environment = kit.receiver()
        summary, group = kit.directory() / "summary.json", kit.cgroup("naming")
        child = kit.spawn([
            bench.tap.SPANPROF, "run", "--duration", f"{options.seconds}s", "--frequency", options.frequency,
            "--export-interval", "5s", "--summary", summary, *MODES[mode], *(x for pid in pids
                                                                             for x in ("--pid", pid))
        ], cgroup=group, env=environment)
        child.wait(options.seconds + 60)
        counters = json.loads(summary.read_text())
        return {
            "cpu": group.cpu_ns / 1e9, "memory": group.peak_bytes / 2**20, "samples": counters["delivered"],
            "lost": counters["lost"], "named": counters["counters"]["names_total"]["named"],
            "late": counters["counters"]["frames_unnamed_total"]["late"],
            "loop": counters["counters"]["stage_nanoseconds_total"]["naming"] / 1e6
        }


def part_programs(options):
    results = {mode: [] for mode in MODES}
    for _ in range(options.rounds):
        for mode in MODES:
            results[mode].append(run_once(options, mode))
    rows = [[
        mode, *(bench.spread(row[key] for row in rows)
                for key in ("samples", "lost", "cpu", "memory", "named", "late", "loop"))
    ] for mode, rows in results.items()]
    bench.table(f"{options.seconds} s at {options.frequency} Hz, {options.rounds} rounds", [
        "symbols", "samples", "lost", "CPU, s", "peak memory, MiB", "addresses named", "frames late",
        "naming of windows, ms"
    ], rows)


def part_map(options):
    values = []
    for _ in range(options.rounds):
        with bench.Bench() as kit:
            child = kit.spawn([bench.tap.VICTIMS / "victim-code"], stdin=bench.subprocess.PIPE)
            child.wait_for(r"^pid \d+")
            child.process.stdin.write(b"make alpha\n")
            child.process.stdin.flush()
            start, size = child.wait_for(r"ok made alpha (\w+) (\w+)").groups()
            path = pathlib.Path(f"/tmp/perf-{child.pid}.map")
            kit.callback(path.unlink, missing_ok=True)
            with path.open("w") as file:
                for i in range(options.lines):
                    file.write(
                        f"{0x1000000 + i * 64:x} 40 Function number {i} of /srv/application/source-{i % 100}.js:{i % 1000}\n"
                    )
                file.write(f"{start} {size} alpha\n")
            _, environment = kit.receiver()
            control = kit.directory() / "control.sock"
            begin = time.monotonic()
            kit.spawn(
                [bench.tap.SPANPROF, "run", "--pid", child.pid, "--frequency", "499", "--control", control],
                env=environment)
            while True:
                answer = bench.run([bench.tap.SPANPROF, "status", "--json", "--control", control])
                state = json.loads(answer.stdout) if answer.returncode == 0 else {}
                metrics = bench.run([bench.tap.SPANPROF, "status", "--control", control]).stdout
                if f"which {options.lines + 1} functions" in metrics:
                    break
                time.sleep(0.01)
            values.append((time.monotonic() - begin, state["naming_bytes"] / 2**20))
    bench.table(f"a perf-map of {options.lines + 1} lines, {options.rounds} rounds",
                ["until all are known, s", "memory for them, MiB"],
                [[bench.spread(v[0] for v in values),
                  bench.spread(v[1] for v in values)]])


# Of the files in /usr; what others use stays in the cache all the same.
FORGET = "find /usr/lib /usr/bin -size +1M -type f -exec dd if={} iflag=nocache count=0 status=none ';'"


class Watch(threading.Thread):
    """Looks at the memory of a control group all the time; `most`: of the look at which it was highest, in bytes."""

    KINDS = {"v1": ("rss", "cache", "mapped_file"), "v2": ("anon", "file", "file_mapped")}

    def __init__(self, group):
        super().__init__(daemon=True)
        path = group.peak_file.parent
        is_v1 = group.peak_file.name == "memory.max_usage_in_bytes"
        self.kinds = self.KINDS["v1" if is_v1 else "v2"]
        self.now, self.stat = path / ("memory.usage_in_bytes" if is_v1 else "memory.current"), path / "memory.stat"
        self.most, self.is_over = {"all": 0}, False

    def run(self):
        while not self.is_over:
            size = int(self.now.read_text())
            if size > self.most["all"]:
                stat = dict(line.split() for line in self.stat.read_text().splitlines())
                self.most = {"all": size, **{kind: int(stat[kind]) for kind in self.kinds}}
            time.sleep(0.005)

    def end(self):
        """MiB at the highest look: in all, of processes, of files, of these mapped."""
        self.is_over = True
        self.join()
        return [self.most[key] / 2**20 for key in ("all", *self.kinds)]


def beside_compilers(options, program, mode):
    with bench.Bench() as kit:
        bench.run(["sh", "-c", FORGET])
        source = kit.directory() / "x.cc"
        source.write_text(search.SOURCE)
        for name in ("g++", "clang++"):
            if shutil.which(name):
                kit.spawn(["sh", "-c", f"while :; do {name} -O2 -g -c -o /dev/null {source}; done"])
        _, environment = kit.receiver()
        group, summary = kit.cgroup("naming"), kit.directory() / "summary.json"
        child = kit.spawn([program, "run", "--all", "-F", options.frequency, "--summary", summary, *MODES[mode]],
                          cgroup=group, env=environment)
        child.wait_for("profiles go to")
        watch = Watch(group)
        watch.start()
        time.sleep(options.seconds)
        now = int(watch.now.read_text()) / 2**20
        parts = watch.end()
        peak = group.peak_bytes / 2**20
        child.stop()
        return peak, *parts, now, json.loads(summary.read_text())["delivered"]


def part_compilers(options):
    found = {}
    for _ in range(options.rounds):
        for mode in ("local", "remote"):
            for name, program in starts.programs(options):
                found.setdefault((name, mode), []).append(beside_compilers(options, program, mode))
    bench.table(f"--all beside compilers, {options.rounds} × {options.seconds} s, {options.frequency} Hz, MiB, "
                f"load {os.getloadavg()[0]:.0f}",
                ["build", "symbols", "peak", "highest look", "processes", "files", "mapped files", "at the end",
                 "samples"], [[*key, *map(bench.spread, zip(*rows))] for key, rows in found.items()])


def beside_one_compiler(options, builds):
    """CPU ms a minute, addresses with lines, and samples, of each of these daemons."""
    with bench.Bench() as kit:
        folder = kit.directory()
        (folder / "x.cc").write_text(search.SOURCE)
        (folder / "x.c").write_text("#include <stdio.h>\n" + "".join(
            f"int f{i}(int n) {{ int s = 0; while (n--) s = s * {i} + n; return s; }}\n" for i in range(200)))
        daemons = []
        for name, (program, *more) in builds.items():
            _, environment = kit.receiver()
            group, summary = kit.cgroup(f"naming-{len(daemons)}"), folder / f"{len(daemons)}.json"
            child = kit.spawn([program, "run", "--all", "-F", options.frequency, "--summary", summary,
                               "--symbols=local", *more], cgroup=group, env=environment)
            daemons.append((name, child, group, summary))
        for _, child, _, _ in daemons:
            child.wait_for("profiles go to")
        kit.spawn(["sh", "-c", "while :; do gcc -O2 -c -o /dev/null x.c; g++ -O2 -c -o /dev/null x.cc; done"],
                  cwd=folder)
        time.sleep(bench.SETTLE_S)
        before = [group.cpu_ns for _, _, group, _ in daemons]
        time.sleep(options.seconds)
        after = [group.cpu_ns for _, _, group, _ in daemons]
        found = {}
        for (name, child, _, summary), begin, end in zip(daemons, before, after):
            child.stop()
            told = json.loads(summary.read_text())
            found[name] = ((end - begin) / 1e6 / options.seconds * 60, told["counters"]["lines_total"]["read"],
                           told["delivered"])
        return found


def part_lines(options):
    builds = {"this build": (bench.tap.SPANPROF,), "without lines": (bench.tap.SPANPROF, "--lines=off")}
    builds |= {name: (program,) for name, program in starts.programs(options)[1:]}
    rounds = [beside_one_compiler(options, builds) for _ in range(options.rounds)]
    bench.table(f"lines beside a compiler, {options.rounds} × {options.seconds} s, {options.frequency} Hz, "
                f"load {os.getloadavg()[0]:.0f}",
                ["build", "CPU ms a minute", "of that of this build", "addresses with lines", "samples"],
                [[name, bench.spread(found[name][0] for found in rounds),
                  bench.spread(found[name][0] / found["this build"][0] for found in rounds),
                  *(bench.spread(found[name][i] for found in rounds) for i in (1, 2))] for name in builds])


def add_options(parser):
    parser.add_argument("--seconds", type=int, default=20, help="of each run")
    parser.add_argument("--frequency", type=int, default=99, help="Hz")
    parser.add_argument("--lines", type=int, default=100000, help="of the map")
    parser.add_argument("--old", help="another build, for `compilers` and `lines`")


if __name__ == "__main__":
    bench.main(__doc__, {
        "programs": part_programs, "map": part_map, "compilers": part_compilers, "lines": part_lines
    }, add_options)
