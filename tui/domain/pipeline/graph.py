"""Dependencies between the tasks of a pipeline, from its compiled specification (KFP IR)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_ITERATION = re.compile(r"(?P<name>.+)-\d+")


def dependencies(tasks: Mapping[str, tuple[str, str]], spec: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the ids of each task's dependencies. `tasks` maps an id to the name and the parent task's id. An
    iteration of a loop has the loop's name with a number appended, and no dependencies."""
    spec = spec.get("pipelineSpec") or spec
    components = spec.get("components") or {}
    siblings: dict[str, dict[str, str]] = {}
    for id, (name, parent) in tasks.items():
        siblings.setdefault(parent, {})[name] = id
    dags: dict[str, Mapping[str, Any]] = {}

    def dag_of(id: str) -> Mapping[str, Any]:
        """Return the tasks of the DAG of this task."""
        if id not in dags:
            dags[id] = _dag(id)
        return dags[id]

    def _dag(id: str) -> Mapping[str, Any]:
        if not id:
            return _tasks_of(spec.get("root") or {})
        if id not in tasks:
            return {}
        name, parent = tasks[id]
        definition = dag_of(parent).get(name)
        if definition is None:
            # An iteration runs the component of its loop.
            loop = _ITERATION.fullmatch(name)
            return dag_of(parent) if loop and parent in tasks and tasks[parent][0] == loop["name"] else {}
        component = (definition.get("componentRef") or {}).get("name")
        return _tasks_of(components.get(component) or {})

    result = {}
    for id, (name, parent) in tasks.items():
        definition = dag_of(parent).get(name) or {}
        around = siblings[parent]
        result[id] = tuple(around[other] for other in dict.fromkeys(_needs(definition)) if other in around)
    return result


def _tasks_of(component: Mapping[str, Any]) -> Mapping[str, Any]:
    tasks = (component.get("dag") or {}).get("tasks")
    return tasks if isinstance(tasks, Mapping) else {}


def _needs(task: Mapping[str, Any]) -> Iterator[str]:
    yield from map(str, task.get("dependentTasks") or ())
    inputs = task.get("inputs") or {}
    for kind in ("parameters", "artifacts"):
        for source in (inputs.get(kind) or {}).values():
            for key in ("taskOutputParameter", "taskOutputArtifact", "taskFinalStatus"):
                if isinstance(source.get(key), Mapping):
                    yield str(source[key].get("producerTask", ""))
