"""What several tests share with test_log_store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tui.domain.core.log_entry import LogEntry, Severity

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def entry(
    moment: int, replica: int = 0, message: str = "", severity: Severity = Severity.INFO, said: object = None
) -> LogEntry:
    json = None if said is None else {"message": message, "said": said}
    time = START + timedelta(microseconds=moment // 2)
    return LogEntry(
        time, f"id{moment:04}", f"workerpool{replica}-0", severity, message, json, nanos=moment % 2
    )


def many(count: int, start: int = 0) -> list[LogEntry]:
    return [entry(2 * n, 0, f"line {n}") for n in range(start, start + count)]
