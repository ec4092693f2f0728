"""Split a dataset into a part for training and a part for the evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.data.fingerprint import fingerprint_of
from trainer.data.loader import Dataset

HELD_OUT = 16
"""Divisor of the dataset: the last 1/16 of the samples is held out."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Samples `first` to `end` of a dataset."""

    whole: Dataset
    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first

    def __getitem__(self, index: int) -> object:
        return self.whole[self.first + index]

    def fingerprint(self) -> str:
        whole = fingerprint_of(self.whole)
        return whole and f"{self.first} to {self.end} of {whole}"


def hold_out(dataset: Dataset) -> tuple[Slice, Slice]:
    """Return the samples for training and the samples for the evaluation, at least one; a single sample
    belongs to the evaluation."""
    end = len(dataset)
    edge = end - max(1, end // HELD_OUT)
    return Slice(dataset, 0, edge), Slice(dataset, edge, end)
