#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real engine and its own containers: Podman with an image made here, so that it asks no registry. Its
package is large, and not every machine lets it run: for the long suite. `runtimes` has the control groups of
every engine, made by runc."""
import oracle

oracle.enter()

import pathlib
import shutil
import subprocess

import boxed
import otlp_read
import session
import tap

VICTIM = tap.VICTIMS / "victim-chain"
SYMBOLS = otlp_read.Symbols()
# Engines ask for more descriptors than a container may have whose own engine has set a limit.
RUN = ("run", "--detach", "--pull", "never", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit",
       "nproc=1000:1000")


class Engine:
    """Podman, with a store of its own, which goes with the test."""

    def __init__(self, test):
        if not shutil.which("podman"):
            tap.skip("machine: podman is not installed")
        self.test, self.store = test, test.directory()
        image = test.directory()
        boxed.make_root(image / "root", VICTIM)
        archive = image / "image.tar"
        subprocess.run(["tar", "-C", image / "root", "-cf", archive, "."], check=True)
        test.addCleanup(self.reset)
        self.need("import", archive, "spanprof-test/boxed")

    def podman(self, *arguments):
        """What it leaves running holds its descriptors: no pipes."""
        with open(self.store / "out", "w") as out, open(self.store / "err", "w") as err:
            done = subprocess.run([
                "podman", "--root",
                str(self.store / "root"), "--runroot",
                str(self.store / "run"), "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs",
                "--events-backend", "file", "--runtime", "runc", *map(str, arguments)
            ], stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=2 * tap.PATIENCE)
        return done.returncode, (self.store / "out").read_text().strip(), (self.store /
                                                                           "err").read_text().strip()

    def need(self, *arguments):
        status, out, err = self.podman(*arguments)
        if status:
            tap.skip(f"machine: podman cannot {arguments[0]} here: {err[-300:]}")
        return out

    def start(self, *options):
        """Return: the container's id, and the id of its process out here."""
        container = self.need(*RUN, *options, "spanprof-test/boxed", "/bin/boxed", 5, 300)
        self.test.addCleanup(self.podman, "rm", "--force", "--time", 0, container)
        return container, int(self.need("inspect", "--format", "{{.State.Pid}}", container))

    def reset(self):
        self.podman("rm", "--all", "--force", "--time", 0)
        self.podman("rmi", "--all", "--force")


class Engines(session.TestCase):
    def test_containers_of_podman_are_known_and_chosen(self):
        engine = Engine(self)
        chosen, pid = engine.start("--env", "OTEL_SERVICE_NAME=boxed-service")
        other, other_pid = engine.start()
        self.assertIn(chosen, pathlib.Path(f"/proc/{pid}/cgroup").read_text(), "else this test tests nothing")
        run = self.start("--container", chosen[:12], "--frequency", 499)
        run.wait_events(60, pid)
        result = run.stop()
        self.assertEqual(result.pids, {pid})
        self.assertTrue(pathlib.Path(f"/proc/{other_pid}").exists())
        self.assertEqual(
            {(s.resource["container.id"], s.resource["service.name"], s.resource["process.executable.path"])
             for s in result.of(pid)}, {(chosen, "boxed-service", "/bin/boxed")})
        user = [[f for f in s.frames if f.type == "native"] for s in result.of(pid)]
        burning = [frames for frames in user if len(frames) >= 6]
        self.assertGreater(len(burning), 0.9 * len([frames for frames in user if frames]))
        own = SYMBOLS.build_id(str(VICTIM))
        for frames in burning:
            self.assertEqual({(f.build_id, f.path) for f in frames[:6]}, {(own, "/bin/boxed")})

    def test_a_container_that_starts_later_is_found(self):
        engine = Engine(self)
        run = self.start("--comm", "boxed", "--frequency", 499)
        container, pid = engine.start()
        run.wait_events(60, pid)
        self.assertEqual({s.resource["container.id"] for s in run.stop().of(pid)}, {container})


if __name__ == "__main__":
    tap.main()
