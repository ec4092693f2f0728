"""Holes in a followed log: found by time of receipt, filled in place, told of; and tails that are shared."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.cloud.logging_v2.types import logging as logging_types

from tests.waiting import LIMIT, until
from tests.wire.backend_emulator_support import REGION, launch, pool, written
from tests.wire.backend_tail_support import NAME, PACE, Reader, streaming
from tests.wire.control import QUICK, emulator
from tests.wire.fake_vertex import START, Fake, FixedEndpoint, backend, connected, serving
from tui.backends.interface import ContextInfo, LogQuery
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.logs import tail as tail_module
from tui.backends.vertex.logs import tail_state
from tui.backends.vertex.transport.budget import TAILS, Budget
from tui.domain.core.log_entry import LogEntry

COUNTED = """
import time
for i in range(400):
    print(f"{i:05}", flush=True)
    time.sleep(0.01)
"""


async def test_what_came_long_after_its_own_time_while_there_was_no_stream_is_found() -> None:
    pace = replace(PACE, overlap=2.0)
    async with streaming(pace) as (fake, reader):
        for number in range(20):
            fake.write(f"before {number}", at=300 + number, received=301 + number)
        await reader.reach(20)
        fake.deaf = True
        fake.cut()
        await until(lambda: not fake.tails, "the cut")
        fake.write("four minutes late", at=80, received=322, send=False)
        fake.write("in time", at=323, received=323, send=False)
        fake.deaf = False
        await reader.reach(22)
    assert Counter(reader.texts) == Counter(
        [f"before {n}" for n in range(20)] + ["four minutes late", "in time"]
    )
    # Only the seam was asked for again, not the ten minutes in which something may be late.
    asked = [re.findall(r'receiveTimestamp>="([^"]+)"', getattr(r, "filter", "")) for r in fake.requests]
    bounds = [datetime.fromisoformat(bound[0]) for bound in asked if bound]
    assert bounds[-1] >= START + timedelta(seconds=316)


async def test_what_only_a_list_has_at_the_end_of_a_long_stream_still_comes() -> None:
    async with streaming(replace(PACE, overlap=2.0)) as (fake, reader):
        fake.write("first", at=1, received=1)
        await until(lambda: fake.calls["ListLogEntries"] >= 2, "the look at the seam")
        for number in range(10):
            fake.write(f"streamed {number}", at=10 * (number + 1), received=10 * (number + 1))
        await reader.reach(11)
        # On its way in the stream when the job ends.
        fake.write("last", at=101, received=101, send=False)
    assert reader.texts == ["first", *(f"streamed {n}" for n in range(10)), "last"]


async def test_what_a_slow_list_brings_again_is_known_although_the_stream_has_gone_far() -> None:
    fake, answered = Fake(), asyncio.Event()
    fake.add_job()
    async with connected(fake, replace(PACE, overlap=2.0)) as found:
        reader = Reader(found)
        await until(lambda: fake.tails, "the stream")
        fake.write("first", at=1, received=1)
        await until(lambda: fake.calls["ListLogEntries"] >= 2, "the look at the seam")
        await reader.reach(1)

        async def when_told(_: Any) -> None:
            await answered.wait()

        fake.after["ListLogEntries"] = when_told
        asked = fake.calls["ListLogEntries"]
        fake.end(NAME)
        await until(lambda: fake.calls["ListLogEntries"] > asked, "the list after the end")
        for number in range(20):
            fake.write(f"streamed {number}", at=10 * (number + 1), received=10 * (number + 1))
        await reader.reach(21)
        answered.set()
        await reader.end()
    assert reader.texts == ["first", *(f"streamed {n}" for n in range(20))]


@pytest.mark.parametrize("cuts", [1, 3])
async def test_a_list_that_outlives_its_stream_does_not_stand_for_the_next_ones(
    cuts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "SETTLE", 0.1)
    monkeypatch.setattr(tail_module, "SEAM", 0.1)
    fake, answered = Fake(), asyncio.Event()
    fake.add_job()

    async def when_told(_: Any) -> None:
        await answered.wait()

    async def cut() -> None:
        before = fake.tails[0]
        fake.cut()
        await until(lambda: fake.tails and fake.tails[0] is not before, "the next stream")

    async with connected(fake, replace(PACE, overlap=2.0)) as found:
        reader = Reader(found)
        await until(lambda: fake.tails, "the stream")
        fake.write("first", at=1, received=1)
        await until(lambda: fake.calls["ListLogEntries"] >= 2, "the look at the seam")
        await reader.reach(1)
        fake.after["ListLogEntries"] = when_told
        asked = fake.calls["ListLogEntries"]
        await cut()
        await until(lambda: fake.calls["ListLogEntries"] > asked, "the list after it")
        fake.write("streamed", at=100, received=100)
        await reader.reach(2)
        wanted = ["first", "streamed"]
        for hole in range(cuts):
            at = 200 * (hole + 1)
            fake.write(f"in hole {hole}", at=at, received=at, send=False)
            await cut()
            fake.write(f"after hole {hole}", at=at + 100, received=at + 100)
            await reader.reach(3 + hole)
            wanted += [f"in hole {hole}", f"after hole {hole}"]
        answered.set()
        await reader.reach(len(wanted))
        fake.end(NAME)
        await reader.end()
    assert sorted(reader.texts) == sorted(wanted)


async def test_what_a_stream_left_out_long_after_its_opening_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail_state, "OUTAGE", LIMIT)
    async with streaming(replace(PACE, overlap=2.0)) as (fake, reader):
        fake.write("first", at=1, received=1)
        await until(lambda: fake.calls["ListLogEntries"] >= 2, "the look at the seam")
        fake.write("second", at=100, received=100)
        await reader.reach(2)
        fake.write("left out", at=101, received=101, send=False)
        reason = logging_types.TailLogEntriesResponse.SuppressionInfo.Reason.NOT_CONSUMED
        fake.tails[0].put_nowait(
            logging_types.TailLogEntriesResponse.pb()(
                suppression_info=[{"reason": int(reason), "suppressed_count": 1}]
            )
        )
        await reader.reach(3)
    assert (reader.texts, reader.gaps) == (["first", "second", "left out"], [])


async def test_an_outage_that_a_person_sees_is_told_of_with_what_was_fetched_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail_state, "OUTAGE", 0.0)
    async with streaming() as (fake, reader):
        fake.write("before", at=1)
        await reader.reach(1)
        fake.deaf = True
        fake.cut()
        await until(lambda: not fake.tails, "the cut")
        for number in range(3):
            fake.write(f"hole {number}", at=2 + number, send=False)
        fake.deaf = False
        await until(lambda: reader.gaps, "word of the hole")
    (gap,) = reader.gaps
    assert (gap.count, gap.filled) == (0, 3)
    assert gap.words == "reconnected: 3 lines fetched later, at their time; nothing missing"
    assert gap.until is not None and (gap.until - gap.timestamp).total_seconds() == 3
    assert reader.texts == ["before", "hole 0", "hole 1", "hole 2"]


async def test_without_a_tail_left_on_this_machine_the_log_is_polled_until_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "STREAM_AGAIN", 0.5)
    fake = Fake()
    fake.add_job()
    others = [Budget(tmp_path / "p", 1).lease() for _ in range(TAILS)]
    assert all(others)
    async with serving(fake) as target:
        endpoint = FixedEndpoint({REGION: target}, PACE)
        endpoint.budgets = tmp_path
        async with backend(endpoint) as found:
            assert isinstance(found, VertexBackend)
            reader = Reader(found)
            for number in range(3):
                fake.write(f"polled {number}", at=number)
                await reader.reach(number + 1)
            assert fake.calls["TailLogEntries"] == 0
            (said,) = reader.notes
            assert "instead of streamed" in said
            others[4].release()  # type: ignore[union-attr]
            await until(lambda: fake.tails and len(reader.notes) == 2, "a stream, and word of it")
            assert reader.notes[1] == ""
            assert Budget(tmp_path / "p", 1).lease() is None
            fake.write("streamed", at=10)
            await reader.reach(4)
            fake.end(NAME)
            await reader.end()
            # The one that was used is free again.
            assert Budget(tmp_path / "p", 1).lease() is not None
    assert reader.texts == ["polled 0", "polled 1", "polled 2", "streamed"]


# Seconds: the replicas write for four, so that the stream is cut several times.
async def test_over_streams_that_are_cut_late_doubled_and_shuffled_each_line_comes_once() -> None:
    async with emulator(**QUICK) as (running, clients):
        await clients.admin(
            do="tail", cut_every=1, late_share=0.2, late_seconds=2, double_share=0.2, shuffle=True
        )
        info = ContextInfo("local", "p", (REGION,), local=True)
        async with VertexBackend(info, FixedEndpoint({REGION: running.target}, everywhere=True)) as found:
            job = await found.jobs["custom_job"].create(
                launch(pool(COUNTED), pool(COUNTED, replicas=3), name="bad line")
            )
            entries: list[LogEntry] = []
            missing = 0
            async for batch in found.logs.tail(LogQuery(job.name, include_service=False)):
                entries += batch.entries
                missing += sum(gap.count or 0 for gap in batch.gaps)
        assert missing == 0
        assert max(Counter(entry.key for entry in entries).values()) == 1
        for replica, lines in written(running.state, job.id).items():
            mine = sorted((e for e in entries if e.replica == replica), key=lambda e: e.key)
            assert [entry.message for entry in mine] == lines, replica
        assert len({entry.replica for entry in entries}) == 4


async def test_what_came_before_a_stream_began_to_listen_is_found_once_it_has_spoken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail_module, "SETTLE", 0.1)
    fake = Fake(deaf=True)
    fake.add_job()
    async with connected(fake, replace(PACE, overlap=2.0)) as found:
        reader = Reader(found)
        await until(lambda: fake.calls["ListLogEntries"] >= 2, "the look at the seam")
        assert not fake.tails, "the stream was opened and does not listen yet"
        fake.write("in between", at=1, received=1)
        fake.deaf = False
        await until(lambda: fake.tails, "the stream")
        fake.write("later", at=100, received=100)
        await reader.reach(2)
        fake.end(NAME)
        await reader.end()
    assert reader.texts == ["in between", "later"]
