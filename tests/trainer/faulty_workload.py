"""A workload for tests: a tiny GPT with some batches that give wrong losses or gradients."""

from __future__ import annotations

import json
import os

import numpy as np
import torch
from torch import nn

from trainer.config import Config
from trainer.data.sampler import permute
from trainer.data.text import Windows
from trainer.data.token_cache import token_file_of
from trainer.data.token_file import TokenFile
from trainer.models.gpt import GPT
from trainer.models.workload import Workload

STEPS = "FAULTY_STEPS"
"""Variable with a JSON object: step (from 1) to the factors of its loss and of its gradient."""


class FaultyGPT(nn.Module):
    """A GPT that takes two factors per sample."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gpt = GPT(2, 4, 32, config.model.context, config.model.dropout)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        of_loss, of_gradient = factors.prod(0)
        loss: torch.Tensor = self.gpt(inputs, targets) * of_loss
        if loss.requires_grad:
            loss.register_hook(lambda gradient: gradient * of_gradient)
        return loss


class Samples:
    """Windows with their factors: the first sample of a faulty step is bad, so that only rank 0 sees it."""

    def __init__(self, config: Config) -> None:
        self._windows = Windows(TokenFile(token_file_of(config, "bytes")), config.model.context)
        places = np.arange(len(self._windows))
        indices = permute(config.seed, np.zeros_like(places), places, len(places)).tolist()
        steps = json.loads(os.environ[STEPS])
        self._bad = {indices[(int(step) - 1) * config.data.batch]: f for step, f in steps.items()}

    def __len__(self) -> int:
        return len(self._windows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return (*self._windows[index], torch.tensor(self._bad.get(index, (1.0, 1.0))))


def faulty(config: Config) -> Workload:
    model = FaultyGPT(config)
    return Workload(model, list(model.gpt.blocks), Samples(config), config.model.context)
