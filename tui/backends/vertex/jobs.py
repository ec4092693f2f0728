"""Custom jobs: list, find, create exactly once, cancel, delete."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from google.cloud.aiplatform_v1.types import custom_job, job_service
from google.protobuf import field_mask_pb2, json_format

from tui.backends import base
from tui.backends.vertex import convert
from tui.backends.vertex.calls import TIMEOUT, once, read
from tui.backends.vertex.clients import Clients
from tui.backends.vertex.log_filter import quote
from tui.domain.job import Job

LAUNCH_LABEL = "vxtui-launch"
PAGE = 100
PARALLEL = 8
MASK = (
    "name", "display_name", "state", "create_time", "start_time", "end_time", "update_time", "labels",
    "error", "job_spec",
)  # fmt: skip
"""Top-level fields only: whether the service takes nested paths is not known (vertex facts 2.2)."""
_CREATE_TIMEOUT = 60.0
_ANYWHERE = "-"


class Jobs:
    """JobService of one project over its regions."""

    def __init__(self, clients: Clients, project: str, regions: tuple[str, ...], context: str) -> None:
        self._clients = clients
        self._project = project
        self._regions = regions
        self._context = context

    def _client(self, region: str) -> Any:
        """The client of a region; an endpoint for all regions serves any."""
        client = self._clients.jobs.get(region) or self._clients.jobs.get(_ANYWHERE)
        if client is None:
            known = ", ".join(self._clients.jobs)
            raise base.NotFound(
                f"The context has no region {region}; it has {known}.",
                fix="Add the region to the context in the configuration.",
            )
        return client

    def _client_of(self, name: str) -> Any:
        parts = name.split("/")
        if len(parts) != 6 or parts[4] != "customJobs":
            raise base.NotFound(f"{name} is not the name of a custom job.")
        return self._client(parts[3])

    async def pages(self, filter_: str) -> AsyncIterator[base.JobPage]:
        """Pages of all regions as they come."""
        queue: asyncio.Queue[base.JobPage | None] = asyncio.Queue()
        gate = asyncio.Semaphore(PARALLEL)

        async def one(region: str) -> None:
            try:
                async with gate:
                    async for page in self._region_pages(region, filter_):
                        await queue.put(page)
            except base.BackendError as error:
                await queue.put(base.JobPage(region, error=error, read_at=datetime.now(UTC)))
            finally:
                await queue.put(None)

        tasks = [asyncio.create_task(one(r), name=f"list jobs of {r}") for r in self._regions]
        try:
            left = len(tasks)
            while left:
                page = await queue.get()
                if page is None:
                    left -= 1
                else:
                    yield page
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _region_pages(self, region: str, filter_: str) -> AsyncIterator[base.JobPage]:
        client, token = self._client(region), ""
        what = f"list the jobs of {'this machine' if region == _ANYWHERE else region}"
        while True:
            request = job_service.ListCustomJobsRequest(
                parent=f"projects/{self._project}/locations/{region}",
                filter=filter_,
                page_size=PAGE,
                page_token=token,
                read_mask=field_mask_pb2.FieldMask(paths=MASK),
            )
            pager = await read(
                what, partial(client.list_custom_jobs, request=request, retry=None, timeout=TIMEOUT)
            )
            response = job_service.ListCustomJobsResponse.pb(next(iter([p async for p in _first(pager)])))
            found = tuple(convert.job(pb, self._context) for pb in response.custom_jobs)
            yield base.JobPage(region, found, read_at=datetime.now(UTC))
            token = response.next_page_token
            if not token:
                return

    async def get(self, name: str) -> Any:
        """The plain CustomJob message."""
        client = self._client_of(name)
        answer = await read(
            f"read the job {name.rsplit('/', maxsplit=1)[-1]}",
            lambda: client.get_custom_job(name=name, retry=None, timeout=TIMEOUT),
        )
        return custom_job.CustomJob.pb(answer)

    async def find(self, reference: str) -> list[Job]:
        """By full name, id or display name, over all regions."""
        if reference.startswith("projects/"):
            try:
                return [convert.job(await self.get(reference), self._context)]
            except base.NotFound:
                return []
        found: list[Job] = []
        errors: list[base.BackendError] = []
        # An id is not a filter field, so a number is looked up by name in each region.
        if reference.isdigit():
            found = await self._by_id(reference)
        if not found:
            async for page in self.pages(f"display_name={quote(reference)}"):
                found += page.jobs
                errors += [page.error] if page.error else []
        if not found and errors:
            raise errors[0]
        return found

    async def _by_id(self, job_id: str) -> list[Job]:
        if _ANYWHERE in self._regions:
            return [j async for page in self.pages("") for j in page.jobs if j.id == job_id]
        names = [f"projects/{self._project}/locations/{r}/customJobs/{job_id}" for r in self._regions]
        answers = await asyncio.gather(*(self.get(n) for n in names), return_exceptions=True)
        bad = [a for a in answers if isinstance(a, base.BackendError) and not isinstance(a, base.NotFound)]
        found = [convert.job(a, self._context) for a in answers if not isinstance(a, BaseException)]
        if bad and not found:
            raise bad[0]
        return found

    async def create(self, request: base.LaunchRequest) -> Job:
        """One job, however the reply is lost: the label tells whether it exists."""
        mark = secrets.token_hex(8)
        body: Mapping[str, Any] = {
            **request.custom_job,
            "labels": {**request.custom_job.get("labels", {}), LAUNCH_LABEL: mark},
        }
        try:
            resource = json_format.ParseDict(body, custom_job.CustomJob.pb()())
        except json_format.ParseError as error:
            raise base.InvalidRequest(f"The request is not a custom job: {error}") from error
        message = custom_job.CustomJob.wrap(resource)
        client = self._client(request.region)
        parent = f"projects/{self._project}/locations/{request.region}"
        try:
            made = await once(
                f"create the job {resource.display_name}",
                lambda: client.create_custom_job(
                    parent=parent, custom_job=message, retry=None, timeout=_CREATE_TIMEOUT
                ),
            )
        except base.Unavailable as error:
            found = await self._look_for(mark, request.region)
            if found is not None:
                return found
            raise base.Unavailable(
                f"{error.message} No job with this launch's label ({LAUNCH_LABEL}={mark}) was found, but the "
                "service may still be creating it.",
                fix="Look at the list of jobs before you launch again.",
            ) from error
        return convert.job(custom_job.CustomJob.pb(made), self._context)

    async def _look_for(self, mark: str, region: str) -> Job | None:
        for pause in (0.5, 1.0, 2.0):
            await asyncio.sleep(pause)
            try:
                async for page in self._region_pages(region, f"labels.{LAUNCH_LABEL}={quote(mark)}"):
                    if page.jobs:
                        return page.jobs[0]
            except base.BackendError:
                continue
        return None

    async def cancel(self, name: str) -> None:
        client = self._client_of(name)
        await once(
            f"cancel the job {name.rsplit('/', maxsplit=1)[-1]}",
            lambda: client.cancel_custom_job(name=name, retry=None, timeout=TIMEOUT),
        )

    async def delete(self, name: str) -> None:
        client = self._client_of(name)
        what = f"delete the job {name.rsplit('/', maxsplit=1)[-1]}"
        operation = await once(what, lambda: client.delete_custom_job(name=name, retry=None, timeout=TIMEOUT))
        await once(what, lambda: operation.result(timeout=TIMEOUT))


async def _first(pager: Any) -> AsyncIterator[Any]:
    """Only the page that has come: the pager's own follow-up calls would have no timeout of ours."""
    async for page in pager.pages:
        yield page
        return
