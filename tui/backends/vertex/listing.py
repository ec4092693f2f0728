"""Lists jobs page by page and reads of each only what is not known yet.

A job's specification never changes, and it is most of the message: it is asked for by the first listing and
by none after it. A job whose state and last update are those known is not read again at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from google.cloud.aiplatform_v1.types import job_service

from tui.backends.base import BackendError, InvalidRequest
from tui.backends.vertex import convert, lean
from tui.backends.vertex.channels import Clients
from tui.backends.vertex.listed import ListedJob
from tui.domain.job import Job

LARGE_PAGE, SAFE_PAGE = 1_000, 100
"""Jobs a page: larger ones than 100 are customary but not documented for this API (vertex facts 2.2), so
that a service which refuses them is asked for the smaller ones from then on."""
FEW = 20
"""So many jobs that are new are read one by one; where there are more, everything is listed anew."""
LIGHT_FIELDS = tuple(field for field in convert.LIST_FIELDS if field != "job_spec")
FILL_AFTER, FILL_AT_ONCE, FILL_PAUSE = 1.0, 100, 0.02
"""Seconds until the rest of a whole listing is read, jobs a slice, seconds between two slices."""

Page = tuple[Any, list[Job]]
"""Messages and the jobs made from them."""
Get = Callable[[str], Awaitable[Job]]
Stamp = tuple[int, bytes]
"""State and time of the last update: the service sets the latter whenever anything in a job differs."""


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
        self._pages: list[Page] = []
        """Of the whole listing, until the next one compares with them."""
        self._filling: asyncio.Task[None] | None = None

    async def pages(self, filter: str = "") -> AsyncIterator[tuple[Job, ...]]:
        """Pages of jobs, newest first. Raises BackendError."""
        known = {} if filter else self._remembered()
        if not known:
            async for page in self._whole(filter):
                yield page
            return
        seen: set[str] = set()
        strangers = 0
        async for reply in self._replies("", LIGHT_FIELDS):
            new = [pb.name for pb in reply.custom_jobs if pb.name not in known]
            strangers += len(new)
            if strangers > FEW:
                self._forget()
                async for page in self._whole(""):
                    yield page
                return
            await self._meet(new)
            found = tuple(job for pb in reply.custom_jobs if (job := self._light(pb)) is not None)
            seen.update(job.name for job in found)
            yield found
        self._keep(seen)

    async def _whole(self, filter: str) -> AsyncIterator[tuple[Job, ...]]:
        pages: list[Page] = []
        async for reply in self._replies(filter, convert.LIST_FIELDS):
            page = lean.jobs_of_page(reply.custom_jobs, self._context)
            pages.append((reply.custom_jobs, page))
            yield tuple(page)
        if not filter:
            self._forget()
            self._pages = pages
            self._filling = asyncio.create_task(_fill(pages))

    def _remembered(self) -> dict[str, Job]:
        """Jobs by name, with the stamps of what the whole listing said of them."""
        pages, self._pages = self._pages, []
        for pbs, page in pages:
            for pb, job in zip(pbs, page, strict=True):
                self._known[job.name] = job
                self._stamps[job.name] = _stamp(pb)
        return self._known

    async def _meet(self, names: list[str]) -> None:
        for name in names:
            try:
                found = await self._get(name)
            except BackendError:
                # Deleted meanwhile, or refused: it is met again by the next listing.
                continue
            self._known[name] = replace(found, replicas=(), web_access_uris={})

    def _light(self, pb: Any) -> Job | None:
        known = self._known.get(pb.name)
        if known is None:
            return None
        name, stamp = pb.name, _stamp(pb)
        if self._stamps.get(name) != stamp:
            known = self._known[name] = convert.relisted_job(lean.whole(pb), known)
            self._stamps[name] = stamp
        return known

    def _keep(self, seen: set[str]) -> None:
        for name in [name for name in self._known if name not in seen]:
            del self._known[name]
            self._stamps.pop(name, None)

    def _forget(self) -> None:
        self._known.clear()
        self._stamps.clear()

    async def _replies(self, filter: str, fields: tuple[str, ...]) -> AsyncIterator[Any]:
        token = ""
        while True:
            reply = await self.page(filter, token, fields)
            yield reply
            token = reply.next_page_token
            if not token:
                return

    async def page(self, filter: str, token: str, fields: tuple[str, ...] = convert.LIST_FIELDS) -> Any:
        """One page as a `lean.LeanReply`."""
        try:
            return await self._ask(filter, token, fields)
        except InvalidRequest:
            if token or self._page_size == SAFE_PAGE:
                raise
            reply = await self._ask(filter, token, fields, SAFE_PAGE)
            # It was the size: without it the same question is answered.
            self._page_size = SAFE_PAGE
            return reply

    async def _ask(self, filter: str, token: str, fields: tuple[str, ...], size: int = 0) -> Any:
        request = job_service.ListCustomJobsRequest(
            parent=self._parent,
            filter=filter,
            page_size=size or self._page_size,
            page_token=token,
            read_mask={"paths": list(fields)},
        )
        client = self._clients.jobs(self._region)

        async def send(seconds: float) -> Any:
            return await lean.list_page(client, request, seconds)

        where = "every region" if self._region == "-" else self._region
        return await self._clients.caller.read(f"list the jobs of {where}", send)


async def _fill(pages: Sequence[Page]) -> None:
    """Read what nobody has asked for yet, a little at a time: a first filter then finds it read."""
    await asyncio.sleep(FILL_AFTER)
    for at, job in enumerate(job for _, jobs in pages for job in jobs):
        if isinstance(job, ListedJob):
            job.fill()
        if not at % FILL_AT_ONCE:
            await asyncio.sleep(FILL_PAUSE)


def _stamp(pb: Any) -> Stamp:
    return (pb.state, pb.update_time)
