#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipe of corpus/response/: first byte = reader (0x80 = error) and content type, then a reply's body."""
import pathlib

HERE = pathlib.Path(__file__).parents[1] / "corpus/response"
SUCCESS, ERROR = 0, 0x80
PROTOBUF, JSON, PLAIN, HTML, NONE = range(5)

FILES = {
    "empty-success": (SUCCESS | PROTOBUF, b""),
    "partial": (SUCCESS | PROTOBUF, b"\x0a\x0d\x08\xac\x02\x12\x08too deep"),
    "partial-minus-one": (SUCCESS | PROTOBUF, b"\x0a\x0b\x08" + b"\xff" * 9 + b"\x01"),
    "partial-cut": (SUCCESS | PROTOBUF, b"\x0a\x0d\x08\xac\x02\x12\x08too"),
    "unknown-fields": (SUCCESS | PROTOBUF, b"\x151234\x0a\x06\x18\x05\x12\x02ok\x1912345678"),
    "length-wraps": (SUCCESS | PROTOBUF, b"\x0a" + b"\xff" * 9 + b"\x01"),
    "group": (SUCCESS | PROTOBUF, b"\x0b\x0c"),
    "request": (SUCCESS | PROTOBUF, b"\x0a\x0c\x12\x06\x12\x00\x12\x02\x30\x05\x12\x02\x12\x00\x12\x02\x2a\x00"),
    "json-partial": (SUCCESS | JSON, b'{"partialSuccess":{"rejectedProfiles":"300","errorMessage":"a\\"b"}}'),
    "json-huge": (SUCCESS | JSON, b'{"rejectedProfiles":"99999999999999999999"}'),
    "status": (ERROR | PROTOBUF, b"\x08\x03\x12\x09bad input"),
    "status-bad-utf8": (ERROR | PROTOBUF, b"\x12\x03\xff\xfe\x00"),
    "json-status": (ERROR | JSON, b'{"code":3,"message":"bad\\ninput \\u00e4"}'),
    "json-open-string": (ERROR | JSON, b'{"message":"never ends\\'),
    "plain": (ERROR | PLAIN, b"404 page not found\n\x1b[2J"),
    "html": (ERROR | HTML, b"<html>502</html>"),
    "no-type-json": (ERROR | NONE, b'{"message":"x"}'),
}

for name, (kind, body) in FILES.items():
    (HERE / name).write_bytes(bytes([kind]) + body)
