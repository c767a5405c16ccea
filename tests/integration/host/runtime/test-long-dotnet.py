#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
""".NET with the perf map that it writes if it is told to: methods of tests/victims/dotnet/victim-dotnet.cs
stand as .NET itself has said (StackTrace). Methods that keep no frame pointer end a stack: what is there is
right."""
import oracle

oracle.enter()

import collections
import os
import re

import dotnets
import session
import tap

HZ = ("--frequency", "1999", "--symbols", "local", "--depth", "512")
SOURCE = tap.SOURCE_DIR / "tests/victims/dotnet/victim-dotnet.cs"
N = 6000
METHOD = re.compile(r"\[victim-dotnet\] (.+?)(?:\[.*?\])?::(.+?)\(.*\)\[(\w+)\]$")
BURN = "Work::Burn"
FAST, SLOW, GOES_ON = "OptimizedTier1", "QuickJitted", "OptimizedTier1OSR"
# no method is compiled again for its calls, for a long time; the loop of `Burn` is, while it runs. In hex
FIRST_TIER = {"DOTNET_TC_CallCountingDelayMs": "100000", "DOTNET_OSR_HitLimit": "1",
              "DOTNET_TC_OnStackReplacement_InitialCounter": "100"}
CALLERS = 2.0           # methods of the victim that a stack has on average: the leaf, and who has called it


def methods_of(sample):
    """[(Type::Method, tier), …] of the victim, the outermost first."""
    found = (METHOD.search(f.name or "") for f in reversed(sample.frames))
    return [(f"{m[1]}::{m[2]}", m[3]) for m in found if m]


class Dotnet(session.NamingCase):
    def start_victim(self, **environment):
        program = dotnets.compiled(SOURCE, self.directory())
        environment = {**os.environ, "DOTNET_EnableDiagnostics": "0", **environment}
        child = self.spawn([dotnets.fetched(), program], env=environment)
        for name in ("perf", "perfinfo"):
            self.addCleanup(tap.pathlib.Path(f"/tmp/{name}-{child.pid}.map").unlink, missing_ok=True)
        child.wait_for("ready")
        return child, program

    def truth(self, program):
        said = self.run_command([dotnets.fetched(), program, "--print"], expect=0).stdout
        return {tuple(line.split()) for line in said.splitlines()}

    def sampled(self, **environment):
        """How stacks in `Burn` end, and its samples by tiers. All of them are a known chain's innermost part."""
        child, program = self.start_victim(DOTNET_PerfMapEnabled="1", **environment)
        run = self.start("--pid", child.pid, *HZ)
        self.wait_for(run, lambda samples: sum(bool(methods_of(s)) for s in samples) >= N, f"{N} named samples")
        result = run.stop()
        child.stop(9)
        chains = self.truth(program)
        verdicts, wrong, tiers, ends = (collections.Counter() for _ in range(4))
        n_methods = n_burns = 0
        for sample in result.of(child.pid):
            methods = methods_of(sample)
            names = tuple(name for name, _ in methods)
            if not names or names[-1] != BURN:
                verdicts["beside"] += sample.value
                continue
            # the map may lack what was made a moment ago
            if any(f.type == "unknown" and not f.name for f in sample.frames):
                verdicts["unnamed"] += sample.value
                continue
            ends[sample.attributes.get("profile.stack.truncated")] += sample.value
            n_burns += sample.value
            n_methods += sample.value * len(names)
            tiers[methods[-1][1]] += sample.value
            # a catch block runs on top of its method
            names = tuple(name for i, name in enumerate(names) if name != "Chains::Caught" or name not in names[:i])
            if any(chain[len(chain) - len(names):] == names for chain in chains):
                verdicts["whole" if names in chains else "inner"] += sample.value
            else:
                verdicts["wrong"] += sample.value
                wrong[names] += sample.value
        print(f"# {dict(verdicts)}, ends {dict(ends)}, tiers {dict(tiers)}, {n_methods / n_burns:.1f} methods a stack")
        print(f"# wrong: {wrong.most_common(5)}", flush=True)
        self.assertFalse(wrong)
        self.assertGreater(n_burns, 0.5 * sum(verdicts.values()))
        return verdicts, tiers, n_methods / n_burns

    def test_methods_stand_as_they_were_called(self):
        """Many are compiled again without a frame pointer, and end a stack."""
        verdicts, tiers, methods = self.sampled()
        self.assertGreater(verdicts["whole"], 0)
        self.assertGreater(methods, CALLERS)
        self.assertGreater(tiers[FAST], 0.5 * sum(tiers.values()))

    def test_code_that_goes_on_for_a_slower_form_ends_a_stack(self):
        """The slower form has the same frame pointer as its caller, which would be left out."""
        verdicts, tiers, methods = self.sampled(**FIRST_TIER)
        self.assertGreater(tiers[GOES_ON], 0)
        self.assertGreater(tiers[GOES_ON] + tiers[SLOW], 0.9 * sum(tiers.values()))

    def test_one_without_a_map_is_told_what_to_set(self):
        child, _ = self.start_victim()
        done = self.run_command([tap.SPANPROF, "record", "--pid", child.pid, "--duration", "2s", "-o",
                                 self.directory() / "out.folded"], expect=0)
        child.stop(9)
        self.assertIn("DOTNET_PerfMapEnabled=1 names such code", done.stdout + done.stderr)


if __name__ == "__main__":
    tap.main()
