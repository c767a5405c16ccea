# SPDX-License-Identifier: Apache-2.0
"""Text of Prometheus (format 0.0.4), parsed strictly, and the rules of `promtool check metrics`: ours, which need nothing, and
Prometheus' own by the program that tests/interop/setup-prometheus.sh builds.

    # name → Family(type, help, samples), raises on what is no such text
    families = prometheus.parse(text)
    prometheus.lint(families)                   # problems, [] = none
    prometheus.value(families, "x_total", reason="stop")
    # (status, lines) of Prometheus' own; also "queries", and "rules", path
    prometheus.judge(test, "metrics", text=text)
"""
import os
import re
from dataclasses import dataclass, field

import tap

PROGRAM = tap.BUILD_DIR / "prometheus"

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
SAMPLE = re.compile(rf"({NAME})(?:{{(.*)}})? (\S+)$")
BASE_UNITS = {
    "nanoseconds": "seconds", "milliseconds": "seconds", "microseconds": "seconds", "minutes": "seconds",
    "kib": "bytes", "mib": "bytes", "kilobytes": "bytes", "megabytes": "bytes", "percent": "ratio"
}


@dataclass
class Family:
    type: str = ""
    help: str = ""
    samples: dict = field(default_factory=dict)  # sorted (label, value) pairs → number


def labels_of(text):
    pairs, at = [], 0
    while at < len(text or ""):
        match = LABEL.match(text, at)
        if not match:
            raise ValueError(f"labels: {text!r}")
        pairs.append((match[1], match[2]))
        at = match.end()
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError(f"a label twice: {text!r}")
    return tuple(sorted(pairs))


def parse(text):
    if not text.endswith("\n"):
        raise ValueError("the last line does not end")
    families, current = {}, None
    for line in text.splitlines():
        if line.startswith("# "):
            kind, name, rest = (line[2:].split(" ", 2) + [""])[:3]
            if kind not in ("HELP", "TYPE"):
                continue
            if kind == "HELP" and name in families:
                raise ValueError(f"{name}: its lines do not stand together")
            family = families.setdefault(name, Family())
            current = name
            if kind == "TYPE" and (family.type or family.samples):
                raise ValueError(f"{name}: TYPE twice, or after a sample")
            setattr(family, kind.lower(), rest)
            continue
        match = SAMPLE.match(line)
        if not match:
            raise ValueError(f"no sample: {line!r}")
        if match[1] != current:
            raise ValueError(f"{match[1]}: not below its HELP and TYPE")
        samples, labels = families[current].samples, labels_of(match[2])
        if labels in samples:
            raise ValueError(f"{line!r}: twice")
        samples[labels] = float(match[3])
    return families


def lint(families):
    problems = []
    for name, family in families.items():
        def say(what, name=name):
            problems.append(f"{name}: {what}")
        if not family.help:
            say("no help text")
        if family.type not in ("counter", "gauge", "histogram", "summary"):
            say(f"no type ({family.type!r})")
        if not family.samples:
            say("no sample")
        if (family.type == "counter") != name.endswith("_total"):
            say("counters, and they alone, end in _total")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            say("not in snake_case")
        for word in name.split("_"):
            if word in BASE_UNITS:
                say(f"use the base unit {BASE_UNITS[word]}, not {word}")
            if word in ("counter", "gauge", "histogram"):
                say(f"the name holds its type ({word})")
        for labels, number in family.samples.items():
            if family.type == "counter" and not number >= 0:
                say(f"{labels}: {number}")
    return problems


def judge(test, *arguments, text=""):
    if not os.access(PROGRAM, os.X_OK):
        tap.skip(
            f"machine: Prometheus' checks could not be built here; run tests/interop/setup-prometheus.sh {tap.BUILD_DIR} to see why"
        )
    done = test.run_command([PROGRAM, *arguments], stdin=None, input=text)
    test.assertEqual(done.stderr, "")
    return done.returncode, done.stdout.splitlines()


def value(families, name, **labels):
    return families[name].samples[tuple(sorted(labels.items()))]
