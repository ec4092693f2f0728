"""Checkpoints: `step-N/` with the shared state, one file of random state a rank, and the manifest last.

With DDP every rank holds the same model and optimizer, so rank 0 writes them once with `torch.save`: one
file that loads at any world size. Strategies that shard will bring torch.distributed.checkpoint with them.
A directory without a manifest, or one whose files do not match it, is not a checkpoint.
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
from typing import Any

import numpy as np
import torch

STATE = "state.pt"
MANIFEST = "manifest.json"


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
    return {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_rng_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
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
    """The checkpoints below one folder. `barrier` makes every rank wait for all."""

    def __init__(
        self, folder: Path, *, keep: int, rank: int, world: int, barrier: Callable[[], None]
    ) -> None:
        self._folder, self._keep = folder, keep
        self._rank, self._world, self._barrier = rank, world, barrier

    def save(self, step: int, state: dict[str, Any], about: dict[str, Any]) -> Saved:
        """Every rank calls it with the same `step`; `state` is written by rank 0. Raises CheckpointError."""
        began = time.monotonic()
        final, partial = self._folder / f"step-{step}", self._folder / f"step-{step}.partial"
        try:
            if self._rank == 0:
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                _write(partial / STATE, state)
            self._barrier()
            _write(partial / f"rank-{self._rank}.rng", rng_state())
            self._barrier()
            if self._rank == 0:
                self._seal(partial, final, step, about)
            self._barrier()
        except OSError as error:
            raise CheckpointError(f"can't write {final}: {error.strerror or error}") from error
        size = sum(p.stat().st_size for p in final.iterdir())
        return Saved(final, step, size, time.monotonic() - began)

    def _seal(self, partial: Path, final: Path, step: int, about: dict[str, Any]) -> None:
        files = {
            p.name: {"bytes": p.stat().st_size, "crc32": _checksum(p)} for p in sorted(partial.iterdir())
        }
        manifest = {"step": step, "world_size": self._world, "files": files, **about}
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
        """The newest good checkpoint; each damaged one above it is reported and passed over."""
        for path in self._numbered():
            problem = damage(path)
            if problem is None:
                return path
            report(f"checkpoint {path} is passed over: {problem}")
        return None

    def load(self, path: Path, device: torch.device) -> dict[str, Any]:
        """The state that rank 0 saved; this rank's random state is restored where it has one."""
        state: dict[str, Any] = torch.load(path / STATE, map_location=device, weights_only=False)
        own = path / f"rank-{self._rank}.rng"
        if own.exists():
            set_rng_state(torch.load(own, map_location="cpu", weights_only=False))
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
