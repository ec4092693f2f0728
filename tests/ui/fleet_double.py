"""A backend in memory whose running jobs have figures of every GPU, the same ones at each look."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from tests.ui.double import NOON, MemoryBackend, job, pool
from tui.backends.interface import BackendError, MetricService
from tui.domain.core.job import Job
from tui.domain.core.metric import GPU, GPU_MEMORY, UNITS, MetricsReading, Series
from tui.domain.core.replica import REDUCER
from tui.domain.training.telemetry import GpuSample, TelemetryLine

A100, H100 = "NVIDIA_TESLA_A100", "NVIDIA_H100_80GB"
TRAINING = job(
    101,
    "arr-coc-4x8-a100",
    age=302,
    strategy="SPOT",
    groups=(pool(0, 1, A100, 8), pool(1, 3, A100, 8), pool(2, 13, reducer=True)),
)
LARGE = job(102, "llm-7b-[/]fsdp", age=2900, groups=(pool(0, 1, H100, 8), pool(1, 7, H100, 8)))
LOCAL = job(103, "local-2node-1120", age=3)


class FleetBackend(MemoryBackend):
    """`broken_jobs` are refused; `simulated` labels the accelerators' series; `asked` is what was read."""

    def __init__(self, *jobs: Job, local: bool = True, simulated: bool = False) -> None:
        super().__init__(jobs or (TRAINING, LARGE, LOCAL), local=local)
        self.simulated = simulated
        self.broken_jobs: dict[str, BackendError] = {}
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.since: list[datetime] = []
        self.at_once = self.most_at_once = 0
        self.stored_lines = [line for each in self.stored.values() for line in steps(each)]
        self.use(metrics=FleetMetrics(self))


class FleetMetrics(MetricService):
    """The figures of every GPU of a `FleetBackend`."""

    def __init__(self, backend: FleetBackend) -> None:
        self.backend = backend

    async def read(
        self,
        name: str,
        *,
        since: datetime | None = None,
        metrics: Sequence[str] = (),
        job: Job | None = None,
    ) -> MetricsReading:
        self.backend.meet_error()
        self.backend.asked.append((name, tuple(metrics)))
        if since is not None:
            self.backend.since.append(since)
        if name in self.backend.broken_jobs:
            raise self.backend.broken_jobs[name]
        return MetricsReading(
            tuple(
                series
                for each in self.backend.stored[name].groups
                for index in range(each.replicas)
                for metric in metrics
                for series in self._series(each.replica(index), each.accelerator_count, metric)
            ),
            (),
            NOON,
        )

    def _series(self, replica: str, gpus: int, metric: str) -> list[Series]:
        pool_, _, index = replica.removeprefix("workerpool").partition("-")
        if metric not in {GPU, GPU_MEMORY}:
            value = 0.3 + 0.05 * int(index)
            return [Series(metric, replica, "", UNITS[metric], ((NOON - timedelta(seconds=3), value),))]
        found = []
        for gpu in range(gpus):
            if (index, gpu) == ("2", 5):
                continue
            value = 0.9 + 0.08 * math.sin(int(index) * 3 + gpu * 2)
            if (pool_, index) == ("1", "1"):
                value = 0.12 + 0.03 * gpu
            elif (pool_, index, gpu) == ("1", "0", 3):
                value = 0.0
            when = NOON - timedelta(seconds=120 if (pool_, index, gpu) == ("0", "0", 6) else 4)
            labels = (("simulated", "true"),) if self.backend.simulated else ()
            found.append(Series(metric, replica, str(gpu), "1", ((when, value),), labels))
        return found


def steps(of: Job) -> list[TelemetryLine]:
    """Step lines of the last minute; the replicas `1-1` are 6 steps behind."""
    return [
        TelemetryLine(NOON - timedelta(seconds=ago), of.id, each.replica(index), number)
        for each in of.groups
        if each.role != REDUCER
        for index in range(each.replicas)
        for ago in (1, 8, 15)
        for number in [61_204 - ago - (13 if each.replica(index) == "workerpool1-1" else 0)]
    ]


def gpus(of: Job, replica: str, shares: Sequence[float], ago: float = 1) -> TelemetryLine:
    """A trainer's own line about its GPUs."""
    found = tuple(GpuSample(str(n), share, share / 2) for n, share in enumerate(shares))
    return TelemetryLine(NOON - timedelta(seconds=ago), of.id, replica, None, found)
