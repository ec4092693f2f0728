"""What is done to the repeated blocks of any model, whatever the strategy, and the optimizer's groups."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from trainer.config import Config, UsageError
from trainer.workload import Workload


def prepare(workload: Workload, config: Config, device: torch.device) -> nn.Module:
    """The model on its device, with activation checkpointing and compilation where they are asked for.

    Both leave the names of the weights as they are, so that a checkpoint does not depend on them.

    Raises:
        UsageError: when --compile finds no compiler.
    """
    model = workload.model.to(device)
    for block in workload.blocks:
        if config.parallel.activation_checkpointing == "on":
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]
        if config.parallel.compile == "on":
            if device.type == "cpu" and not shutil.which("g++"):
                raise UsageError(
                    "--compile on needs g++ on this node, for torch compiles for the CPU with it"
                )
            block.compile()
    return model


def adamw(model: nn.Module, config: Config) -> torch.optim.AdamW:
    """AdamW on what can be trained, with weight decay on matrices only."""
    learning = [p for p in model.parameters() if p.requires_grad]
    decay, other = [p for p in learning if p.dim() >= 2], [p for p in learning if p.dim() < 2]
    groups: list[dict[str, Any]] = [
        {"params": decay, "weight_decay": config.optimizer.weight_decay},
        {"params": other, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=config.optimizer.learning_rate, betas=(0.9, 0.95), fused=True)
