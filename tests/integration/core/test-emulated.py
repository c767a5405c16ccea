#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The arm64 build under qemu-user, beside the release build of this machine: what both make of a file is the same, byte for byte."""
import os
import re
import subprocess

import tap

DATA = tap.SOURCE_DIR / "tests/data"
NATIVE = tap.SOURCE_DIR / "build/spanprof"
ROOT = os.environ.get("EMULATED_ROOT", "/var/cache/spanprof-tests/arm64")
RECORDINGS = sorted(path.name for path in DATA.glob("*.gz"))
FORMS = ("x.pb", "x.json", "x.folded", "x.pb.gz", "x.speedscope.json", "x.html", "x.svg")


class Emulated(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.emulated = [tap.need_tool("qemu-aarch64"), "-L", ROOT, tap.BUILD_DIR / "spanprof"]
        if not NATIVE.exists():
            tap.skip("tool: build/spanprof is not there")

    def outputs(self, *arguments):
        """@arguments of a program that writes standard output, by this machine and by the emulated one."""
        found = []
        for program in ([NATIVE], self.emulated):
            done = subprocess.run([*program, *arguments], capture_output=True, timeout=tap.PATIENCE * 5)
            self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
            found.append(done.stdout)
        return found

    def check_same(self, *arguments, least, mask=None):
        """@mask: what the program draws by chance."""
        here, there = (re.sub(mask, b"", text) if mask else text for text in self.outputs(*arguments))
        self.assertGreater(len(here), least, arguments)
        if here != there:       # not assertEqual: it would print megabytes
            first = len(os.path.commonprefix([here, there]))
            self.fail(f"{arguments}: {len(here)} and {len(there)} bytes, which differ from byte {first} on: "
                      f"{here[first:first + 40]!r}, {there[first:first + 40]!r}")

    def test_is_a_program_for_arm64(self):
        said = self.run_command(["readelf", "-h", tap.BUILD_DIR / "spanprof"], expect=0).stdout
        self.assertRegex(said, r"Machine: +AArch64")
        self.assertNotIn("AArch64", self.run_command(["readelf", "-h", NATIVE], expect=0).stdout)

    def test_events_are_stored_in_order(self):
        """An emulator changes no order: what the compiler made of a station's event is read here."""
        objdump = tap.need_tool("aarch64-linux-gnu-objdump")
        said = self.run_command([objdump, "-d", "--no-show-raw-insn", tap.BUILD_DIR / "sdk/libspanprof-context.so"],
                                expect=0).stdout
        body = said[said.index("<put_event>:"):]       # other functions name its page as <put_event+0x130>
        body = body[:body.index("\n\n")]
        kinds = {"str": "store", "stp": "store", "strb": "store", "stlr": "release", "dmb": "fence"}
        found = "".join(kinds[name][0] for name in re.findall(r"^ +\w+:\t(\w+)", body, re.M) if name in kinds)
        print(f"# put_event: {found}")
        # odd seq | fence | fields | even seq, released | fence before the look at the flag
        self.assertRegex(found, "sfs{4,}rf")

    def test_recordings_are_read_alike(self):
        self.assertGreater(len(RECORDINGS), 5)
        for name in RECORDINGS:
            with self.subTest(name):
                self.check_same("convert", DATA / name, "-o", "-", "--format", "json", least=500,
                                mask=rb'"profileId":"[0-9a-f]{32}"')

    def test_requests_become_the_same_in_each_form(self):
        request = self.directory() / "request.pb"       # it has its id already
        self.run_command([NATIVE, "convert", DATA / "sync.jfr.gz", "-o", request], expect=0)
        for form in ("otlp", "json", "folded", "pprof", "speedscope", "html", "svg"):
            with self.subTest(form):
                self.check_same("convert", request, "-o", "-", "--format", form, least=500)

    def test_reports_are_the_same(self):
        for form in ("json", "text", "markdown"):
            with self.subTest(form):
                self.check_same("report", DATA / "sync.jfr.gz", "-o", "-", "--format", form, least=100)


tap.main()
