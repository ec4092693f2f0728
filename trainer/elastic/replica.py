"""HSDP over the nodes of an elastic run: shards within a node, gradients averaged over the nodes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from trainer.data.loader import Batch
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.replica_group import ModelReplica
from trainer.models.workload import Workload
from trainer.strategy.base import Weight
from trainer.strategy.fsdp import FSDP
from trainer.strategy.layout import COPIES
from trainer.strategy.torch_strategy import TorchStrategy
from trainer.torch_private import copy_each


class ReplicaFSDP(FSDP):
    """FSDP2 within each node, whose ranks stay; the groups over the nodes change (`regroup`).

    A forward or backward pass needs only the ranks of one node, so the loss of another node never breaks the
    pass. The loss breaks a call between nodes, and `ModelReplica.agree` reports it to all ranks of this node.
    """

    layout = COPIES
    replica: ModelReplica
    _counterparts: dist.ProcessGroup | None = None
    """The ranks of all nodes with the same shards; None for a single node."""
    _agreed = False
    """Whether the ranks of this node are in the same step."""

    def _data_mesh(self, model: nn.Module, workload: Workload) -> DeviceMesh:
        return self.replica.mesh

    def describe(self) -> dict[str, Any]:
        return TorchStrategy.describe(self) | {"shards": self.replica.size}

    def regroup(self, plan: BatchPlan, counterparts: dist.ProcessGroup | None) -> None:
        """Continue with other nodes after `release`; all have the same weights."""
        self._plan, self._counterparts, self._agreed = plan, counterparts, False
        self._copies.clear()

    def forward_backward(self, batch: Batch, weight: Weight = 1.0, *, last: bool) -> torch.Tensor:
        if not self._agreed:
            self.replica.agree()
        self._agreed = not last
        loss = super().forward_backward(batch, weight, last=last)
        if last:
            self._average_gradients()
        return loss

    def _average_gradients(self) -> None:
        """Average all gradients over the nodes in one call; they already are averages over this node."""
        if self._counterparts is None:
            return
        gradients = [gradient for _, gradient in self.optimizer.gradients() if gradient.numel()]
        by_type: dict[torch.dtype, list[torch.Tensor]] = {}
        for gradient in gradients:
            by_type.setdefault(gradient.dtype, []).append(gradient)
        for same_type in by_type.values():
            flat = torch.cat([gradient.flatten() for gradient in same_type])
            dist.all_reduce(flat, group=self._counterparts)
            flat /= dist.get_world_size(self._counterparts)
            parts = flat.split([gradient.numel() for gradient in same_type])
            copy_each(same_type, [part.view_as(old) for part, old in zip(parts, same_type, strict=True)])

    def update(self, rate: float, norm: torch.Tensor | None, keep: torch.Tensor | None) -> torch.Tensor:
        # All shards of this node are updated, or none: the node needs one consistent replica of the model.
        self.replica.agree()
        return super().update(rate, norm, keep)

    def evaluate(self, batch: Batch) -> torch.Tensor:
        self.replica.agree()
        return super().evaluate(batch)
