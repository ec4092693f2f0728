"""What takes figures: TensorBoard, a tuning service, a file; one module beside this one for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from trainer.config import Config


class Sink(Protocol):
    """Rank 0 has the sinks. A sink must not raise: a figure is never worth the training."""

    def record(self, step: int, figures: Mapping[str, float]) -> None:
        """Figures of one reported step, by name, in SI units."""

    def close(self) -> None:
        """Training ends; write what is left."""


def sinks(config: Config, rank: int) -> list[Sink]:
    """The sinks that the settings and the environment ask for."""
    return []
