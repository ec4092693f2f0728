"""What a supervisor runs and restarts: the trainer, or a user's own script."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from trainer.config import LaunchConfig
from trainer.metrics.goodput import RecordedStep
from trainer.placement.topology import Topology

HANG_FOLDER = "hangs"
"""Beside the checkpoints."""


class Program(Protocol):
    """A program as its supervisor sees it. `launch` has processes and timeouts; times are in seconds."""

    @property
    def launch(self) -> LaunchConfig: ...

    @property
    def grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL."""

    @property
    def uses_gpus(self) -> bool:
        """Whether a node with GPUs gets a process for each."""

    @property
    def prints_text(self) -> bool:
        """Whether its processes print what they like, also a line without its end."""

    @property
    def hang_folder(self) -> Path:
        """Where the reports of hangs are written."""

    def arguments(self) -> list[str]:
        """The command line of the fork server, without its first two words."""

    def open(self, topology: Topology) -> None:
        """Start what goes with its processes on this node for all attempts."""

    def close(self) -> None:
        """End what `open` has started."""

    def variables(self, address: str) -> dict[str, str]:
        """Variables of its processes, besides those of torchrun; other nodes reach this one at `address`."""

    def saves(self) -> frozenset[tuple[str, int]]:
        """Its checkpoints on this node's disk: the name of each, and when it was completed (epoch ns)."""

    def newest_step(self) -> int:
        """Highest step of a checkpoint on this node's disk; -1 if there is none, or it is not known."""

    def has_checkpoint(self) -> bool:
        """Whether a restart would continue from a checkpoint."""

    def is_done(self) -> bool:
        """Whether its last step is saved, and a start would only find that; False where that is not known."""

    def last_step(self) -> RecordedStep | None:
        """The last step that its processes recorded; None if there is none."""

    def can_use(self, processes: int) -> bool:
        """Whether it runs with so many processes in all."""

    def final_codes(self, *, signalled: bool) -> frozenset[int]:
        """Exit codes of its processes after which another attempt is pointless."""

    def outcome(self, code: int, *, signalled: bool) -> int:
        """What the exit code of its processes means; `signalled`: after a signal to the supervisor."""
