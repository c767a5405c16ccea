# SPDX-License-Identifier: Apache-2.0
"""What a build directory of meson compiles, for tests/conduct.sh.

usage: compiled.py --for BUILD SUITE…    files that tests of these suites need, a line each
       compiled.py --read BUILD OUTPUT   what clang shall read, each file once for each set of definitions:
            OUTPUT/files                    sources of the daemon and the library, for clang-tidy
            OUTPUT/compile_commands.json    how they are compiled
            OUTPUT/commands                 shell commands that read all others, in BUILD
"""
import json
import os
import pathlib
import shlex
import sys

MISTAKES = ("daemon/", "sdk/src/")      # sources that clang-tidy is asked about
WITH_VALUE = ("-o", "-MF", "-MQ", "-MT")


def needed(build, suites):
    tests, targets = (json.loads((build / f"meson-info/intro-{what}.json").read_text())
                      for what in ("tests", "targets"))
    files = {target["id"]: target["filename"] for target in targets}
    chosen = [test for test in tests if suites & {suite.partition(":")[2] for suite in test["suite"]}]
    return {os.path.relpath(file, build.absolute())
            for test in chosen for name in test["depends"] for file in files[name]}


def reading(command):
    """The words of a command that compiles, without its output."""
    words, kept = iter(shlex.split(command)), []
    for word in words:
        if word in WITH_VALUE:
            next(words)
        elif word not in ("-c", "-MD"):
            kept.append(word)
    return kept


def main():
    verb, build, rest = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    if verb == "--for":
        print("\n".join(sorted(needed(build, set(rest)))))
        return
    output, seen, sources, commands = pathlib.Path(rest[0]), set(), [], []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = reading(entry["command"])
        key = entry["file"], *sorted(word for word in words if word.startswith(("-D", "-U", "-std")))
        if key in seen:
            continue
        seen.add(key)
        name = os.path.relpath(os.path.join(entry["directory"], entry["file"]))
        if name.startswith(MISTAKES) and name.endswith(".c"):
            sources.append((name, entry))
        else:
            commands.append(shlex.join([*words, "-fsyntax-only"]))
    output.mkdir(exist_ok=True)
    (output / "files").write_text("".join(f"{name}\n" for name in sorted({name for name, _ in sources})))
    (output / "compile_commands.json").write_text(json.dumps([entry for _, entry in sources]))
    (output / "commands").write_text("".join(f"{command}\n" for command in commands))


main()
