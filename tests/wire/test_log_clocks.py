"""Lines whose own time is wrong: before their job, hours ahead, or stepping back. Each is found, once."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.waiting import LIMIT, until
from tests.wire.backend_tail_support import NAME, PACE, Reader
from tests.wire.fake_vertex import START, Fake, State, connected
from tui.backends.interface import LogQuery
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.logs.convert import Receipt
from tui.backends.vertex.logs.tail_state import Lateness
from tui.config.settings import Settings
from tui.domain.core.log_entry import LogEntry
from tui.session import Session
from tui.store.job import feed as feed_module
from tui.store.job.feed import JobFeed

HOUR = 3600.0


def write(
    fake: Fake, text: str, at: float, clock: float, *, replica: str = "workerpool0-0", send: bool = True
) -> None:
    """A line printed and received `at` seconds after the job's start, by a clock that is `clock` ahead."""
    fake.write(text, at=at + clock, received=at, replica=replica, send=send)


async def texts(found: VertexBackend, query: LogQuery, *, newest_first: bool = False) -> list[str]:
    pages = found.logs.read(query, newest_first=newest_first)
    return [entry.message async for batch in pages for entry in batch.entries]


def ended() -> Fake:
    fake = Fake()
    fake.add_job(state=State.JOB_STATE_SUCCEEDED)
    return fake


@pytest.mark.parametrize("clock", [-HOUR, -26 * HOUR, 25 * HOUR])
async def test_a_log_by_a_wrong_clock_is_read_whole(clock: float) -> None:
    fake = ended()
    for number in range(20):
        write(fake, f"line {number}", number, clock)
    wanted = [f"line {n}" for n in range(20)]
    async with connected(fake, PACE) as found:
        assert await texts(found, LogQuery(NAME)) == wanted
        assert await texts(found, LogQuery(NAME), newest_first=True) == wanted[::-1]
        reader = Reader(found, LogQuery(NAME))
        await reader.end()
        assert reader.texts == wanted


async def test_since_finds_what_was_received_since_whatever_its_own_time() -> None:
    fake = ended()
    write(fake, "before, in time", 10, 0)
    write(fake, "before, by a clock that is behind", 10, -HOUR)
    write(fake, "after, in time", 30, 0)
    write(fake, "after, by a clock that is behind", 30, -HOUR)
    query = LogQuery(NAME, since=START + timedelta(seconds=20))
    async with connected(fake, PACE) as found:
        assert sorted(await texts(found, query)) == ["after, by a clock that is behind", "after, in time"]
        reader = Reader(found, query)
        await reader.end()
        assert sorted(reader.texts) == ["after, by a clock that is behind", "after, in time"]


async def test_a_hole_is_filled_although_one_replica_is_an_hour_ahead_and_one_behind() -> None:
    fake = Fake()
    fake.add_job()
    clocks = {"workerpool0-0": HOUR, "workerpool1-0": -HOUR, "workerpool1-1": 0.0}
    async with connected(fake, replace(PACE, overlap=2.0)) as found:
        reader = Reader(found, LogQuery(NAME))
        await until(lambda: fake.tails, "the stream")
        for replica, clock in clocks.items():
            write(fake, f"{replica} before", 300, clock, replica=replica)
        await reader.reach(3)
        fake.deaf = True
        fake.cut()
        await until(lambda: not fake.tails, "the cut")
        for replica, clock in clocks.items():
            write(fake, f"{replica} in the hole", 301, clock, replica=replica, send=False)
        fake.deaf = False
        await reader.reach(6)
        fake.end(NAME)
        await reader.end()
    assert Counter(reader.texts) == Counter(
        f"{replica} {when}" for replica in clocks for when in ("before", "in the hole")
    )


async def watch(session: Session, folder: Path, meanwhile: Callable[[], None] | None = None) -> list[str]:
    """The lines a job's screen has; without `meanwhile` it reads the log to both of its ends."""
    feed = JobFeed(session, NAME, log_folder=folder)
    task = asyncio.create_task(feed.run())
    try:
        if meanwhile is not None:
            await until(lambda: len(feed.buffer) >= feed_module.RECENT, "the newest lines")
            before = len(feed.buffer)
            meanwhile()
            await until(lambda: len(feed.buffer) > before, "a new line")
        else:
            await until(lambda: feed.sources["logs"].done, "the end of the log")
            while feed.older_left:
                await feed.read_older()
        lines = (feed.buffer[at] for at in range(feed.buffer.first, feed.buffer.end))
        return [line.message for line in lines if isinstance(line, LogEntry)]
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        feed.close()


@pytest.mark.parametrize("seed", range(6))
async def test_with_random_clocks_every_line_is_in_each_view_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `vxtui logs`, `--follow` and a console that is closed and opened again have of a log."""
    monkeypatch.setattr(feed_module, "RECENT", 40)
    monkeypatch.setattr(feed_module, "OLDER", 15)
    pick = random.Random(seed)
    fake = Fake()
    fake.add_job()
    offsets = {f"workerpool1-{n}": pick.uniform(-12 * HOUR, 12 * HOUR) for n in range(3)}
    offsets["workerpool0-0"] = 0.0
    printed: list[str] = []

    def say(count: int, first: float, *, send: bool) -> None:
        for number in range(count):
            replica = pick.choice(list(offsets))
            # A clock may also step in the middle.
            clock = offsets[replica] - (HOUR if pick.random() < 0.1 else 0)
            printed.append(f"{replica} {len(printed):03}")
            write(fake, printed[-1], first + number, clock, replica=replica, send=send)

    async with connected(fake, replace(PACE, overlap=2.0)) as found:
        say(80, 0, send=False)
        reader = Reader(found, LogQuery(NAME))
        await until(lambda: fake.tails, "the stream")
        session = Session(found, Settings())
        async with asyncio.timeout(LIMIT):
            await watch(session, tmp_path, lambda: say(20, 100, send=True))
            # While the console is closed.
            say(20, 200, send=True)
            fake.end(NAME)
            known = await watch(session, tmp_path)
        await reader.end()
        assert Counter(reader.texts) == Counter(printed)
        assert Counter(await texts(found, LogQuery(NAME))) == Counter(printed)
        assert Counter(known) == Counter(printed)


@pytest.mark.parametrize("step", [30, 600])
def test_a_step_of_the_services_clock_is_no_lateness(step: int) -> None:
    lateness = Lateness()
    for second in range(4):
        lateness.add(Receipt(START + timedelta(seconds=second), late=1), 50.0 + second)
    # Printed before the clock was set forward, received after it.
    lateness.add(Receipt(START + timedelta(seconds=4 + step), late=min(step, 60)), 54.0)
    assert lateness.seconds <= 1
    # Entries that do come late are waited for.
    lateness.add(Receipt(START + timedelta(seconds=5 + step), late=20), 55.0)
    assert lateness.seconds == 20


async def test_a_log_by_a_clock_that_is_an_hour_behind_ends_with_its_job() -> None:
    """A wrong clock is not mistaken for entries that are an hour on their way."""
    fake = Fake()
    fake.add_job()
    async with connected(fake, PACE) as found:
        reader = Reader(found, LogQuery(NAME))
        await until(lambda: fake.tails, "the stream")
        for number in range(5):
            write(fake, f"line {number}", number, -HOUR)
        await reader.reach(5)
        fake.end(NAME)
        # A drain of 60 s would not end before this.
        await asyncio.wait_for(reader.task, 40)
    assert reader.texts == [f"line {n}" for n in range(5)]
