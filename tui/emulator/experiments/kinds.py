"""The kinds of resources that are kept by name: their names, messages and requests.

Those that experiments consist of, and models, endpoints, persistent resources and schedules.

A name is a path of collections and ids, e.g. projects/P/locations/L/metadataStores/S/contexts/C. Each kind
but the two uppermost lives below another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.cloud.aiplatform_v1.types import (
    artifact,
    context,
    endpoint,
    endpoint_service,
    execution,
    metadata_schema,
    metadata_service,
    metadata_store,
    model,
    model_service,
    persistent_resource,
    persistent_resource_service,
    schedule,
    schedule_service,
    tensorboard,
    tensorboard_experiment,
    tensorboard_run,
    tensorboard_service,
    tensorboard_time_series,
)

METADATA = "google.cloud.aiplatform.v1.MetadataService"
TENSORBOARD = "google.cloud.aiplatform.v1.TensorboardService"
MODELS = "google.cloud.aiplatform.v1.ModelService"
ENDPOINTS = "google.cloud.aiplatform.v1.EndpointService"
PERSISTENT_RESOURCES = "google.cloud.aiplatform.v1.PersistentResourceService"
SCHEDULES = "google.cloud.aiplatform.v1.ScheduleService"
_LOCATION = r"projects/[^/]+/locations/[^/]+"
_ID = r"[^/]+"
_BOARD_ID = r"[a-z0-9][a-z0-9-]{0,127}"


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One kind. `noun` is its name in those of the RPCs, `field` in their requests."""

    noun: str
    field: str
    service: str
    path: str
    """Collections from the location on, e.g. metadataStores/contexts."""
    message: Any
    """The plain protobuf class."""
    requests: Any
    """The module with its requests."""
    id_pattern: str = _BOARD_ID
    """What a client may choose as id (documented in the create requests)."""

    @property
    def collection(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def plural(self) -> str:
        return self.noun if self.noun.endswith("Series") else f"{self.noun}s"

    def request(self, verb: str) -> Any:
        """The plain class of a request such as `Create` or `List`."""
        noun = self.plural if verb in {"List", "Purge"} else self.noun
        return getattr(self.requests, f"{verb}{noun}Request").pb()

    def reply(self, verb: str) -> Any:
        """The plain class of a response such as that of `List`."""
        return getattr(self.requests, f"{verb}{self.plural}Response").pb()

    @property
    def names(self) -> re.Pattern[str]:
        """Matches the names of its resources."""
        return re.compile("/".join([_LOCATION, *(f"{each}/{_ID}" for each in self.path.split("/"))]))

    @property
    def parents(self) -> re.Pattern[str]:
        """Matches the names under which its resources are created."""
        above = self.path.split("/")[:-1]
        return re.compile("/".join([_LOCATION, *(f"{each}/{_ID}" for each in above)]))


def _metadata(noun: str, field: str, path: str, message: Any, id_pattern: str) -> ResourceKind:
    return ResourceKind(noun, field, METADATA, path, message.pb(), metadata_service, id_pattern)


def _board(noun: str, field: str, path: str, message: Any) -> ResourceKind:
    return ResourceKind(noun, field, TENSORBOARD, path, message.pb(), tensorboard_service)


_NODE = r"[a-z0-9_][a-z0-9_-]{0,127}"
STORE = _metadata(
    "MetadataStore", "metadata_store", "metadataStores", metadata_store.MetadataStore,
    r"[a-zA-Z0-9_-]{1,128}",
)  # fmt: skip
CONTEXT = _metadata("Context", "context", "metadataStores/contexts", context.Context, _NODE)
EXECUTION = _metadata("Execution", "execution", "metadataStores/executions", execution.Execution, _NODE)
ARTIFACT = _metadata("Artifact", "artifact", "metadataStores/artifacts", artifact.Artifact, _NODE)
SCHEMA = _metadata(
    "MetadataSchema", "metadata_schema", "metadataStores/metadataSchemas", metadata_schema.MetadataSchema,
    _NODE,
)  # fmt: skip
BOARD = _board("Tensorboard", "tensorboard", "tensorboards", tensorboard.Tensorboard)
EXPERIMENT = _board(
    "TensorboardExperiment", "tensorboard_experiment", "tensorboards/experiments",
    tensorboard_experiment.TensorboardExperiment,
)  # fmt: skip
RUN = _board(
    "TensorboardRun", "tensorboard_run", "tensorboards/experiments/runs", tensorboard_run.TensorboardRun
)
SERIES = _board(
    "TensorboardTimeSeries", "tensorboard_time_series", "tensorboards/experiments/runs/timeSeries",
    tensorboard_time_series.TensorboardTimeSeries,
)  # fmt: skip
MODEL = ResourceKind(
    "Model", "model", MODELS, "models", model.Model.pb(), model_service, r"[a-z_][a-z0-9_-]{0,62}"
)
VERSION = ResourceKind("ModelVersion", "model", MODELS, "models/versions", model.Model.pb(), model_service)
"""A version of a model. The API has no such resource: it writes the model's name, @ and the number."""
ENDPOINT = ResourceKind(
    "Endpoint", "endpoint", ENDPOINTS, "endpoints", endpoint.Endpoint.pb(), endpoint_service,
    r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?|[1-9][0-9]{0,8}",
)  # fmt: skip
PERSISTENT = ResourceKind(
    "PersistentResource", "persistent_resource", PERSISTENT_RESOURCES, "persistentResources",
    persistent_resource.PersistentResource.pb(), persistent_resource_service,
    r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?",
)  # fmt: skip
SCHEDULE = ResourceKind(
    "Schedule", "schedule", SCHEDULES, "schedules", schedule.Schedule.pb(), schedule_service
)
KINDS = (
    *(STORE, CONTEXT, EXECUTION, ARTIFACT, SCHEMA, BOARD, EXPERIMENT, RUN, SERIES),
    *(MODEL, VERSION, ENDPOINT, PERSISTENT, SCHEDULE),
)
BY_COLLECTION: Mapping[str, ResourceKind] = {kind.collection: kind for kind in KINDS}


def kind_of(name: str) -> ResourceKind:
    """The kind of a stored resource's name. Raises KeyError."""
    return BY_COLLECTION[name.rsplit("/", 2)[-2]]


def location_of(name: str) -> tuple[str, str]:
    """Project and location of a resource's or a parent's name."""
    _, project, _, location = name.split("/")[:4]
    return project, location
