"""Groups and replicas of a job with their state and figures; groups can be folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from textual.content import Content

from tui.domain.formatting import NOT_MEASURED, figure, pieces
from tui.domain.job import Job
from tui.domain.metric import CPU, GPU, MEMORY, NET_IN, NET_OUT
from tui.domain.replica import Replica, ReplicaGroup
from tui.domain.states import JobState
from tui.domain.text import plain
from tui.domain.vertex.catalog import ACCELERATOR_SHORT
from tui.store.job.figures import JobFigures, Measure
from tui.store.job.series import SeriesStore, buckets
from tui.widgets.heat_map.fleet_rows import accelerator_names, code_of
from tui.widgets.heat_map.scale import cells as heat_cells
from tui.widgets.plot.sparkline import sparkline
from tui.widgets.state import state_content
from tui.widgets.table.table import Cells, Column, Table

COLUMNS = (
    Column("replica", "REPLICA", 16, most=30),
    Column("role", "ROLE", 7, most=16, rank=6),
    Column("state", "STATE", 12, most=18),
    Column("exit", "EXIT", 4, most=4, rank=7, right=True),
    Column("cpu", "CPU %", 12, most=22, rank=1, right=True),
    Column("memory", "MEM %", 12, most=22, rank=2, right=True),
    Column("gpu", "GPU %", 12, most=40, rank=3, right=True),
    Column("step", "STEP", 7, most=10, rank=4, right=True),
    Column("lag", "LAG", 4, most=8, rank=3, right=True),
    Column("net", "NET in/out B/s", 14, most=18, rank=5, right=True),
    Column("machine", "MACHINE", 14, most=40, rank=8),
)
STALE = timedelta(minutes=10)
FOLD_FROM = 16
"""Groups with more replicas than this start folded."""
_MATTERS = (
    JobState.FAILED, JobState.EXPIRED, JobState.UNKNOWN, JobState.RESTARTING, JobState.CANCELLING,
    JobState.SUSPENDED, JobState.QUEUED, JobState.PENDING, JobState.CANCELLED, JobState.SKIPPED,
    JobState.RUNNING, JobState.SUCCEEDED,
)  # fmt: skip
"""What one should know of a folded group, before anything else."""
_NONE = Content.styled(NOT_MEASURED, "$text-muted")
_DASH = Content.styled("–", "$text-muted")


@dataclass(frozen=True, slots=True)
class Figures:
    """What the figures of one look at the tree are drawn with."""

    series: SeriesStore
    newest: JobFigures
    now: datetime
    span: timedelta
    bars: int
    colours: Sequence[str]
    """Of the levels of a heat map."""
    ascii_only: bool = False
    close: bool = False
    """Cells stand close together, for a narrow screen."""


class ReplicaTree(Table):
    """Rows are keyed by the name of a replica or of a group."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(COLUMNS, id=id)
        self._folded: set[str] = set()
        self._seen: set[str] = set()

    def fold(self, group: str) -> None:
        """Fold a group away, or unfold it."""
        self._folded ^= {group}

    def folded(self, group: str) -> bool:
        """The group's replicas are not shown."""
        return group in self._folded

    def display_job(self, job: Job, figures: Figures) -> None:
        """Show the job's groups and replicas."""
        rows: dict[str, Cells] = {}
        for group in job.groups:
            if not group.replicas:
                continue
            if group.name not in self._seen:
                self._seen.add(group.name)
                if group.replicas > FOLD_FROM:
                    self._folded.add(group.name)
            members = [r for r in job.replicas if r.group == group.name]
            rows[group.name] = group_cells(group, members, figures, self.folded(group.name))
            if not self.folded(group.name):
                rows |= {r.id: replica_cells(r, group, figures) for r in members}
        self.show(list(rows), rows)


def group_cells(group: ReplicaGroup, members: Sequence[Replica], figures: Figures, folded: bool) -> Cells:
    """One group: how many replicas, on which machines; what a folded one hides that matters is told here."""
    kind = plain(group.machine_type)
    if group.accelerator_count:
        short = ACCELERATOR_SHORT.get(group.accelerator_type, group.accelerator_type)
        kind += f" + {group.accelerator_count} {plain(short)}"
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
        cells["cpu"] = _mean(figures, CPU, ids)
        cells["memory"] = _mean(figures, MEMORY, ids)
        cells["gpu"] = _mean(figures, GPU, ids) if group.accelerator_count else _DASH
        cells["step"], cells["lag"] = _furthest_behind(figures, ids)
    cells["machine"] = Content.styled(kind, "$text-muted")
    return cells


def _states(members: Sequence[Replica]) -> Content:
    """As a group of jobs: `63 ● running`; of several states the one that matters most: `2/63 ✗ failed`."""
    counts = Counter(r.state for r in members)
    state = min(counts, key=_MATTERS.index)
    many = str(counts[state]) if len(counts) == 1 else f"{counts[state]}/{len(members)}"
    return Content.assemble(f"{many} ", state_content(state))


def _furthest_behind(figures: Figures, ids: Iterable[str]) -> tuple[Content, Content]:
    """Step and lag of the replica that is furthest behind."""
    known = [(found.step, name) for name in ids if (found := figures.newest.step(name)) is not None]
    if not known:
        return _NONE, _NONE
    last = min(known)[1]
    return _add_step(figures, last), _lag(figures, last)


def _exit(code: int | None) -> Content:
    if code is None:
        return _NONE
    return Content.styled(str(code), "bold $text-error" if code else "$text-muted")


def _mean(figures: Figures, metric: str, ids: set[str]) -> Content:
    latest = [s.latest for s in figures.series.of(metric) if s.replica in ids]
    values = [point[1] for point in latest if point is not None and figures.now - point[0] <= STALE]
    return _percent(sum(values) / len(values)) if values else _NONE


def replica_cells(replica: Replica, group: ReplicaGroup, figures: Figures) -> Cells:
    """One replica's row."""
    return {
        "replica": Content(f"  {plain(replica.id)}"),
        "role": Content.styled(replica.role, "$text-muted"),
        "state": state_content(replica.state),
        "exit": _exit(replica.exit_code),
        "cpu": usage(figures, CPU, replica.id),
        "memory": usage(figures, MEMORY, replica.id),
        "gpu": accelerators(figures, group, replica.id),
        "step": _add_step(figures, replica.id),
        "lag": _lag(figures, replica.id),
        "net": network(figures, replica.id),
    }


def usage(figures: Figures, metric: str, replica: str) -> Content:
    """The course of a share and its newest value: `▂▃▅▇ 61`."""
    found = figures.series.of(metric, replica)
    if not any(s.points for s in found):
        return _NONE
    moment, value = found[0].points[-1]
    course = buckets(found[0].points, figures.now, figures.span, figures.bars)
    drawn = sparkline(course, ascii_only=figures.ascii_only)
    if figures.now - moment > STALE:
        return Content.styled(f"{drawn} {value:>4.0%}".replace("%", ""), "$text-muted")
    return Content.assemble((drawn, "$text-muted"), " ", _percent(value))


def accelerators(figures: Figures, group: ReplicaGroup, replica: str) -> Content:
    """The course of one accelerator, or a cell of a heat map for each of several, and their mean."""
    newest = figures.newest
    if not group.accelerator_count and not newest.accelerators(replica):
        return _DASH
    names = accelerator_names(group.accelerator_count, newest.accelerators(replica))
    if len(names) == 1 and any(s.points for s in figures.series.of(GPU, replica)):
        return usage(figures, GPU, replica)
    found = [newest.figure(Measure.UTILIZATION, replica, name) for name in names]
    codes = [code_of(figure, Measure.UTILIZATION, figures.now) for figure in found]
    fresh = [f.value for f in found if f is not None and not f.stale(figures.now)]
    mean = _percent(sum(fresh) / len(fresh)) if fresh else Content("  ") + _NONE
    drawn = heat_cells(codes, figures.colours, ascii_only=figures.ascii_only, close=figures.close)
    return Content.assemble(drawn, " ", mean)


def _add_step(figures: Figures, replica: str) -> Content:
    found = figures.newest.step(replica)
    return _NONE if found is None else Content(f"{found.step:,}")


def _lag(figures: Figures, replica: str) -> Content:
    """Steps behind the furthest replica; grey where the whole job has been silent for long."""
    found = figures.newest.figure(Measure.LAG, replica)
    if found is None:
        return _NONE
    style = "$text-muted" if found.stale(figures.now) else "bold $text-warning" if found.value else ""
    return Content.styled(f"{found.value:,.0f}", style)


def _percent(value: float) -> Content:
    return Content(f"{value * 100:>3.0f}")


def network(figures: Figures, replica: str) -> Content:
    """Bytes a second in and out: `1.1M/0.9M`."""
    latest: Mapping[str, float | None] = {
        metric: _latest(figures, metric, replica) for metric in (NET_IN, NET_OUT)
    }
    if all(value is None for value in latest.values()):
        return _NONE
    return Content("/".join(figure(value) for value in latest.values()))


def _latest(figures: Figures, metric: str, replica: str) -> float | None:
    points = [s.latest for s in figures.series.of(metric, replica)]
    known = [p[1] for p in points if p is not None and figures.now - p[0] <= STALE]
    return sum(known) if known else None
