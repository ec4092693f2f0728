"""A workload: a model, its repeated blocks, and its samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from trainer.data.loader import Dataset


@dataclass(frozen=True, slots=True)
class Workload:
    """What the training loop needs of a model.

    `model(*batch)` is the mean loss of a micro-batch, a scalar. `blocks` are the repeated parts: FSDP,
    activation checkpointing and torch.compile apply to each. `flops_per_token` is for a forward and
    backward pass; with `None` the first pass is counted.
    """

    model: nn.Module
    blocks: Sequence[nn.Module]
    train: Dataset
    tokens_per_sample: int
    evaluation: Dataset | None = None
    flops_per_token: float | None = None
