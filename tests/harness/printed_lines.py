# SPDX-License-Identifier: Apache-2.0
"""Every command line that documents, manual, help, messages and packaging print.

    Line("spanprof report profiles/", True, {"README.md"})

The text is without its comment; equal ones are there once, with all their places. A line begins with a word
of COMMANDS, after `sudo` and settings of variables. Either it stands alone: indented in a document, in help's
examples, after `#` in a file of packaging, as a whole literal in a program. Or it is between backticks: in
prose, where it may be no more than a name.
"""
import collections
import functools
import pathlib
import re
import subprocess

COMMANDS = frozenset("""
    cat grep sed date tee less sqlite3 flamegraph.pl ./bootstrap apt apt-get buildah cargo cc coredumpctl cp curl dmesg df echo export g++ gcc git go gpg helm install ip java javac
    journalctl kubectl ldconfig llvm-objdump meson mkdir mount mv ninja node npm openssl parca parca-agent perf pip printf promtool
    python python3 pyroscope qemu-aarch64 readelf rm rmdir rpmbuild setcap setpriv sh sha256sum spanprof corotracer sysctl
    systemctl systemd-nspawn systemd-sysusers systemd-tmpfiles touch ulimit umount xdg-open zcat modprobe chmod chown chgrp
    bpftool docker podman dnf rpm dpkg useradd setfacl getcap capsh uname pgrep pkill kill nsenter unshare
    """.split())
PATHS = re.compile(r"(?:\./)?(?:build|sdk|packaging|tests|/usr)/[\w./+-]+$")
SETTING = re.compile(r"d=\S+;$|[A-Z_][A-Z_0-9]*=(?:\"[^\"]*\"|'[^']*'|\S*)$")
# what literals are joined of, beside those that the same file defines
MACROS = {"PLACES_SDK": "/usr/share/spanprof/sdk", "SPANPROF_VERSION": "VERSION", "IMAGE": "REGISTRY/spanprof:VERSION"}
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


class Line(collections.namedtuple("Line", "text alone places")):
    def __str__(self):
        return f"`{self.text}` ({', '.join(sorted(self.places))})"


def without_comment(text):
    """Up to a # that begins a word outside of quotes, or C's comment; and without a prompt."""
    text = re.sub(r"^[$#] ", "", text.strip())
    for match in re.finditer(r"\"(?:\\.|[^\"\\])*\"|'[^']*'|\s#(?=\s|$)|\s/\*", text):
        if match[0][0] not in "\"'":
            text = text[:match.start()]
            break
    return re.sub(r"(?<![\\ ]) +", " ", text).strip().rstrip("\\").strip()


def first_words(text):
    """The program, and how many words follow it."""
    words = re.findall(r"(?:\"[^\"]*\"|'[^']*'|\S)+", text)
    while words and (words[0] in ("sudo", "exec", "-E") or SETTING.match(words[0])):
        words.pop(0)
    return (words[0] if words else "", len(words) - 1)


def is_command(text, alone):
    """One word alone is a command, in prose it is a name."""
    program, n_more = first_words(text)
    return (program in COMMANDS or bool(PATHS.match(program))) and (alone or n_more > 0)


def joined(lines):
    """Lines that end with a backslash, with those that follow."""
    result, open_line = [], None
    for line in lines:
        line = line.rstrip()
        if open_line is not None:
            line = open_line + " " + line.strip()
        open_line = line[:-1].rstrip() if line.endswith("\\") else None
        if open_line is None:
            result.append(line)
    return result


def of_markdown(text):
    for line in joined(text.splitlines()):
        if line.startswith("    "):
            yield without_comment(line), True
        else:
            yield from between_backticks(line)


def between_backticks(text):
    return ((without_comment(code), False) for code in re.findall(r"`([^`\n]+)`", text))


def of_help(text):
    for line in text.splitlines():
        if re.match(r"  \S+ [^ ]", line):
            # an explanation stands behind two blanks
            yield without_comment(re.split(r" {2,}", line.strip())[0]), True
    yield from between_backticks(re.sub(r"\s*\n\s*", " ", text))


def of_c(text):
    """Literals, those that follow each other joined, with macros between them."""
    text = re.sub(r"(?m)^\s*//.*$|/\*.*?\*/", "", text, flags=re.S).replace("\\\n", "\n")
    macros = dict(re.findall(r'(?m)^#define (\w+)\s+"((?:[^"\\\n]|\\.)*)"$', text)) | MACROS
    text = re.sub(r'"\s*([A-Z][A-Z_0-9]+|PRI\w+)\s*"', lambda match: macros.get(match[1], ""), text)
    text = re.sub(r'"\s*([A-Z][A-Z_0-9]+)(?=[;,\s])', lambda match: macros.get(match[1], "") + '" ', text)
    for match in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', text):
        literal = "".join(part[1:-1] for part in STRING.findall(match[0]))
        literal = re.sub(r"\\(.)", lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), literal)
        yield from between_backticks(literal.replace("\n", " "))
        text = without_comment(literal.split("\n")[0])
        if "`" not in text and " " in text:
            yield text, True


def of_source(text):
    for row in text.splitlines():
        yield from between_backticks(row)


def of_comments(text):
    """Lines of comments that are a command as a whole, and what stands between backticks."""
    for line in joined(re.sub(r"\\\n\s*#\s*", "", text).splitlines()):
        match = re.match(r"\s*#+\s+(?:Verify with: |then )?(.*)$", line)
        if match:
            yield without_comment(match[1]), True
        yield from between_backticks(line)


def of_manual(text):
    """roff as a reader sees it; bold words of a line are as if between backticks."""
    text = re.sub(r"\\f[A-Z]|\\&", "", text).replace("\\-", "-").replace("\\ ", " ").replace("\\(aq", "'")
    for line in text.splitlines():
        bold = re.match(r"\.B (.*)$", line)
        yield without_comment(bold[1] if bold else line), not bold


def collect(source, build, spanprof):
    """@source, @build: directories; @spanprof: the program, whose help counts."""
    places, alone = collections.defaultdict(set), set()

    def add(place, lines):
        for text, is_alone in lines:
            if is_command(text, is_alone):
                places[text].add(place)
                if is_alone:
                    alone.add(text)

    for pattern, read in FILES.items():
        for path in sorted(source.glob(pattern)):
            if path.is_file():
                add(str(path.relative_to(source)), read(path.read_text(errors="replace")))
    for path in sorted((build / "docs/man").glob("*.[1-9]")):
        add(path.name, of_manual(path.read_text()))
    for name, text in helps(spanprof).items():
        add(name, of_help(text))
    add("bootstrap help", of_help(re.sub(r"(?m)^ *(?:usage:)? *(?=(?:sudo )?\./bootstrap)", "  ",
                                         run(source / "bootstrap", "help"))))
    return [Line(text, text in alone, where) for text, where in sorted(places.items())]


FILES = {
    **dict.fromkeys(("*.md", "docs/*.md", "sdk/**/*.md", "packaging/**/*.md"), of_markdown),
    **dict.fromkeys(("daemon/**/*.[ch]", "daemon/**/*.js", "bpf/**/*.h", "sdk/src/*.c"), of_c),
    **{f"sdk/**/*.{suffix}": of_source for suffix in ("js", "py", "java", "go", "rs", "h", "hpp")},
    **dict.fromkeys(("packaging/**/*", "systemd/*", "sdk/**/*.sh"), of_comments),
}


def run(*words):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout


@functools.lru_cache
def helps(spanprof):
    """What `spanprof help` and each verb's help print, by what prints it."""
    listing = run(spanprof, "help")
    verbs = re.findall(r"(?m)^  ([a-z]+) ", listing)
    return {"spanprof help": listing} | {
        f"spanprof {verb} --help": run(spanprof, verb, "--help", "--all") for verb in verbs}


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    for line in collect(root, root / "build", root / "build/spanprof"):
        print("alone" if line.alone else "prose", line)


if __name__ == "__main__":
    main()
