"""Weights of ZeRO-3: allocated, set and partitioned part by part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from trainer.models.workload import Workload
from trainer.weights.source import allocate


@torch.no_grad()
def partition(workload: Workload, settings: dict[str, Any], dtype: torch.dtype, device: torch.device) -> None:
    """Leave each rank its partition of each weight; it never has more complete weights than one block's.

    `settings` are DeepSpeed's. The engine uses the partitions unchanged, so they already have its `dtype`.
    Every rank calls this function: rank 0 sets the weights, and DeepSpeed broadcasts them.

    Raises:
        UsageError: on rank 0, if weights can't be read.
    """
    import deepspeed

    model, source = workload.model, workload.weights
    names = {param: name for name, param in model.named_parameters()}
    for part, deep in _parts(workload):
        weights = [param for param in part.parameters(deep) if not hasattr(param, "ds_id")]
        deferred = [param for param in weights if param.is_meta]
        allocate(deferred, device)
        if deferred and dist.get_rank() == 0:
            assert source is not None
            source.fill({names[param]: param.detach() for param in deferred})
        for param in weights:
            if param.is_floating_point():
                param.data = param.data.to(dtype)
        if weights:
            # DeepSpeed broadcasts the weights from rank 0, and keeps this rank's partition of each.
            deepspeed.zero.Init(module=nn.ParameterList(weights), config_dict_or_path=settings, dtype=dtype)
    for buffer in model.buffers():
        buffer.data = buffer.data.to(device)


def _parts(workload: Workload) -> Iterator[tuple[nn.Module, bool]]:
    """Yield the blocks with all of their weights, then every other module with only its own weights."""
    for block in workload.blocks:
        yield block, True
    for module in workload.model.modules():
        yield module, False
