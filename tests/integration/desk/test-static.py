#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The static program of the desk verbs, in a root that has nothing but it, /proc and /sys."""
import json
import pathlib
import re
import shutil

import session
import tap

PROGRAM = tap.BUILD_DIR / "packaging/static/spanprof-static"
ENTER = 'mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && exec chroot "$0" /spanprof "$@"'


class Static(session.TestCase):
    def setUp(self):
        super().setUp()
        if not PROGRAM.exists():
            self.skipTest("library: an archive of a library is missing, so there is no static program")
        self.root = self.directory()
        for name in ("proc", "sys", "tmp"):
            (self.root / name).mkdir()
        shutil.copy(PROGRAM, self.root / "spanprof")

    def inside(self, *words, expect=0, **environment):
        """In a mount namespace of its own, so that nothing stays mounted."""
        return self.run_command(["unshare", "--mount", "sh", "-c", ENTER, self.root, *map(str, words)],
                                expect=expect, env={**session.clean_environment(), **environment})

    def test_needs_no_library(self):
        parts = self.run_command(["readelf", "--dynamic", "--program-headers", PROGRAM], expect=0).stdout
        self.assertIn("DYNAMIC", parts)
        self.assertNotIn("(NEEDED)", parts)
        self.assertNotIn("INTERP", parts)

    def test_records_a_process_outside_with_names(self):
        victim = self.victim("shares", rests=True)
        for name in ("a.html", "a.folded", "a.pb.gz", "a.otlp"):
            done = self.inside("record", "-p", victim.pid, "-F", "499", "-d", "2s", "-o", f"/tmp/{name}")
            first = re.search(r"^ +self +total +function.*\n +[\d.]+ % +[\d.]+ % +(\S+)", done.stdout, re.M)
            self.assertEqual(first[1], "share_50", done)
            self.assertNotIn("library", done.stderr)
            if name != "a.html":
                self.assertIn("share_50", self.inside("report", f"/tmp/{name}").stdout)
        shown = json.loads(self.spanprof("report", "--json", self.root / "tmp/a.html").stdout)
        self.assertEqual(shown["profiles"][0]["functions"][0]["function"], "share_50", "by the other program")

    def test_shows_what_a_process_outside_does_now(self):
        victim = self.victim("shares", rests=True)

        def is_shown():
            rows = json.loads(self.inside("top", "-p", victim.pid, "-n", "1", "-i", "1", "--json").stdout)
            return "share_50" in [row["name"] for row in rows["functions"]]

        self.assertTrue(tap.wait_until(is_shown, "its hottest function"))
        still = self.spawn([tap.VICTIMS / "victim-still"])
        still.wait_for(r"^thread pipe (\d+)$")
        session.wait_cpu([still.pid], 0.1)
        threads = json.loads(self.inside("stacks", still.pid, "--json").stdout)["threads"]
        names = [frame["function"] for thread in threads for frame in thread["frames"]]
        self.assertTrue([name for name in names if name.startswith("still_")], names)

    def test_starts_a_command(self):
        done = self.inside("record", "-o", "/tmp/a.folded", "--", "/spanprof", "report", "/none", expect=1)
        self.assertIn("/none: cannot be read", done.stderr)

    def test_says_what_it_cannot(self):
        victim = self.victim("shares", rests=True)
        done = self.inside("record", "-p", victim.pid, "-d", "300ms", "--debuginfod", "-o", "/tmp/a.folded",
                           expect=None, DEBUGINFOD_URLS="http://127.0.0.1:9")
        self.assertRegex(done.stderr, r"libcurl\S* is needed .*: this program is static and loads no library")
        path = pathlib.Path(self.root / "tmp/a.json")
        path.write_text('{"resourceProfiles": []}\n')
        self.assertIn("this program is static and reads no JSON",
                      self.inside("report", "/tmp/a.json", expect=1).stderr)
        self.assertIn("unknown verb `run`", self.inside("run", expect=2).stderr)


if __name__ == "__main__":
    tap.main()
