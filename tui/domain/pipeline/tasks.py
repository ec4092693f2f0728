"""The custom jobs that a pipeline leads to, as far as its specification tells before it runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tui.domain.document.source import Path, camel
from tui.domain.pipeline.ir import Component, Pipeline, Task, bare, reading_of
from tui.domain.pipeline.machines import NoMachine, NotKnown, machine_spec, resources_of
from tui.domain.spec.custom_job_spec import within
from tui.domain.spec.spec_format import KnownJob

MOST_TASKS = 10_000
"""Tasks that a run may have (docs/facts/vertex.md 2.4)."""
LAUNCHER = "google_cloud_pipeline_components.container."
"""Begins the module that Google's components run: it creates a job of its own and waits for it."""
_POOLS = "worker_pool_specs"
_LOOP, _CONDITION = "in a loop over what only the run knows", "its condition decides"


@dataclass(frozen=True, slots=True)
class _Step:
    """A component in the graph: how often it runs, None where that is not known, and why not."""

    titles: tuple[str, ...]
    component: Component
    runs: int | None
    why: str
    values: Mapping[str, Any]
    """Its parameters, as far as they are known."""


def known_jobs(job: Mapping[str, Any]) -> tuple[KnownJob, ...]:
    """One for each task of a PipelineJob (REST form) that runs a container; none of a spec that is broken."""
    spec = bare(job.get("pipelineSpec") or {})
    reading = reading_of(spec)
    pipeline = reading.pipeline
    if reading.problems:
        return ()
    values = within(job, "runtimeConfig", "parameterValues")
    given = dict(values) if isinstance(values, Mapping) else {}
    defaults = {name: each.default for name, each in pipeline.root.parameters.items() if each.has_default}
    whole = _Step((), pipeline.root, 1, "", {**defaults, **given})
    steps = list(islice(_steps(pipeline, whole), MOST_TASKS))
    counts = Counter(step.titles[-1] for step in steps)
    shared = {title for title, count in counts.items() if count > 1}
    return tuple(
        _known(step, job, "/".join(step.titles) if step.titles[-1] in shared else step.titles[-1])
        for step in steps
        if step.component.executor is not None and step.component.executor.importer is None
    )


def _known(step: _Step, job: Mapping[str, Any], title: str) -> KnownJob:
    executor = step.component.executor
    container = (executor.container if executor is not None else None) or {}
    pool: dict[str, Any] = {
        "replicaCount": 1,
        "containerSpec": {"imageUri": str(container.get("image") or "")},
    }
    why = step.why
    try:
        if executor is not None and executor.other:
            raise NotKnown(f"it is a {executor.other}")
        if launches(container):
            return _launched(step, title)
        pool["machineSpec"] = machine_spec(resources_of(container))
    except (NoMachine, NotKnown) as error:
        why = "; ".join(filter(None, (why, str(error))))
    spec = {"workerPoolSpecs": [pool]}
    label = executor.label if executor is not None else ""
    image = (*spec_at(job), "deploymentSpec", "executors", label, "container", "image")
    return KnownJob({"displayName": title, "jobSpec": spec}, title, step.runs, why, image)


def _launched(step: _Step, title: str) -> KnownJob:
    """The job that a component of Google's creates, where the pools that it is given are known."""
    found = step.values.get(_POOLS)
    if isinstance(found, list) and found:
        pools = [pool for pool in (_camel(each) for each in found) if isinstance(pool, Mapping)]
        return KnownJob(
            {"displayName": title, "jobSpec": {"workerPoolSpecs": pools}}, title, step.runs, step.why
        )
    known = "what it creates is known when it runs"
    why = "; ".join(filter(None, (step.why, f"a component of Google's, and {known}")))
    return KnownJob({"displayName": title, "jobSpec": {"workerPoolSpecs": [{}]}}, title, step.runs, why)


def _camel(value: Any) -> Any:
    """Return the JSON with field names as in REST."""
    if isinstance(value, Mapping):
        return {camel(str(name)): _camel(inner) for name, inner in value.items()}
    return [_camel(inner) for inner in value] if isinstance(value, list) else value


def spec_at(job: Mapping[str, Any]) -> Path:
    """Where the compiled pipeline stands in the job of a launch; `job` is its body."""
    given = job.get("pipelineSpec") or {}
    return ("pipelineJob", "pipelineSpec", *(("pipelineSpec",) if bare(given) is not given else ()))


def launches(container: Mapping[str, Any]) -> bool:
    """Whether it is a component of Google's that creates a job of its own and waits for it."""
    command = container.get("command")
    return isinstance(command, Sequence) and any(str(word).startswith(LAUNCHER) for word in command)


def _steps(pipeline: Pipeline, around: _Step) -> Iterator[_Step]:
    """The leaves of a DAG."""
    values = around.values
    for task in around.component.dag.tasks if around.component.dag else ():
        runs, why = around.runs, around.why
        if task.iterator is not None:
            count = _iterations(task, values)
            runs = None if runs is None or count is None else runs * count
            why = why or ("" if count is not None else _LOOP)
        if task.condition:
            runs, why = None, why or _CONDITION
        inner = pipeline.components[task.component]
        defaults = {name: each.default for name, each in inner.parameters.items() if each.has_default}
        given, passed = task.inputs.get("parameters"), _passed(task, values)
        # What another task gives is known when that has run; a default is for what nobody gives.
        open_ended = set(given if isinstance(given, Mapping) else ()) - passed.keys()
        known = {name: value for name, value in (defaults | passed).items() if name not in open_ended}
        step = _Step((*around.titles, task.title), inner, runs, why, known)
        if step.component.dag is not None:
            yield from _steps(pipeline, step)
        else:
            yield step


def _passed(task: Task, values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a task whose values are known."""
    found = {}
    taken = task.inputs.get("parameters")
    for name, given in taken.items() if isinstance(taken, Mapping) else ():
        source = within(given, "componentInputParameter")
        if isinstance(source, str) and source in values and not within(given, "parameterExpressionSelector"):
            found[name] = values[source]
        constant = within(given, "runtimeValue", "constant")
        if constant is not None:
            found[name] = constant
    return found


def _iterations(task: Task, values: Mapping[str, Any]) -> int | None:
    """How often a loop runs; None where only the run knows."""
    items = within(task.iterator, "items")
    raw = within(items, "raw")
    if raw is None:
        raw = _passed(task, values).get(str(within(items, "inputParameter") or ""))
    try:
        found = json.loads(raw) if isinstance(raw, str) else raw
    except ValueError:
        return None
    return len(found) if isinstance(found, list) else None
