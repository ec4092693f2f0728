"""Bodies in protobuf, as kubectl sends them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.emulator.kubernetes.api import protobuf
from tui.emulator.kubernetes.errors import ApiError, BadRequest, UnsupportedMediaType


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def text(number: int, value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def body(kind: str, raw: bytes, version: str = "v1") -> bytes:
    return b"k8s\0" + text(1, text(1, version) + text(2, kind)) + text(2, raw) + text(3, "") + text(4, "")


@given(st.text(max_size=5), st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=5), max_size=3))
def test_a_config_map_is_read(name: str, data: dict[str, str]) -> None:
    entries = b"".join(text(2, text(1, key) + text(2, value)) for key, value in data.items())
    found = protobuf.read(body("ConfigMap", text(1, text(1, name)) + entries))
    assert found["metadata"] == ({"name": name} if name else {})
    # A field that is not set has no bytes.
    assert found.get("data", {}) == data


def test_numbers_lists_and_secret_bytes() -> None:
    options = whole(1, -1) + whole(3, 1) + text(4, "Foreground") + text(5, "All") + text(99, "unknown")
    assert protobuf.read(body("DeleteOptions", options)) == {
        "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": -1, "orphanDependents": True,
        "propagationPolicy": "Foreground", "dryRun": ["All"],
    }  # fmt: skip
    secret = protobuf.read(body("Secret", text(2, text(1, "a") + text(2, b"\xff\0"))))
    assert secret["data"] == {"a": "/wA="}


def test_other_types_and_broken_bodies_are_refused() -> None:
    with pytest.raises(UnsupportedMediaType, match="Deployment is accepted as JSON or YAML only"):
        protobuf.read(body("Deployment", b""))
    for broken in (b"", b"{}", b"k8s\0\x0a", body("ConfigMap", b"\x0a\x7f"), body("Namespace", whole(1, 3))):
        with pytest.raises(BadRequest):
            protobuf.read(broken)


@given(st.binary(max_size=30))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for kind in ("ConfigMap", "SelfSubjectAccessReview", "Job"):
        try:
            assert protobuf.read(body(kind, raw))["kind"] == kind
        except ApiError as error:
            assert error.code == 400
