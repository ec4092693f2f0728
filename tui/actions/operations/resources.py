"""Operations on persistent resources: create, reboot and delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.actions.operations.runner import OperationRunner, Outcome
from tui.backends.interface import Backend
from tui.domain.core.text import plain
from tui.domain.resources.persistent import PersistentResource


class ResourceOperations:
    """Operations on persistent resources through one backend. The service completes each in the
    background."""

    def __init__(self, runner: OperationRunner, backend: Backend) -> None:
        self._runner = runner
        self._backend = backend

    async def create(self, region: str, id: str, resource: Mapping[str, Any]) -> Outcome[PersistentResource]:
        """Create a resource from its REST format; it costs money from its start to its deletion."""
        return await self._runner.run(
            "resource.create",
            id,
            lambda: self._backend.resources.create(region, id, resource),
            lambda changed: f"Creating the persistent resource {plain(changed.id)}",
            region=region,
            created=lambda changed: changed.name,
        )

    async def reboot(self, resource: PersistentResource) -> Outcome[PersistentResource]:
        """Reboot the resource's machines; the service refuses a reboot while jobs run there."""
        return await self._runner.run(
            "resource.reboot",
            resource.name,
            lambda: self._backend.resources.reboot(resource.name),
            lambda _: f"Rebooting {plain(resource.id)}",
            region=resource.region,
            context=resource.context,
        )

    async def delete(self, resource: PersistentResource) -> Outcome[None]:
        """Delete the resource; the service cancels the jobs on it."""
        return await self._runner.run(
            "resource.delete",
            resource.name,
            lambda: self._backend.resources.delete(resource.name),
            lambda _: f"Deleting {plain(resource.id)}",
            region=resource.region,
            context=resource.context,
        )
