"""Bodies in Kubernetes' protobuf encoding, which kubectl sends for a few built-in types.

A body is a magic number and a message `Unknown` with the type and the object's bytes. The tables list the
field numbers; other fields are dropped, so the tables contain everything that kubectl sends.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from tui.emulator.kubernetes.errors import BadRequest, UnsupportedMediaType
from tui.emulator.kubernetes.resources import Obj

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"

Message = Mapping[int, tuple[str, Any]]
"""Name and type by field number. The type is str, int, bool, bytes, a message, `[TYPE]` for a list or
`{TYPE}` for a map."""

_RAW = object()
"""Marks bytes that stay bytes. Other bytes become base64, as in JSON."""
_OWNER: Message = {
    1: ("kind", str), 3: ("name", str), 4: ("uid", str), 5: ("apiVersion", str), 6: ("controller", bool),
    7: ("blockOwnerDeletion", bool),
}  # fmt: skip
_META: Message = {
    1: ("name", str), 2: ("generateName", str), 3: ("namespace", str), 5: ("uid", str),
    6: ("resourceVersion", str), 11: ("labels", {"map": str}), 12: ("annotations", {"map": str}),
    13: ("ownerReferences", [_OWNER]), 14: ("finalizers", [str]),
}  # fmt: skip
_ATTRIBUTES: Message = {
    1: ("namespace", str), 2: ("verb", str), 3: ("group", str), 4: ("version", str), 5: ("resource", str),
    6: ("subresource", str), 7: ("name", str),
}  # fmt: skip
_PATH: Message = {1: ("path", str), 2: ("verb", str)}
_OPTIONS: Message = {
    1: ("gracePeriodSeconds", int),
    2: ("preconditions", {1: ("uid", str), 2: ("resourceVersion", str)}),
    3: ("orphanDependents", bool), 4: ("propagationPolicy", str), 5: ("dryRun", [str]),
}  # fmt: skip
_ACCESS: Message = {
    1: ("metadata", _META),
    2: ("spec", {1: ("resourceAttributes", _ATTRIBUTES), 2: ("nonResourceAttributes", _PATH)}),
}  # fmt: skip
_SUBJECT: Message = {
    1: ("metadata", _META),
    2: ("spec", {
        1: ("resourceAttributes", _ATTRIBUTES), 2: ("nonResourceAttributes", _PATH), 3: ("user", str),
        4: ("groups", [str]), 6: ("uid", str),
    }),
}  # fmt: skip
_CONTAINER: Message = {
    1: ("name", str), 2: ("image", str), 3: ("command", [str]), 4: ("args", [str]), 5: ("workingDir", str)
}  # fmt: skip
_POD: Message = {
    2: ("containers", [_CONTAINER]), 3: ("restartPolicy", str), 8: ("serviceAccountName", str)
}  # fmt: skip
_JOB: Message = {
    1: ("parallelism", int), 2: ("completions", int), 3: ("activeDeadlineSeconds", int),
    6: ("template", {1: ("metadata", _META), 2: ("spec", _POD)}), 7: ("backoffLimit", int),
}  # fmt: skip
_MESSAGES: Mapping[str, Message] = {
    "Job": {1: ("metadata", _META), 2: ("spec", _JOB)},
    "SelfSubjectAccessReview": _ACCESS,
    "SubjectAccessReview": _SUBJECT,
    "SelfSubjectRulesReview": {1: ("metadata", _META), 2: ("spec", {1: ("namespace", str)})},
    "SelfSubjectReview": {1: ("metadata", _META)},
    "DeleteOptions": _OPTIONS,
    "Eviction": {1: ("metadata", _META), 2: ("deleteOptions", _OPTIONS)},
    "Namespace": {1: ("metadata", _META), 2: ("spec", {1: ("finalizers", [str])})},
    "ConfigMap": {
        1: ("metadata", _META), 2: ("data", {"map": str}), 3: ("binaryData", {"map": bytes}),
        4: ("immutable", bool),
    },
    "Secret": {
        1: ("metadata", _META), 2: ("data", {"map": bytes}), 3: ("type", str),
        4: ("stringData", {"map": str}), 5: ("immutable", bool),
    },
    "ServiceAccount": {1: ("metadata", _META), 4: ("automountServiceAccountToken", bool)},
}  # fmt: skip


def read(body: bytes) -> Obj:
    """Return the object in a body. Raises BadRequest or, for an unknown type, UnsupportedMediaType."""
    try:
        if not body.startswith(_MAGIC):
            raise ValueError("the magic number is missing")
        unknown = _decode(
            body[len(_MAGIC) :],
            {1: ("type", {1: ("apiVersion", str), 2: ("kind", str)}), 2: ("raw", _RAW)},
        )
        kind = str(unknown.get("type", {}).get("kind", ""))
        message = _MESSAGES.get(kind)
        if message is None:
            raise UnsupportedMediaType(f"{kind} is accepted as JSON or YAML only, not as protobuf")
        return {**unknown["type"], **_decode(unknown.get("raw", b""), message)}
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise BadRequest(f"the request body is not valid protobuf: {error}") from error


def _decode(data: bytes, message: Message) -> Obj:
    fields: Obj = {}
    for number, value in _fields(data):
        name, kind = message.get(number, ("", None))
        if not name:
            continue
        if isinstance(kind, list):
            fields.setdefault(name, []).append(_value(value, kind[0]))
        elif isinstance(kind, dict) and "map" in kind:
            entry = _decode(_bytes(value), {1: ("key", str), 2: ("value", kind["map"])})
            fields.setdefault(name, {})[entry.get("key", "")] = entry.get("value", "")
        elif value != b"" or not isinstance(kind, type):
            # An unset string is encoded as an empty string.
            fields[name] = _value(value, kind)
    return fields


def _value(value: int | bytes, kind: Any) -> Any:
    if kind is _RAW:
        return _bytes(value)
    if kind is str:
        return _bytes(value).decode()
    if kind is bytes:
        return base64.b64encode(_bytes(value)).decode()
    if kind is bool:
        return bool(value)
    return value if kind is int else _decode(_bytes(value), kind)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("expected a string instead of a number")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, place = _varint(data, place)
            yield number, value
        elif wire in {1, 5}:
            place += 8 if wire == 1 else 4
        elif wire == 2:
            length, place = _varint(data, place)
            if place + length > len(data):
                raise ValueError("a field is longer than the body")
            yield number, data[place : place + length]
            place += length
        else:
            raise ValueError(f"wire type {wire}")


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            # Numbers are signed 64-bit integers.
            return value - (1 << 64) if value >= 1 << 63 else value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
