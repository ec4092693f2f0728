"""Pages of lists, their opaque tokens, and the fields of a read mask."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor

from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import invalid

T = TypeVar("T")
Mask = Mapping[str, Any]
"""Fields by name. `None` selects the entire field, otherwise the mask names parts of it."""
_STRUCT = "google.protobuf.Struct"
_VERSION = 1
SLICE_SECONDS = 0.005
"""Time that a list works between turns of other calls, in seconds."""
DEFAULT_PAGE = 100
MAX_PAGE = 1000
"""Limit to which larger page sizes are reduced (AIP-158); the service's limit is not documented."""


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items; other calls have their turn every `SLICE_SECONDS`."""
    since = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - since > SLICE_SECONDS:
            await asyncio.sleep(0)
            since = time.monotonic()


def page_size(requested: int, default: int = DEFAULT_PAGE, limit: int = MAX_PAGE) -> int:
    """Return the number of items for a page. Raises WireError: INVALID_ARGUMENT for a negative number."""
    if requested < 0:
        raise invalid(("page_size", f"must not be negative (is {requested}); omit the field for {default}"))
    return min(requested, limit) or default


def query_digest(*parts: str) -> str:
    """Return a short digest of a query. A page token is valid only for the same query."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def write_token(key: Sequence[str | int], digest: str) -> str:
    """Return the token of the page after the item with this key. The token does not expire."""
    raw = json.dumps([_VERSION, digest, *key], separators=(",", ":"))
    return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def read_token(token: str, digest: str, shape: Sequence[type]) -> tuple[str | int, ...] | None:
    """Return the key of the last item before this page, or `None` for the first page. `shape` is the key's
    types.

    Raises WireError: INVALID_ARGUMENT for an invalid token, or a token of another query.
    """
    if not token:
        return None
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        version, token_digest, *key = json.loads(raw)
        if [type(part) for part in key] != list(shape) or version != _VERSION:
            raise ValueError(token)
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise invalid(("page_token", "must be a token of this list; start without a token")) from error
    if token_digest != digest:
        raise invalid(("page_token", "belongs to another query; don't change other fields between pages"))
    return tuple(key)


def page_at(items: Sequence[T], token: str, size: int, digest: str) -> tuple[Sequence[T], str]:
    """Return one page of `items` and the next page's token, or "" after the last page. Tokens are positions.

    Raises WireError: INVALID_ARGUMENT, as `read_token`.
    """
    key = read_token(token, digest, (int,))
    start = int(key[0]) if key else 0
    end = start + size
    return items[start:end], write_token((end,), digest) if len(items) > end else ""


def page_of_names(names: Iterable[str], token: str, size: int, digest: str) -> tuple[Sequence[str], str]:
    """Return one page of sorted names and the next page's token. Tokens are the last name.

    Raises WireError: INVALID_ARGUMENT, as `read_token`.
    """
    key = read_token(token, digest, (str,))
    left = [name for name in names if key is None or name > str(key[0])]
    return left[:size], write_token((left[size - 1],), digest) if len(left) > size else ""


def mask_fields(paths: Sequence[str], descriptor: Descriptor) -> Mask | None:
    """Return the fields of the described message that a read mask names, or `None` for all fields.

    Names are in snake_case or camelCase. As in the SDK, a path may lead into a message or a structure. Raises
    WireError: INVALID_ARGUMENT naming each unknown path.
    """
    if not paths or list(paths) == ["*"]:
        return None
    fields: dict[str, Any] = {}
    wrong = [path for path in paths if not _add(fields, path.split("."), descriptor)]
    if wrong:
        known = ", ".join(f.name for f in descriptor.fields)
        raise invalid(*(("read_mask", f"unknown field {path!r}; use one of {known}") for path in wrong))
    return fields


def keep_only(pbs: Iterable[Pb], fields: Mask | None) -> None:
    """Clear all other fields in place, because copying field by field takes three times as long."""
    if fields is not None:
        for pb in pbs:
            for field in pb.DESCRIPTOR.fields:
                if field.name not in fields:
                    pb.ClearField(field.name)
                elif fields[field.name] is not None and pb.HasField(field.name):
                    _keep_parts(getattr(pb, field.name), fields[field.name])


def _add(mask: dict[str, Any], path: Sequence[str], descriptor: Descriptor) -> bool:
    """Add a path to the tree of a mask. Return whether the field exists."""
    names = {f.name: f for f in descriptor.fields} | {f.json_name: f for f in descriptor.fields}
    field = names.get(path[0])
    if field is None:
        return False
    if len(path) == 1:
        mask[field.name] = None
        return True
    if field.is_repeated or field.message_type is None:
        return False
    below = mask.setdefault(field.name, {})
    if below is None:
        # The mask already contains the entire field.
        return True
    if field.message_type.full_name == _STRUCT:
        below[path[1]] = None
        return True
    return _add(below, path[1:], field.message_type)


def _keep_parts(pb: Pb, parts: Mask) -> None:
    if pb.DESCRIPTOR.full_name != _STRUCT:
        keep_only([pb], parts)
        return
    # A mask uses snake_case, and the JSON keys of a pipeline use camelCase.
    kept = {key.replace("_", "").lower() for key in parts}
    for key in [key for key in pb.fields if key.replace("_", "").lower() not in kept]:
        del pb.fields[key]
