"""Hyperparameter tuning jobs of Vertex AI. A list has no trials: each job's are read by a call of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from google.cloud.aiplatform_v1.types import hyperparameter_tuning_job, job_service
from google.protobuf import json_format

from tui.backends.interface import BackendError, ContextInfo, InvalidRequest, JobPage
from tui.backends.vertex.jobs import convert, tuning_job_convert
from tui.backends.vertex.jobs.resource import Resource
from tui.backends.vertex.jobs.service import AT_ONCE, VertexJobs
from tui.backends.vertex.transport.channels import Clients
from tui.domain.job import Job

MOST_READ = 50
"""Ended jobs whose trials one reading of a list asks for; the others' are read when they are opened."""
STALE = 20.0
"""Seconds after which the trials of an active job are read again where its `update_time` stands still: that
each change of a trial moves it is not documented."""
_Pb = hyperparameter_tuning_job.HyperparameterTuningJob.pb()


def _message(resource: Mapping[str, Any]) -> Any:
    """A HyperparameterTuningJob message. Raises InvalidRequest, naming the field that does not fit."""
    message = _Pb()
    try:
        json_format.ParseDict(dict(resource), message)
    except json_format.ParseError as error:
        raise InvalidRequest(
            f"The job does not have the form of a Vertex AI hyperparameter tuning job: {error}",
            fix="Correct the profile's tuningJob.",
        ) from error
    return message


@dataclass(frozen=True, slots=True)
class _Read:
    """A job with its trials, as read at that moment (monotonic seconds)."""

    job: Job
    update_time: datetime | None
    at: float


class TuningJobs(VertexJobs):
    """JobService of one context, for hyperparameter tuning jobs."""

    resource = Resource(
        noun="hyperparameter_tuning_job",
        title="hyperparameter tuning job",
        collection="hyperparameterTuningJobs",
        types=job_service,
        message=hyperparameter_tuning_job.HyperparameterTuningJob,
        client=lambda clients, region: clients.jobs(region),
        list_fields=(),
        active_states=(
            "JOB_STATE_QUEUED",
            "JOB_STATE_PENDING",
            "JOB_STATE_RUNNING",
            "JOB_STATE_CANCELLING",
            "JOB_STATE_PAUSED",
            "JOB_STATE_UPDATING",
        ),
        convert=tuning_job_convert.job,
        convert_listed=tuning_job_convert.job,
        parse=_message,
    )

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        super().__init__(info, clients)
        self._known: dict[str, _Read] = {}

    def list_all(self, *, filter: str = "") -> AsyncGenerator[JobPage, None]:
        return self._with_trials(super().list_all(filter=filter))

    def changes(self) -> AsyncGenerator[JobPage, None]:
        return self._with_trials(super().changes())

    async def _with_trials(self, pages: AsyncGenerator[JobPage, None]) -> AsyncGenerator[JobPage, None]:
        async with aclosing(pages):
            async for page in pages:
                for name in page.gone:
                    self._known.pop(name, None)
                yield replace(page, jobs=await self._complete(page.jobs)) if page.jobs else page

    async def _complete(self, jobs: Sequence[Job]) -> tuple[Job, ...]:
        """These jobs with their trials; as listed where those can't be read now."""
        due = [job for job in jobs if self._is_due(job)]
        # Newest first, as a list has them.
        ended = [job for job in due if job.state.terminal][:MOST_READ]
        wanted = [*ended, *(job for job in due if not job.state.terminal)]
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(job: Job) -> None:
            async with gate:
                try:
                    found = await self.get(job.name)
                except BackendError:
                    # The next reading asks again; the list itself was answered.
                    return
                self._known[job.name] = _Read(found, job.update_time, time.monotonic())

        await asyncio.gather(*map(read, wanted))
        return tuple(self._newer_of(job) for job in jobs)

    def _is_due(self, job: Job) -> bool:
        if job.tasks:
            return False
        known = self._known.get(job.name)
        if known is None or known.update_time != job.update_time:
            return True
        return job.state.active and time.monotonic() - known.at > STALE

    def _newer_of(self, job: Job) -> Job:
        known = self._known.get(job.name)
        return known.job if known is not None and not job.tasks else job

    async def parent_of(self, job: Job) -> Job | None:
        """The tuning job whose trial this custom job is: one of those that went on when it was created."""
        created = job.create_time
        if job.kind != convert.KIND or created is None:
            return None
        until = f'create_time<="{created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}"'
        async with aclosing(super().list_all(filter=until)) as pages:
            async for page in pages:
                going = [each for each in page.jobs if each.end_time is None or each.end_time >= created]
                for each in await self._complete(going):
                    if job.name in {task.job for task in each.tasks}:
                        return each
        return None
