"""The fields of a persistent resource and its pools, for their list, `vxtui resources` and its `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tui.domain.core.formatting import age, rfc3339
from tui.domain.core.job import Job
from tui.domain.fields.cell import UNKNOWN, Cell, Tone, age_cell, muted
from tui.domain.fields.field import Field, json_object
from tui.domain.resources.persistent import ERROR, PersistentResource, ResourcePool, idle_since, jobs_on
from tui.domain.vertex.cost import money
from tui.domain.vertex.prices import Range


class ResourceRow(NamedTuple):
    """A row of the resources list: a resource at a point in time. `jobs` are all known jobs; the rates are in
    USD per hour, `None` if unknown."""

    resource: PersistentResource
    jobs: Sequence[Job]
    now: datetime
    rate: Range | None = None
    idle_rate: Range | None = None
    prices_of: str = ""
    """Date of the prices."""


def _state(row: ResourceRow) -> Cell:
    """Return a cell with the state; a running resource without jobs is highlighted as idle."""
    resource, state = row.resource, row.resource.state.lower()
    if resource.state == ERROR:
        return Cell("error", Tone.BAD, glyph="✗", long=state)
    if resource.changing:
        return Cell(state, Tone.WARNING, glyph="◐")
    if resource.idle:
        return Cell("idle", Tone.DONE, glyph="○", long=state)
    return Cell("in use", Tone.GOOD, glyph="●", long=state)


def _used(row: ResourceRow) -> Cell:
    used, replicas = row.resource.used, row.resource.replicas
    return Cell(f"{used}/{replicas}", Tone.GOOD if 0 < replicas <= used else Tone.NORMAL)


def _jobs(row: ResourceRow) -> Cell:
    jobs = jobs_on(row.resource, row.jobs)
    return Cell(str(len(jobs)), long=" ".join(job.id for job in jobs))


def _idle(row: ResourceRow) -> Cell:
    since = idle_since(row.resource, row.jobs)
    return UNKNOWN if since is None else Cell(age(row.now - since), Tone.WARNING)


def _cost(row: ResourceRow) -> Cell:
    text = money(row.rate)
    return Cell(text, Tone.MUTED, long="" if row.resource.state == "STOPPING" else text)


def _rate_json(row: ResourceRow) -> dict[str, float] | None:
    rate = row.rate
    return None if rate is None else {"low": round(rate.low, 4), "high": round(rate.high, 4)}


RESOURCE_FIELDS: tuple[Field[ResourceRow], ...] = (
    Field("resource_name", json=lambda row: row.resource.name, json_key="name", help="Full resource name"),
    Field("state", "STATE", 14, max_width=14,
        cell=_state, json=lambda row: row.resource.state, help="State in the service's own terms"),
    Field("name", "NAME", 14, max_width=64, flex=True,
        cell=lambda row: Cell(row.resource.id),
        json=lambda row: row.resource.id, json_key="id", help="Id, to which jobs refer"),
    Field("display_name", json=lambda row: row.resource.display_name, help="Display name"),
    Field("region", "REGION", 8, max_width=20, rank=4,
        cell=lambda row: muted(row.resource.region), json=lambda row: row.resource.region, help="Region"),
    Field("context", json=lambda row: row.resource.context, help="Name of the context"),
    Field("used", "USED", 6, max_width=12, right=True, only="screen", cell=_used),
    Field("machine", "MACHINES", 14, max_width=60, rank=1, only="screen",
        cell=lambda row: Cell(", ".join(dict.fromkeys(pool.machine for pool in row.resource.pools))),
        json=lambda row: [json_object(POOL_FIELDS, pool) for pool in row.resource.pools], json_key="pools",
        help="Pools of equal machines, each with the fields below"),
    Field("jobs", "JOBS", 4, max_width=6, right=True,
        cell=_jobs, json=lambda row: [job.name for job in jobs_on(row.resource, row.jobs)],
        help="Names of the jobs that run on the resource or wait for it"),
    Field("idle", "IDLE", 5, max_width=6, right=True,
        cell=_idle, json=lambda row: rfc3339(idle_since(row.resource, row.jobs)), json_key="idle_since",
        help="Time since which no job uses the resource"),
    Field("idle_cost", "IDLE $/H", 8, max_width=12, right=True, only="screen",
        cell=lambda row: Cell(money(row.idle_rate))),
    Field("cost", "COST $/H", 8, max_width=12, right=True, rank=3,
        cell=_cost, json=_rate_json, json_key="usd_per_hour",
        help="`low` and `high` of the bill while the resource runs, used or not"),
    Field("prices_of", json=lambda row: row.prices_of, help="Date of the prices"),
    Field("age", "AGE", 5, max_width=6, right=True, rank=2,
        cell=lambda row: age_cell(row.resource.create_time, row.now),
        json=lambda row: rfc3339(row.resource.create_time), json_key="create_time",
        help="Time of creation"),
    Field("start_time", json=lambda row: rfc3339(row.resource.start_time), help="Time of the start"),
    Field("error", json=lambda row: row.resource.error or None, help="Reason for the state ERROR"),
    Field("labels", json=lambda row: dict(row.resource.labels), help="Labels"),
)  # fmt: skip


def _replicas(pool: ResourcePool) -> Cell:
    return Cell(f"{pool.used}/{pool.replicas}" + (f" ({pool.least}-{pool.most})" if pool.most else ""))


def _autoscaling(pool: ResourcePool) -> dict[str, Any] | None:
    return {"min": pool.least, "max": pool.most} if pool.most else None


POOL_FIELDS: tuple[Field[ResourcePool], ...] = (
    Field("id", "POOL", cell=lambda pool: Cell(pool.id), json=lambda pool: pool.id, help="Id"),
    Field("machine_type", "MACHINE",
        cell=lambda pool: Cell(pool.machine), json=lambda pool: pool.machine_type, help="Machine type"),
    Field("accelerator_type", json=lambda pool: pool.accelerator_type or None, help="Accelerator type"),
    Field("accelerator_count", json=lambda pool: pool.accelerator_count, help="Accelerators of one machine"),
    Field("disk_type", "DISK",
        cell=lambda pool: Cell(f"{pool.disk_type} {pool.disk_gb} GB"),
        json=lambda pool: pool.disk_type, help="Type of the boot disk"),
    Field("disk_gb", json=lambda pool: pool.disk_gb, help="Size of the boot disk in GB"),
    Field("used", "USED", right=True,
        cell=_replicas, json=lambda pool: pool.used, help="Machines in use"),
    Field("replicas", json=lambda pool: pool.replicas, help="Machines"),
    Field("autoscaling", json=_autoscaling, help="`min` and `max` of an autoscaled pool"),
)  # fmt: skip
