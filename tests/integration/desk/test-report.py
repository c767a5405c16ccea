#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof report` over hand-made payloads with known numbers, for a program that is compiled here."""
import copy
import json
import os
import random
import re
import subprocess
import sys
import unicodedata

import payload
import tap
from payload import TRACE, protobuf
from wire import field, varint

# format characters that one sees
SIGNS = "".join(map(chr, (*range(0x600, 0x606), 0x6dd, 0x70f, 0x890, 0x891, 0x8e2, 0x110bd, 0x110cd)))


class Report(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        for tool in ("cc", "nm", "readelf"):
            tap.need_tool(tool)

    def setUp(self):
        self.dir = self.directory()
        self.victim = payload.Victim(self.dir)
        self.program, self.build_id = self.victim.path, self.victim.build_id

    def payload(self, *args, **options):
        return self.victim.payload(*args, **options)

    def write(self, name, request):
        path = self.dir / name
        path.write_bytes(protobuf(request) if name.endswith(".pb") else json.dumps(request).encode())
        return path

    def summary(self, *args, **options):
        return json.loads(self.spanprof("report", "--json", *args, **options).stdout)

    def test_prints_known_numbers(self):
        text = self.spanprof("report", self.write("a.json", self.payload())).stdout
        for line in ("Time        2023-11-14 22:13:20.000 UTC, 1.50 s", "Processes   1",
                     "Profile     samples in count, one every 10.0 ms of cpu",
                     "  value       10, which is 100 ms of cpu", "  with span    60.0%",
                     "  incomplete   20.0%, ended at more frames than are kept (2)",
                     "     6  60.0%      6  60.0%  hot         victim-of-report",
                     "     2  20.0%      8  80.0%  serve       victim-of-report",
                     "     1  10.0%      1  10.0%  clear_page  [kernel]",
                     "     0   0.0%     10 100.0%  main        victim-of-report",
                     "         6   60.0%  hot ← serve ← main",
                     f"     5  50.0%  {TRACE}  000000000000000a"):
            self.assertIn(re.sub(" +", " ", line), re.sub(" +", " ", text))
        self.assertIn("another build on this machine", text)
        self.assertIn(self.build_id[:12], text)

    def test_protobuf_and_json_say_the_same(self):
        request = self.payload()
        as_json = self.spanprof("report", self.write("a.json", request)).stdout
        self.assertEqual(self.spanprof("report", self.write("a.pb", request)).stdout, as_json)
        with open(self.dir / "a.pb", "rb") as file:
            self.assertEqual(self.spanprof("report", "-", stdin=file).stdout, as_json)
        os.rename(self.dir / "a.pb", self.dir / "no-extension")
        self.assertEqual(self.spanprof("report", self.dir / "no-extension").stdout, as_json)

    def test_json_summary(self):
        kind, = self.summary(self.write("a.pb", self.payload()))["profiles"]
        self.assertEqual([kind[x] for x in ("type", "unit", "value", "with_span", "truncated", "period_min")],
                         ["samples", "count", 10, 6, 2, 10000000])
        self.assertEqual(
            {f["function"]: (f["self"], f["total"]) for f in kind["functions"]},
            {"hot": (6, 6), "serve": (2, 8), "main": (0, 10), "clear_page": (1, 1), "[unknown]": (1, 1)})
        self.assertEqual([(s["span_id"], s["value"]) for s in kind["spans"]],
                         [("000000000000000a", 5), ("000000000000000b", 1)])
        self.assertEqual(kind["truncated_by"], [{"reason": "depth", "value": 2}])
        self.assertEqual(kind["processes"][0]["attributes"]["process.pid"], "4711")
        self.assertEqual([[f["function"] for f in s["frames"]] for s in kind["stacks"]][0],
                         ["hot", "serve", "main"])

    def test_sums_files_up_and_counts_copies_once(self):
        a = self.payload()
        files = [self.write("a.pb", a), self.write("a.json", a), self.write("b.pb", self.payload("22" * 16)),
                 self.write("c.json", self.payload("33" * 16, pid=4712))]
        summary = self.summary(*files)
        self.assertEqual([summary[x] for x in ("files", "processes", "profiles_repeated")], [4, 2, 1])
        kind, = summary["profiles"]
        self.assertEqual(kind["value"], 30)
        self.assertEqual({p["attributes"]["process.pid"]: p["value"] for p in kind["processes"]},
                         {"4711": 20, "4712": 10})
        text = self.spanprof("report", *files).stdout
        self.assertIn("Repeated    1 profiles", text)
        self.assertRegex(text, r"\nProcess     victim \(pid 4711\)\n  value       20,")
        self.assertRegex(text, r"\nProcess     victim \(pid 4712\)\n  value       10,")

    def described(self, number, **more):
        """A request of 10 samples whose process has these attributes, too: `_` in a key is a dot."""
        request = self.payload(f"{number}{number}" * 16)
        for part in request["resourceProfiles"]:
            given = {key.replace("_", "."): value for key, value in more.items()}
            kept = [pair for pair in part["resource"]["attributes"] if pair["key"] not in given]
            part["resource"]["attributes"] = kept + [
                {"key": key, "value": {"stringValue": value}} for key, value in given.items()]
        return self.write(f"{number}.pb", request)

    def test_a_process_is_one_row_also_where_its_service_got_its_name_late(self):
        def rows(*descriptions, profiler="spanprof"):
            files = [self.described(i + 1, telemetry_profiler_name=profiler, **description)
                     for i, description in enumerate(descriptions)]
            kind, = self.summary(*files)["profiles"]
            return sorted((row["attributes"]["service.name"], row["attributes"].get("service.version"), row["value"])
                          for row in kind["processes"])

        unknown, shop = {"service_name": "unknown_service:victim"}, {"service_name": "shop", "service_version": "1"}
        self.assertEqual(rows(unknown, shop), [("shop", "1", 20)])
        self.assertEqual(rows(shop, unknown, shop), [("shop", "1", 30)])
        self.assertEqual(rows(unknown, unknown), [("unknown_service:victim", None, 20)])
        self.assertEqual(rows(shop, {**shop, "service_version": "2"}), [("shop", "2", 20)])
        # Two services are two processes that had one number, on one host or on two.
        self.assertEqual(rows(unknown, shop, {"service_name": "cart"}), [("cart", None, 10), ("shop", "1", 20)])
        self.assertEqual(rows({**unknown, "host_name": "a"}, {**shop, "host_name": "b"}),
                         [("shop", "1", 10), ("unknown_service:victim", None, 10)])
        # A container's SDK calls the host otherwise.
        self.assertEqual(rows({**unknown, "host_name": "a", "container_id": "c"},
                              {**shop, "host_name": "b", "container_id": "c"}), [("shop", "1", 20)])
        # What other profilers write is told apart by all that they say.
        self.assertEqual(rows(unknown, shop, profiler="another"),
                         [("shop", "1", 10), ("unknown_service:victim", None, 10)])

    def test_reads_one_document_a_line(self):
        lines = [json.dumps(self.payload(f"{i}{i}" * 16)) for i in range(1, 4)]
        path = self.dir / "lines.json"
        path.write_text("\n".join(lines) + "\n")
        self.assertEqual(self.summary(path)["profiles"][0]["value"], 30)
        path.write_text("\n".join(lines)[:-3])
        self.assertIn("lines.json: document 3 is no profiles file",
                      self.spanprof("report", path, expect=1).stderr)
        indented = json.dumps(self.payload(), indent=1)
        path.write_text(indented + "\n" + indented)
        self.assertEqual(self.summary(path)["profiles_repeated"], 1)

    def test_selects_processes(self):
        files = [self.write("a.pb", self.payload()), self.write("c.pb", self.payload("33" * 16, pid=4712))]
        self.assertEqual(self.summary("--pid", "4712", *files)["profiles"][0]["value"], 10)
        self.assertEqual(self.summary("--comm", "vic*", *files)["profiles"][0]["value"], 20)
        self.assertEqual(self.summary("--comm", "shop", *files)["profiles"][0]["value"], 20)
        nobody = self.summary("-p", "1", *files)
        self.assertEqual((nobody["profiles"], nobody["processes_filtered"]), ([], 2))

    def test_joins_spans(self):
        spans = self.dir / "spans.csv"
        spans.write_text("span_id,operation,tid,start_before,start_after,end_before,end_after\n"
                         "000000000000000a,checkout,4712,1,2,3,4\n000000000000000c,search,4712,5,6,7,8\n")
        path = self.write("a.pb", self.payload())
        kind, = self.summary("--spans", spans, path)["profiles"]
        self.assertEqual({o["operation"]: o["value"] for o in kind["operations"]},
                         {"checkout": 5, "(span not in the list)": 1, "(no span)": 4})
        checkout = kind["operations"][0]
        self.assertEqual([(f["function"], f["self"]) for f in checkout["functions"]],
                         [("hot", 5), ("main", 0), ("serve", 0)])
        text = self.spanprof("report", "--spans", spans, path).stdout
        self.assertRegex(
            text, r"Operations\n.*\n +5 +50\.0%  checkout\n +4 +40\.0%  \(no span\)\n +1 +10\.0%  \(span not")
        self.assertRegex(text, r"Functions of checkout\n.*\n +5 +100\.0% +5 +100\.0%  hot ")

    def test_wrong_span_lists_name_the_line(self):
        path, spans = self.write("a.pb", self.payload()), self.dir / "spans.csv"
        head = "span_id,operation\n000000000000000a,checkout\n"
        for text, message in (("", "spans.csv:1: the file is empty"), ("a,b\n",
                                                                       "spans.csv:1: no column `span_id`"),
                              (head + "xyz,search\n", "spans.csv:3: `xyz` is no span id"),
                              (head + "000000000000000b\n", "spans.csv:3: 1 fields"),
                              (head + "000000000000000a,search\n",
                               "spans.csv:3: span 000000000000000a is in the list")):
            spans.write_text(text)
            done = self.spanprof("report", "--spans", spans, path, expect=1)
            self.assertIn(message, done.stderr)
            self.assertEqual(done.stdout, "")
        done = self.spanprof("report", "--spans", self.dir / "none.csv", path, expect=1)
        self.assertIn("none.csv: cannot be read: No such file or directory", done.stderr)

    def test_top_and_width(self):
        request = self.payload()
        request["dictionary"]["stringTable"][8] = "a_function_of_the_kernel_with_a_name_" * 8
        path = self.write("a.json", request)
        text = self.spanprof("report", "--top", "2", path).stdout
        self.assertIn("… and 3 more functions", text)
        self.assertEqual(len(self.summary("--top", "1", path)["profiles"][0]["stacks"]), 1)
        for width in (80, 120, 200):
            text = self.spanprof("report", path, env={**os.environ, "COLUMNS": str(width)}).stdout
            tables = re.sub(r"\nStacks.*?\n\n", "\n", text, flags=re.S)  # a name is not broken in a stack
            longest = max(len(line) for line in tables.splitlines())
            self.assertLessEqual(longest, width)
            self.assertIn("…", tables)

    def test_control_characters_do_not_reach_the_terminal(self):
        request = self.payload()
        request["dictionary"]["stringTable"][8] = "clear\x1b[2J\x9b31m"
        request["resourceProfiles"][0]["resource"]["attributes"][2]["value"][
            "stringValue"] = "\x1b]0;title\x07"
        path = self.write("a.json", request)
        for args in ([], ["--json"]):
            text = self.spanprof("report", *args, path).stdout
            self.assertNotRegex(text, "\x1b|\x07")
            if args != ["--json"]:
                self.assertNotIn("\x9b", text)

    def test_marks_that_nobody_sees_are_masked(self):
        """All of those that Python's tables of Unicode know: in every form for people, and in none for programs."""
        marks = [c for c in map(chr, range(sys.maxunicode + 1))
                 if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c not in SIGNS and c != "\0"]
        self.assertGreater(len(marks), 200)
        request = self.payload()
        name = "<".join(marks) + "Пул汉😀" + SIGNS
        request["dictionary"]["stringTable"][8] = name
        request["resourceProfiles"][0]["resource"]["attributes"][2]["value"][
            "stringValue"] = "svc\u202ecvs\u2028"
        path = self.write("a.json", request)
        wanted = "<".join("?" * len(marks)) + "Пул汉😀" + SIGNS
        for args in ([], ["--format", "markdown"]):
            text = self.spanprof("report", *args, path).stdout
            self.assertIn(wanted if not args else wanted.replace("<", "\\<"), text)
            self.assertIn("svc?cvs?", text)
            self.assertEqual({c for c in text if c in marks}, {"\n"}, args)
        self.spanprof("convert", path, "-o", self.dir / "b.json")
        self.assertIn(name,
                      json.loads((self.dir / "b.json").read_text())["dictionary"]["stringTable"],
                      "programs get it as it is")

    def test_validate_masks_what_it_quotes(self):
        request = self.payload()
        request["dictionary"]["stringTable"][1] = "sam-\u202eples\u200b"
        path = self.write("a\u202eb.json", request)
        text = self.spanprof("validate", path).stdout
        self.assertIn("a?b.json: ", text)
        self.assertIn("sam-?ples?", text)
        self.assertNotRegex(text, "[\u202e\u200b]")
        self.assertIn("sam-\u202eples\u200b",
                      self.spanprof("validate", "--json", path).stdout, "programs get it as it is")

    def test_json_of_the_first_drafts_is_read_by_the_names_of_the_proto(self):
        def snake(value):
            if isinstance(value, dict):
                return {
                    re.sub("[A-Z]", lambda m: "_" + m[0].lower(), key): snake(item)
                    for key, item in value.items()
                }
            return [snake(item) for item in value] if isinstance(value, list) else value

        request = self.payload()
        self.assertIn("resource_profiles", snake(request))
        self.assertEqual(self.spanprof("report", self.write("a.json", snake(request))).stdout,
                         self.spanprof("report", self.write("b.json", request)).stdout)
        profile = snake(request)["resource_profiles"][0]["scope_profiles"][0]["profiles"][0]
        self.assertIn("sample_type", profile)
        old = snake(request)
        # it was a list once
        old["resource_profiles"][0]["scope_profiles"][0]["profiles"][0]["sample_type"] = [
            profile["sample_type"]
        ]
        self.assertRegex(self.spanprof("report", self.write("c.json", old), expect=1).stderr,
                         r"resource_profiles\[0\]\.scope_profiles\[0\]\.profiles\[0\]\.sample_type")

    def test_pretty_json_shows_every_field(self):
        """What a request says, one field a line, for debugging payloads."""
        request = self.payload()
        request["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["profileId"] = "5e" * 16
        path = self.write("a.json", request)
        self.spanprof("convert", path, "-o", self.dir / "pretty.json", "--pretty")
        text = (self.dir / "pretty.json").read_text()
        self.assertGreater(len(text.splitlines()), 200)
        self.assertLess(max(len(line) for line in text.splitlines()), 200, "one field a line")
        shown, = json.loads(text)["resourceProfiles"]
        attributes = {a["key"]: a["value"] for a in shown["resource"]["attributes"]}
        self.assertEqual(attributes["service.name"], {"stringValue": "shop"})
        self.assertEqual(attributes["process.pid"], {"intValue": "4711"})
        profile = shown["scopeProfiles"][0]["profiles"][0]
        dictionary = json.loads(text)["dictionary"]
        strings = dictionary["stringTable"]
        self.assertEqual(strings[profile["sampleType"]["typeStrindex"]], "samples")
        self.assertEqual(profile["period"], "10000000")
        links = [dictionary["linkTable"][sample.get("linkIndex", 0)] for sample in profile["samples"]]
        self.assertIn((TRACE, "000000000000000a"), [(link.get("traceId"), link.get("spanId")) for link in links])
        self.assertIn("clear_page", strings)
        for name in ("stackTable", "locationTable", "functionTable", "mappingTable", "attributeTable"):
            self.assertTrue(dictionary[name], name)

    def test_says_what_shows_every_field_instead_of_raw(self):
        done = self.spanprof("report", "--raw", self.write("a.pb", self.payload()), expect=2)
        self.assertIn("report: unknown option --raw: use `spanprof convert FILE -o FILE.json --pretty`",
                      done.stderr)
        done = self.spanprof("convert", "--raw", self.write("a.pb", self.payload()), expect=2)
        self.assertNotIn("--pretty`", done.stderr)

    def test_wrong_command_lines(self):
        path = self.write("a.pb", self.payload())
        for args in ([], ["--top", "0", path], ["--frequency", "9", path]):
            self.assertTrue(self.spanprof("report", *args, expect=2).stderr)

    def test_files_that_are_none(self):
        good = self.write("a.pb", self.payload())
        text, empty, cut = self.dir / "text", self.dir / "empty", self.dir / "cut.pb"
        text.write_text("this is no payload\n")
        empty.write_bytes(b"")
        cut.write_bytes(good.read_bytes()[:-7])
        for path, message in ((text, "is no profiles file"), (empty, "is empty"),
                              (cut, "is no profiles file"), (self.dir / "none",
                                                             "cannot be read: No such file or directory")):
            done = self.spanprof("report", path, expect=1)
            self.assertIn(f"{path}: {message}", done.stderr)
            self.assertEqual(done.stdout, "")
        done = self.spanprof("report", text, good, expect=1)
        self.assertIn("is no profiles file", done.stderr)
        store = self.dir / "store"
        store.mkdir()
        for path in (good, text, empty, cut):
            os.rename(path, store / path.name)
        done = self.spanprof("report", store, expect=1)
        self.assertEqual(done.stderr.count(f"{store}/"), 3, "each bad file of a directory has a line")
        self.assertIn("Files       1\n", done.stdout)
        (self.dir / "no-files").mkdir()
        self.assertIn("is a directory without files",
                      self.spanprof("report", self.dir / "no-files", expect=1).stderr)
        self.assertIn("Files       1\n", done.stdout, "the others are reported")

    def test_a_reader_that_leaves_hears_nothing_of_it(self):
        path = self.write("a.pb", self.payload())
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([tap.SPANPROF, "report", path], stdin=subprocess.DEVNULL, stdout=writer,
                              stderr=subprocess.PIPE, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (1, b""))

    def test_files_of_others_are_named(self):
        folded = self.dir / "a.folded"
        folded.write_text("main;work 12\n")
        self.spanprof("report", folded, "-o", self.dir / "a.svg")
        (self.dir / "perf.data").write_bytes(b"PERFILE2" + bytes(100))
        (self.dir / "a.jar").write_bytes(b"PK\3\4" + bytes(30))
        (self.dir / "a.cpuprofile").write_text('{"nodes":[{"id":1,"callFrame":{"functionName":"(root)"}}]}')
        (self.dir / "notes.txt").write_text("app 12 3.4: what perf might have said\n")
        for name, words in (("a.svg", "a picture (SVG)"),
                            ("perf.data", "a recording of perf; what `perf script`"), ("a.jar", "an archive"),
                            ("a.cpuprofile", "a CPU profile of V8"), (tap.SPANPROF, "a program"),
                            ("notes.txt", "text; folded stacks")):
            done = self.spanprof("report", self.dir / name, expect=1)
            self.assertIn(f"{self.dir / name}: is no profiles file: it is {words}", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)

    def test_json_mistakes_say_where(self):
        path = self.dir / "a.json"
        path.write_text('{"resourceProfiles": [\n {"resource": oops}]}')
        self.assertRegex(
            self.spanprof("report", path, expect=1).stderr,
            r"a\.json: is no profiles file of any form, or was cut off: .*line 2, column 15")
        request = self.payload()
        request["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"][2]["stackIndex"] = "many"
        self.assertRegex(
            self.spanprof("report", self.write("b.json", request), expect=1).stderr,
            r"stackIndex|stack_index")
        request["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"][2]["stackIndex"] = 99
        self.assertRegex(
            self.spanprof("report", self.write("c.pb", request), expect=1).stderr,
            r"samples\[2\].*99|99.*samples\[2\]")

    def test_survives_garbage(self):
        """Random bytes, files cut anywhere, single flipped bytes: a report or a message, never a crash."""
        rng = random.Random(7)
        request = self.payload()
        whole = {"pb": protobuf(request), "json": json.dumps(request).encode()}
        inputs = [rng.randbytes(rng.randrange(1, 300)) for _ in range(60)]
        for data in whole.values():
            inputs += [data[:rng.randrange(1, len(data))] for _ in range(40)]
            for _ in range(60):
                spoilt = bytearray(data)
                spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
                inputs.append(bytes(spoilt))
        inputs.append(b'{"resourceProfiles":' * 5000)
        inputs.append(b"\x0a" + varint(1 << 62))
        statuses = set()
        for data in inputs:
            done = subprocess.run([tap.SPANPROF, "report", "-"], input=data, capture_output=True)
            self.assertIn(done.returncode, (0, 1), f"{data!r}\n{done.stderr.decode()}")
            self.assertEqual(done.returncode == 1, done.stderr != b"", f"{data!r}\n{done.stderr.decode()}")
            statuses.add(done.returncode)
        self.assertEqual(statuses, {0, 1}, "both happen")

    def test_many_samples(self):
        request = self.payload()
        samples = request["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"]
        start = 1_700_000_000_000_000_000
        for i in range(3, 20003):
            request["dictionary"]["linkTable"].append({"traceId": TRACE, "spanId": f"{i:016x}"})
            one = copy.copy(samples[0])
            samples.append({**one, "linkIndex": len(request["dictionary"]["linkTable"]) - 1,
                            "timestampsUnixNano": [str(start + i)]})
        kind, = self.summary("--top", "100000", self.write("a.pb", request))["profiles"]
        # 3 to 20002, with 0xa and 0xb, which were there before, among them
        self.assertEqual((kind["value"], kind["with_span"], len(kind["spans"])), (20010, 20006, 20000))
        self.assertEqual(kind["spans"][0]["value"], 6)


tap.main()
