#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compilers at run time that keep no frame pointer: Mono's, and LLVM's in PostgreSQL and numba; and a program that
registers its code with the libgcc of another release, or with LLVM's libunwind."""
import oracle

oracle.enter()

import collections
import os
import pathlib
import re
import shutil

import debian
import fresh
import otlp_read
import session
import tap

TRUNCATED = "profile.stack.truncated"
WHOLE = ("made_hot", "made_mid", "made_top", "run", "main")
POSTGRES = pathlib.Path("/usr/lib/postgresql/15/bin")
PROGRAM = """
using System.Runtime.CompilerServices;
class Chain {
    [MethodImpl(MethodImplOptions.NoInlining)] static long CsHot(long n) {
        long s = 0;
        for (long i = 0; i < n; i++) s = (s * 31 + i) % 65521;
        return s;
    }
    [MethodImpl(MethodImplOptions.NoInlining)] static long CsMid(long n) { return CsHot(n) + 1; }
    [MethodImpl(MethodImplOptions.NoInlining)] static long CsTop(long n) { return CsMid(n) + 1; }
    static void Main() {
        var watch = System.Diagnostics.Stopwatch.StartNew();
        for (long k = 0; watch.ElapsedMilliseconds < 10000; ) k += CsTop(2000000);
    }
}
"""
# a loop in a loop, so that nothing is stored before
QUERY = """SELECT sum((a * 31 + b) % 65521 + sqrt(a)::int) FROM generate_series(1, 10000) a, generate_series(1, 50000) b
           WHERE (a * 7) % 13 < 11 AND a % 3 < 2 AND b % 5 < 4"""

NUMBA = """
import os, numba
@numba.njit
def nb_hot(n):
    s = 0
    for i in range(n):
        s = (s * 31 + i) % 65521
    return s
@numba.njit
def nb_top(n):
    return nb_hot(n) + 1
nb_top(10)
print("pid", os.getpid(), flush=True)
while True:
    nb_top(3000000)
"""

WASM = """
import os, wasmtime
config = wasmtime.Config()
config.debug_info = True
store = wasmtime.Store(wasmtime.Engine(config))
module = wasmtime.Module(store.engine, '''(module
    (func $hot (param $n i32) (result i32) (local $s i32)
        (loop $again
            (local.set $s (i32.rem_u (i32.add (i32.mul (local.get $s) (i32.const 31)) (local.get $n)) (i32.const 65521)))
            (local.set $n (i32.sub (local.get $n) (i32.const 1)))
            (br_if $again (local.get $n)))
        (local.get $s))
    (func $mid (param i32) (result i32) (i32.add (call $hot (local.get 0)) (i32.const 1)))
    (func $top (export "top") (param i32) (result i32) (i32.add (call $mid (local.get 0)) (i32.const 1))))''')
top = wasmtime.Instance(store, module, []).exports(store)["top"]
print("pid", os.getpid(), flush=True)
while True:
    top(store, 3000000)
"""


def ends(samples, is_made):
    """How often stacks with a frame of code made at run time ended for which reason; None = they are whole."""
    return collections.Counter(
        sample.attributes.get(TRUNCATED) for sample in samples
        if any(is_made(frame) for frame in sample.frames if frame.type != "kernel"))


def user_frames(sample):
    return [frame for frame in sample.frames if frame.type != "kernel"]


def is_through_made(sample):
    return any(not frame.path for frame in user_frames(sample))


def made_callers(sample):
    """Where code of files calls code of none: the addresses of these calls' last bytes in their file."""
    frames = user_frames(sample)
    return [caller.address for frame, caller in zip(frames, frames[1:]) if not frame.path and caller.path]


def callers_of_made(said, bias):
    """The same by gdb's backtraces, in which such code has the names that PostgreSQL gives it."""
    frames = re.findall(r"^#(\d+) +(?:0x([0-9a-f]+) in )?(\S+)", said, re.M)
    return {int(address, 16) - 1 - bias for (_, _, made), (number, address, name) in zip(frames, frames[1:])
            if made.startswith("evalexpr_") and not name.startswith("evalexpr_") and number != "0"}


class Made(session.NamingCase):
    def test_callers_of_monos_code_are_not_left_out(self):
        directory = self.directory()
        (directory / "Chain.cs").write_text(PROGRAM)
        self.run_command([tap.need_tool("mcs"), f"-out:{directory / 'Chain.exe'}", directory / "Chain.cs"],
                         expect=0)
        # Mono writes the last names as it ends.
        profile = directory / "mono.pb"
        self.spanprof("record", "-F", 499, "-o", profile, "--", tap.need_tool("mono"), "--jitmap",
                      directory / "Chain.exe")
        found = collections.Counter()
        for sample in otlp_read.samples(profile):
            names = [frame.name or "" for frame in sample.frames if frame.type != "kernel"]
            chain = tuple(name[6:11] for name in names if name.startswith("Chain:Cs"))
            if chain:
                found[chain, sample.attributes.get(TRUNCATED)] += 1
        self.assertGreater(sum(found.values()), 200, found)
        for chain, why in found:
            self.assertEqual(chain, ("CsHot", "CsMid", "CsTop")[-len(chain):] if not why else chain, found)
        self.assertGreater(found[("CsHot",), "unproved"] + found[("CsHot", "CsMid", "CsTop"), None],
                           0.95 * sum(found.values()), found)

    def serve(self, *more):
        """A server with one query under way that is compiled: the pid of its process. more: settings of it."""
        if not (POSTGRES / "initdb").exists():
            tap.skip(f"tool: no {POSTGRES}/initdb; install postgresql-15")
        directory = self.directory()
        shutil.chown(directory, "postgres")

        def command(*words):
            return ["runuser", "-u", "postgres", "--", *words]

        self.run_command(command(POSTGRES / "initdb", "-D", directory / "data"), expect=0)
        settings = ("listen_addresses=", "max_parallel_workers_per_gather=0", "jit_above_cost=0",
                    "jit_inline_above_cost=0", "jit_optimize_above_cost=0", *more)
        self.spawn(command(POSTGRES / "postgres", "-D", directory / "data", "-k", directory,
                           *(word for setting in settings for word in ("-c", setting))))
        psql = command("psql", "-h", directory, "-Atc")
        tap.wait_until(lambda: self.run_command([*psql, "SELECT 1", "postgres"]).returncode == 0,
                       "the server answers")
        self.spawn([*psql, QUERY, "postgres"])
        find = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT sum%'"
        return int(tap.wait_until(lambda: self.run_command([*psql, find, "postgres"]).stdout.strip(),
                                  "the query runs"))

    def test_callers_of_postgresqls_code_are_not_left_out(self):
        """
        LLVM keeps no frame pointer there, and registers call frame information with libgcc. Once it is read,
        stacks are whole, and the code's callers are those that gdb finds.
        """
        pid = self.serve("jit_debugging_support=on")
        run = self.start("--pid", pid, "--frequency", 499)
        session.wait_cpu([pid], 5.0)
        said = self.backtraces(pid, 20)
        samples = sorted(run.stop().of(pid), key=lambda sample: sample.time_ns)
        first = next((i for i, sample in enumerate(samples)
                      if is_through_made(sample) and TRUNCATED not in sample.attributes), None)
        self.assertIsNotNone(first, ends(samples, lambda frame: not frame.path))
        found = ends(samples[first:], lambda frame: not frame.path)
        self.assertGreater(sum(found.values()), 200, found)
        self.assertGreaterEqual(found[None], 0.98 * sum(found.values()), found)
        known = callers_of_made(said, self.bias(pid))
        self.assertTrue(known, said)
        ours = collections.Counter(caller for sample in samples if TRUNCATED not in sample.attributes
                                   for caller in made_callers(sample))
        self.assertLessEqual(known, set(ours), (ours, known))
        self.assertGreater(sum(n for caller, n in ours.items() if caller in known), 0.8 * sum(ours.values()),
                           (ours, known))

    def registered_elsewhere(self, suite, *how):
        """
        Stacks of victim-made in a Debian whose libgcc keeps a tree, once that is read: how many are whole,
        and all by (functions, why they end).
        """
        root = fresh.Root(self, "libgcc", ["libgcc-s1"], suite)
        shutil.copy(tap.VICTIMS / "victim-made", root.path / "root/victim-made")
        return self.judge(root.spawn(self, "exec ./victim-made rrr map " + " ".join(how)), how)

    @staticmethod
    def reaches_main(sample):
        return TRUNCATED not in sample.attributes and len(user_frames(sample)) >= len(WHOLE)

    def judge(self, victim, how):
        """Where code stays, its rows are known from the hundredth whole stack on: some were walked late."""
        n_before = 0 if {"change", "seldom"} & set(how) else 100
        pid = int(victim.wait_for(r"^pid (\d+)")[1])
        run = self.start("--pid", pid, "--frequency", 499, "--symbols=local")
        self.wait_named(run, pid, "made_hot")
        self.wait_for(run, lambda samples: sum(map(self.reaches_main, samples)) > n_before, "whole stacks")
        session.wait_cpu([pid], 2.0)
        samples = sorted(run.stop().of(pid), key=lambda sample: sample.time_ns)
        stacks = [[frame.name for frame in user_frames(sample)] for sample in samples]
        first = [i for i, sample in enumerate(samples) if self.reaches_main(sample)][n_before]
        found = collections.Counter((tuple(names[:names.index("main") + 1] if "main" in names else names),
                                     sample.attributes.get(TRUNCATED))
                                    for sample, names in list(zip(samples, stacks))[first:])
        self.assertGreater(sum(found.values()), 200, found)
        for names, why in found:
            self.assertNotIn("decoy", names, found)
            if not why and names[0] == "made_hot":
                for name, right in zip(names, WHOLE):  # names of the file may come later
                    self.assertIn(name, ("", right), found)
        return sum(n for (names, why), n in found.items() if not why and names[:3] == WHOLE[:3]), found

    def test_registered_frames_of_trixies_libgcc_lead_to_every_caller(self):
        for how in ((), ("crowd",)):
            whole, found = self.registered_elsewhere("trixie", *how)
            self.assertGreater(whole, 0.95 * sum(found.values()), found)

    def test_registered_frames_of_sids_libgcc_lead_to_every_caller(self):
        whole, found = self.registered_elsewhere("sid", "crowd")
        self.assertGreater(whole, 0.95 * sum(found.values()), found)

    def test_trixies_frames_of_code_that_is_replaced_are_right_or_said_to_be_unknown(self):
        whole, found = self.registered_elsewhere("trixie", "seldom")
        self.assertGreater(whole, 0, found)

    def libunwinds(self, suite, releases):
        """Files of LLVM's libunwind, by their packages in a suite of Debian."""
        packages = [f"libunwind-{release}" for release in releases]

        def make(root):
            with debian.Suite(suite) as packages_of:
                packages_of.unpack(packages, root, "./usr/lib/llvm-*")

        files = [f"usr/lib/llvm-{release}/lib/libunwind.so.1.0" for release in releases]
        if not debian.kept(f"libunwinds/{suite}", files[0], make, lambda root: None):
            tap.skip(f"machine: no libunwind of Debian {suite}")
        root = debian.cache() / f"libunwinds/{suite}"
        return {package: root / file for package, file in zip(packages, files)}

    def registered_with_llvm(self, file, *how):
        environment = {**os.environ, "LD_PRELOAD": str(file)}
        victim = self.spawn([tap.VICTIMS / "victim-made", "rrr", "map", *how], env=environment)
        return self.judge(victim, how)

    def test_frames_that_are_registered_with_llvms_libunwind_lead_to_every_caller(self):
        files = {**self.libunwinds("bookworm", (14, 16, 19)), **self.libunwinds("trixie", (19,))}
        for package, file in files.items():
            for how in ((), ("crowd",)):
                with self.subTest(package=package, file=file, how=how):
                    whole, found = self.registered_with_llvm(file, *how)
                    self.assertGreater(whole, 0.95 * sum(found.values()), found)

    def test_llvms_frames_of_code_that_is_replaced_are_right_or_said_to_be_unknown(self):
        for how in ("change", "seldom"):
            whole, found = self.registered_with_llvm(self.libunwinds("bookworm", (14, 16, 19))["libunwind-14"], how)
        self.assertGreater(whole, 0, found)

    def backtraces(self, pid, n):
        again = ("bt", "detach", "shell sleep 0.05", f"attach {pid}")
        return self.run_command([tap.need_tool("gdb"), "-batch", "-nx", "-p", pid,
                                 *(word for line in again * n for word in ("-ex", line))], timeout=300).stdout

    def bias(self, pid):
        """Of the executable, which is linked at 0."""
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
        return min(int(line.split("-")[0], 16) for line in maps.splitlines() if line.endswith("/postgres"))

    def compare_with_gdb(self, pid, result, part):
        """Nearly all innermost frames of made code have a name with @part, and gdb knows it, too."""
        leaves = [sample.frames[0] for sample in result.of(pid) if sample.frames]
        found = collections.Counter((frame.name or "", frame.address) for frame in leaves
                                    if not frame.path and frame.type != "kernel")
        named = sum(n for (name, _), n in found.items() if part in name)
        self.assertGreater(named, 200, found)
        self.assertGreater(named, 0.95 * sum(found.values()), found)
        names = [entry for entry, _ in found.most_common(20)]
        said = self.run_command([tap.need_tool("gdb"), "-batch", "-nx", "-p", pid,
                                 *(word for _, address in names for word in ("-ex", f"info symbol {address}"))],
                                timeout=300).stdout
        for name, _ in names:
            self.assertIn(name, said)

    def test_what_postgresql_registers_for_debuggers_is_named(self):
        pid = self.serve("jit_debugging_support=on")
        run = self.start("--pid", pid, "--frequency", 499)
        self.wait_for(run, lambda samples: any(frame.name.startswith("evalexpr_")
                                               for sample in samples for frame in sample.frames), "names")
        session.wait_cpu([pid], 3.0)
        self.compare_with_gdb(pid, run.stop(), "evalexpr_")

    def of_package(self, package, program, **environment):
        """The pid of a program of Python that uses a package of PyPI."""
        directory = self.directory()
        self.run_command(["python3", "-m", "venv", directory / "venv"], expect=0, timeout=300)
        python = directory / "venv" / "bin" / "python"
        if self.run_command([python, "-m", "pip", "install", "-q", package], timeout=300).returncode:
            tap.skip(f"machine: pip has no {package} here")
        (directory / "burn.py").write_text(program)
        victim = self.spawn([python, directory / "burn.py"], env={**os.environ, **environment})
        return int(victim.wait_for(r"^pid (\d+)")[1])

    def test_wasmtimes_functions_are_named_and_their_stacks_whole(self):
        """Its code is registered with libgcc, and with LLVM's libunwind where that stands before it."""
        llvm = self.libunwinds("bookworm", (14, 16, 19))["libunwind-14"]
        for more in ({}, {"LD_PRELOAD": str(llvm)}):
            pid = self.of_package("wasmtime==50.0.1", WASM, **more)
            run = self.start("--pid", pid, "--frequency", 499)
            self.wait_named(run, pid, "wasm[0]::function[0]::hot")
            session.wait_cpu([pid], 2.0)
            found = collections.Counter()
            for sample in run.stop().of(pid):
                names = [frame.name for frame in user_frames(sample)]
                if "wasm[0]::function[0]::hot" in names[:1]:
                    found[tuple(names[1:3]), sample.attributes.get(TRUNCATED)] += 1
            right = ("wasm[0]::function[1]::mid", "wasm[0]::function[2]::top"), None
            self.assertGreater(sum(found.values()), 200, found)
            self.assertGreater(found[right], 0.94 * sum(found.values()), found)
            self.assertFalse([key for key in found if key != right and not key[-1]], found)

    def test_what_numba_registers_is_named_without_a_flag(self):
        pid = self.of_package("numba==0.68.1", NUMBA)
        run = self.start("--pid", pid, "--frequency", 499)
        self.wait_for(run, lambda samples: any("nb_hot" in frame.name
                                               for sample in samples for frame in sample.frames), "names")
        session.wait_cpu([pid], 4.0)
        result = run.stop()
        self.compare_with_gdb(pid, result, "nb_hot")
        self.check_numbas_chains(result.of(pid))

    def check_numbas_chains(self, samples):
        """LLVM writes no rows for these functions. Their code tells them, once the list for debuggers is read."""
        samples = sorted(samples, key=lambda sample: sample.time_ns)
        first = next(i for i, sample in enumerate(samples)
                     if is_through_made(sample) and TRUNCATED not in sample.attributes)
        found = collections.Counter()
        for sample in samples[first:]:
            names = [frame.name for frame in user_frames(sample)]
            if names and "nb_hot" in names[0]:
                chain = tuple(part for name in names[:3] for part in ("nb_hot", "cpython", "nb_top") if part in name)
                caller = "".join(names[3:4]) or "Dispatcher_call"  # names of the file may come later
                found[chain, caller, sample.attributes.get(TRUNCATED)] += 1
        right = ("nb_hot", "nb_top", "cpython", "nb_top"), "Dispatcher_call", None
        self.assertGreater(sum(found.values()), 200, found)
        self.assertGreaterEqual(found[right], 0.95 * sum(found.values()), found)
        self.assertFalse([key for key in found if key != right and not key[-1]], found)


tap.main()
