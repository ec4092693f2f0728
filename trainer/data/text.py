"""The samples of a language model: windows of tokens, and conversations.

A sample is (inputs, targets), or with separate documents (inputs, targets, positions), int64 [context] each.
A position counts from the start of the token's document; a token attends only to its own document.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from trainer.data.loader import IGNORED
from trainer.data.token_file import TARGET, TokenFile

Sample = tuple[torch.Tensor, ...]
_ID = np.uint32(TARGET - 1)
_CHECKED_SAMPLES = 1000
"""Minimum number of samples that are checked for targets; the check takes about 50 ms."""


class Tokens(Protocol):
    """Token ids that can be sliced, from a file or from memory."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Any: ...


class Windows:
    """Tokens [N] in windows that do not overlap. With the id `end`, which ends each document, a token attends
    only to its own document."""

    def __init__(self, tokens: Tokens, context: int, end: int | None = None) -> None:
        self._tokens, self._context, self._end = tokens, context, end

    def __len__(self) -> int:
        return (len(self._tokens) - 1) // self._context

    def __getitem__(self, index: int) -> Sample:
        start = index * self._context
        window = np.asarray(self._tokens[start : start + self._context + 1]).astype(np.int64)
        row = torch.from_numpy(window)
        if self._end is None:
            return row[:-1], row[1:]
        starts = np.append(True, window[:-2] == self._end)
        return row[:-1], row[1:], torch.from_numpy(_positions(starts))

    def fingerprint(self) -> str:
        """Return the hash of the tokens and of the windows, or "" if the tokens have no hash."""
        known = getattr(self._tokens, "hash", "")
        return known and f"windows of {self._context}, {self._end}: {known}"


class Conversations:
    """Documents of a token file with marked targets.

    A document longer than the context is truncated; the rest of a sample has `IGNORED` targets. `packs` is a
    file of `data.packing`: with it a sample has as many separate documents as fit.
    """

    def __init__(self, tokens: TokenFile, context: int, packs: Path | None = None) -> None:
        self._tokens, self._context = tokens, context
        self._packs = None if packs is None else np.memmap(packs, np.dtype("<i8"), "r")

    def __len__(self) -> int:
        return self._tokens.info.documents if self._packs is None else len(self._packs) - 1

    def __getitem__(self, index: int) -> Sample:
        first, end = (index, index + 1) if self._packs is None else self._packs[index : index + 2].tolist()
        inputs = np.full(self._context, self._tokens.info.end, np.int64)
        targets = np.full(self._context, IGNORED, np.int64)
        starts = np.zeros(self._context, bool)
        place = 0
        for number in range(first, end):
            row = self._tokens.document(number)[: self._context - place + 1]
            after = place + len(row) - 1
            ids = (row & _ID).astype(np.int64)
            inputs[place:after] = ids[:-1]
            targets[place:after] = np.where(row[1:] & np.uint32(TARGET), ids[1:], IGNORED)
            starts[place : place + 1] = True
            place = after
        starts[place : place + 1] = True
        sample = torch.from_numpy(inputs), torch.from_numpy(targets)
        return sample if self._packs is None else (*sample, torch.from_numpy(_positions(starts)))

    def without_targets(self) -> tuple[int, int]:
        """Return the number of samples without targets, and of checked samples, which are evenly spread."""
        looked_at = range(0, len(self), max(1, len(self) // _CHECKED_SAMPLES))
        return sum(not bool((self[number][1] != IGNORED).any()) for number in looked_at), len(looked_at)

    def fingerprint(self) -> str:
        """Return the hash of everything that determines the samples."""
        packed = "alone" if self._packs is None else "packed"
        return f"conversations of {self._context}, {packed}: {self._tokens.hash}"


def _positions(starts: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the distance of each position from the last start at or before it; the first position is a
    start."""
    places = np.arange(len(starts))
    return places - np.maximum.accumulate(np.where(starts, places, 0))
