"""Scarce resources on request: no quota, no machines, slow provisioning, an image that can't be pulled.

The messages are the service's (docs/facts/vertex.md 13.1 and 16), except the one about an image.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from google.rpc import code_pb2

from tui.emulator.faults.limit import Limit


@dataclass(frozen=True, slots=True)
class Scarcity:
    """The resources that new jobs lack. `quota` is a metric such as `custom_model_training_nvidia_l4_gpus`,
    or `*`."""

    quota: str = ""
    stockout: bool = False
    image: bool = False
    delay: float = 0.0
    """Additional duration of provisioning, in seconds."""


def quota_refusal(metrics: Collection[str]) -> str:
    """Return the service's refusal of a job for lack of these metrics."""
    names = ", ".join(f"aiplatform.googleapis.com/{name}" for name in metrics)
    return f"The following quota metrics exceed quota limits: {names}"


class ActiveScarcity:
    """The scarcity in force."""

    def __init__(self) -> None:
        self._scarcity, self._limit = Scarcity(), Limit()

    def set(self, scarcity: Scarcity, limit: Limit) -> None:
        """Replace the scarcity; jobs that wait for machines go on if there is no stockout any more."""
        self._limit.end()
        self._scarcity, self._limit = scarcity, limit

    @property
    def current(self) -> Scarcity:
        """The scarcity that applies to the next job."""
        return Scarcity() if self._limit.used_up else self._scarcity

    def fields(self) -> dict[str, Any]:
        """Return the fields that the admin shows."""
        current = self.current
        return asdict(current) | (self._limit.fields() if current != Scarcity() else {})

    def quota_error(self, metrics: Collection[str]) -> str:
        """Return the refusal of a job that needs these metrics, or "" if there is enough quota."""
        metric = self.current.quota.removeprefix("aiplatform.googleapis.com/")
        lacking = sorted(metrics) if metric == "*" else [metric] if metric in metrics else []
        if not lacking or not self._limit.take():
            return ""
        return quota_refusal(lacking)

    def provisioning_error(self, region: str, image: str) -> tuple[int, str] | None:
        """Return the google.rpc code and message of a job whose machines or image are missing."""
        current = self.current
        if not (current.stockout or current.image) or not self._limit.take():
            return None
        if current.stockout:
            text = f"Resources are insufficient in region: {region}. Please try a different region."
            return code_pb2.RESOURCE_EXHAUSTED, text
        return code_pb2.INVALID_ARGUMENT, f"The image {image} does not exist."
