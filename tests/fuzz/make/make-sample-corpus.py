#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/decode/ and corpus/unwind/: one small file for each form of a record and of a stack.

usage: make-sample-corpus.py  (from anywhere; the files are committed)
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus"
STACK = 0x7FFE0000


def sample(n_kernel=0, n_user=3, kind=1, end=8, context=1, comm=b"worker", frames=None, words=None):
    """struct abi_sample of bpf/border/abi.h and its frames."""
    if words is not None:
        n_user, frames = len(words), None
    addresses = range(0x401000, 0x401000 + n_kernel + n_user) if frames is None else range(frames)
    addresses = words or addresses
    return b"\0" + struct.pack("<4Q4I2H4B16s4Q", 10**9, 1, 10**8, 7, 42, 43, 3, 0, n_kernel, n_user, kind,
                               end, context, 0, comm, 0, 1, 2, 0) + b"".join(
                                   struct.pack("<Q", x) for x in addresses)


def fault(memory=4, major=1, huge=0, name=b"data.bin"):
    """The same with a struct abi_fault between."""
    record = sample(kind=5)
    return record[:105] + struct.pack("<Q3B5x256s", 0x7F0000001000, memory, major, huge, name) + record[105:]


def allocation(weight=524296, size=16, has_free=1):
    """The same with a struct abi_allocation between."""
    record = bytearray(sample(kind=4))
    record[9:17] = struct.pack("<Q", weight)
    return bytes(record[:105]) + struct.pack("<3Q", 0x7F0000001000, size, has_free) + bytes(record[105:])


def notice(kind, comm=b"sh"):
    return b"\1" + struct.pack("<3Q2I16s", 10**9, 10**8, 5, 42, kind, comm)


def copied(n_bytes=1024, address=STACK, cut=0, there=1024):
    """struct abi_stack of bpf/border/abi.h and its bytes."""
    return b"\2" + struct.pack("<Q2I4Q16Q", 10**9, 42, 0, 0x401000, STACK + 8, STACK + 64, 0,
                               *range(16)) + struct.pack("<Q2I", address, n_bytes, cut) + bytes(there)


def wait(blocked=5, weight=256, flags=8, size=None, kind=2, waker=(0, 0, 0, 0, 0, 0), run=(9, 1, 1),
         frames_of_waker=(), n_waker=None, **options):
    """struct abi_wait of bpf/border/offcpu_abi.h, its sample, and the waker's frames."""
    body = sample(kind=kind, **options)[1:] + struct.pack(f"<{len(frames_of_waker)}Q", *frames_of_waker)
    return b"\3" + struct.pack("<3QIhBBQ3QIIB7xQIB3xQQHBBI", blocked, 7, 10**9, weight, 202, flags, 0,
                               120 + len(body) if size is None else size, *waker, *run, 10**9, 1,
                               len(frames_of_waker) if n_waker is None else n_waker, 1, 0, 0) + body


def stack(depth, bp, words):
    return struct.pack("<BQ", depth, bp) + b"".join(struct.pack("<Q", x & (2**64 - 1)) for x in words)


def chain(n, stride=4, last=0):
    words = [0] * (n * stride)
    for i in range(n):
        words[i * stride] = STACK + 8 * (i + 1) * stride if i + 1 < n else last
        words[i * stride + 1] = 0x401000 + i
    return words


FILES = {
    "decode/sound": sample(),
    "decode/kernel-part": sample(n_kernel=2),
    "decode/no-frames": sample(n_user=0, end=1),
    "decode/short-by-a-frame": sample(frames=2),
    "decode/long-by-a-frame": sample(frames=4),
    "decode/counts-too-large": sample(n_kernel=0xFFFF, n_user=0xFFFF, frames=0),
    "decode/unknown-kind": sample(kind=9),
    "decode/free": b"\0" + struct.pack("<3Q", 9, 7, 0x7F0000001000),
    "decode/fault": fault(),
    "decode/allocation": allocation(),
    "decode/allocation-without-weight": allocation(weight=0),
    "decode/allocation-too-large": allocation(size=1 << 51),
    "decode/allocation-free-unknown": allocation(has_free=2),
    "decode/fault-unknown-memory": fault(memory=7),
    "decode/fault-name-without-end": fault(name=b"x" * 256),
    "decode/unknown-end": sample(end=99),
    "decode/unknown-context": sample(context=77),
    "decode/name-without-end": sample(comm=b"x" * 16),
    "decode/header-cut": sample()[:60],
    "decode/empty": b"\0",
    "decode/wait": wait(),
    "decode/wait-no-frames": wait(n_user=0, end=1),
    "decode/wait-centuries": wait(blocked=2**63),
    "decode/wait-no-weight": wait(weight=0),
    "decode/wait-unknown-flag": wait(flags=128),
    "decode/wait-other-size": wait(size=2**40),
    "decode/wait-of-the-cpu": wait(kind=1),
    "decode/wait-cut": wait()[:30],
    "decode/wait-waker": wait(waker=(3, 4, 5, 1, 2, 1)),
    "decode/wait-waker-without-id": wait(waker=(3, 4, 5, 1, 0, 1)),
    "decode/wait-waker-stranger": wait(waker=(0, 0, 0, 0, 2, 2)),
    "decode/wait-waker-walked": wait(waker=(3, 4, 5, 1, 2, 1), frames_of_waker=[0x401000, 0x402000]),
    "decode/wait-waker-walked-too-many": wait(waker=(3, 4, 5, 1, 2, 1), frames_of_waker=[0x401000], n_waker=999),
    "decode/wait-run-unknown": wait(run=(9, 1, 3)),
    "decode/wait-run-centuries": wait(run=(2**63, 1, 1)),
    "decode/wait-waker-unknown": wait(waker=(0, 0, 0, 0, 0, 5)),
    "decode/runtime-frames": sample(words=[0x401000, 1 << 56 | 0x7F00, 2**64 - 1, 5, 2 << 56, 6, 7, 3 << 56, 8, 9]),
    "decode/runtime-frame-cut": sample(words=[0x401000, 2 << 56 | 0x7F00, 5]),
    "decode/runtime-kind-unknown": sample(words=[4 << 56, 1, 2]),
    "decode/notice-exec": notice(1),
    "decode/notice-exit": notice(2),
    "decode/notice-mappings": notice(3),
    "decode/notice-unknown": notice(4),
    "decode/notice-cut": notice(2)[:-1],
    "decode/copied": copied(),
    "decode/copied-more-than-there": copied(n_bytes=2048),
    "decode/copied-part-of-a-chunk": copied(n_bytes=1000),
    "decode/copied-nothing": copied(n_bytes=0, there=0, cut=1),
    "decode/copied-unaligned": copied(address=STACK + 8),
    "unwind/chain": stack(255, STACK, chain(8)),
    "unwind/page-end": stack(255, STACK + 8 * 4, chain(128)),
    "unwind/two-pages": stack(255, STACK, chain(128, 8)),
    "unwind/too-deep": stack(1, STACK, chain(12, 2)),
    "unwind/no-frame": stack(255, 0, chain(2)),
    "unwind/unaligned": stack(255, STACK + 4, chain(2)),
    "unwind/outside": stack(255, STACK + (1 << 19), chain(2)),
    "unwind/kernel-address": stack(255, 2**64 - 8, chain(2)),
    "unwind/loop": stack(255, STACK, [STACK, 0x401000]),
    "unwind/return-zero": stack(255, STACK, [STACK + 16, 0x401000, 0, 0]),
}

for name, data in FILES.items():
    path = CORPUS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
