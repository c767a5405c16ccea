#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes on the wire for each form of requests: one daemon samples the example service and sends each window
to one receiver for each setting, so that all settings are of the same samples.

usage: bytes.py [SECONDS [INTERVAL]]    (as root; 31 and 15: two whole windows and two short ones)
       bytes.py floor                   what ids alone take, gzip'd: no form of a request can be below
       bytes.py again FILE…             stored requests (protobuf), packed again by this build: B an event
                                        before and after, with the ids that they have

Prints bytes of gzip'd requests an event, and what that is in GB a day for hosts of 8 and 64 cores that are
busy all the time, at 99 Hz. The example gives nearly each of its samples a span of its own, so what links
cost is at its highest here; the first line says how many events there are for each span and trace."""
import collections
import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/harness"), str(ROOT / "tests/oracles")]

import otlp_read

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build"))
SPANPROF = pathlib.Path(os.environ.get("SPANPROF", BUILD / "spanprof"))
HZ = 99
SETTINGS = {
    "spans, times": {},
    "spans, times, names": {"symbols": "local"},
    "spans": {"timestamps": "off"},
    "trace, times": {"links": "trace"},
    "trace": {"links": "trace", "timestamps": "off"},
    "no links, times": {"links": "off"},
    "no links": {"links": "off", "timestamps": "off"},
    "backend pyroscope": {"backend": "pyroscope"},
    "pyroscope, links = trace": {"backend": "pyroscope", "links": "trace"},
    "pyroscope, links = off": {"backend": "pyroscope", "links": "off"},
    "backend parca": {"backend": "parca"},
}


def configuration(url):
    lines = []
    for number, settings in enumerate(SETTINGS.values()):
        lines += [f"[export {number}]", f"endpoint = {url}"]
        lines += [f"{key} = {value}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


def start(*command, **options):
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, **options)


def wait_for_url(receiver):
    said = []
    for line in receiver.stdout:
        said.append(line)
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found:
            return found[0]
    sys.exit(f"bytes.py: `spanprof receive` did not start: {''.join(said)}")


def ids(directory):
    """How many events had a span, and how many spans and traces these were: of the first setting's requests."""
    seen, n = collections.Counter(), 0
    spans, traces, profiles = set(), set(), set()
    for path in sorted(directory.glob("*.pb")):
        request = otlp_read.load(path)
        scopes = [scope for resource in request.resource_profiles for scope in resource.scope_profiles]
        known = {profile.profile_id for scope in scopes for profile in scope.profiles}
        samples = list(otlp_read.samples(path))
        if not any(sample.span_id for sample in samples) or known <= profiles:
            continue
        profiles |= known
        for sample in samples:
            if sample.span_id:
                n += 1
                spans.add(sample.span_id)
                traces.add(sample.trace_id)
    return n / max(len(spans), 1), n / max(len(traces), 1)


def run(seconds, interval, directory):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "SPANPROF_"))}
    out, summary, config = directory / "out", directory / "summary.json", directory / "bytes.conf"
    receiver = start(SPANPROF, "receive", "--port", "0", "-o", out, env=environment)
    service = start(BUILD / "sdk/example/example-service", env=environment)
    try:
        config.write_text(configuration(wait_for_url(receiver)))
        done = subprocess.run([str(SPANPROF), "run", "--config", str(config), "--pid", str(service.pid),
                               "--frequency", str(HZ), "--duration", f"{seconds}s", "--export-interval",
                               f"{interval}s", "--summary", str(summary)],
                              env=environment, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            sys.exit(f"bytes.py: spanprof run failed:\n{done.stderr}")
    finally:
        for child in (service, receiver):
            child.send_signal(signal.SIGTERM)
            child.wait()
    return json.loads(summary.read_text())["exports"], ids(out)


def framed(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def floor(n=2000):
    """Bytes an event of rows of a dictionary with random ids, and of nothing but the ids."""
    ids = [(os.urandom(16), os.urandom(8)) for _ in range(n)]
    rows = {
        "trace and span ids alone": b"".join(trace + span for trace, span in ids),
        "links with them": b"".join(framed(4, framed(1, trace) + framed(2, span)) for trace, span in ids),
        "links, four spans a trace, in order":
            b"".join(framed(4, framed(1, ids[i // 4][0]) + framed(2, ids[i][1])) for i in range(n)),
        "trace ids alone": b"".join(trace for trace, _ in ids),
        "attributes with a trace id in hex":
            b"".join(framed(6, b"\x08\x05" + framed(2, framed(1, trace.hex().encode()))) for trace, _ in ids),
        "attributes with a trace id as bytes":
            b"".join(framed(6, b"\x08\x05" + framed(2, framed(7, trace))) for trace, _ in ids),
    }
    for name, data in rows.items():
        print(f"{name}: {len(gzip.compress(data)) / n:.1f} B")


def again(files):
    """Bytes an event of requests as they are and as this build writes them, at the daemon's level of gzip."""
    n, before, after = 0, 0, 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        out = pathlib.Path(name) / "out.pb"
        for path in files:
            subprocess.run([str(SPANPROF), "convert", path, "-o", str(out)], check=True, stdout=subprocess.DEVNULL)
            n += sum(1 for _ in otlp_read.samples(path))
            if sum(1 for _ in otlp_read.samples(out)) != sum(1 for _ in otlp_read.samples(path)):
                sys.exit(f"bytes.py: {path}: events were lost")
            before += len(gzip.compress(pathlib.Path(path).read_bytes(), 5))
            after += len(gzip.compress(out.read_bytes(), 5))
    print(f"{n} events in {len(files)} requests: {before / n:.1f} B each, packed again {after / n:.1f}")


def main():
    if sys.argv[1:] == ["floor"]:
        floor()
        return
    if sys.argv[1:2] == ["again"]:
        again(sys.argv[2:])
        return
    seconds, interval = (int(word) for word in (sys.argv[1:] + ["31", "15"][len(sys.argv) - 1:]))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        exports, (per_span, per_trace) = run(seconds, interval, directory)
    print(f"{exports[0]['delivered']} events in {seconds} s, windows of {interval} s; {per_span:.2f} for each span, "
          f"{per_trace:.2f} for each trace\n")
    print("| setting | B an event | GB a day, 8 cores | GB a day, 64 cores |\n|---|---|---|---|")
    for name, export in zip(SETTINGS, exports, strict=True):
        if export["lost"] or not export["delivered"]:
            sys.exit(f"bytes.py: {name}: {export['delivered']} delivered, {export['lost']} lost")
        each = export["bytes"] / export["delivered"]
        day = [each * HZ * cores * 86400 / 1e9 for cores in (8, 64)]
        print(f"| {name} | {each:.1f} | {day[0]:.2f} | {day[1]:.1f} |")


main()
