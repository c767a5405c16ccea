#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/process-context (payloads) and corpus/thread-symbol (the smallest ELF files with the symbol,
and broken ones) into the folder given, default: tests/fuzz/corpus/."""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "harness"))
from wire import field  # noqa: E402


def pair(key, value):
    return field(1, key) + field(2, value)


def payloads():
    text = field(1, b"v")
    good = field(1, field(1, pair(b"service.name", text))) + field(2, pair(b"threadlocal.schema_version",
                                                                           text))
    keys = field(2, pair(b"threadlocal.attribute_key_map", field(5,
                                                                 field(1, text) + field(1, field(1, b"w")))))
    nested = b""
    for _ in range(200):
        nested = field(5, field(1, nested))
    yield "good", good + keys
    yield "empty", b""
    yield "nested-values", field(1, field(1, pair(b"k", nested)))
    yield "length-over-the-end", b"\x0a\x7fabc"
    yield "length-of-ten-bytes", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    yield "field-zero", b"\x02\x00"
    yield "groups", b"\x0b\x0c"
    yield "no-utf8", field(1, field(1, pair(b"\xff\xfe", field(1, b"\x80\x00"))))
    yield "300-keys", field(2, pair(b"threadlocal.attribute_key_map", field(5, field(1, text) * 300)))
    yield "200-attributes", field(1, field(1, pair(b"k", text)) * 200)


def elf(name=b"otel_thread_ctx_v1", kind=6, size=8, types=(16,), chain=0, block=16, unnamed=(), version=None):
    """One PT_LOAD of the whole file at address 0, symbols by DT_HASH; @version: of labels, in a symbol behind."""
    strings = b"\0" + name + b"\0" + (b"custom_labels_abi_version\0" if version is not None else b"")
    n_symbols = 2 + (version is not None)
    n_headers, at = 3, 64 + 3 * 56
    dynamic_at, n_dynamic = at, 7
    symbols_at = dynamic_at + n_dynamic * 16
    strings_at = symbols_at + n_symbols * 24
    hash_at = (strings_at + len(strings) + 7) // 8 * 8
    rela_at = hash_at + 24 + 8 * (version is not None)
    version_at = rela_at + 24 * len(types)
    total = version_at + 4 * (version is not None)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, 0, 0, 64, 56, n_headers, 64,
                         0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, total, total, 4096)
    dyn = struct.pack("<IIQQQQQQ", 2, 4, dynamic_at, dynamic_at, 0, n_dynamic * 16, n_dynamic * 16, 8)
    tls = struct.pack("<IIQQQQQQ", 7, 4, total, total, 0, 0, block, 8)
    entries = ((6, symbols_at), (5, strings_at), (10, len(strings)), (4, hash_at), (7, rela_at),
               (8, 24 * len(types)), (0, 0))
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x10 | kind, 0, 1, 8, size)
    table = struct.pack("<IIIII", 1, n_symbols, 1, 0, 2 if version is not None else chain)
    if version is not None:
        symbols += struct.pack("<IBBHQQ", 2 + len(name), 0x11, 0, 1, version_at, 4)
        table += struct.pack("<I", 0)
    rela = b"".join(
        struct.pack("<QQq", 0x4000 + 16 * i, (i not in unnamed) << 32 | t, 0) for i, t in enumerate(types))
    data = header + load + dyn + tls + b"".join(struct.pack("<QQ", *e) for e in entries) + symbols + strings
    data = data.ljust(hash_at, b"\0") + table.ljust(rela_at - hash_at, b"\0") + rela
    return data + (b"" if version is None else struct.pack("<I", version))


def files():
    yield "general-dynamic", elf()
    yield "descriptor", elf(types=(36,))
    yield "initial-exec", elf(types=(18,))
    yield "local-exec", elf(types=())
    yield "many-relocations", elf(types=(16, 36, 18, 16, 16, 1))
    yield "one-of-many", elf(types=(16,) * 8 + (36,), unnamed=range(8))
    yield "labels", elf(name=b"custom_labels_current_set", version=1)
    yield "labels-version-2", elf(name=b"custom_labels_current_set", version=2)
    yield "labels-without-version", elf(name=b"custom_labels_current_set")
    yield "older", elf(name=b"context_tls_v1")
    yield "elastic", elf(name=b"elastic_apm_profiling_correlation_tls_v1")
    yield "node", elf(name=b"otel_thread_ctx_nodejs_v1", size=32, block=64, types=(36,))
    yield "node-a-pointer", elf(name=b"otel_thread_ctx_nodejs_v1")
    yield "node-outside-its-block", elf(name=b"otel_thread_ctx_nodejs_v1", size=32, block=32)
    yield "no-thread-variable", elf(kind=1)
    yield "wrong-size", elf(size=4)
    yield "outside-its-block", elf(block=8)
    yield "chain-in-a-circle", elf(name=b"otel_thread_ctx_vX", chain=1)
    yield "cut", elf()[:300]


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1] / "corpus")
    for folder, items in (("process-context", payloads()), ("thread-symbol", files())):
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, data in items:
            (root / folder / name).write_bytes(data)
