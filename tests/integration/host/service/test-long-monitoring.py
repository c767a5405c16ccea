#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shipped alerts in Prometheus' engine of rules, fed with what a daemon really serves: each fires when it
must, and stays silent when it must. First by changes to a healthy daemon's page, then by real faults."""
import oracle

oracle.enter()

import http.server
import json
import os
import re
import signal
import subprocess
import threading
import time

import fault_server
import prometheus
import session
import tap
from certificates import Certificates
from unix_http import Unix, ask

RULES = tap.SOURCE_DIR / "packaging/helm/spanprof/files/spanprof.rules.yaml"
SETUP = tap.SOURCE_DIR / "tests/interop/setup-alerts.sh"
HEALTHY = {                                     # what moves on a daemon at work, a minute
    "spanprof_ticks_total": 600, "spanprof_expected_ticks_total": 600, "spanprof_samples_delivered_total": 600,
    "process_cpu_seconds_total": 0.1
}
MINUTES = 180
LOST = 'spanprof_lost_total{reason="%s"}'
SPOOL_BYTES, SPOOL_MAX = 'spanprof_receiver_spool_bytes{receiver="away"}', 'spanprof_receiver_spool_max_bytes{receiver="away"}'
CERTIFICATE = 'spanprof_certificate_end_seconds{receiver="tls",certificate="client"}'
KALLSYMS = 'spanprof_kernel_file_readable{file="kallsyms"}'
DAY = 86400
# served of services with such spans alone, which this daemon has not: test-run-operations.py has them
ALLOCATED = 'spanprof_span_allocated_bytes_total{service="shop",operation="/checkout"}'
# alert → the series that a fault changes, from minute 60 on; the first minute in which it fires; what must
# stay silent
FAULTS = {
    "SpanprofDown": ({"up": "1x59 0x120"}, 65, {"up": "1x59 0x3 1x117"}),
    "SpanprofNotReady": ({"spanprof_ready": "1x59 0x120"}, 65, {"spanprof_ready": "1x59 0x3 1x117"}),
    "SpanprofLosesSamples": ({LOST % "stop": "0x59 0+60x120"}, 72,
                             {LOST % "stop": "0x59 0+3x120", LOST % "not_target": "0x59 0+300x120",
                              "spanprof_ticks_total": "0+600x59 35400+900x120"}),
    "SpanprofExportStalled": ({"spanprof_export_age_seconds": "1x59 0+60x120", "spanprof_export_queue_samples": "0x59 60+60x120"},
                              76, {"spanprof_export_age_seconds": "1x59 0+60x120",
                                   "spanprof_export_queue_samples": "0x180"}),
    "SpanprofExportRefused": ({LOST % "export_refused": "0x59 0 5x120"}, 61, {LOST % "too_old": "0x59 0 5x120"}),
    "SpanprofSlowed": ({'spanprof_frequency_changes_total{direction="lowered"}': "0x59 0 1x120"}, 61,
                       {'spanprof_frequency_changes_total{direction="raised"}': "0x59 0 1x120"}),
    "SpanprofSpoolUnused": ({"spanprof_spools_unusable": "0x59 1x120"}, 65, {"spanprof_spools_unusable": "0x59 1x3 0x117"}),
    "SpanprofKernelFileHidden": ({KALLSYMS: "1x59 0x120"}, 65, {KALLSYMS: "1x59 0x3 1x117"}),
    "SpanprofReloadRefused": ({'spanprof_reloads_total{result="refused"}': "0x59 0 1x120"}, 61,
                              {'spanprof_reloads_total{result="applied"}': "0x59 0 1x120"}),
    "SpanprofPaused": ({"spanprof_paused": "0x59 1x120"}, 120, {"spanprof_paused": "0x59 1x55 0x65"}),
    "SpanprofRestarts": ({"process_start_time_seconds": "1x59 2 3 4 5x120"}, 63, {"process_start_time_seconds": "1x59 2 3 4x120"}),
    "SpanprofRingFull": ({LOST % "ring_full": "0x59 0+60x5 300x120"}, 62, {LOST % "ring_full": "0x59 0+3x120"}),
    "SpanprofSpoolFull": ({LOST % "spool_full": "0x59 0 5x120"}, 61, {LOST % "spool_corrupt": "0x59 0 5x120"}),
    "SpanprofSpoolFailing": ({"spanprof_spool_errors_total": "0x59 0 1x120"}, 61, {"spanprof_spool_errors_total": "7x120"}),
    "SpanprofPausedForMemory": ({'spanprof_pauses_total{reason="memory"}': "0x59 0 1x120"}, 61,
                                {'spanprof_pauses_total{reason="command"}': "0x59 0 1x120"}),
    "SpanprofSpoolNearlyFull": ({SPOOL_BYTES: "0x59 81x120", SPOOL_MAX: "100x180"}, 65,
                                {SPOOL_BYTES: "0x59 79x120", SPOOL_MAX: "100x180"}),
    "SpanprofCoverage": ({"spanprof_ticks_total": "0+600x59 35400+300x120"}, 80,
                         {"spanprof_ticks_total": "0+600x59 35400+500x120"}),
    "SpanprofCertificate": ({CERTIFICATE: f"{14 * DAY + 60 * 60 + 1}x180"}, 121, {CERTIFICATE: f"{15 * DAY}x180"}),
    "SpanprofTargetsCrash": ({'spanprof_crashes_total{event="seen"}': "0x59 0 1x120"}, 61,
                             {'spanprof_crashes_total{event="not_target"}': "0x59 0 1x120"}),
    "SpanprofRecorderFull": ({'spanprof_recorder_windows_total{event="over_cap"}': "0x59 0 1x120"}, 61,
                             {'spanprof_recorder_windows_total{event="aged"}': "0x59 0 1x120"}),
    "SpanprofBuildSlower": ({'spanprof_watch_builds_total{result="slower"}': "0x59 0 1x120"}, 61,
                            {'spanprof_watch_builds_total{result="compared"}': "0x59 0 1x120"}),
    "SpanprofBoostCut": ({'spanprof_boosts_total{event="cut"}': "0x59 0 1x120"}, 61,
                         {'spanprof_boosts_total{event="refused"}': "0x59 0 1x120"}),
    "SpanprofOperationAllocates": ({ALLOCATED: "0+600000000x59 35400000000+6000000000000x120"}, 76,
                                   {ALLOCATED: "0+600000000x59 35400000000+1200000000x120"}),
}
# what the same fault sets off, too
TOGETHER = {"SpanprofRingFull": {"SpanprofLosesSamples"}}


def write(instance, name, labels, values):
    """A series, with the labels that Prometheus adds."""
    inside = ",".join(f'{k}="{v}"' for k, v in {"instance": instance, "job": "spanprof", **dict(labels)}.items())
    return f"{name}{{{inside}}} {values}"


class Case(session.TestCase):
    def setUp(self):
        if not (tap.BUILD_DIR / "alerts").exists():
            done = subprocess.run(["sh", SETUP, tap.BUILD_DIR], capture_output=True, text=True)
            if done.returncode:
                tap.skip(f"machine: no engine of rules: {done.stderr.strip().splitlines()[-1]}")

    def judge(self, series):
        done = self.run_command([tap.BUILD_DIR / "alerts", RULES], expect=0, stdin=None, input="\n".join(series))
        return json.loads(done.stdout)

    def begin(self, *options, **more):
        self.socket = self.directory() / "control.sock"
        self.running = self.victim("chain", 5)
        return self.start("--control", self.socket, "-p", self.running.pid, *options, **more)

    def page(self):
        """What it serves now."""
        return prometheus.parse(ask(Unix(self.socket), "/metrics")[1])

    def count(self, name, **labels):
        return prometheus.value(self.page(), name, **labels)


class Made(Certificates, Case):
    def healthy(self):
        """The page of a daemon with two receivers, one by TLS and one with a spool that has something in it."""
        configuration = self.directory() / "spanprof.conf"
        configuration.write_text(
            f"[export tls]\nendpoint = https://localhost:9\ncertificate = {self.path('ours.pem')}\n"
            f"client-certificate = {self.path('client.pem')}\nclient-key = {self.path('client.key')}\n"
            f"[export away]\nendpoint = http://127.0.0.1:9\nspool = {self.directory() / 'spool'}\n")
        run = self.begin("--config", configuration)
        run.wait_events(5)
        page = self.page()
        run.child.kill()
        self.assertEqual(page["spanprof_ready"].samples[()], 1)
        return page

    def series(self, page, instance, changes=None):
        """Series of the page that rules or @changes name, for MINUTES: a daemon at work, and @changes to it."""
        changes = dict(changes or {})
        lines = [write(instance, "up", (), changes.pop("up", f"1x{MINUTES}"))]
        if ALLOCATED in changes:
            name, labels = prometheus.SAMPLE.match(ALLOCATED + " 0").group(1, 2)
            lines.append(write(instance, name, prometheus.labels_of(labels), changes.pop(ALLOCATED)))
        named = RULES.read_text() + " ".join(changes)
        for name, family in page.items():
            if name not in named:
                continue
            for labels, value in family.samples.items():
                values = f"{value:.15g}x{MINUTES}"
                if name in HEALTHY:
                    values = f"0+{HEALTHY[name]}x{MINUTES}"
                elif name == "spanprof_certificate_end_seconds":
                    values = f"{30 * DAY}x{MINUTES}"    # the engine's clock begins at 0
                elif family.type == "counter":
                    values = f"0x{MINUTES}"
                for change in list(changes):
                    if prometheus.SAMPLE.match(change + " 0")[1] == name and \
                       prometheus.labels_of(prometheus.SAMPLE.match(change + " 0")[2]) == labels:
                        values = changes.pop(change)
                lines.append(write(instance, name, labels, values))
        self.assertEqual(changes, {}, "a daemon does not serve these")
        return lines

    def test_each_fires_when_it_must_and_is_silent_when_it_must(self):
        alerts = set(re.findall(r"^      - alert: (\w+)", RULES.read_text(), re.M))
        self.assertEqual(alerts, set(FAULTS))
        page = self.healthy()
        lines = self.series(page, "healthy")
        for alert, (fault, _, harmless) in FAULTS.items():
            lines += self.series(page, alert, fault) + self.series(page, "near " + alert, harmless)
        fired = self.judge(lines)
        for alert, (_, minute, _) in FAULTS.items():
            with self.subTest(alert=alert):
                there = [entry for entry in fired if entry["labels"]["instance"] == alert]
                self.assertEqual({entry["alert"] for entry in there} - TOGETHER.get(alert, set()), {alert})
                mine = [entry for entry in there if entry["alert"] == alert]
                self.assertEqual(mine[0]["minute"], minute)
                for entry in mine:
                    self.assertIn(entry["labels"]["severity"], ("info", "warning", "critical"))
                    self.assertIn(alert, entry["annotations"]["summary"])
                    self.assertNotIn("<no value>", entry["annotations"]["summary"])
        self.assertEqual([entry for entry in fired if entry["labels"]["instance"] not in FAULTS], [])


class Real(Certificates, Case):
    """Pages before and after a real fault, as Prometheus would have scraped them."""

    def history(self, *parts):
        """Series of some pages: each is (page, or None where nothing answered; minutes)."""
        lines = [write("node", "up", (), " ".join(f"{int(page is not None)}x{n - 1}" for page, n in parts))]
        pages = [page for page, _ in parts if page]
        keys = {(name, labels) for page in pages for name in page for labels in page[name].samples}
        now = time.time()
        for name, labels in sorted(keys):
            values = []
            for page, n in parts:
                value = page and name in page and page[name].samples.get(labels)
                if value is None or value is False:
                    values.append(f"_x{n}")
                    continue
                value -= now if name == "spanprof_certificate_end_seconds" else 0
                values.append(f"{value:.15g}x{n - 1}")
            lines.append(write("node", name, labels, " ".join(values)))
        return lines

    def assert_fires(self, alert, *parts, **more):
        """It does, and it did not before the last part."""
        fired = [entry for entry in self.judge(self.history(*parts)) if entry["alert"] == alert]
        self.assertTrue(fired, alert)
        self.assertGreaterEqual(fired[0]["minute"], sum(n for _, n in parts[:-1]))
        for name, value in more.items():
            self.assertEqual(fired[0]["labels"][name], value)

    def test_a_reload_that_is_refused(self):
        configuration = self.directory() / "spanprof.conf"
        configuration.write_text("[sampling]\nfrequency = 99\n")
        run = self.begin("--config", configuration)
        before = self.page()
        configuration.write_text("[sampling]\nfrequency = often\n")
        run.child.process.send_signal(signal.SIGHUP)
        tap.wait_until(lambda: self.count("spanprof_reloads_total", result="refused"), "a refusal")
        self.assert_fires("SpanprofReloadRefused", (before, 10), (self.page(), 5))
        run.stop()

    def test_a_receiver_that_refuses(self):
        server = fault_server.Server([fault_server.status(400)])
        self.addCleanup(server.close)
        run = self.begin(endpoint=server.url(""))
        before = self.page()
        tap.wait_until(lambda: self.count("spanprof_lost_total", reason="export_refused") >
                       prometheus.value(before, "spanprof_lost_total", reason="export_refused"), "refusals")
        self.assert_fires("SpanprofExportRefused", (before, 10), (self.page(), 5))
        run.child.kill()

    def test_a_pause_that_somebody_forgot(self):
        run = self.begin()
        before = self.page()
        self.spanprof("pause", "--control", self.socket)
        self.assert_fires("SpanprofPaused", (before, 10), (self.page(), 70))
        run.stop()

    def test_a_spool_that_cannot_be_used(self):
        run = self.begin(environment={"STATE_DIRECTORY": "/proc/1"})
        self.assert_fires("SpanprofSpoolUnused", (self.page(), 10))
        run.stop()

    def test_a_sandbox_that_hides_names_of_the_kernel(self):
        run = self.begin(prefix=["unshare", "--mount", "--propagation", "private", "sh", "-c",
                                 'mount --bind /dev/null /proc/kallsyms && exec "$@"', "sh"])
        self.assert_fires("SpanprofKernelFileHidden", (self.page(), 10), file="kallsyms")
        run.stop()

    def test_too_little_memory_and_too_little_cpu_time(self):
        run = self.begin("--max-memory", "1MiB", ready=False)
        tap.wait_until(lambda: os.path.exists(self.socket), "its socket")
        before = {**self.page()}
        before["spanprof_pauses_total"] = prometheus.Family("counter", "", {
            labels: 0 for labels in before["spanprof_pauses_total"].samples})   # a scrape before its first look at itself
        tap.wait_until(lambda: self.count("spanprof_pauses_total", reason="memory"), "a pause")
        self.assert_fires("SpanprofPausedForMemory", (before, 10), (self.page(), 5))
        run.stop()

        run = self.begin("--max-cpu", 1, "--frequency", 8000, "--all")
        before = self.page()
        tap.wait_until(lambda: self.count("spanprof_frequency_changes_total", direction="lowered") >
                       prometheus.value(before, "spanprof_frequency_changes_total", direction="lowered"), "a lower rate")
        self.assert_fires("SpanprofSlowed", (before, 10), (self.page(), 5))
        run.stop(check=False)

    def test_a_spool_that_fills(self):
        run = self.begin("--frequency", 8000, "--spool", self.directory() / "spool", "--spool-max-bytes", "1MiB",
                         "--all", endpoint="http://127.0.0.1:9")
        before = self.page()

        def nearly():
            page = self.page()
            value = lambda what: prometheus.value(page, f"spanprof_receiver_spool_{what}", receiver="[export]")
            return value("bytes") > 0.8 * value("max_bytes") and page

        page = tap.wait_until(nearly, "a spool that is nearly full", 300)
        self.assert_fires("SpanprofSpoolNearlyFull", (before, 10), (page, 10), receiver="[export]")
        tap.wait_until(lambda: self.count("spanprof_lost_total", reason="spool_full"), "a full spool", 300)
        self.assert_fires("SpanprofSpoolFull", (before, 10), (self.page(), 5))
        run.child.kill()

    def test_a_daemon_that_is_held_up(self):
        run = self.begin("--frequency", 8000, "--all")
        run.wait_events(20)
        before = self.page()
        run.child.process.send_signal(signal.SIGSTOP)
        try:
            session.wait_cpu([self.running.pid], 4)
        finally:
            run.child.process.send_signal(signal.SIGCONT)
        tap.wait_until(lambda: self.count("spanprof_lost_total", reason="ring_full"), "a full ring")
        self.assert_fires("SpanprofRingFull", (before, 10), (self.page(), 5))
        run.stop(check=False)

    def test_a_daemon_that_starts_again_and_again(self):
        parts = []
        for _ in range(5):
            run = self.begin()
            parts += [(self.page(), 3), (None, 1)]
            run.stop(signal.SIGKILL, check=False)
            time.sleep(0.02)        # the kernel counts starts in hundredths of a second
        self.assert_fires("SpanprofRestarts", *parts[:-1])
        self.assert_fires("SpanprofDown", parts[0], (None, 10))

    def test_a_certificate_that_ends_soon(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        server.socket = self.server_context().wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        run = self.begin("--certificate", self.path("ours.pem"), endpoint=f"https://localhost:{server.server_port}")
        tap.wait_until(lambda: "spanprof_certificate_end_seconds" in self.page(), "when certificates end")
        self.assert_fires("SpanprofCertificate", (self.page(), 70))
        run.child.kill()


tap.main()
