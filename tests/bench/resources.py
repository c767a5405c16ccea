#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the pod of a node needs: CPU and memory of the daemon as the Helm chart runs it, beside `perf record`.

usage: tests/bench/resources.py [--seconds N] [--rounds N] [--hz N] [--services N]

--services times a Python, a JVM, a service in C that publishes spans, and a node.js that nobody chooses,
all at work. Each tool has a control group of its own: its CPU time and peak memory hold workers, BPF maps and
page cache. Our selection is the chart's: `publishers = on`, `exe = java, python, python[23]*`.

    names    symbols = local: the daemon names functions, with its tables of symbols
    remote   symbols = remote: native functions have addresses; Java's and Python's have names
    perf     perf record -a -g: only copies, names nothing
"""
import pathlib
import shutil
import time

import bench
import session

SETTLE_S = 5
PYTHON = "import json\nprint('ready', flush=True)\nwhile True: json.loads(json.dumps({str(i): [i] * 5 for i in range(200)}))\n"
NODE = "function burn(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s; }\n" \
       "console.log('ready'); let x = 0; for (;;) x += burn(1e6);\n"
JAVA = """
import java.util.*;
public class Shop {
    static String row(int i) { return String.format("%d %s", i, Integer.toHexString(i * 31)); }
    static Map<String, Integer> fill(int n) {
        Map<String, Integer> map = new TreeMap<>();
        for (int i = 0; i < n; i++) map.merge(row(i), i, Integer::sum);
        return map;
    }
    static volatile int sink;
    public static void main(String[] arguments) {
        System.out.println("ready");
        for (;;) sink += fill(500).values().stream().mapToInt(Integer::intValue).sum();
    }
}
"""


def services(kit, n):
    """Starts them, and waits until each has begun."""
    folder = kit.directory()
    for name, text in ("shop.py", PYTHON), ("shop.js", NODE), ("Shop.java", JAVA):
        (folder / name).write_text(text)
    commands = [["/usr/bin/python3", folder / "shop.py"]]
    commands += [[shutil.which("java"), "-Xmx64m", folder / "Shop.java"]] if shutil.which("java") else []
    commands += [[shutil.which("node"), folder / "shop.js"]] if shutil.which("node") else []
    children = [kit.spawn(command) for _ in range(n) for command in commands]
    for child in children:
        child.wait_for("ready")
    for _ in range(n):
        kit.spawn([session.SERVICE]).wait_for("^example-service")


def command(tool, options, folder):
    if tool == "perf":
        return [bench.tool("perf"), "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", options.hz,
                "-o", folder / "data"]
    return [bench.tap.SPANPROF, "run", "-F", options.hz, "--publishers", "--exe", "java,python,python[23]*",
            "--symbols", "local" if tool == "names" else "remote", "--summary", folder / "summary.json"]


def measure(tool, options):
    """(CPU as thousandths of one, peak MiB)."""
    with bench.Bench() as kit:
        services(kit, options.services)
        _, environment = kit.receiver()
        group = kit.cgroup(tool)
        child = kit.spawn(command(tool, options, kit.directory()), cgroup=group, env=environment)
        if tool != "perf":
            child.wait_for("profiles go to")
        time.sleep(SETTLE_S)
        before, begin = group.cpu_ns, time.monotonic()
        time.sleep(options.seconds)
        cpu = (group.cpu_ns - before) / (time.monotonic() - begin) / 1e6
        result = cpu, group.peak_bytes / 2**20, group.cpu_ns / 1e9
        child.stop()
        return result


def node(options):
    tools = ["names", "remote"] + (["perf"] if bench.tool("perf") else [])
    found = {tool: [] for tool in tools}
    for _ in range(options.rounds):                 # in turns
        for tool in tools:
            found[tool].append(measure(tool, options))
    load = pathlib.Path("/proc/loadavg").read_text().split()[0]
    bench.table(f"{4 * options.services} services, {options.hz} Hz, {options.rounds} × {options.seconds} s, load {load}",
                ["", "CPU, m", "peak MiB", "CPU since its start, s"],
                [[tool, *(bench.spread(column) for column in zip(*rows))] for tool, rows in found.items()])


def add_options(parser):
    parser.add_argument("--seconds", type=int, default=30, help="of each tool, after 5 s (default: 30)")
    parser.add_argument("--hz", type=int, default=99)
    parser.add_argument("--services", type=int, default=4, help="of each kind (default: 4)")


if __name__ == "__main__":
    bench.main(__doc__, {"node": node}, add_options)
