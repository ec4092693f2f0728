"""Opaque page tokens: the key of the last item and a digest of the query; they do not expire."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence

from tui.emulator.rpc.methods import invalid

_VERSION = 1


def write_token(key: Sequence[str | int], digest: str) -> str:
    """The token of the page after the item with this key."""
    raw = json.dumps([_VERSION, digest, *key], separators=(",", ":"))
    return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def read_token(token: str, digest: str, shape: Sequence[type]) -> tuple[str | int, ...] | None:
    """Key of the last item before this page; `None` for the first page. `shape` is the key's types.

    Raises:
        WireError: INVALID_ARGUMENT for an invalid token, or one of another query.
    """
    if not token:
        return None
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        version, asked, *key = json.loads(raw)
        if [type(part) for part in key] != list(shape) or version != _VERSION:
            raise ValueError(token)
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise invalid(("page_token", "not a token of this list; start without one")) from error
    if asked != digest:
        raise invalid(
            ("page_token", "belongs to another query; keep all other fields the same from page to page")
        )
    return tuple(key)
