"""Time series of samples that were taken while jobs were watched. The module does no I/O."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tui.domain.core.job import Job
from tui.domain.core.metric import GPU, GPU_MEMORY, UNITS, Series
from tui.domain.training.telemetry import TelemetryLine

MOST_POINTS = 2000
"""Maximum number of points of a series. Older points are dropped."""
MOST_JOBS = 200
SIMULATED = ("simulated", "true")
Point = tuple[datetime, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one replica."""

    metric: str
    replica: str
    at: datetime
    value: float
    accelerator: str = ""
    source: tuple[tuple[str, str], ...] = ()
    """Labels that identify the source."""


@dataclass(slots=True)
class _Job:
    created: datetime | None
    points: dict[tuple[str, str, str, tuple[tuple[str, str], ...]], list[Point]] = field(default_factory=dict)


class SampleStore:
    """Samples by job. A job that was deleted and created again starts without samples."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}

    def add(self, job: Job, samples: Iterable[Sample]) -> None:
        """Add samples in any order. A sample whose time is already stored is ignored."""
        kept = self._of(job)
        for sample in samples:
            points = kept.points.setdefault(
                (sample.metric, sample.replica, sample.accelerator, sample.source), []
            )
            at = bisect_left(points, (sample.at,))  # type: ignore[arg-type]
            if at == len(points) or points[at][0] != sample.at:
                insort(points, (sample.at, sample.value))
                del points[: max(0, len(points) - MOST_POINTS)]

    def add_lines(self, job: Job, lines: Iterable[TelemetryLine]) -> None:
        """Add the GPU metrics of a trainer's lines."""
        samples = []
        for line in lines:
            source = (SIMULATED,) if line.simulated else ()
            for gpu in line.gpus:
                for metric, value in ((GPU, gpu.utilization), (GPU_MEMORY, gpu.memory)):
                    if value is not None:
                        samples.append(Sample(metric, line.replica, line.timestamp, value, gpu.index, source))
        self.add(job, samples)

    def series(self, job: Job, metrics: Sequence[str], since: datetime | None) -> list[Series]:
        """Return the job's series of these metrics, from `since` on."""
        series = []
        for (metric, replica, accelerator, labels), points in self._of(job).points.items():
            shown = [point for point in points if since is None or point[0] >= since]
            if metric in metrics and shown:
                unit = UNITS.get(metric, "1")
                series.append(Series(metric, replica, accelerator, unit, tuple(shown), labels))
        return series

    def _of(self, job: Job) -> _Job:
        kept = self._jobs.pop(job.name, None)
        if kept is None or kept.created != job.create_time:
            kept = _Job(job.create_time)
        self._jobs[job.name] = kept
        for name in [*self._jobs][: max(0, len(self._jobs) - MOST_JOBS)]:
            del self._jobs[name]
        return kept
