"""The table of jobs: its columns, and the cells of a job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime

from textual.content import Content

from tui.domain.core.formatting import NOT_MEASURED, accelerators, age, replicas, short_error
from tui.domain.core.job import Job
from tui.domain.core.metric import CPU, GPU
from tui.domain.core.states import JobState
from tui.domain.core.text import plain
from tui.kinds.registry import kind_of, kinds, region_word
from tui.store.jobs.usage import UsageTrend
from tui.widgets.plot.sparkline import sparkline
from tui.widgets.state import bar, state_content
from tui.widgets.table.rows import SortKey
from tui.widgets.table.table import Cells, Column, Table

COLUMNS = (
    Column("state", "STATE", 12, max_width=13),
    Column("name", "NAME", 17, max_width=44, ends=True),
    Column("region", "REGION", 12, max_width=28, rank=6, whole=True),
    Column("replicas", "REPL", 7, max_width=12, rank=3, right=True, whole=True),
    Column("accelerators", "ACCEL", 7, max_width=18, rank=4, right=True),
    Column("strategy", "STRATEGY", 8, max_width=8, rank=7),
    Column("progress", "PROGRESS", 17, max_width=60, rank=1, flex=True),
    Column("step", "STEP", 9, max_width=24, rank=9, right=True, whole=True),
    Column("gpu", "GPU %", 10, max_width=10, rank=8, right=True),
    Column("cpu", "CPU %", 10, max_width=10, rank=10, right=True),
    Column("loss", "LOSS", 5, max_width=8, rank=5, right=True, whole=True),
    Column("age", "AGE", 4, max_width=6, rank=2, right=True, whole=True),
    Column("duration", "RAN", 5, max_width=6, rank=8, right=True, whole=True),
    Column("cost", "COST", 9, max_width=17, rank=5, right=True, whole=True),
)
WOULD_COST = replace(COLUMNS[-1], title="WOULD COST")
"""The cost's column where all jobs run on this machine."""
ID = Column("id", "ID", 6, max_width=20, rank=5, whole=True)
"""The id's column, shown on a wide screen."""
CONTEXT = Column("context", "CONTEXT", 8, max_width=20, rank=2)
"""The context's column, shown in a group of contexts."""
KIND = Column("kind", "KIND", 8, max_width=10, rank=2)
"""The kind's column, shown while jobs of several kinds are listed."""
SORTABLE = (
    "age", "state", "name", "region", "replicas", "accelerators", "progress", "loss", "duration",
    "strategy", "step", "cost", "kind",
)  # fmt: skip
MOST_FIRST = frozenset({"accelerators", "progress", "step", "duration", "cost"})
"""Columns sorted with the largest value on top; the others start with the smallest, as A before Z."""
BAR = 10
Usage = Callable[[str], UsageTrend]

_STRATEGY = {"STANDARD": "std", "SPOT": "spot", "FLEX_START": "flex", "ON_DEMAND": "std"}
_STATE_ORDER = {state: at for at, state in enumerate(JobState)}


class ChangingTable(Table):
    """A table whose columns depend on the listed jobs and the context."""

    def use(self, columns: Sequence[Column]) -> None:
        """Show these columns from now on."""
        if tuple(columns) != self.columns:
            self.columns = tuple(columns)
            self._choose_columns()


class JobTable(ChangingTable):
    """A table of `job_cells`."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(COLUMNS, id=id)
        self.hidden: set[str] = set()
        """Keys of the hidden columns: kept per context by the screen."""

    @property
    def _hidden_columns(self) -> set[str]:
        return self.hidden

    @property
    def closed_groups(self) -> set[str]:
        """The groups whose rows are not shown."""
        return self._shown.closed

    @closed_groups.setter
    def closed_groups(self, groups: set[str]) -> None:
        self._shown.closed = groups

    @property
    def placed_columns(self) -> frozenset[str]:
        """Keys of the columns that are shown now."""
        return frozenset(placed.column.key for placed in self._placed)

    def set_columns(self, hidden: Collection[str], kept: Collection[str]) -> None:
        """Hide these columns, and show those of `kept` whatever the width."""
        self.hidden, self.pinned = set(hidden), frozenset(kept)
        self._choose_columns()

    def show_kinds(
        self, listed: Collection[str], *, billed: bool = True, contexts: bool = False, ids: bool = False
    ) -> None:
        """Show the columns that jobs of these kinds have; see `columns_for`."""
        self.use(columns_for(listed, billed=billed, contexts=contexts, ids=ids))


def columns_for(
    listed: Collection[str], *, billed: bool = True, contexts: bool = False, ids: bool = False
) -> tuple[Column, ...]:
    """The columns that jobs of these kinds have: the common ones, and those that a kind adds.

    Where nothing is `billed`, the cost is what it would be. `contexts`: they are of several contexts.
    `ids`: there is room for their ids.
    """
    own = [column for kind in kinds() if kind.key in listed for column in kind.columns]
    added = [Column(c.key, c.title, c.width, c.max_width, c.rank, c.right) for c in own]
    state, name, region, *rest = COLUMNS if billed else (*COLUMNS[:-1], WOULD_COST)
    return (
        state,
        name,
        *([ID] if ids else ()),
        *([CONTEXT] if contexts else ()),
        *([KIND] if len(listed) > 1 else ()),
        replace(region, title=region_word(listed).upper()),
        *rest,
        *added,
    )


def job_cells(
    job: Job,
    now: datetime,
    *,
    usage: Usage | None = None,
    cost: str = NOT_MEASURED,
    billed: bool = True,
    ascii_only: bool = False,
) -> Cells:
    """One job's row.

    `usage` returns the history of a metric of this job, `cost` is its cost so far; one
    that is not `billed` is dim.
    """
    none = Content.styled(NOT_MEASURED, "$text-muted")
    loss = job.progress.last_loss
    kind = kind_of(job)
    own = {column.key: Content(plain(column.text(job))) for column in kind.columns}
    return {
        **own,
        "kind": Content.styled(kind.words.short or kind.words.noun, "$text-muted"),
        "state": state_content(job.state),
        "name": Content.styled(plain(job.display_name) or plain(job.id), "bold" if job.state.active else ""),
        # A cluster's job has no id besides its name.
        "id": Content.styled("" if job.id == job.display_name else plain(job.id), "$text-muted"),
        "context": Content(plain(job.context)),
        "region": Content.styled(plain(job.region), "$text-muted"),
        "replicas": Content(replicas(job)),
        "accelerators": Content(accelerators(job)),
        "strategy": Content.styled(_STRATEGY.get(job.strategy, plain(job.strategy).lower()), "$text-muted"),
        "progress": progress_content(job, now),
        "step": none if job.progress.step is None else Content.styled(_step(job), "$text-muted"),
        "gpu": none if usage is None else course_content(usage(GPU), ascii_only=ascii_only),
        "cpu": none if usage is None else course_content(usage(CPU), ascii_only=ascii_only),
        "loss": none if loss is None else Content(f"{loss:.4g}"),
        "age": Content.styled(age(job.age(now)), "$text-muted"),
        "duration": Content.styled(age(job.duration(now)), "$text-muted"),
        "cost": none if cost == NOT_MEASURED else Content.styled(cost, "" if billed else "$text-muted"),
    }


def course_content(course: UsageTrend, *, ascii_only: bool = False) -> Content:
    """Bars and the newest value in percent: `▂▃▅▇▇▆ 91`; `sim▇▇▆ 91` if an emulator simulates it."""
    if course.latest is None:
        return Content.styled(NOT_MEASURED, "$text-muted")
    drawn = sparkline(course.shares, ascii_only=ascii_only)
    value = f" {course.latest * 100:>3.0f}"
    if course.simulated:
        return Content.styled(f"sim{drawn[-3:]}{value}", "$text-warning")
    return Content.assemble((drawn, "$text-muted"), value)


_UNDER_WAY = frozenset({JobState.QUEUED, JobState.PENDING, JobState.RESTARTING})


def progress_content(job: Job, now: datetime) -> Content:
    """A bar with percent, or the reason of a wait, a failure or a restart."""
    progress = job.progress
    if job.state is JobState.FAILED and job.error is not None:
        return Content.styled(plain(short_error(job)), "$text-error")
    if job.diagnosis is not None and job.diagnosis.short and job.state in _UNDER_WAY:
        # For a job that waits or recovers, the reason matters more than its progress.
        waited = f", {age(job.wait(now))}" if job.waiting else ""
        return Content.styled(plain(job.diagnosis.short) + waited, "$text-warning")
    if job.state in {JobState.QUEUED, JobState.PENDING} and job.create_time is not None:
        words = "no quota yet" if job.state is JobState.QUEUED else "provisioning"
        if job.state is JobState.PENDING and job.persistent_resource:
            # The machines exist: the job waits for other jobs on them.
            words = f"waits for {plain(job.persistent_resource)}"
        return Content.styled(f"{words}, {age(job.wait(now))}", "$text-muted")
    fraction = progress.fraction
    if progress.problem and job.state.active:
        return Content.styled(plain(progress.problem), "$text-error")
    if fraction is not None:
        colour = "$text-success" if job.state is JobState.RUNNING else "$text-muted"
        again = _again(job)
        if again:
            # The column is about as wide as a bar where the screen is not: the bar gives its room to this.
            return Content.assemble((f"{fraction:>3.0%}", colour), "  ", (again, "$text-warning"))
        drawn = bar(fraction, BAR)
        return Content.assemble((drawn, colour), f" {fraction:>4.0%}")
    if progress.phase:
        return Content.styled(plain(progress.phase), "$text-muted")
    if job.diagnosis is not None and job.diagnosis.short and job.state.active:
        return Content.styled(plain(job.diagnosis.short), "$text-warning")
    return Content.styled(NOT_MEASURED, "$text-muted")


def _again(job: Job) -> str:
    """For a running job: why, or how often, replicas were restarted."""
    if job.state is not JobState.RUNNING:
        return ""
    if job.diagnosis is not None and job.diagnosis.short:
        return plain(job.diagnosis.short)
    times = sum(replica.restarts or 0 for replica in job.replicas)
    return f"restarted {times}×" if times else ""


def _step(job: Job) -> str:
    total = f"/{job.progress.total_steps:,}" if job.progress.total_steps else ""
    return f"{job.progress.step:,}{total}"


def newest_first(job: Job) -> SortKey:
    """Sort key by age, the default order."""
    created = job.created
    return (True, 0, job.name) if created is None else (False, -created, job.name)


def sort_key(job: Job, column: str, now: datetime) -> SortKey:
    """Sort key by a column: unknown values last, then the value, then the resource name."""
    value: float | str | None
    match column:
        case "state":
            value = _STATE_ORDER[job.state]
        case "name":
            value = job.display_name.casefold()
        case "region":
            value = job.region
        case "replicas":
            value = job.replica_count
        case "accelerators":
            value = -sum(job.accelerators.values())
        case "strategy":
            value = job.strategy
        case "kind":
            value = kind_of(job).words.noun
        case "step":
            value = None if job.progress.step is None else -job.progress.step
        case "progress":
            value = None if job.progress.fraction is None else -job.progress.fraction
        case "loss":
            value = job.progress.last_loss
        case "duration":
            span = job.duration(now)
            value = None if span is None else -span.total_seconds()
        case _:
            return newest_first(job)
    return (value is None, 0 if value is None else value, job.name)
