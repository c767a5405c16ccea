#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes corpus/spool/: one byte (m = mend the checksums), then a file as spool-file.h lays it out. Those
named found-… are not made here:
they are what ten minutes of fuzzing reached beyond these, the smaller ones (libFuzzer's -merge=1).

usage: make-spool-corpus.py          (needs the zstd program)
"""
import pathlib
import struct
import subprocess

HERE = pathlib.Path(__file__).parents[1] / "corpus/spool"


def zstd(data):
    return subprocess.run(["zstd", "-c", "-q"], input=data, capture_output=True, check=True).stdout


def file(stored, size, schema=b"profiles/v1development", form=1):
    return b"SPANSPL1" + struct.pack("<II24sQQQQQQQ", 96, form, schema, 3, 1, 10**18, size, len(stored), 0,
                                     0) + stored


HERE.mkdir(parents=True, exist_ok=True)
text = b"request " * 4
for name, data in {
    "whole": b"m" + file(zstd(text), len(text)),
    "checksum": b"x" + file(zstd(text), len(text)),
    "longer-than-said": b"m" + file(zstd(text), len(text) - 1),
    "shorter-than-said": b"m" + file(zstd(text), len(text) + 1),
    "huge": b"m" + file(zstd(text), 1 << 40),
    "no-zstd": b"m" + file(b"plain", 5),
    "json": b"m" + file(zstd(b"{}"), 2, form=2),
    "form": b"m" + file(zstd(b"{}"), 2, form=3),
    "schema": b"m" + file(zstd(text), len(text), b"profiles/v2"),
    "header-only": b"m" + file(b"", 0),
    "half-header": b"x" + file(b"", 0)[:40],
}.items():
    (HERE / name).write_bytes(data)
