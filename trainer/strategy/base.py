"""The interface of a parallelism strategy for the training loop and the checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist

from trainer.config import Config
from trainer.data.loader import Batch
from trainer.models.workload import Workload
from trainer.strategy.deferred_copies import StagedState
from trainer.strategy.layout import CheckpointLayout

Weight = float | torch.Tensor
"""Weight of a micro-batch in the mean loss of a step; a tensor is a scalar on the device."""


class Strategy(Protocol):
    """A parallelism strategy, which owns the model, the optimizer and the precision. Every rank calls each
    method. Its constructor takes (config, plan, device); see `registry.StrategyEntry`."""

    name: str
    has_loss_scaler: bool
    """Whether the strategy itself skips steps with infinite gradients, to find its loss scale."""

    @property
    def layout(self) -> CheckpointLayout:
        """The files of its checkpoints; a class attribute, for checkpoints of earlier runs."""

    def setup(self, workload: Workload) -> None:
        """Move, wrap and shard the model, and create the optimizer with all of its state."""

    def forward_backward(self, batch: Batch, weight: Weight = 1.0, *, last: bool) -> torch.Tensor:
        """Accumulate the gradients of a micro-batch's loss times `weight`; return the loss itself, a scalar.

        Only the `last` micro-batch of a step reduces the gradients to their average over the ranks.
        """

    def squared_norm(self) -> torch.Tensor | None:
        """Return this rank's share of the gradient's squared norm, a scalar; the sum over all ranks is the
        squared norm. `None` if only `update` computes the norm."""

    def update(self, rate: float, norm: torch.Tensor | None, keep: torch.Tensor | None) -> torch.Tensor:
        """Clip by `norm`, step the optimizer, zero the gradients; return the norm before clipping, a scalar.

        A step whose `keep`, a scalar, is false leaves weights and moments unchanged; `None` keeps every step.
        """

    def evaluate(self, batch: Batch) -> torch.Tensor:
        """Return the model's output without gradients or dropout: the loss (a scalar), or answers to
        prompts."""

    def stage(self, folder: Path, ranks: dist.ProcessGroup) -> StagedState:
        """Stage the current weights and optimizer state, to be written into `folder`.

        Another thread completes the copies and then writes, on all of `ranks` together; this method raises
        the errors of its writer. A call that changes a copied tensor (`update`, `load`) first finishes the
        copies.
        """

    def prepare_load(self, path: Path, saved_world_size: int) -> None:
        """Convert the checkpoint if the world size differs; called before `load`, on one rank per disk.

        Raises:
            CheckpointError: if the checkpoint can't be converted.
        """

    def load(self, path: Path, saved_world_size: int, ranks: dist.ProcessGroup) -> None:
        """Load a staged checkpoint, in place. Every rank calls it; it may be called again.

        Raises:
            CheckpointError: if the checkpoint can't be read.
        """

    def checkpoint_bytes(self) -> float:
        """Return the size of a checkpoint over all ranks, in bytes."""

    def replicas(self) -> dict[str, dict[str, torch.Tensor]]:
        """Return this rank's parts of weights and optimizer state, by part and name; not copied. Ranks with
        the same part have the same values. A state without a replica on any rank may be missing."""

    def extra_state(self) -> dict[str, Any]:
        """Return the small values that are the same on every rank and that `stage` does not write."""

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Restore the values of `extra_state`."""

    def describe(self) -> dict[str, Any]:
        """Return the facts for the log: name, sizes, precision."""

    def close(self) -> None:
        """Free the buffers of `stage`."""


def compute_dtype(config: Config, device: torch.device) -> torch.dtype:
    """Return the data type in which the model computes."""
    name = config.parallel.precision
    if name == "auto":
        capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
        name = best_precision(capability)
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


def best_precision(capability: tuple[int, int] | None) -> str:
    """Return the precision of a GPU by its compute capability, or of the CPU: GPUs before Ampere (T4, V100)
    have fp16 in their tensor cores and only emulate bf16."""
    if capability is None:
        return "fp32"
    return "bf16" if capability >= (8, 0) else "fp16"
