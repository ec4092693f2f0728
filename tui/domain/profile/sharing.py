"""Which places of a YAML file share a value through an anchor: by an alias, or by a merge key (`<<`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tui.domain.profile.source import is_merge
from tui.domain.profile.tree import Node


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a key or an index stands: in `holder`, at the item `index`; None where it is missing."""

    holder: Node
    index: int | None


def sources(node: Node) -> Iterator[Node]:
    """The maps that `<<` merges into a map, those with precedence first, each before its own sources."""
    for key, value in zip(node.keys, node.items, strict=True):
        if is_merge(key):
            for source in value.real.items if value.real.kind == "list" else [value]:
                yield source.real
                yield from sources(source.real)


def own_index(node: Node, part: str | int) -> int | None:
    """The index of the item that a part of a path names in the node itself."""
    if node.kind == "map":
        return next((i for i, k in enumerate(node.keys) if k.real.text == part and not is_merge(k)), None)
    return part if node.kind == "list" and isinstance(part, int) and part < len(node.items) else None


def slot_of(node: Node, part: str | int) -> Slot:
    """The slot of a part of a path: the node's own, or that of a map it merges."""
    index = own_index(node, part)
    if index is None and isinstance(part, str):
        for source in sources(node):
            found = own_index(source, part)
            if found is not None:
                return Slot(source, found)
    return Slot(node, index)
