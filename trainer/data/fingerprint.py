"""A fingerprint of the training data, which must be the same on all nodes and in a resumed run."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol, runtime_checkable

import torch

from trainer.data.loader import Dataset

_READ = 16
"""Number of evenly spaced samples that are hashed. A few samples suffice, because inserted text moves all
later samples."""


@runtime_checkable
class HasFingerprint(Protocol):
    """A dataset with a hash of everything that determines its samples. The hash is equal on every machine and
    fast to compute. The hash of a file's content is computed when the file is written."""

    def fingerprint(self) -> str: ...


def data_fingerprint(train: Dataset) -> dict[str, Any]:
    """Return `samples`, the number of samples for training, and `hash`, in hexadecimal digits.

    The hash is exact if the dataset has a `fingerprint`. Otherwise it covers some samples; it is "" if a
    sample changes with each read.
    """
    return {"samples": len(train), "hash": _hash(train)}


def _hash(dataset: Dataset) -> str:
    own = fingerprint_of(dataset)
    if own:
        return hashlib.sha256(own.encode()).hexdigest()[:16]
    count = len(dataset)
    if _sample(dataset, 0) != _sample(dataset, 0):
        return ""
    digest = hashlib.sha256()
    for index in sorted({n * (count - 1) // (_READ - 1) for n in range(_READ)}):
        digest.update(_sample(dataset, index))
    return digest.hexdigest()[:16]


def fingerprint_of(dataset: Dataset) -> str:
    """Return the hash of everything that determines the samples, or "" if the dataset has no hash."""
    return dataset.fingerprint() if isinstance(dataset, HasFingerprint) else ""


def _sample(dataset: Dataset, index: int) -> bytes:
    return b"".join(map(_bytes, dataset[index]))


def _bytes(value: object) -> bytes:
    if not isinstance(value, torch.Tensor):
        return repr(value).encode()
    shape = f"{value.dtype}{tuple(value.shape)}".encode()
    return shape + value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
