"""Schedules of several contexts as one list: each is changed where it was listed."""

from __future__ import annotations

from collections.abc import Sequence

from tui.backends.errors import BackendError, NotOffered
from tui.backends.group_serving import Members
from tui.backends.schedules import ScheduleService
from tui.backends.serving import RegionResults
from tui.domain.core.job import Job
from tui.domain.schedules.schedule import NewSchedule, Schedule


class GroupSchedules(ScheduleService):
    """Those of every member that has the service."""

    def __init__(self, group: Members) -> None:
        self._group = group

    async def list_all(self) -> RegionResults[Schedule]:
        members = [member for member in self._group.ready() if member.services.schedules is not None]
        found: dict[str, Schedule] = {}
        errors: dict[str, BackendError] = {
            f"{page.context}/{page.region}": page.error for page in self._group.unreachable() if page.error
        }
        for member, answer in await self._group.ask(lambda member: member.schedules.list_all(), members):
            errors |= {f"{member.info.name}/{region}": error for region, error in answer.errors.items()}
            # Two contexts may have one project and region: what both list is that of the first.
            new = {each.name: each for each in answer.items if each.name not in found}
            self._group.owners |= dict.fromkeys(new, member)
            found |= new
        return RegionResults(sorted(found.values(), key=_age), errors)

    async def get(self, name: str) -> Schedule:
        return await self._of(name).get(name)

    async def runs(self, name: str) -> Sequence[Job]:
        found = await self._of(name).runs(name)
        self._group.owners |= dict.fromkeys([job.name for job in found], self._group.owner(name))
        return found

    async def create(self, region: str, schedule: NewSchedule) -> Schedule:
        raise NotOffered(
            "A schedule is created in one context, and this one stands for several.",
            fix="Choose one with --context.",
        )

    async def pause(self, name: str) -> Schedule:
        return await self._of(name).pause(name)

    async def resume(self, name: str, catch_up: bool) -> Schedule:
        return await self._of(name).resume(name, catch_up)

    async def delete(self, name: str) -> None:
        await self._of(name).delete(name)

    def _of(self, name: str) -> ScheduleService:
        """The service of the member that has this schedule. Raises NotFound."""
        return self._group.owner(name).schedules


def _age(each: Schedule) -> float:
    return -each.create_time.timestamp() if each.create_time else 0.0
