# SPDX-License-Identifier: Apache-2.0
"""Programs of Go: go = golang.Go(); go.build(source, path, "-buildmode=pie", "-ldflags=-s -w"). What Go has compiled of its own
library is kept in the user's cache."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

import tap

FIND = pathlib.Path(__file__).resolve().parents[1] / "interop/go.sh"


# Go 1.MINOR → the release of it that tests fetch as a module
RELEASES = {18: "1.18.10", 19: "1.19.13", 20: "1.20.14", 21: "1.21.13", 22: "1.22.12", 23: "1.23.12", 24: "1.24.13",
            25: "1.25.5", 26: "1.26.0", 27: "1.27.0"}


class Go:
    def __init__(self, program=None, variables=None):
        """@program: a go that is not this machine's. @variables: of its environment: {"GOARCH": "arm64"}."""
        home = pathlib.Path(os.environ.get("HOME") or "/root")
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "spanprof"
        cache.mkdir(parents=True, exist_ok=True)
        self.environment = {
            **os.environ, "GOCACHE": str(cache / "go-build"), "GOTOOLCHAIN": "local", "GO111MODULE": "off",
            "GOFLAGS": "", **(variables or {})
        }
        if program:
            self.program = str(program)
            self.environment.pop("GOROOT", None)
            return
        found = subprocess.run(
            ["sh", "-c", f"cache={shlex.quote(str(cache))}; . {shlex.quote(str(FIND))}; find_go"],
            capture_output=True, text=True)
        if found.returncode:
            tap.skip("tool: no Go 1.25 or later, and none could be installed")
        self.program = found.stdout.split()[-1]

    def build(self, source, path, *options, more=()):
        """@more: other files of the package."""
        subprocess.run([self.program, "build", "-o", path, *options, source, *more], check=True,
                       env=self.environment, cwd=source.parent)
        return path

    def fetch(self, release):
        """Another release, from the module proxy (200 MB), kept in the cache; None: it could not be had."""
        root = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / "go"
        directory, new = root / release, root / f"{release}.new"
        if not directory.exists():
            root.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(new, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=root) as modules:
                done = subprocess.run(
                    [self.program, "mod", "download", "-json",
                     f"golang.org/toolchain@v0.0.1-go{release}.linux-amd64"], capture_output=True, text=True,
                    env={**self.environment, "GOMODCACHE": modules, "GOFLAGS": "-modcacherw", "GO111MODULE": "on"},
                    cwd=modules)
                if done.returncode:
                    return None
                shutil.move(json.loads(done.stdout)["Dir"], new)
            for tools in ("bin", "pkg/tool"):   # a module's files cannot be executed
                for path in (new / tools).rglob("*"):
                    path.chmod(0o755)
            new.rename(directory)
        return Go(directory / "bin/go")

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
