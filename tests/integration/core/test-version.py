#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packaging/version: every place has one version, each in its spelling, and one that differs is told. What
packages say of licences is what the files say, and libraries of one version have one interface."""
import fnmatch
import json
import os
import re
import shutil
import tomllib

import abi
import tap

FOLDERS = ("packaging", "sdk", "tests/interop/publishers/otel-rust")
FILES = ("meson.build", "daemon/meson.build", "CHANGELOG.md")
MADE = shutil.ignore_patterns("node_modules", "target", "__pycache__", "build")

# deb, rpm and meson; helm, npm, cargo and images; PyPI (PEP 440); shared libraries
SPELLINGS = {
    "7.8.9~alpha2": ("7.8.9~alpha2", "7.8.9-alpha.2", "7.8.9a2", "7.8.9"),
    "7.8.9~rc1": ("7.8.9~rc1", "7.8.9-rc.1", "7.8.9rc1", "7.8.9"),
    "7.8.9~git": ("7.8.9~git", "7.8.9-git", "7.8.9.dev0", "7.8.9"),
    "7.8.9~git20261129.0123456": ("7.8.9~git20261129.0123456", "7.8.9-git20261129.g0123456", "7.8.9.dev20261129",
                                  "7.8.9"),
    "7.8.9": ("7.8.9", "7.8.9", "7.8.9", "7.8.9"),
}


class Copyright(tap.TestCase):
    def test_names_the_licence_that_each_file_has(self):
        """By Debian's rules of the format: a star also stands for slashes, and the last stanza that fits counts."""
        text = (tap.SOURCE_DIR / "packaging/debian/copyright").read_text()
        stanzas = [(files.split(), licence) for files, licence in
                   re.findall(r"^Files: (.+(?:\n .+)*)\nCopyright: .+\nLicense: (.+)$", text, re.M)]
        self.assertEqual(text.count("Files: "), len(stanzas))
        told = {}
        for folder in ("bpf", "daemon", "sdk", "packaging", "proto", "systemd", "tests"):
            for path in sorted((tap.SOURCE_DIR / folder).rglob("*.*")):
                name = str(path.relative_to(tap.SOURCE_DIR))
                head = path.read_bytes()[:300] if path.is_file() and "/target/" not in name else b""
                found = re.search(rb"SPDX-License-Identifier: ([\w.-]+(?: OR [\w.-]+)*)", head)
                if found:
                    told[name] = found[1].decode().replace(" OR ", " or ")
        self.assertGreater(len(told), 1000)
        written = {name: kind for globs, kind in stanzas for name in told
                   if any(fnmatch.fnmatch(name, glob) for glob in globs)}
        self.assertEqual(written, told)
        self.assertEqual(set(told.values()), {"Apache-2.0", "GPL-2.0-only", "Apache-2.0 or GPL-2.0-only"})


class Interfaces(tap.TestCase):
    """Of both libraries, beside those of the release: programs that were built then run with what is built now."""

    def setUp(self):
        for tool in ("abidw", "abidiff"):
            tap.need_tool(tool)
        if os.uname().machine != "x86_64":
            tap.skip("machine: the release's interfaces are those of x86-64")

    def test_are_those_of_the_release(self):
        for name in abi.LIBRARIES:
            self.assertEqual(abi.changes(name, abi.read(name, self.directory())), "", name)

    def test_a_change_of_a_type_or_a_function_is_found(self):
        for name, header, was, becomes, said in (
            ("context", "context.h", "uint32_t capacity;", "uint64_t capacity;", "capacity"),
            ("context", "coroutine.h", "uint64_t n_events;", "uint64_t n_events, n_more;", "n_more"),
            ("convert", "../spanprof-convert.h", "void *userdata;", "int mode; void *userdata;", "mode"),
        ):
            tree = self.directory()
            shutil.copytree(tap.SOURCE_DIR / "sdk", tree / "sdk", ignore=MADE)
            path = tree / "sdk/include/spanprof" / header
            text = path.read_text()
            self.assertEqual(text.count(was), 1, (header, was))
            path.write_text(text.replace(was, becomes))
            self.assertIn(said, abi.changes(name, abi.read(name, self.directory(), tree)))


class Version(tap.TestCase):
    def setUp(self):
        self.tree = self.directory() / "tree"
        for name in FOLDERS:
            shutil.copytree(tap.SOURCE_DIR / name, self.tree / name, ignore=MADE)
        for name in FILES:
            (self.tree / name).parent.mkdir(exist_ok=True, parents=True)
            shutil.copy(tap.SOURCE_DIR / name, self.tree / name)

    def version(self, *arguments, expect=0):
        return self.run_command([tap.SOURCE_DIR / "packaging/version", *arguments], expect=expect,
                                env={**os.environ, "SPANPROF_SOURCE": str(self.tree), "SOURCE_DATE_EPOCH": "1800000000"})

    def text(self, name):
        return (self.tree / name).read_text()

    def line(self, name, begin):
        return re.search(rf"^\s*{begin}(.*?)[\"',]*$", self.text(name), re.M)[1]

    def test_the_tree_has_one_version(self):
        self.assertIn("16 places", self.version("--check").stdout)

    def test_each_place_has_its_own_spelling(self):
        for version, (tilde, semver, pypi, numbers) in SPELLINGS.items():
            with self.subTest(version=version):
                self.version(version)
                self.assertEqual(self.version().stdout, tilde + "\n")
                self.assertEqual(self.line("meson.build", "version: '"), tilde)
                self.assertEqual(self.line("packaging/rpm/spanprof.spec", "Version: +"), tilde)
                self.assertIn(f"%changelog\n* Fri Jan 15 2027 spanprof maintainers "
                              f"<maintainers@spanprof.invalid> - {tilde}-1\n", self.text("packaging/rpm/spanprof.spec"))
                for begin in ("version: ", "appVersion: "):
                    self.assertEqual(self.line("packaging/helm/spanprof/Chart.yaml", begin), semver)
                for name in ("daemonset", "sidecar"):
                    self.assertEqual(self.line(f"packaging/kubernetes/{name}.yaml", "image: registry.example/spanprof:"), semver)
                self.assertEqual(json.loads(self.text("sdk/node/package.json"))["version"], semver)
                self.assertEqual(tomllib.loads(self.text("sdk/rust/Cargo.toml"))["package"]["version"], semver)
                for name in ("sdk/rust", "tests/interop/publishers/otel-rust"):
                    packages = tomllib.loads(self.text(f"{name}/Cargo.lock"))["package"]
                    self.assertEqual([p["version"] for p in packages if p["name"] == "spanprof-otel"], [semver])
                self.assertIn(f"\n  <version>{semver}</version>\n", self.text("sdk/java/otel/pom.xml"))
                self.assertEqual(tomllib.loads(self.text("sdk/python/pyproject.toml"))["project"]["version"], pypi)
                for name in ("daemon", "sdk"):
                    self.assertIn(f"    version: '{numbers}',\n", self.text(f"{name}/meson.build"))
                self.version("--check")

    def test_debian_reads_the_changelog_and_sorts_what_comes_before(self):
        tap.need_tool("dpkg-parsechangelog")
        self.version("7.8.9~rc1")
        self.version("7.8.9")
        log = self.tree / "packaging/debian/changelog"
        shown = self.run_command(["dpkg-parsechangelog", "-l", log, "--format", "rfc822", "--all"], expect=0).stdout
        versions = re.findall(r"^Version: (.*)$", shown, re.M)
        self.assertEqual(versions[0], "7.8.9")
        self.assertNotIn("7.8.9~rc1", versions, "an entry of what came before gives way")
        self.assertIn("0.1.0", versions)
        for one, other in (("7.8.9~git20261129.0123456", "7.8.9~rc1"), ("7.8.9~rc1", "7.8.9"), ("0.1.0", "7.8.9~git")):
            self.run_command(["dpkg", "--compare-versions", one, "lt", other], expect=0)

    def test_a_release_gives_unreleased_its_number_and_date(self):
        entry = "- The first package"
        self.version("7.8.9~rc1")
        self.assertIn("## [Unreleased]\nThis becomes 7.8.9.\n", self.text("CHANGELOG.md"))
        self.version("7.8.9")
        self.assertIn("## [Unreleased]\n\n## [7.8.9] - 2027-01-15\n", self.text("CHANGELOG.md"))
        self.assertNotIn("This becomes", self.text("CHANGELOG.md"))
        self.assertEqual(self.text("CHANGELOG.md").count(entry), 1)
        before = self.text("CHANGELOG.md")
        self.version("7.8.9")
        self.assertEqual(self.text("CHANGELOG.md"), before, "twice is once")
        self.assertIn("7.8.9 is released already", self.version("7.8.9~rc2", expect=1).stderr)

    def test_a_place_that_differs_is_told(self):
        self.version("7.8.9~rc1")
        for name, right, wrong in (("sdk/node/package.json", "7.8.9-rc.1", "7.8.8"),
                                   ("packaging/kubernetes/sidecar.yaml", "spanprof:7.8.9-rc.1", "spanprof:latest"),
                                   ("packaging/debian/changelog", "7.8.9~rc1", "7.8.9"),
                                   ("daemon/meson.build", "'7.8.9'", "'7.8.8'"),
                                   ("CHANGELOG.md", "This becomes 7.8.9.", "")):
            text = self.text(name)
            self.assertIn(right, text)
            (self.tree / name).write_text(text.replace(right, wrong, 1))
            self.assertRegex(self.version("--check", expect=1).stdout, rf"\A{name}: .*\n\Z")
            (self.tree / name).write_text(text)
        (self.tree / "packaging/new.yaml").write_text("image: spanprof:7.8.9\n")
        self.assertIn("packaging/new.yaml: has 7.8.9", self.version("--check", expect=1).stdout)

    def test_what_is_no_version_changes_nothing(self):
        before = {name: self.text(name) for name in FILES}
        for word in ("7.8", "7.8.9-rc1", "07.8.9", "7.8.9~", "7.8.9~rc", "7.8.9~git2026", "v7.8.9", "7.8.9~beta01"):
            self.assertIn("is no version: X.Y.Z", self.version(word, expect=2).stderr)
        self.assertEqual({name: self.text(name) for name in FILES}, before)


tap.main()
