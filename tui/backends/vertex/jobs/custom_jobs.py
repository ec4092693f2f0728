"""Custom jobs of Vertex AI."""

from __future__ import annotations

from google.cloud.aiplatform_v1.types import custom_job, job_service

from tui.backends.vertex.jobs import convert
from tui.backends.vertex.jobs.resource import ACTIVE_JOBS, Resource
from tui.backends.vertex.jobs.service import VertexJobs


class CustomJobs(VertexJobs):
    """Custom jobs of one context. See JobService."""

    resource = Resource(
        noun="custom_job",
        title="job",
        types=job_service,
        message=custom_job.CustomJob,
        client=lambda clients, region: clients.jobs(region),
        list_fields=convert.LIST_FIELDS,
        active_states=ACTIVE_JOBS,
        convert=convert.job,
        convert_listed=convert.listed_job,
        body="jobSpec",
        form_advice="; `gcloud ai custom-jobs create --config` accepts the same format",
    )
