#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of fuzz-otlp and fuzz-otlp-json (in the environment of tests/interop/setup-venv.sh): the
golden request of tests/interop/make-golden.py whole, changed in one place each, and by hand what no sender
writes."""
import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("make_golden", HERE.parent / "interop/make-golden.py")
make_golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_golden)


def nested(depth):
    data = b""
    for i in range(depth):
        tag = b"\x12" if i == depth - 4 else b"\x0a" if i > depth - 4 or i % 2 else b"\x2a"
        size = len(data)
        data = tag + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + data
    return data


def main():
    golden = make_golden.golden()
    other = make_golden.golden()
    profile = other.resource_profiles[0].scope_profiles[0].profiles[0]
    profile.samples[0].values.extend([5, 7])
    profile.samples[1].values.append(1)
    other.resource_profiles[0].resource.attributes[0].value.array_value.values.add().double_value = 0.5
    other.dictionary.location_table[2].lines.add(function_index=1, line=3)
    wrong = make_golden.golden()
    wrong.dictionary.stack_table[2].location_indices[0] = 77
    seeds = {
        "golden": golden.SerializeToString(),
        "values-lists-lines": other.SerializeToString(),
        "wrong-index": wrong.SerializeToString(),
        "truncated": golden.SerializeToString()[:-30],
        "not-utf8": golden.SerializeToString().replace(b"worker", b"wo\xff\xc0er"),
        "nested-31": nested(31),
        "nested-40": nested(40),
        "group": b"\x0b\x0c",
        "json": make_golden.otlp_json(golden).encode(),
    }
    for name, data in seeds.items():
        (HERE / "corpus/otlp" / name).write_bytes(data)
    texts = {
        "golden": make_golden.otlp_json(golden),
        "values-lists-lines": make_golden.otlp_json(other),
        "twice": '{"dictionary":{},"dictionary":{}}',
        "two-of-one": '{"resourceProfiles":[{"resource":{"attributes":[{"value":{"intValue":1,"boolValue":true}}]}}]}',
        "kinds": '{"resourceProfiles":[{"resource":{"attributes":[{"value":{"doubleValue":"NaN"}},'
        '{"value":{"bytesValue":"AP_-"}},{"value":{"kvlistValue":{"values":[{"key":"\\ud83d\\ude00"}]}}}]}}]}',
        "numbers": '{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"timeUnixNano":1e18,"period":-1.5,'
        '"droppedAttributesCount":4294967296}]}]}]}',
    }
    for name, text in texts.items():
        (HERE / "corpus/otlp-json" / name).write_text(text)


main()
