# SPDX-License-Identifier: Apache-2.0
"""A server of debug information on loopback, that speaks as Pyroscope (Connect JSON), as Parca's gateway, and
as debuginfod do, and plays what a test wants.

    server = SymbolServer(parca=False)
    server.play("Upload", Fail(500), Die())     # for the next calls of that name, one each; then it behaves
    server.uploaded                             # build id → bytes of what was uploaded
    server.calls                                # [(name, headers, JSON or None)]
"""
import http.server
import json
import re
import threading
import time

PYROSCOPE = "/debuginfo.v1alpha1.DebuginfoService/"


class Fail:
    """Answers with a status, and a message as Connect has it."""

    def __init__(self, status, message="played by the test"):
        self.status, self.message = status, message


class Die:
    """Reads some bytes of the body, and closes the connection without an answer."""


class Hang:
    """Does not answer until the server is closed."""


class Say:
    """Answers with this body."""

    def __init__(self, body, content_type="application/json"):
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.content_type = content_type


class Redirect:
    """Answers 302 with this place; None = the same path again."""

    def __init__(self, location=None):
        self.location = location


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, status=200, content_type="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def play(self, name):
        """Plays what the test wants of this call. Return: whether it wants something."""
        play = self.server.owner.next_play(name)
        if isinstance(play, Fail):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.answer({"code": "played", "message": play.message}, play.status)
        elif isinstance(play, Say):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.answer(play.body, content_type=play.content_type)
        elif isinstance(play, Redirect):
            self.send_response(302)
            self.send_header("Location", play.location or self.path)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"moved")
        elif isinstance(play, Die):
            self.rfile.read(min(1000, int(self.headers.get("Content-Length", 0))))
            self.close_connection = True
            self.connection.close()
        elif isinstance(play, Hang):
            self.server.owner.closing.wait()
            self.close_connection = True
        return play is not None

    def handle_post(self):
        owner = self.server.owner
        name = owner.name_of(self.path)
        if name is None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.answer(b"<html>no such page</html>", 404, "text/html")
            return
        if self.play(name):
            owner.note(name, self.headers, None)
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if name in ("Upload", "put"):
            owner.note(name, self.headers, None)
            self.answer(*owner.take(self.path.rsplit("/", 1)[1], body))
            return
        call = json.loads(body)
        owner.note(name, self.headers, call)
        self.answer(owner.decide(name, call))

    do_POST = do_PUT = handle_post

    def do_GET(self):
        owner = self.server.owner
        match = re.fullmatch(r"/buildid/([0-9a-f]+)/debuginfo", self.path)
        owner.note("debuginfo", self.headers, self.path)
        if self.play("debuginfo"):
            return
        data = owner.files.get(match[1]) if match else None
        if data is None:
            self.answer(b"not found", 404, "text/plain")
        else:
            self.answer(data, content_type="application/octet-stream")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass                            # a client that went away is part of a test


class SymbolServer:
    def __init__(self, parca=False):
        self.parca = parca
        self.plays, self.calls, self.uploaded, self.uploading, self.finished = {}, [], {}, set(), []
        self.files = {}                 # of debuginfod: build id → bytes
        self.strategy = "UPLOAD_STRATEGY_SIGNED_URL"
        self.lock, self.closing = threading.Lock(), threading.Event()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.owner = self
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    def play(self, name, *plays):
        self.plays.setdefault(name, []).extend(plays)

    def next_play(self, name):
        with self.lock:
            plays = self.plays.get(name)
            return plays.pop(0) if plays else None

    def note(self, name, headers, call):
        with self.lock:
            self.calls.append((name, dict(headers), call))

    def named(self, name):
        with self.lock:
            return [call for call in self.calls if call[0] == name]

    def name_of(self, path):
        if path.startswith("/signed/"):
            return "put"
        if not self.parca and path.startswith(PYROSCOPE):
            return path[len(PYROSCOPE):].split("/")[0]
        return {"/api/shouldinitiateupload": "ShouldInitiateUpload", "/api/initiateupload": "InitiateUpload",
                "/api/markuploadfinished": "MarkUploadFinished"}.get(path) if self.parca else None

    def decide(self, name, call):
        """As pkg/debuginfo/store.go of the two."""
        build_id = call.get("buildId") or call.get("gnuBuildId") or call.get("file", {}).get("gnuBuildId")
        if name == "ShouldInitiateUpload":
            if build_id in self.finished:
                return {"reason": "Debuginfo already exists and is not marked as invalid, therefore no new upload is needed."}
            self.uploading.add(build_id)
            return {"shouldInitiateUpload": True, "reason": "First time we see this Build ID, therefore please upload!"}
        if name == "InitiateUpload":
            instructions = {"buildId": build_id, "uploadId": "u&1", "uploadStrategy": self.strategy}
            if self.strategy == "UPLOAD_STRATEGY_SIGNED_URL":
                instructions["signedUrl"] = f"{self.url}/signed/{build_id}"
            return {"uploadInstructions": instructions}
        self.finished.append(build_id)
        return {}

    def take(self, build_id, body):
        if build_id not in self.uploading:
            return b"no pending upload for this build ID", 412, "text/plain"
        self.uploaded[build_id] = body
        return (b"",)
