"""Groups and replicas of a job with their state and figures; groups can be folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from textual.content import Content

from tui.domain.core.formatting import ACCELERATOR_SHORT, NOT_MEASURED, figure, pieces
from tui.domain.core.job import Job
from tui.domain.core.metric import CPU, GPU, MEMORY, NET_IN, NET_OUT
from tui.domain.core.replica import Replica, ReplicaGroup
from tui.domain.core.states import JobState
from tui.domain.core.text import plain
from tui.store.job.figures import JobFigures, Measure
from tui.store.job.series import SeriesStore, buckets
from tui.widgets.heat_map.fleet_rows import accelerator_names, code_of
from tui.widgets.heat_map.scale import cells as heat_cells
from tui.widgets.plot.sparkline import sparkline
from tui.widgets.state import state_content
from tui.widgets.table.table import Cells, Column, Table

COLUMNS = (
    Column("replica", "REPLICA", 16, max_width=30),
    Column("role", "ROLE", 7, max_width=16, rank=7),
    Column("state", "STATE", 12, max_width=18),
    Column("exit", "EXIT", 4, max_width=4, rank=8, right=True),
    Column("cpu", "CPU % past", 12, max_width=22, rank=2, right=True),
    Column("memory", "MEM % past", 12, max_width=22, rank=3, right=True),
    Column("gpu", "GPU % each", 12, max_width=40, rank=4, right=True),
    Column("step", "STEP", 7, max_width=10, rank=5, right=True),
    Column("lag", "LAG", 4, max_width=8, rank=4, right=True),
    Column("net", "NET in/out B/s", 14, max_width=18, rank=6, right=True),
    Column("machine", "MACHINE", 14, max_width=40, rank=9),
)
_REPORTED = {
    "restarts": Column("restarts", "RST", 3, max_width=5, rank=7, right=True),
    "reason": Column("reason", "REASON", 24, max_width=44, rank=1),
}
"""Columns shown where the service reports the value for any replica."""
NODE = Column("machine", "NODE", 8, max_width=40, rank=1, ends=True)
"""In the place of the machine where the service tells which node a replica is on: one looks for it when a
replica fails or lags."""
SORTABLE = ("replica", "state", "exit", "cpu", "memory", "gpu", "step", "lag", "net")
MOST_FIRST = frozenset({"exit", "lag", "net"})
"""Columns sorted with the largest value on top; others start with the least busy replica."""
STALE = timedelta(minutes=10)
FOLD_FROM = 16
"""Groups with more replicas than this start folded."""
_STATE_PRIORITY = (
    JobState.FAILED, JobState.EXPIRED, JobState.UNKNOWN, JobState.RESTARTING, JobState.CANCELLING,
    JobState.SUSPENDED, JobState.QUEUED, JobState.PENDING, JobState.CANCELLED, JobState.SKIPPED,
    JobState.RUNNING, JobState.SUCCEEDED,
)  # fmt: skip
"""States in the order in which a folded group shows one of them."""
_NONE = Content.styled(NOT_MEASURED, "$text-muted")
_DASH = Content.styled("–", "$text-muted")


@dataclass(frozen=True, slots=True)
class TreeData:
    """The data of the cells at one refresh."""

    series: SeriesStore
    newest: JobFigures
    now: datetime
    span: timedelta
    bars: int
    colours: Sequence[str]
    """Colours of the heat map's levels."""
    ascii_only: bool = False
    close: bool = False
    """Cells without gaps, for a narrow screen."""


class ReplicaTree(Table):
    """Rows are keyed by the name of a replica or of a group."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(COLUMNS, id=id)
        self._folded: set[str] = set()
        self._seen: set[str] = set()
        self.words: tuple[str, ...] = ()
        """The words of the filter: each must be in a replica's name, role or state."""
        self.found = 0
        """Replicas that match the filter."""

    def fold(self, group: str) -> None:
        """Fold or unfold a group."""
        self._folded ^= {group}

    def folded(self, group: str) -> bool:
        """Whether the group's replicas are hidden."""
        return group in self._folded

    def display_job(self, job: Job, data: TreeData) -> None:
        """Show the job's groups and replicas."""
        rows: dict[str, Cells] = {}
        self.found = 0
        self._show_columns(job.replicas)
        for group in job.groups:
            if not group.replicas:
                continue
            if group.name not in self._seen:
                self._seen.add(group.name)
                if group.replicas > FOLD_FROM:
                    self._folded.add(group.name)
            members = [r for r in job.replicas if r.group == group.name]
            matching = [r for r in members if self._matches(r)]
            self.found += len(matching)
            if self.words and not matching:
                continue
            folded = self.folded(group.name) and not self.words
            rows[group.name] = group_cells(group, members, data, folded)
            if not folded:
                rows |= {r.id: replica_cells(r, group, data) for r in self._in_order(matching, data)}
        self.show(list(rows), rows)

    def _show_columns(self, replicas: Sequence[Replica]) -> None:
        """The usual columns, with those that the service reports after the exit code."""
        reported = {
            "restarts": any(replica.restarts is not None for replica in replicas),
            "reason": any(replica.reason for replica in replicas),
        }
        after = next(at for at, column in enumerate(COLUMNS) if column.key == "exit") + 1
        more = [column for key, column in _REPORTED.items() if reported[key]]
        last = NODE if any(replica.node for replica in replicas) else COLUMNS[-1]
        columns = (*COLUMNS[:after], *more, *COLUMNS[after:-1], last)
        if columns != self.columns:
            self.columns = columns
            self.clear_widths()

    def _matches(self, replica: Replica) -> bool:
        text = " ".join((replica.id, replica.role, replica.state.value, replica.node, replica.reason))
        text = text.casefold()
        return all(word in text for word in self.words)

    def _in_order(self, replicas: Sequence[Replica], data: TreeData) -> list[Replica]:
        """Sort by the chosen column; replicas without a figure come last."""
        column, most_first = self.sorted_by, self.reverse
        if column in {"", "replica"}:
            return list(reversed(replicas)) if most_first else list(replicas)
        known = [(value, r) for r in replicas if (value := _sort_value(column, r, data)) is not None]
        known.sort(key=lambda pair: pair[0], reverse=most_first)
        there = {r.id for _, r in known}
        return [*(r for _, r in known), *(r for r in replicas if r.id not in there)]


def _sort_value(column: str, replica: Replica, data: TreeData) -> float | None:
    """The sort value of a replica; None where it is not measured."""
    match column:
        case "state":
            return _STATE_PRIORITY.index(replica.state)
        case "exit":
            return replica.exit_code
        case "step":
            at = data.newest.step(replica.id)
            return None if at is None else at.step
        case "lag":
            lag = data.newest.figure(Measure.LAG, replica.id)
            return None if lag is None else lag.value
        case "net":
            values = [_latest(data, metric, replica.id) for metric in (NET_IN, NET_OUT)]
            return sum(v for v in values if v is not None) if any(v is not None for v in values) else None
    metric = {"cpu": CPU, "memory": MEMORY, "gpu": GPU}[column]
    points = [s.latest for s in data.series.of(metric, replica.id)]
    fresh = [p[1] for p in points if p is not None and data.now - p[0] <= STALE]
    return sum(fresh) / len(fresh) if fresh else None


def group_cells(group: ReplicaGroup, members: Sequence[Replica], data: TreeData, folded: bool) -> Cells:
    """One group: its replicas and machines; a folded group also shows its worst state and mean usage."""
    kind = [plain(group.machine_type)] if group.machine_type else []
    if group.accelerator_count:
        short = ACCELERATOR_SHORT.get(group.accelerator_type, group.accelerator_type)
        kind.append(f"{group.accelerator_count} {plain(short)}")
    head = Content.assemble(("▸ " if folded else "▾ ", "$text-muted"), (plain(group.name), "bold"))
    cells: dict[str, Content] = {
        "replica": head,
        "role": Content.styled(group.role, "$text-muted"),
        "state": Content.styled(pieces(len(members), "replica"), "$text-muted"),
    }
    if folded and members:
        ids = {r.id for r in members}
        cells["state"] = _states(members)
        cells["exit"] = _exit(next((r.exit_code for r in members if r.exit_code), None))
        cells["cpu"] = _mean(data, CPU, ids)
        cells["memory"] = _mean(data, MEMORY, ids)
        cells["gpu"] = _mean(data, GPU, ids) if group.accelerator_count else _DASH
        cells["step"], cells["lag"] = _furthest_behind(data, ids)
    cells["machine"] = Content.styled(" + ".join(kind), "$text-muted")
    return cells


def _states(members: Sequence[Replica]) -> Content:
    """`63 ● running`; with several states, the most important one: `2/63 ✗ failed`."""
    counts = Counter(r.state for r in members)
    state = min(counts, key=_STATE_PRIORITY.index)
    many = str(counts[state]) if len(counts) == 1 else f"{counts[state]}/{len(members)}"
    return Content.assemble(f"{many} ", state_content(state))


def _furthest_behind(data: TreeData, ids: Iterable[str]) -> tuple[Content, Content]:
    """Step and lag of the replica that is furthest behind."""
    known = [(step.step, name) for name in ids if (step := data.newest.step(name)) is not None]
    if not known:
        return _NONE, _NONE
    last = min(known)[1]
    return _add_step(data, last), _lag(data, last)


def _exit(code: int | None) -> Content:
    if code is None:
        return _NONE
    return Content.styled(str(code), "bold $text-error" if code else "$text-muted")


def _mean(data: TreeData, metric: str, ids: set[str]) -> Content:
    latest = [s.latest for s in data.series.of(metric) if s.replica in ids]
    values = [point[1] for point in latest if point is not None and data.now - point[0] <= STALE]
    return _percent(sum(values) / len(values)) if values else _NONE


def replica_cells(replica: Replica, group: ReplicaGroup, data: TreeData) -> Cells:
    """One replica's row."""
    return {
        "replica": Content(f"  {plain(replica.id)}"),
        "role": Content.styled(replica.role, "$text-muted"),
        "state": state_content(replica.state),
        "exit": _exit(replica.exit_code),
        "cpu": usage(data, CPU, replica.id),
        "memory": usage(data, MEMORY, replica.id),
        "gpu": accelerators(data, group, replica.id),
        "step": _add_step(data, replica.id),
        "lag": _lag(data, replica.id),
        "net": network(data, replica.id),
        "restarts": _NONE if replica.restarts is None else Content(f"{replica.restarts:,}"),
        "reason": Content.styled(plain(replica.reason), "$text-warning"),
        "machine": Content.styled(plain(replica.node), "$text-muted"),
    }


def usage(data: TreeData, metric: str, replica: str) -> Content:
    """Sparkline of a share and its newest value in percent: `▂▃▅▇ 61`."""
    lines = data.series.of(metric, replica)
    if not any(s.points for s in lines):
        return _NONE
    moment, value = lines[0].points[-1]
    course = buckets(lines[0].points, data.now, data.span, data.bars)
    drawn = sparkline(course, ascii_only=data.ascii_only)
    if data.now - moment > STALE:
        return Content.styled(f"{drawn} {value:>4.0%}".replace("%", ""), "$text-muted")
    return Content.assemble((drawn, "$text-muted"), " ", _percent(value))


def accelerators(data: TreeData, group: ReplicaGroup, replica: str) -> Content:
    """Sparkline of one accelerator, or a heat-map cell for each of several, and their mean."""
    newest = data.newest
    if not group.accelerator_count and not newest.accelerators(replica):
        return _DASH
    names = accelerator_names(group.accelerator_count, newest.accelerators(replica))
    if len(names) == 1 and any(s.points for s in data.series.of(GPU, replica)):
        return usage(data, GPU, replica)
    values = [newest.figure(Measure.UTILIZATION, replica, name) for name in names]
    codes = [code_of(figure, Measure.UTILIZATION, data.now) for figure in values]
    fresh = [f.value for f in values if f is not None and not f.stale(data.now)]
    mean = _percent(sum(fresh) / len(fresh)) if fresh else Content("  ") + _NONE
    drawn = heat_cells(codes, data.colours, ascii_only=data.ascii_only, close=data.close)
    # Brackets tell a row of devices from one device's past.
    return Content.assemble(("[", "$text-muted"), drawn, ("]", "$text-muted"), " ", mean)


def _add_step(data: TreeData, replica: str) -> Content:
    step = data.newest.step(replica)
    return _NONE if step is None else Content(f"{step.step:,}")


def _lag(data: TreeData, replica: str) -> Content:
    """Steps behind the furthest replica; muted if the job has written nothing for long."""
    lag = data.newest.figure(Measure.LAG, replica)
    if lag is None:
        return _NONE
    style = "$text-muted" if lag.stale(data.now) else "bold $text-warning" if lag.value else ""
    return Content.styled(f"{lag.value:,.0f}", style)


def _percent(value: float) -> Content:
    return Content(f"{value * 100:>3.0f}")


def network(data: TreeData, replica: str) -> Content:
    """Bytes a second in and out: `1.1M/0.9M`."""
    latest: Mapping[str, float | None] = {
        metric: _latest(data, metric, replica) for metric in (NET_IN, NET_OUT)
    }
    if all(value is None for value in latest.values()):
        return _NONE
    return Content("/".join(figure(value) for value in latest.values()))


def _latest(data: TreeData, metric: str, replica: str) -> float | None:
    points = [s.latest for s in data.series.of(metric, replica)]
    known = [p[1] for p in points if p is not None and data.now - p[0] <= STALE]
    return sum(known) if known else None
