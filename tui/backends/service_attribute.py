"""Descriptor for the attributes of a backend that are its services."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from tui.backends.errors import NotOffered

S = TypeVar("S")


class ServiceAttribute(Generic[S]):
    """An attribute of `Backend` that returns one of its services. Raises NotOffered if it is absent."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, backend: Any, owner: type) -> S:
        service: S | None = getattr(backend.services, self._name)
        if service is None:
            raise NotOffered(f"The context {backend.info.name} has no {self._name}.")
        return service
