# SPDX-License-Identifier: Apache-2.0
"""What is said of a pc of compiled Java between two descriptions, beside what a JVM with DebugNonSafepoints
knows of it. `runtimes.py leaves` uses it.

Two JVMs run one program, and the second has the flag. A method whose code has the same size in both, and in
the second one all descriptions of the first, has the same code. There each sampled pc is named twice: by the
descriptions of the first JVM alone (hotspot-dump leaves: the daemon's own reader), and by all of them.

C2 renumbers its nodes, and older releases then look up a node's place by its old number (JDK-8201516). There
the flag describes code by other methods, which run elsewhere: JDK 11.0.13 calls the unrolled loop of
StringLatin1.hashCode `Integer.parseInt`, and JDK 8 the allocation of an array by a comparator's method.
"""
import collections
import time

import bench
import jdks
import tap

DUMP = tap.HARNESS / "hotspot-dump"
FLAGS = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints")
KINDS = ("same", "near", "short", "wrong")
# What FLAGS say is right in all releases from 21 on, and in these since a version. No fix of 8 is known.
RIGHT_FROM, RIGHT_SINCE = 21, {"11": (11, 0, 21), "17": (17, 0, 8)}

Code = collections.namedtuple("Code", "key address code end offsets")


def is_judge(java):
    """Whether what FLAGS say is right."""
    name = jdks.release(java)
    return int(name) >= RIGHT_FROM or name in RIGHT_SINCE and jdks.version(java) >= RIGHT_SINCE[name]


def dump(what, pid, tool=DUMP, **options):
    done = bench.run([tool, what, pid], **options)
    if done.returncode:
        raise SystemExit(f"hotspot-dump {what}: {done.stderr}")
    return [line.split("\t") for line in done.stdout.splitlines()]


def codes(pid):
    """The compiled methods of a JVM, by C2 or C1: a list of Code. offsets: {of a description: its frames}."""
    places = collections.defaultdict(dict)
    for compile_id, offset, *frames in dump("scopes", pid):
        places[compile_id][int(offset)] = tuple(frames)
    found = []
    rows = [row for row in dump("code", pid) if len(row) == 8]
    for compile_id, level, entry, address, code, end, *name in rows:
        size = int(end, 16) - int(code, 16)
        found.append(Code((*name, level, entry, size), int(address, 16), int(code, 16), int(end, 16),
                          places[compile_id]))
    return found


def same_code(plain, flagged):
    """[(method of the flagged JVM, offsets of the descriptions that the plain one has of it)]."""
    by_key = collections.defaultdict(list)
    for code in plain:
        by_key[code.key].append(code)
    found = []
    for code in flagged:
        for twin in by_key[code.key]:
            if twin.offsets.items() <= code.offsets.items():
                found.append((code, sorted(twin.offsets)))
                break
    return found


def sampled(b, pid, hz, seconds):
    """{pc: times} of user space, by perf."""
    data, perf = b.directory() / "data", bench.tool("perf")
    done = bench.run([perf, "record", "-q", "-e", "cpu-clock:u", "-F", hz, "-p", pid, "-o", data, "--",
                      "sleep", seconds])
    if done.returncode:
        raise SystemExit(f"perf: {done.stderr}")
    told = bench.run([perf, "script", "-F", "ip", "-i", data]).stdout
    return collections.Counter(int(line, 16) for line in told.split())


def methods(frames):
    """The outermost first, without their byte code's position."""
    return [frame.rpartition(":")[0] for frame in reversed(frames.split(" "))] if frames else []


def kind_of(said, at, others):
    """
    same: as the description at or after the pc has it. near: as one of its neighbours; they are kept roughly.
    short: as one of these, without its innermost frames. wrong: a method that none of them has there.
    """
    said, at, others = methods(said), methods(at), [methods(other) for other in others]
    if said == at:
        return "same"
    if said in others:
        return "near"
    if any(said == known[:len(said)] for known in (at, *others)):
        return "short"
    return "wrong"


def questions(pairs, pcs):
    text, inside = [], sorted(pcs)
    for code, offsets in pairs:
        here = [pc for pc in inside if code.code <= pc < code.end]
        if here:
            text.append(f"method {code.address:x} {' '.join(map(str, offsets))}\n")
            text += [f"pc {pc:x}\n" for pc in here]
    return "".join(text)


def judge(rows, pcs):
    """({(kind, compiler): samples}, {what was wrong: samples})."""
    seen, wrong = collections.Counter(), collections.Counter()
    for pc, level, _, said, at, *others in rows:
        kind, n = kind_of(said, at, others), pcs[int(pc, 16)]
        seen[kind, "C2" if level == "4" else "C1"] += n
        if kind == "wrong":
            wrong[pc, said, at, *others] += n
    return seen, wrong


def compare(b, start, hz, seconds, warm, tools):
    """
    @start: starts the program with further flags. @tools: hotspot-dump of one or more builds, asked of the
    same samples. Return: judge()'s for each, and how many samples in compiled code there are.
    """
    plain, flagged = start(), start(*FLAGS)
    time.sleep(warm)
    pcs = sampled(b, flagged.pid, hz, seconds)
    known = codes(flagged.pid)
    asked = questions(same_code(codes(plain.pid), known), pcs)
    n = sum(times for pc, times in pcs.items() if any(c.code <= pc < c.end for c in known))
    return [judge(dump("leaves", flagged.pid, tool, input=asked), pcs) for tool in tools], n
