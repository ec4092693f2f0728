"""JSON lines by number: the file and the positions of its lines are mapped into memory, which processes
share."""

from __future__ import annotations

import hashlib
import json
import mmap
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.data.data_cache import DataProgress, cache_name, only_writer
from trainer.data.documents import parse_json
from trainer.errors import DataError

_FORMAT = 1
_PLACE = np.dtype("<i8")
_BUFFERED_LINES = 1 << 16

Check = Callable[[int, Any], object]
"""Function that checks the number (from 1) and the value of each line; raises DataError for a wrong line."""


@dataclass(frozen=True, slots=True)
class _Info:
    """The description of an index of `lines` lines; `hash` covers the complete .jsonl file."""

    lines: int
    hash: str
    format: int = _FORMAT


class JsonLines:
    """The non-blank lines of a .jsonl file: item n is the value of the n-th line.

    All lines are checked once, and their positions (int64, in bytes) are stored in the data cache.

    Raises:
        DataError: if a line can't be read; the message names the file and the line.
    """

    def __init__(self, path: Path, cache: Path, check: Check, progress: DataProgress | None = None) -> None:
        self._path = path
        self._places_path, self._info = _index(path, cache, check, progress or DataProgress())
        self._text: mmap.mmap | None = None
        self._places: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self._info.lines

    def __getitem__(self, number: int) -> Any:
        if self._text is None or self._places is None:
            with self._path.open("rb") as file:
                self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._places = np.memmap(self._places_path, _PLACE, "r")
        start = int(self._places[number])
        end = self._text.find(b"\n", start)
        try:
            return json.loads(self._text[start : end if end >= 0 else len(self._text)])
        except ValueError as error:
            raise DataError(
                f"{self._path} was changed during the run: no line begins at byte {start}"
            ) from error

    def __getstate__(self) -> dict[str, object]:
        # Each worker maps the files itself.
        return self.__dict__ | {"_text": None, "_places": None}

    def number_in_file(self, number: int) -> int:
        """Return the line number in the file, from 1 and counting blank lines, of the n-th non-blank line."""
        self[number]
        assert self._text is not None and self._places is not None
        end, count = int(self._places[number]), 1
        while (end := self._text.rfind(b"\n", 0, end)) >= 0:
            count += 1
        return count

    def beside(self, suffix: str) -> Path:
        """Return the path for a file derived from the lines, beside their index."""
        return self._places_path.with_suffix(suffix)

    def fingerprint(self) -> str:
        """Return a hash of the file."""
        return self._info.hash


def _index(path: Path, cache: Path, check: Check, progress: DataProgress) -> tuple[Path, _Info]:
    """Return the file with the positions of the lines, written now if the cache has none."""
    try:
        status = path.stat()
        # Report an unreadable file now rather than at the first sample.
        with path.open("rb"):
            pass
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from error
    where = str(path.resolve())
    name = cache_name(format=_FORMAT, file=where, size=status.st_size, modified_ns=status.st_mtime_ns)
    index = cache / f"{name}.lines"
    info = _read_info(index)
    if info is None:
        with only_writer(index, progress):
            info = _read_info(index)
            if info is None:
                progress.begin(f"--data {path}", status.st_size)
                info = _write(path, index, check, progress)
    return index, info


def _read_info(index: Path) -> _Info | None:
    try:
        info = _Info(**json.loads(index.with_suffix(".json").read_text()))
        complete = index.stat().st_size == info.lines * _PLACE.itemsize
    except (OSError, ValueError, TypeError):
        return None
    return info if complete else None


def _write(path: Path, index: Path, check: Check, progress: DataProgress) -> _Info:
    digest, offset, lines = hashlib.blake2b(digest_size=16), 0, 0
    scratch = index.with_suffix(".part")
    places = array("q")
    try:
        with path.open("rb") as file, scratch.open("wb") as out:
            for number, line in enumerate(file, 1):
                digest.update(line)
                progress.read(len(line))
                if line.strip():
                    check(number, parse_json(path, number, line, offset))
                    places.append(offset)
                    lines += 1
                offset += len(line)
                if len(places) >= _BUFFERED_LINES:
                    out.write(_to_bytes(places))
                    places = array("q")
            out.write(_to_bytes(places))
        info = _Info(lines, digest.hexdigest())
        # The positions are renamed last: a reader needs both files, and checks the size.
        index.with_suffix(".json").write_text(json.dumps(asdict(info)) + "\n")
        scratch.replace(index)
    except OSError as error:
        raise DataError(f"{index} can't be written: {error.strerror}") from error
    finally:
        scratch.unlink(missing_ok=True)
    return info


def _to_bytes(places: array[int]) -> bytes:
    return np.asarray(places, _PLACE).tobytes()
