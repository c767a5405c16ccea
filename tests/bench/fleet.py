#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many hosts into one receiver: CPU, memory, bytes and series of a Collector, of `spanprof receive`, of a Pyroscope.

usage: fleet.py [--hosts N] [--services N] [--seconds N] [--senders N] [--programs N]   (as root)
                [--only collector|receive|pyroscope|both]

One daemon samples --programs programs (5), one of which publishes spans, for one window (--seconds, 15), in
the general form and in that for Pyroscope. The window is then sent again for each of N hosts (200), with a
host, process ids, profile ids, trace and span ids of its own, its services shared among --services names
(20), by --senders connections (8). The receivers:

    collector       a real one with file exporters of protobuf and of JSON (setup-collector.sh)
    receive         flat and partitioned; and what reports of a service, and of one host of it, then take
    pyroscope       where there is one (docs/HACKING.md), in the form of its preset
    both            a Collector that sends on to a Pyroscope, with the service's name on samples


Of a Pyroscope it also says which part of the CPU time that was sent its graphs have. Memory is the most that
the receiver had resident, CPU time the kernel's. Both are of the receiver alone.
"""

import oracle

oracle.enter()

import argparse
import concurrent.futures
import contextlib
import gzip
import http.client
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import time
import urllib.parse

import otlp_read

import bench
import collector
import pyroscope
import tap

FORMS = {
    "otlp": {"backend": "otlp"}, "pyroscope": {"backend": "pyroscope"},
    "behind": {"backend": "pyroscope", "repeat-on-samples": "service.name"}
}
BUSY = "import hashlib\nwhile 1: hashlib.sha256(b'x' * 9999).hexdigest(); sum(i * i for i in range(999))"
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def size_mb(*paths):
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


# ---- one window of this machine ----

def configuration(urls):
    lines = []
    for name, settings in FORMS.items():
        lines += [f"[export {name}]", f"endpoint = {urls[name]}"]
        lines += [f"{key} = {value}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


def receiver(b, directory, *arguments):
    child = b.spawn([tap.SPANPROF, "receive", "--port", "0", "-o", directory, "--max-files", "1000000",
                     "--max-bytes", "16GiB", *arguments])
    return child, child.wait_for(r"listening on (http://[^,]+),").group(1)


def programs(b, n):
    """Pids of an example service with spans, of Pythons and of a compiler of bytes."""
    shell = [["gzip", "-c", "/dev/zero"], ["sh", "-c", "while :; do :; done"]]
    argv = [[tap.BUILD_DIR / "sdk/example/example-service"]] + [
        [sys.executable, "-c", BUSY] if i % 3 else shell[i // 3 % 2] for i in range(1, n)]
    children = []
    for i, words in enumerate(argv):
        environment = dict(os.environ, OTEL_SERVICE_NAME=f"s{i}")
        children.append(b.spawn(words, env=environment, stdout=subprocess.DEVNULL))
    return [str(child.pid) for child in children]


def sample(seconds, n_programs):
    """{form: requests} of one window."""
    with bench.Bench() as b:
        directories, urls, receivers = {}, {}, []
        for form in FORMS:
            directories[form] = b.directory() / "store"
            child, urls[form] = receiver(b, directories[form])
            receivers.append(child)
        config = b.directory() / "fleet.conf"
        config.write_text(configuration(urls))
        pids = programs(b, n_programs)
        time.sleep(2)
        child = b.spawn([tap.SPANPROF, "run", "--config", config, "--pid", ",".join(pids),
                         "--export-interval", f"{seconds}s", "--duration", f"{seconds + 1.5}s"])
        if child.wait(patience=seconds + 120):
            sys.exit(f"fleet.py: {child}")
        for child in receivers:
            child.stop()        # its files are whole then
        return {form: largest([otlp_read.load(path) for path in sorted(directories[form].glob("*.pb"))], form)
                for form in FORMS}


def largest(requests, form):
    """The window proper: not the half second before it, nor what is left at the end."""
    if not requests:
        sys.exit(f"fleet.py: no request of the form {form}")
    end = max(request_end(r) - request_start(r) for r in requests)
    return [r for r in requests if request_end(r) - request_start(r) > end / 2]


def profiles(request):
    return [profile for part in request.resource_profiles for scope in part.scope_profiles
            for profile in scope.profiles]


def request_start(request):
    return min(profile.time_unix_nano for profile in profiles(request))


def request_end(request):
    return max(profile.time_unix_nano + profile.duration_nano for profile in profiles(request))


# ---- many hosts ----

def change(attributes, key, value):
    for pair in attributes:
        if pair.key == key:
            pair.value.Clear()
            setattr(pair.value, "int_value" if isinstance(value, int) else "string_value", value)


def service_of(name, services, shift):
    number = int(name.lstrip("s")) if name[1:].isdigit() else 0
    return f"service-{(number + shift) % services}"


def resource_of(part, host, services, shift):
    attributes = part.resource.attributes
    for pair in attributes:
        if pair.key == "process.pid" and pair.value.int_value:
            pair.value.int_value += shift * 64
        if pair.key == "service.name":
            service = service_of(pair.value.string_value, services, shift)
    change(attributes, "service.name", service)
    change(attributes, "host.name", host)
    change(attributes, "host.id", f"{shift:032x}")


def of_host(requests, number, services, now_ns):
    """The requests of a window as another host sends them now: gzip'd, and their raw bytes."""
    out, chance = [], random.Random(number)
    for request in requests:
        copy = type(request)()
        copy.CopyFrom(request)
        # each host has times of its own: of two profiles with one series and one time, a Pyroscope keeps one
        late = now_ns - request_end(request) - 1000 * number
        for part in copy.resource_profiles:
            resource_of(part, f"host-{number}", services, number)
        for row in copy.dictionary.attribute_table[1:]:         # of samples
            if copy.dictionary.string_table[row.key_strindex] == "service.name":
                row.value.string_value = service_of(row.value.string_value, services, number)
        for profile in profiles(copy):
            profile.profile_id = chance.randbytes(16)
            profile.time_unix_nano += late
            for row in profile.samples:
                row.timestamps_unix_nano[:] = [t + late for t in row.timestamps_unix_nano]
        for link in copy.dictionary.link_table[1:]:
            link.trace_id, link.span_id = chance.randbytes(16), chance.randbytes(8)
        raw = copy.SerializeToString()
        out.append((gzip.compress(raw, 1), len(raw), n_events(copy)))
    return out


def n_events(request):
    """Samples of a CPU: each has a time, or is part of a sum."""
    return sum(1 if row.time_ns else row.value for row in otlp_read.request_samples(request))


def cpu_ns(requests):
    """CPU time that their samples stand for."""
    return sum((1 if row.time_ns else row.value) * row.period for request in requests
               for row in otlp_read.request_samples(request) if row.type == "samples")


def series(requests):
    """Sets of labels, as Pyroscope counts them: all attributes but ids of spans, and the type."""
    found = set()
    for request in requests:
        for row in otlp_read.request_samples(request):
            labels = dict(row.resource) | {key: value for key, value in row.attributes.items()
                                           if key not in ("span_id", "trace_id")}
            found.add((row.type, *sorted((key, str(value)) for key, value in labels.items())))
    return len(found)


def send_all(url, hosts, senders):
    """Answers by status, and seconds."""
    address = urllib.parse.urlsplit(url)
    answers = {}

    def send(host):
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=120)
        got = []
        for body, _, _ in host:
            connection.request("POST", "/v1development/profiles", body,
                               {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"})
            reply = connection.getresponse()
            reply.read()
            got.append(reply.status)
        connection.close()
        return got

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(senders) as pool:
        for got in pool.map(send, hosts):
            for status in got:
                answers[status] = answers.get(status, 0) + 1
    return answers, time.monotonic() - begin


class Measured:
    """CPU of a process while hosts are sent to it."""

    def __init__(self, name, child, url, hosts, senders, behind=None):
        before = cpu_s(child.pid)
        answers, self.seconds = send_all(url, hosts, senders)
        settle((behind or child).pid)
        self.cpu, self.peak = cpu_s(child.pid) - before, peak_mib(child.pid)
        self.n = sum(len(host) for host in hosts)
        self.name, self.answers = name, answers
        if set(answers) != {200}:
            print(f"{name}: answers by status: {answers}", file=sys.stderr)

    def row(self, stored):
        each = 1000 * self.cpu / self.n
        print(f"| {self.name} | {self.n} | {self.cpu:.2f} | {each:.1f} | {self.peak:.0f} | {stored} |")


def settle(pid):
    """Until it has used no CPU for two seconds, or for a minute: what it took is in its files."""
    last, end = cpu_s(pid), time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(2)
        now = cpu_s(pid)
        if now - last < 0.05:
            return
        last = now


def to_collector(hosts, senders):
    with bench.Bench() as b:
        files = {"out.pb": {"format": "proto"}, "out.json": {}}
        running = collector.Collector(b, files)
        measured = Measured("Collector, files", running.child, running.url, hosts, senders)
        paths = running.end()
        measured.row(f"{size_mb(paths['out.pb']):.1f} MB protobuf, {size_mb(paths['out.json']):.1f} MB JSON")


def to_store(layout, hosts, senders):
    with bench.Bench() as b:
        store = b.directory() / "store"
        child, url = receiver(b, store, "--store-layout", layout)
        measured = Measured(f"receive, {layout}", child, url, hosts, senders)
        child.stop()
        found = [path for path in store.rglob("*") if path.is_file()]
        measured.row(f"{size_mb(*found):.1f} MB in {len(found)} files")
        return layout, [report(store, *words) for words in
                        ((), ("--service", "service-8"), ("--service", "service-8", "--host", "host-7"))]


def report(store, *words):
    """(words, seconds of CPU, seconds) of a report."""
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [tap.SPANPROF, "report", str(store), "--json", "--top", "1", *words]
    done = subprocess.run(argv, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"fleet.py: report {' '.join(words)} failed:\n{done.stderr.decode()}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return words, cpu, time.monotonic() - begin


def to_pyroscope(hosts, senders, sent_ns, begin_ns, is_behind=False):
    with bench.Bench() as b:
        server, running = pyroscope.Pyroscope(), None
        b.callback(server.close)
        server.begin_ms = begin_ns // 1_000_000         # the window is older than it is
        server.wait_ready()
        if is_behind:
            # without its queue, so that its answers are the Pyroscope's
            running = collector.Collector(b, {}, onward={"otlp_http": {
                "endpoint": server.url, "sending_queue": {"enabled": False}}})
            before = cpu_s(server.child.pid)
            measured = Measured("Collector, then a Pyroscope", running.child, running.url, hosts, senders, server.child)
        else:
            measured = Measured("Pyroscope", server.child, server.url, hosts, senders)
        # a Pyroscope that was asked while it was empty remembers that for a minute
        found = tap.wait_until(server.series, f"series of the hosts; {running and running.child}", 300)
        types = {labels["__profile_type__"] for labels in found}
        services = {labels.get("service_name") for labels in found}
        has_ns = sum(server.tree(service).total for service in services)
        said = (f"{len(found)} series of {len(services)} services and {len(types)} types; {100 * has_ns / sent_ns:.1f} % of "
                "the CPU time")
        if running:
            measured.row(f"{len(running.dropped())} dropped on the way")
            measured.name, measured.cpu = "… the Pyroscope behind it", cpu_s(server.child.pid) - before
            measured.peak = peak_mib(server.child.pid)
        measured.row(said)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name, default in (("hosts", 200), ("services", 20), ("seconds", 15), ("senders", 8), ("programs", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", choices=("collector", "receive", "pyroscope", "both"))
    options = parser.parse_args()
    wants = (options.only,) if options.only else ("collector", "receive", "pyroscope", "both")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    windows = sample(options.seconds, options.programs)
    now_ns = time.time_ns()
    begin_ns = now_ns - 10**9 * (options.seconds + 60)
    hosts = {form: [of_host(requests, number, options.services, now_ns) for number in range(options.hosts)]
             for form, requests in windows.items()}
    for form, requests in windows.items():
        parts = [part for host in hosts[form] for part in host]
        n = sum(events for _, _, events in parts)
        sent, raw = sum(len(body) for body, _, _ in parts), sum(size for _, size, _ in parts)
        print(f"{form}: {len(parts)} requests, {n} events; {sent / 1e6:.1f} MB gzip'd ({sent / n:.1f} B each), "
              f"{raw / 1e6:.1f} MB raw; {series(requests)} series of a host")
    print("\n| receiver | requests | CPU s | ms a request | MiB at most | stored |\n|---|---|---|---|---|---|")
    if "collector" in wants and collector.is_there():
        to_collector(hosts["otlp"], options.senders)
    reports = [to_store(layout, hosts["otlp"], options.senders) for layout in ("flat", "partitioned")
               if "receive" in wants]
    sent_ns = {form: options.hosts * cpu_ns(requests) for form, requests in windows.items()}
    with contextlib.suppress(tap.unittest.SkipTest):
        if "pyroscope" in wants:
            to_pyroscope(hosts["pyroscope"], options.senders, sent_ns["pyroscope"], begin_ns)
        if "both" in wants and collector.is_there():
            to_pyroscope(hosts["behind"], options.senders, sent_ns["behind"], begin_ns, is_behind=True)
    print("\n| report of | layout | CPU s | s |\n|---|---|---|---|")
    for layout, rows in reports:
        for words, cpu, seconds in rows:
            print(f"| {' '.join(words) or 'all'} | {layout} | {cpu:.2f} | {seconds:.2f} |")


main()
