"""The text about one persistent resource."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from tui.domain.core.formatting import age
from tui.domain.core.job import Job
from tui.domain.resources.persistent import PersistentResource, ResourcePool, idle_since, jobs_on
from tui.store.jobs.costs import Costs


def detail_lines(each: PersistentResource, jobs: Sequence[Job], costs: Costs, now: datetime) -> Iterator[str]:
    """State, times, cost, pools and jobs."""
    yield each.name
    if each.display_name and each.display_name != each.id:
        yield f"called   {each.display_name}"
    yield f"state    {each.state}"
    if each.error:
        yield f"error    {each.error}"
    for name, at in (("created", each.create_time), ("running", each.start_time)):
        if at is not None:
            since = "since " if name == "running" else ""
            yield f"{name}  {since}{at:%Y-%m-%d %H:%M} UTC, {age(now - at)} ago"
    idle = idle_since(each, jobs)
    if idle is not None:
        yield f"idle     since {idle:%Y-%m-%d %H:%M} UTC, {age(now - idle)}"
    if costs.prices is not None:
        whole, unused = (costs.parts_text(parts, each.region) for parts in (each.parts(), each.idle_parts()))
        yield f"cost     {whole} an hour, {unused} of it for idle machines (prices of {costs.prices.date})"
    if each.network:
        yield f"network  {each.network}"
    if each.labels:
        yield "labels   " + ", ".join(f"{key}={value}" for key, value in sorted(each.labels.items()))
    yield ""
    for pool in each.pools:
        yield from _pool(pool)
    yield ""
    on = jobs_on(each, jobs)
    yield "No job runs on it or waits for it." if not on else "Jobs on it:"
    for job in on:
        yield f"  {job.state.value.lower():<12}{job.display_name}   {job.id}   {age(job.age(now))} old"
    yield ""
    yield (
        f"A profile runs on it with `persistentResourceId: {each.id}` in its jobSpec. Machine, accelerators "
        "and disk of each worker pool must be exactly those of a pool here."
    )


def _pool(pool: ResourcePool) -> Iterator[str]:
    scaled = f"   autoscaling {pool.least} to {pool.most}" if pool.most else ""
    yield f"pool {pool.id}   {pool.used} of {pool.replicas} in use{scaled}"
    topology = f"   {pool.tpu_topology}" if pool.tpu_topology else ""
    yield f"  {pool.machine}{topology}   {pool.disk_type} {pool.disk_gb} GB"
