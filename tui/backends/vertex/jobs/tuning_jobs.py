"""Hyperparameter tuning jobs of Vertex AI. A list has no trials (vertex facts 2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.cloud.aiplatform_v1.types import hyperparameter_tuning_job, job_service
from google.protobuf import json_format

from tui.backends.interface import InvalidRequest
from tui.backends.vertex.jobs import tuning_job_convert
from tui.backends.vertex.jobs.composite import CompositeJobs
from tui.backends.vertex.jobs.resource import Resource

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


class TuningJobs(CompositeJobs):
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
