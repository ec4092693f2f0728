"""A compiled KFP pipeline (IR, schema 2.1.0) as typed parts, with every problem told at its place.

The IR is the JSON form of `ml_pipelines.PipelineSpec` (kfp-pipeline-spec); what the emulator does not run is
refused when the pipeline is created, not in its middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]
Problem = tuple[str, str]
"""A place in the spec and what is wrong there."""

SCHEMAS = ("2.0.0", "2.1.0")
ALL_COMPLETED = "ALL_UPSTREAM_TASKS_COMPLETED"


class BadPipeline(Exception):
    """A spec that can't be run, with every problem found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{where}: {what}" for where, what in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter of a component: its type's name, e.g. `NUMBER_INTEGER`, and its default."""

    type: str = ""
    default: Any = None
    has_default: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Executor:
    """What a leaf runs: a container, or an importer that makes an artifact of a URI."""

    label: str
    container: Json | None = None
    importer: Json | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a DAG. `depends_on` are the tasks of the same DAG that end before it starts."""

    name: str
    component: str
    depends_on: tuple[str, ...]
    inputs: Json
    condition: str = ""
    runs_after_failures: bool = False
    iterator: Json | None = None
    limit: int = 0
    """Iterations at once; 0 for all."""
    retries: int = 0
    cached: bool = False
    title: str = ""


@dataclass(frozen=True, slots=True)
class Dag:
    """Tasks in an order in which each comes after those it depends on."""

    tasks: tuple[Task, ...]
    outputs: Json


@dataclass(frozen=True, slots=True)
class Component:
    """A component: a DAG, or an executor."""

    name: str
    parameters: Mapping[str, Input] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Type of each output parameter."""
    artifacts: Mapping[str, Json] = field(default_factory=dict)
    """Type of each output artifact."""
    dag: Dag | None = None
    executor: Executor | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole pipeline: its name, its root and its components by name."""

    name: str
    root: Component
    components: Mapping[str, Component]


def read_pipeline(spec: Json) -> Pipeline:
    """The pipeline of a spec.

    Raises:
        BadPipeline: with every problem.
    """
    reader = _Reader(spec)
    pipeline = reader.pipeline()
    if reader.problems:
        raise BadPipeline(reader.problems)
    return pipeline


class _Reader:
    def __init__(self, spec: Json) -> None:
        self.spec = spec
        self.problems: list[Problem] = []

    def pipeline(self) -> Pipeline:
        schema = str(self.spec.get("schemaVersion", ""))
        if schema not in SCHEMAS:
            self._wrong("schemaVersion", f"is {schema!r}; the emulator runs {' and '.join(SCHEMAS)}")
        name = str(_at(self.spec, "pipelineInfo", "name") or "")
        if not name:
            self._wrong("pipelineInfo.name", "is required")
        found = {
            key: self._component(key, value, f"components.{key}")
            for key, value in (self.spec.get("components") or {}).items()
            if isinstance(value, Mapping)
        }
        root = self._component("root", self.spec.get("root") or {}, "root")
        if root.dag is None:
            self._wrong("root.dag", "is required")
        for component in (root, *found.values()):
            for task in component.dag.tasks if component.dag else ():
                if task.component not in found:
                    self._wrong(f"tasks.{task.name}.componentRef", f"names {task.component!r}, which is none")
        if not self.problems:
            self._no_recursion(root, found)
        return Pipeline(name, root, found)

    def _no_recursion(self, root: Component, found: Mapping[str, Component]) -> None:
        above: set[str] = set()

        def visit(component: Component) -> None:
            for task in component.dag.tasks if component.dag else ():
                if task.component in above:
                    self._wrong(f"components.{task.component}", "contains itself")
                    continue
                above.add(task.component)
                visit(found[task.component])
                above.discard(task.component)

        visit(root)

    def _wrong(self, where: str, what: str) -> None:
        self.problems.append((where, what))

    def _component(self, name: str, value: Json, where: str) -> Component:
        parameters = {
            key: _input(given or {})
            for key, given in (_at(value, "inputDefinitions", "parameters") or {}).items()
        }
        outputs = {
            key: _type(given or {})
            for key, given in (_at(value, "outputDefinitions", "parameters") or {}).items()
        }
        artifacts = {
            key: dict(_at(given, "artifactType") or {})
            for key, given in (_at(value, "outputDefinitions", "artifacts") or {}).items()
        }
        dag = executor = None
        if value.get("dag") is not None:
            dag = self._dag(value["dag"], f"{where}.dag")
        elif value.get("executorLabel"):
            executor = self._executor(str(value["executorLabel"]), where)
        else:
            self._wrong(where, "has neither a dag nor an executorLabel")
        return Component(name, parameters, outputs, artifacts, dag, executor)

    def _executor(self, label: str, where: str) -> Executor:
        given = _at(self.spec, "deploymentSpec", "executors", label)
        if not isinstance(given, Mapping):
            self._wrong(f"{where}.executorLabel", f"names {label!r}, which deploymentSpec.executors has not")
            return Executor(label)
        place = f"deploymentSpec.executors.{label}"
        container, importer = given.get("container"), given.get("importer")
        if container is None and importer is None:
            kind = next(iter(given), "nothing")
            self._wrong(place, f"is a {kind}; the emulator runs containers and importers")
        if container is not None and not container.get("image"):
            self._wrong(f"{place}.container.image", "is required")
        return Executor(label, container, importer)

    def _dag(self, value: Json, where: str) -> Dag:
        tasks = {
            name: self._task(name, given, f"{where}.tasks.{name}")
            for name, given in (value.get("tasks") or {}).items()
        }
        if not tasks:
            self._wrong(f"{where}.tasks", "is required")
        for task in tasks.values():
            for needed in task.depends_on:
                if needed not in tasks:
                    self._wrong(f"{where}.tasks.{task.name}", f"depends on {needed!r}, which is no task here")
        ordered, left = [], dict(tasks)
        while left:
            ready = [task for task in left.values() if not any(name in left for name in task.depends_on)]
            if not ready:
                self._wrong(where, f"{', '.join(left)} depend on each other")
                break
            # A Struct has no order of its own: a plan must not change from one reading to the next.
            ordered += sorted(ready, key=lambda task: task.name)
            for task in ready:
                del left[task.name]
        return Dag(tuple(ordered), value.get("outputs") or {})

    def _task(self, name: str, value: Json, where: str) -> Task:
        trigger = value.get("triggerPolicy") or {}
        iterator = value.get("parameterIterator")
        if value.get("artifactIterator") is not None:
            iterator = {"artifacts": True, **value["artifactIterator"]}
        inputs = value.get("inputs") or {}
        needed = [*(value.get("dependentTasks") or ()), *_producers(inputs)]
        retries = _at(value, "retryPolicy", "maxRetryCount")
        return Task(
            name,
            str(_at(value, "componentRef", "name") or ""),
            tuple(dict.fromkeys(map(str, needed))),
            inputs,
            str(trigger.get("condition") or ""),
            trigger.get("strategy") == ALL_COMPLETED,
            iterator,
            int(_at(value, "iteratorPolicy", "parallelismLimit") or 0),
            int(retries or 0),
            bool(_at(value, "cachingOptions", "enableCache")),
            str(_at(value, "taskInfo", "name") or name),
        )


def _producers(inputs: Json) -> Iterator[str]:
    for kind in ("parameters", "artifacts"):
        for given in (inputs.get(kind) or {}).values():
            for key in ("taskOutputParameter", "taskOutputArtifact", "taskFinalStatus"):
                if isinstance(given.get(key), Mapping):
                    yield str(given[key].get("producerTask", ""))


def _input(given: Json) -> Input:
    return Input(
        _type(given), given.get("defaultValue"), "defaultValue" in given, bool(given.get("isOptional"))
    )


def _type(given: Json) -> str:
    return str(given.get("parameterType") or given.get("type") or "")


def _at(value: Any, *path: str) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
