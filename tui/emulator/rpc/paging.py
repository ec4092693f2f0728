"""Pages of a list by key, and the part of each job that was asked for."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence

from tui.emulator.database import Pb
from tui.emulator.interfaces import CustomJobPb
from tui.emulator.rpc.methods import invalid
from tui.emulator.vertex.job_match import Match
from tui.emulator.vertex.job_table import Job, Key

DEFAULT_PAGE = 100
MAX_PAGE = 1000
"""Larger page sizes are cut to this, as AIP-158 asks; the service's own maximum is not documented."""


def page_size(asked: int) -> int:
    """Number of items for a page.

    Raises:
        WireError: INVALID_ARGUMENT for a negative number.
    """
    if asked < 0:
        raise invalid(("page_size", f"{asked} is negative; leave it out for {DEFAULT_PAGE}"))
    return min(asked, MAX_PAGE) or DEFAULT_PAGE


def query_digest(*parts: str) -> str:
    """Short mark of what a list was asked for; a page token is good for the same question only."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def write_token(last: Key, digest: str) -> str:
    """Opaque token of the page that follows `last`."""
    raw = json.dumps([1, *last, digest], separators=(",", ":"))
    return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def read_token(token: str, digest: str) -> Key | None:
    """Key after which the page starts; `None` for the first page.

    Raises:
        WireError: INVALID_ARGUMENT for a token that was not given out, or for another question.
    """
    if not token:
        return None
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        version, created, number, asked = json.loads(raw)
        key = (int(created), int(number))
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise invalid(("page_token", "not a token of this list; start again without one")) from error
    if version != 1 or asked != digest:
        raise invalid(
            ("page_token", "given out for another parent or filter; keep both the same from page to page")
        )
    return key


def take(jobs: Iterator[Job], wanted: Match, size: int) -> tuple[list[Job], bool]:
    """Up to `size` jobs that match, and whether there is another."""
    page: list[Job] = []
    for job in jobs:
        if wanted(job.pb):
            if len(page) == size:
                return page, True
            page.append(job)
    return page, False


def mask_fields(paths: Sequence[str]) -> frozenset[str] | None:
    """Fields of CustomJob that a read mask names; `None` for all of them.

    Top-level fields, in snake_case or camelCase; whether the service takes nested paths is not known.

    Raises:
        WireError: INVALID_ARGUMENT naming each path that is not a field.
    """
    if not paths or list(paths) == ["*"]:
        return None
    names = {f.name: f.name for f in CustomJobPb.DESCRIPTOR.fields}
    names |= {f.json_name: f.name for f in CustomJobPb.DESCRIPTOR.fields}
    wrong = [path for path in paths if path not in names]
    if wrong:
        known = ", ".join(f.name for f in CustomJobPb.DESCRIPTOR.fields)
        raise invalid(
            *(("read_mask", f"{path!r} is not a top-level field; it may be one of {known}") for path in wrong)
        )
    return frozenset(names[path] for path in paths)


def keep_only(pbs: Iterable[Pb], fields: frozenset[str] | None) -> None:
    """Empty all but the named fields, in place: a copy made field by field takes three times as long."""
    if fields is not None:
        away = [field.name for field in CustomJobPb.DESCRIPTOR.fields if field.name not in fields]
        for pb in pbs:
            for name in away:
                pb.ClearField(name)
