"""The text about one schedule."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from tui.domain.core.formatting import age
from tui.domain.schedules.schedule import PAUSED, Schedule

SOON = timedelta(days=6)
"""Within these a weekday says which day it is."""


def detail_lines(each: Schedule, now: datetime) -> Iterator[str]:
    """Cron, times, limits, and what became of the last run that was due."""
    yield each.name
    yield f"state     {each.state}{f', since {_at(each.last_pause_time)}' * (each.state == PAUSED)}"
    yield f"pipeline  {each.pipeline}"
    yield f"cron      {each.cron}"
    if each.when != each.cron:
        yield f"          {each.when}"
    if each.state == PAUSED:
        yield "next      none while it is paused"
    elif each.next_run_time is not None:
        yield f"next      {_at(each.next_run_time)}, {until(each.next_run_time, now)}"
    else:
        yield "next      none"
    yield f"runs      {each.started} started, {f'at most {each.max_runs}' if each.max_runs else 'no limit'}"
    yield f"active    {_limit(each)}"
    for name, at in (("created", each.create_time), ("start", each.start_time), ("end", each.end_time)):
        if at is not None:
            yield f"{name:<10}{_at(at)}"
    if each.last_time is not None:
        yield ""
        yield f"last      {_at(each.last_time)}: {each.last_response or 'no response'}"
    if each.last_run is not None:
        run = each.last_run
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


def _limit(each: Schedule) -> str:
    if each.max_active is None:
        return "any number of runs at once"
    return f"at most {each.max_active} at once; others {'wait' if each.queues else 'are skipped'}"


def _at(moment: datetime | None) -> str:
    """In this machine's zone, with its offset."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M %z}" if moment else "not known"
