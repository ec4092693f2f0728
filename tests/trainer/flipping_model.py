"""A model for tests in which a bit of a weight flips on one rank."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn

from trainer.config import Config
from trainer.models.tensor_plan import TensorPlan
from trainer.models.workload import Workload
from trainer.optimizers.sharded import local_shard

FLIPPED = Path("flipped")
"""File in the working directory with the sample at which the bit flipped first."""


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.passes = 0

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        for layer in self.layers:
            values = layer(values).tanh()
        return (values - 1).square().mean()


class Samples:
    """Random rows. After `at` forward passes a bit of a weight flips on rank `rank`; with `again` each time
    that it gets the same sample."""

    def __init__(self, model: Layers, rank: int, at: int, again: bool, name: str) -> None:
        self._model, self._at, self._again, self._name = model, at, again, name
        self._here = int(os.environ["RANK"]) == rank

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> tuple[torch.Tensor]:
        passes = self._model.passes
        if self._here and not FLIPPED.exists() and passes == self._at:
            FLIPPED.write_text(str(index))
            self._flip()
        elif self._here and self._again and passes and FLIPPED.exists() and FLIPPED.read_text() == str(index):
            self._flip()
        return (torch.randn(16, generator=torch.Generator().manual_seed(index)),)

    def _flip(self) -> None:
        weight = local_shard(self._model.get_parameter(self._name).detach())
        weight.view(torch.int32).view(-1)[3] ^= 1 << 12


def build(
    config: Config,
    rank: int = -1,
    at: int = 0,
    *,
    again: bool = False,
    name: str = "layers.0.weight",
    frozen: bool = False,
) -> Workload:
    """`name` is the weight whose bit flips; with `frozen` the first layer is not trained."""
    model = Layers()
    model.layers[0].requires_grad_(not frozen)
    samples = Samples(model, rank, at, again, name)
    plan = TensorPlan({"layers.0": "colwise", "layers.1": "rowwise"}, {"units": 16})
    return Workload(model, list(model.layers), samples, tensor_plan=plan)
