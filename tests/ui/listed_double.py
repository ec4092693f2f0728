"""What a service lists, in memory: read whole or by name, and changed by replacing its fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from tests.ui.double import MemoryBackend
from tui.backends.errors import BackendError, NotFound
from tui.backends.serving import RegionResults

T = TypeVar("T", bound=Any)


class MemoryList(Generic[T]):
    """What a `MemoryBackend` has, and what was done to it."""

    def __init__(self, backend: MemoryBackend, found: Sequence[T]) -> None:
        self._backend = backend
        self.found: dict[str, T] = {each.name: each for each in found}
        self.errors: dict[str, BackendError] = {}
        self.done: list[tuple[str, ...]] = []

    async def list_all(self) -> RegionResults[T]:
        self._backend.meet_error()
        return RegionResults(list(self.found.values()), self.errors)

    async def get(self, name: str) -> T:
        if name not in self.found:
            raise NotFound(f"{name} is gone")
        return self.found[name]

    def change(self, name: str, *done: str, **fields: Any) -> T:
        """Do something to one of them, unless the backend has an error."""
        self._backend.meet_error()
        self.done.append(done)
        self.found[name] = replace(self.found[name], **fields)
        return self.found[name]
