#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Virtual machines of Java that are no HotSpot are called by their names, and walked natively. No package
has OpenJ9 or Zing: libraries with their marks, mapped by a victim. A real native-image is in
test-long-other-jvm.py."""
import oracle

oracle.enter()

import json
import os
import subprocess

import session
import tap

MARKS = {
    "OpenJ9 0.41.0": 'void J9_CreateJavaVM(void) {} char text[] = "x";'
                     ' __attribute__((used)) static const char version[] = "openj9-0.41.0";',
    "Zing": "void JNI_CreateJavaVM(void) {}"
            ' __attribute__((used)) static const char name[] = "Zing 64-Bit Tiered VM";',
}
CODE = '\nasm(".text\\n .skip 2 << 20, 0xcc\\n");\n'


class OtherJvm(session.TestCase):
    def library(self, source):
        directory = self.directory()
        directory.chmod(0o755)
        path = directory / "libmachine.so"
        (directory / "machine.c").write_text(source + CODE)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, directory / "machine.c"], check=True)
        return path

    def victim_of(self, name):
        return self.victim("chain", 20, env={**os.environ, "LD_PRELOAD": str(self.library(MARKS[name]))})

    def test_is_said_and_walked_natively(self):
        control = self.directory() / "control.sock"
        victims = {name: self.victim_of(name) for name in MARKS}
        run = self.start("--comm", "victim-chain", "--frequency", "499", "--control", control)
        for child in victims.values():
            run.wait_events(50, child.pid)
        lines = [f"{child.pid}: java: {name}, walked natively\n" for name, child in victims.items()]
        tap.wait_until(lambda: all(line in self.spanprof("status", "--control", control).stdout for line in lines),
                       "their names in status")
        result = run.stop()
        self.assertEqual(result.counter("runtimes_total", "native"), len(MARKS))
        self.assertEqual(result.counter("runtimes_total", "attached"), 0)
        for child in victims.values():
            whole = [s for s in result.of(child.pid) if not s.attributes.get("profile.stack.truncated")]
            self.assertGreater(len(whole), 0)

    def test_targets_says_it(self):
        child = self.victim_of("OpenJ9 0.41.0")
        listed = json.loads(self.spanprof("targets", "--json", "--pid", child.pid).stdout)
        self.assertEqual([entry["runtime"] for entry in listed], ["java: OpenJ9 0.41.0, walked natively"])
        off = json.loads(self.spanprof("targets", "--json", "--pid", child.pid, "--runtimes=python").stdout)
        self.assertNotIn("java", str(off[0].get("runtime")))


if __name__ == "__main__":
    tap.main()
