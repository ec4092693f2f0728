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
from trainer.models.lora import LowRank
from trainer.models.tensor_plan import TensorPlan

_HEADS = 2
"""Dimension of the heads in the input of a norm of queries or keys: [B, T, heads, D]."""
_FIRST_RANKS = 7919


def parallelize(model: nn.Module, plan: TensorPlan | None, mesh: DeviceMesh) -> None:
    """Replace the weights of the plan with DTensors on `mesh`, before FSDP shards them further. Raises
    UsageError if the model has no plan, an unsupported plan, or sizes that do not fit."""
    size = mesh.size()
    if plan is None:
        raise UsageError(f"--tensor-parallel {size}: this model has no plan for it; remove the flag")
    for label, number in plan.sizes.items():
        if number % size:
            raise UsageError(f"--tensor-parallel {size} must divide the {number} {label} of the model")
    _refuse_unknown(plan, size)
    styles = {}
    for name, module in model.named_modules():
        for style in (style for pattern, style in plan.styles.items() if _matches(name, pattern)):
            if isinstance(module, LowRank):
                _divide_update(module, mesh, inputs=style == "rowwise")
            styles[f"{name}.base" if isinstance(module, LowRank) else name] = _style(style)
    frozen = {name for name, weight in model.named_parameters() if not weight.requires_grad}
    parallelize_module(model, mesh, styles)  # type: ignore[arg-type]
    for name, weight in model.named_parameters():
        # The style of norms creates new weights, which are trained.
        weight.requires_grad_(name not in frozen)
    for name, module in model.named_modules():
        if any(fnmatch(name, pattern) for pattern in plan.heads):
            _own_random_numbers(module, mesh.get_local_rank())


def _refuse_unknown(plan: TensorPlan, size: int) -> None:
    unknown = {style: pattern for pattern, style in sorted(plan.styles.items()) if _style(style) is None}
    if not unknown:
        return
    style, pattern = next(iter(unknown.items()))
    layers, way_out = pattern.rpartition("*.")[2], "remove the flag: FSDP shards these weights too"
    if any(word in pattern for word in ("experts", "router")):
        raise UsageError(
            f"--tensor-parallel {size}: this is a mixture of experts with stacked weights ({layers}: "
            f"{style}), and torch shards only single linear layers; {way_out}"
        )
    raise UsageError(
        f"--tensor-parallel {size}: the model's plan gives {layers} the style {style}, which torch "
        f"lacks; {way_out}"
    )


def _matches(name: str, pattern: str) -> bool:
    """Return whether each part of a module's path matches its part of the pattern."""
    parts, pattern_parts = name.split("."), pattern.split(".")
    return len(parts) == len(pattern_parts) and all(map(fnmatch, parts, pattern_parts))


def _divide_update(layer: LowRank, mesh: DeviceMesh, *, inputs: bool) -> None:
    layer.divide(mesh, inputs=inputs)
    if inputs and layer.dropout:
        # Each rank drops some inputs of its own part.
        _own_random_numbers(layer, mesh.get_local_rank())


def _style(name: str) -> ParallelStyle | None:
    """Return torch's style for a name of transformers, or None for an unknown name."""
    if name == "colwise":
        return ColwiseParallel()
    if name == "rowwise":
        return RowwiseParallel()
    if name == "replicated_with_grad_allreduce":
        # A norm of each head: all ranks have its weight, and each rank has its own heads.
        return SequenceParallel(sequence_dim=_HEADS, use_local_output=True)
    return None


def _own_random_numbers(module: nn.Module, rank: int) -> None:
    """Give the ranks different dropout masks in a module in which they compute different heads.

    In all other modules they compute the same values and draw the same numbers. The seed is one of these
    numbers, so a resumed run and a recomputed block draw the same seed.
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
