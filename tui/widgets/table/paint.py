"""One row of a table as a strip, built cell by cell: Textual's text layout takes five times as long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from tui.widgets.table.columns import GAP, PlacedColumn

Cell = Content | str
"""A cell: text with or without styles, never parsed as markup."""
LEAST = 10
"""Minimum width of a name beside a note, in cells."""
MARK = Content.styled("▌", "$accent bold")


class RowPainter:
    """Draws the lines of one table in the component styles `table--…` of its widget."""

    def __init__(self, table: Widget) -> None:
        self._table = table
        self._styles: dict[str, Style] = {}
        self._blank: Strip | None = None

    def clear(self) -> None:
        """Clear the cached styles, for another theme."""
        self._styles.clear()
        self._blank = None

    def blank(self) -> Strip:
        """Return an empty line."""
        width = self._table.size.width
        if self._blank is None or self._blank.cell_length != width:
            self._blank = self._finished([(" " * width, self._table.visual_style)], width)
        return self._blank

    def header(
        self, placed: Sequence[PlacedColumn], folded: int, *, sorted_by: str, reverse: bool, chosen: str
    ) -> Strip:
        """Return the titles with an arrow at the sorted column, and a + before them if columns are hidden."""
        table = self._table
        base = table.get_visual_style("table--header")
        # The header does not need the mark's cells.
        note = "+" if folded else ""
        parts: list[tuple[str, Style]] = [(note.ljust(GAP), base)]
        for column, width, _ in placed:
            title = column.title
            if column.key == sorted_by:
                title += "▼" if reverse else "▲"
                title = title if len(title) <= width else title[: width - 1] + title[-1]
            title = title.rjust(width) if column.right else title.ljust(width)
            style = base
            if column.key == chosen:
                style = table.get_visual_style("table--column") + Style(underline=True)
            parts += [(title, style), (" " * GAP, base)]
        return self._finished(parts, table.size.width)

    def row(
        self, cells: Mapping[str, Cell], placed: Sequence[PlacedColumn], *, cursor: bool, marked: bool
    ) -> Strip:
        """Return a row's cells in their columns."""
        table = self._table
        base = table.get_visual_style("table--cursor") if cursor else table.visual_style
        # No colour of the 16 is legible on all others, so the cursor's row is reversed.
        reversed_ = cursor and table.app.native_ansi_color
        if reversed_:
            base = base + Style(reverse=table.has_focus, bold=True)
        parts: list[tuple[str, Style]] = []
        if marked:
            parts += self._text(MARK, base, plain=reversed_)
            parts.append((" " * (GAP - 1), base))
        else:
            parts.append((" " * GAP, base))
        for column, width, _ in placed:
            cell = cells.get(column.key, "")
            if isinstance(cell, str):
                wide = len(cell) if cell.isascii() else cell_len(cell)
                if wide > width:
                    cell, wide = set_cell_size(cell, width - 1) + "…", width
                shown: Iterator[tuple[str, Style]] = iter(((cell, base),))
            else:
                if cell.cell_length > width:
                    cell = cut_middle(cell, width) if column.ends else cell.truncate(width, ellipsis=True)
                wide = cell.cell_length
                shown = self._text(cell, base, plain=reversed_)
            space = " " * (width - wide)
            if column.right:
                parts.append((space, base))
                parts += shown
                parts.append((" " * GAP, base))
            else:
                parts += shown
                parts.append((space + " " * GAP, base))
        end = placed[-1].x + placed[-1].width + GAP if placed else GAP
        parts.append((" " * (table.size.width - end), base))
        return self._finished(parts, table.size.width)

    def _text(self, content: Content, base: Style, *, plain: bool) -> Iterator[tuple[str, Style]]:
        spans = content.spans
        if plain or not spans:
            return iter(((content.plain, base),))
        if len(spans) == 1 and spans[0].start <= 0 and spans[0].end >= len(content):
            # A single style throughout, as in most cells.
            return iter(((content.plain, base + self._style(spans[0].style)),))
        return iter(content.render(base, "", self._style))

    def _style(self, style: str | Style) -> Style:
        if isinstance(style, Style):
            return style
        known = self._styles.get(style)
        if known is None:
            known = self._styles[style] = Style.parse(style)
        return known

    def _finished(self, parts: Sequence[tuple[str, Style]], width: int) -> Strip:
        """Return the line as wide as the table, with neighbours of the same style joined, in the terminal's
        colours."""
        segments: list[Segment] = []
        text, current = "", parts[0][1]
        for more, style in parts:
            if style is current or style == current:
                text += more
            else:
                if text:
                    segments.append(Segment(text, current.rich_style))
                text, current = more, style
        segments.append(Segment(text, current.rich_style))
        strip = Strip(segments).adjust_cell_length(width, self._table.visual_style.rich_style)
        for line_filter in self._table.get_line_filters():
            strip = strip.apply_filter(line_filter, self._table.background_colors[1])
        return strip


def cut_middle(cell: Content, width: int) -> Content:
    """Return the text in `width` cells, with an ellipsis instead of its middle.

    A note after the text is cut first; if that does not suffice, the note is shown completely or removed.
    """
    name, note = _without_note(cell)
    if name.cell_length <= width and note:
        return cell.truncate(width, ellipsis=True)
    note = note if width - note.cell_length >= LEAST else Content("")
    width -= note.cell_length
    room, start = width // 2, len(name)
    while start and (room := room - cell_len(name.plain[start - 1])) >= 0:
        start -= 1
    end = name[start:]
    return Content.assemble(name.truncate(width - 1 - end.cell_length), "…", end, note)


def _without_note(cell: Content) -> tuple[Content, Content]:
    """Split a name and the note after it, which is muted and two cells away, such as `  3 parts`."""
    last = max(cell.spans, key=lambda span: span.end, default=None)
    if last is None or last.end < len(cell) or not cell.plain[last.start :].startswith("  "):
        return cell, Content("")
    return cell[: last.start], cell[last.start :]


def same_cell(old: Cell | None, new: Cell | None) -> bool:
    """Return whether both cells look the same."""
    if old is new:
        return True
    if isinstance(old, Content) and isinstance(new, Content):
        return old.is_same(new)
    return type(old) is type(new) and old == new
