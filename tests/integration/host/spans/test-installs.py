#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every line that installs a publisher works as documents and hints have it, on a Debian that has the tools
of the language and nothing of ours: the line as it is printed, then a service with a span that `contexts` sees.

    test-installs.py            one Debian for all lines, with what `meson install` installs
    test-installs.py --long     one for each language, with what it needs alone, and with the Debian packages

A line in the documents that LINES or SNIPPETS lacks fails here.
"""
import email.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import xml.etree.ElementTree
import zipfile

import fresh
import packages
import printed_lines
import tap

TRACE, SPAN = "00000000000000a100000000000000a2", "00000000000000b3"
CLONE = "/root/clone"
DOCUMENTS = ("README.md", "docs/SPANS.md", "sdk/**/*.md")
INSTALLS = re.compile(r"(?:pip3?|pipx|uv|npm|npx|yarn|pnpm|gem|conda|poetry) .*\b(?:i|install|add)\b|cargo (?:add|install)|"
                      r"go (?:mod edit|get|install)|(?:mvn|gradle|helm repo) |make-jar\.sh |packaging/sdk |"
                      r"(?:apt|apt-get|dnf) install .*spanprof|(?:cc|gcc|g\+\+|clang) app")
SNIPPET = re.compile(r".*(?:pkg_check_modules|target_link_libraries|\bdependency\(|path = |version = |<artifactId>|implementation ).*")

SDK = "/usr/share/spanprof/sdk"
MAKE_JAR = f"sudo {SDK}/java/otel/make-jar.sh /opt/spanprof-otel.jar"
# what is printed → the test that runs it
LINES = {
    f"pip install {SDK}/python.tar.gz": "python",
    "pip install ./sdk/python": "python_of_a_clone",
    f"npm install {SDK}/node.tgz": "node",
    "npm install ../spanprof/sdk/node": "node_of_a_clone",
    f"npm install {SDK}/node.tgz && export NODE_OPTIONS=\"$NODE_OPTIONS --require spanprof-otel/register\"": "node_by_the_hint",
    f"go mod edit -require spanprof.example/spanprofotel@v0.0.0 -replace spanprof.example/spanprofotel={SDK}/go": "go",
    "cc app.c $(pkg-config --cflags --libs spanprof-context)": "c",
    "cc app.c -Isdk/include build/sdk/libspanprof-context.a -pthread": "c_of_a_clone",
    "g++ app.cc $(pkg-config --cflags --libs spanprof-context opentelemetry_trace)": "cplusplus",
    "packaging/sdk packages build deb": "java",
    "sudo apt install ./packages/spanprof-otel-java_*.deb": "java",
    MAKE_JAR: "jar",
    f"{MAKE_JAR} && export OTEL_JAVAAGENT_EXTENSIONS=/opt/spanprof-otel.jar": "jar_by_the_hint",
    "sdk/java/otel/make-jar.sh spanprof-otel.jar": "jar_of_a_clone",
}
SNIPPETS = {
    f'spanprof-otel = {{ path = "{SDK}/rust" }}': "rust",
    "pkg_check_modules(spanprof REQUIRED IMPORTED_TARGET spanprof-context)": "cmake",
    "target_link_libraries(app PkgConfig::spanprof opentelemetry-cpp::trace)": "cmake",
    "dependencies: [dependency('spanprof-context'), …]": "meson",
}

# Debian's packages that the documents ask for, beside those of the service itself
TOOLS = {
    "python": ["python3-venv", "python3-dev", "gcc", "libc6-dev"],
    "node": ["nodejs", "npm", "gcc", "libc6-dev"],
    "go": ["golang-go"],
    "rust": ["cargo", "gcc", "libc6-dev"],
    "c": ["gcc", "libc6-dev", "pkg-config"],
    # the last ones: what files of opentelemetry-cpp-dev ask for, and the package does not
    "cplusplus": ["g++", "pkg-config", "cmake", "make", "meson", "opentelemetry-cpp-dev", "libabsl-dev", "libgrpc++-dev",
                  "libprotobuf-dev", "protobuf-compiler", "protobuf-compiler-grpc"],
    "java": ["default-jre-headless"],
    "jar": ["default-jdk-headless"],
}

PYTHON = f"""import time
from opentelemetry import trace
with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(0x{TRACE}, 0x{SPAN}, False))):
    print("ready", flush=True)
    time.sleep(600)
"""
NODE = f"""const {{ context, trace, ROOT_CONTEXT }} = require('@opentelemetry/api');
const {{ AsyncLocalStorageContextManager }} = require('@opentelemetry/context-async-hooks');
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
context.with(trace.setSpan(ROOT_CONTEXT, trace.wrapSpanContext({{ traceId: '{TRACE}', spanId: '{SPAN}' }})), () => {{
    console.log('ready');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}});
"""
GO = """package main

import (
    "context"
    "fmt"
    "os"
    "runtime/pprof"

    sdk "go.opentelemetry.io/otel/sdk/trace"

    "spanprof.example/spanprofotel"
)

func main() {
    _, span := spanprofotel.Wrap(sdk.NewTracerProvider()).Tracer("shop").Start(context.Background(), "checkout")
    fmt.Println("trace", span.SpanContext().TraceID())
    pprof.Lookup("goroutine").WriteTo(os.Stdout, 1)
}
"""
RUST = f"""use opentelemetry::trace::{{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState}};

fn main() {{
    assert!(spanprof_otel::install());
    let (trace, span) = (TraceId::from(0x{TRACE}u128), SpanId::from(0x{SPAN}u64));
    let ids = SpanContext::new(trace, span, TraceFlags::default(), false, TraceState::default());
    let _current = opentelemetry::Context::new().with_remote_span_context(ids).attach();
    println!("ready");
    std::thread::sleep(std::time::Duration::from_secs(600));
}}
"""
C = f"""#include <stdio.h>
#include <unistd.h>
#include <spanprof/context.h>

int main(void) {{
        spanprof_context_start(NULL);
        spanprof_context_set(0x{TRACE[:16]}, 0x{TRACE[16:]}, 0x{SPAN});
        puts("ready");
        fflush(stdout);
        sleep(600);
}}
"""
CPLUSPLUS = f"""#include <cstdio>
#include <unistd.h>
#include <opentelemetry/trace/default_span.h>
#include <opentelemetry/trace/scope.h>
#include <spanprof/opentelemetry.hpp>

namespace trace = opentelemetry::trace;

int main() {{
        const uint8_t trace_id[16] = {{ {", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(TRACE))} }};
        const uint8_t span_id[8] = {{ {", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(SPAN))} }};

        if (!spanprof::otel::install())
                return 1;
        trace::Scope scope(opentelemetry::nostd::shared_ptr<trace::Span>(new trace::DefaultSpan(trace::SpanContext(
                trace::TraceId(trace_id), trace::SpanId(span_id), trace::TraceFlags(0), false))));
        puts("ready");
        fflush(stdout);
        sleep(600);
}}
"""
JAVA = f"""import io.opentelemetry.api.trace.*;
import io.opentelemetry.context.Scope;

public final class Service {{
        public static void main(String[] arguments) throws Exception {{
                SpanContext ids = SpanContext.create("{TRACE}", "{SPAN}", TraceFlags.getDefault(), TraceState.getDefault());

                try (Scope current = Span.wrap(ids).makeCurrent()) {{
                        System.out.println("ready");
                        Thread.sleep(600_000);
                }}
        }}
}}
"""


def texts():
    """Document or source → its text."""
    paths = {path for pattern in DOCUMENTS for path in tap.SOURCE_DIR.glob(pattern)}
    return {path.relative_to(tap.SOURCE_DIR): path.read_text() for path in paths if "node_modules" not in path.parts}


def install_lines(found):
    return {text for text in found if INSTALLS.search(text)}


def lines_of(text):
    return install_lines(line for line, _ in printed_lines.of_markdown(text))


def snippets_of(text):
    """Of files of a build: in fences, indented, or between backticks."""
    pieces = re.findall(r"(?m)^    .*$|`[^`\n]+`", text)
    for block in re.findall(r"(?ms)^```\w*\n(.*?)^```$", text):
        pieces += block.splitlines()
    return {piece.strip(" `") for piece in pieces if SNIPPET.fullmatch(piece) and "spanprof" in piece}


class Documents(tap.TestCase):
    def test_each_line_that_installs_is_run_here(self):
        lines, snippets = set(), set()
        for text in texts().values():
            lines |= lines_of(text)
            snippets |= snippets_of(text)
        for path in (tap.SOURCE_DIR / "daemon/host").rglob("*.c"):
            lines |= install_lines(line for line, _ in printed_lines.of_c(path.read_text()) if "spanprof" in line)
        self.assertEqual((lines, snippets), (set(LINES), set(SNIPPETS)))
        for name in {*LINES.values(), *SNIPPETS.values()}:
            self.assertTrue(hasattr(Installs, f"test_{name}"), name)

    def test_another_line_is_found(self):
        for line in ("npm i ./sdk/node", "pip3 install spanprof-otel", "cargo add spanprof-otel", "mvn dependency:get -Dartifact=a:b:1",
                     "go get spanprof.example/spanprofotel", "g++ app.cc -lspanprof-context"):
            self.assertEqual(lines_of(f"Say:\n\n    {line}   # so\n"), {line})
        self.assertEqual(snippets_of('```toml\nspanprof-otel = { version = "0.1" }\n```\n'), {'spanprof-otel = { version = "0.1" }'})


    def check_docs(self, name, text):
        """What tests/check-docs.py says of a tree with this file alone, and a document."""
        tree = self.directory()
        (tree / "README.md").write_text("# A tree\n")
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text(text)
        done = self.run_command([sys.executable, tap.SOURCE_DIR / "tests/check-docs.py", tree, tap.SPANPROF])
        return done.returncode, done.stdout

    def test_no_line_asks_a_registry_for_what_it_does_not_have(self):
        for line in ("pip install spanprof-otel", "python -m pip install -U spanprof-otel==0.1", "npm install @spanprof/otel",
                     "npm i --save-dev spanprof-otel", "cargo add spanprof-otel", "go get spanprof.example/spanprofotel@latest",
                     "sudo apt install -y spanprof-otel-java", 'spanprof-otel = "0.1"', 'spanprof-otel = { version = "0.1" }',
                     "implementation 'invalid.spanprof:spanprof-otel:0.1.0'", "<artifactId>spanprof-otel</artifactId>"):
            for name, text in (("docs.md", f"Say:\n\n    {line}\n"),
                               ("daemon/hint.c", f'puts("say " "{line}");' if '"' not in line else f"/* {line} */")):
                status, said = self.check_docs(name, text)
                self.assertEqual((status, said.count("no registry has this")), (1, 1), f"{line}: {said}")
        for line in ("pip install ./sdk/python", "npm install /usr/share/spanprof/sdk/node.tgz", "pip install opentelemetry-sdk",
                     "sudo apt install ./out/spanprof_*.deb", 'spanprof-otel = { path = "/usr/share/spanprof/sdk/rust" }'):
            self.assertEqual(self.check_docs("docs.md", f"Say:\n\n    {line}\n"), (0, "2 documents name what is there\n"))
        self.assertEqual(self.check_docs("daemon/hint.c", 'puts("pip install " PLACES_SDK "/python.tar.gz");')[0], 0)


class Case(tap.TestCase):
    shared = None           # one root for all

    def root(self, language):
        if tap.LONG:
            return self.furnish(fresh.Root(self, language, sorted(TOOLS[language])))
        if not Case.shared:
            everything = {tool for tools in TOOLS.values() for tool in tools}
            Case.shared = self.furnish(fresh.Root(None, "sdk", sorted(everything)))
        return Case.shared

    def furnish(self, root):
        """What the packages of spanprof install, and a clone that is built."""
        if tap.LONG:
            names = ("spanprof", "libspanprof-context0", "libspanprof-context-dev")
            for name in names:
                shutil.copy(packages.of(name), root.path / "tmp")
            root.run(self, "apt-get -q update && apt-get -q install -y --no-install-recommends /tmp/*.deb")
        else:
            self.run_command(["meson", "install", "-C", tap.BUILD_DIR, "--no-rebuild", "--quiet"], expect=0,
                             env={**os.environ, "DESTDIR": str(root.path)})
            root.run(self, "ln -s /usr/local/share/spanprof /usr/share/; ln -s /usr/local/lib/spanprof /usr/lib/; ldconfig")
        clone = root.path / CLONE[1:]
        shutil.copytree(tap.SOURCE_DIR / "sdk", clone / "sdk",
                        ignore=shutil.ignore_patterns("*.egg-info", "build", "target", "node_modules", "__pycache__"))
        (clone / "build/sdk").mkdir(parents=True)
        for name in ("libspanprof-context.a", "libspanprof-otel.so"):
            shutil.copy(tap.BUILD_DIR / "sdk" / name, clone / "build/sdk")
        return root

    def folder(self, root):
        """A new one, where a service is."""
        path = pathlib.Path(tempfile.mkdtemp(dir=root.path / "srv"))
        return "/" + str(path.relative_to(root.path))

    def line(self, name, table=LINES):
        """The line of the documents that this test is for."""
        lines = [line for line, test in table.items() if test == name]
        self.assertEqual(len(lines), 1)
        return lines[0]

    def publishes(self, root, line, cwd, **environment):
        """The service says what it works for, and a look from outside finds it."""
        child = root.spawn(self, line, cwd, **environment)
        child.wait_for("^ready")

        def seen():
            shown = self.spanprof("contexts", child.pid, expect=None).stdout
            return TRACE in shown and SPAN in shown

        tap.wait_until(seen, f"a span of {child}")
        child.kill()

    def check_node(self, line):
        root = self.root("node")
        cwd = self.folder(root)
        root.write(f"{cwd}/package.json", '{ "private": true }')
        root.write(f"{cwd}/service.js", NODE)
        root.run(self, "npm install @opentelemetry/api @opentelemetry/context-async-hooks", cwd)
        self.publishes(root, f"{line} && exec node service.js", cwd)


class Installs(Case):
    def check_python(self, line, sdk="opentelemetry-sdk", before=None):
        root = self.root("python")
        cwd = self.folder(root)
        root.write(f"{cwd}/service.py", PYTHON)
        root.run(self, f"python3 -m venv venv && venv/bin/pip install {sdk}", cwd)
        venv = {"PATH": f"{cwd}/venv/bin:/usr/bin:/bin"}
        root.run(self, line, before or cwd, **venv)
        self.publishes(root, "exec python service.py", cwd, OTEL_PYTHON_CONTEXT="spanprof", **venv)

    def test_python(self):
        self.check_python(self.line("python"))

    def test_python_of_a_clone(self):
        self.check_python(self.line("python_of_a_clone"), before=CLONE)

    def test_python_with_the_oldest_opentelemetry(self):
        needs = tomllib.loads((tap.SOURCE_DIR / "sdk/python/pyproject.toml").read_text())["project"]["dependencies"]
        oldest = re.fullmatch(r"opentelemetry-api>=([\d.]+),<2", needs[0])[1]
        self.check_python(self.line("python"), f"opentelemetry-api=={oldest} opentelemetry-sdk=={oldest} 'setuptools<80'")

    def test_node(self):
        self.check_node(f'{self.line("node")} && export NODE_OPTIONS="--require spanprof-otel/register"')

    def test_node_of_a_clone(self):
        self.root("node").run(self, f"ln -sfn {CLONE} /srv/spanprof")
        self.check_node(f'{self.line("node_of_a_clone")} && export NODE_OPTIONS="--require spanprof-otel/register"')

    def test_node_by_the_hint(self):
        self.check_node(self.line("node_by_the_hint"))

    def test_go(self):
        root = self.root("go")
        cwd = self.folder(root)
        root.write(f"{cwd}/go.mod", "module example/app\n\ngo 1.24.0\n")
        root.write(f"{cwd}/main.go", GO)
        said = root.run(self, f"{self.line('go')} && go mod tidy && go build -o app . && ./app", cwd)
        trace = re.search(r"^trace ([0-9a-f]{32})$", said, re.M)[1]
        self.assertRegex(said, rf'(?m)^# labels: {{.*"trace_id":"{trace}"')

    def test_rust(self):
        root = self.root("rust")
        cwd = self.folder(root)
        root.write(f"{cwd}/Cargo.toml", '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n'
                   f'opentelemetry = "0.33"\n{self.line("rust", SNIPPETS)}\n')
        root.write(f"{cwd}/src/main.rs", RUST)
        root.run(self, "cargo build --quiet", cwd)
        self.publishes(root, "exec target/debug/app", cwd)

    def test_c(self):
        root = self.root("c")
        cwd = self.folder(root)
        root.write(f"{cwd}/app.c", C)
        root.run(self, self.line("c"), cwd)
        self.publishes(root, "exec ./a.out", cwd)

    def test_c_of_a_clone(self):
        root = self.root("c")
        root.write(f"{CLONE}/app.c", C)
        root.run(self, self.line("c_of_a_clone"), CLONE)
        self.publishes(root, "exec ./a.out", CLONE)

    def test_cplusplus(self):
        root = self.root("cplusplus")
        cwd = self.folder(root)
        root.write(f"{cwd}/app.cc", CPLUSPLUS)
        root.run(self, self.line("cplusplus"), cwd)
        self.publishes(root, "exec ./a.out", cwd)

    def test_cmake(self):
        root = self.root("cplusplus")
        cwd = self.folder(root)
        lines = "\n".join(line for line, test in SNIPPETS.items() if test == "cmake")
        root.write(f"{cwd}/CMakeLists.txt", "cmake_minimum_required(VERSION 3.20)\nproject(app CXX)\nadd_executable(app app.cc)\n"
                   f"find_package(PkgConfig REQUIRED)\nfind_package(opentelemetry-cpp REQUIRED)\n{lines}\n")
        root.write(f"{cwd}/app.cc", CPLUSPLUS)
        root.run(self, "cmake -B build && cmake --build build", cwd)
        self.publishes(root, "exec build/app", cwd)

    def test_meson(self):
        root = self.root("cplusplus")
        cwd = self.folder(root)
        line = self.line("meson", SNIPPETS).replace("…", "dependency('opentelemetry_trace')")
        root.write(f"{cwd}/meson.build", f"project('app', 'cpp')\nexecutable('app', 'app.cc', {line})\n")
        root.write(f"{cwd}/app.cc", CPLUSPLUS)
        root.run(self, "meson setup build && meson compile -C build", cwd)
        self.publishes(root, "exec build/app", cwd)

    def java_service(self, root, cwd):
        """Compiled here, started there by the agent of OpenTelemetry. Return: how."""
        jars = tap.BUILD_DIR / "publishers/otel-java"
        if not jars.is_dir():
            tap.skip("machine: no publisher otel-java: it could not be downloaded (tests/interop/setup-publishers.sh)")
        tap.need_tool("javac")
        to = root.path / cwd[1:]
        for jar in jars.glob("*.jar"):
            shutil.copy(jar, to)
        (to / "Service.java").write_text(JAVA)
        path = ":".join(str(jar) for jar in to.glob("opentelemetry-[ac]*.jar"))
        self.run_command(["javac", "--release", "8", "-Xlint:-options", "-cp", path, "-d", to, to / "Service.java"],
                         expect=0, timeout=120)
        agent = next(to.glob("opentelemetry-javaagent-*.jar")).name
        parts = ":".join(pathlib.Path(jar).name for jar in path.split(":"))
        return f"exec java -javaagent:{agent} -cp .:{parts} Service"

    QUIET = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}

    def check_java(self, root, cwd, line, jar):
        self.publishes(root, f"{line}export OTEL_JAVAAGENT_EXTENSIONS={jar}; {self.java_service(root, cwd)}", cwd, **self.QUIET)

    def test_java(self):
        """The package that packaging/sdk makes, with a JRE alone."""
        make, install = (line for line, test in LINES.items() if test == "java")
        tap.need_tool("javac")
        clone = self.directory()
        (clone / "packaging").symlink_to(tap.SOURCE_DIR / "packaging")
        (clone / "build").symlink_to(tap.BUILD_DIR)
        self.run_command(["bash", "-c", make], cwd=clone, expect=0, timeout=300)
        root = self.root("java")
        cwd = self.folder(root)
        shutil.copytree(clone / "packages", root.path / cwd[1:] / "packages")
        root.run(self, install.replace("install", "install -y"), cwd)
        self.check_java(root, cwd, "", "/usr/share/java/spanprof-otel.jar")
        library = root.run(self, "dpkg -L spanprof-otel-java | grep /jni/").split()[-1]
        self.check_java(root, cwd, f"export JAVA_TOOL_OPTIONS=-Dspanprof.otel.library={library}; ",
                        "/usr/share/java/spanprof-otel.jar")
        root.run(self, "apt-get -q remove -y spanprof-otel-java && test ! -e /usr/share/java/spanprof-otel.jar")

    def test_jar(self):
        root = self.root("jar")
        cwd = self.folder(root)
        self.check_java(root, cwd, self.line("jar") + "; ", "/opt/spanprof-otel.jar")

    def test_jar_by_the_hint(self):
        root = self.root("jar")
        cwd = self.folder(root)
        self.publishes(root, f"{self.line('jar_by_the_hint')} && {self.java_service(root, cwd)}", cwd, **self.QUIET)

    def test_jar_of_a_clone(self):
        root = self.root("jar")
        cwd = self.folder(root)
        root.run(self, self.line("jar_of_a_clone"), CLONE)
        self.check_java(root, cwd, "", f"{CLONE}/spanprof-otel.jar")


class Packages(Case):
    """What packaging/sdk makes for registries: it is whole, and says what they ask for."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for tool in ("javac", "npm", "cargo", "dpkg-deb"):
            if not shutil.which(tool):
                tap.skip(f"machine: there is no {tool}")
        cls.made = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.made, ignore_errors=True)
        done = subprocess.run([tap.SOURCE_DIR / "packaging/sdk", cls.made, tap.BUILD_DIR], capture_output=True, text=True,
                              timeout=600)
        if done.returncode and re.search(fresh.UNREACHED, done.stderr):
            tap.skip(f"machine: a registry cannot be reached: {done.stderr[-300:]}")
        assert done.returncode == 0, done.stderr

    LICENCE = (tap.SOURCE_DIR / "LICENSES/Apache-2.0.txt").read_bytes()

    def files(self, pattern):
        """Name → bytes of an archive, without its first folder where all have one. All are plain files."""
        path, = self.made.glob(pattern)
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return {name: archive.read(name) for name in archive.namelist()}
        with tarfile.open(path) as archive:
            members = [member for member in archive if not member.isdir()]
            self.assertEqual([member.name for member in members if not member.isfile()], [])
            return {member.name.split("/", 1)[1]: archive.extractfile(member).read() for member in members}

    def test_each_has_the_licence(self):
        for pattern, name in (("spanprof_otel-*.tar.gz", "LICENSE"), ("*.tgz", "LICENSE"),
                              ("*.crate", "LICENSE"), ("spanprof-otel-?.?.?.jar", "META-INF/LICENSE"), ("*-sources.jar", "LICENSE")):
            self.assertEqual(self.files(pattern)[name], self.LICENCE, pattern)
        self.assertEqual((tap.SOURCE_DIR / "sdk/go/LICENSE").read_bytes(), self.LICENCE)

    def test_of_python(self):
        files = self.files("spanprof_otel-*.tar.gz")
        said = email.parser.Parser().parsestr(files["PKG-INFO"].decode())
        self.assertEqual((said["Name"], said["License"], said["Requires-Python"], said["Description-Content-Type"]),
                         ("spanprof-otel", "Apache-2.0", ">=3.9", "text/markdown"))
        self.assertRegex(said["Requires-Dist"], r"^opentelemetry-api<2,>=1")
        self.assertLessEqual({"sdk/src/otel.c", "spanprof_otel/_record.c", "spanprof_otel/__init__.py"}, set(files))
        wheels = tomllib.loads(files["pyproject.toml"].decode())["tool"]["cibuildwheel"]
        classified = re.findall(r"Python :: 3\.(\d+)", files["PKG-INFO"].decode())
        self.assertEqual(wheels["build"].split(), [f"cp3{minor}-*" for minor in classified])

    if tap.LONG:                        # it compiles, and asks PyPI twice
        def test_a_wheel_of_python_needs_no_compiler(self):
            """One for each interpreter that has its headers; who has none is named."""
            made, python = self.directory(), sys.base_prefix + f"/bin/python3.{sys.version_info.minor}"
            done = self.run_command([tap.SOURCE_DIR / "packaging/sdk", made, tap.BUILD_DIR, "wheels"], timeout=300,
                                    env={**os.environ, "PYTHONS": f"{python} python3.99"})
            if done.returncode and re.search(fresh.UNREACHED, done.stderr):
                tap.skip(f"machine: a registry cannot be reached: {done.stderr[-300:]}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, r"(?m)^sdk: no wheel for python3\.99: .*not found$")
            wheel, = made.glob("*.whl")
            self.assertRegex(wheel.name, rf"^spanprof_otel-[\d.]+-cp3{sys.version_info.minor}-.*manylinux_2_\d+_{os.uname().machine}\.whl$")
            venv = self.directory()
            self.run_command([python, "-m", "venv", venv], expect=0, timeout=120)
            self.run_command([venv / "bin/pip", "install", "--quiet", "opentelemetry-sdk", wheel], expect=0, timeout=200,
                             env={**os.environ, "CC": "/nonexistent/cc"})
            self.run_command([venv / "bin/python", "-c", "from spanprof_otel import start; assert start()"], expect=0)

    def test_of_node(self):
        files = self.files("*.tgz")
        said = json.loads(files["package.json"])
        for field in ("license", "repository", "engines", "types", "description"):
            self.assertIn(field, said)
        processor = {"x86_64": "x64", "aarch64": "arm64"}[os.uname().machine]
        named = [said["main"], said["types"], *(path[2:] for way in said["exports"].values() if isinstance(way, dict)
                                                for path in way.values())]
        self.assertLessEqual({*named, "make.js", "record.c", "sdk/src/otel.c", f"prebuilds/linux-{processor}/record.node"},
                             set(files))
        self.assertFalse([name for name in files if name.startswith(("node_modules", "example"))])
        exported = re.search(r"module\.exports = \{(.*?)\}", files["index.js"].decode(), re.S)[1]
        self.assertEqual(set(re.findall(r"(?m)^export function (\w+)", files["index.d.ts"].decode())),
                         {word.split(":")[0].strip() for word in exported.split(",") if word.strip()})

    def test_of_node_needs_no_script(self):
        """npm holds back scripts of packages, and a service's machine may have no compiler."""
        root = self.root("node")
        cwd = self.folder(root)
        shutil.copy(next(self.made.glob("*.tgz")), root.path / cwd[1:] / "packed.tgz")
        self.check_node(f"cp {cwd}/packed.tgz . && npm install --ignore-scripts ./packed.tgz && "
                            "test ! -e node_modules/spanprof-otel/record.node && "
                            'export NODE_OPTIONS="--require spanprof-otel/register"')

    def test_of_rust(self):
        files = self.files("*.crate")
        said = tomllib.loads(files["Cargo.toml"].decode())["package"]
        for field in ("license", "repository", "description", "readme", "rust-version"):
            self.assertIn(field, said)
        self.assertLessEqual({"src/lib.rs", "build.rs", "c/src/otel.c", "c/src/ring.c", "c/include/spanprof/otel.h"}, set(files))

    def test_of_java(self):
        pom, = self.made.glob("*.pom")
        space = {"m": "http://maven.apache.org/POM/4.0.0"}
        project = xml.etree.ElementTree.parse(pom).getroot()
        # what Maven Central asks for
        for field in ("groupId", "artifactId", "version", "name", "description", "url", "licenses/m:license/m:name",
                      "developers/m:developer/m:email", "scm/m:connection", "scm/m:url"):
            self.assertTrue(project.findtext(f"m:{field}", namespaces=space), field)
        name = f"{project.findtext('m:artifactId', namespaces=space)}-{project.findtext('m:version', namespaces=space)}"
        self.assertEqual(pom.name, f"{name}.pom")
        jar, sources, documents = (self.files(f"{name}{part}.jar") for part in ("", "-sources", "-javadoc"))
        classes = {path.split("$")[0] for path in jar if path.endswith(".class")}
        self.assertEqual({re.sub(r"\.class$", "", path) for path in classes},
                         {path.removesuffix(".java") for path in sources if path.endswith(".java")})
        self.assertIn(f"native/linux-{os.uname().machine}/libspanprof-otel.so", jar)
        self.assertLessEqual({"index.html", "spanprof/otel/Publisher.html"}, set(documents))

    def test_of_debian(self):
        deb, = self.made.glob("spanprof-otel-java_*.deb")
        names = {line.split()[5]: line.split() for line in
                 self.run_command(["dpkg-deb", "--contents", deb], expect=0).stdout.splitlines()}
        self.assertEqual({fields[1] for fields in names.values()}, {"root/root"})
        self.assertIn("./usr/share/java/spanprof-otel.jar", names)
        self.assertTrue([name for name in names if re.fullmatch(r"\./usr/lib/[\w-]+/jni/libspanprof-otel\.so", name)])
        # whose files the package spanprof has, too, would be in the way
        self.assertFalse([name for name in names if name.startswith(("./usr/lib/spanprof", "./usr/share/spanprof/"))])
        self.assertIn("libc6", self.run_command(["dpkg-deb", "--field", deb, "Depends"], expect=0).stdout)
        if shutil.which("lintian"):
            found = self.run_command(["lintian", "--allow-root", "--fail-on=error,warning", deb], timeout=300)
            self.assertEqual((found.returncode, found.stdout), (0, ""), found.stderr)

    def test_it_says_what_is_missing(self):
        for words, said in (([], "usage"), ([self.directory(), self.directory(), "perl"], "no part 'perl'"),
                            ([self.directory(), self.directory(), "java"], "no build directory: sudo ./bootstrap build")):
            done = self.run_command([tap.SOURCE_DIR / "packaging/sdk", *words])
            self.assertIn(said, done.stderr)
            self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    tap.main()
