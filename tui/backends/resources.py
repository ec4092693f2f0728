"""The service of persistent resources in `tui.backends.interface.Services`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tui.backends.serving import RegionResults
from tui.domain.resources.persistent import PersistentResource


class ResourceService(ABC):
    """Persistent resources. A change returns once it has begun; the resource's state shows the progress."""

    @abstractmethod
    async def list_all(self) -> RegionResults[PersistentResource]:
        """Return the persistent resources of every region, newest first."""

    @abstractmethod
    async def get(self, name: str) -> PersistentResource:
        """Return the resource with this full name. Raises BackendError."""

    @abstractmethod
    async def create(self, region: str, id: str, resource: Mapping[str, Any]) -> PersistentResource:
        """Create a resource from its REST format. The request is never sent twice. Raises BackendError."""

    @abstractmethod
    async def delete(self, name: str) -> None:
        """Delete the resource, which cancels the jobs on it. Raises BackendError."""

    @abstractmethod
    async def reboot(self, name: str) -> PersistentResource:
        """Reboot the resource's machines, unless jobs run on them. Raises BackendError."""
