"""What the console needs from any service that runs jobs.

A backend is async, owns its timeouts and retries, and raises only the errors below. It returns domain
objects; messages of a client library never leave it. What a service can't do is a declared capability,
not an `isinstance` check.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Flag, auto
from typing import Any

from tui.domain.entry import LogEntry, LogGap, Severity
from tui.domain.job import Job
from tui.domain.live import LiveLine
from tui.domain.metric import MetricsReading
from tui.domain.progress import Progress, StepSample
from tui.domain.quota import Quota


class Capability(Flag):
    """What a backend can do; actions that need more are not offered."""

    JOBS = auto()
    LAUNCH = auto()
    CANCEL = auto()
    DELETE = auto()
    LOGS = auto()
    TAIL = auto()
    METRICS = auto()
    QUOTAS = auto()


class BackendError(Exception):
    """A call failed. `message` says what, to which thing and why; `fix` what to do next.

    `exit_code` is what a verb exits with (DESIGN.md, Contracts) and `code` the word in `--json`.
    """

    code = "INTERNAL"
    exit_code = 5

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class InvalidRequest(BackendError):
    """The service refused the request's content. `fields` maps a field path to its problem."""

    code = "INVALID_ARGUMENT"
    exit_code = 2

    def __init__(self, message: str, *, fix: str = "", fields: Mapping[str, str] | None = None) -> None:
        super().__init__(message, fix=fix)
        self.fields = dict(fields or {})


class NotFound(BackendError):
    """The named thing does not exist, or not any more."""

    code = "NOT_FOUND"
    exit_code = 3


class FailedPrecondition(BackendError):
    """The thing exists but is in the wrong state for this, e.g. cancelling an ended job."""

    code = "FAILED_PRECONDITION"
    exit_code = 1


class Unauthenticated(BackendError):
    """No credentials, or they have expired."""

    code = "UNAUTHENTICATED"
    exit_code = 4


class PermissionDenied(BackendError):
    """The caller lacks a permission, which the message names where the service did."""

    code = "PERMISSION_DENIED"
    exit_code = 4


class QuotaExceeded(BackendError):
    """A rate or resource quota is used up. `retry_after` is in seconds, where the service said."""

    code = "RESOURCE_EXHAUSTED"
    exit_code = 5

    def __init__(self, message: str, *, fix: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, fix=fix)
        self.retry_after = retry_after


class Unavailable(BackendError):
    """The service could not be reached in time; nothing is known about the call's effect."""

    code = "UNAVAILABLE"
    exit_code = 5


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs of one region, or the reason why that region could not be read."""

    region: str
    jobs: tuple[Job, ...] = ()
    error: BackendError | None = None
    read_at: datetime | None = None
    context: str = ""
    """Of which context, where several are read as one; the same region may be in each of them."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which entries of one job. An empty `replicas` means all of them and the service's own words."""

    job_name: str
    replicas: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    severity: Severity = Severity.DEFAULT
    text: str = ""
    include_service: bool = True


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Entries in the order of their keys within the batch, and what the service left out."""

    entries: tuple[LogEntry, ...] = ()
    gaps: tuple[LogGap, ...] = ()


@dataclass(frozen=True, slots=True)
class Reach:
    """One line of `doctor`: a service this context needs, and whether it answered."""

    what: str
    ok: bool
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class ContextInfo:
    """Where a backend talks to: shown in the first line of every screen."""

    name: str
    project: str
    regions: tuple[str, ...]
    endpoint: str = ""
    local: bool = False


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A job to create: the resource in its REST form (camelCase), and where.

    The backend adds a unique label `vxtui-launch` before it sends, and after a lost reply looks for that
    label instead of sending again (DESIGN.md, decision 5).
    """

    region: str
    custom_job: Mapping[str, Any] = field(default_factory=dict)


class Backend(ABC):
    """One context. Use it as an async context manager; `connect` may be slow and is cancellable."""

    info: ContextInfo
    capabilities: Capability

    async def __aenter__(self) -> Backend:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @abstractmethod
    async def connect(self) -> None:
        """Load clients and credentials (in a thread) and open channels. Idempotent."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close channels; calls under way end with `Unavailable`. Idempotent."""

    @abstractmethod
    def list_jobs(self, *, filter: str = "") -> AsyncIterator[JobPage]:
        """Every job of every region, newest first within a region, as pages arrive.

        Regions are read at once; one that fails yields a page with `error` and does not end the others.
        `filter` is the service's own list filter.
        """

    @abstractmethod
    async def get_job(self, name: str) -> Job:
        """One job by full resource name, with its replicas and the full spec's pools."""

    @abstractmethod
    async def job_spec(self, name: str) -> dict[str, Any]:
        """The whole resource as the service has it, in REST form (camelCase, enums by name)."""

    @abstractmethod
    async def find_jobs(self, reference: str) -> list[Job]:
        """Jobs that a person may mean: by id, full resource name or display name. May be empty."""

    @abstractmethod
    async def create_job(self, request: LaunchRequest) -> Job:
        """Create exactly one job; never retried blindly."""

    @abstractmethod
    async def cancel_job(self, name: str) -> None:
        """Ask for a cancel. The job ends a little later."""

    @abstractmethod
    async def delete_job(self, name: str) -> None:
        """Delete an ended job and wait for the operation to be done."""

    @abstractmethod
    def read_logs(
        self, query: LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncIterator[LogBatch]:
        """Entries that are there now, oldest first unless told otherwise, a page at a time."""

    @abstractmethod
    def tail_logs(self, query: LogQuery) -> AsyncIterator[LogBatch]:
        """History from `query.since`, then what comes, until closed. No entry twice, none lost.

        Reconnects by itself; a hole it could not fill is a `LogGap`. Ends when the job has ended and
        everything it wrote has been delivered.
        """

    @abstractmethod
    async def read_metrics(
        self, name: str, *, since: datetime | None = None, metrics: Sequence[str] = ()
    ) -> MetricsReading:
        """Series of every replica (`metrics` empty: all training metrics), points oldest first."""

    @abstractmethod
    async def read_progress(self, jobs: Sequence[Job]) -> Mapping[str, Progress]:
        """Latest progress of several jobs by name, in as few calls as the service allows."""

    @abstractmethod
    async def read_steps(self, name: str) -> Sequence[StepSample]:
        """Reported training steps of one job, oldest first, thinned to a drawable number."""

    @abstractmethod
    async def read_live(self, jobs: Sequence[Job], since: datetime) -> Sequence[LiveLine]:
        """What these jobs' trainers have said of their machines since then, in as few calls as possible."""

    @abstractmethod
    async def read_quotas(self, regions: Sequence[str] = ()) -> Sequence[Quota]:
        """Training quotas of the context's regions, with usage where the service has it."""

    @abstractmethod
    async def check(self) -> Sequence[Reach]:
        """Try each service this context needs, bounded in time; never raises."""
