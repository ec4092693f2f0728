"""The newest figure of each replica and GPU of one job, from the trainer's lines and from Cloud Monitoring.

For each key the newer figure counts, from either source. An unreported figure is absent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from tui.domain.core.metric import CADVISOR, CPU, DCGM, GPU, GPU_MEMORY, MEMORY, METRICS_API, MetricsReading
from tui.domain.training.telemetry import TelemetryLine


class Measure(Enum):
    """Measures that a map of the fleet can show. The value is the measure's name on the screen."""

    UTILIZATION = "utilization"
    MEMORY = "memory"
    LAG = "step lag"
    CPU = "CPU"


class FigureOrigin(Enum):
    """The source of a figure."""

    TRAINER = "the trainer's line"
    MONITORING = "Cloud Monitoring"
    METRICS_API = METRICS_API
    CADVISOR = CADVISOR
    DCGM = DCGM


TRAINER_LATE = timedelta(seconds=60)
LOCAL_LATE = timedelta(seconds=30)
CLOUD_LATE = timedelta(minutes=6)
"""Freshness of a cloud figure: samples arrive once per minute and up to 240 s late (docs/facts/vertex.md
6.1), and one may be missing."""
STEP_TOLERANCE = timedelta(seconds=5)
"""Time within which replicas that report the same step count as level, because their lines differ in time."""
MAX_FRONT_STEPS = 256


@dataclass(frozen=True, slots=True)
class Figure:
    """One value: a fraction from 0 to 1, or steps, with its time, its origin and its freshness period."""

    value: float
    at: datetime
    origin: FigureOrigin
    fresh_for: timedelta
    simulated: bool = False

    def stale(self, now: datetime) -> bool:
        """Return whether the figure is older than the period of the figure's source."""
        return now - self.at > self.fresh_for


@dataclass(frozen=True, slots=True)
class StepAt:
    """The last step that a replica reported, its time, and the time since the previous step."""

    step: int
    at: datetime
    gap: timedelta = timedelta(0)


class JobFigures:
    """Figures by (measure, replica, accelerator) and steps by replica."""

    def __init__(self) -> None:
        self._figures: dict[tuple[Measure, str, str], Figure] = {}
        self._steps: dict[str, StepAt] = {}
        self._front: deque[tuple[datetime, int]] = deque(maxlen=MAX_FRONT_STEPS)
        """Times at which the furthest replica reached each step, oldest first."""
        self._attempt_since: datetime | None = None
        self._newest: datetime | None = None

    def figure(self, measure: Measure, replica: str, accelerator: str = "") -> Figure | None:
        """Return the newest figure or step lag, or `None` if it was never measured."""
        if measure is Measure.LAG:
            return self._lag(replica)
        return self._figures.get((measure, replica, accelerator))

    def accelerators(self, replica: str) -> list[str]:
        """Return the accelerators of a replica that have reported, by index."""
        accelerators = {key[2] for key in self._figures if key[1] == replica and key[2]}
        return sorted(accelerators, key=lambda name: (len(name), name))

    @property
    def simulated(self) -> bool:
        """Whether any figure is simulated."""
        return any(figure.simulated for figure in self._figures.values())

    @property
    def node_sources(self) -> str:
        """The node exporters that report accelerators' figures, or ""."""
        own = {FigureOrigin.CADVISOR, FigureOrigin.DCGM}
        origins = {figure.origin for figure in self._figures.values()} & own
        return ", ".join(sorted(str(origin.value) for origin in origins))

    # Input

    def add_reading(self, reading: MetricsReading, *, local: bool) -> None:
        """Store the newest point of each series."""
        fresh_for = LOCAL_LATE if local else CLOUD_LATE
        for series in reading.series:
            measure = _MEASURES.get(series.metric)
            if measure is not None and series.latest is not None and series.replica:
                at, value = series.latest
                origin = FigureOrigin(series.source) if series.source else FigureOrigin.MONITORING
                figure = Figure(value, at, origin, fresh_for, series.simulated)
                for figure_measure in _measures_of(measure, bool(series.accelerator)):
                    self._keep_newest((figure_measure, series.replica, series.accelerator), figure)

    def add_lines(self, lines: Iterable[TelemetryLine]) -> bool:
        """Add lines in any order. Return whether a figure is new."""
        changed = False
        for line in sorted(lines, key=lambda line: line.timestamp):
            for gpu in line.gpus:
                for measure, value in (
                    (Measure.UTILIZATION, gpu.utilization),
                    (Measure.MEMORY, gpu.memory),
                ):
                    if value is not None:
                        figure = Figure(
                            value, line.timestamp, FigureOrigin.TRAINER, TRAINER_LATE, line.simulated
                        )
                        changed |= self._keep_newest((measure, line.replica, gpu.index), figure)
            if line.step is not None:
                changed |= self._add_step(line.replica, line.step, line.timestamp)
        return changed

    def _keep_newest(self, key: tuple[Measure, str, str], figure: Figure) -> bool:
        old = self._figures.get(key)
        if old is not None and old.at >= figure.at:
            return False
        self._figures[key] = figure
        return True

    def _add_step(self, replica: str, step: int, at: datetime) -> bool:
        if self._attempt_since is not None and at < self._attempt_since:
            return False
        old = self._steps.get(replica)
        if old is not None and at <= old.at:
            return False
        if old is not None and step < old.step:
            # The job restarted from a checkpoint: discard the steps reached before.
            self._attempt_since = at
            self._steps = {name: s for name, s in self._steps.items() if s.at >= at}
            self._front.clear()
            old = None
        gap = at - old.at if old is not None and step > old.step else old.gap if old else timedelta(0)
        self._steps[replica] = StepAt(step, at, gap)
        if not self._front or step > self._front[-1][1]:
            self._front.append((at, step))
        self._newest = max(self._newest or at, at)
        return True

    # Steps

    def step(self, replica: str) -> StepAt | None:
        """Return the last step that a replica reported."""
        return self._steps.get(replica)

    def _lag(self, replica: str) -> Figure | None:
        """Return the replica's distance from the furthest replica in steps. The furthest step is taken
        `STEP_TOLERANCE` before the newest line."""
        mine = self._steps.get(replica)
        if mine is None or self._newest is None:
            return None
        until = self._newest - STEP_TOLERANCE
        furthest = next((step for at, step in reversed(self._front) if at <= until), mine.step)
        # A silent replica lags while others report; the lag is stale only if the whole job is silent.
        fresh_for = max(TRAINER_LATE, 3 * max(s.gap for s in self._steps.values()))
        return Figure(float(max(0, furthest - mine.step)), self._newest, FigureOrigin.TRAINER, fresh_for)


_MEASURES = {
    GPU: Measure.UTILIZATION,
    GPU_MEMORY: Measure.MEMORY,
    CPU: Measure.CPU,
    MEMORY: Measure.MEMORY,
}


def _measures_of(measure: Measure, of_accelerator: bool) -> tuple[Measure, ...]:
    """Return the measures of a series. The CPU of a machine without accelerators is its utilization too."""
    return (measure, Measure.UTILIZATION) if measure is Measure.CPU and not of_accelerator else (measure,)
