"""A followed log over a stream that is cut, refused, late and repeated: each entry once, none lost."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from google.cloud.logging_v2.types import logging as logging_types
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2
from grpc import StatusCode

from tests.waiting import LIMIT, until
from tests.wire.backend_tail_support import NAME, PACE, QUERY, Reader, streaming
from tests.wire.fake_vertex import START, Abort, Fake, State, connected, line
from tui.backends.interface import NotFound, PermissionDenied, Unavailable
from tui.backends.vertex.logs import tail as tail_module
from tui.backends.vertex.logs import tail_state
from tui.backends.vertex.logs.stream import StreamEvent
from tui.backends.vertex.logs.tail_state import TailPhase

Suppressed = logging_types.TailLogEntriesResponse.SuppressionInfo.pb()


async def test_history_then_what_comes_until_the_job_has_ended() -> None:
    fake = Fake()
    fake.add_job()
    for number in range(2500):
        fake.write(f"old {number}", at=number / 1000)
    async with connected(fake, PACE) as found:
        reader = Reader(found)
        await until(lambda: fake.tails, "the stream")
        for number in range(5):
            fake.write(f"new {number}", at=10 + number)
        await reader.reach(2505)
        fake.end(NAME)
        await reader.end()
    assert reader.texts == [f"old {n}" for n in range(2500)] + [f"new {n}" for n in range(5)]
    assert reader.gaps == []
    await until(lambda: not fake.tails, "the stream to be closed")


async def test_a_job_that_has_ended_needs_no_stream() -> None:
    fake = Fake()
    fake.add_job(state=State.JOB_STATE_FAILED)
    fake.write("a", at=1)
    async with connected(fake, PACE) as found:
        reader = Reader(found)
        await reader.end()
    assert reader.texts == ["a"]
    assert fake.calls["TailLogEntries"] == 0


async def test_a_job_that_does_not_exist_is_said() -> None:
    async with connected(Fake(), PACE) as found:
        with pytest.raises(NotFound):
            await anext(found.logs.tail(QUERY))  # type: ignore[arg-type]


async def test_what_both_history_and_stream_bring_comes_once() -> None:
    fake = Fake()
    fake.add_job()
    fake.write("both", at=1)
    async with connected(fake, PACE) as found:
        reader = Reader(found)
        await until(lambda: fake.tails, "the stream, after history")
        fake.tails[0].put_nowait(line("both", at=1))
        await until(lambda: fake.calls["ListLogEntries"] >= 2, "the look at the seam")
        fake.end(NAME)
        await reader.end()
    assert reader.texts == ["both"]


async def test_nothing_falls_between_history_and_a_stream_that_listens_late() -> None:
    fake = Fake(deaf=True)
    fake.add_job()
    async with connected(fake, PACE) as found:
        reader = Reader(found)
        await until(lambda: fake.calls["ListLogEntries"], "history")
        assert not fake.tails
        fake.write("between", at=1)
        fake.deaf = False
        await reader.reach(1)
        fake.end(NAME)
        await reader.end()
    assert reader.texts == ["between"]


async def test_a_cut_stream_is_opened_again_and_the_hole_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_state, "OUTAGE", LIMIT)
    async with streaming() as (fake, reader):
        fake.write("before", at=1)
        await reader.reach(1)
        fake.deaf = True
        fake.cut()
        await until(lambda: not fake.tails, "the cut")
        fake.write("in the hole", at=2, send=False)
        fake.deaf = False
        await until(lambda: fake.tails, "a new stream")
        fake.write("after", at=3)
        await reader.reach(3)
    assert reader.texts == ["before", "in the hole", "after"]
    assert reader.gaps == []
    assert fake.calls["TailLogEntries"] == 2


@pytest.mark.parametrize("code", [StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED])
async def test_a_stream_that_has_had_its_time_is_opened_again(code: StatusCode) -> None:
    fake = Fake()
    fake.add_job()
    async with connected(fake, PACE) as found:
        reader = Reader(found)
        for number in range(3):
            await until(lambda: fake.tails, "a stream")
            fake.write(str(number), at=number)
            await reader.reach(number + 1)
            fake.deaf = True
            fake.cut(code)
            await until(lambda: not fake.tails, "the cut")
            fake.deaf = False
        fake.end(NAME)
        await reader.end()
    assert reader.texts == ["0", "1", "2"]


async def test_a_list_that_fails_while_a_hole_is_filled_is_tried_again() -> None:
    fake = Fake()
    fake.add_job()
    fake.write("old", at=0)
    async with connected(fake, replace(PACE, patience=0.1)) as found:
        reader = Reader(found)
        await reader.reach(1)
        await until(lambda: fake.tails, "the stream")
        fake.deaf = True
        fake.cut()
        await until(lambda: not fake.tails, "the cut")
        fake.write("hole", at=1, send=False)
        fake.fail("ListLogEntries", *[Abort(StatusCode.UNAVAILABLE)] * 8)
        fake.deaf = False
        await reader.reach(2)
        fake.end(NAME)
        await reader.end()
    assert reader.texts == ["old", "hole"]


async def test_where_all_streams_are_taken_the_log_is_polled() -> None:
    fake = Fake()
    fake.add_job()
    fake.fail("TailLogEntries", *[Abort(StatusCode.RESOURCE_EXHAUSTED, "10 sessions")] * 99)
    async with connected(fake, PACE) as found:
        reader = Reader(found)
        for number in range(3):
            fake.write(str(number), at=number)
            await reader.reach(number + 1)
        fake.end(NAME)
        await reader.end()
    assert reader.texts == ["0", "1", "2"]
    assert fake.calls["TailLogEntries"] == 1


async def test_a_stream_is_taken_as_soon_as_one_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "STREAM_AGAIN", 0.5)
    retry = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=100_000_000))
    fake = Fake()
    fake.add_job()
    fake.fail("TailLogEntries", Abort(StatusCode.RESOURCE_EXHAUSTED, "10 sessions", retry))
    async with connected(fake, PACE) as found:
        reader = Reader(found)
        await until(lambda: fake.tails, "a stream at the second try")
        fake.write("x", at=1)
        await reader.reach(1)
        fake.end(NAME)
        await reader.end()


async def test_a_late_cut_of_a_closed_stream_changes_nothing() -> None:
    fake = Fake()
    fake.add_job()
    fake.fail("TailLogEntries", *[Abort(StatusCode.RESOURCE_EXHAUSTED, "10 sessions")] * 99)
    async with connected(fake, PACE) as found:
        tail = found.logs._tail(QUERY)  # type: ignore[attr-defined]
        entries: list[str] = []

        async def follow() -> None:
            async for batch in tail.follow():
                entries.extend(entry.message for entry in batch.entries)

        task = asyncio.create_task(follow())
        await until(lambda: tail.phase is TailPhase.POLLING and fake.calls["TailLogEntries"], "the polling")
        await tail._events.put(StreamEvent(cut=Unavailable("The service ended the log stream.")))
        fake.write("after", at=1)
        await until(lambda: entries or task.done(), "the entry")
        fake.end(NAME)
        await asyncio.wait_for(task, LIMIT)
    assert entries == ["after"]


async def test_entries_left_out_are_a_gap_unless_a_list_has_them() -> None:
    reason = logging_types.TailLogEntriesResponse.SuppressionInfo.Reason
    async with streaming() as (fake, reader):
        lost = logging_types.TailLogEntriesResponse.pb()(
            entries=[line("told", at=1)],
            suppression_info=[
                Suppressed(reason=reason.RATE_LIMIT, suppressed_count=4),
                Suppressed(reason=reason.NOT_CONSUMED, suppressed_count=3),
            ],
        )
        fake.write("told", at=1, send=False)
        fake.write("listed", at=2, send=False)
        fake.write("listed too", at=3, send=False)
        fake.tails[0].put_nowait(lost)
        await until(lambda: reader.gaps, "the gap")
        await reader.reach(3)
        fake.write("also listed", at=4, send=False)
        fake.tails[0].put_nowait(
            logging_types.TailLogEntriesResponse.pb()(
                suppression_info=[Suppressed(reason=reason.RATE_LIMIT, suppressed_count=1)]
            )
        )
        await reader.reach(4)
    assert reader.texts == ["told", "listed", "listed too", "also listed"]
    (gap,) = reader.gaps
    assert gap.count == 5
    assert "rate limit" in gap.reason
    assert "too slowly" in gap.reason


async def test_a_refusal_that_no_patience_mends_is_raised() -> None:
    fake = Fake()
    fake.add_job()
    fake.fail("TailLogEntries", *[Abort(StatusCode.PERMISSION_DENIED, "logging.logEntries.list")] * 9)
    async with connected(fake, PACE) as found:
        with pytest.raises(PermissionDenied, match=r"logging\.logEntries\.list"):
            await Reader(found).end()


async def test_a_service_that_stays_away_is_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_state, "GIVE_UP", 1.0)
    fake = Fake()
    fake.add_job()
    async with connected(fake, replace(PACE, patience=0.1)) as found:
        reader = Reader(found)
        await until(lambda: fake.tails, "the stream")
        for method in ("TailLogEntries", "ListLogEntries", "GetCustomJob"):
            fake.fail(method, *[Abort(StatusCode.UNAVAILABLE)] * 9999)
        fake.cut()
        with pytest.raises(Unavailable):
            await reader.end()


async def test_a_state_that_can_not_be_read_holds_no_entry_back() -> None:
    """Each read of the job's state is tried for longer than the time between two of them."""
    fake = Fake()
    fake.add_job()
    async with connected(fake, replace(PACE, patience=1.0)) as found:
        reader = Reader(found)
        await until(lambda: fake.tails, "the stream")
        fake.fail("GetCustomJob", *[Abort(StatusCode.UNAVAILABLE)] * 9999)
        before = fake.calls["GetCustomJob"]
        await until(lambda: fake.calls["GetCustomJob"] > before, "a read of the state")
        for number in range(3):
            fake.write(str(number), at=number)
            await reader.reach(number + 1)
        fake.fail("GetCustomJob")
        fake.end(NAME)
        await reader.end()
    assert reader.texts == ["0", "1", "2"]


async def test_closing_the_backend_ends_a_followed_log() -> None:
    fake = Fake()
    fake.add_job()
    async with connected(fake, PACE) as found:
        reader = Reader(found)
        await until(lambda: fake.tails, "the stream")
        await found.aclose()
        with pytest.raises(Unavailable):
            await reader.end()


async def test_a_cancel_is_prompt_and_leaves_nothing_open() -> None:
    fake = Fake()
    fake.add_job()
    async with connected(fake, PACE) as found:
        for how in ("cancel", "close"):
            if how == "cancel":
                reader = Reader(found)
                await until(lambda: fake.tails, "the stream")
                began = time.monotonic()
                reader.task.cancel()
                await asyncio.gather(reader.task, return_exceptions=True)
            else:
                fake.write("x", at=1)
                following = found.logs.tail(QUERY)
                assert (await anext(following)).entries  # type: ignore[arg-type]
                began = time.monotonic()
                await following.aclose()  # type: ignore[attr-defined]
            assert time.monotonic() - began < 20, "it waits for no time limit of a stream"
            await until(lambda: not fake.tails, "the stream to be closed")


async def test_a_time_limit_ends_it_too() -> None:
    fake = Fake()
    fake.add_job()
    fake.write("in", at=1)
    async with connected(fake, PACE) as found:
        reader = Reader(found, replace(QUERY, until=START + timedelta(seconds=5)))
        await reader.end()
    assert reader.texts == ["in"]


async def test_replicas_that_write_at_once_are_merged_in_order_of_time() -> None:
    async with streaming() as (fake, reader):
        # One replica's entries all come before the other's, as their collectors send them.
        for replica in ("workerpool1-0", "workerpool0-0"):
            for number in range(10):
                fake.write(f"{number}", at=number / 10, replica=replica)
        await reader.reach(20)
    assert [entry.key for entry in reader.entries] == sorted(entry.key for entry in reader.entries)


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_to_the_stream_each_entry_comes_once_in_order_per_replica(seed: int) -> None:
    dice = random.Random(seed)
    fake = Fake()
    fake.add_job()
    at = {"workerpool0-0": 0.0, "workerpool1-0": 0.0, "service": 0.0}
    number = 0

    def write() -> None:
        nonlocal number
        replica = dice.choice(list(at))
        at[replica] += dice.random() / 50
        pb = fake.write(str(number), at=at[replica], replica=replica, send=False)
        number += 1
        for queue in fake.tails:
            queue.put_nowait(pb)
            if dice.random() < 0.2:
                queue.put_nowait(pb)

    for _ in range(300):
        write()
    async with connected(fake, PACE) as found:
        reader = Reader(found)
        for _ in range(60):
            for _ in range(dice.randrange(12)):
                write()
            what = dice.random()
            if what < 0.15:
                fake.cut(dice.choice([StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED]))
            elif what < 0.25:
                fake.fail("ListLogEntries", Abort(StatusCode.UNAVAILABLE))
            elif what < 0.3:
                fake.fail("TailLogEntries", Abort(StatusCode.UNAVAILABLE))
            await asyncio.sleep(dice.random() / 15)
        fake.end(NAME)
        await reader.end()
    assert Counter(reader.texts) == Counter(str(n) for n in range(number))
    for replica in at:
        keys = [entry.key for entry in reader.entries if entry.replica == replica]
        assert keys == sorted(keys)
