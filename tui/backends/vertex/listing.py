"""Lists jobs page by page and reads of each only what is not known yet.

A job's specification never changes, and it is most of the message: it is asked for by the first listing and
by none after it. Of the rest a digest is kept, so that a job that did not change is not even read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

from google.cloud.aiplatform_v1.types import job_service

from tui.backends.base import BackendError, InvalidRequest
from tui.backends.vertex import convert
from tui.backends.vertex.channels import Clients
from tui.domain.job import Job

LARGE_PAGE, SAFE_PAGE = 1_000, 100
"""Jobs a page: larger ones than 100 are customary but not documented for this API (vertex facts 2.2), so
that a service which refuses them is asked for the smaller ones from then on."""
FEW = 20
"""So many jobs that are new are read one by one; where there are more, everything is listed anew."""
LIGHT_FIELDS = tuple(field for field in convert.LIST_FIELDS if field != "job_spec")
READ_AT_ONCE = 250
"""Jobs read without letting anything else go on."""

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
        self._digests: dict[str, int] = {}

    async def pages(self, filter: str = "") -> AsyncIterator[tuple[Job, ...]]:
        """Pages of jobs, newest first. Raises BackendError."""
        if filter or not self._known:
            async for page in self._whole(filter):
                yield page
            return
        seen: set[str] = set()
        strangers = 0
        async for reply in self._replies("", LIGHT_FIELDS):
            new = [pb.name for pb in reply.custom_jobs if pb.name not in self._known]
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
        known: dict[str, Job] = {}
        async for reply in self._replies(filter, convert.LIST_FIELDS):
            page: list[Job] = []
            for pb in reply.custom_jobs:
                page.append(convert.listed_job(pb, self._context))
                if not len(page) % READ_AT_ONCE:
                    await asyncio.sleep(0)
            known |= {job.name: job for job in page}
            yield tuple(page)
        if not filter:
            self._known = known
            self._digests.clear()

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
        digest = hash(pb.SerializeToString())
        if self._digests.get(pb.name) != digest:
            known = self._known[pb.name] = convert.relisted_job(pb, known)
            self._digests[pb.name] = digest
        return known

    def _keep(self, seen: set[str]) -> None:
        for name in [name for name in self._known if name not in seen]:
            del self._known[name]
            self._digests.pop(name, None)

    def _forget(self) -> None:
        self._known.clear()
        self._digests.clear()

    async def _replies(self, filter: str, fields: tuple[str, ...]) -> AsyncIterator[Any]:
        token = ""
        while True:
            reply = await self.page(filter, token, fields)
            yield reply
            token = reply.next_page_token
            if not token:
                return

    async def page(self, filter: str, token: str, fields: tuple[str, ...] = convert.LIST_FIELDS) -> Any:
        """One page as plain protobuf."""
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
            pager = await client.list_custom_jobs(request, retry=None, timeout=seconds)
            # The first page only: each further one is a call of its own, with its own retries.
            async for page in pager.pages:
                return job_service.ListCustomJobsResponse.pb(page)
            return job_service.ListCustomJobsResponse.pb()()

        where = "every region" if self._region == "-" else self._region
        return await self._clients.caller.read(f"list the jobs of {where}", send)
