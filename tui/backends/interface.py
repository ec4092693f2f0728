"""What a context offers: a set of services, each an object with a few operations.

What is absent is not offered: `Backend.offers` answers from the objects that are there. Services are async,
own their timeouts and retries, and raise only the errors of `tui.backends.errors`. They return objects of the
domain, never a client library's messages. An operation that may take many replies is an async generator:
whoever leaves it (`contextlib.aclosing`) ends its calls.
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
from tui.domain.core.log_entry import LogEntry, LogGap, Severity
from tui.domain.core.metric import MetricsReading
from tui.domain.core.quota import Quota
from tui.domain.core.training_progress import Progress, TrainingStep
from tui.domain.training.telemetry import TelemetryLine
from tui.domain.vertex.preflight import Check, RunningJobs
from tui.domain.vertex.prices import Prices

# Errors have a module of their own: the first paint needs those and not the rest.
__all__ = [
    "Backend", "BackendError", "Bucket", "ContextInfo", "FailedPrecondition", "Interrupted",
    "InvalidRequest", "JobPage", "JobReader", "JobService", "LaunchRequest", "LogBatch", "LogQuery",
    "LogService", "MetricService", "NotFound", "NotOffered", "PermissionDenied", "PreflightService",
    "PriceService", "ProgressService", "Progressed", "QuotaExceeded", "QuotaService", "ServiceHealth",
    "Services", "ShellService", "Stopped", "StorageService", "TelemetryService", "Unauthenticated",
    "Unavailable",
]  # fmt: skip


EVERY_KIND = "*"


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs of one region, or why it could not be read; both where watches go on but a request has failed."""

    region: str
    jobs: tuple[Job, ...] = ()
    error: BackendError | None = None
    read_at: datetime | None = None
    context: str = ""
    """The context of the page; the same region may exist in several contexts of a group."""
    kind: str = ""
    """The kind of the jobs; `Backend.list_jobs` fills it in. `EVERY_KIND` if no kind can be read."""
    whole: bool = True
    """Part of a listing of all jobs: one that no page of the region names is gone."""
    gone: tuple[str, ...] = ()
    """Names of deleted jobs."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which entries of one job. An empty `replicas` means all of them and the service's own lines.

    `since` includes what was received since, whatever an entry's own time: the clock of a replica may be
    behind by hours. `until` is by entries' own times.
    """

    job_name: str
    replicas: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    severity: Severity = Severity.DEFAULT
    text: str = ""
    include_service: bool = True
    received: datetime | None = None
    """Only what the service received since, as `LogBatch.received` of an earlier read says it."""
    created: datetime | None = None
    """When the job was created, where that is known: the service need not be asked for it."""
    tasks: bool = False
    """With the entries of the jobs of its tasks, whose replicas are called TASK/REPLICA. `replicas` are then
    ids of tasks."""
    jobs: tuple[str, ...] = ()
    """Full names of more jobs whose entries are wanted."""


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Entries in the order of their keys within the batch, and what the service left out.

    `note` says how the log is followed where that is not by a stream, e.g. that it is polled; an empty one
    that a stream is back, `None` that nothing has changed. What the service received before `received` is
    complete with this batch, as far as it was asked for; `None` where that is not known. `alive`: the log was
    read up to now; a batch may say only that.
    """

    entries: tuple[LogEntry, ...] = ()
    gaps: tuple[LogGap, ...] = ()
    note: str | None = None
    received: datetime | None = None
    alive: bool = False


Progressed = Callable[[int, int], None]
"""Called with how much is done and how much there is, in bytes."""


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
    """One line of `doctor`: something this context needs, and whether it answered."""

    what: str
    ok: bool
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class ContextInfo:
    """Which service a backend talks to: shown in the first line of every screen."""

    name: str
    project: str
    regions: tuple[str, ...]
    endpoint: str = ""
    local: bool = False
    family: str = "vertex"
    """Of its services, as in `Kind.services`; a group has the first member's."""
    watched: bool = False
    """Changes of jobs come by themselves: to ask for them costs nothing."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A job to create: the resource in its REST form (camelCase), and where.

    The backend adds the label `vxtui-launch` with `mark` before it sends, and after a lost reply looks for it
    instead of sending again. `mark` is unique to the launch; the backend makes one if
    there is none. When `on_send` is called the job may exist. `title` is its name without a `displayName`.
    """

    region: str
    resource: Mapping[str, Any] = field(default_factory=dict)
    mark: str = ""
    on_send: Callable[[], None] = field(default=lambda: None, compare=False)
    title: str = ""

    @property
    def label(self) -> str:
        """The label by which its job is found."""
        return f"{LAUNCH_LABEL}={self.mark}"

    @property
    def look_first(self) -> str:
        """What to do while nobody knows whether the job exists."""
        command = f"vxtui jobs --filter {LAUNCH_LABEL}:{self.mark}"
        return f"`{command}` lists the job if it exists; look before you launch again."


class JobService(ABC):
    """Jobs of one kind. `create`, `cancel` and `delete` are offered where a service defines them."""

    def offers(self, operation: str, *, anybody: bool = False) -> bool:
        """Whether it has this operation, e.g. `cancel`; with `anybody` also where this login may not."""
        return getattr(type(self), operation) is not getattr(JobService, operation)

    @abstractmethod
    def owns(self, name: str) -> bool:
        """Whether this full resource name is one of this kind."""

    @abstractmethod
    def list_all(self, *, filter: str = "") -> AsyncGenerator[JobPage, None]:
        """Every job of every region, newest first within a region, as pages arrive.

        Regions are read at once; one that fails yields a page with `error` and does not end the others.
        `filter` is the service's own list filter.
        """

    @abstractmethod
    def changes(self) -> AsyncGenerator[JobPage, None]:
        """Jobs that may have changed since the last `list_all` or `changes`, in pages that are not `whole`.

        It costs what changes. A region of which nothing is known yet is listed whole. What another program
        deleted may not be among the changes; a listing of all jobs finds it.
        """

    @abstractmethod
    async def get(self, name: str) -> Job:
        """One job by full resource name, with its replicas and the full spec's pools."""

    @abstractmethod
    async def spec(self, name: str) -> dict[str, Any]:
        """The whole resource as the service has it, in REST form (camelCase, enums by name)."""

    @abstractmethod
    async def find(self, reference: str) -> Sequence[Job]:
        """Jobs that a person may mean: by id, full resource name or display name. May be empty."""

    def name_filter(self, beginning: str) -> str:
        """The service's list filter of display names that begin so; "" where it has none."""
        return ""

    async def parent_of(self, job: Job) -> Job | None:
        """The job of this kind that has `job` as one of its tasks, if there is one."""
        return None

    async def create(self, request: LaunchRequest) -> Job:
        """Create exactly one job; never retried blindly."""
        raise NotOffered("Jobs of this kind can't be created here.")

    async def launched(self, request: LaunchRequest) -> Job | None:
        """The job that `create` made of this request, which has a `mark`; `None` while none is listed."""
        raise NotOffered("Jobs of this kind can't be looked for by their launch.")

    async def cancel(self, name: str) -> None:
        """Ask for a cancel. The job ends a little later."""
        raise NotOffered(f"{name} can't be cancelled: jobs of its kind can't be.")

    async def delete(self, name: str) -> None:
        """Delete an ended job and wait for the operation to be done."""
        raise NotOffered(f"{name} can't be deleted: jobs of its kind can't be.")

    async def suspend(self, name: str) -> None:
        """End its replicas and keep the job, which may be resumed."""
        raise NotOffered(f"{name} can't be suspended: jobs of its kind can't be.")

    async def resume(self, name: str) -> None:
        """Start a suspended job again."""
        raise NotOffered(f"{name} can't be resumed: jobs of its kind can't be.")

    async def scale(self, name: str, replicas: int) -> None:
        """Give it so many workers."""
        raise NotOffered(f"{name} can't be scaled: jobs of its kind can't be.")


class LogService(JobReader):
    """What jobs write."""

    @abstractmethod
    def read(
        self, query: LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        """Entries that are there now, oldest first unless told otherwise, a page at a time."""

    @abstractmethod
    def tail(self, query: LogQuery) -> AsyncGenerator[LogBatch, None]:
        """History from `query.since`, then what comes, until closed. No entry twice, none lost.

        Reconnects by itself; a hole it could not fill is a `LogGap`. Ends when the job has ended and
        everything it wrote has been delivered.
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
        """Series of every replica (`metrics` empty: all training metrics), points oldest first.

        `job` is that of the name, where it has just been read.
        """

    async def prepare(self, metrics: Sequence[str] = ()) -> None:
        """Read ahead what a reading needs of any job, e.g. while the job is looked for. Raises nothing."""


class ProgressService(JobReader):
    """How far training has come."""

    @abstractmethod
    async def read(self, jobs: Sequence[Job]) -> Mapping[str, Progress]:
        """Latest progress of several jobs by name, in as few calls as the service allows."""

    @abstractmethod
    async def training_steps(self, name: str) -> Sequence[TrainingStep]:
        """Reported training steps of one job, oldest first, thinned to a drawable number."""


class TelemetryService(JobReader):
    """What trainers report of their machines."""

    @abstractmethod
    async def read(self, jobs: Sequence[Job], since: datetime) -> Sequence[TelemetryLine]:
        """Lines of these jobs' trainers since then, the newest first, in as few calls as possible."""


class QuotaService(ABC):
    """Training quotas."""

    @abstractmethod
    async def read(self, regions: Sequence[str] = ()) -> Sequence[Quota]:
        """Quotas of these regions, by default the context's, with usage where the service has it."""


class PriceService(ABC):
    """The service's own price list."""

    @abstractmethod
    async def read(self) -> Prices:
        """Today's prices of training. Raises BackendError."""


class StorageService(ABC):
    """Object storage."""

    @abstractmethod
    async def bucket(self, name: str) -> Bucket:
        """One bucket. Raises NotFound."""

    @abstractmethod
    async def create_bucket(self, name: str, location: str) -> Bucket:
        """A new bucket. Raises FailedPrecondition where the name is taken."""

    @abstractmethod
    async def size_of(self, uri: str) -> int | None:
        """Bytes of the object gs://BUCKET/NAME; `None` when the bucket has no such object."""

    def local_folder(self, uri: str) -> Path | None:
        """The folder of this machine that holds what is below gs://…; `None` where none does."""
        return None

    @abstractmethod
    async def upload(self, path: Path, uri: str, progress: Progressed | None = None) -> None:
        """Put a file at gs://BUCKET/NAME, whole or not at all. Cancelling it ends it."""


class PreflightService(ABC):
    """Checks before a launch."""

    @abstractmethod
    def run(self, region: str, job: Mapping[str, Any], running: RunningJobs) -> AsyncGenerator[Check, None]:
        """What launching this custom job (REST form) there needs: each check as soon as it is known.

        It never raises. `running` is asked for what the quotas' reported use lacks.
        All checks run at once, each for a few seconds at most; one that could not tell says why.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of a context; `None` is not offered."""

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
    """One context. Use it as an async context manager; `connect` may be slow and is cancellable."""

    info: ContextInfo
    jobs = ServiceAttribute[Mapping[str, JobService]]()
    """By kind, e.g. `custom_job`."""
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
        """What it offers. Raises Unavailable while it is not connected."""

    @abstractmethod
    async def connect(self) -> None:
        """Load clients and credentials (in a thread) and open channels. Idempotent."""

    async def settle(self) -> None:  # noqa: B027 - one context is settled when it is connected
        """After `connect`: wait until each of several contexts is connected too, or has failed to."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close channels; calls under way end with `Unavailable`. Idempotent."""

    @abstractmethod
    async def check_health(self) -> Sequence[ServiceHealth]:
        """Try each service this context needs, bounded in time; never raises."""

    def offers(self, need: str, kind: str = "", *, anybody: bool = False) -> bool:
        """Whether it has a service (`logs`) or an operation of one (`jobs.cancel`).

        An operation of jobs is offered where those of `kind` have it, by default those of any kind; with
        `anybody` also where this login may not. Raises Unavailable while it is not connected.
        """
        name, _, operation = need.partition(".")
        if name != "jobs":
            return getattr(self.services, name) is not None
        services = [service for key, service in self.services.jobs.items() if kind in {"", key}]
        return any(not operation or service.offers(operation, anybody=anybody) for service in services)

    def offers_for(self, job_name: str, need: str, kind: str = "", *, anybody: bool = False) -> bool:
        """`offers` where the job of this full resource name is."""
        return self.offers(need, kind, anybody=anybody)

    def owner(self, job_name: str) -> Backend:
        """The one context that has the job of this full resource name. Raises NotFound."""
        return self

    def may_have(self, job_name: str) -> bool:
        """Whether this full resource name may be one of this context's jobs."""
        start, _, rest = job_name.partition("/")
        return start == "projects" and rest.partition("/")[0] == self.info.project

    def runs_here(self, job_name: str) -> bool:
        """Whether the job of this full resource name runs on this machine."""
        return self.info.local

    def job_service(self, name: str) -> JobService:
        """The service that has the job of this full resource name. Raises InvalidRequest where none has."""
        found = next((service for service in self.jobs.values() if service.owns(name)), None)
        if found is None:
            raise InvalidRequest(
                f"{name!r} is not the full name of a job.",
                fix="Write projects/PROJECT/locations/REGION/customJobs/NUMBER.",
            )
        return found

    async def list_jobs(self, *, changes: bool = False) -> AsyncGenerator[JobPage, None]:
        """Jobs of every kind as one stream of pages; with `changes` only those that may have changed."""
        streams = {
            kind: service.changes() if changes else service.list_all() for kind, service in self.jobs.items()
        }
        async with aclosing(merged(streams)) as found:
            async for kind, page in found:
                yield page if page.kind else replace(page, kind=kind)

    async def parent_of(self, job: Job) -> Job | None:
        """The job that `job` is a part of, if there is one. Raises BackendError."""
        asked = [service.parent_of(job) for service in self.jobs.values()]
        answers = await all_or_enough(asked, lambda found: found is not None)
        return next((found for found in answers if found is not None), None)

    async def find_jobs(self, reference: str) -> list[Job]:
        """Jobs of every kind that a person may mean; an id or a full name that is found means that one."""
        finds = [service.find(reference) for service in self.jobs.values()]
        answers = await all_or_enough(finds, lambda jobs: any(reference in {j.id, j.name} for j in jobs))
        return [job for jobs in answers for job in jobs]
