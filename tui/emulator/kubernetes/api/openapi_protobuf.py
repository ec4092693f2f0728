"""OpenAPI v2 as protobuf for kubectl: gnostic's `openapi.v2.Document`.

The document contains the parts that kubectl reads, the definitions. The field numbers come from gnostic's
OpenAPIv2.proto.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Obj = Mapping[str, Any]
MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ACCEPTED = (MEDIA_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
"""Accepted media types. kubectl requests the type with `@`, which is invalid, but refuses this type in a
reply."""


def encode(document: Obj) -> bytes:
    """Return the document's bytes."""
    info = document["info"]
    definitions = b"".join(
        _named(1, name, _schema(schema)) for name, schema in document["definitions"].items()
    )
    return b"".join(
        (
            _text(1, document["swagger"]),
            _field(2, _text(1, info["title"]) + _text(2, info["version"])),
            _field(9, definitions),
        )
    )


def _schema(schema: Obj) -> bytes:
    out = _text(1, schema.get("$ref", "")) + _text(2, schema.get("format", ""))
    out += _text(4, schema.get("description", ""))
    out += b"".join(_text(19, name) for name in schema.get("required", ()))
    if "additionalProperties" in schema:
        more = schema["additionalProperties"]
        out += _field(21, _whole(2, more) if isinstance(more, bool) else _field(1, _schema(more)))
    if "type" in schema:
        out += _field(22, _text(1, schema["type"]))
    if "items" in schema:
        out += _field(23, _field(1, _schema(schema["items"])))
    out += b"".join(_field(24, _schema(part)) for part in schema.get("allOf", ()))
    if "properties" in schema:
        out += _field(25, b"".join(_named(1, name, _schema(s)) for name, s in schema["properties"].items()))
    return out + _extensions(31, schema)


def _extensions(number: int, schema: Obj) -> bytes:
    """Encode the fields `x-…`, whose values are YAML; JSON is valid YAML."""
    return b"".join(
        _named(number, name, _text(2, json.dumps(value)))
        for name, value in schema.items()
        if name.startswith("x-")
    )


def _named(number: int, name: str, value: bytes) -> bytes:
    return _field(number, _text(1, name) + _field(2, value))


def _text(number: int, value: str) -> bytes:
    return _field(number, value.encode()) if value else b""


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _whole(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
