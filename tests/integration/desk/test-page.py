#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What pages and pictures hold: read by a decoder written from the description of the format, and compared
with sums over the same file read by opentelemetry-proto. test-page-shown.py looks at what they show."""
import base64
import collections
import gzip
import hashlib
import json
import random
import re
import tarfile
import xml.etree.ElementTree as xml

import oracle
import otlp_read
import page_read
from page_sample import (CPU, HOSTILE, Request, SHOP, START_NS, fill, names_of, process_of, thread_of,
                         write_diff)
import tap


def setUpModule():
    oracle.need()


class Data(tap.TestCase):
    def page(self, source, suffix=".html", *options):
        path = self.directory() / f"page{suffix}"
        self.spanprof("convert", source, "-o", path, *options)
        return path

    def test_every_event_is_there_with_its_stack_context_and_time(self):
        source = fill(self.directory() / "a.json")
        page = page_read.read(self.page(source))
        bucket_ns, first_ns = page.meta["bucketNs"], int(page.meta["sides"][0]["startNs"])
        expected, found = collections.Counter(), collections.Counter()
        for sample in otlp_read.samples(source):
            operation, station = sample.attributes.get("endpoint"), sample.attributes.get("coroutine.station")
            expected[names_of(sample), sample.type,
                     process_of(sample),
                     thread_of(sample), (sample.trace_id or "") + (sample.span_id or ""), operation,
                     None if station is None else f"station {station}",
                     sample.attributes.get("profile.stack.truncated"),
                     (sample.time_ns - first_ns) // bucket_ns + 1] += sample.value
        for row in page.rows:
            values = row.values
            found[tuple(frame.name for frame in row.path), page.meta["kinds"][row.kind]["type"],
                  values["process"], values["thread"], values["span"].hex() if "span" in values else "",
                  values.get("operation"),
                  values.get("coroutine"),
                  values.get("end"), row.bucket] += row.value
        self.assertEqual(len(page.rows), len(found), "rows that could be one")
        self.assertEqual(found, expected)
        self.assertEqual(first_ns, min(sample.time_ns for sample in otlp_read.samples(source)))

    def test_frames_know_their_kind_and_what_was_inlined(self):
        page = page_read.read(self.page(fill(self.directory() / "a.json")))
        frames = {frame.name: frame for frame in page.frames}
        self.assertEqual(
            {
                name: frame.inlined
                for name, frame in frames.items() if "_" not in name or name == "inner_most"
            }, {"inner_most": True, "inner": True, "outer": False, "[no stack]": False})
        self.assertEqual([frames[f"function_{i:02}"].type for i in range(3)], ["native", "kernel", "jvm"])
        self.assertEqual(frames["function_01"].object, "[kernel]")
        paths = {tuple(frame.name for frame in row.path) for row in page.rows}
        self.assertTrue(
            any(path[i:i + 3] == ("outer", "inner", "inner_most") for path in paths
                for i in range(len(path))))
        kinds = {(kind["type"], kind["unit"]): kind for kind in page.meta["kinds"]}
        n = sum(row.value for row in page.rows if page.meta["kinds"][row.kind]["type"] == "samples")
        self.assertEqual(kinds["samples", "count"]["measured"][0], n * CPU[4])
        self.assertEqual(page.meta["kinds"][page.meta["mainKind"]]["type"], "samples")

    def test_samples_without_times_and_without_stacks(self):
        request = Request()
        stack = request.stack([request.location(["main"], "native")])
        request.sample(SHOP, CPU, stack, {}, None, 1, START_NS)
        request.sample(SHOP, CPU, 0, {}, None, 1, START_NS)
        for sample in request.resources[SHOP][CPU]:
            del sample["timestampsUnixNano"]
            sample["values"] = ["7"]
        page = page_read.read(self.page(request.write(self.directory() / "a.json")))
        self.assertEqual(
            {(tuple(frame.name for frame in row.path), row.bucket, row.value) for row in page.rows},
            {(("main", ), 0, 7), (("[no stack]", ), 0, 7)})
        self.assertEqual(page.meta["bucketNs"], 0)

    def test_times_get_coarser_before_the_page_gets_large(self):
        """A sample of its own in each of many rows: what is merged is time, and never less than 30 parts of it are left."""
        request, chance = Request(), random.Random(3)
        stacks = [
            request.stack([request.location([f"leaf_{i}"], "native"),
                           request.location(["main"], "native")]) for i in range(50)
        ]
        for i in range(20000):
            request.sample(SHOP, CPU, chance.choice(stacks), {}, None, 1, START_NS + i * 10**6)
        page = page_read.read(self.page(request.write(self.directory() / "a.json")))
        self.assertEqual(sum(row.value for row in page.rows), 20000)
        self.assertEqual(page.meta["bucketNs"], 100_000_000)            # 20 s in at most 300 parts
        by_bucket = collections.Counter()
        for row in page.rows:
            by_bucket[row.bucket] += row.value
        self.assertEqual(by_bucket, {bucket: 100 for bucket in range(1, 201)})

    def test_two_profiles_are_two_sides(self):
        sources = [fill(self.directory() / "a.json"), fill(self.directory() / "b.json", favourite=9)]
        page = page_read.read(write_diff(self, *sources))
        self.assertEqual([side["name"] for side in page.meta["sides"]], ["monday", "tuesday"])
        for side, source in enumerate(sources):
            found, expected = collections.Counter(), collections.Counter()
            for row in page.rows:
                if row.side == side:
                    found[tuple(frame.name for frame in row.path), page.meta["kinds"][row.kind]["type"],
                          row.values["thread"]] += row.value
            for sample in otlp_read.samples(source):
                expected[names_of(sample), sample.type, thread_of(sample)] += sample.value
            self.assertEqual(found, expected)

    def test_what_is_read_back_is_what_the_page_holds(self):
        source = fill(self.directory() / "a.json")
        page = self.page(source)
        back = self.directory() / "back.json"
        self.spanprof("convert", page, "-o", back)
        read = page_read.read(page)
        bucket_ns, first_ns = read.meta["bucketNs"], int(read.meta["sides"][0]["startNs"])
        expected, found = collections.Counter(), collections.Counter()
        for row in read.rows:
            values = row.values
            names = tuple(frame.name for frame in row.path if frame.name != "[no stack]")
            expected[names, read.meta["kinds"][row.kind]["type"], values["process"], values["thread"],
                     values["span"].hex() if "span" in values else "", values.get("operation"),
                     values.get("coroutine"), values.get("end"), first_ns + (row.bucket - 1) * bucket_ns] += row.value
        for sample in otlp_read.samples(back):
            found[tuple(name for name in names_of(sample) if name != "[no stack]"), sample.type,
                  process_of(sample), thread_of(sample), (sample.trace_id or "") + (sample.span_id or ""),
                  sample.attributes.get("operation"), sample.attributes.get("coroutine"),
                  sample.attributes.get("profile.stack.truncated"), sample.time_ns] += sample.value
        self.assertEqual(found, expected)
        before, after = (json.loads(self.spanprof("report", path, "--format", "json").stdout)
                         for path in (source, page))
        rows = [{row["function"]: (row["self"], row["total"]) for row in report["profiles"][0]["functions"]}
                for report in (before, after)]
        self.assertEqual(rows[0], rows[1])

    def test_lines_are_there_and_come_back(self):
        source = fill(self.directory() / "a.json", n_lines=3)
        page, back = self.page(source), self.directory() / "back.json"
        expected, found = collections.Counter(), collections.Counter()
        for sample in otlp_read.samples(source):
            expected[names_of(sample), tuple(frame.line for frame in reversed(sample.frames)), sample.type,
                     thread_of(sample)] += sample.value
        read = page_read.read(page)
        for row in read.rows:
            found[tuple(frame.name for frame in row.path), row.lines, read.meta["kinds"][row.kind]["type"],
                  row.values["thread"]] += row.value
        self.assertEqual(found, expected)
        self.assertGreater(len({lines for _, lines, _, _ in found}), 100)
        self.spanprof("convert", page, "-o", back)
        found.clear()
        for sample in otlp_read.samples(back):
            found[names_of(sample), tuple(frame.line for frame in reversed(sample.frames)), sample.type,
                  thread_of(sample)] += sample.value
            self.assertFalse([frame for frame in sample.frames
                              if frame.line and not frame.file.startswith("src/File")])
        self.assertEqual(found, expected)

    def test_one_tree_for_functions_on_several_lines(self):
        """Lines do not part a function: the rows of both pages have the same paths and sums."""
        sums = []
        for source in (fill(self.directory() / "a.json", n_lines=3), fill(self.directory() / "b.json", n_lines=3)):
            request = json.loads(source.read_text())
            if sums:
                for row in request["dictionary"]["locationTable"]:
                    for line in row.get("lines", []):
                        line.pop("line", None)
                source.write_text(json.dumps(request))
            page = page_read.read(self.page(source))
            sums.append(collections.Counter())
            for row in page.rows:
                sums[-1][tuple(frame.name for frame in row.path), row.kind, row.bucket] += row.value
        self.assertFalse(any(any(row.lines) for row in page.rows))
        self.assertEqual(*sums)

    def test_a_page_of_a_version_without_lines_is_read(self):
        with tarfile.open(tap.SOURCE_DIR / "tests/fuzz/desk/page.tar") as corpus:
            data = corpus.extractfile("first-plain").read()
        self.assertTrue(data.startswith(b"spanprof page 1\n"))
        page = self.directory() / "old.html"
        block = base64.b64encode(gzip.compress(data)).decode()
        page.write_text(f'<!doctype html><script type="application/octet-stream" id="data">{block}</script>')
        self.spanprof("convert", page, "-o", page.with_suffix(".folded"))
        self.assertEqual(sorted(page.with_suffix(".folded").read_text().splitlines()),
                         ["main 1", "main;work 3", "main;work;leaf 5"])

    def test_a_page_that_is_none_of_ours_or_damaged_is_said(self):
        path = self.page(fill(self.directory() / "a.json", n_lines=2))
        text = path.read_text()
        begin, end = text.index('id="data">') + 10, text.index("</script>", text.index('id="data">'))
        data = page_read.unpack(path)

        def pack(data):
            return text[:begin] + base64.b64encode(gzip.compress(data)).decode() + text[end:]

        bad = self.directory() / "bad.html"
        for content, words in (
            ("<!doctype html><title>x</title>", "web page without the data of a profile"),
            (text[:begin + 100], "web page without the data"),
            (text[:begin] + "?" + text[begin + 1:], "its data is damaged"),
            (text[:begin + 1000] + text[begin + 1004:], "its data is damaged"),
            (pack(data[:-1]), "its data is damaged"),
            (pack(data + b"\0"), "its data is damaged"),
            (pack(data.replace(b"spanprof page 2", b"spanprof page 3")), "its data is damaged"),
            (pack(data.replace(b"spanprof page 2", b"spanprof page 3")), "or of another version of spanprof: "),
            (pack(data.replace(b"spanprof page 2", b"spanprof page 1")), "its data is damaged"),
        ):
            bad.write_text(content)
            self.assertIn(words, self.spanprof("report", bad, expect=1).stderr)
        two = write_diff(self, *[fill(self.directory() / name) for name in ("a.json", "b.json")])
        self.assertIn("compares two profiles", self.spanprof("report", two, expect=1).stderr)
        random.seed(7)
        for _ in range(40):
            broken = bytearray(data)
            for _ in range(random.randrange(1, 4)):
                broken[random.randrange(len(broken))] = random.randrange(256)
            bad.write_text(pack(bytes(broken)))
            done = self.run_command([tap.SPANPROF, "convert", bad, "-o", self.directory() / "out.folded"])
            self.assertIn(done.returncode, (0, 1), done)

    def test_hostile_names_are_cut_and_cleaned(self):
        request = Request()
        for i, name in enumerate(HOSTILE):
            stack = request.stack(
                [request.location([name], "native", i),
                 request.location(["main"], "native", 99)])
            request.sample((("process.executable.name", name[:60000]), ("process.pid", i)), CPU, stack,
                           {"thread.name": name, "endpoint": name}, None, 1, START_NS)
        source = request.write(self.directory() / "a.json")
        page = page_read.read(self.page(source))
        names = {row.path[-1].name for row in page.rows}
        self.assertEqual(len(names), len(HOSTILE))
        self.assertIn(HOSTILE[0], names)
        self.assertIn("evil\ufffdgnp.exe", names)
        self.assertIn("line\ufffdbreak\ufffd\ufffd[31mred", names)
        self.assertLess(max(map(len, page.strings)), 1100)
        self.assertFalse(
            re.search("[\0-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", "".join(page.strings)))
        text = self.page(source).read_text()
        self.assertEqual(text.count("<script"), 2)
        self.assertNotIn("harmed", text)

    def test_the_policy_allows_this_style_and_this_script_alone(self):
        text = self.page(fill(self.directory() / "a.json")).read_text()
        policy = dict(
            part.split(" ", 1) for part in re.search(
                r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1].split("; "))

        def source(tag):
            (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
            return f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"

        self.assertEqual(
            policy, {
                "default-src": "'none'", "style-src": source("style"), "script-src": source("script"),
                "base-uri": "'none'", "form-action": "'none'"
            })
        self.assertFalse(re.search(r'(?:src|href)="(?!#)|url\(|@import|style="|\son\w+="', text),
                         "something that would be loaded, or runs by itself")

    def test_a_picture_is_sound_and_its_boxes_are_the_shares(self):
        source = fill(self.directory() / "a.json")
        picture = xml.parse(self.page(source, ".svg")).getroot()
        name = "{http://www.w3.org/2000/svg}"
        boxes = [(group.find(f"{name}title").text, group.find(f"{name}rect"))
                 for group in picture.iter(f"{name}g")]
        samples = [sample for sample in otlp_read.samples(source) if sample.type == "samples"]
        all_width = next(float(rect.get("width")) for title, rect in boxes if title.startswith("all\n"))
        top = collections.Counter(names_of(sample)[0] for sample in samples)
        lowest = max(float(rect.get("y")) for _, rect in boxes)
        found = {
            re.split(r" — |\n", title)[0]: (float(rect.get("width")),
                                            int(re.search(r"\n(\d+) count", title)[1]))
            for title, rect in boxes if float(rect.get("y")) == lowest - 17
        }
        self.assertEqual({key: value for key, (_, value) in found.items()}, top)
        for key, (width, _) in found.items():
            self.assertAlmostEqual(width, all_width * top[key] / len(samples), delta=0.02)
        self.assertFalse([element.tag for element in picture.iter() if element.tag.endswith("script")])

    def test_a_picture_of_hostile_names_is_sound(self):
        request = Request()
        for name in HOSTILE:
            request.sample(SHOP, CPU, request.stack([request.location([name], "native")]), {}, None, 1,
                           START_NS)
        path = self.page(request.write(self.directory() / "a.json"), ".svg")
        titles = [
            element.text for element in xml.parse(path).getroot().iter("{http://www.w3.org/2000/svg}title")
        ]
        self.assertTrue(any(title.startswith(HOSTILE[0]) for title in titles))
        self.assertNotIn("<script", path.read_text())


if __name__ == "__main__":
    oracle.enter()
    tap.main()
