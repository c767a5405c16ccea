#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows that a scan of the code has made, at each instruction of programs that run in such code: musl as a
library, and OpenBLAS' kernels, as numpy and Debian have them, for each processor that this one can stand for.
Each stack must be the calls that the program has made. Then samples of the same: whole, and by the right
callers."""
import oracle

oracle.enter()

import importlib
import os
import pathlib
import subprocess
import sys

import otlp_read
import session
import tap

single_step = importlib.import_module("test-unwind-single-step")
scan = importlib.import_module("test-scan")

NUMPY = "numpy==2.4.6"
DEBIAN = pathlib.Path("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0")
# what OPENBLAS_CORETYPE may name: what the processor must have, and how many places with derived rows are met
CORES = {"Prescott": ("pni", 300), "Nehalem": ("sse4_2", 300), "Sandybridge": ("avx", 300),
         "Haswell": ("avx2", 300)}
CHAINS = (["main"], ["do_vectors", "main"], ["do_matrices", "main"])
STEPS = 200000
WHOLE = 0.99
FEW = 300


def numpy_library():
    """OpenBLAS as it comes with numpy from PyPI, kept in the cache; None: it could not be had."""
    root = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / NUMPY
    if not root.exists():
        new = root.with_suffix(".new")
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", new, NUMPY],
                              capture_output=True)
        if done.returncode:
            return None
        new.rename(root)
    return next(root.glob("numpy.libs/libscipy_openblas*"), None)


class Blas(single_step.SingleStep):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tap.need_tool("gcc")
        cls.flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())

    def build(self):
        program = self.directory() / "blas-busy"
        self.run_command(["gcc", "-O2", "-g", "-o", program, tap.SOURCE_DIR / "tests/victims/native/blas-busy.c", "-ldl"],
                         expect=0)
        return program

    def environment(self, library, core):
        return session.clean_environment(OPENBLAS_NUM_THREADS="1", OPENBLAS_CORETYPE=core,
                                         LD_LIBRARY_PATH=library.parent)

    def check_samples(self, program, library, core):
        where = self.directory()
        child = self.spawn([tap.SPANPROF, "record", "-F", "999", "-o", where / "out.otlp", "--", program, library],
                           env=self.environment(library, core))
        pid = int(child.wait_for(r"^pid (\d+)$")[1])
        session.wait_cpu([pid], 1, patience=400)
        self.assertEqual(child.stop(), 0)
        whole = cut = 0
        for sample in otlp_read.samples(where / "out.otlp"):
            names = [frame.name for frame in sample.frames if frame.type != "kernel"]
            if sample.resource["process.pid"] != pid:
                continue
            why = sample.attributes.get("profile.stack.truncated")
            own = [name for name in names if name in ("do_vectors", "do_matrices", "main")]
            if why or own:
                self.assertIn(own + ["main"] * (bool(why) and own[-1:] != ["main"]), CHAINS, names)
            whole += sample.value * (not why)
            cut += sample.value * (why in scan.OURS)
        print(f"# {library.name}, {core}: {whole} whole, {cut} cut", flush=True)
        if whole + cut > FEW:
            self.assertGreaterEqual(whole, WHOLE * (whole + cut))

    def check_library(self, library):
        program = self.build()
        for core, (flag, least) in CORES.items():
            if flag not in self.flags:
                continue
            with self.subTest(core=core):
                print(f"# {core}", flush=True)
                self.check([program, library, 3], STEPS, "trap", 0.999, least, self.environment(library, core))
                self.check_samples(program, library, core)

    def test_openblas_of_numpy(self):
        self.check_library(numpy_library() or tap.skip("library: numpy could not be had from PyPI"))

    def test_openblas_of_debian(self):
        if not DEBIAN.exists():
            tap.skip("library: no libopenblas0-pthread")
        self.check_library(DEBIAN)

    def test_musl_as_a_library(self):
        """Its own linker, which runs first, calls so much that the scan has gaps there."""
        program = self.directory() / "musl-busy"
        self.run_command([tap.need_tool("musl-gcc"), "-O2", "-o", program,
                          tap.SOURCE_DIR / "tests/victims/native/musl-busy.c"], expect=0)
        self.check([program, 12], 200000, 60000, WHOLE, 500)


for _name in [name for name in dir(single_step.SingleStep) if name.startswith("test_")]:
    setattr(Blas, _name, None)          # they have run

if __name__ == "__main__":
    tap.main()
