#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Collectors of other drafts of OTLP profiles make of our requests, by their own codecs: the oldest with
profiles that the Go module proxy has, one between, and the newest that there is. docs/BACKENDS.md, "Another
draft", says the same in words."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import fresh
import golang
import tap

MODULE = "go.opentelemetry.io/collector/pdata/pprofile"
SOURCE = tap.SOURCE_DIR / "tests/interop/drift/main.go"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")


class Codecs(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.go = golang.Go(variables={"GO111MODULE": "on", "GOCACHE": str(CACHE / "go-build")})

    def run_go(self, *words, cwd="/"):
        """What asks the proxy of modules may not reach it; nothing else may fail."""
        done = subprocess.run([self.go.program, *words], cwd=cwd, env=self.go.environment, text=True,
                              capture_output=True, timeout=1500)
        if done.returncode and words[0] in ("list", "get", "mod") and re.search(fresh.UNREACHED, done.stderr):
            tap.skip(f"machine: the proxy of modules cannot be reached: {done.stderr[-300:]}")
        self.assertEqual(done.returncode, 0, f"go {words[0]}: {done.stderr}")
        return done.stdout.strip()

    def codec(self, version):
        """The program of tests/interop/drift with this release's codec, kept in the cache."""
        if version == "latest":
            version = self.run_go("list", "-m", "-f", "{{.Version}}", f"{MODULE}@latest")
        program = CACHE / "spanprof" / f"codec-{version}-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}"
        if not program.exists():
            folder = self.directory()
            shutil.copy(SOURCE, folder)
            for words in (["mod", "init", "spanprof.invalid/drift"], ["get", f"{MODULE}@{version}"], ["mod", "tidy"],
                          ["build", "-buildvcs=false", "-o", "codec", "."]):
                self.run_go(*words, cwd=folder)
            shutil.move(folder / "codec", program)
        return program

    def window(self):
        """[request], [what it says as JSON]"""
        folder = self.directory()
        self.run_command([tap.HARNESS / "write-window", folder, 20000, 3, 500], expect=0)
        paths = sorted(folder.glob("*.pb"))
        self.assertGreater(len(paths), 5)
        return paths, [json.loads(path.with_suffix(".json").read_text()) for path in paths]

    def sums(self):
        """A request without times."""
        path = self.directory() / "sums.pb"
        self.spanprof("convert", tap.SOURCE_DIR / "tests/data/go-cpu.pb.gz", "-o", path, "--backend", "parca")
        return path

    def read(self, version, paths):
        done = self.run_command([self.codec(version), *paths], expect=0, timeout=300)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def samples(self, request):
        return [sample for resource in request["resourceProfiles"] for scope in resource["scopeProfiles"]
                for profile in scope["profiles"] for sample in profile["samples"]]

    def test_the_newest_reads_all(self):
        paths, said = self.window()
        for ours, theirs in zip(said, self.read("latest", paths), strict=True):
            self.assertNotIn("error", theirs)
            self.assertEqual(self.samples(theirs["profiles"]), self.samples(ours))
        sums, = self.read("latest", [self.sums()])
        self.assertNotIn("error", sums)

    def test_the_oldest_refuses_all_in_words_that_we_know(self):
        paths, _ = self.window()
        self.assertEqual({answer.get("error") for answer in self.read("v0.113.0", [*paths, self.sums()])},
                         {"unmarshal: invalid ProfileID length"})

    def test_between_them_sums_are_refused_and_times_are_read_wrong(self):
        """Which no answer shows: our attributes are values there."""
        paths, said = self.window()
        wrong = {"error": "proto: wrong wireType = 2 for field LinkIndex"}
        pairs = zip(said, self.read("v0.145.0", paths), strict=True)
        read = [(ours, theirs) for ours, theirs in pairs if theirs != wrong]
        self.assertGreater(len(read), 5)
        for ours, theirs in read:
            self.assertEqual([[str(index) for index in sample.get("attributeIndices", [])]
                              for sample in self.samples(ours)],
                             [sample.get("values", []) for sample in self.samples(theirs["profiles"])])
        sums, = self.read("v0.145.0", [self.sums()])
        self.assertEqual(sums, wrong)


if __name__ == "__main__":
    tap.main()
