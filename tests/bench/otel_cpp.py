#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What spanprof/opentelemetry.hpp adds to opentelemetry-cpp: ns for a scope and for a whole span, and private
memory, with and without. Each line is the lowest of turns that take turns: others disturb, and nothing makes
it faster.

usage: PYTHONPATH=tests/harness:tests/oracles build/interop-venv/bin/python tests/bench/otel_cpp.py
       after setup-venv.sh and setup-publishers.sh of tests/interop"""
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile

import tap

TURNS = 9
ROWS = {"scope": "ns", "span": "ns", "memory": "KiB"}


def build(folder):
    test = importlib.import_module("test-otel-cpp")
    root = (tap.BUILD_DIR / "publishers/otel-cpp").resolve()
    service = test.compile_object(root, test.OtelCpp.SOURCE, folder / "service.o", "c++17")
    return test.link(root, folder / "service", service, test.OtelCpp.SHARED)


def main():
    rows = {name: ([], []) for name in ROWS}
    with tempfile.TemporaryDirectory() as folder:
        program = build(pathlib.Path(folder))
        for _ in range(TURNS):
            for side, more in enumerate(({"WITHOUT": "1"}, {})):
                out = subprocess.run([program, "bench"], env={**os.environ, **more}, check=True,
                                     capture_output=True, text=True).stdout
                for line in out.splitlines():
                    name, value = line.split("\t")
                    rows[name][side].append(float(value))
    for name, (without, with_it) in rows.items():
        a, b = min(without), min(with_it)
        print(f"{name:10} {a:7.0f} without {b:7.0f} with {b - a:+6.0f} {ROWS[name]}")


if __name__ == "__main__":
    sys.exit(main())
