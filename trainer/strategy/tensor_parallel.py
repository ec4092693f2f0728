"""Tensor parallelism: each rank of a group computes some heads and hidden units of every layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from fnmatch import fnmatch
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from trainer.errors import UsageError
from trainer.models.tensor_plan import TensorPlan

_HEADS = 2
"""Dimension of the heads in what a norm of queries or keys gets: [B, T, heads, D]."""
_FIRST_RANKS = 7919


def parallelize(model: nn.Module, plan: TensorPlan | None, mesh: DeviceMesh) -> None:
    """Replace the weights of the plan by DTensors on `mesh`; before FSDP shards what is left of each.

    Raises:
        UsageError: if the model has no plan, a plan that is not supported, or sizes that do not fit.
    """
    size = mesh.size()
    if plan is None:
        raise UsageError(f"--tensor-parallel {size}: this model has no plan for it; remove the flag")
    for what, number in plan.sizes.items():
        if number % size:
            raise UsageError(f"--tensor-parallel {size} does not divide the {number} {what} of the model")
    unknown = sorted({style for style in plan.styles.values() if _style(style) is None})
    if unknown:
        raise UsageError(
            f"--tensor-parallel {size}: the model's plan has {unknown[0]}, which is not supported; remove "
            "the flag"
        )
    parallelize_module(model, mesh, {name: _style(style) for name, style in plan.styles.items()})  # type: ignore[misc]
    for name, module in model.named_modules():
        if any(fnmatch(name, pattern) for pattern in plan.heads):
            _own_random_numbers(module, mesh.get_local_rank())


def _style(name: str) -> ParallelStyle | None:
    """Torch's style by the name that transformers has for it."""
    if name == "colwise":
        return ColwiseParallel()
    if name == "rowwise":
        return RowwiseParallel()
    if name == "replicated_with_grad_allreduce":
        # A norm of each head: all ranks have its weight, and each its own heads.
        return SequenceParallel(sequence_dim=_HEADS, use_local_output=True)
    return None


def _own_random_numbers(module: nn.Module, rank: int) -> None:
    """Give the ranks different dropout masks in a module that computes their own heads.

    Everywhere else they compute the same, and draw the same numbers. The seed is one of these: so a resumed
    run and a recomputed block draw them again.
    """
    entered: list[AbstractContextManager[None]] = []

    def enter(*_: Any) -> None:
        entered.append(_random_numbers_of(rank))
        entered[-1].__enter__()

    def leave(*_: Any) -> None:
        entered.pop().__exit__(None, None, None)

    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave, always_call=True)


@contextmanager
def _random_numbers_of(rank: int) -> Iterator[None]:
    seed = int(torch.randint(2**48, ()))
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if torch.cuda.is_available() else []):
        torch.manual_seed(seed + _FIRST_RANKS * rank)
        yield
