"""Figures of the jobs in view: what is read, how often, and that not measured is not zero."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from tests.ui.double import NOON, Clock, MemoryBackend, job
from tui.backends.interface import MetricService, Unavailable
from tui.config.settings import Settings
from tui.domain.core.job import Job
from tui.domain.core.metric import CPU, GPU, MetricsReading, Series
from tui.domain.fields.jobs import trend_cell
from tui.session import Session
from tui.store.jobs.usage import BARS, UsageFeed
from tui.widgets.table.cells import content


class Busy(MemoryBackend):
    """Two GPUs, one at 40 % and one at 60 %; no CPU is measured."""

    def __init__(self, jobs: Sequence[Job], *, simulated: bool = False) -> None:
        super().__init__(jobs)
        self.asked: list[str] = []
        self.labels = (("simulated", "true"),) if simulated else ()
        self.use(metrics=BusyMetrics(self))


class BusyMetrics(MetricService):
    def __init__(self, backend: Busy) -> None:
        self._backend = backend

    async def read(
        self, name: str, *, since: datetime | None = None, metrics: Sequence[str] = ()
    ) -> MetricsReading:
        self._backend.meet_error()
        self._backend.asked.append(name)
        points = ((NOON - timedelta(seconds=1), 0.0),)
        series = tuple(
            Series(
                GPU,
                "workerpool0-0",
                str(n),
                "1",
                tuple((at, share) for at, _ in points),
                self._backend.labels,
            )
            for n, share in enumerate((0.4, 0.6))
        )
        return MetricsReading(series, (), NOON)


def feed(backend: MemoryBackend, clock: Clock, jobs: list[Job]) -> tuple[UsageFeed, list[str]]:
    changed: list[str] = []
    session = Session(backend, Settings(), clock=clock, monotonic=clock.monotonic)
    return UsageFeed(session, lambda: jobs, changed.extend), changed


async def test_the_mean_of_the_accelerators_and_a_dot_for_what_is_not_measured() -> None:
    one = job(1, "one")
    backend, clock = Busy([one]), Clock()
    usage, changed = feed(backend, clock, [one])
    assert usage.course(one.name, GPU).latest is None
    await usage.read_due()
    course = usage.course(one.name, GPU)
    assert course.shares == (None,) * (BARS - 1) + (0.5,) and course.latest == 0.5
    assert content(trend_cell(course)).plain == "·····▅  50"
    assert content(trend_cell(course), ascii_only=True).plain.isascii()
    assert usage.course(one.name, CPU).latest is None
    assert content(trend_cell(usage.course(one.name, CPU))).plain == "·" and changed == [one.name]


async def test_a_job_is_read_when_it_comes_into_view_and_then_when_it_is_due() -> None:
    one, two = job(1, "one"), job(2, "two")
    backend, clock, jobs = Busy([one, two]), Clock(), [job(1, "one")]
    usage, _ = feed(backend, clock, jobs)
    await usage.read_due()
    jobs.append(two)
    await usage.read_due()
    assert backend.asked == [one.name, two.name]
    clock.on(seconds=5)
    await usage.read_due()
    assert sorted(backend.asked) == [one.name, one.name, two.name, two.name]
    # Older than the span that is drawn: not measured any more.
    clock.on(minutes=10)
    assert usage.course(one.name, GPU).latest is None


@pytest.mark.parametrize("jump", [600, -600])
async def test_a_clock_that_is_set_neither_stops_nor_hurries_the_reading(jump: float) -> None:
    one = job(1, "one")
    backend, clock = Busy([one]), Clock()
    usage, _ = feed(backend, clock, [one])
    await usage.read_due()
    clock.jump(jump)
    await usage.read_due()
    assert len(backend.asked) == 1
    clock.on(seconds=5)
    await usage.read_due()
    assert len(backend.asked) == 2


async def test_a_job_that_can_not_be_read_has_no_figures_and_stops_nobody() -> None:
    one = job(1, "one")
    backend = Busy([one])
    backend.error = Unavailable("away")
    usage, changed = feed(backend, Clock(), [one])
    await usage.read_due()
    assert usage.course(one.name, GPU).latest is None and not changed


async def test_simulated_figures_say_so() -> None:
    one = job(1, "one")
    usage, _ = feed(Busy([one], simulated=True), Clock(), [one])
    await usage.read_due()
    assert content(trend_cell(usage.course(one.name, GPU))).plain.startswith("sim")
