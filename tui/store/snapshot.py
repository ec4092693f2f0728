"""The last known jobs of a context on disk: what paints at once at the next start, with its age."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tui.domain.job import Job

SCHEMA = 1
MOST_JOBS = 2_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Jobs of one context as they were at `read_at`."""

    schema: int
    context: str
    read_at: datetime
    jobs: tuple[Job, ...] = ()


class SnapshotFile:
    """The snapshot of one context below a state directory."""

    def __init__(self, state_dir: Path, context: str) -> None:
        # The digest keeps two contexts apart whose names differ only in characters no file name may have.
        digest = hashlib.sha256(context.encode()).hexdigest()[:8]
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", context)[:60]
        self.path = state_dir / "snapshots" / f"{stem}-{digest}.json"
        self._context = context

    def load(self) -> Snapshot | None:
        """The snapshot, or `None` where there is none that this version can read."""
        try:
            found = TypeAdapter(Snapshot).validate_json(self.path.read_bytes())
        except (OSError, ValidationError):
            return None
        return found if found.schema == SCHEMA and found.context == self._context else None

    def save(self, jobs: Iterable[Job], read_at: datetime) -> None:
        """Write the newest `MOST_JOBS` jobs, whole or not at all, for this user alone.

        Raises:
            OSError: when it can't be written, e.g. on a full disk; the old one stays.
        """
        oldest = datetime.min.replace(tzinfo=read_at.tzinfo)
        newest = sorted(jobs, key=lambda job: job.create_time or oldest, reverse=True)[:MOST_JOBS]
        data = TypeAdapter(Snapshot).dump_json(Snapshot(SCHEMA, self._context, read_at, tuple(newest)))
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".snapshot-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
