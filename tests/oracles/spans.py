#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges samples by the span log of the example service.

The log says for each span on which thread it was published, and the times just before and just after each
change:

    span_id,operation,tid,start_before,start_after,end_before,end_after

    span     ........[=============================].......
    time     before  after                    before  after
             ^ gap   ^          inside              ^ gap ^

A sample is a thread id, a time (CLOCK_MONOTONIC, ns) and what a profiler says that it saw: a span id or None.

    right     inside of a span, and it is that span (and that operation, where the sample names one)
    missing   inside of a span, and no span was seen: not false, but lost
    gap       while the span changed, and it is this span or none: not judged
    outside   no span on this thread at this time, and none was seen
    wrong     everything else

    log = spans.load("spans.csv")
    log.judge(tid, time_ns, span_id)        →  one of the words above
    log.tally(samples)                      →  Counter of them; the wrong ones are in log.wrong

By hand: spans.py SPANS.csv < SAMPLES     (lines tid,time_ns,span_id[,operation]; an empty span_id = none
                                          seen)
Exit status 1 if a sample is wrong.
"""
import bisect
import collections
import csv
import sys

COLUMNS = ["span_id", "operation", "tid", "start_before", "start_after", "end_before", "end_after"]

Span = collections.namedtuple("Span", COLUMNS)  # span_id: int


class SpanLog:
    """Spans by thread, in order of time. Raises ValueError for a log that cannot be true."""

    def __init__(self, spans):
        self.by_id = {}
        self.wrong = []
        self._threads = collections.defaultdict(list)
        for span in spans:
            if span.span_id == 0 or span.span_id in self.by_id:
                raise ValueError(f"span id {span.span_id:016x} is zero or there twice")
            if not span.start_before <= span.start_after <= span.end_before <= span.end_after:
                raise ValueError(f"times of span {span.span_id:016x} are not in order")
            self.by_id[span.span_id] = span
            self._threads[span.tid].append(span)
        self._starts = {}
        for tid, mine in self._threads.items():
            mine.sort(key=lambda span: span.start_before)
            for a, b in zip(mine, mine[1:]):
                if b.start_before < a.end_after:
                    raise ValueError(f"spans {a.span_id:016x} and {b.span_id:016x} overlap on thread {tid}")
            self._starts[tid] = [span.start_before for span in mine]

    def find(self, tid, time_ns):
        """The span whose change or run covers this time on this thread, or None."""
        nth = bisect.bisect_right(self._starts.get(tid, []), time_ns) - 1
        if nth < 0:
            return None
        span = self._threads[tid][nth]
        return span if time_ns <= span.end_after else None

    def judge(self, tid, time_ns, span_id, operation=None):
        span = self.find(tid, time_ns)
        if span is None:
            return "outside" if span_id is None else "wrong"
        if span_id not in (None, span.span_id):
            return "wrong"
        if not span.start_after <= time_ns <= span.end_before:
            return "gap"
        if operation not in (None, span.operation):
            return "wrong"
        return "missing" if span_id is None else "right"

    def tally(self, samples):
        """@samples: (tid, time_ns, span_id or None[, operation or None])."""
        counts = collections.Counter(right=0, wrong=0, missing=0, gap=0, outside=0)
        for sample in samples:
            verdict = self.judge(*sample)
            counts[verdict] += 1
            if verdict == "wrong":
                self.wrong.append(sample)
        return counts


def parse(lines):
    rows = csv.reader(lines)
    header = next(rows, None)
    if header != COLUMNS:
        raise ValueError(f"not a span log: first line is {header}")
    return SpanLog(Span(int(row[0], 16), row[1], *map(int, row[2:])) for row in rows)


def load(path):
    with open(path, newline="") as file:
        return parse(file)


def parse_samples(lines):
    for row in csv.reader(lines):
        yield (int(row[0]), int(row[1]), int(row[2], 16) if row[2] else None, *[o or None for o in row[3:4]])


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: spans.py SPANS.csv < SAMPLES")
    log = load(sys.argv[1])
    counts = log.tally(parse_samples(sys.stdin))
    print(" ".join(f"{verdict} {n}" for verdict, n in counts.items()))
    for sample in log.wrong[:20]:
        print("wrong:", *sample)
    sys.exit(1 if counts["wrong"] else 0)


if __name__ == "__main__":
    main()
