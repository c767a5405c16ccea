#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Containers as engines make them: by runc, the program that Docker, containerd, CRI-O and Podman have it
done by, in the control groups that they ask for; on an overlay, in namespaces of their own, without
privileges."""
import oracle

oracle.enter()

import contextlib
import pathlib
import secrets
import subprocess

import boxed
import otlp_read
import runc
import session
import tap

VICTIM = tap.VICTIMS / "victim-chain"
SYMBOLS = otlp_read.Symbols()
GROUPS = pathlib.Path("/sys/fs/cgroup")
POD = "pod2b6e7a4c_9d1f_4c53_8f0a_5c1de2a90b77"
# Who asks for it: the control group, with the container's id.
ENGINES = {
    "docker, by files": "/docker/{}",
    "docker, by systemd": "/system.slice/docker-{}.scope",
    "containerd, for Kubernetes": "/kubepods/burstable/" + POD + "/{}",
    "containerd, for Kubernetes by systemd": f"/kubepods.slice/kubepods-{POD}.slice/" +
    "cri-containerd-{}.scope",
    "CRI-O": f"/kubepods.slice/kubepods-{POD}.slice/" + "crio-{}.scope",
    "Podman": "/machine.slice/libpod-{}.scope",
}


class Container(runc.Box):
    """One that runs the victim on an overlay of the image."""

    def __init__(self, test, image, name, group):
        self.test, self.id, self.bundle = test, secrets.token_hex(32), test.directory()
        self.group = group.format(self.id)
        self.made = [path for path in self.parents() if not path.exists()]
        self.mount(image)
        super().__init__(test, self.bundle, self.configuration(name), self.id)

    def mount(self, image):
        for name in ("upper", "work", "root"):
            (self.bundle / name).mkdir()
        options = f"lowerdir={image},upperdir={self.bundle}/upper,workdir={self.bundle}/work"
        done = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, self.bundle / "root"],
                              capture_output=True, text=True)
        if done.returncode:
            tap.skip(f"machine: mounts no overlay here: {done.stderr.strip()}")
        self.test.addCleanup(subprocess.run, ["umount", self.bundle / "root"])

    def configuration(self, name):
        return {
            "ociVersion": "1.0.2",
            "hostname": "box",
            "root": {"path": "root"},
            "process": {
                "args": ["/bin/boxed", "5", "300"], "cwd": "/", "user": {"uid": 1000, "gid": 1000},
                "noNewPrivileges": True, "env": [f"OTEL_SERVICE_NAME={name}"]
            },
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {
                "cgroupsPath": self.group,
                "namespaces": [{"type": x} for x in ("pid", "ipc", "uts", "mount", "network")]
            },
        }

    def parents(self):
        """The groups above its own in each hierarchy, innermost first."""
        above = [path.relative_to("/") for path in pathlib.Path(self.group).parents][:-1]
        return [
            hierarchy / path
            for hierarchy in [GROUPS, *(x for x in GROUPS.iterdir() if (x / "cgroup.procs").exists())]
            for path in above
        ]

    def remove(self):
        super().remove()
        for path in self.made:
            with contextlib.suppress(OSError):          # another container's group is there still
                path.rmdir()


class Runtimes(session.TestCase):
    def setUp(self):
        tap.need_tool("runc")
        self.image = self.directory()
        boxed.make_root(self.image, VICTIM)

    def containers(self, engines):
        return {name: Container(self, self.image, name, group) for name, group in engines.items()}

    def test_containers_of_every_engine_are_known_by_their_id(self):
        boxes = self.containers(ENGINES)
        outside = self.victim("chain", 5)
        run = self.start("--comm", "boxed,victim-chain", "--frequency", 499)
        for pid in [outside.pid, *(box.pid for box in boxes.values())]:
            run.wait_events(30, pid)
        result = run.stop()
        for name, box in boxes.items():
            with self.subTest(engine=name):
                self.assertIn(box.group,
                              pathlib.Path(f"/proc/{box.pid}/cgroup").read_text(),
                              "else this test tests nothing")
                self.assertEqual(
                    {(s.resource.get("container.id"), s.resource["service.name"],
                      s.resource["process.executable.path"])
                     for s in result.of(box.pid)}, {(box.id, name, "/bin/boxed")})
                user = [[f for f in s.frames if f.type == "native"] for s in result.of(box.pid)]
                burning = [frames for frames in user if len(frames) >= 6]
                self.assertGreater(len(burning), 0.9 * len([frames for frames in user if frames]))
                own = SYMBOLS.build_id(str(VICTIM))
                for frames in burning:
                    self.assertEqual({(f.build_id, f.path) for f in frames[:6]}, {(own, "/bin/boxed")},
                                     "read on the overlay")
        self.assertEqual({s.resource.get("container.id") for s in result.of(outside.pid)}, {None})

    def test_one_container_is_chosen_by_its_id(self):
        boxes = self.containers(dict(list(ENGINES.items())[1:3]))
        chosen, other = boxes.values()
        run = self.start("--container", chosen.id[:12], "--frequency", 499)
        run.wait_events(60, chosen.pid)
        result = run.stop()
        self.assertEqual(result.pids, {chosen.pid})
        self.assertTrue(pathlib.Path(f"/proc/{other.pid}").exists())


if __name__ == "__main__":
    tap.main()
