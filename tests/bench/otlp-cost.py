#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What requests cost behind the encoder, beside the Go codec of a real collector on the same bytes:
validator, JSON, gzip, spool, throughput to that collector, the memory of an exporter whose receiver is away
for an hour, and what a window costs in each spool mode.

usage: otlp-cost.py BUILD-DIRECTORY          (ninja encode-cost otlp-cost export-driver fault-at;
                                             setup-collector.sh first)
"""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("harness", "oracles")]
import fault_server
import real_server

BUILD = pathlib.Path(sys.argv[1]).resolve()
N_SAMPLES = 100000
DRIVER = BUILD / "tests/harness/export-driver"
CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{file: {{path: {path}}}}}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: warn}}}}
  pipelines: {{profiles: {{receivers: [otlp], exporters: [file]}}}}
"""


def values(*argv, environment=None):
    environment = {
        **{k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}, **(environment or {})
    }
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True, env=environment)
    return {name: int(value) for name, value in re.findall(r"^(\S+) (\d+)$", done.stdout, re.M)}


def codecs(requests, spool):
    print(
        "| distinct stacks | request MB | decode MB/s | validate MB/s | JSON MB/s | gzip MB/s | spool write ms | Go unmarshal, marshal ns a sample |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for path in requests:
        ours, go = values(BUILD / "tests/bench/otlp-cost", path,
                          spool), values(BUILD / "collector", "bench", path)
        speed = [
            f"{ours['bytes'] * 1000 / ours[name + '_ns']:.0f}"
            for name in ("decode", "validate", "json", "gzip")
        ]
        print(
            f"| {int(path.stem):,} | {ours['bytes'] / 1e6:.2f} | {' | '.join(speed)} | {ours['spool_ns'] / 1e6:.1f} | "
            f"{go['unmarshal_ns'] / N_SAMPLES:.0f}, {go['marshal_ns'] / N_SAMPLES:.0f} |")


def throughput(request, directory):
    port, = real_server.free_ports(1)
    (directory / "c.yaml").write_text(CONFIG.format(port=port, path=directory / "out.json"))
    collector = subprocess.Popen([
        BUILD / "collector", "--config", f"file:{directory}/c.yaml", "--feature-gates=service.profilesSupport"
    ], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        n, url = 20, f"http://127.0.0.1:{port}/v1development/profiles"
        print("\n| to the collector, 20 requests | MB/s before compression | samples/s |\n|--|--:|--:|")
        for name, options in (("protobuf, gzip", []), ("protobuf", ["--gzip",
                                                                    0]), ("JSON, gzip", ["--json", 1])):
            got = values(DRIVER, url, "--file", request, "--batches", n, "--events", N_SAMPLES,
                         "--queue-bytes", 1 << 30, "--timeout-ms", 60000, *options)
            assert got["samples_delivered_total{}"] == n * N_SAMPLES, got
            size = n * request.stat().st_size
            print(f"| {name} | {size / got['took_us']:.1f} | {n * N_SAMPLES / got['took_us'] * 1e6:,.0f} |")
    finally:
        collector.terminate()
        collector.wait()


def away(request, directory):
    """An hour is 240 windows of 15 s; here one every 10 ms."""
    print(
        "\n| receiver away for 240 windows | RssAnon before, KiB | after, KiB | peak RSS, KiB |\n|--|--:|--:|--:|"
    )
    for name, options in (("queue of 8 MiB", []), ("with a spool", ["--spool", directory / "away"])):
        got = values(DRIVER, f"http://127.0.0.1:{real_server.free_ports(1)[0]}/x", "--file", request, "--batches", 240,
                     "--interval-ms", 10, "--queue-bytes", 8 << 20, "--run-ms", 2600, "--stop-ms", 100,
                     *options)
        print(
            f"| {name} | {got['start_RssAnon_kib']:,} | {got['end_RssAnon_kib']:,} | {got['end_VmHWM_kib']:,} |"
        )


def spool_modes(directory):
    """A healthy receiver that is a few ms away: what each window costs to be safe. The calls are counted in a run of their own."""
    fault = BUILD / "tests/harness/libfault-at.so"
    print(
        "\n| windows of | spool | CPU ms a window | dirtied KiB a window | of it removed in time | flushes a window |\n|--|--|--:|--:|--:|--:|"
    )
    for request in sorted(directory.glob("*.pb"))[:2]:
        for name, options in (("none", []), ("failed", [2]), ("ahead", [0]), ("flush", [1])):
            server = fault_server.Server([fault_server.slow(0.005, fault_server.ok())])
            spool, log, n = directory / f"spool-{name}", directory / "calls", 20
            options = [] if name == "none" else ["--spool", spool, "--spool-mode", *options]
            argv = [
                DRIVER,
                server.url(), "--file", request, "--batches", n, "--interval-ms", 100, "--queue-bytes",
                1 << 26, "--drained", 1, *options
            ]
            got = min((values(*argv) for _ in range(3)), key=lambda g: g["cpu_us"])
            log.write_text("")
            values(*argv,
                   environment={"LD_PRELOAD": str(fault), "FAULT_DIR": str(spool), "FAULT_LOG": str(log)})
            flushes = sum(call in ("fdatasync", "fsync") for call in log.read_text().split())
            print(
                f"| {request.stat().st_size / 1e6:.2f} MB | {name} | {got['cpu_us'] / n / 1000:.2f} | {got['write_bytes'] / n / 1024:.0f} | "
                f"{got['cancelled_write_bytes'] / n / 1024:.0f} | {flushes / n:.1f} |")
            server.close()


def main():
    # a disk, not a tmpfs
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-", dir=BUILD) as name:
        directory = pathlib.Path(name)
        subprocess.run([BUILD / "tests/bench/encode-cost", "9", directory], check=True)
        requests = sorted(directory.glob("*.pb"))
        print()
        codecs(requests, directory / "spool")
        throughput(requests[1], directory)
        away(requests[1], directory)
        spool_modes(directory)


main()
