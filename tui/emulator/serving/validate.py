"""Server-side checks of models, endpoints and deployed models; see `tui.emulator.vertex.validate`.

The rules come from the documentation of Model, ModelContainerSpec, Endpoint and DeployedModel. Unsupported
features are refused with a message that names the feature.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

from tui.domain.vertex.catalog import machines
from tui.emulator.messages import Pb
from tui.emulator.storage.names import uri_problem
from tui.emulator.vertex.validate import MAX_DISPLAY_NAME, below, resource_problems
from tui.emulator.vertex.validate_pools import Problem, accelerator_name

NEW = "0"
"""Key of a traffic split that denotes the model being deployed."""
MAX_TIMEOUT = 2 * 3600
"""Maximum ModelContainerSpec.deployment_timeout in seconds."""
MAX_ALIAS = 128
_SERIES = re.compile(r"[a-z][a-z0-9]{1,5}-(standard|highmem|highcpu|megamem|ultramem)-[0-9]+")
"""Machine type names of Compute Engine. Prediction offers series that training lacks, e.g. e2."""
_ROUTE = re.compile(r"/[!-~]*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ALIAS = re.compile(r"[a-z][a-zA-Z0-9-]{0,126}[a-z0-9]")
_DEPLOYED_ID = re.compile(r"[0-9]{1,10}")
_UNSERVED_OF_ENDPOINT = {
    "network": "private endpoints",
    "enable_private_service_connect": "private endpoints",
    "private_service_connect_config": "private endpoints",
    "dedicated_endpoint_enabled": "host names of dedicated endpoints",
    "predict_request_response_logging_config": "request logging to BigQuery",
}


def model_problems(model: Pb, location: str) -> list[Problem]:
    """Return every reason to refuse the upload of a model; the result is empty if it is valid."""
    problems = [*resource_problems(model, location), *_artifacts(model)]
    if not model.HasField("container_spec"):
        problems.append(("container_spec", "is required; the emulator serves models of custom containers"))
    else:
        problems += below("container_spec", _container(model.container_spec))
    return list(below("model", problems))


def alias_problems(aliases: list[str], path: str) -> Iterator[Problem]:
    """Yield the problems of version aliases. A leading `-` removes an alias."""
    for index, alias in enumerate(aliases):
        if not _ALIAS.fullmatch(alias.removeprefix("-")):
            yield (
                f"{path}[{index}]",
                f"{alias!r} must match [a-z][a-zA-Z0-9-]{{0,126}}[a-z0-9]: a letter first, {MAX_ALIAS} "
                "characters at most",
            )


def endpoint_problems(endpoint: Pb, location: str) -> list[Problem]:
    """Return every reason to refuse a new endpoint; the result is empty if it is valid."""
    problems = list(resource_problems(endpoint, location))
    for field, feature in _UNSERVED_OF_ENDPOINT.items():
        descriptor = endpoint.DESCRIPTOR.fields_by_name[field]
        if endpoint.HasField(field) if descriptor.message_type else getattr(endpoint, field):
            problems.append((field, f"must be empty: the emulator has no {feature}"))
    if endpoint.traffic_split:
        problems.append(("traffic_split", "must be empty: a new endpoint has no deployed models"))
    return list(below("endpoint", problems))


def deployed_model_problems(deployed: Pb) -> list[Problem]:
    """Return every reason to refuse a DeployedModel, except for its model; the result is empty if it is
    valid."""
    problems: list[Problem] = []
    if not deployed.model:
        problems.append(
            ("model", "is required: projects/P/locations/L/models/MODEL, with @VERSION or @ALIAS")
        )
    if deployed.id and (not _DEPLOYED_ID.fullmatch(deployed.id) or deployed.id == NEW):
        problems.append(("id", f"{deployed.id!r} must be 1 to 10 digits; {NEW} denotes the new model"))
    if len(deployed.display_name) > MAX_DISPLAY_NAME:
        length = len(deployed.display_name)
        problems.append(("display_name", f"has {length} characters; the limit is {MAX_DISPLAY_NAME}"))
    if deployed.HasField("explanation_spec"):
        problems.append(("explanation_spec", "must be empty: the emulator does not support explanations"))
    problems += _resources(deployed)
    return list(below("deployed_model", problems))


def split_problems(split: Mapping[str, int], known: set[str]) -> Iterator[Problem]:
    """Yield the problems with a non-empty traffic split over the ids `known`."""
    path = "traffic_split"
    missing = sorted(set(split) - known)
    if missing:
        has = f"there are {', '.join(sorted(known))}" if known else "there is none"
        yield path, f"The following DeployedModel ID(s) [{', '.join(missing)}] do not exist; {has}"
    for key, value in sorted(split.items()):
        if not 0 <= value <= 100:
            yield f"{path}[{key}]", f"must be a percentage from 0 to 100, not {value}"
    if sum(split.values()) != 100:
        yield path, f"the percentages must add up to 100, not to {sum(split.values())}"


def _artifacts(model: Pb) -> Iterator[Problem]:
    if model.artifact_uri and (problem := uri_problem(model.artifact_uri.rstrip("/"))):
        yield "artifact_uri", problem


def _container(spec: Pb) -> Iterator[Problem]:
    if not spec.image_uri:
        yield "image_uri", "is required"
    for route in ("predict_route", "health_route"):
        if getattr(spec, route) and not _ROUTE.fullmatch(getattr(spec, route)):
            yield route, f"{getattr(spec, route)[:200]!r} must start with / and have printable ASCII only"
    for index, port in enumerate(spec.ports):
        if not 1 <= port.container_port <= 65535:
            yield (
                f"ports[{index}].container_port",
                f"must be a port from 1 to 65535, not {port.container_port}",
            )
    for index, variable in enumerate(spec.env):
        if not _IDENTIFIER.fullmatch(variable.name):
            yield f"env[{index}].name", f"{variable.name!r} must be a C identifier"
    if spec.invoke_route_prefix:
        yield (
            "invoke_route_prefix",
            "must be empty: it needs dedicated endpoints, which the emulator does not have",
        )
    seconds = spec.deployment_timeout.ToNanoseconds() / 1e9
    if spec.HasField("deployment_timeout") and not 0 < seconds <= MAX_TIMEOUT:
        yield "deployment_timeout", f"must be more than 0 and at most {MAX_TIMEOUT} s, not {seconds:g} s"


def _resources(deployed: Pb) -> Iterator[Problem]:
    kind = deployed.WhichOneof("prediction_resources")
    if kind != "dedicated_resources":
        yield "dedicated_resources", "is required; a model of a custom container supports no other resources"
        return
    yield from below("dedicated_resources", dedicated_problems(deployed.dedicated_resources))


def dedicated_problems(resources: Pb) -> Iterator[Problem]:
    """Yield the problems of DedicatedResources. Paths are relative to the message."""
    spec = resources.machine_spec
    if not spec.machine_type:
        yield "machine_spec.machine_type", "is required, e.g. n1-standard-4"
    elif spec.machine_type not in machines() and not _SERIES.fullmatch(spec.machine_type):
        near = difflib.get_close_matches(spec.machine_type, machines(), 2, 0.6)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        yield "machine_spec.machine_type", f"{spec.machine_type!r} must be a machine type{hint}"
    if accelerator_name(spec) and spec.accelerator_count < 1:
        count = spec.accelerator_count
        yield (
            "machine_spec.accelerator_count",
            f"must be at least 1 with {accelerator_name(spec)}, not {count}",
        )
    if spec.accelerator_count and not accelerator_name(spec):
        yield "machine_spec.accelerator_type", f"is required with accelerator_count {spec.accelerator_count}"
    if resources.min_replica_count < 1:
        yield "min_replica_count", f"must be at least 1, not {resources.min_replica_count}"
    if resources.max_replica_count and resources.max_replica_count < resources.min_replica_count:
        yield "max_replica_count", f"must be at least min_replica_count, not {resources.max_replica_count}"
