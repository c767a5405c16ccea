#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What pages show in a headless Chromium: clicks, keys and searches, compared with sums over the same file
read by opentelemetry-proto."""
import collections
import json
import math
import random
import re
import tempfile

import browser
import oracle
import otlp_read
from page_sample import (CPU, HOSTILE, N_SAMPLES, Request, SHOP, START_NS, fill, fill_waits, functions,
                         names_of, process_of, thread_of, write_diff)
import session
import tap


def in_words(ns):
    """As tables have it: three digits of the largest unit."""
    units = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 0))
    unit, size = next((unit, size or 1) for unit, size in units if ns >= size)
    value = ns / size
    return f"{value:.{0 if size == 1 or value >= 100 else 1 if value >= 10 else 2}f} {unit}"


def setUpModule():
    oracle.need()


class Shown(tap.TestCase):
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
        said = self.window.wait(
            "return document.documentElement.dataset.ready || document.querySelector('#trouble').innerText")
        self.assertRegex(said, r"^\d+$")

    def show_filled(self, **options):
        directory = self.directory()
        source = fill(directory / "a.json", **options)
        self.spanprof("convert", source, "-o", directory / "a.html")
        self.show(directory / "a.html")
        self.samples = [sample for sample in otlp_read.samples(source) if sample.type == "samples"]
        return directory / "a.html"

    def table(self):
        """The rows that are shown, as lists of texts; the name without what stands beside it."""
        return self.window.run(
            "return [...document.querySelectorAll('#table tbody tr')].map((row) => [...row.children].map("
            "(cell) => { const link = cell.querySelector('.link');"
            " return link ? link.fullName || link.textContent : cell.textContent; }))")

    def shown_functions(self):
        self.window.click("#tab-functions")
        return {row[4]: [int(row[0].replace(",", "")), int(row[2].replace(",", ""))] for row in self.table()}

    def tab(self, title):
        self.window.run(
            "[...document.querySelectorAll('#tabs button')].find((tab) => tab.textContent === arguments[0]).click()",
            title)

    def choose(self, title, label):
        """Clicks a row of a table."""
        self.tab(title)
        self.window.run(
            "[...document.querySelectorAll('#table .link')].find((link) => link.textContent === arguments[0]).click()",
            label)

    def group(self, title):
        self.window.run(
            "const group = document.querySelector('#group'); group.value = [...group.options].find((o) => o.text === arguments[0]).value;"
            "group.dispatchEvent(new Event('change'))", title)

    def status(self):
        return self.window.text("#status")

    def check_status(self, name, value, n_all):
        text = self.status()
        self.assertTrue(text.startswith(name), text)
        self.assertIn(f"total {value:,} sample", text)
        shown = float(re.search(r"total [\d,]+ samples?, ([\d.]+)%", text)[1])
        self.assertAlmostEqual(shown, 100 * value / n_all, delta=0.051)

    def check_quiet(self, page):
        self.assertEqual(self.window.problems(), [])
        self.assertEqual(set(self.window.requests()) - {page.as_uri(), "file:///dev/null"}, set())

    def test_tables_show_the_sums(self):
        page = self.show_filled()
        self.assertEqual(self.shown_functions(), functions(self.samples))
        for title, key in (("Processes", process_of), ("Threads", thread_of),
                           ("Operations", lambda s: s.attributes.get("endpoint", "no operation")),
                           ("Coroutines", lambda s: f"station {s.attributes['coroutine.station']}"
                            if "coroutine.station" in s.attributes else "no coroutine"),
                           ("Stack ends", lambda s: {"depth": "more frames than are kept",
                                                  "no_rows": "code without unwind information"}.get(
                                                      s.attributes.get("profile.stack.truncated"), "complete")),
                           ("Spans", lambda s: s.span_id or "no span")):
            with self.subTest(title):
                self.tab(title)
                self.assertEqual({row[2]: int(row[0].replace(",", "")) for row in self.table()},
                                 collections.Counter(map(key, self.samples)))
        facts = self.window.text("#facts")
        self.assertIn(f"{len(self.samples):,}", facts)
        seconds = len(self.samples) / 100                       # 10 ms each
        self.assertIn(f"{seconds:.{2 if seconds < 10 else 1 if seconds < 100 else 0}f} s", facts)
        self.check_quiet(page)

    def line_sums(self, name, samples):
        """line → [self, total] of a function; 0 = not known. A sample counts once for each line."""
        sums = collections.defaultdict(lambda: [0, 0])
        for sample in samples:
            for line in {frame.line for frame in sample.frames if frame.name == name}:
                sums[line][1] += sample.value
            if sample.frames and sample.frames[0].name == name:
                sums[sample.frames[0].line][0] += sample.value
        return dict(sums)

    def shown_lines(self, file):
        return {0 if row[4] == "line not known" else int(row[4].removeprefix(f"{file}:")):
                [int(row[0].replace(",", "")), int(row[2].replace(",", ""))] for row in self.table()}

    def test_lines_of_a_function(self):
        page = self.show_filled(n_lines=3)
        sums = functions(self.samples)
        most = max((name for name in sums if name.startswith("function_") and int(name[9:]) % 3 == 2),
                   key=lambda name: sums[name][0])
        self.tab("Lines")
        self.assertIn(most, self.window.text("#table .lines-of"))
        self.assertEqual(self.shown_lines(f"File{int(most[9:])}.java"), self.line_sums(most, self.samples))
        for name in ("function_02", "function_29"):
            self.window.click("#reset")
            self.choose("Functions", name)
            self.tab("Lines")
            self.assertIn(f"src/File{int(name[9:])}.java", self.window.text("#table .lines-of"))
            self.assertEqual(self.shown_lines(f"File{int(name[9:])}.java"), self.line_sums(name, self.samples))
        self.window.run("document.querySelector('#flame').focus()")
        for _ in range(40):                     # down the largest boxes, to one whose lines are known
            self.window.key("\ue015")
            name = self.status().split()[0]
            if name.startswith("function_") and int(name[9:]) % 3 == 2:
                break
        self.assertIn(name, self.window.text("#table .lines-of"))
        self.assertEqual(self.shown_lines(f"File{int(name[9:])}.java"), self.line_sums(name, self.samples))
        self.window.run("document.querySelector('#status button').click()")
        self.assertIn(name, self.window.text("#table .lines-of"))
        thread = thread_of(self.samples[0])
        self.choose("Threads", thread)
        self.tab("Lines")
        self.assertEqual(self.shown_lines(f"File{int(name[9:])}.java"),
                         self.line_sums(name, [s for s in self.samples if thread_of(s) == thread]))
        self.window.click("#reset")
        self.choose("Functions", "function_00")                         # which has none: another's stay
        self.tab("Lines")
        self.assertIn(name, self.window.text("#table .lines-of"))
        self.check_quiet(page)

    def show_waits(self):
        directory = self.directory()
        source = fill_waits(directory / "waits.json")
        self.spanprof("convert", source, "-o", directory / "waits.html")
        self.show(directory / "waits.html")
        self.samples = list(otlp_read.samples(source))
        self.window.run("const kind = document.querySelector('#kind'); kind.value = [...kind.options].find("
                        "(o) => o.text === 'Off-CPU time').value; kind.dispatchEvent(new Event('change'))")
        return directory / "waits.html"

    def waits_of(self, who, only):
        """(who, on, ended by) → ns, as the page should have them, of those who are in @only; None = all."""
        operations = {s.span_id: s.attributes["endpoint"] for s in self.samples if s.span_id}
        threads = {s.attributes["thread.id"]: thread_of(s) for s in self.samples}
        words = {"process": "another process", "interrupt": "a timer or device", None: "not known"}
        sums = collections.Counter()
        for s in self.samples:
            if s.type != "off_cpu" or (only and who(s) != only):
                continue
            a = s.attributes
            words_of = (a.get(f"wait.{key}") for key in ("reason", "file.kind", "lock.kind", "lock.class"))
            on, by = " ".join(filter(None, words_of)), None
            if "wait.lock.owner.thread.id" in a:
                number = a["wait.lock.owner.thread.id"]
                on += f" of {threads.get(number) or f'thread {number}'}"
            if a["wait.state"] == "runnable":
                on = "a CPU"
            elif a.get("wait.waker.kind") == "thread":
                number = a["wait.waker.thread.id"]
                by = operations.get(a.get("wait.waker.span_id")) or threads.get(number) or f"thread {number}"
            else:
                by = words[a.get("wait.waker.kind")]
            sums[who(s), on, by] += s.value
        return sums

    def drawn_bands(self):
        """Tooltips of the bands: `left → right` and the time."""
        titles = self.window.run("return [...document.querySelectorAll('#waits .band title')].map((t) => t.textContent)")
        return sorted(tuple(title.rsplit(": ", 1)) for title in titles)

    def check_waits(self, who, only=None):
        sums, bands = self.waits_of(who, only), collections.Counter()
        for (left, on, by), value in sums.items():
            bands[f"{left} → {on}"] += value
            if by:
                bands[f"{on} → {by}"] += value
        self.assertEqual(self.drawn_bands(), sorted((name, in_words(value)) for name, value in bands.items()))
        self.tab("Waits")
        shown = {}
        for time, _share, text in self.table():
            left, rest = text.split("on ", 1)
            on, _, by = rest.partition(", ended by ")
            shown[left, on, by.split(" in ")[0] or None] = time
        self.assertEqual(shown, {key: in_words(value) for key, value in sums.items()})

    def test_waits_who_on_what_and_by_whom(self):
        page = self.show_waits()
        self.check_waits(lambda s: s.attributes.get("endpoint", "no operation"))
        rows = {row[3]: row[:3] for row in self.window.run(
            "return [...document.querySelectorAll('#waits-table tbody tr')].map((row) => "
            "[...row.children].map((cell) => cell.textContent))")}
        for name in ("/checkout", "/list", "no operation"):
            mine = [s for s in self.samples if s.attributes.get("endpoint", "no operation") == name]
            waits = [(s.attributes["wait.state"], s.value) for s in mine if s.type == "off_cpu"]
            self.assertEqual(rows[name], [in_words(sum(v for state, v in waits if state == what))
                                          for what in ("blocked", "runnable")] +
                             [in_words(10_000_000 * sum(s.type == "samples" for s in mine))])
        functions = {name for name in re.findall(r"work_\d", self.window.text("#table"))}
        self.assertEqual(functions, {f"work_{i}" for i in range(4)})
        self.assertNotIn("unlock", self.window.text("#table"))          # of the kernel
        self.window.run("const who = document.querySelector('#waits-who'); who.value = 'thread';"
                        "who.dispatchEvent(new Event('change'))")
        self.check_waits(thread_of)
        self.window.run("[...document.querySelectorAll('#waits .pick')].find((node) => "
                        "node.querySelector('text').textContent.startsWith('thread-1 (101)'))"
                        ".dispatchEvent(new Event('click'))")
        self.assertIn("thread-1 (101)", self.window.text("#filters"))
        self.check_waits(thread_of, "thread-1 (101)")
        self.check_quiet(page)

    def test_without_waits_nothing_is_said_of_them(self):
        self.show_filled()
        self.assertNotIn("Waits", self.window.text("#tabs"))
        self.assertFalse(self.window.run("return document.querySelector('#waits-section').checkVisibility()"))

    def test_without_lines_there_is_no_tab_of_them(self):
        self.show_filled()
        self.assertNotIn("Lines", self.window.text("#tabs"))
        self.assertNotIn("Lines", self.window.text("#table"))

    def test_numbers_are_written_as_in_the_text_report(self):
        page = self.show_filled()
        done = self.spanprof("report", "--type", "samples", "--top", "1000", "--format", "markdown",
                             page.with_suffix(".json"))
        table = done.stdout.split("#### Functions\n")[1].strip().split("\n\n")[0].splitlines()[2:]
        said = sorted([cell.strip().replace("\\", "") for cell in row.strip("| ").split(" | ")][:5]
                      for row in table)
        self.window.click("#tab-functions")
        shown = sorted([row[0].replace(",", ""), row[1] + "%", row[2].replace(",", ""), row[3] + "%", row[4]]
                       for row in self.table())
        self.assertEqual([row for row in shown if row[4].startswith("function_")],
                         [row for row in said if row[4].startswith("function_")])
        self.assertGreater(len([row for row in shown if row[4].startswith("function_")]), 10)

    def test_long_names_are_cut_where_they_differ_least(self):
        engine, frame = "shop::pricing::Engine<unsigned long, shop::pricing::Table<int> >::", START_NS
        names = [engine + f"{name}(int, shop::Book const&) const" for name in ("price", "total", "quote")]
        request = Request()
        for i, name in enumerate(names):
            for j in range(i + 1):
                stack = request.stack([request.location([name], "native", 16 + i)])
                request.sample(SHOP, CPU, stack, {}, None, 1, frame + j)
        source = request.write(self.directory() / "a.json")
        self.spanprof("convert", source, "-o", source.with_suffix(".html"))
        self.show(source.with_suffix(".html"))
        shown = self.window.run(
            "return [...document.querySelectorAll('#table .link')].map((x) => [x.textContent, x.title])")
        self.assertEqual(len({short for short, _ in shown}), 3, shown)
        for short, title in shown:
            self.assertIn("<…>::", short)
            self.assertIn(title.split("\n")[0], names)

    def test_names_are_shortened_as_in_the_text_report(self):
        chance = random.Random(1)
        parts = ["shop", "::", ".", "/", "$", "<", ">", "(", ")", "{", "}", "->", "operator", "operator<", "abcd",
                 "größe", "7", "…", " ", ",", "*", "𝛼"]
        names = ["", "a", "shop::Engine<unsigned long, Table>::price(int, Book const&)", "com.example.Engine.price",
                 "github.com/example/shop.(*Engine).price", "Pool<shop>::operator<(Key const&)::Less>"]
        names += ["".join(chance.choices(parts, k=chance.randint(1, 14))) for _ in range(500)]
        cases = [[name, width] for name in names for width in (0, 1, 2, 3, 5, 8, 13, 21, 34)]
        done = self.run_command([tap.HARNESS / "short-names"], stdin=None, expect=0,
                                input="".join(f"{width} {name}\n" for name, width in cases))
        self.show_filled()
        shown = self.window.run("return arguments[0].map(([name, width]) => shortName(name, width))", cases)
        rows = zip(cases, done.stdout.split("\n")[:-1], shown, strict=True)
        self.assertEqual([row for row in rows if row[1] != row[2]][:5], [])

    def test_names_that_look_alike_are_told_apart_as_in_the_text_report(self):
        text = "std::basic_string<char, std::char_traits<char> >"
        names = [f"shop::Engine<{argument}>::price(int)" for argument in
                 (f"{text}, long", f"{text}, double", "shop::RoundUp", "{lambda(auto:1, int)#1}, int (*)(a::b, c)",
                  "a::Down const&, 𝛼::größe", "", "operator<, x", "->, b::c")] + ["shop.Engine.<init>", "sort.part.0"]
        cases = [[names, width] for width in (0, 1, 2, 5, 8, 13, 21, 30, 34, 40)]
        self.show_filled()
        for case, width in cases:
            done = self.run_command([tap.HARNESS / "short-names", "--together", str(width)], stdin=None, expect=0,
                                    input="".join(f"{name}\n" for name in case))
            shown = self.window.run("return partTwins(arguments[0].map((name) => ({ name, width: arguments[1] })))"
                                    ".map(([, short]) => short)", case, width)
            self.assertEqual(done.stdout.split("\n")[:-1], shown)
        self.assertGreater(len(set(shown)), 8, shown)

    def test_values_between_two_are_rounded_as_in_the_text_report(self):
        values = {1_125: "1.12 µs", 1_375: "1.38 µs", 12_250_000: "12.2 ms", 12_750_000: "12.8 ms",
                  100_500_000_000: "100 s", 101_500_000_000: "102 s", 9_996_000: "10.00 ms", 999: "999 ns"}
        self.show_filled()
        self.assertEqual(self.window.run('return arguments[0].map((value) => formatValue(value, "nanoseconds"))',
                                         list(values)), list(values.values()))

    def test_each_measure_has_its_words(self):
        request = Request()
        stack = request.stack([request.location(["main"], "native", 16)])
        kinds = {("off_cpu_waker", "nanoseconds", "off_cpu_waker", "nanoseconds", 0): "Waits, by who ended them",
                 ("off_cpu", "nanoseconds", "off_cpu", "nanoseconds", 0): "Off-CPU time", CPU: "CPU samples"}
        memory = {("alloc_space", "bytes", "space", "bytes", 1): "Allocated bytes",
                  ("inuse_space", "bytes", "space", "bytes", 1): "Live bytes",
                  ("inuse_objects", "count", "objects", "count", 1): "Live objects"}
        for kind in {**kinds, **memory}:
            request.sample(SHOP, kind, stack, {}, None, 1, START_NS)
        source = request.write(self.directory() / "a.json")
        self.spanprof("convert", source, "-o", source.with_suffix(".html"))
        self.show(source.with_suffix(".html"))
        self.assertEqual(
            set(self.window.run("return [...document.querySelectorAll('#kind > option')].map((x) => x.text)")),
            set(kinds.values()))
        self.assertEqual(
            set(self.window.run("return [...document.querySelector('#kind > [label=Memory]').children].map((x) => x.text)")),
            set(memory.values()))

    def saved(self, which, where):
        """What the browser downloads for a choice of the menu."""
        self.window.devtools("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(where))
        self.window.run(
            "[...document.querySelectorAll('#saves button')].find((x) => x.textContent.includes(arguments[0])).click()",
            which)
        # its name is there, empty, before its bytes are
        return tap.wait_until(lambda: [x for x in where.iterdir() if not x.name.endswith((".crdownload", ".tmp"))
                                       and not x.name.startswith(".") and x.stat().st_size], "a download")[0]

    def test_what_is_shown_opens_in_other_tools(self):
        page = self.show_filled()
        self.choose("Processes", "worker (4712)")
        samples = [sample for sample in self.samples if process_of(sample) == "worker (4712)"]
        expected = functions(samples)
        for which, ending in (("pprof", ".pb.gz"), ("Folded", ".folded")):
            path = self.saved(which, self.directory())
            self.assertTrue(path.name.endswith(ending), path)
            kind, = json.loads(self.spanprof("report", "--json", "--top", "100000", path).stdout)["profiles"]
            self.assertEqual({f["function"]: [f["self"], f["total"]] for f in kind["functions"]}, expected)
        made = json.loads(self.saved("speedscope", self.directory()).read_text())
        kind, = made["profiles"]
        sums = collections.Counter()
        for stack, weight in zip(kind["samples"], kind["weights"], strict=True):
            sums[made["shared"]["frames"][stack[-1]]["name"]] += weight
        self.assertEqual(dict(sums), {name: self_ for name, (self_, _) in expected.items() if self_})
        self.check_quiet(page)

    def test_a_phone_shows_the_picture_at_once(self):
        self.window.emulate(375, 667, 2)
        self.show_filled()
        box = self.window.run("const b = document.querySelector('#flame').getBoundingClientRect();"
                              "return [b.top, b.bottom, document.documentElement.scrollWidth]")
        self.assertLess(box[0], 667 / 2, "the picture begins in the upper half")
        self.assertLessEqual(box[2], 375)

    def test_rows_choose_what_is_looked_at(self):
        page = self.show_filled()
        for title, key, label in (("Processes", process_of, "worker (4712)"), ("Threads", thread_of,
                                                                               "thread-2 (202)")):
            self.choose(title, label)
            self.samples = [sample for sample in self.samples if key(sample) == label]
            self.assertEqual(self.shown_functions(), functions(self.samples))
        self.assertIn("thread-2 (202)", self.window.text("#filters"))
        self.window.click("#reset")
        spans = collections.Counter((sample.trace_id, sample.span_id)
                                    for sample in otlp_read.samples(page.with_suffix(".json"))
                                    if sample.span_id)
        (trace, span), _ = spans.most_common(1)[0]
        self.choose("Spans", span)
        chosen = [
            s for s in otlp_read.samples(page.with_suffix(".json"))
            if s.span_id == span and s.type == "samples"
        ]
        self.assertEqual(self.shown_functions(), functions(chosen))
        self.tab("Spans")
        self.window.run(f"document.querySelector('[aria-label=\"Copy trace id {trace}\"]').click()")
        self.assertEqual(self.status(), f"Copied: {trace}")
        self.check_quiet(page)

    def test_another_measure(self):
        page = self.show_filled()
        self.window.run(
            "const kind = document.querySelector('#kind'); kind.value = [...kind.options].find((o) => o.text === 'Off-CPU time').value;"
            "kind.dispatchEvent(new Event('change'))")
        samples = [
            sample for sample in otlp_read.samples(page.with_suffix(".json")) if sample.type == "off_cpu"
        ]
        total = sum(sample.value for sample in samples)
        seconds = total / 1e9
        self.assertIn(f"total {seconds:.{2 if seconds < 10 else 1}f} s, 100.0%", self.status())
        self.window.click("#tab-functions")
        shares = {row[4]: float(row[3]) for row in self.table()}
        for name, (_, value) in functions(samples).items():
            self.assertAlmostEqual(shares[name], 100 * value / total, delta=0.051)
        self.check_quiet(page)

    def test_boxes_are_reached_by_keys_and_zoomed(self):
        page = self.show_filled()
        top = collections.Counter(names_of(sample)[0] for sample in self.samples)
        widest, value = top.most_common(1)[0]
        self.check_status("all", len(self.samples), len(self.samples))
        self.window.run("document.querySelector('#flame').focus()")
        self.window.key("\ue015")                                               # down
        self.check_status(widest, value, len(self.samples))
        below = collections.Counter(
            names_of(s)[1] for s in self.samples if names_of(s)[0] == widest and len(names_of(s)) > 1)
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
        left, top, width, size = self.window.run(
            "const area = document.querySelector('#flame').getBoundingClientRect();"
            "return [area.left, area.top, area.width, parseFloat(getComputedStyle(document.documentElement).fontSize)]"
        )
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
        above = collections.Counter(
            names_of(s)[-2] for s in self.samples if names_of(s)[-1] == name and len(names_of(s)) > 1)
        self.window.key("\ue015")
        self.check_status(above.most_common(1)[0][0], above.most_common(1)[0][1], len(self.samples))
        self.check_quiet(page)

    def test_groups_are_the_first_boxes(self):
        page = self.show_filled()
        for title, key in (("Thread", thread_of), ("Process", process_of),
                           ("Operation", lambda s: s.attributes.get("endpoint", "no operation"))):
            with self.subTest(title):
                self.group(title)
                label, value = collections.Counter(map(key, self.samples)).most_common(1)[0]
                self.window.run("document.querySelector('#flame').focus()")
                self.window.key("\ue011", "\ue015")                             # home, down
                self.check_status(label, value, len(self.samples))
                name, value = collections.Counter(names_of(s)[0] for s in self.samples
                                                  if key(s) == label).most_common(1)[0]
                self.window.key("\ue015")
                self.check_status(name, value, len(self.samples))
        self.window.click("#flames")
        self.window.run("document.querySelector('#flame').focus()")
        # home, up: flames grow upwards
        self.window.key("\ue011", "\ue013")
        self.assertTrue(self.status().startswith("/list") or self.status().startswith("no operation"),
                        self.status())
        self.check_quiet(page)

    def matched(self):
        return float(re.match(r"([\d.]+)% matched", self.window.text("#matched"))[1])

    def test_search_tells_the_share(self):
        page = self.show_filled()

        def share(match):
            return 100 * sum(any(match(name) for name in names_of(sample))
                             for sample in self.samples) / len(self.samples)

        self.window.type("#search", "FUNCTION_07")
        self.assertEqual(self.matched(), 0)                     # capitals mean themselves
        self.window.type("#search", "function_07")
        self.assertAlmostEqual(self.matched(), share(lambda name: name == "function_07"), delta=0.051)
        self.window.type("#search", "unction_0")
        self.assertAlmostEqual(self.matched(), share(lambda name: "unction_0" in name), delta=0.051)
        self.assertEqual({row[4] for row in self.table()},
                         {name for name in functions(self.samples) if "unction_0" in name})
        self.window.type("#search", "^inner$|_1[37]$")
        self.assertEqual(self.matched(), 0)
        self.window.click("#regex")
        self.assertAlmostEqual(self.matched(), share(lambda name: re.search("^inner$|_1[37]$", name)),
                               delta=0.051)
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
            "return [area.left, area.top, area.width, area.height, parseFloat(getComputedStyle(document.documentElement).fontSize)]"
        )
        begin = left + round(size * 4.2)
        self.window.drag((begin + (left + width - begin) * 0.3, top + height / 2),
                         (begin + (left + width - begin) * 0.55, top + height / 2))
        text = self.window.text("#filters")
        low, high = (float(number) for number in re.search(r"Time\s+([\d.]+) s – ([\d.]+) s", text).groups())
        self.assertTrue(4 < low < 8 and 9 < high < 13, text)
        first_ns = min(sample.time_ns for sample in otlp_read.samples(page.with_suffix(".json")))
        inside = [sample for sample in self.samples if low * 1e9 <= sample.time_ns - first_ns < high * 1e9]
        self.assertLess(len(inside), len(self.samples))
        self.assertEqual(self.shown_functions(), functions(inside))
        self.tab("Threads")
        self.assertEqual({row[2]: int(row[0].replace(",", "")) for row in self.table()},
                         collections.Counter(map(thread_of, inside)))
        # the same by keys: the sliders
        self.window.run("document.querySelector('#time-to').focus()")
        self.window.key("\ue012")                               # one bucket less
        shown = re.search(r"Time\s+([\d.]+) s – ([\d.]+) s", self.window.text("#filters")).groups()
        self.assertEqual(float(shown[0]), low)
        self.assertAlmostEqual(float(shown[1]), high - 0.1, delta=0.011)
        inside = [
            sample for sample in self.samples
            if low * 1e9 <= sample.time_ns - first_ns < float(shown[1]) * 1e9
        ]
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
            sorts = self.window.run(
                "return [...document.querySelectorAll('#table thead th')].map((head) => head.getAttribute('aria-sort'))"
            )
            self.assertEqual(sorts, ["none"] * column + ["descending" if reverse else "ascending"] +
                             ["none"] * (4 - column))

        check(2, "total", lambda row: int(row[2].replace(",", "")), True)
        check(2, "total", lambda row: int(row[2].replace(",", "")), False)
        check(4, "name", lambda row: row[4], False)
        check(4, "name", lambda row: row[4], True)
        self.assertEqual(self.window.run("return document.activeElement.textContent.slice(0, 8)"), "Function")
        self.check_quiet(page)

    def test_everything_has_a_name_for_those_who_hear_it(self):
        page = self.show_filled()
        nodes = self.window.accessible()
        widgets = [
            node for node in nodes
            if node["role"] in ("button", "combobox", "searchbox", "slider", "tab", "tabpanel", "table",
                                "application", "textbox", "checkbox", "link", "Canvas", "toolbar", "region",
                                "group", "tablist",
                                "search") and not (node["role"] in ("group", "search") and not node["name"])
        ]
        self.assertEqual([node for node in widgets if not node["name"].strip()], [])
        found = {(node["role"], node["name"]) for node in nodes}
        for role, name in (("searchbox", "Search functions"), ("button", "Regular expression"),
                           ("combobox", "Group by"), ("combobox", "Measure"), ("slider",
                                                                               "Start of the time range"),
                           ("slider", "End of the time range"), ("tab", "Functions"), ("tab", "Spans"),
                           ("table", "Functions"), ("button", "Keys and help"), ("button", "Callers"),
                           ("heading", "shop (4711), worker (4712)")):
            self.assertIn((role, name), found)
        self.assertTrue(any(name.startswith("Flame graph: arrow keys") for _, name in found))
        heads = [node["name"] for node in nodes if node["role"] == "columnheader"]
        self.assertEqual(len(heads), 5)
        self.assertTrue(
            any(node["role"] == "rowheader" and node["name"].startswith("function_") for node in nodes))
        self.check_quiet(page)

    def test_keys_lead_everywhere(self):
        """From the top, the tab key comes by every control, and the help can be opened and closed."""
        page = self.show_filled()
        seen = set()
        for _ in range(60):
            self.window.key("\ue004")
            seen.add(self.window.run("return document.activeElement.id"))
        self.assertLessEqual(
            {
                "theme", "help", "kind", "group", "callees", "callers", "icicle", "flames", "by-size",
                "by-name", "search", "regex", "reset", "time-from", "time-to", "flame", "tab-functions"
            }, seen)
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
                self.window.wait(
                    "const flame = document.querySelector('#flame'), box = document.querySelector('#scroller');"
                    "return Math.abs(flame.clientWidth - box.clientWidth) < 2 && flame.width === Math.round(flame.clientWidth * devicePixelRatio)"
                )
                wide = self.window.run(
                    "return [document.documentElement.scrollWidth, innerWidth, ...[...document.querySelectorAll('button, select, input, h1')]"
                    ".filter((e) => e.offsetParent && !e.closest('#tabs, #table') && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.id)]"
                )
                self.assertLessEqual(wide[0], width)
                self.assertEqual(wide[2:], [])
                # boxes are drawn: something on the canvas is neither empty nor all of one colour
                colours = self.window.run(
                    "const flame = document.querySelector('#flame'), copy = new OffscreenCanvas(flame.width, flame.height).getContext('2d', { willReadFrequently: true });"
                    "copy.drawImage(flame, 0, 0); const data = copy.getImageData(0, 0, flame.width, flame.height).data;"
                    "const seen = new Set(); for (let i = 0; i < data.length; i += 4 * 97) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);"
                    "return seen.size")
                self.assertGreater(colours, 10)
        self.check_quiet(page)

    def test_buttons_of_a_page_with_waits_are_in_one_row(self):
        page = self.show_waits()
        for width in (1280, 1440):
            with self.subTest(width=width):
                self.window.emulate(width, 800)
                self.window.wait("return innerWidth === arguments[0]", width)
                middles = self.window.run(
                    "return [...document.querySelectorAll('.controls > *')].filter((e) => e.offsetParent).map("
                    "(e) => e.getBoundingClientRect()).map((box) => (box.top + box.bottom) / 2)")
                self.assertGreater(len(middles), 5)
                self.assertLess(max(middles) - min(middles), 5, middles)
        self.check_quiet(page)

    def test_all_tabs_are_seen_at_usual_widths(self):
        page = self.show_filled()
        for width in (1024, 1280, 1440):
            with self.subTest(width=width):
                self.window.emulate(width, 800)
                self.window.wait("return innerWidth === arguments[0]", width)
                hidden = self.window.run(
                    "const box = document.querySelector('#tabs').getBoundingClientRect();"
                    "return [...document.querySelectorAll('#tabs button')].filter((e) => e.getBoundingClientRect().right"
                    " > box.right + 1 || e.getBoundingClientRect().bottom > box.bottom + 1).map((e) => e.innerText)")
                self.assertEqual(hidden, [])
        self.check_quiet(page)

    def test_coverage_is_coloured_where_chance_does_not_explain_it(self):
        """Two standard deviations of so many samples, in either direction."""
        sources = [fill(self.directory() / "a.json"), fill(self.directory() / "b.json", favourite=9)]
        deviation = 1 / math.sqrt(2 * N_SAMPLES)
        for by, is_warned in ((-1.5, False), (1.5, False), (-3, True), (3, True)):
            with self.subTest(by=by):
                self.show(write_diff(self, *sources, str(1 + by * deviation)))
                card = self.window.run("return [...document.querySelectorAll('#facts li')].filter((card) =>"
                                       " card.innerText.includes('Coverage')).map((card) => card.className)")
                self.assertEqual(card, ["bad" if is_warned else ""])

    def test_a_recording_has_its_cpu_time_on_one_card(self):
        """What was sampled; what the kernel counts is in the words on it."""
        tap.need_root()
        tap.need_btf()
        victim = self.spawn([tap.VICTIMS / "victim-chain", 5])
        victim.wait_for("^pid")
        page = self.directory() / "a.html"
        self.record_until(lambda: session.wait_cpu([victim.pid], 0.5), "--pid", victim.pid, "-o", page)
        self.show(page)
        cards = self.window.run(
            "return [...document.querySelectorAll('#facts li')].map((card) => [card.innerText, card.outerHTML])")
        times = [html for text, html in cards if "CPU time" in text]
        self.assertEqual(len(times), 1, cards)
        self.assertIn("Sampled CPU time", times[0])
        self.assertRegex(times[0], r"samples × the time that each stands for; [\d.]+ s, as the kernel counts")
        self.check_quiet(page)

    def check_answer(self, rows):
        """Above the picture stands what the report says first; boxes can be as wide as on each side."""
        said = self.window.run("return document.querySelector('#answer').innerText")
        name, change = next((name, row[0]) for name, row in rows.items())
        self.assertRegex(said, rf"changed most: {re.escape(name)} {'+' if change > 0 else '−'}".replace("+", "[+]"))
        self.assertIn("without folders", said)
        widest = "return [...document.querySelectorAll('#widths button')].map((b) => b.getAttribute('aria-pressed'))"
        self.assertEqual(self.window.run(widest), ["true", "false", "false"])
        self.window.click("#width-after")
        self.assertEqual(self.window.run(widest), ["false", "false", "true"])
        self.window.click("#back")
        self.assertEqual(self.window.run(widest), ["true", "false", "false"])

    def test_differences_are_changes_of_shares(self):
        sources = [fill(self.directory() / "a.json"), fill(self.directory() / "b.json", favourite=9)]
        page = write_diff(self, *sources)
        self.show(page)
        sides = [[sample for sample in otlp_read.samples(source) if sample.type == "samples"]
                 for source in sources]
        before, after = (functions(samples) for samples in sides)

        def share(sums, side, name, which):
            return 100 * sums.get(name, [0, 0])[which] / len(sides[side])

        rows = {
            row[4]: [float(re.sub("[^0-9.-]", "", cell.replace("−", "-"))) for cell in row[:4]]
            for row in self.table()
        }
        self.assertEqual(set(rows), set(before) | set(after))
        for name, (change, old, new, change_total) in rows.items():
            self.assertAlmostEqual(old, share(before, 0, name, 0), delta=0.051)
            self.assertAlmostEqual(new, share(after, 1, name, 0), delta=0.051)
            self.assertAlmostEqual(change, share(after, 1, name, 0) - share(before, 0, name, 0), delta=0.051)
            self.assertAlmostEqual(change_total,
                                   share(after, 1, name, 1) - share(before, 0, name, 1), delta=0.051)
        changes = [abs(change) for change, *_ in rows.values()]
        self.assertEqual(changes, sorted(changes, reverse=True), "the most changed is first, up or down")
        self.check_answer(rows)
        self.window.run("document.querySelector('#flame').focus()")
        self.window.key("\ue015")
        tops = [collections.Counter(names_of(sample)[0] for sample in samples) for samples in sides]
        name = max(tops[0], key=lambda name: tops[0][name] / len(sides[0]) + tops[1][name] / len(sides[1]))
        old, new = (100 * top[name] / len(samples) for top, samples in zip(tops, sides, strict=True))
        self.assertTrue(self.status().startswith(name), self.status())
        shown = [
            float(number) for number in re.search(r"total ([\d.]+)% → ([\d.]+)%", self.status()).groups()
        ]
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
        self.assertEqual(
            self.window.run("return document.querySelector('#theme').getAttribute('aria-label')"),
            "Colours: light")
        self.window.click("#theme")
        self.assertEqual(back(), dark)
        self.check_quiet(page)

    def test_hostile_names_do_no_harm(self):
        request = Request()
        for i, name in enumerate(HOSTILE):
            stack = request.stack(
                [request.location([name], "native", i),
                 request.location(["main"], "native", 99)])
            request.sample((("process.executable.name", name[:60000]), ("process.pid", i)), CPU, stack,
                           {"thread.name": name, "endpoint": name, "profile.stack.truncated": name, "constructor": "x",
                            "__proto__": "y"}, None, 1, START_NS + i)
        path = self.directory() / "a.html"
        self.spanprof("convert", request.write(path.with_suffix(".json")), "-o", path)
        self.show(path)
        for title in ("constructor", "__proto__"):
            self.tab(title)
            self.assertEqual(len(self.table()), 1)
        for title in ("Processes", "Threads", "Operations", "Stack ends", "Functions"):
            self.tab(title)
            self.assertGreaterEqual(len(self.table()), len(HOSTILE))
        self.group("Operation")
        self.window.run("document.querySelector('#flame').focus()")
        for _ in range(3):
            self.window.key("\ue015", "\ue007")
        self.assertIsNone(self.window.run("return window.harmed || null"))
        self.assertEqual(
            self.window.run(
                "return [document.querySelectorAll('script').length, document.querySelectorAll('img').length]"
            ), [1, 0])
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
