"""The service of models and endpoints, as `tui.backends.interface.Services` has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tui.backends.errors import BackendError
from tui.domain.serving.traffic import Model, ServingEndpoint

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """What the regions have, and why a region could not be read."""

    items: Sequence[T]
    errors: Mapping[str, BackendError]


class ServingService(ABC):
    """Models of the registry, and endpoints."""

    @abstractmethod
    async def models(self) -> Found[Model]:
        """The default version of each model of every region, newest first."""

    @abstractmethod
    async def versions(self, model: str) -> Sequence[Model]:
        """Every version of the model with this full resource name, newest first. Raises BackendError."""

    @abstractmethod
    async def endpoints(self) -> Found[ServingEndpoint]:
        """The endpoints of every region with what is deployed to them, newest first."""

    @abstractmethod
    async def split(self, endpoint: str, percents: Mapping[str, int]) -> ServingEndpoint:
        """Send that percent of an endpoint's requests to each deployed model, by its id.

        The endpoint as it is then. Raises BackendError.
        """
