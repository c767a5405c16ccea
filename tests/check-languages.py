#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of languages in docs/RUNTIMES.md says by which test each row is shown. Each of these is there,
and each language of test-languages.py has a row.

usage: check-languages.py SOURCE-ROOT
"""
import pathlib
import re
import sys

HEADING = "## What you get"
N_COLUMNS = 7
BY_LANGUAGES = "test-languages"
NOT_SHOWN = "–"
LANGUAGES = "tests/integration/host/runtime/test-languages.py"


def rows_of(text, mistakes):
    """[(language, cell of tests)] of the table under the heading."""
    section = text.split(HEADING + "\n", 1)[-1].split("\n## ", 1)[0] if HEADING in text else ""
    rows = []
    for line in section.split("\n"):
        cells = [cell.strip() for cell in line[1:-1].split("|")] if line.startswith("| ") else []
        if not cells or cells[0] == "language":
            continue
        if len(cells) != N_COLUMNS or not all(cells):
            mistakes.append(f"row {cells[0]}: {N_COLUMNS} cells, none of them empty")
            continue
        rows.append((cells[0], cells[-1]))
    return rows


def main():
    root, mistakes = pathlib.Path(sys.argv[1]), []
    rows = rows_of((root / "docs/RUNTIMES.md").read_text(), mistakes)
    known = {path.stem for path in (root / "tests").rglob("test-*.*") if path.suffix in (".py", ".c")}
    source = (root / LANGUAGES).read_text()
    listed = set(re.findall(r'^    "([^"]+)": (?:Language|on_java)\(', source, re.M))
    for pattern, name in ((r"^INTERPRETERS = \{\n(.*?)^\}", r'^    "([^"]+)": \['),
                          (r"^METHODS = \((.*?)\)", r'"([^"]+)"')):
        found = re.search(pattern, source, re.M | re.S)
        listed |= set(re.findall(name, found[1], re.M))
    shown = set()
    for language, cell in rows:
        names = [] if cell == NOT_SHOWN else cell.split(", ")
        mistakes += [f"row {language}: no test {name}" for name in names if name not in known]
        if BY_LANGUAGES in names:
            shown.add(language)
            if language not in listed:
                mistakes.append(f"row {language}: {LANGUAGES} has no such program")
    mistakes += [f"docs/RUNTIMES.md has no row of {name} with {BY_LANGUAGES}" for name in sorted(listed - shown)]
    if not rows or len({name for name, _ in rows}) != len(rows):
        mistakes.append(f"docs/RUNTIMES.md: no table under `{HEADING}`, or a language twice")
    for mistake in mistakes:
        print(mistake)
    if not mistakes:
        print(f"{len(rows)} rows of languages, {len(shown)} of them by {BY_LANGUAGES}; each test is there")
    return bool(mistakes)


sys.exit(main())
