"""The order of a table's rows: a list sorted and filtered incrementally, and groups that close."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from tui.domain.fields.field import SortKey

T = TypeVar("T")


class Listing(Generic[T]):
    """Sorted keys of the matching items. The cost of an update depends on the changes.

    `items` is the owner's mapping, read and never copied. The list is empty until `configure` sets its
    filter. Every method that may change the order returns whether it did.
    """

    def __init__(self, items: Mapping[str, T]) -> None:
        self.items = items
        self.order: list[str] = []
        self._matches: Callable[[T], bool] | None = None
        self._key: Callable[[T], SortKey] = lambda _: ()
        self._reverse = False
        self._keys: dict[str, SortKey] = {}

    def configure(
        self, matches: Callable[[T], bool] | None, key: Callable[[T], SortKey], *, reverse: bool
    ) -> bool:
        """Set filter and sort key. Without `matches`, all items are listed."""
        self._matches, self._key, self._reverse = matches, key, reverse
        items = self.items
        if matches is not None:
            items = {name: item for name, item in items.items() if matches(item)}
        self._keys = dict(zip(items, map(key, items.values()), strict=True))
        return self._sort(list(self._keys))

    def update(self, names: Collection[str]) -> bool:
        """Record that these items were added, changed or removed."""
        if not self.order and len(names) >= len(self.items):
            return self.configure(self._matches, self._key, reverse=self._reverse)
        moved = False
        new: list[str] = []
        keys, matches, key, items = self._keys, self._matches, self._key, self.items
        for name in names:
            item = items.get(name)
            sort_key = key(item) if item is not None and (matches is None or matches(item)) else None
            before = keys.get(name)
            if sort_key == before:
                continue
            moved = True
            if sort_key is None:
                del keys[name]
                continue
            keys[name] = sort_key
            if before is None:
                new.append(name)
        if not moved:
            return False
        # The list is almost sorted: Timsort merges the runs.
        return self._sort([name for name in self.order if name in keys] + new)

    def _sort(self, names: list[str]) -> bool:
        keys = self._keys
        names.sort(key=keys.__getitem__)
        if self._reverse:
            known = [name for name in names if not keys[name][0]]
            names = known[::-1] + names[len(known) :]
        moved = names != self.order
        self.order = names
        return moved


class Rows:
    """Keys of a table's rows in order, without the rows of closed groups."""

    def __init__(self) -> None:
        self.order: Sequence[str] = ()
        self.index: dict[str, int] = {}
        self.parents: Mapping[str, str] = {}
        self.closed: set[str] = set()
        self.everything: Sequence[str] = ()
        """All rows, including rows of closed groups."""
        self._heads: frozenset[str] = frozenset()

    def set_order(self, order: Sequence[str], parents: Mapping[str, str] | None = None) -> None:
        """Set the order. A row with a parent is shown while the parent, which precedes it, is open."""
        self.everything, self.parents = order, parents or {}
        self._heads = frozenset(self.parents.values())
        self._flatten()

    def group(self, key: str) -> str | None:
        """Return the group that a row heads or belongs to."""
        return key if key in self._heads else self.parents.get(key)

    def close(self, group: str, closed: bool) -> bool:
        """Close or open a group. Return whether that changed anything."""
        if (group in self.closed) == closed:
            return False
        (self.closed.add if closed else self.closed.discard)(group)
        self._flatten()
        return True

    def _flatten(self) -> None:
        parents, closed = self.parents, self.closed
        if parents and closed:
            hidden: set[str] = set()
            shown = []
            for key in self.everything:
                parent = parents.get(key)
                # A parent precedes its rows; a hidden parent hides them.
                if parent is not None and (parent in closed or parent in hidden):
                    hidden.add(key)
                else:
                    shown.append(key)
            self.order = shown
        else:
            self.order = self.everything
        self.index = {key: at for at, key in enumerate(self.order)}


def grouped(
    order: Iterable[str], group_of: Callable[[str], str]
) -> tuple[list[str], dict[str, str], dict[str, list[str]]]:
    """Group rows by name under heads. Return heads and rows, each row's parent, and each group's rows."""
    members: dict[str, list[str]] = {}
    for key in order:
        members.setdefault(group_of(key), []).append(key)
    flat: list[str] = []
    parents: dict[str, str] = {}
    for group in sorted(members):
        flat.append(group)
        flat.extend(members[group])
        parents.update(dict.fromkeys(members[group], group))
    return flat, parents, members


def below_parents(
    order: list[str], parents: Mapping[str, str], there: Container[str] = ()
) -> tuple[list[str], dict[str, int], frozenset[str]]:
    """Order the rows so that each is below its parent, before the parent's next sibling.

    A parent that is not among the rows but in `there` is inserted above its first row. Return the rows, the
    depth of each row with a parent, and the inserted parents.
    """
    if not parents:
        return order, {}, frozenset()
    added: dict[str, None] = {}
    listed = set(order)
    parts: dict[str, list[str]] = {}
    top: list[str] = []
    for first in order:
        name = first
        while True:
            parent = parents.get(name)
            if parent is None or parent == name or not (parent in listed or parent in there):
                top.append(name)
                break
            parts.setdefault(parent, []).append(name)
            if parent in listed:
                break
            listed.add(parent)
            added[parent] = None
            name = parent
    depths: dict[str, int] = {}
    names: list[str] = []
    left = [(name, 0) for name in reversed(top)]
    while left:
        name, depth = left.pop()
        names.append(name)
        if depth:
            depths[name] = depth
        left += [(part, depth + 1) for part in reversed(parts.pop(name, ()))]
    if parts:
        # Jobs that are parts of each other have no top.
        names += sorted(listed - set(names))
    return names, depths, frozenset(added)
