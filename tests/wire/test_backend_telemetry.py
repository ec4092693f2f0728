"""Telemetry of trainers, read for many jobs at once and in few calls."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.wire.fake_vertex import START, Fake, connected, line
from tui.backends.vertex.logs import telemetry as live_module
from tui.domain.training.telemetry import GpuSample


def say(fake: Fake, at: float, *, job: str = "1", replica: str = "workerpool0-0", **fields: Any) -> None:
    """A structured line of a trainer."""
    pb = line(f"{fields['kind']} {at}", at=at, replica=replica, job=job)
    pb.json_payload.update({"message": "…", "vxtui": fields})
    fake.entries.append(pb)


async def test_one_read_for_all_jobs_brings_steps_and_gpus() -> None:
    fake = Fake()
    for number in (1, 2, 3):
        fake.add_job(number)
    gpus = [{"index": 0, "utilization": 0.9, "memory_bytes": 2e9, "memory_total_bytes": 8e9}]
    say(fake, 1, kind="step", step=7)
    say(fake, 2, kind="rank", step=6, rank=1, replica="workerpool1-0")
    say(fake, 3, kind="gpu", gpus=gpus, job="2")
    say(fake, 4, kind="phase", phase="training", job="2")
    say(fake, -60, kind="step", step=1, job="2")
    say(fake, 5, kind="step", step=99, job="3")
    async with connected(fake) as found:
        jobs = [job async for page in found.list_jobs() for job in page.jobs]
        lines = await found.telemetry.read([job for job in jobs if job.id != "3"], START)
        assert fake.calls["ListLogEntries"] == 1
        assert await found.telemetry.read([], START) == []
        assert fake.calls["ListLogEntries"] == 1
    by_time = sorted(lines, key=lambda one: one.timestamp)
    assert [(one.job_id, one.replica, one.step) for one in by_time] == [
        ("1", "workerpool0-0", 7),
        ("1", "workerpool1-0", 6),
        ("2", "workerpool0-0", None),
    ]
    assert by_time[2].gpus == (GpuSample("0", 0.9, 0.25),)
    assert by_time[2].timestamp == START + timedelta(seconds=3)


async def test_a_flood_of_lines_is_read_from_its_end_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_module, "PAGE", 10)
    fake = Fake()
    fake.add_job()
    for number in range(100):
        say(fake, number, kind="step", step=number)
    async with connected(fake) as found:
        jobs = [job async for page in found.list_jobs() for job in page.jobs]
        lines = await found.telemetry.read(jobs, START)
    assert fake.calls["ListLogEntries"] == live_module.MOST_PAGES
    assert [one.step for one in lines] == list(range(99, 99 - 10 * live_module.MOST_PAGES, -1))
