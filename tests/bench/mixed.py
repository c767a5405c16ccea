#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A long run of mixed load, of which receivers refuse nothing: each request is counted, and the servers are
asked what they have.

usage: mixed.py [MINUTES]       (as root; 60)

One daemon sends, each window, to a Collector with a file exporter and to a Pyroscope (docs/HACKING.md), where
they are there; else to `spanprof receive`. It samples a service with spans, coroutines with their suspended
time, waits (--off-cpu), and a Python. Every half minute the recordings of tests/data are converted, their
times moved to now, and sent to each. Prints
what was delivered and lost by receiver, every ten minutes and at the end, and how many series Pyroscope has
for each service and type; status 1 if anything was lost, refused or dropped."""

import oracle

oracle.enter()

import collections
import contextlib
import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import otlp_read

import bench
import collector
import pyroscope
import tap

DATA = tap.SOURCE_DIR / "tests/data"
RECORDINGS = ("async-profiler", "datadog", "kinds", "ways")
EVERY_S = 30
TELL_S = 600


def receivers(b):
    """{backend: [url, dropped]}, and the Pyroscope."""
    found, server = {}, None
    if collector.is_there():
        running = collector.Collector(b)
        found["otlp"] = [running.url, running.dropped]
    with contextlib.suppress(tap.unittest.SkipTest):
        server = pyroscope.Pyroscope()
        b.callback(server.close)
        server.wait_ready()
        found["pyroscope"] = [server.url, list]
    if not found:
        child = b.spawn([tap.SPANPROF, "receive", "--port", "0", "-o", b.directory() / "store"])
        found["otlp"] = [child.wait_for(r"listening on (http://[^,]+),").group(1), list]
    return found, server


def load(b):
    """Pids of programs that last, beside coroutines that come and go."""
    def start(argv, service):
        return b.spawn(argv, env=dict(os.environ, OTEL_SERVICE_NAME=service), stdout=subprocess.DEVNULL)

    busy = "import zlib,time\nwhile 1: zlib.crc32(b'x' * 99999); time.sleep(0.001)"
    again = f"while :; do {tap.BUILD_DIR / 'sdk/example/example-coroutines'} 5000; done"
    start(["sh", "-c", again], "coroutines")
    children = [start([tap.BUILD_DIR / "sdk/example/example-service"], "shop"),
                start([sys.executable, "-c", busy], "python")]
    return [str(child.pid) for child in children]


def young(b, name):
    """A conversion of a recording as if it ended just now, with ids of its own."""
    path = b.directory() / f"{name}.jfr"
    path.write_bytes(gzip.decompress((DATA / f"{name}.jfr.gz").read_bytes()))
    out = path.with_suffix(".pb")
    subprocess.run([tap.SPANPROF, "convert", path, "-o", out], check=True, capture_output=True)
    request = otlp_read.load(out)
    profiles = [profile for part in request.resource_profiles for scope in part.scope_profiles
                for profile in scope.profiles]
    shift = time.time_ns() - max(profile.time_unix_nano + profile.duration_nano for profile in profiles)
    for profile in profiles:
        profile.time_unix_nano += shift
        profile.profile_id = os.urandom(16)
        for sample in profile.samples:
            sample.timestamps_unix_nano[:] = [at + shift for at in sample.timestamps_unix_nano]
    out.write_bytes(request.SerializeToString())
    return out


def send_recordings(found, counts):
    with bench.Bench() as b:
        for name in RECORDINGS:
            path = young(b, name)
            for backend, (url, _) in found.items():
                done = subprocess.run([tap.SPANPROF, "convert", path, "--endpoint", url, "--backend", backend,
                                       "--resource", f"service.name=recorded-{name}"], capture_output=True,
                                      text=True, check=False)
                counts[backend, done.returncode] += 1
                if done.returncode:
                    print(f"{backend}: {name}: {done.stderr.strip()}", flush=True)


def configuration(found):
    return "".join(f"[export {backend}]\nendpoint = {url}\nbackend = {backend}\n"
                   for backend, (url, _) in found.items())


def tell_state(control, begin, recordings):
    done = subprocess.run([tap.SPANPROF, "status", "--json", "--control", control], capture_output=True, text=True,
                          check=False)
    state = json.loads(done.stdout) if done.returncode == 0 else {}
    print(f"{(time.monotonic() - begin) / 60:.0f} minutes: {dict(recordings)} recordings by receiver and status; "
          f"{state.get('receivers')}", flush=True)


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    recordings, bad = collections.Counter(), False
    with bench.Bench() as b:
        found, server = receivers(b)
        directory = b.directory()
        config, summary, control = directory / "mixed.conf", directory / "summary.json", directory / "control"
        config.write_text(configuration(found))
        child = b.spawn([tap.SPANPROF, "run", "--config", config, "--pid", ",".join(load(b)), "--comm",
                         "example-corout*", "--off-cpu", "--stop-timeout", "30s", "--summary", summary,
                         "--control", control])
        begin = told_at = time.monotonic()
        end = begin + 60 * minutes
        while time.monotonic() < end and child.status is None:
            send_recordings(found, recordings)
            if time.monotonic() >= told_at + TELL_S:
                told_at += TELL_S
                tell_state(control, begin, recordings)
            time.sleep(max(0, min(EVERY_S, end - time.monotonic())))
        status = child.stop()
        if status or not summary.exists():
            sys.exit(f"mixed.py: {child}")
        told = json.loads(summary.read_text())
        print(f"{minutes:g} minutes: {told['delivered']} delivered, "
              f"lost: {told['lost_by_reason']}")
        print("| receiver | delivered | lost | recordings sent | refused | dropped further on |")
        print("|---|---|---|---|---|---|")
        for (backend, (_, dropped)), export in zip(found.items(), told["exports"], strict=True):
            refused = sum(n for (name, code), n in recordings.items() if name == backend and code)
            print(f"| {backend} | {export['delivered']} | {export['lost']} | {recordings[backend, 0]} "
                  f"| {refused} | {len(dropped())} |")
            bad |= bool(export["lost"] or refused or dropped())
        if bad:
            print(child)
        if server:
            series = collections.Counter((labels.get("service_name"), labels["__profile_type__"])
                                         for labels in server.series())
            services = {service for service, _ in series}
            print(f"Pyroscope has {sum(series.values())} series of {len(services)} services; at most "
                  f"{max(series.values())} for a service and type")
    return bad


sys.exit(main())
