"""A heat map of any number of cells in groups of rows. Only the cells in view are painted.

The rows of a group are laid out in as many columns as fit the width, each read from the top, so that a
thousand cells fit on one screen. The cursor is a row's key and a cell of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.content import Content
from textual.filter import LineFilter
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style
from textual.visual import Visual

from tui.actions.registry import bindings
from tui.widgets.heat_map.layout import CELL, GAP, Block, HeatGroup, HeatRow, block_of, shape
from tui.widgets.heat_map.scale import LATE, LEVELS, NOT_MEASURED, colour, glyph, palette
from tui.widgets.state import wants_ascii

MARGIN = 1
_CODES = (NOT_MEASURED, *range(LEVELS + 1), *range(LATE, LATE + LEVELS + 1))


@dataclass(slots=True)
class _Paint:
    """Segments and styles of one theme."""

    base: RichStyle
    label: RichStyle
    ascii_only: bool
    cells: dict[int, tuple[str, RichStyle]] = field(default_factory=dict)


class HeatMap(ScrollView, can_focus=True):
    """A heat map. Posts `Moved` when the cursor moves to another cell, `Chosen` on a double click."""

    BINDINGS = bindings("heatmap")
    COMPONENT_CLASSES: ClassVar[set[str]] = {"heat--label", "heat--cursor"}
    DEFAULT_CSS = """
    HeatMap {
        height: 1fr;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
        .heat--label { color: $text-muted; }
        .heat--cursor { color: $accent; text-style: bold reverse; }
    }
    """

    @dataclass
    class Moved(Message):
        """The cursor is on another cell, or on none."""

        heat_map: HeatMap

    @dataclass
    class Chosen(Message):
        """A cell was clicked twice."""

        heat_map: HeatMap

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._groups: tuple[HeatGroup, ...] = ()
        self._blocks: list[Block] = []
        self._place: dict[str, tuple[int, int]] = {}
        self._cursor: tuple[str, int] | None = None
        self._lines: dict[int, Strip] = {}
        self._painted_with: tuple[object, ...] = ()
        self._paint: _Paint | None = None
        self._laid_out_for: Size | None = None

    # Content

    @property
    def cursor(self) -> tuple[str, int] | None:
        """Key of the row under the cursor, and the index of the cell in the row."""
        return self._cursor

    @property
    def rows(self) -> Iterable[HeatRow]:
        """Yield all rows in order."""
        return (row for group in self._groups for row in group.rows)

    def show(self, groups: Sequence[HeatGroup]) -> None:
        """Show these groups. Only changed lines are painted."""
        before, self._groups = self._groups, tuple(groups)
        if shape(before) != shape(self._groups):
            self._lay_out()
            return
        for block, old, new in zip(self._blocks, before, self._groups, strict=True):
            block.group = new
            if old.title != new.title:
                self._dirty(block.top)
            if old.rows != new.rows:
                self._compare(block, old.rows, new.rows)

    def _compare(self, block: Block, old: Sequence[HeatRow], new: Sequence[HeatRow]) -> None:
        spans: dict[int, tuple[int, int]] = {}
        for at, (was, now) in enumerate(zip(old, new, strict=True)):
            if was == now:
                continue
            column, line = divmod(at, block.lines)
            start = MARGIN + column * block.width
            left, right = start, start + block.width
            if was.note == now.note:
                differs = [i for i, (a, b) in enumerate(zip(was.cells, now.cells, strict=True)) if a != b]
                cells = start + block.label + 1
                left, right = cells + CELL * differs[0], cells + CELL * differs[-1] + CELL
            known = spans.get(line, (left, right))
            spans[line] = (min(left, known[0]), max(right, known[1]))
        for line, span in spans.items():
            self._dirty(block.top + 1 + line, span)

    def _dirty(self, line: int, span: tuple[int, int] | None = None) -> None:
        """Repaint a line, or its changed columns."""
        self._lines.pop(line, None)
        y = line - int(self.scroll_offset.y)
        if 0 <= y < self.size.height:
            left, right = span or (0, self.size.width)
            self.refresh(Region(left, y, min(right, self.size.width) - left, 1))

    # Layout

    def _lay_out(self) -> None:
        """Place each row for the current width. The cursor stays on its row."""
        width = self._width()
        self._laid_out_for = self.size
        before = self._place.get(self._cursor[0]) if self._cursor else None
        self._blocks = [block_of(group, width - MARGIN) for group in self._groups]
        self._place = {
            row.key: (number, at) for number, g in enumerate(self._groups) for at, row in enumerate(g.rows)
        }
        self.virtual_size = Size(width, self._put_blocks())
        self._lines.clear()
        self._settle_cursor(before)
        self.refresh()

    def _put_blocks(self) -> int:
        """Place the blocks below each other, with gaps if all fit. Return their height."""
        needed = sum(1 + block.lines for block in self._blocks)
        apart = needed + sum(not block.group.part for block in self._blocks[1:]) <= self.size.height
        top = 0
        for at, block in enumerate(self._blocks):
            top += apart and at > 0 and not block.group.part
            block.top = top
            top += 1 + block.lines
        return top

    def _width(self) -> int:
        # `size` counts the scrollbar's column too.
        return self.size.width - self.scrollbar_size_vertical

    def _settle_cursor(self, before: tuple[int, int] | None) -> None:
        place = self._place.get(self._cursor[0]) if self._cursor else None
        if place is None:
            rows = [row for row in self.rows if row.cells]
            at = 0
            if before is not None and before[0] < len(self._groups):
                at = min(sum(len(g.rows) for g in self._groups[: before[0]]) + before[1], len(rows) - 1)
            self._cursor = (rows[at].key, 0) if rows else None
            self.post_message(self.Moved(self))
        elif self._cursor is not None:
            cells = len(self._groups[place[0]].rows[place[1]].cells)
            self._cursor = (self._cursor[0], max(0, min(self._cursor[1], cells - 1)))
        self._follow_cursor()

    def on_resize(self) -> None:
        """Place the rows for the new width."""
        if self.size != self._laid_out_for:
            self._lay_out()
        else:
            self._follow_cursor()

    # Cursor keys

    def move_to(self, key: str, cell: int = 0) -> None:
        """Move the cursor to a cell and scroll it into view; ignore a row that is not shown."""
        place = self._place.get(key)
        if place is None or (key, cell) == self._cursor:
            return
        for changed in (self._cursor and self._place.get(self._cursor[0]), place):
            if changed:
                block = self._blocks[changed[0]]
                self._dirty(block.top + 1 + changed[1] % block.lines)
        self._cursor = (key, cell)
        self.post_message(self.Moved(self))
        self._follow_cursor()

    def _here(self) -> tuple[int, int, int, int] | None:
        """Return the group, line and column of the cursor's row, and its cell."""
        if self._cursor is None or self._cursor[0] not in self._place:
            return None
        group, at = self._place[self._cursor[0]]
        column, line = divmod(at, self._blocks[group].lines)
        return group, line, column, self._cursor[1]

    def _go(self, group: int, line: int, column: int, cell: int) -> None:
        block = self._blocks[group]
        column = max(0, min(column, block.columns - 1))
        at = block.at(line, column)
        while at is None and column > 0:
            column -= 1
            at = block.at(line, column)
        if at is not None:
            row = block.group.rows[at]
            self.move_to(row.key, max(0, min(cell, len(row.cells) - 1)))

    def _vertical(self, way: int) -> None:
        here = self._here()
        if here is None:
            return
        group, line, column, cell = here
        line += way
        while not 0 <= line < self._blocks[group].lines:
            group += 1 if way > 0 else -1
            if not 0 <= group < len(self._blocks):
                return
            line = 0 if way > 0 else self._blocks[group].lines - 1
        self._go(group, line, column, cell)

    def action_down(self) -> None:
        """Move to the cell below."""
        self._vertical(1)

    def action_up(self) -> None:
        """Move to the cell above."""
        self._vertical(-1)

    def action_right(self) -> None:
        """Move to the next cell, or from the last cell to the adjacent row."""
        here = self._here()
        if here is not None:
            group, line, column, cell = here
            block = self._blocks[group]
            row = block.at(line, column)
            if row is not None and cell + 1 < len(block.group.rows[row].cells):
                self._go(group, line, column, cell + 1)
            elif block.at(line, column + 1) is not None:
                self._go(group, line, column + 1, 0)

    def action_left(self) -> None:
        """Move to the previous cell."""
        here = self._here()
        if here is not None:
            group, line, column, cell = here
            if cell:
                self._go(group, line, column, cell - 1)
            elif column:
                self._go(group, line, column - 1, len(self._blocks[group].group.rows[0].cells))

    def action_page_down(self) -> None:
        """Move a page down."""
        for _ in range(max(1, self.size.height - 2)):
            self._vertical(1)

    def action_page_up(self) -> None:
        """Move a page up."""
        for _ in range(max(1, self.size.height - 2)):
            self._vertical(-1)

    def action_first(self) -> None:
        """Move to the first cell."""
        self._to_end(self._groups, 0)

    def action_last(self) -> None:
        """Move to the last cell."""
        self._to_end(tuple(reversed(self._groups)), -1)

    def _to_end(self, groups: Sequence[HeatGroup], which: int) -> None:
        group = next((g for g in groups if g.rows), None)
        if group is not None:
            row = group.rows[which]
            self.move_to(row.key, 0 if which == 0 else max(0, len(row.cells) - 1))

    def _beside(self, way: int) -> None:
        here = self._here()
        if here is not None:
            group = here[0] + way
            while 0 <= group < len(self._groups) and not self._groups[group].rows:
                group += way
            if 0 <= group < len(self._groups):
                self.move_to(self._groups[group].rows[0].key, 0)

    def action_next_group(self) -> None:
        """Move to the next group's first cell."""
        self._beside(1)

    def action_previous_group(self) -> None:
        """Move to the previous group."""
        self._beside(-1)

    def seek(self, score: Callable[[HeatRow, int], float]) -> None:
        """Move the cursor to the cell with the greatest `score`; among cells with the same score, to the next
        one after the cursor.

        `score` returns minus infinity for a cell to skip.
        """
        spots = [(row, cell) for row in self.rows for cell in range(len(row.cells))]
        if not spots:
            return
        worth = [score(row, cell) for row, cell in spots]
        most = max(worth)
        if most == float("-inf"):
            return
        here = next((i for i, (row, cell) in enumerate(spots) if (row.key, cell) == self._cursor), -1)
        best = [i for i, value in enumerate(worth) if value == most]
        row, cell = spots[next((i for i in best if i > here), best[0])]
        self.move_to(row.key, cell)

    def _follow_cursor(self) -> None:
        here, page = self._here(), self.size.height
        if here is None or page <= 0:
            return
        line = self._blocks[here[0]].top + 1 + here[1]
        top = int(self.scroll_target_y)
        # Show the group's title together with its first line.
        first = line - 1 if here[1] == 0 else line
        if first < top:
            self.scroll_to(y=first, animate=False)
        elif line >= top + page:
            self.scroll_to(y=line - page + 1, animate=False)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor on one click, open the row on two."""
        line = int(self.scroll_offset.y) + event.y
        for block in self._blocks:
            column, inside = divmod(event.x - MARGIN, block.width)
            at = block.at(line - block.top - 1, column)
            if event.x >= MARGIN and column < block.columns and at is not None:
                row = block.group.rows[at]
                cell = max(0, min((inside - block.label - 1) // CELL, len(row.cells) - 1))
                self.move_to(row.key, cell)
                if event.chain == 2:
                    self.post_message(self.Chosen(self))

    # Paint

    def notify_style_update(self) -> None:
        """Repaint everything in the new theme."""
        super().notify_style_update()
        self._paint = None
        self._lines.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines of a region, from the cache if they were drawn before."""
        filters = self.get_line_filters()
        with_ = (tuple(filters), self.size.width, self.has_focus)
        if with_ != self._painted_with:
            self._lines.clear()
            self._painted_with = with_
        strips, top = [], int(self.scroll_offset.y)
        for y in crop.line_range:
            line = top + y
            if line not in self._lines:
                self._lines[line] = self._finished(self._draw(line), filters)
            strips.append(self._lines[line])
        left, right = crop.column_span
        if (left, right) != (0, self.size.width):
            strips = [strip.crop(left, right) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        """Return line `y` of the view."""
        return self._finished(self._draw(int(self.scroll_offset.y) + y), self.get_line_filters())

    def _finished(self, strip: Strip, filters: Iterable[LineFilter]) -> Strip:
        for line_filter in filters:
            strip = strip.apply_filter(line_filter, self.background_colors[1])
        return strip

    def _draw(self, line: int) -> Strip:
        paint = self._theme_paint()
        for block in self._blocks:
            if line == block.top:
                return self._title(block.group.title)
            if block.top < line <= block.top + block.lines:
                return self._cells(block, line - block.top - 1, paint)
        return Strip.blank(self.size.width, paint.base)

    def _title(self, title: Content) -> Strip:
        width = self.size.width
        line = (Content(" " * MARGIN) + title).truncate(width, ellipsis=True)
        strips = Visual.to_strips(self, line, width, 1, self.visual_style, pad=True, apply_selection=False)
        return strips[0].crop_extend(0, width, self.rich_style) if strips else Strip.blank(width)

    def _cells(self, block: Block, line: int, paint: _Paint) -> Strip:
        segments = [Segment(" " * MARGIN, paint.base)]
        cursor = self._cursor
        for column in range(block.columns):
            at = block.at(line, column)
            if at is None:
                break
            row = block.group.rows[at]
            segments.append(Segment(row.label.ljust(block.label) + " ", paint.label))
            lit = cursor[1] if cursor is not None and cursor[0] == row.key else -1
            segments += _runs(row.cells, lit, paint, self._cursor_style())
            note = f"{row.note:>{block.note}} " if block.note else ""
            rest = CELL * (block.cells - len(row.cells))
            segments.append(Segment(" " * rest + note + " " * GAP, paint.base))
        return Strip(segments).adjust_cell_length(self.size.width, paint.base)

    def _cursor_style(self) -> RichStyle:
        if self.app.native_ansi_color:
            return (self.visual_style + Style(reverse=True, bold=True)).rich_style
        return self.get_component_rich_style("heat--cursor")

    def _theme_paint(self) -> _Paint:
        if self._paint is None:
            ascii_only, colours = wants_ascii(self), palette(self)
            label = self.get_visual_style("heat--label")
            paint = _Paint(self.rich_style, label.rich_style, ascii_only)
            for code in _CODES:
                text = glyph(code, ascii_only=ascii_only)
                named = colour(code, colours)
                style = label if named.startswith("$") else self.visual_style + Style.parse(named)
                paint.cells[code] = (text, style.rich_style)
            self._paint = paint
        return self._paint


def _runs(codes: Sequence[int], lit: int, paint: _Paint, cursor: RichStyle) -> list[Segment]:
    """Join cells into few segments. `lit` is the cell under the cursor."""
    segments: list[Segment] = []
    run, style = "", paint.base
    for at, code in enumerate(codes):
        text, own = paint.cells[code]
        if at == lit:
            if run:
                segments.append(Segment(run, style))
            # A reversed full block would look empty, so the cursor's cell shows the level's digit.
            segments.append(Segment(glyph(code, ascii_only=True), cursor))
            run, style = "", paint.base
        elif own is style:
            run += text
        else:
            if run:
                segments.append(Segment(run, style))
            run, style = text, own
    if run:
        segments.append(Segment(run, style))
    return segments
