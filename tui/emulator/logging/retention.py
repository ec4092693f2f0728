"""Deletes log entries after the retention period of the `_Default` bucket."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time

from tui.emulator.logging.store import LogStore

log = logging.getLogger(__name__)

RETENTION_SECONDS = 30 * 86_400
"""Retention after an entry's timestamp, as in the `_Default` bucket (vertex facts 5)."""
INTERVAL_SECONDS = 6 * 3600.0
"""Between two deletions."""


async def run_retention(store: LogStore) -> None:
    """Delete old entries at once and every `INTERVAL_SECONDS`, until cancelled; retry after a disk error."""
    while True:
        try:
            deleted = await delete_older(store, time.time_ns() - RETENTION_SECONDS * 10**9)
            if deleted:
                log.info("deleted %d log entries older than %d days", deleted, RETENTION_SECONDS // 86_400)
        except sqlite3.Error as error:
            log.warning("can't delete old log entries: %s", error)
        await asyncio.sleep(INTERVAL_SECONDS)


async def delete_older(store: LogStore, before: int) -> int:
    """Delete entries with timestamps before `before` (ns) in batches; return their number."""
    deleted = 0
    for source in store.sources():
        while count := await store.write(store.delete_before, source, before):
            deleted += count
    return deleted
