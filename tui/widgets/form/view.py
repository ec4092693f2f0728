"""A form drawn line by line: sections, pools as cards, fields with their values and problems.

One widget draws all fields. The cursor is a row's key, so it stays on its field when rows above are added or
removed. Only rows in view are drawn, and a row is redrawn only when it differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style

from tui.actions.registry import bindings
from tui.domain.core.text import plain
from tui.domain.document.source import ProblemSeverity
from tui.domain.form.rows import FormRow, RowKind

GUTTER = 2
"""Width before a label, for a problem's glyph and the sign of a change, in cells."""
MIN_LABEL, MAX_LABEL = 22, 30
MIN_VALUE = 24
GAP = 2
HEADS = frozenset({RowKind.SECTION, RowKind.POOL, RowKind.SWITCH})
_MARK = {
    ProblemSeverity.ERROR: ("✗", "form--error"),
    ProblemSeverity.WARNING: ("!", "form--warning"),
    ProblemSeverity.NOTE: ("·", "form--note"),
}
CHANGED = "~"
Part = tuple[str, str]
"""Text and its component class."""


class FormView(ScrollView, can_focus=True):
    """The rows of a form. Posts `Moved` when the cursor changes its row, `Chosen` on a double click."""

    BINDINGS = bindings("formview")
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "form--cursor", "form--head", "form--label", "form--value", "form--reference", "form--note",
        "form--error", "form--warning", "form--changed", "form--rule",
    }  # fmt: skip
    DEFAULT_CSS = """
    FormView {
        height: 1fr;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
        .form--cursor { background: $block-cursor-blurred-background; }
        .form--head { background: $surface; text-style: bold; }
        .form--label { color: $text-muted; }
        .form--value { color: $foreground; }
        .form--reference { color: $text-primary; }
        .form--note { color: $text-disabled; }
        .form--rule { color: $text-disabled; }
        .form--error { color: $text-error; }
        .form--warning { color: $text-warning; }
        .form--changed { color: $text-accent; text-style: bold; }
        &:focus .form--cursor { background: $block-cursor-background; }
        &:ansi {
            .form--cursor, .form--head { background: ansi_default; }
            .form--label, .form--note, .form--rule { color: ansi_default; text-style: dim; }
        }
    }
    """

    @dataclass
    class Moved(Message):
        """The cursor is on another row."""

        key: str

    @dataclass
    class Chosen(Message):
        """A row was clicked twice."""

        key: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[FormRow] = ()
        self._index: dict[str, int] = {}
        self._cursor = 0
        self._strips: dict[tuple[str, bool], tuple[FormRow, Strip]] = {}
        self._styles: dict[str, Style] = {}

    # Rows and the cursor

    def show(self, rows: Sequence[FormRow], cursor: str = "") -> None:
        """Show these rows. Only changed rows are painted.

        The cursor stays on its row, or goes to `cursor`.
        """
        old, before = self.rows, self.current
        known = {row.key: row for row in old}
        self.rows = [known[row.key] if known.get(row.key) == row else row for row in rows]
        self._index = {row.key: i for i, row in enumerate(rows)}
        target = cursor or (before.key if before else "")
        moved = self._index.get(target)
        old_at, self._cursor = self._cursor, moved if moved is not None else self._cursor
        self._cursor = max(0, min(len(self.rows) - 1, self._cursor))
        self._strips = {look: kept for look, kept in self._strips.items() if look[0] in self._index}
        if len(old) != len(self.rows):
            self.virtual_size = Size(1, len(self.rows))
        if self._cursor != old_at and self.scroll_offset.y > 0 and not cursor:
            self.scroll_to(y=self.scroll_offset.y + self._cursor - old_at, animate=False)
        self._follow()
        if len(old) != len(self.rows) or self._cursor != old_at:
            self.refresh()
        else:
            for i, (a, b) in enumerate(zip(old, self.rows, strict=True)):
                if a is not b:
                    self._repaint(i)
        if before is None or self.current != before:
            self._tell()

    @property
    def current(self) -> FormRow | None:
        """The row under the cursor."""
        return self.rows[self._cursor] if 0 <= self._cursor < len(self.rows) else None

    def row(self, key: str) -> FormRow | None:
        """Return the row of that key, if it is shown."""
        at = self._index.get(key)
        return None if at is None else self.rows[at]

    def move_to(self, key: str) -> bool:
        """Move the cursor to a row. Return whether the row is shown."""
        at = self._index.get(key)
        if at is not None:
            self._go(at)
        return at is not None

    def _go(self, at: int) -> None:
        at = max(0, min(len(self.rows) - 1, at))
        if at != self._cursor and self.rows:
            old, self._cursor = self._cursor, at
            self._repaint(old)
            self._repaint(at)
            self._tell()
        self._follow()

    def _tell(self) -> None:
        row = self.current
        if row is not None:
            self.post_message(self.Moved(row.key))

    def _follow(self) -> None:
        page, top = self.size.height, int(self.scroll_target_y)
        if page <= 0:
            return
        if abs(self._cursor - (top + page // 2)) > page:
            # The row is far away, so show the rows around it too.
            self.scroll_to(y=max(0, self._cursor - page // 3), animate=False)
        elif self._cursor < top:
            # Show a section's head together with its first row.
            self.scroll_to(y=max(0, self._cursor - 1), animate=False)
        elif self._cursor >= top + page:
            self.scroll_to(y=self._cursor - page + 1, animate=False)

    def action_cursor_down(self) -> None:
        """Move to the next row."""
        self._go(self._cursor + 1)

    def action_cursor_up(self) -> None:
        """Move to the previous row."""
        self._go(self._cursor - 1)

    def action_first(self) -> None:
        """Move to the first row."""
        self._go(0)

    def action_last(self) -> None:
        """Move to the last row."""
        self._go(len(self.rows) - 1)

    def action_page_down(self) -> None:
        """Move a page down."""
        self._go(self._cursor + max(1, self.size.height - 1))

    def action_page_up(self) -> None:
        """Move a page up."""
        self._go(self._cursor - max(1, self.size.height - 1))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor on one click, open the row on two."""
        at = int(self.scroll_offset.y) + event.y
        if 0 <= at < len(self.rows):
            self._go(at)
            if event.chain == 2:
                self.post_message(self.Chosen(self.rows[at].key))

    # Layout

    @property
    def label_width(self) -> int:
        """Width of the label column in cells, including the gutter."""
        return GUTTER + max(MIN_LABEL, min(MAX_LABEL, self.size.width // 5))

    @property
    def value_width(self) -> int:
        """Width of the value column in cells."""
        return max(MIN_VALUE, (self.size.width - self.label_width) // 2)

    def place_of(self, key: str) -> tuple[Offset, int] | None:
        """Return the offset of a row's value in the widget, and the available width in cells."""
        at = self._index.get(key)
        if at is None:
            return None
        return Offset(
            self.label_width, at - int(self.scroll_offset.y)
        ), self.size.width - self.label_width - 1

    # Paint

    def on_resize(self) -> None:
        """Draw the rows for the new width."""
        self._strips.clear()
        self._follow()

    def notify_style_update(self) -> None:
        """Draw the rows in the new theme, or with another focus."""
        super().notify_style_update()
        self._strips.clear()
        self._styles.clear()

    def _repaint(self, at: int) -> None:
        y = at - int(self.scroll_offset.y)
        if 0 <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines of a region, drawn once and cached; Textual's cache would style them again."""
        left, right = crop.column_span
        lines = [self.render_line(y) for y in crop.line_range]
        return lines if (left, right) == (0, self.size.width) else [line.crop(left, right) for line in lines]

    def render_line(self, y: int) -> Strip:
        """Return line `y` of the view."""
        at = int(self.scroll_offset.y) + y
        if at >= len(self.rows):
            return Strip.blank(self.size.width, self.visual_style.rich_style)
        row, cursor = self.rows[at], at == self._cursor
        kept = self._strips.get((row.key, cursor))
        if kept is None or kept[0] is not row:
            kept = self._strips[row.key, cursor] = (row, self._drawn(row, cursor))
        return kept[1]

    def _drawn(self, row: FormRow, cursor: bool) -> Strip:
        base = self.visual_style
        if row.kind in HEADS:
            base = self.get_visual_style("form--head")
        if cursor:
            turned = self.app.native_ansi_color
            base = base + Style(reverse=True) if turned else self.get_visual_style("form--cursor")
        segments = []
        for text, part in self._parts(row):
            # The faintest colour is not legible on the cursor's background.
            name = "form--label" if cursor and part == "form--note" else part
            style = base if not name or (cursor and self.app.native_ansi_color) else base + self._fore(name)
            segments.append(Segment(text, style.rich_style))
        strip = Strip(segments).adjust_cell_length(self.size.width, base.rich_style)
        for line_filter in self.get_line_filters():
            strip = strip.apply_filter(line_filter, self.background_colors[1])
        return strip

    def _fore(self, name: str) -> Style:
        """Return a component's colour and weight, without its background."""
        cached = self._styles.get(name)
        if cached is None:
            style = self.get_visual_style(name)
            cached = self._styles[name] = Style(foreground=style.foreground, bold=style.bold, dim=style.dim)
        return cached

    def _parts(self, row: FormRow) -> list[Part]:
        mark, tone = _MARK[row.severity] if row.severity else (" ", "")
        parts: list[Part] = [(mark, tone), (CHANGED if row.changed else " ", "form--changed")]
        head = row.kind in HEADS
        rule = "│ " if row.depth and "workerPoolSpecs" in row.key else "  " * min(1, row.depth)
        indent = "  " * max(0, row.depth - 1)
        arrow = "▾ " if row.open else "▸ " if row.open is not None else ("" if head else "  ")
        wide = self.label_width - GUTTER
        parts.append((rule, "form--rule"))
        label = self._cut(f"{indent}{arrow}{plain(row.label)}", wide - len(rule) - 1)
        parts.append((label + " ", "" if head else "form--label"))
        return parts + self._value_parts(row, self.size.width - 1 - self.label_width)

    def _value_parts(self, row: FormRow, room: int) -> list[Part]:
        if row.problems:
            problem = row.problems[0]
            note, tone = problem.message, _MARK[row.severity or ProblemSeverity.NOTE][1]
        else:
            note, tone = row.note, "form--note"
        note, value = plain(note), plain(row.value) if row.is_set or row.value else ""
        if not value and not row.is_set and row.kind in {RowKind.FIELD, RowKind.LIST}:
            value = "–"
        style = (
            "form--reference" if row.parameter else "form--value" if row.is_set or row.value else "form--note"
        )
        if row.kind is RowKind.MORE:
            return [(self._cut(note, room), "form--note")]
        if not note:
            return [(self._cut(value, room), style)]
        if not value:
            return [(self._cut(note, room), tone)]
        if row.problems:
            # A problem uses the width of the column beside it.
            wide = max(min(cell_len(value), self.value_width) + GAP, MIN_VALUE // 2)
            return [
                (self._cut(value, wide - GAP), style),
                (" " * GAP, ""),
                (self._cut(note, room - wide), tone),
            ]
        wide = min(max(self.value_width, room - cell_len(note) - GAP), max(cell_len(value), self.value_width))
        return [(self._cut(value, wide - GAP), style), (" " * GAP, ""), (self._cut(note, room - wide), tone)]

    def _cut(self, text: str, width: int) -> str:
        """Return `text` in exactly `width` cells, cut with an ellipsis."""
        width = max(1, width)
        if cell_len(text) > width:
            text = set_cell_size(text, width - 1) + "…"
        return set_cell_size(text, width)
