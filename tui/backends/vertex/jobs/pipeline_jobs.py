"""Pipeline jobs of Vertex AI. A list has no tasks (docs/facts/vertex.md 11.3)."""

from __future__ import annotations

import re

from google.cloud.aiplatform_v1.types import pipeline_job, pipeline_service

from tui.backends.vertex.jobs import pipeline_job_convert
from tui.backends.vertex.jobs.resource import ACTIVE_PIPELINES, Resource
from tui.backends.vertex.jobs.service import VertexJobs


class PipelineJobs(VertexJobs):
    """Pipeline jobs of one context, in PipelineService."""

    resource = Resource(
        noun="pipeline_job",
        title="pipeline job",
        collection="pipelineJobs",
        types=pipeline_service,
        message=pipeline_job.PipelineJob,
        client=lambda clients, region: clients.pipelines(region),
        list_fields=(),
        active_states=ACTIVE_PIPELINES,
        convert=pipeline_job_convert.job,
        convert_listed=pipeline_job_convert.job,
        body="pipelineJob",
        lists_no_parts=True,
        # The creator of a pipeline job chooses its id.
        id_pattern=re.compile(r"[a-z0-9][a-z0-9-]{0,127}"),
    )
