"""Paths of a YAML file that share a value through an anchor: by an alias, or by a merge key (`<<`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tui.domain.document.document_edit import REMOVED, Edit, Path
from tui.domain.document.source import is_merge
from tui.domain.document.tree import YamlNode, parse


@dataclass(frozen=True, slots=True)
class Slot:
    """The location of a key or an index: item `index` of `holder`; `index` is None if the key is missing."""

    holder: YamlNode
    index: int | None

    @property
    def value(self) -> YamlNode | None:
        """The value in the slot, with aliases resolved."""
        return None if self.index is None else self.holder.items[self.index].real


def sources(node: YamlNode) -> Iterator[YamlNode]:
    """Yield the maps that `<<` merges into a map by precedence, each before its own sources."""
    for key, value in zip(node.keys, node.items, strict=True):
        if is_merge(key):
            for source in value.real.items if value.real.kind == "list" else [value]:
                yield source.real
                yield from sources(source.real)


def own_index(node: YamlNode, part: str | int) -> int | None:
    """Return the index of the node's own item for a part of a path."""
    if node.kind == "map":
        return next((i for i, k in enumerate(node.keys) if k.real.text == part and not is_merge(k)), None)
    return part if node.kind == "list" and isinstance(part, int) and part < len(node.items) else None


def slot_of(node: YamlNode, part: str | int) -> Slot:
    """Return the slot for a part of a path: in the node itself, or in a map that it merges."""
    index = own_index(node, part)
    if index is None and isinstance(part, str):
        for source in sources(node):
            inherited = own_index(source, part)
            if inherited is not None:
                return Slot(source, inherited)
    return Slot(node, index)


def edited_slot(root: YamlNode, edit: Edit) -> Slot | None:
    """Return the slot that the edit of one value changes, or None if a parent is missing."""
    node: YamlNode | None = root.real
    for part in edit.path[:-1]:
        node = slot_of(node, part).value if node is not None else None
    if node is None or not edit.path:
        return None
    return Slot(node, None) if edit.insert else slot_of(node, edit.path[-1])


def goes_by_value(slot: Slot, edit: Edit) -> bool:
    """Return whether the edit changes the value in every alias, and not only its slot. A complete map or list
    that is an item of a list, such as a pool, is replaced and removed alone."""
    if slot.value is None or edit.insert:
        return False
    return slot.holder.kind == "map" or (edit.value is not REMOVED and slot.value.kind == "scalar")


def places(text: str, edit: Edit) -> list[Path]:
    """Return the paths whose values come from the text that the edit changes; the edit's own path is first.
    The edit changes one value, whose parents exist."""
    root = parse(text)
    slot = edited_slot(root, edit) if root is not None else None
    if root is None or slot is None:
        return [edit.path]
    last, value, by_value = edit.path[-1], slot.value, goes_by_value(slot, edit)
    shared = []
    for path, node in _values(root.real, ()):
        if by_value and node is value and (edit.value is not REMOVED or path[-1] == last):
            shared.append(path)
        elif node.kind in {"map", "list"} and not by_value and _has_slot(node, last, slot):
            shared.append((*path, last))
    return [edit.path, *(path for path in shared if path != edit.path)]


def _has_slot(node: YamlNode, part: str | int, slot: Slot) -> bool:
    """Return whether the part of the node is this slot; a missing key must be missing in merged maps too."""
    if slot.index is not None:
        return slot_of(node, part) == slot
    if node is slot.holder:
        return True
    return node.kind == "map" and slot_of(node, part).index is None and slot.holder in list(sources(node))


def _values(node: YamlNode, path: Path) -> Iterator[tuple[Path, YamlNode]]:
    """Yield every value with its path, through aliases and merges."""
    yield path, node
    if node.kind == "list":
        for i, item in enumerate(node.items):
            yield from _values(item.real, (*path, i))
    elif node.kind == "map":
        names = {k.real.text: None for part in (node, *sources(node)) for k in part.keys if not is_merge(k)}
        for name in names:
            value = slot_of(node, name).value
            if value is not None:
                yield from _values(value, (*path, name))
