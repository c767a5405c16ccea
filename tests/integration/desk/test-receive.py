#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The embedded receiver, spoken to by Python's HTTP client, raw sockets and curl(1), and filled until it is full."""
import concurrent.futures
import contextlib
import gzip
import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import time

import drip
import tap
from fault_server import Server, ok, status
from wire import field

PATH = "/v1development/profiles"
PROTOBUF, JSON = "application/x-protobuf", "application/json"


def a_request(name=b"x", n_samples=3, padding=0):
    """One profile with samples, and a dictionary with @name: field numbers from opentelemetry-proto 1.11."""
    profile = b"".join(field(2, b"\x08\x01") for _ in range(n_samples))
    return field(1, field(2, field(2, profile))) + field(
        2,
        field(5, b"") + field(5, name) + field(5, b"p" * padding))


class Receive(tap.TestCase):
    def receive(self, *arguments, directory=None, **options):
        self.store = directory or self.directory() / "store"
        child = self.spawn([tap.SPANPROF, "receive", "--port", "0", "-o", self.store, *arguments], **options)
        self.port = int(child.wait_for(r"^listening on http://127\.0\.0\.1:(\d+), storing in ").group(1))
        return child

    def post(self, body, content_type=PROTOBUF, path=PATH, method="POST", source="127.0.0.1", **headers):
        """Returns status, headers and body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=tap.PATIENCE,
                                                source_address=(source, 0))
        all_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if content_type:
            all_headers["Content-Type"] = content_type
        try:
            connection.request(method, path, body, all_headers)
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            connection.close()

    def stored(self):
        return sorted(p.name for p in self.store.iterdir())

    def refused(self, code, words, *args, **kwargs):
        """The answer is @code with a google.rpc.Status whose message has @words; nothing is stored."""
        before = self.stored()
        got, headers, body = self.post(*args, **kwargs)
        self.assertEqual(got, code, body)
        self.assertEqual(self.stored(), before)
        if headers["Content-Type"] == JSON:
            message = json.loads(body)["message"]
        else:
            self.assertEqual(headers["Content-Type"], PROTOBUF)
            self.assertEqual((body[0], body[2]), (0x08, 0x12))
            start = 5 if body[3] & 0x80 else 4
            size = body[3] & 0x7F | (body[4] << 7 if start == 5 else 0)
            message = body[start:].decode()
            self.assertEqual(len(message), size)
        self.assertIn(words, message)
        return headers


class Stores(Receive):
    def test_protobuf_plain_and_compressed_byte_by_byte(self):
        child = self.receive()
        first, second = a_request(b"one"), a_request(b"two", 5)
        self.assertEqual(self.post(first)[0], 200)
        got, headers, body = self.post(gzip.compress(second), Content_Encoding="gzip")
        self.assertEqual((got, headers["Content-Type"], body), (200, PROTOBUF, b""))
        self.assertEqual(self.stored(), ["000001.json", "000001.pb", "000002.json", "000002.pb"])
        self.assertEqual((self.store / "000001.pb").read_bytes(), first)
        self.assertEqual((self.store / "000002.pb").read_bytes(), second)
        for name in self.stored():
            self.assertEqual(stat.S_IMODE((self.store / name).stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(self.store.stat().st_mode), 0o700)
        self.assertEqual(child.stop(), 0)
        self.assertRegex(child.out, r"\nreceived 2 requests with 8 samples, stored as 000001 to 000002\n$")

    def test_json_of_what_came_as_protobuf(self):
        self.receive()
        self.post(a_request(b"main"))
        document = json.loads((self.store / "000001.json").read_text())
        self.assertEqual(document["dictionary"]["stringTable"][:2], ["", "main"])
        samples = document["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"]
        self.assertEqual(samples, [{"stackIndex": 1}] * 3)

    def test_protobuf_of_what_came_as_json(self):
        self.receive()
        text = {
            "resourceProfiles": [{"scopeProfiles": [{"profiles": [{"samples": [{"stackIndex": 1}] * 3}]}]}],
            "dictionary": {"stringTable": ["", "main", ""]}
        }
        for body, headers in ((json.dumps(text).encode(), {}), (gzip.compress(json.dumps(text).encode()),
                                                                {"Content_Encoding": "gzip"})):
            got, reply_headers, reply = self.post(body, JSON + "; charset=utf-8", **headers)
            self.assertEqual((got, reply_headers["Content-Type"], reply), (200, JSON, b"{}"))
        for name in ("000001.pb", "000002.pb"):
            self.assertEqual((self.store / name).read_bytes(), a_request(b"main"))

    def test_at_any_base_path_and_beside_other_files(self):
        directory = self.directory()
        for name in ("000041.pb", "000041.json", "7.pb", "notes.txt", "999999.txt"):
            (directory / name).write_text("mine")
        self.receive(directory=directory)
        self.assertEqual(self.post(a_request(), path="/tenant/7" + PATH)[0], 200)
        self.assertIn("000042.pb", self.stored())
        self.assertEqual((directory / "000041.pb").read_text(), "mine")

    def test_what_two_receivers_take_in_one_directory(self):
        self.receive()
        first = self.port
        self.receive(directory=self.store)
        for i in range(6):
            self.port, other = (first, self.port) if i % 2 else (self.port, self.port)
            self.assertEqual(self.post(a_request(b"n%d" % i))[0], 200)
            self.port = other
        self.assertEqual(len([n for n in self.stored() if n.endswith(".pb")]), 6)
        bodies = [(self.store / n).read_bytes() for n in self.stored() if n.endswith(".pb")]
        self.assertEqual(sorted(bodies), [a_request(b"n%d" % i) for i in range(6)])

    def test_many_senders_at_once(self):
        child = self.receive()
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            codes = list(
                pool.map(lambda i: self.post(a_request(b"sender-%d" % i, padding=i * 1000))[0], range(100)))
        self.assertEqual(codes, [200] * 100)
        bodies = {(self.store / n).read_bytes() for n in self.stored() if n.endswith(".pb")}
        self.assertEqual(bodies, {a_request(b"sender-%d" % i, padding=i * 1000) for i in range(100)})
        self.assertEqual(child.stop(signal.SIGINT), 0)
        self.assertIn("received 100 requests with 300 samples", child.out)

    def test_chunked_bodies_and_expect_from_curl(self):
        curl = tap.need_tool("curl")
        self.receive()
        body = self.directory() / "body"
        body.write_bytes(a_request(padding=2 << 20))
        for header in ("Transfer-Encoding: chunked", "Expect: 100-continue"):
            done = self.run_command([
                curl, "-sS", "--noproxy", "*", "-w", "%{http_code}", "-H", header, "-H",
                f"Content-Type: {PROTOBUF}", "--data-binary", f"@{body}",
                f"http://127.0.0.1:{self.port}{PATH}"
            ], expect=0)
            self.assertEqual(done.stdout, "200")
        self.assertEqual((self.store / "000002.pb").read_bytes(), body.read_bytes())


class Refuses(Receive):
    def test_garbage(self):
        child = self.receive()
        self.refused(400, "protobuf", b"<html>hello</html>")
        self.refused(400, "protobuf", a_request()[:-1])
        self.refused(400, "JSON", b"no json", JSON)
        self.refused(400, "JSON", b'{"resourceProfiles": 7}', JSON)
        self.refused(400, "gzip", a_request(), Content_Encoding="gzip")
        self.refused(400, "gzip", gzip.compress(a_request())[:-1], Content_Encoding="gzip")
        self.assertEqual(child.stop(), 0)
        self.assertIn("received 0 requests with 0 samples, refused 6 malformed, 0 misplaced", child.out)

    def test_protobuf_that_would_eat_the_stack_or_the_memory(self):
        self.receive()
        value = b""
        for _ in range(20000):  # AnyValue{5: ArrayValue{1: AnyValue …}}
            value = field(5, field(1, value))
            if len(value) > 1 << 20:
                break
        deep = field(2, field(6, field(2, value)))
        self.refused(400, "nested too deeply", deep)
        self.refused(413, "too much memory", gzip.compress(b"\x0a\x00" * (5 << 20)), Content_Encoding="gzip")

    def test_other_paths_methods_and_types(self):
        self.receive()
        self.refused(404, PATH, a_request(), path="/v1/traces")
        self.refused(404, PATH, a_request(), path=PATH + "/")
        self.refused(404, PATH, b"{}", JSON, path="/")
        self.assertEqual(self.refused(405, "POST", b"", method="GET")["Allow"], "POST")
        self.refused(405, "POST", a_request(), method="PUT")
        self.refused(415, "Content-Type", a_request(), "text/plain")
        self.refused(415, "Content-Type", a_request(), None)
        self.refused(415, "Content-Type", a_request(), "application/x-protobufs")
        self.refused(415, "Content-Encoding", a_request(), Content_Encoding="zstd")

    def test_what_is_too_large_before_or_after_expanding(self):
        self.receive("--max-request", "1MiB")
        self.assertEqual(self.post(a_request(padding=(1 << 20) - 100))[0], 200)
        self.refused(413, "larger", a_request(padding=1 << 20))
        self.refused(413, "larger", gzip.compress(a_request(padding=64 << 20)), Content_Encoding="gzip")
        chunks = (b"p" * 65536 for _ in range(20))
        self.refused(413, "larger", chunks)
        self.assertEqual(self.post(a_request())[0], 200, "and works on")

    def test_a_sender_without_end(self):
        self.receive("--max-request", "1MiB")
        with socket.create_connection(("127.0.0.1", self.port)) as sender:
            sender.sendall(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n".encode())
            with self.assertRaises(OSError):
                while True:
                    sender.sendall(b"10000\r\n" + b"p" * 65536 + b"\r\n")
        self.assertEqual(self.post(a_request())[0], 200)

    def test_bodies_that_together_take_too_much_memory(self):
        self.receive("--max-request", "1MiB")
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\nContent-Length: 1000000\r\n\r\n".encode(
        )
        senders = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(3)]
        try:
            for sender in senders:  # all but the last byte, so that all are under way
                sender.sendall(head + bytes(999999))
            self.wait_until_read(senders)
            for sender in senders:
                sender.sendall(b"\0")
            codes = sorted(sender.makefile("rb").readline().split()[1] for sender in senders)
        finally:
            for sender in senders:
                sender.close()
        self.assertEqual(codes, [b"400", b"400", b"503"], "zeros are no protobuf; the third had no room")
        self.assertEqual(self.post(a_request())[0], 200, "room is given back")

    @staticmethod
    def wait_until_read(sockets):
        """Until the other side has acknowledged and read what was sent: the port's receive queues are empty."""
        ports = {"%04X" % s.getsockname()[1] for s in sockets}

        def empty():
            with open("/proc/net/tcp", encoding="ascii") as file:
                rows = [line.split() for line in list(file)[1:]]
            queues = [row[4] for row in rows if row[1][-4:] in ports or row[2][-4:] in ports]
            return all(queue == "00000000:00000000" for queue in queues)

        tap.wait_until(empty, "all bytes read")

    def test_more_json_than_is_worth_a_tree(self):
        self.receive()
        self.refused(413, "send protobuf", b"{" + b" " * (16 << 20) + b"}", JSON)

    def test_half_a_request_and_no_http_at_all(self):
        self.receive()
        for data in (b"POST / HT",
                     f"POST {PATH} HTTP/1.1\r\nContent-Type: {PROTOBUF}\r\nContent-Length: 99\r\n\r\nhalf".
                     encode(), b"\x16\x03\x01\x02\x00\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                     b"\x00" * 100000):
            with socket.create_connection(("127.0.0.1", self.port)) as sender:
                try:
                    sender.sendall(data)
                except OSError:
                    pass
        self.assertEqual(self.post(a_request())[0], 200)
        self.assertEqual(self.stored(), ["000001.json", "000001.pb"])

    def test_more_connections_than_it_keeps_are_over_when_they_end(self):
        """Its listening socket is set aside meanwhile, and must come back, also when all of them end in one turn of its loop."""
        child = self.receive()
        for _ in range(3):
            senders = [drip.connect(self.port, i) for i in range(300)]
            tap.wait_until(lambda: len(os.listdir(f"/proc/{child.pid}/fd")) > 256, "as many as it keeps")
            child.process.send_signal(signal.SIGSTOP)
            for sender in senders:
                sender.close()
            child.process.send_signal(signal.SIGCONT)
            self.assertEqual(self.post(a_request())[0], 200)


class Tokens(Receive):
    def setUp(self):
        path = self.directory() / "tokens"
        path.write_text("mF_9.B5f-4.1JqM\nold-one\n")
        path.chmod(0o600)
        self.child = self.receive("--token-file", path)

    def test_are_needed(self):
        for authorization in ({}, {"Authorization": "Bearer old"}, {"Authorization": "Basic old-one"}):
            headers = self.refused(401, "Authorization: Bearer TOKEN", a_request(), **authorization)
            self.assertEqual(headers["WWW-Authenticate"], "Bearer")
        headers = self.refused(401, "Authorization: Bearer TOKEN", b"{}", JSON)
        self.assertEqual(headers["Content-Type"], JSON)
        self.refused(401, "Authorization: Bearer TOKEN", a_request(), path="/")
        for token in ("mF_9.B5f-4.1JqM", "old-one"):
            self.assertEqual(self.post(a_request(), Authorization=f"Bearer {token}")[0], 200)
        self.assertEqual(self.child.stop(), 0)
        self.assertIn("refused a request from 127.0.0.1: it has no token of ours", self.child.err)
        self.assertIn(", refused 5 without a token", self.child.out)
        self.assertNotIn("old-one", self.child.err)

    def test_are_what_a_sender_of_ours_gives_in_its_headers(self):
        first = self.store
        sender = self.receive("--forward", f"http://127.0.0.1:{self.port}", "--headers",
                              "Authorization=Bearer%20old-one")
        self.assertEqual(self.post(a_request(b"passed on"))[0], 200)
        self.assertEqual(sender.stop(), 0)
        self.assertEqual((first / "000001.pb").read_bytes(), a_request(b"passed on"))


class Full(Receive):
    def test_limits_refuse_the_newest_and_notice_new_room(self):
        child = self.receive("--max-files", "6")
        for _ in range(2):
            self.assertEqual(self.post(a_request())[0], 200)
        for _ in range(5):
            headers = self.refused(503, "--max-files", a_request())
        self.assertGreater(int(headers["Retry-After"]), 0)
        self.assertEqual(len(self.stored()), 4, "nothing is removed")
        for name in ("000001.pb", "000001.json"):
            (self.store / name).unlink()
        self.assertEqual(self.post(a_request())[0], 200)
        self.assertIn("000003.pb", self.stored())
        self.assertEqual(child.stop(), 0)
        self.assertIn("5 for want of room (of which 5 of senders with their share)", child.out)
        self.assertEqual(child.err.count("at its limit"), 1, "senders come again and again; the log need not")

    def test_bytes_are_limited_over_restarts(self):
        child = self.receive("--max-bytes", "100KiB")
        self.assertEqual(self.post(a_request(padding=30 << 10))[0], 200)
        self.assertEqual(child.stop(), 0)
        self.receive("--max-bytes", "100KiB", directory=self.store)
        self.refused(503, "--max-bytes", a_request(padding=30 << 10))

    def test_a_full_disk_loses_nothing_that_is_stored(self):
        tap.need_root()
        directory = self.directory()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", directory], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", directory], check=True)
        child = self.receive(directory=directory)
        self.assertEqual(self.post(a_request())[0], 200)
        # the first of the two files fits, the second does not
        self.refused(503, "cannot write", a_request(padding=300 << 10))
        self.assertEqual(self.stored(), ["000001.json", "000001.pb"])
        self.assertEqual(self.post(a_request())[0], 200)
        self.assertIn("No space left", child.err)


    def test_one_sender_leaves_room_for_others(self):
        child = self.receive("--max-bytes", "1MiB")
        while (answer := self.post(a_request(padding=10 << 10), source="127.0.0.2"))[0] == 200:
            pass
        self.assertEqual(answer[0], 503)
        self.assertIn(b"this sender's share", answer[2])
        for source in ("127.0.0.1", "127.0.0.3"):
            self.assertEqual(self.post(a_request(), source=source)[0], 200)
        self.assertEqual(child.stop(), 0)
        self.assertIn("cannot store a request from 127.0.0.2 in", child.err)
        self.assertIn("1 for want of room (of which 1 of senders with their share)", child.out)

    def test_one_sender_leaves_turns_for_others(self):
        child = self.receive()
        one = f"POST /x HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\nContent-Length: 0\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", self.port), tap.PATIENCE, ("127.0.0.2", 0)) as flood:
            answers = flood.makefile("rb")
            n_answered = 0
            while n_answered < 200_000:         # the windows of ten seconds are the receiver's
                flood.sendall(one * 50)
                codes = [self.read_answer(answers) for _ in range(50)]
                n_answered += 50
                self.assertLessEqual(set(codes), {404, 503})
                if 503 in codes:
                    break
            self.assertIn(503, codes)
            self.assertGreaterEqual(n_answered, 10_000)
            self.assertEqual(self.post(a_request(), source="127.0.0.3")[0], 200)
        self.assertEqual(child.stop(), 0)
        self.assertIn("refused a request from 127.0.0.2: more than 10000 in 10 s", child.err)
        self.assertRegex(child.out, r", \d+ of senders with too many requests")

    @staticmethod
    def read_answer(answers):
        """Reads one answer with its body. Returns its status."""
        code = int(answers.readline().split()[1])
        size = 0
        while (line := answers.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        answers.read(size)
        return code


class Slow(Receive):
    """Hundreds of clients that are never silent, and never done."""

    HEADERS = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nX: ".encode()
    BODY = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\nContent-Length: 1000000\r\n\r\n".encode(
    )

    def test_headers_and_bodies_keep_nobody_away(self):
        for beginning, word in ((self.HEADERS, "slow headers"), (self.BODY, "slow body")):
            for own_addresses in (True, False):
                with self.subTest(word, own_addresses=own_addresses):
                    child = self.receive()
                    with drip.Crowd(self.port, 400, beginning, own_addresses=own_addresses) as crowd:
                        for i in range(5):
                            self.assertEqual(self.post(a_request(b"honest-%d" % i))[0], 200)
                        tap.wait_until(lambda: crowd.n_closed > 0, "connections that are closed")
                    self.assertEqual(child.stop(), 0)
                    self.assertRegex(
                        child.out, r"closed connections: .* [1-9]\d* too many" +
                        ("\n" if own_addresses else " of an address"))

    def test_headers_and_bodies_end_by_themselves(self):
        """Both at once: each takes the time that a client has."""
        with contextlib.ExitStack() as crowds:
            pairs = []
            for beginning, word in ((self.HEADERS, "slow headers"), (self.BODY, "slow body")):
                child = self.receive()
                crowd = crowds.enter_context(drip.Crowd(self.port, 10, beginning, comes_back=False))
                pairs.append((word, child, crowd))
            for word, child, crowd in pairs:
                with self.subTest(word):
                    tap.wait_until(lambda: crowd.n_closed == 10, "all are sent away")
                    self.assertEqual(child.stop(), 0)
                    self.assertIn(f"10 {word}", child.out)
                    self.assertRegex(
                        child.err,
                        r"closed a connection of 127\.0\.0\.\d: its (headers were not whole in time|body came too slowly)"
                    )

    def test_a_body_at_a_good_rate_may_take_long(self):
        self.receive()
        body = a_request(padding=1 << 20)
        with socket.create_connection(("127.0.0.1", self.port), tap.PATIENCE) as sender:
            sender.sendall(
                f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\nContent-Length: {len(body)}\r\n\r\n"
                .encode())
            for start in range(0, len(body), 1 << 16):          # longer than its time for nothing, in all
                sender.sendall(body[start:start + (1 << 16)])
                time.sleep(0.8)
            self.assertEqual(sender.makefile("rb").readline().split()[1], b"200")


class Bombs(Receive):
    MAX_MEMORY = 200 << 20

    def memory(self, child):
        return int(
            re.search(r"VmHWM:\s+(\d+) kB",
                      open(f"/proc/{child.pid}/status", encoding="ascii").read())[1]) << 10

    @staticmethod
    def values(n):
        """Valid: one sample with @n values, each a byte in protobuf and a line in JSON."""
        return field(1, field(2, field(2, field(2, field(4, bytes(n))))))

    @staticmethod
    def in_json(part, n):
        sample = '{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"samples":[%s]}]}]}]}'
        return (sample % part %
                ",".join(n * ["0"])).encode() if "%s" in part else (sample % ",".join(n * [part])).encode()

    BOMBS = {
        "gzip expands": (lambda: Bombs.values(20_000_000), PROTOBUF, "expands more than 64 times"),
        "memory": (lambda: Bombs.values(15_000_000), PROTOBUF, "too much memory"),
        "stored JSON": (lambda: Bombs.values(7_000_000), PROTOBUF, "too much room as JSON"),
        "JSON of numbers": (lambda: Bombs.in_json('{"values":[%s]}', 8_000_000), JSON, "too much memory"),
        "JSON of objects": (lambda: Bombs.in_json("{}", 4_000_000), JSON, "too much memory"),
        "JSON of less objects": (lambda: Bombs.in_json("{}", 400_000), JSON, "too much memory"),
    }

    def test_are_refused_within_memory_and_disk(self):
        for name, (make, content_type, words) in self.BOMBS.items():
            with self.subTest(name):
                child = self.receive()
                bomb = gzip.compress(make())
                self.assertLess(len(bomb), 50_000)
                self.refused(413, words, bomb, content_type, Content_Encoding="gzip")
                self.assertEqual(self.stored(), [])
                self.assertLess(self.memory(child), self.MAX_MEMORY)
                self.assertEqual(self.post(a_request())[0], 200)
                self.assertEqual(child.stop(), 0)
                self.assertIn("1 too large (of which 1 expand too far)", child.out)
                self.assertRegex(
                    child.err,
                    r"refused \d+ bytes (of gzip )?from 127\.0\.0\.1: they (expand more than 64 times|would take too much)"
                )

    def test_what_is_stored_of_one_is_bounded_while_it_is_written(self):
        """The store is a filesystem with room for what one may take, and not for its JSON."""
        tap.need_root()
        directory = self.directory()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", directory], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", directory], check=True)
        self.receive(directory=directory)
        self.refused(413, "too much room as JSON", gzip.compress(self.values(7_000_000)),
                     Content_Encoding="gzip")
        self.assertEqual(self.post(a_request())[0], 200)

    def test_do_not_keep_others_waiting(self):
        child = self.receive()
        bombs = [(gzip.compress(make()), kind) for make, kind, _ in self.BOMBS.values()]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            attack = [
                pool.submit(self.post, *bombs[i % len(bombs)], source="127.0.0.2", Content_Encoding="gzip")
                for i in range(48)
            ]
            honest = [self.post(a_request(b"honest-%d" % i))[0] for i in range(20)]
            answers = {future.result()[0] for future in attack}
        self.assertEqual((honest, answers), ([200] * 20, {413}))
        self.assertLess(self.memory(child), self.MAX_MEMORY)
        self.assertEqual(len(self.stored()), 40)

    def test_a_receiver_that_is_stopped_with_requests_in_line_ends(self):
        """The library refuses to end while a connection is suspended."""
        child = self.receive()
        bomb = gzip.compress(self.values(7_000_000))
        head = (f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\nContent-Encoding: gzip\r\n"
                f"Content-Length: {len(bomb)}\r\n\r\n").encode()
        senders = [socket.create_connection(("127.0.0.1", self.port), tap.PATIENCE) for _ in range(40)]
        for sender in senders:
            sender.sendall(head + bomb)
        self.assertEqual(senders[0].makefile("rb").readline().split()[1], b"413")
        self.assertEqual(child.stop(), 0)
        for sender in senders:
            sender.close()

    def test_ordinary_requests_that_compress_well_are_none(self):
        """Forty thousand samples with stacks, a dictionary of names: as large as ours get, and no more than 64 times their gzip."""
        self.receive()
        strings = b"".join(field(5, b"_ZN4some7library%dFunctionEv" % i) for i in range(20000))
        stacks = b"".join(
            field(7, field(1, bytes((i * j) % 127 + 1 for j in range(30)))) for i in range(2000))
        samples = b"".join(
            field(
                2,
                field(1, i % 2000) +
                field(5, (1_700_000_000_000_000_000 + i * 997_331).to_bytes(8, "little")))
            for i in range(40000))
        body = field(1, field(2, field(2, samples))) + field(2, strings + stacks)
        packed = gzip.compress(body, 9)
        self.assertEqual(self.post(packed, Content_Encoding="gzip")[0], 200)
        self.assertEqual((self.store / "000001.pb").read_bytes(), body)
        text = (self.store / "000001.json").read_bytes()
        self.assertEqual(
            len(json.loads(text)["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"]), 40000)
        self.assertEqual(
            self.post(gzip.compress(text, 9), JSON, Content_Encoding="gzip")[0], 200,
            "the same from a sender of JSON")
        self.assertEqual((self.store / "000002.json").read_bytes(), text)


class Starts(Receive):
    def test_not_on_a_port_that_is_taken(self):
        self.receive()
        done = self.spanprof("receive", "--port", str(self.port), "-o", str(self.directory()), expect=1)
        self.assertRegex(done.stderr, rf"cannot listen on port {self.port}: .*in use; .*--port 0")
        self.assertEqual(self.post(a_request())[0], 200)

    def test_not_on_an_address_of_another_machine(self):
        done = self.spanprof("receive", "--port", "0", "--listen", "192.0.2.1", "-o", str(self.directory()),
                             expect=1)
        self.assertIn("cannot listen on 192.0.2.1", done.stderr)

    def test_an_address_may_have_its_port(self):
        self.receive()
        for address, host, taken in (("127.0.0.1:0", r"127\.0\.0\.1", False), ("[::1]:0", r"\[::1\]", False),
                                     (f"127.0.0.1:{self.port}", "", True)):
            with self.subTest(address=address):
                command = ["receive", "--listen", address, "-o", str(self.directory())]
                if taken:
                    done = self.spanprof(*command, expect=1)
                    self.assertIn(f"cannot listen on port {self.port}: ", done.stderr)
                    continue
                child = self.spawn([tap.SPANPROF, *command])
                port = int(child.wait_for(rf"^listening on http://{host}:(\d+), storing in ").group(1))
                self.assertNotEqual(port, 4318, "the default")

    def test_without_a_port_an_address_has_that_of_the_option(self):
        for address in ("::1", "[::1]", "localhost"):
            with self.subTest(address=address):
                child = self.spawn([tap.SPANPROF, "receive", "--listen", address, "--port", "0",
                                    "-o", self.directory()])
                child.wait_for(r"^listening on http://(\[::1\]|127\.0\.0\.1):\d+, storing in ")

    def test_not_on_an_address_that_is_none_or_has_two_ports(self):
        for address in ("127.0.0.1:http", "127.0.0.1:70000", ":4318", "", "[::1"):
            with self.subTest(address=address):
                done = self.spanprof("receive", "--listen", address, "-o", str(self.directory()), expect=2)
                self.assertIn(f"`{address}` is neither ADDRESS nor ADDRESS:PORT, e.g. 127.0.0.1:4318", done.stderr)
        done = self.spanprof("receive", "--listen", "127.0.0.1:0", "--port", "4318",
                             "-o", str(self.directory()), expect=78)
        self.assertIn("listen = 127.0.0.1:0 and port = 4318 name two ports: leave one of them out", done.stderr)

    def test_not_in_a_directory_that_cannot_be(self):
        for path in ("/proc/spanprof", "/dev/null", "/nonexistent/deeper"):
            done = self.spanprof("receive", "--port", "0", "-o", path, expect=1)
            self.assertIn(f"cannot store in {path}: ", done.stderr)

    def test_with_a_notice_where_others_can_reach_it(self):
        child = self.spawn(
            [tap.SPANPROF, "receive", "--port", "0", "--listen", "0.0.0.0", "-o",
             self.directory()])
        child.wait_for(r"^listening on http://0\.0\.0\.0:\d+")
        self.assertIn("takes requests from anybody", child.err)

    def test_without_a_warning_where_a_token_is_asked_for(self):
        path = self.directory() / "tokens"
        path.write_text("s3cret\n")
        child = self.spawn([tap.SPANPROF, "receive", "--port", "0", "--listen", "0.0.0.0", "--token-file", path, "-o",
                            self.directory()])
        child.wait_for(r"^listening on http://0\.0\.0\.0:\d+")
        self.assertNotIn("takes requests from anybody", child.err)
        self.assertIn("tokens come in the clear", child.err)
        self.assertNotIn("s3cret", child.err)

    def test_not_with_a_token_file_that_has_none(self):
        path = self.directory() / "tokens"
        for text, problem in ((b"\n", "no token in it"), (b"two words\n", "a line with other characters"),
                              (b"a\0b\n", "a line with other characters"), (b"t\n" * 17, "more than 16 tokens"),
                              (b"t" * 20000, "too large for tokens")):
            path.write_bytes(text)
            done = self.spanprof("receive", "--port", "0", "--token-file", path, "-o", str(self.directory()),
                                 expect=78)
            self.assertIn(f"token-file: {path}: {problem}", done.stderr)
        path.unlink()
        os.mkfifo(path)
        for path, problem in ((path, "not a regular file"), (path.parent / "none", "No such file")):
            done = self.spanprof("receive", "--port", "0", "--token-file", path, expect=78)
            self.assertIn(f"token-file: {path}: {problem}", done.stderr)

    def test_in_a_default_directory_of_the_current_one(self):
        where = self.directory()
        child = self.spawn([tap.SPANPROF, "receive", "--port", "0"], cwd=where)
        child.wait_for(r"storing in spanprof-received$")
        self.assertTrue((where / "spanprof-received").is_dir())

    def test_with_help(self):
        self.assertIn("--forward", self.spanprof("receive", "--help").stdout)


class Forwards(Receive):
    def forward(self, *plays, store=True):
        self.upstream = Server(plays)
        self.addCleanup(self.upstream.close)
        environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        url = self.upstream.url("/base")
        if store:
            return self.receive("--forward", url, env=environment)
        child = self.spawn([tap.SPANPROF, "receive", "--port", "0", "--forward", url], env=environment,
                           cwd=self.directory())
        self.port = int(child.wait_for(r"^listening on http://127\.0\.0\.1:(\d+), forwarding to ").group(1))
        return child

    def test_each_request_and_stores_it(self):
        child = self.forward(ok())
        self.post(a_request(b"batch-1", 4))
        self.post(gzip.compress(a_request(b"batch-2", 5)), Content_Encoding="gzip")
        tap.wait_until(lambda: len(self.upstream.requests) == 2, "both forwarded")
        self.assertEqual([r.body for r in self.upstream.requests],
                         [a_request(b"batch-1", 4), a_request(b"batch-2", 5)])
        self.assertEqual(self.upstream.requests[0].path, "/base" + PATH)
        self.assertEqual(len(self.stored()), 4)
        self.assertEqual(child.stop(), 0)
        self.assertIn("forwarded 9 samples, lost 0", child.out)

    def test_alone_without_output(self):
        child = self.forward(status(400), store=False)
        self.assertEqual(self.post(a_request())[0], 200)
        child.wait_for("answered 400")
        self.assertEqual(child.stop(), 0)
        self.assertIn("forwarded 0 samples, lost 3", child.out)
        self.assertNotIn("stored", child.out)

    def test_what_waits_once_more_at_the_end(self):
        child = self.forward(status(503), ok())
        self.post(a_request())
        child.wait_for("samples wait")
        self.assertEqual(child.stop(), 0)
        self.assertIn("forwarded 3 samples, lost 0", child.out)


tap.main()
