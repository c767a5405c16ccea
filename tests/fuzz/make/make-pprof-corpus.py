#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the corpora of fuzz-pprof and fuzz-folded: a profile of a Go program, and small ones with what is
odd.

usage: make-pprof-corpus.py SOURCE-ROOT
"""
import gzip
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "harness"))
from wire import field  # noqa: E402


STRINGS = [
    "", "samples", "count", "main", "leaf", "a.c", "thread.id", "trace_id", "ab" * 16, "span_id", "cd" * 8,
    "service.name", "shop", "/bin/true", "0123456789abcdef0123"
]


def profile(samples, locations=None, before=b"", strings=STRINGS):
    """Tables behind the samples, as most writers have them."""
    locations = locations if locations is not None else [
        field(1, 1) + field(2, 7) + field(3, 0x1234) + field(4,
                                                             field(1, 9) + field(2, 3)),
        field(1, 2) + field(3, 0x99)
    ]
    return (before + field(1,
                           field(1, 1) + field(2, 2)) + b"".join(field(2, s) for s in samples) +
            field(3,
                  field(1, 7) + field(2, 0x1000) + field(3, 0x9000) + field(5, 13) + field(6, 14)) +
            b"".join(field(4, x) for x in locations) +
            field(5,
                  field(1, 9) + field(2, 4) + field(3, 3) + field(4, 5) + field(5, 1)) + field(6, *strings) +
            field(9, 1_700_000_000_000_000_000) + field(10, 5) + field(11,
                                                                       field(1, 1) + field(2, 2)) +
            field(12, 10))


LABELS = (field(3,
                field(1, 6) + field(3, 4711)) + field(3,
                                                      field(1, 7) + field(2, 8)) +
          field(3,
                field(1, 9) + field(2, 10)) + field(3,
                                                    field(1, 11) + field(2, 12)))
PPROF = {
    "plain": profile([field(1, b"\x01\x02") + field(2, b"\x05")]),
    "not-packed": profile([field(1, 1, 2) + field(2, 5)]),
    "labels": profile([field(1, b"\x01") + field(2, b"\x01") + LABELS]),
    "times-first": profile([field(1, 1) + field(2, 1)], before=field(9, 1) + field(10, 1)),
    "no-such-location": profile([field(1, 77) + field(2, 1),
                                 field(1, 1) + field(2, 1)]),
    "no-such-string": profile([field(1, 1) + field(2, 1) + field(3,
                                                                 field(1, 99) + field(2, 98))]),
    "too-many-values": profile([field(1, 1) + field(2, b"\x01" * 90)]),
    "same-ids": profile([field(1, 1) + field(2, 1)], [field(1, 1) + field(3, 5)] * 4),
    "inlined": profile([field(1, 1) + field(2, 1)],
                       [field(1, 1) + b"".join(field(4,
                                                     field(1, 9) + field(2, n)) for n in range(20))]),
    "many-types": field(1,
                        field(1, 1) + field(2, 2)) * 80 + field(6, *STRINGS),
    "negative": profile([field(1, 1) + field(2, -5)]),
    "huge-string": profile([field(1, 1) + field(2, 1)], strings=[*STRINGS[:4], "x" * 70000, *STRINGS[5:]]),
    "no-strings": profile([field(1, 1) + field(2, 1)], strings=[]),
    "length-beyond": field(1, field(1, 1)) + b"\x12\xff\xff\xff\xff\x0f",
    "groups": b"\x0b\x0c",
    "zero-field": b"\x00\x00\x0a\x02\x08\x01",
}
FOLDED = {
    "plain": b"main;serve;hot 6\nmain;serve 2\n",
    "kernel": b"sh;do_syscall_64_[k];clear_page_[k] 12\r\n",
    "odd": b"# comment\n\n;;a;;b;; 3\n a 1\nx 99999999999999999999\nno number\n 5\n;\n; 1\nx -1\nend 7",
    "deep": b";".join(b"f%d" % i for i in range(5000)) + b" 1\n",
    "stations": b"1,2,3,4,0,0,0,5,6,7,8,9,10,0x11,1\n1,2,3\n",
}


def main():
    root = pathlib.Path(sys.argv[1])
    for name, data in PPROF.items():
        (root / "tests/fuzz/corpus/pprof" / name).write_bytes(data)
    go = gzip.decompress((root / "tests/data/go-cpu.pb.gz").read_bytes())
    (root / "tests/fuzz/corpus/pprof/go").write_bytes(go)
    (root / "tests/fuzz/corpus/pprof/go-cut").write_bytes(go[:900])
    for name, data in FOLDED.items():
        (root / "tests/fuzz/corpus/folded" / name).write_bytes(data)


if __name__ == "__main__":
    main()
