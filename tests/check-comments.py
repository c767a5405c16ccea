#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Comments of daemon/ and bpf/ begin with their noun, and each .c file opens with what it does.

A comment that begins with a word of WORDS leaves its reader to look for what it is about: "of each process",
"what it was", "one that has ended". At most LIMIT of all comments may. The opening of a .c file is a comment
between its licence and its first line of code.

usage: check-comments.py [--list] SOURCE-ROOT [FOLDER…]
--list prints each such comment, and each file without an opening
"""
import argparse
import pathlib
import re
import sys

LIMIT = 0.02
WORDS = frozenset(
    "of what who whose whoever whatever that those these this one ones it its they them their theirs which such "
    "same nobody somebody anybody else and or but too also none neither some".split())
COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
FIRST = re.compile(r"[`(\"']?([A-Za-z_@]+)")


def comments_of(text):
    """(line number, words) of each comment but licences and rulers."""
    for match in COMMENT.finditer(text):
        words = " ".join(re.sub(r"\n\s*\*", " ", match.group(1)).strip("* \n").split())
        if words and not words.startswith(("SPDX", "----")):
            yield text.count("\n", 0, match.start()) + 1, words


def lacks_noun(words):
    first = FIRST.match(words)
    return bool(first) and first.group(1).lower() in WORDS


def is_opened(text):
    return text.split("\n", 1)[1].lstrip().startswith("/*")


def read(root, folders):
    n, nameless, closed = 0, [], []
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*.[ch]")):
        text, name = path.read_text(), path.relative_to(root)
        for line, words in comments_of(text):
            n += 1
            if lacks_noun(words):
                nameless.append(f"{name}:{line}: {words[:80]}")
        if path.suffix == ".c" and not path.name.endswith(".bpf.c") and not is_opened(text):
            closed.append(f"{name}: no word on what the file does")
    return n, nameless, closed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("folders", nargs="*", default=["daemon", "bpf"])
    arguments = parser.parse_args()
    n, nameless, closed = read(arguments.root, arguments.folders)
    if not n:
        sys.exit("there is no comment to check")
    is_over = len(nameless) > LIMIT * n
    if arguments.list or is_over:
        print("\n".join(nameless))
    print("\n".join(closed), end="\n" if closed else "")
    print(f"{len(nameless)} of {n} comments begin without their noun, {len(closed)} files say nothing")
    sys.exit(is_over or bool(closed))


if __name__ == "__main__":
    main()
