"""What the trainers of several jobs report of their machines, in as few log reads as possible."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tui.backends.interface import TelemetryService
from tui.backends.vertex.logs import convert
from tui.backends.vertex.logs.filters import any_of, job_entries, quote, stamp
from tui.backends.vertex.logs.reader import PAGE, LogReader
from tui.domain.core.job import Job
from tui.domain.training.telemetry import TELEMETRY_KINDS, TelemetryLine, telemetry_line

JOBS_PER_READ = 500
"""Job ids that fit in one filter of 20,000 characters with room to spare."""
MOST_PAGES = 3
"""Pages of one read; the newest lines come first, and only a replica's last one counts."""


class Telemetry(TelemetryService):
    """Reads one context's logs for what trainers report of their machines."""

    def __init__(self, logs: LogReader) -> None:
        self._logs = logs

    async def read(self, jobs: Sequence[Job], since: datetime) -> Sequence[TelemetryLine]:
        found: list[TelemetryLine] = []
        for start in range(0, len(jobs), JOBS_PER_READ):
            some = jobs[start : start + JOBS_PER_READ]
            text = " AND ".join(
                [
                    job_entries([job.id for job in some]),
                    any_of("jsonPayload.vxtui.kind", TELEMETRY_KINDS),
                    f"timestamp>={quote(stamp(since))}",
                ]
            )
            token = ""
            for _ in range(MOST_PAGES):
                reply = await self._logs.page(
                    text, [job.name for job in some], newest_first=True, size=PAGE, token=token
                )
                lines = (telemetry_line(convert.entry(pb)) for pb in reply.entries)
                found += [line for line in lines if line is not None]
                token = reply.next_page_token
                if not token:
                    break
        return found
