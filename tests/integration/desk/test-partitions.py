#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`receive --store-layout partitioned`: what becomes of each request, beside what opentelemetry-proto reads of it,
and which files `report` opens for a filter: a file that it must not open is no profile, which it would say."""

import oracle

oracle.enter()

import copy
import datetime
import http.client
import json
import os

import otlp_read
import payload
import tap
from wire import field

PATH = "/v1development/profiles"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
DAY_NS = 86400 * 10**9
START_NS = 1_700_000_000 * 10**9        # 2023-11-14T22:13:20Z
DAY = "2023-11-14"


def named(base, service, host, pid, shift_ns=0):
    """The resource of a request once more, as another process of another service, host and time."""
    part = copy.deepcopy(base)
    attributes = {"service.name": service, "host.name": host}
    part["resource"]["attributes"] = [{"key": key, "value": {"stringValue": value}}
                                      for key, value in attributes.items() if value is not None]
    part["resource"]["attributes"].append({"key": "process.pid", "value": {"intValue": str(pid)}})
    profile = part["scopeProfiles"][0]["profiles"][0]
    profile["profileId"] = f"{pid:032x}"
    profile["timeUnixNano"] = str(int(profile["timeUnixNano"]) + shift_ns)
    for sample in profile["samples"]:
        sample["timestampsUnixNano"] = [str(int(t) + shift_ns) for t in sample["timestampsUnixNano"]]
    return part


def only(part, *stacks):
    """Of the samples of a part, those with these stacks."""
    profile = part["scopeProfiles"][0]["profiles"][0]
    profile["samples"] = [s for s in profile["samples"] if s["stackIndex"] in stacks]
    return part


def events(*requests):
    return sorted(repr(sample) for request in requests for sample in otlp_read.request_samples(request))


class Partitions(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        if not otlp_read.have_proto():
            tap.skip("library: opentelemetry-proto (tests/interop/setup-venv.sh)")

    def setUp(self):
        self.request = payload.Victim(self.directory()).payload()
        self.base = self.request["resourceProfiles"][0]

    def receive(self, *arguments, directory=None, layout="partitioned"):
        self.store = directory or self.directory() / "store"
        child = self.spawn([tap.SPANPROF, "receive", "--port", "0", "-o", self.store, "--store-layout", layout,
                            *arguments])
        self.port = int(child.wait_for(r"^listening on http://127\.0\.0\.1:(\d+), storing in ").group(1))
        return child

    def post(self, body, content_type=JSON, expect=200):
        """Return: the body of the answer."""
        status, answer = self.answer(body, content_type=content_type)
        self.assertEqual(status, expect, answer)
        return answer

    def answer(self, body, source="127.0.0.1", content_type=JSON):
        if isinstance(body, list):
            body = json.dumps({**self.request, "resourceProfiles": body}).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=tap.PATIENCE,
                                                source_address=(source, 0))
        connection.request("POST", PATH, body, {"Content-Type": content_type})
        reply = connection.getresponse()
        answer = reply.read()
        connection.close()
        return reply.status, answer.decode(errors="replace")

    def files(self):
        return {str(path.relative_to(self.store)): path for path in sorted(self.store.rglob("*.*"))
                if path.is_file()}

    def directories(self):
        return {os.path.dirname(name) for name in self.files()}

    def report(self, *arguments, expect=0):
        done = self.run_command([tap.SPANPROF, "report", self.store, "--json", *arguments], expect=expect)
        return json.loads(done.stdout) if not expect else done.stderr

    def n_events(self, *arguments):
        """Events that a conversion of the store has."""
        out = self.directory() / "out.json"
        self.run_command([tap.SPANPROF, "convert", self.store, "-o", out, *arguments], expect=0)
        return sum(1 for _ in otlp_read.samples(out))


class Parts(Partitions):
    def test_are_what_the_request_says_of_each_service_and_host(self):
        child = self.receive()
        parts = [only(named(self.base, "shop", "a", 1), 1), only(named(self.base, "shop", "b", 2), 2, 3),
                 named(self.base, "cart", "a", 3), only(named(self.base, "shop", "a", 4), 4)]
        self.post(parts)
        files = self.files()
        self.assertEqual(list(files), [f"{DAY}/cart/a/000003.pb", f"{DAY}/shop/a/000001.pb",
                                       f"{DAY}/shop/b/000002.pb"])
        sent = otlp_read.parse(json.dumps({**self.request, "resourceProfiles": parts}).encode())
        self.assertEqual(events(*map(otlp_read.load, files.values())), events(sent))
        for name, pids in (("shop/a/000001", {1, 4}), ("shop/b/000002", {2}), ("cart/a/000003", {3})):
            got = otlp_read.load(files[f"{DAY}/{name}.pb"])
            self.assertEqual({s.resource["process.pid"] for s in otlp_read.request_samples(got)}, pids)
        self.assertEqual(child.stop(), 0)
        self.assertRegex(child.out, r"\nreceived 1 requests with 20 samples, stored as 000001 to 000003\n$")

    def test_have_the_rows_of_the_dictionary_that_they_need(self):
        self.receive()
        self.post([only(named(self.base, "shop", "a", 1), 3), named(self.base, "cart", "a", 2)])
        files = list(self.files().values())
        small = otlp_read.load(self.files()[f"{DAY}/shop/a/000001.pb"]).dictionary
        rows = [len(table) for table in (small.stack_table, small.location_table, small.link_table)]
        self.assertEqual(rows, [2, 3, 1])
        self.assertIn("clear_page", small.string_table)
        self.assertNotIn("thread.id", small.string_table)
        self.run_command([tap.SPANPROF, "validate", *files], expect=0)

    def test_keep_indexes_outside_their_tables_outside(self):
        """A part of a request that no reader takes is not one that says something else."""
        self.receive()
        wrong = named(self.base, "wrong", "a", 1)
        wrong["scopeProfiles"][0]["profiles"][0]["samples"][0]["stackIndex"] = 77
        self.post([wrong, named(self.base, "right", "a", 2)])
        self.assertIn("stack_index", self.report("--service", "wrong", expect=1))
        self.assertEqual(self.n_events("--service", "right"), 10)

    def test_come_from_protobuf_too_and_keep_fields_that_nobody_knows(self):
        self.receive()
        body = payload.protobuf({**self.request, "resourceProfiles": [
            named(self.base, "shop", "a", 1), named(self.base, "cart", "b", 2)]}) + field(77, b"later")
        self.post(body, PROTOBUF)
        for path in self.files().values():
            self.assertIn(field(77, b"later"), path.read_bytes())
        self.assertEqual(events(*map(otlp_read.load, self.files().values())), events(otlp_read.parse(body)))

    def test_more_of_them_than_a_request_may_have_stay_together(self):
        child = self.receive()
        parts = [only(named(self.base, f"s{i}", "a", i), 3) for i in range(1, 258)]
        self.post(parts)
        self.assertEqual(list(self.files()), ["+other/+other/+other/000001.pb"])
        self.assertEqual(self.n_events("--service", "s7"), 1)
        self.assertEqual(child.stop(), 0)
        self.assertIn(", 1 requests whole in +other (too many parts)", child.out)

    def test_go_on_behind_what_is_there_and_beside_a_flat_store(self):
        child = self.receive(layout="flat")
        self.post([named(self.base, "flat", "a", 1)])
        self.assertEqual(child.stop(), 0)
        child = self.receive(directory=self.store)
        self.post([named(self.base, "shop", "a", 2)])
        self.assertEqual(child.stop(), 0)
        self.receive(directory=self.store)
        self.post([named(self.base, "shop", "a", 3)])
        self.assertEqual(list(self.files()), ["000001.json", "000001.pb", f"{DAY}/shop/a/000002.pb",
                                              f"{DAY}/shop/a/000003.pb"])
        self.assertEqual(self.n_events(), 30)
        self.assertEqual(self.n_events("--service", "flat"), 10)


class Names(Partitions):
    HOSTILE = ["../../../etc/x", "..", ".", ".hidden", "a/b", "", "+other", "+none", "with\nline", "x" * 5000,
               "x" * 5001, "ü" * 90, "a%2Fb", "2023-11-14", "-rf", "*", "\u202e", "'; rm"]

    def test_of_senders_are_no_paths(self):
        self.receive()
        self.post([named(self.base, name, name, 10 + i) for i, name in enumerate(self.HOSTILE)])
        outside = [path for path in self.store.parent.iterdir() if path != self.store]
        self.assertEqual(outside, [])
        self.assertEqual(sorted(path.name for path in self.store.iterdir()), [DAY])
        names = self.directories()
        self.assertEqual(len(names), len(self.HOSTILE))
        for name in names:
            self.assertRegex(name, rf"^{DAY}/(\+cut-)?[\w.%-]{{1,150}}/(\+cut-)?[\w.%-]{{1,150}}$")
            self.assertNotIn("/.", name)
        self.assertIn(f"{DAY}/%2E./%2E.", names)
        self.assertIn(f"{DAY}/%/%", names)
        self.assertIn(f"{DAY}/a%252Fb/a%252Fb", names)

    def test_are_found_again(self):
        self.receive()
        self.post([named(self.base, name, name, 10 + i) for i, name in enumerate(self.HOSTILE)])
        for name in ("a/b", "../../../etc/x", "x" * 5000, "ü" * 90, "a%2Fb", "+other", "2023-11-14", "-rf", "\u202e"):
            self.assertEqual(self.n_events(f"--service={name}"), 10, name)
        self.assertEqual(self.n_events("--host", "a*"), 20)
        self.assertEqual(self.n_events("--service", "x*", "--host", "xx*"), 20)

    def test_that_are_no_text_are_kept_and_found(self):
        self.receive()
        body = payload.protobuf({**self.request, "resourceProfiles": [
            named(self.base, "AAAA", "a", 1), named(self.base, "shop", "a", 2)]})
        self.post(body.replace(b"AAAA", b"A\xff\xfeA"), PROTOBUF)
        self.assertIn(f"{DAY}/A%FF%FEA/a/000001.pb", self.files())
        self.assertEqual(self.n_events("--service", "A*A"), 10)

    def test_are_missing(self):
        self.receive()
        self.post([named(self.base, None, None, 1), named(self.base, "shop", None, 2)])
        self.assertEqual(list(self.files()), [f"{DAY}/+none/+none/000001.pb", f"{DAY}/shop/+none/000002.pb"])
        self.assertEqual(self.n_events(), 20)
        self.assertEqual(self.n_events("--service", "shop"), 10)


class Reads(Partitions):
    """What is left out is damaged: whoever opens it says so, and ends with 1."""

    def damage(self, *parts):
        for name, path in self.files().items():
            if any(part in name for part in parts):
                path.write_bytes(b"\xff\xff damaged")

    def test_only_the_service_and_host_that_are_asked_for(self):
        self.receive()
        self.post([named(self.base, service, host, 10 * i + k) for i, service in enumerate(("shop", "cart"), 1)
                   for k, host in enumerate("abc")])
        self.damage("cart", "/c/")
        self.assertEqual(self.n_events("--service", "shop", "--host", "a,b"), 20)
        self.assertEqual(self.n_events("--service", "sh?p", "--host", "[ab]"), 20)
        self.assertIn("/c/000003.pb", self.report("--service", "shop", expect=1))
        done = self.run_command([tap.SPANPROF, "report", self.store, "--service", "shopping"], expect=1)
        self.assertIn("is a store without what is asked for", done.stderr)

    def test_only_the_days_that_are_asked_for(self):
        self.receive()
        self.post([named(self.base, "shop", "a", 1 + i, i * DAY_NS) for i in range(5)])
        days = [(datetime.date(2023, 11, 14) + datetime.timedelta(i)).isoformat() for i in range(5)]
        self.assertEqual(sorted(path.name for path in self.store.iterdir()), days)
        self.damage(days[0], days[4])
        # the day before the first is read: a request may end on the day after the one that it begins on
        self.assertEqual(self.n_events("--start", f"{days[2]}T00:00:00Z", "--end", f"{days[4]}T00:00:00Z"), 20)
        self.assertEqual(self.n_events("--start", f"{days[3]}T00:00:00Z", "--end", f"{days[4]}T00:00:00Z"), 10)

    def test_what_reaches_over_midnight(self):
        self.receive()
        to_midnight = DAY_NS - START_NS % DAY_NS
        self.post([named(self.base, "shop", "a", 1, to_midnight - 5)])
        self.assertEqual(list(self.files()), [f"{DAY}/shop/a/000001.pb"])
        self.assertEqual(self.n_events("--start", "2023-11-15T00:00:00Z"), 5)

    def test_what_is_longer_than_a_day_or_has_no_time(self):
        self.receive()
        long, late, none = (named(self.base, "shop", "a", pid) for pid in (1, 2, 3))
        long["scopeProfiles"][0]["profiles"][0]["durationNano"] = str(2 * DAY_NS)
        late["scopeProfiles"][0]["profiles"][0]["samples"][0]["timestampsUnixNano"][0] = str(START_NS + 2 * DAY_NS)
        profile = none["scopeProfiles"][0]["profiles"][0]
        profile["timeUnixNano"] = "0"
        for sample in profile["samples"]:
            sample["values"] = [str(len(sample.pop("timestampsUnixNano")))]
        self.post([long, late, none])
        self.assertEqual(list(self.files()), ["+other/shop/a/000001.pb"])
        self.assertEqual(self.n_events("--start", "2023-11-16T00:00:00Z"), 1)

    def test_a_directory_that_cannot_be_read_is_said(self):
        self.receive()
        self.post([named(self.base, "shop", "a", 1)])
        os.symlink("cart", self.store / DAY / "cart")          # a loop, which root cannot open either
        done = self.run_command([tap.SPANPROF, "report", self.store], expect=1)
        self.assertIn("has directories that cannot be read", done.stderr)
        self.assertIn("hot", done.stdout)


class Caps(Partitions):
    def test_of_names_in_a_directory(self):
        child = self.receive()
        (self.store / DAY).mkdir(mode=0o700)
        for i in range(4096):
            (self.store / DAY / f"s{i}").mkdir()
        for path in (self.store, self.store / DAY):
            os.chown(path, *self.owner(child))
        self.post([named(self.base, "new", "a", 1), named(self.base, "newer", "b", 2)])
        self.assertEqual(list(self.files()), [f"{DAY}/+other/a/000001.pb", f"{DAY}/+other/b/000002.pb"])
        self.assertEqual(self.n_events("--service", "newer"), 10)
        self.assertEqual(child.stop(), 0)
        self.assertIn(", 2 parts in +other (too many directories)", child.out)

    def test_of_names_for_each_of_many_senders(self):
        child = self.receive()
        (self.store / DAY).mkdir(mode=0o700)
        for i in range(4000):
            (self.store / DAY / f"s{i}").mkdir()
        for path in (self.store, self.store / DAY):
            os.chown(path, *self.owner(child))
        self.assertEqual(self.answer([named(self.base, f"x{k}", "a", k) for k in range(100)], "127.0.0.2")[0], 200)
        services = [name.split("/")[1] for name in self.files()]
        self.assertEqual(services.count("+other"), 18, "82 of 94 (with `.` and `..`) are 7/8")
        self.assertEqual(self.answer([named(self.base, "honest", "a", 1)], "127.0.0.3")[0], 200)
        self.assertIn(f"{DAY}/honest/a/000101.pb", self.files())
        self.assertEqual(child.stop(), 0)
        self.assertIn("127.0.0.2 has made its share of the directories", child.err)
        self.assertIn(", 18 parts in +other (of senders with their share of directories)", child.out)

    def owner(self, child):
        status = os.stat(f"/proc/{child.process.pid}")
        return status.st_uid, status.st_gid

    def test_of_files_and_bytes_for_each_of_many_senders(self):
        child = self.receive("--max-files", "80")
        bodies = [[named(self.base, f"s{k}", "a", 100 * i + k) for k in range(10)] for i in range(1, 9)]
        codes = [self.answer(body, "127.0.0.2")[0] for body in bodies]
        self.assertEqual(codes, [200] * 7 + [503], "7/8 of 80 files, ten a request")
        self.assertEqual(self.answer(bodies[7][:5], "127.0.0.3")[0], 200)
        self.assertEqual(len(self.files()), 75)
        self.assertEqual(child.stop(), 0)
        child = self.receive("--max-files", "80", directory=self.store)
        self.assertEqual(self.answer(bodies[7], "127.0.0.4")[0], 503, "a restart counts what is there")
        for path in (self.store / DAY / "s3").rglob("*.pb"):
            path.unlink()
        self.assertEqual(self.answer(bodies[7][:3], "127.0.0.4")[0], 200, "and sees new room")
        self.assertIn("000078.pb", "".join(self.files()), "numbers never go back")

    def test_a_part_that_cannot_be_written_takes_the_others_with_it(self):
        child = self.receive()
        self.post([named(self.base, "shop", "a", 1)])
        (self.store / DAY / "cart").write_text("a file, no directory")
        answer = self.post([named(self.base, "bus", "a", 2), named(self.base, "cart", "a", 3)], expect=503)
        self.assertIn("cannot write to its store", answer)
        self.assertEqual([n for n in self.files()], [f"{DAY}/shop/a/000001.pb"])
        self.assertEqual([p for p in self.store.rglob(".*")], [], "no temporary file is left")
        (self.store / DAY / "cart").unlink()
        self.post([named(self.base, "bus", "a", 2), named(self.base, "cart", "a", 3)])
        self.assertEqual(child.stop(), 0)
        self.assertIn("Not a directory", child.err)

    def test_follows_no_link(self):
        child = self.receive()
        self.post([named(self.base, "shop", "a", 1)])
        aside = self.directory()
        os.symlink(aside, self.store / DAY / "cart")
        self.post([named(self.base, "cart", "a", 2)], expect=503)
        self.assertEqual(list(aside.iterdir()), [])
        self.assertEqual(child.stop(), 0)


tap.main()
