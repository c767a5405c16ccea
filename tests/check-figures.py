#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures that documents cite are those of docs/PERFORMANCE.md, and each bench has a row there.

usage: check-figures.py [--write] SOURCE-ROOT

A row of PERFORMANCE.md has a name in its first cell. Other documents cite its cells between two comments:

    <!-- figure: headline.quiet.99 -->19 µs<!-- end -->             the figure itself
    <!-- figure: headline.quiet.99 beside -->OEP 82 µs<!-- end --> or conditions, command

Marks of missed aims and spreads are left out. --write puts the rows' values between the comments. A script or
program of tests/bench that no command names, and nothing that a command names uses, is a mistake, too.
"""
import pathlib
import re
import sys

NAME = re.compile(r"[a-z0-9]+(\.[a-z0-9]+)+")
CITED = re.compile(r"<!-- figure: (\S+)(?: (\w+))? -->(.*?)<!-- end -->")
OPENED = re.compile(r"<!-- figure:")
COLUMNS = ["row", "what", "figure", "aim", "beside it", "conditions", "command"]
CELLS = {None: "figure", "beside": "beside it", "conditions": "conditions", "command": "command"}
NEEDED = ("what", "figure", "command")


def value_of(cell):
    """A cell as another document says it: without the mark of a missed aim, and without the spread."""
    return re.sub(r" \[[^]]*…[^]]*\]", "", cell.replace("**", "")).strip()


def rows_of(text, mistakes):
    """{name: {column: cell}} of all tables that have rows with names. "the same" is the cell above."""
    rows, last = {}, {}
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line[1:-1].split("|")] if line.startswith("|") else [""]
        if not NAME.fullmatch(cells[0]):
            continue
        if len(cells) != len(COLUMNS):
            mistakes.append(f"row {cells[0]}: {len(cells)} cells, not {len(COLUMNS)}")
            continue
        row = dict(zip(COLUMNS, cells))
        for column in ("beside it", "conditions", "command"):
            if row[column] == "the same":
                row[column] = last.get(column, "")
        mistakes += [f"row {cells[0]}: nothing says {column}" for column in NEEDED if not row[column]]
        if cells[0] in rows:
            mistakes.append(f"row {cells[0]}: twice")
        rows[cells[0]] = last = row
    return rows


def cite(path, text, rows, mistakes):
    """@text with the rows' values, and what is wrong with it."""

    def replace(match):
        name, kind, shown = match.groups()
        if name not in rows or kind not in CELLS:
            mistakes.append(f"{path}: no figure {name}{' ' + kind if kind else ''}")
            return match.group()
        value = value_of(rows[name][CELLS[kind]])
        if shown != value:
            mistakes.append(f"{path}: {name} is \"{value}\" in docs/PERFORMANCE.md, not \"{shown}\": "
                            "tests/check-figures.py --write . mends it")
        return match.group().replace(f"-->{shown}<!--", f"-->{value}<!--")

    if len(OPENED.findall(text)) != len(CITED.findall(text)):
        mistakes.append(f"{path}: a figure without its end, or with an end in another line")
    return CITED.sub(replace, text)


def says(text, source, program):
    """Whether @text uses the bench of that source: by its file, as a module, or as what is built from it."""
    stem = source.split(".")[0]
    patterns = [rf"(?<![\w-]){re.escape(source)}", rf"import {re.escape(stem)}\b", rf"from {re.escape(stem)} import",
                rf"\b{re.escape(stem)}\.skel\.h", rf"/{re.escape(program)}(?![\w.-])"]
    return any(re.search(pattern, text) for pattern in patterns)


def check_benches(root, rows):
    """A bench is named by a command, or used by one that is. meson.build names all of them."""
    bench = {path.name: path.read_text() for path in (root / "tests/bench").iterdir() if path.is_file()}
    programs = {source: name for name, source in re.findall(r"executable\('([\w-]+)', '([\w.-]+)'",
                                                            bench.pop("meson.build"))}
    named = {word for row in rows.values() for word in re.findall(r"[\w.-]+", row["command"])}
    todo = [source for source in bench if named & {source, programs.get(source)}]
    used = set()
    while todo:
        one = todo.pop()
        used.add(one)
        todo += [other for other in set(bench) - used if says(bench[one], other, programs.get(other, other))]
    return [f"tests/bench/{name}: no row of docs/PERFORMANCE.md names it: give it one, or delete it"
            for name in sorted(set(bench) - used)]


def main():
    write, root = "--write" in sys.argv, pathlib.Path(sys.argv[-1])
    mistakes, n = [], 0
    rows = rows_of((root / "docs/PERFORMANCE.md").read_text(), mistakes)
    if not rows:
        mistakes.append("docs/PERFORMANCE.md has no row with a name: wrong source root?")
    for path in sorted([*root.glob("*.md"), *(root / "docs").glob("*.md")]):
        text = path.read_text()
        found = []
        new = cite(path.relative_to(root), text, rows, found)
        n += len(CITED.findall(text))
        if write and new != text:
            path.write_text(new)
            print(f"{path.relative_to(root)}: written")
        else:
            mistakes += found
    if not n:
        mistakes.append("no document cites a figure")
    mistakes += check_benches(root, rows)
    print("\n".join(mistakes) or f"{n} cited figures are those of {len(rows)} rows; each bench has a row")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
