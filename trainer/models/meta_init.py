"""Weights of a model on the meta device: a rank allocates what it keeps, and sets one weight after another.

A weight is a function of its name and the seed. So it is the same for every strategy and number of ranks, and
a rank holds no more than its shards and one whole weight.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

InitWeight = Callable[[str, torch.Tensor], None]
"""Sets a whole weight on the CPU, by its name."""


def on_meta(model: nn.Module) -> bool:
    """Whether its weights are not allocated yet."""
    return any(weight.is_meta for weight in model.parameters())


@torch.no_grad()
def materialize(model: nn.Module, init_weight: InitWeight, device: torch.device) -> None:
    """Allocate the weights, or this rank's shards of them, and set them."""
    model.to_empty(device=device)
    for name, weight in model.named_parameters():
        whole = torch.empty(weight.shape)
        init_weight(name, whole)
        if isinstance(weight, DTensor):
            weight.to_local().copy_(whole[part_of(weight)])
        else:
            weight.copy_(whole)


def part_of(weight: DTensor) -> tuple[slice, ...]:
    """The part of a weight that this rank has."""
    shape, offset = compute_local_shape_and_global_offset(weight.shape, weight.device_mesh, weight.placements)
    return tuple(slice(start, start + size) for start, size in zip(offset, shape, strict=True))
