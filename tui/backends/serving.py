"""The service of models and endpoints in `tui.backends.interface.Services`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tui.backends.errors import BackendError
from tui.domain.core.log_entry import LogEntry
from tui.domain.serving.load import Load
from tui.domain.serving.traffic import Model, ServingEndpoint

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RegionResults(Generic[T]):
    """The items of all regions, and the errors of regions that could not be read."""

    items: Sequence[T]
    errors: Mapping[str, BackendError]


@dataclass(frozen=True, slots=True)
class Deployment:
    """A model version to deploy on one machine."""

    model: str
    """Full resource name of the model, with @VERSION."""
    machine: str
    percents: Mapping[str, int]
    """Traffic split to set once the version serves; "0" stands for this version. Empty leaves the split
    unchanged."""
    id: str = ""
    """Id of the deployed model, up to ten digits; "" lets the service choose an id."""
    accelerator: tuple[str, int] = ("", 0)
    """Accelerator type in the API, and count."""


class ServingService(ABC):
    """Models of the registry, and endpoints."""

    @abstractmethod
    async def models(self) -> RegionResults[Model]:
        """Return the default version of each model of every region, newest first."""

    @abstractmethod
    async def versions(self, model: str) -> Sequence[Model]:
        """Return every version of the model with this full resource name, newest first. Raises
        BackendError."""

    @abstractmethod
    async def endpoints(self) -> RegionResults[ServingEndpoint]:
        """Return the endpoints of every region with their deployed models, newest first."""

    @abstractmethod
    async def endpoint(self, name: str) -> ServingEndpoint:
        """Return one endpoint by its full resource name. Raises BackendError."""

    @abstractmethod
    async def loads(self, endpoints: Sequence[ServingEndpoint]) -> Mapping[tuple[str, str], Load]:
        """Return requests, errors and latencies of the last minutes, by (endpoint name, deployed model id).

        Models without measurements are left out. Raises BackendError.
        """

    @abstractmethod
    async def log(self, endpoint: str, deployed_id: str = "", limit: int = 200) -> Sequence[LogEntry]:
        """Return the newest lines of the model servers of an endpoint, or of one deployed model, oldest
        first.

        `replica` of an entry is the id of the deployed model. Raises BackendError.
        """

    @abstractmethod
    async def deploy(self, endpoint: str, deployment: Deployment) -> ServingEndpoint:
        """Deploy a version and wait for minutes until it serves. Return the updated endpoint.

        Raises BackendError. If the call fails before the deployment ends, the deployment continues
        automatically.
        """

    @abstractmethod
    async def undeploy(self, endpoint: str, deployed_id: str) -> ServingEndpoint:
        """Remove a deployed model from an endpoint. Return the updated endpoint. Raises BackendError."""

    @abstractmethod
    async def split(self, endpoint: str, percents: Mapping[str, int], etag: str = "") -> ServingEndpoint:
        """Set the percentage of an endpoint's requests for each deployed model, by the model's id.

        Return the updated endpoint. Raises BackendError, or FailedPrecondition if the endpoint's etag has
        changed.
        """
