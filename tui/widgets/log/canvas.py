"""Draws the lines of a log that are in view. `tui.widgets.log.view` chooses the lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.store.job.log_views import LogViews
from tui.store.log.lines import Line
from tui.store.log.view import LineSource, View
from tui.widgets.log.paint import LinePainter
from tui.widgets.log.render import line_text
from tui.widgets.log.rows import top_for, visible_rows
from tui.widgets.state import wants_ascii

CACHED_ROWS = 1_000
"""Number of drawn rows in the cache."""


class LogCanvas(ScrollView):
    """The drawing of a log. Rows are cached until the style, width or order of lines changes."""

    def __init__(self, buffer: LineSource, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.buffer = buffer
        self.following = True
        self.paused = False
        self.paint = LinePainter(self._component_style)
        self.views = LogViews(buffer, line_text)
        self._cursor: Line | None = None
        self._mark: Line | None = None
        self._rows: list[tuple[int, int]] | None = None
        self._shown: Sequence[int] = ()
        self._thumb: tuple[int, int, int] = (0, 0, 0)
        self._background = Color(0, 0, 0)
        self._filters: tuple[LineFilter, ...] = ()
        self._strips: dict[tuple[int, int, str], Strip] = {}
        self._strips_of: object = None
        self._looks: dict[str, Style] = {}

    def on_mount(self) -> None:
        self.paint.ascii_only = wants_ascii(self)

    @property
    def view(self) -> View:
        """The shown lines."""
        return self.views.shown

    # Layout

    def _top(self) -> int:
        return max(0, int(self.scroll_offset.y))

    def _bottom_top(self) -> int:
        """Return the position of the first line of the last page."""
        return top_for(self.view, self.paint, max(1, self.size.height), len(self.view) - 1)

    def _height(self) -> int:
        return self._bottom_top() + self.size.height if self.paint.tall else len(self.view)

    def _visible(self) -> list[tuple[int, int]]:
        """Return (position, row of the line) for each row of the screen that has a line."""
        if self._rows is None:
            size, top = self.size, self._top()
            self._rows = visible_rows(self.view, self.paint, size.height, top, following=self.following)
        return self._rows

    def _numbers(self) -> list[int]:
        return [self.view.number(at) for at, _ in self._visible()]

    # Drawing

    def _show_thumb(self) -> None:
        """Move the scroll bar's thumb only if its cells change, because drawing it is expensive.

        The bar has no thumb while following, because it would scroll away with the lines and be sent again
        for each line.
        """
        height, lines, top = self.size.height, self.virtual_size.height, self.scroll_offset.y
        if self.following:
            lines, top = height, 0
        size = max(1.0, height * height / lines) if lines > height else float(height)
        start = (height - size) * top / (lines - height) if lines > height else 0.0
        thumb = (int(start * 8), int(size * 8), height)
        if thumb != self._thumb:
            self._thumb = thumb
            bar = self.vertical_scrollbar
            bar.window_virtual_size, bar.window_size, bar.position = lines, height, top

    def _scroll_update(self, virtual_size: Size) -> None:
        """Ignore Textual's layout of the scroll bar, which this widget sets itself."""
        super()._scroll_update(virtual_size)
        self._thumb = (0, 0, 0)
        self._show_thumb()

    def _repaint(self) -> None:
        self._clear_paint()
        self._rows = None
        self.refresh()

    def _clear_paint(self) -> None:
        self.paint.clear()
        self._strips.clear()

    def notify_style_update(self) -> None:
        """Draw the rows in the new theme."""
        super().notify_style_update()
        self._looks.clear()
        self._clear_paint()

    def _component_style(self, name: str) -> Style:
        if name not in self._looks:
            if name == "selected":
                self._looks[name] = self.screen.get_component_rich_style("screen--selection")
            elif name == "base":
                self._looks[name] = self.rich_style
            else:
                self._looks[name] = self.get_component_rich_style(f"log--{name}", partial=True)
        return self._looks[name]

    def render_line(self, y: int) -> Strip:
        """Return row `y` of the view without padding. Its segments hold their character offsets."""
        return self._paint_rows(range(y, y + 1), offsets=True)[0]

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the rows of a region, from the cache if they were drawn before."""
        self._filters = tuple(self.get_line_filters())
        known = (self.buffer.revision, self.text_selection, self._filters)
        if known != self._strips_of or len(self._strips) > CACHED_ROWS:
            self._clear_paint()
            self._strips_of, self._background = known, self.background_colors[1]
        strips = self._paint_rows(crop.line_range)
        left, right = crop.column_span
        if (left, right) != (0, self.styles.padding.left + self.paint.width):
            strips = [strip.crop(left, right) for strip in strips]
        return strips

    def _paint_rows(self, shown: Iterable[int], *, offsets: bool = False) -> list[Strip]:
        rows, view, selection = self._visible(), self.view, self.text_selection
        extra_style, strips = self._extra_styles(), []
        blank: Strip | None = None
        for y in shown:
            if y >= len(rows) or rows[y][0] >= len(view):
                if blank is None:
                    blank = Strip.blank(self.size.width, self._component_style("base"))
                    blank = blank if offsets else self._finished(blank)
                strips.append(blank)
                continue
            at, row = rows[y]
            number = view.number(at)
            extra = extra_style(number)
            strip = None if offsets else self._strips.get((number, row, extra))
            if strip is None:
                base = self._component_style("base")
                base = base + self._component_style(extra) if extra else base
                line = self.buffer[number]
                strip = self.paint.row(line, number, row, base, selection=selection, offsets=offsets)
                if not offsets:
                    strip = self._strips[number, row, extra] = self._finished(strip)
            strips.append(strip)
        return strips

    def _finished(self, strip: Strip) -> Strip:
        """Add the padding and apply the terminal's colour filters."""
        pad = self.styles.padding.left
        segments = [Segment(" " * pad, self._component_style("base")), *strip] if pad else list(strip)
        # `Strip.apply_filter` would create a strip for each filter, which is expensive.
        for line_filter in self._filters:
            segments = line_filter.apply(segments, self._background)
        return Strip(segments, strip.cell_length + pad)

    def _extra_styles(self) -> Callable[[int], str]:
        """Return a function from a line's number to its extra style: cursor, marked range, or ""."""
        if self.following or self._cursor is None:
            return lambda _: ""
        cursor = self.buffer.find(self._cursor)
        mark = cursor if self._mark is None else self.buffer.find(self._mark)
        low, high = min(cursor, mark), max(cursor, mark)
        return lambda number: "cursor" if number == cursor else "marked" if low <= number <= high else ""
