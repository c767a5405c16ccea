#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`symbols = upload`: what is made of an ELF file, beside readelf, eu-elflint and addr2line; what reaches a
server of debug information, and what does not, whatever the server does."""
import oracle

oracle.enter()

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess

import prometheus
import session
import tap
import unix_http
from symbol_server import Die, Fail, Hang, Say, SymbolServer

MAKER = tap.HARNESS / "no-text-make"
SOURCE = """
#include <stdio.h>
#include <unistd.h>
static inline __attribute__((always_inline)) unsigned long step(unsigned long x) {
        return x * 31 +
               7;
}
__attribute__((noinline)) unsigned long spend(unsigned long n) {
        volatile unsigned long x = 1;
        for (unsigned long i = 0; i < n; i++)
                x = step(x);
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
FORMS = {
    "plain": ["-g"], "fixed": ["-g", "-no-pie"], "packed": ["-g", "-gz"], "dwarf4": ["-gdwarf-4"],
    "no lines": [], "static": ["-g", "-static"]
}
HZ = ("--frequency", "499")


def build(directory, *options, name="shop"):
    """A program that spends its time in spend(), with a build id."""
    source, program = directory / "shop.c", directory / name
    source.write_text(SOURCE)
    subprocess.run([tap.need_tool("cc"), "-O1", "-Wl,--build-id", *options, "-o", program, source], check=True)
    return program


def build_id(path):
    # its status is 1 where notes are unknown to it
    notes = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True).stdout
    return re.search(r"Build ID: (\w+)", notes)[1]


def code_addresses(path):
    """Places in each function that the program has, by nm."""
    table = subprocess.run(["nm", "-S", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^(\w+) (\w+) [tT] (?:spend|main|_start)$", table, re.M)
    return [hex(int(start, 16) + at) for start, size in found for at in range(0, int(size, 16), 3)]


class Maker(tap.TestCase):
    def make(self, path):
        made = self.directory() / "made"
        done = self.run_command([MAKER, path, made], expect=0)
        self.assertEqual(int(done.stdout.split()[0]), made.stat().st_size)
        return made, done.stdout.split()[1:]

    def check(self, original, made, addresses):
        """It passes as an ELF file, has the names, lines and ids of the original, and none of its code."""
        lint = [self.run_command([tap.need_tool("eu-elflint"), "--gnu-ld", *options]).stdout
                for options in ((original,), ("--debug", made))]
        self.assertEqual(*lint)         # "No errors", but for what the linker does in static programs
        read = self.run_command(["readelf", "-aW", made], expect=0)
        self.assertNotRegex(read.stderr, "(?i)error", read.stderr)
        self.assertEqual(build_id(made), build_id(original))
        for tool in (["addr2line"], [tap.need_tool("eu-addr2line")]):
            answers = [self.run_command([*tool, "-f", "-i", "-e", path, *addresses]).stdout
                       for path in (original, made)]
            self.assertEqual(*answers)
        self.assertNotIn(b"pid %d\n", made.read_bytes())        # of .rodata
        text = subprocess.run(["objdump", "-d", made], capture_output=True, text=True, check=True).stdout
        self.assertNotRegex(text, r"\bret\b")

    def test_forms_of_programs(self):
        for form, options in FORMS.items():
            with self.subTest(form):
                original = build(self.directory(), *options)
                made, (symbols, lines) = self.make(original)
                self.assertEqual((symbols, lines), ("1", "0" if form == "no lines" else "1"))
                self.check(original, made, code_addresses(original))
                self.assertLess(made.stat().st_size, original.stat().st_size)

    def test_ourselves(self):
        made, _ = self.make(tap.SPANPROF)
        self.assertEqual(build_id(made), build_id(tap.SPANPROF))
        names = [self.run_command(["nm", path], expect=0).stdout for path in (tap.SPANPROF, made)]
        plain = [re.sub(r" \w (?=\S+$)", " ", text, flags=re.M) for text in names]      # letters tell of contents
        self.assertEqual(*plain)
        self.assertLess(made.stat().st_size, os.stat(tap.SPANPROF).st_size)

    def test_stripped_makes_nothing(self):
        program = build(self.directory(), "-s")
        done = self.run_command([MAKER, program, self.directory() / "made"], expect=1)
        self.assertEqual(done.stdout, "nameless\n")


class Upload(session.TestCase):
    def setUp(self):
        self.folder = self.directory()
        self.folder.chmod(0o755)
        self.program = build(self.folder, "-g")
        self.id = build_id(self.program)
        self.spool = self.directory() / "spool"

    def serve(self, **options):
        server = SymbolServer(**options)
        self.addCleanup(server.close)
        return server

    def shop(self, *prefix):
        child = self.spawn([*prefix, self.program])
        child.wait_for(r"^pid \d+")
        return child

    def begin(self, server, *options, paths=None, pid=None):
        """A daemon that uploads: its run."""
        if pid is None:
            pid = self.shop().pid
        control = self.directory() / "control"
        run = self.start("--pid", pid, *HZ, "--symbols", "upload", "--upload-paths", paths or f"{self.folder}/*",
                         "--upload-endpoint", server.url, "--spool", self.spool,
                         "--control", control, *options)
        run.control = control
        return run

    def status(self, run, *options):
        return self.spanprof("status", "--control", run.control, *options).stdout

    def uploads(self, run):
        return json.loads(self.status(run, "--json"))["uploads"]

    def wait_uploads(self, run, **wanted):
        def there():
            found = self.uploads(run)
            return all(found[key] >= value for key, value in wanted.items()) and found

        return tap.wait_until(there, f"{wanted}; {run.child}", 120)

    def check_made(self, server):
        """What the server has names code as the program itself does."""
        made = self.directory() / "uploaded"
        made.write_bytes(server.uploaded[self.id])
        Maker.check(self, self.program, made, code_addresses(self.program))

    def test_a_hot_file_goes_once_with_the_tenant(self):
        server = self.serve()
        run = self.begin(server, "--headers", "X-Scope-OrgID=shop")
        tap.wait_until(lambda: server.finished, f"an upload; {run.child}", 120)
        self.check_made(server)
        found = self.wait_uploads(run, uploaded=1, not_allowed=1)       # libc is hot too: it started main()
        self.assertEqual(found["spent_bytes"], len(server.uploaded[self.id]))
        self.assertIn("1 uploaded", self.status(run))
        self.assertEqual({headers["X-Scope-OrgID"] for _, headers, _ in server.calls}, {"shop"})
        asked = server.named("ShouldInitiateUpload")
        self.assertEqual([call["file"] for _, _, call in asked],
                         [{"gnuBuildId": self.id, "name": "shop", "type": "TYPE_EXECUTABLE_NO_TEXT"}])
        result = run.stop()
        self.assertIn(f"uploaded symbols of {self.program}", result.log)
        frames = [f for s in result.samples for f in s.frames if f.path == str(self.program)]
        self.assertTrue(frames)
        self.assertEqual({f.name for f in frames}, {""})        # as build id and address
        self.assertEqual(result.counter("symbol_uploads_total", "uploaded"), 1)
        n = len(server.calls)
        again = self.begin(server)
        again.wait_events(20)
        self.wait_uploads(again, not_allowed=1)
        self.assertEqual(self.uploads(again)["waiting"], 0)
        again.stop()
        self.assertEqual(len(server.calls), n)  # it is known from before

    def test_a_server_that_has_it(self):
        server = self.serve()
        server.finished.append(self.id)
        run = self.begin(server)
        self.wait_uploads(run, known=1)
        run.stop()
        self.assertEqual(server.uploaded, {})

    def test_faults_are_tried_again(self):
        server = self.serve()
        server.play("ShouldInitiateUpload", Fail(500))
        server.play("Upload", Die())
        run = self.begin(server)
        found = self.wait_uploads(run, uploaded=1, failed=2)
        self.assertIsNone(found["problem"])
        result = run.stop()
        self.assertRegex(result.log, r"warning|ShouldInitiateUpload: status 500: .*played by the test")
        self.check_made(server)

    def test_a_server_that_refuses_is_asked_once(self):
        for play, words in ((Fail(403, "no such tenant"), "status 403: .*no such tenant"),
                            (Say(b"<html>hello", "text/html"), "text/html.* is no JSON"),
                            (Say({"reason": "DebugInfo upload disabled"}), "DebugInfo upload disabled")):
            with self.subTest(words):
                server = self.serve()
                server.play("ShouldInitiateUpload", play)
                run = self.begin(server)
                found = self.wait_uploads(run, refused=1)
                self.assertRegex(found["problem"], words)
                run.stop()
                self.assertEqual(len(server.calls), 1)

    def test_a_file_over_the_budget_waits(self):
        server = self.serve()
        run = self.begin(server, "--upload-budget", "4096")
        found = self.wait_uploads(run, over_budget=1)
        self.assertEqual((found["waiting"], found["spent_bytes"]), (1, 0))
        run.stop()
        self.assertEqual(server.calls, [])

    def test_another_host_that_uploads(self):
        server = self.serve()
        server.play("ShouldInitiateUpload", Say({"reason": "A previous upload is still in-progress and not stale yet"}))
        run = self.begin(server)
        tap.wait_until(lambda: server.calls and (self.uploads(run)["problem"] or ""), "its answer")
        found = self.uploads(run)
        self.assertEqual((found["waiting"], found["failed"], found["known"]), (1, 0, 0))
        run.stop()

    def test_a_server_that_hangs_holds_up_nothing(self):
        server = self.serve()
        server.play("Upload", Hang())
        run = self.begin(server)
        tap.wait_until(lambda: server.named("ShouldInitiateUpload"), f"a question; {run.child}", 120)
        run.wait_events(60)           # profiles go on
        self.assertEqual(self.uploads(run)["waiting"], 1)
        run.stop()
        self.assertEqual(server.uploaded, {})

    def test_parca_puts_to_the_signed_url_without_our_headers(self):
        server = self.serve(parca=True)
        run = self.begin(server, "--backend", "parca", "--headers", "Authorization=Bearer%20x")
        self.wait_uploads(run, uploaded=1)
        run.stop()
        self.check_made(server)
        self.assertEqual([name for name, _, _ in server.calls],
                         ["ShouldInitiateUpload", "InitiateUpload", "put", "MarkUploadFinished"])
        self.assertEqual([headers.get("Authorization") for _, headers, _ in server.calls],
                         ["Bearer x", "Bearer x", None, "Bearer x"])
        self.assertEqual(server.calls[-1][2]["uploadId"], "u&1")
        self.assertEqual(server.calls[1][2]["size"], len(server.uploaded[self.id]))

    def test_parca_without_signed_urls_is_told(self):
        server = self.serve(parca=True)
        server.strategy = "UPLOAD_STRATEGY_GRPC"
        run = self.begin(server, "--backend", "parca")
        found = self.wait_uploads(run, unsupported=1)
        self.assertRegex(found["problem"], "UPLOAD_STRATEGY_GRPC; only a signed URL is supported")
        run.stop()

    def masked(self):
        """A program at the same path, which another mount namespace has mounted there."""
        other = build(self.directory(), "-g", "-DOTHER=1", name="other")
        return other, self.shop("unshare", "--mount", "sh", "-c",
                                f'mount --bind {other} {self.program} && exec "$@"', "sh")

    def test_a_file_that_a_namespace_has_mounted_over_an_allowed_path(self):
        tap.need_tool("unshare")
        server = self.serve()
        _, child = self.masked()
        run = self.begin(server, pid=child.pid)
        self.wait_uploads(run, not_allowed=2)
        run.stop()
        self.assertEqual(server.calls, [])

    def test_files_of_containers_are_asked_for_by_name(self):
        tap.need_tool("unshare")
        server = self.serve()
        other, child = self.masked()
        run = self.begin(server, pid=child.pid, paths=f"container:{self.folder}/*")
        self.wait_uploads(run, uploaded=1)
        run.stop()
        self.assertEqual(list(server.uploaded), [build_id(other)])

    def test_no_pattern_is_an_error(self):
        done = self.spanprof("run", "--symbols", "upload", expect=78, env=session.clean_environment())
        self.assertIn("upload needs upload-paths", done.stderr)
        done = self.spanprof("run", "--symbols", "upload", "--upload-paths", "shop", expect=None,
                             env=session.clean_environment())
        self.assertIn("`shop` is no path from /", done.stderr)


tap.main()
