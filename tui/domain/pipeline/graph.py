"""Which tasks of a pipeline wait for which others, by its compiled specification (KFP IR)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_ITERATION = re.compile(r"(?P<name>.+)-\d+")


def dependencies(tasks: Mapping[str, tuple[str, str]], spec: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The ids that each task waits for. `tasks` have by id their name and the id of the task around them.

    An iteration of a loop has the loop's name with a number behind it, and no dependencies of its own.
    """
    spec = spec.get("pipelineSpec") or spec
    components = spec.get("components") or {}
    siblings: dict[str, dict[str, str]] = {}
    for id, (name, parent) in tasks.items():
        siblings.setdefault(parent, {})[name] = id
    dags: dict[str, Mapping[str, Any]] = {}

    def dag_of(id: str) -> Mapping[str, Any]:
        """The tasks of the DAG that this task is."""
        if id not in dags:
            dags[id] = _dag(id)
        return dags[id]

    def _dag(id: str) -> Mapping[str, Any]:
        if not id:
            return _tasks_of(spec.get("root") or {})
        if id not in tasks:
            return {}
        name, parent = tasks[id]
        found = dag_of(parent).get(name)
        if found is None:
            # An iteration is the component of its loop once more.
            loop = _ITERATION.fullmatch(name)
            return dag_of(parent) if loop and parent in tasks and tasks[parent][0] == loop["name"] else {}
        component = (found.get("componentRef") or {}).get("name")
        return _tasks_of(components.get(component) or {})

    result = {}
    for id, (name, parent) in tasks.items():
        given = dag_of(parent).get(name) or {}
        around = siblings[parent]
        result[id] = tuple(around[other] for other in dict.fromkeys(_needs(given)) if other in around)
    return result


def _tasks_of(component: Mapping[str, Any]) -> Mapping[str, Any]:
    found = (component.get("dag") or {}).get("tasks")
    return found if isinstance(found, Mapping) else {}


def _needs(task: Mapping[str, Any]) -> Iterator[str]:
    yield from map(str, task.get("dependentTasks") or ())
    inputs = task.get("inputs") or {}
    for kind in ("parameters", "artifacts"):
        for given in (inputs.get(kind) or {}).values():
            for key in ("taskOutputParameter", "taskOutputArtifact", "taskFinalStatus"):
                if isinstance(given.get(key), Mapping):
                    yield str(given[key].get("producerTask", ""))
