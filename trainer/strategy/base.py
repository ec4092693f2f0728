"""What a way of parallel training must offer; one file beside this one for each."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import nn


class Strategy(Protocol):
    """Owns the wrapped model and the optimizer step; the loop owns everything else."""

    name: str

    def setup(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Place and wrap the model; every rank must call it."""

    def accumulate(self, last: bool) -> AbstractContextManager[Any]:
        """Around a micro-batch: gradients are exchanged in the last one only."""

    def backward(self, loss: torch.Tensor) -> None:
        """Gradients of a scalar loss."""

    def clip(self, limit: float) -> torch.Tensor:
        """Scale the gradients to a norm of at most `limit`; the norm before, a scalar."""

    def state(self) -> dict[str, Any]:
        """The model's state, the same on every rank or sharded as the strategy says."""

    def load(self, state: dict[str, Any]) -> None:
        """Undo `state`."""

    def describe(self) -> dict[str, Any]:
        """Facts for the log: name, sizes."""
