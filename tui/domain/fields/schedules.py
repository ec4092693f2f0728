"""The fields of a schedule, for the schedules' list, `vxtui schedules` and its `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tui.domain.core.formatting import age, rfc3339
from tui.domain.fields.cell import NONE, Cell, Tone, age_cell, muted, state_cell
from tui.domain.fields.field import Field, json_object
from tui.domain.schedules.schedule import ACTIVE, COMPLETED, PAUSED, Schedule

SOON = timedelta(days=6)
"""Time span in which a weekday identifies the day."""
_STATES: Mapping[str, tuple[str, Tone]] = {
    ACTIVE: ("●", Tone.GOOD),
    PAUSED: ("○", Tone.WARNING),
    COMPLETED: ("✓", Tone.DONE),
}


class ScheduleRow(NamedTuple):
    """A row of the schedules list: a schedule at a point in time."""

    schedule: Schedule
    now: datetime


def until(at: datetime, now: datetime) -> str:
    """Format a countdown as `in 9h12`, or `12m late` for a late run."""
    return f"in {age(at - now)}" if at >= now else f"{age(now - at)} late"


def _short_time(at: datetime, now: datetime) -> str:
    """Format a time in this machine's zone: `02:30` today, `Thu 02:30`, `Dec 11 02:30`, `2028-01-05`."""
    local, today = at.astimezone(), now.astimezone().date()
    if local.date() == today:
        return f"{local:%H:%M}"
    if abs(at - now) < SOON:
        return f"{local:%a %H:%M}"
    return f"{local:%b %d %H:%M}" if local.year == today.year else f"{local:%Y-%m-%d}"


def local_time(moment: datetime) -> str:
    """Format a time in this machine's zone, with its offset, because the cron may have another zone."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M %z}"


def next_time(schedule: Schedule) -> str:
    """Return the time of the next run; "" if no run is due."""
    at = schedule.next_run_time if schedule.state == ACTIVE else None
    return local_time(at) if at is not None else ""


def _state(row: ScheduleRow) -> Cell:
    glyph, tone = _STATES.get(row.schedule.state, ("·", Tone.MUTED))
    return Cell(row.schedule.state.lower(), tone, glyph=glyph)


def _next(row: ScheduleRow) -> Cell:
    """Return a cell with local time and countdown; empty for a paused schedule."""
    at, now = row.schedule.next_run_time, row.now
    if at is None or row.schedule.state != ACTIVE:
        return NONE
    late = at < now
    countdown = Cell(f"  {until(at, now)}", Tone.WARNING if late else Tone.MUTED)
    return Cell(
        _short_time(at, now),
        Tone.WARNING if late else Tone.NORMAL,
        more=(countdown,),
        long=next_time(row.schedule),
    )


def _last(row: ScheduleRow) -> Cell:
    """Return a cell with state and age of the newest run; a refused run is highlighted."""
    refused, run = row.schedule.refused, row.schedule.last_run
    if refused:
        skipped = refused.startswith("SKIPPED")
        word, tone = ("skipped", Tone.WARNING) if skipped else ("not started", Tone.BAD)
        return Cell(word, tone, glyph="✗", long=refused)
    if run is None:
        return NONE
    state = state_cell(run.state)
    since = muted(f"  {age(run.age(row.now))}")
    return Cell(state.text, state.tone, glyph=state.glyph, more=(since,), long=state.text)


def _last_response_json(row: ScheduleRow) -> dict[str, Any] | None:
    schedule = row.schedule
    if not schedule.last_time:
        return None
    return {"time": rfc3339(schedule.last_time), "text": schedule.last_response}


def _last_run_json(row: ScheduleRow) -> dict[str, Any] | None:
    run = row.schedule.last_run
    return {"name": run.name, "state": run.state.value} if run else None


SCHEDULE_FIELDS: tuple[Field[ScheduleRow], ...] = (
    Field("resource_name", json=lambda row: row.schedule.name, json_key="name", help="Full resource name"),
    Field("state", "STATE", 11, max_width=11,
        cell=_state, json=lambda row: row.schedule.state, help="ACTIVE, PAUSED or COMPLETED"),
    Field("name", "NAME", 16, max_width=48, flex=True,
        cell=lambda row: Cell(row.schedule.display_name),
        json=lambda row: row.schedule.display_name, json_key="display_name", help="Display name"),
    Field("when", "WHEN", 17, max_width=64, rank=1,
        cell=lambda row: muted(row.schedule.when),
        json=lambda row: row.schedule.when, json_key="words", help="The cron in English, or unchanged"),
    Field("cron", json=lambda row: row.schedule.cron, help="Cron"),
    Field("next", "NEXT", 20, max_width=28,
        cell=_next,
        json=lambda row: rfc3339(row.schedule.next_run_time), json_key="next_run_time",
        help="Time of the next run"),
    Field("runs", "RUNS", 5, max_width=11, right=True,
        cell=lambda row: Cell(row.schedule.runs_text),
        json=lambda row: row.schedule.started, json_key="started_runs", help="Number of runs started"),
    Field("max_runs", json=lambda row: row.schedule.max_runs, help="Total number of runs"),
    Field("max_active_runs", json=lambda row: row.schedule.max_active, help="Limit of concurrent runs"),
    Field("queues", json=lambda row: row.schedule.queues, help="Whether runs above the limit wait"),
    Field("catch_up", json=lambda row: row.schedule.catch_up, help="Whether missed runs are started later"),
    Field("last", "LAST RUN", 16, max_width=24,
        cell=_last,
        json=_last_run_json, json_key="last_run", help="`name` and `state` of the newest run"),
    Field("last_response", json=_last_response_json, help="`time` and `text` of the last response"),
    Field("pipeline", "PIPELINE", 8, max_width=40, rank=3,
        cell=lambda row: muted(row.schedule.pipeline),
        json=lambda row: row.schedule.pipeline or None, help="Name of the pipeline"),
    Field("region", "REGION", 8, max_width=20, rank=4,
        cell=lambda row: muted(row.schedule.region), json=lambda row: row.schedule.region, help="Region"),
    Field("context", json=lambda row: row.schedule.context, help="Name of the context"),
    Field("age", "AGE", 5, max_width=6, right=True, rank=2,
        cell=lambda row: age_cell(row.schedule.create_time, row.now),
        json=lambda row: rfc3339(row.schedule.create_time), json_key="create_time", help="Time of creation"),
    Field("start_time", json=lambda row: rfc3339(row.schedule.start_time), help="Time of the first runs"),
    Field("end_time", json=lambda row: rfc3339(row.schedule.end_time), help="Time after which no run starts"),
    Field("last_pause_time", json=lambda row: rfc3339(row.schedule.last_pause_time),
        help="Time of the last pause"),
    Field("id", "ID", only="verb",
        cell=lambda row: Cell(row.schedule.id),
        json=lambda row: row.schedule.id, help="Last part of the resource name"),
)  # fmt: skip


def schedule_json(schedule: Schedule, now: datetime) -> dict[str, Any]:
    """Return a schedule in the documented JSON format."""
    return json_object(SCHEDULE_FIELDS, ScheduleRow(schedule, now))
