#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof record` until there is an answer to look at, beside other profilers in the same run.

usage: sudo tests/bench/record.py [--rounds N] [--seconds S] [--py-spy X] [--async LIBRARY] [PART…]

    perf        A Python program burns two CPUs; spanprof and `perf record` with `perf script` record its two
                processes for S seconds, turn about
    languages   A C, a Python and a Java program, one after the other: each tool that knows the language
                records it for S seconds at 99 Hz. `named`: the answer has the function that burns
    end         A C, a Python, a Java, a Node, a Go and a Rust program that end by themselves, each by
                `record -- COMMAND`: the time from its end until the tables are printed, which should
                be a second at most
    command     What a command costs that does nothing

What is printed: samples, the time between the end of the recording and the answer (wall time less S, start
included), the CPU time of all that the tool is made of, and the size of the answer. spanprof's answer is a
page with names, or folded stacks; perf's is the text of `perf script`, from which other tools make a page.

LIBRARY is libasyncProfiler.so (Maven Central, tools.profiler:async-profiler), which jcmd loads into the JVM;
py-spy is on PyPI. Those that are not given have no row. samply 0.13 is not here: it opens the
hardware's counter of cycles alone (ENOENT on a machine without a PMU).
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", "build"))
SPANPROF = os.environ.get("SPANPROF", str((BUILD / "spanprof").resolve()))
PROGRAM = """
import json, re
text = json.dumps([{"a": i, "b": [str(i)] * 5} for i in range(500)])
while True:
    sorted(json.loads(text), key=lambda x: -x["a"])
    re.findall(r"[a-z]+\\d*", text)
"""


def run(script, **variables):
    """(wall s, CPU s) of a shell script; what it starts counts as well."""
    before, begin = os.times(), time.monotonic()
    subprocess.run(["sh", "-c", script], env={**os.environ, **variables}, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    wall, after = time.monotonic() - begin, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def samples_of(path):
    text = path.read_text(errors="replace")
    return sum(int(line.rsplit(" ", 1)[1])
               for line in text.splitlines()) if path.suffix == ".folded" else len(
                   re.findall(r"^\S.*: *$", text, re.M))


def median(values, scale=1.0):
    values = [value * scale for value in values]
    return f"{statistics.median(values):,.0f} [{min(values):,.0f} … {max(values):,.0f}]"


def compare(directory, pids, seconds, rounds):
    html, folded, script, data = (directory / name for name in ("x.html", "x.folded", "x.txt", "x.data"))
    tools = {
        "spanprof record -o x.html": ("$SPANPROF record -d $S -F $HZ -p $PIDS -o $HTML", html),
        "spanprof record -o x.folded": ("$SPANPROF record -d $S -F $HZ -p $PIDS -o $FOLDED", folded),
        "perf record -g, perf script": (
            "perf record -q -e cpu-clock -g -F $HZ -p $PIDS -o $DATA -- sleep $S && perf script -i $DATA >$SCRIPT",
            script),
    }
    print("| tool | Hz | samples | until the answer, ms | CPU ms | answer, KiB |\n|---|---|---|---|---|---|")
    for frequency in (99, 999):
        figures = {name: [] for name in tools}
        for _ in range(rounds):
            for name, (command, answer) in tools.items():
                wall, cpu = run(command, SPANPROF=SPANPROF, S=str(seconds), HZ=str(frequency),
                                PIDS=",".join(map(str, pids)), HTML=str(html), FOLDED=str(folded),
                                SCRIPT=str(script), DATA=str(data))
                n = 0 if answer is html else samples_of(answer)
                figures[name].append((n, wall - seconds, cpu, answer.stat().st_size))
        for name, rows in figures.items():
            n = f"{statistics.median(row[0] for row in rows):,.0f}" if rows[0][0] else ""
            print(
                f"| `{name}` | {frequency} | {n} | {median([r[1] for r in rows], 1e3)} | {median([r[2] for r in rows], 1e3)} | "
                f"{statistics.median(r[3] for r in rows) / 1024:,.0f} |", flush=True)


def commands(directory, rounds):
    print("\n| a command that does nothing | wall ms | CPU ms |\n|---|---|---|")
    for name, script in (("`true`", "true"), ("`spanprof record -- true`",
                                              "$SPANPROF record -o $D/x.folded -- true"),
                         ("`perf record -g -- true`", "perf record -q -e cpu-clock -g -o $D/x.data -- true")):
        rows = [run(script, SPANPROF=SPANPROF, D=str(directory)) for _ in range(rounds)]
        print(f"| {name} | {median([r[0] for r in rows], 1e3)} | {median([r[1] for r in rows], 1e3)} |",
              flush=True)


def has_name(answer, name):
    """Whether a reader of @answer sees @name; spanprof's page is packed, so spanprof itself is asked."""
    data = answer.read_bytes()
    if b"spanprof" in data:
        data = subprocess.run([SPANPROF, "report", answer], capture_output=True, check=True).stdout
    return name.encode() in data


def java(directory):
    source = pathlib.Path(__file__).parents[1] / "victims/java/VictimJavaBusy.java"
    subprocess.run(["javac", "-nowarn", "-d", directory, source], check=True)
    return ["java", "-cp", directory, "VictimJavaBusy"]


def languages(directory, seconds, rounds, options):
    """[(language, command of the program, name that it burns in, {tool: (script, answer)})]"""
    page, text, svg, flame = (directory / name for name in ("x.html", "x.txt", "x.svg", "y.html"))
    ours = {"spanprof record -o x.html": ("$SPANPROF record -d $S -p $PID -o $OUT", page)}
    perf = {"perf record -g, perf script": (f"perf record -q -e cpu-clock -g -F 99 -p $PID -o {directory}/x.data -- "
                                            f"sleep $S && perf script -i {directory}/x.data >$OUT", text)}
    programs = [("C", [BUILD / "tests/victims/victim-chain", "30"], "chain_leaf", {**ours, **perf}),
                ("Python", [sys.executable, "-c", PROGRAM], "raw_decode", {**ours, **perf})]
    if options.py_spy:
        programs[1][3]["py-spy record"] = (f"{options.py_spy} record -d $S -r 99 -p $PID -o $OUT", svg)
    if shutil.which("javac"):
        load = f"jcmd $PID JVMTI.agent_load {options.agent}"
        by_agent = (f"""{load} '"start,event=cpu,interval=10101010"' && sleep $S &&
                        {load} '"stop,flamegraph,file='$OUT'"'""", flame)
        programs.append(("Java", java(directory), "VictimJavaBusy",
                         {**ours, **({"async-profiler": by_agent} if options.agent else {})}))
    print("\n| program | tool | until the answer, ms | CPU ms | answer, KiB | named |\n|---|---|---|---|---|---|")
    for language, command, name, tools in programs:
        victim = subprocess.Popen(command, stdout=subprocess.DEVNULL, stdin=subprocess.PIPE)
        figures = {tool: [] for tool in tools}
        try:
            time.sleep(2)       # a JVM compiles at first
            for _ in range(rounds):
                for tool, (script, answer) in tools.items():
                    wall, cpu = run(script, SPANPROF=SPANPROF, S=str(seconds), PID=str(victim.pid),
                                    OUT=str(answer))
                    figures[tool].append((wall - seconds, cpu, answer.stat().st_size, has_name(answer, name)))
        finally:
            victim.kill()
            victim.wait()
        for tool, rows in figures.items():
            named = "yes" if all(r[3] for r in rows) else "no"
            print(f"| {language} | `{tool}` | {median([r[0] for r in rows], 1e3)} | "
                  f"{median([r[1] for r in rows], 1e3)} | {statistics.median(r[2] for r in rows) / 1024:,.0f} | "
                  f"{named} |", flush=True)


def build(directory, name, text, *command):
    """Whether the program is there, of that source: not where there is no such compiler."""
    (directory / name).write_text(text)
    if not shutil.which(command[0]):
        return False
    subprocess.run([*command, name], check=True, cwd=directory, stderr=subprocess.DEVNULL)
    return True


def ends(directory, rounds):
    """The command's last act is to read the clock of the machine, of 10 ms."""
    loop = "let n = 0; for (let i = 0; i < 1e9; i++) n = (n * 31 + i) & 0xffff; console.log(n)"
    programs = {
        "C": build(directory, "hot.c", "int main(void) { unsigned n = 0; for (unsigned i = 0; i < 1500000000; i++) "
                   "n = (n * 31 + i) & 0xffff; return n > 0xffff; }", "cc", "-O2", "-g", "-o", "hot-c"),
        "Python": [sys.executable, "-c", "n = 0\nfor i in range(20000000): n = (n * 31 + i) & 0xffff"],
        "Java": build(directory, "Hot.java", "class Hot { public static void main(String[] x) { long n = 0; for (long i = 0; "
                      "i < 1500000000; i++) n = (n * 31 + i) & 0xffff; System.out.println(n); } }", "javac"),
        "Node": ["node", "-e", loop] if shutil.which("node") else None,
        "Go": build(directory, "hot.go", "package main\n\nfunc main() {\n\tn := 0\n\tfor i := 0; i < 1500000000; i++ {\n"
                    "\t\tn = (n*31 + i) & 0xffff\n\t}\n\tprintln(n)\n}\n", "go", "build", "-o", "hot"),
        "Rust": build(directory, "hot.rs", "fn main() { println!(\"{}\", (0..1500000000u64).fold(0, |n, i| (n * 31 + i) & 0xffff)) }",
                      "rustc", "-O", "-o", "hot-rust"),
    }
    own = {"C": ["./hot-c"], "Java": ["java", "-cp", str(directory), "Hot"], "Go": ["./hot"], "Rust": ["./hot-rust"]}
    print("\n| program | from its end until the answer, ms |\n|---|---|")
    for language, command in programs.items():
        times = []
        command = own.get(language) if command is True else command
        for _ in range(rounds if command else 0):
            done = subprocess.run([SPANPROF, "record", "-o", directory / "x.html", "--", "sh", "-c",
                                   f"{shlex.join(command)} </dev/null; read -r up rest </proc/uptime; echo end $up"],
                                  capture_output=True, text=True, check=True, cwd=directory)
            now = time.clock_gettime(time.CLOCK_BOOTTIME)
            times.append(now - float(re.search(r"end ([\d.]+)", done.stdout)[1]))
        if times:
            print(f"| {language} | {median(times, 1e3)} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", metavar="PART", help="perf, languages, end, command (default: all)")
    parser.add_argument("--py-spy")
    parser.add_argument("--async", dest="agent")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    options = parser.parse_args()
    parts = options.parts or ["perf", "languages", "end", "command"]
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        if "perf" in parts:
            victims = [subprocess.Popen([sys.executable, "-c", PROGRAM]) for _ in range(2)]
            try:
                compare(directory, [victim.pid for victim in victims], options.seconds, options.rounds)
            finally:
                for victim in victims:
                    victim.kill()
                    victim.wait()
        if "languages" in parts:
            languages(directory, options.seconds, options.rounds, options)
        if "end" in parts:
            ends(directory, options.rounds)
        if "command" in parts:
            commands(directory, options.rounds)


main()
