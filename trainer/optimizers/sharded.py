"""The optimizers of one rank, for its shards of the weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from trainer.config import OptimizerConfig
from trainer.errors import UsageError
from trainer.optimizers.build import make_optimizers, parameter_groups
from trainer.optimizers.muon import Muon, like
from trainer.torch_private import divide_each


class ShardedOptimizer:
    """Steps this rank's shards as plain tensors: with DTensors each operation would cost more than a step.
    The state is created immediately, not at the first step: a load and the first staging need the tensors."""

    def __init__(self, model: nn.Module, config: OptimizerConfig) -> None:
        """Raises UsageError for an optimizer that can't step shards of these weights."""
        groups = parameter_groups(model, config)
        self._names: dict[str, tuple[nn.Parameter, nn.Parameter]] = {}
        """Each weight with this rank's shard of the weight, by name in the model."""
        for group in groups:
            shards = [_shard(weight) for weight in group["params"]]
            self._names |= dict(zip(group["names"], zip(group["params"], shards, strict=True), strict=True))
            group["params"] = shards
        if config.optimizer == "adafactor" and any(isinstance(p, DTensor) for p, _ in self._names.values()):
            raise UsageError("--optimizer adafactor needs complete weights, but this strategy shards them")
        self._optimizers = make_optimizers(groups, config)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                for shard in group["params"]:
                    optimizer.state[shard] = _new_state(optimizer, shard)
            if isinstance(optimizer, Muon):
                whole = self._names.values()
                optimizer.whole = {shard: weight for weight, shard in whole if isinstance(weight, DTensor)}

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Return this rank's shards, whose gradients a loss scaler divides; the shards share memory with the
        weights."""
        self._connect()
        return [{"params": [shard for _, shard in self._names.values()]}]

    def gradients(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the weights with a gradient, each with this rank's shard of the gradient; not copied."""
        return [(p, local_shard(p.grad)) for p, _ in self._names.values() if p.grad is not None]

    @torch.no_grad()
    def step(self, rate: float, divisor: torch.Tensor | None, skip: torch.Tensor | None) -> None:
        """Step with the gradients divided by `divisor`; if `skip` is 1, change nothing.

        Both are scalars on the device. A fused kernel reads them there, other kernels make the host wait.
        """
        self._connect()
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            if optimizer.defaults.get("fused"):
                optimizer.grad_scale, optimizer.found_inf = divisor, skip  # type: ignore[attr-defined]
            elif skip is not None and bool(skip):
                continue
            elif divisor is not None:
                divide_each(_gradients(optimizer), divisor)
            optimizer.step()
        for weight, shard in self._names.values():
            weight.grad = shard.grad = None

    @torch.no_grad()
    def _connect(self) -> None:
        """Point the shards to the current memory of the weights and of their gradients."""
        for weight, shard in self._names.values():
            if shard is not weight:
                # FSDP moves a shard to padded memory at its first use.
                shard.data = local_shard(weight)
                shard.grad = None if weight.grad is None else local_shard(weight.grad)

    def state(self) -> dict[str, torch.Tensor]:
        """Return the optimizer's state by weight and name, sharded like the weights, without step counters;
        not copied."""
        tensors = {}
        for name, (weight, shard) in self._names.items():
            for key, value in self._state_of(shard).items():
                if key != "step":
                    tensors[f"{name}.{key}"] = like(value, weight) if isinstance(weight, DTensor) else value
        return tensors

    def _state_of(self, shard: nn.Parameter) -> dict[str, torch.Tensor]:
        return next(optimizer.state[shard] for optimizer in self._optimizers if shard in optimizer.state)

    @property
    def updates(self) -> float:
        """Number of steps that the optimizer has counted; 0 if there is no counter."""
        return next((float(state["step"]) for state in self._counters()), 0.0)

    @updates.setter
    def updates(self, number: float) -> None:
        for state in self._counters():
            state["step"].fill_(number)

    def _counters(self) -> list[dict[str, torch.Tensor]]:
        states = [self._state_of(shard) for _, shard in self._names.values()]
        return [state for state in states if "step" in state]


def _shard(weight: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(local_shard(weight)) if isinstance(weight, DTensor) else weight


def local_shard(tensor: torch.Tensor) -> torch.Tensor:
    """Return this rank's shard of a DTensor, or the tensor itself; not copied."""
    if not isinstance(tensor, DTensor):
        return tensor
    with torch.no_grad():
        return tensor.to_local()


def _gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def _new_state(optimizer: torch.optim.Optimizer, shard: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the state that the optimizer would create at its first step."""
    if isinstance(optimizer, torch.optim.SGD):
        return {"momentum_buffer": torch.zeros_like(shard)} if optimizer.defaults["momentum"] else {}
    if isinstance(optimizer, torch.optim.Muon):
        return {"momentum_buffer": torch.zeros_like(shard)}
    if isinstance(optimizer, torch.optim.Adafactor):
        return {"step": torch.zeros((), dtype=torch.float32), **_factored_variance(shard.detach())}
    return {
        "step": torch.zeros((), dtype=torch.float32, device=shard.device),
        "exp_avg": torch.zeros_like(shard),
        "exp_avg_sq": torch.zeros_like(shard),
    }


def _factored_variance(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    if weight.dim() < 2:
        return {"variance": torch.zeros_like(weight)}
    return {
        "row_var": weight.new_zeros((*weight.shape[:-1], 1)),
        "col_var": weight.new_zeros((*weight.shape[:-2], 1, weight.shape[-1])),
    }
