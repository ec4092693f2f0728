"""Persistent resources: permanent machines, on which jobs run without provisioning."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from tui.domain.core.formatting import ACCELERATOR_SHORT
from tui.domain.core.job import Job
from tui.domain.spec.custom_job_spec import machine_of, whole, within
from tui.domain.vertex.cost import CostPart

RUNNING, ERROR = "RUNNING", "ERROR"
"""Stable states; in all other states the resource is changing."""
DISK_TYPE, DISK_GB = "pd-ssd", 100
"""The default boot disk (docs/facts/vertex.md 1.3)."""


@dataclass(frozen=True, slots=True)
class ResourcePool:
    """Machines of one type. `least` and `most` are the range of an autoscaled pool."""

    id: str
    machine_type: str
    accelerator_type: str = ""
    accelerator_count: int = 0
    replicas: int = 0
    used: int = 0
    least: int | None = None
    most: int | None = None
    disk_type: str = DISK_TYPE
    disk_gb: int = DISK_GB
    tpu_topology: str = ""

    @property
    def limit(self) -> int:
        """Return the maximum number of replicas that a job can get."""
        return max(self.replicas, self.most or 0)

    def unused(self) -> ResourcePool:
        """Return the pool with the number of replicas that a job can get now."""
        return replace(self, replicas=max(0, self.limit - self.used), most=None, used=0)

    @property
    def shape(self) -> tuple[object, ...]:
        """The properties that a worker pool must match exactly to run here (docs/facts/vertex.md 12.2)."""
        machine = self.machine_type, self.accelerator_type, self.accelerator_count, self.tpu_topology
        return *machine, self.disk_type, self.disk_gb

    @property
    def machine(self) -> str:
        """The machine as text, without the disk: `a2-highgpu-8g + 8 A100`."""
        return machine_words(self.machine_type, self.accelerator_type, self.accelerator_count)


@dataclass(frozen=True, slots=True)
class PersistentResource:
    """One persistent resource. `name` is the full resource name; jobs refer to the resource by `id`."""

    name: str
    display_name: str
    region: str
    state: str
    context: str = ""
    error: str = ""
    create_time: datetime | None = None
    start_time: datetime | None = None
    update_time: datetime | None = None
    pools: tuple[ResourcePool, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    network: str = ""

    @property
    def id(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def used(self) -> int:
        return sum(pool.used for pool in self.pools)

    @property
    def replicas(self) -> int:
        return sum(pool.replicas for pool in self.pools)

    @property
    def changing(self) -> bool:
        """Whether the resource is being provisioned, updated, rebooted or deleted."""
        return self.state not in {RUNNING, ERROR}

    @property
    def idle(self) -> bool:
        """Whether the resource runs without a job, and costs money."""
        return self.state == RUNNING and not self.used

    def parts(self) -> list[CostPart]:
        """Return the billed parts of a running resource, with or without jobs (docs/facts/vertex.md 9.1)."""
        return [
            CostPart(
                pool.machine_type, pool.accelerator_type, pool.accelerator_count, pool.replicas,
                pool.disk_type, pool.disk_gb,
            )
            for pool in self.pools
        ]  # fmt: skip

    def idle_parts(self) -> list[CostPart]:
        """Return the billed but unused parts."""
        if self.state != RUNNING:
            return []
        pools = [
            replace(part, replicas=pool.replicas - pool.used)
            for part, pool in zip(self.parts(), self.pools, strict=True)
        ]
        return [part for part in pools if part.replicas > 0]

    def runs(self, job: Job) -> bool:
        """Return whether a job, or a job of its tasks, runs, ran or will run on this resource."""
        same_place = (job.region, job.context or self.context) == (self.region, self.context or job.context)
        return job.persistent_resource == self.id and job.runs_itself and same_place


def jobs_on(resource: PersistentResource, jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs on a resource that have not ended, the oldest first."""
    return sorted(
        (job for job in jobs if job.state.active and resource.runs(job)), key=lambda job: job.created or 0
    )


def idle_since(resource: PersistentResource, jobs: Iterable[Job]) -> datetime | None:
    """Return the time at which the resource's last job ended, or its start; `None` while it is used or does
    not run. The service does not report this time; `jobs` are the region's jobs since the resource's
    creation, except deleted jobs."""
    if not resource.idle:
        return None
    ends = [job.end_time for job in jobs if resource.runs(job) and job.end_time is not None]
    return max([*ends, *([resource.start_time] if resource.start_time else [])], default=None)


def machine_words(machine: str, accelerator: str, count: int) -> str:
    """Return the machine as text, e.g. `n1-standard-4` or `a2-highgpu-8g + 8 A100`."""
    short = ACCELERATOR_SHORT.get(accelerator, accelerator)
    return f"{machine} + {count} {short}" if accelerator and count else machine


def shape_of(worker_pool: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the shape of a worker pool in REST format; see `ResourcePool.shape`."""
    disk = worker_pool.get("diskSpec") or {}
    topology = str(within(worker_pool, "machineSpec", "tpuTopology") or "")
    kind = str(disk.get("bootDiskType") or DISK_TYPE)
    return *machine_of(worker_pool), topology, kind, whole(disk.get("bootDiskSizeGb")) or DISK_GB


def parts_of(resource: Mapping[str, Any]) -> list[CostPart]:
    """Return billed parts of a resource in REST format before its creation; see
    `PersistentResource.parts`."""
    parts = []
    for pool in resource["resourcePools"]:
        disk = pool.get("diskSpec") or {}
        kind, gb = str(disk.get("bootDiskType") or DISK_TYPE), whole(disk.get("bootDiskSizeGb")) or DISK_GB
        parts.append(CostPart(*machine_of(pool), pool["replicaCount"], kind, gb))
    return parts


def unfit(job: Mapping[str, Any], pools: Iterable[ResourcePool]) -> str:
    """Return why a CustomJob (REST format) can't run on these pools, or "" (docs/facts/vertex.md 12.2)."""
    free = list(pools)
    reserved: dict[str, int] = {}
    for index, worker_pool in enumerate(within(job, "jobSpec", "workerPoolSpecs") or []):
        if not worker_pool:
            continue
        replicas = whole(worker_pool.get("replicaCount")) or 1
        shape = shape_of(worker_pool)
        words = machine_words(*machine_of(worker_pool))
        same_machine = [pool for pool in free if pool.shape[:4] == shape[:4]]
        if not same_machine:
            return f"no pool of {words}, which pool {index} needs"
        alike = [pool for pool in same_machine if pool.shape == shape]
        if not alike:
            has = " or ".join(dict.fromkeys(_disk(pool.shape) for pool in same_machine))
            return f"{words} with {has}; pool {index} needs {_disk(shape)}"
        for pool in alike:
            if reserved.get(pool.id, 0) + replicas <= pool.limit:
                reserved[pool.id] = reserved.get(pool.id, 0) + replicas
                break
        else:
            most = max(pool.limit - reserved.get(pool.id, 0) for pool in alike)
            return f"{most} × {words}{' left' if reserved else ''}; pool {index} needs {replicas}"
    return ""


def _disk(shape: tuple[object, ...]) -> str:
    return f"{shape[4]} of {shape[5]} GB"


def resource_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a PersistentResource in REST format with the machines of a CustomJob in REST format. Worker
    pools of the same shape become one resource pool."""
    pools: dict[str, dict[str, Any]] = {}
    for worker_pool in within(job, "jobSpec", "workerPoolSpecs") or []:
        if not worker_pool:
            continue
        machine = dict(worker_pool.get("machineSpec") or {})
        # A persistent resource can't use a reservation (docs/facts/vertex.md 1.8).
        machine.pop("reservationAffinity", None)
        disk = worker_pool.get("diskSpec")
        new_pool = {"machineSpec": machine, **({"diskSpec": disk} if disk else {}), "replicaCount": 0}
        pool = pools.setdefault(json.dumps([machine, shape_of(worker_pool)], sort_keys=True), new_pool)
        pool["replicaCount"] += whole(worker_pool.get("replicaCount")) or 1
    resource: dict[str, Any] = {"resourcePools": list(pools.values())}
    if within(job, "jobSpec", "network"):
        resource["network"] = job["jobSpec"]["network"]
    if job.get("encryptionSpec"):
        resource["encryptionSpec"] = job["encryptionSpec"]
    return resource
