#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/CAPS.md has each cap: name, size and key as the code has them, who fills it, what happens then, and
the test that fills it.

usage: check-caps.py [--write] SOURCE-ROOT

Maps are those of bpf/, all of them. Of the daemon a row names FILE:CONSTANT. --write puts sizes and keys of
the code into the page, and a row of question marks for a new map, to be filled in by hand. Without it, these
are mistakes: a size or key that differs, a map without a row, a row without its map or constant, a question
mark, a row whose test is not there, and a counter of what is over a cap that no row has. A test is named
FILE:CASE, or FILE:PART-OF-ITS-NAME. What only its owner, or root, can fill has none ("–").
"""
import pathlib
import re
import sys

PAGE, COUNTERS = "docs/CAPS.md", "bpf/border/counters.h"
AFTER_MAPS = "## The daemon"         # what stands behind the table of maps
MAP = re.compile(r'struct (?:(\w+) )?\{((?:(?!struct (?:\w+ )?\{).)*?)\}(?: (\w+) SEC\("\.maps"\))?;', re.S)
OF_TYPE = r'struct %s (\w+) SEC\("\.maps"\)'
OF_A_CAP = re.compile(r"\bX\((\w+_(?:OVER_CAP|FULL|EVICTED|OVER_BUDGET)),")
ROW = re.compile(r"^\| `([^`]+)` \|" + r" ([^|]*) \|" * 6 + "$", re.M)
TEST = re.compile(r"`([\w-]+\.(?:c|py)):(\w+)`")
CASE = re.compile(r"^\s*(?:Test\(\w+, |def test_)(\w+)", re.M)
OF_OWN = ("own", "root")
NUMBER = re.compile(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]*\b")


def constants(text):
    """{name: expression, or (name before it)} of the enums of a file."""
    found = {}
    for body in re.findall(r"\benum\b[^;{}()]*\{([^}]*)\}", re.sub(r"/\*.*?\*/", "", text, flags=re.S)):
        before = None
        for entry in filter(None, (part.strip() for part in body.split(","))):
            name, _, value = (part.strip() for part in entry.partition("="))
            found[name] = value or (f"{before} + 1" if before else "0")
            before = name
    return found


class Code:
    """Values of constants, by the file that has them, else by any header."""

    def __init__(self, root):
        self.texts = {str(path.relative_to(root)): path.read_text()
                      for folder in ("bpf", "daemon", "sdk/include") for path in sorted((root / folder).rglob("*.[ch]"))}
        self.constants = {path: constants(text) for path, text in self.texts.items()}

    def value(self, name, path):
        for where in (path, *(other for other in self.texts if other.endswith(".h"))):
            if name in self.constants.get(where, {}):
                return self.evaluate(self.constants[where][name], where)
        raise KeyError(f"{path}: no constant {name}")

    def evaluate(self, text, path):
        text = NUMBER.sub(lambda m: str(int(m[1], 0)), text)
        text = re.sub(r"\b[A-Za-z_]\w*", lambda m: str(self.value(m[0], path)), text)
        return eval(text.replace("/", "//"), {"__builtins__": {}})      # digits and operators are left

    def maps(self):
        """{name: (size, key)}"""
        found = {}
        for path, text in self.texts.items():
            for kind, body, name in MAP.findall(text):
                names = [name] if name else re.findall(OF_TYPE % kind, text) if kind else []
                if not names:
                    continue
                entries = re.search(r"max_entries, (.+?)\);", body)
                key = re.search(r"__type\(key, ([^)]+)\)", body)
                kind = re.search(r"BPF_MAP_TYPE_(\w+)", body)[1].lower().replace("_", " ")
                size = f"{self.evaluate(entries[1], path):,}"
                for name in names:
                    found[name] = (f"{size}, {kind}", f"`{key[1]}`" if key else "–")
        return found


def of_row(code, maps, name, key):
    """Size and key that a row should have."""
    if ":" not in name:
        return maps[name]
    path, _, constant = name.partition(":")
    return f"{code.value(constant, path):,}", key


def cases(root):
    """{name of a test's file: names of its cases}"""
    return {path.name: CASE.findall(path.read_text()) for path in sorted((root / "tests").rglob("test-*"))
            if path.suffix in (".c", ".py")}


def mistake_of_test(share, test, known):
    """What is wrong with the last cell of a row, or None."""
    if share in OF_OWN:
        return None if test == "–" else f"its share is `{share}`, so it has no test: –"
    named = TEST.fullmatch(test)
    if not named:
        return f"{test} is no `FILE:CASE`"
    if not any(named[2] in case for case in known.get(named[1], ())):
        return f"{named[1]} has no case {named[2]}"
    return None


def main():
    write = sys.argv[1:2] == ["--write"]
    root = pathlib.Path(sys.argv[-1])
    code = Code(root)
    page, maps, mistakes, seen = (root / PAGE).read_text(), code.maps(), [], set()
    known = cases(root)

    def renew(match):
        name, size, key, *words = (part.strip() for part in match.groups())
        seen.add(name)
        if ":" not in name and name not in maps:
            mistakes.append(f"`{name}`: no such map")
            return match[0]
        try:
            now = of_row(code, maps, name, key)
        except KeyError as error:
            mistakes.append(f"`{name}`: {error}")
            return match[0]
        if (size, key) != now and not write:
            mistakes.append(f"`{name}`: {size}, key {key}; the code has {now[0]}, key {now[1]}")
        if any(not word or "?" in word for word in words):
            mistakes.append(f"`{name}`: say who fills it, what happens when it is full, whose share it has, "
                            "and its test")
        elif mistake := mistake_of_test(*words[2:], known):
            mistakes.append(f"`{name}`: {mistake}")
        return f"| `{name}` | " + " | ".join([*now, *words]) + " |"

    page = ROW.sub(renew, page)
    missing = [name for name in maps if name not in seen]
    if write:
        rows = "".join(f"\n| `{name}` | {maps[name][0]} | {maps[name][1]} | ? | ? | ? | ? |" for name in missing)
        page = page.replace(f"\n\n{AFTER_MAPS}", f"{rows}\n\n{AFTER_MAPS}", 1)
        (root / PAGE).write_text(page)
    mistakes += [f"the map `{name}` has no row" for name in missing]
    mistakes += [f"no row has the counter {name}" for name in OF_A_CAP.findall((root / COUNTERS).read_text())
                 if f"`{name}`" not in page]
    for mistake in mistakes:
        print(f"{PAGE}: {mistake}")
    if not mistakes:
        print(f"{PAGE} has {len(maps)} maps and {len(seen) - len(maps)} caps of the daemon")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
