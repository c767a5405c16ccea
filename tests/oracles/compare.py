#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether two sets of samples come from the same distribution: ours and perf's, by function or by object.

Each category (a function, an object) that has 1 % or more of both sets together is one two-sample test of
proportions. With m categories each is held to alpha / m (Bonferroni), so that the whole comparison gives a
false alarm once in 1 / alpha runs, however many functions a program has. What has less is one category, `(rest)`.

    perf = compare.functions(compare.perf_script(text))
    result = compare.two_samples(ours, perf)            Counters: category → samples
    assert result.agrees, result

By hand: compare.py A B, files with lines COUNT<tab>CATEGORY; exit status 1 if they differ.
"""
import collections
import math
import re
import sys

ALPHA = 0.001
SMALLEST = 0.01  # share of a category of its own
REST = "(rest)"

Row = collections.namedtuple("Row", "category count_a count_b share_a share_b p differs")
Frame = collections.namedtuple("Frame", "address symbol object")
PerfSample = collections.namedtuple("PerfSample", "comm pid tid time_ns frames")


def proportion_p(count_a, n_a, count_b, n_b):
    """Two-sided p value for count_a of n_a and count_b of n_b having the same share: the normal approximation
    with a pooled variance and a continuity correction (which errs on the side of `same`)."""
    pooled = (count_a + count_b) / (n_a + n_b)
    variance = pooled * (1 - pooled) * (1 / n_a + 1 / n_b)
    if variance == 0:
        return 1.0
    correction = (1 / n_a + 1 / n_b) / 2
    distance = max(0.0, abs(count_a / n_a - count_b / n_b) - correction)
    return math.erfc(distance / math.sqrt(2 * variance))


class Result:
    def __init__(self, rows, n_a, n_b, alpha):
        self.rows, self.n_a, self.n_b, self.alpha = rows, n_a, n_b, alpha

    @property
    def different(self):
        return [row for row in self.rows if row.differs]

    @property
    def agrees(self):
        return not self.different

    def __str__(self):
        lines = [
            f"{len(self.different)} of {len(self.rows)} categories differ ({self.n_a} and {self.n_b} samples, "
            f"alpha {self.alpha} over all)"
        ]
        for row in self.rows:
            lines.append(
                f"{'DIFFERS' if row.differs else '':7} {100 * row.share_a:6.2f}% {100 * row.share_b:6.2f}%  "
                f"p {row.p:.2g}  {row.category}")
        return "\n".join(lines)


def two_samples(a, b, alpha=ALPHA, smallest=SMALLEST):
    """Compares two Counters. Raises ValueError where there is too little to compare."""
    n_a, n_b = sum(a.values()), sum(b.values())
    if min(n_a, n_b) * smallest < 5:
        raise ValueError(
            f"{n_a} and {n_b} samples are too few: a category of {100 * smallest:g} % needs 5 in each")
    own = [x for x in {**a, **b} if a[x] + b[x] >= smallest * (n_a + n_b)]
    groups = {x: (a[x], b[x]) for x in own}
    rest = (n_a - sum(x for x, _ in groups.values()), n_b - sum(x for _, x in groups.values()))
    if sum(rest) >= smallest * (n_a + n_b):
        groups[REST] = rest
    rows = []
    for category, (count_a, count_b) in sorted(groups.items(), key=lambda x: (-sum(x[1]), str(x[0]))):
        p = proportion_p(count_a, n_a, count_b, n_b)
        rows.append(Row(category, count_a, count_b, count_a / n_a, count_b / n_b, p, p < alpha / len(groups)))
    return Result(rows, n_a, n_b, alpha)


_HEAD = re.compile(
    r"^\s*(?P<comm>\S.*?)\s+(?P<pid>-?\d+)(?:/(?P<tid>-?\d+))?\s+(?P<time>\d+\.\d+):\s*(?P<frame>.*)$")
_FRAME = re.compile(
    r"^\s*(?P<address>[0-9a-f]+)\s+(?P<symbol>.*?)\s+\((?P<object>[^()]*(?:\([^()]*\))?[^()]*)\)$")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")


def _frame(text):
    match = _FRAME.match(text)
    if not match:
        raise ValueError(f"no frame of perf script: {text!r}")
    return Frame(int(match["address"], 16), _OFFSET.sub("", match["symbol"]), match["object"])


def perf_script(text):
    """Yields a PerfSample for each sample of `perf script -F comm,pid,tid,time,ip,sym,dso` (leaf first), recorded with
    or without -g. With --ns times are exact."""
    sample = None
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        head = None if line.startswith("\t") else _HEAD.match(line)  # frames of a stack are behind a tab
        if not line.strip():
            if sample:
                yield sample
            sample = None
        elif head:
            if sample:
                yield sample
            seconds, fraction = head["time"].split(".")
            sample = PerfSample(head["comm"], int(head["pid"]), int(head["tid"] or head["pid"]),
                                int(seconds) * 10**9 + int(fraction.ljust(9, "0")), [])
            if head["frame"].strip():
                sample.frames.append(_frame(head["frame"]))
        elif sample:
            sample.frames.append(_frame(line))
        else:
            raise ValueError(f"no sample of perf script: {line!r}")
    if sample:
        yield sample


def object_name(path):
    """An object as both sides call it: no folders, everything of the kernel is one."""
    if path.startswith("[") and path.endswith("]"):
        return path if path in ("[vdso]", "[vsyscall]", "[unknown]") else "[kernel]"
    return path.rsplit("/", 1)[-1].removesuffix(" (deleted)")


def objects(samples):
    """Counter of the objects that the innermost frames lie in."""
    return collections.Counter(object_name(s.frames[0].object) for s in samples if s.frames)


def functions(samples):
    """Counter of (object, function) of the innermost frames; without a name the function is `[unknown]`."""
    return collections.Counter((object_name(s.frames[0].object), s.frames[0].symbol or "[unknown]")
                               for s in samples if s.frames)


def _read(path):
    counts = collections.Counter()
    with open(path) as file:
        for line in file:
            count, category = line.rstrip("\n").split("\t", 1)
            counts[category] += int(count)
    return counts


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: compare.py A B")
    result = two_samples(_read(sys.argv[1]), _read(sys.argv[2]))
    print(result)
    sys.exit(0 if result.agrees else 1)


if __name__ == "__main__":
    main()
