"""A field of a listed thing: its column on the screen and in a verb's table, its sort key, and its JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from tui.domain.fields.cell import Cell

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
SortKey = tuple[Any, ...]
"""A sort key; its first item says whether the value is unknown: those come last in both directions."""
ABSENT = object()
"""The JSON value of a field that an object lacks."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, `width` to `max_width` cells wide; the `flex` one takes the rest of the row.

    Beyond `max_width` a column grows to its widest cell where nothing else takes the room.

    If the width is not enough for all, columns with the highest `rank` are left out first; rank 0 always
    stays. A column with `fold` can be hidden by the user.
    """

    key: str
    title: str = ""
    width: int = 0
    max_width: int = 0
    rank: int = 0
    right: bool = False
    flex: bool = False
    fold: bool = True
    whole: bool = False
    """Whether it is left out rather than cut: a cut figure is wrong, and a cut name may equal another."""
    ends: bool = False
    """Cells differ at their ends, as names with a number do: a long one gets the room that others leave, and
    is cut in its middle."""

    @property
    def min_width(self) -> int:
        """The smallest width: the title is never cut."""
        return max(self.width, len(self.title))


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(Column, Generic[R]):
    """One field of a row: without `cell` in `--json` alone, without `json` a column alone."""

    cell: Callable[[R], Cell] | None = None
    sort: Callable[[R], float | str | None] | None = None
    """Value that the rows can be sorted by, `None` where it is unknown; without it they can't."""
    largest_first: bool = False
    """Whether sorting starts with the largest number; else with the smallest, as A before Z."""
    json: Callable[[R], Any] | None = None
    """Value in `--json`; `ABSENT` leaves the key out."""
    json_key: str = ""
    """Key in `--json`, where it differs from the column's."""
    help: str = ""
    """Meaning of the JSON value, for docs/JSON.md."""
    only: Literal["", "screen", "verb"] = ""
    """Where the column is, if not both on the screen and in the verb's table."""
    optional: bool = False
    """Whether a verb leaves out the column if all its cells are empty."""

    @property
    def name(self) -> str:
        """Key in `--json`."""
        return self.json_key or self.key

    def sort_key(self, row: R, rest: Any) -> SortKey:
        """Sort key: unknown values last, then the value, then `rest`, as the resource name."""
        value = self.sort(row) if self.sort is not None else None
        if value is None:
            return (True, 0, rest)
        return (False, -value if self.largest_first and not isinstance(value, str) else value, rest)


def columns(fields: Iterable[Field[R]]) -> tuple[Field[R], ...]:
    """The columns of the screen."""
    return tuple(field for field in fields if field.cell is not None and field.only != "verb")


def sortable(fields: Sequence[Field[R]], first: str) -> dict[str, Field[R]]:
    """The fields that rows can be sorted by, `first` before the others."""
    by_key = {field.key: field for field in fields if field.sort is not None}
    return {first: by_key[first], **by_key}


def json_object(fields: Iterable[Field[R]], row: R) -> dict[str, Any]:
    """The row in the documented shape (docs/JSON.md)."""
    values = {field.name: field.json(row) for field in fields if field.json is not None}
    return {name: value for name, value in values.items() if value is not ABSENT}
