"""Lists the jobs of one parent: all of them, or only jobs that may have changed since the last list.

A poll requests the jobs in active states and the jobs created since the newest known job. A job that has left
the active states is read once more. Therefore, the cost of a poll depends on the changes, not on the number
of jobs. A poll misses deletions of ended jobs by others, which the next list of all jobs finds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tui.backends.errors import ReplyTooLarge
from tui.backends.interface import InvalidRequest, NotFound
from tui.backends.vertex.jobs.resource import Resource
from tui.backends.vertex.logs.filters import quote, stamp
from tui.backends.vertex.transport.channels import Clients
from tui.domain.core.job import Job
from tui.domain.core.resource_name import note_project

LARGE_PAGE, SAFE_PAGE = 1_000, 100
"""Page sizes. More than 100 is common but not documented for this API (docs/facts/vertex.md 2.2). If a
service refuses a large page, later requests use the small size."""
FEW = 20
"""Maximum number of jobs that are read individually after they left the active states. For more, all jobs are
listed."""
LATE = 60.0
"""Seconds by which a job may appear later than a job with a newer `create_time`, e.g. of another region."""
CONVERTED_AT_ONCE = 250
"""Number of messages converted before the event loop runs."""

Get = Callable[[str], Awaitable[Job]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Jobs of one reply. `whole` marks a part of a list of all jobs. `gone` names deleted jobs."""

    jobs: tuple[Job, ...]
    whole: bool
    gone: tuple[str, ...] = ()


class JobListing:
    """Lists the jobs of one parent. The listing stores the active jobs and the newest creation time."""

    def __init__(  # noqa: PLR0917 - each of them once
        self, resource: Resource, clients: Clients, context: str, parent: str, region: str, get: Get
    ) -> None:
        self._resource = resource
        self._clients = clients
        self._context = context
        self._parent = parent
        self._region = region
        self._get = get
        self._page_size = LARGE_PAGE
        self._active: dict[str, Job] = {}
        self._newest: datetime | None = None
        """Newest `create_time` by the service's clock, because this machine's clock may be wrong."""
        self._newest_since = 0.0
        """Time at which `_newest` was first seen, by the monotonic clock."""
        self._empty = False
        """Whether the last list of all jobs was empty."""
        self._deleted: set[str] = set()
        self._can_poll = True

    async def whole(self, filter: str = "") -> AsyncGenerator[Batch, None]:
        """Yield every job that passes `filter`, newest first, in pages. Raises BackendError."""
        active: dict[str, Job] = {}
        newest: datetime | None = None
        async for jobs in self._pages(filter):
            active |= self._may_change(jobs)
            newest = _latest(newest, jobs)
            yield Batch(jobs, whole=True)
        if not filter:
            self._active = active
            self._empty = newest is None
            self._saw(newest)

    async def changes(self) -> AsyncGenerator[Batch, None]:
        """Yield the jobs that may have changed since the last list, all if none are known. Raises
        BackendError."""
        if self._newest is None or not self._can_poll:
            # If there were no jobs, no job can have been deleted, and the store need not check.
            nothing_known = self._empty
            async for batch in self.whole():
                yield replace(batch, whole=not nothing_known)
            return
        active: dict[str, Job] = {}
        seen: set[str] = set()
        newest: datetime | None = self._newest
        try:
            async for jobs in self._pages(self._poll_filter()):
                active |= self._may_change(jobs)
                seen.update(job.name for job in jobs)
                newest = _latest(newest, jobs)
                yield Batch(jobs, whole=False, gone=self._take_deleted())
        except InvalidRequest:
            # It is not verified that every service accepts this filter (UNVERIFIED). If not, all jobs are
            # listed each time.
            self._can_poll = False
            async for batch in self.whole():
                yield batch
            return
        left = [name for name in self._active if name not in seen]
        if len(left) > FEW:
            async for batch in self.whole():
                yield batch
            return
        reread = await asyncio.gather(*map(self._read_again, left))
        jobs = tuple(job for job in reread if job is not None)
        self._active = active | self._may_change(jobs)
        self._saw(newest)
        if left:
            gone = tuple(name for name, job in zip(left, reread, strict=True) if job is None)
            yield Batch(jobs, whole=False, gone=gone)

    async def first(self, filter: str) -> Job | None:
        """Return the newest job that passes `filter`."""
        reply = await self._page(filter, "")
        messages = self._resource.listed(reply)
        return self._resource.convert(messages[0], self._context) if messages else None

    def deleted(self, name: str) -> None:
        """Make the next poll report that this job is deleted, because a poll does not request ended jobs."""
        self._deleted.add(name)
        self._active.pop(name, None)

    def _take_deleted(self) -> tuple[str, ...]:
        names, self._deleted = tuple(self._deleted), set()
        return names

    def _may_change(self, jobs: Iterable[Job]) -> dict[str, Job]:
        return {job.name: job for job in jobs if job.state.active}

    def _saw(self, newest: datetime | None) -> None:
        if newest != self._newest:
            self._newest, self._newest_since = newest, time.monotonic()

    def _poll_filter(self) -> str:
        """Return the filter of a poll. The filter uses only OR, so that its meaning does not depend on
        operator precedence.

        A job may appear after a job that was created later. Once the newest job has been known for long
        enough, a job created earlier would have appeared too.
        """
        assert self._newest is not None
        known_for = time.monotonic() - self._newest_since
        since = self._newest - timedelta(seconds=max(0.0, LATE - known_for))
        # Inclusive, because other jobs may have been created in the same microsecond.
        created = f"create_time>={quote(stamp(since))}"
        return " OR ".join([*(f'state="{state}"' for state in self._resource.active_states), created])

    async def _read_again(self, name: str) -> Job | None:
        """Read a job that has left the active states; `None` if the job was deleted."""
        try:
            # Keep only the fields that a list has.
            return replace(await self._get(name), replicas=(), web_access_uris={})
        except NotFound:
            # This poll reports the deletion. The next poll need not.
            self._deleted.discard(name)
            return None

    async def _pages(self, filter: str) -> AsyncGenerator[tuple[Job, ...], None]:
        token = ""
        while True:
            reply = await self._page(filter, token)
            messages = self._resource.listed(reply)
            for newest in messages[:1]:
                note_project(self._parent, newest.name)
            jobs: list[Job] = []
            convert = self._resource.convert_listed or self._resource.convert
            for start in range(0, len(messages), CONVERTED_AT_ONCE):
                part = messages[start : start + CONVERTED_AT_ONCE]
                jobs += [convert(pb, self._context) for pb in part]
                await asyncio.sleep(0)
            yield tuple(jobs)
            token = reply.next_page_token
            if not token:
                return

    async def _page(self, filter: str, token: str) -> Any:
        """Return one reply as plain protobuf."""
        try:
            return await self._ask(filter, token, self._page_size)
        except (InvalidRequest, ReplyTooLarge):
            if token or self._page_size == SAFE_PAGE:
                raise
            reply = await self._ask(filter, token, SAFE_PAGE)
            # The page was too large for the service or for this client, so the next request uses the smaller
            # size.
            self._page_size = SAFE_PAGE
            return reply

    async def _ask(self, filter: str, token: str, size: int) -> Any:
        request = self._resource.list_request(
            parent=self._parent,
            filter=filter,
            page_size=size,
            page_token=token,
            read_mask={"paths": list(self._resource.list_fields)} if self._resource.list_fields else None,
        )
        where = "every region" if self._region == "-" else self._region
        return await self._clients.read(
            f"list the {self._resource.words}s of {where}",
            lambda: self._resource.call(self._clients, self._region, "list"),
            request,
        )


def _latest(known: datetime | None, jobs: Iterable[Job]) -> datetime | None:
    created = [job.create_time for job in jobs if job.create_time is not None]
    return max([*created, known] if known is not None else created, default=None)
