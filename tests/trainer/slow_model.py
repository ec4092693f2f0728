"""A model for tests with a slow first forward pass and slow evaluations."""

from __future__ import annotations

import time

import torch
from torch import nn

from trainer.config import Config
from trainer.models.workload import Workload


class Slow(nn.Module):
    """`floor` is the run's --hang-floor, in seconds."""

    def __init__(self, floor: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
        self._first, self._evaluation = 2 * floor, 0.7 * floor

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        time.sleep((self._first if self.training else self._evaluation) or 0.02)
        if self.training:
            self._first = 0.0
        for layer in self.layers:
            values = layer(values).relu()
        return values.float().square().mean()


class Samples:
    """Random rows."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> tuple[torch.Tensor]:
        return (torch.randn(64, generator=torch.Generator().manual_seed(index)),)


def build(config: Config, floor: float = 40.0) -> Workload:
    model = Slow(floor)
    return Workload(model, list(model.layers), Samples(), evaluation=Samples())
