"""Bytes of any text, and the order in which they are seen: a pure function of seed and position."""

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


def order(seed: int, epoch: int, count: int) -> torch.Tensor:
    """Permutation of `count` windows in this epoch, the same on every machine."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return torch.randperm(count, generator=generator)


class Batches:
    """Windows by one global position: the global batch does not depend on the number of processes."""

    def __init__(self, data: torch.Tensor, context: int, seed: int) -> None:
        self._data, self._context, self._seed = data, context, seed
        self.windows = (len(data) - 1) // context
        self._epoch, self._order = -1, torch.empty(0)

    def window(self, position: int) -> torch.Tensor:
        """Bytes [context + 1] of the window at a global position, over epochs."""
        epoch, place = divmod(position, self.windows)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, order(self._seed, epoch, self.windows)
        start = int(self._order[place]) * self._context
        return self._data[start : start + self._context + 1]

    def batch(self, position: int, size: int, rank: int, world: int) -> tuple[torch.Tensor, torch.Tensor]:
        """This rank's inputs and targets, int64 [size, context], of the `size * world` at `position`."""
        rows = [self.window(position + rank + i * world) for i in range(size)]
        block = torch.stack(rows).long()
        return block[:, :-1], block[:, 1:]
