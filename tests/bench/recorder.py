#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the flight recorder and the watch of builds cost beside the export alone, and how much memory a
minute of a recorder takes.

cost    Two CPUs are busy with stacks of 30 frames (victim-chain), of which a daemon exports 99 Hz. In
        turns it has no recorder, one at 99 Hz, which only packs and keeps, and one at --hz. Printed, as
        percent of one CPU: CPU of the daemon's control group; run time of its BPF programs
        (kernel.bpf_stats_enabled), which ticks take from the programs that they meet; what a recorder adds to
        both, beside none in that round.
watch   The same for a daemon that watches builds, beside one that only names functions.
reach   Memory that a minute takes in the recorder, and how far 64 MiB reach then, for loads that differ:
        one busy stack on each CPU; four functions on each, with waits; threads with a trace and a stack of
        their own every 0.2 ms, which nothing packs; a program that rests most of the time. Beside it stands
        how many CPUs the load had: on a machine with other work it has less, and so do these figures.

usage: sudo tests/bench/recorder.py [--rounds N] [--seconds S] [--hz HZ] [cost|watch|reach …]
"""
import json
import os
import pathlib
import time

import bench
import tap

EXPORT_HZ, SETTLE_S, WINDOW_S, MIB = 99, 5, 15, 1 << 20

STATISTICS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")


def chains(b):
    return [b.victim("chain", 30, cpu=cpu) for cpu in sorted(os.sched_getaffinity(0))]


def shares(b):
    return [b.victim("shares", cpu=cpu) for cpu in sorted(os.sched_getaffinity(0))]


def crowd(b):
    return [b.victim("traces", "crowd", 2)]


def resting(b):
    os.environ["VICTIM_RESTS"] = "1"
    try:
        return [b.victim("chain", 30)]
    finally:
        del os.environ["VICTIM_RESTS"]


class Daemon:
    def __init__(self, b, victims, *options):
        self.cgroup, self.control = b.cgroup("spanprof"), b.directory() / "control"
        _, environment = b.receiver()
        pids = ",".join(str(victim.pid) for victim in victims)
        self.child = b.spawn([tap.SPANPROF, "run", "-p", pids, "-F", EXPORT_HZ, "--control", self.control, *options],
                             cgroup=self.cgroup, env=environment)
        self.child.wait_for("profiles go to")

    def settled(self):
        """Once rows and names are there, and a first window has gone out."""
        tap.wait_until(lambda: (now := self.status())["delivered"] and now["age_seconds"] > SETTLE_S, "the first window")

    def status(self):
        done = bench.run([tap.SPANPROF, "status", "--json", "--control", self.control])
        return json.loads(done.stdout) if done.returncode == 0 else {"delivered": 0}

    def figures(self):
        return time.monotonic_ns(), self.cgroup.cpu_ns, self.cgroup.bpf_ns


def measure(options, *more):
    """Percent of one CPU: (control group, BPF)."""
    with bench.Bench() as b:
        daemon = Daemon(b, chains(b), *more)
        daemon.settled()
        before = daemon.figures()
        time.sleep(options.seconds)
        wall, cpu, bpf = (now - then for now, then in zip(daemon.figures(), before))
        daemon.child.stop()
    return 100 * cpu / wall, 100 * bpf / wall


def compare(options, head, forms):
    """A row for each form; the first one is what the others are compared with."""
    values = {name: [] for name in forms}
    was = STATISTICS.read_text()
    STATISTICS.write_text("1")
    try:
        for _ in range(options.rounds):
            for name, more in forms.items():
                values[name].append(measure(options, *more))
    finally:
        STATISTICS.write_text(was)
    base = next(iter(values.values()))
    rows = []
    for name, found in values.items():
        both = [sum(value) for value in found]
        rows.append([name, bench.spread(cpu for cpu, _ in found), bench.spread(bpf for _, bpf in found),
                     bench.spread(mine - sum(other) for mine, other in zip(both, base)),
                     bench.spread(mine / sum(other) for mine, other in zip(both, base))])
    bench.table(f"Percent of one CPU; two busy CPUs, {options.seconds} s, {options.rounds} rounds in turns",
                [head, "user side", "BPF", "more than none", "of none"], rows)


def cost(options):
    compare(options, "recorder", {"none": ()} | {
        f"{hz} Hz": ("--recorder", "10m", "--recorder-frequency", hz) for hz in (EXPORT_HZ, options.hz)})


def watch(options):
    names = "--symbols", "local"
    compare(options, "watch of builds", {"none": names, "30 min": (*names, "--watch-builds", "30m")})


def cpu_s(victims):
    stats = (pathlib.Path(f"/proc/{victim.pid}/stat").read_text() for victim in victims)
    return sum(int(n) for stat in stats for n in stat.rsplit(")")[1].split()[11:13]) / os.sysconf("SC_CLK_TCK")


def grown(options, load, *more):
    """MiB a minute, and CPUs that the load had meanwhile."""
    with bench.Bench() as b:
        victims = load(b)
        daemon = Daemon(b, victims, "--recorder", "10m", "--recorder-frequency", options.hz, *more)
        daemon.settled()
        first = recorder = daemon.status()["recorder"]
        begin, used = time.monotonic(), cpu_s(victims)
        n = first["windows"] + max(1, options.seconds // WINDOW_S)
        while recorder["windows"] < n:
            time.sleep(0.2)
            recorder = daemon.status()["recorder"]
        n_cpus = (cpu_s(victims) - used) / (time.monotonic() - begin)
        return (recorder["bytes"] - first["bytes"]) / MIB / (n - first["windows"]) * 60 / WINDOW_S, n_cpus


def reach(options):
    loads = {"a stack on each CPU": (chains,), "four functions on each CPU, with waits": (shares, "--off-cpu"),
             "a trace and a stack each 0.2 ms": (crowd,), "one program that rests": (resting,)}
    rows = []
    for name, (load, *more) in loads.items():
        found = [grown(options, load, *more) for _ in range(options.rounds)]
        rows.append([name, bench.spread(n_cpus for _, n_cpus in found),
                     bench.spread(value for value, _ in found),
                     bench.spread(64 / value for value, _ in found if value > 0)])
    bench.table(f"Memory of the recorder at {options.hz} Hz, {len(os.sched_getaffinity(0))} CPUs",
                ["load", "CPUs that it had", "MiB a minute", "64 MiB reach back, minutes"], rows)


def add_options(parser):
    parser.add_argument("--seconds", type=int, default=60, help="of each run")
    parser.add_argument("--hz", type=int, default=999, help="of the recorder")


if __name__ == "__main__":
    bench.main(__doc__, {"cost": cost, "watch": watch, "reach": reach}, add_options)
