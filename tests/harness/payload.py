# SPDX-License-Identifier: Apache-2.0
"""Hand-made payloads: a small program that is compiled for the purpose, and requests with known samples of
it.

    victim = payload.Victim(directory)
    request = victim.payload()                  OTLP/JSON, as Python objects, to be changed at will
    data = payload.protobuf(request)            the same as protobuf, by field numbers written here
"""
import re
import subprocess

from wire import field, fixed64, packed

SOURCE = """
__attribute__((noinline)) int hot(int x) { for (int i = 0; i < 100; i++) x = x * 31 + i; return x; }
__attribute__((noinline)) static int serve(int x) { return hot(x) + 1; }
int main(int argc, char **argv) { return serve(argc); }
"""
TRACE = "0102030405060708090a0b0c0d0e0f10"


def any_value(value):
    kinds = {"stringValue": lambda v: field(1, v), "intValue": lambda v: field(3, int(v))}
    return b"".join(kinds[key](v) for key, v in value.items())


def protobuf(request):
    """The bytes of a JSON payload of these tests, with the field numbers of opentelemetry-proto 1.11."""
    d = request["dictionary"]
    tables = [
        *(field(
            1,
            field(1, int(m.get("memoryStart", 0))) + field(2, int(m.get("memoryLimit", 0))) +
            field(4, m.get("filenameStrindex", 0)) + packed(5, m.get("attributeIndices", [])))
          for m in d["mappingTable"]),
        *(field(
            2,
            field(1, x.get("mappingIndex", 0)) + field(2, int(x.get("address", 0))) +
            b"".join(field(3, field(1, line["functionIndex"]))
                     for line in x.get("lines", [])) + packed(4, x.get("attributeIndices", [])))
          for x in d["locationTable"]),
        *(field(3, field(1, f.get("nameStrindex", 0))) for f in d["functionTable"]),
        *(field(4, b"".join(
            field(n, bytes.fromhex(x[k])) for n, k in ((1, "traceId"), (2, "spanId")) if k in x))
          for x in d["linkTable"]),
        *(field(5, s) for s in d["stringTable"]),
        *(field(
            6,
            field(1, a.get("keyStrindex", 0)) + (field(2, any_value(a["value"])) if "value" in a else b""))
          for a in d["attributeTable"]),
        *(field(7, packed(1, s.get("locationIndices", []))) for s in d["stackTable"]),
    ]
    out = b""
    for part in request["resourceProfiles"]:
        resource = b"".join(field(1, field(1, a["key"]) + field(2, any_value(a["value"])))
                            for a in part["resource"]["attributes"])
        profiles = b""
        for p in part["scopeProfiles"][0]["profiles"]:
            samples = b"".join(
                field(
                    2,
                    field(1, s["stackIndex"]) + packed(2, s.get("attributeIndices", [])) +
                    field(3, s.get("linkIndex", 0)) + packed(4, [int(v) for v in s.get("values", [])]) +
                    packed(5, [int(t) for t in s.get("timestampsUnixNano", [])], 8)) for s in p["samples"])
            profiles += field(2, field(1, field(1, p["sampleType"]["typeStrindex"])
                                       + field(2, p["sampleType"]["unitStrindex"])) + samples
                              + fixed64(3, int(p["timeUnixNano"])) + field(4, int(p["durationNano"]))
                              + field(5, field(1, p["periodType"]["typeStrindex"])
                                      + field(2, p["periodType"]["unitStrindex"]))
                              + field(6, int(p["period"])) + field(7, bytes.fromhex(p["profileId"])))
        out += field(1, field(1, resource) + field(2, profiles))
    return out + field(2, b"".join(tables))


class Victim:
    """A program with known functions, its build id by readelf and its addresses by nm."""

    def __init__(self, directory):
        self.path = directory / "victim-of-report"
        (directory / "a.c").write_text(SOURCE)
        subprocess.run(["cc", "-O0", "-Wl,--build-id=sha1", "-o", self.path, directory / "a.c"], check=True)
        notes = subprocess.check_output(["readelf", "-nW", self.path], text=True)
        self.build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
        symbols = subprocess.check_output(["nm", self.path], text=True)
        self.address = {m[2]: int(m[1], 16) for m in re.finditer(r"^([0-9a-f]+) [tT] (\w+)$", symbols, re.M)}

    def payload(self, profile_id="11" * 16, pid=4711):
        """
        hot ← serve ← main        6 samples: span a 5, span b 1
        serve ← main              2, truncated: depth
        clear_page [kernel] ← main    1
        in another build of the program, ← main   1
        """
        strings = [
            "", "samples", "count", "cpu", "nanoseconds", "process.executable.build_id.gnu",
            str(self.path), "profile.frame.type", "clear_page", "profile.stack.truncated", "thread.id"
        ]
        mapping = {"memoryStart": "0", "memoryLimit": "1048576", "filenameStrindex": 6}
        locations = [{}] + [{"mappingIndex": 1, "address": str(self.address[f] + 4), "attributeIndices": [2]}
                            for f in ("hot", "serve", "main")]
        locations += [{
            "lines": [{"functionIndex": 1}], "address": str(0xFFFFFFFF81000010), "attributeIndices": [3]
        }, {"mappingIndex": 2, "address": str(self.address["hot"]), "attributeIndices": [2]}]
        dictionary = {
            "stringTable": strings,
            "attributeTable": [{}, {"keyStrindex": 5, "value": {"stringValue": self.build_id}},
                               {"keyStrindex": 7, "value": {"stringValue": "native"}},
                               {"keyStrindex": 7, "value": {"stringValue": "kernel"}},
                               {"keyStrindex": 9, "value": {"stringValue": "depth"}},
                               {"keyStrindex": 10, "value": {"intValue": "4712"}},
                               {"keyStrindex": 5, "value": {"stringValue": "00" + self.build_id[2:] + "ff"}}],
            "mappingTable": [{}, {**mapping, "attributeIndices": [1]}, {**mapping, "attributeIndices": [6]}],
            "functionTable": [{}, {"nameStrindex": 8}],
            "locationTable": locations,
            "linkTable": [{}, {"traceId": TRACE, "spanId": "000000000000000a"},
                          {"traceId": TRACE, "spanId": "000000000000000b"}],
            "stackTable": [{}, {"locationIndices": [1, 2, 3]}, {"locationIndices": [2, 3]},
                           {"locationIndices": [4, 3]}, {"locationIndices": [5, 3]}],
        }
        start = 1_700_000_000_000_000_000
        samples = [
            {
                "stackIndex": 1, "attributeIndices": [5], "linkIndex": 1,
                "timestampsUnixNano": [str(start + i) for i in range(5)]
            },
            {
                "stackIndex": 1, "attributeIndices": [5], "linkIndex": 2,
                "timestampsUnixNano": [str(start + 9)]
            },
            {
                "stackIndex": 2, "attributeIndices": [4, 5],
                "timestampsUnixNano": [str(start + 8), str(start + 7)]
            },
            {"stackIndex": 3, "timestampsUnixNano": [str(start + 6)]},
            {"stackIndex": 4, "timestampsUnixNano": [str(start + 5)]},
        ]
        profile = {
            "sampleType": {"typeStrindex": 1,
                           "unitStrindex": 2}, "samples": samples, "timeUnixNano": str(start),
            "durationNano": "1500000000", "periodType": {"typeStrindex": 3, "unitStrindex": 4},
            "period": "10000000", "profileId": profile_id
        }
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}},
                                   {"key": "process.pid", "value": {"intValue": str(pid)}},
                                   {"key": "process.executable.name", "value": {"stringValue": "victim"}}]}
        return {
            "resourceProfiles": [{
                "resource": resource, "scopeProfiles": [{"scope": {}, "profiles": [profile]}]
            }], "dictionary": dictionary
        }
