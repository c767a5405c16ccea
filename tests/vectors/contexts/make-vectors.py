#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes vectors.tsv: records of contexts, right and wrong, byte by byte, each with the rule that it breaks.

usage: make-vectors.py >vectors.tsv

Layouts are packed by hand, messages by opentelemetry-proto. README.md says what a line means. The verdicts
are typed in here: no reader of spanprof has a part in them.
"""
import struct

from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2

TRACE = bytes.fromhex("0af7651916cd43dd8448eb211c80319c")
SPAN = bytes.fromhex("b7ad6b7169203331")
BORN, NOW = 1_000_000_000, 5_000_000_000        # ns of CLOCK_BOOTTIME
ROOM = 32 + 65536 * 32


def ring(magic=0x4F54454C, version=1, capacity=65536, slot_size=32, reserved=bytes(16)):
    return struct.pack("<IIII", magic, version, capacity, slot_size) + reserved


def slot(in_use=0):
    return struct.pack("<QQQB7x", 0x0AF7651916CD43DD, 0x8448EB211C80319C, 0xB7AD6B7169203331, in_use)


def header(signature=b"OTEL_CTX", version=2, size=100, time=2_000_000_000, payload=0x7F0000001000):
    return struct.pack("<8sIIQQ", signature, version, size, time, payload)


def value(data):
    if isinstance(data, list):
        return common_pb2.AnyValue(array_value=common_pb2.ArrayValue(values=map(value, data)))
    kind = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}[type(data)]
    return common_pb2.AnyValue(**{kind: data})


def field(number, message):
    """A field with bytes; messages here are shorter than 16 KiB."""
    size = len(message)
    length = [size] if size < 128 else [size & 127 | 128, size >> 7]
    return bytes([number << 3 | 2, *length]) + message


def pairs(values):
    return [common_pb2.KeyValue(key=key, value=value(data)) for key, data in values]


def payload(keys=("http.route", "user"), schema="tlsdesc_v1_dev", attributes=(("service.name", "shop"), )):
    extra = [("threadlocal.schema_version", schema)] if schema else []
    extra += [("threadlocal.attribute_key_map", list(keys))] if keys is not None else []
    return field(1, resource_pb2.Resource(attributes=pairs(attributes)).SerializeToString()) + b"".join(
        field(2, pair.SerializeToString()) for pair in pairs(extra))


def entry(key, text):
    return bytes([key, len(text)]) + text


def record(attributes=b"", trace=TRACE, span=SPAN, valid=1, flags=0, size=None):
    size = len(attributes) if size is None else size
    return struct.pack("<16s8sBBH", trace, span, valid, flags, size) + attributes


def labels(*texts):
    """As a sample of spanprof has them: id of the goroutine, then size of key, size of value, both texts."""
    return struct.pack("<Q", 7) + b"".join(bytes([len(key), len(text)]) + key + text
                                           for key, text in zip(texts[::2], texts[1::2]))


# form, name, rule that it breaks (`ok` = none), what a reader knows beside the bytes, the bytes
VECTORS = [
    ("ring", "usual", "ok", f"room={ROOM}", ring()),
    ("ring", "one-slot", "ok", "room=64", ring(capacity=1)),
    ("ring", "most-slots", "ok", f"room={32 + 2**24 * 32}", ring(capacity=2**24)),
    ("ring", "magic-of-another-byte-order", "ring-magic", f"room={ROOM}", ring(magic=0x4C45544F)),
    ("ring", "no-version-yet", "ring-version", f"room={ROOM}", ring(version=0)),
    ("ring", "version-2", "ring-version", f"room={ROOM}", ring(version=2)),
    ("ring", "no-slot", "ring-capacity", f"room={ROOM}", ring(capacity=0)),
    ("ring", "too-many-slots", "ring-capacity", f"room={32 + (2**24 + 1) * 32}", ring(capacity=2**24 + 1)),
    ("ring", "slots-of-24-bytes", "ring-slot-size", f"room={ROOM}", ring(slot_size=24)),
    ("ring", "reserved-byte-set", "ring-reserved", f"room={ROOM}", ring(reserved=bytes(15) + b"\1")),
    ("ring", "a-byte-short", "ring-room", f"room={ROOM - 1}", ring()),
    ("slot", "free", "ok", "", slot()),
    ("slot", "in-use", "ok", "", slot(1)),
    ("slot", "in-use-255", "ring-in-use", "", slot(255)),
    ("header", "usual", "ok", f"now={NOW} born={BORN}", header()),
    ("header", "longest-payload", "ok", f"now={NOW} born={BORN}", header(size=65536)),
    ("header", "being-updated", "ok", f"now={NOW} born={BORN}", header(time=0, size=0)),
    ("header", "signature-in-small-letters", "process-signature", f"now={NOW} born={BORN}", header(b"otel_ctx")),
    ("header", "version-1", "process-version", f"now={NOW} born={BORN}", header(version=1)),
    ("header", "no-payload", "process-size", f"now={NOW} born={BORN}", header(size=0)),
    ("header", "too-long-payload", "process-size", f"now={NOW} born={BORN}", header(size=65537)),
    ("header", "time-since-1970", "process-clock", f"now={NOW} born={BORN}", header(time=1_790_000_000 * 10**9)),
    ("header", "of-the-parent", "process-fork", f"now={NOW} born={BORN}", header(time=BORN - 1)),
    ("payload", "usual", "ok", "", payload()),
    ("payload", "resource-alone", "ok", "", payload(keys=None, schema=None)),
    ("payload", "every-plain-kind", "ok", "",
     payload(attributes=(("s", "x"), ("i", -1), ("b", True), ("d", 0.5)))),
    ("payload", "unknown-field", "ok", "", payload() + field(15, b"later")),
    ("payload", "last-byte-cut", "process-message", "", payload()[:-1]),
    ("payload", "text-in-place-of-a-message", "process-message", "", b"service.name=shop"),
    ("payload", "attribute-twice", "process-attributes", "", payload(attributes=(("a", "1"), ("b", "2"), ("a", "1")))),
    ("payload", "value-is-no-utf-8", "process-attributes", "", payload().replace(b"shop", b"sh\xffp")),
    ("payload", "map-without-schema", "process-schema", "", payload(schema=None)),
    ("payload", "key-twice", "process-keys", "", payload(keys=["a", "b", "a"])),
    ("payload", "key-without-a-name", "process-keys", "", payload(keys=["a", ""])),
    ("payload", "key-that-is-a-number", "process-keys", "", payload(keys=["a", 7])),
    ("update", "one-more-key", "ok", "times=1,2", payload(keys=["a"]), payload(keys=["a", "b"])),
    ("update", "other-attributes", "ok", "times=1,2", payload(), payload(attributes=(("service.name", "cart"), ))),
    ("update", "nothing-new", "ok", "times=1,1", payload(), payload()),
    ("update", "without-a-new-time", "process-update", "times=1,1", payload(keys=["a"]), payload(keys=["a", "b"])),
    ("update", "time-goes-back", "process-update", "times=2,1", payload(), payload()),
    ("update", "order-of-keys", "process-keys-grow", "times=1,2", payload(keys=["a", "b"]), payload(keys=["b", "a"])),
    ("update", "key-removed", "process-keys-grow", "times=1,2", payload(keys=["a", "b"]), payload(keys=["a"])),
    ("update", "map-removed", "process-keys-grow", "times=1,2", payload(keys=["a"]), payload(keys=None)),
    ("record", "ids-alone", "ok", "keys=0", record()),
    ("record", "two-attributes", "ok", "keys=2", record(entry(0, b"/cart") + entry(1, b"42"))),
    ("record", "one-key-twice", "ok", "keys=1", record(entry(0, b"/cart") + entry(0, b"/pay"))),
    ("record", "empty-value", "ok", "keys=1", record(entry(0, b""))),
    ("record", "attributes-alone", "ok", "keys=1", record(entry(0, b"/cart"), bytes(16), bytes(8))),
    ("record", "sampled", "ok", "keys=0", record(flags=1)),
    ("record", "cleared", "ok", "keys=0", record(valid=0)),
    ("record", "being-written", "ok", "keys=0", record(b"\0\x09ab", span=bytes(8), valid=0)),
    ("record", "most-attributes", "ok", "keys=3",
     record(entry(0, b"x" * 253) + entry(1, b"y" * 253) + entry(2, b"z" * 100))),
    ("record", "odd-address", "thread-record", "keys=0 address=1001", record()),
    ("record", "valid-is-255", "thread-valid", "keys=0", record(valid=255)),
    ("record", "trace-alone", "thread-ids", "keys=0", record(span=bytes(8))),
    ("record", "span-alone", "thread-ids", "keys=0", record(trace=bytes(16))),
    ("record", "flags-alone", "thread-ids", "keys=0", record(trace=bytes(16), span=bytes(8), flags=1)),
    ("record", "a-byte-too-long", "thread-size", "keys=3",
     record(entry(0, b"x" * 253) + entry(1, b"y" * 253) + entry(2, b"z" * 101))),
    ("record", "size-of-garbage", "thread-size", "keys=0", record(size=65535)),
    ("record", "entry-over-the-end", "thread-attributes", "keys=1", record(b"\0\x06/cart")),
    ("record", "half-an-entry", "thread-attributes", "keys=1", record(entry(0, b"/cart") + b"\0")),
    ("record", "value-is-no-utf-8", "thread-text", "keys=1", record(entry(0, b"/c\xffrt"))),
    ("record", "value-cut-in-a-character", "thread-text", "keys=1", record(entry(0, "/caf\u00e9".encode()[:-1]))),
    ("record", "index-without-a-name", "thread-keys", "keys=1", record(entry(1, b"42"))),
    ("labels", "opentelemetry", "ok", "", labels(b"trace_id", TRACE.hex().encode(), b"span_id", SPAN.hex().encode())),
    ("labels", "datadog", "ok", "", labels(b"local root span id", b"77", b"span id", b"78")),
    ("labels", "no-span", "ok", "", labels(b"tenant", b"blue")),
    ("labels", "trace-alone", "go-labels", "", labels(b"trace_id", TRACE.hex().encode())),
    ("labels", "span-in-decimal", "go-labels", "",
     labels(b"trace_id", TRACE.hex().encode(), b"span_id", b"13235353014750950193")),
]

if __name__ == "__main__":
    print("# SPDX-License-Identifier: Apache-2.0")
    print("# form\tname\trule\tgiven\tbytes")
    for form, name, rule, given, *data in VECTORS:
        print(form, name, rule, given or "-", " ".join(each.hex() for each in data), sep="\t")
