"""Jobs of one resource type: list, poll, find, read, create exactly once, cancel, delete."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tui.backends.interface import (
    EVERY_REGION,
    BackendError,
    ContextInfo,
    FailedPrecondition,
    InvalidRequest,
    JobPage,
    JobService,
    LaunchRequest,
    NotFound,
    QuotaExceeded,
    Unavailable,
)
from tui.backends.lost_create import LOOK_AGAIN, created_job
from tui.backends.merge import merged
from tui.backends.vertex.jobs import convert
from tui.backends.vertex.jobs.composite import UnlistedParts
from tui.backends.vertex.jobs.listing import Batch, JobListing
from tui.backends.vertex.jobs.operations import wait_for
from tui.backends.vertex.jobs.resource import Resource
from tui.backends.vertex.logs.filters import quote, stamp
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.channels import Clients
from tui.domain.core.job import LAUNCH_LABEL, Job
from tui.domain.core.resource_name import name_pattern, note_project
from tui.domain.core.states import JobState

AT_ONCE = 8
"""Number of regions read at the same time."""
LOOK_AFTER_REFUSAL = (1.0,)
"""Seconds between searches after a refusal that may hide a job. Refusals of this kind are rare, and the user
is waiting."""


class VertexJobs(JobService):
    """The jobs of one resource type in one context's project and regions."""

    resource: Resource

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        self._info = info
        self._clients = clients
        self._call = clients.caller
        self._regions_seen: set[str] = set(info.regions)
        self._listings: dict[str, JobListing] = {}
        self._name = name_pattern(self.resource.collection)
        self._parts = UnlistedParts(self.get) if self.resource.lists_no_parts else None

    def owns(self, name: str) -> bool:
        return self._name.fullmatch(name) is not None

    # Read

    def list_all(self, *, filter: str = "") -> AsyncGenerator[JobPage, None]:
        return self._with_parts(self._read(lambda listing: listing.whole(filter)))

    def changes(self) -> AsyncGenerator[JobPage, None]:
        return self._with_parts(self._read(lambda listing: listing.changes()))

    def _with_parts(self, pages: AsyncGenerator[JobPage, None]) -> AsyncGenerator[JobPage, None]:
        return pages if self._parts is None else self._parts.added(pages)

    async def _read(
        self, read: Callable[[JobListing], AsyncGenerator[Batch, None]]
    ) -> AsyncGenerator[JobPage, None]:
        """Yield pages of all regions as they arrive. A failing region yields a page with its error."""
        regions = [EVERY_REGION] if self._clients.endpoint.all_regions else self._info.regions
        streams = {region: self._pages(region, read(self._listing(region))) for region in regions}
        async with aclosing(merged(streams, AT_ONCE)) as pages:
            async for _, page in pages:
                yield page

    async def _pages(
        self, region: str, batches: AsyncGenerator[Batch, None]
    ) -> AsyncGenerator[JobPage, None]:
        whole = False
        try:
            async with aclosing(batches):
                async for batch in batches:
                    whole = batch.whole
                    everywhere = region == EVERY_REGION
                    for page in self._by_region(batch) if everywhere else [_page(region, batch)]:
                        yield page
        except BackendError as error:
            for failed in sorted(self._regions_seen) if region == EVERY_REGION else [region]:
                yield JobPage(failed, error=error)
            return
        if region == EVERY_REGION:
            # A region without jobs has no page above although it was read.
            for seen in sorted(self._regions_seen):
                yield _page(seen, Batch((), whole))
            yield _page(EVERY_REGION, Batch((), whole))

    def _by_region(self, batch: Batch) -> list[JobPage]:
        """Split a batch of all regions into pages of one region each."""
        jobs: dict[str, list[Job]] = {}
        gone: dict[str, list[str]] = {}
        for job in batch.jobs:
            jobs.setdefault(job.region, []).append(job)
        for name in batch.gone:
            gone.setdefault(self._region_of(name), []).append(name)
        self._regions_seen |= jobs.keys()
        return [
            _page(region, Batch(tuple(jobs.get(region, ())), batch.whole, tuple(gone.get(region, ()))))
            for region in [*jobs, *(gone.keys() - jobs.keys())]
        ]

    def _listing(self, region: str) -> JobListing:
        listing = self._listings.get(region)
        if listing is None:
            parent = self._parent(region)
            listing = JobListing(self.resource, self._clients, self._info.name, parent, region, self.get)
            self._listings[region] = listing
        return listing

    async def get(self, name: str) -> Job:
        """Return one job. If the job was deleted, the next poll of the list reports the deletion too."""
        try:
            return self.resource.convert(await self._get(name), self._info.name)
        except NotFound:
            self._forget(name)
            raise

    async def spec(self, name: str) -> dict[str, Any]:
        return convert.job_dict(await self._get(name))

    async def _get(self, name: str) -> Any:
        return await self._fetch(name, self._region_of(name))

    async def _fetch(self, name: str, region: str) -> Any:
        reply = await self._clients.read(
            f"read the {self.resource.words} {name}",
            lambda: self.resource.call(self._clients, region, "get"),
            name=name,
        )
        note_project(name, reply.name)
        return reply

    async def find(self, reference: str) -> list[Job]:
        """Find jobs in all regions by full name or id; if none matches, by display name."""
        if self.owns(reference):
            return await self._get_all([reference])
        if self.resource.id_pattern.fullmatch(reference):
            jobs = await self._by_id(reference)
            if jobs:
                return jobs
        return await self.named(reference)

    async def named(self, display_name: str) -> list[Job]:
        """Return the jobs with this display name in all regions."""
        return await self._matching(f"display_name={quote(display_name)}")

    async def parent_of(self, job: Job) -> Job | None:
        """Return the job that started this custom job, if a list shows it: a job that was active at its
        creation."""
        if self._parts is None or job.kind != convert.KIND or job.create_time is None:
            return None
        until = f"create_time<={quote(stamp(job.create_time))}"
        return await self._parts.parent_of(job, self._read(lambda listing: listing.whole(until)))

    def name_filter(self, beginning: str) -> str:
        return f"display_name:{quote(beginning + '*')}" if beginning else ""

    async def _by_id(self, job_id: str) -> list[Job]:
        names = [
            f"{self._parent(region)}/{self.resource.collection}/{job_id}" for region in self._info.regions
        ]
        jobs = await self._get_all(names)
        if jobs or not self._clients.endpoint.all_regions:
            return jobs
        # The emulator's other clients may choose any region or project for the job.
        try:
            message = await self._fetch(f"projects/-/locations/-/{self.resource.collection}/{job_id}", "-")
        except NotFound:
            return []
        return [self.resource.convert(message, self._info.name)]

    async def _get_all(self, names: Sequence[str]) -> list[Job]:
        """Return the existing jobs of these names. Raises a region's error if none exists."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(name: str) -> Job | BackendError | None:
            async with gate:
                try:
                    return await self.get(name)
                except NotFound:
                    return None
                except BackendError as error:
                    return error

        answers = await asyncio.gather(*(read(name) for name in names))
        jobs = [answer for answer in answers if isinstance(answer, Job)]
        errors = [answer for answer in answers if isinstance(answer, BackendError)]
        if errors and not jobs:
            raise errors[0]
        return jobs

    async def _matching(self, filter: str) -> list[Job]:
        jobs: list[Job] = []
        failed: BackendError | None = None
        async for page in self.list_all(filter=filter):
            jobs.extend(page.jobs)
            failed = failed or page.error
        if failed is not None and not jobs:
            raise failed
        return jobs

    # Change

    async def create(self, request: LaunchRequest) -> Job:
        """Send one create. After a lost or unreadable reply, look for the job by its label."""
        region = request.region or self._info.regions[0]
        request = replace(request, region=region, mark=request.mark or secrets.token_hex(8))
        message = self.resource.parse(request.resource)
        message.labels[LAUNCH_LABEL] = request.mark
        create = self.resource.create_request(self._parent(region), message)
        call = self.resource.call(self._clients, region, "create")

        async def send(seconds: float) -> Job:
            request.on_send()
            return self._created_job(await call(create, retry=None, timeout=seconds))

        action = f"create the {self.resource.words} {message.display_name!r} in {region}"
        try:
            return await self._call.once(action, send, within=deadlines.CREATE)
        except BackendError as error:
            # These errors leave open whether the service acted; any other error is a refusal.
            if type(error) not in (Unavailable, BackendError, QuotaExceeded):
                raise
            return await self._created(request, error)

    def _created_job(self, reply: Any) -> Job:
        """Return the job in the reply to a create request. Raises BackendError if the reply does not name a
        job."""
        job = self.resource.convert(self.resource.message.pb(reply), self._info.name)
        if not self.owns(job.name):
            raise BackendError(f"The reply to the create request does not name a job: {job.name[:80]!r}.")
        return job

    async def launched(self, request: LaunchRequest) -> Job | None:
        return await self._listing(request.region).first(f"labels.{LAUNCH_LABEL}={quote(request.mark)}")

    async def _created(self, request: LaunchRequest, lost: BackendError) -> Job:
        refused = isinstance(lost, QuotaExceeded)
        waits = LOOK_AFTER_REFUSAL if refused else LOOK_AGAIN
        return await created_job(request, lost, self.launched, "service", waits=waits, refused=refused)

    async def cancel(self, name: str) -> None:
        """Cancel the job. The request is sent again after a lost reply: a second cancel changes nothing."""
        call = self._method(name, "cancel")
        sent = 0

        async def send(seconds: float) -> None:
            nonlocal sent
            sent += 1
            await call(name=name, retry=None, timeout=seconds)

        try:
            await self._call.read(f"cancel the {self.resource.words} {name}", send, within=deadlines.CHANGE)
        except FailedPrecondition:
            # The first cancel may have succeeded although its reply was lost.
            if sent < 2 or (await self.get(name)).state not in {JobState.CANCELLING, JobState.CANCELLED}:
                raise

    async def delete(self, name: str) -> None:
        """Delete the job and wait for the operation to finish."""
        region, call = self._region_of(name), self._method(name, "delete")
        action = f"delete the {self.resource.words} {name}"
        sent = 0

        async def send(seconds: float) -> Any:
            nonlocal sent
            sent += 1
            return await call(name=name, retry=None, timeout=seconds)

        try:
            future = await self._call.read(action, send, within=deadlines.CHANGE)
        except NotFound:
            self._forget(name)
            if sent < 2:
                raise
            return
        await wait_for(self._clients, region, future.operation, action)
        self._forget(name)

    def _forget(self, name: str) -> None:
        """Notify the next listing that the job is deleted."""
        for listing in self._listings.values():
            listing.deleted(name)

    def _method(self, name: str, verb: str) -> Callable[..., Awaitable[Any]]:
        """Return the method for one job. Raises InvalidRequest if `name` is not a full name."""
        return self.resource.call(self._clients, self._region_of(name), verb)

    def _region_of(self, name: str) -> str:
        match = self._name.fullmatch(name)
        if match is None:
            raise InvalidRequest(
                f"{name!r} must be the full name of a {self.resource.words}.",
                fix=f"Write projects/PROJECT/locations/REGION/{self.resource.collection}/NUMBER.",
            )
        return match[2]

    def _parent(self, region: str) -> str:
        return f"projects/{self._info.project}/locations/{region}"


def _page(region: str, batch: Batch) -> JobPage:
    return JobPage(region, batch.jobs, read_at=datetime.now(UTC), whole=batch.whole, gone=batch.gone)
