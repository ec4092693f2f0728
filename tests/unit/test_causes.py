"""The causes of failed jobs in the list: found once, stored, and read within the budget of reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.ui.double import NOON, Clock, MemoryBackend, job
from tests.waiting import until
from tui.backends.interface import LogBatch, LogQuery, LogService, Unavailable
from tui.config.settings import Settings
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job, JobError
from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.core.states import JobState
from tui.session import Session
from tui.store.jobs import causes as causes_module
from tui.store.jobs.causes import MOST_KNOWN, CauseFeed, Causes

MESSAGE = "The replica workerpool1-0 exited with a non-zero status of 1."


def failed(number: int, message: str = MESSAGE, **more: object) -> Job:
    return job(number, f"job-{number}", JobState.FAILED, age=number, error=JobError(9, message), **more)


class Logs(LogService):
    """Each log ends with a missing package; a job of `broken` can't be read."""

    def __init__(self, broken: set[str]) -> None:
        self.reads: list[str] = []
        self.broken = broken

    def owns(self, name: str) -> bool:
        return True

    async def read(
        self, query: LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        self.reads.append(query.job_name.rpartition("/")[2])
        if self.reads[-1] in self.broken:
            raise Unavailable("no answer")
        text = "ModuleNotFoundError: No module named 'flash_attn'"
        lines = ["Traceback (most recent call last):", '  File "train.py", line 4, in <module>', text]
        yield LogBatch(
            tuple(
                LogEntry(NOON + timedelta(milliseconds=at), f"{at}", "workerpool1-0", Severity.ERROR, line)
                for at, line in enumerate(lines)
            )
        )

    def tail(self, query: LogQuery) -> AsyncGenerator[LogBatch, None]:
        raise AssertionError("the list follows no log")


async def test_the_jobs_in_view_are_read_once_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(causes_module, "PAUSE_LOCAL", 0.0)
    monkeypatch.setattr(causes_module, "LOOK", 0.01)
    listed = [failed(number) for number in range(1, 401)]
    view = [*listed[30:60], job(999, "fine")]
    backend, logs, clock = MemoryBackend(listed), Logs({"37"}), Clock()
    backend.use(logs=logs)
    session = Session(backend, Settings(), clock=clock, monotonic=clock.monotonic)
    Causes(tmp_path / "causes.sqlite").save(view[0], Diagnosis("stored", "", short="stored"), 0)
    causes = Causes(tmp_path / "causes.sqlite")
    changed: list[Sequence[str]] = []
    feeds = [CauseFeed(where, causes, lambda: view, changed.append) for where in (None, session)]
    task = asyncio.create_task(feeds[0].run())
    try:
        await until(lambda: changed, "a look at what is stored")
        assert changed == [[view[0].name]] and causes.of(view[0]).short == "stored"  # type: ignore[union-attr]
        assert causes.of(view[1]) is None and not logs.reads, "nothing is judged before the connection"
        task.cancel()
        task = asyncio.create_task(feeds[1].run())
        await until(lambda: len(logs.reads) == 30, "a read of each")
        await until(lambda: sum(map(causes.lines, listed)), "a cause")
        assert logs.reads == [str(number) for number in range(31, 61)]
        clock.on(seconds=61)
        logs.broken.clear()
        await until(lambda: len(logs.reads) == 31 and causes.lines(listed[36]), "another try")
        assert logs.reads[-1] == "37"
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    again = Causes(tmp_path / "causes.sqlite")
    again.load(view, judged=False)
    assert {cause.short for each in listed[30:60] if (cause := again.of(each))} == {
        "No module flash_attn · 1-0"
    }


def test_more_lines_tell_more(tmp_path: Path) -> None:
    path, one = tmp_path / "causes.sqlite", failed(1)
    causes = Causes(path)
    causes.load([one])
    assert causes.lines(one) == 0
    for short, lines in (("first", 10), ("whole", 100), ("less", 50)):
        causes.save(one, Diagnosis(short, "", short=short), lines)
    later = Causes(path)
    # A cluster's job may have the name of an earlier one.
    other = replace(one, create_time=NOON)
    later.load([one, other])
    told = later.of(one)
    assert told is not None and told.short == "whole" and later.lines(one) == 100 and later.lines(other) == 0


def test_a_broken_file_costs_only_the_memory_of_causes(tmp_path: Path) -> None:
    path = tmp_path / "causes.sqlite"
    path.write_bytes(b"no database" * 1000)
    causes, jobs = Causes(path), [failed(number) for number in range(MOST_KNOWN + 50)]
    causes.load(jobs)
    causes.save(jobs[-1], Diagnosis("why", "", short="why"), 3)
    told = causes.of(jobs[-1])
    assert told is not None and told.short == "why"
    assert sum(causes.of(each) is not None for each in jobs) <= MOST_KNOWN + 1
