"""The order of the samples: a pure function of seed and position, for any world size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trainer.config import BatchPlan
from trainer.data.keyed_permutation import permute

_AHEAD = 4096
"""Samples whose order is computed together: one micro-batch at a time would cost ten times as much."""


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
        sizes = self._plan.micro_batches
        steps = max(1, _AHEAD // sum(sizes))
        ahead = self._plan.world_size * np.arange(steps * sum(sizes), dtype=np.int64)
        position = self._position + self._rank
        while True:
            epochs, places = np.divmod(position + ahead, self._count)
            samples = permute(self._seed, epochs, places, self._count).tolist()
            start = 0
            for size in sizes * steps:
                yield samples[start : start + size]
                start += size
            position += self._plan.world_size * len(samples)
