"""Operations on schedules: create, pause, resume and delete."""

from __future__ import annotations

from tui.actions.operations.runner import OperationRunner, Outcome
from tui.backends.interface import Backend
from tui.domain.core.text import plain
from tui.domain.schedules.schedule import NewSchedule, Schedule


class ScheduleOperations:
    """Operations on schedules through one open backend."""

    def __init__(self, runner: OperationRunner, backend: Backend) -> None:
        self._runner = runner
        self._backend = backend

    async def create(self, region: str, schedule: NewSchedule) -> Outcome[Schedule]:
        """Create a schedule; its runs cost money like any other pipeline."""
        return await self._runner.run(
            "schedule.create",
            schedule.display_name,
            lambda: self._backend.schedules.create(region, schedule),
            lambda changed: f"Created the schedule {plain(changed.display_name)}",
            region=region,
            created=lambda changed: changed.name,
        )

    async def pause(self, schedule: Schedule) -> Outcome[Schedule]:
        """Pause a schedule. No more runs start, but active runs continue."""
        return await self._runner.run(
            "schedule.pause",
            schedule.name,
            lambda: self._backend.schedules.pause(schedule.name),
            lambda changed: f"Paused {plain(changed.display_name)}",
            region=schedule.region,
            context=schedule.context,
        )

    async def resume(self, schedule: Schedule, *, catch_up: bool) -> Outcome[Schedule]:
        """Resume a schedule; with `catch_up` the runs of the pause start first."""
        return await self._runner.run(
            "schedule.resume",
            schedule.name,
            lambda: self._backend.schedules.resume(schedule.name, catch_up),
            lambda _: f"Resumed {plain(schedule.display_name)}{', with the runs that it missed' * catch_up}",
            region=schedule.region,
            context=schedule.context,
        )

    async def delete(self, schedule: Schedule) -> Outcome[None]:
        """Delete a schedule; its runs remain."""
        return await self._runner.run(
            "schedule.delete",
            schedule.name,
            lambda: self._backend.schedules.delete(schedule.name),
            lambda _: f"Deleted the schedule {plain(schedule.display_name)}",
            region=schedule.region,
            context=schedule.context,
        )
