"""The manifest of a checkpoint: what belongs to it. It is written last, and without it there is none.

A checkpoint is a folder `step-N` with

- `manifest.json`: this file, with the size and the checksum of every other;
- `side.pt`: each rank's random state, and small things that all ranks share;
- `.metadata`, `__K_0.distcp`: weights and optimizer by torch.distributed.checkpoint (DDP and FSDP), or
- `zero/`: DeepSpeed's own files; once another number of processes has loaded them, also `universal/`, which
  is made of them and no part of the checkpoint.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
SIDE = "side.pt"


class CheckpointError(Exception):
    """A checkpoint can't be written or read; the message names the path and the reason."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint is. `files` maps a name to its `bytes`, `crc32` and the `node` that wrote it.

    On nodes with disks of their own each node's manifest lists what lies there; `node` says whose it is.
    `progress` is the loop's: position in the data, losses, time spent.
    """

    step: int
    strategy: str
    layout: str
    world_size: int
    nodes: int
    node: int
    shared: bool
    files: dict[str, dict[str, int]]
    progress: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(about["bytes"] for about in self.files.values())

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        """Raises ValueError, KeyError or TypeError for anything else than a manifest."""
        found = json.loads(text)
        if not isinstance(found, dict) or not isinstance(found.get("files"), dict):
            raise ValueError("it is no manifest")
        for about in found["files"].values():
            _ = about["bytes"] + about["crc32"] + about["node"]
        return cls(**found)


def inventory(folder: Path, node: int) -> dict[str, dict[str, int]]:
    """Size and checksum of each file below `folder`, which is then on the disk for good. Raises OSError."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        size = path.stat().st_size
        found[path.relative_to(folder).as_posix()] = {"bytes": size, "crc32": checksum(path), "node": node}
    return found


def write(folder: Path, manifest: Manifest) -> None:
    """The last step of a save. Raises OSError."""
    with (folder / MANIFEST).open("w") as file:
        file.write(manifest.to_json())
        file.flush()
        os.fsync(file.fileno())


def read(folder: Path) -> Manifest:
    """Raises CheckpointError."""
    try:
        return Manifest.from_json((folder / MANIFEST).read_text())
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder}: it has no manifest (the save was cut off)") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder}: its manifest can't be read: {error}") from error


def checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return value


def damage(folder: Path) -> str | None:
    """What is wrong with a checkpoint, or None. Every byte is read."""
    try:
        manifest = read(folder)
    except CheckpointError as error:
        return str(error).removeprefix(f"{folder}: ")
    try:
        for name, about in manifest.files.items():
            file = folder / name
            if not file.exists():
                return f"{name} is missing"
            if file.stat().st_size != about["bytes"]:
                return f"{name} has {file.stat().st_size} bytes, not {about['bytes']}"
            if checksum(file) != about["crc32"]:
                return f"{name} does not match its checksum"
    except OSError as error:
        return f"{error.filename} can't be read: {error.strerror}"
    return None


def numbered(folder: Path) -> list[Path]:
    """Folders `step-N`, newest first."""
    found = [p for p in folder.glob("step-*") if p.name[5:].isdigit()]
    return sorted(found, key=lambda p: int(p.name[5:]), reverse=True)
