#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libspanprof-alloc, preloaded: real programs go on as they are, and its notes are those of <sys/sdt.h>, as
readelf reads them."""
import os
import re
import shutil
import struct
import sys

import tap

LIBRARY = tap.BUILD_DIR / "sdk/libspanprof-alloc.so"
REGISTER = {"x86_64": ("%rdi", "%rsi", "%rdx"), "aarch64": ("x0", "x1", "x2")}[os.uname().machine]

# Threads that allocate while others fork; children that allocate, and another program
FORKS = """
import os, subprocess, sys, threading
ends = threading.Event()
def churn():
    while not ends.is_set():
        [bytearray(n) for n in range(100, 20000, 700)]
threads = [threading.Thread(target=churn) for _ in range(3)]
[thread.start() for thread in threads]
for _ in range(8):
    child = os.fork()
    if not child:
        text = b"".join(bytes([n % 256]) * n for n in range(2000))
        os._exit(len(text) != 1999000)
    assert os.waitpid(child, 0)[1] == 0
print(subprocess.run([sys.executable, "-c", "print(sum(map(len, [b'x' * n for n in range(3000)])))"],
                     capture_output=True, check=True).stdout)
ends.set()
[thread.join() for thread in threads]
"""


# More live allocations than the table takes
FULL = """
import ctypes
live = [bytes(600) for _ in range(100000)]
print(ctypes.c_uint64.in_dll(ctypes.CDLL(None), "spanprof_alloc_untold").value > 10000)
"""


class AllocLibrary(tap.TestCase):
    def notes(self, path):
        out = self.run_command(["readelf", "--notes", path], env={**os.environ, "LC_ALL": "C"}).stdout
        return re.findall(r"Provider: (\S+)\n +Name: (\S+)\n +Location: (\S+), Base: (\S+), Semaphore: (\S+)\n"
                          r" +Arguments: (.*)", out)

    def check_notes(self, path):
        notes = self.notes(path)
        self.assertEqual({(note[0], note[1], note[5].strip()) for note in notes},
                         {("otel_memory", "alloc", " ".join("8@" + name for name in REGISTER)),
                          ("otel_memory", "free", "8@" + REGISTER[0])})
        sections = self.run_command(["readelf", "--sections", "--wide", path]).stdout
        places = {name: (int(address, 16), int(size, 16)) for name, address, size in
                  re.findall(r"\] (\.\S+) +\w+ +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", sections)}
        for note in notes:
            location, base, semaphore = (int(value, 16) for value in note[2:5])
            for section, address in (".text", location), (".stapsdt.base", base), (".probes", semaphore):
                begin, size = places[section]
                self.assertTrue(begin <= address < begin + size, f"{section} {address:x}: {places}")

    def test_notes_say_where_the_probes_are(self):
        self.check_notes(LIBRARY)
        stripped = shutil.copy(LIBRARY, self.directory() / "stripped.so")
        self.run_command(["strip", stripped])
        self.check_notes(stripped)

    def beside(self, *argv, **more):
        """Output of a program without the library and with it: with the usual draws, and with each allocation
        told."""
        plain = self.run_command(argv, env={**os.environ, "LC_ALL": "C"}, **more)
        for library, draws in (LIBRARY, {}), (self.watched(), {"SPANPROF_ALLOC_BYTES": "1"}):
            env = {**os.environ, "LD_PRELOAD": str(library), "LC_ALL": "C", **draws}
            told = self.run_command(argv, env=env, **more)
            self.assertEqual((told.stdout, told.stderr), (plain.stdout, plain.stderr))

    def watched(self):
        """A copy whose semaphores are raised in the file: as if somebody looked, from each program's begin on."""
        path = self.directory() / "watched.so"
        file = bytearray(LIBRARY.read_bytes())
        sections = self.run_command(["readelf", "--sections", "--wide", LIBRARY]).stdout
        offset, size = (int(text, 16) for text in
                        re.search(r"\] \.probes +PROGBITS +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)", sections).groups())
        self.assertEqual((size, file[offset:offset + size]), (4, bytes(4)))
        file[offset:offset + size] = struct.pack("<2H", 1, 1)
        path.write_bytes(file)
        return path

    def test_programs_go_on_as_they_are(self):
        self.beside("sh", "-c", "ls /usr/bin | sort --parallel=2 -S 1M | md5sum")
        self.beside(sys.executable, "-c", FORKS)
        self.assertEqual(self.run_command([sys.executable, "-c", FULL], env={
            **os.environ, "LD_PRELOAD": str(self.watched()), "SPANPROF_ALLOC_BYTES": "1"}).stdout, "True\n")
        # it preloads nothing itself, and ends at once
        self.beside("true")


if __name__ == "__main__":
    tap.main()
