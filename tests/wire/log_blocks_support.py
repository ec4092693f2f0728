"""Rows of a log and their list, for the tests of blocks and the process that one of them kills."""

from __future__ import annotations

import os
import time

from tui.emulator.logging.query.entries import EntryQuery
from tui.emulator.logging.record import JSON, EntryRow
from tui.emulator.logging.store import EntryStore

# A process that a test kills inherits the value.
HOUR_AGO = int(os.environ.setdefault("VXTUI_TEST_HOUR_AGO", str(time.time_ns() - 3600 * 10**9)))
MS = 10**6


def source_of(store: EntryStore, replica: int = 0) -> int:
    labels = {"project_id": "p", "job_id": "1", "task_name": f"workerpool0-{replica}"}
    return store.source("p", f"projects/p/logs/workerpool0-{replica}", "ml_job", labels).id


def row(source: int, at: int, number: int, severity: int = 200) -> EntryRow:
    text = f'{{"message": "step {number}", "loss": {number % 97 / 97:.6f}}}'
    received = HOUR_AGO + 10**9 + number
    return (source, HOUR_AGO + at, f"{source:02x}{number:010x}", severity, JSON, text, received)


def rows_of(source: int, count: int, begin: int = 0) -> list[EntryRow]:
    levels = (200, 500)
    return [row(source, n * MS, n, levels[n % 50 == 7]) for n in range(begin, begin + count)]


def listed(store: EntryStore, text: str = "", order: str = "", size: int = 300) -> list[EntryRow]:
    """The rows of a whole list, page by page."""
    token, found = "", []
    while True:
        page, token = EntryQuery.of(["projects/p"], text, order, size, token).read(store)
        found += [entry.row for entry in page]
        if not token:
            return found
