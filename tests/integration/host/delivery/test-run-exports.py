#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon with several receivers: each gets every sample, and one in trouble holds up no other."""

import oracle

oracle.enter()

import re

import collector
import otlp_read
import session
import tap
from fault_server import Server, closed_port, ok, status

try:
    import check_otlp
except ImportError:                             # session skips without it
    check_otlp = None


class Exports(session.TestCase):
    def configure(self, text):
        path = self.directory() / "spanprof.conf"
        path.write_text(text)
        return path

    def run_daemon(self, configuration, **options):
        victim = self.victim("shares", 3600, rests=True)
        run = self.start("--pid", victim.pid, "--config", self.configure(configuration), **options)
        run.wait_events(20)
        return run.stop()

    def test_each_gets_every_sample(self):
        second = session.Receiver(self)
        result = self.run_daemon(f"[export second]\nendpoint = {second.url}\nprotocol = http/json\n")
        first, other = result.summary["exports"]
        self.assertEqual((first["name"], other["name"]), ("", "second"))
        self.assertEqual((first["delivered"], first["lost"]), (result.summary["delivered"], 0))
        self.assertEqual((other["delivered"], other["lost"]), (result.summary["delivered"], 0))
        theirs = [sample for path in second.paths() for sample in otlp_read.samples(path)]
        self.assertEqual(sorted(map(repr, theirs)), sorted(map(repr, result.samples)))

    def test_paths_of_mapped_files_are_kept_back_from_those_that_shall_not_have_them(self):
        names, denied = session.Receiver(self), session.Receiver(self)
        self.run_daemon(f"[export names]\nendpoint = {names.url}\nmapping-paths = name\n")
        path = str(tap.VICTIMS / "victim-shares").encode()
        data = b"".join(p.read_bytes() for p in names.paths())
        # once: the attribute process.executable.path
        self.assertEqual([p.read_bytes().count(path) for p in names.paths()], [1] * len(names.paths()))
        self.assertIn(b"libc.so.6", data)
        self.assertNotIn(b"/libc.so.6", data)
        self.run_daemon(f"[export]\nattributes-deny = mapping.path, process.executable.path\n"
                        f"[export denied]\nendpoint = {denied.url}\nmapping-paths = full\n")
        data = b"".join(p.read_bytes() for p in denied.paths())
        self.assertIn(b"process.executable.name", data)
        self.assertNotIn(path, data)

    def test_one_that_is_away_holds_up_no_other_and_finds_its_samples_in_its_spool(self):
        spool = self.directory() / "spool"
        result = self.run_daemon(
            f"[export away]\nendpoint = http://127.0.0.1:{closed_port(self)}\nspool = {spool}\n")
        away = result.summary["exports"][1]
        self.assertEqual(result.summary["lost"], 0)
        self.assertEqual((away["delivered"], away["lost"], away["spooled"]),
                         (0, 0, result.summary["delivered"]))
        out = self.directory() / "out"
        self.run_command([tap.SPANPROF, "spool", "extract", "--spool", spool, "-o", out], expect=0)
        theirs = [sample for path in out.iterdir() for sample in otlp_read.samples(path)]
        self.assertEqual(sorted(map(repr, theirs)), sorted(map(repr, result.samples)))

    def test_one_may_be_a_socket_of_this_machine(self):
        path = self.directory() / "collector.sock"
        server = Server([ok()], path=path)
        self.addCleanup(server.close)
        path.chmod(0o600)
        refused = self.run_command([tap.SPANPROF, "run", "--endpoint", f"unix:{path}", "-d", "1s"], 78)
        self.assertRegex(refused.stderr, "user `.*` may not connect to this socket: let that user write to it")
        path.chmod(0o666)
        result = self.run_daemon(f"[export near]\nendpoint = unix:{path}\n")
        near = result.summary["exports"][1]
        self.assertEqual((near["delivered"], near["lost"]), (result.summary["delivered"], 0))
        self.assertEqual({request.path for request in server.requests}, {"/v1development/profiles"})

    def test_the_books_are_those_of_the_first(self):
        refusing = Server([status(400)])
        self.addCleanup(refusing.close)
        result = self.run_daemon(f"[export refusing]\nendpoint = {refusing.url('')}\n")
        other = result.summary["exports"][1]
        self.assertEqual((other["delivered"], other["lost"]), (0, result.summary["delivered"]))
        self.assertEqual(result.summary["lost"], 0)

    def test_each_may_have_a_form_of_its_own(self):
        lean, bare, text = (session.Receiver(self) for _ in range(3))
        result = self.run_daemon(
            f"[export lean]\nendpoint = {lean.url}\nbackend = pyroscope\nattributes = lean,thread.name\n"
            f"[export bare]\nendpoint = {bare.url}\ntimestamps = off\n"
            f"[export text]\nendpoint = {text.url}\nresource-numbers = text\n"
            "repeat-on-samples = service.name\n")
        n = result.summary["delivered"]
        for export in result.summary["exports"]:
            self.assertEqual((export["delivered"], export["lost"]), (n, 0), export)

        def samples(receiver):
            return [sample for path in receiver.paths() for sample in otlp_read.samples(path)]

        for sample in samples(lean):
            self.assertLessEqual(set(sample.resource), {"service.name", "host.name"})
            self.assertLessEqual(set(sample.attributes), {"thread.name"})
            self.assertIsNone(sample.time_ns)
        named = {frame.name for sample in samples(lean) for frame in sample.frames if frame.type == "native"}
        self.assertTrue(any(named), "symbols = local is a part of the preset")
        for sample in result.samples:           # of a receiver that has asked for no names
            self.assertEqual({frame.name for frame in sample.frames if frame.type == "native"} - {None, ""}, set())
        self.assertEqual({sample.time_ns for sample in samples(bare)}, {None})
        for sample in samples(text):
            self.assertEqual(sample.attributes["service.name"], sample.resource["service.name"])
            self.assertTrue(sample.resource["process.pid"].isdigit())
        for receiver in (lean, bare, text):
            self.run_command([tap.SPANPROF, "validate", *receiver.paths()], expect=0)

    def names_of_the_first(self):
        """Of native frames in the first request."""
        victim = self.victim("shares", 3600, rests=True)
        run = self.start("--pid", victim.pid, "--symbols", "local", "--export-interval", "1h")
        run.wait_events(1)         # what the first window has, the next comes in an hour
        result = run.stop()

        def begin(request):
            return min(profile.time_unix_nano for resource in request.resource_profiles
                       for scope in resource.scope_profiles for profile in scope.profiles)

        first = min(result.requests, key=begin)
        victim.kill()
        return [frame.name for sample in otlp_read.request_samples(first) for frame in sample.frames
                if frame.type == "native"]

    def test_the_first_window_waits_for_names(self):
        """For two seconds: a busy machine may need more, but not each time."""
        self.assertTrue(any(names and all(names) for names in (self.names_of_the_first() for _ in range(3))))

    def test_a_real_collector_writes_what_the_daemon_sent_in_either_protocol(self):
        collector.need()
        real = {protocol: collector.Collector(self) for protocol in ("http/protobuf", "http/json")}
        result = self.run_daemon("".join(
            f"[export {protocol[5:]}]\nendpoint = {one.url}\nprotocol = {protocol}\n"
            for protocol, one in real.items()))
        for export, (protocol, one) in zip(result.summary["exports"][1:], real.items(), strict=True):
            self.assertEqual((export["name"], export["delivered"], export["lost"]),
                             (protocol[5:], result.summary["delivered"], 0))
            requests = [check_otlp.decode(line) for line in one.stop()]
            theirs = [sample for request in requests for sample in otlp_read.request_samples(request)]
            self.assertEqual(sorted(map(repr, theirs)), sorted(map(repr, result.samples)), protocol)


class Volume(session.TestCase):
    def test_above_the_export_rate_the_frequency_falls_and_the_period_says_so(self):
        victim = self.victim("shares", 3600)
        run = self.start("--pid", victim.pid, "--frequency", 997, "--max-export-rate", 2000)
        run.child.wait_for(r"sampling at \d+ Hz from now on, not 997: profiles are above max-export-rate")
        session.wait_cpu([victim.pid], 2)
        result = run.stop()
        self.assertGreaterEqual(result.counter("volume_changes_total", "lowered"), 1)
        self.assertEqual(result.log.count("sampling at"),
                         sum(result.counter("volume_changes_total", way) for way in ("lowered", "raised")))
        periods = [profile.period for request in result.requests for resource in request.resource_profiles
                   for scope in resource.scope_profiles for profile in scope.profiles if profile.period]
        self.assertGreater(max(periods), 1.6 * min(periods), periods)
        # What all samples stand for, each by the period of its own window, is still the CPU time.
        stands_for = sum(sample.value * sample.period for sample in result.samples)
        used = result.summary["target_cpu_ns"]
        self.assertLess(abs(stands_for - used), 0.25 * used, (stands_for, used))

    def test_without_limits_it_stays(self):
        victim = self.victim("shares", 3600)
        run = self.start("--pid", victim.pid, "--frequency", 997)
        run.wait_events(1000)
        result = run.stop()
        self.assertEqual(result.counter("volume_changes_total"), {"lowered": 0, "raised": 0})


class Removed(session.TestCase):
    # of `run`: (key, a value that was right)
    KEYS = {"max-samples": "100", "max-export-age": "10m", "upload-samples": "5",
            "upload-protocol": "parca", "attributes-keep": "*"}

    def test_a_configuration_with_removed_options_still_starts(self):
        """And samples: the options in two sections of the file, in the environment, and on the command line."""
        victim = self.victim("shares", 3600, rests=True)
        lines = "".join(f"{key} = {value}\n" for key, value in self.KEYS.items())
        path = self.directory() / "spanprof.conf"
        path.write_text(f"[targets]\n{lines}[export]\n{lines}")
        variables = {f"SPANPROF_{key.upper().replace('-', '_')}": value for key, value in self.KEYS.items()}
        words = [word for key, value in self.KEYS.items() for word in (f"--{key}", value, f"--{key}={value}")]
        run = self.start(*words, "--pid", victim.pid, "--config", path, environment=variables)
        run.wait_events(20)
        result = run.stop()
        self.assertEqual({int(pid) for pid in result.pids}, {victim.pid}, "parca's are text")
        gone = r": there is no such option since version \d+\.\d+\.\d+; (?:ignored|taken as [a-z]+): "
        for i, (key, variable) in enumerate(zip(self.KEYS, variables, strict=True)):
            for line in (i + 2, i + 3 + len(self.KEYS)):
                self.assertRegex(result.log, rf"{path}:{line}: {key}{gone}")
            self.assertRegex(result.log, rf"{variable}{gone}")
            self.assertEqual(len(re.findall(rf"--{key}{gone}", result.log)), 2, result.log)
        done = self.spanprof("config", "check", path)
        self.assertEqual((done.stdout, len(re.findall(gone, done.stderr))), (f"{path}: valid\n", 2 * len(self.KEYS)))

    def test_each_removed_option_of_the_table_has_its_case(self):
        table = (tap.SOURCE_DIR / "daemon/host/service/config/option-removed.c").read_text()
        rows = re.findall(r'^        \{ "([a-z-]+)", \w+, ([A-Z_|\s]+),', table, re.M)
        self.assertEqual({name for name, verbs in rows if re.search("RUN|SENDERS", verbs)}, set(self.KEYS))
        shown = self.spanprof("run", "--help", "--all").stdout
        self.assertEqual([name for name, _ in rows if f"--{name}=" in shown], [])


tap.main()
