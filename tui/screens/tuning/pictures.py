"""Pictures of a study: the best result so far, results by parameter, and the importance of each parameter."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from textual.containers import VerticalGroup
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.domain.core.formatting import bar, number_text
from tui.domain.core.job import Job
from tui.domain.core.text import clip, plain
from tui.domain.tuning.study import (
    Study,
    StudyParameter,
    best_so_far,
    counts,
    numbers_of,
    study_of,
    value_of,
)
from tui.screens.console import preload
from tui.screens.workers import background
from tui.store.importance import NotEnough, importance
from tui.widgets.plot.chart import Chart, ChartFormat, ChartLine, XView
from tui.widgets.plot.palette import faint_colour, line_colour
from tui.widgets.plot.view_range import Range

SO_FAR, IMPORTANCE, HIDDEN = "best so far", "importance", "hidden"
LONGEST_NAME = 24
X_MARGIN = 0.03
"""Fraction of the range that is left free around the points."""


class TrialPictures(VerticalGroup):
    """One picture at a time. `next` chooses a picture, `draw` shows it."""

    DEFAULT_CSS = """
    TrialPictures {
        height: 12; border-top: solid $border-blurred; display: none;
        &.shown { display: block; }
        #importance { height: 1fr; padding: 0 1; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.picture = SO_FAR
        self._chart = Chart(ChartFormat("Best so far"))
        self._text = Static("", id="importance", markup=False)
        self._computed: tuple[object, Content] | None = None
        self._computing: object = None
        self._drawn: tuple[object, ...] | None = None
        """Data of the drawn picture. The chart redraws itself when its size changes."""

    def compose(self) -> Iterable[Widget]:
        yield self._chart
        yield self._text

    def on_mount(self) -> None:
        background(self, partial(preload.import_modules, preload.CHARTS), "charts")

    def next(self, study: Study) -> None:
        """Choose the next picture."""
        order = [SO_FAR, *(f"p:{parameter.id}" for parameter in study.parameters), IMPORTANCE, HIDDEN]
        at = order.index(self.picture) if self.picture in order else -1
        self.picture = order[(at + 1) % len(order)]

    def draw(self, job: Job | None, trial: str | None) -> None:
        """Show the chosen picture of a job's trials, or nothing without a job."""
        shown = job is not None and self.picture != HIDDEN and bool(job.tasks)
        self.set_class(shown, "shown")
        if not shown or job is None:
            return
        drawn = (job.tasks, self.picture, self.app.theme)
        if self._drawn is not None and all(map(operator.is_, drawn, self._drawn)):
            return
        self._drawn = drawn
        study = study_of(job)
        self._chart.display, self._text.display = self.picture != IMPORTANCE, self.picture == IMPORTANCE
        parameter = next(
            (candidate for candidate in study.parameters if f"p:{candidate.id}" == self.picture), None
        )
        if self.picture == IMPORTANCE:
            self._draw_importance(job, study)
        elif parameter is not None:
            self._draw_parameter(job, study, parameter)
        else:
            self._draw_so_far(job, study)

    def _draw_so_far(self, job: Job, study: Study) -> None:
        points = best_so_far(job.tasks, study)
        goal = study.goal
        name = plain(goal.id) if goal is not None else ""
        numbers = tuple(float(number) for number, _, _ in points)
        steps = _steps([(number, best) for number, _, best in points])
        lines = [
            ChartLine(
                "trials", numbers, tuple(value for _, value, _ in points), faint_colour(self.app), points=True
            ),
            ChartLine("best", *steps, line_colour(self.app, 0), top=True),
        ]
        title = f"Best {name} so far, by trials that ended" if points else "No trial has ended with a result"
        view = XView(_with_margin(numbers))
        self._chart.draw(
            lines, ChartFormat(title, x_text="{:.0f}".format, x_whole=True, y_text=number_text, x_view=view)
        )

    def _draw_parameter(self, job: Job, study: Study, parameter: StudyParameter) -> None:
        tasks = [task for task in job.tasks if counts(task) and value_of(task, study) is not None]
        numbers = numbers_of(tasks, parameter)
        log = parameter.log and all(number is None or number > 0 for number in numbers)
        points = sorted(
            (math.log10(number) if log else number, value)
            for number, task in zip(numbers, tasks, strict=True)
            if number is not None and (value := value_of(task, study)) is not None
        )
        goal = study.goal
        title = f"{plain(goal.id) if goal is not None else ''} by {plain(parameter.id)}"
        x, y = tuple(x for x, _ in points), tuple(y for _, y in points)
        line = ChartLine("", x, y, line_colour(self.app, 0), points=True)
        text = _axis_text(parameter, log=log)
        self._chart.draw(
            [line],
            ChartFormat(
                title + (" (log)" if log else ""),
                x_text=text,
                y_text=number_text,
                x_view=XView(_with_margin(x)),
            ),
        )

    def _draw_importance(self, job: Job, study: Study) -> None:
        key = (
            job.name,
            tuple(
                (task.id, task.metrics.get(study.goal.id) if study.goal else None)
                for task in job.tasks
                if counts(task)
            ),
        )
        if self._computed is not None and self._computed[0] == key:
            self._text.update(self._computed[1])
            return
        if self._computed is None:
            self._text.update(Content.styled("Computing the importance of the parameters…", "$text-muted"))
        if self._computing == key:
            return
        self._computing = key

        async def compute() -> None:
            try:
                bars = self._bars(await importance(study, job.tasks))
            except (NotEnough, OSError, TimeoutError) as error:
                problem = str(error) or "The computation did not end in time."
                bars = Content.styled(plain(problem), "$text-muted")
            self._computed, self._computing = (key, bars), None
            self._text.update(bars)

        background(self, compute, "importance")

    def _bars(self, shares: dict[str, float]) -> Content:
        width = max(10, min(60, self.size.width - LONGEST_NAME - 12))
        lines = [Content.styled("Share of the result's variation by parameter (PED-ANOVA)", "bold")]
        for name, share in shares.items():
            title = f"{clip(plain(name), LONGEST_NAME):<{LONGEST_NAME}}"
            lines.append(Content.assemble(title, " ", (bar(share, width), "$text-accent"), f" {share:>4.0%}"))
        return Content("\n").join(lines)


def _steps(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return a line that holds a value until the next one."""
    kept = list(points[:1])
    for (_, before), (x, y) in itertools.pairwise(points):
        kept += [(x, before), (x, y)] if y != before else [(x, y)]
    return tuple(x for x, _ in kept), tuple(y for _, y in kept)


def _with_margin(x: Sequence[float]) -> Range | None:
    """Return the range of x with a margin at both ends."""
    if not x:
        return None
    margin = (x[-1] - x[0]) * X_MARGIN or abs(x[0]) * X_MARGIN or 1.0
    return x[0] - margin, x[-1] + margin


def _axis_text(parameter: StudyParameter, *, log: bool) -> Callable[[float], str]:
    """Return a function that formats an x: a choice as its name, a logarithm as its number."""

    def text(x: float) -> str:
        if parameter.kind == "categorical":
            at = round(x)
            return plain(str(parameter.values[at])) if at == x and 0 <= at < len(parameter.values) else ""
        return f"{10.0**x:.2g}" if log else number_text(x)

    return text
