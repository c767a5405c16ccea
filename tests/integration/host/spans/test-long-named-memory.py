#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rings on a kernel that names memory (CONFIG_ANON_VMA_NAME), which none of Debian's does: `[anon:DD_OTEL_CTX]` in maps
is what the ring is found by. Elsewhere it is found by its header."""
import oracle

oracle.enter()

import re

import qemu
import tap

# One ring is named by the SDK, the other by hand. There is no ACPI to power off by; QEMU ends at a reboot.
SCRIPT = """
victim-spans >/tmp/spans &
spans=$!
mkfifo /tmp/in
victim-ring </tmp/in >/tmp/ring &
ring=$!
exec 3>/tmp/in
lines() { wc -l </tmp/ring; }
tell() { before=$(lines); echo "$@" >&3; for i in $(seq 100); do [ $(lines) -gt $before ] && break; sleep 0.1; done; }
for i in $(seq 100); do [ -s /tmp/ring ] && [ -s /tmp/spans ] && break; sleep 0.1; done
tell publish
tell set 11 22 33
tell name DD_OTEL_CTX
cat /tmp/ring
for pid in $ring $spans; do
        echo "MAPS $(grep DD_OTEL_CTX /proc/$pid/maps)"
        spanprof contexts $pid
        echo "status $?"
done
reboot -f
"""


class NamedMemory(tap.TestCase):
    def test_a_ring_is_found_by_the_name_of_its_memory(self):
        kernel = qemu.built_kernel("named-memory", ["ANON_VMA_NAME"])
        programs = [tap.SPANPROF, tap.VICTIMS / "victim-ring", tap.VICTIMS / "victim-spans"]
        console = qemu.boot(self, kernel, programs, SCRIPT)
        print(console[-3000:])
        named = r"MAPS ([0-9a-f]+)-[0-9a-f]+ rw-p .*\[anon:DD_OTEL_CTX\]\n(?:.*\n)*?ring at 0x([0-9a-f]+): version 1"
        self.assertEqual([start == ring for start, ring in re.findall(named, console)], [True, True])
        self.assertEqual(re.findall(r"status (\d+)", console), ["0", "0"])
        self.assertIn("trace 00000000000000110000000000000022 span 0000000000000033", console)


tap.main()
