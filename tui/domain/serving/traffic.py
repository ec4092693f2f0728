"""Models of the registry, and the endpoints that serve them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime


class SplitError(ValueError):
    """An invalid traffic split."""


@dataclass(frozen=True, slots=True)
class Model:
    """One version of a model."""

    name: str
    """Full resource name, without the version."""
    display_name: str
    region: str
    version: str
    context: str = ""
    aliases: tuple[str, ...] = ()
    create_time: datetime | None = None
    image: str = ""
    """URI of the serving container."""
    artifacts: str = ""
    """gs:// folder with the model's weights."""
    made_by: str = ""
    """Full resource name of the training pipeline or pipeline that created the model."""
    endpoints: tuple[str, ...] = ()
    """Full resource names of the endpoints that serve this version."""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def versioned(self) -> str:
        """Full resource name with the version."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Deployed:
    """A version of a model on an endpoint, with `percent` of the endpoint's requests."""

    id: str
    model: str
    version: str
    display_name: str
    percent: int
    machine: str = ""
    replicas: tuple[int, int] | None = None
    """Minimum and maximum number; `None` on shared machines."""
    accelerator: str = ""
    accelerator_count: int = 0
    create_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class ServingEndpoint:
    """An endpoint that serves predictions."""

    name: str
    display_name: str
    region: str
    context: str = ""
    create_time: datetime | None = None
    deployed: tuple[Deployed, ...] = ()
    etag: str = ""
    """The etag that was read; the service refuses a change with an outdated etag."""

    @property
    def id(self) -> str:
        return self.name.rpartition("/")[2]


def traffic_split(deployed: Sequence[Deployed], requested: Mapping[str, int]) -> dict[str, int]:
    """Return the percentage of the requests by id of every deployed model; 0 for models that `requested`
    lacks. A key of `requested` is the id of a deployed model, or the version of its model if only one
    deployed model has it. Raises SplitError for an unknown or ambiguous key, or if the percentages don't add
    up to 100."""
    split = {model.id: 0 for model in deployed}
    keys: dict[str, str] = {}
    for key, percent in requested.items():
        fits = [model.id for model in deployed if model.id == key] or [
            model.id for model in deployed if model.version == key
        ]
        if len(fits) != 1:
            reason = f"{len(fits)} deployed models have the version {key}: write an id" if fits else (
                f"no deployed model has the id or the version {key}"
            )  # fmt: skip
            known = ", ".join(f"{model.id} (version {model.version})" for model in deployed) or "none"
            raise SplitError(f"{reason[0].upper()}{reason[1:]}. Deployed: {known}.")
        if fits[0] in keys:
            raise SplitError(f"{keys[fits[0]]} and {key} are the same deployed model.")
        if not 0 <= percent <= 100:
            raise SplitError(f"{key}={percent}: a percentage must be from 0 to 100.")
        keys[fits[0]] = key
        split[fits[0]] = percent
    if sum(split.values()) != 100:
        raise SplitError(f"The percentages must add up to 100, not to {sum(split.values())}.")
    return split
