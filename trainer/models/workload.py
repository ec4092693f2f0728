"""What is trained on what: a model, its repeated blocks, and its samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from trainer.data.loader import Dataset


@dataclass(frozen=True, slots=True)
class Workload:
    """All that the training loop needs of a model.

    `model(*batch)` is the mean loss of a micro-batch, a scalar. `blocks` are the repeated parts: FSDP shards
    each of them, activation checkpointing and torch.compile take them one by one. `flops_per_token` counts a
    forward and backward pass; with `None` the first pass is measured.
    """

    model: nn.Module
    blocks: Sequence[nn.Module]
    train: Dataset
    tokens_per_sample: int
    evaluation: Dataset | None = None
    flops_per_token: float | None = None
