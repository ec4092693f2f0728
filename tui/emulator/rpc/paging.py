"""Page sizes, and the fields of a read mask."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor

from tui.emulator.rpc.methods import invalid

Pb = Any  # a plain protobuf message, whose classes are made at run time

DEFAULT_PAGE = 100
MAX_PAGE = 1000
"""Larger page sizes are reduced to this, as AIP-158 requires; the service's maximum is not documented."""


def page_size(asked: int) -> int:
    """Number of items for a page.

    Raises:
        WireError: INVALID_ARGUMENT for a negative number.
    """
    if asked < 0:
        raise invalid(("page_size", f"{asked} is negative; leave it out for {DEFAULT_PAGE}"))
    return min(asked, MAX_PAGE) or DEFAULT_PAGE


def query_digest(*parts: str) -> str:
    """Short digest of a query; a page token is valid for the same query only."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def mask_fields(paths: Sequence[str], descriptor: Descriptor) -> frozenset[str] | None:
    """Fields of the described message that a read mask names; `None` for all of them.

    Top-level fields, in snake_case or camelCase; whether the service takes nested paths is not known.

    Raises:
        WireError: INVALID_ARGUMENT naming each path that is not a field.
    """
    if not paths or list(paths) == ["*"]:
        return None
    names = {f.name: f.name for f in descriptor.fields} | {f.json_name: f.name for f in descriptor.fields}
    wrong = [path for path in paths if path not in names]
    if wrong:
        known = ", ".join(f.name for f in descriptor.fields)
        raise invalid(
            *(("read_mask", f"{path!r} is not a top-level field; it may be one of {known}") for path in wrong)
        )
    return frozenset(names[path] for path in paths)


def keep_only(pbs: Iterable[Pb], fields: frozenset[str] | None) -> None:
    """Clear all but the named fields, in place: a copy field by field takes three times as long."""
    if fields is not None:
        for pb in pbs:
            for field in pb.DESCRIPTOR.fields:
                if field.name not in fields:
                    pb.ClearField(field.name)
