"""Lists resources in every region of a context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from tui.backends.interface import ContextInfo, InvalidRequest
from tui.backends.merge import answers_of
from tui.backends.serving import RegionResults
from tui.backends.vertex.transport.channels import Clients, Method
from tui.domain.core.resource_name import name_pattern, note_project

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
        """Return the resource name of a region's location."""
        return f"projects/{self._info.project}/locations/{region}"

    async def everywhere(self, read: Callable[[str], Awaitable[list[T]]]) -> RegionResults[T]:
        """Return the items that `read` returns for each region, newest first, and the errors of regions."""
        answers, errors = await answers_of(read, self._info.regions)
        return RegionResults(newest_first(item for _, items in answers for item in items), errors)

    async def all(
        self, action: str, method: Callable[[], Method], request: Mapping[str, Any], field: str
    ) -> list[Pb]:
        """Return the items of all pages. Raises BackendError."""
        request = {**request, "page_size": PAGE}
        items = [item async for item in self._clients.pages(action, method, request, field)]
        for first in items[:1]:
            note_project(request.get("parent", ""), first.name)
        return items


def newest_first(items: Any) -> list[Any]:
    """Sort by creation time, newest first. An item without a creation time comes last."""
    return sorted(items, key=lambda item: item.create_time or _NEVER, reverse=True)


def region_in(name: str, collection: str) -> str:
    """Return the region of a full resource name. Raises InvalidRequest."""
    match = name_pattern(collection).fullmatch(name)
    if match is None:
        raise InvalidRequest(
            f"{name!r} must be a full resource name.",
            fix=f"Write projects/PROJECT/locations/REGION/{collection}/ID.",
        )
    return match[2]
