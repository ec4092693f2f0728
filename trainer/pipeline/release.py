"""The release of a model: an endpoint with a stable version and a canary, and its promotion or rollback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainer.pipeline.vertex import Vertex
from trainer.structured_log import emit

STABLE = "stable"
"""The alias of the version that receives the traffic."""
DEFAULT = "default"
"""The default alias, which one version of each model has: initially the first version."""
LONGEST = 3600.0
"""Timeout of a deployment, in seconds."""
_NEW = "0"
"""Key of the model being deployed in a traffic split."""


@dataclass(frozen=True, slots=True)
class ServingMachine:
    """The machine of each deployed model."""

    type: str
    accelerator: str = ""
    accelerators: int = 0

    def resources(self) -> dict[str, Any]:
        """Return the DedicatedResources of one replica."""
        spec: dict[str, Any] = {"machine_type": self.type}
        if self.accelerator:
            spec |= {"accelerator_type": self.accelerator, "accelerator_count": self.accelerators or 1}
        return {"machine_spec": spec, "min_replica_count": 1, "max_replica_count": 1}


@dataclass(frozen=True, slots=True)
class Baseline:
    """The first model of an endpoint that has none: a checkpoint, and the image that serves it."""

    name: str
    checkpoint: str
    image: str

    def model(self) -> dict[str, Any]:
        """Return the Model resource to upload."""
        container = {
            "image_uri": self.image,
            "command": ["python", "-m", "trainer.serving"],
            "predict_route": "/predict",
            "health_route": "/health",
            "ports": [{"container_port": 8080}],
        }
        return {
            "display_name": self.name,
            "artifact_uri": self.checkpoint,
            "container_spec": container,
            "version_aliases": [STABLE],
        }


def prepared_endpoint(
    vertex: Vertex, name: str, baseline: Baseline, machine: ServingMachine
) -> tuple[str, str]:
    """Return the endpoint of this name, and the version (…/models/ID@VERSION) with most of its traffic. A
    missing endpoint is created; without a deployed model the baseline is registered and gets all traffic."""
    listed = vertex.endpoints.list_endpoints(
        request={"parent": vertex.parent, "filter": f'display_name="{name}"'}
    )
    endpoint = next(iter(listed), None)
    if endpoint is None:
        begun = vertex.endpoints.create_endpoint(parent=vertex.parent, endpoint={"display_name": name})
        endpoint = begun.result(timeout=LONGEST)
        emit("phase", f"created the endpoint {endpoint.name}", phase="release")
    if not endpoint.deployed_models:
        version = _registered(vertex, baseline)
        _deploy(vertex, endpoint.name, version, machine, {_NEW: 100})
        emit("phase", f"{version} is the first model of {endpoint.name}", phase="release")
        return endpoint.name, version
    share = dict(endpoint.traffic_split)
    stable = max(endpoint.deployed_models, key=lambda deployed: share.get(deployed.id, 0))
    return endpoint.name, f"{stable.model}@{stable.model_version_id}"


def _registered(vertex: Vertex, baseline: Baseline) -> str:
    """Return the version of the baseline, uploaded unless an earlier attempt uploaded it."""
    listed = vertex.models.list_models(
        request={"parent": vertex.parent, "filter": f'display_name="{baseline.name}"'}
    )
    for model in listed:
        if model.artifact_uri == baseline.checkpoint:
            return f"{model.name}@{model.version_id}"
    begun = vertex.models.upload_model(parent=vertex.parent, model=baseline.model())
    uploaded = begun.result(timeout=LONGEST)
    return f"{uploaded.model}@{uploaded.model_version_id}"


def deploy_canary(vertex: Vertex, endpoint: str, version: str, percent: int, machine: ServingMachine) -> str:
    """Deploy a version with a share of the traffic; return the deployed model's id. A version that an earlier
    attempt deployed is not deployed again."""
    now = vertex.endpoints.get_endpoint(name=endpoint)
    for deployed_model in now.deployed_models:
        if f"{deployed_model.model}@{deployed_model.model_version_id}" == version:
            return str(deployed_model.id)
    split = with_canary(now.traffic_split, percent)
    deployed = _deploy(vertex, endpoint, version, machine, split)
    emit("phase", f"{version} has {percent}% of the traffic of {endpoint}", phase="release")
    return deployed


def with_canary(current: Mapping[str, int], percent: int) -> dict[str, int]:
    """Return the traffic split with `percent` for the new model; the others keep their proportions."""
    left = 100 - percent
    shares = {key: value * left // 100 for key, value in current.items() if value > 0}
    if not shares:
        return {_NEW: 100}
    # The remainder of the rounding goes to the largest share.
    shares[max(shares, key=lambda key: shares[key])] += left - sum(shares.values())
    return {_NEW: percent, **shares}


def promote(vertex: Vertex, endpoint: str, deployed: str) -> None:
    """Route all traffic to a deployed model and give it the aliases, then undeploy the others. The default
    alias moves too: a name without a version then means the serving version."""
    now = _split(vertex, endpoint, {deployed: 100})
    for deployed_model in now.deployed_models:
        if deployed_model.id == deployed:
            name = f"{deployed_model.model}@{deployed_model.model_version_id}"
            vertex.models.merge_version_aliases(name=name, version_aliases=[STABLE, DEFAULT])
            emit("phase", f"{name} has 100% of the traffic of {endpoint}", phase="release")
        else:
            _undeploy(vertex, endpoint, deployed_model.id)


def roll_back(vertex: Vertex, endpoint: str, deployed: str) -> None:
    """Undeploy a canary; its traffic returns to the other models."""
    now = vertex.endpoints.get_endpoint(name=endpoint)
    split = {key: value for key, value in now.traffic_split.items() if key != deployed and value > 0}
    if not split:
        raise ValueError(f"{endpoint} has no model besides {deployed} for the traffic")
    whole = sum(split.values())
    shares = {key: value * 100 // whole for key, value in split.items()}
    shares[max(shares, key=lambda key: shares[key])] += 100 - sum(shares.values())
    _split(vertex, endpoint, shares)
    _undeploy(vertex, endpoint, deployed)
    emit("phase", f"the canary {deployed} was undeployed from {endpoint}", phase="release")


def _deploy(
    vertex: Vertex, endpoint: str, version: str, machine: ServingMachine, split: dict[str, int]
) -> str:
    model = {"model": version, "dedicated_resources": machine.resources()}
    begun = vertex.endpoints.deploy_model(endpoint=endpoint, deployed_model=model, traffic_split=split)
    return str(begun.result(timeout=LONGEST).deployed_model.id)


def _undeploy(vertex: Vertex, endpoint: str, deployed: str) -> None:
    begun = vertex.endpoints.undeploy_model(endpoint=endpoint, deployed_model_id=deployed)
    begun.result(timeout=LONGEST)


def _split(vertex: Vertex, endpoint: str, split: dict[str, int]) -> Any:
    changed = {"name": endpoint, "traffic_split": split}
    return vertex.endpoints.update_endpoint(endpoint=changed, update_mask={"paths": ["traffic_split"]})
