#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole tools beside each other, in one run: spanprof, `perf record -g`, bcc's `profile`; when idle also
opentelemetry-ebpf-profiler, where --oep names its program (this Python then has grpcio, of PyPI).

usage: tests/bench/whole-tools.py [--seconds N] [--rounds N] [--oep PROGRAM]
                                  [cost] [idle] [start] [loss] [target]

    cost    CPU and peak memory of the tool's cgroup while two CPUs burn, per 10,000 samples
    idle    CPU per minute while the only target sleeps, or wakes up 50 times a second and does nothing
    start   exec of the tool → first sample; → first profile at the receiver
    loss    ticks taken and lost at 99, 999 and 4999 Hz on all CPUs
    target  throughput and p99 of a request service: absent, absent again (A/A), 99 Hz, 999 Hz; and a
            bystander

SPANPROF and BUILD_DIR name the build (default: ./build). Needs root. Rivals that are not installed are left
out.
Costs on the interrupt's side (BPF) are in bpf-cost, beside this file.
"""
import json
import os
import pathlib
import re
import time

import bench
import tap

PERF, BCC = bench.tool("perf"), bench.tool("profile-bpfcc")


def chains(b, depth=30):
    """One stack of known depth burning on each CPU."""
    return [b.victim("chain", depth, cpu=cpu) for cpu in sorted(os.sched_getaffinity(0))]


def pid_list(victims):
    return ",".join(str(v.pid) for v in victims)


class Spanprof:
    name = "spanprof"

    def __init__(self, b, pids, hz, seconds):
        self.cgroup = b.cgroup("spanprof")
        self.summary_path = b.directory() / "summary.json"
        self.directory, environment = b.receiver()
        self.start = time.monotonic()
        self.child = b.spawn(
            [tap.SPANPROF, "run", "-p", pids, "-F", hz, "-d", f"{seconds}s", "--summary", self.summary_path],
            cgroup=self.cgroup, env=environment)

    def finish(self):
        if self.child.wait(600):
            raise SystemExit(f"spanprof failed: {self.child}")
        self.summary = json.loads(self.summary_path.read_text())
        return self.summary["delivered"]


class Perf:
    name = "perf record -g"

    def __init__(self, b, pids, hz, seconds):
        self.cgroup = b.cgroup("perf")
        self.data = b.directory() / "perf.data"
        self.start = time.monotonic()
        self.child = b.spawn([
            PERF, "record", "-q", "-k", "CLOCK_MONOTONIC", "-e", "cpu-clock", "-F", hz, "-g", "-p", pids,
            "-o", self.data, "--", "sleep", seconds
        ], cgroup=self.cgroup)

    def finish(self):
        self.child.wait(600)
        stats = bench.run([PERF, "report", "--stats", "-i", self.data]).stdout
        self.lost = sum(int(n) for n in re.findall(r"LOST(?:_SAMPLES)? events:\s+(\d+)", stats))
        match = re.search(r"SAMPLE events:\s+(\d+)", stats)
        return int(match.group(1)) if match else 0


class Bcc:
    name = "bcc profile"

    def __init__(self, b, pids, hz, seconds):
        self.cgroup = b.cgroup("bcc")
        self.start = time.monotonic()
        self.child = b.spawn([BCC, "-F", hz, "-f", "-p", pids, seconds], cgroup=self.cgroup)

    def finish(self):
        if self.child.wait(600):
            return 0
        return sum(
            int(line.rsplit(" ", 1)[1]) for line in self.child.out.splitlines() if re.search(r" \d+$", line))


def tools():
    return [Spanprof] + [Perf] * bool(PERF) + [Bcc] * bool(BCC)


def cost(options):
    rows = []
    for hz in (99, 999):
        for make in tools():
            cpu, peak, samples = [], [], []
            for _ in range(options.rounds):
                with bench.Bench() as b:
                    t = make(b, pid_list(chains(b)), hz, options.seconds)
                    n = t.finish()
                    if not n:
                        continue
                    cpu.append(t.cgroup.cpu_ns / 1e6)
                    peak.append(t.cgroup.peak_bytes / 2**20)
                    samples.append(n)
            if samples:
                per = [c / n * 10000 for c, n in zip(cpu, samples)]
                rows.append([
                    make.name, hz,
                    bench.spread(samples),
                    bench.spread(cpu),
                    bench.spread(per),
                    bench.spread(peak)
                ])
            else:
                rows.append([make.name, hz, "did not run here", "", "", ""])
    bench.table(f"cost: {options.seconds} s of two busy CPUs, depth 30, start and stop included",
                ["tool", "Hz", "samples", "CPU ms", "CPU ms per 10,000 samples", "peak MiB"], rows)


def switches(pid):
    """How often its threads have gone to sleep so far."""
    texts = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)[1]) for text in texts)


def idle(options):
    rows = []
    makers = [Spanprof] + [Perf] * bool(PERF)
    if options.oep:             # it has no filter: it samples the whole machine, on which little else runs
        makers.append(lambda b, _pids, hz, _seconds: bench.Oep(b, options.oep, hz))
    for make in makers:
        for what, start in (("sleeps", lambda b: b.spawn(["sleep", "1000"])),
                            ("wakes up 50 times a second",
                             lambda b: b.victim("threads", 0, 1, ready=r"^pid (\d+) ready"))):
            values, wakes = [], []
            for _ in range(options.rounds):
                with bench.Bench() as b:
                    t = make(b, str(start(b).pid), 99, options.seconds + bench.SETTLE_S + 2)
                    time.sleep(bench.SETTLE_S)
                    before, n, begin = t.cgroup.cpu_ns, switches(t.child.pid), time.monotonic()
                    time.sleep(options.seconds)
                    length = time.monotonic() - begin
                    values.append((t.cgroup.cpu_ns - before) / 1e6 / length * 60)
                    wakes.append((switches(t.child.pid) - n) / length)
                    t.child.stop()
            rows.append([t.name, what, bench.spread(values), bench.spread(wakes)])
    bench.table("idle, 99 Hz", ["tool", "the only target", "CPU ms per minute", "wake-ups per second"], rows)


def first_stored(directory):
    files = sorted(directory.glob("*.pb"))
    return files[0].stat().st_mtime if files else None


def start(options):
    ours, delivered, perf = [], [], []
    for _ in range(options.rounds):
        with bench.Bench() as b:
            victims = chains(b)
            t = Spanprof(b, pid_list(victims), 99, 2)
            wall = time.time() - (time.monotonic() - t.start)
            t.finish()
            ours.append(t.summary["first_sample_ns"] / 1e6)
            delivered.append((first_stored(t.directory) - wall) * 1e3)
            if PERF:
                t = Perf(b, pid_list(victims), 99, 2)
                t.finish()
                times = bench.run([PERF, "script", "-F", "time", "-i", t.data]).stdout.split()
                perf.append((float(times[0].rstrip(":")) - t.start) * 1e3)
    rows = [["spanprof", "start of the daemon → first sample drained", bench.spread(ours)],
            ["spanprof", "exec → first profile stored by the receiver", bench.spread(delivered)]]
    if PERF:
        rows.append(["perf record", "exec → first sample (it delivers at the end)", bench.spread(perf)])
    bench.table("start: ms", ["tool", "what", "ms"], rows)


def loss(options):
    rows = []
    for hz in (99, 999, 4999):
        with bench.Bench() as b:
            victims = chains(b)
            t = Spanprof(b, pid_list(victims), hz, options.seconds)
            t.finish()
            s = t.summary
            rows.append([
                "spanprof", hz, s["ticks"], s["delivered"], s["lost"], f"{s['coverage_ratio']:.3f}",
                s["bpf_map_bytes"] >> 10
            ])
            if PERF:
                t = Perf(b, pid_list(victims), hz, options.seconds)
                n = t.finish()
                rows.append(["perf record -g", hz, "–", n, t.lost, "–", "–"])
    bench.table(f"loss: {options.seconds} s of two busy CPUs",
                ["tool", "Hz", "ticks", "delivered", "lost", "coverage", "BPF maps KiB"], rows)


def request_figures(b, seconds):
    victim = b.spawn([tap.VICTIMS / "victim-request", seconds])
    victim.wait(600)
    match = re.search(r"^total seconds ([\d.]+) requests (\d+) p50_ns (\d+) p99_ns (\d+)", victim.out, re.M)
    return int(match.group(2)) / float(match.group(1)), int(match.group(4)) / 1e3


def forker_figures(b, seconds):
    victim = b.spawn([tap.VICTIMS / "victim-forker", seconds])
    victim.wait(600)
    match = re.search(r"ns_per_fork (\d+) ns_per_map (\d+)", victim.out)
    return int(match.group(1)) / 1e3, int(match.group(2))


def under(b, hz, comm):
    """A daemon at @hz that profiles processes called @comm; None = no daemon."""
    if not hz:
        return None
    _, environment = b.receiver()
    child = b.spawn([tap.SPANPROF, "run", "-C", comm, "-F", hz], env=environment)
    child.wait_for(r"profiles go to")
    return child


def interleaved(measure, comm, options):
    """Rounds of absent, 99 Hz, 999 Hz, absent again, … back and forth, so that drift of the machine falls on all alike."""
    order = [("absent", 0), ("99 Hz", 99), ("999 Hz", 999), ("absent again", 0)]
    values = {name: [] for name, _ in order}
    for i in range(options.rounds):
        for name, hz in order if i % 2 == 0 else reversed(order):
            with bench.Bench() as b:
                daemon = under(b, hz, comm)
                values[name].append(measure(b, max(2, options.seconds // 2)))
                if daemon:
                    daemon.stop()
    return values


def rows_of(values, i):
    base = sorted(v[i] for v in values["absent"])[len(values["absent"]) // 2]
    return [[name,
             bench.spread(v[i] for v in vs), f"{sorted(v[i] for v in vs)[len(vs) // 2] / base:.3f}"]
            for name, vs in values.items()]


def target(options):
    values = interleaved(request_figures, "victim-request", options)
    bench.table("target: requests a second (a request is 50 µs of work)", ["spanprof", "requests/s", "ratio"],
                rows_of(values, 0))
    bench.table("target: p99 of a request, µs", ["spanprof", "p99 µs", "ratio"], rows_of(values, 1))
    values = interleaved(forker_figures, "nobody-has-this", options)
    bench.table("bystander: µs per fork of a process that is no target", ["spanprof", "µs", "ratio"],
                rows_of(values, 0))
    bench.table("bystander: ns per mmap + munmap", ["spanprof", "ns", "ratio"], rows_of(values, 1))


def add_options(parser):
    parser.add_argument("--seconds", type=int, default=10, help="length of one measurement")
    parser.add_argument("--oep", help="program of opentelemetry-ebpf-profiler")


def main():
    bench.main(__doc__, {part.__name__: part for part in (cost, idle, start, loss, target)}, add_options)


if __name__ == "__main__":
    main()
