"""Services that hang or are slow: a deadline for each action, plain words, and round trips side by side."""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.waiting import until
from tests.wire.control import PARENT, Clients, emulator, python
from tests.wire.fake_vertex import FixedEndpoint, backend
from tui.backends.interface import LogQuery, Unavailable
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.logs.progress import ProgressReader
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.connect import LOCAL_PACE
from tui.config.settings import Settings
from tui.verbs.jobs import describe
from tui.verbs.run import Run

SLOW = 0.5
"""Seconds before every reply."""
STEPS = 60
"""More than a read of the progress takes of each job: the first loss is not among the newest lines."""
PRINTS = f"""
import time
for step in range({STEPS}):
    print(f"step {{step}}/99 loss {{2.5 - step / 100}}", flush=True)
time.sleep(600)
"""


@pytest.fixture
async def place() -> AsyncIterator[tuple[VertexBackend, Clients]]:
    async with emulator() as (running, clients):
        pace = replace(LOCAL_PACE, patience=0.0)
        async with backend(FixedEndpoint({"us-central1": running.target}, pace)) as found:
            found.info = replace(found.info, project=PARENT.split("/")[1])
            assert isinstance(found, VertexBackend)
            yield found, clients


def test_no_read_of_one_resource_waits_as_long_as_a_change_or_a_page_of_a_log() -> None:
    assert deadlines.READ < deadlines.LOG_PAGE <= deadlines.CHANGE < deadlines.CREATE
    assert deadlines.READ < 10


async def test_a_call_that_hangs_says_so_in_plain_words(place: tuple[VertexBackend, Clients]) -> None:
    found, clients = place
    job = await clients.create(python("pass"))
    await clients.admin(do="api", method="GetCustomJob", kind="silent")
    service = found.job_service(job.name)
    caller = service._call  # type: ignore[attr-defined]
    with pytest.raises(Unavailable) as lost:
        await caller.once(
            "read it",
            lambda seconds: service._method(job.name, "get")(name=job.name, retry=None, timeout=seconds),  # type: ignore[attr-defined]
            within=0.5,
        )
    assert lost.value.message == "Can't read it: no answer within 0.5 s"
    assert "vxtui doctor" in lost.value.fix


class Rounds:
    """Calls that follow each other: each such round waits for the reply of a slow service once more."""

    def __init__(self, found: VertexBackend, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[float, float]] = []
        once = found._open.clients.caller.once

        async def timed(what: str, send: Any, **more: Any) -> Any:
            began = time.monotonic()
            try:
                return await once(what, send, **more)
            finally:
                self.calls.append((began, time.monotonic()))

        monkeypatch.setattr(found._open.clients.caller, "once", timed)

    def count(self) -> int:
        """Rounds since the last count: one begins after the end of a call of the one before it."""
        rounds, end = 0, 0.0
        for began, ended in sorted(self.calls):
            if began >= end:
                rounds, end = rounds + 1, ended
        self.calls.clear()
        return rounds


async def test_reads_go_side_by_side(
    place: tuple[VertexBackend, Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, clients = place
    job = await clients.create(python(PRINTS), name="a name")
    await clients.reach(job.name, "RUNNING")
    id = job.name.rpartition("/")[2]
    rounds = Rounds(found, monkeypatch)
    await clients.admin(do="api", method="*", delay=SLOW)
    assert [each.name for each in await found.find_jobs(id)] == [job.name] and rounds.count() == 1
    (listed,) = await found.find_jobs("a name")
    assert rounds.count() == 1
    await found.metrics.read(job.name)
    # The job and the descriptors, then the series.
    assert rounds.count() == 2
    query = LogQuery(job.name, created=listed.create_time)
    assert [batch async for batch in found.logs.read(query)] and rounds.count() == 1
    await clients.admin(do="clear")


async def test_what_describe_reads_of_a_job_it_reads_at_once(
    place: tuple[VertexBackend, Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, clients = place
    job = await clients.create(python(PRINTS))
    await clients.reach(job.name, "RUNNING")
    rounds = Rounds(found, monkeypatch)
    await clients.admin(do="api", method="*", delay=SLOW)

    @asynccontextmanager
    async def opened(*_: Any) -> AsyncIterator[VertexBackend]:
        yield found

    monkeypatch.setattr(Run, "backend", opened)
    run = Run(Settings(), "", json=True, read_only=False)
    described = inspect.unwrap(describe.callback or describe)
    await described(run, job.name, reveal=False)
    # The job itself, then all that there is of it; of its log the newest lines beside the oldest.
    assert rounds.count() == 2
    await clients.admin(do="clear")


async def test_the_first_losses_of_several_jobs_are_read_at_once(
    place: tuple[VertexBackend, Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, clients = place
    made = [await clients.create(python(PRINTS)) for _ in range(4)]
    jobs = [await found.job_service(job.name).get(job.name) for job in made]

    async def printed() -> bool:
        return all(one.step == STEPS - 1 for one in (await found.progress.read(jobs)).values())

    await until(printed, "their progress")
    again = ProgressReader(found._open.services.logs._reader, 2.0)  # type: ignore[union-attr]
    rounds = Rounds(found, monkeypatch)
    await clients.admin(do="api", method="*", delay=SLOW)
    read = await again.read(jobs)
    assert [one.first_loss for one in read.values()] == [2.5] * 4
    # The newest lines of all, then of those that have none among them, then the first losses.
    assert rounds.count() <= 3
    await clients.admin(do="clear")
