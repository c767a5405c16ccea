#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--debuginfod`: debug files from servers. Names and lines beside those of addr2line, with Debian's own
debuginfod, and with servers that misbehave."""
import json
import os
import re
import socket
import subprocess
import time

import tap
from symbol_server import Die, Fail, Hang, Redirect, Say, SymbolServer

SOURCE = """
__attribute__((noinline)) int leaf(int x) {
        return x * 3 +
               1;
}
int main(int argc, char **argv) {
        return leaf(argc);
}
"""


class Debuginfod(tap.TestCase):
    def setUp(self):
        self.folder, self.cache = self.directory(), self.directory()
        self.made = 0

    def program(self, define=""):
        """A stripped program and the file that was split from it: (path, debug file, build id)."""
        self.made += 1
        source, path = self.folder / "app.c", self.folder / f"app{self.made}"
        debug = path.with_suffix(".debug")
        source.write_text(define + SOURCE)
        subprocess.run([tap.need_tool("cc"), "-g", "-O1", "-Wl,--build-id", "-o", path, source], check=True)
        self.leaf = int(re.search(r"^(\w+) T leaf$", subprocess.run(["nm", path], capture_output=True,
                                                                    text=True).stdout, re.M)[1], 16)
        subprocess.run([tap.need_tool("objcopy"), "--only-keep-debug", path, debug], check=True)
        subprocess.run([tap.need_tool("strip"), path], check=True)
        notes = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True).stdout
        place = subprocess.run(["addr2line", "-e", debug, hex(self.leaf)], capture_output=True, text=True).stdout
        self.line = place.strip().rsplit("/", 1)[1]     # app.c:2
        return path, debug, re.search(r"Build ID: (\w+)", notes)[1]

    def profile(self, path, build_id):
        """A request with a sample in leaf()."""
        names = {"typeStrindex": 1, "unitStrindex": 2}
        document = {
            "resourceProfiles": [{
                "resource": {"attributes": []}, "scopeProfiles": [{"profiles": [{
                    "sampleType": names, "periodType": {"typeStrindex": 3, "unitStrindex": 4}, "period": "1000",
                    "samples": [{"stackIndex": 1, "timestampsUnixNano": ["1700000000000000001"]}],
                    "timeUnixNano": "1700000000000000000", "durationNano": "1000", "profileId": "11" * 16
                }]}]
            }],
            "dictionary": {
                "stringTable": ["", "samples", "count", "cpu", "nanoseconds", "process.executable.build_id.gnu",
                                str(path), "profile.frame.type"],
                "attributeTable": [{}, {"keyStrindex": 5, "value": {"stringValue": build_id}},
                                   {"keyStrindex": 7, "value": {"stringValue": "native"}}],
                "mappingTable": [{}, {"memoryStart": "0", "memoryLimit": "1048576", "filenameStrindex": 6,
                                      "attributeIndices": [1]}],
                "locationTable": [{}, {"mappingIndex": 1, "address": str(self.leaf), "attributeIndices": [2]}],
                "functionTable": [{}], "linkTable": [{}], "stackTable": [{}, {"locationIndices": [1]}]
            }
        }
        file = self.folder / "profile.json"
        file.write_text(json.dumps(document))
        return file

    def report(self, file, urls, *options, expect=0):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.cache), "DEBUGINFOD_URLS": urls}
        environment = {key: value for key, value in environment.items() if not key.lower().endswith("_proxy")}
        return self.spanprof("report", "--debuginfod", *options, file, env=environment, expect=expect)

    def cached(self):
        return {path.name: path.stat().st_size for path in (self.cache / "spanprof/debuginfod").iterdir()}

    def serve(self):
        server = SymbolServer()
        self.addCleanup(server.close)
        return server

    def test_names_and_lines_and_a_cache(self):
        path, debug, build_id = self.program()
        server = self.serve()
        server.files[build_id] = debug.read_bytes()
        file = self.profile(path, build_id)
        self.assertNotIn("leaf", self.spanprof("report", file).stdout)
        for _ in range(2):
            shown = self.report(file, server.url, "--lines").stdout
            self.assertIn(f"leaf {self.line}", shown)
        self.assertEqual(len(server.named("debuginfo")), 1)
        self.assertEqual(self.cached(), {build_id: debug.stat().st_size})

    def test_convert_and_record_ask_too(self):
        path, debug, build_id = self.program()
        server, out = self.serve(), self.folder / "out.folded"
        server.files[build_id] = debug.read_bytes()
        environment = {"DEBUGINFOD_URLS": server.url, "XDG_CACHE_HOME": str(self.cache)}
        environment |= {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        self.spanprof("convert", "--lines", "--debuginfod", self.profile(path, build_id), "-o", out, env=environment)
        self.assertIn("leaf", out.read_text())
        self.assertEqual(self.cached(), {build_id: debug.stat().st_size})
        tap.need_root()
        busy = self.program("static volatile unsigned long sum;\n__attribute__((constructor, noinline)) "
                            "void spend(void) { while (sum < 200000000) sum++; }\n")
        server.files[busy[2]] = busy[1].read_bytes()
        self.spanprof("record", "--debuginfod", "--frequency", "499", "-o", out, "--", busy[0], env=environment,
                      expect=4)         # what main() returns
        self.assertRegex(out.read_text(), r"[; ]spend(;| )")

    def test_what_no_server_has_is_not_asked_for_again(self):
        path, _, build_id = self.program()
        server, other = self.serve(), self.serve()
        file = self.profile(path, build_id)
        for _ in range(2):
            done = self.report(file, f"{server.url} {other.url}/")
            self.assertNotIn("debuginfod", done.stderr)
        self.assertEqual([len(s.named("debuginfo")) for s in (server, other)], [1, 1])
        self.assertEqual(self.cached(), {f"{build_id}.none": 0})

    def test_a_server_in_trouble_is_told_once_and_the_next_one_asked(self):
        for play, words in ((Fail(500), "status 500"), (Die(), "debuginfod: .*; it is not asked again"),
                            (Say(b"hello", "text/html"), "no ELF file")):
            with self.subTest(words):
                self.cache = self.directory()
                path, debug, build_id = self.program()
                bad, good = self.serve(), self.serve()
                bad.play("debuginfo", play)
                good.files[build_id] = debug.read_bytes()
                done = self.report(self.profile(path, build_id), f"{bad.url} {good.url}")
                self.assertIn("leaf", done.stdout)
                self.assertEqual(len(re.findall(words, done.stderr)), 1, done.stderr)
                self.assertEqual(len(bad.named("debuginfo")), 1)

    def test_a_fault_is_no_answer_and_not_remembered(self):
        path, debug, build_id = self.program()
        server = self.serve()
        server.play("debuginfo", Fail(500))
        server.files[build_id] = debug.read_bytes()
        file = self.profile(path, build_id)
        self.assertNotIn("leaf", self.report(file, server.url).stdout)
        self.assertEqual(self.cached(), {})
        self.assertIn("leaf", self.report(file, server.url).stdout)

    def test_redirects_are_followed(self):
        """To a path, to another server, five times at most; and never with the password of the first."""
        path, debug, build_id = self.program()
        file = self.profile(path, build_id)
        for hops, found in ((1, True), (5, True), (6, False)):
            with self.subTest(hops=hops):
                self.cache = self.directory()
                server = self.serve()
                server.files[build_id] = debug.read_bytes()
                server.play("debuginfo", *[Redirect() for _ in range(hops)])
                done = self.report(file, server.url)
                self.assertEqual("leaf" in done.stdout, found)
                self.assertEqual("redirects" in done.stderr, not found, done.stderr)
        self.cache = self.directory()
        first, other = self.serve(), self.serve()
        other.files[build_id] = debug.read_bytes()
        first.play("debuginfo", Redirect(f"{other.url}/buildid/{build_id}/debuginfo"))
        self.assertIn("leaf", self.report(file, first.url.replace("//", "//me:secret@")).stdout)
        asked = [server.named("debuginfo")[0][1] for server in (first, other)]
        self.assertEqual(["Authorization" in headers for headers in asked], [True, False])

    def test_redirects_lead_to_http_alone(self):
        path, debug, build_id = self.program()
        file = self.profile(path, build_id)
        for place in (f"file://{debug}", "ftp://127.0.0.1:9/x", "gopher://127.0.0.1:9/x"):
            with self.subTest(place):
                self.cache = self.directory()
                server = self.serve()
                server.play("debuginfo", Redirect(place))
                done = self.report(file, server.url)
                self.assertNotIn("leaf", done.stdout)
                self.assertRegex(done.stderr, "debuginfod: .*rotocol")

    def test_words_that_are_no_server_are_left_out(self):
        """Those of elfutils without a word, others with one."""
        path, debug, build_id = self.program()
        server = self.serve()
        server.files[build_id] = debug.read_bytes()
        file = self.profile(path, build_id)
        done = self.report(file, f"ima:enforcing {server.url} ima:ignore ima:permissive")
        self.assertIn("leaf", done.stdout)
        self.assertNotIn("DEBUGINFOD_URLS", done.stderr)
        self.cache = self.directory()
        done = self.report(file, f"file:///srv/secret-place {server.url}")
        self.assertIn("leaf", done.stdout)
        self.assertIn("DEBUGINFOD_URLS: a word is left out: ", done.stderr)
        self.assertNotIn("secret-place", done.stderr)
        done = self.report(file, "ima:enforcing", expect=1)
        self.assertIn("DEBUGINFOD_URLS names no server", done.stderr)

    def test_another_build_is_refused(self):
        _, other_debug, other = self.program("#define OTHER\nint other(void) { return 5; }\n")
        path, _, build_id = self.program()
        self.assertNotEqual(other, build_id)
        server = self.serve()
        server.files[build_id] = other_debug.read_bytes()
        done = self.report(self.profile(path, build_id), server.url)
        self.assertIn("it sent a file of another build", done.stderr)
        self.assertNotIn("leaf", done.stdout)
        self.assertEqual(self.cached(), {})

    def get(self, server, *ids, max_file=1 << 30, max_cache=1 << 30, idle=30):
        done = self.run_command([tap.HARNESS / "debuginfod-get", server.url, self.cache / "spanprof/debuginfod", max_file,
                                 max_cache, idle, *ids], expect=0)
        return done.stdout.split(), done.stderr

    def test_a_file_over_the_limit_is_not_taken(self):
        _, debug, build_id = self.program()
        server, size = self.serve(), debug.stat().st_size
        server.files[build_id] = debug.read_bytes()
        said, log = self.get(server, build_id, max_file=size - 1)
        self.assertEqual((said, self.cached()), (["none"], {}))
        self.assertIn(f"it sent more than {size - 1} bytes", log)
        self.assertEqual(self.get(server, build_id, max_file=size)[0], [str(size)])

    def test_a_server_that_hangs_is_left(self):
        _, _, build_id = self.program()
        server = self.serve()
        server.play("debuginfo", Hang())
        said, log = self.get(server, build_id, "ab" * 20, idle=1)
        self.assertEqual((said, self.cached()), (["none", "none"], {}))
        self.assertEqual(len(server.named("debuginfo")), 1)
        self.assertIn("it is not asked again", log)

    def test_the_cache_has_a_cap(self):
        server, ids, sizes = self.serve(), [], []
        for i in range(3):
            _, debug, build_id = self.program(f"int other{i}(void) {{ return {i}; }}\n")
            server.files[build_id] = debug.read_bytes()
            ids.append(build_id)
            sizes.append(str(debug.stat().st_size))
        block = (int(max(sizes, key=int)) + 4095) // 4096 * 4096
        self.assertEqual(self.get(server, *ids[:2], max_cache=2 * block)[0], sizes[:2])
        for age, build_id in ((200, ids[0]), (100, ids[1])):
            path = self.cache / "spanprof/debuginfod" / build_id
            os.utime(path, (time.time() - age, path.stat().st_mtime))
        self.assertEqual(self.get(server, ids[0], ids[2], max_cache=2 * block)[0], [sizes[0], sizes[2]])
        self.assertEqual(set(self.cached()), {ids[0], ids[2]})  # the one that was used longest ago is gone

    def test_ids_that_are_none(self):
        server = self.serve()
        self.assertEqual(self.get(server, "../../../etc", "ab", "AB" * 20, "abc" * 7)[0], ["none"] * 4)
        self.assertEqual(server.calls, [])

    def test_the_option_needs_servers(self):
        path, _, build_id = self.program()
        done = self.report(self.profile(path, build_id), "", expect=1)
        self.assertIn("DEBUGINFOD_URLS is not set", done.stderr)

    def test_debians_own_server(self):
        server = tap.need_tool("debuginfod")
        path, debug, build_id = self.program()
        files = self.directory()
        (files / "app.debug").write_bytes(debug.read_bytes())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        child = self.spawn([server, "-p", port, "-d", self.directory() / "db", "-F", files])
        child.wait_for("groomed database")
        done = self.report(self.profile(path, build_id), f"http://127.0.0.1:{port}", "--lines")
        self.assertIn(f"leaf {self.line}", done.stdout)


tap.main()
