"""Lists jobs page by page and reads of each only what is not known yet.

A job's specification never changes, and it is most of the message: it is asked for by the first listing and
by none after it. A job whose state and last update are those known is not read again at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace

from google.cloud.aiplatform_v1.types import job_service

from tui.backends.interface import BackendError, InvalidRequest
from tui.backends.vertex.jobs import convert, lean
from tui.backends.vertex.jobs.lean import Page, Stamp
from tui.backends.vertex.jobs.listed import ListedJob
from tui.backends.vertex.transport.channels import Clients
from tui.domain.job import Job

LARGE_PAGE, SAFE_PAGE = 1_000, 100
"""Jobs a page: larger ones than 100 are customary but not documented for this API (vertex facts 2.2), so
that a service which refuses them is asked for the smaller ones from then on."""
FEW = 20
"""So many jobs that are new are read one by one; where there are more, everything is listed anew."""
LIGHT_FIELDS = tuple(field for field in convert.LIST_FIELDS if field != "job_spec")
FILL_AFTER, FILL_AT_ONCE, FILL_PAUSE = 1.0, 100, 0.02
"""Seconds until the rest of a whole listing is read, jobs a slice, seconds between two slices."""

Get = Callable[[str], Awaitable[Job]]


class Listing:
    """Readings of one parent; the one without a filter remembers what it has read."""

    def __init__(self, clients: Clients, context: str, parent: str, region: str, get: Get) -> None:
        self._clients = clients
        self._context = context
        self._parent = parent
        self._region = region
        self._get = get
        self._page_size = LARGE_PAGE
        self._known: dict[str, Job] = {}
        self._stamps: dict[str, Stamp] = {}
        self._pages: list[tuple[Page, list[Job]]] = []
        """Of the whole listing, with their jobs, until the next one compares with them."""
        self._filling: asyncio.Task[None] | None = None

    async def pages(self, filter: str = "") -> AsyncIterator[tuple[Job, ...]]:
        """Pages of jobs, newest first. Raises BackendError."""
        known = {} if filter else self._remembered()
        if not known:
            async for jobs in self._whole(filter):
                yield jobs
            return
        seen: set[str] = set()
        strangers = 0
        async for page in self._replies("", LIGHT_FIELDS):
            new = [name for name in page.names if name not in known]
            strangers += len(new)
            if strangers > FEW:
                self._forget()
                async for jobs in self._whole(""):
                    yield jobs
                return
            await self._meet(new)
            seen.update(name for name in page.names if name in known)
            yield tuple(self._light(page))
        self._keep(seen)

    async def _whole(self, filter: str) -> AsyncIterator[tuple[Job, ...]]:
        pages: list[tuple[Page, list[Job]]] = []
        async for page in self._replies(filter, convert.LIST_FIELDS):
            jobs = page.jobs()
            pages.append((page, jobs))
            yield tuple(jobs)
        if not filter:
            self._forget()
            self._pages = pages
            self._filling = asyncio.create_task(_fill(pages))

    def _remembered(self) -> dict[str, Job]:
        """Jobs by name, with the stamps of what the whole listing said of them."""
        pages, self._pages = self._pages, []
        for page, jobs in pages:
            self._known.update(zip(page.names, jobs, strict=True))
            self._stamps.update(zip(page.names, page.stamps, strict=True))
        return self._known

    async def _meet(self, names: list[str]) -> None:
        for name in names:
            try:
                found = await self._get(name)
            except BackendError:
                # Deleted meanwhile, or refused: it is met again by the next listing.
                continue
            self._known[name] = replace(found, replicas=(), web_access_uris={})

    def _light(self, page: Page) -> Iterator[Job]:
        """Jobs of a page without specifications; those whose stamp is another are read anew."""
        for at, (name, stamp) in enumerate(zip(page.names, page.stamps, strict=True)):
            known = self._known.get(name)
            if known is None:
                continue
            if self._stamps.get(name) != stamp:
                known = self._known[name] = convert.relisted_job(page.message(at), known)
                self._stamps[name] = stamp
            yield known

    def _keep(self, seen: set[str]) -> None:
        for name in [name for name in self._known if name not in seen]:
            del self._known[name]
            self._stamps.pop(name, None)

    def _forget(self) -> None:
        self._known.clear()
        self._stamps.clear()

    async def _replies(self, filter: str, fields: tuple[str, ...]) -> AsyncIterator[Page]:
        token = ""
        while True:
            reply = await self.page(filter, token, fields)
            yield reply
            token = reply.next_page_token
            if not token:
                return

    async def page(self, filter: str, token: str, fields: tuple[str, ...] = convert.LIST_FIELDS) -> Page:
        """One page."""
        try:
            return await self._ask(filter, token, fields)
        except InvalidRequest:
            if token or self._page_size == SAFE_PAGE:
                raise
            reply = await self._ask(filter, token, fields, SAFE_PAGE)
            # It was the size: without it the same question is answered.
            self._page_size = SAFE_PAGE
            return reply

    async def _ask(self, filter: str, token: str, fields: tuple[str, ...], size: int = 0) -> Page:
        request = job_service.ListCustomJobsRequest(
            parent=self._parent,
            filter=filter,
            page_size=size or self._page_size,
            page_token=token,
            read_mask={"paths": list(fields)},
        )
        client = self._clients.jobs(self._region)

        async def send(seconds: float) -> Page:
            return await lean.list_page(client, request, seconds, self._context)

        where = "every region" if self._region == "-" else self._region
        return await self._clients.caller.read(f"list the jobs of {where}", send)


async def _fill(pages: Sequence[tuple[Page, list[Job]]]) -> None:
    """Read what nobody has asked for yet, a little at a time: a first filter then finds it read."""
    await asyncio.sleep(FILL_AFTER)
    for at, job in enumerate(job for _, jobs in pages for job in jobs):
        if isinstance(job, ListedJob):
            job.fill()
        if not at % FILL_AT_ONCE:
            await asyncio.sleep(FILL_PAUSE)
