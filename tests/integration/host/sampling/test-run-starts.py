#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that live 20 ms, under --all: they are gone when their samples are read. Services, groups and
names of each are still its own, as what exec gave to it came along with its first sample."""
import oracle

oracle.enter()

import collections
import os
import re
import subprocess
import sys

import groups
import otlp_read
import session
import tap

SYMBOLS = otlp_read.Symbols()
SHORT = tap.VICTIMS / "victim-short"
HZ = ("--frequency", "99")
N = 120
# prints the pid of each; a line of input begins it
SPAWNER = """
import os, subprocess, sys
print("ready", flush=True)
sys.stdin.readline()
for i in range({n}):
    environment = {{"PATH": os.environ["PATH"], "OTEL_SERVICE_NAME": f"{{sys.argv[1]}}-{{i}}", **{more!r}}}
    child = subprocess.Popen({command!r}, env=environment, stdout=subprocess.DEVNULL)
    child.wait()
    print(f"child {{child.pid}} {{i}}", flush=True)
"""
# what a shell does before an exec that gives another service
BEFORE = f"i=0; while [ $i -lt 6000 ]; do i=$((i+1)); done; OTEL_SERVICE_NAME=after exec {SHORT} 20"


class Starts(session.TestCase):
    def spawner(self, name, command=(str(SHORT), "20"), group=None, n=N, **more):
        child = self.spawn([sys.executable, "-c", SPAWNER.format(n=n, command=list(command), more=more), name],
                           stdin=subprocess.PIPE)
        child.wait_for("ready")
        if group:
            groups.enter(group, child.pid)
        return child

    def go(self, *spawners):
        """Return: for each {pid: number of its child}"""
        for spawner in spawners:
            spawner.process.stdin.write(b"go\n")
            spawner.process.stdin.close()
        for spawner in spawners:
            self.assertEqual(spawner.wait(), 0, spawner)
        return [{int(pid): int(i) for pid, i in re.findall(r"^child (\d+) (\d+)$", spawner.out, re.M)}
                for spawner in spawners]

    def burning(self, samples):
        """Those in the program's own function; the rest of its user stacks begins elsewhere."""
        return [s for s in samples if any(f.build_id and SYMBOLS.name(f) == "short_burn" for f in s.frames)]

    def finish(self, run):
        result = run.stop()
        starts = result.counter("starts_total")
        print(f"{starts}, {result.counter('calls_total')}")
        return result, starts

    @staticmethod
    def told_nothing(sample):
        return sample.resource["service.name"].startswith("unknown_service")

    def told(self, result, samples, service):
        """
        Those with the service that service(pid) says; none has another one. One whose only sample came while
        exec was under way, or that ended while it was read, has none, which is counted.
        """
        told = [s for s in samples if not self.told_nothing(s)]
        for sample in told:
            self.assertEqual(sample.resource["service.name"], service(sample.resource["process.pid"]))
        self.check_counted(result, samples)
        return told

    def check_counted(self, result, samples):
        silent = {(s.resource["process.pid"], s.resource["process.executable.name"])
                  for s in samples if self.told_nothing(s)}
        counted = result.counter("starts_total", "missed") + result.counter("environments_unreadable_total")
        self.assertLessEqual(len(silent), counted)

    @staticmethod
    def short_ones(result, children):
        return [s for s in result.samples if s.resource["process.pid"] in children and
                s.attributes["thread.name"] == SHORT.name]

    def check_services(self, result, children, name):
        """Each sample has its own program's service. Return: the samples that have one."""
        all_samples = self.short_ones(result, children)
        samples = self.told(result, all_samples, lambda pid: f"{name}-{children[pid]}")
        for sample in samples:
            self.assertEqual(sample.resource["team"], "brief")
            self.assertEqual(sample.resource["process.executable.name"], SHORT.name)
        pids = {s.resource["process.pid"] for s in samples}
        print(f"{name}: {len(samples)} of {len(all_samples)} samples, of {len(pids)} of {len(children)} processes")
        self.assertGreater(len(pids), 0.8 * len(children))
        self.assertGreater(len(samples), 0.95 * len(all_samples))
        burning = self.burning(samples)
        whole = [s for s in burning if "profile.stack.truncated" not in s.attributes]
        self.assertGreater(len(burning), 0.5 * len(samples))
        self.assertGreater(len(whole), 0.9 * len(burning), "they are known files")
        return samples

    def test_each_short_program_is_its_own_service(self):
        run = self.start("--all", *HZ)
        children, = self.go(self.spawner("one", OTEL_RESOURCE_ATTRIBUTES="team=brief"))
        result, starts = self.finish(run)
        self.check_services(result, children, "one")
        self.assertGreater(starts["waits"], 0, "a settled name calls nobody")
        self.assertGreater(starts["used"], 10)

    def test_an_environment_that_is_too_long_is_read_at_once(self):
        """It does not fit into what comes along: the daemon is called, as for a name that it does not know well."""
        run = self.start("--all", *HZ)
        children, = self.go(self.spawner("long", OTEL_RESOURCE_ATTRIBUTES="team=brief", FILL="x" * 9000))
        result, starts = self.finish(run)
        samples = self.short_ones(result, children)
        told = self.told(result, samples, lambda pid: f"long-{children[pid]}")
        print(f"{len(told)} of {len(samples)} samples have their service")
        self.assertGreater(starts["unread"], 0.8 * N)
        self.assertGreater(len(told), 0.5 * len(samples))

    def test_environments_are_left_alone_when_that_is_asked_for(self):
        run = self.start("--all", "--no-target-environment", *HZ)
        children, = self.go(self.spawner("secret"))
        result, starts = self.finish(run)
        samples = [s for s in result.samples if s.resource["process.pid"] in children]
        self.assertGreater(len(samples), 0.8 * N)
        self.assertGreater(starts["used"], 10)
        self.assertFalse([s for s in samples if s.resource["service.name"].startswith("secret")])

    def test_short_programs_are_in_the_group_of_their_parent(self):
        container = os.urandom(32).hex()
        group = groups.make(self, "spanprof-starts", f"docker-{container}.scope")
        run = self.start("--all", *HZ)
        more = {"OTEL_RESOURCE_ATTRIBUTES": "team=brief"}
        inside, outside = self.spawner("inside", group=group, **more), self.spawner("outside", **more)
        # it goes into the group itself: its parent is no witness
        joins = self.spawner("joins", ["sh", "-c", f"echo $$ > {group}/cgroup.procs; exec {SHORT} 20"], n=40)
        found = self.go(inside, outside, joins)
        result, starts = self.finish(run)
        for children, name, want in zip(found, ("inside", "outside"), (container, None)):
            samples = self.check_services(result, children, name)
            self.assertEqual({s.resource.get("container.id") for s in samples}, {want})
        samples = self.short_ones(result, found[2])
        counts = collections.Counter(s.resource.get("container.id") for s in samples)
        print(f"joins: {counts}")
        self.assertGreater(counts[container], 0.5 * len(samples))
        self.assertGreater(starts["waits"], 0)

    def test_what_ran_before_an_exec_is_another_program(self):
        """Both are gone when their samples are read, and have one pid."""
        run = self.start("--all", *HZ)
        children, = self.go(self.spawner("before", ["sh", "-c", BEFORE]))
        result, starts = self.finish(run)
        samples = [s for s in result.samples if s.resource["process.pid"] in children]
        by_name = {name: [s for s in samples if s.attributes["thread.name"] == name] for name in ("sh", SHORT.name)}
        before, after = ([s for s in by_name[name] if not self.told_nothing(s)] for name in by_name)
        for sample in before:
            self.assertEqual(sample.resource["service.name"], f"before-{children[sample.resource['process.pid']]}")
        self.assertEqual({s.resource["service.name"] for s in after}, {"after"})
        print(f"before: {len(before)} of {len(by_name['sh'])} samples; after: {len(after)} of {len(by_name[SHORT.name])}")
        self.assertGreater(len(before), max(N / 4, 0.9 * len(by_name["sh"])))
        # a tick while exec sets the texts up has none, and may be the only one
        self.assertGreater(len(after), max(N / 4, 0.9 * len(by_name[SHORT.name])))
        self.check_counted(result, [s for of_one in by_name.values() for s in of_one])
        for sample in self.burning(samples):
            self.assertEqual(sample.resource["process.executable.name"], SHORT.name)


if __name__ == "__main__":
    tap.main()
