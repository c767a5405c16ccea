#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What requests cost behind the encoder, beside the Go codec of a real collector on the same bytes: validator, JSON, gzip, spool,
throughput to that collector, and the memory of an exporter whose receiver is away for an hour.

usage: otlp-cost.py BUILD-DIRECTORY          (ninja encode-cost otlp-cost export-driver; setup-collector.sh first)
"""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1]).resolve()
N_SAMPLES = 100000
DRIVER = BUILD / "tests/lib/export-driver"
CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{file: {{path: {path}}}}}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: warn}}}}
  pipelines: {{profiles: {{receivers: [otlp], exporters: [file]}}}}
"""


def values(*argv):
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True, env=environment)
    return {name: int(value) for name, value in re.findall(r"^(\S+) (\d+)$", done.stdout, re.M)}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def codecs(requests, spool):
    print("| distinct stacks | request MB | decode MB/s | validate MB/s | JSON MB/s | gzip MB/s | spool write ms | Go unmarshal, marshal ns a sample |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for path in requests:
        ours, go = values(BUILD / "tests/bench/otlp-cost", path, spool), values(BUILD / "collector", "bench", path)
        speed = [f"{ours['bytes'] * 1000 / ours[name + '_ns']:.0f}" for name in ("decode", "validate", "json", "gzip")]
        print(f"| {int(path.stem):,} | {ours['bytes'] / 1e6:.2f} | {' | '.join(speed)} | {ours['spool_ns'] / 1e6:.1f} | "
              f"{go['unmarshal_ns'] / N_SAMPLES:.0f}, {go['marshal_ns'] / N_SAMPLES:.0f} |")


def throughput(request, directory):
    port = free_port()
    (directory / "c.yaml").write_text(CONFIG.format(port=port, path=directory / "out.json"))
    collector = subprocess.Popen([BUILD / "collector", "--config", f"file:{directory}/c.yaml", "--feature-gates=service.profilesSupport"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        n, url = 20, f"http://127.0.0.1:{port}/v1development/profiles"
        print("\n| to the collector, 20 requests | MB/s before compression | samples/s |\n|--|--:|--:|")
        for name, options in (("protobuf, gzip", []), ("protobuf", ["--gzip", 0]), ("JSON, gzip", ["--json", 1])):
            got = values(DRIVER, url, "--file", request, "--batches", n, "--events", N_SAMPLES, "--queue-bytes", 1 << 30,
                         "--timeout-ms", 60000, *options)
            assert got["samples_delivered_total{}"] == n * N_SAMPLES, got
            size = n * request.stat().st_size
            print(f"| {name} | {size / got['took_us']:.1f} | {n * N_SAMPLES / got['took_us'] * 1e6:,.0f} |")
    finally:
        collector.terminate()
        collector.wait()


def away(request, directory):
    """An hour is 240 windows of 15 s; here one every 10 ms."""
    print("\n| receiver away for 240 windows | RssAnon before, KiB | after, KiB | peak RSS, KiB |\n|--|--:|--:|--:|")
    for name, options in (("queue of 8 MiB", []), ("with a spool", ["--spool", directory / "away"])):
        got = values(DRIVER, f"http://127.0.0.1:{free_port()}/x", "--file", request, "--batches", 240, "--interval-ms", 10,
                     "--queue-bytes", 8 << 20, "--run-ms", 2600, "--stop-ms", 100, *options)
        print(f"| {name} | {got['start_RssAnon_kib']:,} | {got['end_RssAnon_kib']:,} | {got['end_VmHWM_kib']:,} |")


def main():
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as name:
        directory = pathlib.Path(name)
        subprocess.run([BUILD / "tests/bench/encode-cost", "9", directory], check=True)
        requests = sorted(directory.glob("*.pb"))
        print()
        codecs(requests, directory / "spool")
        throughput(requests[1], directory)
        away(requests[1], directory)


main()
