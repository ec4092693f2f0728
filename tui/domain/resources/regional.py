"""Merges lists that are read region by region."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar


class Located(Protocol):
    """A resource that belongs to a region of a context. `name` is its full resource name."""

    @property
    def name(self) -> str: ...

    @property
    def region(self) -> str: ...

    @property
    def context(self) -> str: ...


T = TypeVar("T", bound=Located)


def with_kept(items: Iterable[T], errors: Mapping[str, object], before: Iterable[T]) -> list[T]:
    """Return the items, and for unreadable regions the earlier items of the region."""
    # Errors are keyed by region; in a group of contexts by context and region.
    lost = errors.keys()
    return [*items, *(item for item in before if {item.region, f"{item.context}/{item.region}"} & lost)]


def with_changed(items: Iterable[T], changed: T | None) -> list[T]:
    """Return the items, with the new state of the item that an operation changed."""
    return [changed if changed is not None and changed.name == item.name else item for item in items]
