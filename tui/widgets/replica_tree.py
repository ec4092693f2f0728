"""Groups and replicas of a job with their state and figures. Groups can be folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from textual.content import Content

from tui.domain.core.formatting import ACCELERATOR_SHORT, NOT_MEASURED, pieces
from tui.domain.core.job import Job
from tui.domain.core.metric import CPU, GPU, MEMORY, NET_IN, NET_OUT
from tui.domain.core.replica import Replica, ReplicaGroup
from tui.domain.core.text import plain
from tui.domain.fields.field import columns
from tui.domain.fields.replicas import (
    REPLICA_FIELDS,
    SORTS,
    STATE_PRIORITY,
    ReplicaRow,
    ReplicaUsage,
    exit_cell,
    lag_cell,
    step_cell,
    usage_cell,
)
from tui.store.job.figures import JobFigures, Measure
from tui.store.job.series import SeriesStore, buckets
from tui.widgets.heat_map.fleet_rows import accelerator_names, code_of
from tui.widgets.heat_map.scale import cells as heat_cells
from tui.widgets.state import state_content
from tui.widgets.table.cells import content, row_cells
from tui.widgets.table.table import Cells, Table

COLUMNS = columns(REPLICA_FIELDS)
STALE = timedelta(minutes=10)
FOLD_FROM = 16
"""Number of replicas at which a group starts folded."""
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
    """Whether cells have no gaps, for a narrow screen."""

    def row(self, replica: Replica) -> ReplicaRow:
        """Return a replica with its figures."""
        return ReplicaRow(replica, figures=_Figures(self, replica.id))


class ReplicaTree(Table):
    """Replicas and groups. A row is keyed by the name of its replica or group."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(COLUMNS, id=id)
        self._folded: set[str] = set()
        self._seen: set[str] = set()
        self.words: tuple[str, ...] = ()
        """The words of the filter, each of which must be in a replica's name, role or state."""
        self.found = 0
        """Number of replicas that match the filter."""

    def fold(self, group: str) -> None:
        """Fold or unfold a group."""
        self._folded ^= {group}

    def folded(self, group: str) -> bool:
        """Return whether the group's replicas are hidden."""
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
        """Show the columns that the service reports for some replica. A node replaces the machine."""
        reported = {
            "restarts": any(replica.restarts is not None for replica in replicas),
            "reason": any(replica.reason for replica in replicas),
            "node": any(replica.node for replica in replicas),
        }
        reported["machine"] = not reported["node"]
        columns = tuple(column for column in COLUMNS if reported.get(column.key, True))
        if columns != self.columns:
            self.columns = columns
            self.clear_widths()

    def _matches(self, replica: Replica) -> bool:
        text = " ".join((replica.id, replica.role, replica.state.value, replica.node, replica.reason))
        text = text.casefold()
        return all(word in text for word in self.words)

    def _in_order(self, replicas: Sequence[Replica], data: TreeData) -> list[Replica]:
        """Sort by the chosen column. Replicas without a figure come last."""
        sort, most_first = SORTS[self.sorted_by or "replica"].sort, self.reverse
        assert sort is not None
        known = [(value, r) for r in replicas if (value := sort(data.row(r))) is not None]
        known.sort(key=lambda pair: pair[0], reverse=most_first)
        there = {r.id for _, r in known}
        return [*(r for _, r in known), *(r for r in replicas if r.id not in there)]


class _Figures:
    """The figures of one replica at a refresh."""

    def __init__(self, data: TreeData, replica: str) -> None:
        self._data = data
        self._replica = replica

    def usage(self, metric: str) -> ReplicaUsage | None:
        lines, data = self._data.series.of(metric, self._replica), self._data
        if not any(line.points for line in lines):
            return None
        moment, value = lines[0].points[-1]
        shares = buckets(lines[0].points, data.now, data.span, data.bars)
        return ReplicaUsage(tuple(shares), value, data.now - moment > STALE)

    def _fresh(self, metric: str) -> list[float]:
        points = [line.latest for line in self._data.series.of(metric, self._replica)]
        return [p[1] for p in points if p is not None and self._data.now - p[0] <= STALE]

    def mean(self, metric: str) -> float | None:
        values = self._fresh(metric)
        return sum(values) / len(values) if values else None

    @property
    def step(self) -> int | None:
        at = self._data.newest.step(self._replica)
        return None if at is None else at.step

    @property
    def lag(self) -> tuple[float, bool] | None:
        lag = self._data.newest.figure(Measure.LAG, self._replica)
        return None if lag is None else (lag.value, lag.stale(self._data.now))

    @property
    def network(self) -> tuple[float | None, float | None]:
        rates_in, rates_out = self._fresh(NET_IN), self._fresh(NET_OUT)
        return sum(rates_in) if rates_in else None, sum(rates_out) if rates_out else None


def group_cells(group: ReplicaGroup, members: Sequence[Replica], data: TreeData, folded: bool) -> Cells:
    """Return the cells of one group: replicas and machines; for a folded group also its worst state and mean
    usage."""
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
        cells["exit"] = content(exit_cell(next((r.exit_code for r in members if r.exit_code), None)))
        cells["cpu"] = _mean(data, CPU, ids)
        cells["memory"] = _mean(data, MEMORY, ids)
        cells["gpu"] = _mean(data, GPU, ids) if group.accelerator_count else _DASH
        cells["step"], cells["lag"] = _furthest_behind(data, members)
    cells["machine"] = cells["node"] = Content.styled(" + ".join(kind), "$text-muted")
    return cells


def _states(members: Sequence[Replica]) -> Content:
    """Return `63 ● running`; with several states, the most important state: `2/63 ✗ failed`."""
    counts = Counter(r.state for r in members)
    state = min(counts, key=STATE_PRIORITY.index)
    many = str(counts[state]) if len(counts) == 1 else f"{counts[state]}/{len(members)}"
    return Content.assemble(f"{many} ", state_content(state))


def _furthest_behind(data: TreeData, members: Sequence[Replica]) -> tuple[Content, Content]:
    """Return the step and lag of the replica that is furthest behind."""
    known = [(step.step, r.id, r) for r in members if (step := data.newest.step(r.id)) is not None]
    if not known:
        return _NONE, _NONE
    row = data.row(min(known, key=lambda item: item[:2])[2])
    return content(step_cell(row)), content(lag_cell(row))


def _mean(data: TreeData, metric: str, ids: set[str]) -> Content:
    latest = [s.latest for s in data.series.of(metric) if s.replica in ids]
    values = [point[1] for point in latest if point is not None and data.now - point[0] <= STALE]
    return _percent(sum(values) / len(values)) if values else _NONE


def replica_cells(replica: Replica, group: ReplicaGroup, data: TreeData) -> Cells:
    """Return one replica's row."""
    cells = row_cells(COLUMNS, data.row(replica), ascii_only=data.ascii_only)
    return {**cells, "gpu": accelerators(data, group, replica)}


def accelerators(data: TreeData, group: ReplicaGroup, member: Replica) -> Content:
    """Return the sparkline of one accelerator, or a heat-map cell for each of several, and their mean."""
    newest, replica = data.newest, member.id
    if not group.accelerator_count and not newest.accelerators(replica):
        return _DASH
    names = accelerator_names(group.accelerator_count, newest.accelerators(replica))
    if len(names) == 1 and any(s.points for s in data.series.of(GPU, replica)):
        return content(usage_cell(GPU)(data.row(member)), ascii_only=data.ascii_only)
    values = [newest.figure(Measure.UTILIZATION, replica, name) for name in names]
    codes = [code_of(figure, Measure.UTILIZATION, data.now) for figure in values]
    fresh = [f.value for f in values if f is not None and not f.stale(data.now)]
    mean = _percent(sum(fresh) / len(fresh)) if fresh else Content("  ") + _NONE
    drawn = heat_cells(codes, data.colours, ascii_only=data.ascii_only, close=data.close)
    # Brackets distinguish a row of devices from one device's past.
    return Content.assemble(("[", "$text-muted"), drawn, ("]", "$text-muted"), " ", mean)


def _percent(value: float) -> Content:
    return Content(f"{value * 100:>3.0f}")
