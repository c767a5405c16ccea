# SPDX-License-Identifier: Apache-2.0
"""A real OpenTelemetry Collector for a test, built by tests/interop/setup-collector.sh:

    collector.need()
    running = collector.Collector(self)
    running.url                                 # the endpoint
    running.stop()                              # what its file exporter wrote: one OTLP/JSON document a line
"""
import os
import re
import socket

import tap

PROGRAM = tap.BUILD_DIR / "collector"
CONFIG = """
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:{port}
exporters:
  file:
    path: {path}
    flush_interval: 50ms
  debug: {{}}
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    profiles:
      receivers: [otlp]
      exporters: [file, debug]
"""


def is_there():
    return os.access(PROGRAM, os.X_OK)


def need():
    if not is_there():
        tap.skip(f"machine: no collector could be built here; run tests/interop/setup-collector.sh {tap.BUILD_DIR} to see why")


def check_classes(test, paths):
    """The generated Go classes of opentelemetry-proto know every field of these files of protobuf, and write the same bytes. Return:
    how many samples they found in all."""
    done = test.run_command([PROGRAM, "classes", *paths])
    test.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    counts = re.findall(r"^.*: (\d+) samples$", done.stdout, re.M)
    test.assertEqual(len(counts), len(paths), done.stdout)
    return sum(map(int, counts))


class Collector:
    def __init__(self, test):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        directory = test.directory()
        self.written = directory / "out.json"
        (directory / "config.yaml").write_text(CONFIG.format(port=port, path=self.written))
        self.child = test.spawn([PROGRAM, "--config", f"file:{directory}/config.yaml",
                                 "--feature-gates=service.profilesSupport"])
        self.child.wait_for("Everything is ready")
        self.url = f"http://127.0.0.1:{port}"

    def stop(self):
        """Ends it first, so that its file is whole."""
        self.child.process.terminate()
        self.child.wait()
        return self.written.read_bytes().splitlines()
