"""A fingerprint of the training data: a run that resumes must have the same samples in the same order."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from trainer.models.workload import Workload

_READ = 16
"""Samples that are hashed, at equal distances: text that is inserted moves all samples after it."""


def data_fingerprint(workload: Workload) -> dict[str, Any]:
    """`samples`, the number of samples for training, and `hash`, of some of them in hexadecimal digits."""
    train = workload.train
    count = len(train)
    digest = hashlib.sha256()
    for index in sorted({n * (count - 1) // (_READ - 1) for n in range(_READ)}):
        for value in train[index]:
            digest.update(_bytes(value))
    return {"samples": count, "hash": digest.hexdigest()[:16]}


def _bytes(value: object) -> bytes:
    if not isinstance(value, torch.Tensor):
        return repr(value).encode()
    shape = f"{value.dtype}{tuple(value.shape)}".encode()
    return shape + value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
