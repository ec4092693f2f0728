"""Lists that are read region by region."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar


class Located(Protocol):
    """What belongs to a region of a context."""

    @property
    def region(self) -> str: ...

    @property
    def context(self) -> str: ...


T = TypeVar("T", bound=Located)


def with_kept(items: Iterable[T], errors: Mapping[str, object], before: Iterable[T]) -> list[T]:
    """What was found; of regions that can't be read now, what was read there before."""
    # Errors name a region by itself, in a group after its context.
    lost = errors.keys()
    return [*items, *(each for each in before if {each.region, f"{each.context}/{each.region}"} & lost)]
