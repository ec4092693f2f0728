"""The text about one schedule."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tui.domain.fields.schedules import local_time, until
from tui.domain.schedules.schedule import PAUSED, Schedule


def detail_lines(schedule: Schedule, now: datetime) -> Iterator[str]:
    """Yield cron, times, limits, and the outcome of the last due run."""
    yield schedule.name
    since = f", since {_at(schedule.last_pause_time)}" if schedule.state == PAUSED else ""
    yield f"state     {schedule.state}{since}"
    yield f"pipeline  {schedule.pipeline}"
    yield f"cron      {schedule.cron}"
    if schedule.when != schedule.cron:
        yield f"          {schedule.when}"
    if schedule.state == PAUSED:
        yield "next      none while it is paused"
    elif schedule.next_run_time is not None:
        yield f"next      {_at(schedule.next_run_time)}, {until(schedule.next_run_time, now)}"
    else:
        yield "next      none"
    most = f"at most {schedule.max_runs}" if schedule.max_runs else "no limit"
    yield f"runs      {schedule.started} started, {most}"
    yield f"active    {_limit(schedule)}"
    for name, at in (
        ("created", schedule.create_time),
        ("start", schedule.start_time),
        ("end", schedule.end_time),
    ):
        if at is not None:
            yield f"{name:<10}{_at(at)}"
    if schedule.last_time is not None:
        yield ""
        yield f"last      {_at(schedule.last_time)}: {schedule.last_response or 'no response'}"
    if schedule.last_run is not None:
        run = schedule.last_run
        yield f"run       {run.id}   {run.state.value.lower()}"
        if run.error is not None:
            yield f"          {run.error.message}"


def _limit(schedule: Schedule) -> str:
    if schedule.max_active is None:
        return "any number of runs at once"
    return f"at most {schedule.max_active} at once; others {'wait' if schedule.queues else 'are skipped'}"


def _at(moment: datetime | None) -> str:
    return local_time(moment) if moment else "not known"
