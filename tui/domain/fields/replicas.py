"""The fields of a replica, for the replicas' tab, `vxtui describe` and a job's `--json`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from tui.domain.core.formatting import age, figure
from tui.domain.core.job import Job, known_replicas
from tui.domain.core.metric import CPU, GPU, MEMORY
from tui.domain.core.replica import Replica
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Progress
from tui.domain.fields.cell import NONE, UNKNOWN, Cell, Tone, muted, state_cell
from tui.domain.fields.field import Field, json_object, sortable

STATE_PRIORITY = (
    JobState.FAILED, JobState.EXPIRED, JobState.UNKNOWN, JobState.RESTARTING, JobState.CANCELLING,
    JobState.SUSPENDED, JobState.QUEUED, JobState.PENDING, JobState.CANCELLED, JobState.SKIPPED,
    JobState.RUNNING, JobState.SUCCEEDED,
)  # fmt: skip
"""States by priority. A folded group shows the first of these states that occurs in it."""


class ReplicaUsage(NamedTuple):
    """Recent shares of a metric, the oldest first, and the newest value, which may be `stale`."""

    shares: tuple[float | None, ...]
    value: float
    stale: bool


class ReplicaFigures(Protocol):
    """The measurements of one replica; `None` means not measured."""

    def usage(self, metric: str) -> ReplicaUsage | None: ...
    def mean(self, metric: str) -> float | None: ...
    @property
    def step(self) -> int | None: ...
    @property
    def lag(self) -> tuple[float, bool] | None:
        """Steps behind the furthest replica, and whether the value is stale."""

    @property
    def network(self) -> tuple[float | None, float | None]:
        """Received and sent bytes per second."""


class ReplicaRow(NamedTuple):
    """A replica, the position of its group in the job, and its measurements."""

    replica: Replica
    position: int | None = None
    figures: ReplicaFigures | None = None


def exit_cell(code: int | None) -> Cell:
    """Return a cell with an exit code, highlighted unless it is 0."""
    if code is None:
        return NONE
    return Cell(str(code), Tone.BAD, strong=True) if code else muted("0")


def step_cell(row: ReplicaRow) -> Cell:
    """Return a cell with the last step that the replica reported."""
    step = row.figures.step if row.figures is not None else None
    return UNKNOWN if step is None else Cell(f"{step:,}")


def lag_cell(row: ReplicaRow) -> Cell:
    """Return a cell with the steps behind the furthest replica; muted if the job has been silent for long."""
    lag = row.figures.lag if row.figures is not None else None
    if lag is None:
        return UNKNOWN
    value, stale = lag
    tone = Tone.MUTED if stale else Tone.WARNING if value else Tone.NORMAL
    return Cell(f"{value:,.0f}", tone, strong=tone is Tone.WARNING)


def usage_cell(metric: str) -> Callable[[ReplicaRow], Cell]:
    """Return a cell with sparkline and newest value of a share in percent: `▂▃▅▇ 61`."""

    def cell(row: ReplicaRow) -> Cell:
        usage = row.figures.usage(metric) if row.figures is not None else None
        if usage is None:
            return UNKNOWN
        value = f" {usage.value * 100:>3.0f}"
        if usage.stale:
            return Cell(value, Tone.MUTED, trend=usage.shares)
        return Cell(trend=usage.shares, tone=Tone.MUTED, more=(Cell(value),))

    return cell


def _mean(metric: str) -> Callable[[ReplicaRow], float | None]:
    return lambda row: row.figures.mean(metric) if row.figures is not None else None


def _network(row: ReplicaRow) -> Cell:
    """Return a cell with received and sent bytes per second: `1.1M/0.9M`."""
    rates = row.figures.network if row.figures is not None else (None, None)
    return UNKNOWN if all(rate is None for rate in rates) else Cell("/".join(map(figure, rates)))


def _traffic(row: ReplicaRow) -> float | None:
    rates = row.figures.network if row.figures is not None else ()
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _restarts(row: ReplicaRow) -> Cell:
    """Return a cell with the restarts, and the preemptions among their reasons: `3 2p`."""
    restarts, preemptions = row.replica.restarts, row.replica.preemptions
    if restarts is None:
        return NONE
    more = (Cell(f" {preemptions:,}p", Tone.WARNING),) if preemptions else ()
    return Cell(f"{restarts:,}", more=more)


REPLICA_FIELDS: tuple[Field[ReplicaRow], ...] = (
    Field("replica", "REPLICA", 16, max_width=30,
        cell=lambda row: Cell(f"  {row.replica.id}", long=row.replica.id), sort=lambda row: row.replica.index,
        json=lambda row: row.replica.id, json_key="id",
        help="Name, e.g. `workerpool0-0`; in a cluster `worker-3`"),
    Field("group", json=lambda row: row.replica.group, help="Replica group, in Vertex a worker pool"),
    Field("pool", json=lambda row: row.position, help="Position of the group in the job"),
    Field("index", json=lambda row: row.replica.index, help="Number within the group, from 0"),
    Field("role", "ROLE", 7, max_width=16, rank=7,
        cell=lambda row: muted(row.replica.role), json=lambda row: row.replica.role,
        help="Role, e.g. `primary`"),
    Field("state", "STATE", 12, max_width=18,
        cell=lambda row: state_cell(row.replica.state),
        sort=lambda row: STATE_PRIORITY.index(row.replica.state),
        json=lambda row: row.replica.state.value, help="State, one of the states of a job"),
    Field("exit", "EXIT", 4, max_width=4, rank=8, right=True,
        cell=lambda row: exit_cell(row.replica.exit_code),
        sort=lambda row: row.replica.exit_code, largest_first=True,
        json=lambda row: row.replica.exit_code, json_key="exit_code", help="Exit code"),
    Field("restarts", "RST", 3, max_width=6, rank=7, right=True, optional=True,
        cell=_restarts, json=lambda row: row.replica.restarts, help="Restarts and replaced pods"),
    Field("preemptions", json=lambda row: row.replica.preemptions, help="Preemptions of its machine"),
    Field("reason", "REASON", 24, max_width=44, rank=1, optional=True,
        cell=lambda row: Cell(row.replica.reason, Tone.WARNING),
        json=lambda row: row.replica.reason or None, help="Reason for the state"),
    Field("cpu", "CPU % past", 12, max_width=22, rank=2, right=True, only="screen",
        cell=usage_cell(CPU), sort=_mean(CPU)),
    Field("memory", "MEM % past", 12, max_width=22, rank=3, right=True, only="screen",
        cell=usage_cell(MEMORY), sort=_mean(MEMORY)),
    Field("gpu", "GPU % each", 12, max_width=40, rank=4, right=True, only="screen",
        cell=usage_cell(GPU), sort=_mean(GPU)),
    Field("step", "STEP", 7, max_width=10, rank=5, right=True, only="screen",
        cell=step_cell, sort=lambda row: row.figures.step if row.figures is not None else None),
    Field("lag", "LAG", 4, max_width=8, rank=4, right=True, only="screen", largest_first=True,
        cell=lag_cell, sort=lambda row: row.figures.lag[0] if row.figures and row.figures.lag else None),
    Field("net", "NET in/out B/s", 14, max_width=18, rank=6, right=True, only="screen", largest_first=True,
        cell=_network, sort=_traffic),
    Field("machine", "MACHINE", 14, max_width=40, rank=9, only="screen",
        cell=lambda row: muted(row.replica.node)),
    # The node replaces the machine type, because users need the node when a replica fails or lags.
    Field("node", "NODE", 8, max_width=40, rank=1, ends=True, optional=True,
        cell=lambda row: muted(row.replica.node),
        json=lambda row: row.replica.node or None, help="Name of the machine"),
    Field("pod", json=lambda row: row.replica.pod or None, help="Name of the pod in a cluster"),
)  # fmt: skip
SORTS = sortable(REPLICA_FIELDS, first="replica")
"""The fields for sorting replicas."""


def with_remarks(job: Job, progress: Progress, now: datetime) -> Job:
    """Return the job, whose silent or slow replica has this as the reason for its state."""
    remarks, silence, slow = dict[str, str](), progress.silence, progress.straggler
    if slow is not None:
        remarks[slow.replica.split(" ", 1)[0]] = f"{slow.slower * 100:.0f} % slower than the others"
    if silence is not None and silence.replica:
        remarks[silence.replica.split(" ", 1)[0]] = f"silent for {age(now - silence.since)}, exited?"
    if not remarks or job.state is not JobState.RUNNING:
        return job
    replicas = tuple(
        replace(replica, reason=remarks[replica.id])
        if replica.id in remarks and not (replica.reason or replica.state.terminal)
        else replica
        for replica in known_replicas(job)
    )
    return replace(job, replicas=replicas)


def replica_rows(job: Job) -> list[ReplicaRow]:
    """Return the rows of a job's replicas, without measurements."""
    positions = {group.name: position for position, group in enumerate(job.groups)}
    return [ReplicaRow(replica, positions.get(replica.group)) for replica in known_replicas(job)]


def replicas_json(job: Job) -> list[dict[str, Any]]:
    """Return the replicas of a job in the documented JSON format."""
    return [json_object(REPLICA_FIELDS, row) for row in replica_rows(job)]
