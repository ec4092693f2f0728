"""A table that holds any number of rows and paints only those in view; the cursor is a row's key.

Rows live in a dict by key and are shown in an order of keys. The cursor and the marks follow the key
through refresh, sort and removal, so that a key press never hits another row than the one it was on.
Columns give way by themselves: at a width where not all fit, the least important ones are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style
from textual.visual import Visual

from tui.actions import bindings
from tui.widgets.state import glyphs

Cells = Mapping[str, Content]
GAP = 2
EMPTY = Content("")


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `width` is the least and `most` the greatest; the one that is `flex` takes what is left.

    Columns with the greatest `rank` are left out first where the width does not do for all of them; rank 0
    always stays.
    """

    key: str
    title: str
    width: int
    most: int = 0
    rank: int = 0
    right: bool = False
    flex: bool = False


class Table(ScrollView, can_focus=True):
    """See the module. Post `Moved` when the cursor is on another row, `Chosen` for a double click."""

    BINDINGS = bindings("table")
    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--header", "table--cursor", "table--mark"}
    DEFAULT_CSS = """
    Table {
        height: 1fr;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
        .table--header { color: $text-muted; text-style: none; }
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

    def __init__(self, columns: Sequence[Column], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.columns = tuple(columns)
        self.marks: set[str] = set()
        self.sorted_by = ""
        self.reverse = False
        self._rows: dict[str, Cells] = {}
        self._order: list[str] = []
        self._index: dict[str, int] = {}
        self._cursor: str | None = None
        self._natural: dict[str, int] = {}
        self._chosen: list[tuple[Column, int]] = []
        self._strips: dict[tuple[str, bool, bool], Strip] = {}

    # Rows

    @property
    def keys(self) -> Sequence[str]:
        """Keys of the rows shown, from the top."""
        return self._order

    @property
    def cursor(self) -> str | None:
        """Key of the row the cursor is on."""
        return self._cursor

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def show(self, order: Sequence[str], cells: Mapping[str, Cells]) -> None:
        """Show these rows in this order; `cells` holds the rows that are new or have changed.

        Only what differs is painted. The cursor stays on its row; where that is gone, it goes to the row
        that took its place.
        """
        changed = {key: row for key, row in cells.items() if self._rows.get(key) != row}
        self._rows.update(changed)
        for key in changed:
            self._forget(key)
        grown = self._measure(changed.values())
        moved = list(order) != self._order
        if moved:
            self._reorder(list(order))
        if grown:
            self._choose_columns()
        elif moved:
            self.refresh()
        else:
            for key in changed:
                self._repaint(key)

    def clear_widths(self) -> None:
        """Let columns shrink again, e.g. for a new filter."""
        self._natural.clear()
        self._measure(self._rows[key] for key in self._order)
        self._choose_columns()

    def set_sort(self, column: str, reverse: bool) -> None:
        """Say in the header what the rows are sorted by."""
        if (self.sorted_by, self.reverse) != (column, reverse):
            self.sorted_by, self.reverse = column, reverse
            self.refresh_line(int(self.scroll_offset.y))

    def mark(self, keys: Iterable[str], on: bool) -> None:
        """Mark rows, or take their marks away."""
        for key in keys:
            (self.marks.add if on else self.marks.discard)(key)
            self._repaint(key)

    def move_to(self, key: str) -> None:
        """Put the cursor on a row and bring it into view; nothing happens for a key not shown."""
        if key in self._index and key != self._cursor:
            old, self._cursor = self._cursor, key
            if old is not None:
                self._repaint(old)
            self._repaint(key)
            self.post_message(self.Moved(self, key))
        self._follow_cursor()

    # The user's moves

    def _step(self, rows: int) -> None:
        if self._order:
            at = self._index.get(self._cursor or "", 0) + rows
            self.move_to(self._order[max(0, min(len(self._order) - 1, at))])

    def action_cursor_down(self) -> None:
        """Next row."""
        self._step(1)

    def action_cursor_up(self) -> None:
        """Previous row."""
        self._step(-1)

    def action_scroll_top(self) -> None:
        """First row."""
        self._step(-len(self._order))

    def action_scroll_bottom(self) -> None:
        """Last row."""
        self._step(len(self._order))

    def action_page_down(self) -> None:
        """A page further."""
        self._step(max(1, self.size.height - 2))

    def action_page_up(self) -> None:
        """A page back."""
        self._step(-max(1, self.size.height - 2))

    def on_click(self, event: events.Click) -> None:
        """One click moves the cursor, two open the row."""
        at = int(self.scroll_offset.y) + event.y - 1
        if event.y >= 1 and 0 <= at < len(self._order):
            self.move_to(self._order[at])
            if event.chain == 2:
                self.post_message(self.Chosen(self, self._order[at]))

    # Layout

    def _measure(self, rows: Iterable[Cells]) -> bool:
        """Whether a column has to be wider than before."""
        grown = False
        for row in rows:
            for column in self.columns:
                wide = row.get(column.key, EMPTY).cell_length
                if wide > self._natural.get(column.key, 0):
                    self._natural[column.key] = wide
                    grown = True
        return grown

    def _wanted(self, column: Column) -> int:
        wide = max(column.width, self._natural.get(column.key, 0), len(column.title))
        return min(wide, column.most) if column.most else wide

    def _choose_columns(self) -> None:
        """Choose the columns and their widths for the width there is."""
        room = self.size.width - 1
        shown = list(self.columns)
        while shown and sum(max(c.width, len(c.title)) + GAP for c in shown) > room:
            out = max(shown, key=lambda c: c.rank)
            if not out.rank:
                break
            shown.remove(out)
        widths = {c.key: max(c.width, len(c.title)) for c in shown}
        left = room - sum(width + GAP for width in widths.values())
        # The least needs first: a count is shown whole before a long text takes what is left.
        for column in sorted(shown, key=lambda c: self._wanted(c) - widths[c.key]):
            more = max(0, min(left, self._wanted(column) - widths[column.key]))
            widths[column.key] += more
            left -= more
        flexible = next((c for c in shown if c.flex), None)
        if flexible is not None and left > 0:
            most = flexible.most or widths[flexible.key] + left
            widths[flexible.key] += max(0, min(left, most - widths[flexible.key]))
        self._chosen = [(c, widths[c.key]) for c in shown]
        self._strips.clear()
        self.refresh()

    def _reorder(self, order: list[str]) -> None:
        old_at = self._index.get(self._cursor or "")
        self._order = order
        self._index = {key: at for at, key in enumerate(order)}
        for key in [key for key in self._rows if key not in self._index]:
            del self._rows[key]
            self._forget(key)
        self.marks &= self._index.keys()
        self.virtual_size = Size(self.size.width, len(order) + 1)
        if self._cursor not in self._index:
            at = min(old_at or 0, len(order) - 1)
            self._cursor = order[at] if order else None
            self.post_message(self.Moved(self, self._cursor))
        new_at = self._index.get(self._cursor or "")
        if old_at is not None and new_at is not None and self.scroll_offset.y > 0:
            self.scroll_to(y=self.scroll_offset.y + new_at - old_at, animate=False)
        self._follow_cursor()

    def _follow_cursor(self) -> None:
        at = self._index.get(self._cursor or "")
        page = self.size.height - 1
        if at is None or page <= 0:
            return
        top = int(self.scroll_target_y)
        if at < top:
            self.scroll_to(y=at, animate=False)
        elif at >= top + page:
            self.scroll_to(y=at - page + 1, animate=False)

    def on_resize(self) -> None:
        """Choose the columns anew."""
        self.virtual_size = Size(self.size.width, len(self._order) + 1)
        self._choose_columns()
        self._follow_cursor()

    def notify_style_update(self) -> None:
        """A new theme: paint everything anew."""
        super().notify_style_update()
        self._strips.clear()

    # Paint

    def _forget(self, key: str) -> None:
        for state in ((a, b) for a in (False, True) for b in (False, True)):
            self._strips.pop((key, *state), None)

    def _repaint(self, key: str) -> None:
        at = self._index.get(key)
        if at is not None:
            y = at + 1 - int(self.scroll_offset.y)
            if 1 <= y < self.size.height:
                self.refresh_line(at + 1)

    def render_line(self, y: int) -> Strip:
        """Line `y` of the view; line 0 is the header, which does not scroll."""
        if y == 0:
            return self._paint(self._header(), self.get_visual_style("table--header"))
        at = int(self.scroll_offset.y) + y - 1
        if at >= len(self._order):
            return Strip.blank(self.size.width, self.rich_style)
        key = self._order[at]
        look = (key, key == self._cursor, key in self.marks)
        if look not in self._strips:
            row = self._row(key, look[2])
            style = self.get_visual_style("table--cursor") if look[1] else self.visual_style
            if look[1] and self.app.native_ansi_color:
                # No colour of sixteen is legible on every other: the cursor is the row turned round.
                row, style = Content(row.plain), style + Style(reverse=self.has_focus, bold=True)
            self._strips[look] = self._paint(row, style)
        return self._strips[look]

    def _paint(self, line: Content, style: Style) -> Strip:
        width = self.size.width
        strips = Visual.to_strips(self, glyphs(line, self), width, 1, style, pad=True, apply_selection=False)
        return strips[0].crop_extend(0, width, style.rich_style) if strips else Strip.blank(width)

    def _header(self) -> Content:
        parts = [Content(" " * GAP)]
        for column, width in self._chosen:
            title = column.title
            if column.key == self.sorted_by:
                title += "▲" if self.reverse else "▼"
                title = title if len(title) <= width else title[: width - 1] + title[-1]
            parts += [Content(title.rjust(width) if column.right else title.ljust(width)), Content(" " * GAP)]
        return Content.assemble(*parts)

    def _row(self, key: str, marked: bool) -> Content:
        row = self._rows.get(key, {})
        mark = Content.styled("▌", "$accent bold") if marked else Content(" ")
        parts = [mark, Content(" ")]
        for column, width in self._chosen:
            cell = row.get(column.key, EMPTY).truncate(width, ellipsis=True)
            space = Content(" " * (width - cell.cell_length))
            parts += [space, cell] if column.right else [cell, space]
            parts.append(Content(" " * GAP))
        return Content.assemble(*parts)
