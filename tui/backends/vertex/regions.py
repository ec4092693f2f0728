"""Lists of a resource over the regions of a context."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from tui.backends.interface import BackendError, ContextInfo, InvalidRequest
from tui.backends.serving import Found
from tui.backends.vertex.transport.channels import Clients
from tui.domain.resource_name import name_pattern

T = TypeVar("T")
Pb = Any
PAGE = 100
_NEVER = datetime.min.replace(tzinfo=UTC)


class RegionLists:
    """Reads every page of every region."""

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        self._info = info
        self._clients = clients

    def parent(self, region: str) -> str:
        """The name of a location."""
        return f"projects/{self._info.project}/locations/{region}"

    async def everywhere(self, read: Callable[[str], Awaitable[list[T]]]) -> Found[T]:
        """What `read` has of each region, newest first, and why a region could not be read."""
        regions = self._info.regions
        answers = await asyncio.gather(*(read(region) for region in regions), return_exceptions=True)
        found: list[T] = []
        errors: dict[str, BackendError] = {}
        for region, answer in zip(regions, answers, strict=True):
            if isinstance(answer, BackendError):
                errors[region] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found += answer
        return Found(newest_first(found), errors)

    async def pages(
        self, what: str, call: Callable[..., Awaitable[Any]], request: dict[str, Any], field: str
    ) -> list[Pb]:
        """The messages of all pages. Raises BackendError."""
        found: list[Pb] = []
        token = ""
        while True:

            async def send(seconds: float, token: str = token) -> Pb:
                pager = await call(
                    {**request, "page_size": PAGE, "page_token": token}, retry=None, timeout=seconds
                )
                async for page in pager.pages:
                    return type(page).pb(page)
                return None

            page = await self._clients.caller.read(what, send)
            found += getattr(page, field)
            token = page.next_page_token
            if not token:
                return found


def newest_first(found: Any) -> list[Any]:
    """By the time of creation; what has none comes last."""
    return sorted(found, key=lambda each: each.create_time or _NEVER, reverse=True)


def region_in(name: str, collection: str) -> str:
    """The region of a full resource name. Raises InvalidRequest."""
    match = name_pattern(collection).fullmatch(name)
    if match is None:
        raise InvalidRequest(
            f"{name!r} is no full resource name.",
            fix=f"Write projects/PROJECT/locations/REGION/{collection}/ID.",
        )
    return match[2]
