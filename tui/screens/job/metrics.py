"""Charts of a job: training metrics and machine usage, over steps or over time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from statistics import fmean

from textual import on
from textual.containers import Grid
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.actions.registry import Action
from tui.domain.core.formatting import age, figure
from tui.domain.core.job import Job
from tui.domain.core.metric import CPU, GPU, GPU_MEMORY, MEMORY, NET_IN, NET_OUT, TRAINING_METRICS
from tui.domain.core.replica import replica_order
from tui.domain.core.text import plain
from tui.domain.core.training_progress import TrainingStep
from tui.domain.fields.jobs import newest_first
from tui.domain.training.training_steps import History
from tui.kinds.registry import lost_runner
from tui.screens.dialogs.pick import PickScreen
from tui.screens.job.pane import JobPane, Scroll
from tui.screens.job.run_compare import ATTEMPT, CHECKPOINT, MARKED, PinnedRun, marks_of, read_run, smoothed
from tui.screens.job.training_charts import (
    TrainingChart,
    Value,
    clock_text,
    line_part,
    main_charts,
    other_charts,
    percent,
    step_line,
    thinned,
    thinned_history,
)
from tui.screens.workers import background
from tui.store.job.feed import Changed, JobFeed
from tui.widgets.log.render import short_replica
from tui.widgets.plot.chart import Chart, ChartFormat, ChartLine, Mark, XView
from tui.widgets.plot.palette import faint_colour, line_colour
from tui.widgets.plot.view_range import Range, ViewRange

TITLES = {
    CPU: "CPU",
    MEMORY: "Memory",
    GPU: "GPU",
    GPU_MEMORY: "GPU memory",
    NET_IN: "Network in",
    NET_OUT: "Network out",
}
SHARES = frozenset({CPU, MEMORY, GPU, GPU_MEMORY})
MAX_LINES = 6
"""Number of replicas above which min, mean and max are drawn instead."""
SMOOTHINGS = (0.0, 0.6, 0.9, 0.97)
MOST_RUNS = 200
"""Number of runs offered to pin, the newest first."""
SPANS = (None, 3600.0, 600.0)
"""Lengths of the shown time span in seconds, `None` for all."""
STEP = 0.02
"""Step of the crosshair as a fraction of the shown range."""
TWO_COLUMNS, THREE_COLUMNS = 100, 180
MIN_HEIGHT, MAX_HEIGHT = 10, 18
"""Minimum and maximum height of one chart, in lines."""
Drawn = tuple[ChartFormat, list[ChartLine]]
"""The format and the lines of a chart."""


class MetricsPane(JobPane):
    """The Metrics tab."""

    SCOPE = "metrics"
    EXTRA = ("pane",)
    TITLE = "Metrics"
    NEEDS = Changed.METRICS | Changed.TRAINING_STEPS | Changed.SOURCES
    DEFAULT_CSS = """
    MetricsPane {
        #charts {
            height: auto;
            grid-size: 1;
            grid-gutter: 0 1;
        }
        #not-measured { height: auto; padding: 0 1; color: $text-muted; }
    }
    """

    def __init__(self, feed: JobFeed) -> None:
        super().__init__(feed)
        self.by_step = True
        self.view = ViewRange()
        self.replica = ""
        self.smoothing = 0.0
        """Weight of earlier values in the smoothed lines of training steps; 0 disables smoothing."""
        self.log_axis = False
        self.pinned: PinnedRun | None = None
        self._scroll = Scroll()
        self._grid = Grid(id="charts")
        self._missing = Static("", id="not-measured", markup=False)
        self._charts: dict[str, Chart] = {}
        self._paused = False

    def compose(self) -> Iterable[Widget]:
        yield self.notice
        with self._scroll:
            yield self._grid
            yield self._missing

    def default_focus(self) -> Widget:
        return self._scroll

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        """Use as many columns as fit the width, and rows that fill the height."""
        grid, width = self._grid, self.size.width
        columns = 1 + (width >= TWO_COLUMNS) + (width >= THREE_COLUMNS)
        rows = max(1, -(-len(self._charts) // columns))
        height = max(MIN_HEIGHT, min(MAX_HEIGHT, (self.size.height - 2) // rows))
        grid.styles.grid_size_columns = columns
        grid.styles.grid_rows = f"{height}"
        grid.styles.height = rows * height

    def pause(self, on: bool) -> None:
        self._paused = on

    def status(self) -> Content:
        parts = ["by step" if self.by_step else "over time"]
        parts.append(self._span_text())
        parts.append(short_replica(self.replica) if self.replica else "all replicas")
        if self.smoothing:
            parts.append(f"smoothed {self.smoothing:g}")
        if self.log_axis:
            parts.append("log axis")
        if self.pinned is not None:
            parts.append(f"beside {plain(self.pinned.name)}")
        parts += dict.fromkeys(f"{mark.glyph} {MARKED[mark.glyph]}" for mark in self._marks())
        note = Content.styled("   ".join(parts), "$text-muted")
        if self.feed.figures.simulated:
            note = Content.assemble(("simulated", "bold $text-warning"), "   ", note)
        if self.feed.figures.node_sources:
            note = Content.assemble(note, (f"   GPU from {self.feed.figures.node_sources}", "$text-muted"))
        return note

    def _span_text(self) -> str:
        view = self.view
        if view.span is None:
            return "all of it"
        if view.end is None:
            return f"last {age(timedelta(seconds=view.span))}"
        first, last = view.window(self._full())
        return f"{clock_text(first)} to {clock_text(last)}"

    # Drawing

    def show(self, changed: Changed) -> None:
        if self._paused:
            return
        keys = self._wanted()
        grid = self._grid
        for key in [key for key in self._charts if key not in keys]:
            self._charts.pop(key).remove()
        for key, (format, lines) in keys.items():
            if key not in self._charts:
                self._charts[key] = Chart(format)
                later = [other for other in list(keys)[list(keys).index(key) + 1 :] if other in self._charts]
                grid.mount(self._charts[key], before=self._charts[later[0]] if later else None)
            self._charts[key].draw(lines, format)
        self._arrange()
        grid.display = bool(keys)
        self._show_notice(bool(keys))

    def _wanted(self) -> dict[str, Drawn]:
        samples, past = self.feed.samples(), self.feed.history()
        training_charts = self._training_charts(main_charts(samples), samples, past)
        by_time = self._time_view()
        for metric in TRAINING_METRICS:
            lines = self._metric_lines(metric)
            if lines:
                share = metric in SHARES
                text = percent if share else figure
                high = 1.0 if share else None
                unit = "" if share else "B/s"
                format = ChartFormat(
                    TITLES[metric],
                    unit,
                    clock_text,
                    text,
                    x_time=True,
                    low=0.0,
                    high=high,
                    x_view=by_time,
                )
                training_charts[metric] = (format, lines)
        samples, past = thinned(samples), thinned_history(past)
        drawn = [*past.kept, *(s for stretch in past.undone for s in stretch)] if self.by_step else samples
        return training_charts | self._training_charts(other_charts(drawn), samples, past)

    def _training_charts(
        self, charts: Iterable[TrainingChart], samples: Sequence[TrainingStep], past: History
    ) -> dict[str, Drawn]:
        """Return the charts that have a value, over the steps or over time."""
        by_time = self._time_view()
        view = self._in_steps(by_time, past.kept) if self.by_step else by_time
        drawn: dict[str, Drawn] = {}
        marks = self._marks()
        for chart in charts:
            value = chart.value
            lines = self._by_step(past, value) if self.by_step else self._over_time(samples, value)
            lines = self._with_pinned(lines, chart.key)
            if lines:
                lines = [line if line.faint else smoothed(line, self.smoothing) for line in lines]
                low = 0.0 if chart.from_zero else None
                format = ChartFormat(
                    chart.title,
                    chart.unit,
                    self._step_text,
                    chart.text,
                    x_time=not self.by_step,
                    x_whole=self.by_step,
                    low=low,
                    x_view=view,
                    log=self.log_axis,
                    marks=marks,
                )
                drawn[chart.key] = (format, lines)
        return drawn

    def _time_view(self) -> XView:
        window = None if self.view.span is None else self.view.window(self._full())
        return XView(window, self.view.cross, self._cross_colour())

    def _full(self) -> Range:
        start = self._start()
        series = self.feed.series
        known = [line.points for metric in TRAINING_METRICS for line in series.of(metric) if line.points]
        moments = [moment for points in known for moment, _ in (points[0], points[-1])]
        if self.feed.training_steps:
            moments += [min(self.feed.training_steps)[0], max(self.feed.training_steps)[0]]
        seconds = [(moment - start).total_seconds() for moment in moments] or [0.0]
        return min(seconds), max(*seconds, min(seconds) + 1)

    def _in_steps(self, x_view: XView, samples: Sequence[TrainingStep]) -> XView:
        """Return the view with steps as x. A time becomes the last step reported by then."""
        start = self._start()
        times = [(sample.timestamp - start).total_seconds() for sample in samples]

        def step(moment: float) -> float:
            return float(samples[max(0, bisect_right(times, moment) - 1)].step) if samples else 0.0

        window, cross = x_view.window, x_view.cross
        return XView(
            None if window is None else (step(window[0]), step(window[1])),
            None if cross is None else step(cross),
            x_view.colour,
        )

    def _cross_colour(self) -> str:
        return "bright_white" if self.app.native_ansi_color else self.app.current_theme.accent or "white"

    def _end(self) -> datetime:
        job = self.feed.job
        return (job.end_time if job else None) or self.feed.as_of()

    def _start(self) -> datetime:
        job = self.feed.job
        start = (job.start_time or job.create_time) if job else None
        return start or self._end()

    def _step_text(self, x: float) -> str:
        return f"{x:,.0f}" if self.by_step else clock_text(x)

    def _by_step(self, past: History, value: Value) -> list[ChartLine]:
        """Return the steps that led to the current step. Undone steps are drawn faint and don't affect the
        range."""
        known = [(s, y) for s in past.kept if (y := value(s)) is not None]
        if not known:
            return []
        undone = [[(s, y) for s in stretch if (y := value(s)) is not None] for stretch in past.undone]
        lines = [
            step_line(stretch, faint_colour(self.app), faint=True)
            for stretch in undone[-MAX_LINES:]
            if stretch
        ]
        return [step_line(known, self._colour(0)), *lines]

    def _over_time(self, samples: Sequence[TrainingStep], value: Value) -> list[ChartLine]:
        start = self._start()
        known = [(s, y) for s in samples if (y := value(s)) is not None]
        xs = tuple((s.timestamp - start).total_seconds() for s, _ in known)
        return [ChartLine("", xs, tuple(y for _, y in known), self._colour(0))] if known else []

    def _with_pinned(self, lines: list[ChartLine], key: str) -> list[ChartLine]:
        """Add the same metric of the pinned run, from that run's start."""
        other = self.pinned.line(key, by_step=self.by_step, colour=self._colour(1)) if self.pinned else None
        if other is None or not lines:
            return lines
        return [replace(lines[0], name="this run", top=True), other, *lines[1:]]

    def _marks(self) -> tuple[Mark, ...]:
        """Return the checkpoints and new attempts, at their time or at the step reported by then."""
        start, colours = self._start(), {CHECKPOINT: self._colour(2), ATTEMPT: self._colour(3)}
        marks = marks_of(self.feed.events.ordered(self.feed.job), self.feed.restarts())
        seconds = [((moment - start).total_seconds(), glyph) for moment, glyph in marks]
        if not self.by_step:
            return tuple(Mark(x, glyph, colours[glyph]) for x, glyph in seconds)
        kept = self.feed.history().kept
        times = [(sample.timestamp - start).total_seconds() for sample in kept]
        places = [(bisect_right(times, x) - 1, glyph) for x, glyph in seconds]
        return tuple(Mark(float(kept[at].step), glyph, colours[glyph]) for at, glyph in places if at >= 0)

    def _metric_lines(self, metric: str) -> list[ChartLine]:
        start = self._start()
        lines = []
        for series in self.feed.series.of(metric, self.replica):
            points = series.points
            name = short_replica(series.replica) + (
                f":{plain(series.accelerator)}" if series.accelerator else ""
            )
            xs = tuple((t - start).total_seconds() for t, _ in points)
            lines.append(ChartLine(name, xs, tuple(v for _, v in points), ""))
        lines = [c for c in lines if c.x]
        if len(lines) > MAX_LINES:
            return self._summary([line_part(line, self.view.window(self._full())) for line in lines])
        return [ChartLine(c.name, c.x, c.y, self._colour(at)) for at, c in enumerate(lines)]

    def _summary(self, lines: list[ChartLine]) -> list[ChartLine]:
        """Return min, mean and max over all lines, by time bucket."""
        first, last = min(c.x[0] for c in lines if c.x), max(c.x[-1] for c in lines if c.x)
        width = max(1e-9, (last - first) / 120)
        stretches: dict[int, list[float]] = {}
        for line in lines:
            for x, y in zip(line.x, line.y, strict=True):
                stretches.setdefault(int((x - first) / width), []).append(y)
        xs = tuple(first + (at + 0.5) * width for at in sorted(stretches))
        groups = [stretches[at] for at in sorted(stretches)]
        return [
            ChartLine(f"mean of {len(lines)}", xs, tuple(map(fmean, groups)), self._colour(0), top=True),
            ChartLine("min", xs, tuple(map(min, groups)), self._colour(1)),
            ChartLine("max", xs, tuple(map(max, groups)), self._colour(2)),
        ]

    def _colour(self, at: int) -> str:
        return line_colour(self.app, at)

    # Notices

    def _show_notice(self, any_chart: bool) -> None:
        feed, notice = self.feed, self.notice
        source = feed.sources["metrics"]
        if feed.runner_gone and feed.job is not None:
            headline = f"The metrics can't be read: {lost_runner(feed.job)}."
            notice.show(headline, "", "", alone=not any_chart)
        elif self.show_not_reached("metrics", alone=not any_chart):
            pass
        elif not any_chart and source.read_at is None:
            notice.show("Reading the figures…", "", "")
        else:
            notice.hide()
        lines = [
            f"{TITLES.get(m.metric, m.metric)}: not measured — {m.reason}" for m in feed.series.not_measured()
        ]
        if not feed.training_steps and source.read_at is not None:
            lines.append("Loss and throughput: not reported — the log has no step lines (yet)")
        text = "\n".join(plain(line) for line in lines)
        self._missing.update(Content(text))

    # Actions

    def unmet(self, condition: str, action: Action) -> str:
        match condition:
            case "steps":
                return "" if self.feed.training_steps else "No training step has been reported."
            case "chart":
                return "" if self._charts else "There is no chart: no metrics have been measured."
            case "zoomed":
                return "The complete time span is already shown." if self.view.span is None else ""
        return super().unmet(condition, action)

    def action_axis(self) -> None:
        """Show steps or time on the x axis."""
        self.by_step = not self.by_step
        self.show(Changed.TRAINING_STEPS)

    def action_span(self) -> None:
        """Switch the shown time span."""
        at = SPANS.index(self.view.span) if self.view.span in SPANS and self.view.end is None else -1
        self._set_view(ViewRange(SPANS[(at + 1) % len(SPANS)], None, self.view.cross))

    def _set_view(self, view: ViewRange) -> None:
        if view != self.view:
            self.view = view
            self.show(Changed.METRICS)

    def action_zoom_in(self) -> None:
        """Zoom in around the crosshair."""
        self._set_view(self.view.zoom(self._full(), 0.5))

    def action_zoom_out(self) -> None:
        """Zoom out."""
        self._set_view(self.view.zoom(self._full(), 2.0))

    def action_whole(self) -> None:
        """Show the full range."""
        self._set_view(ViewRange(cross=self.view.cross))

    def action_later(self) -> None:
        """Move right by half of the range."""
        self._set_view(self.view.pan(self._full(), 0.5))

    def action_earlier(self) -> None:
        """Move left by half of the range."""
        self._set_view(self.view.pan(self._full(), -0.5))

    def action_cross_right(self) -> None:
        """Move the crosshair right."""
        self._set_view(self.view.move(self._full(), STEP))

    def action_cross_left(self) -> None:
        """Move the crosshair left."""
        self._set_view(self.view.move(self._full(), -STEP))

    @on(Chart.Clicked)
    def _clicked(self, event: Chart.Clicked) -> None:
        event.stop()
        at = event.x
        if not event.chart.format.x_time:
            # Move by step, because the crosshair of all charts is a time.
            kept = self.feed.history().kept
            near = min(kept, key=lambda sample: abs(sample.step - at), default=None)
            at = (near.timestamp - self._start()).total_seconds() if near is not None else 0.0
        self._set_view(replace(self.view, cross=at))

    def back(self) -> bool:
        """Remove the crosshair, then the zoom. Return False if there is neither."""
        before = self.view
        self._set_view(replace(before, cross=None) if before.cross is not None else ViewRange())
        return before != self.view

    def action_smooth(self) -> None:
        """Cycle through the smoothing of the training step lines; the last level is off."""
        at = SMOOTHINGS.index(self.smoothing)
        self.smoothing = SMOOTHINGS[(at + 1) % len(SMOOTHINGS)]
        self.show(Changed.TRAINING_STEPS)

    def action_log_axis(self) -> None:
        """Switch the axis of the training step metrics between logarithmic and linear."""
        self.log_axis = not self.log_axis
        self.show(Changed.TRAINING_STEPS)

    def action_pin(self) -> None:
        """Choose a run to draw beside this run. Choosing the pinned run again removes it."""
        if self.pinned is not None:
            self.pinned = None
            self.show(Changed.TRAINING_STEPS)
            return
        here = self.feed.job.name if self.feed.job else ""
        jobs = [job for job in self.console.store.jobs.values() if job.name != here]
        options = [
            (job.name, Content.assemble(plain(job.display_name), (f"  {plain(job.id)}", "$text-muted")))
            for job in sorted(jobs, key=newest_first)
        ]
        self.app.push_screen(PickScreen("Draw beside this run", options[:MOST_RUNS]), self._pin)

    def _pin(self, name: str | None) -> None:
        job = self.console.store.jobs.get(name or "")
        if job is not None:
            background(self, partial(self._read_pinned, job), "pinned run")

    async def _read_pinned(self, job: Job) -> None:
        run, why = await read_run(self.feed.session, job)
        if run is None:
            self.console.notify(f"{plain(job.display_name)}: {plain(why)}", severity="warning", markup=False)
            return
        self.pinned = run
        self.show(Changed.TRAINING_STEPS)

    def action_replica(self) -> None:
        """Choose the replica whose metrics are shown."""
        names = sorted(
            {s.replica for m in TRAINING_METRICS for s in self.feed.series.of(m)}, key=replica_order
        )
        options = [("", Content("all replicas")), *((name, Content(plain(name))) for name in names)]

        def picked(name: str | None) -> None:
            if name is not None:
                self.replica = name
                self.show(Changed.METRICS)

        self.app.push_screen(PickScreen("Show the figures of", options, self.replica), picked)
