"""One page of a list that a client's pager would go on with by itself."""

from __future__ import annotations

from typing import Any


async def first_page(pager: Any) -> Any:
    """The reply as plain protobuf. Each further page is a call of its own, with its own retries."""
    async for page in pager.pages:
        return type(page).pb(page)
    raise AssertionError("a list has at least one page")
