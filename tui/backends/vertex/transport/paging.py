"""Replies of Google's clients as plain protobuf."""

from __future__ import annotations

from typing import Any


async def plain(reply: Any) -> Any:
    """A reply as plain protobuf: the first page of a list, the message in a wrapper, else the reply."""
    if hasattr(reply, "pages"):
        return await first_page(reply)
    return type(reply).pb(reply) if hasattr(type(reply), "pb") else reply


async def first_page(pager: Any) -> Any:
    """The first page of a list: each further page is a call of its own, with its own retries."""
    async for page in pager.pages:
        return type(page).pb(page)
    raise AssertionError("a list has at least one page")
