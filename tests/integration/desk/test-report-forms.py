#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof report` and `convert` over all forms: what a Go program's profile says by Go's own tool, what the protobuf package
reads in ours, what Python sums up of traces of coroutines, and that every form says the same of one
payload."""
import collections
import csv
import gzip
import json
import os
import random
import re
import sqlite3
import subprocess

import browser
import firefox_read
import oracle
import otlp_read
import page_read
import payload
import tap
from page_sample import CPU, Request, SHOP, START_NS
from payload import TRACE, protobuf

DATA = tap.SOURCE_DIR / "tests/data"
TOOL = tap.BUILD_DIR / "pprof"           # tests/interop/setup-pprof.sh
SUFFIXES = {"otlp": ".pb", "json": ".json", "pprof": ".pb.gz", "folded": ".folded"}


def profile_class():
    """profile.proto, for the protobuf package."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    messages = {
        "ValueType": [("type", 1, "int64"), ("unit", 2, "int64")],
        "Label": [("key", 1, "int64"), ("str", 2, "int64"), ("num", 3, "int64"), ("num_unit", 4, "int64")],
        "Sample": [("location_id", 1, "uint64*"), ("value", 2, "int64*"), ("label", 3, "Label*")],
        "Mapping": [("id", 1, "uint64"), ("memory_start", 2, "uint64"), ("memory_limit", 3, "uint64"),
                    ("file_offset", 4, "uint64"), ("filename", 5, "int64"), ("build_id", 6, "int64")],
        "Line": [("function_id", 1, "uint64"), ("line", 2, "int64")],
        "Location": [("id", 1, "uint64"), ("mapping_id", 2, "uint64"), ("address", 3, "uint64"),
                     ("line", 4, "Line*")],
        "Function": [("id", 1, "uint64"), ("name", 2, "int64"), ("system_name", 3, "int64"),
                     ("filename", 4, "int64"), ("start_line", 5, "int64")],
        "Profile": [("sample_type", 1, "ValueType*"), ("sample", 2, "Sample*"), ("mapping", 3, "Mapping*"),
                    ("location", 4, "Location*"),
                    ("function", 5, "Function*"), ("string_table", 6, "string*"), ("time_nanos", 9, "int64"),
                    ("duration_nanos", 10, "int64"), ("period_type", 11, "ValueType"),
                    ("period", 12, "int64"), ("default_sample_type", 14, "int64")],
    }
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools", syntax="proto3")
    kinds = {"int64": 3, "uint64": 4, "string": 9}
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            row = message.field.add(name=field, number=number, label=3 if kind.endswith("*") else 1)
            kind = kind.rstrip("*")
            row.type = kinds.get(kind, 11)
            if kind not in kinds:
                row.type_name = f".perftools.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.Profile"))


def functions_of(profile, column=0):
    """{function: [self, total]} as pprof's documentation defines them."""
    names = {f.id: profile.string_table[f.name] for f in profile.function}
    frames = {x.id: [names[line.function_id] for line in x.line] for x in profile.location}
    sums = collections.defaultdict(lambda: [0, 0])
    for sample in profile.sample:
        stack = [f for i in sample.location_id for f in frames[i] or [None]]
        if stack and stack[0]:
            sums[stack[0]][0] += sample.value[column]
        for name in set(stack) - {None}:
            sums[name][1] += sample.value[column]
    return dict(sums)


class Forms(tap.TestCase):
    def setUp(self):
        self.dir = self.directory()

    def summary(self, *args, **options):
        return json.loads(self.spanprof("report", "--json", "--top", "100000", *args, **options).stdout)

    def functions(self, *args, kind=0):
        return {
            f["function"]: [f["self"], f["total"]] for f in self.summary(*args)["profiles"][kind]["functions"]
        }

    def write(self, name, request):
        path = self.dir / name
        path.write_bytes(protobuf(request) if name.endswith(".pb") else json.dumps(request).encode())
        return path


class Pprof(Forms):
    def test_a_go_profile_says_what_gos_tool_says(self):
        rows = re.findall(r"^ *(\d+)(ms)? +[\d.]+% +[\d.]+% +(\d+)(ms)? +[\d.]+%  (\S+)$",
                          (DATA / "go-cpu.top.txt").read_text(), re.M)
        self.assertEqual(len(rows), 8)
        expected = {name: [int(flat) * 10**6, int(total) * 10**6] for flat, _, total, _, name in rows}
        kinds = self.summary(DATA / "go-cpu.pb.gz")["profiles"]
        self.assertEqual([(k["type"], k["unit"], k["period_max"]) for k in kinds],
                         [("samples", "count", 10**7)], "the time of samples is not a second profile")
        self.assertEqual(
            {f["function"]: [f["self"] * 10**7, f["total"] * 10**7] for f in kinds[0]["functions"]}, expected)
        # labels are attributes: main.hot works for one operation alone
        self.assertEqual(sorted(self.functions("--operation", "search", DATA / "go-cpu.pb.gz"))[:3],
                         ["main.main", "main.main.func2", "main.warm"])

    def test_a_go_profile_survives_its_own_form(self):
        oracle.need()
        profile = profile_class()
        self.spanprof("convert", DATA / "go-cpu.pb.gz", "-o", self.dir / "again.pb.gz")
        ours = profile.FromString(gzip.decompress((self.dir / "again.pb.gz").read_bytes()))
        gos = profile.FromString(gzip.decompress((DATA / "go-cpu.pb.gz").read_bytes()))
        for column in (0, 1):
            self.assertEqual(functions_of(ours, column), functions_of(gos, column))
        self.assertEqual((ours.time_nanos, ours.duration_nanos, ours.period),
                         (gos.time_nanos, gos.duration_nanos, gos.period))
        self.assertEqual(ours.string_table[ours.mapping[0].build_id],
                         gos.string_table[gos.mapping[0].build_id])

    def inlined(self):
        """hot, inlined into serve, inlined into main, 5 samples; and main alone at the same place, 1."""
        victim = payload.Victim(self.dir)
        request = victim.payload()
        d = request["dictionary"]
        names = len(d["stringTable"])
        d["stringTable"] += ["hot", "serve", "main"]
        functions = len(d["functionTable"])
        d["functionTable"] += [{"nameStrindex": names + i} for i in range(3)]
        chain = {**d["locationTable"][3], "lines": [{"functionIndex": functions + i} for i in range(3)]}
        d["locationTable"] = [{}, chain, {**chain, "lines": chain["lines"][2:]}]
        d["stackTable"] = [{}, {"locationIndices": [1, 2]}, {"locationIndices": [2]}]
        samples = request["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"]
        del samples[3:]
        samples[1]["stackIndex"] = 2
        del samples[2]
        return self.write("inlined.pb", request), victim.address["main"] + 4

    def test_inlined_functions_are_lines_of_one_location_in_every_form(self):
        oracle.need()
        source, address = self.inlined()
        forms = ("a.pb.gz", "b.json", "c.pb", "d.json", "e.pb.gz")
        for old, new in zip((source.name, *forms), forms):
            self.spanprof("convert", self.dir / old, "-o", self.dir / new)
        for form in ("a.pb.gz", "e.pb.gz"):
            ours = profile_class().FromString(gzip.decompress((self.dir / form).read_bytes()))
            names = {f.id: ours.string_table[f.name] for f in ours.function}
            lines = [(x.address, [names[line.function_id] for line in x.line]) for x in ours.location]
            self.assertEqual(sorted(lines), sorted([(address, ["hot", "serve", "main"]), (address, ["main"])]))
            self.assertEqual(sorted(len(s.location_id) for s in ours.sample), [1, 2])
        for form in ("b.json", "d.json"):
            d = json.loads((self.dir / form).read_text())["dictionary"]
            names = [d["stringTable"][f.get("nameStrindex", 0)] for f in d["functionTable"]]
            lines = [[names[line["functionIndex"]] for line in x["lines"]] for x in d["locationTable"][1:]]
            self.assertEqual(sorted(lines), [["hot", "serve", "main"], ["main"]])
        for form in (source.name, *forms):
            sums = self.functions(self.dir / form)
            self.assertEqual(sums, {"hot": [5, 5], "serve": [0, 5], "main": [1, 6]}, form)

    def test_googles_tool_marks_inlined_functions(self):
        if not TOOL.exists():
            tap.skip(
                f"machine: no pprof could be built here; run tests/interop/setup-pprof.sh {tap.BUILD_DIR} to see why"
            )
        source, _ = self.inlined()
        self.spanprof("convert", source, "-o", self.dir / "a.pb.gz")
        top = self.run_command([TOOL, "-symbolize=none", "-sample_index=samples", "-top", "-nodefraction=0",
                                self.dir / "a.pb.gz"], expect=0).stdout
        rows = {name: (int(flat), int(total)) for flat, total, name
                in re.findall(r"(?m)^ +(\d+) +\S+ +\S+ +(\d+) +\S+ +(.+)$", top)}
        self.assertEqual(rows, {"hot (inline)": (5, 5), "serve (inline)": (0, 5), "main": (1, 6)}, top)

    def test_our_pprof_holds_what_the_payload_says(self):
        oracle.need()
        victim = payload.Victim(self.dir)
        self.spanprof("report", self.write("a.pb", victim.payload()), "-o", self.dir / "a.pb.gz")
        ours = profile_class().FromString(gzip.decompress((self.dir / "a.pb.gz").read_bytes()))
        sums = functions_of(ours)
        self.assertEqual({n: sums[n] for n in ("hot", "serve", "main", "clear_page")},
                         {"hot": [6, 6], "serve": [2, 8], "main": [0, 10], "clear_page": [1, 1]})
        strings = ours.string_table
        labels = [{strings[x.key]: strings[x.str] if x.str else x.num for x in s.label} for s in ours.sample]
        self.assertEqual(
            sum(s.value[0] for s, x in zip(ours.sample, labels) if x.get("span_id") == "000000000000000a"), 5)
        self.assertEqual({x.get("trace_id") for x in labels}, {TRACE, None})
        self.assertEqual({(x["service.name"], x["process.pid"]) for x in labels}, {("shop", 4711)})

    def test_our_pprof_says_the_same_to_googles_tool(self):
        if not TOOL.exists():
            tap.skip(
                f"machine: no pprof could be built here; run tests/interop/setup-pprof.sh {tap.BUILD_DIR} to see why"
            )
        self.spanprof("report", self.write("a.pb",
                                           payload.Victim(self.dir).payload()), "-o", self.dir / "a.pb.gz")
        tool = [TOOL, "-symbolize=none", "-sample_index=samples"]
        top = self.run_command([*tool, "-top", "-nodecount=1000", "-nodefraction=0", self.dir / "a.pb.gz"],
                               expect=0).stdout
        rows = {
            name: [int(flat), int(total)]
            for flat, total, name in re.findall(r"(?m)^ +(\d+) +\S+ +\S+ +(\d+) +\S+ +(\S+)$", top)
        }
        self.assertEqual({name: rows.get(name) for name in ("hot", "serve", "main", "clear_page")},
                         {"hot": [6, 6], "serve": [2, 8], "main": [0, 10], "clear_page": [1, 1]}, top)
        shown = self.run_command([TOOL, "-symbolize=none", "-top", self.dir / "a.pb.gz"], expect=0).stdout
        self.assertRegex(shown, r"(?m)^File: victim-of-report$")
        self.assertRegex(shown, r"(?m)^Type: cpu$")
        self.assertRegex(shown, r"(?m)^ +60ms +\S+ +\S+ +60ms +\S+ +hot$", "six samples of 10 ms")
        raw = self.run_command([*tool, "-raw", self.dir / "a.pb.gz"], expect=0).stdout
        self.assertRegex(raw, r"(?m)^Samples:\nsamples/count cpu/nanoseconds\[dflt\]$")
        blocks = re.findall(r"(?m)^ +(\d+) +\d+: [\d ]+\n((?: {2,}.*:\[.*\]\n)*)", raw)
        self.assertEqual(sum(int(n) for n, labels in blocks if "span_id:[000000000000000a]" in labels), 5,
                         raw)
        # a Go program's own profile, through us
        self.spanprof("convert", DATA / "go-cpu.pb.gz", "-o", self.dir / "again.pb.gz")
        shown = [
            re.sub(
                r"(?m)^(File|Build ID|Time|Duration|Type|Showing|Dropped).*\n", "",
                self.run_command([
                    TOOL, "-symbolize=none", "-sample_index=cpu", "-top", "-nodecount=1000",
                    "-nodefraction=0", path
                ], expect=0).stdout) for path in (DATA / "go-cpu.pb.gz", self.dir / "again.pb.gz")
        ]
        self.assertIn("main.hot", shown[0])
        self.assertEqual(sorted(shown[0].splitlines()), sorted(shown[1].splitlines()))

    def test_labels_come_back_as_what_they_were(self):
        victim = payload.Victim(self.dir)
        path = self.write("a.pb", victim.payload())
        self.spanprof("convert", path, "-o", self.dir / "a.pb.gz")
        there, back = self.summary(path), self.summary(self.dir / "a.pb.gz")
        for summary in (there, back):
            kind = summary["profiles"][0]
            self.assertEqual([(s["span_id"], s["value"]) for s in kind["spans"]], [("000000000000000a", 5),
                                                                                   ("000000000000000b", 1)])
            self.assertEqual(kind["processes"][0]["attributes"]["service.name"], "shop")
            self.assertEqual(kind["truncated"], 2)

    def test_hostile_files_are_told_and_no_more(self):
        rng = random.Random(11)
        whole = gzip.decompress((DATA / "go-cpu.pb.gz").read_bytes())
        folded = b"main;serve;hot 6\nmain;serve 2\n" * 20
        statuses = collections.Counter()
        for data in (whole, folded):
            for _ in range(40):
                spoilt = bytearray(data)
                for _ in range(rng.randrange(1, 4)):
                    spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
                spoilt = spoilt[:rng.randrange(1, len(spoilt) + 1)]
                done = subprocess.run([tap.SPANPROF, "report", "-"], input=spoilt, capture_output=True)
                self.assertIn(done.returncode, (0, 1), f"{spoilt!r}\n{done.stderr.decode()}")
                self.assertEqual(done.returncode == 1, done.stderr != b"",
                                 f"{spoilt!r}\n{done.stderr.decode()}")
                statuses[done.returncode] += 1
        self.assertEqual(set(statuses), {0, 1}, "both happen")


class RoundTrips(Forms):
    def test_every_form_says_the_same_of_one_payload(self):
        victim = payload.Victim(self.dir)
        request = victim.payload()
        stack = request["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"].pop()
        self.assertEqual(stack["stackIndex"], 4,
                         "the frame that nobody knows, which forms call by different names")
        path = self.write("a.pb", request)
        expected = self.functions(path)
        self.assertEqual(expected, {"hot": [6, 6], "serve": [2, 8], "main": [0, 9], "clear_page": [1, 1]})
        for first, suffix in SUFFIXES.items():
            one = self.dir / f"one{suffix}"
            self.spanprof("convert", path, "-o", one)
            self.assertEqual(self.functions(one), expected, first)
            for second, other in SUFFIXES.items():
                two = self.dir / f"two{other}"
                self.spanprof("convert", one, "-o", two)
                self.assertEqual(self.functions(two), expected, f"{first} → {second}")

    def test_what_a_form_cannot_hold_is_said_with_its_number(self):
        path = self.write("a.pb", payload.Victim(self.dir).payload())
        said = self.spanprof("convert", path, "-o", self.dir / "a.folded").stderr
        self.assertIn(
            "since folded cannot hold it: 10 times, 6 spans of events, 8 attributes of events, 1 resource", said)
        self.assertIn("since pprof cannot hold it: 10 times, 1 kind of a frame (kernel, jvm …)\n",
                      self.spanprof("convert", path, "-o", self.dir / "a.pb.gz").stderr)
        self.assertNotIn("no place", self.spanprof("convert", path, "-o", self.dir / "a.json").stderr)

    def test_filters_choose_the_same_in_both_verbs(self):
        victim = payload.Victim(self.dir)
        files = [
            self.write("a.pb", victim.payload()),
            self.write("b.pb", victim.payload("22" * 16, pid=4712))
        ]
        spans = self.dir / "spans.csv"
        spans.write_text("span_id,operation\n000000000000000a,checkout\n000000000000000b,search\n")
        start = 1_700_000_000
        for arguments, value in ((["--process", "4711"], 10), (["--process",
                                                                "vic*"], 20), (["--service", "sh?p"], 20),
                                 (["--span", "a"], 10), (["--span",
                                                          "0b,a"], 12), (["--trace",
                                                                          TRACE], 12), (["--thread",
                                                                                         "4712"], 16),
                                 (["--spans", spans, "--operation",
                                   "checkout"], 10), (["--process", "4712", "--span",
                                                       "b"], 1), (["--start", f"{start}.000000005"],
                                                                  10), (["--end", f"{start}.000000005"], 10),
                                 (["--start", "+0.000000005s", "--end", "+0.000000008s"], 6)):
            self.assertEqual(self.summary(*arguments, *files)["profiles"][0]["value"], value, arguments)
            self.spanprof("convert", *arguments, *files, "-o", self.dir / "part.pb")
            self.assertEqual(self.summary(self.dir / "part.pb")["profiles"][0]["value"], value, arguments)
        self.assertIn("no id of a span", self.spanprof("report", "--span", "xyz", *files, expect=2).stderr)
        self.assertEqual(self.summary("--service", "nobody", *files)["profiles"], [])

    def test_what_cannot_be_chosen_by_time_is_counted(self):
        path = self.dir / "a.folded"
        path.write_text("main;hot 3\n")
        done = self.spanprof("report", "--start", "2020-01-01T00:00:00Z", path)
        self.assertIn("Untimed     1 events have no time", done.stdout)

    def test_a_directory_of_a_receiver_and_framed_files_of_a_collector(self):
        victim = payload.Victim(self.dir)
        store = self.dir / "store"
        store.mkdir()
        requests = [victim.payload(f"{i}{i}" * 16) for i in range(1, 4)]
        for i, request in enumerate(requests):
            (store / f"{i:06}.pb").write_bytes(protobuf(request))
            (store / f"{i:06}.json").write_text(json.dumps(request))
        summary = self.summary(store)
        self.assertEqual((summary["files"], summary["profiles"][0]["value"], summary["profiles_repeated"]),
                         (3, 30, 0))
        framed = self.dir / "collector.proto"
        framed.write_bytes(b"".join(len(p).to_bytes(4, "big") + p for p in map(protobuf, requests)))
        self.assertEqual(self.summary(framed)["profiles"][0]["value"], 30)
        framed.write_bytes(framed.read_bytes()[:-5])
        done = self.spanprof("report", "--json", framed, expect=1)
        self.assertIn("document 3 was cut off", done.stderr)
        self.assertEqual(json.loads(done.stdout)["profiles"][0]["value"], 20, "what is whole counts")
        self.spanprof("convert", store, *store.iterdir(), "-o", self.dir / "all.pb")
        self.assertEqual(self.summary(self.dir / "all.pb")["profiles"][0]["value"], 30, "copies count once")

    def test_a_batch_of_a_spool(self):
        whole = [path for path in sorted((tap.BUILD_DIR / "tests/fuzz/corpus/spool").iterdir())]
        path = self.dir / "batch"
        for batch in whole:
            data = batch.read_bytes()[1:]       # the first byte is the fuzzer's
            if data[:8] != b"SPANSPL1":
                continue
            path.write_bytes(data)
            done = self.run_command([tap.SPANPROF, "report", path])
            self.assertIn(done.returncode, (0, 1), batch.name)
            self.assertEqual(done.returncode == 1, bool(done.stderr), batch.name)
            path.write_bytes(data[:-1])
            self.assertIn("batch of a spool, and damaged or cut off",
                          self.spanprof("report", path, expect=1).stderr)

    def test_people_get_markdown_and_pages(self):
        victim = payload.Victim(self.dir)
        request = victim.payload()
        request["dictionary"]["stringTable"][8] = "clear|page<b>*x*`"
        path = self.write("a.json", request)
        self.spanprof("report", path, "-o", self.dir / "a.md")
        text = (self.dir / "a.md").read_text()
        self.assertIn("| 6 | 60.0% | 6 | 60.0% | hot | victim-of-report |", text)
        self.assertIn(r"clear\|page\<b\>\*x\*\`", text)
        for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
            columns = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
            self.assertEqual(len(columns), 1, table)
        self.assertEqual(self.spanprof("report", "--format", "markdown", path).stdout, text)
        self.spanprof("report", path, "-o", self.dir / "a.html")
        self.assertIn("<!doctype html>", (self.dir / "a.html").read_text()[:50])
        self.spanprof("report", path, "-o", self.dir / "a.unknown", expect=2)

    def test_sort_by_total(self):
        path = self.write("a.pb", payload.Victim(self.dir).payload())
        self.assertEqual([
            f["function"] for f in self.summary("--sort", "total", path)["profiles"][0]["functions"]
        ][:3], ["main", "serve", "hot"])


class Speedscope(Forms):
    def check_threads(self, threads, names, request):
        """One profile a thread, whose leaves are those of the request in the order of their times."""
        table = request["dictionary"]
        strings = table["stringTable"]

        def leaf(sample):
            place = table["locationTable"][table["stackTable"][sample.get("stackIndex", 0)]["locationIndices"][0]]
            lines = place.get("lines") or []
            if not lines:
                return None
            return strings[table["functionTable"][lines[0].get("functionIndex", 0)].get("nameStrindex", 0)]

        expected = collections.defaultdict(list)
        for resource in request["resourceProfiles"]:
            for profile in (p for scope in resource["scopeProfiles"] for p in scope["profiles"]):
                for sample in profile["samples"]:
                    attributes = {strings[a["keyStrindex"]]: a["value"] for i in sample.get("attributeIndices", [])
                                  for a in [table["attributeTable"][i]]}
                    for time_ns in sample["timestampsUnixNano"] if "thread.id" in attributes else ():
                        expected[int(attributes["thread.id"]["intValue"])].append((int(time_ns), leaf(sample)))
        found = {int(re.search(r"^samples, thread .*\((\d+)\)$", thread["name"])[1]): thread for thread in threads}
        self.assertGreater(len(expected), 0)
        self.assertEqual(found.keys(), expected.keys())
        for tid, events in expected.items():
            shown = [names[stack[-1]] for stack in found[tid]["samples"]]
            wanted = [name for _, name in sorted(events, key=lambda event: event[0])]
            self.assertEqual(len(shown), len(wanted))
            for ours, theirs in zip(shown, wanted):
                self.assertTrue(theirs is None or ours == theirs, (tid, shown, wanted))
            self.assertEqual(found[tid]["weights"], [10**7] * len(wanted))

    def test_what_is_written_is_read_back(self):
        path = self.write("a.pb", payload.Victim(self.dir).payload())
        out = self.dir / "a.speedscope.json"
        self.spanprof("convert", path, "-o", out)
        before = {name: [10**7 * n for n in numbers] for name, numbers in self.functions(path).items()}
        after = self.functions(out)
        self.assertEqual({name: after[name] for name in before if name in after},
                         {name: numbers for name, numbers in before.items() if name in after})
        self.assertLess({"main", "serve", "hot"}, after.keys())

    def document(self, unit, *profiles, exporter="py-spy@0.4"):
        return {"$schema": "https://www.speedscope.app/file-format-schema.json", "exporter": exporter,
                "shared": {"frames": [{"name": "main", "file": "a.py", "line": 3}, {"name": "work"},
                                      {"name": "idle"}]},
                "profiles": [{"unit": unit, "name": f"thread {i}", "startValue": 0, "endValue": 9, **profile}
                             for i, profile in enumerate(profiles)]}

    def test_files_of_others_are_read(self):
        """Samples with weights, and frames that open and close; units of time are nanoseconds, others a count."""
        opened = [{"type": kind, "frame": frame, "at": at}
                  for kind, frame, at in (("O", 0, 0), ("O", 1, 1), ("C", 1, 3), ("O", 2, 3), ("C", 2, 3.5),
                                          ("C", 0, 4))]
        sampled = {"type": "sampled", "samples": [[0, 1], [0], [0, 1]], "weights": [0.25, 0.5, 1]}
        for unit, profiles, stacks, status, words in (
            ("seconds", [sampled], {"main;work": 1250000000, "main": 500000000}, 0, None),
            ("none", [sampled], {"main;work": 1}, 0, None),
            ("bytes", [{**sampled, "weights": [3, 4, 5]}], {"main;work": 8, "main": 4}, 0, None),
            ("milliseconds", [{"type": "evented", "events": opened}],
             {"main": 1500000, "main;work": 2000000, "main;idle": 500000}, 0, None),
            ("none", [{**sampled, "weights": [1, -1, 1]}], {"main;work": 2}, 0, "1 weights are below zero"),
            ("none", [{**sampled, "samples": [[0, 9], [0], [0]]}], {}, 1, "a frame that is none"),
            ("none", [{**sampled, "weights": [1]}], {}, 1, "samples and weights do not agree in the profile thread 0"),
            ("none", [{"type": "evented", "events": opened[:2] + opened[5:]}], {"main": 1, "main;work": 3}, 1,
             "closes another frame than the one that is open"),
            ("none", [{"type": "other"}], {}, 1, "neither sampled nor evented"),
        ):
            with self.subTest(unit=unit, words=words):
                path = self.dir / "theirs.json"
                path.write_text(json.dumps(self.document(unit, *profiles)))
                done = self.spanprof("convert", path, "-o", "-", "--format", "folded", expect=status)
                read = [line.rpartition(" ") for line in done.stdout.splitlines()]
                self.assertEqual({stack: int(number) for stack, _, number in read}, stacks)
                self.assertRegex(done.stderr, words or "^$|left out, since folded")
        path.write_text(json.dumps(self.document("none", {**sampled, "weights": [1, 1, 1]},
                                                 {**sampled, "weights": [1, 1, 1]})))
        written = self.spanprof("convert", path, "-o", "-", "--format", "json").stdout
        self.assertIn('"thread 1"', written)
        path.write_text(path.read_text()[:-20])
        self.assertIn("is no whole JSON", self.spanprof("report", path, expect=1).stderr)

    def test_stacks_weigh_what_the_payload_says(self):
        request = payload.Victim(self.dir).payload()
        path = self.write("a.pb", request)
        self.write("a.json", request)
        for verb in ("report", "convert"):
            out = self.dir / f"{verb}.speedscope.json"
            said = self.spanprof(verb, path, "-o", out).stderr
            self.assertIn("since speedscope cannot hold it: 10 times", said)
            document = json.loads(out.read_text())
            self.assertEqual(document["$schema"], "https://www.speedscope.app/file-format-schema.json")
            names = [frame["name"] for frame in document["shared"]["frames"]]
            profile, *threads = document["profiles"]
            self.check_threads(threads, names, json.loads(path.with_suffix(".json").read_text()))
            self.assertEqual([profile[k] for k in ("type", "name", "unit", "startValue", "endValue")],
                             ["sampled", "samples", "nanoseconds", 0, 10 * 10**7])
            weights = collections.Counter()
            for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
                weights[names[stack[-1]]] += weight
                self.assertEqual(names[stack[0]], "main")
            self.assertEqual(sum(weights.values()), profile["endValue"])
            self.assertEqual([weights[name] for name in ("hot", "serve", "clear_page")],
                             [6 * 10**7, 2 * 10**7, 10**7])

    def test_addresses_of_one_function_are_one_frame(self):
        request = Request()
        for i in range(4):
            stack = request.stack([request.location(["hot"] if i < 2 else [], "native", 16 + i),
                                   request.location(["main"], "native", 1 + i)])
            request.sample(SHOP, CPU, stack, {}, None, 1, START_NS + i)
        out = self.dir / "a.speedscope.json"
        self.spanprof("convert", request.write(self.dir / "a.json"), "-o", out)
        frames = json.loads(out.read_text())["shared"]["frames"]
        self.assertEqual(sorted(frame["name"] for frame in frames), ["0x12", "0x13", "hot", "main"])

    def test_units_are_those_of_each_kind(self):
        out = self.dir / "a.speedscope.json"
        self.spanprof("convert", DATA / "go-cpu.pb.gz", "-o", out)
        kinds = json.loads(out.read_text())["profiles"]
        self.assertEqual([(k["name"], k["unit"]) for k in kinds],
                         [("samples", "nanoseconds")])
        folded = self.dir / "a.folded"
        folded.write_text('main;say "hi" 3\nmain;\xff 4\n', encoding="latin-1")
        self.spanprof("convert", folded, "--format", "speedscope", "-o", out)
        kind, = json.loads(out.read_text())["profiles"]
        self.assertEqual((kind["unit"], kind["endValue"]), ("none", 7))


class Firefox(Forms):
    def read(self, path, *options):
        out = self.dir / "a.firefox.json"
        self.spanprof("convert", path, "-o", out, *options)
        return firefox_read.read(out)

    def test_threads_have_their_samples_with_stacks_and_times(self):
        path = self.write("a.pb", payload.Victim(self.dir).payload())
        expected = collections.Counter()
        for sample in otlp_read.samples(path):
            names = [frame.name for frame in reversed(sample.frames)]
            expected[str(sample.resource["process.pid"]), sample.attributes.get("thread.id", 0), sample.time_ns,
                     tuple(name or None for name in names)] += sample.value
        known = {name for key in expected for name in key[3] if name}
        profile = self.read(path)
        found = collections.Counter()
        for thread in profile.threads:
            self.assertEqual(thread.weight_type, "tracing-ms")
            for s in thread.samples:
                self.assertEqual(s.weight, profile.interval_ms)
                time_ns = round((profile.start_ms + s.ms) * 1e6, -4)
                # a frame without a name has that of its place
                names = (frame.name if frame.name in known else None for frame in s.path)
                found[thread.pid, thread.tid, time_ns, tuple(names)] += 1
        rounded = collections.Counter()
        for (pid, tid, time_ns, names), n in expected.items():
            rounded[pid, tid, round(time_ns, -4), names] += n
        self.assertEqual(found, rounded)
        named = {frame.name for thread in profile.threads for s in thread.samples for frame in s.path}
        self.assertLessEqual(known, named)

    def test_kernel_frames_have_their_category_and_lines_stay(self):
        request = Request()
        stack = request.stack([request.location(["clear_page"], "kernel", 16), request.location(["main"], "native", 1)])
        request.sample(SHOP, CPU, stack, {}, None, 1, START_NS)
        sample, = self.read(request.write(self.dir / "a.json")).threads[0].samples
        self.assertEqual([(frame.name, frame.category) for frame in sample.path],
                         [("main", "User"), ("clear_page", "Kernel")])

    def test_samples_without_times_stand_one_behind_the_other(self):
        folded = self.dir / "a.folded"
        folded.write_text("main;hot 3\nmain;cold 4\n")
        thread, = self.read(folded, "--format", "firefox").threads
        self.assertEqual(thread.weight_type, "samples")
        self.assertEqual({tuple(frame.name for frame in s.path): s.weight for s in thread.samples},
                         {("main", "hot"): 3, ("main", "cold"): 4})

    def test_kinds_beside_the_first_are_threads_with_its_name(self):
        profile = self.read(DATA / "kinds.jfr.gz")
        kinds = collections.defaultdict(set)
        for thread in profile.threads:
            kind = re.search(r"\((\w+)\)$", thread.name)
            kinds[thread.weight_type].add(kind and kind[1])
        self.assertEqual(kinds, {"tracing-ms": {None, "wall", "lock_contention"},
                                 "bytes": {"alloc_space", "native_alloc_space", "inuse_space"}})

    def test_names_of_others_cannot_break_it(self):
        folded = self.dir / "a.folded"
        folded.write_bytes(b'ma"in;\\;say "hi" </script>;\xff 2\n')
        thread, = self.read(folded, "--format", "firefox").threads
        self.assertEqual([frame.name for frame in thread.samples[0].path],
                         ['ma"in', "\\", 'say "hi" </script>', "\ufffd"])

    def test_what_it_cannot_hold_is_said(self):
        path = self.write("a.pb", payload.Victim(self.dir).payload())
        said = self.spanprof("convert", path, "-o", self.dir / "a.firefox.json").stderr
        self.assertIn("since firefox cannot hold it: ", said)
        self.assertNotIn("time", said)


class Annotate(Forms):
    def test_a_profile_without_lines_is_told_from_one_of_other_files(self):
        (self.dir / "a.folded").write_text("main;hot 60\n")
        (self.dir / "main.go").write_text("package main\n")
        done = self.spanprof("report", "--annotate", "main.go", "a.folded", cwd=self.dir, expect=1)
        self.assertIn("this profile has none at all; is there debug information", done.stderr)

    def test_lines_have_what_the_profile_says_of_them(self):
        oracle.need()
        profile = profile_class().FromString(gzip.decompress((DATA / "go-cpu.pb.gz").read_bytes()))
        files = {f.id: profile.string_table[f.filename] for f in profile.function}
        places = {x.id: [(files[line.function_id], line.line) for line in x.line] for x in profile.location}
        recorded = next(name for name in files.values() if name.endswith("main.go"))
        self_, total, all_ = collections.Counter(), collections.Counter(), 0
        for sample in profile.sample:
            stack = [place for i in sample.location_id for place in places[i]]
            all_ += sample.value[0]
            self_[stack[0]] += sample.value[0]
            for place in set(stack):
                total[place] += sample.value[0]
        source = self.dir / "main.go"
        last = max(line for name, line in total if name == recorded)
        source.write_text("".join(f"\tline {i} \x1b[2J{'' if i % 2 else chr(13)}\n" for i in range(1, last + 3)))
        for form in ([], ["--format", "markdown"]):
            shown = self.spanprof("report", "--annotate", "main.go", *form, DATA / "go-cpu.pb.gz",
                                  cwd=self.dir).stdout
            rows = re.findall(r"(?m)^(.{6}). (.{6}). +(\d+) {10}line (\d+) \?\[2J$", shown)
            self.assertEqual([int(n) for _, _, n, _ in rows], list(range(1, last + 3)), shown)
            for own, whole, number, text in rows:
                self.assertEqual(number, text)
                place = recorded, int(number)
                self.assertEqual([own.strip(), whole.strip()],
                                 [f"{100 * sums[place] / all_:.1f}" if sums[place] else ""
                                  for sums in (self_, total)])
        for context in (0, 2):
            shown = self.spanprof("report", "--annotate", f"main.go:{context}", DATA / "go-cpu.pb.gz",
                                  cwd=self.dir).stdout
            near = {n for name, line in total if name == recorded
                    for n in range(line - context, line + context + 1)}
            self.assertEqual([int(n) for n in re.findall(r"(?m) (\d+) {10}line ", shown)],
                             sorted(near & set(range(1, last + 3))), shown)
            self.assertRegex(shown, r"(?m)^ +…$")
        source.write_text("short\n")
        self.assertIn("behind the end", self.spanprof("report", "--annotate", "main.go", DATA / "go-cpu.pb.gz",
                                                      cwd=self.dir).stdout)

    def test_a_page_says_the_same_as_the_text(self):
        hostile = '<script>window.harmed = 1</script> & "quoted" \x1b[2J'
        (self.dir / "main.go").write_text(hostile + "\n" + "\t// a line of the source\n" * 999)
        text = self.spanprof("report", "--annotate", "main.go", DATA / "go-cpu.pb.gz", cwd=self.dir).stdout
        self.spanprof("report", "--annotate", "main.go", "-o", "a.html", DATA / "go-cpu.pb.gz", cwd=self.dir)
        page = (self.dir / "a.html").read_text()
        said = {int(line): [self_ or "", total] for self_, total, line in
                re.findall(r"^ *([\d.]+%)? +([\d.]+%) +(\d+)  ", text, re.M)}
        self.spanprof("report", "--annotate", "main.go:3", "-o", "b.html", DATA / "go-cpu.pb.gz", cwd=self.dir)
        short = (self.dir / "b.html").read_text()
        self.assertEqual(re.findall(r'<tr id="L\d+"[^>]*><td>[^<]*</td><td>[^<]+</td>', short),
                         re.findall(r'<tr id="L\d+"[^>]*><td>[^<]*</td><td>[^<]+</td>', page))
        self.assertIn("<td>…</td>", short)
        self.assertLess(short.count("<tr id="), 7 * len(said) + 1)
        shown = {int(line): [self_, total] for line, self_, total in
                 re.findall(r'<tr id="L(\d+)"[^>]*><td>([^<]*)</td><td>([^<]+)</td>', page)}
        self.assertGreater(len(said), 3)
        self.assertEqual(shown, said)
        hottest = max(said, key=lambda line: (float(said[line][0].rstrip("%") or 0), -line))
        self.assertIn(f'Hottest by their own share: <a href="#L{hottest}">line {hottest}</a>', page)
        self.assertNotIn("<script", page)
        self.assertNotIn("\x1b", page)
        self.assertIn("&lt;script&gt;window.harmed = 1&lt;/script&gt; &amp; &quot;quoted&quot; ", page)

    def test_the_output_is_for_those_who_may_read_the_source(self):
        source, out = self.dir / "main.go", self.dir / "out.txt"
        source.write_text("\n" * 1000)
        source.chmod(0o600)
        self.spanprof("report", "--annotate", "main.go", "-o", out, DATA / "go-cpu.pb.gz", cwd=self.dir)
        self.assertEqual(out.stat().st_mode & 0o777, 0o600)

    def test_what_cannot_be_shown_is_said(self):
        (self.dir / "other.go").write_text("package other\n")
        for name, options, status, words in (("other.go", [], 1, "no sample has a line in it; there are lines of "),
                                             ("none.go", [], 1, "cannot be read: No such file"),
                                             (".", [], 1, "cannot be read"),
                                             ("other.go", ["-o", "x.svg"], 2, "--annotate writes"),
                                             ("other.go", ["--wall"], 2, "--annotate writes"),
                                             ("other.go", ["--format", "text", "-o", "other.go"], 2,
                                              "is input and output")):
            self.assertIn(words, self.spanprof("report", "--annotate", name, *options, DATA / "go-cpu.pb.gz",
                                               cwd=self.dir, expect=status).stderr)


class Diff(Forms):
    def test_says_whose_share_has_changed(self):
        before, after = self.dir / "before.folded", self.dir / "after.folded"
        before.write_text("main;hot 60\nmain;cold 40\n")
        after.write_text("main;hot 20\nmain;cold 160\nmain;new 20\n")
        diff = json.loads(self.spanprof("report", "--diff", "--json", before, after).stdout)["profiles"][0]
        self.assertEqual((diff["before"], diff["after"]), (100, 200))
        self.assertEqual([(f["function"], f["share_change"], f["self_before"], f["self_after"])
                          for f in diff["functions"]], [("hot", -50, 60, 20), ("cold", 40, 40, 160),
                                                        ("new", 10, 0, 20), ("main", 0, 0, 0)])
        text = self.spanprof("report", "--diff", before, after).stdout
        self.assertRegex(text, r"-50\.0 +60 +60\.0% +20 +10\.0%  hot ")
        self.assertNotIn("main", text, "it has the share that it had")
        self.assertIn("| -50.0 | 60 | 60.0% | 20 | 10.0% | hot |",
                      self.spanprof("report", "--diff", "--format", "markdown", before, after).stdout)
        self.spanprof("report", "--diff", before, after, "-o", self.dir / "diff.html")
        self.assertIn("<!doctype html>", (self.dir / "diff.html").read_text()[:50])

    def test_says_what_has_grown_of_memory_in_use(self):
        """Two moments: the level of each, in the text, as JSON and on the page."""
        kind = ("inuse_space", "bytes", "space", "bytes", 1)
        moments = [{"cache": 20 << 20, "pool": 60 << 20}, {"cache": 100 << 20, "pool": 60 << 20}]
        paths = [self.dir / "monday.json", self.dir / "tuesday.json"]
        for path, moment in zip(paths, moments, strict=True):
            request = Request()
            for name, size in moment.items():
                stack = request.stack([request.location([name], "go", 16), request.location(["main"], "go", 32)])
                request.sample(SHOP, kind, stack, {}, None, size, START_NS)
                request.sample(SHOP, ("alloc_space", *kind[1:]), stack, {}, None, 7 * size, START_NS)
            request.write(path)
        said = json.loads(self.spanprof("report", "--diff", "--json", *paths).stdout)
        both = {profile["type"]: profile for profile in said["profiles"]}
        diff = both["inuse_space"]
        self.assertEqual((diff["before"], diff["after"]), (80 << 20, 160 << 20))
        self.assertEqual([(f["function"], f["share_change"], f["self_before"], f["self_after"])
                          for f in diff["functions"]],
                         [("cache", 37.5, 20 << 20, 100 << 20), ("pool", -37.5, 60 << 20, 60 << 20),
                          ("main", 0, 0, 0)])
        self.assertEqual(both["alloc_space"]["after"], 7 * 160 << 20)
        self.assertRegex(self.spanprof("report", "--diff", *paths).stdout, r"\+37\.5 .*25\.0% .*62\.5%  cache ")
        self.spanprof("report", "--diff", *paths, "-o", self.dir / "diff.html")
        page = page_read.read(self.dir / "diff.html")
        self.assertEqual(page.meta["kinds"][page.meta["mainKind"]]["type"], "inuse_space")
        shown = [{row.path[-1].name: row.value for row in page.rows
                  if row.side == side and page.meta["kinds"][row.kind]["type"] == "inuse_space"} for side in (0, 1)]
        self.assertEqual(shown, moments)

    def test_matches_names_that_differ_from_build_to_build_and_says_so(self):
        """What has a namesake stays with it; what only one side has without another like it stays alone."""
        before, after = self.dir / "before.folded", self.dir / "after.folded"
        before.write_text("main;Sort<Order>::run() 50\nmain;shop::total::h0123456789abcdef 20\n"
                          "main;Keep<int>() 20\nmain;Gone<int>() 10\n")
        after.write_text("main;Sort<Item>::run() 20\nmain;Sort<Line>::run() 5\nmain;shop::total::hfedcba9876543210 45\n"
                         "main;Keep<int>() 20\nmain;Keep<long>() 10\n")
        diff = json.loads(self.spanprof("report", "--diff", "--json", before, after).stdout)["profiles"][0]
        self.assertEqual(
            [(f["function"], f["self_before"], f["self_after"], f["matched_by_plain_name"]) for f in diff["functions"]],
            [("Sort::run()", 50, 25, True), ("shop::total", 20, 45, True), ("Gone<int>()", 10, 0, False),
             ("Keep<long>()", 0, 10, False), ("Keep<int>()", 20, 20, False), ("main", 0, 0, False)])
        text = self.spanprof("report", "--diff", before, after).stdout
        self.assertRegex(text, r"-25\.0 +50 +50\.0% +25 +25\.0%  ≈ Sort::run\(\)")
        self.assertRegex(text, r"(?m)^ +\+25\.0 .*  ≈ shop::total ")
        self.assertRegex(text, r"(?m)^ +-10\.0 .*  Gone<int>\(\)")
        self.assertEqual(text.count("≈"), 3, "two rows, and the line that says what it means")
        self.assertIn("matched without template arguments, lambda numbers, Rust hashes", text)
        self.assertNotIn("≈", self.spanprof("report", "--diff", before, before).stdout)
        self.check_page(before, after)

    def check_page(self, before, after):
        """The page has the same rows, in all stacks."""
        out = self.dir / "diff.html"
        self.spanprof("report", "--diff", before, after, "-o", out)
        sides = [collections.Counter(), collections.Counter()]
        for row in page_read.read(out).rows:
            self.assertEqual(row.path[0].name, "main")
            sides[row.side][row.path[-1].name] += row.value
        self.assertEqual(sides, [
            {"≈ Sort::run()": 50, "≈ shop::total": 20, "Keep<int>()": 20, "Gone<int>()": 10},
            {"≈ Sort::run()": 25, "≈ shop::total": 45, "Keep<int>()": 20, "Keep<long>()": 10}])
        self.spanprof("report", "--diff", before, before, "-o", out)
        self.assertFalse([frame for frame in page_read.read(out).frames if "≈" in frame.name])

    def test_a_side_that_cannot_be_read_is_no_empty_one(self):
        good, bad = self.dir / "good.folded", self.dir / "bad.txt"
        good.write_text("main;hot 60\n")
        bad.write_text("not a profile\n")
        for sides in ((good, bad), (bad, good)):
            done = self.spanprof("report", "--diff", *sides, expect=1)
            self.assertEqual(done.stdout, "")
            self.assertIn("bad.txt: is no profiles file: it is text", done.stderr)

    def test_builds_in_other_folders_are_the_same_functions(self):
        """On the page as in the text: two builds of one program lie in different folders."""
        paths = []
        for build, number in (("v1", 1), ("v2", 2)):
            (self.dir / build).mkdir()
            path = self.write(f"{build}.pb", payload.Victim(self.dir / build).payload(f"{number:02}" * 16))
            paths.append(path)
        self.assertIn("No function has another share", self.spanprof("report", "--diff", *paths).stdout)
        self.spanprof("report", "--diff", *paths, "-o", self.dir / "diff.html")
        sides = [collections.Counter(), collections.Counter()]
        for row in page_read.read(self.dir / "diff.html").rows:
            sides[row.side][tuple((frame.name, frame.object) for frame in row.path)] += row.value
        self.assertEqual(sides[0], sides[1])
        self.assertIn("victim-of-report", {object for path in sides[0] for _, object in path})

    def test_explains_its_words_when_asked(self):
        path = self.write("a.pb", payload.Victim(self.dir).payload())
        self.assertNotIn("What the words mean", self.spanprof("report", path).stdout)
        said = self.spanprof("report", "--explain", path).stdout
        self.assertIn("What the words mean", said)
        self.assertRegex(said, r"(?m)^Ended at more frames than are kept \(depth\): The stack is deeper")
        for word in ("self", "total", "with span", "incomplete", "one every", "off_cpu", "blocked", "ended by",
                     "object"):
            self.assertRegex(said, rf"(?m)^  {word} ")
        self.assertRegex(self.spanprof("report", "--diff", "--explain", path, path).stdout,
                         r"(?m)^  change +share after minus share before")
        self.assertIn("--explain writes text or markdown",
                      self.spanprof("report", "--explain", "--json", path, expect=2).stderr)

    def test_fails_where_a_function_grew_beyond_noise(self):
        """Twelve of a hundred samples instead of ten are chance; of a million they are none."""
        for n, grown, points, status in ((100, 0.12, 1, 0), (10**6, 0.12, 1, 3), (10**6, 0.12, 5, 0),
                                         (10**6, 0.08, 0, 3), (100, 0.9, 50, 3)):
            with self.subTest(n=n, grown=grown, points=points):
                before, after = self.dir / "before.folded", self.dir / "after.folded"
                before.write_text(f"main;hot {round(n * 0.1)}\nmain;cold {round(n * 0.9)}\n")
                after.write_text(f"main;hot {round(n * grown)}\nmain;cold {round(n * (1 - grown))}\n")
                forms = [[], ["--json"], ["--format", "markdown"], ["-o", self.dir / "diff.html"]]
                for form in forms:
                    done = self.spanprof("report", "--diff", "--fail-above", str(points), *form, before,
                                         after, expect=status)
                    worse = "cold" if grown < 0.1 else "hot"
                    self.assertEqual(re.findall(r"(?m)^spanprof: (\w+): \+[\d.]+ points of samples "
                                                r"\([\d.]+% → [\d.]+%\), beyond noise", done.stderr),
                                     [worse] if status else [], done.stderr)
                    if not status:
                        self.assertRegex(done.stderr, r"hot: \+2\.0 points .* within noise .*which more samples make"
                                         if n == 100 else r"no function's own share grew by more than 5 points")
        # more in the function itself and less in what it calls is no more in all
        before.write_text("main;serve 100000\nmain;serve;hot 900000\n")
        after.write_text("main;serve 900000\nmain;serve;hot 100000\n")
        for form in forms:
            for sort, status in (("self", 3), ("total", 0)):
                with self.subTest(form=form, sort=sort):
                    self.spanprof("report", "--diff", "--fail-above", "5", "--sort", sort, *form, before, after,
                                  expect=status)

    def test_judges_nothing_but_samples(self):
        path = self.dir / "a.json"
        document = payload.Victim(self.dir).payload()
        document["dictionary"]["stringTable"][1] = "alloc_space"
        path.write_text(json.dumps(document))
        self.assertIn("nothing was judged",
                      self.spanprof("report", "--diff", "--fail-above", "5", path, path, expect=1).stderr)
        self.assertIn("use it with --diff", self.spanprof("report", "--fail-above", "5", path, expect=2).stderr)
        environment = {**os.environ, "SPANPROF_FAIL_ABOVE": "5"}
        self.assertIn("nothing was judged",
                      self.spanprof("report", "--diff", path, path, env=environment, expect=1).stderr)
        self.spanprof("report", path, env=environment)

    def test_the_same_file_twice_has_no_difference(self):
        path = DATA / "go-cpu.pb.gz"
        self.assertIn("No function has another share", self.spanprof("report", "--diff", path, path).stdout)

    def test_wrong_uses(self):
        path = DATA / "go-cpu.pb.gz"
        self.assertIn("two files", self.spanprof("report", "--diff", path, expect=2).stderr)
        self.assertIn(
            "--diff writes",
            self.spanprof("report", "--diff", path, path, "-o", self.dir / "a.folded", expect=2).stderr)


class Coroutines(Forms):
    N, STUCK = 40, 5

    def events(self):
        """A trace of N coroutines that run 1 µs and wait 50 µs in turns, of which the last STUCK are never resumed again; and sums."""
        rng = random.Random(3)
        rows, sums = [], {}
        for k in range(self.N):
            probe, t, sum_ = 0x1000 + k, 10**9 + k * 1000, collections.Counter()
            turns = 30 if k >= self.N - self.STUCK else 4000
            for turn in range(turns):
                run, wait, tid = rng.randrange(500, 1500), rng.randrange(40_000,
                                                                         60_000), 100 + rng.randrange(3)
                rows.append((t, probe, tid, 0x400000 + k, 2 * turn, True))
                rows.append((t + run, probe, tid, 0x400000 + k, 2 * turn + 2, False))
                sum_.update(run=run, resumes=1, events=2)
                if turn + 1 < turns:
                    sum_.update(wait=wait)
                t += run + wait
            sums[probe] = sum_
        return sorted(rows), sums

    def setUp(self):
        super().setUp()
        self.rows, self.sums = self.events()
        self.path = self.dir / "trace.jsonl"
        self.path.write_text("".join(
            f'{{"probe_id":{p},"tid":{tid},"addr":"0x{a:016x}","seq":{seq},"is_active":{"true" if on else "false"},"ts":{t}}}\n'
            for t, p, tid, a, seq, on in self.rows))

    def check(self, path):
        report = self.summary(path)
        self.assertEqual((report["events"], report["n_coroutines"]), (len(self.rows), self.N))
        found = {int(c["probe_id"], 16): c for c in report["coroutines"]}
        for probe, sum_ in self.sums.items():
            c = found[probe]
            self.assertEqual((c["events"], c["resumes"], c["run_ns"], c["suspended_ns"]),
                             (sum_["events"], sum_["resumes"], sum_["run"], sum_["wait"]))
        self.assertEqual({int(c["probe_id"], 16) for c in report["lost_wakeups"]},
                         {0x1000 + k for k in range(self.N - self.STUCK, self.N)})
        return report

    def test_every_form_of_a_trace_says_what_python_sums_up(self):
        self.check(self.path)
        table = self.dir / "trace.csv"
        with table.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow("probe_id tid addr seq is_active ts".split())
            writer.writerows((p, tid, f"0x{a:016x}", seq, "true" if on else "false", t)
                             for t, p, tid, a, seq, on in self.rows)
        self.check(table)
        database = self.dir / "trace.db"
        connection = sqlite3.connect(database)
        connection.execute(
            "CREATE TABLE coro_trace_events (id INTEGER PRIMARY KEY AUTOINCREMENT, probe_id TEXT, tid TEXT, addr TEXT,"
            " seq TEXT, is_active INTEGER, ts TEXT)")
        connection.executemany(
            "INSERT INTO coro_trace_events (probe_id, tid, addr, seq, is_active, ts) VALUES (?,?,?,?,?,?)",
            [(str(p), str(tid), f"0x{a:016x}", str(seq), int(on), str(t))
             for t, p, tid, a, seq, on in self.rows])
        connection.commit()
        connection.close()
        self.check(database)
        (self.dir / "trace.jsonl.gz").write_bytes(gzip.compress(self.path.read_bytes(), 1))
        self.check(self.dir / "trace.jsonl.gz")

    def test_longest_stretches_and_places(self):
        report = self.check(self.path)
        waits, last = [], {}
        for t, p, tid, a, seq, on in self.rows:
            if on and p in last:
                waits.append(t - last[p])
            last[p] = t
        self.assertEqual([s["ns"] for s in report["longest_suspensions"]], sorted(waits, reverse=True)[:200])
        self.assertEqual(sum(a["suspended_ns"] for a in report["addresses"]), sum(waits))
        text = self.spanprof("report", self.path).stdout
        self.assertIn(f"{self.STUCK} lost wake-ups suspected", text)
        self.assertIn("#### Longest suspensions",
                      self.spanprof("report", "--format", "markdown", self.path).stdout)
        folded = self.spanprof("report", "--format", "folded", self.path).stdout
        self.assertEqual(sum(int(line.split()[1]) for line in folded.splitlines()), sum(waits),
                         "as a flame graph, the same time")

    def test_one_coroutine_and_a_damaged_line(self):
        report = self.summary("--coroutine", "0x0000000000001003", self.path)
        self.assertEqual((report["n_coroutines"], report["events"]), (1, 8000))
        with self.path.open("a") as file:
            file.write('{"probe_id":5,"tid')
        done = self.spanprof("report", "--json", self.path, expect=1)
        self.assertIn("1 lines are no events", done.stderr)
        self.assertEqual(json.loads(done.stdout)["events"], len(self.rows))

    def test_what_the_engine_says_of_its_stations(self):
        for suffix in (".jsonl", ".jsonl.gz", ".db"):
            path = self.dir / f"engine{suffix.removesuffix('.gz')}"
            self.spanprof("coro", "-o", path, "--", tap.VICTIMS / "victim-stations", "coroutines=6",
                          "turns=3", "hang=2", "pause=1000")
            if suffix.endswith(".gz"):
                packed = path.with_name("engine.jsonl.gz")
                packed.write_bytes(gzip.compress(path.read_bytes(), 1))
                path = packed
            report = self.summary(path)
            states = collections.Counter(c["state"] for c in report["coroutines"])
            self.assertEqual((states["dead"], states["suspended"] + states["lost wake-up?"]), (4, 2), suffix)
            self.assertTrue(report["stations_known"])

    def test_the_page_works(self):
        if not browser.find():
            tap.skip("tool: no chromium with chromedriver")
        page = self.dir / "trace.html"
        self.spanprof("report", self.path, "-o", page)
        self.assertNotIn("http://", page.read_text().replace("http://www.w3.org", ""))
        with browser.Browser(self.directory()) as window:
            window.open(page)
            self.assertIn(f"{self.STUCK} lost wake-ups suspected", window.text("#alarm"))
            self.assertIn(f"{self.N} of {self.N}", window.text("#count"))
            drawn = window.run(
                "const c = document.getElementById('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                "let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n")
            self.assertGreater(drawn, 10000, "timelines are drawn")
            window.run(
                "const f = document.getElementById('find'); f.value = '0x1003'; f.dispatchEvent(new Event('input'))"
            )
            self.assertIn(f"1 of {self.N}", window.text("#count"))
            window.run(
                "const s = document.getElementById('scroller');"
                "s.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', cancelable: true }))")
            self.assertIn("0x1003", window.text("#detail"))
            self.assertEqual(window.problems(), [])

    def many(self, n):
        """A trace of n coroutines that run k + 1 µs a turn, in ten turns, the last one late; number 7,777 never wakes up again."""
        rows = []
        for k in range(n):
            for turn in range(10 if k != 7777 else 5):
                t = 10**9 + turn * 2 * 10**7 + k * 1000 + (2 * 10**9 if turn == 9 else 0)
                rows.append((t, 0x100000 + k, True))
                rows.append((t + 1000 * (k + 1), 0x100000 + k, False))
        return sorted(rows)

    def test_the_page_stays_usable_with_ten_thousand(self):
        if not browser.find():
            tap.skip("tool: no chromium with chromedriver")
        n, page = 10_000, self.dir / "many.html"
        self.path.write_text("".join(
            f'{{"probe_id":{p},"tid":{7 + p % 8},"addr":"0x{0 if on else p:016x}","seq":2,"is_active":{"true" if on else "false"},"ts":{t}}}\n'
            for t, p, on in self.many(n)))
        self.spanprof("report", self.path, "-o", page)
        with browser.Browser(self.directory()) as window:
            window.open(page)
            self.assertIn("10,000 of 10,000", window.text("#count"))
            self.assertIn("1 lost wake-up suspected: 0x101e61 ", window.text("#alarm"))
            # Rows are drawn where one looks, and nowhere else, however many there are.
            window.run(
                "window.rows = []; const draw = CanvasRenderingContext2D.prototype.fillText;"
                "CanvasRenderingContext2D.prototype.fillText = function (text, ...more) { window.rows.push(text); return draw.call(this, text, ...more); }"
            )
            look = (
                "window.rows = []; const s = document.getElementById('scroller'); s.scrollTop = arguments[0];"
                "s.dispatchEvent(new Event('scroll')); return window.rows")
            room = window.run("return document.getElementById('scroller').clientHeight") / 18
            by_run = [
                f"0x{0x100000 + k:x}"
                for k in sorted(range(n), key=lambda k: (k + 1) * (10 if k != 7777 else 5), reverse=True)
            ]
            for first in (0, 1, 4321, n - 40):
                rows = window.run(look, 18 * first)
                # the browser fires its own event behind ours, perhaps before we ask: the same rows once more
                self.assertLessEqual(len(set(rows)), room + 2)
                self.assertGreater(len(set(rows)), 5)
                self.assertEqual(rows[:len(set(rows))], by_run[first:first + len(set(rows))])
            last = window.run(look, 10**9)
            self.assertIn(by_run[-1], last, "the end can be reached")
            window.run(
                "const f = document.getElementById('state'); f.value = 'lost wake-up?'; f.dispatchEvent(new Event('input'))"
            )
            self.assertIn("1 of 10,000", window.text("#count"))
            window.run(
                "document.getElementById('scroller').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', cancelable: true }))"
            )
            self.assertIn("0x101e61", window.text("#detail"))
            self.assertIn("lost wake-up?", window.text("#detail"))
            self.assertEqual(window.problems(), [])


oracle.enter()
tap.main()
