"""The text about one schedule."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from tui.domain.core.formatting import age
from tui.domain.schedules.schedule import PAUSED, Schedule

SOON = timedelta(days=6)
"""Span in which a weekday names the day."""


def detail_lines(schedule: Schedule, now: datetime) -> Iterator[str]:
    """Cron, times, limits, and the outcome of the last due run."""
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


def until(at: datetime, now: datetime) -> str:
    """`in 9h12`, or `12m late` for a run that is behind schedule."""
    return f"in {age(at - now)}" if at >= now else f"{age(now - at)} late"


def short_time(at: datetime, now: datetime) -> str:
    """A time in this machine's zone: `02:30` today, `Thu 02:30`, `Dec 11 02:30`, `2028-01-05`."""
    local, today = at.astimezone(), now.astimezone().date()
    if local.date() == today:
        return f"{local:%H:%M}"
    if abs(at - now) < SOON:
        return f"{local:%a %H:%M}"
    return f"{local:%b %d %H:%M}" if local.year == today.year else f"{local:%Y-%m-%d}"


def _limit(schedule: Schedule) -> str:
    if schedule.max_active is None:
        return "any number of runs at once"
    return f"at most {schedule.max_active} at once; others {'wait' if schedule.queues else 'are skipped'}"


def _at(moment: datetime | None) -> str:
    """The time in this machine's zone, with its offset."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M %z}" if moment else "not known"
