"""Kinds of resources that are stored by name: names, messages and requests.

The kinds are the resources of experiments, and models, endpoints, persistent resources and schedules. A name
is a path of collections and ids, e.g. projects/P/locations/L/metadataStores/S/contexts/C. Every kind except
the two topmost kinds has a parent.
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

from tui.emulator.messages import snake_case

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
    """One kind of resource. `noun` is the kind's name in the names of RPCs."""

    noun: str
    service: str
    path: str
    """Collections below the location, e.g. metadataStores/contexts."""
    message: Any
    """The plain protobuf class."""
    requests: Any
    """The module with the kind's requests."""
    id_pattern: str = _BOARD_ID
    """Pattern of ids that a client may choose (documented in the create requests)."""
    operations: frozenset[str] = frozenset()
    """Verbs (`Create`, `Update`) whose reply is an operation."""

    @property
    def field(self) -> str:
        """Field name of the resource in requests."""
        return snake_case(self.noun)

    @property
    def collection(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def plural(self) -> str:
        return self.noun if self.noun.endswith("Series") else f"{self.noun}s"

    def reply(self, verb: str) -> Any:
        """Return the plain protobuf class of the response to a verb such as `List`."""
        return getattr(self.requests, f"{verb}{self.plural}Response").pb()

    @property
    def names(self) -> re.Pattern[str]:
        """Pattern of the names of resources of this kind."""
        return re.compile(
            "/".join([_LOCATION, *(f"{collection}/{_ID}" for collection in self.path.split("/"))])
        )

    @property
    def parents(self) -> re.Pattern[str]:
        """Pattern of the names of possible parents."""
        above = self.path.split("/")[:-1]
        return re.compile("/".join([_LOCATION, *(f"{collection}/{_ID}" for collection in above)]))


def _metadata(noun: str, path: str, message: Any, id_pattern: str, *operations: str) -> ResourceKind:
    return ResourceKind(
        noun, METADATA, path, message.pb(), metadata_service, id_pattern, frozenset(operations)
    )


def _board(noun: str, path: str, message: Any, *operations: str) -> ResourceKind:
    return ResourceKind(
        noun, TENSORBOARD, path, message.pb(), tensorboard_service, _BOARD_ID, frozenset(operations)
    )


_NODE = r"[a-z0-9_][a-z0-9_-]{0,127}"
STORE = _metadata(
    "MetadataStore", "metadataStores", metadata_store.MetadataStore, r"[a-zA-Z0-9_-]{1,128}", "Create"
)
CONTEXT = _metadata("Context", "metadataStores/contexts", context.Context, _NODE)
EXECUTION = _metadata("Execution", "metadataStores/executions", execution.Execution, _NODE)
ARTIFACT = _metadata("Artifact", "metadataStores/artifacts", artifact.Artifact, _NODE)
SCHEMA = _metadata("MetadataSchema", "metadataStores/metadataSchemas", metadata_schema.MetadataSchema, _NODE)
BOARD = _board("Tensorboard", "tensorboards", tensorboard.Tensorboard, "Create", "Update")
EXPERIMENT = _board(
    "TensorboardExperiment", "tensorboards/experiments", tensorboard_experiment.TensorboardExperiment
)
RUN = _board("TensorboardRun", "tensorboards/experiments/runs", tensorboard_run.TensorboardRun)
SERIES = _board(
    "TensorboardTimeSeries",
    "tensorboards/experiments/runs/timeSeries",
    tensorboard_time_series.TensorboardTimeSeries,
)
MODEL = ResourceKind("Model", MODELS, "models", model.Model.pb(), model_service, r"[a-z_][a-z0-9_-]{0,62}")
VERSION = ResourceKind("ModelVersion", MODELS, "models/versions", model.Model.pb(), model_service)
"""A version of a model. The API has no such resource, but writes the model's name, @ and the version."""
_NAME = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
ENDPOINT = ResourceKind(
    "Endpoint", ENDPOINTS, "endpoints", endpoint.Endpoint.pb(), endpoint_service,
    rf"{_NAME}|[1-9][0-9]{{0,8}}", frozenset({"Create"}),
)  # fmt: skip
PERSISTENT = ResourceKind(
    "PersistentResource", PERSISTENT_RESOURCES, "persistentResources",
    persistent_resource.PersistentResource.pb(), persistent_resource_service, _NAME,
    frozenset({"Create", "Update"}),
)  # fmt: skip
SCHEDULE = ResourceKind("Schedule", SCHEDULES, "schedules", schedule.Schedule.pb(), schedule_service)
KINDS = (
    *(STORE, CONTEXT, EXECUTION, ARTIFACT, SCHEMA, BOARD, EXPERIMENT, RUN, SERIES),
    *(MODEL, VERSION, ENDPOINT, PERSISTENT, SCHEDULE),
)
BY_COLLECTION: Mapping[str, ResourceKind] = {kind.collection: kind for kind in KINDS}


def kind_of(name: str) -> ResourceKind:
    """Return the kind of the resource with this name. Raises KeyError."""
    return BY_COLLECTION[name.rsplit("/", 2)[-2]]


def location_of(name: str) -> tuple[str, str]:
    """Return project and location of a resource's or a parent's name."""
    _, project, _, location = name.split("/")[:4]
    return project, location
