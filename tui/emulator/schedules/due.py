"""The next step of a schedule. All its state is in its resource: `next_run_time` is the first run not done.

A run that is late by `LATE_SECONDS` or more is missed (the emulator was down, or the machine slept). A missed
run is skipped unless the schedule has `catch_up` or queues runs; then every run is started in order. This
rule, and that `next_run_time` does not change during a pause, are chosen here, not documented for Vertex.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from google.cloud.aiplatform_v1.types import schedule as schedule_types

from tui.domain.schedules.cron import read_cron
from tui.emulator.messages import Pb, timestamp

State = schedule_types.Schedule.State
LATE_SECONDS = 60.0
"""Delay in seconds at which a run counts as missed: the finest step of a cron."""


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing is due before this time (seconds since the epoch). A queued run waits for other runs to end."""

    until: float


@dataclass(frozen=True, slots=True)
class Start:
    """Start the run of this time."""

    due: float


@dataclass(frozen=True, slots=True)
class Skip:
    """Continue with the first run after this time. `because` is the response of the skipped run."""

    after: float
    because: str = ""


@dataclass(frozen=True, slots=True)
class Complete:
    """The schedule has had its last run."""


Step = WaitUntil | Start | Skip | Complete


def next_step(pb: Pb, now: float, active: int) -> Step:
    """Return the next step of a schedule. `active` is the number of its runs that have not ended."""
    if pb.state != State.ACTIVE:
        return WaitUntil(math.inf)
    end = seconds(pb.end_time) if pb.HasField("end_time") else math.inf
    if not pb.HasField("next_run_time"):
        return Complete() if now >= end or spent(pb) else WaitUntil(end)
    due = seconds(pb.next_run_time)
    if due > now:
        return WaitUntil(due)
    limit = pb.max_concurrent_active_run_count
    if now - due >= LATE_SECONDS and not (pb.catch_up or (limit and pb.allow_queueing)):
        return Skip(now - LATE_SECONDS)
    if limit and active >= limit:
        text = f"SKIPPED: {active} runs are active, of at most {limit}, and allow_queueing is not set."
        return WaitUntil(now) if pb.allow_queueing else Skip(due, text)
    return Start(due)


def spent(pb: Pb) -> bool:
    """Return whether the schedule has started all its runs."""
    return bool(pb.max_run_count) and pb.started_run_count >= pb.max_run_count


def set_next(pb: Pb, after: float) -> None:
    """Set `next_run_time` to the first run after this time. Clear the time after the last run."""
    pb.ClearField("next_run_time")
    begin = max(after, seconds(pb.start_time))
    next_run = read_cron(pb.cron).after(datetime.fromtimestamp(begin, UTC))
    late = pb.HasField("end_time") and next_run is not None and next_run.timestamp() > seconds(pb.end_time)
    if next_run is not None and not late and not spent(pb):
        pb.next_run_time.CopyFrom(timestamp(next_run.timestamp()))


def seconds(moment: Pb) -> float:
    """Convert a timestamp to seconds since the epoch."""
    return float(moment.seconds) + float(moment.nanos) / 1e9
