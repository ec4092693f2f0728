"""Lets go of log entries that are older than the `_Default` bucket keeps them."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time

from tui.emulator.logging.store import LogStore

log = logging.getLogger(__name__)

KEPT = 30 * 86_400
"""Seconds that an entry is kept after its timestamp, as in the `_Default` bucket (vertex facts 5)."""
EVERY = 6 * 3600.0
"""Seconds between two looks."""


async def keep_tidy(store: LogStore) -> None:
    """Look at once and from time to time, until cancelled; a trouble of the disk only delays it."""
    while True:
        try:
            gone = await let_go(store, time.time_ns() - KEPT * 10**9)
            if gone:
                log.info("let go of %d log entries that were older than %d days", gone, KEPT // 86_400)
        except sqlite3.Error as error:
            log.warning("old log entries are still there: %s", error)
        await asyncio.sleep(EVERY)


async def let_go(store: LogStore, before: int) -> int:
    """Delete entries with timestamps before `before` (ns), a slice at a time; how many there were."""
    gone = 0
    for source in store.sources():
        while count := await store.write(store.delete_before, source, before):
            gone += count
    return gone
