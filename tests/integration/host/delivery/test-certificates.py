#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""When certificates end is said before they do: by `doctor`, by a metric for each, by `status`."""
import oracle

oracle.enter()

import datetime
import http.server
import json
import subprocess
import threading

import prometheus
import session
import tap
from certificates import Certificates
from unix_http import Unix, ask


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Case(Certificates, session.TestCase):
    def setUp(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.socket = self.server_context(ask=True).wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.options = ["--certificate", self.path("ours.pem"), "--client-certificate", self.path("client.pem"),
                        "--client-key", self.path("client.key")]
        self.url = f"https://localhost:{server.server_port}"

    def end(self, name):
        """By openssl: seconds since 1970."""
        text = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", self.path(f"{name}.pem")],
                              check=True, capture_output=True, text=True).stdout.strip()
        end = datetime.datetime.strptime(text, "notAfter=%b %d %H:%M:%S %Y GMT")
        return int(end.replace(tzinfo=datetime.timezone.utc).timestamp())

    def first(self):
        """Which of the receiver's chain ends first: its authority's was made before, maybe in the same second."""
        return min(("ours", "server"), key=self.end)

    def day(self, name):
        return datetime.datetime.fromtimestamp(self.end(name), datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S")

    def test_the_doctor_says_the_date_of_each(self):
        done = self.run_command([tap.SPANPROF, "doctor", "--json", "--endpoint", self.url, *self.options],
                                env=session.clean_environment())
        findings = {f["name"]: f for f in json.loads(done.stdout)["checks"]}
        for check, name in (("certificate", "ours"), ("client-certificate", "client"),
                            ("receiver-certificate", self.first())):
            finding = findings[check]
            self.assertEqual(finding["result"], "warn", finding)
            self.assertIn(f"ends {self.day(name)} UTC", finding["text"])
        self.assertIn(f"mv {self.path('client.pem')}.new {self.path('client.pem')}",
                      findings["client-certificate"]["fix"])
        self.assertEqual(findings["endpoint"]["result"], "ok")

    def test_a_file_that_is_no_certificate(self):
        done = self.run_command([tap.SPANPROF, "doctor", "--json", "--endpoint", self.url, "--certificate",
                                 self.path("server.csr")], env=session.clean_environment())
        finding = {f["name"]: f for f in json.loads(done.stdout)["checks"]}["certificate"]
        self.assertEqual(finding["result"], "fail", finding)
        self.assertIn("openssl x509 -in", finding["fix"])

    def test_a_daemon_has_a_metric_for_each(self):
        victim, control = self.victim("chain", 5, rests=True), self.directory() / "control.sock"
        run = self.start("--pid", victim.pid, "--control", control, *self.options, endpoint=self.url)
        wanted = {"authorities": self.end("ours"), "client": self.end("client"), "receiver": self.end(self.first())}

        def ends():
            families = prometheus.parse(ask(Unix(control), "/metrics", "GET")[1])
            try:
                return {name: prometheus.value(families, "spanprof_certificate_end_seconds", certificate=name,
                                               receiver="[export]") for name in wanted}
            except KeyError:
                return None     # the receiver has shown none yet

        tap.wait_until(lambda: ends() == wanted, "the ends of all three")
        status = self.spanprof("status", "--control", control).stdout
        for what, name in (("authorities", "ours"), ("client", "client"), ("receiver", self.first())):
            self.assertRegex(status, rf"certificate  {what} \(https://localhost.*\): ends {self.day(name)} UTC")
        run.stop(check=False)


tap.main()
