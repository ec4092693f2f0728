"""The columns of a table: which are shown at a width, how wide each is, and where it begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

from textual.app import App

GAP = 2
"""Cells between two columns, and before the first one: the mark stands there."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `width` is the least and `most` the greatest; the one that is `flex` takes what is left.

    Columns with the greatest `rank` are left out first where the width does not do for all of them; rank 0
    always stays. A column with `fold` can be folded away by the user.
    """

    key: str
    title: str
    width: int
    most: int = 0
    rank: int = 0
    right: bool = False
    flex: bool = False
    fold: bool = True
    whole: bool = False
    """Rather none of it than a part: a sum of money without its last figures is another one."""

    @property
    def least(self) -> int:
        """Cells it takes at least: its title is never cut."""
        return max(self.width, len(self.title))


class Placed(NamedTuple):
    """A column as it is shown: `x` is its first cell."""

    column: Column
    width: int
    x: int


def place(
    columns: Sequence[Column], natural: Mapping[str, int], room: int, folded: Iterable[str] = ()
) -> tuple[Placed, ...]:
    """The columns that fit into `room` cells, with their widths.

    `natural` holds the widest cell of each column that has been seen. At least one column is shown.
    """
    away = set(folded)
    shown = [c for c in columns if c.key not in away] or list(columns[:1])
    needed = {c.key: _wanted(c, natural) if c.whole else c.least for c in shown}
    while sum(needed[c.key] + GAP for c in shown) > room:
        out = max(shown, key=lambda c: c.rank)
        if not out.rank or len(shown) == 1:
            break
        shown.remove(out)
    widths = {c.key: needed[c.key] for c in shown}
    wanted = {c.key: _wanted(c, natural) for c in shown}
    left = room - sum(width + GAP for width in widths.values())
    # The least needs first: a count is shown whole before a long text takes what is left.
    for column in sorted(shown, key=lambda c: wanted[c.key] - widths[c.key]):
        more = max(0, min(left, wanted[column.key] - widths[column.key]))
        widths[column.key] += more
        left -= more
    flexible = next((c for c in shown if c.flex), None)
    if flexible is not None and left > 0:
        most = flexible.most or widths[flexible.key] + left
        widths[flexible.key] += max(0, min(left, most - widths[flexible.key]))
    placed, x = [], GAP
    for column in shown:
        placed.append(Placed(column, widths[column.key], x))
        x += widths[column.key] + GAP
    return tuple(placed)


def _wanted(column: Column, natural: Mapping[str, int]) -> int:
    wide = max(column.least, natural.get(column.key, 0))
    return min(wide, column.most) if column.most else wide


_FOLDED: WeakKeyDictionary[App[object], dict[str, set[str]]] = WeakKeyDictionary()


def folded_in(app: App[object], table: str) -> set[str]:
    """Keys of the columns that the user folded away in tables of this name; kept as long as the app lives."""
    return _FOLDED.setdefault(app, {}).setdefault(table, set())
