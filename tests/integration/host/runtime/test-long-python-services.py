#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers in Python under the daemon: workers of gunicorn and uwsgi, which are forked and execute nothing,
greenlets, and uvloop. Functions and lines stand in the order that the victims' sources fix."""
import oracle

oracle.enter()

import collections
import http.client
import os
import pathlib
import subprocess
import threading

import python_chains
import session
import tap

HZ = ("--frequency", "999", "--symbols", "local")
VICTIMS = tap.SOURCE_DIR / "tests/victims/python"
CACHE = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests"))
SERVICES = CACHE / "python-services/bin"
WSGI = python_chains.Chains(VICTIMS / "victim_wsgi.py", [["application", "render", "query", "burn"]])
GREENLETS = python_chains.Chains(VICTIMS / "victim-greenlets.py",
                                 [["shallow", "step", "burn"], ["descend", *["deep"] * 5, "deeper", "burn"],
                                  ["late", "burn"]])
EVENTLET = python_chains.Chains(VICTIMS / "victim-eventlet.py",
                                [["shallow", "step", "burn"], ["descend", *["deep"] * 5, "burn"],
                                 ["threaded", "burn"]])
UVLOOP = python_chains.Chains(VICTIMS / "victim-uvloop.py", [["outer", "inner", "burn"], ["called", "burn"]])
N = 600
MAX_REQUESTS = 20000            # of one client: it ends by itself


def children(pid):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == pid:
            found.append(int(path.parent.name))
    return found


class Clients:
    """Two threads that ask a server on loopback, one request after the other."""

    def __init__(self, port):
        self.port, self.stop = port, threading.Event()
        self.threads = [threading.Thread(target=self.ask, daemon=True) for _ in range(2)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def ask(self):
        for _ in range(MAX_REQUESTS):
            if self.stop.is_set():
                return
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                connection.request("GET", "/")
                connection.getresponse().read()
                connection.close()
            except OSError:
                self.stop.wait(0.1)


class Services(session.NamingCase):

    def setUp(self):
        super().setUp()
        done = subprocess.run(["sh", tap.SOURCE_DIR / "tests/interop/setup-python-services.sh"], capture_output=True,
                              text=True)
        if done.returncode:
            self.skipTest(f"machine: no servers from PyPI: {done.stderr.strip()[-200:]}")

    def judge(self, run, chains, n):
        def enough(samples):
            judged = python_chains.Judged(chains, samples)
            return judged.n >= n and len(judged.whole) == len(chains.chains)

        self.wait_for(run, enough, f"{n} samples of each chain")
        result = run.stop()
        judged = python_chains.Judged(chains, result.samples)
        judged.check(self)
        joins = {x: result.counter("python_joins_total", x) for x in ("whole", "partial", "cut")}
        print("# joins", joins, flush=True)
        self.assertGreaterEqual(joins["whole"] / sum(joins.values()), 0.98, joins)
        return result, judged

    def check_workers(self, server, port):
        """Both workers of a server that listens on @port, while clients ask it."""
        tap.wait_until(lambda: len(children(server.pid)) >= 2, f"two workers: {server}")
        workers = children(server.pid)
        run = self.start("--pid", ",".join(map(str, workers)), *HZ)
        with Clients(port):
            result, judged = self.judge(run, WSGI, N)
        self.assertEqual({s.resource["process.pid"] for s in result.samples if WSGI.own(s)}, set(workers))
        self.assertGreaterEqual(judged.ends[None] / judged.n, 0.95, judged.ends)
        server.stop()

    def gunicorn(self, *options):
        server = self.spawn([SERVICES / "gunicorn", "--workers", "2", "--bind", "127.0.0.1:0", "--chdir", VICTIMS,
                             *options, "victim_wsgi:application"], env=session.clean_environment(PYTHONDONTWRITEBYTECODE=1))
        return server, int(server.wait_for(r"Listening at: http://127\.0\.0\.1:(\d+)")[1])

    def test_workers_of_gunicorn(self):
        self.check_workers(*self.gunicorn())

    def test_workers_of_gunicorn_with_threads(self):
        self.check_workers(*self.gunicorn("--threads", "2"))

    def test_workers_of_gunicorn_with_greenlets(self):
        self.check_workers(*self.gunicorn("--worker-class", "gevent"))

    def test_workers_of_uwsgi(self):
        """A program of C with an interpreter in it."""
        server = self.spawn([SERVICES / "uwsgi", "--http-socket", "127.0.0.1:0", "--master", "--workers", "2", "--chdir",
                             VICTIMS, "--module", "victim_wsgi", "--die-on-term", "--disable-logging"],
                            env=session.clean_environment(PYTHONDONTWRITEBYTECODE=1))
        port = int(server.wait_for(r"bound to TCP address 127\.0\.0\.1:(\d+)")[1])
        self.check_workers(server, port)

    def test_stacks_of_greenlets_end_at_their_root(self):
        child = self.spawn([SERVICES / "python3", GREENLETS.source])
        child.wait_for("ready")
        run = self.start("--pid", child.pid, *HZ)
        result, judged = self.judge(run, GREENLETS, N)
        self.assertGreaterEqual(judged.ends[None] / judged.n, 0.99, judged.ends)
        ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in result.of(child.pid))
        print("# all ends", dict(ends), flush=True)
        child.stop(9)

    def test_greenlets_and_threads_of_eventlet(self):
        self.check_victim(EVENTLET)

    def test_coroutines_and_callbacks_of_uvloop(self):
        self.check_victim(UVLOOP)

    def check_victim(self, chains):
        child = self.spawn([SERVICES / "python3", chains.source])
        child.wait_for("ready")
        run = self.start("--pid", child.pid, *HZ)
        result, _ = self.judge(run, chains, N)
        share = python_chains.share(result.of(child.pid))
        print(f"# with functions: {share:.1%}", flush=True)
        # greenlets that are switched run none
        self.assertGreater(share, 0.96)
        child.stop(9)


if __name__ == "__main__":
    tap.main()
