#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/unit/golden-request.h: a small request, packed by protobuf's own runtime from
opentelemetry-proto, and its JSON.

usage: make-golden.py            (in the environment of setup-venv.sh) > tests/unit/golden-request.h

The encoder's test fills a window with the same facts and must arrive at the same bytes; so the bytes, field
numbers and order of rows (first use; locations by mapping and address) are fixed from outside.
"""
import base64
import json

from google.protobuf import json_format
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service


def golden():
    request = service.ExportProfilesServiceRequest()
    resource = request.resource_profiles.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    resource.resource.attributes.add(key="process.pid").value.int_value = 7
    scope = resource.scope_profiles.add()
    scope.scope.name, scope.scope.version = "spanprof", "1.2.3"
    profile = scope.profiles.add()
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = 1, 2
    profile.time_unix_nano, profile.duration_nano = 1_700_000_000_000_000_000, 500_000_000
    profile.period_type.type_strindex, profile.period_type.unit_strindex, profile.period = 3, 4, 10_101_010
    profile.profile_id = bytes(range(16))
    profile.samples.add(stack_index=1, attribute_indices=[4, 5], link_index=1,
                        timestamps_unix_nano=[1_700_000_000_000_000_100, 1_700_000_000_000_000_300])
    profile.samples.add(stack_index=2, timestamps_unix_nano=[1_700_000_000_000_000_200])

    tables = request.dictionary
    tables.string_table.extend([
        "", "samples", "count", "cpu", "nanoseconds",           # the profile
        "process.executable.build_id.gnu", "/usr/bin/shop",     # the first sample's locations
        "profile.frame.type", "do_syscall_64",                  # the same
        "thread.id", "thread.name"])                            # the first sample
    tables.attribute_table.add()
    tables.attribute_table.add(key_strindex=5).value.string_value = "aa11bb22"
    tables.attribute_table.add(key_strindex=7).value.string_value = "native"
    tables.attribute_table.add(key_strindex=7).value.string_value = "kernel"
    tables.attribute_table.add(key_strindex=9).value.int_value = 8
    tables.attribute_table.add(key_strindex=10).value.string_value = "worker"
    tables.mapping_table.add()
    tables.mapping_table.add(memory_start=0x1000, memory_limit=0x9000, file_offset=0x1000,
                             filename_strindex=6, attribute_indices=[1])
    tables.function_table.add()
    tables.function_table.add(name_strindex=8)
    tables.location_table.add()
    tables.location_table.add(address=0xFFFFFFFF81000040, attribute_indices=[3]).lines.add(function_index=1)
    tables.location_table.add(mapping_index=1, address=0x1010, attribute_indices=[2])
    tables.location_table.add(mapping_index=1, address=0x2020, attribute_indices=[2])
    tables.link_table.add()
    tables.link_table.add(trace_id=bytes([1] + [0] * 14 + [2]), span_id=bytes([3] + [0] * 6 + [4]))
    tables.stack_table.add()
    tables.stack_table.add(location_indices=[2, 1])
    tables.stack_table.add(location_indices=[3, 1])
    return request


def otlp_json(message):
    """OTLP's JSON: protobuf's, but ids are hex."""
    def hex_ids(value):
        if isinstance(value, dict):
            return {
                key: base64.b64decode(item).hex() if key in ("traceId", "spanId",
                                                             "profileId") else hex_ids(item)
                for key, item in value.items()
            }
        return [hex_ids(item) for item in value] if isinstance(value, list) else value

    return json.dumps(hex_ids(json_format.MessageToDict(message)), separators=(",", ":"))


def header():
    data = golden().SerializeToString()
    lines = [
        "/* SPDX-License-Identifier: Apache-2.0 */", "#pragma once", "",
        "/* Written by tests/interop/make-golden.py, which says what it is. */", "#include <stdint.h>", "",
        '#include "core/base/util/macro.h"', "", "static const uint8_t golden_request[] _unused_ = {"
    ]
    for at in range(0, len(data), 16):
        lines.append("        " + " ".join(f"0x{byte:02x}," for byte in data[at:at + 16]))
    lines += ["};", "", "static const char golden_json[] _unused_ ="]
    text = otlp_json(golden())
    for at in range(0, len(text), 80):
        lines.append("        " + json.dumps(text[at:at + 80]))
    return "\n".join(lines) + ";\n"


if __name__ == "__main__":
    print(header(), end="")
