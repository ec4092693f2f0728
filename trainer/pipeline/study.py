"""The best trial of a hyperparameter tuning job."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from trainer.pipeline.vertex import Vertex

_NAME = re.compile(r"projects/([^/]+)/locations/([^/]+)/hyperparameterTuningJobs/[^/]+")
MAXIMIZE = 1
SUCCEEDED = 4


class NoTrial(Exception):
    """The study has no usable trial; the message gives the reason."""


def best_of(gcp_resources: str) -> tuple[list[str], float]:
    """Return the flags and the metric of the best trial of the tuning job that Google's component ran. Raises
    NoTrial if `gcp_resources` names no tuning job, or no trial has a measurement."""
    match = _NAME.search(json.loads(gcp_resources)["resources"][0]["resourceUri"])
    if match is None:
        raise NoTrial(f"no tuning job in {gcp_resources}")
    job = Vertex(match[1], match[2]).jobs.get_hyperparameter_tuning_job(name=match[0])
    return best_trial(job.trials, job.study_spec.metrics[0])


def best_trial(trials: Sequence[Any], metric: Any) -> tuple[list[str], float]:
    """Return the flags and the metric of the best of these trials. Raises NoTrial."""
    sign = 1 if metric.goal == MAXIMIZE else -1
    measured = [
        (sign * measured.value, trial)
        for trial in trials
        if trial.state == SUCCEEDED
        for measured in trial.final_measurement.metrics
        if measured.metric_id == metric.metric_id
    ]
    if not measured:
        raise NoTrial(f"none of the {len(trials)} trials has measured {metric.metric_id}")
    value, trial = max(measured, key=lambda pair: pair[0])
    flags = [f"--{parameter.parameter_id}={_text(parameter.value)}" for parameter in trial.parameters]
    return flags, sign * value


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
