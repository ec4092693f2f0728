"""The service of models and endpoints, as `tui.backends.interface.Services` has it."""

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
    """What the regions have, and why a region could not be read."""

    items: Sequence[T]
    errors: Mapping[str, BackendError]


@dataclass(frozen=True, slots=True)
class Deployment:
    """A version to deploy on one machine. `percents` is the split once it answers; its own key is "0"."""

    model: str
    """Full resource name with @VERSION."""
    machine: str
    percents: Mapping[str, int]
    """Empty leaves the split as it is then, and the new one without requests."""
    id: str = ""
    """Of the deployed model, up to ten digits; "" lets the service choose."""
    accelerator: tuple[str, int] = ("", 0)
    """Its type in the API, and how many."""


class ServingService(ABC):
    """Models of the registry, and endpoints."""

    @abstractmethod
    async def models(self) -> RegionResults[Model]:
        """The default version of each model of every region, newest first."""

    @abstractmethod
    async def versions(self, model: str) -> Sequence[Model]:
        """Every version of the model with this full resource name, newest first. Raises BackendError."""

    @abstractmethod
    async def endpoints(self) -> RegionResults[ServingEndpoint]:
        """List the endpoints of every region with their deployed models, newest first."""

    @abstractmethod
    async def endpoint(self, name: str) -> ServingEndpoint:
        """One endpoint by its full resource name. Raises BackendError."""

    @abstractmethod
    async def loads(self, endpoints: Sequence[ServingEndpoint]) -> Mapping[tuple[str, str], Load]:
        """Requests, errors and latencies of the last minutes, by (endpoint's name, id of the deployed model).

        Those of which nothing was measured are left out. Raises BackendError.
        """

    @abstractmethod
    async def log(self, endpoint: str, deployed_id: str = "", limit: int = 200) -> Sequence[LogEntry]:
        """The newest lines of the model servers of an endpoint, or of one deployed model, oldest first.

        `replica` of an entry is the id of its deployed model. Raises BackendError.
        """

    @abstractmethod
    async def deploy(self, endpoint: str, wanted: Deployment) -> ServingEndpoint:
        """Deploy a version and wait until it answers: minutes. The endpoint as it is then.

        Raises BackendError; a deployment that could not be waited for to its end goes on by itself.
        """

    @abstractmethod
    async def undeploy(self, endpoint: str, deployed_id: str) -> ServingEndpoint:
        """Take a deployed model off an endpoint. The endpoint as it is then. Raises BackendError."""

    @abstractmethod
    async def split(self, endpoint: str, percents: Mapping[str, int], etag: str = "") -> ServingEndpoint:
        """Send that percent of an endpoint's requests to each deployed model, by its id.

        The endpoint as it is then. Raises BackendError; FailedPrecondition where the endpoint's etag is not
        this one any more.
        """
