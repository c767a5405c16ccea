#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What leaves a host, row by row of the table in docs/OPERATING.md: by default each item is in what a daemon
sends, or is not; with the row's switch alone it is gone, and the others are still there. Requests are read by
opentelemetry-proto, and their raw bytes are searched for what must never leave."""
import oracle

oracle.enter()

import os
import pathlib
import re
import secrets
import subprocess

import golang
import groups
import otlp_read
import pythons
import session
import tap

ARGUMENT, VARIABLE, VALUE = "hunter-argument", "hunter-variable", "hunter-value"
PROGRAM = f"""
import ctypes, os, sys, threading
secret = "{VALUE[:6]}" + "{VALUE[6:]}"
ping, pong = os.pipe(), os.pipe()
libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
def answer():
    while True:
        os.write(pong[1], os.read(ping[0], 1))
def private_python():
    while True:
        for i in range(100):
            sum(range(1000)); os.stat("/")
        os.write(ping[1], b"x")
        os.read(pong[0], 1)
def share():
    while True:
        libc.pthread_mutex_lock(mutex)
        libc.usleep(100000)
        libc.pthread_mutex_unlock(mutex)
        libc.usleep(1000)
for target in answer, share, share:
    threading.Thread(target=target, daemon=True).start()
private_python()
"""


def keys_of(sample):
    return set(sample.resource) | set(sample.attributes)


def frames_of(samples, *types):
    return [f for s in samples for f in s.frames if f.type in types]


# what an item is, in decoded samples
ITEMS = {
    "addresses": lambda x: any(f.address and f.build_id for f in frames_of(x, "native")),
    "kernel": lambda x: any(f.name for f in frames_of(x, "kernel")),
    "python": lambda x: any(f.name == "private_python" and f.file for f in frames_of(x, "cpython")),
    "functions": lambda x: any(f.name for f in frames_of(x, "native")),
    "lines": lambda x: any(f.line and f.file for f in frames_of(x, "native")),
    "code": lambda x: any(f.name == "private_code" for f in frames_of(x, "unknown", "jit")),
    "paths": lambda x: any(f.path.startswith("/") for f in frames_of(x, "native")),
    "program": lambda x: any(key.startswith("process.") for s in x for key in keys_of(s)),
    "threads": lambda x: any({"thread.id", "thread.name"} & keys_of(s) for s in x),
    "environment": lambda x: any(s.resource["service.name"] == "private-service" and
                                 s.resource.get("db.password") == "***" for s in x),
    "host": lambda x: any({"host.name", "host.id"} & keys_of(s) for s in x),
    "host's id": lambda x: any("host.id" in keys_of(s) for s in x),
    "container": lambda x: any({"container.id", "k8s.pod.uid"} & keys_of(s) for s in x),
    "spans": lambda x: any(s.span_id for s in x),
    "span's attributes": lambda x: any("parity" in keys_of(s) for s in x),
    "Go's labels": lambda x: any("tenant" in keys_of(s) for s in x),
    "tasks": lambda x: any("coroutine.name" in keys_of(s) for s in x),
    "waits": lambda x: any(s.type == "off_cpu" for s in x),
    "who ends waits": lambda x: any(key.startswith("wait.waker.") for s in x for key in keys_of(s)),
    "locks": lambda x: any(key.startswith("wait.lock.") for s in x for key in keys_of(s)),
    "stacks of who ends waits": lambda x: any(s.type == "off_cpu_waker" for s in x),
}
DEFAULT = {"addresses", "kernel", "python", "code", "paths", "program", "threads", "environment", "host",
           "host's id", "container", "spans", "span's attributes", "Go's labels", "tasks"}
OFF_CPU = {"waits", "who ends waits", "locks"}
# the first words of a row → its items; options without which they stay; and switches: options, and what each
# takes away
ROWS = {
    "addresses, build ids": ({"addresses"}, (), []),
    "names of kernel functions": ({"kernel", "python"}, (), [
        (("--kernel-stacks=off",), {"kernel"}),
        (("--runtimes", "off"), {"python", "Go's labels", "tasks"})]),
    "names of functions in files": ({"functions"}, ("--symbols", "local"), [(("--symbols", "remote"), {"functions"})]),
    "their lines, and paths of their source files": ({"lines"}, ("--symbols", "local"), [
        (("--symbols", "local", "--lines=off"), {"lines"})]),
    "names of functions that programs make": ({"code"}, (), [(("--jit-symbols=off",), {"code"})]),
    "paths of mapped files": ({"paths"}, (), [(("--mapping-paths", "name"), {"paths"}),
                                              (("--mapping-paths", "none"), {"paths"})]),
    "path of the program": ({"program"}, (), [(("--attributes-deny", "process.*"), {"program"})]),
    "ids and names of threads": ({"threads"}, (), [(("--attributes-deny", "thread.*"), {"threads"})]),
    "command lines": (set(), (), []),
    "environment of targets": ({"environment"}, (), [(("--target-environment=off",), {"environment"})]),
    "host's name": ({"host", "host's id"}, (), [(("--attributes-deny", "host.*"), {"host", "host's id"}),
                                                (("--host-id", "none"), {"host's id"})]),
    "container's and pod's ids": ({"container"}, (), [(("--attributes-deny", "container.*,k8s.*"), {"container"})]),
    "trace and span ids; attributes of spans": ({"spans", "span's attributes"}, (), [
        (("--links", "off"), {"spans"}), (("--attributes-deny", "parity,http.*"), {"span's attributes"}),
        (("--attributes", "lean"), DEFAULT - {"addresses", "kernel", "python", "code", "paths", "spans", "host"})]),
    # no SDK is here: `links`, `runtimes` and span.name are switched off above, whoever says the span
    "trace and span ids, and names of spans, of services with OpenTelemetry's SDK for Python": (set(), (), []),
    "trace and span ids of services with OpenTelemetry's SDK for Node.js": (set(), (), []),
    "labels of Go's goroutines": ({"Go's labels"}, (), [(("--runtimes", "hotspot,python,jvm"), {"Go's labels"})]),
    "names of asyncio's tasks": ({"tasks"}, (), [(("--attributes-deny", "coroutine.name"), {"tasks"})]),
    "in `/metrics`": (set(), (), []),               # no receiver gets it: test-run-operations.py
    "waits, and who": (OFF_CPU, ("--off-cpu",), [
        (("--off-cpu", "--attributes-deny", "wait.waker.*"), {"who ends waits"}),
        (("--off-cpu", "--attributes-deny", "wait.lock.*"), {"locks"})]),
    "stacks of the targets that end waits": ({"stacks of who ends waits"}, ("--off-cpu",), [
        (("--off-cpu=off",), OFF_CPU | {"stacks of who ends waits"})]),
    "symbols of files": (set(), (), []),            # test-symbol-upload.py has a server that counts them
    "build ids of what is sampled": (set(), (), []),                # test-run-debuginfod.py has such servers
    "other memory, arguments": (set(), (), []),
}


class Privacy(session.TestCase):
    def world(self):
        """Processes with every item; which items they have."""
        pod = f"pod{os.urandom(4).hex()}-1111-2222-3333-{os.urandom(6).hex()}"
        group = groups.make(self, "kubepods", "burstable", pod, secrets.token_hex(32))
        program = self.directory() / "private.py"
        program.write_text(PROGRAM)
        python = self.spawn(["/usr/bin/python3", program, ARGUMENT], env={
            "PATH": os.environ["PATH"], "OTEL_SERVICE_NAME": "private-service", "SECRET": VARIABLE,
            "OTEL_RESOURCE_ATTRIBUTES": f"db.password={VARIABLE}"})
        groups.enter(group, python.pid)
        spans = self.victim("otel")
        code, tell = self.commanded("code")
        self.addCleanup(pathlib.Path(f"/tmp/perf-{code.pid}.map").unlink, missing_ok=True)
        tell("make private_code")
        tell("map")
        pids, items = [python.pid, spans.pid, code.pid], DEFAULT - {"Go's labels", "tasks"}
        victims = tap.SOURCE_DIR / "tests/victims"
        go = golang.Go().build(victims / "go/VictimGoLabels.go", self.directory() / "go",
                               more=[victims / "go/VictimGoSpin.go"])
        labels = self.spawn([go], stdin=subprocess.PIPE)
        labels.wait_for("ready")
        pids.append(labels.pid)
        items.add("Go's labels")
        newer = [path for version, path in pythons.here().items() if version >= (3, 14)]
        if newer:
            tasks = self.spawn([newer[0], victims / "python/victim-asyncio.py"], stdin=subprocess.PIPE)
            pids.append(tasks.pid)
            items.add("tasks")
        return pids, items

    def sent(self, pids, wanted, *options):
        """What arrives, once all that is @wanted has: decoded samples and bytes."""
        run = self.start("-p", ",".join(map(str, pids)), "--frequency", 199, *options)
        seen, samples = set(), []

        def read():
            for path in run.receiver.paths():
                if path not in seen and path.with_suffix(".json").exists():
                    seen.add(path)
                    samples.extend(otlp_read.samples(path))
            return samples

        def missing():
            read()
            return [item for item in sorted(wanted) if not ITEMS[item](samples)]

        try:
            tap.wait_until(lambda: not missing(), "what is sent", 120)
        except AssertionError as error:
            raise AssertionError(f"{options}: without {missing()}; {run.child}") from error
        run.stop(check=False)
        return read(), b"".join(path.read_bytes() for path in run.receiver.paths())

    def check(self, pids, wanted, unwanted, *options):
        with self.subTest(options=options):
            samples, data = self.sent(pids, wanted, *options)
            self.assertEqual({item for item in unwanted if ITEMS[item](samples)}, set())
            self.assertNotRegex(data, f"{ARGUMENT}|{VARIABLE}|{VALUE}".encode())

    def test_each_row_of_the_table(self):
        text = (tap.SOURCE_DIR / "docs/OPERATING.md").read_text()
        table = text.split("## What leaves a host\n")[1].split("\n\n")[0]
        rows = re.findall(r"(?m)^\| ([^|]+?) \|", table)[1:]
        self.assertEqual([[row for row in rows if row.startswith(start)] for start in ROWS],
                         [[row] for row in rows if not row.startswith("---")])
        pids, items = self.world()
        self.check(pids, items, set(ITEMS) - DEFAULT)
        for its, sent_with, switches in ROWS.values():
            if sent_with:
                self.check(pids, items | its, set(), *sent_with)
            for options, gone in switches:
                self.check(pids, (items | its) - gone, gone, *options)


tap.main()
