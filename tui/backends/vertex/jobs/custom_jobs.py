"""Custom jobs of Vertex AI."""

from __future__ import annotations

from google.cloud.aiplatform_v1.types import custom_job, job_service

from tui.backends.vertex.jobs import convert
from tui.backends.vertex.jobs.resource import Resource
from tui.backends.vertex.jobs.service import VertexJobs


class CustomJobs(VertexJobs):
    """JobService of one context."""

    resource = Resource(
        noun="custom_job",
        title="job",
        collection="customJobs",
        types=job_service,
        message=custom_job.CustomJob,
        client=lambda clients, region: clients.jobs(region),
        list_fields=convert.LIST_FIELDS,
        active_states=(
            "JOB_STATE_QUEUED",
            "JOB_STATE_PENDING",
            "JOB_STATE_RUNNING",
            "JOB_STATE_CANCELLING",
            "JOB_STATE_PAUSED",
            "JOB_STATE_UPDATING",
        ),
        convert=convert.job,
        convert_listed=convert.listed_job,
        parse=convert.job_message,
    )
