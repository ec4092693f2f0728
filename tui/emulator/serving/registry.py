"""Models and the endpoints that serve them.

A model is stored as one resource with the fields that all versions share, and one resource for each version.
The API shows one Model: a version with the shared fields.
"""

from __future__ import annotations

import re

from google.cloud.aiplatform_v1.types import model as model_types

from tui.emulator.experiments.kinds import ENDPOINT, VERSION
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.messages import Pb, copied
from tui.emulator.rpc.methods import invalid, not_found

MODEL_TYPE = "aiplatform.googleapis.com/Model"
DEFAULT = "default"
"""The alias that exactly one version of each model has."""
SHARED = ("display_name", "description", "create_time", "update_time", "etag", "encryption_spec")
"""Fields that are the same in all versions; `labels` are merged."""
_NAME = re.compile(r"(projects/[^/]+/locations/[^/]+/models/[^/@]+)(?:@([^/@]+))?")
_DEDICATED = model_types.Model.DeploymentResourcesType.DEDICATED_RESOURCES


class ModelRegistry:
    """Reads models and endpoints from the store."""

    def __init__(self, store: ResourceStore) -> None:
        self._store = store
        self.deploying: dict[tuple[str, str], tuple[str, str]] = {}
        """Model and version of deployments in progress, by (endpoint, id of the deployed model)."""

    def split_name(self, name: str, path: str = "name") -> tuple[str, str]:
        """Split a name into the model's name and the version or alias after the @, "" if absent.

        Raises WireError: INVALID_ARGUMENT.
        """
        match = _NAME.fullmatch(name)
        if match is None:
            form = "projects/P/locations/L/models/MODEL, with @VERSION or @ALIAS"
            raise invalid((path, f"{name!r} must have the form {form}"))
        return match[1], match[2] or ""

    def model(self, name: str, path: str = "name") -> Pb:
        """Return the part that all versions share. Raises WireError: INVALID_ARGUMENT, NOT_FOUND."""
        base, _ = self.split_name(name, path)
        model = self._store.get(base)
        if model is None:
            raise not_found(MODEL_TYPE, base)
        return model

    def versions(self, model: Pb) -> list[Pb]:
        """Return the versions of a model as stored, oldest first."""
        return sorted(self._store.below(model.name, VERSION), key=lambda pb: int(pb.version_id))

    def version(self, name: str, path: str = "name") -> Pb:
        """Return the version that a name denotes, the default version if it has no @. Raises WireError."""
        model = self.model(name, path)
        version_id = self.split_name(name, path)[1] or DEFAULT
        for version in self.versions(model):
            if version_id == version.version_id or version_id in version.version_aliases:
                return version
        raise not_found(MODEL_TYPE, name)

    def shown(self, version: Pb) -> Pb:
        """Return the Model that the API shows for a stored version."""
        model = self._store.get(version.name.rsplit("/", 2)[0])
        assert model is not None
        merged = copied(version)
        merged.name = model.name
        for field in SHARED:
            merged.ClearField(field)
        shared = copied(model)
        shared.ClearField("labels")
        shared.ClearField("version_id")
        merged.MergeFrom(shared)
        for key, value in model.labels.items():
            if key not in merged.labels:
                merged.labels[key] = value
        merged.supported_deployment_resources_types.append(_DEDICATED)
        for endpoint, deployed in self.deployments(model.name, version.version_id):
            merged.deployed_models.add(endpoint=endpoint.name, deployed_model_id=deployed.id)
        return merged

    def uses(self, model: str, version: str = "") -> list[str]:
        """Return where a model, or a version of it, is deployed or being deployed."""
        done = [(endpoint.name, deployed.id) for endpoint, deployed in self.deployments(model, version)]
        begun = [
            where
            for where, (name, number) in self.deploying.items()
            if name == model and version in {"", number}
        ]
        return [f"{endpoint} (id {deployed_id})" for endpoint, deployed_id in (*done, *begun)]

    def deployments(self, model: str, version: str = "") -> list[tuple[Pb, Pb]]:
        """Return the endpoints and deployed models of a model; without `version`, of any version."""
        return [
            (endpoint, deployed)
            for endpoint in self._store.all(ENDPOINT)
            for deployed in endpoint.deployed_models
            if deployed.model.partition("@")[0] == model
            and (not version or deployed.model_version_id == version)
        ]
