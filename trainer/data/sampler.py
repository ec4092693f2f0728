"""The order of the samples: a pure function of seed and position, for any world size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import torch

from trainer.config import BatchPlan


def permutation(seed: int, epoch: int, count: int) -> list[int]:
    """The permutation of `count` samples in this epoch; integers only, so the same on every machine."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    indices: list[int] = torch.randperm(count, generator=generator).tolist()
    return indices


class Sampler:
    """Endless micro-batches of one rank, as indices, from a global position.

    A position counts samples over all ranks and epochs. A global batch is the next `plan.batch` positions at
    any world size; rank r has every world_size-th of them, starting at the r-th. As `batch_sampler` of a
    DataLoader it gives the same batches with any number of workers. `position` must be where a step begins.
    """

    def __init__(self, count: int, plan: BatchPlan, *, seed: int, rank: int, position: int = 0) -> None:
        self._count, self._plan, self._seed, self._rank = count, plan, seed, rank
        self._position = position

    def __iter__(self) -> Iterator[list[int]]:
        position, stride = self._position + self._rank, self._plan.world_size
        epoch, indices = -1, [0]
        for size in cycle(self._plan.micro_batches):
            micro_batch = []
            for _ in range(size):
                if position // self._count != epoch:
                    epoch = position // self._count
                    indices = permutation(self._seed, epoch, self._count)
                micro_batch.append(indices[position % self._count])
                position += stride
            yield micro_batch
