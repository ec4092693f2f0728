"""A table of any number of rows that paints only the rows in view; the cursor is a row's key.

Rows are shown in the order of their keys. Their cells are given (`show`) or created when a row comes into
view (`show_lazily`); only the changed cells of a row are painted. The cursor and the marks follow the key
through refresh, sort and removal, so that a key press acts on the row under the cursor. If not all columns
fit, the least important columns are left out, and the user can hide more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice, product
from typing import ClassVar

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.actions.registry import bindings
from tui.domain.fields.field import Column
from tui.widgets.table.columns import GAP, PlacedColumn, folded_in, place
from tui.widgets.table.paint import Cell, RowPainter, same_cell
from tui.widgets.table.rows import Rows

__all__ = ["GAP", "Cells", "Column", "Table"]

Cells = Mapping[str, Cell]
SAMPLE = 200
"""Number of rows whose cells are measured for the columns' widths, besides the rows in view."""
CACHED_ROWS = 1_000
"""Number of cached rows created by `show_lazily`."""
_BLANK = {"", "–", "·"}
_NOT_SEEN = object()


class Table(ScrollView, can_focus=True):
    """A table. Posts `Moved` when the cursor moves to another row, `Chosen` on a double click."""

    BINDINGS = bindings("table")
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--header", "table--column", "table--cursor", "table--mark"
    }  # fmt: skip
    DEFAULT_CSS = """
    Table {
        height: 1fr;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
        .table--header { color: $text-muted; text-style: none; }
        .table--column { color: $text-accent; text-style: bold; }
        .table--cursor { background: $block-cursor-blurred-background; }
        .table--mark { color: $accent; text-style: bold; }
        &:focus .table--cursor { background: $block-cursor-background; }
        &:ansi .table--cursor, &:ansi:focus .table--cursor { background: ansi_default; }
    }
    """

    @dataclass
    class Moved(Message):
        """The cursor is on another row, or on none."""

        table: Table
        key: str | None

    @dataclass
    class Chosen(Message):
        """A row was clicked twice."""

        table: Table
        key: str

    @dataclass
    class SortRequested(Message):
        """A click on a column's title: sort by the column, or reverse the order if it is already sorted."""

        table: Table
        column: str

    def __init__(self, columns: Sequence[Column], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.columns = tuple(columns)
        self.marks: set[str] = set()
        self.sorted_by = ""
        self.reverse = False
        self.chosen_column = ""
        """Key of the column that `s` sorts by and `z` hides; "" if no column is chosen."""
        self.pinned: frozenset[str] = frozenset()
        self._make: Callable[[str], Cells] | None = None
        self._rows: dict[str, Cells] = {}
        self._shown = Rows()
        self._cursor: str | None = None
        self._natural: dict[str, int] = {}
        self._same: dict[str, str | None] = {}
        """The text of all measured cells of a column; `None` if they differ, "" if all are blank."""
        self._measured: set[str] = set()
        self._placed: tuple[PlacedColumn, ...] = ()
        self._strips: dict[tuple[str, bool, bool], Strip] = {}
        self._painter = RowPainter(self)

    # Rows

    @property
    def keys(self) -> Sequence[str]:
        """Keys of the shown rows, from the top."""
        return self._shown.order

    @property
    def cursor(self) -> str | None:
        """Key of the row under the cursor."""
        return self._cursor

    @property
    def in_view(self) -> Sequence[str]:
        """The keys of the rows on the screen."""
        top = int(self.scroll_offset.y)
        return self._shown.order[top : top + max(0, self.size.height - 1)]

    def __contains__(self, key: object) -> bool:
        return key in self._shown.index

    def cells_of(self, key: str) -> Cells:
        """Return the row's cells, which are created if they are not cached."""
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._make(key) if self._make is not None else {}
        return row

    def show(
        self,
        order: Sequence[str],
        cells: Mapping[str, Cells],
        parents: Mapping[str, str] | None = None,
    ) -> None:
        """Show these rows in this order. `cells` holds the new and changed rows.

        Only changes are painted. The cursor stays on its row; if that row was removed, the cursor goes to the
        row at its position. `parents` puts rows below others that can be closed.
        """
        self._make = None
        known, changed = self._rows, []
        for key, row in cells.items():
            old = known.get(key)
            if old is None:
                known[key] = row
            else:
                changed.append((key, row))
        order, parents = list(order), parents or {}
        if self._measure(cells[key] for key in islice(order, SAMPLE) if key in cells):
            self._choose_columns()
        for key, row in changed:
            self._set_cells(key, row)
        if order != self._shown.everything or parents != self._shown.parents:
            self._reorder(order, parents)
            there = self._shown.index if not parents else set(order)
            for key in [key for key in known if key not in there]:
                del known[key]
                self._forget(key)
        self._prepare()

    def show_lazily(
        self,
        order: Sequence[str],
        make: Callable[[str], Cells],
        parents: Mapping[str, str] | None = None,
    ) -> None:
        """Show these rows in this order. `make` creates a row when it comes into view.

        The table stores `order`, which must not be changed afterwards. Cached rows are unchanged until
        `change` names them.
        """
        self._make = make
        self._reorder(order, parents or {})
        if len(self._rows) > CACHED_ROWS:
            for cached in (self._rows, self._strips, self._measured):
                cached.clear()
        else:
            for key in [key for key in self._rows if key not in self._shown.index]:
                del self._rows[key]
                self._forget(key)
        self._prepare()

    def change(self, keys: Iterable[str]) -> None:
        """Record changed rows of `show_lazily`. Rows in view are created again now, and other rows later."""
        if self._make is None:
            return
        sight = set(self.in_view)
        keys = keys if isinstance(keys, Set) else set(keys)
        # Fewer rows are cached than may have changed.
        for key in [key for key in self._rows if key in keys]:
            if key in sight:
                self._set_cells(key, self._make(key))
            else:
                del self._rows[key]
                self._forget(key)
        self._prepare()

    def _set_cells(self, key: str, row: Cells) -> None:
        old, self._rows[key] = self._rows[key], row
        differing = [p for p in self._placed if not same_cell(old.get(p.column.key), row.get(p.column.key))]
        if not differing:
            return
        self._forget(key)
        y = self._row_at(key)
        if y is not None:
            for placed in differing:
                self.refresh(Region(placed.x, y, placed.width, 1))

    def clear_widths(self) -> None:
        """Let columns shrink again, e.g. for a new filter."""
        self._natural.clear()
        self._same.clear()
        self._measured.clear()
        self._measure(self._rows[key] for key in islice(self.keys, SAMPLE) if key in self._rows)
        self._measure(self.cells_of(key) for key in self.in_view)
        self._choose_columns()

    def set_sort(self, column: str, reverse: bool) -> None:
        """Show the sort column in the header. With `reverse`, the largest value is on top."""
        if (self.sorted_by, self.reverse) != (column, reverse):
            self.sorted_by, self.reverse = column, reverse
            self._repaint_header()

    def mark(self, keys: Iterable[str], on: bool) -> None:
        """Mark or unmark rows."""
        for key in keys:
            (self.marks.add if on else self.marks.discard)(key)
            self._repaint(key)

    def move_to(self, key: str) -> None:
        """Move the cursor to a row and scroll it into view; ignore a key that is not shown."""
        if key in self._shown.index and key != self._cursor:
            old, self._cursor = self._cursor, key
            if old is not None:
                self._repaint(old)
            self._repaint(key)
            self.post_message(self.Moved(self, key))
        self._follow_cursor()

    # Groups

    def group(self, key: str | None) -> str | None:
        """Return the group that the row heads or belongs to; `None` for a row of no group."""
        return self._shown.group(key) if key is not None else None

    def is_open(self, group: str) -> bool:
        """Return whether the rows of this group are shown."""
        return group not in self._shown.closed

    def open_group(self, group: str, on: bool) -> None:
        """Open or close a group. A cursor on one of its rows goes to its head."""
        at, seen = self._cursor_at(), tuple(self.in_view)
        if not self._shown.close(group, not on):
            return
        if self._cursor not in self._shown.index and group in self._shown.index:
            self._cursor = group
            self.post_message(self.Moved(self, group))
        self._order_changed(at, seen)
        self.change([group])
        self._prepare()

    # Cursor keys

    def _step(self, rows: int) -> None:
        if order := self._shown.order:
            at = (self._cursor_at() or 0) + rows
            self.move_to(order[max(0, min(len(order) - 1, at))])

    def action_cursor_down(self) -> None:
        """Move to the next row."""
        self._step(1)

    def action_cursor_up(self) -> None:
        """Move to the previous row."""
        self._step(-1)

    def action_scroll_top(self) -> None:
        """Move to the first row."""
        self._step(-len(self.keys))

    def action_scroll_bottom(self) -> None:
        """Move to the last row."""
        self._step(len(self.keys))

    def action_page_down(self) -> None:
        """Move a page down."""
        self._step(max(1, self.size.height - 2))

    def action_page_up(self) -> None:
        """Move a page up."""
        self._step(-max(1, self.size.height - 2))

    def action_column_right(self) -> None:
        """Choose the next column."""
        self._choose_column(1)

    def action_column_left(self) -> None:
        """Choose the previous column."""
        self._choose_column(-1)

    def _choose_column(self, by: int) -> None:
        if shown := [placed.column.key for placed in self._placed]:
            at = shown.index(self.chosen_column) + by if self.chosen_column in shown else 0
            self.choose_column(shown[max(0, min(len(shown) - 1, at))])

    def choose_column(self, key: str) -> None:
        """Choose a column to sort by or hide; "" chooses none."""
        if key != self.chosen_column:
            self.chosen_column = key
            self._repaint_header()

    def action_fold_column(self) -> None:
        """Hide the chosen column, or the sorted column if no column is chosen."""
        key = self.chosen_column or self.sorted_by
        column = next((c for c in self.columns if c.key == key), None)
        if column is not None and column.fold and any(p.column is column for p in self._placed[1:]):
            at = next(i for i, p in enumerate(self._placed) if p.column is column)
            self._hidden_columns.add(column.key)
            self._choose_columns()
            if self.chosen_column:
                self.choose_column(self._placed[min(at, len(self._placed) - 1)].column.key)

    def action_unfold_columns(self) -> None:
        """Show the hidden columns again."""
        if self._hidden_columns:
            self._hidden_columns.clear()
            self._choose_columns()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor on one click, open the row on two; sort by a clicked title."""
        at = int(self.scroll_offset.y) + event.y - 1
        if event.y == 0:
            title = next((p for p in self._placed if p.x <= event.x < p.x + p.width + GAP), None)
            if title is not None:
                self.post_message(self.SortRequested(self, title.column.key))
        elif 0 <= at < len(self.keys):
            self.move_to(self.keys[at])
            if event.chain == 2:
                self.post_message(self.Chosen(self, self.keys[at]))

    # Layout

    @property
    def _hidden_columns(self) -> set[str]:
        return folded_in(self.app, f"{type(self).__name__} {' '.join(c.key for c in self.columns)}")

    def _measure(self, rows: Iterable[Cells]) -> bool:
        """Measure these rows. Return whether a column must be wider."""
        grown, natural, same = False, self._natural, self._same
        for row in rows:
            for key, cell in row.items():
                wide = len(cell) if isinstance(cell, str) else cell.cell_length
                if wide > natural.get(key, 0):
                    natural[key] = wide
                    grown = True
                if (known := same.get(key, _NOT_SEEN)) is not None:
                    text = cell if isinstance(cell, str) else cell.plain
                    text = "" if text in _BLANK else text
                    if text != known:
                        same[key] = text if known is _NOT_SEEN else None
                        grown = True
        return grown

    @property
    def _spare(self) -> set[str]:
        """The keys of the columns that give their room away: all their cells are blank, or the same."""
        several = len(self.keys) > 1
        return {
            column.key
            for column in self.columns
            if column.spare
            and column.key not in self.pinned
            and column.key != self.sorted_by
            and (text := self._same.get(column.key)) is not None
            and (not text or (several and column.spare == "same"))
        }

    def _prepare(self) -> None:
        """Create and measure each row in view once, before it is painted."""
        if self._make is not None:
            new = [key for key in self.in_view if key not in self._measured]
            self._measured.update(new)
            if self._measure(map(self.cells_of, new)):
                self._choose_columns()

    def _choose_columns(self) -> None:
        """Choose the columns and their widths for the current width."""
        if self._place_columns():
            self.refresh()

    def _place_columns(self) -> bool:
        """Place the columns, even for a hidden table of size 0. Return whether the columns have changed."""
        if not self.is_attached:
            return False
        width = self._size.width - self.styles.gutter.width - 1  # The last cell belongs to the scroll bar.
        away = self._hidden_columns | self._spare
        placed = place(self.columns, self._natural, width, away, self.pinned)
        if placed == self._placed:
            return False
        self._placed = placed
        self._strips.clear()
        return True

    def _reorder(self, order: Sequence[str], parents: Mapping[str, str]) -> None:
        old_at, seen = self._cursor_at(), tuple(self.in_view)
        self._shown.set_order(order, parents)
        if self.marks:
            self.marks &= self._shown.index.keys()
        if self._cursor not in self._shown.index:
            at = min(old_at or 0, len(self.keys) - 1)
            self._cursor = self.keys[at] if self.keys else None
            self.post_message(self.Moved(self, self._cursor))
        self._order_changed(old_at, seen)

    def _order_changed(self, old_at: int | None, seen: Sequence[str]) -> None:
        """Keep the cursor's line at its screen position after a change of order.

        `old_at` is the cursor's old index; `seen` has the keys that were in view. Only changes are painted.
        """
        # Nothing scrolls sideways, so the width does not matter.
        self.virtual_size = Size(1, len(self.keys) + 1)
        if not self.size and len(self.keys) > self.app.size.height:
            # Set before the first layout, which saves a second layout.
            self.show_vertical_scrollbar = True
        new_at = self._cursor_at()
        if old_at is not None and new_at is not None and self.scroll_offset.y > 0:
            self.scroll_to(y=self.scroll_offset.y + new_at - old_at, animate=False)
        self._follow_cursor()
        if tuple(self.in_view) != seen:
            self.refresh()

    def _cursor_at(self) -> int | None:
        return None if self._cursor is None else self._shown.index.get(self._cursor)

    def _follow_cursor(self) -> None:
        at = self._cursor_at()
        page, top = self.size.height - 1, int(self.scroll_target_y)
        if at is None or page <= 0:
            return
        # Force the scroll, because before the first layout with these rows there is no scroll bar and nothing
        # would scroll.
        if at < top:
            self.scroll_to(y=at, animate=False, force=True)
        elif at >= top + page:
            self.scroll_to(y=at - page + 1, animate=False, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Create and measure the rows now in view."""
        super().watch_scroll_y(old_value, new_value)
        self._prepare()

    def on_mount(self) -> None:
        """Hide the columns that were hidden before."""
        self._choose_columns()

    def _size_updated(
        self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True
    ) -> bool:
        """Choose the columns before the first paint in the new size, because the resize event arrives only
        after that paint."""
        old = self._size
        changed = super()._size_updated(size, virtual_size, container_size, layout)
        if size != old:
            if size.width != old.width:
                self._strips.clear()
            if self._make is not None:
                self._measure(self.cells_of(key) for key in self.in_view)
            self._place_columns()
        return changed

    def on_resize(self) -> None:
        """Keep the cursor in view."""
        self._follow_cursor()

    def notify_style_update(self) -> None:
        """Repaint everything, for another theme or focus."""
        super().notify_style_update()
        self._strips.clear()
        self._painter.clear()

    # Paint

    def _forget(self, key: str) -> None:
        self._measured.discard(key)
        for cursor, marked in product((False, True), repeat=2):
            self._strips.pop((key, cursor, marked), None)

    def _row_at(self, key: str) -> int | None:
        """Return the view's line with the row; `None` if it is not in view."""
        at = self._shown.index.get(key)
        y = -1 if at is None else at + 1 - int(self.scroll_offset.y)
        return y if 1 <= y < self.size.height else None

    def _repaint(self, key: str) -> None:
        y = self._row_at(key)
        if y is not None:
            self.refresh(Region(0, y, self.size.width, 1))

    def _repaint_header(self) -> None:
        self.refresh(Region(0, 0, self.size.width, 1))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines of a region, drawn once and cached; Textual's cache would draw each row as text
        and styles again."""
        left, right = crop.column_span
        lines = [self.render_line(y) for y in crop.line_range]
        return lines if right - left == self.size.width else [line.crop(left, right) for line in lines]

    def render_line(self, y: int) -> Strip:
        """Return line `y` of the view. Line 0 is the header, which does not scroll."""
        if y == 0:
            return self._painter.header(
                self._placed,
                len(self._hidden_columns),
                sorted_by=self.sorted_by,
                reverse=self.reverse,
                chosen=self.chosen_column,
            )
        at = int(self.scroll_offset.y) + y - 1
        if at >= len(self.keys):
            return self._painter.blank()
        key = self.keys[at]
        state = _, cursor, marked = key, key == self._cursor, key in self.marks
        strip = self._strips.get(state)
        if strip is None:
            strip = self._painter.row(self.cells_of(key), self._placed, cursor=cursor, marked=marked)
            self._strips[state] = strip
        return strip
