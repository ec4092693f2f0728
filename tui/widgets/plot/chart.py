"""A chart of several lines: a title with the newest figures, then the plot.

textual-plot and numpy are imported when the first chart is mounted (terminal facts, 'Textual').
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.widgets import Static

from tui.domain.formatting import NOT_MEASURED, figure
from tui.domain.text import plain
from tui.widgets.plot.view_range import Range, part, value_at
from tui.widgets.state import glyphs, wants_ascii

if TYPE_CHECKING:
    from textual_plot import PlotWidget

LABEL = 7
"""Cells for the words beside the y axis."""
MARKS = "*o+x#@"
FAINT_MARK = "."
MOST_DRAWN = 400
"""Points of one line that are handed to the plot; a terminal has fewer columns."""


@dataclass(frozen=True, slots=True)
class Course:
    """One line: x and y of each point, in order; without a name where it is the only one."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str
    faint: bool = False
    """It stands behind the others, says no value, and has no part in the range of y."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What of x is shown, all of it without a window, and the crosshair with the colour of its line."""

    window: Range | None = None
    cross: float | None = None
    colour: str = ""


NO_SIGHT = Sight()


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
    sight: Sight = NO_SIGHT


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
    """`draw` shows lines, in ASCII mode by marks."""

    DEFAULT_CSS = """
    Chart {
        height: 1fr;
        .chart-title { height: 1; padding: 0 1; }
        .chart-text { height: 1fr; padding: 0 1; text-wrap: nowrap; }
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
        self._drawn: list[Course] = []
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
        # The last one that is drawn is the one that is seen where lines meet.
        ordered = sorted(self._courses, key=lambda course: not course.faint)
        self._drawn = [self._cut(course) for course in ordered if course.x]
        title.update(
            glyphs(self._title().truncate(max(8, self.size.width - 2), ellipsis=True), self), layout=False
        )
        if self._plot is not None:
            self._paint_plot(self._plot)
        else:
            self.query_one(".chart-text", Static).update(self._ascii_plot(), layout=False)

    def _title(self) -> Content:
        parts: list[Any] = [(self.look.title, "bold")]
        if self.look.unit:
            parts.append((f" {self.look.unit}", "$text-muted"))
        if self.look.sight.cross is not None:
            parts.append((f"  at {self.look.x_text(self.look.sight.cross)}", "bold"))
        for at, course in enumerate(c for c in self._courses if c.x and not c.faint):
            mark = MARKS[at % len(MARKS)] if self._ascii else "━"
            if course.name:
                parts += ["   ", (f"{mark} {plain(course.name)}", course.colour)]
            value = self._value(course)
            parts.append(f" {NOT_MEASURED if value is None else self.look.y_text(value)}")
        undone = next((c for c in self._courses if c.faint), None)
        if undone is not None:
            parts += ["   ", (f"{FAINT_MARK if self._ascii else '━'} undone", undone.colour)]
        return Content.assemble(*parts)

    def _value(self, course: Course) -> float | None:
        """The newest value, or the one under the crosshair."""
        if self.look.sight.cross is None:
            return course.y[-1]
        return value_at(course.x, course.y, self.look.sight.cross, self._window())

    def _cut(self, course: Course) -> Course:
        """What of a line is in sight."""
        if self.look.sight.window is None:
            return course
        x, y = part(course.x, course.y, self.look.sight.window)
        return replace(course, x=tuple(x), y=tuple(y))

    def _window(self) -> Range:
        """First and last x that are shown; never the same."""
        if self.look.sight.window is not None:
            first, last = self.look.sight.window
        else:
            first = min((c.x[0] for c in self._courses if c.x), default=0.0)
            last = max((c.x[-1] for c in self._courses if c.x), default=0.0)
        return first, last if last > first else first + 1

    def _paint_plot(self, plot: PlotWidget) -> None:
        from textual_plot import HiResMode  # noqa: PLC0415

        drawn = [course for course in self._drawn if course.x]
        with self.app.batch_update():
            plot.clear()
            for course in drawn:
                x, y = thin(course.x, course.y)
                plot.plot(x, y, line_style=course.colour, hires_mode=HiResMode.BRAILLE)
            if self.look.sight.cross is not None:
                plot.add_v_line(self.look.sight.cross, self.look.sight.colour)
            if drawn:
                self._scale(plot, drawn)

    def _range(self, drawn: Sequence[Course]) -> tuple[float, float]:
        """Least and greatest y that is drawn, a little more than there is where nothing fixes it."""
        drawn = [course for course in drawn if not course.faint] or drawn
        low = min(min(c.y) for c in drawn) if self.look.low is None else self.look.low
        high = max(max(c.y) for c in drawn) if self.look.high is None else self.look.high
        margin = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
        return (
            low if self.look.low is not None else low - margin,
            high if self.look.high is not None else high + margin,
        )

    def _scale(self, plot: PlotWidget, drawn: Sequence[Course]) -> None:
        first, last = self._window()
        bottom, top = self._range(drawn)
        plot.set_xlimits(first, last)
        plot.set_ylimits(bottom, top)
        across, up = max(2, self.size.width // 12), max(2, (self.size.height - 2) // 2)
        plot.set_x_formatter(_formatter(self.look.x_text, across, self.look.x_time))
        plot.set_y_formatter(_formatter(self.look.y_text, up, False))

    def _ascii_plot(self) -> Content:
        """The same in ASCII: a mark for each column, the greatest and the least value at the left."""
        drawn = [course for course in self._drawn if course.x]
        width, height = self.size.width - LABEL - 4, self.size.height - 2
        if not drawn or width < 8 or height < 2:
            return Content("")
        first, last = self._window()
        low, high = self._range(drawn)
        rows = [[" "] * width for _ in range(height)]
        if self.look.sight.cross is not None and first <= self.look.sight.cross <= last:
            for cells in rows:
                cells[round((self.look.sight.cross - first) / (last - first) * (width - 1))] = "|"
        faint = sum(course.faint for course in drawn)
        for at, course in enumerate(drawn):
            mark = FAINT_MARK if course.faint else MARKS[(at - faint) % len(MARKS)]
            for x, y in zip(course.x, course.y, strict=True):
                column = round((x - first) / (last - first) * (width - 1))
                if not 0 <= column < width:
                    continue
                row = round((high - y) / ((high - low) or 1) * (height - 1))
                rows[max(0, min(height - 1, row))][column] = mark
        names = [""] * height
        names[0], names[-1] = self.look.y_text(high), self.look.y_text(low)
        lines = [f"{name:>{LABEL}} |{''.join(row)}" for name, row in zip(names, rows, strict=True)]
        left, right = self.look.x_text(first), self.look.x_text(last)
        lines.append(" " * (LABEL + 2) + left + right.rjust(max(0, width - len(left))))
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
