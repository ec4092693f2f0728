"""Deletes log entries: entries of deleted jobs, entries past the `_Default` bucket's retention, and the
oldest entries above a size limit."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Iterable

from tui.emulator.interfaces import JobRecord
from tui.emulator.logging.record import LogSource
from tui.emulator.logging.store import LAST, EntryStore

log = logging.getLogger(__name__)

RETENTION_SECONDS = 30 * 86_400
"""Retention after an entry's timestamp, as in the `_Default` bucket (docs/facts/vertex.md 5)."""
INTERVAL_SECONDS = 6 * 3600.0
"""Seconds between deletions of old entries."""
SIZE_SECONDS = 5.0
"""Seconds between checks of the size."""
_ROOM_SHARE = 16
"""Divisor of the size limit: 1/16 of it is freed in one step, so that not every check deletes."""


async def run_retention(store: EntryStore, max_bytes: int) -> None:
    """Delete entries above the age or size limit until cancelled; retry after a disk error."""
    due = time.monotonic()
    while True:
        try:
            if time.monotonic() >= due:
                due = time.monotonic() + INTERVAL_SECONDS
                deleted = await delete_older(store, time.time_ns() - RETENTION_SECONDS * 10**9)
                if deleted:
                    log.info(
                        "deleted %d log entries older than %d days", deleted, RETENTION_SECONDS // 86_400
                    )
            deleted = await delete_above(store, max_bytes)
            if deleted:
                log.warning(
                    "deleted the %d oldest log entries: the logs were above %d bytes", deleted, max_bytes
                )
        except sqlite3.Error as error:
            log.warning("can't delete old log entries: %s", error)
        await asyncio.sleep(SIZE_SECONDS)


async def delete_older(store: EntryStore, before: int) -> int:
    """Delete entries with timestamps before `before` (ns) in batches; return their number."""
    return await _delete(store, store.sources(), before)


async def delete_job(store: EntryStore, job: JobRecord) -> int:
    """Delete all entries of a deleted job; return their number.

    Entries that can't be deleted now are deleted once they are too old.
    """
    labels = {"project_id": job.project, "job_id": job.id}.items()
    try:
        return await _delete(store, [s for s in store.sources() if labels <= s.resource_labels.items()], LAST)
    except sqlite3.Error as error:
        log.warning("can't delete the log of %s: %s", job.name, error)
        return 0


async def delete_above(store: EntryStore, max_bytes: int) -> int:
    """Delete the oldest entries of all jobs when more than `max_bytes` are in use; return their number."""
    deleted, bound = 0, max_bytes
    while await store.write(store.used) > bound:
        bound = max_bytes - max_bytes // _ROOM_SHARE
        source = await store.write(store.oldest)
        if source is None:
            break
        deleted += await store.write(store.delete_before, source, LAST)
    await _give_back(store)
    return deleted


async def _delete(store: EntryStore, sources: Iterable[LogSource], before: int) -> int:
    deleted = 0
    for source in sources:
        while count := await store.write(store.delete_before, source, before):
            deleted += count
    await _give_back(store)
    return deleted


async def _give_back(store: EntryStore) -> None:
    while await store.write(store.give_back_room):
        pass
