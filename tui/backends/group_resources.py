"""Persistent resources of several contexts as one list: each is changed where it was listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.backends.errors import BackendError, NotOffered
from tui.backends.group_serving import Members
from tui.backends.resources import ResourceService
from tui.backends.serving import RegionResults
from tui.domain.resources.persistent import PersistentResource


class GroupResources(ResourceService):
    """Those of every member that has the service."""

    def __init__(self, group: Members) -> None:
        self._group = group

    async def list_all(self) -> RegionResults[PersistentResource]:
        members = [member for member in self._group.ready() if member.services.resources is not None]
        items: list[PersistentResource] = []
        errors: dict[str, BackendError] = {
            f"{page.context}/{page.region}": page.error for page in self._group.unreachable() if page.error
        }
        for member, found in await self._group.ask(lambda member: member.resources.list_all(), members):
            items += found.items
            errors |= {f"{member.info.name}/{region}": error for region, error in found.errors.items()}
            self._group.owners |= dict.fromkeys([each.name for each in found.items], member)
        return RegionResults(sorted(items, key=_age), errors)

    async def get(self, name: str) -> PersistentResource:
        return await self._of(name).get(name)

    async def delete(self, name: str) -> None:
        await self._of(name).delete(name)

    async def reboot(self, name: str) -> PersistentResource:
        return await self._of(name).reboot(name)

    async def create(self, region: str, id: str, resource: Mapping[str, Any]) -> PersistentResource:
        raise NotOffered(
            "A persistent resource is created in one context, and this one stands for several.",
            fix="Choose one with --context.",
        )

    def _of(self, name: str) -> ResourceService:
        """The service of the member that has this resource. Raises NotFound."""
        return self._group.owner(name).resources


def _age(each: PersistentResource) -> float:
    return -each.create_time.timestamp() if each.create_time else 0.0
