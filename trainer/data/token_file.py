"""Token files, mapped into memory: NAME.bin (only little-endian ids) and NAME.json with the format.

In a file with marked targets the highest bit of an id marks a target. NAME.starts has the positions of the
documents (int64), which are 0 and the end of each document.

From a mounted bucket a step reads only its ranges: no file is copied completely.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.data.documents import PIECE, TextPiece
from trainer.data.tokenizer import Tokenizer
from trainer.errors import DataError

FORMAT = 2
TARGET = 1 << 31
"""The bit that marks a target."""
_DTYPES = {"|u1": 1 << 8, "<u2": 1 << 16, "<u4": TARGET}
"""The types of the ids, each with its largest vocabulary."""
_DOCUMENTS = 1 << 20
"""Number of documents whose lengths are in memory at once."""
_START = np.dtype("<i8")
_BATCH = 2 * PIECE
"""Characters that are tokenised together: enough for all cores, with bounded memory."""


@dataclass(frozen=True, slots=True)
class TokenFileInfo:
    """The description of a token file: `tokens` ids below `vocabulary`, in `documents` documents.

    The id `end` separates documents, and follows each document unless targets are `marked`. `hash` covers the
    ids as they are in the file.
    """

    tokens: int
    documents: int
    vocabulary: int
    end: int
    dtype: str
    tokenizer: str
    hash: str
    marked: bool = False
    format: int = FORMAT


def write_tokens(
    path: Path, pieces: Iterable[TextPiece], tokenizer: Tokenizer, *, marked: bool = False
) -> TokenFileInfo:
    """Write the tokens of all documents; after an error no file remains.

    The function needs some tens of MiB of memory for any number of documents.

    Raises:
        DataError: if there are no documents or the file can't be written.
    """
    # Use the smallest sufficient type, which gives the shortest file.
    dtype = next(name for name, most in _DTYPES.items() if tokenizer.vocabulary <= most)
    dtype = "<u4" if marked else dtype
    names = {suffix: path.with_suffix(suffix) for suffix in (".part", ".starts-part", ".starts", ".json")}
    tokens = documents = 0
    digest = hashlib.blake2b(dtype.encode(), digest_size=16)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with names[".part"].open("wb") as file, names[".starts-part"].open("wb") as starts:
            starts.write(np.zeros(1, _START).tobytes())
            for batch in _batches(pieces):
                ids, ends = _tokens_of(batch, tokenizer, dtype, marked=marked)
                file.write(ids.data)
                digest.update(ids.data)
                if marked:
                    places = (tokens + ends).astype(_START).tobytes()
                    starts.write(places)
                    digest.update(places)
                tokens, documents = tokens + len(ids), documents + len(ends)
            file.flush()
            os.fsync(file.fileno())
        if not documents:
            raise DataError("there are no documents")
        info = TokenFileInfo(
            tokens,
            documents,
            tokenizer.vocabulary,
            tokenizer.end,
            dtype,
            tokenizer.name,
            digest.hexdigest(),
            marked,
        )
        if marked:
            names[".starts-part"].replace(names[".starts"])
        names[".json"].write_text(json.dumps(asdict(info), indent=2) + "\n")
        # The .bin is renamed last: a reader needs the other files, and checks the size.
        names[".part"].replace(path)
    except OSError as error:
        raise DataError(f"{path} can't be written: {error.strerror}") from error
    finally:
        for suffix in (".part", ".starts-part"):
            names[suffix].unlink(missing_ok=True)
    return info


def _batches(pieces: Iterable[TextPiece]) -> Iterator[list[TextPiece]]:
    batch: list[TextPiece] = []
    characters = 0
    for piece in pieces:
        batch.append(piece)
        characters += len(piece.text)
        if characters >= _BATCH:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _tokens_of(
    batch: list[TextPiece], tokenizer: Tokenizer, dtype: str, *, marked: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the token ids of the batch, and the positions in them at which documents end."""
    end = np.array([tokenizer.end], np.uint32)
    parts: list[npt.NDArray[Any]] = []
    ends, length = [], 0
    for piece, ids in zip(batch, tokenizer.encode_batch([piece.text for piece in batch]), strict=True):
        parts.append(ids.astype(np.uint32) | TARGET if marked and piece.is_target else ids)
        length += len(ids)
        if piece.ends_document:
            if not marked:
                parts.append(end)
                length += 1
            ends.append(length)
    return np.concatenate(parts, dtype=dtype, casting="unsafe"), np.asarray(ends, np.int64)


class TokenFile:
    """The ids of a token file by slice, mapped into memory.

    Raises:
        DataError: if the file does not exist or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.info = path, read_info(path)
        self._tokens: npt.NDArray[Any] | None = None
        self._starts: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self.info.tokens

    def __getitem__(self, part: slice) -> npt.NDArray[Any]:
        if self._tokens is None:
            self._tokens = np.memmap(self.path, np.dtype(self.info.dtype), "r")
        return self._tokens[part]

    def document(self, number: int) -> npt.NDArray[Any]:
        """Return the ids of a document in a file with marked targets."""
        start, end = self._mapped_starts()[number : number + 2].tolist()
        return self[start:end]

    def lengths(self, first: int, end: int) -> npt.NDArray[np.int64]:
        """Return the lengths of documents `first` to `end` in ids, in a file with marked targets."""
        return np.diff(self._mapped_starts()[first : end + 1])

    def beyond(self, length: int) -> tuple[int, int]:
        """Return the number of documents that are longer, and the number of their ids beyond this length, in
        a file with marked targets."""
        count = lost = 0
        for first in range(0, self.info.documents, _DOCUMENTS):
            excess = self.lengths(first, min(self.info.documents, first + _DOCUMENTS)) - length
            count += int((excess > 0).sum())
            lost += int(excess[excess > 0].sum())
        return count, lost

    def _mapped_starts(self) -> npt.NDArray[np.int64]:
        if self._starts is None:
            self._starts = np.memmap(self.path.with_suffix(".starts"), _START, "r")
        return self._starts

    @property
    def where(self) -> str:
        """The file, as `--data` names it."""
        return str(self.path)

    def __getstate__(self) -> dict[str, object]:
        # Each worker maps the files itself; the tokens are not pickled.
        return self.__dict__ | {"_tokens": None, "_starts": None}

    @property
    def hash(self) -> str:
        """Return a hash of the tokens."""
        return self.info.hash


class TokenShards:
    """The ids of several token files by slice, in the given order; a window may cross the edge of a file.
    Raises DataError if a file is damaged, has conversations, or was written with another tokenizer."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = [TokenFile(path) for path in paths]
        first = self._files[0].info
        for file in self._files:
            info = file.info
            if info.marked:
                raise DataError(f"{file.path} has conversations: use no other file with it")
            if (info.vocabulary, info.end, info.tokenizer) != (first.vocabulary, first.end, first.tokenizer):
                raise DataError(
                    f"{file.path} has ids of {info.tokenizer}, but {self._files[0].path} has ids of "
                    f"{first.tokenizer}: write all files with one tokenizer"
                )
        self._ends = list(accumulate(file.info.tokens for file in self._files))
        hashes = "".join(file.hash for file in self._files)
        self.info = replace(
            first,
            tokens=self._ends[-1],
            documents=sum(file.info.documents for file in self._files),
            hash=hashlib.blake2b(hashes.encode(), digest_size=16).hexdigest(),
        )

    def __len__(self) -> int:
        return self.info.tokens

    def __getitem__(self, part: slice) -> npt.NDArray[Any]:
        start, end, _ = part.indices(len(self))
        parts = []
        number = bisect_right(self._ends, start)
        while start < end:
            before = self._ends[number] - len(self._files[number])
            here = min(end, self._ends[number])
            parts.append(self._files[number][start - before : here - before])
            start, number = here, number + 1
        if not parts:
            return np.zeros(0, self.info.dtype)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def where(self) -> str:
        """Return the files as `--data` names them."""
        return ",".join(str(file.path) for file in self._files)

    @property
    def hash(self) -> str:
        """Return a hash of the tokens and of their split into files."""
        return self.info.hash


def open_tokens(paths: Sequence[Path]) -> TokenFile | TokenShards:
    """Open the tokens of one or several files. Raises DataError as `TokenFile` and `TokenShards` do."""
    return TokenFile(paths[0]) if len(paths) == 1 else TokenShards(paths)


def read_info(path: Path) -> TokenFileInfo:
    """Return the description of a complete token file.

    Raises:
        DataError: if there is no complete token file.
    """
    info_path = path.with_suffix(".json")
    try:
        values = json.loads(info_path.read_text())
        version = values.get("format") if isinstance(values, dict) else None
        if isinstance(version, int) and version != FORMAT:
            raise DataError(
                f"{path} has format {version}, but this trainer reads format {FORMAT}: write the file again"
            )
        info = TokenFileInfo(**values)
        if info.dtype not in _DTYPES:
            raise ValueError(f"the ids have the unsupported type {info.dtype}")
        sizes = {path: info.tokens * np.dtype(info.dtype).itemsize}
        if info.marked:
            sizes[path.with_suffix(".starts")] = (info.documents + 1) * _START.itemsize
        actual_sizes = {file: file.stat().st_size for file in sizes}
    except OSError as error:
        raise DataError(
            f"{error.filename}: {error.strerror}. `python -m trainer.prepare` writes token files"
        ) from error
    except (ValueError, TypeError) as error:
        raise DataError(f"{info_path} does not describe a token file: {error}") from error
    for file, size in sizes.items():
        if actual_sizes[file] != size:
            raise DataError(
                f"{file} has {actual_sizes[file]} bytes, but {info_path.name} lists {size}: write the "
                "file again"
            )
    return info
