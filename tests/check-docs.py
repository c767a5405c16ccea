#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents name is there: links and their headings, files, tests, verbs of the program and their
options. No line of a document or a message would fetch a package of ours from a registry: none has any.

usage: check-docs.py SOURCE-ROOT SPANPROF
"""
import functools
import os
import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^    .*$|`[^`\n]+`", re.M)       # indented lines and `words`
FILE = re.compile(
    r"(?<![\w/.<*-])(?:[\w.-]+/)*[\w.-]+\.(?:bpf\.[ch]|[ch]|cc|hpp|py|js|sh|md|json|proto)(?![\w/*])")
TEST = re.compile(r"(?<![\w-])(?:(?:test|fuzz)-[a-z][a-z0-9-]*|long-[a-z-]+)(?![\w*/=-])")
COMMAND = re.compile(r"(?:^ *|`|[|;&] )(?:sudo )?(?:\S*/)?spanprof ([a-z]+)((?: [^\s`#|;&)]+)*)", re.M)
OPTION = re.compile(r"(?<=\s)--?[a-zA-Z][\w-]*")
# what a registry would be asked for; a path, which begins with . or /, and a stranger's package are no matter
REGISTRY = re.compile(
    r"(?:(?:pip3?|pipx|uv|npm|yarn|pnpm|gem|conda|poetry)(?: pip)? (?:i|install|add)|npx|cargo (?:add|install)|go (?:get|install)|"
    r"(?:apt|apt-get|dnf|yum) (?:-\S+ )*install)((?: [^\s`#|;&)\"']+)+)")
COORDINATES = re.compile(r"spanprof[\w-]* = (?:\"|\{[^}\n]*version)|<artifactId>spanprof|['\"][\w.]*spanprof[\w.]*:spanprof[\w-]*:")
PRINTED = ("bootstrap", "daemon/", "packaging/", "sdk/", "systemd/")      # what people read, or programs say
PLACEHOLDER = re.compile(r"MODULE|NAME|XXX")


def anchors(text):
    """Headings as GitHub makes links of them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*?)\s*$", text, re.M)
    }


class Tree:
    def __init__(self, root, spanprof):
        self.root, self.spanprof = root, spanprof
        self.paths = set()
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith((".git", "build"))]
            self.paths |= {os.path.relpath(os.path.join(folder, name), root) for name in names}
        self.stems = {os.path.splitext(os.path.basename(path))[0] for path in self.paths}

    def has_file(self, name):
        name = re.sub(r"^(\.\./)+", "", name)
        return any(path == name or path.endswith("/" + name) for path in self.paths)

    def has_test(self, name):
        return name in self.stems or "test-" + name in self.stems

    @functools.lru_cache
    def help(self, *verb):
        words = [*verb, "--help", "--all"] if verb else ["--help"]
        return subprocess.run([self.spanprof, *words], capture_output=True, text=True)

    def mistakes_of_command(self, verb, rest):
        shown = self.help() if verb == "help" else self.help(verb)
        if shown.returncode:
            return [f"spanprof {verb}: no such verb"]
        ours = re.split(r" -- |\|", rest + " ")[0]
        known = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", shown.stdout))
        return [
            f"spanprof {verb} {option}: no such option" for option in OPTION.findall(ours)
            if option not in known
        ]


def check(tree, path):
    text = (tree.root / path).read_text()
    for link in LINK.findall(text):
        if re.match(r"\w+:", link):
            continue
        name, _, heading = link.partition("#")
        target = (tree.root / path).parent / name if name else tree.root / path
        if not target.exists():
            yield f"link to {link}"
        elif heading and heading not in anchors(target.read_text()):
            yield f"link to {link}: no such heading"
    for name in FILE.findall(text):
        if not PLACEHOLDER.search(name) and "/" in name and not tree.has_file(name):
            yield f"file {name}"
    for code in FENCED.findall(text):
        for name in TEST.findall(code):
            if not PLACEHOLDER.search(name) and not tree.has_test(name):
                yield f"test {name}"
        for verb, rest in COMMAND.findall(code):
            yield from tree.mistakes_of_command(verb, rest)


def fetched(text, is_metadata):
    """Of @text: what would come from a registry, were it there. A package's own metadata has its name."""
    for found in REGISTRY.finditer(re.sub(r'"\s*PLACES_SDK\s*"', "/sdk", text)):
        words = [word for word in found[1].split() if not word.startswith(("-", ".", "/", "$"))]
        yield from (f"no registry has this: {found[0]}" for word in words if "spanprof" in word)
    if not is_metadata:
        yield from (f"no registry has this: {found[0]}" for found in COORDINATES.finditer(text))


def main():
    tree = Tree(pathlib.Path(sys.argv[1]), sys.argv[2])
    documents = sorted(path for path in tree.paths
                       if path.endswith(".md") and not path.startswith("tests/data/"))
    errors = [f"{path}: {mistake}" for path in documents for mistake in check(tree, path)]
    for path in sorted(tree.paths):
        if path in documents or path.startswith(PRINTED) and not path.endswith((".lock", ".sum", ".png")):
            text = (tree.root / path).read_text(errors="replace")
            errors += [f"{path}: {mistake}" for mistake in fetched(text, path.endswith((".toml", ".xml")))]
    if not documents:
        errors.append("no document found: wrong source root?")
    print("\n".join(errors) or f"{len(documents)} documents name what is there")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
