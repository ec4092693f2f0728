"""Bytes of any text."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from trainer.config import DataError

TEXT = (".py", ".txt", ".md", ".rst", ".json", ".jsonl", ".csv", ".c", ".h")
LIMIT = 64 * 1024 * 1024


def local_path(uri: str) -> Path:
    """A gs:// or /gcs/ path where it is mounted: $VXTUI_GCS_ROOT, else /gcs (vertex facts 3.7)."""
    root = Path(os.environ.get("VXTUI_GCS_ROOT", "/gcs"))
    for prefix in ("gs://", "/gcs/"):
        if uri.startswith(prefix):
            return root / uri.removeprefix(prefix)
    return Path(uri)


def read_bytes(spec: str) -> torch.Tensor:
    """All bytes of `spec` (files or folders, comma-separated) as a uint8 tensor [N], in name order.

    Raises:
        DataError: when a path does not exist or nothing readable is in it.
    """
    parts: list[bytes] = []
    size = 0
    for one in spec.split(","):
        path = local_path(one.strip())
        if not path.exists():
            raise DataError(f"--data {one}: {path} does not exist on this node")
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in TEXT)
        for file in files:
            if size >= LIMIT or "site-packages" in file.parts or "test" in file.parts:
                continue
            parts.append(file.read_bytes())
            size += len(parts[-1])
    data = b"\n".join(parts)[:LIMIT]
    if len(data) < 4096:
        raise DataError(f"--data {spec}: only {len(data)} bytes of text were found; 4096 is the least")
    return torch.from_numpy(np.frombuffer(bytearray(data), dtype=np.uint8))


class Windows:
    """Bytes in windows that do not overlap: inputs and targets, int64 [context] each."""

    def __init__(self, data: torch.Tensor, context: int) -> None:
        self._data, self._context = data, context

    def __len__(self) -> int:
        return (len(self._data) - 1) // self._context

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        start = index * self._context
        row = self._data[start : start + self._context + 1].long()
        return row[:-1], row[1:]
