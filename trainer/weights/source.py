"""Weights of a model on the meta device: a rank allocates its part, and a source sets the values."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from trainer.torch_private import local_part


class WeightSource(Protocol):
    """A source of a model's initial weights, the same for every strategy and number of ranks."""

    def fill(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set these weights, by their names in the model: complete weights, or this rank's part of a DTensor.

        Ranks may call it independently.

        Raises:
            UsageError: if a weight can't be read or has no value.
        """


@dataclass(frozen=True, slots=True)
class ComputedWeights:
    """A `WeightSource` that computes each weight from its name and the seed."""

    init_weight: Callable[[str, torch.Tensor], None]
    """Function that sets a complete weight on the CPU."""

    def fill(self, weights: Mapping[str, torch.Tensor]) -> None:
        for name, weight in weights.items():
            whole = torch.empty(weight.shape, dtype=weight.dtype)
            self.init_weight(name, whole)
            copy_part(whole, weight)


@dataclass(frozen=True, slots=True)
class RenamedWeights:
    """A `WeightSource` for a model that has other names for the weights of `source`."""

    source: WeightSource
    names: Mapping[str, str]

    def fill(self, weights: Mapping[str, torch.Tensor]) -> None:
        self.source.fill({self.names[name]: weight for name, weight in weights.items()})


@dataclass(frozen=True, slots=True)
class OverlaidWeights:
    """A `WeightSource` of two: `over` sets the weights whose names it has, `under` the others."""

    over: RenamedWeights
    under: WeightSource | None

    def fill(self, weights: Mapping[str, torch.Tensor]) -> None:
        self.over.fill({name: weight for name, weight in weights.items() if name in self.over.names})
        others = {name: weight for name, weight in weights.items() if name not in self.over.names}
        if others:
            assert self.under is not None
            self.under.fill(others)


def seed_of(name: str, seed: int) -> int:
    """Return the seed of one weight or module; different names give independent seeds."""
    return (seed * 2**32 + zlib.crc32(name.encode())) % 2**63


def on_meta(model: nn.Module) -> bool:
    """Return whether some weights of the model are not allocated yet."""
    return any(weight.is_meta for weight in model.parameters())


@contextmanager
def weights_on_meta() -> Iterator[None]:
    """Return a context in which new modules have their weights on the meta device, but real buffers. Buffers
    that no checkpoint contains are computed when a module is created."""
    register = nn.Module.register_parameter

    def register_on_meta(module: nn.Module, name: str, param: nn.Parameter | None) -> None:
        if param is not None and not param.is_meta:
            # The memory was never written, so the system never allocated it.
            param = nn.Parameter(param.detach().to("meta"), requires_grad=param.requires_grad)
        register(module, name, param)

    nn.Module.register_parameter = register_on_meta  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


@torch.no_grad()
def materialize(model: nn.Module, source: WeightSource | None, device: torch.device) -> None:
    """Allocate the weights on the meta device, or this rank's shards of them, and set them.

    The parameters stay the same objects, so tied weights stay tied.

    Raises:
        UsageError: as `WeightSource.fill` does.
    """
    deferred = {name: weight for name, weight in model.named_parameters() if weight.is_meta}
    if not deferred:
        return
    assert source is not None
    allocate(deferred.values(), device)
    source.fill({name: weight.detach() for name, weight in deferred.items()})


def allocate(weights: Iterable[nn.Parameter], device: torch.device) -> None:
    """Replace parameters on the meta device with uninitialized memory on `device`."""
    for weight in weights:
        empty = nn.Parameter(torch.empty_like(weight, device=device), requires_grad=weight.requires_grad)
        torch.utils.swap_tensors(weight, empty)


@torch.no_grad()
def copy_part(whole: torch.Tensor, weight: torch.Tensor) -> None:
    """Copy a complete weight into `weight`, or this rank's part of it into a DTensor."""
    if isinstance(weight, DTensor):
        weight.to_local().copy_(whole[local_part(weight)])
    else:
        weight.copy_(whole)
