#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Receivers behind TLS, whose certificates are right or wrong, and ours for them."""
import ssl
import subprocess
import tempfile

import tap
from export_case import EVENTS, ExportCase
from fault_server import ok, raw


class Tls(ExportCase):
    """Certificates are made here, so that none can run out."""

    @classmethod
    def setUpClass(cls):
        tap.need_tool("openssl")
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        for ca in ("ours", "other"):
            cls.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-subj", f"/CN={ca}", "-keyout", cls.path(f"{ca}.key"), "-out",
                        cls.path(f"{ca}.pem"), "-days", "2")
        for name, ca in (("server", "ours"), ("client", "ours"), ("stranger", "other")):
            cls.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        f"/CN={name}", "-addext", "subjectAltName=DNS:localhost", "-keyout",
                        cls.path(f"{name}.key"), "-out", cls.path(f"{name}.csr"))
            cls.openssl("x509", "-req", "-in", cls.path(f"{name}.csr"), "-CA", cls.path(f"{ca}.pem"),
                        "-CAkey", cls.path(f"{ca}.key"), "-copy_extensions", "copy", "-days", "2",
                        "-out", cls.path(f"{name}.pem"))

    @classmethod
    def path(cls, name):
        return f"{cls.temporary.name}/{name}"

    @staticmethod
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    def tls_server(self, *plays, ask=False):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path("server.pem"), self.path("server.key"))
        if ask:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.path("ours.pem"))
        return self.serve(*plays, context=context)

    def test_a_receiver_signed_by_our_authority_is_trusted(self):
        server = self.tls_server(ok())
        self.assert_delivered(self.drive(server.url(host="localhost"), ca=self.path("ours.pem"), batches=3),
                              3 * EVENTS)
        self.assertEqual(server.n_connections, 1)

    def test_a_receiver_signed_by_another_gets_nothing(self):
        server = self.tls_server(ok())
        outcome = self.drive(server.url(host="localhost"), ca=self.path("other.pem"))
        self.assert_lost(outcome, "export_refused")
        self.assertEqual(server.requests, [])
        self.assertIn("OTEL_EXPORTER_OTLP_CERTIFICATE", outcome.log)

    def test_a_receiver_of_another_name_gets_nothing(self):
        server = self.tls_server(ok())
        self.assert_lost(self.drive(server.url(host="127.0.0.1"), ca=self.path("ours.pem")), "export_refused")
        self.assertEqual(server.requests, [])

    def test_a_receiver_whose_certificate_has_run_out_gets_nothing(self):
        with open(self.path("ca.cnf"), "w") as file:
            file.write(
                f"[ca]\ndefault_ca = d\n[d]\ndatabase = {self.path('index')}\nnew_certs_dir = {self.temporary.name}\n"
                f"rand_serial = yes\ndefault_md = sha256\npolicy = p\ncopy_extensions = copy\n[p]\ncommonName = supplied\n"
            )
        open(self.path("index"), "w").close()
        self.openssl("ca", "-batch", "-notext", "-config", self.path("ca.cnf"),
                     "-in", self.path("server.csr"), "-cert", self.path("ours.pem"), "-keyfile",
                     self.path("ours.key"), "-startdate", "20200101000000Z", "-enddate", "20200102000000Z",
                     "-out", self.path("expired.pem"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path("expired.pem"), self.path("server.key"))
        server = self.serve(ok(), context=context)
        outcome = self.drive(server.url(host="localhost"), ca=self.path("ours.pem"))
        self.assert_lost(outcome, "export_refused")
        self.assertEqual(server.requests, [])
        self.assertIn("expired", outcome.log)

    def test_a_missing_authority_file_is_said(self):
        server = self.tls_server(ok())
        outcome = self.drive(server.url(host="localhost"), ca=self.path("no-such-file.pem"))
        self.assert_lost(outcome, "export_refused")
        self.assertIn("no-such-file.pem", outcome.log)

    def test_a_client_certificate_is_shown(self):
        server = self.tls_server(ok(), ask=True)
        self.assert_delivered(self.drive(server.url(host="localhost"), ca=self.path("ours.pem"),
                                         cert=self.path("client.pem"), key=self.path("client.key")))

    def test_a_refused_client_certificate_is_no_passing_fault(self):
        server = self.tls_server(ok(), ask=True)
        for options in ({}, {"cert": self.path("stranger.pem"), "key": self.path("stranger.key")}):
            outcome = self.drive(server.url(host="localhost"), ca=self.path("ours.pem"), **options)
            self.assert_lost(outcome, "export_refused")
            self.assertEqual(server.requests, [])

    def test_plain_http_behind_https_is_no_passing_fault(self):
        server = self.serve(raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
                            before=lambda c: c.sendall(b"HTTP/1.1 400 Bad\r\n\r\n") or True)
        outcome = self.drive(f"https://localhost:{server.port}/x", ca=self.path("ours.pem"))
        self.assert_lost(outcome, "export_refused")
        self.assertIn("http://", outcome.log)


tap.main()
