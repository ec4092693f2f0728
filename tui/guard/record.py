"""The guard's record in SQLite: each alert once, and each delivery until it succeeds or expires."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tui.domain.guard.conditions import AlertCondition

_SCHEMA = """
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS alert (
  id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, at REAL NOT NULL, context TEXT NOT NULL,
  job TEXT NOT NULL, title TEXT NOT NULL, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS delivery (
  alert INTEGER NOT NULL REFERENCES alert ON DELETE CASCADE, channel TEXT NOT NULL, due REAL NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0, sent REAL, error TEXT NOT NULL DEFAULT '', PRIMARY KEY (alert, channel)
);
CREATE TABLE IF NOT EXISTS cancel (
  alert INTEGER PRIMARY KEY, context TEXT NOT NULL, job TEXT NOT NULL, condition TEXT NOT NULL,
  max REAL NOT NULL, sent REAL, ended REAL, note TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS due_deliveries ON delivery (due) WHERE sent IS NULL;
"""
KEEP = timedelta(days=60)
"""Time for which alerts are stored."""
FIRST_RETRY, LAST_RETRY = 15.0, 3600.0
"""Seconds until the second attempt of a delivery, and the longest time between attempts."""
GIVE_UP = timedelta(days=1)
"""Time after which a delivery that always failed is given up."""


@dataclass(frozen=True, slots=True)
class AlertRecord:
    """One alert."""

    id: int
    at: datetime
    context: str
    job: str
    """Full resource name of the job."""
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """The delivery of an alert by one channel."""

    alert: AlertRecord
    channel: str
    tries: int
    error: str
    """Error of the last attempt; "" if there is none."""
    sent: bool


@dataclass(frozen=True, slots=True)
class CancelRecord:
    """A cancellation that a rule asks for."""

    alert: int
    context: str
    job: str
    """Full resource name of the job."""
    condition: AlertCondition
    """The condition, which must still hold right before the call."""
    sent: datetime | None
    """Time of the call; `None` before it."""
    ended: bool
    """Whether the cancellation has taken effect or was given up."""
    note: str
    """What became of it, as a sentence; "" while nothing has."""


class GuardRecord:
    """The database of the guard. Every method blocks for the time of one small transaction.

    Raises sqlite3.Error if the file can't be read or written.
    """

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
        self._db = sqlite3.connect(file, timeout=10.0, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def fact(self, name: str, default: str = "") -> str:
        """Return a stored fact, e.g. the time of the first start."""
        row = self._db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return default if row is None else str(row[0])

    def set_fact(self, name: str, value: str, *, replace: bool = True) -> None:
        """Store a fact; without `replace` only if there is none yet."""
        verb = "REPLACE" if replace else "IGNORE"
        self._db.execute(f"INSERT OR {verb} INTO fact VALUES (?, ?)", (name, value))

    def knows(self, key: str) -> bool:
        """Return whether an alert of this key is stored."""
        return self._db.execute("SELECT 1 FROM alert WHERE key = ?", (key,)).fetchone() is not None

    def add(
        self,
        key: str,
        at: datetime,
        context: str,
        job: str,
        *,
        title: str,
        body: str,
        due: Mapping[str, datetime],
        cancel: AlertCondition | None = None,
    ) -> bool:
        """Store an alert with its deliveries, by channel with the time when each is due, and with a
        cancellation of the job while the condition `cancel` holds.

        Return False, and store nothing, if an alert of this key is stored already.
        """
        with self._transaction():
            cursor = self._db.execute(
                "INSERT OR IGNORE INTO alert (key, at, context, job, title, body) VALUES (?, ?, ?, ?, ?, ?)",
                (key, at.timestamp(), context, job, title, body),
            )
            if not cursor.rowcount:
                return False
            rows = [(cursor.lastrowid, channel, moment.timestamp()) for channel, moment in due.items()]
            self._db.executemany("INSERT INTO delivery (alert, channel, due) VALUES (?, ?, ?)", rows)
            if cancel is not None:
                self._db.execute(
                    "INSERT INTO cancel (alert, context, job, condition, max) VALUES (?, ?, ?, ?, ?)",
                    (cursor.lastrowid, context, job, cancel.name, cancel.limit),
                )
            self._db.execute(
                "DELETE FROM delivery WHERE alert IN (SELECT id FROM alert WHERE at < ?)",
                ((at - KEEP).timestamp(),),
            )
            self._db.execute("DELETE FROM alert WHERE at < ?", ((at - KEEP).timestamp(),))
        return True

    def due(self, now: datetime) -> list[DeliveryRecord]:
        """Return the deliveries to attempt now, oldest first. Each delivery is attempted at least once."""
        return self._deliveries(
            "sent IS NULL AND due <= ? AND (at > ? OR tries = 0)",
            (now.timestamp(), (now - GIVE_UP).timestamp()),
        )

    def failing(self) -> list[DeliveryRecord]:
        """Return the deliveries whose last attempt failed, oldest first."""
        return self._deliveries("sent IS NULL AND error != ''", ())

    def deliveries(self, alerts: Sequence[AlertRecord]) -> list[DeliveryRecord]:
        """Return all deliveries of these alerts."""
        marks = ",".join("?" * len(alerts))
        return self._deliveries(f"alert IN ({marks})", tuple(alert.id for alert in alerts))

    def channels(self, alert: int) -> list[str]:
        """Return the channels of an alert."""
        rows = self._db.execute("SELECT channel FROM delivery WHERE alert = ?", (alert,))
        return [str(row[0]) for row in rows]

    def _deliveries(self, where: str, values: tuple[float, ...]) -> list[DeliveryRecord]:
        rows = self._db.execute(
            "SELECT id, at, context, job, title, body, channel, tries, error, sent IS NOT NULL"
            f" FROM delivery JOIN alert ON alert.id = delivery.alert WHERE {where} ORDER BY id, channel",
            values,
        )
        return [DeliveryRecord(_alert(row[:6]), row[6], row[7], row[8], bool(row[9])) for row in rows]

    def note_sent(self, delivery: DeliveryRecord, now: datetime) -> None:
        """Record that a delivery succeeded."""
        self._db.execute(
            "UPDATE delivery SET sent = ?, tries = tries + 1, error = '' WHERE alert = ? AND channel = ?",
            (now.timestamp(), delivery.alert.id, delivery.channel),
        )

    def note_failed(self, delivery: DeliveryRecord, now: datetime, error: str) -> None:
        """Record that an attempt failed, and when to try again."""
        wait = min(LAST_RETRY, FIRST_RETRY * 2**delivery.tries)
        self._db.execute(
            "UPDATE delivery SET due = ?, tries = tries + 1, error = ? WHERE alert = ? AND channel = ?",
            (now.timestamp() + wait, error, delivery.alert.id, delivery.channel),
        )

    def cancels(self, alerts: Sequence[AlertRecord] | None = None) -> list[CancelRecord]:
        """Return the cancellations of these alerts, or all that have not ended, oldest first."""
        where = "ended IS NULL" if alerts is None else f"alert IN ({','.join('?' * len(alerts))})"
        rows = self._db.execute(
            "SELECT alert, context, job, condition, max, sent, ended IS NOT NULL, note"
            f" FROM cancel WHERE {where} ORDER BY alert",
            tuple(alert.id for alert in alerts or ()),
        )
        return [
            CancelRecord(
                alert,
                context,
                job,
                AlertCondition(condition, limit),
                None if sent is None else datetime.fromtimestamp(sent, UTC),
                bool(ended),
                note,
            )
            for alert, context, job, condition, limit, sent, ended, note in rows
        ]

    def note_cancel(
        self, cancel: CancelRecord, now: datetime, note: str, *, sent: bool = False, ended: bool = False
    ) -> None:
        """Record what became of a cancellation."""
        self._db.execute(
            "UPDATE cancel SET note = ?, sent = COALESCE(?, sent), ended = COALESCE(?, ended)"
            " WHERE alert = ?",
            (note, now.timestamp() if sent else None, now.timestamp() if ended else None, cancel.alert),
        )

    def alerts(self, since: datetime) -> list[AlertRecord]:
        """Return the alerts since a time, oldest first."""
        rows = self._db.execute(
            "SELECT id, at, context, job, title, body FROM alert WHERE at >= ? ORDER BY id",
            (since.timestamp(),),
        )
        return [_alert(row) for row in rows]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _alert(row: Sequence[str | float]) -> AlertRecord:
    id, at, *texts = row
    return AlertRecord(int(id), datetime.fromtimestamp(float(at), UTC), *map(str, texts))
