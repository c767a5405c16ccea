#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes corpus/watch/: what daemon/host/service/watch/watch-file.c writes behind the sum of its file.

usage: make-watch-corpus.py
"""
import pathlib

HERE = pathlib.Path(__file__).parents[2] / "corpus/watch"
MAX_SHARE, TIME_NS = 2_000_000, 1800 * 10**9


def number(value):
    data = b""
    while value > 0x7F:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def numbers(*values):
    return b"".join(map(number, values))


def text(value):
    return number(len(value)) + value


def sketch(build, rows, n_blocks=40, total=100):
    """rows: (hash, name, since, samples of each block)"""
    data = text(build) + numbers(n_blocks, 5, 1795299000, *[total] * (n_blocks + 1), *[1] * (n_blocks + 1),
                                 len(rows))
    for key, name, since, n in rows:
        data += number(key) + text(name) + numbers(since, *[n] * (n_blocks + 1))
    return data


def verdict(n_slower=1, low=-5):
    row = text(b"parse") + numbers(*(share + MAX_SHARE for share in (41000, 93000, low, 58000)))
    return text(b"aa") + text(b"bb") + numbers(2, n_slower) + row * min(n_slower, 8)


def service(name, *parts, flags=0, user=1000):
    return number(user) + text(b"/system.slice/shop.service") + text(name) + text(b"shopd") + \
        numbers(1795300000, flags) + b"".join(parts)


def file(*services, time_ns=TIME_NS, way=3, n=None):
    return numbers(time_ns, way, len(services) if n is None else n) + b"".join(services)


OLD = sketch(b"aa", [(1, b"parse", 0, 40), (2, b"main", 0, 60)])
NEW = sketch(b"bb", [(1, b"parse", 41, 60), (2, b"main", 0, 40)])
HERE.mkdir(parents=True, exist_ok=True)
for case, data in {
    "empty": file(),
    "first": file(service(b"shop", NEW)),
    "both": file(service(b"shop", NEW, OLD, flags=1)),
    "compared": file(service(b"shop", NEW, OLD, verdict(), flags=3)),
    "two": file(service(b"shop", NEW), service(b"cart", OLD)),
    "twice": file(service(b"shop", NEW), service(b"shop", OLD)),
    "same-build": file(service(b"shop", NEW, NEW, flags=1)),
    "compared-with-none": file(service(b"shop", NEW, verdict(), flags=2)),
    "more-than-compared": file(service(b"shop", NEW, OLD, verdict(3), flags=3)),
    "many": file(n=65),
    "time": file(service(b"shop", NEW), time_ns=5),
    "way": file(service(b"shop", NEW), way=1),
    "no-way": file(service(b"shop", NEW), way=4),
    "long": file(service(b"s" * 128, NEW)),
    "no-utf8": file(service(b"\xff", NEW)),
    "no-build": file(service(b"shop", sketch(b"", []))),
    "blocks": file(service(b"shop", sketch(b"bb", [], n_blocks=48))),
    "most-blocks": file(service(b"shop", sketch(b"bb", [(1, b"f", 48, 100)], n_blocks=47))),
    "since": file(service(b"shop", sketch(b"bb", [(1, b"f", 42, 1)]))),
    "hash-twice": file(service(b"shop", sketch(b"bb", [(1, b"f", 0, 1), (1, b"g", 0, 1)]))),
    "more-than-all": file(service(b"shop", sketch(b"bb", [(1, b"f", 0, 101)]))),
    "rows": file(service(b"shop", sketch(b"bb", [(i, b"f%d" % i, 0, 1) for i in range(224)], total=224))),
    "too-many-rows": file(service(b"shop", sketch(b"bb", [(i, b"f", 0, 1) for i in range(225)], total=225))),
    "no-samples": file(service(b"shop", sketch(b"bb", [(1, b"f", 0, 0)], total=0))),
    "cut": file(service(b"shop", NEW, OLD, flags=1))[:-7],
    "bytes-behind": file(service(b"shop", NEW)) + b"x",
}.items():
    (HERE / case).write_bytes(data)
