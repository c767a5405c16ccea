#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Receivers behind TLS, whose certificates are right or wrong, and ours for them. A wrong one is tried again:
the rollout mends it, and nothing is lost where there is a spool."""
import tap
from certificates import Certificates
from export_case import DELIVERED, EVENTS, ExportCase
from fault_server import ok, raw
from spool_case import SpoolCase


class Served(Certificates):
    def tls_server(self, *plays, ask=False, certificate="server"):
        return self.serve(*plays, context=self.server_context(certificate, ask))


class Tls(Served, ExportCase):
    def assert_tried_again(self, outcome):
        """It was, and what a process without a spool still had at its end is lost by the stop."""
        self.assertIn("next try in", outcome.log)
        self.assert_lost(outcome, "stop")

    def test_a_receiver_signed_by_our_authority_is_trusted(self):
        server = self.tls_server(ok())
        self.assert_delivered(self.drive(server.url(host="localhost"), ca=self.path("ours.pem"), batches=3),
                              3 * EVENTS)
        self.assertEqual(server.n_connections, 1)

    def test_a_receiver_signed_by_another_gets_nothing(self):
        server = self.tls_server(ok())
        outcome = self.drive(server.url(host="localhost"), ca=self.path("other.pem"), retries=1)
        self.assert_tried_again(outcome)
        self.assertEqual(server.requests, [])
        self.assertIn("OTEL_EXPORTER_OTLP_CERTIFICATE", outcome.log)

    def test_a_receiver_of_another_name_gets_nothing(self):
        server = self.tls_server(ok())
        self.assert_tried_again(self.drive(server.url(host="127.0.0.1"), ca=self.path("ours.pem"), retries=1))
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
        server = self.tls_server(ok(), certificate="expired")
        outcome = self.drive(server.url(host="localhost"), ca=self.path("ours.pem"), retries=1)
        self.assert_tried_again(outcome)
        self.assertEqual(server.requests, [])
        self.assertIn("expired", outcome.log)

    def test_a_missing_authority_file_is_said(self):
        server = self.tls_server(ok())
        outcome = self.drive(server.url(host="localhost"), ca=self.path("no-such-file.pem"), retries=1)
        self.assert_tried_again(outcome)
        self.assertIn("no-such-file.pem", outcome.log)

    def test_a_client_certificate_is_shown(self):
        server = self.tls_server(ok(), ask=True)
        self.assert_delivered(self.drive(server.url(host="localhost"), ca=self.path("ours.pem"),
                                         cert=self.path("client.pem"), key=self.path("client.key")))

    def test_a_refused_client_certificate_is_tried_again(self):
        server = self.tls_server(ok(), ask=True)
        for options in ({}, {"cert": self.path("stranger.pem"), "key": self.path("stranger.key")}):
            outcome = self.drive(server.url(host="localhost"), ca=self.path("ours.pem"), retries=1, **options)
            self.assert_tried_again(outcome)
            self.assertEqual(server.requests, [])

    def test_plain_http_behind_https_is_tried_again(self):
        server = self.serve(raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
                            before=lambda c: c.sendall(b"HTTP/1.1 400 Bad\r\n\r\n") or True)
        outcome = self.drive(f"https://localhost:{server.port}/x", ca=self.path("ours.pem"), retries=1)
        self.assert_tried_again(outcome)
        self.assertIn("http://", outcome.log)


class TlsAndSpool(Served, SpoolCase):
    def test_what_no_certificate_let_through_is_delivered_after_it_was_mended(self):
        server = self.tls_server(ok())
        values = self.drive(server.url(host="localhost"), ca=self.path("other.pem"), batches=3, spooled=3)
        self.assertEqual([name for name in values if name.startswith("lost_total")], [])
        self.assertEqual((len(self.files()), server.requests), (3, []))
        values = self.drive(server.url(host="localhost"), ca=self.path("ours.pem"), batches=0, drained=1)
        self.assertEqual((self.files(), values[DELIVERED]), ([], 3 * EVENTS))
        self.assertEqual(server.markers(), ["batch-0", "batch-1", "batch-2"])

    def test_what_another_program_answered_is_kept(self):
        server = self.serve(raw(b"220 mail.example ESMTP\r\n"))
        values = self.drive(server.url(), batches=2, spooled=2)
        self.assertEqual([name for name in values if name.startswith("lost_total")], [])
        self.drain()


tap.main()
