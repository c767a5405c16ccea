#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who a target is: what the daemon ships for real processes in real control groups."""
import json
import os
import pathlib
import signal
import sys

import tap

SPIN = "while True: sum(range(1000))"
EXEC = f"""
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: os.execve({sys.executable!r}, ["spin", "-c", {SPIN!r}],
                                                   {{"OTEL_SERVICE_NAME": "second"}}))
{SPIN}
"""
CONTAINER = os.urandom(32).hex()


def groups_root():
    """Where control groups can be made: the unified hierarchy, alone or beside others."""
    for mount in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        if os.path.exists(f"{mount}/cgroup.procs"):
            return pathlib.Path(mount)
    return tap.skip("kernel: no unified control groups")


class Identity(tap.TestCase):
    def setUp(self):
        tap.need_root()

    def group(self, *names):
        """A new control group below the root, gone with the test."""
        path = groups_root()
        for name in names:
            path = path / name
            try:
                path.mkdir()
            except FileExistsError:
                continue
            except OSError as error:
                tap.skip(f"machine: cannot make control groups: {error}")
            self.addCleanup(path.rmdir)
        return path

    def spin(self, environment=None, group=None, code=SPIN, **options):
        """A busy process; it ends before its group is removed."""
        victim = self.spawn([sys.executable, "-c", code], env={"PATH": os.environ["PATH"], **(environment or {})}, **options)
        if group:
            (group / "cgroup.procs").write_text(str(victim.pid))
        return victim

    def run_daemon(self, *options):
        """The directory that requests of a daemon go to, and the daemon."""
        tap.need_btf()
        directory = self.directory()
        receiver = self.spawn([tap.SPANPROF, "receive", "--port", "0", "-o", directory])
        port = receiver.wait_for(r":(\d+)").group(1)
        daemon = self.spawn([tap.SPANPROF, "run", "--endpoint", f"http://127.0.0.1:{port}", "--export-interval", "1s",
                             "--summary", directory / "summary", *map(str, options)])
        return directory, daemon

    @staticmethod
    def resources(directory):
        """{pid: [attributes of each resource, in the order of requests]}"""
        found = {}
        for path in sorted(directory.glob("*.json")):
            try:
                request = json.loads(path.read_text())
            except ValueError:
                continue                    # is being written
            for part in request["resourceProfiles"]:
                pairs = [(a["key"], *a["value"].values()) for a in part["resource"]["attributes"]]
                attributes = dict(pairs)
                if len(attributes) != len(pairs):
                    raise AssertionError(f"a key twice: {pairs}")
                found.setdefault(int(attributes["process.pid"]), []).append(attributes)
        return found

    def wait_resources(self, directory, *pids):
        def look():
            found = self.resources(directory)
            return found if all(pid in found for pid in pids) else None

        return tap.wait_until(look, f"requests with {pids}")

    def test_resources_say_what_targets_say_of_themselves(self):
        named = self.spin({"OTEL_SERVICE_NAME": "cart", "SECRET": "hunter2",
                           "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,team=a%2Cb,process.pid=1,process.executable.path=/x,"
                                                       "bad,host.name=pod-7,telemetry.profiler.name=x"})
        attributes = self.spin({"OTEL_RESOURCE_ATTRIBUTES": "service.name=search,euro=%E2%82%AC,broken=%FF"})
        comm = self.spin(code=f"open('/proc/self/comm', 'w').write('misleading')\n{SPIN}")
        directory, daemon = self.run_daemon("--pid", f"{named.pid},{attributes.pid},{comm.pid}")
        found = self.wait_resources(directory, named.pid, attributes.pid, comm.pid)
        self.assertEqual(daemon.stop(), 0, daemon)

        executable = os.readlink(f"/proc/{comm.pid}/exe")
        for victim, expected in (
            (named, {"service.name": "cart", "team": "a,b", "process.pid": str(named.pid), "process.executable.path": executable,
                     "host.name": "pod-7", "telemetry.profiler.name": "spanprof"}),
            (attributes, {"service.name": "search", "euro": "€", "broken": "\ufffd", "host.name": os.uname().nodename}),
            (comm, {"service.name": f"unknown_service:{os.path.basename(executable)}"}),
        ):
            self.assertLessEqual(expected.items(), found[victim.pid][0].items())
        for path in directory.iterdir():
            self.assertNotIn(b"hunter2", path.read_bytes())
        counters = json.loads((directory / "summary").read_text())["counters"]
        self.assertEqual(counters["environment_attributes_invalid_total"], 1)

    def test_environments_are_left_alone_when_that_is_asked_for(self):
        victim = self.spin({"OTEL_SERVICE_NAME": "cart"})
        directory, _ = self.run_daemon("--pid", victim.pid, "--target-environment=off")
        found = self.wait_resources(directory, victim.pid)
        self.assertRegex(found[victim.pid][0]["service.name"], "^unknown_service:")

    def test_exec_makes_another_service(self):
        victim = self.spin({"OTEL_SERVICE_NAME": "first"}, code=EXEC)
        directory, _ = self.run_daemon("--pid", victim.pid)
        self.wait_resources(directory, victim.pid)
        victim.process.send_signal(signal.SIGUSR1)
        tap.wait_until(lambda: self.resources(directory)[victim.pid][-1]["service.name"] == "second", "the second service")
        self.assertEqual(self.resources(directory)[victim.pid][0]["service.name"], "first")

    def test_selectors_choose_who_is_sampled(self):
        group = self.group("spanprof-test", "chosen.service")
        inside, spared = self.spin(group=group), self.spin(group=group)
        outside = self.spin()
        directory, _ = self.run_daemon("--cgroup", "/spanprof-test", "--user", "nobody", "--exclude", f"pid={spared.pid}")
        self.wait_resources(directory, inside.pid)
        # Those that come later are decided when they are seen first.
        late = self.spawn(["/bin/sh", "-c", "while :; do :; done"], user="nobody")      # may not read where Python is
        found = self.wait_resources(directory, late.pid)
        self.assertEqual(set(found) & {inside.pid, spared.pid, outside.pid, late.pid}, {inside.pid, late.pid})

    def test_resources_name_the_container(self):
        group = self.group("spanprof-test", f"docker-{CONTAINER}.scope")
        inside, outside = self.spin(group=group), self.spin()
        directory, _ = self.run_daemon("--pid", f"{inside.pid},{outside.pid}")
        found = self.wait_resources(directory, inside.pid, outside.pid)
        self.assertEqual(found[inside.pid][0]["container.id"], CONTAINER)
        self.assertNotIn("container.id", found[outside.pid][0])


tap.main()
