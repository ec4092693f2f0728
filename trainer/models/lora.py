"""LoRA (arXiv 2106.09685): low-rank updates of frozen linear layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import Placement
from torch.nn import functional as F

from trainer.models.loss_head import LossHead

ALL_LINEAR = "all-linear"
"""The target of every linear layer except the output layer, as in peft."""
_BASE, _A, _B = ".base.", ".lora_a", ".lora_b"


class LowRank(nn.Module):
    """A frozen linear layer plus `scale · x Aᵀ Bᵀ`; B starts at zero, so the output starts unchanged. A is
    [rank, inputs] and B [outputs, rank]. `dropout` applies to the inputs of A."""

    def __init__(self, base: nn.Linear, rank: int, scale: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.base, self.scale, self.dropout = base, scale, dropout
        # In full precision, because bf16 would round the steps away. Small enough to allocate immediately,
        # also if the layer is on the meta device.
        device = "cpu" if base.weight.is_meta else base.weight.device
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features, dtype=torch.float32, device=device))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank, dtype=torch.float32, device=device))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        self._divided: tuple[DeviceMesh, Placement] | None = None

    def divide(self, mesh: DeviceMesh, *, inputs: bool) -> None:
        """Shard the update over `mesh` like tensor parallelism shards the layer: by its inputs or by its
        outputs. Each rank then has its columns of A, or its rows of B, and all of the other matrix."""
        parts = (Shard(1), Replicate()) if inputs else (Replicate(), Shard(0))
        for name, part in zip(("lora_a", "lora_b"), parts, strict=True):
            whole = getattr(self, name).detach()
            setattr(self, name, nn.Parameter(distribute_tensor(whole, mesh, [part])))
        self._divided = mesh, Shard(-1) if inputs else Replicate()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dropped = F.dropout(x.to(self.lora_a.dtype), self.dropout, self.training)
        low = self._low_rank(dropped)
        base: torch.Tensor = self.base(x)
        return base + (self.scale * low).to(x.dtype)

    def _low_rank(self, x: torch.Tensor) -> torch.Tensor:
        """Return `x Aᵀ Bᵀ`, for this rank's inputs or outputs if the layer is divided."""
        if self._divided is None:
            return F.linear(F.linear(x, self.lora_a), self.lora_b)
        mesh, inputs = self._divided
        low: Any = F.linear(DTensor.from_local(x, mesh, [inputs], run_check=False), self.lora_a)
        # Sum over the ranks' inputs while the tensor is small.
        outputs: Any = F.linear(low.redistribute(placements=[Replicate()]), self.lora_b)
        local: torch.Tensor = outputs.to_local()
        return local

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Load weights, which a model without updates may have saved for a plain layer."""
        for name in ("weight", "bias"):
            if f"{prefix}{name}" in state_dict:
                state_dict[f"{prefix}base.{name}"] = state_dict.pop(f"{prefix}{name}")
                for own in ("lora_a", "lora_b"):
                    state_dict.setdefault(f"{prefix}{own}", getattr(self, own).detach())
        super()._load_from_state_dict(state_dict, prefix, *rest)


def linear_layers(module: nn.Module, targets: Iterable[str]) -> list[str]:
    """Return the paths of the linear layers that `targets` match, as in peft: by the end of the path."""
    suffixes = tuple(targets)
    paths = []
    for name, child in module.named_modules():
        # An output layer is not a LoRA target: its update would be as large as a copy of it.
        if not isinstance(child, nn.Linear) or isinstance(child, LossHead) or name.endswith("lm_head"):
            continue
        if ALL_LINEAR in suffixes or any(name == end or name.endswith(f".{end}") for end in suffixes):
            paths.append(name)
    return paths


def add_low_rank(
    module: nn.Module, *, rank: int, targets: Iterable[str], scale: float = 2.0, dropout: float = 0.0
) -> list[str]:
    """Add a low-rank update to the linear layers that `targets` match; return their paths. The caller freezes
    the weights first."""
    names = linear_layers(module, targets)
    for name in names:
        parent, _, last = name.rpartition(".")
        owner = module.get_submodule(parent)
        setattr(owner, last, LowRank(getattr(owner, last), rank, scale, dropout))
    return names


def merged(weights: Mapping[str, torch.Tensor], scale: float) -> dict[str, torch.Tensor]:
    """Return the weights of the model with each update added to its layer, as torch computes `W + sBA`."""
    weights_merged = {}
    for name, saved in weights.items():
        weight = saved
        if is_update(name):
            continue
        layer, base, part = name.rpartition(_BASE)
        if base and part == "weight" and f"{layer}{_A}" in weights:
            update = weights[f"{layer}{_B}"].float() @ weights[f"{layer}{_A}"].float()
            weight = (weight.float() + scale * update).to(weight.dtype)
        weights_merged[f"{layer}.{part}" if base else name] = weight
    return weights_merged


def is_update(name: str) -> bool:
    """Return whether a weight belongs to an update."""
    return name.endswith((_A, _B))


def updates(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return A and B of each layer, by its path with `lora_A.weight` or `lora_B.weight`: peft's names."""
    named = {}
    for name, weight in weights.items():
        for own, theirs in ((_A, ".lora_A.weight"), (_B, ".lora_B.weight")):
            if name.endswith(own):
                named[name.removesuffix(own) + theirs] = weight
    return named
