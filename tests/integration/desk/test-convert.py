#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof convert`: recordings by each JDK that is here (made here), by async-profiler and by Datadog's
profiler (tests/data, make-recordings.sh). What must come out is told by the JDK's own `jfr summary` and `jfr
print`, stack by stack (jfr_oracle.py), and for spans by the program that was recorded."""
import collections
import contextlib
import gzip
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zlib

import fault_server
import jdks
import oracle
import tap
import wire
from jfr_oracle import any_value, converted, differences, printed, read_samples, seconds

DATA = tap.SOURCE_DIR / "tests/data"
MAKE_JFR = tap.HARNESS / "make-jfr"
SECRET = "hunter2-do-not-tell"
# group of events → the type of their profile when they are the first that measure it, and when not
WAYS = [({"jdk.CPUTimeSample"}, "samples", "cpu_time_samples"),
        ({"jdk.ExecutionSample"}, "samples", "execution_samples"),
        ({"profiler.WallClockSample"}, "wall", "wall_clock_samples"),
        ({"jdk.NativeMethodSample"}, "wall", "native_method_samples"),
        ({"jdk.ObjectAllocationInNewTLAB", "jdk.ObjectAllocationOutsideTLAB"}, "alloc_space", "tlab_space"),
        ({"jdk.ObjectAllocationSample"}, "alloc_space", "sampled_alloc_space")]
# name → type → number of events, by `jfr summary`
RECORDINGS = json.loads((DATA / "events.json").read_text())


class Convert(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        """Who sends where nobody listens tries for half a minute: that begins here, beside the other cases."""
        folder, silent = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-")), socket.socket()
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.addClassCleanup(silent.close)
        silent.bind(("127.0.0.1", 0))
        path = folder / "unheard.jfr"
        path.write_bytes(gzip.decompress((DATA / "datadog.jfr.gz").read_bytes()))
        cls.unheard = tap.Child([tap.SPANPROF, "convert", path, "--endpoint",
                                 f"http://127.0.0.1:{silent.getsockname()[1]}"])
        cls.addClassCleanup(cls.unheard.kill)

    def setUp(self):
        self.dir = self.directory()

    def convert(self, *args, expect=0):
        """The output as JSON, and what was said."""
        out = self.dir / "out.json"
        done = self.spanprof("convert", *args, "-o", out, "--log-level", "debug", expect=expect)
        return json.loads(out.read_text()), done.stderr

    def unpacked(self, name):
        path = self.dir / f"{name}.jfr"
        path.write_bytes(gzip.decompress((DATA / f"{name}.jfr.gz").read_bytes()))
        return path

    def check_counts(self, said, summary):
        """Each event that `jfr summary` knows was read; read = converted + the reasons why not."""
        rows = {
            m[1]: [int(n) for n in m[2].split()]
            for m in re.finditer(r"^([\w.$]+) +((?: *\d+){5})$", said, re.M)
        }
        for event, n in summary.items():
            if event in ("jdk.Metadata", "jdk.CheckPoint", "jdk.Checkpoint"):
                continue
            read, made, late, failed, other = rows[event]
            self.assertEqual(read, n, event)
            self.assertEqual(read, made + late + failed + other, event)
            self.assertEqual((late, failed), (0, 0), event)
        return rows

    def check_sums(self, document, path, jfr="jfr"):
        theirs = printed(path, jfr)
        self.assertEqual(list(differences(converted(read_samples(document)), theirs)), [])
        return {key.event for key in theirs}

    def profiles(self, document):
        """type → (sum of its values, period)"""
        strings, sums = document["dictionary"]["stringTable"], collections.Counter()
        for s in read_samples(document):
            sums[s.type] += s.value
        return {
            type_: (sums[type_], int(p.get("period", 0))) for r in document["resourceProfiles"]
            for p in r["scopeProfiles"][0]["profiles"]
            for type_ in [strings[p["sampleType"]["typeStrindex"]]]
        }

    def check_ways(self, document, path, jfr="jfr"):
        """No total holds two measurements of the same."""
        theirs, expected = collections.Counter(), {}
        for key, (_, value) in printed(path, jfr).items():
            theirs[key.event] += value
        for events, usual, own in WAYS:
            if n := sum(theirs[event] for event in events):
                expected[own if usual in expected else usual] = n
        found = {
            type_: n for type_, (n, _) in self.profiles(document).items()
            if type_ in expected or any(type_ in way for way in WAYS)
        }
        self.assertEqual(found, expected)

    def record(self, jdk, version):
        """A recording by the JDK in that directory, of a program whose command line and environment hold a secret."""
        path, classes = self.dir / f"jdk-{version}.jfr", self.dir / f"classes-{version}"
        self.run_command([jdk / "javac", *jdks.BRIEF, "-d", classes, DATA / "Work.java"], expect=0)
        settings = "settings=profile,jdk.ObjectAllocationInNewTLAB#enabled=true,jdk.ObjectAllocationOutsideTLAB#enabled=true"
        if version >= 25:
            settings += ",jdk.CPUTimeSample#enabled=true,jdk.CPUTimeSample#throttle=7ms"
        self.run_command([
            jdk / "java", f"-XX:StartFlightRecording=filename={path},{settings}", f"-Dpassword={SECRET}",
            "-cp", classes, "Work", "2", SECRET
        ], expect=0, env={**os.environ, "DB_PASSWORD": SECRET})
        return path

    def check_recording(self, jdk, version):
        path = self.record(jdk, version)
        document, said = self.convert(path)
        summary = dict(
            re.findall(r"^ ([\w.]+) +(\d+) +\d+$",
                       self.run_command([jdk / "jfr", "summary", path]).stdout, re.M))
        self.check_counts(said, {k: int(n) for k, n in summary.items() if int(n)})
        events = self.check_sums(document, path, jdk / "jfr")
        self.assertIn("jdk.ThreadSleep", events)        # of 25 ms, as Work.locked() does
        self.check_ways(document, path, jdk / "jfr")
        periods = {type_: period for type_, (_, period) in self.profiles(document).items()}
        if version >= 25:
            done = self.run_command([jdk / "jfr", "print", "--json", "--events", "CPUTimeSample", path],
                                    expect=0)
            told = [
                seconds(event["values"]["samplingPeriod"])
                for event in json.loads(done.stdout)["recording"]["events"]
            ]
            # the JVM begins with 10 ms
            self.assertLessEqual(abs(periods["samples"] - sum(told) / len(told)), 1000)
            lost = re.findall(
                "lostSamples = ([0-9]+)",
                self.run_command([jdk / "jfr", "print", "--events", "CPUTimeSamplesLost", path]).stdout)
            self.assertEqual(re.findall(r"the JVM lost (\d+) samples of the CPU's time", said),
                             [str(sum(map(int, lost)))] if lost else [])
            self.assertIn(
                "has samples and execution_samples, alloc_space and sampled_alloc_space: each two measurements of the same",
                said)
        # by the JDK's profile.jfc
        self.assertEqual(periods["execution_samples" if version >= 25 else "samples"], 10_000_000)
        self.assertLessEqual(
            {"jdk.JavaMonitorEnter", "jdk.ObjectAllocationSample", "jdk.ObjectAllocationInNewTLAB"}, events)
        cpu = "jdk.CPUTimeSample" if version >= 25 else "jdk.ExecutionSample"
        self.assertTrue(
            any(s.event == cpu and ("Work.fib" in [f[0] for f in s.frames]) for s in read_samples(document)))

        # secrets: in the recording, never in what is made of it
        self.assertIn(SECRET.encode(), path.read_bytes())
        self.assertNotIn(SECRET, json.dumps(document) + said)
        asked, _ = self.convert(path, "--include-arguments")
        self.assertIn(f"-Dpassword={SECRET}", json.dumps(asked["resourceProfiles"][0]["resource"]))
        self.assertNotIn("DB_PASSWORD", json.dumps(asked))
        self.check_payload(path, jdk)

    def check_payload(self, path, jdk):
        """The recording as it is, of which the JDK prints the same; only not what the environment holds."""
        for options, told in (((), False), (("--include-arguments",), True)):
            self.spanprof("convert", path, "-o", self.dir / "p.pb", "--include-payload", *options)
            request = wire.parse((self.dir / "p.pb").read_bytes())
            payloads = [
                p[10][0] for r in request[1] for s in wire.parse(r)[2]
                for p in map(wire.parse,
                             wire.parse(s)[2]) if p[10]
            ]
            self.assertEqual([len(p) for p in payloads], [path.stat().st_size])
            # two arguments: the JVM's and the program's
            for secret in (f"-Dpassword={SECRET}".encode(), f" {SECRET}".encode()):
                self.assertIn(secret, path.read_bytes())
                self.assertEqual(secret in payloads[0], told, secret)
            masked = self.dir / "masked.jfr"
            masked.write_bytes(payloads[0])
            self.assertEqual(printed(masked, jdk / "jfr"), printed(path, jdk / "jfr"))
            done = self.run_command([
                jdk / "jfr", "print", "--events",
                "InitialEnvironmentVariable,InitialSystemProperty,SystemProcess", masked
            ], expect=0)
            texts = re.findall(r"^  (?:key|value|commandLine) = (.+)$", done.stdout, re.M)
            self.assertGreater(len(texts), 10)
            self.assertEqual({text.strip('"*') for text in texts} - {"N/A"}, {""})

    def test_sums_what_each_jdk_prints_of_its_own_recording(self):
        """The newest of those on the path and where Debian's packages are; the long form takes all of them."""
        found = {}
        for java in (pathlib.Path(tap.need_tool("java")).resolve(),
                     *pathlib.Path("/usr/lib/jvm").glob("*/bin/java")):
            jdk = java.parent
            version = re.search(r'version "(\d+)', self.run_command([java, "-version"]).stderr)
            if version and (jdk / "javac").exists() and (jdk / "jfr").exists():
                found.setdefault(int(version[1]), jdk)
        self.assertTrue(found, "tool: a JDK with javac and jfr")
        for version, jdk in sorted(found.items())[0 if tap.LONG else -1:]:
            self.check_recording(jdk, version)

    def test_sums_what_the_jdk_prints_of_async_profiler(self):
        """cpu, wall, alloc, lock; live objects and native memory; mixed with the JDK's own chunks (jfrsync)."""
        tap.need_tool("jfr")
        events = {}
        for name in ("async-profiler", "kinds", "sync"):
            path = self.unpacked(name)
            document, said = self.convert(path)
            self.check_counts(said, RECORDINGS.get(name, {}))
            events[name] = self.check_sums(document, path)
            self.check_ways(document, path)
        self.assertEqual(
            events["async-profiler"], {
                "jdk.ExecutionSample", "profiler.WallClockSample", "jdk.ObjectAllocationInNewTLAB",
                "jdk.JavaMonitorEnter"
            })
        self.assertLessEqual({"profiler.LiveObject", "profiler.Malloc"}, events["kinds"])
        self.assertIn("jdk.ExecutionSample", events["sync"])

    def test_tells_what_async_profiler_took_samples_at(self):
        """Of the wall clock by their state, page faults by its settings; intervals of 10 and 40 ms in one
        profile become their mean.
        The JDK's reader takes the types of the first chunk for those of all, so it gets one at a time."""
        tap.need_tool("jfr")
        path, chunk = self.unpacked("ways"), self.dir / "chunk.jfr"
        document, _ = self.convert(path)
        data, offset, events, states = path.read_bytes(), 0, set(), collections.Counter()
        while offset < len(data):
            size = int.from_bytes(data[offset + 8:offset + 16], "big")
            chunk.write_bytes(data[offset:offset + size])
            offset += size
            events |= self.check_sums(self.convert(chunk)[0], chunk)
            done = self.run_command(["jfr", "print", "--json", chunk], expect=0)
            states.update(event["values"]["state"] for event in json.loads(done.stdout)["recording"]["events"]
                          if event["type"] == "jdk.ExecutionSample")
        self.assertEqual(events, {"jdk.ExecutionSample", "profiler.NativeLock"})
        profiles = self.profiles(document)
        self.assertEqual(profiles["wall"], (states["STATE_RUNNABLE"] + states["STATE_SLEEPING"], 100_000_000))
        n_cpu, n_faults = profiles["samples"][0], profiles["page-faults"][0]
        self.assertEqual(n_cpu + n_faults, states["STATE_DEFAULT"])
        self.assertEqual(profiles["page-faults"], (331, 100))
        self.assertEqual(profiles["samples"], (38, round((33 * 10_000_000 + 5 * 40_000_000) / 38)))
        self.assertEqual({s.attributes["profile.type"] for s in read_samples(document)},
                         {"cpu", "wall", "page-faults", "lock-contention"})

    def test_keeps_kinds_of_frames_and_periods_of_async_profiler(self):
        document, _ = self.convert(self.unpacked("async-profiler"))
        kinds = {f[2].get("profile.frame.type") for s in read_samples(document) for f in s.frames}
        self.assertLessEqual({"jvm", "native"}, kinds)
        strings = document["dictionary"]["stringTable"]
        periods = {strings[p["sampleType"]["typeStrindex"]]: int(p.get("period", 0))
                   for s in document["resourceProfiles"][0]["scopeProfiles"] for p in s["profiles"]}
        self.assertEqual(periods["samples"], 5_000_000)

    def test_takes_the_spans_and_attributes_of_datadogs_profiler(self):
        path = self.unpacked("datadog")
        document, said = self.convert(path)
        self.check_counts(said, RECORDINGS["datadog"])
        samples = list(read_samples(document))
        # span i is 0x1000 + i % 4 with the local root 0x77 + i % 2
        links = {(s.trace, s.span) for s in samples if s.span}
        self.assertEqual(links, {(f"{0x77 + i % 2:032x}", f"{0x1000 + i % 4:016x}") for i in range(1, 5)})
        with_span = [s for s in samples if s.span]
        self.assertEqual({(s.trace, s.attributes["datadog.local_root_span_id"]) for s in with_span},
                         {(f"{i:032x}", f"{i:016x}") for i in (0x77, 0x78)})
        self.assertFalse([s for s in samples if "trace.id.source" in s.attributes], "one way alone")
        self.assertEqual({s.attributes["endpoint"] for s in with_span if "endpoint" in s.attributes},
                         {"/ep0", "/ep1", "/ep2"})
        self.assertEqual({s.attributes["tier"] for s in with_span if "tier" in s.attributes}, {"gold"})
        work = [
            s for s in samples
            if s.event == "datadog.ExecutionSample" and "Spans.fib" in [f[0] for f in s.frames]
        ]
        self.assertGreater(sum(s.value for s in work if s.span), 0.9 * sum(s.value for s in work))
        self.assertEqual({s.attributes["profile.type"] for s in samples}, {"cpu", "wall", "alloc-samples"})

    def test_leaves_remote_frames_to_build_id_and_address(self):
        """Each frame that the JDK's reader prints as `<remote>` has its library's mapping, and no name."""
        tap.need_tool("jfr")
        path = self.unpacked("remote")
        document, said = self.convert(path)
        self.check_counts(said, RECORDINGS["remote"])

        def events(kind):
            done = self.run_command(
                ["jfr", "print", "--json", "--stack-depth", "2048", "--events", kind, path], expect=0)
            return [event["values"] for event in json.loads(done.stdout)["recording"]["events"]]

        theirs = collections.Counter()
        for event in events("datadog.ExecutionSample"):
            for method in (frame["method"] for frame in event["stackTrace"]["frames"]):
                if method["name"] == "<remote>":
                    theirs[method["type"]["name"], int(method["descriptor"], 16)] += 1
        self.assertGreater(len(theirs), 10)
        paths = {event["buildId"]: event["name"] for event in events("jdk.NativeLibrary") if event["buildId"]}
        d = document["dictionary"]
        strings, ours = d["stringTable"], collections.Counter()
        for profile in (p for r in document["resourceProfiles"] for s in r["scopeProfiles"]
                        for p in s["profiles"]):
            for sample in profile["samples"]:
                for index in d["stackTable"][sample.get("stackIndex", 0)].get("locationIndices", []):
                    location = d["locationTable"][index]
                    if not location.get("mappingIndex"):
                        continue
                    mapping = d["mappingTable"][location["mappingIndex"]]
                    attributes = {strings[a["keyStrindex"]]: a["value"]["stringValue"]
                                  for a in (d["attributeTable"][i] for i in mapping["attributeIndices"])}
                    build_id = attributes["process.executable.build_id.gnu"]
                    self.assertEqual(strings[mapping["filenameStrindex"]], paths[build_id])
                    self.assertEqual(location.get("lines", []), [])
                    ours[build_id, int(location["address"])] += len(sample["timestampsUnixNano"])
        self.assertEqual(ours, theirs)

    def test_writes_what_others_read(self):
        inputs = [self.unpacked("async-profiler"), self.unpacked("datadog")]
        outputs = [self.dir / "all.pb", self.dir / "all.json", self.dir / "all.otlp"]
        for output in outputs:
            self.spanprof("convert", *inputs, "-o", output)
        self.assertEqual(oracle.check(outputs, ours=False), [])
        self.assertEqual(
            [line for line in oracle.validate(outputs) if not line.endswith(": valid, 0 errors, 0 warnings")],
            [])
        document = json.loads(outputs[1].read_text())
        self.assertEqual(len(document["resourceProfiles"]), 2, "one resource for each process")
        # and its own output again
        again = self.dir / "again.json"
        self.spanprof("convert", outputs[0], "-o", again)
        total = collections.Counter()
        for s in read_samples(document):
            total[s.type, s.unit] += s.value
        for s in read_samples(json.loads(again.read_text())):
            total[s.type, s.unit] -= s.value
        self.assertEqual(set(total.values()), {0})

    def test_makes_valid_requests_of_folded_stacks_though_those_say_no_time(self):
        stacks, out = self.dir / "plain.folded", self.dir / "plain.json"
        stacks.write_text("main;work 3\nmain 4\n")
        os.utime(stacks, ns=(1, 1700000000123456789))
        pipe, writer = os.pipe()
        os.write(writer, stacks.read_bytes())
        os.close(writer)
        self.addCleanup(os.close, pipe)
        for source, stdin in ((stacks, subprocess.DEVNULL), ("-", pipe)):
            with self.subTest(source=source):
                before = time.time_ns()
                self.spanprof("convert", source, "-o", out, stdin=stdin)
                self.spanprof("validate", out)
                document = json.loads(out.read_text())
                profile = document["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]
                strings = document["dictionary"]["stringTable"]
                self.assertEqual([strings[profile["periodType"][i]] for i in ("typeStrindex", "unitStrindex")],
                                 ["samples", "count"])
                begin = int(profile["timeUnixNano"])
                if source == stacks:
                    self.assertEqual(begin, 1700000000123456789)
                else:
                    self.assertLessEqual(before, begin)
                    self.assertLessEqual(begin, time.time_ns())

    def test_reads_folded_stacks_as_other_tools_write_them(self):
        """By what flamegraph.pl reads of them; numbers above 64 bits it has as floating point."""
        largest = 2**63 - 1
        for name, text, expected, words, status in (
            ("tab", "main;a\t3\nmain;b \t 4\n", {"main;a": 3, "main;b": 4}, "", 0),
            ("fractions", "main;a 1.5\nmain;b 2.5\n", {"main;a": 2, "main;b": 2}, "2 numbers are not whole", 0),
            ("small", "m;a .25\n" * 8, {"m;a": 2}, "8 numbers are not whole", 0),
            ("exponent", "m;a 1e3\nm;b 25E-1\n", {"m;a": 1000, "m;b": 3}, "2 numbers are not whole", 0),
            ("first", "WARNING: 72 traces lost\nmain;a 3\nmain;b 4\n", {"main;a": 3, "main;b": 4},
             "1 lines have no stack and number and were left out, line 1 first", 1),
            ("later", "main;a 3\nno number\nm;x 7y\n", {"main;a": 3}, "2 lines have no .*, line 2 first", 1),
            ("mark", "\ufeffmain;a 3\n", {"main;a": 3}, "", 0),
            ("comment", "\ufeff# made by x\n\nmain;a 3\n", {"main;a": 3}, "", 0),
            ("kernel", "main;sys_read_[k] 3\nmain;a_[j] 2\n", {"main;sys_read_[k]": 3, "main;a_[j]": 2}, "", 0),
            ("blanks", "Thread 1;f (a b.py:12) 3  \r\n", {"Thread 1;f (a b.py:12)": 3}, "", 0),
            ("64 bits", f"m;a {largest}\nm;b 9999999999999\n", {"m;a": largest, "m;b": 9999999999999}, "", 0),
            ("beyond", f"m;a {2**64 - 1}\nm;b 1e30\n", {"m;a": largest, "m;b": largest},
             r"2 numbers are above 2\^63 - 1", 0),
        ):
            with self.subTest(name):
                path = self.dir / f"{name}.folded"
                path.write_text(text)
                done = self.spanprof("convert", path, "-o", "-", "--format", "folded", expect=status)
                read = [line.rpartition(" ") for line in done.stdout.splitlines()]
                self.assertEqual({stack: int(number) for stack, _, number in read}, expected)
                if words:
                    self.assertRegex(done.stderr, words)
                else:
                    self.assertNotRegex(done.stderr, "numbers|lines")

    def test_reads_what_perf_script_prints_as_perf_itself_counts_it(self):
        perf = tap.need_tool("perf")
        data = self.dir / "perf.data"
        for events in (["-e", "cpu-clock", "-g"], ["-e", "cpu-clock"]):
            self.run_command([perf, "record", "-q", *events, "-F", "499", "-o", data, sys.executable, "-c",
                              "sum(i * i for i in range(8000000))"], expect=0)
            counted = self.run_command([perf, "report", "-i", data, "--no-children", "--stdio", "-g", "none",
                                        "-F", "period,sym"], expect=0).stdout
            expected = {name: int(number) for number, name in re.findall(r"(?m)^ +(\d+) +\[.\] (.+?) *$", counted)
                        if not name.startswith("0x")}
            for fields in ("comm,tid,time,period,event,ip,sym,symoff,dso", "comm,pid,tid,time,period,event,ip,sym,dso"):
                text = self.dir / "perf.txt"
                text.write_text(self.run_command([perf, "script", "-i", data, "-F", fields], expect=0).stdout)
                done = self.spanprof("convert", text, "-o", "-", "--format", "folded")
                found = collections.Counter()
                for line in done.stdout.splitlines():
                    stack, _, number = line.rpartition(" ")
                    found[stack.rpartition(";")[2]] += int(number)
                named = {name: number for name, number in found.items() if not re.fullmatch(r"\[.*\]", name)}
                self.assertGreater(sum(expected.values()), 1e8)
                self.assertEqual(named, expected)

    def test_reads_perf_script_in_its_rare_forms(self):
        """Names with blanks, numbers and brackets; deleted files, inlined functions, lines, tracepoints."""
        frame = "\t    15c1a hash+0x5 (/usr/bin/shop)\n"
        for name, text, stacks, words in (
            ("blanks", f"GC Thread#1 7/9 [001] 5.25:  3 cycles:u: \n{frame}", {"hash": 3}, None),
            ("number", f"worker 12 9 [001] 5.25:  3 cycles: \n{frame}", {"hash": 3}, None),
            ("no time", f"a 9 4 task:\n{frame}", {"hash": 4}, None),
            ("no period", f"a 9 5.2: cycles:\n{frame}\na 9 5.3: cycles:\n{frame}", {"hash": 2}, None),
            ("cxx", "a 9 5.2: 2 cycles:\n\t1 f(int (*)(char), x)::operator()(int) const+0x1 (/a (b) (deleted))\n",
             {"f(int (*)(char), x)::operator()(int) const": 2}, None),
            ("inlined", f"a 9 5.2: 2 cycles:\n\t15c1a mix (inlined)\n{frame}", {"hash;mix": 2}, None),
            ("lines", f"a 9 5.2: 2 cycles:\n{frame}  table.c:74\n", {"hash": 2}, None),
            ("unnamed", "a 9 5.2: 2 cycles:\n\t1 [unknown] (/lib/libc.so.6)\n\t0 [unknown] ([unknown])\n",
             {"[unknown];[libc.so.6]": 2}, None),
            ("tracepoint", f"a 9 [000] 5.2: sched:sched_switch: prev_comm=a prev_pid=9 ==> next_comm=b\n{frame}",
             {"hash": 1}, None),
            ("bad", f"a 9 5.2: 2 cycles:\n{frame}what is this\n\na 9 5.3: 2 cycles:\n{frame}", {"hash": 4},
             "1 lines are neither a sample nor a frame of perf script, and were left out, line 3 first"),
            ("beyond", f"a 9 5.2: {2**64} cycles:\n{frame}", {"hash": 2**63 - 1}, r"1 periods are above 2\^63 - 1"),
            ("deep", "a 9 5.2: 2 cycles:\n" + frame * 5000, {";".join(["hash"] * 4096): 2},
             "1 stacks have more than 4,096 frames"),
            ("flat", "               a 9 5.2:  250 cycles:  ffffffff82231a69 mas_leaf+0x109 ([kernel.kallsyms])\n" * 2,
             {"mas_leaf": 500}, None),
            ("header", f"# hostname : x\n# cmdline : perf record\n#\na 9 5.2: 2 cycles:\n{frame}", {"hash": 2}, None),
        ):
            with self.subTest(name):
                path = self.dir / "perf.txt"
                path.write_text(text)
                done = self.spanprof("convert", path, "-o", "-", "--format", "folded", expect=int(name == "bad"))
                read = [line.rpartition(" ") for line in done.stdout.splitlines()]
                self.assertEqual({stack: int(number) for stack, _, number in read}, stacks)
                said = "".join(re.findall("perf.txt: .*", done.stderr))
                self.assertRegex(said, words or "^$")
        path.write_text(f"a b 7/9 [001] 5.25:  3 cycles:u: \n{frame}  table.c:74\n")
        written = self.spanprof("convert", path, "-o", "-", "--format", "json").stdout
        for part in ('"thread.name"', '"a b"', '"thread.id"', '"process.pid"', '"cycles"', '"table.c"', '"line":"74"'):
            self.assertIn(part, written)

    def pprof(self, *samples, drop=0):
        """A profile.proto of space/bytes; samples are (depth, value, number of labels)."""
        strings = ["", "space", "bytes", "main", "work", "work|malloc", "(?i)WORK",
                   *(f"key{i}" for i in range(200))]
        labels = [wire.field(3, wire.field(1, 7 + i) + wire.field(2, 3)) for i in range(200)]
        rows = [
            wire.field(2, wire.packed(1, [1] * (depth - 1) + [2]) + wire.packed(2, [value])
                       + b"".join(labels[:n]))
            for depth, value, n in samples
        ]
        locations = [wire.field(1, i) + wire.field(4, wire.field(1, i)) for i in (1, 2)]
        functions = [wire.field(1, 1) + wire.field(2, 4), wire.field(1, 2) + wire.field(2, 3)]
        path = self.dir / "made.pb"
        path.write_bytes(wire.field(1, wire.field(1, 1) + wire.field(2, 2)) + b"".join(rows)
                         + wire.field(4, *locations) + wire.field(5, *functions) + wire.field(6, *strings)
                         + (wire.field(7, drop) if drop else b"") + wire.field(9, 17 * 10**17))
        return path

    def test_tells_what_a_profile_here_has_no_place_for(self):
        """Values below zero, drop_frames, and what is over a cap: each is counted, and the rest is right."""
        for name, samples, drop, stacks, words, status in (
            ("all right", [(2, 70, 1)], 0, "main;work 70\n", None, 0),
            ("difference", [(2, 70, 0), (1, -30, 0), (2, -5, 0)], 0, "main;work 70\n",
             "2 values are below zero", 0),
            ("hidden", [(2, 70, 0)], 5, "main 70\n", None, 0),
            ("hidden by an expression of Go's own", [(2, 70, 0)], 6, "main;work 70\n", "its drop_frames are not applied",
             0),
            ("labels", [(2, 70, 200)], 0, "main;work 70\n", r"\d+ labels are left out", 0),
            ("deep", [(2, 70, 0), (1 << 20, 5, 0)], 0, "main;work 70\n", "1 of its samples have more than", 1),
        ):
            with self.subTest(name):
                done = self.spanprof("convert", self.pprof(*samples, drop=drop), "-o", "-", "--format", "folded",
                                     expect=status)
                self.assertEqual(done.stdout, stacks)
                said = re.findall("made.pb: .*", done.stderr)
                self.assertEqual(len(said), words is not None, said)
                self.assertRegex("".join(said), words or "^$")

    def test_keeps_values_below_zero_where_the_form_has_a_place_for_them(self):
        """A difference of two profiles, as `go tool pprof -diff_base` writes it: to OTLP, and through pprof."""
        path = self.pprof((2, 70, 0), (1, -30, 0), (2, -5, 0))

        def values(source):
            done = self.spanprof("convert", source, "-o", "-", "--format", "json")
            self.assertNotIn("below zero", done.stderr)
            return sorted(int(value) for resource in json.loads(done.stdout)["resourceProfiles"]
                          for scope in resource["scopeProfiles"] for profile in scope["profiles"]
                          for sample in profile["samples"] for value in sample["values"])

        self.assertEqual(values(path), [-30, 65])
        again = self.dir / "again.pb.gz"
        self.assertNotIn("below zero", self.spanprof("convert", path, "-o", again).stderr)
        self.assertEqual(values(again), [-30, 65])
        written = self.dir / "again.json"
        self.spanprof("convert", path, "-o", written)
        folded = self.spanprof("convert", written, "-o", "-", "--format", "folded")
        self.assertEqual(folded.stdout, "main;work 65\n")
        self.assertIn("1 samples are below zero", folded.stderr)
        self.assertIn("1 samples are below zero", self.spanprof("report", written).stderr)

    def hiding(self, drop, keep, functions, locations, samples):
        """A pprof file. @functions: names; @locations: lists of them, innermost first; @samples: lists of these."""
        strings = ["", "space", "bytes", drop, keep, *functions]
        ids = {name: i + 1 for i, name in enumerate(functions)}
        places = [wire.field(1, i + 1) + wire.field(4, *(wire.field(1, ids[name]) for name in lines))
                  for i, lines in enumerate(locations)]
        rows = [wire.packed(1, [i + 1 for i in stack]) + wire.packed(2, [1 << n])
                for n, stack in enumerate(samples)]
        path = self.dir / "hiding.pb"
        path.write_bytes(wire.field(1, wire.field(1, 1) + wire.field(2, 2)) + wire.field(2, *rows)
                         + wire.field(4, *places)
                         + wire.field(5, *(wire.field(1, i) + wire.field(2, i + 4) for i in ids.values()))
                         + wire.field(6, *strings) + wire.field(7, 3) + (wire.field(8, 4) if keep else b"")
                         + wire.field(9, 17 * 10**17))
        return path

    def test_hides_the_frames_that_go_tool_pprof_hides(self):
        """By Go's own, too, where it is installed: its library for profiles is where drop_frames is defined."""
        functions = ["main", "shop::order(int)", "tcmalloc::Alloc(std::string (*)(int))", "operator new(unsigned long)",
                     "memcpy", ".malloc", "(anonymous namespace)::grow()", "tcmalloc::Kept"]
        locations = [["main"], ["shop::order(int)"], ["tcmalloc::Alloc(std::string (*)(int))"],
                     ["operator new(unsigned long)"], ["memcpy"], ["memcpy", ".malloc", "shop::order(int)"],
                     ["memcpy", "operator new(unsigned long)"], ["(anonymous namespace)::grow()"], ["tcmalloc::Kept"]]
        samples = [[4, 2, 3, 1, 0],             # the outermost hidden one takes all below it along
                   [4, 1, 0],                   # none is hidden
                   [4, 2],                      # nothing is shown above: it stays
                   [4, 1, 3],                   # the same
                   [4, 5, 0],                   # hidden ones are inlined into one that is not
                   [4, 6, 0],                   # one is inlined into a hidden one
                   [4, 7, 0],
                   [4, 8, 2, 0],
                   [4, 8, 0]]                   # kept
        drop = r"(?:\.?malloc|operator new|tcmalloc::.*?|\(anonymous namespace\)::grow)"
        path = self.hiding(drop, "tcmalloc::Kept", functions, locations, samples)
        done = self.spanprof("convert", path, "-o", "-", "--format", "folded", expect=0)
        lines = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
        sums = {tuple(stack.split(";")): int(n) for stack, n in lines}
        alloc, order = functions[2], functions[1]
        self.assertEqual(sums, {
            ("main", order): 1 + 16, ("main", order, "memcpy"): 2, (alloc, "memcpy"): 4,
            (functions[3], order, "memcpy"): 8, ("main",): 32 + 64 + 128, ("main", "tcmalloc::Kept", "memcpy"): 256})
        if shutil.which("go"):
            self.assertEqual(sums, self.sums_by_go(path))

    def sums_by_go(self, path):
        env = {**os.environ, "PPROF_TMPDIR": str(self.dir)}
        raw = self.run_command(["go", "tool", "pprof", "-raw", "-symbolize=none", path], expect=0, env=env).stdout
        samples, locations = re.search(r"Samples:\n.*\n((?:.*\n)*?)Locations\n((?:.*\n)*?)Mappings", raw).groups()
        names, sums = collections.defaultdict(list), collections.Counter()
        for number, name in re.findall(r"^ +(?:(\d+): 0x\w+ )?(?:M=\d+ )?(\S.*?) :\d+:\d+ s=\d+", locations, re.M):
            place = int(number) if number else place
            names[place].append(name)
        for value, places in re.findall(r"^ +(\d+): ([\d ]*)$", samples, re.M):
            stack = [name for place in map(int, places.split()) for name in names[place]]
            sums[tuple(reversed(stack))] += int(value)
        return sums

    def test_takes_no_other_text_for_folded_stacks(self):
        for text in ("hello\nworld 5\n", '{"a;b 5": 1}\n', "[1,\n 5]\n", "<p>\na;b 5\n", "x\n" * 100 + "a;b 5\n",
                     "a\x00;b 5\nc;d 7\n"):
            with self.subTest(text[:20]):
                path = self.dir / "other"
                path.write_text(text)
                self.assertIn("other: ", self.spanprof("convert", path, "-o", "-", "--format", "folded",
                                                       expect=1).stderr)

    def test_writes_folded_stacks_and_pprof_with_the_same_sums(self):
        path = self.unpacked("async-profiler")
        document, _ = self.convert(path)
        sums, stacks = collections.Counter(), collections.Counter()
        for s in read_samples(document):
            sums[s.type] += s.value
            if s.type == "samples":
                stacks[";".join(f[0] for f in reversed(s.frames))] += s.value
        done = self.spanprof("convert", path, "-o", "-", "--format", "folded")
        lines = collections.Counter()
        # the same names at other lines are others
        for stack, n in (line.rsplit(" ", 1) for line in done.stdout.splitlines()):
            lines[stack] += int(n)
        self.assertEqual(lines, stacks)
        self.assertIn("only samples in count", done.stderr)

        self.spanprof("convert", path, "-o", self.dir / "a.pb.gz")
        profile = wire.parse(gzip.decompress((self.dir / "a.pb.gz").read_bytes()))
        strings = [s.decode() for s in profile[6]]
        types = [strings[wire.parse(t)[1][0]] for t in profile[1]]
        # what tools show first: the time of CPUs, though the clock has more samples
        self.assertGreater(sums["wall"], sums["samples"])
        self.assertEqual(types, ["samples", "wall", "lock_contention", "alloc_space", "cpu"])
        self.assertEqual(strings[profile[14][0]], "cpu")
        made = collections.Counter()
        for sample in map(wire.parse, profile[2]):
            for type_, value in zip(types, wire.unpack(sample[2][0]), strict=True):
                made[type_] += value
        # samples have their time beside them, as Go's profiles have
        periods = {int(p["period"])
                   for r in document["resourceProfiles"] for scope in r["scopeProfiles"]
                   for p in scope["profiles"]
                   if document["dictionary"]["stringTable"][p["sampleType"]["typeStrindex"]] == "samples"}
        self.assertEqual(made, sums | {"cpu": sums["samples"] * periods.pop()})
        names = {strings[wire.parse(f)[2][0]] for f in profile[5]}
        self.assertIn("Work.fib", names)

    def test_reads_pipes_and_packed_files_as_it_reads_files(self):
        path = self.unpacked("datadog")
        plain = self.spanprof("convert", path, "-o", "-", "--format", "folded").stdout
        self.assertEqual(
            self.spanprof("convert", DATA / "datadog.jfr.gz", "-o", "-", "--format", "folded").stdout, plain)
        with path.open("rb") as stdin:
            self.assertEqual(
                self.spanprof("convert", "-", "-o", "-", "--format", "folded", stdin=stdin).stdout, plain)
        for tool, suffix in (("zstd", "zst"), ("lz4", "lz4")):
            if subprocess.run(["sh", "-c", f"command -v {tool}"], capture_output=True).returncode == 0:
                self.run_command(["sh", "-c", f"{tool} -q -c {path} > {path}.{suffix}"], expect=0)
                self.assertEqual(
                    self.spanprof("convert", f"{path}.{suffix}", "-o", "-", "--format", "folded").stdout,
                    plain)

    def test_takes_only_events_between_start_and_end(self):
        path = self.unpacked("datadog")
        everything, _ = self.convert(path)
        times = sorted(int(t) for s in read_samples(everything) for t in s.times)
        start, end = times[len(times) // 4], times[len(times) // 2]
        part, _ = self.convert(path, "--start", f"{start // 10**9}.{start % 10**9:09}", "--end",
                               f"{end // 10**9}.{end % 10**9:09}")
        found = sorted(int(t) for s in read_samples(part) for t in s.times)
        self.assertEqual(found, [t for t in times if start <= t < end])
        first, _ = self.convert(path, "--end", "+500s")
        self.assertEqual(sorted(int(t) for s in read_samples(first) for t in s.times), times)
        self.assertIn(
            "is no time",
            self.spanprof("convert", path, "-o", "-", "--format", "json", "--start", "noon", expect=2).stderr)

    def test_adds_what_was_asked_for(self):
        path = self.unpacked("datadog")
        document, _ = self.convert(path, "--resource", "service.name=shop,deployment=blue", "--no-timestamps")
        resource = {
            a["key"]: any_value(a["value"]) for a in document["resourceProfiles"][0]["resource"]["attributes"]
        }
        self.assertEqual((resource["service.name"], resource["deployment"]), ("shop", "blue"))
        self.assertEqual({len(s.times) for s in read_samples(document)}, {0})
        self.assertIn("not KEY=VALUE",
                      self.spanprof("convert", path, "-o", "-", "--resource", "x", expect=2).stderr)

        self.spanprof("convert", path, "-o", self.dir / "p.pb", "--include-payload", "--include-arguments")
        request = wire.parse((self.dir / "p.pb").read_bytes())
        profiles = [wire.parse(p) for r in request[1] for s in wire.parse(r)[2] for p in wire.parse(s)[2]]
        self.assertEqual([p[9] for p in profiles if p[9]], [[b"jfr"]])
        # as it was, but for the system's properties
        (payload,), = [p[10] for p in profiles if p[10]]
        self.assertEqual(len(payload), path.stat().st_size)
        self.assertTrue(all(b == a or b == ord("*") for a, b in zip(path.read_bytes(), payload)))
        self.assertIn(b"Spans datadog.jfr", payload)
        # two recordings of one process are one resource, and one recording behind the other
        self.spanprof("convert", path, path, "-o", self.dir / "p.pb", "--include-payload",
                      "--include-arguments")
        request = wire.parse((self.dir / "p.pb").read_bytes())
        self.assertEqual(len(request[1]), 1)
        profiles = [wire.parse(p) for s in wire.parse(request[1][0])[2] for p in wire.parse(s)[2]]
        self.assertEqual([p[10] for p in profiles if p[10]], [[2 * payload]])
        # of what is damaged nobody can say where its secrets are
        path.write_bytes(path.read_bytes()[:-100])
        done = self.spanprof("convert", path, "-o", self.dir / "p.pb", "--include-payload", expect=1)
        self.assertRegex(
            done.stderr,
            "is not complete: .*; its payload is left out: there may be secrets in it that could not be found"
        )
        request = wire.parse((self.dir / "p.pb").read_bytes())
        self.assertFalse(
            any(p[10] for s in wire.parse(request[1][0])[2] for p in map(wire.parse,
                                                                         wire.parse(s)[2])))

    def test_stops_what_unpacks_without_end(self):
        """Nothing, packed: gzip in members of 1 MiB, of which each is 1 KiB; the others as they are. In little memory."""
        path = self.dir / "bomb.jfr.gz"
        path.write_bytes(gzip.compress(bytes(1 << 20)) * 2000)
        bombs = [path]
        for tool, suffix in (("zstd", "zst"), ("lz4", "lz4")):
            if subprocess.run(["sh", "-c", f"command -v {tool}"], capture_output=True).returncode == 0:
                bombs.append(self.dir / f"bomb.jfr.{suffix}")
                self.run_command(["sh", "-c", f"head -c 1G /dev/zero | {tool} -q -c > {bombs[-1]}"], expect=0)
        for bomb in bombs:
            done = self.run_command([
                "sh", "-c", 'ulimit -v 300000; exec "$@"', "sh", tap.SPANPROF, "convert", bomb, "-o",
                self.dir / "out.json"
            ], expect=1)
            self.assertIn(f"{bomb.name}: unpacks to more than 250 times its size", done.stderr)
            self.assertFalse((self.dir / "out.json").exists())

    def test_says_how_far_it_is_when_it_takes_long(self):
        """On a terminal, from the first second on. The first input is a pipe that nobody writes into for longer than that."""
        path, pipe = self.unpacked("datadog"), self.dir / "pipe"
        os.mkfifo(pipe)
        for terminal in (True, False):
            ours, theirs = pty.openpty() if terminal else os.pipe()
            child = subprocess.Popen([tap.SPANPROF, "convert", pipe, path, "-o", self.dir / "out.pb"],
                                     stderr=theirs, stdin=subprocess.DEVNULL)
            os.close(theirs)
            with pipe.open("wb") as writer:
                time.sleep(1.3)
                writer.write(path.read_bytes())
            said = b""
            with contextlib.suppress(OSError):                  # a terminal whose other end is closed
                while piece := os.read(ours, 4096):
                    said += piece
            self.assertEqual(child.wait(timeout=tap.PATIENCE), 0)
            os.close(ours)
            if terminal:
                self.assertRegex(said.decode(), r"\r\S+: +\d+ % of 0\.1 MiB\x1b\[K")
                self.assertTrue(said.endswith(b"\r\x1b[K"), said)         # and is gone at the end
            else:
                self.assertEqual(said, b"")

    def test_names_of_a_recording_drive_no_terminal(self):
        path = self.unpacked("async-profiler")
        path.write_bytes(path.read_bytes().replace(b"jdk.CPULoad", b"jdk.\x1b[31mXY").replace(
            b"profiler.Free", b"prof\x07ler\x7fFree"))
        _, said = self.convert(path)
        self.assertIn("jdk.?[31mXY", said)
        self.assertNotIn("\x1b", said)

    def test_names_of_a_recording_forge_no_row(self):
        whole = self.unpacked("async-profiler").read_bytes()
        for name, shown in (("jdk.\nforged", "jdk.?forged"), ("jdk.\u202eLoad", "jdk.?Load")):
            path = self.dir / "named.jfr"
            path.write_bytes(whole.replace(b"jdk.CPULoad", name.encode()))
            self.assertNotEqual(path.read_bytes(), whole)
            _, said = self.convert(path)
            self.assertRegex(said, rf"(?m)^{re.escape(shown)} +\d+ ")
            self.assertNotRegex(said, "(?m)^forged|\u202e")

    def test_ends_at_once_when_it_is_told_to_while_it_sends(self):
        """To whom never answers. What was written beside is whole."""
        path, out = self.unpacked("datadog"), self.dir / "out.json"
        for number in (signal.SIGINT, signal.SIGTERM):
            server = fault_server.Server([fault_server.hang])
            self.addCleanup(server.close)
            child = subprocess.Popen([tap.SPANPROF, "convert", path, "-o", out, "--endpoint",
                                      server.url("")], stderr=subprocess.PIPE)
            tap.wait_until(lambda: server.requests, "a request")
            child.send_signal(number)
            _, said = child.communicate(timeout=tap.PATIENCE)
            self.assertEqual(child.returncode, -number, said)
            json.loads(out.read_text())
            self.assertEqual([p.name for p in self.dir.iterdir() if p.name.startswith("out")], ["out.json"])

    def test_sends_to_a_receiver(self):
        out = self.dir / "received"
        receiver = self.spawn([tap.SPANPROF, "receive", "--port", "0", "-o", out])
        url = receiver.wait_for(r"listening on (http://\S+?)(/v1\S*)?,").group(1)
        path = self.unpacked("datadog")
        self.spanprof("convert", path, "--endpoint", url)
        document, _ = self.convert(path)
        received = [json.loads(p.read_text()) for p in out.glob("*.json")]
        self.assertEqual(sum(s.value for r in received for s in read_samples(r)),
                         sum(s.value for s in read_samples(document)))
        self.spanprof("convert", path, "--endpoint", url, "--include-payload")
        self.assertEqual(len(list(out.glob("*.json"))), len(received) + 1)

    def test_when_nobody_listens_it_says_what_was_not_delivered(self):
        self.assertEqual(self.unheard.wait(), 1, self.unheard)
        self.assertIn("not delivered", self.unheard.err)

    def test_says_which_library_is_missing_and_does_all_else(self):
        path, broken = self.unpacked("datadog"), self.dir / "broken"
        broken.mkdir()
        (broken / "libcurl.so.4").touch()               # the first that the linker finds, and none
        environment = {**os.environ, "LD_LIBRARY_PATH": str(broken)}
        done = self.spanprof("convert", path, "--endpoint", "http://localhost:9", env=environment, expect=1)
        self.assertRegex(done.stderr,
                         r"libcurl\.so\.4 is needed to send over HTTP, and cannot be loaded: .*too short")
        self.spanprof("convert", path, "-o", broken / "out.pb", env=environment)

    def test_says_what_is_wrong_and_where(self):
        path = self.unpacked("async-profiler")
        data = path.read_bytes()
        whole, _ = self.convert(path)
        n_whole = sum(s.value for s in read_samples(whole) if s.type == "samples")
        cut = self.dir / "cut.jfr"
        for size in range(1000, len(data), 1000):
            cut.write_bytes(data[:size])
            done = self.spanprof("convert", cut, "-o", self.dir / "cut.json", expect=1)
            self.assertRegex(done.stderr, r"cut.jfr: (chunk at byte 0|byte \d+)")
        flipped = bytearray(data)
        flipped[len(data) // 2] ^= 0x40
        cut.write_bytes(flipped)
        done = self.run_command([tap.SPANPROF, "convert", cut, "-o", self.dir / "cut.json"])
        self.assertIn(done.returncode, (0, 1))
        # the whole one before the broken one is delivered
        cut.write_bytes(data + b"FLR\0 and then nothing that is a chunk")
        document, said = self.convert(cut, expect=1)
        self.assertIn(f"byte {len(data)}: no chunk begins there", said)
        self.assertEqual(sum(s.value for s in read_samples(document) if s.type == "samples"), n_whole)

        for content, what in ((b"", "is empty"), (b"FLR\0", "no chunk begins"),
                              (zlib.compress(data), "is no profiles file"), (gzip.compress(data)[:-100],
                                                                             "damaged or cut off as gzip")):
            cut.write_bytes(content)
            done = self.spanprof("convert", cut, "-o", self.dir / "cut.json", expect=1)
            self.assertIn(what, done.stderr)
        self.assertIn(
            "No such file",
            self.spanprof("convert", self.dir / "none", "-o", "-", "--format", "json", expect=1).stderr)
        self.assertIn("where to?", self.spanprof("convert", path, expect=2).stderr)
        self.assertIn("--format", self.spanprof("convert", path, "-o", "-", expect=2).stderr)
        self.assertIn("suffix", self.spanprof("convert", path, "-o", self.dir / "a.txt", expect=2).stderr)

    def test_leaves_no_half_file_and_what_was_there_before(self):
        path, out = self.unpacked("datadog"), self.dir / "out"
        out.mkdir()
        (out / "a.json").write_text("before")
        # at 4 KiB: an error, or the end of us
        limited = ["sh", "-c", 'ulimit -f 8; [ $0 = ends ] || trap "" XFSZ; exec "$@"']
        done = self.run_command([*limited, "goes-on", tap.SPANPROF, "convert", path, "-o", out / "a.json"],
                                expect=1)
        self.assertIn(f"{out}/a.json: cannot be written: File too large", done.stderr)
        done = self.run_command([*limited, "ends", tap.SPANPROF, "convert", path, "-o", out / "a.json"])
        self.assertEqual(done.returncode, -signal.SIGXFSZ)
        self.assertEqual({p.name: p.read_text() for p in out.iterdir()}, {"a.json": "before"})
        (out / "link.json").symlink_to("a.json")
        self.run_command([
            "sh", "-c", 'umask 027; exec "$@"', "sh", tap.SPANPROF, "convert", path, "-o", out / "link.json"
        ], expect=0)
        self.assertTrue((out / "link.json").is_symlink())
        self.assertEqual(sorted(p.name for p in out.iterdir()), ["a.json", "link.json"])
        self.assertEqual((out / "a.json").stat().st_mode & 0o777, 0o640)
        json.loads((out / "a.json").read_text())

    def test_a_report_appears_whole_or_not_at_all_too(self):
        """In each form, of profiles and of their differences; what is no file (a pipe, a device) is written as it comes."""
        path, other, out = self.unpacked("datadog"), self.unpacked("async-profiler"), self.dir / "out"
        out.mkdir()
        cases = [(inputs, f"a.{suffix}") for suffix in ("txt", "md", "json", "html")
                 for inputs in ((path, ), ("--diff", other, path))]
        for inputs, name in cases:
            (out / name).write_text("before")
            for what, limit in (("goes-on", 'trap "" XFSZ; '), ("ends", "")):
                done = self.run_command([
                    "sh", "-c", f'ulimit -f 1; {limit}exec "$@"', "sh", tap.SPANPROF, "report", *inputs,
                    "--top", "50", "-o", out / name
                ])
                self.assertEqual(done.returncode, 1 if limit else -signal.SIGXFSZ, (name, what))
                if limit:
                    self.assertIn(f"{out}/{name}: cannot be written: File too large", done.stderr)
                self.assertEqual({p.name: p.read_text() for p in out.iterdir()}, {name: "before"}, what)
            self.spanprof("report", *inputs, "-o", out / name)
            self.assertNotEqual((out / name).read_text(), "before")
            self.assertEqual([p.name for p in out.iterdir()], [name])
            (out / name).unlink()
        done = self.spanprof("report", path, "--format", "text", "-o", "/dev/full", expect=1)
        self.assertIn("/dev/full: cannot be written: it is a device", done.stderr)
        done = self.run_command(["sh", "-c", 'exec "$@" >/dev/full', "sh", tap.SPANPROF, "report", path],
                                expect=1)
        self.assertIn("standard output: cannot be written: No space left on device", done.stderr)
        os.mkfifo(out / "pipe")
        reader = subprocess.Popen(["cat", out / "pipe"], stdout=subprocess.PIPE)
        self.spanprof("report", path, "--format", "json", "-o", out / "pipe")
        json.loads(reader.communicate(timeout=tap.PATIENCE)[0])
        # nothing to say: nothing is written
        done = self.spanprof("report", self.dir / "none", "-o", out / "a.txt", expect=1)
        self.assertEqual([p.name for p in out.iterdir()], ["pipe"])

    def test_never_writes_over_its_input(self):
        path = self.unpacked("datadog")
        before = path.read_bytes()
        (self.dir / "link.pb").symlink_to(path)
        for verb, output in (("convert", path), ("convert", self.dir / "link.pb"), ("report", path)):
            done = self.spanprof(verb, self.unpacked("remote"), path, "-o", output, "--format", "folded",
                                 expect=2)
            self.assertIn(f"{path}: is input and output", done.stderr)
        self.assertEqual(path.read_bytes(), before)
        self.spanprof("convert", path, path, "-o", "/dev/null", "--format", "otlp")

    def test_sums_what_a_maker_has_written(self):
        path = self.dir / "made.jfr"
        with path.open("wb") as out:
            subprocess.run([MAKE_JFR, "4000", "20", "100", "3"], stdout=out, check=True)
        document, said = self.convert(path)
        total, spans = collections.Counter(), set()
        for s in read_samples(document):
            total[s.event] += s.value
            spans.add(s.span)
        self.assertEqual(
            total, {
                "datadog.ExecutionSample": 1000, "datadog.MethodSample": 1000,
                "datadog.ObjectSample": 1500_000, "jdk.JavaMonitorEnter": 2_000_000
            })
        self.assertEqual(len(spans - {None}), 75)       # of 100, those with a type that has spans
        self.assertIn("chunks: 3", said)
        self.assertNotIn("have no stack", said)

    def test_tells_of_samples_without_a_stack(self):
        path = self.dir / "bare.jfr"
        with path.open("wb") as out:
            subprocess.run([MAKE_JFR, "12", "0", "1"], stdout=out, check=True)
        _, said = self.convert(path)
        self.assertIn(f"{path}: 12 samples have no stack: ", said)


tap.main()
