"""Schedules in memory, for screens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.ui.double import NOON, MemoryBackend, fleet, job
from tests.ui.listed_double import MemoryList
from tui.backends.schedules import ScheduleService
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.schedules.schedule import NewSchedule, Schedule

PLACE = "projects/p/locations/us-central1"


def run(number: int, state: JobState, hours: float, **more: Any) -> Job:
    """A pipeline job, which the list of jobs does not have."""
    made = job(number, f"retrain-{number}", state, age=hours * 60, **more)
    return replace(made, kind="pipeline_job", name=f"{PLACE}/pipelineJobs/{number}", id=str(number))


def schedule(number: int, name: str, cron: str, state: str = "ACTIVE", **more: Any) -> Schedule:
    created = NOON - timedelta(days=number)
    return Schedule(
        f"{PLACE}/schedules/{number}", name, "us-central1", state, "test", cron, pipeline="retrain",
        create_time=created, start_time=created, **more,
    )  # fmt: skip


def some() -> list[Schedule]:
    """One of each that the list has to draw."""
    return [
        schedule(1, "nightly [nlp]", "30 2 * * *", started=12, max_runs=30, last_response="OK",
                 next_run_time=NOON + timedelta(hours=14.5), last_time=NOON - timedelta(hours=9.5),
                 last_run=run(901, JobState.SUCCEEDED, 9.5)),
        schedule(2, "every-quarter-hour", "TZ=Asia/Kolkata */15 * * * *", started=4021, max_active=2,
                 queues=True, last_response="OK", next_run_time=NOON - timedelta(minutes=3),
                 last_time=NOON - timedelta(minutes=18), last_run=run(902, JobState.RUNNING, 0.3)),
        schedule(3, "weekly", "0 6 * * MON", "PAUSED", started=3, last_response="OK",
                 next_run_time=NOON - timedelta(days=9), last_pause_time=NOON - timedelta(days=16),
                 last_time=NOON - timedelta(days=16), last_run=run(903, JobState.FAILED, 380)),
        schedule(4, "once", "0 0 1 1 *", "COMPLETED", started=1, max_runs=1, last_response="OK"),
        schedule(5, "new", "0 0 1 * *", next_run_time=NOON + timedelta(days=20)),
        schedule(6, "lost-template", "0 * * * *", started=2, next_run_time=NOON + timedelta(minutes=50),
                 last_time=NOON, last_response="INVALID_ARGUMENT: the template is gone"),
    ]  # fmt: skip


class MemorySchedules(MemoryList[Schedule], ScheduleService):
    """Those that a `MemoryBackend` has."""

    async def runs(self, name: str) -> Sequence[Job]:
        self._backend.meet_error()
        newest = self.found[name].last_run
        return [newest, run(800, JobState.CANCELLED, 99)] if newest else []

    async def create(self, region: str, schedule: NewSchedule) -> Schedule:
        raise AssertionError("no screen creates one")

    async def pause(self, name: str) -> Schedule:
        return self.change(name, "pause", name, state="PAUSED")

    async def resume(self, name: str, catch_up: bool) -> Schedule:
        return self.change(name, "resume", name, str(catch_up), state="ACTIVE")

    async def delete(self, name: str) -> None:
        self.change(name, "delete", name)
        del self.found[name]


def backend() -> tuple[MemoryBackend, MemorySchedules]:
    made = MemoryBackend(fleet())
    service = MemorySchedules(made, some())
    made.use(schedules=service)
    return made, service
