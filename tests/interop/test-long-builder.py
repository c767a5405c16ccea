#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Collector's own builder makes a Collector of sdk/collector/builder.yaml and published modules, and that one runs. Minutes the first time."""
import os
import pathlib
import re
import shutil
import subprocess

import oracle
import tap

oracle.enter()

import collector
import session

ROOT = pathlib.Path(os.environ.get("MESON_SOURCE_ROOT") or pathlib.Path(__file__).resolve().parents[2])
SOURCE = ROOT / "sdk/collector"


def go():
    """The Go that setup-collector.sh uses."""
    script = f'cache="${{XDG_CACHE_HOME:-$HOME/.cache}}/spanprof"; . {ROOT}/tests/interop/go.sh; find_go'
    found = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, text=True).stdout.strip()
    if not found:
        tap.skip("machine: no Go 1.25 or later, and none could be installed")
    return found


class Builder(session.TestCase):
    def test_makes_a_collector_by_the_commands_of_the_readme(self):
        here = self.directory() / "collector"
        shutil.copytree(SOURCE, here)
        program = go()
        build, run = re.findall(r"^    (\S.*)$", (SOURCE / "README.md").read_text().split("## Build")[1], re.M)
        path = f"{pathlib.Path(program).parent}:{os.environ['PATH']}"
        self.run_command(build.split(), expect=0, cwd=here, timeout=1500,
                         env={**os.environ, "PATH": path, "GOTOOLCHAIN": "local"})
        victim = self.victim("chain", "120")
        command = [tap.SPANPROF, "run", "--pid", str(victim.pid), "--export-interval", "1s"]
        (here / "collector.yaml").write_text(collector.config(
            {"spanprof": {"socket": here / "s", "command": command}}, {"debug": {"verbosity": "detailed"}},
            "profiles"))
        here.parent.chmod(0o711)
        running = self.spawn(run.split(), cwd=here)
        running.wait_for(r"process\.pid: Int\(%d\)" % victim.pid)
        running.stop()


if __name__ == "__main__":
    tap.main()
