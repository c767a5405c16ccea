#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo is the first thing that a stranger runs: it must show true figures and leave nothing behind."""
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import threading

import tap

DEMO = tap.SOURCE_DIR / "sdk/example/demo.py"
BOOTSTRAP = tap.SOURCE_DIR / "bootstrap"
# Called as `javac -d DIRECTORY …`: what it makes is always the same, and takes seconds of CPU.
JAVAC_ONCE = """#!/bin/sh
if [ ! -e {kept} ]; then
        {javac} "$@" || exit
        cp -R "$2" {kept}.$$ && mv {kept}.$$ {kept}
fi
mkdir -p "$2" && cp -R {kept}/. "$2"
"""


def processes_of(directory):
    """Processes that name @directory in their command line, other than this one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if str(directory).encode() in file.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass
    return found


class Demo(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tools = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.tools)
        if javac := shutil.which("javac"):
            (cls.tools / "javac").write_text(JAVAC_ONCE.format(kept=cls.tools / "kept", javac=javac))
            (cls.tools / "javac").chmod(0o755)

    def setUp(self):
        tap.need_root()
        tap.need_btf()
        self.out = self.directory() / "demo"

    shown = None            # a run of 4 s that ended well, and its directory

    def show(self):
        """What several cases look at, run once: (the demo, its directory)"""
        if not self.shown:
            out = self.tools / "shown"
            demo = tap.Child([sys.executable, DEMO, 4], env=self.environment(DEMO_DIR=str(out)))
            self.addClassCleanup(demo.kill)
            self.assertEqual(demo.wait(), 0, demo)
            type(self).shown = demo, out
        return self.shown

    def environment(self, **more):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "SPANPROF_"))}
        return {**clean, "PATH": f"{self.tools}:{os.environ['PATH']}", "BUILD_DIR": str(tap.BUILD_DIR),
                "DEMO_DIR": str(self.out), **more}

    def demo(self, seconds, **more):
        return self.spawn([sys.executable, DEMO, seconds], env=self.environment(**more))

    def without_java(self):
        """A PATH without a JDK, for what the shop in Java has no part in: it uses seconds of CPU."""
        tools = self.directory() / "tools"
        tools.mkdir()
        return str(tools)

    def test_shows_figures_that_add_up_and_leaves_nothing_running(self):
        demo, out = self.show()
        figures = {
            m[1]: int(m[2]) for m in re.finditer(
                r"^   (ticks taken|samples delivered|lost(?:: \w+)?) +(\d+)$", demo.out, re.M)
        }
        self.assertGreater(figures["ticks taken"], 100)
        self.assertEqual(sum(figures.values()), 2 * figures["ticks taken"], figures)
        for name in ("checkout", "search", "health"):
            self.assertRegex(demo.out, rf"\n   {name} +\d+ +\d+\.\d % +\d+\.\d %\n")
            self.assertRegex(
                demo.out, rf"hottest functions of {name}\n +\d+ +\d+\.\d % +{name}_\w+  \(example-service\)")
        self.assertRegex(demo.out,
                         r"hottest spans .*\n +\d+  (checkout|search|health) +[0-9a-f]{32}  [0-9a-f]{16}\n")
        payload = re.search(r"OTLP protobuf  (\S+)", demo.out)[1]
        self.assertTrue(os.path.getsize(payload) > 0)
        with open(re.search(r"OTLP/JSON      (\S+)", demo.out)[1]) as file:
            self.assertIn("resourceProfiles", json.load(file))
        self.assertEqual(processes_of(out), [])

    def test_the_payload_names_operations_without_a_list_of_spans(self):
        demo, out = self.show()
        self.assertEqual(list(out.glob("spans*")), [])
        told = json.loads((out / "truth.json").read_text())
        truth = {row["name"]: row["share"] for row in told["operations"]}
        pid = re.search(r"example service \(pid (\d+)\)", demo.out)[1]
        files = (out / "payload").glob("*.pb")
        done = self.run_command([tap.SPANPROF, "report", "--json", "--pid", pid, *files], expect=0)
        profile, = json.loads(done.stdout)["profiles"]
        rows = {row["operation"]: row["value"] for row in profile["operations"]}
        n = sum(rows[name] for name in truth)
        self.assertGreater(n, 0.8 * profile["value"])
        for name, own in truth.items():         # six standard deviations
            self.assertLess(abs(rows[name] / n - own), 6 * (own * (1 - own) / n) ** 0.5 + 0.05, profile)

    def test_profiles_a_service_in_java_beside_it(self):
        tap.need_tool("javac")
        demo = self.demo(6, PATH=os.environ["PATH"])
        self.assertEqual(demo.wait(), 0, demo)
        part = demo.out.split("== … and of the shop in Java")[1].split("\n== ")[0]
        with open(self.out / "java-truth.json") as file:
            truth = {row["name"]: row["share"] for row in json.load(file)["operations"]}
        self.assertEqual(set(truth), {"invoice", "catalog", "stock"})
        shares = []
        for name, own in truth.items():
            found = re.search(rf"\n   {name} +(\d+) +(\d+\.\d) % +(\d+\.\d) %\n", part)
            self.assertTrue(found, part)
            self.assertAlmostEqual(float(found[3]), 100 * own, delta=0.06)
            shares.append((int(found[1]), float(found[2]) / 100, own))
        n = sum(count for count, _, _ in shares)
        for _, sampled, own in shares:          # six standard deviations
            self.assertLess(abs(sampled - own), 6 * (own * (1 - own) / n) ** 0.5 + 0.05, part)
        self.assertRegex(part, r"hottest functions of invoice\n(?: +\d+ +\d+\.\d %   .*\n)*? +\d+ +\d+\.\d %   Shop\$Invoice\.")
        self.assertEqual(processes_of(self.out), [])

    def test_says_what_is_missing_for_java(self):
        tools = self.directory() / "tools"
        tools.mkdir()
        for name, words in ((None, "there is no JDK here"), ("java", "there is no JDK here"),
                            ("javac", "javac failed: no such class file")):
            if name:
                (tools / name).write_text("#!/bin/sh\necho no such class file >&2\nexit 1\n")
                (tools / name).chmod(0o755)
            demo = self.spawn([sys.executable, DEMO, "1"], env=self.environment(PATH=str(tools)))
            self.assertEqual(demo.wait(), 0, demo)
            self.assertIn(words, demo.out)
            self.assertNotIn("shop in Java", demo.out)

    def test_a_second_run_replaces_the_first(self):
        self.out.mkdir()
        (self.out / "payload").mkdir()
        (self.out / "payload/999999.pb").write_bytes(b"old")
        self.assertEqual(self.demo(1, PATH=self.without_java()).wait(), 0)
        self.assertFalse((self.out / "payload/999999.pb").exists())

    def test_ctrl_c_at_any_time_is_clean(self):
        moments = "== Starting the example", "== Starting the receiver", "== Starting spanprof", "== Profiling"
        signals = signal.SIGINT, signal.SIGTERM
        for i, moment in enumerate(moments):
            for sig in signals if tap.LONG else signals[i % 2:][:1]:
                with self.subTest(moment=moment, signal=sig):
                    demo = self.spawn([sys.executable, "-u", DEMO, "60"], env=self.environment())
                    demo.wait_for(moment)
                    self.assertEqual(demo.stop(sig), 128 + sig, demo)
                    self.assertIn("== Stopped", demo.out)
                    self.assertNotIn("Traceback", demo.err)
                    self.assertEqual(processes_of(self.out), [])

    def test_a_killed_demo_takes_its_children_along(self):
        demo = self.spawn([sys.executable, "-u", DEMO, "60"], env=self.environment())
        demo.wait_for("== Profiling")
        self.assertGreaterEqual(len(processes_of(self.out)), 3)
        demo.stop(signal.SIGKILL)
        tap.wait_until(lambda: not processes_of(self.out), "end of the children")

    def test_ships_to_a_collector_that_the_environment_names(self):
        paths, keys = [], []

        class Collector(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                paths.append(self.path)
                keys.append(self.headers["api-key"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        demo = self.demo(2, PATH=self.without_java(), OTEL_EXPORTER_OTLP_ENDPOINT=url,
                         OTEL_EXPORTER_OTLP_HEADERS="api-key=a%20b")
        self.assertEqual(demo.wait(), 0, demo)
        self.assertIn(f"passed on to {url}", demo.out)
        self.assertGreater(len(paths), 0)
        self.assertEqual(set(paths), {"/v1development/profiles"})
        self.assertEqual(set(keys), {"a b"})


class Bootstrap(tap.TestCase):
    def test_explains_itself(self):
        done = self.run_command([BOOTSTRAP, "help"], expect=0)
        for command in ("demo", "test", "build", "install"):
            self.assertIn(f"./bootstrap {command}", done.stdout)
        self.assertEqual(self.run_command([BOOTSTRAP], expect=0).stdout, done.stdout)

    def test_refuses_what_it_does_not_know(self):
        self.assertIn("unknown command: tset", self.run_command([BOOTSTRAP, "tset"], expect=2).stderr)

    def test_a_machine_without_apt_learns_what_is_needed(self):
        path = self.directory()
        for tool in ("bash", "dirname", "readlink", "id", "mktemp", "rm"):
            (path / tool).symlink_to(tap.need_tool(tool))
        done = self.run_command([BOOTSTRAP, "build"], env={"PATH": str(path)}, expect=1)
        self.assertIn("this machine has no apt", done.stderr)
        self.assertIn("libbpf-dev", done.stderr)


tap.main()
