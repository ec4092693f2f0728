"""The service of schedules in `tui.backends.interface.Services`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tui.backends.serving import RegionResults
from tui.domain.core.job import Job
from tui.domain.schedules.schedule import NewSchedule, Schedule


class ScheduleService(ABC):
    """Schedules of pipelines."""

    @abstractmethod
    async def list_all(self) -> RegionResults[Schedule]:
        """Return the schedules of every region, newest first, each with its newest run."""

    @abstractmethod
    async def get(self, name: str) -> Schedule:
        """Return the schedule with this full resource name. Raises BackendError."""

    @abstractmethod
    async def runs(self, name: str) -> Sequence[Job]:
        """Return the newest runs of a schedule, newest first. Raises BackendError."""

    @abstractmethod
    async def create(self, region: str, schedule: NewSchedule) -> Schedule:
        """Create a schedule in a region ("": the first of the context), sent only once. Raises
        BackendError."""

    @abstractmethod
    async def pause(self, name: str) -> Schedule:
        """Stop starting runs until the schedule is resumed. Raises BackendError."""

    @abstractmethod
    async def resume(self, name: str, catch_up: bool) -> Schedule:
        """Resume starting runs. `catch_up` first starts the missed runs. Raises BackendError."""

    @abstractmethod
    async def delete(self, name: str) -> None:
        """Delete the schedule; its runs continue. Raises BackendError."""
