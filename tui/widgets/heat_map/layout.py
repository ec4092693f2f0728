"""Rows of a heat map in groups, and the line and column at which each is placed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual.content import Content

CELL = 2
"""Width of one cell in characters."""
GAP = 3


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One row. `cells` are codes of `scale`; `note` is a figure after the cells."""

    key: str
    label: str
    cells: tuple[int, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class HeatGroup:
    """Rows under one title."""

    key: str
    title: Content
    rows: tuple[HeatRow, ...]
    part: bool = False
    """Whether the group belongs to the group above."""


@dataclass(slots=True)
class Block:
    """Position of a group's rows: lines from `top` (the title's line), in columns of equal width."""

    group: HeatGroup
    top: int
    columns: int
    lines: int
    label: int
    cells: int
    note: int

    @property
    def width(self) -> int:
        return self.label + 1 + CELL * self.cells + (self.note + 1 if self.note else 0) + GAP

    def at(self, line: int, column: int) -> int | None:
        """Return the index of the row at that line and column."""
        index = column * self.lines + line
        return index if 0 <= line < self.lines and index < len(self.group.rows) else None


def block_of(group: HeatGroup, width: int) -> Block:
    label = max((len(row.label) for row in group.rows), default=0)
    cells = max((len(row.cells) for row in group.rows), default=0)
    note = max((len(row.note) for row in group.rows), default=0)
    block = Block(group, 0, 1, 0, label, cells, note)
    # The last column needs no gap after it.
    fits = max(1, (width + GAP) // block.width)
    block.lines = -(-len(group.rows) // fits)
    block.columns = -(-len(group.rows) // block.lines) if block.lines else 1
    return block


def shape(groups: Iterable[HeatGroup]) -> list[tuple[str, int, list[tuple[str, str, int]]]]:
    """Return the values that the layout depends on."""
    return [
        (
            g.key,
            max((len(r.note) for r in g.rows), default=0),
            [(r.key, r.label, len(r.cells)) for r in g.rows],
        )
        for g in groups
    ]
