# SPDX-License-Identifier: Apache-2.0
"""Real backends for a test, which pyroscope.py and parca.py start: programs that are built by hand, since no
package and no module proxy has them whole (docs/HACKING.md, "Backends to test with").

    program = real_server.find("pyroscope")     # its path, or a skip
    port, other = real_server.free_ports(2)
    server = real_server.Server(lambda directory: [program, …], "http://127.0.0.1:PORT")
    server.post("/some.Service/Method", {…})    # → what the answer's JSON says
    server.close()
"""
import itertools
import json
import os
import pathlib
import random
import shutil
import socket
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import tap

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def find(name):
    """The program: $SPANPROF_NAME, else BUILD_DIR/NAME, else the user's cache. Skips where there is none."""
    variable = f"SPANPROF_{name.upper()}"
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    for path in (os.environ.get(variable), tap.BUILD_DIR / name, cache / "spanprof" / name):
        if path and os.access(path, os.X_OK):
            return pathlib.Path(path).resolve()
    return tap.skip(f"machine: no {name} here; docs/HACKING.md, `Backends to test with`, says how to build it "
                    f"(${variable} names its path)")


def free_ports(n):
    """Ports of TCP and UDP on which a program may listen. None is one of those that the kernel gives to
    connections, unless these begin below 20,000: it gave such a port to another test between this look and
    the program's start."""
    lowest_given = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = list(range(10_000, max(lowest_given, 20_000)))
    random.shuffle(candidates)
    return list(itertools.islice(filter(_is_free, candidates), n))


def _is_free(port):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(type=kind) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                return False
    return True


class Server:
    """A program that serves HTTP at @url, in an empty directory of its own. It has no MALLOC_PERTURB_, which
    meson sets for our programs: with it a Pyroscope showed a part of what it had taken."""

    def __init__(self, make_argv, url):
        self.url = url
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-"))
        try:
            its = {name: value for name, value in os.environ.items() if name != "MALLOC_PERTURB_"}
            self.child = tap.Child(make_argv(self.directory), cwd=self.directory, env=its)
        except BaseException:
            self._remove()
            raise

    def _remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def close(self):
        """Ends it at once: what it has stored goes with it."""
        self.child.kill()
        self._remove()

    def get(self, path, **query):
        """The answer's JSON. Raises urllib.error.HTTPError with what the server said of a mistake."""
        return self._ask(urllib.request.Request(f"{self.url}{path}?{urllib.parse.urlencode(query, doseq=True)}"))

    def post(self, path, message, **headers):
        return self._ask(urllib.request.Request(f"{self.url}{path}", json.dumps(message).encode(),
                                                {"Content-Type": "application/json", **headers}))

    def _ask(self, request):
        try:
            with DIRECT.open(request, timeout=tap.PATIENCE) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            error.add_note(error.read().decode(errors="replace"))
            raise
        except OSError as error:
            error.add_note(str(self.child))
            raise

    def says(self, path, word):
        """It answers a GET of @path with success and a text that has @word."""
        try:
            with DIRECT.open(f"{self.url}{path}", timeout=5) as reply:
                return word in reply.read()
        except OSError:
            if self.child.status is not None:
                raise AssertionError(f"{self.child} ended") from None
            return False
