# SPDX-License-Identifier: Apache-2.0
"""Programs of Go: go = golang.Go(); go.build(source, path, "-buildmode=pie", "-ldflags=-s -w"). What Go has compiled of its own
library is kept in the user's cache."""
import os
import pathlib
import re
import shlex
import subprocess

import tap

FIND = pathlib.Path(__file__).resolve().parents[1] / "interop/go.sh"


class Go:
    def __init__(self):
        home = pathlib.Path(os.environ.get("HOME") or "/root")
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "spanprof"
        cache.mkdir(parents=True, exist_ok=True)
        found = subprocess.run(
            ["sh", "-c", f"cache={shlex.quote(str(cache))}; . {shlex.quote(str(FIND))}; find_go"],
            capture_output=True, text=True)
        if found.returncode:
            tap.skip("tool: no Go 1.25 or later, and none could be installed")
        self.program = found.stdout.split()[-1]
        self.environment = {
            **os.environ, "GOCACHE": str(cache / "go-build"), "GOTOOLCHAIN": "local", "GO111MODULE": "off",
            "GOFLAGS": ""
        }

    def build(self, source, path, *options):
        subprocess.run([self.program, "build", "-o", path, *options, source], check=True,
                       env=self.environment, cwd=source.parent)
        return path

    def build_id(self, path):
        return subprocess.check_output([self.program, "tool", "buildid", path], text=True,
                                       env=self.environment).strip()

    def functions(self, path):
        """{address: names} of the functions in the symbol table, without which convention of calls each is for."""
        out = subprocess.check_output([self.program, "tool", "nm", "-type", path], text=True,
                                      env=self.environment)
        functions = {}
        for address, name in re.findall(r"^ *([0-9a-f]+) [tT] (.+)$", out, re.M):
            functions.setdefault(int(address, 16), set()).add(plain(name))
        return functions


def plain(name):
    """As a symbol table has it, where no dot is Go's middle dot."""
    return re.sub(r"\.abi(0|internal)$", "", name.replace("\u00b7", "."))
