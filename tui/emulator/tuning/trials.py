"""Trials of a tuning job and the custom jobs that run the trials.

Vertex does not document the following behaviour, so the emulator chooses it: the custom job is named
NAME-trial-ID and has the tuning job's labels; the flags are `--ID=VALUE` at the end of the arguments of every
pool; a trial whose job fails, or reports no finite value of the study's metric, is INFEASIBLE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from google.cloud.aiplatform_v1.types import study as study_types
from google.protobuf import struct_pb2

from tui.emulator.interfaces import CustomJobPb
from tui.emulator.messages import Pb, current_time
from tui.emulator.runs.cluster import TRIAL_VARIABLE
from tui.emulator.tuning.measurements import final_measurement, objective
from tui.emulator.tuning.search import PastTrial
from tui.emulator.tuning.space import Value, text_of

Trial = study_types.Trial.State
RUNNING = frozenset({Trial.REQUESTED, Trial.ACTIVE, Trial.STOPPING})
NO_METRIC = "The trial reported no finite value of the metric {!r}."


def custom_job(tuning: Pb, trial_id: str, parameters: Mapping[str, Value]) -> Pb:
    """Return the request of the custom job that runs a trial."""
    job = CustomJobPb(
        display_name=f"{tuning.display_name[:100]}-trial-{trial_id}",
        job_spec=tuning.trial_job_spec,
        labels=tuning.labels,
    )
    if tuning.HasField("encryption_spec"):
        job.encryption_spec.CopyFrom(tuning.encryption_spec)
    output = job.job_spec.base_output_directory
    if output.output_uri_prefix:
        output.output_uri_prefix = f"{output.output_uri_prefix.rstrip('/')}/{trial_id}"
    flags = [f"--{name}={text_of(value)}" for name, value in parameters.items()]
    for pool in job.job_spec.worker_pool_specs:
        if not pool.ListFields():
            continue
        packaged = pool.HasField("python_package_spec")
        task = pool.python_package_spec if packaged else pool.container_spec
        task.args.extend(flags)
        task.env.add(name=TRIAL_VARIABLE, value=trial_id)
    return job


def add_trial(tuning: Pb, trial_id: str, parameters: Mapping[str, Value], job_name: str) -> None:
    """Add a trial that starts now."""
    trial = tuning.trials.add(
        name=f"{tuning.name}/trials/{trial_id}", id=trial_id, state=Trial.ACTIVE, custom_job=job_name
    )
    trial.start_time.CopyFrom(current_time())
    for name, value in parameters.items():
        kind = "string_value" if isinstance(value, str) else "number_value"
        trial.parameters.add(parameter_id=name, value=struct_pb2.Value(**{kind: value}))


def end_trial(trial: Pb, study: Pb, reason: str) -> None:
    """End a trial by its measurements. With a `reason`, or without measurements, it is infeasible."""
    measurement = final_measurement(trial, study)
    if measurement is not None:
        trial.final_measurement.CopyFrom(measurement)
    elif not reason:
        reason = NO_METRIC.format(study.metrics[0].metric_id)
    trial.state = Trial.INFEASIBLE if reason else Trial.SUCCEEDED
    trial.infeasible_reason = reason
    trial.end_time.CopyFrom(current_time())


def update_access(trial: Pb, job: Pb | None) -> bool:
    """Copy the replicas' addresses from a trial's custom job. Return whether the addresses changed."""
    has = dict(job.web_access_uris) if job is not None and trial.state in RUNNING else {}
    if dict(trial.web_access_uris) == has:
        return False
    trial.web_access_uris.clear()
    trial.web_access_uris.update(has)
    return True


def past_trials(tuning: Pb) -> list[PastTrial]:
    """Return the trials in the format of the search."""
    return [
        PastTrial(
            {parameter.parameter_id: _value(parameter.value) for parameter in trial.parameters},
            objective(trial, tuning.study_spec) if trial.state == Trial.SUCCEEDED else None,
            trial.state in RUNNING,
        )
        for trial in tuning.trials
    ]


def active(trials: Iterable[Pb]) -> Sequence[Pb]:
    """Return the trials that have not ended."""
    return [trial for trial in trials if trial.state in RUNNING]


def completed(trials: Iterable[Pb]) -> Sequence[Pb]:
    return [trial for trial in trials if trial.state == Trial.SUCCEEDED]


def failed(trials: Iterable[Pb]) -> Sequence[Pb]:
    return [trial for trial in trials if trial.state == Trial.INFEASIBLE]


def summary(trial: Pb) -> str:
    """Return a trial's parameters in one line, for the log."""
    return ", ".join(
        f"{parameter.parameter_id}={text_of(_value(parameter.value))}" for parameter in trial.parameters
    )


def _value(value: struct_pb2.Value) -> Value:
    return str(value.string_value) if value.HasField("string_value") else float(value.number_value)
