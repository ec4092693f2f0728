"""The custom jobs that a pipeline will create, as far as its specification determines them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tui.domain.document.decoding import decode_json
from tui.domain.document.source import Path, camel
from tui.domain.pipeline.ir import Component, Pipeline, PipelineTask, bare, reading_of
from tui.domain.pipeline.machines import NoMachine, NotKnown, machine_spec, resources_of
from tui.domain.spec.custom_job_spec import within
from tui.domain.spec.spec_format import KnownJob

MOST_TASKS = 10_000
"""Maximum number of tasks in a run (docs/facts/vertex.md 2.4)."""
LAUNCHER = "google_cloud_pipeline_components.container."
"""Prefix of the module in a Google component that creates a separate job and waits for it."""
_POOLS = "worker_pool_specs"
_LOOP, _CONDITION = "in a loop whose items are known only at run time", "depends on its condition"


@dataclass(frozen=True, slots=True)
class _Step:
    """A component in the graph, and its number of runs (`None` if unknown, with the reason)."""

    titles: tuple[str, ...]
    component: Component
    runs: int | None
    why: str
    values: Mapping[str, Any]
    """The component's parameters, without those whose values are unknown."""


def known_jobs(job: Mapping[str, Any]) -> tuple[KnownJob, ...]:
    """Return one job per container task of a PipelineJob (REST format); none for a spec with errors."""
    spec = bare(job.get("pipelineSpec") or {})
    reading = reading_of(spec)
    pipeline = reading.pipeline
    if reading.problems:
        return ()
    values = within(job, "runtimeConfig", "parameterValues")
    parameters = dict(values) if isinstance(values, Mapping) else {}
    defaults = {
        name: declared.default for name, declared in pipeline.root.parameters.items() if declared.has_default
    }
    whole = _Step((), pipeline.root, 1, "", {**defaults, **parameters})
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
    """Return the job that a Google component creates, if its worker pools are known."""
    pools_set = step.values.get(_POOLS)
    if isinstance(pools_set, list) and pools_set:
        pools = [pool for pool in (_camel(raw) for raw in pools_set) if isinstance(pool, Mapping)]
        return KnownJob(
            {"displayName": title, "jobSpec": {"workerPoolSpecs": pools}}, title, step.runs, step.why
        )
    known = "the job that it creates is known only at run time"
    why = "; ".join(filter(None, (step.why, f"a Google component, and {known}")))
    return KnownJob({"displayName": title, "jobSpec": {"workerPoolSpecs": [{}]}}, title, step.runs, why)


def _camel(value: Any) -> Any:
    """Return the JSON with field names in REST format."""
    if isinstance(value, Mapping):
        return {camel(str(name)): _camel(inner) for name, inner in value.items()}
    return [_camel(inner) for inner in value] if isinstance(value, list) else value


def spec_at(job: Mapping[str, Any]) -> Path:
    """Return the path of the compiled pipeline in a launch's job; `job` is its body."""
    spec = job.get("pipelineSpec") or {}
    return ("pipelineJob", "pipelineSpec", *(("pipelineSpec",) if bare(spec) is not spec else ()))


def launches(container: Mapping[str, Any]) -> bool:
    """Return whether a container is a Google component that creates a separate job and waits for it."""
    command = container.get("command")
    return isinstance(command, Sequence) and any(str(word).startswith(LAUNCHER) for word in command)


def _steps(pipeline: Pipeline, around: _Step) -> Iterator[_Step]:
    """Yield the leaves of a DAG."""
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
        defaults = {
            name: declared.default for name, declared in inner.parameters.items() if declared.has_default
        }
        inputs, passed = task.inputs.get("parameters"), _passed(task, values)
        # Values from other tasks are known only at run time; a default applies only if no value is passed.
        open_ended = set(inputs if isinstance(inputs, Mapping) else ()) - passed.keys()
        known = {name: value for name, value in (defaults | passed).items() if name not in open_ended}
        step = _Step((*around.titles, task.title), inner, runs, why, known)
        if step.component.dag is not None:
            yield from _steps(pipeline, step)
        else:
            yield step


def _passed(task: PipelineTask, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a task whose values are known."""
    values_known = {}
    inputs = task.inputs.get("parameters")
    for name, source_spec in inputs.items() if isinstance(inputs, Mapping) else ():
        source = within(source_spec, "componentInputParameter")
        if (
            isinstance(source, str)
            and source in values
            and not within(source_spec, "parameterExpressionSelector")
        ):
            values_known[name] = values[source]
        constant = within(source_spec, "runtimeValue", "constant")
        if constant is not None:
            values_known[name] = constant
    return values_known


def _iterations(task: PipelineTask, values: Mapping[str, Any]) -> int | None:
    """Return the number of a loop's iterations; `None` if known only at run time."""
    items = within(task.iterator, "items")
    raw = within(items, "raw")
    if raw is None:
        raw = _passed(task, values).get(str(within(items, "inputParameter") or ""))
    try:
        loop_items = decode_json(raw) if isinstance(raw, str) else raw
    except ValueError:
        return None
    return len(loop_items) if isinstance(loop_items, list) else None
