"""Dependencies between the tasks of a pipeline, from its compiled specification (KFP IR)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tui.domain.kubernetes.workloads import at, elements, fields

_ITERATION = re.compile(r"(?P<name>.+)-\d+")


def dependencies(tasks: Mapping[str, tuple[str, str]], spec: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the ids of each task's dependencies. `tasks` maps an id to the name and the parent task's id. An
    iteration of a loop has the loop's name with a number appended, and no dependencies."""
    spec = spec.get("pipelineSpec") or spec
    siblings: dict[str, dict[str, str]] = {}
    for id, (name, parent) in tasks.items():
        siblings.setdefault(parent, {})[name] = id
    dags = {"": fields(spec, "root", "dag", "tasks")}

    def dag_of(id: str) -> Mapping[str, Any]:
        """Return the tasks of the DAG of this task."""
        parents = []
        while id not in dags:
            parents.append(id)
            # This also ends a cycle of parents.
            dags[id] = {}
            id = tasks[id][1] if id in tasks else ""
        for child in reversed(parents):
            name, parent = tasks.get(child, ("", child))
            if name in dags[parent]:
                component = str(at(dags[parent], name, "componentRef", "name"))
                dags[child] = fields(spec, "components", component, "dag", "tasks")
            else:
                # An iteration runs the component of its loop.
                loop = _ITERATION.fullmatch(name)
                if loop and parent in tasks and tasks[parent][0] == loop["name"]:
                    dags[child] = dags[parent]
        return dags[parents[0]] if parents else dags[id]

    result = {}
    for id, (name, parent) in tasks.items():
        needs = dict.fromkeys(_needs(fields(dag_of(parent), name)))
        result[id] = tuple(siblings[parent][other] for other in needs if other in siblings[parent])
    return result


def _needs(task: Mapping[str, Any]) -> Iterator[str]:
    yield from map(str, elements(task, "dependentTasks"))
    for kind in ("parameters", "artifacts"):
        for source in fields(task, "inputs", kind).values():
            for key in ("taskOutputParameter", "taskOutputArtifact", "taskFinalStatus"):
                yield str(at(source, key, "producerTask") or "")
