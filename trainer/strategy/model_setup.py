"""Preparation of a model before a strategy wraps it."""

from __future__ import annotations

import shutil
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from trainer.config import Config
from trainer.errors import UsageError
from trainer.models.workload import Workload


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
        if config.parallel.activation_checkpointing == "on":
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]
        if config.parallel.compile == "on":
            if device.type == "cpu" and not shutil.which("g++"):
                raise UsageError("--compile on needs g++ on this node: torch compiles for the CPU with it")
            block.compile()
    return model
