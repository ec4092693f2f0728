"""A compiled KFP pipeline (IR, schema 2.1.0) as typed parts, with every problem told at its place.

The IR is the JSON form of `ml_pipelines.PipelineSpec` (kfp-pipeline-spec). The emulator refuses what it does
not run when the pipeline is created, not in its middle; a profile's rules say the same before that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tui.domain.document.source import Path, dotted
from tui.domain.spec.custom_job_spec import whole, within

Json = Mapping[str, Any]
Problem = tuple[Path, str]
"""A place in the spec and what is wrong there."""

AGAIN = "Compile the pipeline again: what the compiler writes has no such part."
"""How to mend a broken spec."""
SCHEMAS = ("2.0.0", "2.1.0")
ALL_COMPLETED = "ALL_UPSTREAM_TASKS_COMPLETED"


class BadPipeline(Exception):
    """A spec that can't be run, with every problem found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{dotted(where)}: {what}" for where, what in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter of a component: its type's name, e.g. `NUMBER_INTEGER`, and its default."""

    type: str = ""
    default: Any = None
    has_default: bool = False
    optional: bool = False
    description: str = ""

    @property
    def required(self) -> bool:
        """A run must be given a value."""
        return not self.has_default and not self.optional


@dataclass(frozen=True, slots=True)
class Executor:
    """What a leaf runs: a container, or an importer that makes an artifact of a URI.

    `other` names what it is instead of these.
    """

    label: str
    container: Json | None = None
    importer: Json | None = None
    other: str = ""


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


def bare(spec: Json) -> Json:
    """The spec itself: a file may wrap it in a job, as older compilers wrote it."""
    inner = spec.get("pipelineSpec")
    return inner if isinstance(inner, Mapping) else spec


def inputs_of(spec: Json) -> dict[str, Input]:
    """The parameters of a pipeline, as far as its spec can be read."""
    found = within(bare(spec), "root", "inputDefinitions", "parameters")
    items = found.items() if isinstance(found, Mapping) else ()
    return {str(name): _input(given) for name, given in items if isinstance(given, Mapping)}


def read_pipeline(spec: Json) -> Pipeline:
    """The pipeline of a spec, all of which the emulator runs.

    Raises:
        BadPipeline: with every problem.
    """
    reader = Reader(spec)
    pipeline = reader.pipeline()
    if reader.problems or reader.not_emulated:
        raise BadPipeline([*reader.problems, *reader.not_emulated])
    return pipeline


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of a spec: see `Reader`."""

    spec: Json
    pipeline: Pipeline
    problems: tuple[Problem, ...]
    not_emulated: tuple[Problem, ...]


_KEPT = 8
_readings: dict[int, Reading] = {}


def reading_of(spec: Json) -> Reading:
    """What is known of a spec that nobody changes any more: it is read once, by its identity.

    A launch asks again at each key that is typed, and for price, quota and shape each.
    """
    found = _readings.get(id(spec))
    if found is None or found.spec is not spec:
        reader = Reader(spec)
        pipeline = reader.pipeline()
        found = Reading(spec, pipeline, tuple(reader.problems), tuple(reader.not_emulated))
        while len(_readings) >= _KEPT:
            _readings.pop(next(iter(_readings)))
        _readings[id(spec)] = found
    return found


class Reader:
    """Reads a spec as far as it can be read.

    `problems` are what is broken in it, `not_emulated` what the service runs and the emulator does not.
    """

    def __init__(self, spec: Json) -> None:
        self.spec = spec
        self.problems: list[Problem] = []
        self.not_emulated: list[Problem] = []

    def pipeline(self) -> Pipeline:
        """The pipeline, without the parts that have problems."""
        schema = str(self.spec.get("schemaVersion", ""))
        if schema not in SCHEMAS:
            self._wrong(("schemaVersion",), f"is {schema!r}; supported are {' and '.join(SCHEMAS)}")
        name = str(within(self.spec, "pipelineInfo", "name") or "")
        if not name:
            self._wrong(("pipelineInfo", "name"), "is required")
        found = {
            key: self._component(key, value, ("components", key))
            for key, value in self._fields(self.spec, "components").items()
        }
        root = self._component("root", self._fields(self.spec, "root"), ("root",))
        if root.dag is None:
            self._wrong(("root", "dag"), "is required")
        for component in (root, *found.values()):
            for task in component.dag.tasks if component.dag else ():
                if task.component not in found:
                    here = ("root",) if component is root else ("components", component.name)
                    where = (*here, "dag", "tasks", task.name, "componentRef")
                    self._wrong(where, f"names {task.component!r}, which is no component")
        if not self.problems:
            self._no_recursion(root, found)
        return Pipeline(name, root, found)

    def _no_recursion(self, root: Component, found: Mapping[str, Component]) -> None:
        above: set[str] = set()

        def visit(component: Component) -> None:
            for task in component.dag.tasks if component.dag else ():
                if task.component in above:
                    self._wrong(("components", task.component), "contains itself")
                    continue
                above.add(task.component)
                visit(found[task.component])
                above.discard(task.component)

        visit(root)

    def _wrong(self, where: Path, what: str) -> None:
        self.problems.append((where, what))

    def _fields(self, value: Any, *path: str, where: Path = ()) -> Json:
        """The mapping at `path` below `where`, whose value is `value`; empty where there is none."""
        for part in path:
            value, where = (value.get(part) if isinstance(value, Mapping) else None), (*where, part)
        if value is not None and not isinstance(value, Mapping):
            self._wrong(where, "must have fields")
        return value if isinstance(value, Mapping) else {}

    def _each(self, value: Any, *path: str, where: Path) -> Iterator[tuple[str, Json]]:
        """The entries of the mapping at `path`, each of which must have fields itself."""
        for name, given in self._fields(value, *path, where=where).items():
            yield str(name), self._fields(given, where=(*where, *path, str(name)))

    def _component(self, name: str, value: Any, where: Path) -> Component:
        value = self._fields(value, where=where)
        given = self._each(value, "inputDefinitions", "parameters", where=where)
        outputs = self._each(value, "outputDefinitions", "parameters", where=where)
        artifacts = self._each(value, "outputDefinitions", "artifacts", where=where)
        # Only checked: which artifacts it takes, its tasks say.
        self._fields(value, "inputDefinitions", "artifacts", where=where)
        dag = executor = None
        if value.get("dag") is not None:
            dag = self._dag(self._fields(value, "dag", where=where), (*where, "dag"))
        elif value.get("executorLabel"):
            executor = self._executor(str(value["executorLabel"]), where)
        else:
            self._wrong(where, "has neither a dag nor an executorLabel")
        return Component(
            name,
            {key: _input(each) for key, each in given},
            {key: _type(each) for key, each in outputs},
            {key: dict(within(each, "artifactType") or {}) for key, each in artifacts},
            dag,
            executor,
        )

    def _executor(self, label: str, where: Path) -> Executor:
        given = within(self.spec, "deploymentSpec", "executors", label)
        if not isinstance(given, Mapping):
            message = f"names {label!r}, which deploymentSpec.executors has not"
            self._wrong((*where, "executorLabel"), message)
            return Executor(label)
        place: Path = ("deploymentSpec", "executors", label)
        container, importer = given.get("container"), given.get("importer")
        other = ""
        if container is None and importer is None:
            other = str(next(iter(given), "nothing"))
            self.not_emulated.append((place, f"is a {other}; the emulator runs containers and importers"))
        if container is not None and not self._fields(container, where=(*place, "container")).get("image"):
            self._wrong((*place, "container", "image"), "is required")
        return Executor(label, container, importer, other)

    def _dag(self, value: Json, where: Path) -> Dag:
        tasks = {
            name: self._task(name, given, (*where, "tasks", name))
            for name, given in self._each(value, "tasks", where=where)
        }
        if not tasks:
            self._wrong((*where, "tasks"), "is required")
        for task in tasks.values():
            for needed in task.depends_on:
                if needed not in tasks:
                    message = f"depends on {needed!r}, which is no task here"
                    self._wrong((*where, "tasks", task.name), message)
        ordered, left = [], dict(tasks)
        while left:
            ready = [task for task in left.values() if not any(name in left for name in task.depends_on)]
            if not ready:
                self._wrong(where, f"{', '.join(left)} depend on each other")
                break
            # A Struct has no order: a plan must not change from one reading to the next.
            ordered += sorted(ready, key=lambda task: task.name)
            for task in ready:
                del left[task.name]
        return Dag(tuple(ordered), self._fields(value, "outputs", where=where))

    def _task(self, name: str, value: Json, where: Path) -> Task:
        trigger = self._fields(value, "triggerPolicy", where=where)
        iterator = self._fields(value, "parameterIterator", where=where) or None
        if value.get("artifactIterator") is not None:
            iterator = {"artifacts": True, **self._fields(value, "artifactIterator", where=where)}
        inputs = self._fields(value, "inputs", where=where)
        needed = [*(value.get("dependentTasks") or ()), *_producers(inputs)]
        return Task(
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
        for given in named.values() if isinstance(named, Mapping) else ():
            for key in ("taskOutputParameter", "taskOutputArtifact", "taskFinalStatus"):
                producer = within(given, key, "producerTask")
                if producer is not None:
                    yield str(producer)


def _input(given: Json) -> Input:
    return Input(
        _type(given),
        given.get("defaultValue"),
        "defaultValue" in given,
        bool(given.get("isOptional")),
        str(given.get("description") or ""),
    )


def _type(given: Json) -> str:
    return str(given.get("parameterType") or given.get("type") or "")
