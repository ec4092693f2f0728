"""A backend in memory with a clock of its own, for screens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tui.app import VxtuiApp
from tui.backends.interface import (
    Backend,
    BackendError,
    ContextInfo,
    JobPage,
    JobService,
    LaunchRequest,
    LogBatch,
    LogQuery,
    LogService,
    MetricService,
    NotFound,
    ProgressService,
    QuotaService,
    ServiceHealth,
    Services,
    TelemetryService,
)
from tui.config.settings import Context, Settings
from tui.domain.core.job import Job, JobError, infer_replicas
from tui.domain.core.metric import MetricsReading
from tui.domain.core.quota import Quota
from tui.domain.core.replica import ReplicaGroup
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Progress, TrainingStep
from tui.domain.training.telemetry import TelemetryLine
from tui.domain.vertex.worker_pools import worker_pool
from tui.screens.jobs.screen import JobsScreen
from tui.store.jobs.causes import causes_in, is_unexplained

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class Clock:
    """Time that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.time = NOON
        self._passed = timedelta()

    def __call__(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        """Seconds that have passed, whatever the time of day says."""
        return self._passed.total_seconds()

    def on(self, **span: float) -> None:
        self.time += timedelta(**span)
        self._passed += timedelta(**span)

    def jump(self, seconds: float) -> None:
        """Somebody sets the time of day."""
        self.time += timedelta(seconds=seconds)


def pool(
    position: int, replicas: int, gpu: str = "", count: int = 0, *, reducer: bool = False
) -> ReplicaGroup:
    return worker_pool(
        position, replicas, "n1-standard-4", gpu, count, image="image", reduction_server=reducer
    )


def job(number: int, display_name: str, state: JobState = JobState.RUNNING, **more: Any) -> Job:
    """A job that was created `age` minutes ago."""
    minutes = more.pop("age", 60)
    groups = more.pop("groups", (pool(0, 1), pool(1, 1)))
    ended = more.pop("ended", 5 if state.terminal else None)
    region = more.pop("region", "us-central1")
    started = None if state in {JobState.QUEUED, JobState.PENDING} else NOON - timedelta(minutes=minutes - 1)
    return Job(
        name=f"projects/p/locations/{region}/customJobs/{number}",
        id=str(number),
        display_name=display_name,
        state=state,
        native_state=f"JOB_STATE_{state}",
        context="test",
        region=region,
        kind=more.pop("kind", "custom_job"),
        create_time=NOON - timedelta(minutes=minutes),
        start_time=started,
        end_time=None if ended is None else NOON - timedelta(minutes=ended),
        groups=groups,
        replicas=infer_replicas(groups, state, more.get("error")),
        **more,
    )


def fleet() -> list[Job]:
    """One job of each kind that a screen has to draw."""
    a100, h100 = "NVIDIA_TESLA_A100", "NVIDIA_H100_80GB"
    return [
        job(
            101,
            "arr-coc-4x8-a100",
            age=302,
            strategy="SPOT",
            labels={"team": "nlp"},
            groups=(pool(0, 1, a100, 8), pool(1, 3, a100, 8), pool(2, 13, reducer=True)),
            progress=Progress(61_204, 100_000, 9.1, 2.1127, 41_800.0, 61_000, NOON - timedelta(minutes=4)),
        ),
        job(
            102,
            "llm-7b-fsdp",
            JobState.RESTARTING,
            age=2900,
            strategy="SPOT",
            groups=(pool(0, 1, h100, 8), pool(1, 7, h100, 8)),
            progress=Progress(40_200, 250_000, 11.0, 3.412, 98_000.0),
        ),
        job(103, "eval-sweep-12", JobState.PENDING, age=14, groups=(pool(0, 1, "NVIDIA_L4", 1),)),
        job(104, "tokenize-c4-shards", JobState.QUEUED, age=33, region="europe-west4", groups=(pool(0, 16),)),
        job(
            105,
            "vit-ablation",
            JobState.FAILED,
            age=1500,
            groups=(pool(0, 1, a100, 8), pool(1, 1, a100, 8)),
            error=JobError(
                9, "The replica workerpool1-0 ran out of memory and exited with a non-zero status of 137."
            ),
        ),
        job(
            106,
            "local-2node-1120",
            JobState.SUCCEEDED,
            age=2900,
            ended=2890,
            progress=Progress(400, 400, 5.53, 2.31, 12_000.0),
        ),
        job(107, "bert-[/]large [red]", JobState.CANCELLED, age=4400, ended=4200, region="europe-west4"),
    ]


class MemoryJobs(JobService):
    """Jobs of a `MemoryBackend`; a subclass takes an operation away with `cancel = JobService.cancel`."""

    def __init__(self, backend: MemoryBackend) -> None:
        self.backend = backend
        self._told: dict[str, Job] = {}

    def owns(self, name: str) -> bool:
        return "/customJobs/" in name

    async def list_all(self, *, filter: str = "") -> AsyncGenerator[JobPage, None]:
        self.backend.whole_listings += 1
        for page in self._pages():
            yield page

    async def changes(self) -> AsyncGenerator[JobPage, None]:
        """Jobs that differ from what was told last; one that just vanished from `stored` is not told."""
        for page in self._pages(whole=False):
            yield page

    def _pages(self, *, whole: bool = True) -> list[JobPage]:
        backend = self.backend
        backend.meet_error()
        pages = []
        for region in backend.info.regions:
            if region in backend.broken:
                pages.append(JobPage(region, error=backend.broken[region]))
                continue
            found = [j for j in backend.stored.values() if j.region == region]
            if not whole:
                found = [j for j in found if self._told.get(j.name) is not j]
            self._told |= {j.name: j for j in found}
            jobs = tuple(replace(j, progress=Progress()) for j in found)
            gone, backend.gone = tuple(backend.gone), []
            pages.append(JobPage(region, jobs, whole=whole, gone=gone))
        return pages

    async def get(self, name: str) -> Job:
        self.backend.meet_error()
        if name not in self.backend.stored:
            raise NotFound(f"no job {name}")
        return self.backend.stored[name]

    async def spec(self, name: str) -> dict[str, Any]:
        return {"name": name, "displayName": (await self.get(name)).display_name}

    async def find(self, reference: str) -> list[Job]:
        self.backend.meet_error()
        return [j for j in self.backend.stored.values() if reference in {j.id, j.name, j.display_name}]

    async def create(self, request: LaunchRequest) -> Job:
        backend = self.backend
        backend.meet_error()
        request.on_send()
        backend.created.append(request)
        name = str(request.resource["displayName"])
        made = job(900 + len(backend.created), name, JobState.PENDING, age=0, region=request.region)
        backend.stored[made.name] = made
        return made

    async def cancel(self, name: str) -> None:
        self.backend.meet_error()
        self.backend.cancelled.append(name)
        self.backend.change(name, state=JobState.CANCELLED, end_time=NOON + timedelta(minutes=1))

    async def delete(self, name: str) -> None:
        await self.get(name)
        self.backend.deleted.append(name)
        del self.backend.stored[name]
        self.backend.gone.append(name)
        self._told.pop(name, None)


class UnchangeableJobs(MemoryJobs):
    """Jobs that can only be read."""

    create = JobService.create
    cancel = JobService.cancel
    delete = JobService.delete


class MemoryLogs(LogService):
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    async def read(
        self, query: LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        self._backend.meet_error()
        yield LogBatch()

    async def tail(self, query: LogQuery) -> AsyncGenerator[LogBatch, None]:
        self._backend.meet_error()
        yield LogBatch()


class MemoryMetrics(MetricService):
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    async def read(
        self,
        name: str,
        *,
        since: datetime | None = None,
        metrics: Sequence[str] = (),
        job: Job | None = None,
    ) -> MetricsReading:
        self._backend.meet_error()
        return MetricsReading((), (), NOON)


class MemoryProgress(ProgressService):
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    async def read(self, jobs: Sequence[Job]) -> Mapping[str, Progress]:
        self._backend.meet_error()
        stored = self._backend.stored
        return {j.name: stored[j.name].progress for j in jobs if j.name in stored}

    async def training_steps(self, name: str, created: datetime | None = None) -> Sequence[TrainingStep]:
        return []


class MemoryTelemetry(TelemetryService):
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    async def read(self, jobs: Sequence[Job], since: datetime) -> Sequence[TelemetryLine]:
        self._backend.meet_error()
        wanted = {j.id for j in jobs}
        return [x for x in self._backend.stored_lines if x.job_id in wanted and x.timestamp >= since]


class MemoryQuotas(QuotaService):
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    async def read(self, regions: Sequence[str] = ()) -> Sequence[Quota]:
        self._backend.meet_error()
        return self._backend.stored_quotas


class MemoryBackend(Backend):
    """`stored` is what the service has; `error` is what every call meets, `broken` what a region meets."""

    services = Services()

    def __init__(
        self, jobs: Sequence[Job] = (), *, local: bool = True, regions: Sequence[str] = ("us-central1",)
    ):
        self.info = ContextInfo("test", "p", tuple(regions), "memory", local)
        self.stored = {j.name: j for j in jobs}
        self.stored_quotas: list[Quota] = []
        self.stored_lines: list[TelemetryLine] = []
        self.error: BackendError | None = None
        self.broken: dict[str, BackendError] = {}
        self.created: list[LaunchRequest] = []
        self.cancelled: list[str] = []
        self.deleted: list[str] = []
        self.gone: list[str] = []
        """Deleted by the console, and not told of yet."""
        self.whole_listings = 0
        self.connects = 0
        self.closed = False
        self.use(
            jobs={"custom_job": MemoryJobs(self)},
            logs=MemoryLogs(self),
            metrics=MemoryMetrics(self),
            progress=MemoryProgress(self),
            telemetry=MemoryTelemetry(self),
            quotas=MemoryQuotas(self),
        )

    def use(self, **services: Any) -> None:
        """Put these services in the place of others; `None` takes one away."""
        self.services = replace(self.services, **services)

    def meet_error(self) -> None:
        if self.error is not None:
            raise self.error

    async def connect(self) -> None:
        self.connects += 1
        self.meet_error()

    async def aclose(self) -> None:
        self.closed = True

    async def check_health(self) -> Sequence[ServiceHealth]:
        return []

    def change(self, name: str, **fields: Any) -> None:
        self.stored[name] = replace(self.stored[name], **fields)


def console(
    backend: MemoryBackend, state_dir: Path, *, settings: Settings | None = None, **more: Any
) -> VxtuiApp:
    """The console on a backend in memory."""
    context = more.pop("context", Context(name="test", project="p", regions=list(backend.info.regions)))
    app = VxtuiApp(
        settings or Settings(),
        context,
        opener=more.pop("opener", lambda *_: backend),
        contexts=more.pop("contexts", [context]),
        state_dir=state_dir,
        read_profiles=more.pop("read_profiles", list),
        profile_folder=more.pop("profile_folder", state_dir / "profiles"),
        themes=more.pop("themes", THEMES),
        clock=more.pop("clock", Clock()),
        **more,
    )
    # Read in a thread otherwise, some time after the first picture.
    app.costs.load()
    return app


AT_WORK = {JobState.RUNNING, JobState.RESTARTING, JobState.CANCELLING}


def progress_is_known(app: VxtuiApp) -> bool:
    """Whether the list shows the progress of what runs and the causes of failures: they are read after it."""
    session = app.connection.session
    if session is None or not isinstance(session.backend, MemoryBackend):
        return True
    there = session.backend.jobs
    at_work = [j for j in app.store.jobs.values() if j.state in AT_WORK and j.name in there]
    if not all(j.progress == there[j.name].progress for j in at_work):
        return False
    listed = app.screen._listed_in_view() if isinstance(app.screen, JobsScreen) else ()
    return all(causes_in(app.state_dir).of(job) for job in listed if is_unexplained(job))


THEMES = []


def _load() -> None:
    from tui.config.themes import load_themes

    themes, problems = load_themes([Path(__file__).parents[2] / "themes"])
    assert not problems, problems
    THEMES.extend(themes)


_load()
