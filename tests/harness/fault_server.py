# SPDX-License-Identifier: Apache-2.0
"""A receiver on loopback that plays faults, byte by byte, so that no HTTP library smooths them over.

    server = Server([status(503), ok()])        # one play per request, the last one for all that follow
    server.url("/v1development/profiles")
    server.requests                             # what arrived: method, path, headers, body (expanded), marker
"""
import fcntl
import gzip
import http.client
import io
import re
import socket
import ssl
import struct
import termios
import threading
import time


class Request:
    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, self.version = lines[0].split(" ")
        self.headers = http.client.parse_headers(
            io.BytesIO("\r\n".join(lines[1:]).encode("latin-1") + b"\r\n\r\n"))
        self.raw = body
        self.body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        self.time = time.monotonic()
        match = re.search(rb"batch-\d+", self.body)
        self.marker = match.group().decode() if match else None


class Reset(Exception):
    """The play wants the connection reset."""


def reply(status, headers=(), body=b"", keep=True, length=None):
    """A whole reply; @length may lie about the body."""
    lines = [f"HTTP/1.1 {status} Played", f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"{name}: {value}" for name, value in headers]
    data = ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    def play(connection, _server):
        connection.sendall(data)
        return keep

    return play


def ok(body=b"", content_type="application/x-protobuf", **options):
    return reply(200, [("Content-Type", content_type)], body, **options)


def status(code, message=b"played by the test", headers=(), **options):
    """An error with a google.rpc.Status."""
    body = b"\x12" + bytes([len(message)]) + message
    return reply(code, [("Content-Type", "application/x-protobuf"), *headers], body, **options)


def raw(data, keep=False):
    """These bytes instead of a reply."""

    def play(connection, _server):
        connection.sendall(data)
        return keep

    return play


def close(_connection, _server):
    return False


def reset(_connection, _server):
    raise Reset


def hang(_connection, server):
    server.ended.wait(120)
    return False


def cut_by_reset(data):
    """These bytes, then a reset; they arrive, since it is sent when they have been acknowledged."""

    def play(connection, server):
        connection.sendall(data)
        end = time.monotonic() + 60
        while struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ,
                                             b"\0" * 4))[0] and time.monotonic() < end:
            time.sleep(0.005)
        server.ended.wait(0.2)
        raise Reset

    return play


def slow(seconds, then):
    def play(connection, server):
        server.ended.wait(seconds)
        return then(connection, server)

    return play


def drip(data, pause):
    """A reply in single bytes."""

    def play(connection, server):
        for byte in data:
            connection.sendall(bytes([byte]))
            server.ended.wait(pause)
        return True

    return play


def closed_port(test):
    """A port at which nobody listens until this test does (Server(port=…)): bound, so that nobody else is given it meanwhile."""
    holder = socket.socket()
    test.addCleanup(holder.close)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder.getsockname()[1]


class Server:
    """@before: called with each new connection before anything is read; true = the connection is done with."""

    def __init__(self, plays, before=None, context=None, read_limit=None, port=0, path=None):
        self.plays, self.before, self.context, self.read_limit = list(plays), before, context, read_limit
        self.requests, self.n_connections, self.tls_errors = [], 0, []
        self.lock, self.ended = threading.Lock(), threading.Event()
        if path:                        # a socket in the file system
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(str(path))
            self.listener.listen()
        else:
            self.listener = socket.create_server(("127.0.0.1", port))
            self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path="/v1development/profiles", host="127.0.0.1"):
        return f"{'https' if self.context else 'http'}://{host}:{self.port}{path}"

    def markers(self):
        return [request.marker for request in self.requests]

    def close(self):
        self.ended.set()
        self.listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.n_connections += 1
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection):
        try:
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True,
                                                      do_handshake_on_connect=False)
                connection.do_handshake()
            if not (self.before and self.before(connection)):
                while self._serve_one(connection):
                    pass
        except Reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except ssl.SSLError as error:
            self.tls_errors.append(str(error))
            self._drain(connection)
        except OSError:
            pass
        finally:
            connection.close()

    @staticmethod
    def _drain(connection):
        """Lets the peer read our alert: closing with its bytes unread would reset the connection under it."""
        try:
            socket.socket.shutdown(connection, socket.SHUT_WR)
            while socket.socket.recv(connection, 65536):
                pass
        except OSError:
            pass

    def _serve_one(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return False
            data += more
        head, body = data.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))
        while len(body) < length:
            if self.read_limit is not None and len(body) >= self.read_limit:
                raise Reset
            more = connection.recv(65536)
            if not more:
                return False
            body += more
        with self.lock:
            self.requests.append(Request(head, body))
            play = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
        return play(connection, self)
