#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/java/otel with OpenTelemetry's agent and SDK from Maven Central (tests/interop/setup-publishers.sh)."""
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile
import zipfile

import oracle

oracle.enter()

import jdks  # noqa: E402
import otel_case  # noqa: E402
import tap  # noqa: E402

QUIET = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
NEEDED = ("api", "context", "common", "sdk-common", "sdk-trace", "sdk-extension-autoconfigure-spi")


class Jars(otel_case.TestCase):
    java = "java"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.jars = cls.publisher("otel-java")
        cls.agent = next(cls.jars.glob("opentelemetry-javaagent-*.jar"))
        folder = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-"))
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.jar, cls.classes = folder / "spanprof-otel.jar", folder / "classes"
        library = tap.BUILD_DIR / "sdk/libspanprof-otel.so"
        for tool in ("javac", "jar"):
            if not shutil.which(tool):
                tap.skip(f"machine: there is no {tool}")
        subprocess.run([tap.SOURCE_DIR / "sdk/java/otel/make-jar.sh", cls.jar, cls.path_of(*NEEDED),
                        f"{platform.machine()}={library}"], check=True, timeout=300)
        sources = (tap.SOURCE_DIR / "tests/interop/publishers").glob("Otel*.java")
        subprocess.run(["javac", *jdks.BRIEF, "--release", "8", "-Xlint:all,-try,-options,-classfile", "-Werror", "-cp",
                        f"{cls.everything()}:{cls.jar}", "-d", cls.classes, *sources], check=True, timeout=300)

    @classmethod
    def path_of(cls, *names):
        return ":".join(str(path) for name in names for path in cls.jars.glob(f"opentelemetry-{name}-[0-9]*.jar"))

    @classmethod
    def everything(cls):
        return ":".join(str(path) for path in cls.jars.glob("opentelemetry-*.jar") if path != cls.agent)

    def with_agent(self, seconds, *words, options=(), victim="OtelRequests"):
        return [self.java, f"-javaagent:{self.agent}", f"-Dotel.javaagent.extensions={self.jar}",
                "-Dotel.service.name=shop", *options, "-cp", f"{self.classes}:{self.path_of('api', 'context', 'common')}",
                victim, seconds, *words]

    def plain(self, seconds, *words, options=(), victim="OtelRequests"):
        return [self.java, *options, "-cp", f"{self.classes}:{self.everything()}:{self.jar}", victim, seconds,
                *words, "install"]

    @staticmethod
    def with_virtual_threads(javas):
        """Those of JDK 21 and newer, or a skip."""
        able = {name: java for name, java in javas.items() if int(name) >= 21}
        return able or tap.skip("machine: no JDK has virtual threads")


class OtelJava(Jars):
    def test_the_agent(self):
        samples, _ = self.check_stretches(self.with_agent(2), **QUIET)
        last = max((x for x in samples if x.trace_id), key=lambda x: x.time_ns)
        self.assertEqual((last.resource["service.name"], last.resource["telemetry.sdk.language"]),
                         ("shop", "java"))

    def test_virtual_threads(self):
        self.java = next(iter(self.with_virtual_threads(jdks.here()).values()))
        self.check_stretches(self.with_agent(2, 100, victim="OtelVirtual"), **QUIET)

    def test_a_jar_without_a_class_path_has_the_same_classes(self):
        """The stubs declare what OpenTelemetry does. By default the library is this machine's, of the build or the package."""
        jar, trees = self.directory() / "stubs.jar", []
        # as in a clone that is built
        clone = self.directory()
        shutil.copytree(tap.SOURCE_DIR / "sdk/java", clone / "sdk/java")
        (clone / "build").symlink_to(tap.BUILD_DIR)
        self.run_command([clone / "sdk/java/otel/make-jar.sh", jar], expect=0, timeout=300)
        for path in (self.jar, jar):
            with zipfile.ZipFile(path) as archive:
                trees.append({name: archive.read(name) for name in archive.namelist() if "MANIFEST" not in name})
        self.assertEqual(trees[0], trees[1])
        self.assertIn("spanprof/otel/Extension.class", trees[0])
        self.assertIn(f"native/linux-{platform.machine()}/libspanprof-otel.so", trees[0])

    NAMES = {"entry": {0: "GET"}, "inner": {0: "GET"}, "inner-renamed": {0: "GET"},
             "route": {0: "GET /cart/{id}", 1: "/cart/{id}"},
             "renamed-at-the-start-of-another": {0: "cart", 1: "/cart/{id}"}, "none": None,
             "remote-parent": {0: "order", 1: "/order"}, "over-the-bound": {}, "known-before": {0: "name 1"}}

    def names(self, argv, **environment):
        """{step: attributes of the record, by the indexes of their keys}"""
        out = self.run_command(argv, expect=0, timeout=200, env=self.environment(**environment)).stdout
        found = {}
        for step, text in re.findall(r"^(\S+) (none|[0-9a-f]{56,})$", out, re.M):
            found[step] = None if text == "none" else {}
            rest = b"" if text == "none" else bytes.fromhex(text)[28:]
            while rest:
                size = rest[1]
                found[step][rest[0]], rest = rest[2:2 + size].decode(), rest[2 + size:]
        return found

    def record_library(self):
        library = self.directory() / "record.so"
        self.run_command([tap.need_tool("gcc"), "-shared", "-fPIC", "-o", library,
                          tap.SOURCE_DIR / "tests/interop/publishers/otel-record.c", "-ldl"], expect=0)
        return library

    def test_spans_have_the_name_of_their_entry_span_also_when_it_comes_late(self):
        library = self.record_library()
        self.assertEqual(self.names(self.with_agent(library, victim="OtelNames"), **QUIET), self.NAMES)
        self.assertEqual(self.names(self.plain(library, victim="OtelNames")), self.NAMES)

    def test_a_shop_of_servlets_has_its_routes_in_reports_pages_and_metrics(self):
        folder = self.directory()
        classes = f"{folder}:" + ":".join(map(str, self.jars.glob("tomcat-*.jar")))
        self.run_command(["javac", *jdks.BRIEF, "--release", "11", "-Xlint:all,-classfile", "-Werror", "-cp",
                          classes, "-d", folder, self.REQUESTS.parent / "ServletShop.java"], expect=0, timeout=300)
        self.check_service([self.java, f"-javaagent:{self.agent}", f"-Dotel.javaagent.extensions={self.jar}",
                            "-Dotel.service.name=shop", "-cp", classes, "ServletShop", folder],
                           {"GET /cart/*": "/cart/*", "GET /search": "/search"}, **QUIET)

    def test_the_same_of_virtual_threads_that_wait(self):
        self.java = next(iter(self.with_virtual_threads(jdks.here()).values()))
        self.assertEqual(self.names(self.plain(self.record_library(), "virtual", victim="OtelNames")), self.NAMES)

    def test_names_stay_in_the_process_where_they_are_switched_off(self):
        for argv in (self.with_agent, self.plain):
            found = self.names(argv(self.record_library(), victim="OtelNames"), SPANPROF_SPAN_NAMES="off", **QUIET)
            self.assertEqual(found, {step: None if step == "none" else {} for step in self.NAMES})

    def test_places_are_those_of_a_jdk(self):
        headers = [path for path in sorted(pathlib.Path("/usr/lib/jvm").glob("*/include/jvmti.h"))
                   if "JVMTI_VERSION_21" in path.read_text()]
        if not headers:
            tap.skip("machine: no JDK of Java 21 or newer has headers")
        program = self.directory() / "places"
        self.run_command(["gcc", "-Wall", "-Werror", f"-I{headers[0].parent}", f"-I{headers[0].parent / 'linux'}", "-o",
                          program, tap.SOURCE_DIR / "tests/interop/jvmti-places.c"], expect=0)
        self.run_command([program], expect=0)

    def test_the_plain_sdk_and_no_file_is_left(self):
        folder = self.directory()
        child = self.run_command([self.java, f"-Djava.io.tmpdir={folder}", *self.plain(0)[1:]], expect=0)
        self.assertIn("installed true", child.stdout)
        self.assertEqual(child.stderr, "")
        self.assertEqual([path for path in folder.iterdir() if "spanprof" in path.name], [])

    def test_without_native_rights_the_service_runs_and_one_line_says_why(self):
        folder = self.directory()
        for option in (f"-Djava.io.tmpdir={folder}/none", "-Dos.arch=vax"):
            child = self.run_command([self.java, option, *self.plain(0)[1:]], expect=0)
            self.assertIn("installed false", child.stdout)
            self.assertEqual(len(re.findall("spans are not published: ", child.stderr)), 1, child.stderr)
            # a record of java.util.logging has two lines
            self.assertEqual(child.stderr.count("\n"), 2, child.stderr)


if __name__ == "__main__":
    tap.main()
