"""Existing persistent resources: created by clients, or named in the configuration."""

from __future__ import annotations

from google.cloud.aiplatform_v1.types import persistent_resource
from google.protobuf import json_format
from google.rpc import code_pb2, error_details_pb2

from tui.emulator.config import ConfigError, EmulatorConfig
from tui.emulator.experiments.kinds import PERSISTENT
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.messages import Pb, copied
from tui.emulator.resources.pools import unfit
from tui.emulator.rpc.methods import WireError, failed_precondition, invalid
from tui.emulator.rpc.project_names import with_project_id

TYPE = "aiplatform.googleapis.com/PersistentResource"
State = persistent_resource.PersistentResource.State


class PersistentResources:
    """Reads persistent resources. A configured resource exists in every location of every project.

    Raises ConfigError for a configured resource that does not match the message.
    """

    def __init__(self, store: ResourceStore, config: EmulatorConfig) -> None:
        self._store = store
        self._fixed: dict[str, Pb] = {}
        for name, body in config.persistent_resources.items():
            try:
                resource = json_format.ParseDict({"state": "RUNNING", **body}, PERSISTENT.message())
            except json_format.ParseError as error:
                raise ConfigError(f"config.yaml: persistent_resources.{name}: {error}") from error
            self._fixed[name] = with_ids(resource)

    def get(self, name: str) -> Pb | None:
        """Return the resource with this full name."""
        stored = self._store.get(name)
        return stored if stored is not None else self._placed(name)

    def fixed(self, name: str) -> bool:
        """Return whether the resource is a configured one, which clients can't change."""
        return self._store.get(name) is None and self._placed(name) is not None

    def below(self, parent: str) -> list[Pb]:
        """Return the resources of a location, configured resources first."""
        placed = [self._placed(f"{parent}/persistentResources/{fixed_id}") for fixed_id in self._fixed]
        return [*(pb for pb in placed if pb is not None), *self._store.below(parent, PERSISTENT)]

    def all(self) -> list[Pb]:
        """Return every resource that a client created."""
        return self._store.all(PERSISTENT)

    def check(self, spec: Pb, parent: str, path: str, key: str = "") -> None:
        """Check that a job can run on the resource that it names. `path` is the field of the request.

        Raises WireError: NOT_FOUND, FAILED_PRECONDITION, INVALID_ARGUMENT.
        """
        resource_id = spec.persistent_resource_id
        if not resource_id:
            return
        name, field = (
            with_project_id(f"{parent}/persistentResources/{resource_id}"),
            f"{path}.persistent_resource_id",
        )
        resource = self.get(name)
        if resource is None:
            detail = error_details_pb2.ResourceInfo(resource_type=TYPE, resource_name=name)
            raise WireError(
                code_pb2.NOT_FOUND,
                f"{field}: the persistent resource {name} is not found. Create it, or leave the field out to "
                "run on the job's own machines.",
                [detail],
            )
        if resource.state not in {State.RUNNING, State.UPDATING}:
            raise failed_precondition(
                name, f"The persistent resource {name} must be RUNNING, not {State(resource.state).name}."
            )
        wrong = unfit(spec, resource.resource_pools)
        if wrong:
            index, why = wrong
            text = (
                f"persistent resource {resource_id}: this pool {why}. Machine, accelerators and disk must be "
                "the same as in a resource pool."
            )
            raise invalid((f"{path}.worker_pool_specs[{index}]", text))
        if spec.network != resource.network:
            has = resource.network or "none"
            raise invalid(
                (f"{path}.network", f"must be the same as in the persistent resource {resource_id}: {has}")
            )
        if key != resource.encryption_spec.kms_key_name:
            has = resource.encryption_spec.kms_key_name or "none"
            text = f"must be the same as in the persistent resource {resource_id}: {has}"
            raise invalid(("encryption_spec.kms_key_name", text))

    def _placed(self, name: str) -> Pb | None:
        match = PERSISTENT.names.fullmatch(name)
        fixed = self._fixed.get(name.rpartition("/")[2]) if match else None
        if fixed is None:
            return None
        resource = copied(fixed)
        resource.name = name
        return resource


def with_ids(resource: Pb) -> Pb:
    """Give an id to each pool that has none. Return the resource."""
    ids = {pool.id for pool in resource.resource_pools}
    for index, pool in enumerate(resource.resource_pools):
        if not pool.id:
            free = (f"pool-{number}" for number in range(index, index + len(ids) + 1))
            pool.id = next(name for name in free if name not in ids)
            ids.add(pool.id)
    return resource
