#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Labels of goroutines: what they cost a sample in the kernel half.

usage: tests/bench/golabels.py [--seconds N] [--rounds N] [--alone] [labels] [none] [stranger]

    labels     goroutines that have labels (tests/victims/go/VictimGoLabels.go: a span and a tenant)
    none       goroutines without any (VictimGoChain.go): the goroutine's id alone
    stranger   a program that is not Go's (victim-omit)

Two daemons sample the same program at the same time, one with --runtimes=go and one with --runtimes=off, each
with timers of its own. Their BPF programs' run time is the kernel's (kernel.bpf_stats_enabled). It is divided
by the program's own CPU time and the rate: its samples. Who is no target costs both the same. The median of the rounds' differences counts.
With --alone the program has one CPU before all others (SCHED_FIFO): on a busy machine nothing else tells.
SPANPROF names the build (default: ./build). Needs root.
"""
import os
import statistics
import subprocess
import time

import bench
import headline
import tap

import golang
import session

HZ = 1999
SETTLE_S = 4                    # until the process is known, and the walk with runtimes is loaded


def start_go(b, source, *more):
    directory = b.directory()
    program = golang.Go().build(tap.SOURCE_DIR / "tests/victims/go" / source, directory / "victim",
                                more=[tap.SOURCE_DIR / "tests/victims/go" / name for name in more])
    child = b.spawn([program, *(["4"] if more else [])], stdin=subprocess.PIPE,
                    env={**os.environ, "GOMAXPROCS": str(os.cpu_count())})
    child.wait_for("ready")
    return child


VICTIMS = {"labels": lambda b: start_go(b, "VictimGoLabels.go", "VictimGoSpin.go"),
           "none": lambda b: start_go(b, "VictimGoChain.go"),
           "stranger": lambda b: b.victim("omit", "depth", 30, ready="^frames")}


def alone(pid):
    """Gives the program one CPU, before all others."""
    cpu = max(os.sched_getaffinity(0))
    for task in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(task), {cpu})
        os.sched_setscheduler(int(task), os.SCHED_FIFO, os.sched_param(1))


class Daemon:
    def __init__(self, b, runtimes, pid):
        self.cgroup = b.cgroup(runtimes)
        _, environment = b.receiver()
        self.child = b.spawn([tap.SPANPROF, "run", "--pid", pid, "-F", HZ, f"--runtimes={runtimes}"],
                             cgroup=self.cgroup, env=environment)
        self.child.wait_for("profiles go to")
        self.ns = 0

    def begin(self):
        self.ns = headline.bpf_ns(self.cgroup)

    def end(self):
        return headline.bpf_ns(self.cgroup) - self.ns


def one_round(b, name, is_odd, options):
    """(ns a sample off, on, samples)"""
    child = VICTIMS[name](b)
    pid = child.process.pid
    daemons = {runtimes: Daemon(b, runtimes, pid) for runtimes in (("off", "go") if is_odd else ("go", "off"))}
    time.sleep(SETTLE_S)
    if options.alone:
        alone(pid)
    begin = session.cpu_ns(pid)
    for daemon in daemons.values():
        daemon.begin()
    time.sleep(options.seconds)
    found = {runtimes: daemon.end() for runtimes, daemon in daemons.items()}
    n = (session.cpu_ns(pid) - begin) * HZ / 1e9
    child.kill()
    return found["off"] / max(1, n), found["go"] / max(1, n), n


def part(options, name):
    rows = []
    for i in range(options.rounds):
        with bench.Bench() as b:
            off, on, n = one_round(b, name, i % 2, options)
        rows.append((off, on, on - off, n))
    bench.table(f"{name}: median of {options.rounds} rounds",
                ["off, ns a sample", "on", "more", "lowest and highest", "samples"],
                [[*(f"{statistics.median(row[i] for row in rows):.0f}" for i in range(3)),
                  f"{min(row[2] for row in rows):.0f} … {max(row[2] for row in rows):.0f}",
                  f"{sum(row[3] for row in rows):.0f}"]])


def add_options(parser):
    parser.add_argument("--seconds", type=float, default=20, help="of each round")
    parser.add_argument("--alone", action="store_true", help="the program has a CPU of its own")


if __name__ == "__main__":
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, Linux {os.uname().release}")
    was_on = headline.STATISTICS.read_text()
    bench.need_root()
    headline.STATISTICS.write_text("1")
    try:
        bench.main(__doc__, {name: lambda options, name=name: part(options, name) for name in VICTIMS},
                   add_options)
    finally:
        headline.STATISTICS.write_text(was_on)
