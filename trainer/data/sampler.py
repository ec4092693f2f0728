"""The order in which samples are seen: a pure function of seed and position, on any number of machines."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from trainer.config import BatchPlan


def order(seed: int, epoch: int, count: int) -> list[int]:
    """Permutation of `count` samples in this epoch, the same on every machine."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    found: list[int] = torch.randperm(count, generator=generator).tolist()
    return found


class Sampler:
    """Endless micro-batches of one rank, as indices, from a global position on.

    A position counts samples over all ranks and epochs. A global batch is the next `plan.batch` positions
    whatever the world size; rank r has every world-th of them, from the r-th on. It is made for
    `DataLoader(batch_sampler=…)`: workers and prefetching don't change what comes out.
    """

    def __init__(self, count: int, plan: BatchPlan, *, seed: int, rank: int, position: int = 0) -> None:
        self._count, self._plan, self._seed, self._rank = count, plan, seed, rank
        self._position = position

    def __iter__(self) -> Iterator[list[int]]:
        position, stride = self._position + self._rank, self._plan.world
        epoch, places = -1, [0]
        while True:
            found = []
            for _ in range(self._plan.micro):
                if position // self._count != epoch:
                    epoch = position // self._count
                    places = order(self._seed, epoch, self._count)
                found.append(places[position % self._count])
                position += stride
            yield found
