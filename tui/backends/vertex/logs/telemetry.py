"""Machine telemetry that the trainers of several jobs report, in as few log reads as possible."""

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
"""Maximum number of job ids of one filter: they fit in 20,000 characters with a margin."""
MOST_PAGES = 3
"""Maximum number of pages per read, newest lines first. Older lines rarely matter, because only the last line
of each replica counts."""


class Telemetry(TelemetryService):
    """Reads one context's logs for telemetry."""

    def __init__(self, logs: LogReader) -> None:
        self._logs = logs

    async def read(self, jobs: Sequence[Job], since: datetime) -> Sequence[TelemetryLine]:
        lines_read: list[TelemetryLine] = []
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
                lines = map(telemetry_line, convert.entries(reply.entries))
                lines_read += [line for line in lines if line is not None]
                token = reply.next_page_token
                if not token:
                    break
        return lines_read
