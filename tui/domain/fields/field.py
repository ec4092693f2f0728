"""A field of a listed resource: its column on the screen and in a verb's table, its sort key, its JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from tui.domain.fields.cell import Cell

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
SortKey = tuple[Any, ...]
"""A sort key; its first item is true for unknown values, which come last in both directions."""
ABSENT = object()
"""The JSON value of a field that an object lacks."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, `width` to `max_width` cells wide; the `flex` column has the remaining width of the row.

    Beyond `max_width` a column grows to its widest cell if there is room. If the width is too small for all,
    the columns with the highest `rank` are left out first; rank 0 always stays. The user can hide a column
    with `fold`.
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
    """Whether the cell is left out rather than truncated, because a truncated number is wrong and a truncated
    name is ambiguous."""
    spare: Literal["", "blank", "same"] = ""
    """Whether the column gives its room away while all its cells are blank, or are the same."""
    ends: bool = False
    """Whether cells differ at their ends, as numbered names do. A long cell uses free room, and is truncated
    in its middle."""

    @property
    def min_width(self) -> int:
        """The minimum width, which fits the title because a title is never truncated."""
        return max(self.width, len(self.title))


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(Column, Generic[R]):
    """One field of a row. A field without `cell` appears only in `--json`; a field without `json` is only a
    column."""

    cell: Callable[[R], Cell] | None = None
    sort: Callable[[R], float | str | None] | None = None
    """Sort value of a row, `None` if unknown; rows can't be sorted by a field without this function."""
    largest_first: bool = False
    """Whether sorting starts with the largest number, instead of the smallest (as A before Z)."""
    json: Callable[[R], Any] | None = None
    """Value in `--json`; `ABSENT` leaves the key out."""
    json_key: str = ""
    """Key in `--json`, if it differs from the column's name."""
    help: str = ""
    """Meaning of the JSON value, for docs/JSON.md."""
    only: Literal["", "screen", "verb"] = ""
    """The only output with the column; "" if both the screen and the verb's table have it."""
    optional: bool = False
    """Whether a verb's table leaves out the column if all its cells are empty."""

    @property
    def name(self) -> str:
        """Key in `--json`."""
        return self.json_key or self.key

    def sort_key(self, row: R, rest: Any) -> SortKey:
        """Return the sort key: unknown values last, then the value, then `rest`, e.g. the resource name."""
        value = self.sort(row) if self.sort is not None else None
        if value is None:
            return (True, 0, rest)
        return (False, -value if self.largest_first and not isinstance(value, str) else value, rest)


def columns(fields: Iterable[Field[R]]) -> tuple[Field[R], ...]:
    """Return the columns of the screen."""
    return tuple(field for field in fields if field.cell is not None and field.only != "verb")


def sortable(fields: Sequence[Field[R]], first: str) -> dict[str, Field[R]]:
    """Return the fields for sorting, with `first` before the others."""
    by_key = {field.key: field for field in fields if field.sort is not None}
    return {first: by_key[first], **by_key}


def json_object(fields: Iterable[Field[R]], row: R) -> dict[str, Any]:
    """Return the row in the documented JSON format (docs/JSON.md)."""
    values = {field.name: field.json(row) for field in fields if field.json is not None}
    return {name: value for name, value in values.items() if value is not ABSENT}
