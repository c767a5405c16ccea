#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Interpreters of Python that are not `python3`: in a program of C, with and without exports and symbols, and
several of them in one process. The system's release, or the newest where that is too old; `--long` takes each
that is here (SPANPROF_TEST_PYTHONS names more)."""
import oracle

oracle.enter()

import json
import pathlib
import subprocess

import python_chains
import pythons
import session
import tap

HZ = ("--frequency", "1999", "--symbols", "local")
VICTIMS = tap.SOURCE_DIR / "tests/victims/python"
EMBEDDED = python_chains.Chains(VICTIMS / "victim-embed.py", [["main", "first", "second", "third", "burn"],
                                                              ["main", "sort", "compare", "burn"]])
VISITS = python_chains.Chains(VICTIMS / "victim-visits.py", [["visit", "step", "burn"]])
INTERPRETERS = python_chains.Chains(VICTIMS / "victim-interpreters.py",
                                    [["main", "alone", "burn"], ["main", "enter", "inside", "inner", "burn"]])
N = 600
CONFIG = """import json, sys, sysconfig
print(json.dumps({**{k: sysconfig.get_config_var(k) or "" for k in
                     ("LIBPL", "LIBDIR", "LIBS", "SYSLIBS", "LDVERSION")},
                  "prefix": sys.base_prefix}))"""


class Embedded(session.NamingCase):

    def pythons(self):
        return pythons.usual()

    def since(self, release):
        """Those of this release and newer ones; those that are named, or one of them, unless all are asked for."""
        found = sorted((v, p) for v, p in pythons.here().items() if v >= release)
        named = [(v, p) for v, p in found if v in pythons.given()]
        return dict(found if tap.LONG else named or found[-1:])

    def config(self, python):
        done = subprocess.run([python, "-c", CONFIG], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def build(self, python, how, *strip, name="victim-embed"):
        """A program with libpython.so, or with libpython.a; then there is nothing that it exports."""
        config, to = self.config(python), self.directory() / name
        library = f"libpython{config['LDVERSION']}"
        libraries = [*config["LIBS"].split(), *config["SYSLIBS"].split(), "-lm"]
        if how == "shared":
            libraries = [f"-L{config['LIBDIR']}", f"-l:{library}.so.1.0", f"-Wl,-rpath,{config['LIBDIR']}"]
        else:
            # Debian's has modules of zlib and expat in it, and does not say so
            more = ["-lz", "-lexpat"] if str(python).startswith("/usr/bin") else []
            libraries = [f"{config['LIBPL']}/{library}.a", *libraries, *more]
        done = subprocess.run(["cc", "-O2", "-no-pie", "-o", to, VICTIMS / f"{name}.c", *libraries, *strip],
                              capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f"library: no {library} to link with: {done.stderr[-300:]}")
        return to, config["prefix"]

    def start_embedded(self, program, prefix):
        child = self.spawn([program, EMBEDDED.source], env=session.clean_environment(PYTHONHOME=prefix))
        child.wait_for("ready")
        return child

    def sample(self, child, chains, n=N):
        """Samples of the child, once there are enough of every chain."""
        run = self.start("--pid", child.pid, *HZ)

        def enough(samples):
            judged = python_chains.Judged(chains, samples)
            return judged.n >= n and len(judged.whole) == len(chains.chains)

        self.wait_for(run, enough, f"{n} samples of each chain")
        return run.stop()

    def check(self, result, chains, least=0.9):
        judged = python_chains.Judged(chains, result.samples)
        judged.check(self, least)
        joins = {x: result.counter("python_joins_total", x) for x in ("whole", "partial", "cut")}
        print("# joins", joins, flush=True)
        self.assertGreaterEqual(joins["whole"] / sum(joins.values()), 0.99, joins)

    def check_program(self, *build):
        program, prefix = self.build(*build)
        child = self.start_embedded(program, prefix)
        self.check(self.sample(child, EMBEDDED), EMBEDDED)
        child.stop(9)

    def with_section(self):
        """Releases whose interpreter has a section of its own."""
        return {v: p for v, p in self.pythons().items() if v >= (3, 10)}

    def test_a_program_with_libpython(self):
        self.check_program("/usr/bin/python3", "shared")

    def test_a_program_that_exports_nothing(self):
        """Its symbol table says where the interpreter is."""
        for version, python in self.with_section().items():
            with self.subTest(version=version):
                self.check_program(python, "static")

    def test_a_stripped_program_that_exports_nothing(self):
        """From 3.13 on the section says it."""
        described = self.since((3, 13))
        if not described:
            self.skipTest("machine: no Python 3.13 (SPANPROF_TEST_PYTHONS names one)")
        for version, python in described.items():
            with self.subTest(version=version):
                self.check_program(python, "static", "-s")

    def test_an_older_one_says_why_it_is_not_walked(self):
        program, prefix = self.build("/usr/bin/python3", "static", "-s")
        child = self.start_embedded(program, prefix)
        done = subprocess.run([tap.SPANPROF, "targets", "--pid", str(child.pid)], capture_output=True, text=True)
        self.assertIn("python: layout unknown: no symbols, and older than 3.13", done.stdout)
        run = self.start("--pid", child.pid, *HZ)
        run.wait_events(200, child.pid)
        result = run.stop()
        self.assertEqual({f.type for s in result.of(child.pid) for f in s.frames} & {"cpython"}, set())
        self.assertEqual(result.counter("runtimes_total", "unknown"), 1)
        child.stop(9)

    def test_threads_of_c_that_visit_an_interpreter(self):
        """Each has a new thread state at each visit, and none between them."""
        for version, python in self.pythons().items():
            with self.subTest(version=version):
                program, prefix = self.build(python, "shared", name="victim-visits")
                child = self.spawn([program, VISITS.source], stdin=subprocess.PIPE,
                                   env=session.clean_environment(PYTHONHOME=prefix))
                child.wait_for("ready")
                result = self.sample(child, VISITS, 3000)
                self.check(result, VISITS, 0.98)
                child.process.stdin.close()
                child.wait()
                truth = session.truth_of(child)
                share = python_chains.share(result.of(child.pid))
                told = truth["python"] / (truth["python"] + truth["native"])
                print(f"# with functions: {share:.1%}, by the threads' clocks {told:.1%}", flush=True)
                self.assertGreater(share, told - 0.05)

    def test_code_that_perf_asks_for_is_walked_over(self):
        """`-X perf`, from 3.12 on: between a function and its caller is code that has no file and no rows.

        It is no frame of its own: the function stands there already.
        """
        pythons_here = self.since((3, 12))
        if not pythons_here:
            self.skipTest("machine: no Python 3.12 (SPANPROF_TEST_PYTHONS names one)")
        for version, python in pythons_here.items():
            with self.subTest(version=version):
                child = self.spawn([python, "-X", "perf", EMBEDDED.source])
                self.addCleanup(pathlib.Path(f"/tmp/perf-{child.pid}.map").unlink, missing_ok=True)
                child.wait_for("ready")
                result = self.sample(child, EMBEDDED)
                self.check(result, EMBEDDED)
                judged = python_chains.Judged(EMBEDDED, result.samples)
                self.assertGreaterEqual(judged.ends[None] / judged.n, 0.98, judged.ends)
                doubled = [s for s in result.of(child.pid) if any(f.type == "cpython" for f in s.frames)
                           and any(f.type == "unknown" and f.address for f in s.frames)]
                self.assertLess(len(doubled), 0.02 * judged.n, doubled[:1])
                child.stop(9)

    def test_threads_in_two_interpreters(self):
        for version, python in self.pythons().items():
            with self.subTest(version=version):
                child = self.spawn([python, INTERPRETERS.source])
                child.wait_for("ready")
                # compiling and leaving the code is in the chain, and no whole one
                # names come some 100 ms after the first sample: less than a tenth of two seconds
                self.check(self.sample(child, INTERPRETERS, 10 * 1000), INTERPRETERS, 0.7)
                child.stop(9)


if __name__ == "__main__":
    tap.main()
