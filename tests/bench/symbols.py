#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of addresses in a large library: our symbolizer beside addr2line and perf, in one run.

usage: tests/bench/symbols.py [--build DIR] [--addresses N] [--rounds N] [LIBRARY]

Addresses are drawn evenly from .text. Each tool is a process of its own: wall time is the lowest of the
rounds, memory its peak, which the kernel counts from before exec(): less than this script takes (20 to 40
MiB) cannot be told. perf gets as many samples of a program that works in the library (`llc` on a made module)
and prints a symbol for each; the row beside it is ours on the addresses that perf printed. With a file of
DWARF beside (a C++ program that is compiled here), lines and inlined frames by `addr2line -i`. With a Go on
the PATH, the table of functions that the `go` program itself has for its unwinder (a stripped copy) beside
its symbol table, by turns.
"""
import argparse
import itertools
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time


def measure(argv, stdin=None, rounds=3, **options):
    """(lowest seconds, peak MiB, last output) of a command."""
    best, peak, out = float("inf"), 0, ""
    for _ in range(rounds):
        with tempfile.TemporaryFile("w+") as to, open(stdin or os.devnull) as source:
            start = time.monotonic()
            child = subprocess.Popen(argv, stdin=source, stdout=to, stderr=subprocess.DEVNULL, **options)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            best = min(best, time.monotonic() - start)
            peak = max(peak, used.ru_maxrss / 1024)
            to.seek(0)
            out = to.read()
        if child.returncode:
            sys.exit(f"{argv[0]}: status {child.returncode}")
    return best, peak, out


def text_of(path):
    sections = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    start, size = re.search(r"\.text\s+PROGBITS\s+(\w+)\s+\w+\s+(\w+)", sections).groups()
    return int(start, 16), int(size, 16)


def draw(path, n, to):
    start, size = text_of(path)
    chosen = random.Random(1)
    to.write_text("".join(f"{start + chosen.randrange(size):#x}\n" for _ in range(n)))
    return to


def row(what, n, seconds, peak, note=""):
    print(f"| {what} | {seconds * 1000:.0f} ms | {n / seconds:,.0f} | {peak:.0f} MiB | {note} |")


class Bench:
    def __init__(self, options, work):
        self.options, self.work = options, work
        self.program = options.build / "tests/bench/symbol-cost"

    def ours(self, library, addresses, n, mode="names"):
        environment = dict(os.environ, SPANPROF=str(self.options.build / "spanprof"))
        seconds, peak, out = measure([self.program, library, mode, "5"], addresses,
                                     1 if mode != "lines" else self.options.rounds, env=environment)
        fields = dict(zip(*[iter(out.split())] * 2))
        load, lookups = int(fields["load_ns"]) / 1e9, int(fields["lookup_ns"]) / 1e9
        return seconds, peak, load, lookups, int(fields["found"]), int(fields["bytes"])

    def names(self, library):
        n = self.options.addresses
        addresses = draw(library, n, self.work / "addresses")
        seconds, peak, load, lookups, found, size = self.ours(library, addresses, n)
        print(f"\n{library.name}: {n:,} addresses, {found:,} in a function\n")
        print("| tool | time | addresses/s | peak memory | |\n|---|---|---|---|---|")
        row(
            "spanprof, names", n, load + lookups, peak,
            f"{load * 1000:.0f} ms to read the table ({size / 2**20:.1f} MiB), then {lookups / n * 1e9:.0f} ns each"
        )
        seconds, peak, _ = measure(["addr2line", "-f", "-e", library], addresses, self.options.rounds)
        row("addr2line -f", n, seconds, peak)
        seconds, peak, _ = measure(["addr2line", "-Cf", "-e", library], addresses, self.options.rounds)
        row("addr2line -Cf", n, seconds, peak)

    def make_module(self):
        """A function with many branches, so that llc works for some seconds."""
        path = self.work / "module.ll"
        with open(path, "w") as file:
            for f in range(300):
                file.write(f"define i64 @f{f}(i64 %x0) {{\n")
                for i in range(300):
                    file.write(f"  %x{i + 1} = {['add', 'mul', 'xor'][i % 3]} i64 %x{i}, {i * 7919 + f}\n")
                file.write("  ret i64 %x300\n}\n")
        return path

    def perf(self, library):
        data, llc = self.work / "perf.data", shutil.which("llc") or shutil.which("llc-14")
        if not llc or not shutil.which("perf"):
            print("\n(no llc or no perf: left out)")
            return
        subprocess.run([
            "perf", "record", "-q", "-e", "cpu-clock", "-F", "5000", "-o", data, "--", llc, "-O3", "-o",
            os.devnull,
            self.make_module()
        ], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds, peak, out = measure(
            ["perf", "report", "-i", data, "--stdio", "--sort", "dso,sym", "--percent-limit", "0"], None,
            self.options.rounds)
        names = len([line for line in out.splitlines() if "%" in line and library.name in line])
        _, _, script = measure(
            ["perf", "script", "-i", data, "-F", "ip,sym,symoff,dso", "--show-mmap-events"], None, 1)
        maps = [[int(v, 16) for v in match] for match in re.findall(
            r"\[0x(\w+)\(0x(\w+)\) @ 0x(\w+) [^]]*\]: r-xp \S*" + re.escape(library.name), script)]
        if not maps:
            maps = [[int(a, 16), int(b, 16), int(c or "0", 16)] for a, b, c in re.findall(
                r"\[0x(\w+)\(0x(\w+)\) @ (?:0x)?(\w+) [^]]*\]: r-xp \S*" + re.escape(library.name), script)]
        ips = [
            int(ip, 16) for ip in re.findall(r"^\s*([0-9a-f]{6,}) .*" + re.escape(library.name), script, re.M)
        ]
        headers = subprocess.run(["readelf", "-lW", library], capture_output=True, text=True,
                                 check=True).stdout
        bias = next(
            int(v, 16) - int(o, 16) for o, v in re.findall(r"LOAD\s+0x(\w+)\s+0x(\w+)\s.*R E", headers))
        addresses = [
            ip - start + offset + bias for ip in ips for start, size, offset in maps
            if start <= ip < start + size
        ]
        (self.work / "sampled").write_text("".join(f"{a:#x}\n" for a in addresses))
        _, peak_ours, load, lookups, found, _ = self.ours(library, self.work / "sampled", len(addresses))
        print(f"\n{len(addresses):,} samples of llc in {library.name}, {names:,} functions\n")
        print("| tool | time | addresses/s | peak memory | |\n|---|---|---|---|---|")
        row("spanprof, names", len(addresses), load + lookups, peak_ours, f"{found:,} found")
        row("perf report", len(addresses), seconds, peak, "the whole command")

    def lines(self):
        source, program = pathlib.Path(__file__).with_name("programs") / "symbols.cc", self.work / "program"
        subprocess.run(["g++", "-O2", "-g", "-gdwarf-4", "-Wl,--build-id", "-o", program, source], check=True)
        n = min(self.options.addresses, 20000)
        addresses = draw(program, n, self.work / "line-addresses")
        seconds, peak, _, _, found, _ = self.ours(program, addresses, n, "lines")
        print(
            f"\nA C++ program, {program.stat().st_size / 2**20:.1f} MiB: {n:,} addresses, {found:,} with a line\n"
        )
        print("| tool | time | addresses/s | peak memory | |\n|---|---|---|---|---|")
        row("spanprof, lines and inlined frames", n, seconds, peak,
            "the process that reads DWARF included; memory is of the larger one")
        seconds, peak, _ = measure(["addr2line", "-aif", "-e", program], addresses, self.options.rounds)
        row("addr2line -aif", n, seconds, peak)

    def go(self):
        whole, bare = shutil.which("go"), self.work / "go"
        if not whole:
            print("\n(no go: left out)")
            return
        whole = pathlib.Path(subprocess.check_output([whole, "env", "GOROOT"], text=True).strip()) / "bin/go"
        subprocess.run(["strip", "-o", bare, whole], check=True)
        addresses = draw(whole, self.options.addresses, self.work / "go-addresses")
        best = {}
        for _ in range(self.options.rounds):
            for path, mode in itertools.product((whole, bare), ("names", "workers")):
                _, _, load, _, found, size = self.ours(path, addresses, self.options.addresses, mode)
                best[path, mode] = min(best.get((path, mode), (load,)), (load, found, size))
        print(
            f"\nThe go tool, {whole.stat().st_size / 2**20:.1f} MiB, stripped {bare.stat().st_size / 2**20:.1f} MiB\n"
        )
        print(
            "| read from | to read the table | by a worker | table in memory | addresses found |\n|---|---|---|---|---|"
        )
        for path, what in ((whole, ".symtab"), (bare, ".gopclntab")):
            (here, found, size), (worker, *_) = best[path, "names"], best[path, "workers"]
            print(
                f"| {what} | {here * 1000:.1f} ms | {worker * 1000:.1f} ms | {size / 2**20:.2f} MiB | {found:,} of {self.options.addresses:,} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--addresses", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("library", nargs="?", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    library = options.library or next(
        iter(sorted(pathlib.Path("/usr/lib/x86_64-linux-gnu").glob("libLLVM*.so*"))), None)
    if not library:
        sys.exit("symbols.py: no libLLVM here (apt-get install libllvm14); or name a library")
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(options, pathlib.Path(work))
        bench.names(library.resolve())
        bench.perf(library.resolve())
        bench.lines()
        bench.go()


if __name__ == "__main__":
    main()
