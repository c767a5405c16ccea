#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof stacks` beside tools that stop a process to look at its threads, turn about in one run.

usage: sudo tests/bench/stacks.py [--rounds N] [--py-spy X]

For each program: wall time until the answer, CPU time of the tool, threads in the answer, and how often the
threads of the program left their CPUs for it. Programs: 600 threads of C that sleep, and one that burns; 8 of
Python; a JVM. A tool has a row where it knows the language. py-spy is on PyPI.
"""
import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", "build"))
SPANPROF = os.environ.get("SPANPROF", str(BUILD / "spanprof"))
PYTHON = """
import threading, time
def below(n):
    below(n - 1) if n else time.sleep(100000)
for _ in range(7):
    threading.Thread(target=below, args=(20,), daemon=True).start()
print("ready", flush=True)
time.sleep(100000)
"""
JAVA = """
public class Still {
    static void below(int n) throws Exception { if (n > 0) below(n - 1); else Thread.sleep(100000000); }
    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < 7; i++)
            new Thread(new Runnable() { public void run() { try { below(20); } catch (Exception e) { } } }).start();
        System.out.println("ready"); System.out.flush(); below(1);
    }
}
"""


def switches(pid):
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += sum(int(n) for n in re.findall(r"ctxt_switches:\s+(\d+)", (task / "status").read_text()))
    return total


def take(command, pid, mark):
    usage, begin, before = os.times(), time.monotonic(), switches(pid)
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    wall, after = time.monotonic() - begin, os.times()
    cpu = after.children_user + after.children_system - usage.children_user - usage.children_system
    return wall * 1e3, cpu * 1e3, len(re.findall(mark, done.stdout, re.M)), switches(pid) - before


def median(values):
    return f"{statistics.median(values):,.0f} [{min(values):,.0f} … {max(values):,.0f}]"


def tools_of(kind, pid, py_spy):
    tools = {"spanprof stacks": ([SPANPROF, "stacks", str(pid), "--json"], r'"tid":')}
    if kind == "C":
        tools["eu-stack"] = (["eu-stack", "-n", "0", "-p", str(pid)], r"^TID ")
        tools["gdb, thread apply all bt"] = (["gdb", "-q", "-batch", "-p", str(pid), "-ex", "thread apply all bt"],
                                             r"^Thread \d+")
    elif kind == "Python" and py_spy:
        tools["py-spy dump"] = ([py_spy, "dump", "--pid", str(pid)], r"^Thread ")
        tools["py-spy dump --nonblocking"] = ([py_spy, "dump", "--nonblocking", "--pid", str(pid)], r"^Thread ")
    elif kind == "Java":
        tools["jstack"] = (["jstack", str(pid)], r'^"')
    return {name: tool for name, tool in tools.items() if shutil.which(tool[0][0])}


def start(kind, directory):
    if kind == "Java":
        (directory / "Still.java").write_text(JAVA)
        subprocess.run(["javac", "-nowarn", "-d", directory, directory / "Still.java"], check=True)
    argv = {"C": [BUILD / "tests/victims/victim-threads", "1", "600", "3600"], "Python": ["python3", "-c", PYTHON],
            "Java": ["java", "-cp", directory, "Still"]}[kind]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    for line in child.stdout:
        if "ready" in line:
            break
    time.sleep(1)
    return child


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--py-spy")
    options = parser.parse_args()
    print("| program | tool | until the answer, ms | CPU ms | threads | switches of the program |")
    print("|---|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as directory:
        for kind in ("C", "Python", "Java"):
            child = start(kind, pathlib.Path(directory))
            tools = tools_of(kind, child.pid, options.py_spy)
            rows = {name: [] for name in tools}
            for _ in range(options.rounds):
                for name, (command, mark) in tools.items():
                    rows[name].append(take(command, child.pid, mark))
            for name, row in rows.items():
                print(f"| {kind} | {name} | " + " | ".join(median(column) for column in zip(*row)) + " |", flush=True)
            child.kill()
            child.wait()


if __name__ == "__main__":
    main()
