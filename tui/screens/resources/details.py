"""The text about one persistent resource."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from tui.domain.core.formatting import age
from tui.domain.core.job import Job
from tui.domain.resources.persistent import PersistentResource, ResourcePool, idle_since, jobs_on
from tui.store.jobs.costs import Costs


def detail_lines(
    resource: PersistentResource, jobs: Sequence[Job], costs: Costs, now: datetime
) -> Iterator[str]:
    """Yield state, times, cost, pools and jobs of the resource."""
    yield resource.name
    if resource.display_name and resource.display_name != resource.id:
        yield f"called   {resource.display_name}"
    yield f"state    {resource.state}"
    if resource.error:
        yield f"error    {resource.error}"
    for name, at in (("created", resource.create_time), ("running", resource.start_time)):
        if at is not None:
            since = "since " if name == "running" else ""
            yield f"{name}  {since}{at:%Y-%m-%d %H:%M} UTC, {age(now - at)} ago"
    idle = idle_since(resource, jobs)
    if idle is not None:
        yield f"idle     since {idle:%Y-%m-%d %H:%M} UTC, {age(now - idle)}"
    if costs.prices is not None:
        whole, unused = (
            costs.parts_text(parts, resource.region) for parts in (resource.parts(), resource.idle_parts())
        )
        yield f"cost     {whole} an hour, {unused} of it for idle machines (prices of {costs.prices.date})"
    if resource.network:
        yield f"network  {resource.network}"
    if resource.labels:
        yield "labels   " + ", ".join(f"{key}={value}" for key, value in sorted(resource.labels.items()))
    yield ""
    for pool in resource.pools:
        yield from _pool(pool)
    yield ""
    on = jobs_on(resource, jobs)
    yield "No job runs on the resource or waits for it." if not on else "Jobs on it:"
    for job in on:
        yield f"  {job.state.value.lower():<12}{job.display_name}   {job.id}   {age(job.age(now))} old"
    yield ""
    yield (
        f"A profile uses the resource with `persistentResourceId: {resource.id}` in its jobSpec. Machine, "
        "accelerators and disk of each worker pool must be the same as in one of these pools."
    )


def _pool(pool: ResourcePool) -> Iterator[str]:
    scaled = f"   autoscaling {pool.least} to {pool.most}" if pool.most else ""
    yield f"pool {pool.id}   {pool.used} of {pool.replicas} in use{scaled}"
    topology = f"   {pool.tpu_topology}" if pool.tpu_topology else ""
    yield f"  {pool.machine}{topology}   {pool.disk_type} {pool.disk_gb} GB"
