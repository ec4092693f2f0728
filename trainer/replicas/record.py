"""What is remembered of a mismatch until the same step was done again: a file beside the checkpoints."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "replica-mismatch.json"


@dataclass(frozen=True, slots=True)
class Record:
    """The combined hash of each rank's state at a step of a run at which replicas differed."""

    run: str
    step: int
    values: list[int]
    """By rank."""


def write(folder: Path, record: Record) -> None:
    """On the disk of each node. Raises OSError."""
    new = folder / f"{FILE}.{os.getpid()}"
    new.write_text(json.dumps(asdict(record)))
    new.replace(folder / FILE)


def read(folder: Path) -> Record | None:
    """None if there is none that can be read."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        said = json.loads((folder / FILE).read_text())
        return Record(str(said["run"]), int(said["step"]), [int(value) for value in said["values"]])
    return None


def delete(folder: Path) -> None:
    with suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)
