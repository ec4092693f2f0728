"""Services that hang or are slow: a deadline for each action, plain words, and round trips side by side."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.wire.control import PARENT, Clients, emulator, python
from tests.wire.fake_vertex import FixedEndpoint, backend
from tui.backends.interface import Unavailable
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.metrics import COUNTERS
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.connect import LOCAL_PACE

SLOW = 1.0
"""Seconds before every reply."""


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


async def test_metrics_take_two_round_trips_and_not_three(
    place: tuple[VertexBackend, Clients],
) -> None:
    found, clients = place
    job = await clients.create(python("import time; time.sleep(600)"))
    await clients.reach(job.name, "RUNNING")
    calls: list[tuple[float, float]] = []
    once = found._open.clients.caller.once

    async def timed(what: str, send: object, **more: object) -> object:
        began = time.monotonic()
        try:
            return await once(what, send, **more)  # type: ignore[arg-type]
        finally:
            calls.append((began, time.monotonic()))

    found._open.clients.caller.once = timed  # type: ignore[method-assign, assignment]
    await clients.admin(do="api", method="*", delay=SLOW)
    await found.metrics.read(job.name)
    assert len(calls) > len(COUNTERS)
    # Calls that follow each other begin after the end of another one: there are two such rounds.
    rounds, end = 0, 0.0
    for began, ended in sorted(calls):
        if began >= end:
            rounds, end = rounds + 1, ended
    assert rounds == 2, calls
    await clients.admin(do="clear")
