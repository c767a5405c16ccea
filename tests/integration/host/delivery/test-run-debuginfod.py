#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`debuginfod = on` of `run`: names of a stripped program from debug files that servers send while it is sampled,
what a second run has of them, and what servers in trouble do to it: nothing."""
import oracle

oracle.enter()

import json
import re
import socket
import subprocess

import session
import tap
from symbol_server import Die, Fail, Hang, Say, SymbolServer

SOURCE = """
#include <stdio.h>
#include <unistd.h>
static __attribute__((noinline)) unsigned long spend(unsigned long n) {
        volatile unsigned long x = 1;
        for (unsigned long i = 0; i < n; i++)
                x = x * 31 + 7;
        return x;
}
int main(int argc, char **argv) {
        printf("pid %d\\n", (int)getpid());
        fflush(stdout);
        for (;;) {
                spend(1000000);
                usleep(8000);           /* a fifth of a CPU is enough to be sampled */
        }
}
"""
HZ = ("--frequency", "499")


class Program(tap.TestCase):
    def setUp(self):
        self.folder, self.state = self.directory(), self.directory()
        self.folder.chmod(0o755)
        self.program, self.debug, self.id = self.build()

    def build(self, name="shop", *options):
        """A stripped program and the file that was split from it."""
        source, path = self.folder / f"{name}.c", self.folder / name
        debug = path.with_suffix(".debug")
        source.write_text(SOURCE)
        subprocess.run([tap.need_tool("cc"), "-g", "-O1", "-Wl,--build-id", *options, "-o", path, source], check=True)
        subprocess.run([tap.need_tool("objcopy"), "--only-keep-debug", path, debug], check=True)
        subprocess.run([tap.need_tool("strip"), path], check=True)
        notes = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True).stdout
        return path, debug, re.search(r"Build ID: (\w+)", notes)[1]

    def serve(self, *files):
        server = SymbolServer()
        self.addCleanup(server.close)
        server.files.update((build_id, debug.read_bytes()) for _, debug, build_id in files)
        return server

    def cached(self):
        return {path.name for path in (self.state / "debuginfod").iterdir()}


class Run(Program, session.NamingCase):
    def shop(self):
        child = self.spawn([self.program])
        child.wait_for(r"^pid \d+")
        return child

    def begin(self, shop, urls, *options, on=True):
        control = self.directory() / "control"
        run = self.start("--pid", shop.pid, *HZ, "--symbols", "local", *(["--debuginfod"] if on else []), "--control",
                         control, *options, environment={"DEBUGINFOD_URLS": urls, "STATE_DIRECTORY": self.state})
        run.control = control
        return run

    def status(self, run, *options):
        return self.spanprof("status", "--control", run.control, *options).stdout

    def wait_name(self, run):
        self.wait_for(run, lambda samples: any(f.name == "spend" for s in samples for f in s.frames), "its name")

    def asked(self, server):
        return [call for call in server.calls if self.id in str(call)]

    def test_a_name_that_comes_later_and_a_second_run(self):
        server, shop = self.serve((self.program, self.debug, self.id)), self.shop()
        run = self.begin(shop, server.url)
        self.wait_name(run)
        found = json.loads(self.status(run, "--json"))["debuginfod"]
        self.assertEqual((found["fetched"], found["refused"], found["failed"], found["problem"]), (1, 0, 0, None))
        self.assertRegex(self.status(run), r"debuginfod +1 debug files came, \d+ are nowhere, 0 refused, 0 tries failed")
        result = run.stop()
        self.assertEqual(result.counter("debuginfod_bytes_total"), self.debug.stat().st_size)
        own = {f.name for s in result.samples for f in s.frames if f.path == str(self.program)}
        self.assertLessEqual(own, {"", "spend", "main", "_start"})
        self.assertIn(self.id, self.cached())
        n = len(self.asked(server))
        again = self.begin(shop, server.url)
        self.wait_name(again)
        again.stop()
        self.assertEqual((n, len(self.asked(server))), (1, 1))

    def test_off_asks_nobody(self):
        server, shop = self.serve((self.program, self.debug, self.id)), self.shop()
        run = self.begin(shop, server.url, on=False)
        run.wait_events(60)
        result = run.stop()
        self.assertNotIn("spend", {f.name for s in result.samples for f in s.frames})
        self.assertEqual(server.calls, [])

    def test_a_server_that_hangs_holds_up_nothing(self):
        server, shop = self.serve(), self.shop()
        server.play("debuginfo", Hang(), Hang())
        run = self.begin(shop, server.url)
        tap.wait_until(lambda: server.calls, f"a question; {run.child}", 120)
        run.wait_events(60)
        self.assertGreaterEqual(json.loads(self.status(run, "--json"))["debuginfod"]["waiting"], 1)
        self.assertNotIn("ring_full", run.stop().summary["lost_by_reason"])

    def test_debians_own_server(self):
        daemon = tap.need_tool("debuginfod")
        files, shop = self.directory(), self.shop()
        (files / "shop.debug").write_bytes(self.debug.read_bytes())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        child = self.spawn([daemon, "-p", port, "-d", self.directory() / "db", "-F", files])
        child.wait_for("groomed database")
        run = self.begin(shop, f"http://127.0.0.1:{port}")
        self.wait_name(run)
        run.stop()

    def test_the_doctor_says_what_it_does(self):
        for symbols, words in (("local", "ok +symbols +.* asked of the servers of DEBUGINFOD_URLS"),
                               ("remote", "warn +symbols +debuginfod = on does nothing with symbols = remote")):
            environment = session.clean_environment(SPANPROF_SYMBOLS=symbols, SPANPROF_DEBUGINFOD="on")
            done = self.run_command([tap.SPANPROF, "doctor"], env=environment)
            self.assertRegex(done.stdout, words)

    def test_the_option_needs_servers(self):
        done = self.spanprof("run", "--symbols", "local", "--debuginfod", "-p", "1", "-d", "1s",
                             expect=78, env=session.clean_environment(DEBUGINFOD_URLS="",
                                                                      STATE_DIRECTORY=self.state))
        self.assertIn("DEBUGINFOD_URLS is not set", done.stderr)


class Fetcher(Program):
    """The thread that asks, with short intervals."""

    def fetch(self, server, *ids, retry_ms=50, again_ms=3000, looks=1):
        done = self.run_command([tap.HARNESS / "debug-fetch", server.url, self.state / "debuginfod", retry_ms, again_ms,
                                 looks, *ids], expect=0)
        lines = [line.split() for line in done.stdout.splitlines()]
        self.came = [words[1] for words in lines if words[0] == "came"]
        return {words[0]: int(words[1]) for words in lines if words[0] != "came" and int(words[1])}

    def test_no_answer_is_asked_for_again(self):
        server = self.serve((self.program, self.debug, self.id))
        server.play("debuginfo", Fail(500), Die(), Fail(503))
        self.assertEqual(self.fetch(server, self.id, again_ms=0), {"failed": 3, "fetched": 1})
        self.assertEqual(self.came, [self.id])

    def test_a_process_with_ever_new_build_ids_leaves_another_its_turn(self):
        server = self.serve()
        server.play("debuginfo", Fail(500))                 # meanwhile all of them are looked for
        honest, crowd = "cd" * 20, [f"{n:040x}" for n in range(1, 1101)]
        found = self.fetch(server, *(f"61001:{id}" for id in crowd), f"61002:{honest}", retry_ms=2000)
        self.assertEqual(found, {"failed": 1, "none": 257, "dropped": 1100 - 256})
        places = [n for n, call in enumerate(server.calls) if honest in str(call)]
        self.assertEqual(len(places), 1)
        self.assertLess(places[0], 10, "it comes after one or two of the crowd's")

    def test_what_is_wrong_is_refused_and_its_server_asked_on(self):
        server = self.serve((self.program, self.debug, self.id))
        other = "ab" * 20
        server.play("debuginfo", Say(b"hello", "text/html"))
        self.assertEqual(self.fetch(server, other, self.id, again_ms=60), {"refused": 1, "fetched": 1})
        self.assertEqual((self.came, self.cached()), ([self.id], {self.id}))

    def test_a_file_of_another_build_is_refused(self):
        server = self.serve()
        server.files[self.id] = self.build("fixed", "-no-pie")[1].read_bytes()
        self.assertEqual(self.fetch(server, self.id, again_ms=60), {"refused": 1})
        self.assertEqual((self.came, self.cached()), ([], set()))

    def test_an_answer_is_asked_for_again_after_a_while(self):
        server = self.serve()
        # in between the cache says that no server has it, for a second
        self.assertEqual(self.fetch(server, self.id, again_ms=700, looks=3), {"none": 3})
        self.assertIn(len(server.calls), (2, 3))

    def test_what_is_known_is_not_asked_for(self):
        server = self.serve((self.program, self.debug, self.id))
        self.assertEqual(self.fetch(server, self.id, again_ms=100), {"fetched": 1})
        self.assertEqual(self.fetch(server, self.id, again_ms=100, looks=2), {"cached": 2})
        self.assertEqual(len(server.calls), 1)


tap.main()
