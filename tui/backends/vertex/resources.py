"""Persistent resources of Vertex AI: PersistentResourceService."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from google.cloud.aiplatform_v1.types.accelerator_type import AcceleratorType
from google.cloud.aiplatform_v1.types.persistent_resource import PersistentResource as PersistentResourceProto
from google.protobuf import json_format

from tui.backends.interface import BackendError, ContextInfo, InvalidRequest, Stopped, Unavailable
from tui.backends.resources import ResourceService
from tui.backends.serving import RegionResults
from tui.backends.vertex.regions import RegionLists, region_in
from tui.backends.vertex.timestamps import moment
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.channels import Clients
from tui.domain.masking import mask_text
from tui.domain.resources.persistent import DISK_GB, DISK_TYPE, PersistentResource, ResourcePool

Pb = Any
COLLECTION = "persistentResources"
_Message = PersistentResourceProto.pb()
_STATES = {member.value: name for name, member in PersistentResourceProto.State.__members__.items()}
_ACCELERATORS = {member.value: name for name, member in AcceleratorType.__members__.items() if member.value}


class Resources(ResourceService):
    """Persistent resources of one context's project, in its regions."""

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        self._info = info
        self._clients = clients
        self._lists = RegionLists(info, clients)

    async def list_all(self) -> RegionResults[PersistentResource]:
        async def read(region: str) -> list[PersistentResource]:
            messages = await self._lists.all(
                f"list the persistent resources of {region}",
                lambda: self._clients.resources(region).list_persistent_resources,
                {"parent": self._lists.parent(region)},
                "persistent_resources",
            )
            return [persistent_resource(pb, region, self._info.name) for pb in messages]

        return await self._lists.everywhere(read)

    async def get(self, name: str) -> PersistentResource:
        region = region_in(name, COLLECTION)
        pb = await self._clients.read(
            f"read the persistent resource {name}",
            lambda: self._clients.resources(region).get_persistent_resource,
            name=name,
        )
        return persistent_resource(pb, region, self._info.name)

    async def create(self, region: str, id: str, resource: Mapping[str, Any]) -> PersistentResource:
        region = region or self._info.regions[0]
        message = _Message()
        try:
            json_format.ParseDict(dict(resource), message)
        except json_format.ParseError as error:
            raise InvalidRequest(f"The request is not a valid persistent resource: {error}") from error
        parent = self._lists.parent(region)
        name = f"{parent}/{COLLECTION}/{id}"
        # The client chooses the id: a repeated create would be refused, and the resource can be found by its
        # id.
        try:
            await self._clients.once(
                f"create the persistent resource {id} in {region}",
                lambda: self._clients.resources(region).create_persistent_resource,
                within=deadlines.CREATE,
                parent=parent,
                persistent_resource=PersistentResourceProto.wrap(message),
                persistent_resource_id=id,
            )
        except Unavailable as error:
            if isinstance(error, Stopped):
                raise
            # The request may have arrived although the reply was lost.
            with suppress(BackendError):
                return await self.get(name)
            raise Unavailable(
                f"{error.message.rstrip('.')}. The resource may have been created anyway and cost money.",
                fix="`vxtui resources` shows whether it exists.",
            ) from error
        return await self.get(name)

    async def delete(self, name: str) -> None:
        await self._change("delete", name)

    async def reboot(self, name: str) -> PersistentResource:
        await self._change("reboot", name)
        return await self.get(name)

    async def _change(self, verb: str, name: str) -> None:
        """Send the change only once, because a repeated request would reboot twice."""
        client = self._clients.resources(region_in(name, COLLECTION))
        await self._clients.once(
            f"{verb} the persistent resource {name}",
            lambda: getattr(client, f"{verb}_persistent_resource"),
            name=name,
        )


def persistent_resource(pb: Pb, region: str, context: str) -> PersistentResource:
    """Convert a PersistentResource message to a domain object."""
    return PersistentResource(
        name=pb.name,
        display_name=pb.display_name,
        region=region,
        state=_STATES.get(pb.state) or str(pb.state),
        context=context,
        error=mask_text(pb.error.message) if pb.HasField("error") else "",
        create_time=moment(pb, "create_time"),
        start_time=moment(pb, "start_time"),
        update_time=moment(pb, "update_time"),
        pools=tuple(resource_pool(pool) for pool in pb.resource_pools),
        labels=dict(pb.labels),
        network=pb.network,
    )


def resource_pool(pb: Pb) -> ResourcePool:
    """Convert a ResourcePool message to a domain object."""
    machine, scaled = pb.machine_spec, pb.HasField("autoscaling_spec")
    kind = machine.accelerator_type
    return ResourcePool(
        id=pb.id,
        machine_type=machine.machine_type,
        accelerator_type=_ACCELERATORS.get(kind, str(kind) if kind else ""),
        accelerator_count=machine.accelerator_count,
        replicas=pb.replica_count,
        used=pb.used_replica_count,
        least=pb.autoscaling_spec.min_replica_count if scaled else None,
        most=pb.autoscaling_spec.max_replica_count if scaled else None,
        disk_type=pb.disk_spec.boot_disk_type or DISK_TYPE,
        disk_gb=pb.disk_spec.boot_disk_size_gb or DISK_GB,
        tpu_topology=machine.tpu_topology,
    )
