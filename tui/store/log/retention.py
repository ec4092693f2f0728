"""Log retention: the location of all jobs' logs on this machine, and their retention period."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import time
from datetime import datetime
from pathlib import Path

MAX_BYTES = 2 * 1024**3
"""Limit of all jobs' logs together, in bytes."""
DAYS = 30
"""Retention of entries in Cloud Logging (docs/facts/vertex.md 5.3)."""


def log_folder(state_dir: Path, context: str, job_name: str) -> Path:
    """Return the folder of one job's log, in one context."""
    return state_dir / "job-logs" / f"{_folder_prefix(job_name)}{_digest(context)}"


def remove_logs(state_dir: Path, job_name: str) -> list[Path]:
    """Delete a deleted job's log in every context (blocking), unless it is open. Return the folders."""
    folders = [*(state_dir / "job-logs").glob(f"{_folder_prefix(job_name)}*")]
    gone = [folder for folder in folders if _is_unlocked(folder)]
    for folder in gone:
        shutil.rmtree(folder, ignore_errors=True)
    return gone


def begin_log(folder: Path, created: datetime | None) -> None:
    """Prepare the folder for a job created at this time, and delete the log of an earlier job of the same
    name (blocking). An open log is not deleted."""
    if created is None:
        return
    mark, now = folder / "created", created.isoformat()
    with contextlib.suppress(OSError):
        if mark.exists() and mark.read_text() != now and _is_unlocked(folder):
            shutil.rmtree(folder, ignore_errors=True)
        if not mark.exists():
            folder.mkdir(parents=True, exist_ok=True)
            mark.write_text(now)


def _folder_prefix(job_name: str) -> str:
    """Return the prefix for the job's complete name, because another job's id may be equal to this id or
    begin with it."""
    job = job_name.rpartition("/")[2] or "job"
    readable = "".join(c if c.isalnum() else "-" for c in job)[:40]
    return f"{readable}-{_digest(job_name)}-"


def _digest(text: str) -> str:
    import hashlib  # noqa: PLC0415  the first paint does not need it

    return hashlib.sha256(text.encode()).hexdigest()[:12]


def prune_logs(logs: Path, *, max_bytes: int = MAX_BYTES, days: int = DAYS) -> list[Path]:
    """Delete logs unused for `days`, and the oldest logs above `max_bytes` (blocking). Return the deleted
    folders. An open log is not deleted."""
    folders = []
    for folder in logs.glob("*"):
        with contextlib.suppress(OSError):
            sizes = [(path.stat().st_mtime, path.stat().st_size) for path in folder.iterdir()]
            newest = max((changed for changed, _ in sizes), default=folder.stat().st_mtime)
            folders.append((newest, sum(size for _, size in sizes), folder))
    gone, kept, now = [], 0, time.time()
    for newest, size, folder in sorted(folders, reverse=True):
        kept += size
        if (kept > max_bytes or now - newest > days * 86_400) and _is_unlocked(folder):
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(folder)
    return gone


def _is_unlocked(folder: Path) -> bool:
    """Return whether no console has the log open."""
    try:
        with (folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
