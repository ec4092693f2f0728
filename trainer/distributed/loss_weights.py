"""Weights for the losses of micro-batches: every target of a global batch has an equal weight.

A model returns the mean loss of a micro-batch over its targets. If samples differ in their number of targets,
the mean of these means depends on the split of the global batch over micro-batches and ranks. A micro-batch
with n of all N targets has the weight n · world / N. Every strategy averages losses and gradients over the
ranks; with these weights the average is the mean over the N targets.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist


class LossWeights:
    """The weights of this rank's micro-batches of one step; created at the same time on all ranks.

    The sum over the ranks runs in the background. On a GPU the host never waits for it.
    """

    def __init__(self, counts: Sequence[int], world_size: int, device: torch.device) -> None:
        """`counts` are the numbers of targets of this rank's micro-batches."""
        host = torch.tensor(counts, pin_memory=device.type == "cuda")
        self._counts, self._world_size = host.to(device, non_blocking=True), world_size
        self._total = self._counts.sum()
        self._work = dist.all_reduce(self._total, async_op=True) if world_size > 1 else None

    @property
    def total(self) -> torch.Tensor:
        """The number of targets of all ranks, an int64 scalar on the device."""
        if self._work is not None:
            self._work.wait()
            self._work = None
        return self._total

    def __getitem__(self, number: int) -> torch.Tensor:
        """Return the weight of a micro-batch, a float scalar on the device, or 0 if no micro-batch has a
        target."""
        return self._counts[number] * self._world_size / self.total.clamp(min=1)
