#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof coro` under load, idle, and its traces: events lost, CPU, memory, latency, conversion.

usage: tests/bench/coro.py [even] [burst] [many] [tight] [idle] [latency] [convert] [report]

    even        1,024 coroutines, one suspend and resume a turn, at 10^5 … 10^7 events/s
    burst       the same, each awaiting 64 times a turn
    many        10^6 coroutines, two events each: a scan lasts for seconds, and no event may count as nonsense
    tight       events lost and bytes asked for, of engines in turns (A B C C B A …): `spanprof coro`, one to
                the letter of the protocol (coroutine-straight.c), and what OLD_SPANPROF and COROTRACER name;
                medians. ROUNDS: runs of each engine (2). BUSY: that many processes compute beside it (0).
                LOADS: only loads whose name has one of these words
    idle        CPU of the engine beside 128 … 10^6 stations whose coroutines do nothing, and its memory
    latency     time in the event → line in the file
    convert     10^6 lines → CSV, SQLite
    report      a report of 10^7 events: seconds and memory

Losses are the trace's own: events said to be lost ÷ events that the victim wrote (the tests hold the two
against each other).
Beside them, what a reader loses that only looks and copies (coroutine-limit.c: ninja -C BUILD
tests/bench/coroutine-limit); it never asks to be woken, so the engine may lose less. SPANPROF and BUILD_DIR
name the build. On a busy machine losses are those of an engine that did not get its CPU.
"""
import json
import os
import pathlib
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("harness", "oracles")]
import tap  # noqa: E402

LIMIT = tap.BUILD_DIR / "tests/bench/coroutine-limit"
VICTIM = str(tap.VICTIMS / "victim-stations")
SHM = "/dev/shm"


def cpu_s(pid):
    """Of all threads, ended ones too."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid, key="VmHWM"):
    return int(re.search(rf"{key}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def run(directory, *victim, n=1024):
    """One run to its end: (events, lost, seconds, CPU seconds of the engine)."""
    out = pathlib.Path(directory) / "t.jsonl"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    done = subprocess.run([
        tap.SPANPROF, "coro", "-n",
        str(n), "-o", out, "--", "sh", "-c", f"{VICTIM} {' '.join(victim)} >/dev/null; times"
    ], capture_output=True, text=True)
    wall = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # `times` of the shell: its own, then its children's; minutes and seconds
    child = sum(60 * int(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s",
                                                              done.stdout.splitlines()[-1]))
    total = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    events = int(re.search(r"(\d+) events in", done.stderr)[1])
    lost = re.search(r"(\d+) of \d+ events", done.stderr)
    if nonsense := re.search(r"(\d+) events were nonsense", done.stderr):
        print(f"  {nonsense[1]} true events were taken for nonsense")
    out.unlink()
    return events, int(lost[1]) if lost else 0, wall, total - child


def limit(victim, n=1024):
    """What a bare reader loses, in per cent: the same load, in the same minute."""
    done = subprocess.run([LIMIT, str(n), VICTIM, *victim], capture_output=True, text=True, check=True)
    read, lost = map(int, re.search(r"^limit (\d+) (\d+)$", done.stdout, re.M).groups())
    return 100 * lost / (read + lost)


def load(title, awaits, rates, aim):
    print(
        f"\n{title}; the aim: {aim}\n{'events/s':>12} {'written':>10} {'lost':>10} {'%':>7} {'engine CPU %':>13}"
        f" {'bare reader %':>14}")
    with tempfile.TemporaryDirectory(dir=SHM) as directory:
        for rate in rates:
            turns = max(2, int(2 * rate / (1024 * 2 * awaits)))
            victim = ("coroutines=1024", f"awaits={awaits}", f"turns={turns}", f"rate={rate}")
            rows, limits = [], []
            for _ in range(3):
                rows.append(run(directory, *victim))
                limits.append(limit(victim))
            events, lost, wall, cpu = min(rows, key=lambda row: row[1] / (row[0] + row[1]))
            print(
                f"{rate:12,} {events + lost:10,} {lost:10,} {100 * lost / (events + lost):7.2f} {100 * cpu / wall:13.0f}"
                f" {min(limits):14.2f}", flush=True)


def even():
    load("even: 1,024 coroutines, best of 3", 1,
         (100_000, 300_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000), "0 % at 5,000,000/s")


def burst():
    load("burst: 1,024 coroutines, 64 awaits a turn, best of 3", 64, (10_000, 100_000, 1_000_000),
         "below 10 % at 100,000/s")


def many(n=1_000_000):
    print(f"\nmany: {n:,} coroutines, two events each; the aim: none lost, none taken for nonsense")
    with tempfile.TemporaryDirectory(dir=SHM) as directory:
        for _ in range(3):
            events, lost, wall, cpu = run(directory, f"coroutines={n}", "turns=1", n=n)
            print(f"  {events + lost:,} events in {wall:.1f} s: {lost:,} lost, {cpu:.1f} s of CPU", flush=True)


# of all loads: name, options of the victim
TIGHT = {
    **{
        f"{n} together, {us} us": (f"coroutines={n}", f"together={us}", f"turns={max(2, turns * 16 // n)}")
        for n in (16, 1024) for us, turns in ((1, 4000), (50, 3000), (200, 1500), (2000, 300))
    },
    **{
        f"even {rate:.0e}/s": ("coroutines=1024", "awaits=1", f"turns={max(2, rate // 2048)}", f"rate={rate}")
        for rate in (10**5, 10**6, 10**7)
    },
    **{
        f"64 awaits {rate:.0e}/s": (f"coroutines={n}", "awaits=64", f"turns={turns}", f"rate={rate}")
        for rate, n, turns in ((10**4, 128, 1), (10**5, 1024, 1), (10**6, 1024, 7))
    },
}


def engines():
    """Name → command in front of the victim's, for a number of stations, a trace and a dialect."""
    straight = tap.BUILD_DIR / "tests/bench/coroutine-straight"
    found = {
        "spanprof": lambda n, out, dialect: [tap.SPANPROF, "coro", "-n", n, "-o", out, "--"],
        "straight": lambda n, out, dialect: [straight, n, dialect],
    }
    if "OLD_SPANPROF" in os.environ:
        found["old"] = lambda n, out, dialect: [os.environ["OLD_SPANPROF"], "coro", "-n", n, "-o", out, "--"]
    return found


def one_turn(command, victim):
    """Runs it. Returns: percentages of events that are lost, and that cost the victim a write()."""
    done = subprocess.run([*command, VICTIM, *victim], capture_output=True, text=True)
    written = sum(map(int, re.findall(r"^wrote \d+ (\d+) ", done.stdout, re.M)))
    woken = int(re.search(r"^woke (\d+) ", done.stdout, re.M)[1])
    straight = re.search(r"^straight \d+ (\d+) ", done.stdout, re.M)
    lost = straight or re.search(r"(\d+) of \d+ events", done.stderr)
    return 100 * int(lost[1] if lost else 0) / written, 100 * woken / written


def corotracer_turn(n, out, victim):
    """coroTracer says nothing of losses: the lines of its trace beside what the victim wrote. It appends to a trace."""
    pathlib.Path(out).unlink(missing_ok=True)
    done = subprocess.run([
        os.environ["COROTRACER"], "-n", n, "-shm", f"{out}.shm", "-sock", f"{out}.sock", "-out", out, "-cmd",
        f"{VICTIM} {' '.join(victim)}"
    ], capture_output=True, text=True)
    written = sum(map(int, re.findall(r"wrote \d+ (\d+) ", done.stdout)))
    woken = int(re.search(r"woke (\d+) ", done.stdout)[1])
    with open(out, "rb") as file:
        return 100 * (1 - sum(1 for _ in file) / written), 100 * woken / written


def tight():
    rounds, busy = int(os.environ.get("ROUNDS", 2)), int(os.environ.get("BUSY", 0))
    words = os.environ.get("LOADS", "").split(",")
    print(f"\ntight: medians of {rounds}; lost %, and in brackets write() of the victim in % of its events"
          f"; {busy} processes compute beside it")
    neighbours = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(busy)]
    try:
        for name, load in TIGHT.items():
            if any(word in name for word in words):
                for dialect in ("seqlock", "document"):
                    for takes in (1, 0):
                        tight_row(f"{name}, {dialect}{'' if takes else ', plain'}", rounds, dialect,
                                  (*load, f"dialect={dialect}", f"takes={takes}"))
    finally:
        for one in neighbours:
            one.kill()
            one.wait()


def tight_row(name, rounds, dialect, victim):
    number, found = re.search(r"coroutines=(\d+)", victim[0])[1], engines()
    names = [*found, *(["corotracer"] if "COROTRACER" in os.environ else [])]
    rows = {one: [] for one in names}
    with tempfile.TemporaryDirectory(dir=SHM) as directory:
        for turn in range(rounds):
            for one in names if turn % 2 == 0 else reversed(names):
                out = f"{directory}/t.jsonl"
                rows[one].append(
                    corotracer_turn(number, out, victim) if one == "corotracer" else one_turn(
                        found[one](number, out, dialect), victim))
    print(f"{name:44}" + "".join(
        f" {one} {statistics.median(a for a, _ in rows[one]):6.2f} ({statistics.median(b for _, b in rows[one]):.1f})"
        for one in names), flush=True)


def idle():
    print(
        f"\nidle, once names have been learned\n{'stations':>12} {'engine CPU %':>13} {'before, CPU s':>14} {'MiB':>8}   (memory without the region's own pages; the aim: 0.3 % at 100,000, 2 % at 1,000,000)"
    )
    for n in (128, 10_000, 100_000, 1_000_000):
        with tempfile.TemporaryDirectory(dir=SHM) as directory:
            engine = subprocess.Popen([
                tap.SPANPROF, "coro", "-n",
                str(n), "-o", f"{directory}/t.jsonl", "--", VICTIM, f"coroutines={n}", "turns=1", f"hang={n}",
                "end=hold"
            ], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for line in engine.stdout:
                if line == "done\n":
                    break
            # stations that told no function are looked at twice, at most five seconds apart
            time.sleep(15)
            before, begin = cpu_s(engine.pid), time.monotonic()
            time.sleep(10)
            used = (cpu_s(engine.pid) - before) / (time.monotonic() - begin)
            print(f"{n:12,} {100 * used:13.2f} {before:14.2f} {rss_mib(engine.pid, 'RssAnon'):8.1f}",
                  flush=True)
            engine.stdin.close()
            engine.wait()


def latency():
    print(
        f"\nlatency, one event each 5 ms; the aim: p50 of 2 ms at 100,000\n{'stations':>12} {'p50 ms':>8} {'p99 ms':>8}"
    )
    for n in (128, 10_000, 100_000):
        with tempfile.TemporaryDirectory(dir=SHM) as directory:
            out = pathlib.Path(directory) / "t.jsonl"
            engine = subprocess.Popen([
                tap.SPANPROF, "coro", "-n",
                str(n), "-o", out, "--", VICTIM, f"coroutines={n}", "turns=1", "pause=5000", "end=kill"
            ], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found, line, end = [], "", time.monotonic() + 5
            while not out.exists():
                time.sleep(0.001)
            with open(out) as file:
                while time.monotonic() < end:
                    # a file grows by pages while it is written: a line may come in two pieces
                    line += file.readline()
                    if line.endswith("\n"):
                        found.append(
                            (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - json.loads(line)["ts"]) / 1e6)
                        line = ""
                    else:
                        time.sleep(0.0001)
            engine.send_signal(signal.SIGTERM)
            engine.wait()
            found.sort()
            print(f"{n:12,} {found[len(found) // 2]:8.2f} {found[len(found) * 99 // 100]:8.2f}", flush=True)


def convert():
    print(f"\nconvert 10^6 lines; the aim: CSV 0.4 s, SQLite 2 s\n{'to':>12} {'s':>8}")
    with tempfile.TemporaryDirectory(dir=SHM) as directory:
        path = pathlib.Path(directory) / "t.jsonl"
        with open(path, "w") as file:
            for k in range(1_000_000):
                file.write(
                    f'{{"probe_id":{140000000000000 + k % 1000 * 240},"tid":{1000 + k % 8},"addr":"0x{k % 2 * 0x7f0012345678:016x}",'
                    f'"seq":{2 + k // 8000 * 2},"is_active":{"true" if k % 2 else "false"},"ts":{10**12 + 1000 * k}}}\n'
                )
        for name in ("t.csv", "t.db"):
            times = []
            for _ in range(3):
                begin = time.monotonic()
                kind = {"t.csv": "csv", "t.db": "sqlite"}[name]
                subprocess.run([tap.SPANPROF, "corotracer", "-export", kind, "-in", path, f"-{kind}-out",
                                path.with_name(name)], check=True, capture_output=True)
                times.append(time.monotonic() - begin)
            print(f"{name[2:]:>12} {min(times):8.2f}", flush=True)


def report(n=10_000_000):
    print(f"\nreport of {n:,} events; the aim: 5 s\n{'form':>12} {'s':>8} {'CPU s':>8} {'MiB':>8}")
    with tempfile.TemporaryDirectory(dir=SHM) as directory:
        path = pathlib.Path(directory) / "t.csv"
        with open(path, "w") as file:
            file.write("probe_id,tid,addr,seq,is_active,ts\n")
            for k in range(n):
                file.write(
                    f"{140000000000000 + k // 2 % 1000 * 240},{1000 + k % 8},0x{(1 - k % 2) * 0x7f0012345678:016x},"
                    f"{2 + k // 8000 * 2},{'true' if k % 2 else 'false'},{10**12 + 1000 * k}\n")
        for name in ("out.txt", "out.json", "out.html"):
            child = subprocess.Popen(
                [tap.SPANPROF, "report", path, "-o", path.with_name(name)], stderr=subprocess.DEVNULL)
            begin = time.monotonic()
            _, status, usage = os.wait4(child.pid, 0)
            assert status == 0, status
            print(
                f"{name[4:]:>12} {time.monotonic() - begin:8.2f} {usage.ru_utime + usage.ru_stime:8.2f} {usage.ru_maxrss / 1024:8.0f}",
                flush=True)


PARTS = {
    "even": even,
    "burst": burst,
    "many": many,
    "tight": tight,
    "idle": idle,
    "latency": latency,
    "convert": convert,
    "report": report
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
