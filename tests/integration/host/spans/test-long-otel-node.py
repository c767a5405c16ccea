#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/node on other releases of Node (npm's own builds of it), with both ways in which Node keeps contexts;
and the package as npm packs and installs it."""
import importlib
import shutil

import tap

otel_node = importlib.import_module("test-otel-node")
# release: flags of runs besides the one without any. 22 has the new way on request, 24 the old one
RELEASES = {18: (), 20: (), 22: ("--experimental-async-context-frame",), 24: ("--no-async-context-frame",), 26: ()}


class OtherReleases(otel_node.TestCase):

    def test_each_release(self):
        for major, flag in RELEASES.items():
            node = self.node_release(major)
            with self.subTest(major):
                self.check_everywhere(node=node)
                for one in flag:
                    self.check_everywhere(one, node=node)
                self.check_requests(4, "hops", "callbacks", "worker", node=node)
            shutil.rmtree(node.parent)

    def test_as_npm_packs_and_installs_it(self):
        folder = self.directory()
        self.copy_sdk(folder)
        (archive,) = self.npm("pack", "--silent", cwd=folder / "sdk/node").split()
        archive = folder / "sdk/node" / archive
        self.assertFalse((folder / "sdk/node/sdk").exists())        # what it copied is gone
        service = folder / "service"
        service.mkdir()
        (service / "package.json").write_text('{ "private": true }')
        self.npm("install", "--silent", "--foreground-scripts", archive, cwd=service)
        if not (service / "node_modules/spanprof-otel/record.node").exists():   # npm asks before it runs scripts
            self.npm("rebuild", "--silent", "--foreground-scripts", "spanprof-otel", cwd=service)
        done = self.run_command([self.node, "-r", "spanprof-otel/register", "-e",
                                 "console.log(require('spanprof-otel').start())"], cwd=service, expect=0,
                                env=self.environment())
        self.assertEqual((done.stdout, done.stderr), ("true\n", ""))


if __name__ == "__main__":
    tap.main()
