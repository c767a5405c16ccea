#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whose span each named sample of a Java service has. The stack says it: the service publishes before it
calls a method, and ends the span after it has returned. By sdk/java; test-long-java-spans.py has more."""
import oracle

oracle.enter()

import collections
import subprocess

import jdks
import session
import tap

WORKS = {"workA": 1, "workB": 2, "workC": 3, "inner": 4, "rest": 0}
THREADS = (1, 2, 3)
N = 1500
# The process is known to publish from its first linked sample on.
SETTLE_NS = 500_000_000


def caller_of_burn(sample, prefix):
    """Who called `burn` of a class on a sample's stack, by the part of its name behind that; None: nobody did."""
    names = [f.name or "" for f in sample.frames]
    at = names.index(prefix + "burn") if prefix + "burn" in names else len(names)
    caller = names[at + 1] if at + 1 < len(names) else ""
    return caller.removeprefix(prefix) if caller.startswith(prefix) else None


def thread_of(sample):
    return int(sample.attributes["thread.name"].removeprefix("worker-"))


def settled(samples, prefix):
    """(sample, method) of those with a method of the service, since its contexts are read."""
    first = min((s.time_ns for s in samples if s.trace_id), default=None)
    named = [(s, caller_of_burn(s, prefix)) for s in samples if first and s.time_ns > first + SETTLE_NS]
    return [(s, method) for s, method in named if method]


class JavaSpans(session.NamingCase):
    def start_service(self, *options):
        for tool in ("java", "javac"):
            tap.need_tool(tool)
        classes = self.directory()
        self.run_command([
            "javac", *jdks.BRIEF, "-Xlint:all", "-Werror", "-d", classes, tap.SOURCE_DIR / "sdk/java/spanprof/ThreadContext.java",
            tap.SOURCE_DIR / "tests/victims/java/VictimJavaSpans.java"
        ], expect=0, timeout=120)
        library = tap.BUILD_DIR / "sdk/libspanprof-context.so"
        child = self.spawn([
            "java", *options, f"-Dspanprof.library={library.resolve()}", "-cp", classes, "VictimJavaSpans"
        ], stdin=subprocess.PIPE, env=session.clean_environment())
        child.wait_for("^ready")
        return child

    def judged(self, child, prefix, is_all=lambda named: True):
        """settled() of a run; @is_all(those): whether all are there that the test judges."""
        run = self.start("--pid", child.pid, "--frequency", 999)

        def is_enough(samples):
            named = settled(samples, prefix)
            return len(named) >= N and is_all(named)

        self.wait_for(run, is_enough, f"{N} named samples, of each kind")
        return settled(run.stop().of(child.pid), prefix)

    def check(self, *options):
        child = self.start_service(*options)
        seen, all_ = collections.Counter(), {(method, thread) for method in WORKS for thread in THREADS}

        def is_all(named):
            return {(method, thread_of(s)) for s, method in named} >= all_

        for sample, method in self.judged(child, "VictimJavaSpans.", is_all):
            thread = thread_of(sample)
            seen[method, thread] += sample.value
            if not WORKS[method]:
                self.assertFalse(sample.trace_id, sample)
                continue
            self.assertEqual(sample.trace_id, f"{0x5ca1ab1e:016x}{thread:016x}", (method, sample))
            self.assertEqual(sample.span_id[:10], f"{thread:08x}{WORKS[method]:02x}", (method, sample))
        print("#", dict(seen), flush=True)
        self.assertEqual(set(seen), all_)

    def test_each_named_sample_has_the_span_of_its_method(self):
        self.check()


if __name__ == "__main__":
    tap.main()
