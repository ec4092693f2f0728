"""State of a pipeline's tasks, and the tasks that can start now. Pure: it only reads records.

The tasks of a pipeline form a tree: DAGs, iterations of loops, and leaves that run. Only leaves have records;
the state of everything above follows from them. So the plan is the same after a restart of the emulator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tui.domain.pipeline.ir import Component, Dag, Executor, Pipeline, PipelineTask
from tui.emulator.pipelines.conditions import BadCondition, holds
from tui.emulator.pipelines.placeholders import BadPlaceholder, as_text, fill_within

Json = Mapping[str, Any]
MOST_ITERATIONS = 1_000
_SELECTED = re.compile(r"parseJson\(string_value\)(?P<keys>(\[[^\]]+\])*)")
_KEY = re.compile(r"\[(?:\"([^\"]*)\"|'([^']*)'|(\d+))\]")


class TaskStatus(StrEnum):
    """State of a task; the names are those of PipelineTaskDetail."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"
    NOT_TRIGGERED = "NOT_TRIGGERED"

    @property
    def final(self) -> bool:
        return self not in {TaskStatus.PENDING, TaskStatus.RUNNING}

    @property
    def good(self) -> bool:
        """Whether other tasks can use the outputs; SKIPPED took them from the cache."""
        return self in {TaskStatus.SUCCEEDED, TaskStatus.SKIPPED}


@dataclass(frozen=True, slots=True)
class Values:
    """Parameters and artifacts by name; an artifact name maps to a list of artifacts in JSON form."""

    parameters: Json = field(default_factory=dict)
    artifacts: Json = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        return {"parameters": dict(self.parameters), "artifacts": dict(self.artifacts)}

    @classmethod
    def of(cls, value: Json) -> Values:
        return cls(value.get("parameters") or {}, value.get("artifacts") or {})


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """Record of a started leaf. `jobs` are the custom jobs of its attempts."""

    status: TaskStatus
    jobs: tuple[str, ...] = ()
    outputs: Values = Values()
    error: str = ""
    start: float | None = None
    end: float | None = None


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One task in the tree. `path` is unique: task names and iteration numbers, joined by `/`."""

    path: str
    parent: str
    name: str
    title: str
    status: TaskStatus
    inputs: Values = Values()
    outputs: Values = Values()
    error: str = ""
    after: tuple[str, ...] = ()
    """Paths of the tasks that this task depends on."""
    leaf: Leaf | None = None
    iteration: int | None = None


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a node without children runs."""

    component: Component
    executor: Executor
    retries: int = 0
    cached: bool = False


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """The whole tree, each node after its parent, and the leaves that can start now."""

    status: TaskStatus
    nodes: tuple[PlanNode, ...]
    ready: tuple[PlanNode, ...]
    outputs: Values = Values()

    @property
    def failed(self) -> list[str]:
        """Titles of the failed leaves."""
        return [
            node.title for node in self.nodes if node.status is TaskStatus.FAILED and node.leaf is not None
        ]


@dataclass(frozen=True, slots=True)
class PlanContext:
    """Context shared by all tasks. `facts` are the values of placeholders without a path."""

    pipeline: Pipeline
    records: Mapping[str, TaskRecord]
    facts: Mapping[str, str] = field(default_factory=dict)
    fail_fast: bool = False
    cancelled: bool = False


@dataclass(slots=True)
class _Result:
    status: TaskStatus
    outputs: Values = Values()
    error: str = ""


class BadInput(Exception):
    """An input of a task has no value, or a wrong one; the message says which."""


def plan(context: PlanContext, values: Json) -> PipelinePlan:
    """Return the plan with these parameters of the pipeline."""
    planner = _Planner(context)
    root = context.pipeline.root
    inputs = Values(_with_defaults(root, values))
    result = planner.dag(root, inputs, "", always=False)
    return PipelinePlan(result.status, tuple(planner.nodes), tuple(planner.ready), result.outputs)


class _Planner:
    def __init__(self, context: PlanContext) -> None:
        self._context = context
        self.nodes: list[PlanNode] = []
        self.ready: list[PlanNode] = []
        # With fail-fast, any failure stops the start of other tasks.
        failed = any(record.status is TaskStatus.FAILED for record in context.records.values())
        self._halted = context.cancelled or (context.fail_fast and failed)

    def dag(self, component: Component, inputs: Values, path: str, *, always: bool) -> _Result:
        """Return the result of a DAG; with `always` its tasks start whatever has failed elsewhere."""
        dag = component.dag
        assert dag is not None
        results: dict[str, _Result] = {}
        for task in dag.tasks:
            results[task.name] = self._task(task, inputs, results, path, always=always)
        status = _together(results.values(), cancelled=self._context.cancelled)
        outputs = _dag_outputs(dag, results) if status.final else Values()
        return _Result(status, outputs)

    def _task(
        self, task: PipelineTask, above: Values, results: Mapping[str, _Result], parent: str, *, always: bool
    ) -> _Result:
        path = f"{parent}/{task.name}" if parent else task.name
        always = always or task.runs_after_failures
        at = len(self.nodes)
        inputs, result = Values(), _Result(TaskStatus.PENDING)
        needed = [results[name] for name in task.depends_on]
        component = self._context.pipeline.components[task.component]
        waits = not all(result.status.final for result in needed)
        if not task.runs_after_failures and any(
            result.status.final and not result.status.good for result in needed
        ):
            result = _Result(TaskStatus.NOT_TRIGGERED)
        elif not waits:
            try:
                inputs = self._inputs(task, component, above, results)
                if task.condition and not holds(task.condition, inputs.parameters):
                    result = _Result(TaskStatus.NOT_TRIGGERED)
                elif task.iterator is not None:
                    self._add(at, task, parent, inputs, component)
                    result = self._loop(task, component, inputs, path, always=always)
                else:
                    self._add(at, task, parent, inputs, component)
                    result = self._one(component, inputs, path, at, always=always)
            except (BadInput, BadCondition, BadPlaceholder) as error:
                result = _Result(TaskStatus.FAILED, error=str(error))
        elif self._context.cancelled:
            result = _Result(TaskStatus.CANCELLED)
        if len(self.nodes) == at:
            self._add(at, task, parent, inputs, component)
        self._set(at, result)
        return result

    def _add(self, at: int, task: PipelineTask, parent: str, inputs: Values, component: Component) -> None:
        leaf = None
        if component.executor is not None and task.iterator is None:
            leaf = Leaf(component, component.executor, task.retries, task.cached)
        prefix = f"{parent}/" if parent else ""
        path = prefix + task.name
        after = tuple(prefix + name for name in task.depends_on)
        self.nodes.insert(
            at,
            PlanNode(path, parent, task.name, task.title, TaskStatus.PENDING, inputs, after=after, leaf=leaf),
        )

    def _set(self, at: int, result: _Result) -> None:
        self.nodes[at] = replace(
            self.nodes[at], status=result.status, outputs=result.outputs, error=result.error
        )

    def _one(self, component: Component, inputs: Values, path: str, at: int, *, always: bool) -> _Result:
        """Run a component once: a DAG below this node, or a leaf."""
        if component.dag is not None:
            return self.dag(component, inputs, path, always=always)
        record = self._context.records.get(path)
        if record is not None:
            return _Result(record.status, record.outputs, record.error)
        if self._context.cancelled:
            return _Result(TaskStatus.CANCELLED)
        if self._halted and not always:
            return _Result(TaskStatus.NOT_TRIGGERED)
        self.ready.append(self.nodes[at])
        return _Result(TaskStatus.PENDING)

    def _loop(
        self, task: PipelineTask, component: Component, inputs: Values, path: str, *, always: bool
    ) -> _Result:
        iterator = task.iterator or {}
        items = _items(iterator, inputs)
        if len(items) > MOST_ITERATIONS:
            raise BadInput(f"the loop has {len(items):,} items; {MOST_ITERATIONS:,} is the most")
        name = str(iterator.get("itemInput", ""))
        results: list[_Result] = []
        for number, item in enumerate(items):
            running = sum(not result.status.final for result in results)
            here, at = f"{path}/{number}", len(self.nodes)
            if iterator.get("artifacts"):
                own = Values(inputs.parameters, {**inputs.artifacts, name: [item]})
            else:
                parameter = component.parameters.get(name)
                value = _typed(item, parameter.type) if parameter is not None else item
                own = Values({**inputs.parameters, name: value}, inputs.artifacts)
            leaf = None
            if component.executor is not None:
                leaf = Leaf(component, component.executor, task.retries, task.cached)
            title = f"{task.title} {number}"
            self.nodes.append(
                PlanNode(here, path, task.name, title, TaskStatus.PENDING, own, leaf=leaf, iteration=number)
            )
            if task.limit and running >= task.limit:
                result = _Result(TaskStatus.CANCELLED if self._context.cancelled else TaskStatus.PENDING)
            else:
                result = self._one(component, own, here, at, always=always)
            self._set(at, result)
            results.append(result)
        status = _together(results, cancelled=self._context.cancelled)
        return _Result(status, _collected(component, results) if status.good else Values())

    # Inputs

    def _inputs(
        self, task: PipelineTask, component: Component, above: Values, results: Mapping[str, _Result]
    ) -> Values:
        parameters: dict[str, Any] = {}
        constants: list[str] = []
        for name, spec in (task.inputs.get("parameters") or {}).items():
            there, value = self._parameter(spec, above, results)
            if not there:
                continue
            if spec.get("parameterExpressionSelector"):
                value = _selected(str(spec["parameterExpressionSelector"]), value)
            if "runtimeValue" in spec:
                constants.append(name)
            parameters[name] = value
        # Defaults may name the pipeline too, as in Google's components.
        for name, parameter in component.parameters.items():
            if name not in parameters and isinstance(parameter.default, str) and "{{$" in parameter.default:
                parameters[name] = parameter.default
                constants.append(name)
        for name in constants:
            given_here = {"inputs": {"parameterValues": parameters}}
            parameters[name] = fill_within(parameters[name], given_here, self._context.facts)
        artifacts: dict[str, Any] = {}
        for name, spec in (task.inputs.get("artifacts") or {}).items():
            found_artifacts = _artifact(spec, above, results)
            if found_artifacts is not None:
                artifacts[name] = found_artifacts
        # A loop passes its item to each iteration.
        item = str(task.iterator.get("itemInput", "")) if task.iterator is not None else ""
        return Values(_with_defaults(component, parameters, besides=item), artifacts)

    def _parameter(self, spec: Json, above: Values, results: Mapping[str, _Result]) -> tuple[bool, Any]:
        """Return whether a parameter has a value here, and the value."""
        if "componentInputParameter" in spec:
            name = spec["componentInputParameter"]
            return name in above.parameters, above.parameters.get(name)
        if "taskOutputParameter" in spec:
            source = spec["taskOutputParameter"]
            result, key = results[source["producerTask"]], source["outputParameterKey"]
            return key in result.outputs.parameters, result.outputs.parameters.get(key)
        if "taskFinalStatus" in spec:
            return True, self._final_status(spec["taskFinalStatus"]["producerTask"], results)
        runtime = spec.get("runtimeValue") or {}
        if "constant" in runtime:
            return True, runtime["constant"]
        if "runtimeParameter" in runtime:
            name = runtime["runtimeParameter"]
            return name in above.parameters, above.parameters.get(name)
        raise BadInput(f"the input {json.dumps(spec)} is of a kind that the emulator does not know")

    def _final_status(self, name: str, results: Mapping[str, _Result]) -> dict[str, Any]:
        """Return the status that an exit task gets (PipelineTaskFinalStatus)."""
        result = results[name]
        failed = result.status in {TaskStatus.FAILED, TaskStatus.CANCELLED}
        message = result.error or ("Some tasks failed." if failed else "")
        return {
            "state": "SUCCEEDED" if result.status.good else result.status.value,
            "pipelineJobResourceName": self._context.facts.get("pipeline_job_resource_name", ""),
            "pipelineTaskName": name,
            "error": {"code": 9, "message": message} if failed else {},
        }


def _artifact(spec: Json, above: Values, results: Mapping[str, _Result]) -> list[Any] | None:
    if "componentInputArtifact" in spec:
        artifacts: list[Any] | None = above.artifacts.get(spec["componentInputArtifact"])
        return artifacts
    source = spec.get("taskOutputArtifact") or {}
    outputs = results[source["producerTask"]].outputs.artifacts
    return outputs.get(source["outputArtifactKey"])


def _together(results: Iterator[_Result] | Any, *, cancelled: bool) -> TaskStatus:
    statuses = [result.status for result in results]
    if any(not status.final for status in statuses):
        started = any(status is not TaskStatus.PENDING for status in statuses)
        return TaskStatus.RUNNING if started else TaskStatus.PENDING
    if TaskStatus.FAILED in statuses:
        return TaskStatus.FAILED
    if TaskStatus.CANCELLED in statuses or (cancelled and not statuses):
        return TaskStatus.CANCELLED
    return TaskStatus.SUCCEEDED


def _with_defaults(component: Component, values: Json, besides: str = "") -> dict[str, Any]:
    """Complete values with defaults, each converted to its parameter's type; `besides` needs none.

    Raises BadInput for a parameter without a required value, or with a value of another type.
    """
    complete = dict(values)
    for name, parameter in component.parameters.items():
        if name in complete and complete[name] is not None:
            complete[name] = _typed(complete[name], parameter.type, name)
        elif parameter.has_default:
            complete[name] = _typed(parameter.default, parameter.type, name)
        elif parameter.optional:
            complete.pop(name, None)
        elif name not in complete and name != besides and not name.startswith("pipelinechannel--"):
            raise BadInput(f"the parameter {name} has no value")
    return complete


def typed_output(value: Any, kind: str, name: str) -> Any:
    """Convert the value of an output, which a file holds as text, to its type. Raises BadInput."""
    return _typed(value, kind, name)


def _typed(value: Any, kind: str, name: str = "") -> Any:
    """Convert a value to this type: the numbers of a Struct are all floats."""
    subject = f"the parameter {name}" if name else "the value"
    match kind:
        case "NUMBER_INTEGER":
            number = float(value) if isinstance(value, str) and _is_number(value) else value
            if isinstance(number, bool) or not isinstance(number, int | float) or number != int(number):
                raise BadInput(f"{subject} is {value!r}, not a whole number")
            return int(number)
        case "NUMBER_DOUBLE":
            number = float(value) if isinstance(value, str) and _is_number(value) else value
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise BadInput(f"{subject} is {value!r}, not a number")
            return float(number)
        case "BOOLEAN":
            if str(value).lower() not in {"true", "false"}:
                raise BadInput(f"{subject} is {value!r}, not true or false")
            return str(value).lower() == "true"
        case "STRING":
            return value if isinstance(value, str) else as_text(value)
        case "LIST" | "STRUCT":
            return _whole(_loaded(value, subject))
    return _whole(value)


def _loaded(value: Any, subject: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise BadInput(f"{subject} is {value[:80]!r}, not JSON") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _whole(value: Any) -> Any:
    """Return the JSON with whole floats as integers."""
    if isinstance(value, Mapping):
        return {name: _whole(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _items(iterator: Json, inputs: Values) -> list[Any]:
    items = iterator.get("items") or {}
    if iterator.get("artifacts"):
        return list(inputs.artifacts.get(items.get("inputArtifact", ""), []))
    if "raw" in items:
        loaded = _loaded(items["raw"], "the loop's list")
    else:
        name = items.get("inputParameter", "")
        if name not in inputs.parameters:
            raise BadInput(f"the loop's list {name} has no value")
        loaded = _loaded(inputs.parameters[name], f"the loop's list {name}")
    if not isinstance(loaded, list):
        raise BadInput(f"the loop is over {loaded!r}, not a list")
    return loaded


def _selected(expression: str, value: Any) -> Any:
    match = _SELECTED.fullmatch(expression)
    if match is None:
        raise BadInput(f"the expression {expression!r} is not known to the emulator")
    selected = _loaded(value, "the value")
    for double, single, number in _KEY.findall(match["keys"]):
        try:
            selected = selected[int(number)] if number else selected[double or single]
        except (LookupError, TypeError) as error:
            raise BadInput(f"{expression} finds nothing in {json.dumps(selected)[:80]}") from error
    return selected


def _dag_outputs(dag: Dag, results: Mapping[str, _Result]) -> Values:
    parameters, artifacts = {}, {}
    for name, output in (dag.outputs.get("parameters") or {}).items():
        alternatives = output.get("valueFromOneof") or {}
        selectors = alternatives.get("parameterSelectors") or [output.get("valueFromParameter") or {}]
        for selector in selectors:
            producer = results.get(str(selector.get("producerSubtask")))
            key = selector.get("outputParameterKey")
            if producer is not None and key in producer.outputs.parameters:
                parameters[name] = producer.outputs.parameters[key]
                break
    for name, output in (dag.outputs.get("artifacts") or {}).items():
        for selector in output.get("artifactSelectors") or []:
            producer = results.get(str(selector.get("producerSubtask")))
            key = selector.get("outputArtifactKey")
            if producer is not None and key in producer.outputs.artifacts:
                artifacts[name] = producer.outputs.artifacts[key]
                break
    return Values(parameters, artifacts)


def _collected(component: Component, results: list[_Result]) -> Values:
    """Return the outputs of a loop: for each name a list over the iterations that have it.

    An iteration whose condition did not hold has neither parameters nor artifacts.
    """
    names = component.outputs if component.outputs else _names(results, "parameters")
    artifacts = component.artifacts if component.artifacts else _names(results, "artifacts")
    return Values(
        {
            name: [result.outputs.parameters[name] for result in results if name in result.outputs.parameters]
            for name in names
        },
        {
            name: [artifact for result in results for artifact in result.outputs.artifacts.get(name, [])]
            for name in artifacts
        },
    )


def _names(results: list[_Result], kind: str) -> list[str]:
    return list(dict.fromkeys(name for result in results for name in getattr(result.outputs, kind)))
