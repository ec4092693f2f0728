"""The service of persistent resources, as `tui.backends.interface.Services` has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tui.backends.serving import RegionResults
from tui.domain.resources.persistent import PersistentResource


class ResourceService(ABC):
    """Machines that stay. A change returns when the service has begun it; the state says how it goes on."""

    @abstractmethod
    async def list_all(self) -> RegionResults[PersistentResource]:
        """The persistent resources of every region, newest first."""

    @abstractmethod
    async def get(self, name: str) -> PersistentResource:
        """The one with this full resource name. Raises BackendError."""

    @abstractmethod
    async def create(self, region: str, id: str, resource: Mapping[str, Any]) -> PersistentResource:
        """Create one of its REST form. Never sent twice. Raises BackendError."""

    @abstractmethod
    async def delete(self, name: str) -> None:
        """Delete it, which cancels the jobs on it. Raises BackendError."""

    @abstractmethod
    async def reboot(self, name: str) -> PersistentResource:
        """Reboot its machines; refused while jobs are on it. Raises BackendError."""
