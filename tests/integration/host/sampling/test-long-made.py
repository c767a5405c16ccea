#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compilers at run time that keep no frame pointer, of Debian: Mono's, and PostgreSQL's by LLVM."""
import oracle

oracle.enter()

import collections
import pathlib
import shutil

import otlp_read
import session
import tap

TRUNCATED = "profile.stack.truncated"
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
QUERY = """SELECT sum((a * 31 + 17) % 65521 + sqrt(a)::int) FROM generate_series(1, 100000000) a
           WHERE (a * 7) % 13 < 11 AND a % 3 < 2"""


def ends(samples, is_made):
    """How often stacks with a frame of code made at run time ended for which reason; None = they are whole."""
    return collections.Counter(
        sample.attributes.get(TRUNCATED) for sample in samples
        if any(is_made(frame) for frame in sample.frames if frame.type != "kernel"))


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

    def serve(self):
        """A server with one query under way that is compiled: the pid of its process."""
        if not (POSTGRES / "initdb").exists():
            tap.skip(f"tool: no {POSTGRES}/initdb; install postgresql-15")
        directory = self.directory()
        shutil.chown(directory, "postgres")

        def command(*words):
            return ["runuser", "-u", "postgres", "--", *words]

        self.run_command(command(POSTGRES / "initdb", "-D", directory / "data"), expect=0)
        settings = ("listen_addresses=", "max_parallel_workers_per_gather=0", "jit_above_cost=0",
                    "jit_inline_above_cost=0", "jit_optimize_above_cost=0")
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
        """LLVM keeps no frame pointer there, so no stack of it is whole by one."""
        pid = self.serve()
        run = self.start("--pid", pid, "--frequency", 499)
        session.wait_cpu([pid], 5.0)
        found = ends(run.stop().of(pid), lambda frame: not frame.path)
        self.assertGreater(sum(found.values()), 100, found)
        self.assertEqual(found[None], 0, found)
        self.assertGreater(found["unproved"], 0.9 * sum(found.values()), found)


tap.main()
