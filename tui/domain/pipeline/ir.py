"""A compiled KFP pipeline (IR, schema 2.1.0) as typed parts, with every problem at its location.

The IR is the JSON format of `ml_pipelines.PipelineSpec` (kfp-pipeline-spec). The emulator refuses unsupported
parts when a pipeline is created, not while it runs; a profile's rules report them earlier.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from tui.domain.document.source import Path, dotted
from tui.domain.spec.custom_job_spec import whole, within

Json = Mapping[str, Any]
Problem = tuple[Path, str]
"""A path in the spec and a problem at that path."""

AGAIN = "Compile the pipeline again: the compiler never writes this part."
"""The fix for a broken spec."""
SCHEMAS = ("2.0.0", "2.1.0")
DEEPEST = 100
"""Maximum depth of nested components that the emulator runs. The service documents no limit."""
_NAME = re.compile(r"[^/\x00-\x1f\x7f]+")
"""Name of a task, which the service uses as the name of a folder."""
ALL_COMPLETED = "ALL_UPSTREAM_TASKS_COMPLETED"


class BadPipeline(Exception):
    """The spec can't be run; the exception has every problem."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{dotted(where)}: {problem}" for where, problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter of a component: the name of its type, e.g. `NUMBER_INTEGER`, and its default."""

    type: str = ""
    default: Any = None
    has_default: bool = False
    optional: bool = False
    description: str = ""

    @property
    def required(self) -> bool:
        """Whether a run must set a value."""
        return not self.has_default and not self.optional


@dataclass(frozen=True, slots=True)
class Executor:
    """The program of a leaf task: a container, or an importer that creates an artifact from a URI. `other`
    names any other kind of executor."""

    label: str
    container: Json | None = None
    importer: Json | None = None
    other: str = ""


@dataclass(frozen=True, slots=True)
class PipelineTask:
    """One task of a DAG. `depends_on` are the tasks of the same DAG that must end before its start."""

    name: str
    component: str
    depends_on: tuple[str, ...]
    inputs: Json
    condition: str = ""
    runs_after_failures: bool = False
    iterator: Json | None = None
    limit: int = 0
    """Maximum number of concurrent iterations; 0 for all."""
    retries: int = 0
    cached: bool = False
    title: str = ""


@dataclass(frozen=True, slots=True)
class Dag:
    """Tasks of a DAG, sorted so that each follows its dependencies."""

    tasks: tuple[PipelineTask, ...]
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
    """A complete pipeline: its name, its root and its components by name."""

    name: str
    root: Component
    components: Mapping[str, Component]


def bare(spec: Json) -> Json:
    """Return the spec without the job in which older compilers wrapped it."""
    inner = spec.get("pipelineSpec")
    return inner if isinstance(inner, Mapping) else spec


def inputs_of(spec: Json) -> dict[str, Input]:
    """Return the parameters of a pipeline that can be read from its spec."""
    parameters = within(bare(spec), "root", "inputDefinitions", "parameters")
    items = parameters.items() if isinstance(parameters, Mapping) else ()
    return {str(name): _input(declared) for name, declared in items if isinstance(declared, Mapping)}


def read_pipeline(spec: Json) -> Pipeline:
    """Read the pipeline of a spec that the emulator can run. Raises BadPipeline with every problem."""
    reader = PipelineReader(spec)
    pipeline = reader.pipeline()
    if reader.problems or reader.not_emulated:
        raise BadPipeline([*reader.problems, *reader.not_emulated])
    return pipeline


@dataclass(frozen=True, slots=True)
class Reading:
    """The parsed content of a spec: see `PipelineReader`."""

    spec: Json
    pipeline: Pipeline
    problems: tuple[Problem, ...]
    not_emulated: tuple[Problem, ...]


_KEPT = 8
_readings: dict[int, Reading] = {}


def reading_of(spec: Json) -> Reading:
    """Return the parsed content of an unchanging spec, cached by identity. A launch needs it after each key
    press, for the price, the quota and the checks."""
    reading = _readings.get(id(spec))
    if reading is None or reading.spec is not spec:
        reader = PipelineReader(spec)
        pipeline = reader.pipeline()
        reading = Reading(spec, pipeline, tuple(reader.problems), tuple(reader.not_emulated))
        while len(_readings) >= _KEPT:
            _readings.pop(next(iter(_readings)))
        _readings[id(spec)] = reading
    return reading


class PipelineReader:
    """Reads a spec as far as possible. `problems` are errors in the spec; `not_emulated` are parts that only
    the service runs."""

    def __init__(self, spec: Json) -> None:
        self.spec = spec
        self.problems: list[Problem] = []
        self.not_emulated: list[Problem] = []

    def pipeline(self) -> Pipeline:
        """Return the pipeline without the parts that have problems."""
        schema = str(self.spec.get("schemaVersion", ""))
        if schema not in SCHEMAS:
            self._wrong(("schemaVersion",), f"is {schema!r}; supported are {' and '.join(SCHEMAS)}")
        name = str(within(self.spec, "pipelineInfo", "name") or "")
        if not name:
            self._wrong(("pipelineInfo", "name"), "is required")
        components = {
            key: self._component(key, value, ("components", key))
            for key, value in self._fields(self.spec, "components").items()
        }
        root = self._component("root", self._fields(self.spec, "root"), ("root",))
        if root.dag is None:
            self._wrong(("root", "dag"), "is required")
        for component in (root, *components.values()):
            for task in component.dag.tasks if component.dag else ():
                if task.component not in components:
                    here = ("root",) if component is root else ("components", component.name)
                    where = (*here, "dag", "tasks", task.name, "componentRef")
                    self._wrong(where, f"names {task.component!r}, which is not a component")
        if not self.problems:
            self._check_nesting(components)
        return Pipeline(name, root, components)

    def _check_nesting(self, components: Mapping[str, Component]) -> None:
        """Report a component that contains itself, and nesting that is too deep."""
        inside = {
            name: {task.component for task in component.dag.tasks} if component.dag else set()
            for name, component in components.items()
        }
        levels: dict[str, int] = {}
        try:
            for name in TopologicalSorter(inside).static_order():
                levels[name] = 1 + max((levels[inner] for inner in inside[name]), default=0)
        except CycleError as error:
            self._wrong(("components", error.args[1][0]), "contains itself")
        too_deep = next((name for name, level in levels.items() if level > DEEPEST), None)
        if too_deep is not None:
            message = f"nests more than {DEEPEST} components; the emulator runs no deeper pipeline"
            self.not_emulated.append((("components", too_deep), message))

    def _wrong(self, where: Path, message: str) -> None:
        self.problems.append((where, message))

    def _fields(self, value: Any, *path: str, where: Path = ()) -> Json:
        """Return the mapping at `path` below `where`, whose value is `value`, or an empty mapping."""
        for part in path:
            value, where = (value.get(part) if isinstance(value, Mapping) else None), (*where, part)
        if value is not None and not isinstance(value, Mapping):
            self._wrong(where, "must have fields")
        return value if isinstance(value, Mapping) else {}

    def _each(self, value: Any, *path: str, where: Path) -> Iterator[tuple[str, Json]]:
        """Yield the entries of the mapping at `path`, each of which must itself be a mapping."""
        for name, entry in self._fields(value, *path, where=where).items():
            yield str(name), self._fields(entry, where=(*where, *path, str(name)))

    def _component(self, name: str, value: Any, where: Path) -> Component:
        value = self._fields(value, where=where)
        parameters = self._each(value, "inputDefinitions", "parameters", where=where)
        outputs = self._each(value, "outputDefinitions", "parameters", where=where)
        artifacts = self._each(value, "outputDefinitions", "artifacts", where=where)
        # Only validate the artifacts, because the tasks name the artifacts that they use.
        self._fields(value, "inputDefinitions", "artifacts", where=where)
        dag = executor = None
        if value.get("dag") is not None:
            dag = self._dag(self._fields(value, "dag", where=where), (*where, "dag"))
        elif value.get("executorLabel"):
            executor = self._executor(str(value["executorLabel"]), where)
        else:
            self._wrong(where, "must have a dag or an executorLabel")
        return Component(
            name,
            {key: _input(declared) for key, declared in parameters},
            {key: _type(declared) for key, declared in outputs},
            {key: dict(within(declared, "artifactType") or {}) for key, declared in artifacts},
            dag,
            executor,
        )

    def _executor(self, label: str, where: Path) -> Executor:
        executor = within(self.spec, "deploymentSpec", "executors", label)
        if not isinstance(executor, Mapping):
            message = f"names {label!r}, which is not in deploymentSpec.executors"
            self._wrong((*where, "executorLabel"), message)
            return Executor(label)
        place: Path = ("deploymentSpec", "executors", label)
        container, importer = executor.get("container"), executor.get("importer")
        other = ""
        if container is None and importer is None:
            other = str(next(iter(executor), "nothing"))
            self.not_emulated.append(
                (place, f"is a {other}, but the emulator runs only containers and importers")
            )
        if container is not None and not self._fields(container, where=(*place, "container")).get("image"):
            self._wrong((*place, "container", "image"), "is required")
        return Executor(label, container, importer, other)

    def _dag(self, value: Json, where: Path) -> Dag:
        tasks = {
            name: self._task(name, task, (*where, "tasks", name))
            for name, task in self._each(value, "tasks", where=where)
        }
        if not tasks:
            self._wrong((*where, "tasks"), "is required")
        for name in tasks:
            if not _NAME.fullmatch(name) or name in {".", ".."}:
                self._wrong(
                    (*where, "tasks", name), "must have a name without slashes and control characters"
                )
        for task in tasks.values():
            for needed in task.depends_on:
                if needed not in tasks:
                    message = f"depends on {needed!r}, which is not a task here"
                    self._wrong((*where, "tasks", task.name), message)
        ordered: list[PipelineTask] = []
        needs = {task.name: [name for name in task.depends_on if name in tasks] for task in tasks.values()}
        sorter = TopologicalSorter(needs)
        try:
            sorter.prepare()
        except CycleError as error:
            self._wrong(where, f"{', '.join(sorted(set(error.args[1])))} depend on each other")
        while sorter.is_active():
            # Sort the entries, because a Struct is unordered and the plan must not change between reads.
            ready = sorted(sorter.get_ready())
            ordered += (tasks[name] for name in ready)
            sorter.done(*ready)
        return Dag(tuple(ordered), self._fields(value, "outputs", where=where))

    def _task(self, name: str, value: Json, where: Path) -> PipelineTask:
        trigger = self._fields(value, "triggerPolicy", where=where)
        iterator = self._fields(value, "parameterIterator", where=where) or None
        if value.get("artifactIterator") is not None:
            iterator = {"artifacts": True, **self._fields(value, "artifactIterator", where=where)}
        inputs = self._fields(value, "inputs", where=where)
        needed = [*(value.get("dependentTasks") or ()), *_producers(inputs)]
        return PipelineTask(
            name,
            str(within(value, "componentRef", "name") or ""),
            tuple(dict.fromkeys(map(str, needed))),
            inputs,
            str(trigger.get("condition") or ""),
            trigger.get("strategy") == ALL_COMPLETED,
            iterator,
            whole(within(value, "iteratorPolicy", "parallelismLimit")),
            whole(within(value, "retryPolicy", "maxRetryCount")),
            bool(within(value, "cachingOptions", "enableCache")),
            str(within(value, "taskInfo", "name") or name),
        )


def _producers(inputs: Json) -> Iterator[str]:
    for kind in ("parameters", "artifacts"):
        named = inputs.get(kind)
        for source in named.values() if isinstance(named, Mapping) else ():
            for key in ("taskOutputParameter", "taskOutputArtifact", "taskFinalStatus"):
                producer = within(source, key, "producerTask")
                if producer is not None:
                    yield str(producer)


def _input(declared: Json) -> Input:
    return Input(
        _type(declared),
        declared.get("defaultValue"),
        "defaultValue" in declared,
        bool(declared.get("isOptional")),
        str(declared.get("description") or ""),
    )


def _type(declared: Json) -> str:
    return str(declared.get("parameterType") or declared.get("type") or "")
