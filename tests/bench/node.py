#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Node.js: what the kernel half takes a sample of JavaScript and a span of the SDK, and what names take.

usage: tests/bench/node.py [--node PATH]… [--seconds S] [--rounds N] [PART…]

    kernel  chains of 40 and of 160 functions, which differ in nothing else, interpreted and optimised without
            inlining: a sample, and a frame, by the kernel's statistics (kernel.bpf_stats_enabled)
    names   a program of 20,000 functions that run one after the other: CPU time of the worker and of the
            daemon for each frame that was asked for
    spans   a sample with a span of OpenTelemetry's SDK out of Node's own context, and without: turns of a second
            in one run, in which the bench takes the place of spans out of the daemon's map, and puts it back.
            Needs bpftool and the publisher otel-node

Releases come from npm (tests/harness/machines/nodes.py). Needs root.
"""
import os
import pathlib
import signal
import statistics
import time

import bench
import oracle

oracle.enter()

import cpython
import nodes
import otlp_read
import prometheus
import runtimes
import tap

DEPTHS = (40, 160)
HZ = 1999
CHAIN = """'use strict';
function burn(n) { let s = n; for (let i = 0; i < 20000; i++) s = (s * 31 + i) | 0; return s; }
function down(n) { return n > 1 ? down(n - 1) + 1 : burn(n); }
console.log('ready');
for (;;) down(Number(process.argv[2]));
"""
TIERS = {"interpreted": ["--no-opt", "--no-sparkplug", "--no-maglev"], "optimised": ["--no-turbo-inlining",
                                                                                     "--no-maglev-inlining"]}
FUNCTIONS = 20000
MANY = """'use strict';
let text = '';
for (let i = 0; i < %d; i++)
    text += `function f${i}(n) {\\n    let s = n;\\n    for (let i = 0; i < 3000; i++)\\n        s = (s * 31 + i) | 0;\\n    return s;\\n}\\n`;
require('fs').writeFileSync(process.argv[2], text + `module.exports = [${Array.from({ length: %d }, (_, i) => 'f' + i)}];`);
const all = require(process.argv[2]);
console.log('ready');
let n = 0;
for (;;)
    for (const one of all)
        n = one(n);
""" % (FUNCTIONS, FUNCTIONS)
WITH_SPAN = """'use strict';
const { trace } = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
new NodeTracerProvider().register();
trace.getTracer('bench').startActiveSpan('outer', () => {
    console.log('ready');
    for (let s = 1;;) s = (s * 31 + 7) | 0;
});
"""
ENTRY_NAME, SPANS_SIZE = "v8_processes", 24     # bytes of struct v8_spans, the last part of a process's entry


def all_nodes(options):
    found = options.node or filter(None, map(nodes.fetched, nodes.RELEASES[-2:]))
    return {".".join(map(str, nodes.version_of(node))): node for node in found}


def program(b, text):
    path = b.directory() / "program.js"
    path.write_text(text)
    return path


def counted(samples, pid):
    """(samples, frames of JavaScript in them) of the main thread."""
    mine = [s for s in samples if s.thread_id == pid]
    return sum(s.value for s in mine), sum(s.value * sum(f.type == "v8js" for f in s.frames) for s in mine)


def spent(b, options, command, ready="ready", hz=HZ, count=counted):
    """(ns a sample, frames a sample) of those that @count counts of all samples and a process."""
    child = b.spawn(command)
    child.wait_for(ready)
    payload, environment = b.receiver()
    daemon = b.spawn([tap.SPANPROF, "run", "--pid", child.pid, "-F", hz, "--depth", "1024", "--export-interval", "1s"],
                     env=environment)
    daemon.wait_for("profiles go to")

    def samples():
        return [s for path in payload.glob("*.pb") for s in otlp_read.samples(path)]

    tap.wait_until(lambda: count(samples(), child.pid)[0], "names", 120)
    time.sleep(options.settle)
    os.kill(child.pid, signal.SIGSTOP)          # what a tick of another process takes
    begin = cpython.program_times(daemon.pid)
    time.sleep(1)
    ns, runs = taken(begin, cpython.program_times(daemon.pid))
    stranger = ns / runs
    os.kill(child.pid, signal.SIGCONT)
    begin, begin_ns = cpython.program_times(daemon.pid), time.time_ns()
    time.sleep(options.seconds)
    (ns, runs), end_ns = taken(begin, cpython.program_times(daemon.pid)), time.time_ns()
    daemon.stop()
    n, frames = count([s for s in samples() if begin_ns <= s.time_ns < end_ns], child.pid)
    return (ns - max(0, runs - n) * stranger) / n, frames / n


def taken(begin, end):
    return [sum(end[key][i] - begin[key][i] for key in begin if key in end) for i in (0, 1)]


def kernel(options):
    old, rows = cpython.STATISTICS.read_text(), []
    cpython.STATISTICS.write_text("1")
    try:
        for release, node in all_nodes(options).items():
            for tier, flags in TIERS.items():
                found = {}
                for depth in DEPTHS:
                    for _ in range(options.rounds):
                        with bench.Bench() as b:
                            one = spent(b, options, [node, *flags, program(b, CHAIN), depth])
                        found[depth] = min(found.get(depth, one), one)
                (low, few), (high, many) = (found[depth] for depth in DEPTHS)
                rows.append([release, tier, f"{few:.1f}", f"{low / 1000:.2f}", f"{many:.1f}", f"{high / 1000:.2f}",
                             f"{(high - low) / (many - few):.0f}"])
                print("#", *rows[-1], flush=True)
    finally:
        cpython.STATISTICS.write_text(old)
    bench.table(f"Kernel half at {HZ} Hz, lowest of {options.rounds}",
                ["Node", "code", "frames", "µs a sample", "frames", "µs a sample", "ns a frame"], rows)


def cpu_of_workers(daemon):
    """ns of processes that read memory for the daemon."""
    found = {}
    for pid in runtimes.workers_of(daemon.pid):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text() == "spanprof-parser\n":
                found[pid] = int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])
        except OSError:
            continue
    return found


def asked(url):
    return sum(value(url, "spanprof_runtime_frames_total", result=word) for word in ("named", "short", "unnamed"))


def names(options):
    rows = []
    for release, node in all_nodes(options).items():
        with bench.Bench() as b:
            child = b.spawn([node, program(b, MANY), b.directory() / "many.js"])
            child.wait_for("ready")
            _, environment = b.receiver()
            daemon = b.spawn([tap.SPANPROF, "run", "--pid", child.pid, "-F", HZ, "--export-interval", "1s",
                              "--metrics", "127.0.0.1:0"], env=environment)
            url = daemon.wait_for(r"metrics are at (http://\S+)")[1]
            tap.wait_until(lambda: asked(url) > 100, "names", 120)
            time.sleep(options.settle)          # the worker has searched the file for V8's table of sizes
            begin, workers = asked(url), cpu_of_workers(daemon)
            naming = value(url, "spanprof_stage_seconds_total", stage="naming")
            spent_ns = -sum(workers.values())
            end = time.monotonic() + options.seconds
            while time.monotonic() < end:
                time.sleep(0.2)
                workers.update(cpu_of_workers(daemon))
            n, spent_ns = asked(url) - begin, spent_ns + sum(workers.values())
            naming = value(url, "spanprof_stage_seconds_total", stage="naming") - naming
            daemon.stop()
            rows.append([release, f"{n:.0f}", f"{spent_ns / n / 1000:.1f}", f"{naming * 1e6 / n:.1f}"])
    bench.table(f"{FUNCTIONS} functions at {HZ} Hz", ["Node", "frames asked for", "worker, µs a frame",
                                                      "worker and daemon, µs a frame"], rows)


def spans(options):
    old, rows = cpython.STATISTICS.read_text(), []
    cpython.STATISTICS.write_text("1")
    try:
        for release, node in all_nodes(options).items():
            with bench.Bench() as b:
                rows += [[release, *row] for row in turns_of(b, options, node)]
    finally:
        cpython.STATISTICS.write_text(old)
    bench.table("A sample of Node.js at 3,999 Hz", ["Node", "way to the span", "turns", "lowest, ns", "median, ns"], rows)


def turns_of(b, options, node):
    modules = tap.BUILD_DIR / "publishers/otel-node/node_modules"
    child = b.spawn([node, program(b, WITH_SPAN)], env={**os.environ, "NODE_PATH": str(modules)})
    child.wait_for("ready")
    _, environment = b.receiver()
    daemon = b.spawn(["nice", "-n", "-10", tap.SPANPROF, "run", "--pid", child.pid, "-F", "3999", "--export-interval",
                      "1s", "--metrics", "127.0.0.1:0"], env=environment)
    url = daemon.wait_for(r"metrics are at (http://\S+)")[1]
    tap.wait_until(lambda: value(url, "spanprof_sdk_spans_total", result="read"), "spans", 60)
    time.sleep(options.settle)
    entry = cpython.Entry(daemon, child.pid, ENTRY_NAME, SPANS_SIZE)
    os.kill(child.pid, signal.SIGSTOP)
    ns, runs, _ = turn(daemon, url)
    stranger, found = ns / runs, {True: [], False: []}
    os.kill(child.pid, signal.SIGCONT)
    for i in range(2 * options.rounds):
        entry.set(with_span=i % 2 == 0)
        ns, runs, n = turn(daemon, url)
        if n > 100:
            found[i % 2 == 0].append((ns - (runs - n) * stranger) / n)
    daemon.stop()
    return [[name, len(found[key]), f"{min(found[key]):.0f}", f"{statistics.median(found[key]):.0f}"]
            for name, key in (("with", True), ("without", False))]


def value(url, name, **labels):
    return prometheus.value(prometheus.parse(bench.run(["curl", "-s", url]).stdout), name, **labels)


def turn(daemon, url):
    """(ns, runs, samples of the target) of a second."""
    begin, n = cpython.program_times(daemon.pid), value(url, "spanprof_ticks_total")
    time.sleep(1)
    return *taken(begin, cpython.program_times(daemon.pid)), value(url, "spanprof_ticks_total") - n


def add_options(parser):
    parser.add_argument("--node", action="append", default=[], help="a program (default: npm's two newest releases)")
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement")
    parser.add_argument("--settle", type=float, default=3, help="seconds until rows and names are there")


if __name__ == "__main__":
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, Linux {os.uname().release}")
    bench.main(__doc__, {"kernel": kernel, "names": names, "spans": spans}, add_options)
