"""FSDP2: each weight, gradient and optimizer state sharded over the ranks, gathered block by block."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from trainer.config import Config
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.mesh import REPLICATE, SHARD, TENSOR, ParallelMesh
from trainer.models.workload import Workload
from trainer.registry import StrategyEntry
from trainer.strategy.layout import DcpLayout
from trainer.strategy.tensor_parallel import parallelize
from trainer.strategy.torch_strategy import TorchStrategy

STRATEGIES = {
    "fsdp": StrategyEntry(
        target="trainer.strategy.fsdp:FSDP",
        flags=("data_parallel_replicate", "tensor_parallel", "reduce_gradients", "reshard"),
        elastic="trainer.elastic.replica:ReplicaFSDP",
        # Muon gathers the matrices that it needs.
        optimizers=("adamw", "adam", "sgd", "muon"),
        sharded="all",
    )
}


class FSDP(TorchStrategy):
    """A `strategy.base.Strategy` that uses FSDP2. Without resharding, a block's weights stay gathered from
    its forward pass to its backward pass, which is faster but needs more memory."""

    name, layout = "fsdp", DcpLayout("sharded", replicated=False)
    # `fully_shard` moves one block after another, so that no GPU holds all of them.
    moves_model = False

    def __init__(self, config: Config, plan: BatchPlan, device: torch.device) -> None:
        super().__init__(config, plan, device)
        self._mesh = ParallelMesh.of(config.parallel, plan.world_size * config.parallel.tensor_parallel)
        self._copies: dict[torch.Tensor, int] = {}

    def wrap(self, model: nn.Module, workload: Workload) -> nn.Module:
        mesh = self._data_mesh(model, workload)
        low = self._dtype is not torch.float32
        # Weights are gathered in the low precision, gradients summed in full precision.
        policy = MixedPrecisionPolicy(
            param_dtype=self._dtype if low else None, reduce_dtype=torch.float32 if low else None
        )
        reshard = self._config.parallel.reshard == "on"
        for block in workload.blocks:
            fully_shard(block, mesh=mesh, reshard_after_forward=reshard, mp_policy=policy)
        root_policy = replace(policy, cast_forward_inputs=not workload.converts_inputs)
        # The backward pass needs the root's own weights first: if freed, they would be gathered again.
        wrapped: Any = fully_shard(model, mesh=mesh, reshard_after_forward=False, mp_policy=root_policy)
        root: nn.Module = wrapped
        return root

    def _data_mesh(self, model: nn.Module, workload: Workload) -> DeviceMesh:
        """Return the ranks over which FSDP shards and replicates, after tensor parallelism divided the
        layers."""
        sizes = self._mesh
        if sizes.shard == dist.get_world_size():
            return init_device_mesh(self._device.type, (sizes.shard,))
        mesh = sizes.devices(self._device.type, self._config.launch.hang_timeout)
        if sizes.tensor > 1:
            parallelize(model, workload.tensor_plan, mesh[TENSOR])
        return mesh[REPLICATE, SHARD] if sizes.replicate > 1 else mesh[SHARD]

    def gradient_copies(self, weight: torch.Tensor) -> int:
        copies = self._copies.get(weight)
        if copies is None:
            assert isinstance(weight, DTensor)
            sizes = zip(weight.device_mesh.shape, weight.placements, strict=True)
            parts = math.prod(size for size, placement in sizes if not placement.is_replicate())
            copies = self._copies[weight] = dist.get_world_size() // parts
        return copies

    def describe(self) -> dict[str, Any]:
        sizes = self._mesh
        mesh = {"data_parallel_replicate": sizes.replicate, "tensor_parallel": sizes.tensor}
        return super().describe() | mesh

    def materialize(self, workload: Workload) -> None:
        super().materialize(workload)
        # FSDP holds references to the local tensors, and renews them here.
        self._wrapped._apply(lambda tensor: tensor)

    def autocast(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def gradient_sync(self, last: bool) -> AbstractContextManager[Any]:
        assert isinstance(self._wrapped, FSDPModule)
        always = self._config.parallel.reduce_gradients == "each"
        self._wrapped.set_requires_gradient_sync(always or last)
        # Copies of the model sum their shards only once.
        self._wrapped.set_requires_all_reduce(last)
        return nullcontext()
