"""What a schedule does next, on a clock of the test: no run is lost or doubled, whenever it is looked at."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from google.cloud.aiplatform_v1.types import schedule as schedule_types
from hypothesis import example, given
from hypothesis import strategies as st

from tui.emulator.messages import timestamp
from tui.emulator.schedules.due import (
    LATE_SECONDS,
    Complete,
    Skip,
    Start,
    State,
    WaitUntil,
    next_step,
    seconds,
    set_next,
    spent,
)

BEGIN = datetime(2027, 3, 1, tzinfo=UTC).timestamp()
Pb = Any


def schedule(cron: str = "0 * * * *", **fields: Any) -> Pb:
    found = schedule_types.Schedule.pb()(cron=cron, state=State.ACTIVE, **fields)
    found.start_time.CopyFrom(timestamp(BEGIN))
    set_next(found, BEGIN)
    return found


def look(pb: Pb, now: float, active: int = 0) -> list[float]:
    """Make every step that is due now; the times of the runs that start."""
    found = []
    while not isinstance(step := next_step(pb, now, active), WaitUntil):
        if isinstance(step, Start):
            found.append(step.due)
            pb.started_run_count += 1
            set_next(pb, step.due)
        elif isinstance(step, Skip):
            set_next(pb, step.after)
        if isinstance(step, Complete) or spent(pb):
            pb.state = State.COMPLETED
    return found


@given(
    st.lists(st.floats(0, 7200), max_size=20),
    st.sampled_from(["* * * * *", "*/7 * * * *", "0 * * * *", "30 1 * * *"]),
    st.booleans(),
)
# Looked at when one run is exactly as late as makes it a missed one.
@example([900.0], "* * * * *", False)
def test_with_catch_up_every_time_has_one_run(pauses: list[float], cron: str, catch_up: bool) -> None:
    pb, now, runs = schedule(cron, catch_up=catch_up), BEGIN, []
    for pause in pauses:
        now += pause
        runs += look(pb, now)
    expected, at = [], schedule(cron)
    while seconds(at.next_run_time) <= now:
        expected.append(seconds(at.next_run_time))
        set_next(at, expected[-1])
    if catch_up:
        assert runs == expected
    else:
        assert set(runs) <= set(expected) and runs == sorted(set(runs))
        looks = [BEGIN]
        for pause in pauses:
            looks.append(looks[-1] + pause)
        in_time = [due for due in expected if any(0 <= at - due < LATE_SECONDS for at in looks)]
        assert runs == in_time
    assert seconds(pb.next_run_time) > now


@given(st.integers(1, 9), st.integers(0, 20))
def test_its_count_is_never_exceeded(most: int, hours: int) -> None:
    pb = schedule(max_run_count=most, catch_up=True)
    runs = look(pb, BEGIN + hours * 3600)
    assert len(runs) == min(most, hours)
    assert (pb.state == State.COMPLETED) == (hours >= most)


def test_a_queued_run_waits_and_an_end_lets_it_run() -> None:
    pb = schedule(max_concurrent_active_run_count=2, allow_queueing=True)
    pb.end_time.CopyFrom(timestamp(BEGIN + 2 * 3600))
    now = BEGIN + 3 * 3600
    assert look(pb, now, active=2) == [] and pb.state == State.ACTIVE
    assert look(pb, now, active=1) == [BEGIN + 3600, BEGIN + 7200]
    assert pb.state == State.COMPLETED


def test_what_it_waits_for() -> None:
    pb = schedule()
    assert next_step(pb, BEGIN + 5, 0) == WaitUntil(BEGIN + 3600)
    pb.state = State.PAUSED
    assert next_step(pb, BEGIN + 99999, 0) == WaitUntil(math.inf)
