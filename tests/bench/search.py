#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to search memory for published contexts, and how soon a late ring is found.

usage: tests/bench/search.py [--seconds N] [--rounds N] [--old SPANPROF] [--mib N] [--processes N] [crowd]
                             [guest] [compilers]

    crowd       of small processes (--processes) that are there at the start: CPU of a look and a full search
                of each
    guest       beside a program with much memory (--mib) that maps some more all the time, as a guest of QEMU
                does: CPU a minute, full searches, and the time until a ring is found that takes the place of
                a buffer in the middle of its memory
    compilers   beside compilers of C++ on both CPUs, which fill new memory all the time: CPU a minute

All processes are targets, at 19 Hz; with `crowd` none is, so that nothing but the search is done for them.
--old names another build, which takes turns with this one (SPANPROF, default ./build). Alone on a busy
machine: unshare -fp --mount-proc python3 tests/bench/search.py. Needs root.
"""
import os
import signal
import sys
import time

import bench
import prometheus
import starts
import tap
import unix_http

GUEST = """
import mmap, signal, struct, sys, time
def anonymous(size):
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
size = int(sys.argv[1]) << 20
memory = anonymous(size)
memory[::4096] = bytes(3 * [1] + [0]) * (size // 4096 // 4)     # a fourth of the pages begins with a zero
memory[64::4096] = bytes([1]) * (size // 4096)
buffers = [anonymous(2 << 20) for _ in range(32)]
for b in buffers:
    b[::4096] = bytes([1]) * (len(b) // 4096)
kept, asked, n = [], [], 0
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
print("ready", flush=True)
while True:
    end = time.monotonic() + 0.02
    while time.monotonic() < end:
        pass
    n += 1
    kept.append(anonymous(65536 + n % 64 * 4096))
    kept[-1][:65536] = bytes([1]) * 65536
    kept = kept[-64:]
    if asked:
        asked.clear()
        buffers[16].close()
        ring = anonymous(2 << 20)
        ring[:32] = struct.pack("<IIII16x", 0x4F54454C, 1, 1024, 32)
        print("published", flush=True)
"""
SOURCE = """
#include <map>
#include <regex>
#include <string>
int main() { std::map<std::string, int> m; std::regex r("a+b"); return std::regex_match("ab", r) + m["a"]; }
"""


def counter(control, name, result):
    return prometheus.value(unix_http.metrics(control), name, result=result)


def start(b, program):
    """Daemon, its control socket."""
    control = b.directory() / "control.sock"
    return starts.Daemon(b, program, "--all", "-F", "19", "--control", control), control



def crowd_cpu_ns(program, n):
    """CPU of a daemon until it has searched @n processes more than the machine has."""
    with bench.Bench() as b:
        if n:
            b.spawn([tap.VICTIMS / "victim-crowd", n, 1]).wait_for("^ready", patience=180)
        daemon = starts.Daemon(b, program)
        time.sleep(bench.SETTLE_S)
        cpu_ns = daemon.cgroup.cpu_ns
        daemon.stop()
        return cpu_ns


def crowd(options):
    figures = {}
    for _ in range(options.rounds):
        for name, program in starts.programs(options):
            alone_ns = crowd_cpu_ns(program, 0)
            figures.setdefault(name, []).append(
                (crowd_cpu_ns(program, options.processes) - alone_ns) / 1e3 / options.processes)
    bench.table(f"{options.processes} processes at the start", ["build", "CPU µs a process"],
                [[name, bench.spread(values)] for name, values in figures.items()])


def guest(options):
    figures = {}
    for _ in range(options.rounds):
        for name, program in starts.programs(options):
            with bench.Bench() as b:
                child = b.spawn([sys.executable, "-c", GUEST, options.mib])
                child.wait_for("ready", patience=120)
                daemon, control = start(b, program)
                time.sleep(bench.SETTLE_S)
                before = counter(control, "spanprof_ring_scans_total", "complete")
                cpu_ms = daemon.cpu_ms(options.seconds)
                n = counter(control, "spanprof_ring_scans_total", "complete") - before
                os.kill(child.pid, signal.SIGUSR1)
                child.wait_for("published")
                begin = time.monotonic()
                tap.wait_until(lambda: counter(control, "spanprof_rings_total", "found"), "it is found", patience=120)
                found_s = time.monotonic() - begin
                daemon.stop()
                scale = 60 / options.seconds
                figures.setdefault(name, []).append((cpu_ms * scale, n * scale, found_s))
    bench.table(f"beside a program with {options.mib} MiB that maps all the time",
                ["build", "CPU ms a minute", "full searches a minute", "late ring found after s"],
                [[name, *map(bench.spread, zip(*values))] for name, values in figures.items()])


def start_compilers(b):
    """One on each CPU, which compiles C++ again and again."""
    source = b.directory() / "x.cc"
    source.write_text(SOURCE)
    for _ in os.sched_getaffinity(0):
        b.spawn(["sh", "-c", f"while :; do g++ -O2 -c -o /dev/null {source}; done"])


def compilers(options):
    figures = {}
    for _ in range(options.rounds):
        for name, program in starts.programs(options):
            with bench.Bench() as b:
                start_compilers(b)
                daemon, _ = start(b, program)
                time.sleep(bench.SETTLE_S)
                cpu_ms = daemon.cpu_ms(options.seconds)
                daemon.stop()
                figures.setdefault(name, []).append(cpu_ms / options.seconds * 60)
    bench.table("beside compilers", ["build", "CPU ms a minute"],
                [[name, bench.spread(values)] for name, values in figures.items()])


def add_options(parser):
    parser.add_argument("--seconds", type=float, default=30, help="of each build")
    parser.add_argument("--mib", type=int, default=1024, help="memory of the guest")
    parser.add_argument("--processes", type=int, default=1000, help="of the crowd")
    parser.add_argument("--old", help="another build")


if __name__ == "__main__":
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, Linux {os.uname().release}")
    bench.main(__doc__, {"crowd": crowd, "guest": guest, "compilers": compilers}, add_options)
