"""The last known jobs of a context on disk, painted immediately at the next start with their age.

The snapshot is read before the first paint, so it is plain JSON, read without a library of models. A job's
replicas are left out, because they follow from its groups (`known_replicas`).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tui.config.paths import write_whole
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job, JobError
from tui.domain.core.replica import NodeShare, ReplicaGroup
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.core.training_progress import Progress, Silence, Straggler
from tui.domain.vertex.worker_pools import worker_pool
from tui.kinds.registry import kinds

SCHEMA = 4
_READABLE = {2, 3, SCHEMA}
"""Readable schemas. 2 has `pools` instead of `groups`; 2 and 3 have `tokens_per_second` for `speed`."""
MOST_JOBS = 2_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Jobs of one context as of `read_at`."""

    schema: int
    context: str
    read_at: datetime
    jobs: tuple[Job, ...] = ()


class SnapshotFile:
    """The snapshot of one context below a state directory."""

    def __init__(self, state_dir: Path, context: str) -> None:
        # The checksum distinguishes contexts whose names differ only in characters that are invalid in file
        # names.
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", context)[:60]
        self.path = state_dir / "snapshots" / f"{stem}-{zlib.crc32(context.encode()):08x}.json"
        self._context = context

    def load(self) -> Snapshot | None:
        """Return the snapshot, or `None` if the file is missing or unreadable for this version."""
        try:
            snapshot = json.loads(self.path.read_bytes())
            if snapshot["schema"] not in _READABLE or snapshot["context"] != self._context:
                return None
            jobs = tuple(_job(saved) for saved in snapshot["jobs"])
            return Snapshot(SCHEMA, self._context, datetime.fromisoformat(snapshot["read_at"]), jobs)
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            return None

    def save(self, jobs: Iterable[Job], read_at: datetime) -> None:
        """Write the newest `MOST_JOBS` jobs atomically, readable only by this user. Raises OSError if the
        snapshot can't be written, e.g. on a full disk; the old snapshot remains."""
        newest = sorted(jobs, key=lambda job: job.created or 0, reverse=True)[:MOST_JOBS]
        text = json.dumps(
            {
                "schema": SCHEMA,
                "context": self._context,
                "read_at": read_at.isoformat(),
                "jobs": [_plain(job) for job in newest],
            },
            ensure_ascii=False,
        )
        write_whole(self.path, text.encode("utf-8", "surrogatepass"))


def _plain(value: Any) -> dict[str, Any]:
    """Return a dataclass as JSON values, without empty fields."""
    fields = {}
    for name in _names(type(value)):
        field = getattr(value, name)
        if field is not None and field not in ((), {}):
            fields[name] = _PLAIN.get(type(field), _same)(field)
    return fields


def _names(kind: type) -> tuple[str, ...]:
    """Return the saved fields, computed once per class."""
    if kind not in _NAMES:
        _NAMES[kind] = tuple(f.name for f in fields(kind) if (kind, f.name) not in _LEFT_OUT)
    return _NAMES[kind]


def _same(value: Any) -> Any:
    return value


_LEFT_OUT = {
    (Job, "replicas"), (Job, "unread"), (Job, "progress_pattern"), (Job, "details"),
    (Task, "input_artifacts"), (Task, "output_artifacts"),
}  # fmt: skip
_NAMES: dict[type, tuple[str, ...]] = {}
_PLAIN: Mapping[type, Callable[[Any], Any]] = {
    datetime: datetime.isoformat,
    timedelta: timedelta.total_seconds,
    Progress: _plain,
    Silence: _plain,
    Straggler: _plain,
    JobError: _plain,
    Diagnosis: _plain,
    tuple: lambda values: [v if isinstance(v, str) else _plain(v) for v in values],
}
_TIMES = ("create_time", "start_time", "end_time", "update_time", "resume_time", "attempt_time")
_PROGRESS_TIMES = ("last_checkpoint_at", "updated_at", "ends_at")


def _job(saved: dict[str, Any]) -> Job:
    _read_times(saved, _TIMES)
    saved["state"] = JobState(saved["state"])
    # An earlier version supported only one kind, and did not save it.
    saved.setdefault("kind", kinds()[0].key)
    if "pools" in saved:
        saved["groups"] = tuple(worker_pool(**pool) for pool in saved.pop("pools"))
    else:
        saved["groups"] = tuple(ReplicaGroup(**group) for group in saved.get("groups", ()))
    if "nodes" in saved:
        saved["nodes"] = tuple(NodeShare(**node) for node in saved["nodes"])
    if "waiting" in saved:
        saved["waiting"] = tuple(saved["waiting"])
    if "tasks" in saved:
        saved["tasks"] = tuple(_task(task) for task in saved["tasks"])
    if "error" in saved:
        saved["error"] = JobError(**({"message": "", "code": 0} | saved["error"]))
    if "diagnosis" in saved:
        saved["diagnosis"] = Diagnosis(**saved["diagnosis"])
    for span in ("timeout", "longest_wait"):
        if span in saved:
            saved[span] = timedelta(seconds=saved[span])
    progress = saved.pop("progress", None)
    if progress:
        if "tokens_per_second" in progress:
            progress["speed"] = progress.pop("tokens_per_second")
        _read_times(progress, _PROGRESS_TIMES)
        _read_times(progress.get("silence", {}), ("since",))
        parts: dict[str, type] = {"silence": Silence, "straggler": Straggler}
        progress |= {name: kind(**progress[name]) for name, kind in parts.items() if name in progress}
        saved["progress"] = Progress(**progress)
    return Job(**saved)


def _task(saved: dict[str, Any]) -> Task:
    saved["state"] = JobState(saved["state"])
    _read_times(saved, ("start_time", "end_time"))
    lists = {name: tuple(saved.get(name, ())) for name in ("depends_on", "failed_jobs")}
    return Task(**saved | lists)


def _read_times(saved: dict[str, Any], names: Iterable[str]) -> None:
    for name in names:
        if name in saved:
            saved[name] = datetime.fromisoformat(saved[name])
