#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What names cost the daemon: `symbols = remote` beside `local`, and code that targets make named or not.

usage: naming.py [--rounds N] [--seconds S] [--frequency HZ] [PART…]

    programs   node (with its perf-map), Python, and victims, all at work; the daemon's CPU time and peak
               memory in a cgroup
    map        one process whose perf-map has --lines functions: from the start of the daemon to the first
               sample with a name
"""
import json
import pathlib
import shutil
import time

import bench

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


def add_options(parser):
    parser.add_argument("--seconds", type=int, default=20, help="of each run")
    parser.add_argument("--frequency", type=int, default=99, help="Hz")
    parser.add_argument("--lines", type=int, default=100000, help="of the map")


if __name__ == "__main__":
    bench.main(__doc__, {"programs": part_programs, "map": part_map}, add_options)
