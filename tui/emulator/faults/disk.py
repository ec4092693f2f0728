"""A full disk on request: the emulator's databases and buckets refuse to write."""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import Any

from tui.emulator.faults.limit import Limit


class DiskFault:
    """The disk fault, checked before each write. Threads share it; a request replaces it atomically."""

    def __init__(self) -> None:
        self._limit: Limit | None = None

    def set(self, full: bool, limit: Limit) -> None:
        """Turn the fault on for `limit`, or clear it."""
        self._limit = limit if full else None

    def fields(self) -> dict[str, Any]:
        """Return the fields that the admin shows."""
        limit = self._limit
        if limit is None or limit.used_up:
            return {"full": False}
        return {"full": True, **limit.fields()}

    def check_database(self) -> None:
        """Check before a transaction. Raises sqlite3.OperationalError with SQLite's text for a full disk."""
        if self._limit is not None and self._limit.take():
            raise sqlite3.OperationalError("database or disk is full")

    def check_file(self) -> None:
        """Check before writing a file. Raises OSError with ENOSPC."""
        if self._limit is not None and self._limit.take():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
