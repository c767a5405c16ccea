#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real OpenTelemetry Collector takes what we send, and what its file exporter wrote is what we sent, sample
by sample: its 200 alone proves no more than syntax. setup-collector.sh builds it."""
import gzip
import importlib
import json
import os
import re
import urllib.request

import oracle
import tap

oracle.enter()

import collector
import otlp_read

ZSTD = b"\x28\xb5\x2f\xfd"


def events(requests):
    """Every event of some requests with all that is known of it, in an order of its own."""
    return sorted(repr(sample) for request in requests for sample in otlp_read.request_samples(request))


def heads(requests):
    """What else a profile says."""
    return sorted((profile.profile_id.hex(), profile.time_unix_nano, profile.duration_nano,
                   len(profile.samples), scope.scope.name, scope.scope.version) for request in requests
                  for resource in request.resource_profiles for scope in resource.scope_profiles
                  for profile in scope.profiles)


class Collector(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        oracle.need()
        collector.need()
        cls.check_otlp = importlib.import_module("check_otlp")

    def start(self):
        self.collector = collector.Collector(self)
        self.url = self.collector.url

    def stop(self):
        return [self.check_otlp.decode(line) for line in self.collector.stop()]

    def assert_same(self, sent, got):
        self.assertTrue(events(sent))
        self.assertEqual(heads(got), heads(sent))
        for ours, theirs in zip(events(sent), events(got), strict=True):
            self.assertEqual(theirs, ours)

    def window(self, *arguments):
        directory = self.directory()
        self.run_command([tap.HARNESS / "write-window", directory, *arguments], expect=0)
        return sorted(directory.glob("*.pb"))

    def decode(self, paths):
        return [self.check_otlp.decode(path.read_bytes()) for path in paths]

    def post(self, path, content_type):
        request = urllib.request.Request(f"{self.url}/v1development/profiles", path.read_bytes(),
                                         {"Content-Type": content_type})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as reply:
            self.assertEqual(reply.status, 200)

    def test_writes_what_the_encoder_made(self):
        self.start()
        paths = self.window(20000, 3, 500)
        self.assertGreater(len(paths), 5)
        for path in paths:
            self.post(path, "application/x-protobuf")
        self.assert_same(self.decode(paths), self.stop())

    def test_writes_what_the_printer_of_json_made(self):
        self.start()
        paths = self.window(20000, 3, 500)
        for path in paths:
            self.post(path.with_suffix(".json"), "application/json")
        self.assert_same(self.decode(paths), self.stop())

    def test_reads_each_request_with_its_own_codec(self):
        """It moves strings of resources into the dictionary, so its bytes are others: what they say is not."""
        paths = self.window(20000, 3, 500)
        output = self.directory()
        done = self.run_command(
            [collector.PROGRAM, "pdata", output, *paths, *[path.with_suffix(".json") for path in paths]])
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        again = sorted(output.glob("*.pb"))
        self.assertEqual(len(again), len(paths))
        self.assert_same(self.decode(paths), self.decode(again))
        self.assert_same(self.decode(paths), self.decode(sorted(output.glob("*.json"))))

    def report(self, *paths):
        summary = json.loads(
            self.run_command([tap.SPANPROF, "report", "--json", "--top", "1000000", *paths], expect=0).stdout)
        self.assertEqual(summary.pop("files"), len(paths))
        return summary

    def check_files(self, suffix, options, gates=()):
        """What `report` says of each of its files is what it says of the requests that were sent, and `convert` gives them back."""
        files = {f"{form}{suffix}": {"format": form, **options} for form in ("json", "proto")}
        self.collector = collector.Collector(self, files, gates)
        self.url = self.collector.url
        paths = self.window(6000, 3, 200)
        self.assertGreater(len(paths), 1)
        for path in paths:
            self.post(path, "application/x-protobuf")
        expected, sent = self.report(*paths), self.decode(paths)
        written = self.collector.end()
        for name, path in written.items():
            with self.subTest(name):
                self.assertTrue(self.report(path) == expected, "half a megabyte each")
                again = self.directory() / "again.pb"
                self.run_command([tap.SPANPROF, "convert", path, "-o", again], expect=0)
                self.assertEqual(events(self.decode([again])), events(sent))
        return written

    def test_files_of_its_exporter_are_read(self):
        written = self.check_files("", {})
        self.assertEqual(written["json"].read_bytes()[:1], b"{")
        self.assertEqual(written["proto"].read_bytes()[:1], b"\0", "a size before each message")

    def test_files_of_its_exporter_with_packed_messages_are_read(self):
        for path in self.check_files(".zst", {"compression": "zstd"}).values():
            self.assertEqual(path.read_bytes()[4:8], ZSTD, "a size before each packed message")

    def test_files_of_its_exporter_that_are_packed_as_a_whole_are_read(self):
        for path in self.check_files(".zst", {"compression": "zstd"},
                                     ["exporter.file.nativeCompression"]).values():
            self.assertEqual(path.read_bytes()[:4], ZSTD)

    def test_generated_classes_know_every_field_and_write_the_same_bytes(self):
        paths = self.window(20000, 3, 500)
        n = sum(
            len(profile.samples) for request in self.decode(paths) for resource in request.resource_profiles
            for scope in resource.scope_profiles for profile in scope.profiles)
        self.assertGreater(n, 1000)
        self.assertEqual(collector.check_classes(self, paths), n)

    def test_generated_classes_find_what_is_not_theirs(self):
        """Fields, here and deep within, that are unknown; a number in too many bytes; a cut message.
        Go's protobuf puts a blank or U+00A0 behind `proto:`, as the hash of the program wants it."""
        data = self.window(20000, 3, 500)[0].read_bytes()
        for what, line, broken in (("field", r"unknown fields", data + b"\x78\x01"),
                                   ("field within", r"resource_profiles.*: unknown fields",
                                    data + b"\x0a\x02\x78\x01"),
                                   ("longer varint", r"other bytes when it is written again",
                                    b"\x8a\x00" + data[1:]), ("end", r"proto:\s", data[:-3])):
            with self.subTest(what):
                path = self.directory() / "broken"
                path.write_bytes(broken)
                done = self.run_command([collector.PROGRAM, "classes", path])
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertRegex(done.stdout, line)

    def test_writes_what_the_exporter_sends(self, *options):
        """receive → --forward → the collector: gzip, keep-alive, and our own copy beside it."""
        self.start()
        store = self.directory()
        environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        receive = self.spawn(
            [tap.SPANPROF, "receive", "--port", "0", "-o", store, "--forward", self.url, *options],
            env=environment)
        receive.wait_for("listening on")
        port = re.search(r"127\.0\.0\.1:(\d+)", receive.out)[1]
        self.url = f"http://127.0.0.1:{port}"
        for path in self.window(20000, 3, 500):
            self.post(path, "application/x-protobuf")
        receive.process.terminate()
        self.assertEqual(receive.wait(), 0)
        self.assertRegex(receive.out, r"forwarded \d+ samples, lost 0")
        self.assert_same(self.decode(sorted(store.glob("*.pb"))), self.stop())

    def test_writes_what_the_exporter_sends_as_json(self):
        self.test_writes_what_the_exporter_sends("--protocol", "http/json")

    def test_writes_what_was_converted_from_recordings(self):
        """By a file, and sent by the converter itself."""
        environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        directory = self.directory()
        recordings = []
        for packed in sorted((tap.SOURCE_DIR / "tests/data").glob("*.jfr.gz")):
            recordings.append(directory / packed.stem)
            recordings[-1].write_bytes(gzip.decompress(packed.read_bytes()))
        self.assertGreater(len(recordings), 1)
        output = directory / "all.pb"
        self.run_command([tap.SPANPROF, "convert", *recordings, "-o", output], expect=0)
        self.start()
        self.post(output, "application/x-protobuf")
        converted = self.decode([output])
        self.assert_same(converted, self.stop())
        self.start()
        self.run_command([tap.SPANPROF, "convert", *recordings, "--endpoint", self.url], expect=0,
                         env=environment)
        self.assertEqual(events(self.stop()), events(converted))

    def test_http_2_is_spoken_where_tls_agrees_on_it(self):
        directory = self.directory()
        self.run_command([
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "2", "-keyout", directory / "key", "-out", directory / "cert", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"
        ], expect=0)
        server = self.spawn([collector.PROGRAM, "listen", directory / "cert", directory / "key"])
        address = server.wait_for(r"^listening on (\S+)$")[1]
        environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        done = self.run_command([
            tap.HARNESS / "export-driver", f"https://{address}/v1development/profiles", "--ca",
            directory / "cert", "--batches", "5"
        ], expect=0, env=environment)
        self.assertIn("samples_delivered_total{} 500\n", done.stdout)
        server.wait_for(r"(POST /v1development/profiles HTTP/2.0\n){5}")


tap.main()
