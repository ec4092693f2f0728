"""PersistentResourceService: machines that stay provisioned and run custom jobs.

A resource with running jobs refuses a reboot; a deletion cancels its jobs and waits for their ends
(docs/facts/vertex.md 12.2). Undocumented choices: a creation or update that lacks quota is refused
immediately; provisioning, updates and reboots take as long as provisioning the machines of a job.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from typing import Any, Protocol

from google.cloud.aiplatform_v1.types import operation as operation_types
from google.cloud.aiplatform_v1.types import persistent_resource_service as types
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from google.rpc import code_pb2

from tui.emulator.config import EmulatorConfig
from tui.emulator.experiments.kinds import PERSISTENT, location_of
from tui.emulator.experiments.resource_service import ResourceServer, touched
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.messages import Pb, copied, current_time
from tui.emulator.resources.capacity import Capacity
from tui.emulator.resources.known import TYPE, PersistentResources, State, with_ids
from tui.emulator.resources.pools import quota_needs, size
from tui.emulator.resources.update import updated
from tui.emulator.resources.validate import persistent_resource_problems
from tui.emulator.rpc.methods import (
    Method,
    WireError,
    failed_precondition,
    methods_of,
    not_found,
    refuse,
)
from tui.emulator.services.check_faults import ActiveCheckFaults
from tui.emulator.vertex.job_table import CustomJob
from tui.emulator.vertex.operations import Operations, RunningOperation, Work
from tui.emulator.vertex.quota import TrainingQuotas, describe_lack
from tui.emulator.vertex.resource_requests import creation_parent

POLL_SECONDS = 0.05
"""Seconds between checks whether the jobs of a resource that is being deleted have ended."""
_OUTPUTS = ("error", "start_time", "resource_runtime")
_Create = types.CreatePersistentResourceOperationMetadata.pb()
_Update = types.UpdatePersistentResourceOperationMetadata.pb()
_Reboot = types.RebootPersistentResourceOperationMetadata.pb()
_Delete = operation_types.DeleteOperationMetadata.pb()
_METADATA: dict[int, Any] = {
    State.PROVISIONING: _Create,
    State.UPDATING: _Update,
    State.REBOOTING: _Reboot,
    State.STOPPING: _Delete,
}
"""Metadata of the operation by the transient state of the resource."""


_ID_RULES = (
    "persistent_resource_id can only contain numbers, lower case letters and hyphens. The first character "
    "must be a letter, and the last character must be a letter or number."
)
"""Vertex AI sends this message (docs/facts/vertex.md 16)."""


class JobCanceller(Protocol):
    """The part of the scheduler that this service uses."""

    async def cancel(self, job: CustomJob) -> None:
        """Request the end of a job."""


class PersistentResourceService(ResourceServer):
    """The RPC handlers of persistent resources."""

    def __init__(
        self,
        known: PersistentResources,
        store: ResourceStore,
        operations: Operations,
        *,
        capacity: Capacity,
        quotas: TrainingQuotas,
        scheduler: JobCanceller,
        config: EmulatorConfig,
        checks: ActiveCheckFaults,
    ) -> None:
        super().__init__(PERSISTENT, store, operations)
        self._known, self._capacity, self._quotas = known, capacity, quotas
        self._scheduler, self._config, self._checks = scheduler, config, checks
        self._lock = asyncio.Lock()

    def methods(self) -> list[Method]:
        """Return the RPCs of this service."""
        reboot = ("RebootPersistentResource", self.reboot, operations_pb2.Operation)
        return [*super().methods(), *methods_of(PERSISTENT.service, types, reboot)]

    async def adopt(self) -> None:
        """Count the quota of existing resources, and continue the operations of the previous server."""
        for resource in self._known.all():
            self._quotas.set_aside(resource.name, location_of(resource.name), quota_needs(resource))
            metadata = _METADATA.get(resource.state)
            if metadata is None:
                continue
            work = self._work(resource)
            above = f"{resource.name}/operations/"
            begun = [name for name in self._operations.interrupted(metadata) if name.startswith(above)]
            if begun:
                self._operations.resume(begun[0], work)
            else:
                # The state was stored, but the operation was not.
                await self._operations.start(resource.name, metadata(), work)

    async def create(self, request: Pb) -> Pb:
        _, location = creation_parent(request.parent)
        problems = persistent_resource_problems(request.persistent_resource, location)
        if not re.fullmatch(PERSISTENT.id_pattern, request.persistent_resource_id):
            problems.insert(0, ("persistent_resource_id", _ID_RULES))
        refuse(problems)
        async with self._lock:
            resource = self.new(request.parent, request.persistent_resource, request.persistent_resource_id)
            if self._known.fixed(resource.name):
                raise WireError(code_pb2.ALREADY_EXISTS, f"config.yaml has the resource {resource.name}.")
            for field in _OUTPUTS:
                resource.ClearField(field)
            for pool in with_ids(resource).resource_pools:
                pool.replica_count = pool.replica_count or pool.autoscaling_spec.min_replica_count
                pool.ClearField("used_replica_count")
            await self._enter(resource, State.PROVISIONING)
        return await self._start(resource)

    async def get(self, request: Pb) -> Pb:
        if self._checks.current.misses(request.name.rpartition("/")[2]):
            raise not_found(TYPE, request.name)
        return self._shown(self.find(request.name))

    def rows(self, parent: str) -> Sequence[Pb]:
        return [self._shown(resource) for resource in self._known.below(parent)]

    def find(self, name: str) -> Pb:
        resource = self._known.get(name)
        return resource if resource is not None else super().find(name)

    async def update(self, request: Pb) -> operations_pb2.Operation:
        requested = request.persistent_resource
        async with self._lock:
            present = self._changeable(requested.name, State.RUNNING)
            used = self._capacity.used(present.name)
            changed = updated(present, requested, request.update_mask.paths, used)
            location = present.name.split("/")[3]
            refuse(persistent_resource_problems(changed, location))
            await self._enter(changed, State.UPDATING)
        return await self._start(changed)

    async def reboot(self, request: Pb) -> operations_pb2.Operation:
        async with self._lock:
            resource = self._changeable(request.name, State.RUNNING, State.ERROR)
            jobs = self._capacity.jobs(resource.name)
            if jobs:
                names = ", ".join(job.record.id for job in jobs[:5])
                raise failed_precondition(
                    resource.name,
                    f"The persistent resource {resource.name} has running jobs ({names}); wait until "
                    "they end or cancel them, then reboot the resource.",
                )
            await self._enter(resource, State.REBOOTING)
        return await self._start(resource)

    async def delete(self, request: Pb) -> operations_pb2.Operation:
        async with self._lock:
            others = [state for state in State.__members__.values() if state != State.STOPPING]
            resource = self._changeable(request.name, *others)
            await self._enter(resource, State.STOPPING)
        return await self._start(resource)

    def _changeable(self, name: str, *states: int) -> Pb:
        """Return a copy of a resource that is in one of `states`. Raises WireError."""
        resource = self.find(name)
        if self._known.fixed(name):
            raise failed_precondition(
                name, f"{name} is defined in the emulator's config.yaml; change it there."
            )
        if resource.state not in states:
            raise failed_precondition(
                name,
                f"The persistent resource {name} is {State(resource.state).name}; "
                "wait until it leaves this state.",
            )
        return copied(resource)

    async def _enter(self, resource: Pb, state: int) -> None:
        """Store the resource in a state that its operation ends. Raises WireError."""
        place, needs = location_of(resource.name), quota_needs(resource)
        if state in {State.PROVISIONING, State.UPDATING}:
            lacking = self._quotas.short_of(resource.name, place, needs)
            if lacking:
                text = describe_lack(
                    lacking, place[1], "Not enough training quota for the persistent resource"
                )
                raise WireError(code_pb2.RESOURCE_EXHAUSTED, text)
        resource.state = state
        await self._store.put(touched(resource))
        self._quotas.set_aside(resource.name, place, needs)

    async def _start(self, resource: Pb) -> operations_pb2.Operation:
        """Start the operation that ends the transient state. Its work acquires the lock."""
        metadata = _METADATA[resource.state]()
        return await self._operations.start(resource.name, metadata, self._work(resource))

    def _work(self, resource: Pb) -> Work:
        """Return the work that ends a transient state."""
        name, state = resource.name, resource.state

        async def provision(running: RunningOperation) -> None:
            await asyncio.sleep(self._config.provisioning_seconds)
            async with self._lock:
                present = self._store.get(name)
                if present is None or present.state != state or present.create_time != resource.create_time:
                    raise WireError(code_pb2.CANCELLED, f"{name} was deleted in the meantime.")
                done = copied(present)
                done.state = State.RUNNING
                if not done.HasField("start_time"):
                    done.start_time.CopyFrom(current_time())
                await running.end(done, self._store.change([touched(done)]))
            self._capacity.grant()

        async def remove(running: RunningOperation) -> None:
            while jobs := self._capacity.jobs(name):
                await asyncio.gather(*(self._cancel(job) for job in jobs))
                await asyncio.sleep(POLL_SECONDS)
            await running.end(empty_pb2.Empty(), self._store.change(delete=[name]))
            self._quotas.drop(name)

        return remove if state == State.STOPPING else provision

    async def _cancel(self, job: CustomJob) -> None:
        # The job may just have ended.
        with contextlib.suppress(WireError):
            await self._scheduler.cancel(job)

    def _shown(self, stored: Pb) -> Pb:
        """Return the resource with its replicas in use."""
        resource = copied(stored)
        used = self._capacity.used(stored.name)
        for pool in resource.resource_pools:
            pool.used_replica_count = used[pool.id]
            pool.replica_count = size(pool, used[pool.id])
        return resource
