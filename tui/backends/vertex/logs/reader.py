"""Reads stored log entries of one job. `tui.backends.vertex.logs.tail` follows new entries."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from google.cloud.logging_v2.types import logging as logging_types

from tui.backends.interface import ContextInfo, LogBatch, LogQuery, NotFound
from tui.backends.vertex.logs import convert
from tui.backends.vertex.logs.filters import RETENTION, log_filter
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.budget import budget_of
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.connect import Service
from tui.domain.core.job import Job
from tui.domain.core.resource_name import log_project

Get = Callable[[str], Awaitable[Job]]
"""A function that reads a job by its full resource name."""
PAGE = 1000
"""Maximum page size (docs/facts/vertex.md 5.3)."""


class WholeUntil:
    """Receive time up to which a new list is complete.

    Pages are ordered by the entries' own times. No page contains entries that were received after it was
    read.
    """

    def __init__(self) -> None:
        self._began = monotonic()
        self._newest: datetime | None = None

    def add(self, newest: datetime | None) -> datetime | None:
        """Add a page's newest receive time. Return `None` until the service reports receive times."""
        if newest is not None:
            self._newest = max(newest, self._newest or newest)
        return self._newest and self._newest - timedelta(seconds=monotonic() - self._began)


class LogReader:
    """Reads log entries of one context's project."""

    def __init__(self, info: ContextInfo, clients: Clients, get: Get) -> None:
        self._info = info
        self._clients = clients
        self._get = get
        endpoint = clients.endpoint
        target = endpoint.target(Service.LOGGING, "")
        self.budget = budget_of(endpoint.budgets, target, info.project, endpoint.pace.log_reads_per_minute)
        self._created: dict[str, datetime] = {}

    async def read(
        self, query: LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        """Yield stored entries in pages, at most `limit` entries."""
        left, whole = limit, WholeUntil()
        text = log_filter(query, since=await self.lower_bound(query))
        token = ""
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            reply = await self.page(
                text, (query.job_name,), newest_first=newest_first, size=size, token=token
            )
            way = -1 if newest_first else 1
            entries = tuple(convert.entries(reply.entries[::way])[::way])[:left]
            received = whole.add(convert.receipt(reply.entries).newest)
            if entries:
                yield LogBatch(entries, received=received)
            token = reply.next_page_token
            if not token:
                return
            if left is not None:
                left -= len(entries)

    async def page(
        self,
        text: str,
        jobs: Iterable[str],
        *,
        newest_first: bool = False,
        size: int = PAGE,
        token: str = "",
        patience: float | None = None,
    ) -> Any:
        """Return one ListLogEntries response as plain protobuf. `jobs` are the full job names in `text`."""
        projects = sorted({log_project(name, self._info.project) for name in jobs})
        request = logging_types.ListLogEntriesRequest(
            resource_names=[f"projects/{project}" for project in projects],
            filter=text,
            order_by="timestamp desc" if newest_first else "timestamp asc",
            page_size=size,
            page_token=token,
        )
        return await self._clients.read(
            f"read the logs of {self._info.project}",
            lambda: self._clients.logging().list_log_entries,
            request,
            within=deadlines.LOG_PAGE,
            patience=patience,
            limiter=self.budget,
        )

    async def lower_bound(self, query: LogQuery) -> datetime:
        """Return the earliest timestamp that an entry can have, because an unbounded read is slow
        (docs/facts/vertex.md 5.2).

        The job's creation time is not a bound, because a replica's clock may be behind by any time.
        """
        if query.since is not None:
            return query.since - RETENTION
        known = self._created.get(query.job_name)
        if query.created is not None:
            known = query.created - RETENTION
        if known is None:
            try:
                created = (await self._get(query.job_name)).create_time
            except NotFound:
                # Entries outlive a deleted job until their retention ends.
                created = None
            if created is None:
                return datetime.now(UTC) - RETENTION
            known = self._created[query.job_name] = created - RETENTION
        return known
