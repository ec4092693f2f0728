"""Schedules: their pipelines, times and runs so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tui.domain.core.job import Job
from tui.domain.schedules.cron import Cron, CronError, read_cron

ACTIVE, PAUSED, COMPLETED = "ACTIVE", "PAUSED", "COMPLETED"


@dataclass(frozen=True, slots=True)
class Schedule:
    """One schedule. `name` is its full resource name; times are UTC."""

    name: str
    display_name: str
    region: str
    state: str
    """ACTIVE, PAUSED or COMPLETED, as in the API."""
    context: str
    cron: str
    pipeline: str = ""
    """Display name of the schedule's job, or name of its pipeline if the job has none."""
    create_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    next_run_time: datetime | None = None
    last_pause_time: datetime | None = None
    started: int = 0
    max_runs: int | None = None
    max_active: int | None = None
    """Maximum number of concurrent runs; `None` for no limit."""
    queues: bool = False
    catch_up: bool = False
    last_time: datetime | None = None
    """Time of the last due run."""
    last_response: str = ""
    """The service's response to the last due run: OK, or the reason for its refusal."""
    last_run: Job | None = None
    """The newest run, if the run could be read."""

    @property
    def id(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def read(self) -> Cron | None:
        """The parsed cron; `None` if the service accepts a format unknown to vxtui."""
        try:
            return read_cron(self.cron)
        except CronError:
            return None

    @property
    def when(self) -> str:
        """The cron in words, or the cron itself if vxtui can't read it."""
        cron = self.read
        return cron.words if cron else self.cron

    @property
    def runs_text(self) -> str:
        """The number of runs: `3/10` with a limit, `3` without."""
        return f"{self.started}/{self.max_runs}" if self.max_runs else str(self.started)

    @property
    def refused(self) -> str:
        """Why the last due run was not started; "" if it was started."""
        return "" if self.last_response in {"", "OK"} else self.last_response


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """A schedule to create: `job` is a PipelineJob in REST format."""

    display_name: str
    cron: str
    job: Mapping[str, Any] = field(default_factory=dict)
    start_time: datetime | None = None
    end_time: datetime | None = None
    max_runs: int | None = None
    max_active: int | None = None
    queues: bool = False

    def upcoming(self, now: datetime, count: int) -> Sequence[datetime]:
        """Return the schedule's first runs after `now`, in UTC. Raises CronError."""
        begin = max(now, self.start_time) if self.start_time else now
        upcoming: list[datetime] = []
        for at in read_cron(self.cron).runs(begin):
            if len(upcoming) == min(count, self.max_runs or count) or (self.end_time and at > self.end_time):
                break
            upcoming.append(at)
        return upcoming
