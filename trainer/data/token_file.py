"""Tokens on disk, mapped into memory: NAME.bin (little-endian ids, nothing else) and NAME.json about it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset

from trainer.config import DataError
from trainer.data.tokenizer import Tokenizer

FORMAT = 1
_AT_ONCE = 1 << 20
"""Tokens kept in memory while writing."""


@dataclass(frozen=True, slots=True)
class About:
    """What a token file holds: `tokens` ids below `vocabulary`, of `documents` documents."""

    tokens: int
    documents: int
    vocabulary: int
    dtype: str
    tokenizer: str
    format: int = FORMAT


def write_tokens(path: Path, documents: Iterable[str], tokenizer: Tokenizer) -> About:
    """Write the tokens of all documents, each followed by the tokenizer's end. Nothing half-written stays.

    Raises:
        DataError: when nothing was to be written or the file can't be.
    """
    # In 16 bits where they do: half the reading.
    dtype = np.dtype("<u2" if tokenizer.vocabulary <= 1 << 16 else "<u4")
    scratch, about = path.with_suffix(".part"), path.with_suffix(".json")
    count = number = 0
    waiting: list[int] = []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("wb") as file:
            for document in documents:
                waiting += [*tokenizer.encode(document), tokenizer.end]
                number += 1
                if len(waiting) >= _AT_ONCE:
                    count += len(waiting)
                    file.write(np.asarray(waiting, dtype).tobytes())
                    waiting.clear()
            count += len(waiting)
            file.write(np.asarray(waiting, dtype).tobytes())
            file.flush()
            os.fsync(file.fileno())
        if not number:
            raise DataError("there are no documents to make tokens of")
        said = About(count, number, tokenizer.vocabulary, dtype.str, tokenizer.name)
        # First what is in it: a reader needs both, and the sizes must agree.
        about.write_text(json.dumps(asdict(said), indent=2) + "\n")
        scratch.replace(path)
    except OSError as error:
        raise DataError(f"{path} can't be written: {error.strerror}") from error
    finally:
        scratch.unlink(missing_ok=True)
    return said


class TokenFile(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Windows of `context` tokens side by side: item n is (inputs, targets), int64 [context] each.

    Raises:
        DataError: when there is no such file, it is damaged, or it is shorter than one window.
    """

    def __init__(self, path: Path, context: int) -> None:
        self.context = context
        self.about = _about(path)
        self._path = path
        self._tokens: npt.NDArray[Any] | None = None
        if self.about.tokens <= context:
            raise DataError(f"{path} has {self.about.tokens} tokens; one window takes {context + 1}")

    def __len__(self) -> int:
        return (self.about.tokens - 1) // self.context

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        begin = index * self.context
        tokens = torch.from_numpy(self._mapped()[begin : begin + self.context + 1].astype(np.int64))
        return tokens[:-1], tokens[1:]

    def __getstate__(self) -> dict[str, object]:
        # A worker maps the file itself instead of being sent it.
        return self.__dict__ | {"_tokens": None}

    def _mapped(self) -> npt.NDArray[Any]:
        if self._tokens is None:
            self._tokens = np.memmap(self._path, np.dtype(self.about.dtype), "r")
        return self._tokens


def _about(path: Path) -> About:
    beside = path.with_suffix(".json")
    try:
        about = About(**json.loads(beside.read_text()))
        size = path.stat().st_size
    except OSError as error:
        raise DataError(
            f"{error.filename}: {error.strerror}. `python -m trainer.prepare` makes token files."
        ) from error
    except (ValueError, TypeError) as error:
        raise DataError(f"{beside} does not tell of a token file: {error}") from error
    if about.format != FORMAT or about.dtype not in {"<u2", "<u4"}:
        raise DataError(f"{path} is of format {about.format}, {about.dtype}; this trainer reads {FORMAT}")
    wanted = about.tokens * np.dtype(about.dtype).itemsize
    if size != wanted:
        raise DataError(f"{path} has {size} bytes, {beside.name} tells of {wanted}: make it again")
    return about
