"""Documents of files and folders, in the same order on every machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from trainer.data.text import TEXT_SUFFIXES
from trainer.errors import DataError


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files, and the text files below the folders, sorted by name.

    Raises:
        DataError: for a path that does not exist.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_file():
            files.append(path)
        elif path.is_dir():
            files += sorted(p for p in path.rglob("*") if p.suffix in TEXT_SUFFIXES and p.is_file())
        else:
            raise DataError(f"{path} does not exist on this node")
    return files


def documents(files: Sequence[Path], field: str = "text") -> Iterator[str]:
    """The text of each file; of a .jsonl file the `field` of each line.

    Raises:
        DataError: with the file and the line that can't be read.
    """
    for path in files:
        try:
            if path.suffix == ".jsonl":
                yield from _lines(path, field)
            else:
                yield path.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise DataError(f"{path} can't be read: {error.strerror}") from error


def _lines(path: Path, field: str) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        try:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _text(path, number, line, field)
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not text in UTF-8: {error}") from error


def _text(path: Path, number: int, line: str, field: str) -> str:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise DataError(f"{path}:{number}: it is not JSON: {error}") from error
    text = value.get(field) if isinstance(value, dict) else None
    if not isinstance(text, str):
        known = f"; it has {', '.join(map(str, value))}" if isinstance(value, dict) else ""
        raise DataError(f'{path}:{number}: it has no text in "{field}"{known}; --field selects another')
    return text
