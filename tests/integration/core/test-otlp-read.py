#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The payload reader of the other tests on hand-made files, and `spanprof report` against it: two readers that share
no code, one with nm's names and one with its own."""
import collections
import json
import random
import re
import subprocess
import sys

import oracle

oracle.enter()

import compare  # noqa: E402
import otlp_read  # noqa: E402
import payload  # noqa: E402
import tap  # noqa: E402

WRITE_WINDOW = tap.HARNESS / "write-window"


class OtlpRead(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        if not otlp_read.have_proto():
            oracle.need()
            tap.skip("library: no opentelemetry-proto")

    def setUp(self):
        self.dir = self.directory()
        self.victim = payload.Victim(self.dir)

    def write(self, name, request):
        path = self.dir / name
        path.write_bytes(payload.protobuf(request) if name.endswith(".pb") else json.dumps(request).encode())
        return path

    def summary(self, *paths):
        return json.loads(self.spanprof("report", "--json", "--top", "1000000", *paths).stdout)

    def test_yields_one_sample_an_event(self):
        request = self.victim.payload()
        samples = list(otlp_read.samples(self.write("a.pb", request)))
        self.assertEqual(samples, list(otlp_read.samples(self.write("a.json", request))))
        self.assertEqual(len(samples), 10)
        first = samples[0]
        self.assertEqual(first.resource,
                         {"service.name": "shop", "process.pid": 4711, "process.executable.name": "victim"})
        self.assertEqual(
            (first.type, first.unit, first.period_type, first.period_unit, first.period, first.value),
            ("samples", "count", "cpu", "nanoseconds", 10000000, 1))
        self.assertEqual((first.thread_id, first.time_ns, first.trace_id, first.span_id),
                         (4712, 1_700_000_000_000_000_000, payload.TRACE, "000000000000000a"))
        self.assertEqual(
            first.frames[0],
            otlp_read.Frame(self.victim.build_id, self.victim.address["hot"] + 4, "", str(self.victim.path),
                            "native"))
        self.assertEqual([s.span_id for s in samples].count(None), 4)
        self.assertEqual(samples[6].attributes, {"profile.stack.truncated": "depth", "thread.id": 4712})

    def test_names_functions(self):
        samples, symbols = list(otlp_read.samples(self.write("a.pb",
                                                             self.victim.payload()))), otlp_read.Symbols()
        name = self.victim.path.name
        self.assertEqual(otlp_read.functions(samples, symbols), {
            (name, "hot"): 6, (name, "serve"): 2, (name, "[unknown]"): 1, ("[kernel]", "clear_page"): 1})
        self.assertEqual(otlp_read.totals(samples, symbols)[name, "serve"], 8)
        self.assertEqual(otlp_read.objects(samples), {name: 9, "[kernel]": 1})

    def test_refuses_indexes_out_of_range(self):
        for index in (99, -1):
            request = self.victim.payload()
            request["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"][0][
                "stackIndex"] = index
            with self.assertRaises(IndexError):
                list(otlp_read.samples(self.write("a.json", request)))

    def test_report_counts_what_it_reads(self):
        """Many processes, types and stacks, as the encoder writes them."""
        self.run_command([WRITE_WINDOW, self.dir, 20000, 5, 400], expect=0)
        files = sorted(self.dir.glob("0*.pb"))
        self.assertGreater(len(files), 1, "the window is split")
        expected, linked, spans = (collections.Counter() for _ in range(3))
        for sample in otlp_read.samples(*files):
            kind = sample.type, sample.unit
            expected[kind] += sample.value
            linked[kind] += sample.value if sample.span_id else 0
            if sample.span_id:
                spans[kind + (sample.trace_id, sample.span_id)] += sample.value
        profiles = self.summary(*files)["profiles"]
        self.assertEqual({(p["type"], p["unit"]): p["value"] for p in profiles}, expected)
        self.assertEqual({(p["type"], p["unit"]): p["with_span"] for p in profiles}, linked)
        self.assertEqual({(p["type"], p["unit"], s["trace_id"], s["span_id"]): s["value"]
                          for p in profiles for s in p["spans"]}, spans)
        for profile in profiles:
            self.assertEqual(sum(p["value"] for p in profile["processes"]), profile["value"])

    def addresses_of(self, path, n):
        """@n addresses of the code of an object."""
        rng = random.Random(11)
        text = subprocess.check_output(["readelf", "-SW", path], text=True)
        sections = [(int(m[1], 16), int(m[2], 16)) for m in
                    re.finditer(r"PROGBITS\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) \d+\s+AX", text)]
        weights = [size for _, size in sections]
        return [start + rng.randrange(size) for start, size in rng.choices(sections, weights, k=n)]

    def names_agree(self, path):
        """One sample at each of many addresses: the names of report are those of nm."""
        request, symbols = self.victim.payload(), otlp_read.Symbols()
        tables = request["dictionary"]
        tables["stringTable"][6] = path
        tables["attributeTable"][1]["value"]["stringValue"] = symbols.build_id(path)
        tables["mappingTable"][1]["memoryLimit"] = str(1 << 40)
        samples = request["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"] = []
        del tables["locationTable"][1:], tables["stackTable"][1:]
        for i, address in enumerate(self.addresses_of(path, 3000), 1):
            tables["locationTable"].append(
                {"mappingIndex": 1, "address": str(address), "attributeIndices": [2]})
            tables["stackTable"].append({"locationIndices": [i]})
            samples.append({"stackIndex": i, "timestampsUnixNano": ["1700000000000000000"]})
        file = self.write("names.pb", request)
        expected = otlp_read.functions(otlp_read.samples(file), symbols)
        named = collections.Counter()
        for row in self.summary("--lines=off", file)["profiles"][0]["functions"]:
            named[compare.object_name(row["path"]), symbols.canonical(path, row["function"])] += row["self"]
        self.assertEqual(sum(named.values()), 3000)
        different = {x: (named[x], expected[x]) for x in {**named, **expected} if named[x] != expected[x]}
        self.assertGreater(len(expected), 50, path)
        return different

    def test_report_names_functions_as_nm_does(self):
        libc = re.search(r"(/\S*libc\.so\.6)", open("/proc/self/maps").read())[1]
        for path in (libc, sys.executable, tap.SPANPROF):
            with self.subTest(path=path):
                self.assertEqual(self.names_agree(str(path)), {})


tap.main()
