"""What the console needs from any service that runs jobs.

A backend is async, owns its timeouts and retries, and raises only the errors of `tui.backends.errors`. It
returns domain objects; messages of a client library never leave it. What a service can't do is a declared
capability, not an `isinstance` check.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tui.backends.capability import Capability
from tui.backends.errors import (
    BackendError,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    QuotaExceeded,
    Stopped,
    Unauthenticated,
    Unavailable,
)
from tui.domain.job import Job
from tui.domain.log_entry import LogEntry, LogGap, Severity
from tui.domain.metric import MetricsReading
from tui.domain.preflight import Check, unknown
from tui.domain.progress import Progress, TrainingStep
from tui.domain.quota import Quota
from tui.domain.telemetry import LiveLine
from tui.domain.vertex.prices import Prices

# What a backend raises and can do has modules of its own: the first paint needs those and not the rest.
__all__ = [
    "Backend",
    "BackendError",
    "Bucket",
    "Capability",
    "ContextInfo",
    "FailedPrecondition",
    "InvalidRequest",
    "JobPage",
    "LaunchRequest",
    "LogBatch",
    "LogQuery",
    "NotFound",
    "PermissionDenied",
    "Progressed",
    "QuotaExceeded",
    "Reach",
    "Stopped",
    "Unauthenticated",
    "Unavailable",
]


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
    """Entries in the order of their keys within the batch, and what the service left out.

    `note` says how the log is followed where that is not by a stream, e.g. that it is polled; an empty one
    that a stream is back, `None` that nothing has changed.
    """

    entries: tuple[LogEntry, ...] = ()
    gaps: tuple[LogGap, ...] = ()
    note: str | None = None


Progressed = Callable[[int, int], None]
"""Called with how much is done and how much there is, in bytes."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket's place (`us-central1`, `eu`) and class; `location_type` is region, dual- or multi-region."""

    name: str
    location: str
    location_type: str = ""
    storage_class: str = ""
    project_number: str = ""


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
    async def read_training_steps(self, name: str) -> Sequence[TrainingStep]:
        """Reported training steps of one job, oldest first, thinned to a drawable number."""

    @abstractmethod
    async def read_live(self, jobs: Sequence[Job], since: datetime) -> Sequence[LiveLine]:
        """What these jobs' trainers have said of their machines since then, in as few calls as possible."""

    @abstractmethod
    async def read_quotas(self, regions: Sequence[str] = ()) -> Sequence[Quota]:
        """Training quotas of the context's regions, with usage where the service has it."""

    async def read_prices(self) -> Prices:
        """Today's prices of training from the service's own list. Raises BackendError."""
        raise Unavailable("This context has no list of prices.", fix="The built-in table holds.")

    async def preflight(self, request: LaunchRequest) -> AsyncIterator[Check]:
        """What the launch of `request` needs, looked up: each check as soon as it is known; never raises.

        All are looked up at once, each for a few seconds at most; one that could not tell says why.
        """
        yield unknown("service", f"nothing can be looked up in the context {self.info.name}")

    async def read_bucket(self, name: str) -> Bucket:
        """One bucket of object storage."""
        raise BackendError(f"The context {self.info.name} has no buckets.")

    async def create_bucket(self, name: str, location: str) -> Bucket:
        """A new bucket. Raises FailedPrecondition where the name is taken."""
        raise BackendError(f"The context {self.info.name} has no buckets.")

    async def object_size(self, uri: str) -> int | None:
        """Bytes of the object gs://BUCKET/NAME; `None` when the bucket has no such object."""
        raise BackendError(f"The context {self.info.name} has no buckets.")

    async def upload(self, path: Path, uri: str, progress: Progressed | None = None) -> None:
        """Put a file at gs://BUCKET/NAME, whole or not at all. Cancelling it ends it."""
        raise BackendError(f"The context {self.info.name} has no buckets.")

    @abstractmethod
    async def check(self) -> Sequence[Reach]:
        """Try each service this context needs, bounded in time; never raises."""
