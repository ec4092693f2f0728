"""DistributedDataParallel: a whole model on every process, gradients averaged."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class DDP:
    """Implements `strategy.base.Strategy`; with one process the model is not wrapped at all."""

    name = "ddp"

    def __init__(self) -> None:
        self._model: nn.Module | None = None
        self._wrapped: nn.Module | None = None

    def setup(self, model: nn.Module, device: torch.device) -> nn.Module:
        self._model = model.to(device)
        self._wrapped = self._model
        if dist.is_initialized() and dist.get_world_size() > 1:
            ids = [device.index] if device.type == "cuda" else None
            self._wrapped = DistributedDataParallel(self._model, device_ids=ids, gradient_as_bucket_view=True)
        return self._wrapped

    def accumulate(self, last: bool) -> AbstractContextManager[Any]:
        if last or not isinstance(self._wrapped, DistributedDataParallel):
            return nullcontext()
        return self._wrapped.no_sync()

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def clip(self, limit: float) -> torch.Tensor:
        assert self._model is not None
        return torch.nn.utils.clip_grad_norm_(self._model.parameters(), limit)

    def state(self) -> dict[str, Any]:
        assert self._model is not None
        return self._model.state_dict()

    def load(self, state: dict[str, Any]) -> None:
        assert self._model is not None
        self._model.load_state_dict(state)

    def describe(self) -> dict[str, Any]:
        assert self._model is not None
        return {"strategy": self.name, "parameters": sum(p.numel() for p in self._model.parameters())}
