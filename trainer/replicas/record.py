"""The record of a mismatch, a file beside the checkpoints, until a later attempt repeats the step."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "replica-mismatch.json"


@dataclass(frozen=True, slots=True)
class MismatchRecord:
    """The combined hash of each rank's state at the step of a run at which replicas differed."""

    run: str
    step: int
    values: list[int]
    """Hashes by rank."""


def write(folder: Path, record: MismatchRecord) -> None:
    """Write the record on the disk of each node. Raises OSError."""
    new = folder / f"{FILE}.{os.getpid()}"
    new.write_text(json.dumps(asdict(record)))
    new.replace(folder / FILE)


def read(folder: Path) -> MismatchRecord | None:
    """Return the record, or None if there is no readable one."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        record = json.loads((folder / FILE).read_text())
        return MismatchRecord(
            str(record["run"]), int(record["step"]), [int(value) for value in record["values"]]
        )
    return None


def delete(folder: Path) -> None:
    with suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)
