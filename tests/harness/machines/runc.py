# SPDX-License-Identifier: Apache-2.0
"""Containers as engines make them, by runc:

    # runs detached; the test ends it. Skips with a reason where that cannot be
    box = runc.Box(test, bundle, configuration)
    box.pid, box.output, box.kill("TERM"), box.execute(["/bin/true"])
"""
import json
import pathlib
import secrets
import subprocess

import tap


class Box:
    """@bundle has the root that @configuration names; @name: a container's id as engines make them, if none is given."""

    def __init__(self, test, bundle, configuration, name=None):
        tap.need_tool("runc")
        self.id, self.bundle = name or secrets.token_hex(32), bundle
        (bundle / "config.json").write_text(json.dumps(configuration))
        test.addCleanup(self.remove)
        with open(bundle / "output", "w") as output:
            started = self.runc("run", "--detach", "--bundle", bundle, self.id, output=output)
        if started.returncode:
            tap.skip(f"machine: runc makes no container here: {self.output.strip()[-300:]}")
        self.pid = self.state()["pid"]

    def runc(self, *arguments, output=None):
        """What runs in the container keeps the descriptors open: no pipes."""
        with open(self.bundle / "answer", "w") as answer:
            done = subprocess.run(
                ["runc", "--root", str(self.bundle / "state"), *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=output or answer, stderr=output or answer,
                timeout=tap.PATIENCE)
        return subprocess.CompletedProcess(done.args, done.returncode, (self.bundle / "answer").read_text())

    def state(self):
        return json.loads(self.runc("state", self.id).stdout)

    @property
    def output(self):
        """Of the program in it, from its start on."""
        return pathlib.Path(self.bundle / "output").read_text(errors="replace")

    def kill(self, name):
        self.runc("kill", self.id, name)

    def execute(self, command):
        """As a probe by exec does: (status, output) of @command in the container."""
        done = self.runc("exec", self.id, *command)
        return done.returncode, done.stdout

    def remove(self):
        self.runc("delete", "--force", self.id)
