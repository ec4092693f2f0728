"""Preparation of a model before a strategy wraps it, and the optimizer's parameter groups."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from trainer.config import Config
from trainer.errors import UsageError
from trainer.models.meta_init import on_meta
from trainer.models.workload import Workload


def prepare_model(
    workload: Workload, config: Config, device: torch.device, *, move: bool = True
) -> nn.Module:
    """Move the model to its device, in training mode; checkpoint activations and compile as the flags say.

    None of it changes the names of the weights, so checkpoints do not depend on it.

    Raises:
        UsageError: if --compile finds no compiler.
    """
    model = workload.model
    if move and not on_meta(model):
        model.to(device)
    # Models of Hugging Face come in evaluation mode.
    model.train()
    for block in workload.blocks:
        if config.parallel.activation_checkpointing == "on":
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]
        if config.parallel.compile == "on":
            if device.type == "cpu" and not shutil.which("g++"):
                raise UsageError("--compile on needs g++ on this node: torch compiles for the CPU with it")
            block.compile()
    return model


def make_optimizer(model: nn.Module, config: Config) -> torch.optim.AdamW:
    """AdamW on the trainable weights, with weight decay on matrices only."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    decay, other = [p for p in trainable if p.dim() >= 2], [p for p in trainable if p.dim() < 2]
    groups: list[dict[str, Any]] = [
        {"params": decay, "weight_decay": config.optimizer.weight_decay},
        {"params": other, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=config.optimizer.learning_rate, betas=(0.9, 0.95), fused=True)
