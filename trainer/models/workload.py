"""A workload: a model, its repeated blocks, and its samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from trainer.data.loader import Batch, Collate, Dataset
from trainer.models.tensor_plan import TensorPlan
from trainer.weights.source import WeightSource, materialize


class AnswerMetric(Protocol):
    """Measures the accuracy of a model's answers to questions of held-out samples."""

    def prompts(self, batch: Batch) -> Batch:
        """Return the micro-batch without its answers: `model(*prompts)` generates them, a tensor [B, …]."""

    def accuracies(self, samples: Sequence[int], answers: torch.Tensor) -> list[float]:
        """Return the accuracy, 0 to 1, of each generated answer of these held-out samples."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A model with its data for the training loop.

    `model(*batch)` is the mean loss of a micro-batch over its targets, a scalar; 0 if there are no targets.
    `blocks` are the repeated parts, to each of which FSDP, activation checkpointing and torch.compile apply;
    there may be none. `train` are the samples, each a tuple of tensors, which are stacked to a micro-batch
    and passed in order.

    With `evaluation`, --eval-every computes the mean loss of these samples. `tokens_per_sample` is for the
    speed in the log. `flops_per_token` counts a forward and backward pass; with `None` the first pass is
    measured.

    `count_targets` returns the number of targets of a micro-batch on the CPU, if samples differ in their
    number. Each target then has an equal weight in the loss and the gradient, for any split of a batch. With
    `None`, each sample has an equal weight.

    FSDP and DeepSpeed keep the weights for the forward pass in --precision, and convert the floating-point
    tensors of a batch to it, except for a model that `converts_inputs` itself.

    `collate` makes a micro-batch from a list of samples; with `None` their tensors are stacked. `measured`
    returns further values of this rank's steps since the last call, for the log. With `answers`, an
    evaluation also has an accuracy. `probe` is a forward pass of one sample of the largest size, independent
    of values, for --micro-batch auto; with `None` the model is called with a sample.

    `tensor_plan` is for --tensor-parallel; a model without it can't be divided.

    Weights of the model may be on the meta device; `weights` then sets them where the strategy stores them.
    Buffers must not be on the meta device.
    """

    model: nn.Module
    blocks: Sequence[nn.Module]
    train: Dataset
    tokens_per_sample: int = 1
    evaluation: Dataset | None = None
    flops_per_token: float | None = None
    count_targets: Callable[[Batch], int] | None = None
    converts_inputs: bool = False
    collate: Collate | None = None
    answers: AnswerMetric | None = None
    probe: Callable[[], object] | None = None
    measured: Callable[[], Mapping[str, float]] | None = None
    weights: WeightSource | None = None
    tensor_plan: TensorPlan | None = None

    def materialize(self, device: torch.device) -> nn.Module:
        """Set the weights on the meta device, on `device`, and return the model. Raises UsageError if weights
        can't be read."""
        materialize(self.model, self.weights, device)
        return self.model

    def targets(self, batch: Batch) -> int:
        """Return the number of targets of a micro-batch on the CPU; the number of its samples without
        `count_targets`."""
        return len(batch[0]) if self.count_targets is None else self.count_targets(batch)

    def figures(self) -> Mapping[str, float]:
        """Return the values of `measured`, {} without it."""
        return {} if self.measured is None else self.measured()
