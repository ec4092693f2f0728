"""Replicas of persistent resources in use, and the queue of jobs that wait for replicas.

A job holds its replicas from PENDING to its end, including restarts. Jobs wait in order of creation; a later
job does not get replicas of a pool for which an earlier job waits. This state is not stored: at the start,
jobs that had replicas get them again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tui.emulator.messages import Pb
from tui.emulator.resources.known import PersistentResources, State
from tui.emulator.resources.pools import alike, assign, size
from tui.emulator.vertex.job_table import CustomJob, CustomJobTable


@dataclass(eq=False, slots=True)
class _Claim:
    """Replicas that one job holds or waits for."""

    job: CustomJob
    resource: str
    """Full name of the persistent resource."""
    held: Counter[str] = field(default_factory=Counter)
    """Replicas by pool."""
    granted: asyncio.Event = field(default_factory=asyncio.Event)
    grew: bool = False
    """Whether machines were added for this job."""


class Capacity:
    """Replicas in use. Use only in the event loop."""

    def __init__(self, known: PersistentResources) -> None:
        self._known = known
        self._claims: dict[str, _Claim] = {}
        """Claims by job id, in order of arrival."""

    def adopt(self, table: CustomJobTable) -> None:
        """Give the jobs of the previous server their replicas before any job requests replicas."""
        for job in table.active():
            begun = job.control.port or job.control.attempt > 1 or job.pb.HasField("start_time")
            if job.pb.job_spec.persistent_resource_id and begun:
                claim = self._add(job)
                resource = self._known.get(claim.resource)
                pools = resource.resource_pools if resource is not None else ()
                claim.held = assign(job.pb.job_spec, pools, self.used(claim.resource)) or Counter()
                claim.granted.set()

    def queue(self, job: CustomJob) -> asyncio.Event:
        """Queue a job. Return an event that is set once the job has its replicas."""
        claim = self._claims.get(job.record.id) or self._add(job)
        self.grant()
        return claim.granted

    def release(self, job: CustomJob) -> None:
        """Release the replicas of a job, or remove it from the queue. Idempotent."""
        if self._claims.pop(job.record.id, None) is not None:
            self.grant()

    def grew(self, job: CustomJob) -> bool:
        """Return whether an autoscaled pool received machines for this job, which must be provisioned."""
        claim = self._claims.get(job.record.id)
        return claim is not None and claim.grew

    def used(self, resource: str) -> Counter[str]:
        """Return the replicas in use by pool."""
        total: Counter[str] = Counter()
        for claim in self._of(resource):
            total += claim.held
        return total

    def jobs(self, resource: str) -> list[CustomJob]:
        """Return the jobs that run on a resource or wait for the resource."""
        return [claim.job for claim in self._of(resource)]

    def grant(self) -> None:
        """Give replicas to waiting jobs. Call `grant` when a resource has changed."""
        waiting: dict[str, list[_Claim]] = {}
        for claim in self._claims.values():
            if not claim.granted.is_set():
                waiting.setdefault(claim.resource, []).append(claim)
        for name, claims in waiting.items():
            resource = self._known.get(name)
            if resource is not None and resource.state == State.RUNNING:
                _grant(claims, resource.resource_pools, self.used(name))

    def _add(self, job: CustomJob) -> _Claim:
        record = job.record
        name = f"{record.parent}/persistentResources/{job.pb.job_spec.persistent_resource_id}"
        return self._claims.setdefault(record.id, _Claim(job, name))

    def _of(self, resource: str) -> Iterable[_Claim]:
        return [claim for claim in self._claims.values() if claim.resource == resource]


def _grant(claims: Sequence[_Claim], pools: Sequence[Pb], used: Counter[str]) -> None:
    """Give the free replicas of these pools to claims, oldest first."""
    behind: set[str] = set()
    for claim in claims:
        if len(behind) == len(pools):
            return
        spec, before = claim.job.pb.job_spec, used.copy()
        assigned = assign(spec, pools, used)
        if assigned is None or set(assigned) & behind:
            behind |= _usable(spec, pools)
            continue
        used.update(assigned)
        claim.grew = any(size(pool, used[pool.id]) > size(pool, before[pool.id]) for pool in pools)
        claim.held = assigned
        claim.granted.set()


def _usable(spec: Pb, pools: Sequence[Pb]) -> set[str]:
    """Return the ids of the resource pools that a job can use."""
    used_pools = [pool for pool in spec.worker_pool_specs if pool.ListFields()]
    return {pool.id for pool in pools if any(alike(used_pool, pool) for used_pool in used_pools)}
