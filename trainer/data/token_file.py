"""Token files, mapped into memory: NAME.bin (little-endian ids only) and NAME.json with its format."""

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

from trainer.data.tokenizer import Tokenizer
from trainer.errors import DataError

FORMAT = 1
_BUFFERED_TOKENS = 1 << 20
"""Tokens kept in memory while writing."""


@dataclass(frozen=True, slots=True)
class TokenFileInfo:
    """A token file has `tokens` ids below `vocabulary`, of `documents` documents."""

    tokens: int
    documents: int
    vocabulary: int
    dtype: str
    tokenizer: str
    format: int = FORMAT


def write_tokens(path: Path, documents: Iterable[str], tokenizer: Tokenizer) -> TokenFileInfo:
    """Write the tokens of all documents, each followed by the tokenizer's end; an error leaves no file.

    Raises:
        DataError: if there are no documents or the file can't be written.
    """
    # 16 bits if they suffice: half as much to read.
    dtype = np.dtype("<u2" if tokenizer.vocabulary <= 1 << 16 else "<u4")
    scratch, info_path = path.with_suffix(".part"), path.with_suffix(".json")
    tokens_written = document_count = 0
    buffer: list[int] = []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("wb") as file:
            for document in documents:
                buffer += [*tokenizer.encode(document), tokenizer.end]
                document_count += 1
                if len(buffer) >= _BUFFERED_TOKENS:
                    tokens_written += len(buffer)
                    file.write(np.asarray(buffer, dtype).tobytes())
                    buffer.clear()
            tokens_written += len(buffer)
            file.write(np.asarray(buffer, dtype).tobytes())
            file.flush()
            os.fsync(file.fileno())
        if not document_count:
            raise DataError("there are no documents")
        info = TokenFileInfo(tokens_written, document_count, tokenizer.vocabulary, dtype.str, tokenizer.name)
        # The .bin is renamed last: a reader needs both files, and checks the size.
        info_path.write_text(json.dumps(asdict(info), indent=2) + "\n")
        scratch.replace(path)
    except OSError as error:
        raise DataError(f"{path} can't be written: {error.strerror}") from error
    finally:
        scratch.unlink(missing_ok=True)
    return info


class TokenFile(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Windows of `context` tokens side by side: item n is (inputs, targets), int64 [context] each.

    Raises:
        DataError: if the file does not exist, is damaged, or is shorter than one window.
    """

    def __init__(self, path: Path, context: int) -> None:
        self.context = context
        self.info = _read_info(path)
        self._path = path
        self._tokens: npt.NDArray[Any] | None = None
        if self.info.tokens <= context:
            raise DataError(f"{path} has {self.info.tokens} tokens; one window has {context + 1}")

    def __len__(self) -> int:
        return (self.info.tokens - 1) // self.context

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        begin = index * self.context
        tokens = torch.from_numpy(self._mapped()[begin : begin + self.context + 1].astype(np.int64))
        return tokens[:-1], tokens[1:]

    def __getstate__(self) -> dict[str, object]:
        # A worker maps the file itself; the tokens are not pickled.
        return self.__dict__ | {"_tokens": None}

    def _mapped(self) -> npt.NDArray[Any]:
        if self._tokens is None:
            self._tokens = np.memmap(self._path, np.dtype(self.info.dtype), "r")
        return self._tokens


def _read_info(path: Path) -> TokenFileInfo:
    info_path = path.with_suffix(".json")
    try:
        info = TokenFileInfo(**json.loads(info_path.read_text()))
        size = path.stat().st_size
    except OSError as error:
        raise DataError(
            f"{error.filename}: {error.strerror}. `python -m trainer.prepare` writes token files"
        ) from error
    except (ValueError, TypeError) as error:
        raise DataError(f"{info_path} does not describe a token file: {error}") from error
    if info.format != FORMAT or info.dtype not in {"<u2", "<u4"}:
        raise DataError(f"{path} has format {info.format}, {info.dtype}; this trainer reads {FORMAT}")
    expected = info.tokens * np.dtype(info.dtype).itemsize
    if size != expected:
        raise DataError(f"{path} has {size} bytes, {info_path.name} says {expected}: write it again")
    return info
