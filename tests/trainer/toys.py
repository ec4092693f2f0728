"""A strategy and a model as a user would add them: this file, and a line each in the registry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from trainer import registry
from trainer.config import Config
from trainer.models.workload import Workload
from trainer.strategy.ddp import DDP
from trainer.strategy.deferred_copies import StagedState
from trainer.weights.saved import LazyWeights, SavedWeights


def register() -> None:
    registry.STRATEGIES["toy"] = registry.StrategyEntry("tests.trainer.toys:ToyStrategy")
    registry.MODELS["toy"] = registry.ModelEntry("tests.trainer.toys:toy_model", ("context",), text=False)


@dataclass(frozen=True, slots=True)
class OneFile:
    """The whole state in a single file, which rank 0 writes."""

    name: str = "one-file"
    family: str = "toy"
    replicated: bool = False

    def writer(self, name: str) -> int | None:
        return None

    def open_weights(self, path: Path) -> SavedWeights:
        state = torch.load(path / "toy.pt", weights_only=True)
        weights = {name: tensor for name, tensor in state.items() if name.startswith("model.")}
        return LazyWeights({name.removeprefix("model."): tensor for name, tensor in weights.items()})


class ToyStrategy(DDP):
    name, layout = "toy", OneFile()  # type: ignore[assignment]

    def stage(self, folder: Path, ranks: dist.ProcessGroup) -> StagedState:
        copied = {name: tensor.clone() for name, tensor in self.state().items()}
        return StagedState(lambda: torch.save(copied, folder / "toy.pt") if dist.get_rank() == 0 else None)

    def load(self, path: Path, saved_world_size: int, ranks: dist.ProcessGroup) -> None:
        saved = torch.load(path / "toy.pt", weights_only=True)
        for name, tensor in self.state().items():
            tensor.copy_(saved[name])

    def checkpoint_bytes(self) -> float:
        return 1.0


class Regression(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 1)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (self.layer(inputs) - targets).square().mean()


class Sums:
    """Random vectors with their sums."""

    def __init__(self, width: int) -> None:
        self._inputs = torch.randn(64, width, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._inputs[index], self._inputs[index].sum()[None]


def toy_model(config: Config) -> Workload:
    model = Regression(config.model.context)
    return Workload(model, [model.layer], Sums(config.model.context), tokens_per_sample=1)
