"""Batches from a map-style dataset, optionally prefetched by worker processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader

from trainer.prctl import die_with_parent

IGNORED = -100
"""Target that the loss ignores."""
Batch = tuple[torch.Tensor, ...]
Collate = Callable[[list[Any]], Batch]
"""Function that makes a micro-batch of samples."""


class Dataset(Protocol):
    """Samples by index; each is a tuple of tensors, which are stacked and passed to the model in order."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Any: ...


def batches(
    dataset: Dataset,
    sampler: Iterable[list[int]],
    workers: int,
    *,
    pinned: bool,
    collate: Collate | None = None,
) -> Iterator[Batch]:
    """Return the micro-batches of a sampler: tuples of stacked tensors [micro-batch, …], or the results of
    `collate`.

    The loader has its own generator: seeding it from the process's generator would change the dropout masks.
    """
    loader: DataLoader[Any] = DataLoader(
        dataset,  # type: ignore[arg-type]
        batch_sampler=sampler,  # type: ignore[arg-type]
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
        generator=torch.Generator(),
        worker_init_fn=_init_worker if workers else None,
        pin_memory=pinned,
        collate_fn=collate,
    )
    return iter(loader)


def to_device(batch: Batch, device: torch.device) -> Batch:
    return tuple(tensor.to(device, non_blocking=True) for tensor in batch)


def _init_worker(_: int) -> None:
    # A signal reaches the whole process group: a worker that ends early would abort the last save.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    die_with_parent()
