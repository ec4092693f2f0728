"""Preparation of a model before a strategy wraps it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from trainer.config import Config
from trainer.errors import UsageError
from trainer.models.workload import Workload
from trainer.torch_private import ATTENTION, PRODUCTS


def prepare_model(
    workload: Workload, config: Config, device: torch.device, *, move: bool = True
) -> nn.Module:
    """Put the model into training mode, and apply the flags for activation checkpointing and compilation.

    With `move`, the entire model is moved to the device, and weights on the meta device are set there.

    The names of the weights do not change, so checkpoints do not depend on these flags.

    Raises:
        UsageError: if --compile finds no compiler, or weights can't be read.
    """
    model = workload.model
    if move:
        workload.materialize(device).to(device)
    # Hugging Face models come in evaluation mode.
    model.train()
    for block in workload.blocks:
        if config.parallel.activation_checkpointing != "off":
            block.forward = recomputed(block.forward, config.parallel.activation_checkpointing)  # type: ignore[method-assign]
        if config.parallel.compile == "on":
            if device.type == "cpu" and not shutil.which("g++"):
                raise UsageError("--compile on needs g++ on this node: torch compiles for the CPU with it")
            block.compile()
    return model


def recomputed(forward: Callable[..., Any], mode: str) -> Callable[..., Any]:
    """Return a forward function whose activations are recomputed in the backward pass.

    With the mode `selective`, the results of attention and of every second matrix product are stored. The
    result must be a function: torch.compile skips a partial call of torch's `checkpoint`.
    """

    def recompute_all(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    def recompute_some(*args: Any, **kwargs: Any) -> Any:
        # torch.compile accepts only a global function here.
        return checkpoint(forward, *args, use_reentrant=False, context_fn=_selective, **kwargs)

    return recompute_some if mode == "selective" else recompute_all


def _selective() -> tuple[Any, Any]:
    """Return the contexts of one forward pass and of its recomputation."""
    products = {False: 0, True: 0}

    def policy(ctx: Any, function: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        stored = function in ATTENTION
        if function in PRODUCTS:
            products[ctx.is_recompute] += 1
            stored = products[ctx.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if stored else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)  # type: ignore[no-any-return]
