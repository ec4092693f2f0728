"""A chart of several lines: a title with the newest figures, then the plot.

textual-plot and numpy are imported when the first chart is mounted (docs/facts/terminal.md 'Textual').
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.widgets import Static

from tui.domain.core.formatting import NOT_MEASURED, figure
from tui.domain.core.text import clip, plain
from tui.widgets.plot.view_range import Range, part, value_at
from tui.widgets.state import wants_ascii

if TYPE_CHECKING:
    from tui.widgets.plot.open_plot import OpenPlot

LABEL = 7
"""Width of the labels of the y axis, in cells."""
MARKS = "*o+x#@"
FAINT_MARK = "."
POINT = "•"
SHORTEST_TITLE = 8
"""Minimum width of a title in cells, if its figures don't fit."""
CROSS_MARGIN = 0.015
"""Fraction of the range that is left free beside a crosshair at its end, so that the line is visible."""
MAX_POINTS = 400
"""Number of points of one line passed to the plot; a terminal has fewer columns."""


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line: x and y of each point in order. The name is "" if it is the only line."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str
    faint: bool = False
    """Whether the line is drawn behind the other lines, without a value in the title or effect on the y
    range."""
    top: bool = False
    """Whether the line is drawn over the other lines."""
    points: bool = False
    """Whether the line is drawn as unconnected points."""


@dataclass(frozen=True, slots=True)
class XView:
    """The shown range of x (None for all), and the crosshair with its colour."""

    window: Range | None = None
    cross: float | None = None
    colour: str = ""


FULL_VIEW = XView()


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment marked at the foot of the plot, such as a checkpoint."""

    x: float
    glyph: str
    colour: str


@dataclass(frozen=True, slots=True)
class ChartFormat:
    """Title, units, ranges and number formats of a chart."""

    title: str
    unit: str = ""
    x_text: Callable[[float], str] = figure
    y_text: Callable[[float], str] = figure
    x_time: bool = False
    """Whether x is in seconds."""
    x_whole: bool = False
    """Whether x counts something, such as steps, so that its axis has only integers."""
    low: float | None = None
    high: float | None = None
    x_view: XView = FULL_VIEW
    log: bool = False
    """Whether y has a log scale. Values of zero and below are left out."""
    marks: tuple[Mark, ...] = ()


def downsample(
    x: Sequence[float], y: Sequence[float], limit: int = MAX_POINTS
) -> tuple[list[float], list[float]]:
    """Return at most `limit` points: the first and last point, and the extremes of each stretch."""
    if len(x) <= limit:
        return list(x), list(y)
    size = math.ceil(len(x) / (limit // 2))
    kept: list[int] = [0]
    for start in range(0, len(x), size):
        stretch = range(start, min(start + size, len(x)))
        kept += sorted({min(stretch, key=y.__getitem__), max(stretch, key=y.__getitem__)})
    kept = sorted({*kept, len(x) - 1})
    return [x[at] for at in kept], [y[at] for at in kept]


def finite_part(line: ChartLine) -> ChartLine:
    """Return the line without NaN and infinity, because the loss of a diverged run is NaN."""
    if all(map(math.isfinite, line.y)):
        return line
    points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
    return replace(line, x=tuple(x for x, _ in points), y=tuple(y for _, y in points))


class Chart(VerticalGroup):
    """A chart. `draw` shows lines, as marks in ASCII mode."""

    DEFAULT_CSS = """
    Chart {
        height: 1fr;
        .chart-title { height: 1; padding: 0 1; }
        .chart-text { height: 1fr; padding: 0 1; text-wrap: nowrap; }
        OpenPlot {
            height: 1fr;
            & > .plot--axis { color: $text-muted; }
            & > .plot--tick { color: $text-muted; text-style: none; }
            & > .plot--label { color: $text-muted; text-style: none; }
        }
    }
    """

    def __init__(self, format: ChartFormat, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.format = format
        self._lines: tuple[ChartLine, ...] = ()
        self._drawn: list[ChartLine] = []
        self._plot: OpenPlot | None = None
        self._ascii = False

    @dataclass
    class Clicked(Message):
        """The plot was clicked at this x."""

        chart: Chart
        x: float

    def on_click(self, event: Click) -> None:
        """Post the x value under the mouse."""
        if self._plot is None:
            return
        canvas = self._plot.query_one("#plot").region
        if canvas.contains(event.screen_x, event.screen_y):
            x, _ = self._plot.get_coordinate_from_pixel(event.screen_x - canvas.x, event.screen_y - canvas.y)
            first, last = self._window()
            self.post_message(self.Clicked(self, max(first, min(last, float(x)))))

    def compose(self) -> ComposeResult:
        yield Static("", classes="chart-title", markup=False)
        self._ascii = wants_ascii(self)
        if self._ascii:
            yield Static("", classes="chart-text", markup=False)
        else:
            from tui.widgets.plot.open_plot import OpenPlot  # noqa: PLC0415

            self._plot = OpenPlot(allow_pan_and_zoom=False)
            self._plot.can_focus = False
            yield self._plot

    def on_mount(self) -> None:
        if self._plot is not None:
            self._plot.margin_top, self._plot.margin_bottom, self._plot.margin_left = 0, 1, 8
        self._paint()

    def _size_updated(
        self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True
    ) -> bool:
        """Paint for a new size. Textual sends no Resize if a size was requested just before the layout."""
        old = self._size
        changed = super()._size_updated(size, virtual_size, container_size, layout)
        if size != old:
            self.call_later(self._paint)
        return changed

    def draw(self, lines: Sequence[ChartLine], format: ChartFormat | None = None) -> None:
        """Show these lines. Only changes are painted."""
        format = format or self.format
        if tuple(lines) != self._lines or format != self.format:
            self.format, self._lines = format, tuple(lines)
            self._paint()

    def _paint(self) -> None:
        if not self.is_mounted or not self.size.width:
            return
        title = self.query_one(".chart-title", Static)
        # Where lines meet, the last drawn line is visible.
        ordered = sorted(self._lines, key=lambda line: (not line.faint, line.top))
        lines = [self._cut(finite_part(line)) for line in ordered if line.x]
        self._drawn = [_logarithm(line) for line in lines] if self.format.log else lines
        title.update(self._title(max(8, self.size.width - 2)), layout=False)
        if self._plot is not None:
            self._paint_plot(self._plot)
        else:
            self.query_one(".chart-text", Static).update(self._ascii_plot(), layout=False)

    def _title(self, room: int) -> Content:
        """Return the title and each line's value in `room` cells. The title is cut before the figures."""
        figures = self._title_figures()
        name = self.format.title
        over = len(name) + sum(text.cell_length for text in figures) - room
        if over > 0:
            name = clip(name, max(SHORTEST_TITLE, len(name) - over))
        shown = Content.styled(name, "bold")
        for at, text in enumerate(figures):
            last = at == len(figures) - 1
            if shown.cell_length + text.cell_length + (0 if last else 2) > room:
                return Content.assemble(shown, (" …", "$text-muted"))
            shown = shown + text
        return shown

    def _title_figures(self) -> list[Content]:
        """Return the texts after the title: its unit, the crosshair, and the value of each line."""
        parts: list[Content] = []
        if self.format.unit:
            parts.append(Content.styled(f" {self.format.unit}", "$text-muted"))
        if self.format.x_view.cross is not None:
            parts.append(Content.styled(f"  at {self.format.x_text(self.format.x_view.cross)}", "bold"))
        for at, line in enumerate(c for c in self._lines if c.x and not c.faint and not c.points):
            mark = MARKS[at % len(MARKS)] if self._ascii else "━"
            value = self._value(line)
            text = f" {NOT_MEASURED if value is None else self.format.y_text(value)}"
            name = (f"   {mark} {plain(line.name)}", line.colour) if line.name else ("", "")
            parts.append(Content.assemble(name, text))
        undone = next((c for c in self._lines if c.faint), None)
        if undone is not None:
            parts.append(Content.styled(f"   {FAINT_MARK if self._ascii else '━'} undone", undone.colour))
        return parts

    def _value(self, line: ChartLine) -> float | None:
        """Return the newest value, or the value under the crosshair."""
        if self.format.x_view.cross is None:
            return line.y[-1]
        return value_at(line.x, line.y, self.format.x_view.cross, self._window())

    def _cut(self, line: ChartLine) -> ChartLine:
        """Return the part of a line within the shown range of x."""
        if self.format.x_view.window is None:
            return line
        x, y = part(line.x, line.y, self.format.x_view.window)
        return replace(line, x=tuple(x), y=tuple(y))

    def _window(self) -> Range:
        """Return the first and last shown x, which are never equal."""
        if self.format.x_view.window is not None:
            first, last = self.format.x_view.window
        else:
            first = min((c.x[0] for c in self._lines if c.x), default=0.0)
            last = max((c.x[-1] for c in self._lines if c.x), default=0.0)
        return first, last if last > first else first + 1

    def _paint_plot(self, plot: OpenPlot) -> None:
        from textual_plot import HiResMode  # noqa: PLC0415

        drawn = [line for line in self._drawn if line.x]
        with self.app.batch_update():
            plot.clear()
            for line in drawn:
                if line.points:
                    plot.scatter(line.x, line.y, marker=POINT, marker_style=line.colour)
                    continue
                x, y = downsample(line.x, line.y)
                plot.plot(x, y, line_style=line.colour, hires_mode=HiResMode.BRAILLE)
            if self.format.x_view.cross is not None:
                plot.add_v_line(self.format.x_view.cross, self.format.x_view.colour)
            if drawn:
                self._scale(plot, drawn)
                foot = self._range(drawn)[0]
                first, last = self._window()
                for mark in self.format.marks:
                    if first <= mark.x <= last:
                        plot.scatter([mark.x], [foot], marker=mark.glyph, marker_style=mark.colour)

    def _range(self, drawn: Sequence[ChartLine]) -> tuple[float, float]:
        """Return the range of y: the fixed bounds, or the lines' minimum and maximum with a margin."""
        drawn = [line for line in drawn if not line.faint] or drawn
        fixed_low, fixed_high = (None, None) if self.format.log else (self.format.low, self.format.high)
        low = min(min(c.y) for c in drawn) if fixed_low is None else fixed_low
        high = max(max(c.y) for c in drawn) if fixed_high is None else fixed_high
        margin = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
        return (
            low if fixed_low is not None else low - margin,
            high if fixed_high is not None else high + margin,
        )

    def _y_text(self, y: float) -> str:
        return self.format.y_text(10.0**y if self.format.log else y)

    def _scale(self, plot: OpenPlot, drawn: Sequence[ChartLine]) -> None:
        first, last = self._window()
        bottom, top = self._range(drawn)
        cross = self.format.x_view.cross
        margin = (last - first) * CROSS_MARGIN
        # A crosshair on the frame itself would be invisible.
        plot.set_xlimits(
            first - margin if cross is not None and cross < first + margin else first,
            last + margin if cross is not None and cross > last - margin else last,
        )
        plot.set_ylimits(bottom, top)
        across, up = max(2, self.size.width // 12), max(2, (self.size.height - 2) // 2)
        x_ticks = partial(nice_ticks, time=self.format.x_time, whole=self.format.x_whole)
        plot.set_x_formatter(_formatter(self.format.x_text, across, x_ticks))
        plot.set_y_formatter(_formatter(lambda y: axis_label(self._y_text(y)), up, nice_ticks))

    def _ascii_plot(self) -> Content:
        """Return the chart in ASCII, one mark per column, with the minimum and maximum of y at the left."""
        drawn = [line for line in self._drawn if line.x]
        width, height = self.size.width - LABEL - 4, self.size.height - 2
        if not drawn or width < 8 or height < 2:
            return Content("")
        first, last = self._window()
        low, high = self._range(drawn)
        rows = [[" "] * width for _ in range(height)]
        if self.format.x_view.cross is not None and first <= self.format.x_view.cross <= last:
            for cells in rows:
                cells[round((self.format.x_view.cross - first) / (last - first) * (width - 1))] = "|"
        faint = sum(line.faint for line in drawn)
        for at, line in enumerate(drawn):
            mark = FAINT_MARK if line.faint else MARKS[(at - faint) % len(MARKS)]
            for x, y in zip(line.x, line.y, strict=True):
                column = round((x - first) / (last - first) * (width - 1))
                if not 0 <= column < width:
                    continue
                row = round((high - y) / ((high - low) or 1) * (height - 1))
                rows[max(0, min(height - 1, row))][column] = mark
        names = [""] * height
        names[0], names[-1] = self._y_text(high), self._y_text(low)
        lines = [f"{name:>{LABEL}} |{''.join(row)}" for name, row in zip(names, rows, strict=True)]
        left, right = self.format.x_text(first), self.format.x_text(last)
        lines.append(" " * (LABEL + 2) + left + right.rjust(max(0, width - len(left))))
        return Content("\n".join(lines))


def _logarithm(line: ChartLine) -> ChartLine:
    known = [(x, math.log10(y)) for x, y in zip(line.x, line.y, strict=True) if y > 0]
    return replace(line, x=tuple(x for x, _ in known), y=tuple(y for _, y in known))


TicksOf = Callable[[float, float, int], list[float]]
"""A function like `nice_ticks`, which returns at most `limit` round numbers between `low` and `high`."""
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)


def nice_ticks(
    low: float, high: float, limit: int, *, time: bool = False, whole: bool = False
) -> list[float]:
    """Return up to `limit` round numbers between `low` and `high`; with `time`, round times in seconds."""
    wide = high - low
    if wide <= 0 or not math.isfinite(wide):
        return [low]
    power = 10.0 ** math.floor(math.log10(wide / max(1, limit)))
    steps = [power * n * ten for ten in (1, 10, 100) for n in (1, 2, 2.5, 5)]
    if time:
        steps = [*_TIME_STEPS, *(step for step in steps if step > _TIME_STEPS[-1])]
    if whole:
        steps = [step for step in steps if step >= 1 and step.is_integer()] or [1.0]
    for step in steps:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < limit:
            slack = wide * 1e-6
            ticks = [n * step for n in range(first, last + 1)]
            return [tick for tick in ticks if low - slack <= tick <= high + slack]
    return [low]


def axis_label(text: str) -> str:
    """Shorten a figure to fit a label: `0.000265` to `0.00026`, `-1.23e-05` to `-1.2e-5`."""
    if len(text) <= LABEL:
        return text
    try:
        value = float(text)
    except ValueError:
        return text
    shorter = (f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e") for digits in (3, 2, 1))
    return next((label for label in shorter if len(label) <= LABEL), text)


def distinct_ticks(
    low: float, high: float, limit: int, text: Callable[[float], str], ticks_of: TicksOf = nice_ticks
) -> list[float]:
    """Return `nice_ticks` with distinct labels: 0.00026 and 0.000265 may both be shown as 0.00026."""
    for count in range(limit, 1, -1):
        ticks = ticks_of(low, high, count)
        if len({text(tick) for tick in ticks}) == len(ticks):
            return ticks
    return ticks_of(low, high, 1)


def _formatter(text: Callable[[float], str], count: int, ticks_of: TicksOf) -> Any:
    from textual_plot.axis_formatter import AxisFormatter  # noqa: PLC0415

    class Formatter(AxisFormatter):
        """Round ticks with labels in the console's number format."""

        def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
            return distinct_ticks(min_, max_, min(count, max_ticks), text, ticks_of)

        def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
            return [text(tick) for tick in ticks]

    return Formatter()
