# SPDX-License-Identifier: Apache-2.0
"""A real OpenTelemetry Collector for a test, built by tests/interop/setup-collector.sh:

    collector.need()
    running = collector.Collector(self)
    running.url                                 # the endpoint
    running.stop()                              # what its file exporter wrote: one OTLP/JSON document a line

    # another file, with these options of its exporter
    running = collector.Collector(self, {"b": {"format": "proto"}})
    running.end()                               # {name: path} of all files, whole

    # one that sends on, and what it could not
    running = collector.Collector(self, {}, onward={"otlp_http": {"endpoint": server.url}})
    running.dropped()                           # lines of its log

    # one with our own receiver and no port, which starts the daemon itself
    collector.Collector(self, receiver={"socket": path, "command": [tap.SPANPROF, "run", …]})
"""
import json
import os
import re

import real_server
import tap

PROGRAM = tap.BUILD_DIR / "collector"


def config(receivers, exporters, signal, processors=None):
    """The Collector's file for one pipeline; @receivers, @exporters, @processors: options by name."""
    parts = {"receivers": receivers, "processors": processors or {}, "exporters": exporters}
    return json.dumps({**parts, "service": {
        "telemetry": {"metrics": {"level": "none"}},
        "pipelines": {signal: {name: list(part) for name, part in parts.items()}}}}, default=str)


def is_there():
    return os.access(PROGRAM, os.X_OK)


def need():
    if not is_there():
        tap.skip(
            f"machine: no collector could be built here; run tests/interop/setup-collector.sh {tap.BUILD_DIR} to see why"
        )


def check_classes(test, paths):
    """The generated Go classes of opentelemetry-proto know every field of these files of protobuf, and write
    the same bytes. Return:
    how many samples they found in all."""
    done = test.run_command([PROGRAM, "classes", *paths])
    test.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    counts = re.findall(r"^.*: (\d+) samples$", done.stdout, re.M)
    test.assertEqual(len(counts), len(paths), done.stdout)
    return sum(map(int, counts))


class Collector:
    def __init__(self, test, files=None, gates=(), onward=None, signal="profiles", receiver=None):
        """@onward: exporters beside those of @files, by kind. @receiver: options of `spanprof`, in place of `otlp`."""
        port, = real_server.free_ports(1)
        otlp = {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}
        directory = test.directory()
        files = {"out.json": {}} if files is None else files
        self.paths = {name: directory / name for name in files}
        exporters = {
            f"file/{name}": {"path": str(self.paths[name]), "flush_interval": "50ms", **options}
            for name, options in files.items()
        } | (onward or {})
        (directory / "config.yaml").write_text(
            config({"spanprof": receiver} if receiver else {"otlp": otlp}, {**exporters, "debug": {}}, signal))
        self.child = test.spawn([PROGRAM, "--config", f"file:{directory}/config.yaml",
                                 "--feature-gates=" + ",".join(["service.profilesSupport", *gates])])
        self.child.wait_for("Everything is ready")
        self.url = f"http://127.0.0.1:{port}"

    def dropped(self):
        return [line for line in self.child.err.splitlines() if "Exporting failed" in line]

    def end(self):
        """Its files, which are whole then."""
        self.child.process.terminate()
        self.child.wait()
        return self.paths

    def stop(self):
        return self.end()["out.json"].read_bytes().splitlines()
