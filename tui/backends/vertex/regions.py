"""Lists of a resource over the regions of a context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from tui.backends.interface import ContextInfo, InvalidRequest
from tui.backends.merge import answers_of
from tui.backends.serving import RegionResults
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.paging import first_page
from tui.domain.core.resource_name import name_pattern

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

    async def everywhere(self, read: Callable[[str], Awaitable[list[T]]]) -> RegionResults[T]:
        """What `read` has of each region, newest first, and why a region could not be read."""
        answers, errors = await answers_of(read, self._info.regions)
        return RegionResults(newest_first(each for _, found in answers for each in found), errors)

    async def pages(
        self, what: str, call: Callable[..., Awaitable[Any]], request: dict[str, Any], field: str
    ) -> list[Pb]:
        """The messages of all pages. Raises BackendError."""
        found: list[Pb] = []
        token = ""
        while True:

            async def send(seconds: float, token: str = token) -> Pb:
                asked = {**request, "page_size": PAGE, "page_token": token}
                return await first_page(await call(asked, retry=None, timeout=seconds))

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
