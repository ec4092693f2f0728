"""A chart of several lines: a title with the newest figures, then the plot.

textual-plot and numpy are imported when the first chart is mounted (terminal facts, 'Textual').
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.widgets import Static

from tui.domain.figures import figure
from tui.domain.text import plain
from tui.widgets.sparkline import sparkline
from tui.widgets.state import glyphs, wants_ascii

if TYPE_CHECKING:
    from textual_plot import PlotWidget

MOST_DRAWN = 400
"""Points of one line that are handed to the plot; a terminal has fewer columns."""


@dataclass(frozen=True, slots=True)
class Course:
    """One line: x and y of each point, in order; without a name where it is the only one."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str


@dataclass(frozen=True, slots=True)
class Look:
    """What a chart is about and how its numbers read."""

    title: str
    unit: str = ""
    x_text: Callable[[float], str] = figure
    y_text: Callable[[float], str] = figure
    x_time: bool = False
    """x is in seconds."""
    low: float | None = None
    high: float | None = None


def thin(x: Sequence[float], y: Sequence[float], most: int = MOST_DRAWN) -> tuple[list[float], list[float]]:
    """At most `most` points, the first, the last and the extremes of each stretch kept."""
    if len(x) <= most:
        return list(x), list(y)
    size = math.ceil(len(x) / (most // 2))
    kept: list[int] = [0]
    for start in range(0, len(x), size):
        stretch = range(start, min(start + size, len(x)))
        kept += sorted({min(stretch, key=y.__getitem__), max(stretch, key=y.__getitem__)})
    kept = sorted({*kept, len(x) - 1})
    return [x[at] for at in kept], [y[at] for at in kept]


class Chart(VerticalGroup):
    """`draw` shows lines. In ASCII mode a line is a row of bars."""

    DEFAULT_CSS = """
    Chart {
        height: 1fr;
        .chart-title { height: 1; padding: 0 1; }
        .chart-text { height: 1fr; padding: 0 1; }
        PlotWidget {
            height: 1fr;
            & > .plot--axis { color: $text-muted; }
            & > .plot--tick { color: $text-muted; text-style: none; }
            & > .plot--label { color: $text-muted; text-style: none; }
        }
    }
    """

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self._courses: tuple[Course, ...] = ()
        self._plot: PlotWidget | None = None
        self._ascii = False

    def compose(self) -> ComposeResult:
        yield Static("", classes="chart-title", markup=False)
        self._ascii = wants_ascii(self)
        if self._ascii:
            yield Static("", classes="chart-text", markup=False)
        else:
            from textual_plot import PlotWidget  # noqa: PLC0415

            self._plot = PlotWidget(allow_pan_and_zoom=False)
            self._plot.can_focus = False
            yield self._plot

    def on_mount(self) -> None:
        if self._plot is not None:
            self._plot.margin_top, self._plot.margin_bottom, self._plot.margin_left = 0, 1, 8
        self._paint()

    def on_resize(self) -> None:
        self._paint()

    def draw(self, courses: Sequence[Course], look: Look | None = None) -> None:
        """Show these lines; nothing is painted where nothing differs."""
        look = look or self.look
        if tuple(courses) != self._courses or look != self.look:
            self.look, self._courses = look, tuple(courses)
            self._paint()

    def _paint(self) -> None:
        if not self.is_mounted or not self.size.width:
            return
        title = self.query_one(".chart-title", Static)
        title.update(
            glyphs(self._title().truncate(max(8, self.size.width - 2), ellipsis=True), self), layout=False
        )
        if self._plot is not None:
            self._paint_plot(self._plot)
        else:
            self.query_one(".chart-text", Static).update(self._bars(), layout=False)

    def _title(self) -> Content:
        parts: list[Any] = [(self.look.title, "bold")]
        if self.look.unit:
            parts.append((f" {self.look.unit}", "$text-muted"))
        for course in self._courses:
            if course.y:
                if course.name:
                    parts += ["   ", (f"━ {plain(course.name)}", course.colour)]
                parts.append(f" {self.look.y_text(course.y[-1])}")
        return Content.assemble(*parts)

    def _paint_plot(self, plot: PlotWidget) -> None:
        from textual_plot import HiResMode  # noqa: PLC0415

        drawn = [course for course in self._courses if course.x]
        with self.app.batch_update():
            plot.clear()
            for course in drawn:
                x, y = thin(course.x, course.y)
                plot.plot(x, y, line_style=course.colour, hires_mode=HiResMode.BRAILLE)
            if drawn:
                self._scale(plot, drawn)

    def _scale(self, plot: PlotWidget, drawn: Sequence[Course]) -> None:
        first, last = min(c.x[0] for c in drawn), max(c.x[-1] for c in drawn)
        low = min(min(c.y) for c in drawn)
        high = max(max(c.y) for c in drawn)
        low = self.look.low if self.look.low is not None else low
        high = self.look.high if self.look.high is not None else high
        if last <= first:
            last = first + 1
        margin = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
        bottom = low if self.look.low is not None else low - margin
        top = high if self.look.high is not None else high + margin
        plot.set_xlimits(first, last)
        plot.set_ylimits(bottom, top)
        across, up = max(2, self.size.width // 12), max(2, (self.size.height - 2) // 2)
        plot.set_x_formatter(_formatter(self.look.x_text, across, self.look.x_time))
        plot.set_y_formatter(_formatter(self.look.y_text, up, False))

    def _bars(self) -> Content:
        width = max(8, self.size.width - 24)
        lines = []
        for course in [c for c in self._courses if c.y]:
            size = max(1, math.ceil(len(course.y) / width))
            values = [course.y[at] for at in range(0, len(course.y), size)]
            low, high = min(course.y), max(course.y)
            bars = sparkline(values, low=low, high=high, ascii_only=True)
            lines.append(f"{plain(course.name):<14.14} {bars} {self.look.y_text(course.y[-1])}")
        return Content("\n".join(lines))


_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)


def nice_ticks(low: float, high: float, most: int, *, time: bool = False) -> list[float]:
    """Up to `most` round numbers between `low` and `high`; with `time`, round times in seconds."""
    wide = high - low
    if wide <= 0 or not math.isfinite(wide):
        return [low]
    power = 10.0 ** math.floor(math.log10(wide / max(1, most)))
    steps = [power * n * ten for ten in (1, 10, 100) for n in (1, 2, 2.5, 5)]
    if time:
        steps = [*_TIME_STEPS, *(step for step in steps if step > _TIME_STEPS[-1])]
    for step in steps:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            return [n * step for n in range(first, last + 1)]
    return [low]


def _formatter(text: Callable[[float], str], count: int, time: bool) -> Any:
    from textual_plot.axis_formatter import AxisFormatter  # noqa: PLC0415

    class Words(AxisFormatter):
        """Round ticks, labelled in the console's own words."""

        def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
            return nice_ticks(min_, max_, min(count, max_ticks), time=time)

        def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
            return [text(tick) for tick in ticks]

    return Words()
