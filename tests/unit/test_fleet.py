"""Reading the figures of all running jobs: bounded, no more than is due, and no job in another's way."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.ui.double import NOON, Clock, MemoryBackend, job, pool
from tests.ui.fleet_double import A100, LARGE, LOCAL, TRAINING, FleetBackend, FleetMetrics, gpus
from tests.waiting import LIMIT
from tui.backends.interface import Unavailable
from tui.config.settings import Settings
from tui.domain.core.metric import CPU, GPU, GPU_MEMORY, MEMORY, MetricsReading
from tui.domain.core.states import JobState
from tui.session import Session
from tui.store.job.figures import FigureOrigin, Measure
from tui.store.jobs.fleet import FAN_OUT, LOG, FleetFeed, at_work, wanted


def feed_of(backend: MemoryBackend, clock: Clock | None = None) -> FleetFeed:
    clock = clock or Clock()
    session = Session(backend, Settings(), clock=clock, monotonic=clock.monotonic)
    return FleetFeed(session, lambda: at_work([*backend.stored.values()]))


async def test_each_measure_reads_only_what_it_needs() -> None:
    assert wanted(TRAINING, Measure.UTILIZATION) == [GPU, CPU]
    assert wanted(TRAINING, Measure.MEMORY) == [GPU_MEMORY, MEMORY]
    assert wanted(LARGE, Measure.UTILIZATION) == [GPU]
    assert wanted(LOCAL, Measure.UTILIZATION) == [CPU]
    assert wanted(TRAINING, Measure.LAG) == []
    backend = FleetBackend()
    feed = feed_of(backend)
    feed.show(Measure.LAG)
    await feed.read_once()
    assert backend.asked == []
    lag = feed.of(TRAINING).figure(Measure.LAG, "workerpool1-1")
    assert lag is not None and lag.value == 6


async def test_the_cloud_is_asked_once_a_minute_and_at_once_for_another_measure() -> None:
    backend, clock = FleetBackend(TRAINING, local=False), Clock()
    feed = feed_of(backend, clock)
    await feed.read_once()
    clock.on(seconds=15)
    await feed.read_once()
    assert backend.asked == [(TRAINING.name, (GPU, CPU))]
    feed.show(Measure.CPU)
    await feed.read_once()
    assert len(backend.asked) == 1, "the CPU is known already"
    feed.show(Measure.MEMORY)
    await feed.read_once()
    assert backend.asked[1:] == [(TRAINING.name, (GPU_MEMORY, MEMORY))]
    clock.on(seconds=60)
    await feed.read_once()
    assert len(backend.asked) == 3


@pytest.mark.parametrize("jump", [600, -600])
async def test_a_clock_that_is_set_neither_stops_nor_hurries_the_reading(jump: float) -> None:
    backend, clock = FleetBackend(TRAINING), Clock()
    feed = feed_of(backend, clock)
    await feed.read_once()
    clock.jump(jump)
    await feed.read_once()
    assert len(backend.asked) == 1
    clock.on(seconds=2)
    await feed.read_once()
    assert len(backend.asked) == 2 and NOON + timedelta(seconds=jump - 60) < backend.since[-1] < clock()


async def test_the_trainers_own_figures_come_before_the_clouds() -> None:
    backend = FleetBackend(LARGE, local=False)
    backend.stored_lines.append(gpus(LARGE, "workerpool0-0", [0.5] * 8))
    feed = feed_of(backend)
    await feed.read_once()
    ours = feed.of(LARGE).figure(Measure.UTILIZATION, "workerpool0-0", "0")
    theirs = feed.of(LARGE).figure(Measure.UTILIZATION, "workerpool1-0", "0")
    assert ours is not None and (ours.value, ours.origin) == (0.5, FigureOrigin.TRAINER)
    assert theirs is not None and theirs.origin is FigureOrigin.MONITORING


async def test_a_job_that_cannot_be_read_keeps_its_figures_and_is_in_no_others_way() -> None:
    backend, clock = FleetBackend(), Clock()
    feed = feed_of(backend, clock)
    await feed.read_once()
    before = feed.of(TRAINING).figure(Measure.UTILIZATION, "workerpool0-0", "1")
    backend.broken_jobs[TRAINING.name] = Unavailable("gone away")
    clock.on(seconds=10)
    await feed.read_once()
    assert list(feed.errors) == [TRAINING.display_name]
    assert feed.of(TRAINING).figure(Measure.UTILIZATION, "workerpool0-0", "1") == before
    backend.error = Unavailable("all gone")
    clock.on(seconds=10)
    await feed.read_once()
    assert set(feed.errors) == {LOG, *(each.display_name for each in backend.stored.values())}
    backend.error = None
    backend.broken_jobs.clear()
    clock.on(seconds=10)
    await feed.read_once()
    assert feed.errors == {}


async def test_what_has_ended_is_forgotten() -> None:
    backend = FleetBackend()
    feed = feed_of(backend)
    await feed.read_once()
    assert set(feed.figures) == {TRAINING.name, LARGE.name, LOCAL.name}
    backend.change(LARGE.name, state=JobState.SUCCEEDED)
    await feed.read_once()
    assert set(feed.figures) == {TRAINING.name, LOCAL.name}


class SlowBackend(FleetBackend):
    """Counts the reads under way; each waits until the test lets all of them go."""

    def __init__(self, count: int) -> None:
        super().__init__(*(job(200 + n, f"job-{n}", groups=(pool(0, 1, A100, 1),)) for n in range(count)))
        self.go = asyncio.Event()
        self.full = asyncio.Event()
        self.use(metrics=SlowMetrics(self))


class SlowMetrics(FleetMetrics):
    backend: SlowBackend

    async def read(self, name: str, **more: Any) -> MetricsReading:
        backend = self.backend
        backend.at_once += 1
        backend.most_at_once = max(backend.most_at_once, backend.at_once)
        if backend.at_once == FAN_OUT:
            backend.full.set()
        await backend.go.wait()
        backend.at_once -= 1
        return await super().read(name, **more)


async def test_only_so_many_jobs_are_read_at_once() -> None:
    backend = SlowBackend(3 * FAN_OUT)
    feed = feed_of(backend)
    reading = asyncio.create_task(feed.read_once())
    async with asyncio.timeout(LIMIT):
        await backend.full.wait()
        backend.go.set()
        await reading
    assert backend.most_at_once == FAN_OUT
    assert len(backend.asked) == 3 * FAN_OUT
    assert len(feed.figures) == 3 * FAN_OUT
