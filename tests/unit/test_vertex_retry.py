"""Our own retries and the budget of log reads."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.backends.interface import BackendError, NotFound, QuotaExceeded, Unavailable
from tui.backends.vertex.transport.connect import LOCAL_PACE, Endpoint, Service
from tui.backends.vertex.transport.retry import Caller, RateLimiter, delay


class Nowhere(Endpoint):
    pace = LOCAL_PACE

    def target(self, service: Service, region: str) -> str:
        return ""

    async def open(self) -> None:
        return None


class Flaky:
    """Fails with each of `errors` in turn, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls: list[float] = []

    async def __call__(self, seconds: float) -> str:
        self.calls.append(time.monotonic())
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


class SlowLogin(Nowhere):
    async def ready(self) -> None:
        await asyncio.sleep(3600)


async def test_a_login_that_hangs_ends_with_the_call() -> None:
    with pytest.raises(Unavailable, match=r"no answer within -0\.9 s"):
        await Caller(SlowLogin()).once("look", Flaky(), within=-0.9)


async def test_a_read_is_repeated_until_it_is_answered() -> None:
    send = Flaky(Unavailable("down"), TimeoutError(), QuotaExceeded("busy"))
    assert await Caller(Nowhere()).read("look", send) == "answer"
    assert len(send.calls) == 4


async def test_the_wait_that_the_service_asks_for_is_kept() -> None:
    send = Flaky(QuotaExceeded("busy", retry_after=0.4))
    await Caller(Nowhere()).read("look", send)
    assert send.calls[1] - send.calls[0] >= 0.4


async def test_a_wait_beyond_all_patience_is_not_begun() -> None:
    send = Flaky(QuotaExceeded("busy", retry_after=3600))
    with pytest.raises(QuotaExceeded) as refused:
        await Caller(Nowhere()).read("look", send, patience=5)
    assert refused.value.retry_after == 3600
    assert len(send.calls) == 1


async def test_what_a_repetition_can_not_mend_is_raised_at_once() -> None:
    for error in (NotFound("gone"), BackendError("defect"), KeyError("bug")):
        send = Flaky(error)
        with pytest.raises(BackendError):
            await Caller(Nowhere()).read("look", send)
        assert len(send.calls) == 1


async def test_a_service_that_stays_away_is_given_up_in_the_end() -> None:
    send = Flaky(*[Unavailable("down")] * 1000)
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await Caller(Nowhere()).read("look", send, patience=1.0)
    assert time.monotonic() - began < 60
    assert len(send.calls) > 1


async def test_a_call_that_never_answers_ends_with_its_time() -> None:
    async def hang(_seconds: float) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Unavailable, match="Can't look"):
        await Caller(Nowhere()).once("look", hang, within=0.05)


async def test_a_cancel_of_the_caller_stays_a_cancel() -> None:
    async def hang(_seconds: float) -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(Caller(Nowhere()).once("look", hang))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_closed_connection_sends_nothing() -> None:
    caller, send = Caller(Nowhere()), Flaky()
    caller.closed = True
    with pytest.raises(Unavailable, match="closed"):
        await caller.read("look", send)
    assert send.calls == []


@settings(max_examples=100)
@given(st.integers(0, 60), st.one_of(st.none(), st.floats(0, 100)))
def test_delays_are_jittered_bounded_and_never_shorter_than_asked(attempt: int, asked: float | None) -> None:
    seconds = delay(attempt, QuotaExceeded("busy", retry_after=asked), 8.0)
    assert (asked or 0) <= seconds <= (asked or 0) + 8.0


@settings(max_examples=200)
@given(st.integers(1, 8), st.lists(st.floats(0, 30, allow_nan=False), max_size=60))
def test_never_more_than_the_limit_in_any_period(calls: int, gaps: list[float]) -> None:
    limiter, now, granted = RateLimiter(calls, period=60.0), 0.0, []
    for gap in gaps:
        now += gap
        granted.append(now + limiter.reserve(now))
    assert all(later >= earlier - 1e-6 for earlier, later in pairwise(granted))
    for first, last in zip(granted, granted[calls:], strict=False):
        assert last - first >= 60.0 - 1e-6


@settings(max_examples=50)
@given(st.integers(1, 20))
def test_calls_within_the_limit_do_not_wait(calls: int) -> None:
    limiter = RateLimiter(calls)
    assert [limiter.reserve(5.0) for _ in range(calls)] == [0.0] * calls
