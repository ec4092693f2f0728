"""The service of schedules, as `tui.backends.interface.Services` has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tui.backends.serving import RegionResults
from tui.domain.core.job import Job
from tui.domain.schedules.schedule import NewSchedule, Schedule


class ScheduleService(ABC):
    """Pipelines that run again and again."""

    @abstractmethod
    async def list_all(self) -> RegionResults[Schedule]:
        """The schedules of every region, newest first, each with its newest run."""

    @abstractmethod
    async def get(self, name: str) -> Schedule:
        """The one with this full resource name. Raises BackendError."""

    @abstractmethod
    async def runs(self, name: str) -> Sequence[Job]:
        """The newest of its runs, the newest first. Raises BackendError."""

    @abstractmethod
    async def create(self, region: str, schedule: NewSchedule) -> Schedule:
        """Create one in a region, "" for the context's first. Never sent twice. Raises BackendError."""

    @abstractmethod
    async def pause(self, name: str) -> Schedule:
        """Start no more runs until it is resumed. Raises BackendError."""

    @abstractmethod
    async def resume(self, name: str, catch_up: bool) -> Schedule:
        """Start runs again; with `catch_up` first those that were due in the pause. Raises BackendError."""

    @abstractmethod
    async def delete(self, name: str) -> None:
        """Delete it; its runs stay and go on. Raises BackendError."""
