#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of fuzz-split (in the environment of tests/interop/setup-venv.sh): the golden request of
tests/interop/make-golden.py, then with more resources, with wrong indexes, and with hostile names."""
import copy
import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("make_golden", HERE.parent / "interop/make-golden.py")
make_golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_golden)
DAY_NS = 86400 * 10**9


def several(*names):
    request = make_golden.golden()
    first = copy.deepcopy(request.resource_profiles[0])
    for service, host, days in names:
        part = request.resource_profiles.add()
        part.CopyFrom(first)
        part.resource.attributes[0].value.string_value = service
        part.resource.attributes.add(key="host.name").value.string_value = host
        part.scope_profiles[0].profiles[0].time_unix_nano += days * DAY_NS
        del part.scope_profiles[0].profiles[0].samples[:days]
    return request


def main():
    plain = several(("a", "x", 0), ("a", "x", 1), ("b", "x", 0), ("a", "y", 2))
    wrong = several(("a", "x", 0))
    wrong.dictionary.stack_table[1].location_indices[0] = 77
    wrong.dictionary.location_table[1].mapping_index = -3
    wrong.resource_profiles[1].scope_profiles[0].profiles[0].samples[0].link_index = 9
    indirect = several(("a", "x", 0))
    indirect.dictionary.string_table.append("host.name")
    pair = indirect.resource_profiles[1].resource.attributes[1]
    pair.key = ""
    pair.key_strindex = len(indirect.dictionary.string_table) - 1
    pair.value.string_value_strindex = 5
    bare = several()
    bare.ClearField("dictionary")
    seeds = {
        "golden": make_golden.golden(),
        "services-hosts-days": plain,
        "wrong-indexes": wrong,
        "keys-and-values-by-index": indirect,
        "hostile-names": several(("../..", ".", 0), ("+other", "", 0), ("x" * 400, "ü" * 80, 0), ("a/b%", "-", 0)),
        "no-dictionary": bare,
    }
    directory = HERE / "corpus/split"
    directory.mkdir(parents=True, exist_ok=True)
    for name, request in seeds.items():
        (directory / name).write_bytes(request.SerializeToString())


main()
