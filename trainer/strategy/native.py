"""What DDP and FSDP have in common: torch's own optimizer, scaler and state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw as adamw_step

from trainer.config import BatchPlan, Config
from trainer.data.loader import Batch
from trainer.strategy.base import precision
from trainer.strategy.blocks import adamw, prepare
from trainer.workload import Workload


class Native(ABC):
    """A subclass says how the model is wrapped and when gradients are exchanged."""

    name = layout = ""

    def __init__(self, config: Config, plan: BatchPlan, device: torch.device) -> None:
        self._config, self._plan, self._device = config, plan, device
        self._dtype = precision(config, device)
        # fp16 alone has so few bits of exponent that small gradients would vanish.
        self._scaler = torch.amp.GradScaler(device.type, enabled=self._dtype is torch.float16)  # type: ignore[attr-defined]
        self.scaled = self._scaler.is_enabled()
        self.copies = plan.world
        """Ranks that hold the same gradient."""
        self._module: nn.Module = nn.Identity()
        self._wrapped: nn.Module = self._module

    @abstractmethod
    def wrap(self, model: nn.Module, workload: Workload) -> nn.Module:
        """The model that is called."""

    @abstractmethod
    def exchange(self, last: bool) -> AbstractContextManager[Any]:
        """Around a micro-batch."""

    def autocast(self) -> AbstractContextManager[Any]:
        if self._dtype is torch.float32:
            return nullcontext()
        return torch.autocast(self._device.type, self._dtype)

    def setup(self, workload: Workload) -> None:
        self._module = prepare(workload, self._config, self._device)
        self._wrapped = self.wrap(self._module, workload)
        self.optimizer = adamw(self._module, self._config)
        self._fill()

    def _fill(self) -> None:
        """The optimizer's state now, not at its first step: a load and a warm save need the tensors."""
        state = self.optimizer.state_dict()
        learning = [p for group in self.optimizer.param_groups for p in group["params"]]
        state["state"] = {
            n: {
                "step": torch.zeros((), dtype=torch.float32, device=p.device),
                "exp_avg": torch.zeros_like(p),
                "exp_avg_sq": torch.zeros_like(p),
            }
            for n, p in enumerate(learning)
        }
        self.optimizer.load_state_dict(state)

    def forward_backward(self, batch: Batch, *, last: bool) -> torch.Tensor:
        with self.exchange(last):
            with self.autocast():
                loss: torch.Tensor = self._wrapped(*batch)
            self._scaler.scale(loss / self._plan.accumulate).backward()
        return loss.detach()

    def norm_square(self) -> torch.Tensor:
        self._scaler.unscale_(self.optimizer)
        gradients = [
            own_part(p.grad) for g in self.optimizer.param_groups for p in g["params"] if p.grad is not None
        ]
        return torch.nn.utils.get_total_norm(gradients).square() / self.copies

    def update(self, rate: float, norm: torch.Tensor | None, keep: torch.Tensor | None) -> torch.Tensor:
        assert norm is not None
        limit = self._config.optimizer.clip
        if keep is None and self.scaled:
            keep = torch.isfinite(norm)
        # The optimizer's kernel divides by it and looks at what is left out: no pass over the gradients of
        # its own, and no wait for the host.
        divisor = ((norm + 1e-6) / limit).clamp(min=1.0) if limit else None
        left_out = None if keep is None else (~keep).to(torch.float32)
        if self._device.type == "cpu":
            # Here the host knows it already, and spares the kernel what changes nothing.
            divisor = None if divisor is not None and divisor == 1.0 else divisor
            left_out = None if left_out is not None and left_out == 0.0 else left_out
        for group in self.optimizer.param_groups:
            group["lr"] = rate
            self._step(group, divisor, left_out)
        self._scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    @torch.no_grad()
    def _step(
        self, group: dict[str, Any], divisor: torch.Tensor | None, left_out: torch.Tensor | None
    ) -> None:
        """AdamW on this rank's own parts: to go through DTensor for each would cost more than the step."""
        weights = [p for p in group["params"] if p.grad is not None]
        states = [self.optimizer.state[p] for p in weights]
        adamw_step(
            [own_part(p) for p in weights],
            [own_part(p.grad) for p in weights],
            [own_part(state["exp_avg"]) for state in states],
            [own_part(state["exp_avg_sq"]) for state in states],
            [],
            [state["step"] for state in states],
            fused=True, grad_scale=divisor, found_inf=left_out, amsgrad=False, maximize=False,
            beta1=group["betas"][0], beta2=group["betas"][1], lr=group["lr"],
            weight_decay=group["weight_decay"], eps=group["eps"],
        )  # fmt: skip

    def evaluate(self, batch: Batch) -> torch.Tensor:
        self._wrapped.eval()
        try:
            with torch.no_grad(), self.autocast():
                loss: torch.Tensor = self._wrapped(*batch)
        finally:
            self._wrapped.train()
        return loss

    def state(self) -> dict[str, torch.Tensor]:
        found = {}
        for name, weight in self._module.named_parameters():
            found[f"model.{name}"] = weight.detach()
            for key, value in self.optimizer.state.get(weight, {}).items():
                if key != "step":
                    found[f"optimizer.{name}.{key}"] = value
        return found

    def side_state(self) -> dict[str, Any]:
        kept = self._module.state_dict()
        first = next(iter(self.optimizer.state.values()))
        return {
            "updates": float(first["step"]),
            "scaler": self._scaler.state_dict(),
            "buffers": {n: b.detach().cpu() for n, b in self._module.named_buffers() if n in kept},
        }

    def set_side_state(self, state: dict[str, Any]) -> None:
        for each in self.optimizer.state.values():
            each["step"].fill_(state["updates"])
        if state["scaler"] and self._scaler.is_enabled():
            self._scaler.load_state_dict(state["scaler"])
        with torch.no_grad():
            for name, buffer in self._module.named_buffers():
                if name in state["buffers"]:
                    buffer.copy_(state["buffers"][name])

    def stage_native(self, folder: Path) -> Callable[[], None]:
        return lambda: None

    def load_native(self, folder: Path, *, universal: bool) -> None:
        return None

    def describe(self) -> dict[str, Any]:
        return {
            "strategy": self.name,
            "parameters": sum(p.numel() for p in self._module.parameters()),
            "trainable": sum(p.numel() for p in self._module.parameters() if p.requires_grad),
            "precision": str(self._dtype).removeprefix("torch."),
        }


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank holds of it, not copied."""
    if not isinstance(tensor, DTensor):
        return tensor
    with torch.no_grad():
        return tensor.to_local()
