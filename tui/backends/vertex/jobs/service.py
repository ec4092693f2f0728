"""Custom jobs: list, find, read, create exactly once, cancel, delete."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from google.cloud.aiplatform_v1.types import custom_job, job_service

from tui.backends.interface import (
    BackendError,
    ContextInfo,
    FailedPrecondition,
    InvalidRequest,
    JobPage,
    JobService,
    LaunchRequest,
    NotFound,
    Unavailable,
)
from tui.backends.vertex.jobs import convert
from tui.backends.vertex.jobs.listing import Listing
from tui.backends.vertex.jobs.operations import wait_for
from tui.backends.vertex.logs.filters import quote
from tui.backends.vertex.transport.channels import Clients
from tui.domain.job import Job
from tui.domain.states import JobState

AT_ONCE = 8
"""Regions read at the same time."""
LAUNCH_LABEL = "vxtui-launch"
CREATE_TIMEOUT = 60.0
LOOK_AGAIN = (0.5, 1.0, 2.0, 4.0)
"""Seconds between the looks for a job whose create got no reply."""

_NAME = re.compile(r"projects/[^/]+/locations/([^/]+)/customJobs/[^/]+")


class CustomJobs(JobService):
    """Custom jobs of one context's project and regions."""

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        self._info = info
        self._clients = clients
        self._call = clients.caller
        self._regions_seen: set[str] = set(info.regions)
        self._listings: dict[str, Listing] = {}

    def owns(self, name: str) -> bool:
        return _NAME.fullmatch(name) is not None

    # Read

    async def list_all(self, *, filter: str = "") -> AsyncGenerator[JobPage, None]:
        """Pages of all regions as they arrive; a region that fails is a page with its error."""
        if self._clients.endpoint.all_regions:
            async for page in self._list_everywhere(filter):
                yield page
            return
        pages: asyncio.Queue[JobPage | None] = asyncio.Queue(maxsize=AT_ONCE * 2)
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(region: str) -> None:
            async with gate:
                try:
                    async for jobs in self._listing(region).pages(filter):
                        await pages.put(JobPage(region, jobs, read_at=datetime.now(UTC)))
                except BackendError as error:
                    await pages.put(JobPage(region, error=error))
            await pages.put(None)

        tasks = [asyncio.create_task(read(region)) for region in self._info.regions]
        try:
            waiting = len(tasks)
            while waiting:
                found = await pages.get()
                if found is None:
                    waiting -= 1
                else:
                    yield found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _list_everywhere(self, filter: str) -> AsyncGenerator[JobPage, None]:
        """One listing over all locations, told as if it were one for each region."""
        try:
            async for jobs in self._listing("-").pages(filter):
                for region, found in _by_region(jobs):
                    self._regions_seen.add(region)
                    yield JobPage(region, found, read_at=datetime.now(UTC))
        except BackendError as error:
            for region in self._info.regions:
                yield JobPage(region, error=error)
            return
        # Without jobs a region gives no page above; it has been read all the same.
        for region in sorted(self._regions_seen):
            yield JobPage(region, read_at=datetime.now(UTC))

    def _listing(self, region: str) -> Listing:
        found = self._listings.get(region)
        if found is None:
            found = Listing(self._clients, self._info.name, self._parent(region), region, self.get)
            self._listings[region] = found
        return found

    async def get(self, name: str) -> Job:
        return convert.job(await self._get(name), self._info.name)

    async def spec(self, name: str) -> dict[str, Any]:
        return convert.job_dict(await self._get(name))

    async def _get(self, name: str) -> Any:
        region = region_of(name)

        async def send(seconds: float) -> Any:
            found = await self._clients.jobs(region).get_custom_job(name=name, retry=None, timeout=seconds)
            return custom_job.CustomJob.pb(found)

        return await self._call.read(f"read the job {name}", send)

    async def find(self, reference: str) -> list[Job]:
        """By full name, by id, else by display name; over all regions."""
        if _NAME.fullmatch(reference):
            return await self._get_all([reference])
        if reference.isascii() and reference.isdigit():
            found = await self._by_id(reference)
            if found:
                return found
        return await self._matching(f"display_name={quote(reference)}")

    async def _by_id(self, job_id: str) -> list[Job]:
        names = [f"{self._parent(region)}/customJobs/{job_id}" for region in self._info.regions]
        found = await self._get_all(names)
        if found or not self._clients.endpoint.all_regions:
            return found
        # In another region, then; the id is not a field of the list's filter.
        return [job for job in await self._matching("") if job.id == job_id]

    async def _get_all(self, names: Sequence[str]) -> list[Job]:
        """Those that exist. Where none was found, a region's failure counts more than its silence."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> Job | BackendError | None:
            async with gate:
                try:
                    return await self.get(name)
                except NotFound:
                    return None
                except BackendError as error:
                    return error

        answers = await asyncio.gather(*(one(name) for name in names))
        found = [answer for answer in answers if isinstance(answer, Job)]
        errors = [answer for answer in answers if isinstance(answer, BackendError)]
        if errors and not found:
            raise errors[0]
        return found

    async def _matching(self, filter: str) -> list[Job]:
        found: list[Job] = []
        failed: BackendError | None = None
        async for page in self.list_all(filter=filter):
            found.extend(page.jobs)
            failed = failed or page.error
        if failed is not None and not found:
            raise failed
        return found

    # Change

    async def create(self, request: LaunchRequest) -> Job:
        """One create, ever. After a lost reply the job is looked for by its label."""
        message = convert.job_message(request.custom_job)
        mark = secrets.token_hex(8)
        message.labels[LAUNCH_LABEL] = mark
        region = request.region or self._info.regions[0]
        create = job_service.CreateCustomJobRequest(
            parent=self._parent(region), custom_job=custom_job.CustomJob.wrap(message)
        )

        async def send(seconds: float) -> Any:
            made = await self._clients.jobs(region).create_custom_job(create, retry=None, timeout=seconds)
            return custom_job.CustomJob.pb(made)

        what = f"create the job {message.display_name!r} in {region}"
        try:
            made = await self._call.once(what, send, within=CREATE_TIMEOUT)
        except BackendError as error:
            # These two leave open whether the service acted; every other one says that it refused.
            if type(error) not in (Unavailable, BackendError):
                raise
            return await self._created(region, mark, what, error)
        return convert.job(made, self._info.name)

    async def _created(self, region: str, mark: str, what: str, lost: BackendError) -> Job:
        """The job that a create without a reply made. Raises Unavailable saying what is known."""
        filter = f"labels.{LAUNCH_LABEL}={quote(mark)}"
        seen = False
        for seconds in (0.0, *LOOK_AGAIN):
            await asyncio.sleep(seconds)
            try:
                reply = await self._listing(region).page(filter, "")
            except BackendError:
                continue
            seen = True
            if reply.names:
                return convert.job(reply.message(0), self._info.name)
        if seen:
            raise Unavailable(
                f"{lost.message} No job with the label {LAUNCH_LABEL}={mark} is there: "
                "most likely nothing was created.",
                fix=f"Look at the jobs of {region} once more, then launch again.",
            ) from lost
        raise Unavailable(
            f"{lost.message} Whether the job exists is not known: the service can't be asked now.",
            fix=f"Look for the label {LAUNCH_LABEL}={mark} in {region} before you launch again.",
        ) from lost

    async def cancel(self, name: str) -> None:
        """Repeated after a lost reply: a second cancel asks for nothing more than the first."""
        region = region_of(name)
        sent = 0

        async def send(seconds: float) -> None:
            nonlocal sent
            sent += 1
            await self._clients.jobs(region).cancel_custom_job(name=name, retry=None, timeout=seconds)

        try:
            await self._call.read(f"cancel the job {name}", send)
        except FailedPrecondition:
            # The first try may have been heard, its reply lost.
            if sent < 2 or (await self.get(name)).state not in {JobState.CANCELLING, JobState.CANCELLED}:
                raise

    async def delete(self, name: str) -> None:
        """Delete and wait for the operation's end."""
        region = region_of(name)
        what = f"delete the job {name}"
        sent = 0

        async def send(seconds: float) -> Any:
            nonlocal sent
            sent += 1
            return await self._clients.jobs(region).delete_custom_job(name=name, retry=None, timeout=seconds)

        try:
            future = await self._call.read(what, send)
        except NotFound:
            if sent < 2:
                raise
            return
        await wait_for(self._clients, region, future.operation, what)

    def _parent(self, region: str) -> str:
        return f"projects/{self._info.project}/locations/{region}"


def _by_region(jobs: Sequence[Job]) -> Iterator[tuple[str, tuple[Job, ...]]]:
    """Jobs of a page of all regions, apart; most often they are of one, and none has to be taken apart."""
    rest = jobs
    while rest:
        place = rest[0].name.partition("/customJobs/")[0] + "/"
        here = tuple([job for job in rest if job.name.startswith(place)])
        yield convert.region_of(place), here
        rest = [job for job in rest if not job.name.startswith(place)] if len(here) < len(rest) else ()


def region_of(name: str) -> str:
    """Region of a job's full resource name.

    Raises:
        InvalidRequest: when it is not one.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise InvalidRequest(
            f"{name!r} is not the full name of a job.",
            fix="Write projects/PROJECT/locations/REGION/customJobs/NUMBER.",
        )
    return match[1]
