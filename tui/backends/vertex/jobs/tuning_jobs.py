"""Hyperparameter tuning jobs of Vertex AI with trials, which a list leaves out (docs/facts/vertex.md 2.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from google.cloud.aiplatform_v1.types import hyperparameter_tuning_job, job_service
from google.cloud.aiplatform_v1.types.job_state import JobState as NativeState
from google.cloud.aiplatform_v1.types.study import StudySpec, Trial

from tui.backends.vertex.jobs.convert import (
    groups_of,
    job_of,
    longest_wait_of,
    pattern_of,
    strategy_of,
    timeout_of,
)
from tui.backends.vertex.jobs.resource import ACTIVE_JOBS, Resource
from tui.backends.vertex.jobs.service import VertexJobs
from tui.backends.vertex.timestamps import moment
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.core.training_progress import Progress
from tui.domain.masking import mask_text
from tui.domain.tuning.study import Metric, Study, StudyParameter, Value

KIND = "tuning_job"
_STATES: dict[int, str] = {state.value: state.name for state in iter(NativeState)}  # type: ignore[call-overload]
_TRIAL_NAMES: dict[int, str] = {state.value: state.name for state in iter(Trial.State)}  # type: ignore[call-overload]
_TRIAL_STATES = {
    "REQUESTED": JobState.QUEUED,
    "ACTIVE": JobState.RUNNING,
    "STOPPING": JobState.CANCELLING,
    "SUCCEEDED": JobState.SUCCEEDED,
    # The trial's job failed or reported no measurement. The study continues without the trial.
    "INFEASIBLE": JobState.FAILED,
}
_ALGORITHMS = {int(StudySpec.Algorithm.GRID_SEARCH): "grid", int(StudySpec.Algorithm.RANDOM_SEARCH): "random"}
_STOPPING = {
    "decay_curve_stopping_spec": "decay curve",
    "median_automated_stopping_spec": "median",
    "convex_automated_stopping_spec": "convex",
}
_Scale = StudySpec.ParameterSpec.ScaleType
_LOG = frozenset({int(_Scale.UNIT_LOG_SCALE), int(_Scale.UNIT_REVERSE_LOG_SCALE)})
MAXIMIZE = int(StudySpec.MetricSpec.GoalType.MAXIMIZE)


def job(pb: Any, context: str) -> Job:
    """Convert a HyperparameterTuningJob message to a domain job."""
    spec = pb.trial_job_spec
    tasks = tuple(map(_task, pb.trials))
    shown = job_of(pb, context, KIND, _STATES)
    trials = len(tasks) if shown.state is JobState.SUCCEEDED else pb.max_trial_count
    return replace(
        shown,
        groups=groups_of(spec.worker_pool_specs),
        strategy=strategy_of(spec.scheduling),
        persistent_resource=spec.persistent_resource_id,
        timeout=timeout_of(spec.scheduling),
        longest_wait=longest_wait_of(spec.scheduling),
        progress=_progress(tasks, trials),
        tasks=tasks,
        composite=True,
        details=_study(pb),
        progress_pattern=pattern_of(spec.worker_pool_specs),
    )


def _progress(tasks: Iterable[Task], trials: int) -> Progress:
    """Return the progress as the number of ended trials. A grid may have fewer trials than requested."""
    ended = sum(task.state.terminal for task in tasks)
    return Progress(step=ended, total_steps=trials or None) if ended else Progress(phase="no trial has ended")


def _study(pb: Any) -> Study:
    spec = pb.study_spec
    stopping = spec.WhichOneof("automated_stopping_spec")
    return Study(
        metrics=tuple(Metric(metric.metric_id, metric.goal == MAXIMIZE) for metric in spec.metrics),
        parameters=tuple(_parameters(spec.parameters)),
        algorithm=_ALGORITHMS.get(spec.algorithm, ""),
        stopping=_STOPPING.get(stopping or "", ""),
        trials=pb.max_trial_count,
        parallel=pb.parallel_trial_count,
        failures=pb.max_failed_trial_count,
    )


def _parameters(specs: Iterable[Any]) -> Iterator[StudyParameter]:
    seen: set[str] = set()
    for spec in specs:
        kind = spec.WhichOneof("parameter_value_spec") or ""
        value_spec = getattr(spec, kind) if kind else None
        name = spec.parameter_id
        if value_spec is not None and name not in seen:
            seen.add(name)
            short = kind.removesuffix("_value_spec")
            if short in {"categorical", "discrete"}:
                yield StudyParameter(
                    name, short, values=tuple(value_spec.values), log=spec.scale_type in _LOG
                )
            else:
                low, high = float(value_spec.min_value), float(value_spec.max_value)
                yield StudyParameter(name, short, low, high, log=spec.scale_type in _LOG)
        for nested in _parameters(condition.parameter_spec for condition in spec.conditional_parameter_specs):
            if nested.id not in seen:
                seen.add(nested.id)
                yield nested


def _task(pb: Any) -> Task:
    native = _TRIAL_NAMES.get(pb.state) or str(pb.state)
    measured = pb.final_measurement if pb.HasField("final_measurement") else None
    if measured is None and pb.measurements:
        measured = pb.measurements[-1]
    return Task(
        id=pb.id or pb.name.rpartition("/")[2],
        state=_TRIAL_STATES.get(native, JobState.UNKNOWN),
        job=pb.custom_job,
        parameters={parameter.parameter_id: _value(parameter.value) for parameter in pb.parameters},
        metrics=_metrics(measured),
        native_state=native,
        reason=mask_text(pb.infeasible_reason),
        step=None if measured is None else int(measured.step_count),
        start_time=moment(pb, "start_time"),
        end_time=moment(pb, "end_time"),
    )


def _metrics(measured: Any) -> Mapping[str, float]:
    return {} if measured is None else {metric.metric_id: metric.value for metric in measured.metrics}


def _value(value: Any) -> Value:
    """Return a parameter's value. The service sends every number as a float."""
    if value.HasField("string_value"):
        return str(value.string_value)
    number = float(value.number_value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


class TuningJobs(VertexJobs):
    """Hyperparameter tuning jobs of one context. See JobService."""

    resource = Resource(
        noun="hyperparameter_tuning_job",
        types=job_service,
        message=hyperparameter_tuning_job.HyperparameterTuningJob,
        client=lambda clients, region: clients.jobs(region),
        active_states=ACTIVE_JOBS,
        convert=job,
        body="tuningJob",
        lists_no_parts=True,
    )
