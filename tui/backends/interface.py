"""The services of a context. Each service is an object with a few operations.

`Backend.offers` checks which services exist; an absent service is not offered. Services are async, own their
timeouts and retries, and raise only the errors of `tui.backends.errors`. Services return domain objects,
never a client library's messages. An operation that may take many replies is an async generator; closing the
generator (`contextlib.aclosing`) ends its calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tui.backends.errors import (
    BackendError,
    FailedPrecondition,
    Interrupted,
    InvalidRequest,
    NotFound,
    NotOffered,
    PermissionDenied,
    QuotaExceeded,
    Stopped,
    Unauthenticated,
    Unavailable,
)
from tui.backends.job_reader import JobReader
from tui.backends.merge import all_or_enough, merged
from tui.backends.resources import ResourceService
from tui.backends.schedules import ScheduleService
from tui.backends.service_attribute import ServiceAttribute
from tui.backends.serving import ServingService
from tui.backends.shells import ShellService
from tui.domain.core.job import LAUNCH_LABEL, Job
from tui.domain.core.log_entry import LogEntry, LogGap
from tui.domain.core.metric import MetricsReading
from tui.domain.core.quota import Quota
from tui.domain.core.resource_name import log_project
from tui.domain.core.training_progress import Progress, TrainingStep
from tui.domain.training.telemetry import TelemetryLine
from tui.domain.vertex.preflight import Check, RunningJobs
from tui.domain.vertex.prices import Prices

# The first paint imports the errors' module, but not this module.
__all__ = [
    "Backend", "BackendError", "Bucket", "ContextInfo", "FailedPrecondition", "Interrupted",
    "InvalidRequest", "JobPage", "JobReader", "JobService", "LaunchRequest", "LogBatch", "LogQuery",
    "LogService", "MetricService", "NotFound", "NotOffered", "PermissionDenied", "PreflightService",
    "PriceService", "ProgressService", "Progressed", "QuotaExceeded", "QuotaService", "ServiceHealth",
    "Services", "ShellService", "Stopped", "StorageService", "TelemetryService", "Unauthenticated",
    "Unavailable",
]  # fmt: skip


EVERY_KIND = "*"
EVERY_REGION = "-"
"""The region of the page that ends a list of all regions: a job on no page of the list is deleted."""


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs of one region, or the read error of the region; both if watches continue during failures."""

    region: str
    jobs: tuple[Job, ...] = ()
    error: BackendError | None = None
    read_at: datetime | None = None
    context: str = ""
    """The context of the page. The same region may exist in several contexts of a group."""
    kind: str = ""
    """The kind of the jobs, which `Backend.list_jobs` sets; `EVERY_KIND` if no kind can be read."""
    whole: bool = True
    """The page is part of a complete list: a job that no page of the region contains is deleted."""
    gone: tuple[str, ...] = ()
    """Names of deleted jobs."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Selects log entries of one job. An empty `replicas` selects all replicas and the service's own lines.

    `since` selects by receive time and ignores an entry's own time, because the clock of a replica may be
    hours behind. `until` selects by the entries' own times.
    """

    job_name: str
    replicas: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    text: str = ""
    include_service: bool = True
    received: datetime | None = None
    """Earliest receive time of the selected entries: `LogBatch.received` of an earlier read."""
    created: datetime | None = None
    """Creation time of the job, if known, which saves a request to the service."""
    tasks: bool = False
    """Include entries of the task jobs, with replicas named TASK/REPLICA. `replicas` then holds task ids."""
    jobs: tuple[str, ...] = ()
    """Full names of other jobs whose entries are selected."""


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Entries in key order within the batch, and the gaps between the entries.

    `note` describes how the log is followed other than by a stream, e.g. by polling; "" reports that a stream
    is back, `None` that nothing has changed. With this batch, every selected entry that the service received
    before `received` has been delivered; `None` if the bound is unknown. `alive` reports that the log was
    read up to now; a batch may carry only this flag.
    """

    entries: tuple[LogEntry, ...] = ()
    gaps: tuple[LogGap, ...] = ()
    note: str | None = None
    received: datetime | None = None
    alive: bool = False


Progressed = Callable[[int, int], None]
"""A callback that receives the bytes done and the total bytes."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket's location (`us-central1`, `eu`); `location_type` is region, dual- or multi-region."""

    name: str
    location: str
    location_type: str = ""
    storage_class: str = ""
    project_number: str = ""


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """One line of `doctor`: a service or condition that this context needs, and the check's result."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class ContextInfo:
    """The identity of a backend, shown in the first line of every screen."""

    name: str
    project: str
    regions: tuple[str, ...]
    endpoint: str = ""
    local: bool = False
    family: str = "vertex"
    """Family of the services, as in `Kind.services`. A group has the family of its first member."""
    watched: bool = False
    """A watch reports changes of jobs, so that reading the changes costs no request."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A job to create: the resource in its REST format (camelCase), and its region.

    Before sending, the backend adds the label `vxtui-launch` with `mark`. After a lost reply it looks for the
    label instead of sending again. `mark` is unique to the launch; the backend generates a missing mark. The
    backend calls `on_send` when the job may begin to exist. `title` names a job without a `displayName`.
    """

    region: str
    resource: Mapping[str, Any] = field(default_factory=dict)
    mark: str = ""
    on_send: Callable[[], None] = field(default=lambda: None, compare=False)
    title: str = ""

    @property
    def label(self) -> str:
        """The label that identifies the launched job."""
        return f"{LAUNCH_LABEL}={self.mark}"

    @property
    def look_first(self) -> str:
        """Advice to show while the existence of the job is unknown."""
        command = f"vxtui jobs --filter {LAUNCH_LABEL}:{self.mark}"
        return f"`{command}` lists the job if it exists. Check before you launch again."


class JobService(ABC):
    """Jobs of one kind. A service offers `create`, `cancel` and `delete` by defining them."""

    def offers(self, operation: str, *, anybody: bool = False) -> bool:
        """Return whether the service has this operation. `anybody` ignores the login's permissions."""
        return getattr(type(self), operation) is not getattr(JobService, operation)

    @abstractmethod
    def owns(self, name: str) -> bool:
        """Return whether this full resource name is a job of this kind."""

    @abstractmethod
    def list_all(self, *, filter: str = "") -> AsyncGenerator[JobPage, None]:
        """Yield every job of every region as pages arrive, newest first within a region.

        Regions are read at the same time. A failing region yields a page with `error` and does not end the
        others. `filter` uses the service's own syntax.
        """

    @abstractmethod
    def changes(self) -> AsyncGenerator[JobPage, None]:
        """Yield the jobs that may have changed since the last list, all if none are known. Raises
        BackendError."""

    @abstractmethod
    async def get(self, name: str) -> Job:
        """Return one job by full resource name, with its replicas and the pools of its full spec."""

    @abstractmethod
    async def spec(self, name: str) -> dict[str, Any]:
        """Return the complete resource in REST format (camelCase, enums by name)."""

    @abstractmethod
    async def find(self, reference: str) -> Sequence[Job]:
        """Return the jobs that match a user's reference: an id, full resource name or display name. The
        result may be empty."""

    def name_filter(self, beginning: str) -> str:
        """Return the service's list filter for display names with this prefix, or "" if there is no such
        filter."""
        return ""

    async def parent_of(self, job: Job) -> Job | None:
        """Return the job of this kind that runs `job` as a task, or `None` if there is none."""
        return None

    async def create(self, request: LaunchRequest) -> Job:
        """Create exactly one job. An implementation never blindly repeats a create request."""
        raise NotOffered("Jobs of this kind can't be created in this context.")

    async def launched(self, request: LaunchRequest) -> Job | None:
        """Return the job that `create` made for this request, found by its `mark`, or `None` if the job is
        not listed."""
        raise NotOffered("Jobs of this kind can't be looked up by launch.")

    async def cancel(self, name: str) -> None:
        """Request the cancellation of a job. The job ends shortly afterwards."""
        raise NotOffered(f"{name} can't be cancelled: jobs of this kind don't support it.")

    async def delete(self, name: str) -> None:
        """Delete an ended job and wait for the operation to finish."""
        raise NotOffered(f"{name} can't be deleted: jobs of this kind don't support it.")

    async def suspend(self, name: str) -> None:
        """End the job's replicas but keep the job, which can be resumed."""
        raise NotOffered(f"{name} can't be suspended: jobs of this kind don't support it.")

    async def resume(self, name: str) -> None:
        """Restart a suspended job."""
        raise NotOffered(f"{name} can't be resumed: jobs of this kind don't support it.")

    async def scale(self, name: str, replicas: int) -> None:
        """Set the job's number of workers."""
        raise NotOffered(f"{name} can't be scaled: jobs of this kind don't support it.")


class LogService(JobReader):
    """Logs of jobs."""

    @abstractmethod
    def read(
        self, query: LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        """Yield stored entries in pages, oldest first by default."""

    @abstractmethod
    def tail(self, query: LogQuery) -> AsyncGenerator[LogBatch, None]:
        """Yield the entries since `query.since`, then new entries until closed; each entry exactly once.

        The generator reconnects automatically. A hole that can't be filled is reported as a `LogGap`. The
        generator ends after the job has ended and all entries have been delivered.
        """


class MetricService(JobReader):
    """Time series of jobs."""

    @abstractmethod
    async def read(
        self,
        name: str,
        *,
        since: datetime | None = None,
        metrics: Sequence[str] = (),
        job: Job | None = None,
    ) -> MetricsReading:
        """Read the series of every replica, points oldest first. An empty `metrics` selects all training
        metrics.

        A caller that has just read the job passes it as `job`.
        """

    async def prepare(self, metrics: Sequence[str] = ()) -> None:
        """Prefetch the data that reading any job needs, e.g. while the job is looked up. Never raises."""


class ProgressService(JobReader):
    """Training progress of jobs."""

    @abstractmethod
    async def read(self, jobs: Sequence[Job]) -> Mapping[str, Progress]:
        """Return the latest progress of several jobs by name, in as few calls as possible."""

    @abstractmethod
    async def training_steps(self, name: str, created: datetime | None = None) -> Sequence[TrainingStep]:
        """Return the reported training steps of one job, oldest first, thinned to a number that can be
        plotted. A known time of its creation saves a read of the job."""

    async def milestones(self, job: Job) -> Sequence[LogEntry]:
        """Return the service's messages about one job and the milestones of its trainer. The default is none,
        for a service without a filter for them."""
        del job
        return ()


class TelemetryService(JobReader):
    """Machine telemetry of trainers."""

    @abstractmethod
    async def read(self, jobs: Sequence[Job], since: datetime) -> Sequence[TelemetryLine]:
        """Return the telemetry lines of these jobs after `since`, newest first, in as few calls as
        possible."""


class QuotaService(ABC):
    """Training quotas."""

    @abstractmethod
    async def read(self, regions: Sequence[str] = ()) -> Sequence[Quota]:
        """Return the quotas of these regions, by default of all regions of the context, with usage if the
        service reports it."""


class PriceService(ABC):
    """The service's own price list."""

    @abstractmethod
    async def read(self) -> Prices:
        """Return today's training prices. Raises BackendError."""


class StorageService(ABC):
    """Object storage."""

    @abstractmethod
    async def bucket(self, name: str) -> Bucket:
        """Return one bucket. Raises NotFound."""

    @abstractmethod
    async def create_bucket(self, name: str, location: str) -> Bucket:
        """Create a bucket. Raises FailedPrecondition if the name is taken."""

    @abstractmethod
    async def size_of(self, uri: str) -> int | None:
        """Return the size of the object gs://BUCKET/NAME in bytes, or `None` if it does not exist."""

    def local_folder(self, uri: str) -> Path | None:
        """Return the folder of the objects below `uri`, or `None` if they are not on this machine."""
        return None

    @abstractmethod
    async def upload(self, path: Path, uri: str, progress: Progressed | None = None) -> None:
        """Upload a file to gs://BUCKET/NAME, completely or not at all. Cancelling ends the upload."""


class PreflightService(ABC):
    """Checks before a launch."""

    @abstractmethod
    def run(self, region: str, job: Mapping[str, Any], running: RunningJobs) -> AsyncGenerator[Check, None]:
        """Check the requirements for launching this custom job (REST format) in `region`. Each check is
        yielded when its result is known.

        Never raises. `running` returns the running jobs, from which missing quota usage is computed. All
        checks run concurrently, each for a few seconds at most. A check without a result reports the reason.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of a context. `None` marks a service that is not offered."""

    jobs: Mapping[str, JobService] = field(default_factory=dict)
    logs: LogService | None = None
    metrics: MetricService | None = None
    progress: ProgressService | None = None
    telemetry: TelemetryService | None = None
    quotas: QuotaService | None = None
    prices: PriceService | None = None
    storage: StorageService | None = None
    preflight: PreflightService | None = None
    serving: ServingService | None = None
    resources: ResourceService | None = None
    schedules: ScheduleService | None = None
    shells: ShellService | None = None


class Backend(ABC):
    """One context. Use it as an async context manager; `connect` may be slow and can be cancelled."""

    info: ContextInfo
    jobs = ServiceAttribute[Mapping[str, JobService]]()
    """Job services by kind, e.g. `custom_job`."""
    logs = ServiceAttribute[LogService]()
    metrics = ServiceAttribute[MetricService]()
    progress = ServiceAttribute[ProgressService]()
    telemetry = ServiceAttribute[TelemetryService]()
    quotas = ServiceAttribute[QuotaService]()
    prices = ServiceAttribute[PriceService]()
    storage = ServiceAttribute[StorageService]()
    preflight = ServiceAttribute[PreflightService]()
    serving = ServiceAttribute[ServingService]()
    resources = ServiceAttribute[ResourceService]()
    schedules = ServiceAttribute[ScheduleService]()
    shells = ServiceAttribute[ShellService]()

    async def __aenter__(self) -> Backend:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    @abstractmethod
    def services(self) -> Services:
        """The context's services. Raises Unavailable while the backend is not connected."""

    @abstractmethod
    async def connect(self) -> None:
        """Load clients and credentials (in a thread) and open channels. Idempotent."""

    async def settle(self) -> None:  # noqa: B027 - one context is settled when it is connected
        """Wait until every context of a group has connected or failed. Call `settle` after `connect`."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close channels. Running calls end with `Unavailable`. Idempotent."""

    @abstractmethod
    async def check_health(self) -> Sequence[ServiceHealth]:
        """Try each service that this context needs, within a time limit. Never raises."""

    def offers(self, need: str, kind: str = "", *, anybody: bool = False) -> bool:
        """Return whether the context has a service (`logs`) or an operation of a service (`jobs.cancel`).

        An operation of jobs is offered if the service of `kind` has it, by default if any service does.
        `anybody` ignores the permissions of this login. Raises Unavailable while the backend is not
        connected.
        """
        name, _, operation = need.partition(".")
        if name != "jobs":
            return getattr(self.services, name) is not None
        services = [service for key, service in self.services.jobs.items() if kind in {"", key}]
        return any(not operation or service.offers(operation, anybody=anybody) for service in services)

    def offers_for(self, job_name: str, need: str, kind: str = "", *, anybody: bool = False) -> bool:
        """Return `offers` of the context that owns the job with this full resource name."""
        return self.offers(need, kind, anybody=anybody)

    def owner(self, job_name: str) -> Backend:
        """Return the context that has the job of this full resource name. Raises NotFound."""
        return self

    def may_have(self, job_name: str) -> bool:
        """Return whether a job of this context may have this full resource name."""
        start, _, rest = job_name.partition("/")
        projects = {rest.partition("/")[0], log_project(job_name, "")}
        return start == "projects" and self.info.project in projects

    def runs_here(self, job_name: str) -> bool:
        """Return whether the job of this full resource name runs on this machine."""
        return self.info.local

    def job_service(self, name: str) -> JobService:
        """Return the service of the job with this full resource name. Raises InvalidRequest if there is
        none."""
        owner = next((service for service in self.jobs.values() if service.owns(name)), None)
        if owner is None:
            raise InvalidRequest(
                f"{name!r} must be the full resource name of a job.",
                fix="Write projects/PROJECT/locations/REGION/customJobs/NUMBER.",
            )
        return owner

    async def list_jobs(self, *, changes: bool = False) -> AsyncGenerator[JobPage, None]:
        """Yield jobs of every kind as one stream of pages; with `changes` only jobs that may have changed."""
        streams = {
            kind: service.changes() if changes else service.list_all() for kind, service in self.jobs.items()
        }
        async with aclosing(merged(streams)) as pages:
            async for kind, page in pages:
                yield page if page.kind else replace(page, kind=kind)

    async def parent_of(self, job: Job) -> Job | None:
        """Return the job that runs `job` as a task, or `None` if there is none. Raises BackendError."""
        reads = [service.parent_of(job) for service in self.jobs.values()]
        answers = await all_or_enough(reads, lambda parent: parent is not None)
        return next((parent for parent in answers if parent is not None), None)

    async def find_jobs(self, reference: str) -> list[Job]:
        """Return the jobs of every kind that match a user's reference. A matching id or full name is
        unique."""
        finds = [service.find(reference) for service in self.jobs.values()]
        answers = await all_or_enough(finds, lambda jobs: any(j.is_named(reference) for j in jobs))
        return [job for jobs in answers for job in jobs]
