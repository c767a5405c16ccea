#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions of Elixir, of Debian's package, under the daemon: as Elixir writes them (Exception.format_mfa()),
and in the chains that it has said itself. Stacks reach their root."""
import oracle

oracle.enter()

import collections
import shutil

import elixirs
import session
import tap

WHOLE = 0.99            # of samples, from the first one with a function of the language on
NAMED = 0.98
LEAST = 4000            # samples that are judged
N = 4000
VICTIMS = tap.SOURCE_DIR / "tests/victims"


class Elixir(session.NamingCase):
    def setUp(self):
        super().setUp()
        self.root = elixirs.fetched() or tap.skip("machine: no packages of Debian")

    def need(self, program):
        return shutil.which(program) or tap.skip(f"tool: {program} is not installed")

    def check_whole(self, what, samples, language):
        begin = min(s.time_ns for s in samples if any(f.type == language for f in s.frames))
        samples = [s for s in samples if s.time_ns >= begin and s.type not in session.NO_TICKS]
        ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in samples)
        unnamed = sum(any(f.type == "unknown" for f in s.frames) for s in samples)
        print(f"# {what}: {len(samples)} samples, ends {dict(ends)}, with an unnamed frame {unnamed}", flush=True)
        self.assertGreaterEqual(len(samples), LEAST)
        self.assertGreaterEqual(ends[None], WHOLE * len(samples))
        self.assertLessEqual(unnamed, (1 - NAMED) * len(samples))
        return samples

    def elixir(self, *arguments):
        return [self.need("erl"), "-noshell", "-pa", *elixirs.erlang_paths(self.root), "-s", "elixir", "start_cli",
                "-extra", VICTIMS / "beam/victim-shop.exs", *arguments]

    def sampled(self, *arguments):
        child = self.spawn(self.elixir(*arguments))
        child.wait_for("ready")
        run = self.start("--pid", child.pid, "--frequency", "1999", "--symbols", "local", "--depth", "512")
        self.wait_for(run, lambda samples: sum(any(f.type == "beam" and f.name for f in s.frames)
                                               for s in samples) >= N + N // 4, f"{N} samples with functions")
        result = run.stop()
        child.stop(9)
        return result.of(child.pid)

    def test_functions_are_written_as_elixir_writes_them(self):
        said = self.run_command(self.elixir("print"), expect=0).stdout.splitlines()
        truth = {tuple(line.split(";")[:line.split(";").index("Shop.chains/1") + 1]) for line in said}
        self.assertGreaterEqual(len(truth), 4)
        verdicts = collections.Counter()
        for sample in self.check_whole("Elixir", self.sampled("work"), "beam"):
            names = [f.name for f in sample.frames]
            if "Shop.Cart.burn/2" in names and "Shop.chains/1" in names:
                chain = tuple(names[names.index("Shop.Cart.burn/2"):names.index("Shop.chains/1") + 1])
                verdicts["right" if chain in truth else chain] += 1
        print(f"# Elixir: {verdicts.most_common(4)}", flush=True)
        self.assertEqual(set(verdicts), {"right"})
        self.assertGreater(verdicts["right"], N // 2)


if __name__ == "__main__":
    tap.main()
