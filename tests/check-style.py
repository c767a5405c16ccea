#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lines have no more than 110 columns, no blanks at their end, and no tabs; words are spelled right.

A line may be longer if one string literal, or one address of the web, is what makes it so: texts can be
searched for.
Words are checked by codespell; WORDS below are those that it takes for mistakes and that are none.

usage: check-style.py SOURCE-ROOT [FILE…]
"""
import io
import pathlib
import re
import shutil
import subprocess
import sys
import tokenize

COLUMNS = 110
FOLDERS = ("daemon", "bpf", "sdk", "tests", "packaging", "systemd", "docs", ".ci")
SUFFIXES = (".c", ".h", ".cc", ".hpp", ".py", ".sh", ".js", ".css", ".build")
SCRIPT = re.compile(rb"#!.*\b(sh|bash|python3)\n")      # scripts have no suffix, where they are commands
NOT_OURS = ("tests/data/", "tests/fuzz/corpus/")        # recordings
NOT_SPELLED = (".sum",)                                 # checksums
LITERAL = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|`[^`]*`|https?://\S+')

WORDS = {
    "crate": "a package of Rust",
    "mapp": "a parameter: where a map is put",
    "offsetp": "a parameter: where an offset is put",
    "skipp": "a parameter: where a count of frames to skip is put",
    "stopp": "a parameter: where a stop is put",
    "ond": "part of a pattern: (second|seconds)",
    "ot": "part of `not` in a test of cut texts",
    "whos": "a column of a small table",
    "lengt": "an attribute with a typing mistake, in a test",
    "freqency": "an option with a typing mistake, in a test",
    "tpyo": "a typing mistake, in a test",
    "reprot": "a verb with a typing mistake, in a test",
    "nknown": "part of `[Uu]nknown`",
    "alue": "part of `[Vv]alue`",
}


def strings_of(text):
    """Strings of several lines in a Python program: (lines of docstrings, lines of others)."""
    lines, last = (set(), set()), tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and token.end[0] > token.start[0]:
            is_data = last not in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
            lines[is_data].update(range(token.start[0], token.end[0] + 1))
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            last = token.type
    return lines


def docstring_lines(text):
    return strings_of(text)[0]


def text_lines(text):
    return strings_of(text)[1]


def is_long(line):
    if len(line) <= COLUMNS:
        return False
    longest = max((len(match.group()) for match in LITERAL.finditer(line)), default=0)
    return len(line) - longest > COLUMNS - 2


def mistakes_of(path, name):
    text = path.read_text()
    texts = text_lines(text) if name.endswith(".py") else ()
    for number, line in enumerate(text.split("\n"), 1):
        if is_long(line) and number not in texts:
            yield f"{name}:{number}: {len(line)} columns, {COLUMNS} are the most"
        if line != line.rstrip() and number not in texts:
            yield f"{name}:{number}: blanks at the end"
        if "\t" in line and not name.startswith("packaging/debian/"):      # Debian's own style
            yield f"{name}:{number}: a tab"


def is_checked(name):
    return name.split("/")[0] in FOLDERS and not name.startswith(NOT_OURS) or "/" not in name


def files_of(root):
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if not name.startswith((".git/", ".cache/", "build")) and is_checked(name) and path.is_file():
            yield path, name


def spelling(root, names):
    if not shutil.which("codespell"):
        return ["codespell is missing: install the package codespell"]
    done = subprocess.run(["codespell", "--ignore-words-list", ",".join(WORDS), *names], cwd=root, text=True,
                          capture_output=True)
    return done.stdout.splitlines() + done.stderr.splitlines()


def main():
    root, only = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    files = [(path, name) for path, name in files_of(root) if not only or name in only]
    text = [(path, name) for path, name in files if b"\0" not in path.read_bytes()[:4096]]
    lines = [(path, name) for path, name in text
             if path.suffix in SUFFIXES or SCRIPT.match(path.read_bytes())]
    errors = [mistake for path, name in lines for mistake in mistakes_of(path, name)]
    errors += spelling(root, [name for path, name in text if path.suffix not in NOT_SPELLED])
    if len(lines) < 500 and not only:
        errors.append("too few files found: wrong source root?")
    print("\n".join(errors) or f"{len(lines)} files have lines of {COLUMNS} columns at most; {len(text)} are spelled right")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
