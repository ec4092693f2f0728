"""Batches from a map-style dataset, read ahead by worker processes where that is asked for."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader

from trainer.data.sampler import Sampler

_PR_SET_PDEATHSIG = 1

Batch = tuple[torch.Tensor, ...]


class Dataset(Protocol):
    """Samples by index; each is a tuple of tensors, which are stacked and given to the model in order."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Any: ...


def batches(dataset: Dataset, sampler: Sampler, workers: int, *, pinned: bool) -> Iterator[Batch]:
    """Tuples of stacked tensors [micro-batch, …], without an end.

    The loader has a generator of its own: with the process's, starting it would change what dropout draws.
    """
    loader: DataLoader[Any] = DataLoader(
        dataset,  # type: ignore[arg-type]
        batch_sampler=sampler,  # type: ignore[arg-type]
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
        generator=torch.Generator(),
        worker_init_fn=_worker if workers else None,
        pin_memory=pinned,
    )
    return iter(loader)


def _worker(_: int) -> None:
    # A signal goes to the whole process group: a worker that died of it would end the last save midway.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
