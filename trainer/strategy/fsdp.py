"""FSDP2: each weight, gradient and optimizer state sharded over the ranks, gathered block by block."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from trainer.models.workload import Workload
from trainer.strategy.layout import DcpLayout
from trainer.strategy.torch_strategy import TorchStrategy


class FSDP(TorchStrategy):
    """Implements `strategy.base.Strategy`.

    Without resharding a block's weights stay gathered from its forward to its backward: faster, for more
    memory.
    """

    name, layout = "fsdp", DcpLayout("sharded", replicated=False)
    # `fully_shard` moves one block after another, so that no GPU has to hold all of them.
    moves_model = False

    def wrap(self, model: nn.Module, workload: Workload) -> nn.Module:
        self.gradient_replicas = 1
        mesh = init_device_mesh(self._device.type, (self._plan.world_size,))
        low = self._dtype is not torch.float32
        # Weights are gathered in the low precision, and gradients summed in the full one.
        policy = MixedPrecisionPolicy(
            param_dtype=self._dtype if low else None, reduce_dtype=torch.float32 if low else None
        )
        reshard = self._config.parallel.reshard == "on"
        for block in workload.blocks:
            fully_shard(block, mesh=mesh, reshard_after_forward=reshard, mp_policy=policy)
        root_policy = replace(policy, cast_forward_inputs=not workload.converts_inputs)
        # The root's own weights are needed first in the backward: freed, they would be gathered again.
        wrapped: Any = fully_shard(model, mesh=mesh, reshard_after_forward=False, mp_policy=root_policy)
        root: nn.Module = wrapped
        return root

    def autocast(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def gradient_sync(self, last: bool) -> AbstractContextManager[Any]:
        assert isinstance(self._wrapped, FSDPModule)
        self._wrapped.set_requires_gradient_sync(last)
        return nullcontext()
