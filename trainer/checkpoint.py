"""Checkpoints: `step-N/` with the state, one file of random state a rank, and the manifest last.

With DDP every rank holds the same model and optimizer, so one writer a folder saves them with `torch.save`:
one file that loads at any world size. Strategies that shard will bring torch.distributed.checkpoint along.

The folder may be one that all nodes see (Cloud Storage, NFS) or each node's own disk; which of the two is
found out at the start. On disks of their own every node keeps a whole checkpoint, and a resume takes the
newest step that all of them have. A directory without a manifest, or one whose files do not match it, is
not a checkpoint.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

STATE = "state.pt"
MANIFEST = "manifest.json"


class Group(Protocol):
    """The ranks that save and load together."""

    rank: int
    local_rank: int
    world: int

    def barrier(self) -> None: ...

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, in the order of ranks."""
        ...


class CheckpointError(Exception):
    """A checkpoint can't be written or read; the message names the path and the reason."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A finished checkpoint: its place, its size in bytes and the seconds that it took."""

    path: Path
    step: int
    bytes: int
    seconds: float


def rng_state() -> dict[str, Any]:
    """Everything random in this process."""
    name, keys, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        # As a tensor: a checkpoint is read without unpickling, so that one from elsewhere can't run code.
        "numpy": (str(name), torch.from_numpy(np.asarray(keys, dtype=np.int64)), *rest),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_rng_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def _write(path: Path, value: Any) -> None:
    with path.open("wb") as file:
        torch.save(value, file)
        file.flush()
        os.fsync(file.fileno())


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return value


class Checkpoints:
    """The checkpoints below one folder, saved and loaded by all ranks together."""

    def __init__(self, folder: Path, *, keep: int, group: Group) -> None:
        """Raises CheckpointError when the folder can't be written."""
        self._folder, self._keep, self._group = folder, keep, group
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._shared = self._is_shared()
        except OSError as error:
            raise CheckpointError(f"can't write to {folder}: {error.strerror or error}") from error
        self._writes = group.rank == 0 if self._shared else group.local_rank == 0

    def _is_shared(self) -> bool:
        """Whether every rank sees what rank 0 writes."""
        group = self._group
        token = self._folder / f".seen-by-all-{group.gather(os.getpid())[0]}"
        if group.rank == 0:
            token.touch()
        group.barrier()
        seen = all(group.gather(token.exists()))
        if group.rank == 0:
            token.unlink(missing_ok=True)
        return seen

    def save(self, step: int, state: dict[str, Any], about: dict[str, Any]) -> Saved:
        """Every rank calls it with the same `step`. Raises CheckpointError."""
        began, group = time.monotonic(), self._group
        final, partial = self._folder / f"step-{step}", self._folder / f"step-{step}.partial"
        try:
            if self._writes:
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                _write(partial / STATE, state)
            group.barrier()
            _write(partial / f"rank-{group.rank}.rng", rng_state())
            group.barrier()
            if self._writes:
                self._seal(partial, final, step, about)
            group.barrier()
            size = sum(p.stat().st_size for p in final.iterdir())
        except OSError as error:
            raise CheckpointError(f"can't write {final}: {error.strerror or error}") from error
        return Saved(final, step, size, time.monotonic() - began)

    def _seal(self, partial: Path, final: Path, step: int, about: dict[str, Any]) -> None:
        files = {
            p.name: {"bytes": p.stat().st_size, "crc32": _checksum(p)} for p in sorted(partial.iterdir())
        }
        manifest = {"step": step, "world_size": self._group.world, "files": files, **about}
        with (partial / MANIFEST).open("w") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        for old in self._numbered()[self._keep :]:
            shutil.rmtree(old, ignore_errors=True)

    def _numbered(self) -> list[Path]:
        """Directories `step-N`, newest first."""
        found = [p for p in self._folder.glob("step-*") if p.name[5:].isdigit()]
        return sorted(found, key=lambda p: int(p.name[5:]), reverse=True)

    def newest(self, report: Callable[[str], None]) -> Path | None:
        """The newest good checkpoint that every rank has; a damaged one is reported and passed over."""
        good = []
        for path in self._numbered():
            problem = damage(path)
            if problem is None:
                good.append(int(path.name[5:]))
            else:
                report(f"checkpoint {path} is passed over: {problem}")
        common = set(good).intersection(*self._group.gather(good))
        return self._folder / f"step-{max(common)}" if common else None

    def load(self, path: Path, device: torch.device) -> dict[str, Any]:
        """The saved state; this rank's random state is restored where the checkpoint has it."""
        state: dict[str, Any] = torch.load(path / STATE, map_location=device, weights_only=True)
        own = path / f"rank-{self._group.rank}.rng"
        if own.exists():
            set_rng_state(torch.load(own, map_location="cpu", weights_only=True))
        return state


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        for name, about in manifest["files"].items():
            file = path / name
            if not file.exists():
                return f"{name} is missing"
            if file.stat().st_size != about["bytes"]:
                return f"{name} has {file.stat().st_size} bytes, not {about['bytes']}"
            if _checksum(file) != about["crc32"]:
                return f"{name} does not match its checksum"
    except FileNotFoundError:
        return "it has no manifest (the save was cut off)"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"its manifest can't be read: {error}"
    return None
