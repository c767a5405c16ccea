#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --backend means, by conversions of real recordings: forms of requests, and what becomes of
each when a receiver refuses some. No kernel half; test-run-exports.py has the daemon's side."""

import oracle

oracle.enter()

import collections
import json
import re

import otlp_read
import tap
from fault_server import Server, ok, reply, status

try:
    import check_otlp
except ImportError:
    check_otlp = None

DATA = tap.SOURCE_DIR / "tests/data"
RECORDING = DATA / "async-profiler.jfr.gz"      # wall clock, CPU, locks, allocations


def strings(request):
    return request.dictionary.string_table


def profiles(request):
    return [(resource, profile) for resource in request.resource_profiles for scope in resource.scope_profiles
            for profile in scope.profiles]


def type_of(request, profile):
    return strings(request)[profile.sample_type.type_strindex]


class Case(tap.TestCase):
    def setUp(self):
        if not otlp_read.have_proto():
            tap.skip("library: opentelemetry-proto (tests/interop/setup-venv.sh)")

    def convert(self, *arguments, expect=0, recording=RECORDING):
        return self.run_command([tap.SPANPROF, "convert", recording, *arguments], expect=expect)

    def written(self, *arguments, recording=RECORDING):
        path = self.directory() / "out.pb"
        self.convert("-o", path, *arguments, recording=recording)
        return path, otlp_read.load(path)

    def send(self, *plays, expect=0, arguments=()):
        server = Server(list(plays))
        self.addCleanup(server.close)
        done = self.convert("--endpoint", server.url(""), "--backend", "pyroscope", *arguments, expect=expect)
        return server, [otlp_read.parse(request.body) for request in server.requests], done


class Form(Case):
    def test_a_pyroscope_has_types_periods_and_values_that_it_takes(self):
        for recording in sorted(DATA.glob("*.jfr.gz")):
            _, request = self.written("--backend", "pyroscope", recording=recording)
            for _, profile in profiles(request):
                name = type_of(request, profile)
                self.assertNotIn("-", name, recording)
                self.assertTrue(profile.period >= 1 or name == "off_cpu", recording)
                self.assertTrue(strings(request)[profile.period_type.type_strindex], recording)
                for sample in profile.samples:
                    self.assertEqual(len(sample.values), 1, recording)
                    self.assertEqual(len(sample.timestamps_unix_nano), 0, recording)
                    self.assertEqual(len(sample.attribute_indices), 0, recording)

    def test_values_are_the_same_in_each_form(self):
        def sums(*arguments):
            _, request = self.written(*arguments)
            found = collections.Counter()
            for _, profile in profiles(request):
                for sample in profile.samples:
                    found[type_of(request, profile)] += sum(sample.values) or len(sample.timestamps_unix_nano)
            return found

        plain = sums()
        self.assertEqual(sums("--backend", "pyroscope"), plain)
        self.assertEqual(sums("--links", "off", "--timestamps=off"), plain)
        self.assertEqual(sums("--attributes", "lean", "--links", "trace"), plain)

    def test_what_a_user_sets_wins_over_the_preset(self):
        _, request = self.written("--backend", "pyroscope", "--attributes", "full", "--resource", "a.b=c")
        (resource, _), *_ = profiles(request)
        self.assertIn("a.b", {pair.key for pair in resource.resource.attributes})
        shown = self.run_command([tap.SPANPROF, "config", "show"], expect=0,
                                 env={"PATH": "/usr/bin:/bin", "SPANPROF_BACKEND": "pyroscope",
                                      "SPANPROF_TIMESTAMPS": "on"}).stdout
        self.assertRegex(shown, r"\nsymbols += local +# backend\n")
        self.assertRegex(shown, r"\ntimestamps += on +# SPANPROF_TIMESTAMPS\n")
        self.assertIn("profiles go to http://localhost:4040/v1development/profiles", shown)

    def test_every_form_is_valid(self):
        for arguments in (("--backend", "pyroscope"), ("--backend", "parca"), ("--links", "trace"),
                          ("--attributes", "lean,thread.*"),
                          ("--repeat-on-samples", "service.name", "--resource-numbers", "off")):
            path, request = self.written(*arguments, "--resource", "service.name=shop")
            self.run_command([tap.SPANPROF, "validate", path], expect=0)
            if check_otlp:
                self.assertEqual(list(check_otlp.check(path.read_bytes())), [], arguments)


class Sent(Case):
    def test_each_type_is_a_request_of_its_own_and_a_refusal_loses_no_other(self):
        _, whole = self.written("--backend", "pyroscope")
        _, plain = self.written()
        n_events = collections.Counter()
        for _, profile in profiles(plain):
            for sample in profile.samples:
                n_events[type_of(plain, profile)] += max(len(sample.values), len(sample.timestamps_unix_nano))
        server, requests, _ = self.send(ok())
        self.assertEqual(len(requests), len({type_of(whole, profile) for _, profile in profiles(whole)}))
        kinds = [{type_of(request, profile) for _, profile in profiles(request)} for request in requests]
        self.assertTrue(all(len(kind) == 1 for kind in kinds), kinds)
        refused = kinds.index({"samples"})
        plays = [ok()] * refused + [status(400)] + [ok()] * (len(kinds) - refused - 1)
        server, requests, done = self.send(*plays, expect=1)
        self.assertEqual(len(requests), len(kinds), "the others are sent all the same")
        self.assertIn(f" {n_events['samples']} events were not delivered", done.stderr)

    def test_no_two_parts_of_a_profile_have_one_time(self):
        """Of two profiles with one series and one time a Pyroscope keeps one."""
        path = self.directory() / "many.folded"
        path.write_text("".join(f"main;f{i % 100};g{i} 1\n" for i in range(40_000)))
        server = Server([ok()])
        self.addCleanup(server.close)
        self.convert("--endpoint", server.url(""), "--backend", "pyroscope", recording=path)
        requests = [otlp_read.parse(request.body) for request in server.requests]
        parts = [profile for request in requests for _, profile in profiles(request)]
        self.assertGreaterEqual(len(parts), 3)
        self.assertLessEqual(max(len(profile.samples) for profile in parts), 16_000)
        self.assertEqual(sum(sum(sample.values) for profile in parts for sample in profile.samples), 40_000)
        for what in ("time_unix_nano", "profile_id"):
            values = {getattr(profile, what) for profile in parts}
            self.assertEqual(len(values), len(parts), f"{what}: {values}")
        ends = {profile.time_unix_nano + profile.duration_nano for profile in parts}
        self.assertEqual(len(ends), 1)

    def test_data_that_is_too_old_is_named_so(self):
        words = b"profile with labels '{}' is outside of ingestion window (profile timestamp: 2024, starts at 2026)"
        _, requests, done = self.send(reply(400, [("Content-Type", "text/plain")], words), expect=1)
        self.assertEqual(len(requests), 4)
        self.assertIn("they are too old for it: dropped", done.stderr)

    def test_a_tenant_is_sent(self):
        server, _, _ = self.send(ok(), arguments=("--tenant", "team-a"))
        self.assertEqual({request.headers["X-Scope-OrgID"] for request in server.requests}, {"team-a"})
        done = self.convert("--endpoint", "http://127.0.0.1:1", "--tenant", "a/b", expect=2)
        self.assertIn("a tenant has letters, digits", done.stderr)

    def test_a_server_of_pages_is_no_receiver(self):
        _, _, done = self.send(reply(200, [("Content-Type", "text/html")], b"<html></html>"), expect=1)
        self.assertIn("no OTLP response (text/html)", done.stderr)
        self.assertIn("were not delivered", done.stderr)

    def test_a_server_that_starts_gets_it_again(self):
        server, requests, _ = self.send(status(500), ok())
        self.assertEqual(len(requests), 5)
        self.assertEqual(server.requests[0].body, server.requests[1].body)


class For(Case):
    def findings(self, path, backend):
        done = self.run_command([tap.SPANPROF, "validate", "--json", "--backend", backend, path])
        return json.loads(done.stdout)[0]["findings"]

    def texts(self, findings, severity):
        return "\n".join(finding["text"] for finding in findings
                         if finding["severity"] == severity and finding["rule"] == "backend")

    def test_the_cure_that_is_named_is_one(self):
        """The line is run as it stands, for both files' names; an age is no matter of form."""
        path, _ = self.written()
        for backend in ("pyroscope", "parca"):
            with self.subTest(backend=backend):
                done = self.run_command([tap.SPANPROF, "validate", "--backend", backend, path])
                line = re.search(r"(?m)^.*: cure: `spanprof (.*)` makes what", done.stdout)[1]
                other = self.directory() / "OTHER.pb"
                words = [{"FILE": path, "OTHER.pb": other}.get(word, word) for word in line.split()]
                self.spanprof(*words)
                left = [f["text"] for f in self.findings(other, backend) if f["rule"] == "backend"]
                self.assertEqual([text for text in left if "ingestion window" not in text], [])
                done = self.run_command([tap.SPANPROF, "validate", "--backend", backend, other])
                self.assertNotIn("cure:", done.stdout)
        self.assertNotIn("cure:", self.run_command([tap.SPANPROF, "validate", path]).stdout)

    def test_pyroscope_refuses_several_values_periods_of_0_hyphens_and_age(self):
        path, _ = self.written()
        errors = self.texts(self.findings(path, "pyroscope"), "error")
        self.assertIn("sample values length mismatch", errors)
        self.assertIn("the profile gets no name", errors)
        self.assertIn("outside of ingestion window", errors)
        path, _ = self.written(recording=DATA / "ways.jfr.gz")
        self.assertIn("a hyphen in page-faults", self.texts(self.findings(path, "pyroscope"), "error"))

    def test_pyroscope_takes_what_is_made_for_it_and_is_young(self):
        for recording in sorted(DATA.glob("*.jfr.gz")):
            path, request = self.written("--backend", "pyroscope", recording=recording)
            errors = self.texts(self.findings(path, "pyroscope"), "error").split("\n")
            self.assertEqual({error for error in errors if "outside of ingestion window" not in error}, set(),
                             recording)

    def test_limits_are_known(self):
        path, request = self.written("--backend", "pyroscope")
        _, profile = profiles(request)[0]
        first = profile.samples[0]
        del profile.samples[1:]
        for index in range(16000):
            sample = profile.samples.add()
            sample.CopyFrom(first)
        path.write_bytes(request.SerializeToString())
        self.assertIn("16001; more than 16000 are refused",
                      self.texts(self.findings(path, "pyroscope"), "error"))

    def test_warnings_say_what_is_left_out(self):
        path, _ = self.written()
        self.assertIn("is no string: refused behind a Collector",
                      self.texts(self.findings(path, "pyroscope"), "warning"))
        warnings = self.texts(self.findings(path, "parca"), "warning")
        for words in ("names come out wrong", "is no string, and so no label", "timestamps make a row each"):
            self.assertIn(words, warnings)
        self.assertEqual(self.texts(self.findings(path, "parca"), "error"), "")
        self.assertEqual(self.texts(self.findings(path, "otlp"), "warning"), "")


tap.main()
