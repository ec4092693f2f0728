"""Text as bytes, and windows of tokens in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from trainer.cloud_paths import local_path
from trainer.errors import DataError

TEXT_SUFFIXES = (".py", ".txt", ".md", ".rst", ".json", ".jsonl", ".csv", ".c", ".h")
SKIPPED = {"site-packages", "test"}
"""Folders of Python's library that are not part of the default data."""
MAX_BYTES = 64 * 1024 * 1024
MIN_BYTES = 4096


def read_bytes(spec: str) -> torch.Tensor:
    """All bytes of `spec` (files or folders, comma-separated) as a uint8 tensor [N], in name order.

    Raises:
        DataError: if a path does not exist or has no text.
    """
    parts: list[bytes] = []
    size = 0
    for one in spec.split(","):
        path = local_path(one.strip())
        if not path.exists():
            raise DataError(f"--data {one}: {path} does not exist on this node")
        for file in [path] if path.is_file() else _texts(path):
            if size >= MAX_BYTES:
                break
            parts.append(file.read_bytes())
            size += len(parts[-1])
    data = b"\n".join(parts)[:MAX_BYTES]
    if len(data) < MIN_BYTES:
        raise DataError(f"--data {spec} has only {len(data)} bytes of text; the minimum is {MIN_BYTES}")
    return torch.from_numpy(np.frombuffer(bytearray(data), dtype=np.uint8))


def _texts(folder: Path) -> Iterator[Path]:
    """Text files below the folder, sorted by name; lazily, since a restart waits for the listing."""
    if not SKIPPED.isdisjoint(folder.parts):
        return
    with os.scandir(folder) as scanned:
        entries = sorted(scanned, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _texts(folder / entry.name)
        elif entry.name.endswith(TEXT_SUFFIXES) and entry.is_file():
            yield folder / entry.name


class Windows:
    """Tokens [N] in windows that do not overlap: item n is (inputs, targets), int64 [context] each."""

    def __init__(self, data: torch.Tensor, context: int) -> None:
        self._data, self._context = data, context

    def __len__(self) -> int:
        return (len(self._data) - 1) // self._context

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        start = index * self._context
        row = self._data[start : start + self._context + 1].long()
        return row[:-1], row[1:]
