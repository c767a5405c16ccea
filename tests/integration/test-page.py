#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages and pictures: what they hold is read by a decoder written from the description of the format, what they show by
a headless Chromium, and both are compared with sums over the same file read by opentelemetry-proto."""
import base64
import collections
import hashlib
import json
import random
import re
import tempfile
import xml.etree.ElementTree as xml

import browser
import oracle
import otlp_read
import page_read
import tap

START_NS = 1_790_000_000_000_000_000
SECONDS = 20
N_SAMPLES = 3000
HOSTILE = ["</script><script>window.harmed = 1</script>", "<img src=x onerror='window.harmed = 1'>", "\"'><svg/onload=harmed=1>",
           "evil\u202egnp.exe", "line\nbreak\x01\x1b[31mred", "&lt;b&gt;&amp;", "__proto__", "constructor", "]]>-->", "a" * 1_000_000]


class Request:
    """An OTLP/JSON request that grows; equal rows are one."""

    def __init__(self):
        self.tables = {name: [{}] for name in ("mappingTable", "locationTable", "functionTable", "linkTable", "attributeTable", "stackTable")}
        self.strings = [""]
        self.index = {}
        self.resources = {}

    def string(self, text):
        if ("", text) not in self.index:
            self.index["", text] = self.strings.index(text) if text in ("",) else len(self.strings)
            if text:
                self.strings.append(text)
        return self.index["", text]

    def row(self, table, row):
        key = table, json.dumps(row)
        if key not in self.index:
            self.index[key] = len(self.tables[table])
            self.tables[table].append(row)
        return self.index[key]

    def attribute(self, key, value):
        value = {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
        return self.row("attributeTable", {"keyStrindex": self.string(key), "value": value})

    def location(self, names, kind, address=0):
        """One location; of several names the first is the innermost of what was inlined."""
        lines = [{"functionIndex": self.row("functionTable", {"nameStrindex": self.string(name)})} for name in names]
        return self.row("locationTable", {"lines": lines, "address": str(address), "attributeIndices": [self.attribute("profile.frame.type", kind)]})

    def stack(self, locations):
        return self.row("stackTable", {"locationIndices": locations})

    def sample(self, resource, kind, stack, attributes, link, value, time_ns):
        sample = {"stackIndex": stack, "attributeIndices": [self.attribute(*pair) for pair in attributes.items()],
                  "timestampsUnixNano": [str(time_ns)], "values": [str(value)]}
        if link:
            sample["linkIndex"] = self.row("linkTable", {"traceId": link[0], "spanId": link[1]})
        self.resources.setdefault(resource, {}).setdefault(kind, []).append(sample)

    def profile(self, number, kind, samples):
        type_, unit, period_type, period_unit, period = kind
        return {"profileId": f"{number:032x}", "timeUnixNano": str(START_NS), "durationNano": str(SECONDS * 10**9), "period": str(period),
                "sampleType": {"typeStrindex": self.string(type_), "unitStrindex": self.string(unit)},
                "periodType": {"typeStrindex": self.string(period_type), "unitStrindex": self.string(period_unit)}, "samples": samples}

    def write(self, path):
        parts = []
        for number, (resource, kinds) in enumerate(self.resources.items()):
            attributes = [{"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}} for key, value in resource]
            profiles = [self.profile(number * 8 + i, kind, samples) for i, (kind, samples) in enumerate(kinds.items())]
            parts.append({"resource": {"attributes": attributes}, "scopeProfiles": [{"profiles": profiles}]})
        path.write_text(json.dumps({"resourceProfiles": parts, "dictionary": {"stringTable": self.strings, **self.tables}}))
        return path


CPU = ("samples", "count", "cpu", "nanoseconds", 10_000_000)
OFF = ("off_cpu", "nanoseconds", "", "", 0)
SHOP = (("process.executable.name", "shop"), ("process.pid", 4711))
WORKER = (("process.executable.name", "worker"), ("process.pid", 4712))


def fill(path, seed=1, favourite=3):
    """A random program in two processes, with everything that a page tells apart. favourite: what it calls often."""
    chance, request = random.Random(seed), Request()
    kinds = {0: "native", 1: "kernel", 2: "jvm"}
    locations = [request.location([f"function_{i:02}"], kinds[i % 3], 4096 + i) for i in range(30)]
    locations.append(request.location(["inner_most", "inner", "outer"], "native", 9000))
    callees = {i: [chance.randrange(len(locations)) for _ in range(3)] + [favourite] for i in range(len(locations))}
    spans = [(f"{chance.getrandbits(128) | 1:032x}", f"{chance.getrandbits(64) | 1:016x}") for _ in range(12)]
    for _ in range(N_SAMPLES):
        frames = [chance.randrange(2)]
        for _ in range(chance.randrange(14)):
            frames.append(chance.choice(callees[frames[-1]]))
        thread = chance.randrange(4)
        resource = SHOP if chance.random() < 0.7 else WORKER
        attributes = {"thread.id": (100 if resource is SHOP else 200) + thread, "thread.name": f"thread-{thread}"}
        at = int(chance.random() ** 1.5 * SECONDS * 10**9)
        link = spans[min(11, at * 12 // (SECONDS * 10**9))] if thread < 2 else None
        if link:
            attributes["endpoint"] = "/checkout" if link in spans[::3] else "/list"
        if thread == 3:
            attributes["coroutine.station"] = chance.randrange(3)
        if chance.random() < 0.04:
            attributes["profile.stack.truncated"] = chance.choice(["depth", "no_rows"])
        is_off = chance.random() < 0.2
        request.sample(resource, OFF if is_off else CPU, request.stack([locations[i] for i in reversed(frames)]),
                       attributes, link, chance.randrange(1, 10**7) if is_off else 1, START_NS + at)
    return request.write(path)


def process_of(sample):
    return f"{sample.resource['process.executable.name']} ({sample.resource['process.pid']})"


def thread_of(sample):
    return f"{sample.attributes['thread.name']} ({sample.attributes['thread.id']})"


def names_of(sample):
    """Outermost first."""
    return tuple(frame.name for frame in reversed(sample.frames))


def functions(samples):
    """name → [self, total]"""
    sums = collections.defaultdict(lambda: [0, 0])
    for sample in samples:
        names = names_of(sample)
        sums[names[-1]][0] += sample.value
        for name in set(names):
            sums[name][1] += sample.value
    return dict(sums)


def write_diff(test, before, after):
    path = test.directory() / "diff.html"
    path.write_text(test.run_command([tap.BUILD_DIR / "tests/lib/write-diff", before, after], expect=0).stdout)
    return path


def setUpModule():
    oracle.need()


class Data(tap.TestCase):
    """What is in the file, read without a browser."""

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
            expected[names_of(sample), sample.type, process_of(sample), thread_of(sample), (sample.trace_id or "") + (sample.span_id or ""), operation,
                     None if station is None else f"station {station}", sample.attributes.get("profile.stack.truncated"),
                     (sample.time_ns - first_ns) // bucket_ns + 1] += sample.value
        for row in page.rows:
            values = row.values
            found[tuple(frame.name for frame in row.path), page.meta["kinds"][row.kind]["type"], values["process"], values["thread"],
                  values["span"].hex() if "span" in values else "", values.get("operation"), values.get("coroutine"), values.get("end"), row.bucket] += row.value
        self.assertEqual(len(page.rows), len(found), "rows that could be one")
        self.assertEqual(found, expected)
        self.assertEqual(first_ns, min(sample.time_ns for sample in otlp_read.samples(source)))

    def test_frames_know_their_kind_and_what_was_inlined(self):
        page = page_read.read(self.page(fill(self.directory() / "a.json")))
        frames = {frame.name: frame for frame in page.frames}
        self.assertEqual({name: frame.inlined for name, frame in frames.items() if "_" not in name or name == "inner_most"},
                         {"inner_most": True, "inner": True, "outer": False, "[no stack]": False})
        self.assertEqual([frames[f"function_{i:02}"].type for i in range(3)], ["native", "kernel", "jvm"])
        self.assertEqual(frames["function_01"].object, "[kernel]")
        paths = {tuple(frame.name for frame in row.path) for row in page.rows}
        self.assertTrue(any(path[i:i + 3] == ("outer", "inner", "inner_most") for path in paths for i in range(len(path))))
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
        self.assertEqual({(tuple(frame.name for frame in row.path), row.bucket, row.value) for row in page.rows},
                         {(("main",), 0, 7), (("[no stack]",), 0, 7)})
        self.assertEqual(page.meta["bucketNs"], 0)

    def test_times_get_coarser_before_the_page_gets_large(self):
        """A sample of its own in each of many rows: what is merged is time, and never less than 30 parts of it are left."""
        request, chance = Request(), random.Random(3)
        stacks = [request.stack([request.location([f"leaf_{i}"], "native"), request.location(["main"], "native")]) for i in range(50)]
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
                    found[tuple(frame.name for frame in row.path), page.meta["kinds"][row.kind]["type"], row.values["thread"]] += row.value
            for sample in otlp_read.samples(source):
                expected[names_of(sample), sample.type, thread_of(sample)] += sample.value
            self.assertEqual(found, expected)

    def test_hostile_names_are_cut_and_cleaned(self):
        request = Request()
        for i, name in enumerate(HOSTILE):
            stack = request.stack([request.location([name], "native", i), request.location(["main"], "native", 99)])
            request.sample((("process.executable.name", name[:60000]), ("process.pid", i)), CPU, stack, {"thread.name": name, "endpoint": name}, None, 1, START_NS)
        source = request.write(self.directory() / "a.json")
        page = page_read.read(self.page(source))
        names = {row.path[-1].name for row in page.rows}
        self.assertEqual(len(names), len(HOSTILE))
        self.assertIn(HOSTILE[0], names)
        self.assertIn("evil\ufffdgnp.exe", names)
        self.assertIn("line\ufffdbreak\ufffd\ufffd[31mred", names)
        self.assertLess(max(map(len, page.strings)), 1100)
        self.assertFalse(re.search("[\0-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", "".join(page.strings)))
        text = self.page(source).read_text()
        self.assertEqual(text.count("<script"), 2)
        self.assertNotIn("harmed", text)

    def test_the_policy_allows_this_style_and_this_script_alone(self):
        text = self.page(fill(self.directory() / "a.json")).read_text()
        policy = dict(part.split(" ", 1) for part in re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1].split("; "))

        def source(tag):
            (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
            return f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"

        self.assertEqual(policy, {"default-src": "'none'", "style-src": source("style"), "script-src": source("script"), "base-uri": "'none'",
                                  "form-action": "'none'"})
        self.assertFalse(re.search(r'(?:src|href)="(?!#)|url\(|@import|style="|\son\w+="', text), "something that would be loaded, or runs by itself")

    def test_a_picture_is_sound_and_its_boxes_are_the_shares(self):
        source = fill(self.directory() / "a.json")
        picture = xml.parse(self.page(source, ".svg")).getroot()
        name = "{http://www.w3.org/2000/svg}"
        boxes = [(group.find(f"{name}title").text, group.find(f"{name}rect")) for group in picture.iter(f"{name}g")]
        samples = [sample for sample in otlp_read.samples(source) if sample.type == "samples"]
        all_width = next(float(rect.get("width")) for title, rect in boxes if title.startswith("all\n"))
        top = collections.Counter(names_of(sample)[0] for sample in samples)
        lowest = max(float(rect.get("y")) for _, rect in boxes)
        found = {re.split(r" — |\n", title)[0]: (float(rect.get("width")), int(re.search(r"\n(\d+) count", title)[1]))
                 for title, rect in boxes if float(rect.get("y")) == lowest - 17}
        self.assertEqual({key: value for key, (_, value) in found.items()}, top)
        for key, (width, _) in found.items():
            self.assertAlmostEqual(width, all_width * top[key] / len(samples), delta=0.02)
        self.assertFalse([element.tag for element in picture.iter() if element.tag.endswith("script")])

    def test_a_picture_of_hostile_names_is_sound(self):
        request = Request()
        for name in HOSTILE:
            request.sample(SHOP, CPU, request.stack([request.location([name], "native")]), {}, None, 1, START_NS)
        path = self.page(request.write(self.directory() / "a.json"), ".svg")
        titles = [element.text for element in xml.parse(path).getroot().iter("{http://www.w3.org/2000/svg}title")]
        self.assertTrue(any(title.startswith(HOSTILE[0]) for title in titles))
        self.assertNotIn("<script", path.read_text())


class Shown(tap.TestCase):
    """What a browser shows."""

    @classmethod
    def setUpClass(cls):
        if not browser.find():
            tap.skip("tool: chromium or chromedriver is not installed")
        cls.home = tempfile.TemporaryDirectory(prefix="spanprof-browser-", ignore_cleanup_errors=True)
        cls.addClassCleanup(cls.home.cleanup)
        cls.window = cls.enterClassContext(browser.Browser(cls.home.name))

    def setUp(self):
        self.window.emulate(1440, 900)
        self.window.open("/dev/null")           # whatever was before says nothing any more
        self.window.problems()
        self.window.requests()

    def show(self, path):
        self.window.open(path)
        said = self.window.wait("return document.documentElement.dataset.ready || document.querySelector('#trouble').innerText")
        self.assertRegex(said, r"^\d+$")

    def show_filled(self):
        directory = self.directory()
        source = fill(directory / "a.json")
        self.spanprof("convert", source, "-o", directory / "a.html")
        self.show(directory / "a.html")
        self.samples = [sample for sample in otlp_read.samples(source) if sample.type == "samples"]
        return directory / "a.html"

    def table(self):
        """The rows that are shown, as lists of texts; the name without what stands beside it."""
        return self.window.run("return [...document.querySelectorAll('#table tbody tr')].map((row) => [...row.children].map("
                               "(cell) => (cell.querySelector('.link') || cell).textContent))")

    def shown_functions(self):
        self.window.click("#tab-functions")
        return {row[4]: [int(row[0].replace(",", "")), int(row[2].replace(",", ""))] for row in self.table()}

    def tab(self, title):
        self.window.run("[...document.querySelectorAll('#tabs button')].find((tab) => tab.textContent === arguments[0]).click()", title)

    def choose(self, title, label):
        """Clicks a row of a table."""
        self.tab(title)
        self.window.run("[...document.querySelectorAll('#table .link')].find((link) => link.textContent === arguments[0]).click()", label)

    def group(self, title):
        self.window.run("const group = document.querySelector('#group'); group.value = [...group.options].find((o) => o.text === arguments[0]).value;"
                        "group.dispatchEvent(new Event('change'))", title)

    def status(self):
        return self.window.text("#status")

    def check_status(self, name, value, n_all):
        text = self.status()
        self.assertTrue(text.startswith(name), text)
        self.assertIn(f"total {value:,} sample", text)
        shown = float(re.search(r"total [\d,]+ samples?, ([\d.]+) %", text)[1])
        self.assertAlmostEqual(shown, 100 * value / n_all, delta=0.051)

    def check_quiet(self, page):
        self.assertEqual(self.window.problems(), [])
        self.assertEqual(set(self.window.requests()) - {page.as_uri(), "file:///dev/null"}, set())

    def test_tables_show_the_sums(self):
        page = self.show_filled()
        self.assertEqual(self.shown_functions(), functions(self.samples))
        for title, key in (("Processes", process_of), ("Threads", thread_of), ("Operations", lambda s: s.attributes.get("endpoint", "no operation")),
                           ("Coroutines", lambda s: f"station {s.attributes['coroutine.station']}" if "coroutine.station" in s.attributes else "no coroutine"),
                           ("Stack ends", lambda s: s.attributes.get("profile.stack.truncated", "complete")),
                           ("Spans", lambda s: s.span_id or "no span")):
            with self.subTest(title):
                self.tab(title)
                self.assertEqual({row[2]: int(row[0].replace(",", "")) for row in self.table()}, collections.Counter(map(key, self.samples)))
        facts = self.window.text("#facts")
        self.assertIn(f"{len(self.samples):,}", facts)
        self.assertIn(f"{len(self.samples) / 100:.2f}".rstrip("0").rstrip("."), facts)       # seconds: 10 ms each
        self.check_quiet(page)

    def test_rows_choose_what_is_looked_at(self):
        page = self.show_filled()
        for title, key, label in (("Processes", process_of, "worker (4712)"), ("Threads", thread_of, "thread-2 (202)")):
            self.choose(title, label)
            self.samples = [sample for sample in self.samples if key(sample) == label]
            self.assertEqual(self.shown_functions(), functions(self.samples))
        self.assertIn("thread-2 (202)", self.window.text("#filters"))
        self.window.click("#reset")
        spans = collections.Counter((sample.trace_id, sample.span_id) for sample in otlp_read.samples(page.with_suffix(".json")) if sample.span_id)
        (trace, span), _ = spans.most_common(1)[0]
        self.choose("Spans", span)
        chosen = [s for s in otlp_read.samples(page.with_suffix(".json")) if s.span_id == span and s.type == "samples"]
        self.assertEqual(self.shown_functions(), functions(chosen))
        self.tab("Spans")
        self.window.run(f"document.querySelector('[aria-label=\"Copy trace id {trace}\"]').click()")
        self.assertEqual(self.status(), f"Copied: {trace}")
        self.check_quiet(page)

    def test_another_measure(self):
        page = self.show_filled()
        self.window.run("const kind = document.querySelector('#kind'); kind.value = [...kind.options].find((o) => o.text === 'Off-CPU time').value;"
                        "kind.dispatchEvent(new Event('change'))")
        samples = [sample for sample in otlp_read.samples(page.with_suffix(".json")) if sample.type == "off_cpu"]
        total = sum(sample.value for sample in samples)
        self.assertIn(f"total {total / 1e9:.2f}".rstrip("0") + " s, 100.0 %", self.status())
        self.window.click("#tab-functions")
        shares = {row[4]: float(row[3]) for row in self.table()}
        for name, (_, value) in functions(samples).items():
            self.assertAlmostEqual(shares[name], 100 * value / total, delta=0.006)
        self.check_quiet(page)

    def test_boxes_are_reached_by_keys_and_zoomed(self):
        page = self.show_filled()
        top = collections.Counter(names_of(sample)[0] for sample in self.samples)
        widest, value = top.most_common(1)[0]
        self.check_status("all", len(self.samples), len(self.samples))
        self.window.run("document.querySelector('#flame').focus()")
        self.window.key("\ue015")                                               # down
        self.check_status(widest, value, len(self.samples))
        below = collections.Counter(names_of(s)[1] for s in self.samples if names_of(s)[0] == widest and len(names_of(s)) > 1)
        self.window.key("\ue015", "\ue007")                                     # down, enter
        name, value = below.most_common(1)[0]
        self.check_status(name, value, len(self.samples))
        self.assertFalse(self.window.run("return document.querySelector('#back').disabled"))
        self.window.key("\ue013")                                               # up
        self.check_status(widest, top[widest], len(self.samples))
        self.window.key("\ue00c")                                               # escape: as before
        self.check_status("all", len(self.samples), len(self.samples))
        self.assertTrue(self.window.run("return document.querySelector('#back').disabled"))
        self.check_quiet(page)

    def box_centre(self, row, share):
        """A point of the window in a row of the icicle, so far from the left."""
        left, top, width, size = self.window.run("const area = document.querySelector('#flame').getBoundingClientRect();"
                                                 "return [area.left, area.top, area.width, parseFloat(getComputedStyle(document.documentElement).fontSize)]")
        return left + width * share, top + (row + 0.5) * round(size * 1.25)

    def test_a_click_zooms_and_back_undoes(self):
        page = self.show_filled()
        top = collections.Counter(names_of(sample)[0] for sample in self.samples).most_common()
        last, value = top[-1]
        self.window.click_at(*self.box_centre(1, 1 - value / len(self.samples) / 2))
        self.check_status(last, value, len(self.samples))
        self.window.click_at(*self.box_centre(1, 0.01))         # it is as wide as the page now
        self.check_status(last, value, len(self.samples))
        self.window.click("#back")
        self.check_status("all", len(self.samples), len(self.samples))
        self.window.click_at(*self.box_centre(1, 0.01))
        self.check_status(top[0][0], top[0][1], len(self.samples))
        self.window.click("#reset")
        self.check_status("all", len(self.samples), len(self.samples))
        self.check_quiet(page)

    def test_callers_begin_with_the_running_function(self):
        page = self.show_filled()
        self.window.click("#callers")
        leaves = collections.Counter(names_of(sample)[-1] for sample in self.samples)
        name, value = leaves.most_common(1)[0]
        self.window.run("document.querySelector('#flame').focus()")
        self.window.key("\ue015")
        self.check_status(name, value, len(self.samples))
        above = collections.Counter(names_of(s)[-2] for s in self.samples if names_of(s)[-1] == name and len(names_of(s)) > 1)
        self.window.key("\ue015")
        self.check_status(above.most_common(1)[0][0], above.most_common(1)[0][1], len(self.samples))
        self.check_quiet(page)

    def test_groups_are_the_first_boxes(self):
        page = self.show_filled()
        for title, key in (("Thread", thread_of), ("Process", process_of), ("Operation", lambda s: s.attributes.get("endpoint", "no operation"))):
            with self.subTest(title):
                self.group(title)
                label, value = collections.Counter(map(key, self.samples)).most_common(1)[0]
                self.window.run("document.querySelector('#flame').focus()")
                self.window.key("\ue011", "\ue015")                             # home, down
                self.check_status(label, value, len(self.samples))
                name, value = collections.Counter(names_of(s)[0] for s in self.samples if key(s) == label).most_common(1)[0]
                self.window.key("\ue015")
                self.check_status(name, value, len(self.samples))
        self.window.click("#flames")
        self.window.run("document.querySelector('#flame').focus()")
        self.window.key("\ue011", "\ue013")                                     # home, up: flames grow upwards
        self.assertTrue(self.status().startswith("/list") or self.status().startswith("no operation"), self.status())
        self.check_quiet(page)

    def matched(self):
        return float(re.match(r"([\d.]+) % matched", self.window.text("#matched"))[1])

    def test_search_tells_the_share(self):
        page = self.show_filled()

        def share(match):
            return 100 * sum(any(match(name) for name in names_of(sample)) for sample in self.samples) / len(self.samples)

        self.window.type("#search", "FUNCTION_07")
        self.assertEqual(self.matched(), 0)                     # capitals mean themselves
        self.window.type("#search", "function_07")
        self.assertAlmostEqual(self.matched(), share(lambda name: name == "function_07"), delta=0.051)
        self.window.type("#search", "unction_0")
        self.assertAlmostEqual(self.matched(), share(lambda name: "unction_0" in name), delta=0.051)
        self.assertEqual({row[4] for row in self.table()}, {name for name in functions(self.samples) if "unction_0" in name})
        self.window.type("#search", "^inner$|_1[37]$")
        self.assertEqual(self.matched(), 0)
        self.window.click("#regex")
        self.assertAlmostEqual(self.matched(), share(lambda name: re.search("^inner$|_1[37]$", name)), delta=0.051)
        self.window.type("#search", "(")
        self.assertEqual(self.window.text("#matched"), "no valid expression")
        self.window.key("\ue00c")                               # escape: to the flame graph
        self.assertEqual(self.window.run("return document.activeElement.id"), "flame")
        self.window.key("r")
        self.assertEqual(self.window.text("#matched"), "")
        self.check_quiet(page)

    def test_the_brush_filters_everything(self):
        page = self.show_filled()
        left, top, width, height, size = self.window.run(
            "const area = document.querySelector('#timeline').getBoundingClientRect();"
            "return [area.left, area.top, area.width, area.height, parseFloat(getComputedStyle(document.documentElement).fontSize)]")
        begin = left + round(size * 4.2)
        self.window.drag((begin + (left + width - begin) * 0.3, top + height / 2), (begin + (left + width - begin) * 0.55, top + height / 2))
        text = self.window.text("#filters")
        low, high = (float(number) for number in re.search(r"Time\s+([\d.]+) s – ([\d.]+) s", text).groups())
        self.assertTrue(4 < low < 8 and 9 < high < 13, text)
        first_ns = min(sample.time_ns for sample in otlp_read.samples(page.with_suffix(".json")))
        inside = [sample for sample in self.samples if low * 1e9 <= sample.time_ns - first_ns < high * 1e9]
        self.assertLess(len(inside), len(self.samples))
        self.assertEqual(self.shown_functions(), functions(inside))
        self.tab("Threads")
        self.assertEqual({row[2]: int(row[0].replace(",", "")) for row in self.table()}, collections.Counter(map(thread_of, inside)))
        # the same by keys: the sliders
        self.window.run("document.querySelector('#time-to').focus()")
        self.window.key("\ue012")                               # one bucket less
        shown = re.search(r"Time\s+([\d.]+) s – ([\d.]+) s", self.window.text("#filters")).groups()
        self.assertEqual(float(shown[0]), low)
        self.assertAlmostEqual(float(shown[1]), high - 0.1, delta=0.011)
        inside = [sample for sample in self.samples if low * 1e9 <= sample.time_ns - first_ns < float(shown[1]) * 1e9]
        self.assertEqual(self.shown_functions(), functions(inside))
        self.window.click("#filters button")
        self.assertEqual(self.shown_functions(), functions(self.samples))
        self.check_quiet(page)

    def test_heads_sort_the_table(self):
        page = self.show_filled()

        def check(column, title, key, reverse):
            self.window.run("document.querySelectorAll('#table thead button')[arguments[0]].click()", column)
            shown = [key(row) for row in self.table()]
            self.assertEqual(shown, sorted(shown, reverse=reverse), title)
            sorts = self.window.run("return [...document.querySelectorAll('#table thead th')].map((head) => head.getAttribute('aria-sort'))")
            self.assertEqual(sorts, ["none"] * column + ["descending" if reverse else "ascending"] + ["none"] * (4 - column))

        check(2, "total", lambda row: int(row[2].replace(",", "")), True)
        check(2, "total", lambda row: int(row[2].replace(",", "")), False)
        check(4, "name", lambda row: row[4], False)
        check(4, "name", lambda row: row[4], True)
        self.assertEqual(self.window.run("return document.activeElement.textContent.slice(0, 8)"), "Function")
        self.check_quiet(page)

    def test_everything_has_a_name_for_those_who_hear_it(self):
        page = self.show_filled()
        nodes = self.window.accessible()
        widgets = [node for node in nodes if node["role"] in ("button", "combobox", "searchbox", "slider", "tab", "tabpanel", "table", "application",
                                                              "textbox", "checkbox", "link", "Canvas", "toolbar", "region", "group", "tablist", "search")
                   and not (node["role"] in ("group", "search") and not node["name"])]
        self.assertEqual([node for node in widgets if not node["name"].strip()], [])
        found = {(node["role"], node["name"]) for node in nodes}
        for role, name in (("searchbox", "Search functions"), ("button", "Regular expression"), ("combobox", "Group by"), ("combobox", "Measure"),
                           ("slider", "Start of the time range"), ("slider", "End of the time range"), ("tab", "Functions"), ("tab", "Spans"),
                           ("table", "Functions"), ("button", "Keys and help"), ("button", "Callers"), ("heading", "shop (4711), worker (4712)")):
            self.assertIn((role, name), found)
        self.assertTrue(any(name.startswith("Flame graph: arrow keys") for _, name in found))
        heads = [node["name"] for node in nodes if node["role"] == "columnheader"]
        self.assertEqual(len(heads), 5)
        self.assertTrue(any(node["role"] == "rowheader" and node["name"].startswith("function_") for node in nodes))
        self.check_quiet(page)

    def test_keys_lead_everywhere(self):
        """From the top, the tab key comes by every control, and the help can be opened and closed."""
        page = self.show_filled()
        seen = set()
        for _ in range(60):
            self.window.key("\ue004")
            seen.add(self.window.run("return document.activeElement.id"))
        self.assertLessEqual({"theme", "help", "kind", "group", "callees", "callers", "icicle", "flames", "by-size", "by-name", "search", "regex", "reset",
                              "time-from", "time-to", "flame", "tab-functions"}, seen)
        self.window.run("document.querySelector('#flame').focus()")
        self.window.key("?")
        self.assertTrue(self.window.run("return document.querySelector('#help-box').open"))
        self.window.key("\ue00c")
        self.assertFalse(self.window.run("return document.querySelector('#help-box').open"))
        self.window.key("/")
        self.assertEqual(self.window.run("return document.activeElement.id"), "search")
        self.check_quiet(page)

    def test_it_fits_screens_of_all_sizes(self):
        page = self.show_filled()
        for width, height, ratio in ((800, 600, 1), (1440, 900, 2), (2560, 1440, 1.5), (3840, 2160, 1)):
            with self.subTest(f"{width} × {height}"):
                self.window.emulate(width, height, ratio)
                self.window.wait("return innerWidth === arguments[0]", width)
                self.window.wait("const flame = document.querySelector('#flame'), box = document.querySelector('#scroller');"
                                 "return Math.abs(flame.clientWidth - box.clientWidth) < 2 && flame.width === Math.round(flame.clientWidth * devicePixelRatio)")
                wide = self.window.run("return [document.documentElement.scrollWidth, innerWidth, ...[...document.querySelectorAll('button, select, input, h1')]"
                                       ".filter((e) => e.offsetParent && !e.closest('#tabs, #table') && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.id)]")
                self.assertLessEqual(wide[0], width)
                self.assertEqual(wide[2:], [])
                # boxes are drawn: something on the canvas is neither empty nor all of one colour
                colours = self.window.run("const flame = document.querySelector('#flame'), copy = new OffscreenCanvas(flame.width, flame.height).getContext('2d', { willReadFrequently: true });"
                                          "copy.drawImage(flame, 0, 0); const data = copy.getImageData(0, 0, flame.width, flame.height).data;"
                                          "const seen = new Set(); for (let i = 0; i < data.length; i += 4 * 97) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);"
                                          "return seen.size")
                self.assertGreater(colours, 10)
        self.check_quiet(page)

    def test_differences_are_changes_of_shares(self):
        sources = [fill(self.directory() / "a.json"), fill(self.directory() / "b.json", favourite=9)]
        page = write_diff(self, *sources)
        self.show(page)
        sides = [[sample for sample in otlp_read.samples(source) if sample.type == "samples"] for source in sources]
        before, after = (functions(samples) for samples in sides)

        def share(sums, side, name, which):
            return 100 * sums.get(name, [0, 0])[which] / len(sides[side])

        rows = {row[4]: [float(re.sub("[^0-9.-]", "", cell.replace("−", "-"))) for cell in row[:4]] for row in self.table()}
        self.assertEqual(set(rows), set(before) | set(after))
        for name, (change, old, new, change_total) in rows.items():
            self.assertAlmostEqual(old, share(before, 0, name, 0), delta=0.051)
            self.assertAlmostEqual(new, share(after, 1, name, 0), delta=0.051)
            self.assertAlmostEqual(change, share(after, 1, name, 0) - share(before, 0, name, 0), delta=0.0051)
            self.assertAlmostEqual(change_total, share(after, 1, name, 1) - share(before, 0, name, 1), delta=0.0051)
        self.window.run("document.querySelector('#flame').focus()")
        self.window.key("\ue015")
        tops = [collections.Counter(names_of(sample)[0] for sample in samples) for samples in sides]
        name = max(tops[0], key=lambda name: tops[0][name] / len(sides[0]) + tops[1][name] / len(sides[1]))
        old, new = (100 * top[name] / len(samples) for top, samples in zip(tops, sides, strict=True))
        self.assertTrue(self.status().startswith(name), self.status())
        shown = [float(number) for number in re.search(r"total ([\d.]+) % → ([\d.]+) %", self.status()).groups()]
        self.assertAlmostEqual(shown[0], old, delta=0.051)
        self.assertAlmostEqual(shown[1], new, delta=0.051)
        self.assertIn("monday → tuesday", self.window.text("#title"))
        self.check_quiet(page)

    def test_dark_and_light(self):
        def back():
            return self.window.run("return getComputedStyle(document.body).backgroundColor")

        page = self.show_filled()
        light = back()
        self.window.emulate(1440, 900, dark=True)
        self.window.wait("return document.documentElement.dataset.theme === 'dark'")
        dark = back()
        self.assertNotEqual(dark, light)
        self.window.click("#theme")
        self.assertEqual(back(), light)
        self.assertEqual(self.window.run("return document.querySelector('#theme').getAttribute('aria-label')"), "Colours: light")
        self.window.click("#theme")
        self.assertEqual(back(), dark)
        self.check_quiet(page)

    def test_hostile_names_do_no_harm(self):
        request = Request()
        for i, name in enumerate(HOSTILE):
            stack = request.stack([request.location([name], "native", i), request.location(["main"], "native", 99)])
            request.sample((("process.executable.name", name[:60000]), ("process.pid", i)), CPU, stack, {"thread.name": name, "endpoint": name}, None, 1, START_NS + i)
        path = self.directory() / "a.html"
        self.spanprof("convert", request.write(path.with_suffix(".json")), "-o", path)
        self.show(path)
        for title in ("Processes", "Threads", "Operations", "Functions"):
            self.tab(title)
            self.assertGreaterEqual(len(self.table()), len(HOSTILE))
        self.group("Operation")
        self.window.run("document.querySelector('#flame').focus()")
        for _ in range(3):
            self.window.key("\ue015", "\ue007")
        self.assertIsNone(self.window.run("return window.harmed || null"))
        self.assertEqual(self.window.run("return [document.querySelectorAll('script').length, document.querySelectorAll('img').length]"), [1, 0])
        self.assertIn(HOSTILE[0], {row[4] for row in (self.tab("Functions"), self.table())[1]})
        self.check_quiet(path)

    def test_a_page_that_is_cut_off_says_so(self):
        path = self.show_filled()
        text = path.read_text()
        middle = text.index('id="data">') + 2000
        path.write_text(text[:middle] + text[text.index("</script>", middle):])
        self.window.open(path)
        self.window.wait("return document.querySelector('#trouble').innerText")
        self.assertIn("cannot be shown", self.window.text("#trouble"))


if __name__ == "__main__":
    oracle.enter()
    tap.main()
