"""Jobs and their figures as groups of a heat map, and the text about one cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from textual.content import Content

from tui.domain.core.formatting import NOT_MEASURED, accelerators, age, pieces, replicas
from tui.domain.core.job import Job
from tui.domain.core.replica import ReplicaGroup
from tui.domain.core.text import clip, plain
from tui.store.job.figures import Figure, JobFigures, Measure, StepAt
from tui.widgets.heat_map.layout import HeatGroup, HeatRow
from tui.widgets.heat_map.scale import LATE, LEVELS, count_level, share_level
from tui.widgets.heat_map.scale import NOT_MEASURED as NO_CODE
from tui.widgets.log.render import short_replica
from tui.widgets.state import state_content

SEP = "   "
NAME = 40
"""Maximum number of characters of a job's name in its title."""
_MOST_ACCELERATORS = 64
"""Maximum number of accelerators of a machine that have cells."""
OF_MACHINE = frozenset({Measure.LAG, Measure.CPU})
"""Measures with one figure per replica."""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """The content of one cell. `accelerator` is "" for a figure of the entire machine."""

    job: Job
    replica: str
    accelerator: str = ""


@dataclass(frozen=True, slots=True)
class FleetRows:
    """The groups to show, and the cells by row key."""

    groups: tuple[HeatGroup, ...]
    spots: dict[str, tuple[HeatCell, ...]]
    replicas: int
    gpus: int
    simulated: bool


def row_key(job: Job, replica: str) -> str:
    """Return the key of a replica's row."""
    return f"{job.name} {replica}"


def code_of(figure: Figure | None, measure: Measure, now: datetime) -> int:
    """Return the cell's code."""
    if figure is None:
        return NO_CODE
    level = count_level(figure.value) if measure is Measure.LAG else share_level(figure.value)
    return level + LATE if figure.stale(now) else level


def fleet_rows(
    jobs: Sequence[Job], figures: Callable[[Job], JobFigures], measure: Measure, now: datetime
) -> FleetRows:
    """Return the replicas of these jobs: a group per job of machines with accelerators, and one group of
    other machines."""
    heat: list[HeatGroup] = []
    spots: dict[str, tuple[HeatCell, ...]] = {}
    simulated = False
    for job in jobs:
        known = figures(job)
        simulated |= known.simulated
        groups = [group for group in job.groups if group.replicas]
        whole = measure in OF_MACHINE
        first = [group for group in groups if group.accelerator_count or whole]
        rest = [group for group in groups if group not in first]
        rows, mine = _rows(job, first, known, measure, now)
        others, theirs = _rows(job, rest, known, measure, now)
        spots |= mine | theirs
        title = _title(job, rows or others, mine or theirs, known, measure)
        if rows or not others:
            heat.append(HeatGroup(job.name, title, rows))
        if others:
            head = _rest_title(rest, measure) if rows else title
            heat.append(HeatGroup(f"{job.name} machines", head, others, part=bool(rows)))
    return FleetRows(
        tuple(heat),
        spots,
        len(spots),
        sum(bool(spot.accelerator) for place_spots in spots.values() for spot in place_spots),
        simulated,
    )


def _rows(
    job: Job, groups: Iterable[ReplicaGroup], known: JobFigures, measure: Measure, now: datetime
) -> tuple[tuple[HeatRow, ...], dict[str, tuple[HeatCell, ...]]]:
    rows, spots = [], {}
    for group in groups:
        for index in group.shown:
            replica = group.replica(index)
            names = [""]
            if group.accelerator_count and measure not in OF_MACHINE:
                names = accelerator_names(group.accelerator_count, known.accelerators(replica))
            values = [known.figure(measure, replica, name) for name in names]
            codes = tuple(code_of(figure, measure, now) for figure in values)
            note = _note(values[0], measure) if names == [""] else ""
            key = row_key(job, replica)
            rows.append(HeatRow(key, short_replica(replica), codes, note))
            spots[key] = tuple(HeatCell(job, replica, name) for name in names)
    return tuple(rows), spots


def accelerator_names(count: int, reported: Sequence[str]) -> list[str]:
    """Return the names of a machine's accelerators: reported names, or numbers."""
    count = min(count, _MOST_ACCELERATORS)
    missing = (str(n) for n in range(count) if str(n) not in reported)
    names = [*reported, *(name for name, _ in zip(missing, range(count - len(reported)), strict=False))]
    return sorted(names, key=lambda name: (len(name), name))


def _note(figure: Figure | None, measure: Measure) -> str:
    """Return `61` for a percentage, `6` for steps, or blanks; always of one width."""
    if figure is None or not figure.value:
        return "   "
    return f"{figure.value if measure is Measure.LAG else figure.value * 100:>3.0f}"


def _title(
    job: Job,
    rows: Sequence[HeatRow],
    spots: dict[str, tuple[HeatCell, ...]],
    known: JobFigures,
    measure: Measure,
) -> Content:
    parts: list[Content | str | tuple[str, str]] = [
        state_content(job.state, word=False),
        (f" {clip(plain(job.display_name or job.id), NAME)}", "bold"),
        (f"{SEP}{replicas(job)}", "$text-muted"),
    ]
    if job.accelerators:
        parts.append((f"{SEP}{accelerators(job)}", "$text-muted"))
    values = [
        (figure.value, spot)
        for row in rows
        for spot, code in zip(spots[row.key], row.cells, strict=True)
        if 0 <= code <= LEVELS and (figure := known.figure(measure, spot.replica, spot.accelerator))
    ]
    if values:
        parts += [SEP, _summary(values, measure)]
    return Content.assemble(*parts)


def _summary(measured: Sequence[tuple[float, HeatCell]], measure: Measure) -> Content:
    """Return the mean of the cells, and the worst cell if any cell has a value."""
    values = [value for value, _ in measured]
    if measure is Measure.LAG:
        value, spot = max(measured, key=lambda pair: pair[0])
        if not value:
            return Content.styled("all level", "$text-muted")
        return Content.assemble(
            f"furthest behind {value:,.0f} ", (f"at {short_replica(spot.replica)}", "$text-muted")
        )
    value, spot = min(measured, key=lambda pair: pair[0])
    where = short_replica(spot.replica) + (f":{plain(spot.accelerator)}" if spot.accelerator else "")
    mean = sum(values) / len(values)
    if max(values) - value < 0.005:
        return Content(f"{mean:.0%}")
    return Content.assemble(f"mean {mean:.0%}   min {value:.0%} ", (f"at {where}", "$text-muted"))


def _rest_title(groups: Sequence[ReplicaGroup], measure: Measure) -> Content:
    """Return the title above a job's machines without accelerators."""
    words = ", ".join(pieces(group.replicas, group.role) for group in groups)
    label = "memory of the machine" if measure is Measure.MEMORY else "CPU"
    return Content.styled(f"  {words}, no accelerator{SEP}{label}", "$text-muted")


def cell_text(
    spot: HeatCell, figure: Figure | None, measure: Measure, now: datetime, step: StepAt | None = None
) -> Content:
    """Return a cell's job, replica, value, age and source. `step` is the replica's last step."""
    name = [(plain(spot.replica), "bold")]
    if spot.accelerator:
        name.append((f"  GPU {plain(spot.accelerator)}", "bold"))
    job = (SEP + clip(plain(spot.job.display_name or spot.job.id), NAME), "$text-muted")
    if figure is None:
        return Content.assemble(*name, f"{SEP}{NOT_MEASURED} {measure.value}: not measured", job)
    of_machine = not spot.accelerator and measure is Measure.UTILIZATION
    label = "CPU" if of_machine else measure.value
    if measure is Measure.LAG:
        value = f"{pieces(int(figure.value), 'step')} behind"
        if step is not None:
            value += f" at step {step.step:,}"
    else:
        value = f"{label} {figure.value * 100:.1f}%"
    parts: list[Content | str | tuple[str, str]] = [*name, SEP, value]
    old = f"{age(now - figure.at)} ago"
    if figure.stale(now):
        parts += [SEP, (f"? late: {old}", "$text-warning")]
    else:
        parts += [(f"{SEP}{old}", "$text-muted")]
    parts.append((f", {figure.origin.value}", "$text-muted"))
    if figure.simulated:
        parts += [SEP, ("simulated", "bold $text-warning")]
    return Content.assemble(*parts, job)
