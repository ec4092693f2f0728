"""Training pipelines: list, find, read, create exactly once, cancel, delete."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from google.cloud.aiplatform_v1.types import pipeline_service, training_pipeline
from google.protobuf import json_format

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
from tui.backends.merge import merged
from tui.backends.vertex.jobs import convert, training_pipeline_convert
from tui.backends.vertex.jobs.operations import wait_for
from tui.backends.vertex.jobs.service import AT_ONCE, CREATE_TIMEOUT, LAUNCH_LABEL, LOOK_AGAIN
from tui.backends.vertex.logs.filters import quote
from tui.backends.vertex.transport.channels import Clients
from tui.domain.job import Job
from tui.domain.states import JobState
from tui.domain.vertex.spec_formats import TRAINING_PIPELINE

PAGE_SIZE = 100
_NAME = re.compile(r"projects/[^/]+/locations/([^/]+)/trainingPipelines/[^/]+")
_Pb = training_pipeline.TrainingPipeline.pb()


class TrainingPipelines(JobService):
    """Training pipelines of one context's project and regions."""

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        self._info = info
        self._clients = clients
        self._call = clients.caller
        self._regions_seen = set(info.regions)
        self._known: dict[str, Job] = {}
        """What a pipeline asks for never changes: it is read from its inputs once."""

    def owns(self, name: str) -> bool:
        return _NAME.fullmatch(name) is not None

    # Read

    async def list_all(self, *, filter: str = "") -> AsyncGenerator[JobPage, None]:
        everywhere = self._clients.endpoint.all_regions
        regions = ("-",) if everywhere else self._info.regions
        streams = {region: self._pages(region, filter) for region in regions}
        async with aclosing(merged(streams, AT_ONCE)) as pages:
            async for _, page in pages:
                yield page

    async def _pages(self, region: str, filter: str) -> AsyncGenerator[JobPage, None]:
        """Pages of one region; those of all regions are apart by region."""
        told = self._info.regions if region == "-" else (region,)
        found: dict[str, list[Job]] = {name: [] for name in (self._regions_seen if region == "-" else told)}
        try:
            token = ""
            while True:
                reply = await self._page(region, filter, token)
                for pb in reply.training_pipelines:
                    job = self._job(pb)
                    found.setdefault(job.region, []).append(replace(job, replicas=()))
                token = reply.next_page_token
                if not token:
                    break
        except BackendError as error:
            for name in told:
                yield JobPage(name, error=error)
            return
        if region == "-":
            self._regions_seen.update(found)
        for name, jobs in sorted(found.items()):
            yield JobPage(name, tuple(jobs), read_at=datetime.now(UTC))

    async def _page(self, region: str, filter: str, token: str = "") -> Any:
        request = pipeline_service.ListTrainingPipelinesRequest(
            parent=self._parent(region), filter=filter, page_size=PAGE_SIZE, page_token=token
        )
        client = self._clients.pipelines(region)

        async def send(seconds: float) -> Any:
            pager = await client.list_training_pipelines(request, retry=None, timeout=seconds)
            # The first page is the reply; the pager would ask for the others without our retries.
            return pipeline_service.ListTrainingPipelinesResponse.pb(await anext(pager.pages))

        where = "every region" if region == "-" else region
        return await self._call.read(f"list the training pipelines of {where}", send)

    async def get(self, name: str) -> Job:
        return self._job(await self._get(name))

    async def spec(self, name: str) -> dict[str, Any]:
        return convert.job_dict(await self._get(name))

    def _job(self, pb: Any) -> Job:
        found = training_pipeline_convert.job(pb, self._info.name, self._known.get(pb.name))
        self._known[pb.name] = found
        return found

    async def _get(self, name: str) -> Any:
        client = self._clients.pipelines(region_of(name))

        async def send(seconds: float) -> Any:
            found = await client.get_training_pipeline(name=name, retry=None, timeout=seconds)
            return training_pipeline.TrainingPipeline.pb(found)

        return await self._call.read(f"read the training pipeline {name}", send)

    async def find(self, reference: str) -> Sequence[Job]:
        """By full name, by id, else by display name; over all regions."""
        if self.owns(reference):
            try:
                return [await self.get(reference)]
            except NotFound:
                return []
        if "/" in reference:
            return []
        numeric = reference.isascii() and reference.isdigit()
        jobs = await self._matching("" if numeric else f"display_name={quote(reference)}")
        # The id is not a field of the list's filter.
        return [job for job in jobs if job.id == reference] if numeric else jobs

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
        """One create, ever. After a lost reply the pipeline is looked for by its label."""
        message = _message(TRAINING_PIPELINE.resource(request.custom_job))
        mark = secrets.token_hex(8)
        message.labels[LAUNCH_LABEL] = mark
        region = request.region or self._info.regions[0]
        create = pipeline_service.CreateTrainingPipelineRequest(
            parent=self._parent(region), training_pipeline=training_pipeline.TrainingPipeline.wrap(message)
        )
        client = self._clients.pipelines(region)

        async def send(seconds: float) -> Any:
            made = await client.create_training_pipeline(create, retry=None, timeout=seconds)
            return training_pipeline.TrainingPipeline.pb(made)

        what = f"create the training pipeline {message.display_name!r} in {region}"
        try:
            return self._job(await self._call.once(what, send, within=CREATE_TIMEOUT))
        except BackendError as error:
            # These two leave open whether the service acted; every other one says that it refused.
            if type(error) not in (Unavailable, BackendError):
                raise
            return await self._created(region, mark, error)

    async def _created(self, region: str, mark: str, lost: BackendError) -> Job:
        """The pipeline that a create without a reply made. Raises Unavailable saying what is known."""
        for seconds in (0.0, *LOOK_AGAIN):
            await asyncio.sleep(seconds)
            try:
                reply = await self._page(region, f"labels.{LAUNCH_LABEL}={quote(mark)}")
            except BackendError:
                continue
            if reply.training_pipelines:
                return self._job(reply.training_pipelines[0])
        raise Unavailable(
            f"{lost.message} Whether the training pipeline exists is not known.",
            fix=f"Look for the label {LAUNCH_LABEL}={mark} in {region} before you launch again.",
        ) from lost

    async def cancel(self, name: str) -> None:
        """Cancels its custom job too. Repeated after a lost reply."""
        client = self._clients.pipelines(region_of(name))
        sent = 0

        async def send(seconds: float) -> None:
            nonlocal sent
            sent += 1
            await client.cancel_training_pipeline(name=name, retry=None, timeout=seconds)

        try:
            await self._call.read(f"cancel the training pipeline {name}", send)
        except FailedPrecondition:
            # The first try may have been heard, its reply lost.
            if sent < 2 or (await self.get(name)).state not in {JobState.CANCELLING, JobState.CANCELLED}:
                raise

    async def delete(self, name: str) -> None:
        """Delete and wait for the operation's end. Its custom job stays."""
        region = region_of(name)
        client = self._clients.pipelines(region)
        what = f"delete the training pipeline {name}"
        sent = 0

        async def send(seconds: float) -> Any:
            nonlocal sent
            sent += 1
            return await client.delete_training_pipeline(name=name, retry=None, timeout=seconds)

        try:
            future = await self._call.read(what, send)
        except NotFound:
            if sent < 2:
                raise
            return
        await wait_for(self._clients, region, future.operation, what)

    def _parent(self, region: str) -> str:
        return f"projects/{self._info.project}/locations/{region}"


def _message(resource: Mapping[str, Any]) -> Any:
    """A TrainingPipeline message. Raises InvalidRequest, naming the field that does not fit."""
    message = _Pb()
    try:
        json_format.ParseDict(dict(resource), message)
    except json_format.ParseError as error:
        raise InvalidRequest(
            f"The job does not have the form of a Vertex AI training pipeline: {error}",
            fix="Correct the profile's trainingPipeline.",
        ) from error
    return message


def region_of(name: str) -> str:
    """Region of a training pipeline's full resource name.

    Raises:
        InvalidRequest: when it is not one.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise InvalidRequest(
            f"{name!r} is not the full name of a training pipeline.",
            fix="Write projects/PROJECT/locations/REGION/trainingPipelines/NUMBER.",
        )
    return match[1]
