"""DistributedDataParallel: a complete model on every rank, averaged gradients."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trainer.distributed.batch_plan import BatchPlan
from trainer.models.workload import Workload
from trainer.registry import StrategyEntry
from trainer.strategy.layout import DcpLayout
from trainer.strategy.torch_strategy import TorchStrategy

STRATEGIES = {
    "ddp": StrategyEntry(
        target="trainer.strategy.ddp:DDP",
        elastic="trainer.strategy.ddp:DDP",
        # Adafactor needs complete rows and columns, Muon complete matrices.
        optimizers=("adamw", "adam", "sgd", "adafactor", "muon"),
    )
}


class DDP(TorchStrategy):
    """A `strategy.base.Strategy`; with a single rank the model is not wrapped."""

    name, layout = "ddp", DcpLayout("whole", replicated=True)

    def wrap(self, model: nn.Module, workload: Workload) -> nn.Module:
        return self._replicate(model)

    def regroup(self, plan: BatchPlan, counterparts: dist.ProcessGroup | None) -> None:
        """Continue with other ranks (`--elastic`) after `release`; all have the same weights.

        `counterparts` is unused: the default group has all ranks.
        """
        self._plan = plan
        self._wrapped = self._replicate(self._module, init_sync=False)

    def _replicate(self, model: nn.Module, *, init_sync: bool = True) -> nn.Module:
        if self._plan.world_size == 1:
            return model
        gpu = self._device.type == "cuda"
        ids = [self._device.index] if gpu else None
        # Views save a second copy on a GPU; on CPUs they slow a step down by 1 to 2 %.
        return DistributedDataParallel(
            model, device_ids=ids, gradient_as_bucket_view=gpu, init_sync=init_sync
        )

    def gradient_sync(self, last: bool) -> AbstractContextManager[Any]:
        if last or not isinstance(self._wrapped, DistributedDataParallel):
            return nullcontext()
        return self._wrapped.no_sync()
