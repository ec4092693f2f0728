"""Rows of one or several columns of labelled lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.content import Content

from tui.widgets.labelled_lines import EMPTY, Labelled, LabelledLines, hanging_indent

Column = Sequence[Labelled]
GAP = 3
"""Gap between two columns, in cells."""
_TWO, _THREE = 110, 180
"""Minimum screen widths at which facts use two and three columns."""


def columns_in(width: int) -> int:
    """Return the number of columns for facts on a screen of this width."""
    return 3 if width >= _THREE else 2 if width >= _TWO else 1


def column_width(width: int, columns: int) -> int:
    """Return the width of each of these columns in `width` cells."""
    return (width - GAP * (columns - 1)) // columns


def stacked(blocks: Iterable[Column]) -> list[Labelled]:
    """Return one column of blocks with an empty line between them. An empty block is left out."""
    lines = [line for block in blocks if block for line in (*block, (EMPTY, EMPTY))]
    return lines[:-1]


def beside(columns: Sequence[Column], width: int) -> list[Content]:
    """Return the screen lines of columns beside each other in `width` cells."""
    room = column_width(width, len(columns))
    drawn = [_wrapped(column, room) for column in columns]
    lines = []
    for at in range(max(map(len, drawn), default=0)):
        line = EMPTY
        for position, column in enumerate(drawn):
            pad = position * (room + GAP) - line.cell_length
            line = line + Content(" " * pad) + (column[at] if at < len(column) else EMPTY)
        lines.append(line.rstrip())
    return lines


def height(columns: Sequence[Column], width: int) -> int:
    """Estimate the screen lines of columns beside each other, without wrapping them."""
    room = column_width(width, len(columns))
    return max(
        sum(max(1, -(-words.cell_length // max(1, room - label.cell_length))) for label, words in column)
        for column in columns
    )


def _wrapped(column: Column, width: int) -> list[Content]:
    return [
        line
        for label, words in column
        for line in hanging_indent(label, words, width).split(allow_blank=True)
    ]


class LabelledColumns(LabelledLines):
    """Shows rows of columns and wraps them again when the width changes."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._rows: list[list[Column]] = []

    def show_rows(self, rows: Iterable[Sequence[Column]]) -> None:
        """Show these rows with an empty line between them. Empty columns and rows are left out."""
        filled = [[column for column in row if column] for row in rows]
        self._rows = [row for row in filled if row]
        self.show([line for row in self._rows for column in row for line in column])

    def text(self, width: int) -> Content:
        lines = [line for row in self._rows for line in (*beside(row, width), EMPTY)]
        return Content("\n").join(lines[:-1])
