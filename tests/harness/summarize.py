#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the subtests of meson test runs: what failed, with the end of its log, what was skipped and why.

usage: summarize.py [--phases DIRECTORY] LABEL=TESTLOG.json[+SECOND.json]…
       summarize.py --again TESTLOG.json    names, a line each, what of this log is worth a second run
       summarize.py --cases TESTLOG.json    what failed in those that came to their end: cases, a line each

DIRECTORY/phases has a line `SECONDS NAME` for the begin of each phase of a run, the end is the last one; the line
before the last says where the minutes went. A phase named as a LABEL is told by what ran in it. `meanwhile` beside
it, if there is one, is about what was done at the same time. A line in front of these names the scripts that
took most: their seconds, and of these the seconds of CPU that their cases say (tap.py).

SECOND is the log of a second run, of cases of some suites and each suite alone (second_run() in conduct.sh).
What failed and passes there was disturbed by what ran beside it: it counts as passed, and is named with what
it said. The last line is `N passed, N failed, N skipped`; a line behind all failures names them. With CI=true,
a skip whose reason does not start with `kernel:` or `machine:` counts as failed: what a package or a privilege
would mend must not go unnoticed. A log that is missing or empty counts as a failure too.
"""
import json
import os
import re
import sys

LINE = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:- )?(.*?)\s*(?:#\s*SKIP\b\s*(.*))?$", re.I)
ACCEPTED = ("kernel:", "machine:")
TAIL = 40  # lines of a failed test's log
PASSED = ("OK", "SKIP")
CASE = re.compile(r"\w+\.test_\w+")         # as tap.py names them
CPU = re.compile(r"^# [\d.]+ s, ([\d.]+) s of CPU: ", re.M)
LONGEST = 24  # scripts that are named
BORDER = 0.2  # seconds in which one test may begin before another one's end is noted
MAX_AGAIN = 3  # suites: when more of them fail, it is no disturbance


def subtests(stdout):
    """(name, passed, skip reason or None, what was said about it) of each TAP line."""
    found = []
    for line in stdout.splitlines():
        match = LINE.match(line)
        if match:
            found.append((match[3], not match[1], match[4], []))
        elif found:
            found[-1][3].append(line)
    return found


def is_tap(stdout):
    return re.search(r"^(TAP version|1\.\.\d+)", stdout, re.M) is not None


def read_log(path):
    with open(path) as file:
        return [json.loads(line) for line in file if line.strip()]


def worth_again(path):
    """Names of the suites that failed in this log, if what ran beside them may be the cause.

    None of them if too many failed. Unit tests and corpora need no clock and no neighbour: they have no
    second run.
    """
    failed = [test["name"] for test in read_log(path) if test["result"] not in PASSED]
    real = [name.split(" / ")[-1] for name in failed if "integration" in suites_of(name)]
    return real if len(real) == len(failed) <= MAX_AGAIN else []


def cases_again(path):
    """Cases of tap.py that a second run is about. One that failed outside of a case runs as a whole: none of its own."""
    cases, again = [], worth_again(path)
    for test in read_log(path):
        failed = [name for name, passed, _, _ in subtests(test.get("stdout", "")) if not passed]
        is_whole = re.search(r"^1\.\.\d+$", test.get("stdout", ""), re.M)
        if test["name"].split(" / ")[-1] in again and is_whole and all(map(CASE.fullmatch, failed)):
            cases += failed
    return cases


def suites_of(name):
    """`project:one+other / test`."""
    return set(name.rpartition(" / ")[0].rpartition(":")[2].split("+"))


def kind_of(names, alone):
    """What a moment is counted as in which these tests ran."""
    suites = set.union(*map(suites_of, names))
    if "integration" in suites:
        return "integration alone" if alone.issuperset(names) else "integration side by side"
    return "unit" if "unit" in suites else "fuzz replays" if "fuzz" in suites else "others"


def seconds_by_kind(tests):
    """Of a log: each moment in which something ran, once. Alone is what began when all else had ended."""
    spans = sorted((test["starttime"], test["starttime"] + test["duration"], test["name"]) for test in tests)
    alone = {name for begin, end, name in spans
             if not any(b < end - BORDER and e > begin + BORDER and n != name for b, e, n in spans)}
    moments = sorted({moment for begin, end, _ in spans for moment in (begin, end)})
    found = {}
    for begin, end in zip(moments, moments[1:]):
        names = {name for b, e, name in spans if b < end and e > begin}
        if names:
            kind = kind_of(names, alone)
            found[kind] = found.get(kind, 0) + end - begin
    return found


def longest(logs):
    """What took most: `longest: NAME SECONDS (CPU of them), …`; "" if no script says its CPU."""
    found = []
    for paths in logs.values():
        try:
            tests = read_log(paths.partition("+")[0])
        except (OSError, ValueError):
            continue                        # add_log() says so
        for test in tests:
            cpu = CPU.findall(test.get("stdout", ""))
            if cpu:
                found.append((test["duration"], test["name"].split(" / ")[-1], sum(map(float, cpu))))
    words = [f"{name} {seconds:.0f} ({cpu:.0f})" for seconds, name, cpu in sorted(found, reverse=True)]
    total = sum(cpu for *_, cpu in found)
    return f"longest, in s (of CPU; {total:.0f} in all): {', '.join(words[:LONGEST])}" if found else ""


def minutes(path, logs):
    """Where they went: `N min: PHASE N, PHASE (KIND N, …) …`."""
    with open(path) as file:
        lines = [line.split(maxsplit=1) for line in file]
    words = []
    for (begin, name), (end, _) in zip(lines, lines[1:]):
        word = f"{name.strip()} {(int(end) - int(begin)) / 60:.1f}"
        try:
            log = logs.get(name.strip(), "").partition("+")[0]
            kinds = seconds_by_kind(read_log(log)) if log else {}
        except (OSError, ValueError, KeyError):
            kinds = {}                      # add_log() has said so
        parts = [f"{kind} {seconds / 60:.1f}" for kind, seconds in kinds.items()]
        words.append(word + (f" ({', '.join(parts)})" if len(parts) > 1 else ""))
    return f"{(int(lines[-1][0]) - int(lines[0][0])) / 60:.1f} min: {', '.join(words)}"


def rest_of(stdout, again):
    """TAP of a first run without what failed in it, and without what ran again."""
    lines = [f"ok - {name}" + (f" # SKIP {reason}" if reason is not None else "")
             for name, passed, reason, _ in subtests(stdout) if passed and name not in again]
    return "\n".join(["TAP version 13", *lines])


class Count:
    def __init__(self, strict):
        self.strict, self.passed, self.failed, self.skips, self.disturbed = strict, 0, [], [], []

    def skip(self, name, reason):
        if self.strict and not reason.startswith(ACCEPTED):
            self.failed.append((f"{name} (skipped: {reason})", ""))
        else:
            self.skips.append((name, reason))

    def add_tap(self, name, test):
        n_failed = len(self.failed)
        for subtest, passed, reason, said in subtests(test.get("stdout", "")):
            full = f"{name}: {subtest}"
            if reason is not None:
                self.skip(full, reason.strip() or "no reason given")
            elif passed:
                self.passed += 1
            else:
                self.failed.append((full, "\n".join(said)))
        if len(self.failed) == n_failed and test["result"] not in PASSED:  # died between two subtests
            self.failed.append(
                (f"{name} ({test['result']})", test.get("stdout", "") + test.get("stderr", "")))

    def add(self, label, test):
        name = f"{label}: {test['name'].split(' / ')[-1]}"
        if is_tap(test.get("stdout", "")):
            self.add_tap(name, test)
        elif test["result"] == "OK":
            self.passed += 1
        elif test["result"] == "SKIP":
            self.skip(name, (test.get("stdout", "").strip().splitlines() or ["no reason given"])[-1])
        else:
            self.failed.append(
                (f"{name} ({test['result']})", test.get("stdout", "") + test.get("stderr", "")))

    def add_again(self, label, test, second):
        if second["result"] in PASSED:
            first = Count(self.strict)
            first.add(label, test)
            self.disturbed += first.failed
        self.add(label, second)
        again = {name for name, *_ in subtests(second.get("stdout", ""))}
        self.add(label, {**test, "result": "OK", "stdout": rest_of(test.get("stdout", ""), again)})

    def add_log(self, label, paths):
        path, _, second_path = paths.partition("+")
        try:
            tests = read_log(path)
            second = {test["name"]: test for test in read_log(second_path)} if second_path else {}
        except (OSError, ValueError) as error:
            self.failed.append((f"{label}: no results ({error})", ""))
            return
        if not tests:
            self.failed.append((f"{label}: not one test ran", ""))
        for test in tests:
            if test["result"] not in PASSED and test["name"] in second:
                self.add_again(label, test, second[test["name"]])
            else:
                self.add(label, test)


def show(word, tests):
    for name, log in tests:
        print(f"{word:8} {name}")
        for line in log.splitlines()[-TAIL:]:
            print(f"         | {line}")


def main(arguments):
    for word, ask in (("--again", worth_again), ("--cases", cases_again)):
        if arguments[:1] == [word]:
            print("\n".join(ask(arguments[1])))
            return 0
    count, phases = Count(os.environ.get("CI") == "true"), None
    if arguments[:1] == ["--phases"]:
        phases, arguments = arguments[1], arguments[2:]
    logs = dict(argument.split("=", 1) for argument in arguments)
    for label, paths in logs.items():
        count.add_log(label, paths)
    for name, reason in count.skips:
        print(f"skipped  {name}: {reason}")
    show("DISTURBED, and passed when run again alone:", count.disturbed)
    show("FAILED", count.failed)
    if count.failed:
        print(f"failed: {', '.join(name for name, _ in count.failed)}")
    if phases and longest(logs):
        print(longest(logs))
    for name in ("meanwhile", "phases") if phases else ():
        path = os.path.join(phases, name)
        if name == "phases" or os.path.exists(path):
            print(("meanwhile " if name == "meanwhile" else "") + minutes(path, logs))
    print(f"{count.passed} passed, {len(count.failed)} failed, {len(count.skips)} skipped")
    return 1 if count.failed or not count.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
