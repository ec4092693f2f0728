"""Layouts of a checkpoint's files, by the strategy that wrote the checkpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch.distributed.checkpoint as dcp

from trainer.errors import CheckpointError
from trainer.registry import STRATEGIES, resolve
from trainer.weights.saved import DcpWeights, SavedWeights

_PART = re.compile(r"__(\d+)_\d+\.distcp")


class CheckpointLayout(Protocol):
    """The layout of a strategy's checkpoints, a class attribute of each strategy."""

    @property
    def name(self) -> str:
        """The value of `layout` in its manifests."""

    @property
    def family(self) -> str:
        """The family of the strategy; strategies of a family load each other's checkpoints."""

    @property
    def replicated(self) -> bool:
        """Whether every node's copy has the complete state, because all ranks have it."""

    def writer(self, name: str) -> int | None:
        """Return the rank that wrote a file that only ranks with the same shards read; None for a file that
        all ranks read."""

    def open_weights(self, path: Path) -> SavedWeights:
        """Open every weight by its name in the model, from a folder that has all files.

        Raises the errors of `SavedWeights.fill`.
        """


@dataclass(frozen=True, slots=True)
class DcpLayout:
    """A `CheckpointLayout` of torch.distributed.checkpoint, which loads at any world size."""

    name: str
    replicated: bool
    family: str = "dcp"

    def writer(self, name: str) -> int | None:
        """Return the rank that wrote a part: torch writes each shard once, on any of the ranks that have the
        shard. All ranks read the index of the parts."""
        part = _PART.fullmatch(name)
        return int(part[1]) if part else None

    def open_weights(self, path: Path) -> SavedWeights:
        return DcpWeights(dcp.FileSystemReader(path), "model.")


COPIES = DcpLayout("copies", replicated=True)
"""Layout of a replica on each node, in shards on the ranks of the node (`--elastic` with fsdp)."""


def layout_of(strategy: str, layout: str) -> CheckpointLayout:
    """Return the layout of a checkpoint, by the names of strategy and layout in its manifest. Raises
    CheckpointError if the strategy does not exist in this trainer."""
    entry = STRATEGIES.get(strategy)
    if entry is None:
        raise CheckpointError(
            f"the checkpoint was saved by the strategy {strategy}, which this trainer does not have"
        )
    if layout == COPIES.name:
        return COPIES
    usual: CheckpointLayout = resolve(entry.target).layout
    return usual
