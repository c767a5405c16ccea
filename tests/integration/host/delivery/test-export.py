#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays every trouble that a receiver can make to the exporter, and checks that the counters tell exactly
what happened.

The rule behind all cases: samples submitted = delivered + lost, each batch in one counter, and a batch
arrives twice only where the first answer was lost or said to try again.
"""
import email.utils
import gzip
import json
import os
import time

import tap
from export_case import DELIVERED, DROPPED, DRIVER, EVENTS, ExportCase, OK, RETRY, SENT, lost
from fault_server import close, closed_port, cut_by_reset, drip, hang, ok, raw, reply, reset, slow, status

# HTTP/2: SETTINGS, then GOAWAY with PROTOCOL_ERROR (RFC 9113, 6.5 and 6.8): what a gRPC server says to
# HTTP/1.1
GRPC = bytes.fromhex("000000040000000000" "000008070000000000" "0000000000000001")


class Request(ExportCase):
    def test_is_what_the_specification_asks_for(self):
        server = self.serve(ok())
        outcome = self.drive(server.url("/base/v1development/profiles?q=1"),
                             headers="api-key=a%20b%2Cc,X-Empty=")
        self.assert_delivered(outcome)
        (request,) = server.requests
        self.assertEqual((request.method, request.path), ("POST", "/base/v1development/profiles?q=1"))
        self.assertEqual(request.headers["Content-Type"], "application/x-protobuf")
        self.assertEqual(request.headers["Content-Encoding"], "gzip")
        self.assertRegex(request.headers["User-Agent"], r"^spanprof/([\d.]+) OTel-OTLP-Exporter-C/\1$")
        self.assertEqual(request.headers["api-key"], "a b,c")
        self.assertEqual(request.headers["X-Empty"], "")
        self.assertIsNone(request.headers["Expect"])
        self.assertIsNone(request.headers["Accept-Encoding"])
        self.assertEqual(request.marker, "batch-0")
        self.assertEqual(outcome["export_bytes_total{}"], len(request.raw))

    def test_is_plain_without_compression(self):
        server = self.serve(ok())
        self.assert_delivered(self.drive(server.url(), gzip=0))
        self.assertIsNone(server.requests[0].headers["Content-Encoding"])
        self.assertEqual(server.requests[0].marker, "batch-0")

    def test_is_json_when_that_is_asked_for(self):
        server = self.serve(
            ok(b'{"partialSuccess":{"rejectedProfiles":"1","errorMessage":"odd"}}', "application/json"))
        outcome = self.drive(server.url(), json=1, profiles=4, events=10)
        (request,) = server.requests
        self.assertEqual(request.headers["Content-Type"], "application/json")
        self.assertEqual(request.headers["Content-Encoding"], "gzip")
        self.assertEqual(json.loads(request.body)["dictionary"]["stringTable"][0], "batch-0")
        self.assert_lost(outcome, "export_rejected", 3)

    def test_goes_over_a_socket_of_this_machine(self):
        for where, path in (("", "/"), (":/a/v1development/profiles", "/a/v1development/profiles")):
            socket_path = self.directory() / "collector.sock"
            server = self.serve(ok(), path=socket_path)
            self.assert_delivered(self.drive(f"unix:{socket_path}{where}", batches=3), 3 * EVENTS)
            self.assertEqual([request.path for request in server.requests], [path] * 3)
            self.assertEqual(server.requests[0].headers["Host"], "localhost")
            self.assertEqual(server.n_connections, 1)

    def test_waits_for_a_socket_that_is_not_there(self):
        outcome = self.drive(f"unix:{self.directory()}/none.sock", retries=2)
        self.assert_lost(outcome, "stop")

    def test_goes_over_one_connection_and_in_order(self):
        server = self.serve(ok(b"\x0a\x00"))
        self.assert_delivered(self.drive(server.url(), batches=50), 50 * EVENTS)
        self.assertEqual(server.markers(), [f"batch-{i}" for i in range(50)])
        self.assertEqual(server.n_connections, 1)

    def test_may_be_several_megabytes(self):
        server = self.serve(ok())
        self.assert_delivered(self.drive(server.url(), padding=3 << 20))
        self.assertGreater(len(server.requests[0].raw), 3 << 20)

    def test_takes_the_proxy_of_the_environment(self):
        proxy = self.serve(ok())
        self.assert_delivered(
            self.drive("http://collector.invalid:4318/x", {"http_proxy": f"http://127.0.0.1:{proxy.port}"}))
        self.assertEqual(proxy.requests[0].path, "http://collector.invalid:4318/x")

    def test_goes_past_the_proxy_where_the_environment_says_so(self):
        server, proxy = self.serve(ok()), self.serve(ok())
        environment = {
            "http_proxy": f"http://127.0.0.1:{proxy.port}", "no_proxy": "collector.example,127.0.0.1"
        }
        self.assert_delivered(self.drive(server.url(), environment))
        self.assertEqual((len(server.requests), len(proxy.requests)), (1, 0))

    def test_of_tls_asks_the_proxy_for_a_way_through(self):
        asked = []

        def refuse(connection):
            asked.append(connection.recv(65536).split(b"\r\n")[0])
            connection.sendall(b"HTTP/1.1 502 No way\r\nContent-Length: 0\r\n\r\n")
            return True

        proxy = self.serve(ok(), before=refuse)
        outcome = self.drive("https://collector.invalid:4318/x",
                             {"https_proxy": f"http://127.0.0.1:{proxy.port}"}, retries=1)
        self.assertEqual(asked[0], b"CONNECT collector.invalid:4318 HTTP/1.1")
        self.assertEqual(sum(outcome.lost().values()), EVENTS)

    def test_is_not_made_for_an_endpoint_or_headers_that_cannot_be(self):
        for arguments, expected in ([["localhost:4318"], 1], [["http://h", "--headers", "a=%0d%0ab: c"], 2]):
            done = self.run_command([DRIVER, *arguments], expect=3)
            self.assertIn(f"exporter_new {expected}", done.stdout)
            self.assertRegex(done.stderr, r"^spanprof: export: .")


class Refusal(ExportCase):
    def check(self, code, *words):
        server = self.serve(status(code))
        outcome = self.drive(server.url(), batches=3)
        self.assert_lost(outcome, "export_refused", 3 * EVENTS)
        self.assertEqual(server.markers(), ["batch-0", "batch-1", "batch-2"], "each is tried once")
        self.assertEqual(outcome.log.count("\n"), 1, "one line a minute for one kind of trouble")
        for word in (f"answered {code}", "played by the test", *words):
            self.assertIn(word, outcome.log)

    def test_400_drops_the_batch(self):
        self.check(400)

    def test_401_points_to_the_headers(self):
        self.check(401, "OTEL_EXPORTER_OTLP_HEADERS")

    def test_403_points_to_the_headers(self):
        self.check(403, "OTEL_EXPORTER_OTLP_HEADERS")

    def test_404_names_the_feature_gate(self):
        self.check(404, "service.profilesSupport")

    def test_413_drops_the_batch(self):
        self.check(413, "limit")

    def test_500_drops_the_batch(self):
        self.check(500)

    def test_a_redirect_is_not_followed(self):
        other = self.serve(ok())
        server = self.serve(reply(307, [("Location", other.url("/elsewhere?key=secret"))]))
        outcome = self.drive(server.url())
        self.assert_lost(outcome, "export_refused")
        self.assertEqual(other.requests, [])
        self.assertIn(f"set the endpoint to {other.url('/elsewhere')}", outcome.log)
        self.assertNotIn("secret", outcome.log)

    def test_shows_plain_text_and_json_and_survives_garbage(self):
        for content_type, body, shown in (
            ("text/plain", b"no such\ntenant\n", '"no such tenant"'),
            ("application/json", b'{"code":3,"message":"bad \\"id\\""}', '"bad "id""'),
            ("application/x-protobuf", b"\xff\xfe\x00\x01" * 100, "answered 400;"),
        ):
            server = self.serve(reply(400, [("Content-Type", content_type)], body))
            outcome = self.drive(server.url())
            self.assert_lost(outcome, "export_refused")
            self.assertIn(shown, outcome.log)

    def test_the_next_batch_has_its_own_chance(self):
        server = self.serve(status(400), ok())
        outcome = self.drive(server.url(), batches=2)
        self.assert_lost(outcome, "export_refused")
        self.assertEqual(outcome[DELIVERED], EVENTS)


class Retry(ExportCase):
    def check(self, *plays, n=1, requests=None, **options):
        server = self.serve(*plays)
        outcome = self.drive(server.url(), **options)
        self.assert_delivered(outcome)
        self.assertEqual(server.markers(), ["batch-0"] * (n + 1) if requests is None else requests)
        self.assertEqual((outcome[RETRY], outcome[SENT], outcome[OK]), (n, n + 1, 1))
        self.assertIn("takes samples again", outcome.log)
        return server, outcome

    def test_429_is_tried_again(self):
        self.check(status(429), ok())

    def test_502_503_and_504_are_tried_again(self):
        self.check(status(502), status(503), status(504), ok(), n=3)

    def test_a_wait_is_as_long_as_retry_after_says(self):
        server, _ = self.check(status(429, headers=[("Retry-After", "1")]), ok())
        self.assertGreaterEqual(server.requests[1].time - server.requests[0].time, 0.99)

    def test_a_wait_is_until_the_date_that_retry_after_says(self):
        def play(*where):
            date = email.utils.formatdate(time.time() + 3, usegmt=True)
            return status(429, headers=[("Retry-After", date)])(*where)

        server, _ = self.check(play, ok())
        self.assertGreaterEqual(server.requests[1].time - server.requests[0].time, 0.99)

    def test_garbage_in_retry_after_means_our_own_wait(self):
        for garbage in ("tomorrow, maybe", "", "-5", "1.5", "0x10", "Sun, 32 Foo 2099 99:99:99 GMT",
                        "\x01\xff" * 100):
            with self.subTest(garbage):
                self.check(status(429, headers=[("Retry-After", garbage)]), ok())

    def test_a_huge_retry_after_keeps_the_batch_and_stop_tries_once_more(self):
        for huge in ("9" * 40, "18446744073709551617", "Sun, 06 Nov 9994 08:49:37 GMT"):
            with self.subTest(huge):
                server = self.serve(status(429, headers=[("Retry-After", huge)]), ok())
                outcome = self.drive(server.url(), retries=1)
                self.assert_delivered(outcome)
                self.assertEqual(server.markers(), ["batch-0"] * 2)
                self.assertIn("next try in 3600.0 s", outcome.log)

    def test_a_connection_closed_without_a_reply_is_tried_again(self):
        self.check(close, ok())

    def test_a_reset_is_tried_again(self):
        self.check(reset, ok())

    def test_half_a_status_line_is_tried_again(self):
        self.check(raw(b"HTTP/1.1 2"), ok())

    def test_a_hang_past_the_timeout_is_tried_again(self):
        _, outcome = self.check(hang, ok(), timeout_ms=200)
        self.assertRegex(outcome.log, r"(?i)timed out|timeout")

    def test_a_slow_reply_within_the_timeout_is_waited_for(self):
        server = self.serve(slow(0.5, ok()))
        self.assert_delivered(self.drive(server.url()))
        self.assertEqual(len(server.requests), 1)

    def test_a_reply_in_single_bytes_is_put_together(self):
        server = self.serve(drip(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\x0a\x00", 0.005))
        self.assert_delivered(self.drive(server.url()))

    def test_a_reply_of_one_byte_a_second_is_waited_for_as_long_as_the_timeout(self):
        slowly = drip(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\x0a\x00", 1)
        _, outcome = self.check(slowly, ok(), timeout_ms=1500)
        self.assertRegex(outcome.log, r"(?i)timed out|timeout")

    def test_a_status_with_a_body_of_one_byte_a_second_is_a_success(self):
        """The status is there: what comes too late is only what the receiver has to say."""
        def play(connection, server):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n")
            return drip(b"\x0a\x00" * 20, 1)(connection, server)

        server = self.serve(play, ok())
        self.assert_delivered(self.drive(server.url(), timeout_ms=1500))
        self.assertEqual(len(server.requests), 1)

    def test_a_batch_is_given_up_when_it_is_too_old(self):
        server = self.serve(status(503))
        outcome = self.drive(server.url(), age_ms=100, batches=2)
        self.assert_lost(outcome, "export_age", 2 * EVENTS)
        for marker in ("batch-0", "batch-1"):
            self.assertGreater(server.markers().count(marker), 1, "each has its own time")

    def test_a_reset_in_mid_body_never_wedges_what_comes_behind(self):
        server = self.serve(ok(), read_limit=1 << 20)
        outcome = self.drive(server.url(), padding=4 << 20, queue_bytes=64 << 20, age_ms=100)
        self.assert_lost(outcome, "export_age")
        self.assertEqual(server.requests, [])
        server.read_limit = None
        self.assert_delivered(self.drive(server.url(), padding=4 << 20, queue_bytes=64 << 20))

    def test_a_flapping_receiver_gets_each_batch_once(self):
        plays = [play for i in range(10) for play in ([status(503)] * (i % 3) + [close] * (i % 2) + [ok()])]
        server = self.serve(*plays)
        outcome = self.drive(server.url(), batches=10, retry_ms=5)
        self.assert_delivered(outcome, 10 * EVENTS)
        taken = [
            marker for marker, play in zip(server.markers(), plays)
            if play not in (close, ) and play.__closure__[0].cell_contents[:12] == b"HTTP/1.1 200"
        ]
        self.assertEqual(taken, [f"batch-{i}" for i in range(10)])
        self.assertGreaterEqual(
            outcome[RETRY], 9, "each 503; a connection that closes under a request is curl's own to try anew")

    def test_an_idle_connection_that_the_receiver_closed_costs_nothing(self):
        server = self.serve(ok(keep=False))
        outcome = self.drive(server.url(), batches=5, interval_ms=50)
        self.assert_delivered(outcome, 5 * EVENTS)
        self.assertEqual(server.markers(), [f"batch-{i}" for i in range(5)])


class Unreachable(ExportCase):
    def test_refused_keeps_samples_until_stop(self):
        outcome = self.drive(f"http://127.0.0.1:{closed_port(self)}/x", batches=3, retries=3)
        self.assert_lost(outcome, "stop", 3 * EVENTS)
        self.assertIn("is a receiver running there?", outcome.log)

    def test_a_receiver_that_comes_later_gets_everything(self):
        port = closed_port(self)
        driver = self.spawn([DRIVER, f"http://127.0.0.1:{port}/x", "--batches", 3],
                            env={"PATH": os.environ["PATH"]})
        driver.wait_for("samples wait")
        server = self.serve(ok(), port=port)
        self.assertEqual(driver.wait(), 0)
        self.assertEqual(server.markers(), ["batch-0", "batch-1", "batch-2"])
        self.assertIn(f"{DELIVERED} {3 * EVENTS}\n", driver.out)
        self.assertIn("takes samples again", driver.err)

    def test_a_name_that_does_not_resolve_is_tried_again(self):
        outcome = self.drive("http://collector.invalid:4318/x", retries=2)
        self.assert_lost(outcome, "stop")
        self.assertRegex(outcome.log, r"(?i)resolv")

    def test_a_full_queue_drops_the_oldest_and_counts(self):
        server = self.serve(hang)
        # the first is under way and in no queue; of the other nine, three have room
        outcome = self.drive(server.url(), batches=10, padding=10000, queue_bytes=31000, run_ms=1,
                             stop_ms=1500)
        self.assertEqual(outcome.lost(), {lost("export_queue"): 6 * EVENTS, lost("stop"): 4 * EVENTS})
        self.assertIn("queue is full (31000 bytes)", outcome.log)
        self.assertEqual(server.markers(), ["batch-0"])

    def test_the_newest_survive_a_full_queue(self):
        server = self.serve(slow(0.4, ok()), ok())
        outcome = self.drive(server.url(), batches=10, padding=10000, queue_bytes=31000)
        self.assertEqual(server.markers(), ["batch-0", "batch-7", "batch-8", "batch-9"])
        self.assert_lost(outcome, "export_queue", 6 * EVENTS)

    def test_a_grpc_endpoint_is_told_from_its_frames(self):
        server = self.serve(raw(GRPC))
        outcome = self.drive(server.url(), retries=1)
        self.assert_lost(outcome, "stop")
        self.assertIn("gRPC", outcome.log)
        self.assertIn("port 4318", outcome.log)

    def test_a_grpc_endpoint_that_speaks_first_is_told_too(self):
        def greet(connection):
            connection.sendall(GRPC)
            return True

        server = self.serve(ok(), before=greet)
        outcome = self.drive(server.url(), retries=1)
        self.assertEqual(sum(outcome.lost().values()), EVENTS)
        self.assertRegex(outcome.log, "port 4318|reset|closed|Empty reply")

    def test_a_resolver_that_never_answers_holds_up_nothing(self):
        # the resolver waits for ever: if anything of ours waited for it, this would not end
        environment = {"LD_PRELOAD": str(tap.HARNESS / "libhanging-resolver.so"),
                       "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}
        outcome = self.drive("http://collector.example:4318/x", environment, timeout_ms=100, retries=2)
        self.assert_lost(outcome, "stop")
        self.assertRegex(outcome.log, r"(?i)resolving timed out")


class Success(ExportCase):
    def test_a_partial_success_is_counted_and_never_sent_again(self):
        body = b"\x0a\x0d\x08\x01\x12\x09too  deep"
        server = self.serve(ok(body), ok())
        outcome = self.drive(server.url(), profiles=4, events=10)
        self.assertEqual(len(server.requests), 1)
        self.assert_lost(outcome, "export_rejected", 3)
        self.assertEqual(outcome[DELIVERED], 7)
        self.assertIn("rejected 1 of 4 profiles (3 of 10 samples)", outcome.log)
        self.assertIn("too  deep", outcome.log)

    def test_more_rejections_than_profiles_reject_all_and_not_more(self):
        server = self.serve(ok(b'{"partialSuccess":{"rejectedProfiles":"99"}}', "application/json"))
        self.assert_lost(self.drive(server.url()), "export_rejected")

    def test_a_message_without_rejections_is_a_warning(self):
        server = self.serve(ok(b"\x0a\x0c\x12\x0aold fields"))
        outcome = self.drive(server.url())
        self.assert_delivered(outcome)
        self.assertIn('took the samples and says: "old fields"', outcome.log)

    def test_a_page_for_browsers_is_no_success(self):
        server = self.serve(ok(b"<html>welcome to the hotel</html>", "text/html"),
                            ok(b"<html>" + b" " * (70 << 10), "text/html"),
                            ok(b"welcome", "text/plain"), ok())
        outcome = self.drive(server.url(), batches=4)
        self.assertEqual((outcome[DELIVERED], outcome.lost()), (EVENTS, {lost("not_otlp"): 3 * EVENTS}))
        self.assertEqual((outcome[OK], outcome[DROPPED]), (1, 3))
        self.assertEqual(server.markers(), ["batch-0", "batch-1", "batch-2", "batch-3"])
        self.assertIn("no OTLP response (text/html)", outcome.log)
        self.assertIn("dropped 100 samples", outcome.log)

    def test_a_reply_of_40_megabytes_is_not_read(self):
        server = self.serve(ok(b"\x0a\x00" * (20 << 20)), ok())
        outcome = self.drive(server.url(), batches=2)
        self.assert_delivered(outcome, 2 * EVENTS)
        self.assertEqual(len(server.requests), 2)
        self.assertLess(outcome["end_VmHWM_kib"], outcome["start_VmRSS_kib"] + (20 << 10))

    def test_a_reply_of_5_mebibytes_is_not_read_whatever_its_status(self):
        body = b"\x0a\x00" * (5 << 19)
        server = self.serve(ok(body), reply(503, [], body), ok(), reply(400, [], body), ok())
        outcome = self.drive(server.url(), batches=4)
        self.assertEqual((outcome[DELIVERED], outcome.lost()), (3 * EVENTS, {lost("export_refused"): EVENTS}))
        self.assertEqual(server.markers(), ["batch-0", "batch-1", "batch-1", "batch-2", "batch-3"])
        self.assertLess(outcome["end_VmHWM_kib"], outcome["start_VmRSS_kib"] + (20 << 10))

    def test_a_reply_that_is_reset_in_mid_body_is_not_sent_again(self):
        server = self.serve(cut_by_reset(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n\x0a\x02"), ok())
        outcome = self.drive(server.url(), batches=2)
        self.assert_delivered(outcome, 2 * EVENTS)
        self.assertEqual(server.markers(), ["batch-0", "batch-1"])

    def test_an_error_that_is_cut_off_or_a_bomb_is_what_its_status_says(self):
        bomb = reply(400, [("Content-Type", "application/x-protobuf"), ("Content-Encoding", "gzip")],
                     gzip.compress(bytes(50 << 20)))
        cut = reply(400, [("Content-Type", "application/x-protobuf")], b"\x12\x20half of a mess", length=100,
                    keep=False)
        server = self.serve(bomb, cut, ok())
        outcome = self.drive(server.url(), batches=3)
        self.assertEqual((outcome[DELIVERED], outcome.lost()), (EVENTS, {lost("export_refused"): 2 * EVENTS}))
        self.assertEqual(server.markers(), ["batch-0", "batch-1", "batch-2"])
        self.assertLess(outcome["end_VmHWM_kib"], outcome["start_VmRSS_kib"] + (20 << 10))

    def test_a_compressed_bomb_is_not_expanded(self):
        bomb = gzip.compress(bytes(50 << 20))
        headers = [("Content-Type", "application/x-protobuf"), ("Content-Encoding", "gzip")]
        server = self.serve(reply(200, headers, bomb))
        outcome = self.drive(server.url())
        self.assert_delivered(outcome)
        self.assertIn("cannot be read whole", outcome.log)
        self.assertLess(outcome["end_VmHWM_kib"], outcome["start_VmRSS_kib"] + (20 << 10))

    def test_a_compressed_reply_is_read(self):
        headers = [("Content-Type", "application/x-protobuf"), ("Content-Encoding", "gzip")]
        server = self.serve(reply(200, headers, gzip.compress(b"\x0a\x02\x08\x01")))
        self.assert_lost(self.drive(server.url()), "export_rejected")

    def test_a_reply_that_is_cut_off_is_not_sent_again(self):
        server = self.serve(ok(b"\x0a\x02", length=100, keep=False), ok())
        outcome = self.drive(server.url())
        self.assert_delivered(outcome)
        self.assertEqual(len(server.requests), 1)

    def test_a_status_whose_body_never_comes_is_not_sent_again(self):
        def play(connection, server):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
            return hang(connection, server)

        server = self.serve(play, ok())
        self.assert_delivered(self.drive(server.url(), timeout_ms=300))
        self.assertEqual(len(server.requests), 1)


class Stop(ExportCase):
    def test_sends_what_waits_although_a_retry_is_far_away(self):
        server = self.serve(status(503), ok())
        outcome = self.drive(server.url(), retry_ms=600000, batches=3, retries=1)
        self.assert_delivered(outcome, 3 * EVENTS)
        self.assertEqual(server.markers(), ["batch-0", "batch-0", "batch-1", "batch-2"])

    def test_tries_each_batch_once(self):
        server = self.serve(status(503))
        outcome = self.drive(server.url(), retry_ms=600000, batches=3, retries=1)
        self.assert_lost(outcome, "stop", 3 * EVENTS)
        self.assertEqual(server.markers(), ["batch-0", "batch-0", "batch-1", "batch-2"])

    def test_ends_at_the_deadline_and_counts_what_is_left(self):
        server = self.serve(hang)
        outcome = self.drive(server.url(), timeout_ms=60000, batches=3, run_ms=1, stop_ms=1500)
        self.assert_lost(outcome, "stop", 3 * EVENTS)
        self.assertEqual(server.markers(), ["batch-0"])
        self.assertIn("300 samples in 3 requests could not be sent in the time to stop", outcome.log)

    def test_with_nothing_left_is_at_once(self):
        server = self.serve(ok())
        self.assert_delivered(self.drive(server.url(), stop_ms=600000))


class Dialect(ExportCase):
    """A receiver whose answers mean something else than OTLP says."""

    def test_a_refusal_for_age_has_a_reason_of_its_own(self):
        words = (b"profile with labels '{" + b"x" * 300 + b"}' is outside of ingestion window (profile timestamp: "
                 b"2026-01-01, the ingestion window starts at 2026-01-02)")
        server = self.serve(reply(400, [("Content-Type", "text/plain")], words), status(400), ok())
        outcome = self.drive(server.url(), batches=3, too_old="outside of ingestion window")
        self.assertEqual((outcome[DELIVERED], outcome.lost()),
                         (EVENTS, {lost("too_old"): EVENTS, lost("export_refused"): EVENTS}))

    def test_without_the_words_age_is_a_refusal(self):
        server = self.serve(status(400, b"outside of ingestion window"))
        self.assert_lost(self.drive(server.url()), "export_refused")

    def test_a_500_is_tried_again_while_the_receiver_may_start(self):
        server = self.serve(status(500), status(500), ok())
        outcome = self.drive(server.url(), starting_ms=60000, retry_ms=1)
        self.assert_delivered(outcome)
        self.assertEqual((outcome[RETRY], server.markers()), (2, ["batch-0"] * 3))

    def test_a_500_that_stays_is_a_refusal_in_the_end(self):
        server = self.serve(status(500))
        outcome = self.drive(server.url(), starting_ms=300, retry_ms=50)
        self.assert_lost(outcome, "export_refused")
        self.assertGreater(outcome[RETRY], 1)

    def test_a_tenant_is_a_header_beside_the_others(self):
        server = self.serve(ok())
        self.assert_delivered(self.drive(server.url(), tenant="team-a|b*'(1)", headers="x-a=1"))
        headers = server.requests[0].headers
        self.assertEqual((headers["X-Scope-OrgID"], headers["x-a"]), ("team-a|b*'(1)", "1"))

    def test_an_older_reader_is_named(self):
        for words in ("failed to convert otel profile: sample value is required",
                      "proto: cannot parse invalid wire-format data",
                      "proto:\xa0cannot parse invalid wire-format data"):   # Go writes either, by the program's hash
            server = self.serve(status(400, words.encode()))
            self.assertIn("older version of the protocol", self.drive(server.url()).log)


tap.main()
