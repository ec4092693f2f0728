"""A record of each step of a process: its samples, and the weights after it.

The record shows whether two runs, or two ranks, computed the same. The kernel has each line before the step
continues, so the line survives a killed process.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence

import torch
from torch import nn

from trainer.cloud_paths import local_path
from trainer.errors import UsageError
from trainer.optimizers.sharded import local_shard


class StepLog:
    """Appends to `steps-<host's process id>-<start>.jsonl` below the folder; does nothing without a folder.

    A step has two lines: at its start with the `samples` of this rank, and after the update with the `hash`
    of the weights. `epoch` is the number of the membership in an elastic run, otherwise of the attempt.

    Raises:
        UsageError: if the folder can't be written.
    """

    def __init__(self, folder: str) -> None:
        self._file: int | None = None
        self.epoch = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        if folder:
            path = local_path(folder)
            name = f"steps-{os.getpid()}-{time.time_ns()}.jsonl"
            try:
                path.mkdir(parents=True, exist_ok=True)
                self._file = os.open(path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            except OSError as error:
                problem = f"--step-log {folder} can't be written on this node: {error.strerror}"
                raise UsageError(problem) from error

    def begin(self, step: int, rank: int, samples: Callable[[], Sequence[int]]) -> None:
        if self._file is not None:
            self._write(step=step, rank=rank, samples=list(samples()))

    def done(self, step: int, rank: int, model: nn.Module) -> None:
        if self._file is not None:
            self._write(step=step, rank=rank, hash=_hash(model))

    def _write(self, **fields: object) -> None:
        assert self._file is not None
        line = {**fields, "epoch": self.epoch, "time": time.time()}
        os.write(self._file, json.dumps(line).encode() + b"\n")


def _hash(model: nn.Module) -> str:
    """Return a hash of this rank's part of the weights."""
    digest = hashlib.sha256()
    for name, weight in model.named_parameters():
        own = local_shard(weight.detach()).cpu().contiguous()
        digest.update(name.encode())
        digest.update(own.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
