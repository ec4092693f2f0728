"""EndpointService: endpoints, and the models deployed to them.

Vertex does not document the following behaviour, so the emulator chooses it: an endpoint with deployed
models, or models being deployed, can't be deleted; a model server that ends before its first health check
fails the deployment at once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from typing import Any

from google.cloud.aiplatform_v1.types import endpoint_service as types
from google.cloud.aiplatform_v1.types import operation as operation_types
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2, field_mask_pb2
from google.rpc import code_pb2

from tui.emulator.experiments.kinds import ENDPOINT
from tui.emulator.experiments.resource_service import (
    ResourceServer,
    check_etag,
    check_mask,
    copy_field,
    named_fields,
    touched,
)
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.messages import Pb, copied, current_time
from tui.emulator.rpc.methods import (
    Method,
    WireError,
    failed_precondition,
    invalid,
    methods_of,
    not_found,
    refuse,
)
from tui.emulator.serving.deployments import Deployments
from tui.emulator.serving.registry import ModelRegistry
from tui.emulator.serving.traffic import after_deployment, after_removal
from tui.emulator.serving.validate import (
    dedicated_problems,
    deployed_model_problems,
    endpoint_problems,
    split_problems,
)
from tui.emulator.vertex.operations import NOTHING, Operations, RunningOperation
from tui.emulator.vertex.resource_requests import creation_parent
from tui.emulator.vertex.validate import below, resource_problems

DEPLOYED_TYPE = "aiplatform.googleapis.com/DeployedModel"
_CHANGEABLE = frozenset({"display_name", "description", "labels", "traffic_split"})
_MUTABLE = (
    "min_replica_count", "max_replica_count", "required_replica_count", "autoscaling_metric_specs",
    "disable_container_logging",
)  # fmt: skip
"""Fields of a deployed model that MutateDeployedModel can change."""
_Delete = operation_types.DeleteOperationMetadata.pb()
_Create = types.CreateEndpointOperationMetadata.pb()
_Deploy = types.DeployModelOperationMetadata.pb()
_Undeploy = types.UndeployModelOperationMetadata.pb()
_Mutate = types.MutateDeployedModelOperationMetadata.pb()
_Deployed = types.DeployModelResponse.pb()
_Undeployed = types.UndeployModelResponse.pb()
_Mutated = types.MutateDeployedModelResponse.pb()


class EndpointService(ResourceServer):
    """RPC handlers of endpoints."""

    def __init__(
        self, store: ResourceStore, operations: Operations, registry: ModelRegistry, deployments: Deployments
    ) -> None:
        super().__init__(ENDPOINT, store, operations)
        self._registry, self._deployments = registry, deployments
        self._lock = asyncio.Lock()

    def methods(self) -> list[Method]:
        """Return the RPCs of this service."""
        operation = operations_pb2.Operation
        return [
            *super().methods(),
            *methods_of(
                ENDPOINT.service,
                types,
                ("DeployModel", self.deploy, operation),
                ("UndeployModel", self.undeploy, operation),
                ("MutateDeployedModel", self.mutate, operation),
            ),
        ]

    async def create(self, request: Pb) -> Pb:
        _, location = creation_parent(request.parent)
        refuse(endpoint_problems(request.endpoint, location))
        requested = copied(request.endpoint)
        requested.ClearField("deployed_models")
        async with self._lock:
            endpoint = self.new(request.parent, requested, request.endpoint_id)
            change = self._store.change([endpoint])
            return await self._operations.make(endpoint.name, _Create(), endpoint, change)

    async def update(self, request: Pb) -> Pb:
        requested, paths = request.endpoint, request.update_mask.paths
        fields = [field for field in named_fields(paths, requested) if paths or field in _CHANGEABLE]
        wrong = [field for field in fields if field not in _CHANGEABLE]
        if wrong:
            can = ", ".join(sorted(_CHANGEABLE))
            raise invalid(("update_mask", f"{', '.join(wrong)} can't be updated; only {can} can be updated"))
        async with self._lock:
            endpoint = self._changed(requested.name)
            check_etag(requested.etag, endpoint, "update")
            for field in fields:
                copy_field(requested, endpoint, field)
            problems = list(resource_problems(endpoint, endpoint.name.split("/")[3]))
            if endpoint.traffic_split and "traffic_split" in fields:
                problems += split_problems(endpoint.traffic_split, _ids(endpoint))
            if problems:
                raise invalid(*below("endpoint", problems))
            await self._store.put(touched(endpoint))
            return endpoint

    async def delete(self, request: Pb) -> operations_pb2.Operation:
        async with self._lock:
            endpoint = self.find(request.name)
            ids = [*_ids(endpoint), *(key[1] for key in self._registry.deploying if key[0] == endpoint.name)]
            if ids:
                raise failed_precondition(
                    endpoint.name,
                    f"Endpoint {endpoint.name} has deployed or being-deployed DeployedModel(s) with ID(s): "
                    f"[{', '.join(sorted(ids))}]. Undeploy them first.",
                )
            change = self._store.change(delete=[endpoint.name])
            return await self._operations.make(endpoint.name, _Delete(), empty_pb2.Empty(), change)

    async def deploy(self, request: Pb) -> operations_pb2.Operation:
        """Start a model server. The endpoint gets the model once the server is healthy."""
        refuse(deployed_model_problems(request.deployed_model))
        endpoint = self.find(request.endpoint)
        deployed = self._new_deployment(endpoint, request.deployed_model)
        split = dict(request.traffic_split)
        after_deployment(endpoint.traffic_split, split, _ids(endpoint), deployed.id)
        key, model = (endpoint.name, deployed.id), deployed.model.partition("@")[0]
        self._registry.deploying[key] = model, deployed.model_version_id

        async def work(running: RunningOperation) -> None:
            try:
                await self._deployments.deploy(endpoint, deployed)
                try:
                    await self._add(endpoint.name, deployed, split, running)
                except BaseException:
                    await self._deployments.remove(*key)
                    raise
            finally:
                self._registry.deploying.pop(key, None)

        try:
            return await self._operations.start(endpoint.name, _Deploy(), work)
        except WireError:
            # The operation was not stored, so the deployment has not begun.
            self._registry.deploying.pop(key, None)
            raise

    def _new_deployment(self, endpoint: Pb, requested: Pb) -> Pb:
        """Create a DeployedModel to be stored. Raises WireError."""
        version = self._registry.version(requested.model, "deployed_model.model")
        model = self._registry.shown(version)
        if model.name.split("/")[:4] != endpoint.name.split("/")[:4]:
            where = "/".join(endpoint.name.split("/")[:4])
            raise invalid(("deployed_model.model", f"{model.name} must be in {where} like the endpoint"))
        deployed = copied(requested)
        deployed.id = requested.id or str(secrets.randbelow(9 * 10**18) + 10**18)
        if deployed.id in _ids(endpoint) or (endpoint.name, deployed.id) in self._registry.deploying:
            raise WireError(
                code_pb2.ALREADY_EXISTS, f"{endpoint.name} has a deployed model with the id {deployed.id}."
            )
        deployed.model, deployed.model_version_id = model.name, model.version_id
        deployed.display_name = requested.display_name or model.display_name
        resources = deployed.dedicated_resources
        resources.max_replica_count = resources.max_replica_count or resources.min_replica_count
        return deployed

    async def _add(self, name: str, deployed: Pb, split: dict[str, int], running: RunningOperation) -> None:
        async with self._lock:
            endpoint = self._changed(name)
            traffic = after_deployment(endpoint.traffic_split, split, _ids(endpoint), deployed.id)
            deployed.create_time.CopyFrom(current_time())
            endpoint.deployed_models.append(deployed)
            _set_split(endpoint, traffic)
            change = self._store.change([touched(endpoint)])
            await running.end(_Deployed(deployed_model=deployed), change)

    async def undeploy(self, request: Pb) -> operations_pb2.Operation:
        """Remove a model from the endpoint, then end its server once it has answered its requests."""
        async with self._lock:
            endpoint = self._changed(request.endpoint)
            gone = self._deployed(endpoint, request.deployed_model_id)
            split = after_removal(
                endpoint.name, endpoint.traffic_split, request.traffic_split, _ids(endpoint), gone.id
            )
            endpoint.deployed_models.remove(gone)
            _set_split(endpoint, split)
            await self._store.put(touched(endpoint))

        async def work(running: RunningOperation) -> None:
            await self._deployments.retire(endpoint.name, gone.id)
            await running.end(_Undeployed(), NOTHING)

        return await self._operations.start(endpoint.name, _Undeploy(), work)

    async def mutate(self, request: Pb) -> operations_pb2.Operation:
        """Change the number of replicas, which has no effect here, or the logging."""
        masked = [path.removeprefix("dedicated_resources.") for path in request.update_mask.paths]
        check_mask(masked, _MUTABLE)
        async with self._lock:
            endpoint = self._changed(request.endpoint)
            deployed = self._deployed(endpoint, request.deployed_model.id)
            paths = [path if path == _MUTABLE[-1] else f"dedicated_resources.{path}" for path in masked]
            mask = field_mask_pb2.FieldMask(paths=paths)
            mask.MergeMessage(request.deployed_model, deployed, replace_repeated_field=True)
            problems = list(
                below("deployed_model.dedicated_resources", dedicated_problems(deployed.dedicated_resources))
            )
            refuse(problems)
            change = self._store.change([touched(endpoint)])
            reply = _Mutated(deployed_model=deployed)
            return await self._operations.make(endpoint.name, _Mutate(), reply, change)

    def _changed(self, name: str) -> Pb:
        return copied(self.find(name))

    def _deployed(self, endpoint: Pb, deployed_id: str) -> Pb:
        for deployed in endpoint.deployed_models:
            if deployed.id == deployed_id:
                return deployed
        raise not_found(DEPLOYED_TYPE, f"{endpoint.name}/deployedModels/{deployed_id}")


def _ids(endpoint: Pb) -> set[str]:
    return {deployed.id for deployed in endpoint.deployed_models}


def _set_split(endpoint: Pb, split: Iterable[Any]) -> None:
    endpoint.ClearField("traffic_split")
    endpoint.traffic_split.update(split)
