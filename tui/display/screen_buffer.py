"""The known content of the terminal, and the bytes that change it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import ne, or_

from tui.display.cells import CellStyles, Chars, is_sure
from tui.display.scroll import Move, find_move
from tui.display.sparse import Piece, by_style, pieces
from tui.display.styles import change, erasable, has_background

CLOSE = 4
"""Maximum number of unchanged cells between two changed cells that are rewritten instead of skipped."""
LONG_BLANK = 8
"""Minimum number of consecutive blanks for which erasing takes fewer bytes than writing."""


@dataclass(slots=True)
class BufferRow:
    """One row: the character and the style of each cell."""

    chars: Chars
    styles: CellStyles

    def copy(self) -> BufferRow:
        return BufferRow(self.chars.copy(), self.styles.copy())

    def put(self, x: int, chars: Chars, styles: CellStyles) -> None:
        """Overwrite the cells from `x` on. The other half of a split wide character becomes unknown."""
        end = min(x + len(chars), len(self.chars))
        room = end - x
        if room <= 0:
            return
        if self.chars[x] == "" and x:
            self.chars[x - 1] = None
        if end < len(self.chars) and self.chars[end] == "":
            self.chars[end] = None
        self.chars[x:end] = chars[:room]
        self.styles[x:end] = styles[:room]


@dataclass(slots=True)
class Pen:
    """Position and style of the terminal's next write. `None` means unknown."""

    out: list[str] = field(default_factory=list)
    x: int | None = None
    y: int | None = None
    style: str | None = None

    def go(self, x: int, y: int) -> None:
        """Move to a cell with the fewest bytes."""
        if self.y != y or self.y is None:
            self.out.append(f"\x1b[{y + 1};{x + 1}H" if x else (f"\x1b[{y + 1}H" if y else "\x1b[H"))
        elif self.x == x:
            return
        elif x == 0:
            self.out.append("\r")
        elif self.x is not None and x > self.x:
            step = x - self.x
            self.out.append("\x1b[C" if step == 1 else f"\x1b[{step}C")
        else:
            self.out.append(f"\x1b[{x + 1}G")
        self.x, self.y = x, y

    def set_style(self, style: str) -> None:
        """Set the style."""
        self.out.append(change(self.style, style))
        self.style = style

    def take(self) -> str:
        """Return and clear the written text."""
        text = "".join(self.out)
        self.out.clear()
        return text


class ScreenBuffer:
    """The terminal's cells. With `blank_keeps_colour`, erasing leaves the background colour (terminfo's
    bce)."""

    def __init__(self, width: int, height: int, *, blank_keeps_colour: bool = True) -> None:
        self.width, self.height = width, height
        self.rows = [self._unknown() for _ in range(height)]
        self._keeps = blank_keeps_colour
        self._pen = Pen()

    def _unknown(self) -> BufferRow:
        return BufferRow([None] * self.width, [""] * self.width)

    def paint(self, target: Mapping[int, BufferRow], cursor: tuple[int, int]) -> str:
        """Return the bytes that change the rows of `target` (by row number) and move the cursor to (x, y).

        Unknown cells of a target row are left unchanged.
        """
        changed = {
            y: row
            for y, row in target.items()
            if row.chars != self.rows[y].chars or row.styles != self.rows[y].styles
        }
        if not changed:
            self._pen.go(*cursor)
            return self._pen.take()
        move = find_move([row.chars for row in self.rows], {y: row.chars for y, row in changed.items()})
        if move is not None:
            # Rewrite unchanged rows that the move has displaced.
            for y in range(move.top, move.bottom + 1):
                changed.setdefault(y, self.rows[y].copy())
            self._move(move)
        differ = {y: differing(self.rows[y], row) for y, row in changed.items()}
        spans = {y: list(_spans(row, differ[y])) for y, row in changed.items()}
        # On a slow line small changes, such as the change by a key, are sent before large changes. The row
        # that a move has freed comes first, because the pen is there.
        scattered = self._write_sparse(changed, differ)
        apart = {piece.y for piece in scattered}
        for y in sorted(changed, key=lambda y: (y != self._pen.y, _cells(spans[y]) > self.width // 3, y)):
            for start, end in () if y in apart else spans[y]:
                self._write_span(y, changed[y], start, end)
            self.rows[y] = changed[y]
        for piece in scattered:
            self._write_piece(piece)
        if move is not None:
            self._pen.out.append("\x1b[r")
            # Setting the margins moves the cursor home, but not in every terminal.
            self._pen.x = self._pen.y = None
        self._pen.go(*cursor)
        return self._pen.take()

    def _write_sparse(
        self, changed: Mapping[int, BufferRow], differ: Mapping[int, Sequence[int]]
    ) -> list[Piece]:
        """Write scattered small changes style by style, if that takes fewer bytes than row by row."""
        rows = {
            y: pieces(y, (self.rows[y].chars, self.rows[y].styles), (row.chars, row.styles), differ[y])
            for y, row in changed.items()
        }
        return by_style(rows)

    def _write_piece(self, piece: Piece) -> None:
        pen = self._pen
        pen.go(piece.x, piece.y)
        pen.set_style(piece.style)
        pen.out.append(piece.text)
        pen.x = piece.x + len(piece.text)
        if pen.x >= self.width:
            pen.x = None

    def _move(self, move: Move) -> None:
        """Let the terminal move rows: a line feed at the bottom margin, or its reverse at the top."""
        pen, count = self._pen, abs(move.by)
        pen.out.append(f"\x1b[{move.top + 1};{move.bottom + 1}r")
        pen.x = pen.y = None
        block = self.rows[move.top : move.bottom + 1]
        fresh = [self._unknown() for _ in range(count)]
        if move.by > 0:
            pen.go(0, move.bottom)
            pen.out.append("\n" * count)
            block = block[count:] + fresh
        else:
            pen.go(0, move.top)
            pen.out.append("\x1bM" * count)
            block = fresh + block[:-count]
        self.rows[move.top : move.bottom + 1] = block

    def _write_span(self, y: int, row: BufferRow, start: int, end: int) -> None:
        pen, at = self._pen, start
        for text, stop, style in _runs(row, start, end):
            blanks = self._blanks(text, style, row, stop)
            pen.go(at, y)
            pen.set_style(style)
            pen.out.append(text[: len(text) - blanks] if blanks else text)
            if blanks:
                pen.out.append("\x1b[K" if stop == self.width else f"\x1b[{blanks}X")
            pen.x = stop - blanks
            if pen.x >= self.width or not is_sure(_head(row.chars, pen.x - 1)):
                # At the right edge the cursor stays on the last cell.
                pen.x = None
            at = stop

    def _blanks(self, text: str, style: str, row: BufferRow, stop: int) -> int:
        """Return the number of blanks at the end of `text` that take fewer bytes to erase than to write."""
        count = len(text) - len(text.rstrip(" "))
        least = 4 if stop == self.width else LONG_BLANK
        if count < least or not erasable(style) or (not self._keeps and has_background(style)):
            return 0
        return count


def differing(shown: BufferRow, row: BufferRow) -> list[int]:
    """Return the cells that differ. For speed the function uses only C loops, because it runs for every row
    of every frame."""
    chars, styles = map(ne, shown.chars, row.chars), map(ne, shown.styles, row.styles)
    return list(compress(count(), map(or_, chars, styles)))


def _spans(row: BufferRow, cells: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the spans (start, end) of a row that have to be written where `cells` differ."""
    start = end = -1
    chars = row.chars
    for x in cells:
        if chars[x] is None:
            continue
        if start >= 0 and (x == end or (x - end <= CLOSE and None not in chars[end:x])):
            end = x + 1
            continue
        if start >= 0:
            yield _whole(row, start, end)
        start, end = x, x + 1
    if start >= 0:
        yield _whole(row, start, end)


def _cells(spans: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)


def _whole(row: BufferRow, start: int, end: int) -> tuple[int, int]:
    """Widen a span to whole characters."""
    while start and row.chars[start] == "":
        start -= 1
    while end < len(row.chars) and row.chars[end] == "":
        end += 1
    return start, end


def _runs(row: BufferRow, start: int, end: int) -> Iterator[tuple[str, int, str]]:
    """Yield text in one style, the cell after it, and the style. A character of unsure width ends a run."""
    cells = [cell or "" for cell in row.chars[start:end]]
    styles = row.styles
    sure = all(map(is_sure, set(cells)))
    begin = start
    while begin < end:
        style, stop = styles[begin], begin + 1
        while stop < end and styles[stop] == style and (sure or _joined(cells, stop - start)):
            stop += 1
        yield "".join(cells[begin - start : stop - start]), stop, style
        begin = stop


def _joined(cells: Sequence[str], at: int) -> bool:
    """Return whether the cell certainly starts where the previous cell ends."""
    return not cells[at] or is_sure(_head(cells, at - 1))


def _head(cells: Sequence[str | None], x: int) -> str:
    """Return the character of a cell; for the second half of a wide character, the wide character."""
    while x > 0 and cells[x] == "":
        x -= 1
    return (cells[x] if x >= 0 else "") or ""
