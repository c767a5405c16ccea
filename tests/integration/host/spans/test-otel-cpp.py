#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spanprof/opentelemetry.hpp with opentelemetry-cpp from Debian (tests/interop/setup-publishers.sh): samples
of a service beside what it says of itself, what it publishes beside what is current, and services in which
it cannot work."""
import pathlib
import re
import shutil
import subprocess
import tempfile

import oracle

oracle.enter()

import otel_case  # noqa: E402
import tap  # noqa: E402

LIBRARIES = ("trace", "resources", "common")
RING, THREAD = 1, 2     # spanprof/context.h


def compile_object(root, source, path, standard):
    subprocess.run([tap.need_tool("g++"), f"-std={standard}", "-O2", "-Wall", "-Wextra", "-Werror", "-c", "-I",
                    tap.SOURCE_DIR / "sdk/include", "-isystem", root / "usr/include", source, "-o", path], check=True,
                   timeout=300)
    return path


def link(root, path, *objects):
    """A program on the libraries below @root, which also has the C library that they need."""
    libraries = root / "usr/lib/x86_64-linux-gnu"
    subprocess.run([
        tap.need_tool("g++"), *objects, "-o", path, "-L", libraries, *(f"-lopentelemetry_{name}" for name in LIBRARIES),
        "-pthread", "-Wl,--allow-shlib-undefined",
        f"-Wl,--disable-new-dtags,-rpath,{libraries}:{tap.BUILD_DIR / 'sdk'}",
        f"-Wl,--dynamic-linker={libraries / 'ld-linux-x86-64.so.2'}"], check=True, timeout=300)
    return path


class OtelCpp(otel_case.TestCase):
    SOURCE = tap.SOURCE_DIR / "tests/interop/publishers/otel_requests.cc"
    STATIC = tap.BUILD_DIR / "sdk/libspanprof-context.a"
    SHARED = tap.BUILD_DIR / "sdk/libspanprof-context.so"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.root = cls.publisher("otel-cpp").resolve()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        requests = compile_object(cls.root, cls.SOURCE, cls.folder / "requests.o", "c++14")
        cls.shared = link(cls.root, cls.folder / "shared", requests, cls.SHARED)
        cls.static = link(cls.root, cls.folder / "static", requests, cls.STATIC)

    def everywhere(self, program, **environment):
        child = self.run_command([program, "everywhere"], expect=0, env=self.environment(**environment))
        self.assertEqual(child.stderr, "")
        return child.stdout

    def test_threads_and_a_forked_child_by_thread_contexts(self):
        samples, _ = self.check_stretches([self.shared, "requests", "2"])
        self.assertEqual({x.resource.get("service.name") for x in samples if x.trace_id}, {"shop"})

    def test_the_same_by_the_ring_where_no_variable_is_exported(self):
        self.check_stretches([self.static, "requests", "2"])

    def test_what_it_publishes_holds_to_the_rules_for_writers_in_either_form(self):
        for program, form in ((self.shared, "thread-whole"), (self.static, "ring-whole")):
            with self.subTest(form):
                service = self.spawn([program, "requests", "100"], env=self.environment())
                service.wait_for(r"^busy ")
                told = self.run_command([tap.SPANPROF, "contexts", "--check", "--duration", "3s", service.pid],
                                        expect=0)
                service.kill()
                for rule in ("process-dontfork", "process-fork", form):
                    self.assertRegex(told.stdout, f"(?m)^{rule} +ok$")

    def test_what_is_published_is_the_current_span_wherever_contexts_change(self):
        self.assertEqual(self.everywhere(self.shared), f"24 looks, storage {THREAD}\n")
        self.assertEqual(self.everywhere(self.static), f"24 looks, storage {RING}\n")
        self.assertEqual(self.everywhere(self.shared, SPANPROF_CONTEXT="ctxstorage=ring"), f"24 looks, storage {RING}\n")

    NAMES = """\
entry 0=[GET]
inner 0=[GET]
inner-renamed 0=[GET]
route 0=[GET /cart/:id] 1=[/cart/:id]
route-from-another-thread 0=[GET /cart/:id] 1=[/cart/:id]
renamed 0=[cart] 1=[/cart/:id]
none none
remote-parent 0=[order] 1=[/order]
new-root 0=[job]
unknown-parent
attributes 0=[PUT /cart] 1=[/cart]
over-the-bound
known-before 0=[name 1]
"""

    def names(self, **environment):
        return self.run_command([self.shared, "names"], expect=0, env=self.environment(**environment)).stdout

    def test_spans_have_the_name_of_their_entry_span_also_when_it_comes_late(self):
        self.assertEqual(self.names(), self.NAMES)

    def test_names_stay_in_the_process_where_they_are_switched_off(self):
        self.assertEqual(self.names(SPANPROF_SPAN_NAMES="off"), re.sub(r" \d=\[[^]]*\]", "", self.NAMES))

    def test_a_service_without_it_is_told_the_line(self):
        environment = self.environment(WITHOUT="1")
        silent = self.spawn([self.shared, "requests", "100"], env=environment)
        silent.wait_for(r"^busy ")
        told = self.run_command([tap.SPANPROF, "targets", "--verbose"], expect=0).stderr
        self.assertRegex(told, rf"process {silent.pid} runs opentelemetry-cpp and publishes no spans.*"
                         r"spanprof::otel::install\(\)")

    def test_where_it_cannot_work_the_service_runs_and_one_line_says_why(self):
        off = self.run_command([self.shared, "requests", "0.1"], expect=0,
                               env=self.environment(SPANPROF_OTEL_DISABLED="true"))
        self.assertEqual(off.stderr, "spanprof: spans are not published: SPANPROF_OTEL_DISABLED is set\n")
        self.assertRegex(off.stdout, r"(?m)^busy [0-9a-f]{32} [0-9a-f]{16} \d+ \d+ \d+$")
        few = self.run_command(["sh", "-c", 'ulimit -v 24000; exec "$0" requests 0.1', self.static], env=self.environment(
            SPANPROF_CONTEXT="ctxstorage=ring,capacity=16777216"))
        self.assertEqual(few.stderr, "spanprof: spans are not published: Cannot allocate memory\n")
        self.assertRegex(few.stdout, r"(?m)^busy [0-9a-f]{32} ")

    def test_the_example_is_built(self):
        shop = compile_object(self.root, tap.SOURCE_DIR / "sdk/cpp/example/shop.cc", self.folder / "shop.o", "c++17")
        program = link(self.root, self.folder / "shop", shop, self.SHARED)
        child = self.run_command([program, "0.2"], expect=0, env=self.environment())
        self.assertEqual((child.stdout, child.stderr), ("checkout is three quarters of it\n", ""))


if __name__ == "__main__":
    tap.main()
