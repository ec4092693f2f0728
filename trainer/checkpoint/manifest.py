"""The manifest of a checkpoint, which lists its files. A folder without a manifest is incomplete.

A checkpoint is a folder `step-N` with

- `manifest.json`: the run, and the size and checksum of every other file; it is written last;
- `side.pt`: the random state of each rank, and small values that all ranks share;
- `.metadata`, `__K_0.distcp`: weights and optimizer by torch.distributed.checkpoint (DDP and FSDP), or
- `zero/`: DeepSpeed's own files. `universal/`, converted from them for another world size, is not part of the
  checkpoint.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trainer.checkpoint.run_identity import RunIdentity
from trainer.errors import CheckpointError

MANIFEST = "manifest.json"
EXTRA_STATE = "side.pt"
FORMAT = 2
"""Version of the checkpoint format. Checkpoints of format 1 do not name their run, so no run continues from
them."""


class FormatError(CheckpointError):
    """A checkpoint of another format. The trainer refuses it instead of skipping it as damaged."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a checkpoint. `files` maps a name to its `bytes`, `crc32` and the `node` that wrote it.

    If each node has its own disk, its manifest lists the files of that disk, and `node` is the node's rank.
    `shared` is true if all files are in one folder. `progress` is the state of the training loop: position in
    the data, losses, time spent. `config` (the settings), `data` (the fingerprint of the training data) and
    `precision` (of the computation) determine the training curve. `saved` is the time at which the save
    began, in seconds since the epoch and equal on all nodes. `seconds` is the duration of the save.
    """

    step: int
    strategy: str
    layout: str
    world_size: int
    nodes: int
    node: int
    shared: bool
    files: dict[str, dict[str, int]]
    run: RunIdentity
    saved: float
    progress: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    precision: str = ""
    seconds: float = 0.0
    format: int = FORMAT

    @property
    def size(self) -> int:
        """Size of all files, in bytes."""
        return sum(file["bytes"] for file in self.files.values())

    def is_part_of(self, node: int) -> bool:
        """Return whether this manifest lists only the files on `node`'s own disk."""
        return self.node == node and not self.shared

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        """Parse a manifest. Raises FormatError for a manifest of another format, and ValueError, KeyError or
        TypeError for any other invalid content."""
        fields = json.loads(text)
        if not isinstance(fields, dict) or not isinstance(fields.get("files"), dict):
            raise ValueError("the file must be a manifest")
        file_format = fields.get("format", 1)
        if file_format != FORMAT:
            raise FormatError(
                f"the file has format {file_format}, but this trainer reads format {FORMAT}: export "
                "the weights with the trainer that saved it (python -m trainer.export), and start in "
                "another --checkpoint-dir with --init-weights"
            )
        for file in fields["files"].values():
            _ = file["bytes"] + file["crc32"] + file["node"]
        return cls(**{**fields, "run": RunIdentity(**fields["run"]), "saved": float(fields["saved"])})


def inventory(folder: Path, node: int) -> dict[str, dict[str, int]]:
    """Sync each file below `folder`; return size and checksum by name. Raises OSError."""
    files = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        size = path.stat().st_size
        files[path.relative_to(folder).as_posix()] = {"bytes": size, "crc32": checksum(path), "node": node}
    return files


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, as the last step of a save. Raises OSError."""
    with (folder / MANIFEST).open("w") as file:
        file.write(manifest.to_json())
        file.flush()
        os.fsync(file.fileno())


def read(folder: Path) -> Manifest:
    """Read a manifest. Raises FormatError for another format, and CheckpointError for any other problem."""
    try:
        return Manifest.from_json((folder / MANIFEST).read_text())
    except FormatError as error:
        raise FormatError(f"{folder}: {error}") from error
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder}: the folder has no manifest (the save was interrupted)") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder}: its manifest can't be read: {error}") from error


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file. Raises OSError."""
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return value


def is_intact(path: Path, expected: Mapping[str, int]) -> bool:
    """Return whether a file exists and matches the size and checksum in its manifest."""
    try:
        return path.stat().st_size == expected["bytes"] and checksum(path) == expected["crc32"]
    except OSError:
        return False


def damage(folder: Path) -> str | None:
    """Read every byte of a checkpoint; return a description of the damage, or None if the checkpoint is
    intact."""
    try:
        manifest = read(folder)
    except CheckpointError as error:
        return str(error).removeprefix(f"{folder}: ")
    try:
        for name, expected in manifest.files.items():
            file = folder / name
            if not file.exists():
                return f"{name} is missing"
            if file.stat().st_size != expected["bytes"]:
                return f"{name} has {file.stat().st_size} bytes, but must have {expected['bytes']}"
            if checksum(file) != expected["crc32"]:
                return f"{name} does not match its checksum"
    except OSError as error:
        return f"{error.filename} can't be read: {error.strerror}"
    return None


def step_folders(folder: Path) -> list[Path]:
    """Return the folders `step-N`, the highest first; the result is empty if `folder` does not exist.

    Raises:
        OSError: if `folder` can't be listed; its contents are then unknown.
    """
    try:
        # glob would report a folder that can't be listed as empty.
        paths = list(folder.iterdir())
    except FileNotFoundError:
        return []
    numbered = [path for path in paths if path.name.startswith("step-") and path.name[5:].isdigit()]
    return sorted(numbered, key=step_of, reverse=True)


def step_of(path: Path) -> int:
    """Return the step N in the folder name `step-N`."""
    return int(path.name.removeprefix("step-"))


def saves(folder: Path) -> frozenset[tuple[str, int]]:
    """Return the complete checkpoints of a folder: the name and the completion time (ns since the epoch) of
    each. A new pair is a new save, even if the clock was changed."""
    saved = set[tuple[str, int]]()
    with suppress(OSError):
        for path in step_folders(folder):
            with suppress(OSError):
                saved.add((path.name, (path / MANIFEST).stat().st_mtime_ns))
    return frozenset(saved)


def other_run(path: Path, run: RunIdentity) -> RunIdentity | None:
    """Return the run of the checkpoint at `path` if it differs from `run`. Return None if the runs are the
    same or the manifest can't be read."""
    with suppress(CheckpointError):
        saved_by = read(path).run
        return saved_by if saved_by.id != run.id else None
    return None
