"""What several tests share with test_checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from trainer.config import Config, parse
from trainer.data.text import Windows
from trainer.distributed.batch_plan import BatchPlan
from trainer.models.workload import Workload
from trainer.strategy.ddp import DDP

TEXT = torch.arange(2000, dtype=torch.int64).remainder(251).to(torch.uint8)
CPU = torch.device("cpu")
PROGRESS = {"position": 8}


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(8, 8)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (self.one(tokens.float()) - targets).square().mean()


def strategy() -> DDP:
    torch.manual_seed(1)
    model, data = Toy(), Windows(TEXT, 8)
    found = DDP(parse([]), BatchPlan.of(4, 4, 1), CPU)
    found.setup(Workload(model, [model.one], data, tokens_per_sample=8))
    batch = tuple(torch.stack(column) for column in zip(*(data[n] for n in range(4)), strict=True))
    found.forward_backward(batch, last=True)
    found.update(1e-2, found.squared_norm(), None)
    return found


def config(folder: Path, *flags: str) -> Config:
    return parse([f"--checkpoint-dir={folder}", "--keep=2", "--grace=0", *flags])
