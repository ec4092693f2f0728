"""Low-rank updates beside frozen linear layers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

RANK = 32
LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class LowRank(nn.Module):
    """A frozen linear layer plus `scale · x A Bᵀ`; B is zero at first, so the output is the layer's."""

    def __init__(self, base: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        self.base, self.scale = base, scale
        # In full precision: bf16 would round its steps away.
        self.down = nn.Parameter(torch.empty(rank, base.in_features, dtype=torch.float32))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank, dtype=torch.float32))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = F.linear(F.linear(x.to(self.down.dtype), self.down), self.up)
        base: torch.Tensor = self.base(x)
        return base + (self.scale * low).to(x.dtype)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Also load the weights of a plain layer, saved by a stage without updates."""
        for name in ("weight", "bias"):
            if f"{prefix}{name}" in state_dict:
                state_dict[f"{prefix}base.{name}"] = state_dict.pop(f"{prefix}{name}")
                for own in ("down", "up"):
                    state_dict.setdefault(f"{prefix}{own}", getattr(self, own).detach())
        super()._load_from_state_dict(state_dict, prefix, *rest)


def add_low_rank(
    module: nn.Module, *, rank: int = RANK, scale: float = 2.0, layers: Iterable[str] = LAYERS
) -> int:
    """Add a low-rank update to every linear layer with one of these names; returns how many."""
    names, count = set(layers), 0
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if name in names and isinstance(child, nn.Linear):
                setattr(parent, name, LowRank(child, rank, scale))
                count += 1
    return count
