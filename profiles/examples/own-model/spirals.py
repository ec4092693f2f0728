import math

import torch
from torch import nn
from torch.nn import functional as F

from trainer.config import Config
from trainer.models.workload import Workload


class Spirals:
    """Points of two spirals with their spiral: any dataset with a length and tuples as samples works."""

    def __init__(self, points: int, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        turn, self.spiral = torch.rand(points, generator=random), torch.arange(points) % 2
        angle = 3 * math.pi * turn + math.pi * self.spiral
        self.point = torch.stack((turn * angle.cos(), turn * angle.sin()), dim=1)

    def __len__(self) -> int:
        return len(self.point)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.point[index], self.spiral[index]


class Classifier(nn.Module):
    """Takes the values of samples, stacked to a batch; returns the mean loss of the batch."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, width), nn.Linear(width, 2)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(depth)
        )

    def forward(self, point: torch.Tensor, spiral: torch.Tensor) -> torch.Tensor:
        hidden = self.first(point)
        for layer in self.layers:
            hidden = hidden + layer(hidden)
        return F.cross_entropy(self.last(hidden).float(), spiral)


def build(config: Config, width: int = 64, depth: int = 3) -> Workload:
    model = Classifier(width, depth)
    train, evaluation = Spirals(4096, config.seed), Spirals(512, config.seed + 1)
    # The flags shard, compile or recompute each of these blocks.
    return Workload(model, list(model.layers), train, evaluation=evaluation)
