"""Pipeline jobs of Vertex AI. A list has no tasks (vertex facts 11.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from google.cloud.aiplatform_v1.types import pipeline_job, pipeline_service
from google.protobuf import json_format

from tui.backends.interface import InvalidRequest
from tui.backends.vertex.jobs import pipeline_job_convert
from tui.backends.vertex.jobs.composite import CompositeJobs
from tui.backends.vertex.jobs.resource import Resource
from tui.domain.job import Job

_Pb = pipeline_job.PipelineJob.pb()


def _message(resource: Mapping[str, Any]) -> Any:
    """A PipelineJob message. Raises InvalidRequest, naming the field that does not fit."""
    message = _Pb()
    try:
        json_format.ParseDict(dict(resource), message)
    except json_format.ParseError as error:
        raise InvalidRequest(
            f"The job does not have the form of a Vertex AI pipeline job: {error}",
            fix="Correct the profile's pipelineJob.",
        ) from error
    return message


class PipelineJobs(CompositeJobs):
    """PipelineService of one context, for pipeline jobs."""

    resource = Resource(
        noun="pipeline_job",
        title="pipeline job",
        collection="pipelineJobs",
        types=pipeline_service,
        message=pipeline_job.PipelineJob,
        client=lambda clients, region: clients.pipelines(region),
        list_fields=(),
        active_states=(
            "PIPELINE_STATE_QUEUED",
            "PIPELINE_STATE_PENDING",
            "PIPELINE_STATE_RUNNING",
            "PIPELINE_STATE_CANCELLING",
            "PIPELINE_STATE_PAUSED",
        ),
        convert=pipeline_job_convert.job,
        convert_listed=pipeline_job_convert.job,
        parse=_message,
    )

    async def find(self, reference: str) -> list[Job]:
        """By full name, by id, which its creator chose, else by display name."""
        if not self.owns(reference) and re.fullmatch(r"[a-z0-9][a-z0-9-]{0,127}", reference):
            found = await self._by_id(reference)
            if found:
                return found
        return await super().find(reference)
