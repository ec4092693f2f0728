"""The compared facts of a run, per kind: functions of the job and its resource (REST format)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tui.domain.comparison.runs import RunFacts, TaskOutcome
from tui.domain.core.job import Job
from tui.domain.core.task import Task
from tui.domain.masking import mask_value, masked
from tui.domain.pipeline.facts import CACHED
from tui.domain.pipeline.tree import above, tree
from tui.domain.tuning.study import best, study_of

_BODIES = ("jobSpec", "trainingTaskInputs", "studySpec", "trialJobSpec")
"""Fields of a resource that contain the request."""
_FLAG = re.compile(r"--?(?P<name>[\w.-]+)=(?P<value>.*)", re.DOTALL)
_WORDS = {CACHED: "cached", "NOT_TRIGGERED": "not triggered"}


def job_facts(job: Job, resource: Mapping[str, Any]) -> RunFacts:
    """Return a job's specification by field, and the job's last training step."""
    progress = job.progress
    progress_values = {"step": progress.step, "loss": progress.last_loss, "speed": progress.speed}
    results = {name: value for name, value in progress_values.items() if value is not None}
    return RunFacts(_asked(resource), {"state": job.state.value.lower(), **results})


def tuning_facts(job: Job, resource: Mapping[str, Any]) -> RunFacts:
    """Return a tuning job's study, its trials' specification, and the best trial."""
    counts = ("maxTrialCount", "parallelTrialCount", "maxFailedTrialCount")
    parameters = {name: resource[name] for name in counts if name in resource} | _asked(resource)
    winner, study = best(job.tasks, study_of(job)), study_of(job)
    results: dict[str, object] = {"state": job.state.value.lower()}
    for word in dict.fromkeys(task.state.value.lower() for task in job.tasks):
        results[f"trials {word}"] = sum(task.state.value.lower() == word for task in job.tasks)
    if winner is not None:
        results |= {f"best {metric.id}": winner.metrics.get(metric.id) for metric in study.metrics}
        results |= {f"best {name}": _safe(name, value) for name, value in winner.parameters.items()}
    return RunFacts(parameters, results)


def pipeline_facts(job: Job, resource: Mapping[str, Any]) -> RunFacts:
    """Return a pipeline's parameters with their defaults, its tasks' outputs and metrics, and their
    states."""
    branches = tree(job.tasks)
    names: dict[str, str] = {}
    for id, branch in branches.items():
        way = [branches[group].task.name for group in reversed(above(branches, id))]
        name = "/".join([*way, branch.task.name or id])
        # Siblings have different names in a pipeline, but a service may report equal names.
        names[id] = name if name not in names.values() else f"{name} ({id})"
    leaves = {names[id]: branch.task for id, branch in branches.items() if not branch.parts}
    results: dict[str, object] = {"state": job.state.value.lower()}
    for name, task in leaves.items():
        results |= {f"{name}.{key}": value for key, value in _results(task)}
    return RunFacts(
        _parameters(resource), results, {names[id]: _outcome(branch.task) for id, branch in branches.items()}
    )


def _parameters(resource: Mapping[str, Any]) -> dict[str, object]:
    """Return the parameter values of a pipeline run."""
    root = (resource.get("pipelineSpec") or {}).get("root") or {}
    defined = (root.get("inputDefinitions") or {}).get("parameters") or {}
    values = {
        name: declared["defaultValue"] for name, declared in defined.items() if "defaultValue" in declared
    }
    runtime = resource.get("runtimeConfig") or {}
    values |= runtime.get("parameterValues") or {}
    # Schema 2.0 has typed values.
    for name, value in (runtime.get("parameters") or {}).items():
        values[name] = next(iter(value.values()), None) if isinstance(value, Mapping) else value
    return {name: _safe(name, value) for name, value in values.items()}


def _results(task: Task) -> Iterator[tuple[str, object]]:
    """Yield a task's metric values and its outputs without URIs, which differ in every run."""
    for name, value in task.outputs.items():
        if name not in task.output_artifacts:
            yield name, _safe(name, value)
    for name, artifacts in task.output_artifacts.items():
        for artifact in artifacts:
            for key, figure in artifact.metrics.items():
                yield f"{name}.{key}", figure


def _outcome(task: Task) -> TaskOutcome:
    cached = task.native_state == CACHED
    word = _WORDS.get(task.native_state, task.state.value.lower())
    ran = task.start_time is not None and task.end_time is not None
    seconds = (task.end_time - task.start_time).total_seconds() if ran else None  # type: ignore[operator]
    return TaskOutcome(word, seconds, cached)


def _asked(resource: Mapping[str, Any]) -> dict[str, object]:
    safe = masked({name: resource[name] for name in _BODIES if name in resource})[0]
    return dict(_leaves(safe, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, object]]:
    """Yield the fields with a value. Flags and variables are keyed by name, so that an insertion shifts no
    other field."""
    if isinstance(value, Mapping):
        if set(value) == {"name", "value"}:
            yield f"{path.rpartition('[')[0]} {value['name']}", value["value"]
            return
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            flag = _FLAG.fullmatch(inner) if isinstance(inner, str) else None
            if flag is not None:
                yield f"{path} {flag['name']}", _number(flag["value"])
            else:
                yield from _leaves(inner, f"{path}[{at}]")
    else:
        yield path, value


def _number(text: str) -> object:
    """Return the number in a flag's text, so that its change can be computed; return other text unchanged."""
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    return int(text) if text.lstrip("-").isdecimal() else number


def _safe(name: str, value: object) -> object:
    if isinstance(value, str):
        return mask_value(name, value)
    if isinstance(value, Mapping | list):
        return str(masked(value)[0])
    return int(value) if isinstance(value, float) and value.is_integer() else value
