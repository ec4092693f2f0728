"""The interface of a program that a supervisor runs and restarts: the trainer, or a user's own script."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from trainer.config import LaunchConfig
from trainer.metrics.goodput import RecordedStep
from trainer.placement.topology import Topology

HANG_FOLDER = "hangs"
"""Name of the folder for hang reports, next to the checkpoints."""


class Program(Protocol):
    """A program that a supervisor runs. `launch` has processes and timeouts; times are in seconds."""

    @property
    def launch(self) -> LaunchConfig: ...

    @property
    def grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL."""

    @property
    def uses_gpus(self) -> bool:
        """Whether a node with GPUs gets one process per GPU."""

    @property
    def prints_text(self) -> bool:
        """Whether the program prints free text, possibly without a final newline."""

    @property
    def hang_folder(self) -> Path:
        """Folder of the hang reports."""

    def arguments(self) -> list[str]:
        """Return the arguments of the fork server."""

    def open(self, topology: Topology) -> None:
        """Start the resources that its processes need on this node for all attempts."""

    def close(self) -> None:
        """Stop the resources that `open` started."""

    def variables(self, address: str) -> dict[str, str]:
        """Return the environment variables of the program's processes, in addition to those of torchrun.
        `address` is the address of this node for other nodes."""

    def saves(self) -> frozenset[tuple[str, int]]:
        """Return the program's checkpoints on this node's disk: name and completion time (epoch ns) of
        each."""

    def newest_step(self) -> int:
        """Return the highest step of a checkpoint on this node's disk, or -1 if there is none or it is
        unknown."""

    def has_checkpoint(self) -> bool:
        """Return whether a restart would continue from a checkpoint."""

    def is_done(self) -> bool:
        """Return whether the program's last step is saved, so that a restart has nothing to do; the result is
        False if this is unknown."""

    def last_step(self) -> RecordedStep | None:
        """Return the last step that its processes recorded, or None if there is none."""

    def can_use(self, processes: int) -> bool:
        """Return whether the program can run with this total number of processes."""

    def final_codes(self, *, signalled: bool) -> frozenset[int]:
        """Return the exit codes of its processes after which another attempt is pointless."""

    def outcome(self, code: int, *, signalled: bool) -> int:
        """Return the outcome of its processes' exit code; `signalled` is true after a signal to the
        supervisor."""
