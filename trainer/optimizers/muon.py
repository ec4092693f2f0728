"""Muon for complete matrices or for shards of matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor

from trainer.torch_private import local_part, muon_rate, orthogonalize


class Muon(torch.optim.Muon):
    """torch's Muon with AdamW's learning rate; the update of a shard is computed from the complete matrix.

    The momentum is sharded. All ranks with a part of a matrix gather its update, one matrix at a time, and
    orthogonalise it as one process would; each applies its part. `whole` maps a shard to its DTensor. torch's
    own step would orthogonalise the shard.
    """

    def __init__(self, groups: list[dict[str, Any]], *, lr: float, momentum: float) -> None:
        # With this adjustment the length of a step equals that of AdamW, so one learning rate suits both
        # optimizers (arXiv 2502.16982, 2.2).
        super().__init__(groups, lr=lr, momentum=momentum, adjust_lr_fn="match_rms_adamw")
        self.whole: dict[torch.Tensor, DTensor] = {}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._step(weight, weight.grad, group)

    def _step(self, weight: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        whole = self.whole.get(weight)
        momentum, buffer = group["momentum"], self.state[weight]["momentum_buffer"]
        buffer.lerp_(gradient, 1 - momentum)
        update = gradient.lerp(buffer, momentum)
        if whole is not None:
            update = like(update, whole).full_tensor()
        update = orthogonalize(update, group)
        rate = muon_rate(group, update.shape)
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(update if whole is None else update[local_part(whole)], alpha=-rate)


def like(local: torch.Tensor, whole: DTensor) -> DTensor:
    """View this rank's part of a tensor as a DTensor that is sharded like `whole`, without a copy."""
    return DTensor.from_local(
        local, whole.device_mesh, whole.placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )
