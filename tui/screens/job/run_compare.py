"""Additions to the charts of training steps: smoothed lines, marked moments, and another run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tui.domain.core.job import Job
from tui.domain.core.training_progress import TrainingStep
from tui.domain.training.training_steps import history
from tui.screens.job.training_charts import main_charts, other_charts, thinned
from tui.session import BackendError, Session
from tui.store.job.events import JobEvent
from tui.widgets.plot.chart import ChartLine

CHECKPOINT, ATTEMPT = "▴", "◆"
MARKED = {CHECKPOINT: "checkpoint", ATTEMPT: "attempt"}
"""The meaning of each mark at the foot of a chart."""
MOST_MARKS = 60
"""Maximum number of drawn marks; the newest marks are drawn. A chart has about as many columns."""
READ_SECONDS = 30.0


def smoothed(line: ChartLine, weight: float) -> ChartLine:
    """Return the exponential moving average of a line. `weight` (0 to below 1) is the weight of earlier
    values.

    The first values are corrected for the average's start at zero, as in TensorBoard.
    """
    if not weight:
        return line
    average, seen, averages = 0.0, 1.0, []
    for y in line.y:
        average = weight * average + (1 - weight) * y
        seen *= weight
        averages.append(average / (1 - seen))
    return replace(line, y=tuple(averages))


def marks_of(events: Iterable[JobEvent], begins: Iterable[datetime]) -> list[tuple[datetime, str]]:
    """Return the times of the newest checkpoints and of the `begins` of attempts, each with its glyph."""
    marks = [(event.timestamp, CHECKPOINT) for event in events if event.kind == "checkpoint"]
    return sorted([*marks, *((begin, ATTEMPT) for begin in begins)])[-MOST_MARKS:]


@dataclass(frozen=True, slots=True)
class PinnedRun:
    """Another run's training steps. `start` is the start time of that run."""

    name: str
    start: datetime
    samples: Sequence[TrainingStep]

    def line(self, key: str, *, by_step: bool, colour: str) -> ChartLine | None:
        """Return the run's curve in the chart of this key; None if the run did not report that metric."""
        charts = [*main_charts(self.samples), *other_charts(self.samples)]
        chart = next((chart for chart in charts if chart.key == key), None)
        if chart is None:
            return None
        steps = history(self.samples).kept if by_step else self.samples
        known = [(s, y) for s in steps if (y := chart.value(s)) is not None]
        xs = (float(s.step) if by_step else (s.timestamp - self.start).total_seconds() for s, _ in known)
        return ChartLine(self.name, tuple(xs), tuple(y for _, y in known), colour) if known else None


async def read_run(session: Session, job: Job) -> tuple[PinnedRun | None, str]:
    """Read the steps of another run. Return None and the reason if the run has no steps."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            samples = await session.backend.progress.training_steps(job.runner)
    except (BackendError, TimeoutError) as error:
        return None, str(error) or f"no answer within {READ_SECONDS:.0f} s"
    if not samples:
        return None, "it has reported no training step"
    start = job.start_time or samples[0].timestamp
    return PinnedRun(job.display_name or job.id, start, tuple(thinned(samples))), ""
