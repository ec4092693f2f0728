"""Hyperparameter tuning jobs of Vertex AI. A list has no trials (docs/facts/vertex.md 2.2)."""

from __future__ import annotations

from google.cloud.aiplatform_v1.types import hyperparameter_tuning_job, job_service

from tui.backends.vertex.jobs import tuning_job_convert
from tui.backends.vertex.jobs.resource import ACTIVE_JOBS, Resource
from tui.backends.vertex.jobs.service import VertexJobs


class TuningJobs(VertexJobs):
    """Hyperparameter tuning jobs of one context, in JobService."""

    resource = Resource(
        noun="hyperparameter_tuning_job",
        title="hyperparameter tuning job",
        collection="hyperparameterTuningJobs",
        types=job_service,
        message=hyperparameter_tuning_job.HyperparameterTuningJob,
        client=lambda clients, region: clients.jobs(region),
        list_fields=(),
        active_states=ACTIVE_JOBS,
        convert=tuning_job_convert.job,
        convert_listed=tuning_job_convert.job,
        body="tuningJob",
        lists_no_parts=True,
    )
