"""Replies that can't be decoded, and a log stream that is open and silent: seen, said and survived."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from tests.waiting import LIMIT, until
from tests.wire.control import PARENT, Clients, emulator, python
from tests.wire.fake_vertex import FixedEndpoint, backend
from tui.backends.interface import LogBatch, LogQuery, Unavailable
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.logs import tail as tail_module
from tui.backends.vertex.transport.connect import LOCAL_PACE
from tui.config.settings import Settings
from tui.session import Session
from tui.store.job.feed import JobFeed

PACE = replace(LOCAL_PACE, heartbeat=0.3, overlap=0.5, reconnect=0.2, patience=0.2)
TALKER = """
import pathlib, time
number = 0
while True:
    print('line', number, flush=True)
    number += 1
    time.sleep(0.2)
"""


@pytest.fixture
async def place() -> AsyncIterator[tuple[VertexBackend, Clients]]:
    async with emulator() as (running, clients):
        endpoint = FixedEndpoint({"us-central1": running.target}, PACE)
        async with backend(endpoint) as found:
            found.info = replace(found.info, project=PARENT.split("/")[1])
            assert isinstance(found, VertexBackend)
            yield found, clients


async def test_an_undecodable_reply_is_a_lost_connection_and_tried_again(
    place: tuple[VertexBackend, Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, clients = place
    job = await clients.create(python("pass"))
    await clients.admin(do="api", method="GetCustomJob", kind="malformed")
    with pytest.raises(Unavailable, match="can't be decoded") as lost:
        await found.job_service(job.name).get(job.name)
    assert lost.value.fix
    await clients.admin(do="clear")
    await clients.admin(do="api", method="*", kind="malformed", times=1)
    # A read that has to be repeated may take longer than the little patience that suits the read above.
    monkeypatch.setattr(found._endpoint, "pace", replace(PACE, patience=LIMIT))
    assert (await found.job_service(job.name).get(job.name)).name == job.name


async def test_a_silent_stream_is_noticed_and_read_by_lists(
    place: tuple[VertexBackend, Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, clients = place
    monkeypatch.setattr(tail_module, "DEAF_SECONDS", 0.5)
    job = await clients.create(python(TALKER))
    await clients.admin(do="api", method="TailLogEntries", kind="silent")
    texts: list[str] = []
    notes: list[str] = []

    async def follow() -> None:
        async with aclosing(found.logs.tail(LogQuery(job.name))) as batches:
            async for batch in batches:
                assert batch != LogBatch()
                texts.extend(entry.message for entry in batch.entries)
                notes.extend([batch.note] if batch.note else [])

    following = asyncio.create_task(follow())
    await until(lambda: tail_module.SILENT in " ".join(notes), "the note")
    count = len(texts)
    await until(lambda: len(texts) > count + 5, "the lines")
    following.cancel()
    lines = [text for text in texts if text.startswith("line ")]
    assert lines == [f"line {number}" for number in range(len(lines))]


async def test_a_quiet_log_is_read_up_to_now(place: tuple[VertexBackend, Clients]) -> None:
    found, clients = place
    job = await clients.create(python("import time; time.sleep(600)"))
    alive = 0
    async with aclosing(found.logs.tail(LogQuery(job.name))) as batches:
        async for batch in batches:
            alive += batch.alive and not batch.entries
            if alive > 3:
                return
    raise AssertionError("the log of a running job has ended")


async def test_a_defect_of_one_source_is_tried_again_and_the_feed_goes_on(
    place: tuple[VertexBackend, Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, clients = place
    job = await clients.create(python("import time; time.sleep(600)"))
    get, failing = found.job_service(job.name).get, True

    async def broken(name: str) -> Any:
        if failing:
            raise AttributeError("'NoneType' object has no attribute 'jobs'")
        return await get(name)

    monkeypatch.setattr(found.job_service(job.name), "get", broken)
    feed = JobFeed(Session(found, Settings()), job.name)
    running = asyncio.create_task(feed.run())
    await until(lambda: feed.sources["job"].error is not None, "the error")
    failing = False
    feed.kick()
    await until(lambda: feed.job is not None, "the job")
    await until(lambda: feed.trouble is None, "the end of the error")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    feed.close()
