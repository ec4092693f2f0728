"""The feed of one job against a service in memory that fails and recovers on command."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.ui.double import NOON, Clock, job
from tests.ui.job_double import JobBackend, a_log, at, event, line, no_gpu, step, waves
from tests.waiting import LIMIT
from tui.backends.interface import Unavailable
from tui.config.settings import Settings
from tui.domain.core.job import Job, JobError
from tui.domain.core.log_entry import LogGap
from tui.domain.core.metric import CPU, GPU, MetricsReading, Series
from tui.domain.core.states import JobState
from tui.session import Session
from tui.store.job.events import JobEvents
from tui.store.job.feed import Changed, JobFeed
from tui.store.job.series import SeriesStore, buckets
from tui.store.log.retention import log_folder


async def until(true: Callable[[], Any], seconds: float = LIMIT) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - any condition can be waited for
            await asyncio.sleep(0.01)


@asynccontextmanager
async def feeding(
    backend: JobBackend, known: Job | None = None, folder: Path | None = None
) -> AsyncIterator[JobFeed]:
    seen: list[Changed] = []
    session = Session(backend, Settings(), clock=Clock())
    feed = JobFeed(session, next(iter(backend.stored)), seen.append, folder)
    feed.know(known)
    feed.seen = seen  # type: ignore[attr-defined]
    task = asyncio.create_task(feed.run())
    try:
        yield feed
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.timeout(LIMIT):
                await task
        feed.close()


async def test_it_brings_everything_of_a_running_job() -> None:
    backend = JobBackend(job(1, "train"))
    backend.say(*a_log())
    backend.series, backend.not_measured = waves(["workerpool0-0"]), no_gpu()
    async with feeding(backend) as feed:
        await until(lambda: len(feed.buffer) == len(backend.entries) and feed.series.read_at)
        await until(lambda: feed.sources["steps"].done)
        assert feed.job is not None and feed.trouble is None
        assert feed.progress.step == 119 and feed.progress.last_checkpoint_step == 50
        assert [s.step for s in feed.samples()] == list(range(1, 121, 2))
        assert next(m.metric for m in feed.series.not_measured()) == GPU
        backend.say(step(500, 121), line(499, "late"), gaps=[LogGap(at(450), 7, "rate limit")])
        await until(lambda: feed.progress.step == 121)
        kinds = [e.kind for e in feed.events.ordered(feed.job)]
        assert {"state", "service", "phase", "checkpoint", "gap"} <= set(kinds)
        assert len(feed.buffer) == len(backend.entries) + 1


async def test_a_log_is_there_again_before_the_service_answers(tmp_path: Path) -> None:
    backend, folder = JobBackend(job(1, "train")), log_folder(tmp_path, "test", "jobs/1")
    backend.say(*a_log())
    async with feeding(backend, folder=folder) as feed:
        await until(lambda: len(feed.buffer) == len(backend.entries) and feed.events.ordered(feed.job))
        known = len(feed.events.ordered(feed.job))
    backend.log_error = Unavailable("the log can't be reached", fix="wait")
    async with feeding(backend, folder=folder) as feed:
        await until(lambda: len(feed.buffer) == len(backend.entries) and feed.sources["logs"].error)
        assert len(feed.events.ordered(feed.job)) == known and feed.progress.step == 119
        assert feed.older_left, "nobody knows whether there is more until it is asked for"
        backend.log_error = None
        backend.say(line(600, "new"))
        feed.kick()
        await until(lambda: len(feed.buffer) == len(backend.entries))


async def test_a_cut_log_is_shown_as_such_and_goes_on_without_doubles() -> None:
    backend = JobBackend(job(1, "train"))
    backend.say(*a_log())
    async with feeding(backend) as feed:
        await until(lambda: len(feed.buffer) == len(backend.entries) and backend.tails == 1)
        backend.log_error = Unavailable("the log can't be reached", fix="wait")
        backend.say()
        await until(lambda: feed.sources["logs"].error)
        assert feed.trouble is feed.sources["logs"] and feed.sources["logs"].failing_since == NOON
        backend.log_error = None
        backend.say(line(600, "after"))
        feed.kick()
        await until(lambda: len(feed.buffer) == len(backend.entries))
        await until(lambda: feed.sources["logs"].error is None)
        assert backend.tails == 2


async def test_an_ended_job_is_read_to_its_end_and_then_left_alone() -> None:
    error = JobError(9, "The replica workerpool1-0 exited with a non-zero status of 1.")
    backend = JobBackend(job(1, "train", JobState.FAILED, error=error, ended=60, age=90))
    backend.say(*a_log())
    async with feeding(backend) as feed:
        await until(lambda: all(s.done for s in feed.sources.values()))
        assert len(feed.buffer) == len(backend.entries)
        ended = [e for e in feed.events.ordered(feed.job) if e.key == "ended"]
        assert "failed: The replica workerpool1-0" in ended[0].text


@asynccontextmanager
async def cloud_feed(*jobs: Job, clock: Clock) -> AsyncIterator[tuple[JobBackend, JobFeed]]:
    """The feed of the first of these jobs; a test calls its readings itself."""
    backend = JobBackend(*jobs, local=False)
    feed = JobFeed(Session(backend, Settings(), clock=clock, monotonic=clock.monotonic), jobs[0].name)
    feed.buffer.open()
    await feed._read_job()
    await feed._read_metrics()
    yield backend, feed
    feed.close()


@pytest.mark.parametrize("jump", [600, -600])
async def test_figures_are_read_until_the_last_ones_have_come_whatever_the_clock_says(jump: float) -> None:
    clock = Clock()
    async with cloud_feed(job(1, "train"), clock=clock) as (backend, feed):
        backend.change(feed.job_name, state=JobState.SUCCEEDED, end_time=clock())
        clock.jump(jump)
        for minute in range(6):
            await feed._read_job()
            await feed._read_metrics()
            assert not feed.sources["metrics"].done, f"a sample may be late after {minute} minutes"
            clock.on(minutes=1)
        clock.on(seconds=1)
        await feed._read_metrics()
        assert feed.sources["metrics"].done


async def test_figures_of_a_job_that_ended_long_ago_are_read_once() -> None:
    async with cloud_feed(job(1, "train", JobState.SUCCEEDED), clock=Clock()) as (_, feed):
        assert not feed.sources["metrics"].done, "five minutes ago"
    async with cloud_feed(job(1, "train", JobState.SUCCEEDED, ended=30), clock=Clock()) as (_, feed):
        assert feed.sources["metrics"].done


async def test_new_samples_are_asked_for_after_the_clock_was_set_back() -> None:
    clock = Clock()
    async with cloud_feed(job(1, "train"), clock=clock) as (backend, feed):
        backend.series = waves(["workerpool0-0"])
        await feed._read_metrics()
        clock.jump(-600)
        await feed._read_metrics()
        assert backend.metrics_since[-1] < clock() < feed.series.newest


@pytest.mark.parametrize("jump", [600, -600])
async def test_a_followed_log_is_silent_by_the_time_that_passes(jump: float) -> None:
    clock = Clock()
    async with cloud_feed(job(1, "train"), clock=clock) as (_, feed):
        feed._fine(feed.sources["logs"])
        clock.jump(jump)
        assert feed.silent_for() is None
        clock.on(seconds=151)
        assert feed.silent_for() == timedelta(seconds=151)


async def test_an_unreachable_service_still_shows_what_was_known() -> None:
    backend = JobBackend(job(1, "train"))
    backend.error = Unavailable("no answer")
    async with feeding(backend, known=next(iter(backend.stored.values()))) as feed:
        await until(lambda: feed.sources["logs"].error and feed.sources["metrics"].error)
        assert feed.job is not None and feed.job.display_name == "train"
        backend.error = None
        feed.kick()
        await until(lambda: feed.trouble is None)


async def test_a_job_that_is_deleted_is_said_to_be_gone() -> None:
    backend = JobBackend(job(1, "train"))
    async with feeding(backend) as feed:
        await until(lambda: feed.job)
        backend.stored.clear()
        feed.kick()
        await until(lambda: feed.gone)


async def test_only_the_newest_lines_are_read_first_and_older_ones_on_request() -> None:
    backend = JobBackend(job(1, "train"))
    backend.say(*[line(n / 100, f"n{n}") for n in range(26_000)])
    async with feeding(backend) as feed:
        await until(lambda: len(feed.buffer) >= 20_000)
        assert feed.older_left
        assert (await feed.read_older()).count == 5_000
        assert (await feed.read_older()).count == 1_000
        assert (await feed.read_older()).count == 0 and not feed.older_left
        assert feed.buffer[feed.buffer.first].timestamp == at(0)


async def test_a_restart_that_no_time_of_the_job_tells_of_is_an_event() -> None:
    events, running = JobEvents(), job(1, "train")
    events.observe(running, NOON)
    assert events.observe(replace(running, state=JobState.RESTARTING), NOON)
    assert events.observe(running, NOON + timedelta(minutes=1))
    texts = [e.text for e in events.ordered(running)]
    assert texts == ["created", "running", "restarting", "running"]
    assert events.add([event(1, "preempted", "SIGTERM at step 5")])
    assert not events.add([event(1, "preempted", "SIGTERM at step 5")])


def test_series_grow_point_by_point_and_keep_what_was_measured() -> None:
    store = SeriesStore()
    points = tuple((at(n), float(n)) for n in range(4))
    store.add(MetricsReading((Series(CPU, "workerpool0-10", "", "1", points[:3]),), tuple(no_gpu()), NOON))
    store.add(MetricsReading((Series(CPU, "workerpool0-10", "", "1", points[2:]),), (), NOON))
    store.add(MetricsReading((Series(CPU, "workerpool0-2", "", "1", points),), (), NOON))
    assert [s.replica for s in store.of(CPU)] == ["workerpool0-2", "workerpool0-10"]
    assert store.of(CPU, "workerpool0-10")[0].points == points
    assert store.not_measured() == [] and store.newest == at(3)
    assert (
        buckets(points, at(3), timedelta(seconds=6), 3) == [None, 0.0, 3.0]
        or buckets(points, at(3), timedelta(seconds=6), 3)[0] is None
    )


@pytest.mark.parametrize("ticks", range(8))
async def test_a_cancel_that_meets_a_kick_is_not_lost(ticks: int) -> None:
    """`asyncio.wait_for` of Python 3.11 returns instead, where what it waited for is done by then."""
    session = Session(JobBackend(job(1, "train")), Settings(), clock=Clock())
    feed = JobFeed(session, next(iter(session.backend.stored)))  # type: ignore[attr-defined]
    task = asyncio.create_task(feed.run())
    try:
        await until(lambda: feed.job is not None and feed.trouble is None)
        feed.kick()
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=LIMIT)
        assert done
    finally:
        feed.close()


async def test_a_job_that_was_created_again_under_its_name_is_gone() -> None:
    backend = JobBackend(job(1, "train"))
    backend.say(*a_log())
    async with feeding(backend) as feed:
        await until(lambda: feed.job is not None and len(feed.buffer))
        name = feed.job_name
        backend.stored[name] = replace(backend.stored[name], create_time=at(999))
        feed.kick()
        await until(lambda: feed.gone)
        error = feed.sources["job"].error
        assert error is not None and "another job now has its name" in error.message
