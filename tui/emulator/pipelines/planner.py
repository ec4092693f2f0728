"""State of a pipeline's tasks, and the tasks that can start now. The planner only reads records.

The tasks of a pipeline form a tree: DAGs, iterations of loops, and leaves that run. Only leaves have records;
the state of everything above follows from them. Therefore, the plan is the same after a restart of the
emulator. A changed record costs one path of the tree: results of all other tasks are known from the plan
before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tui.domain.document.decoding import decode_json
from tui.domain.pipeline.ir import Component, Dag, Executor, Pipeline, PipelineTask
from tui.domain.pipeline.tasks import MOST_TASKS
from tui.emulator.pipelines.conditions import BadCondition, holds
from tui.emulator.pipelines.placeholders import BadPlaceholder, as_text, fill_within

Json = Mapping[str, Any]
MOST_NODES = 3 * MOST_TASKS
"""Tasks, loops, iterations and DAGs of one run. The service documents only the number of tasks."""
MOST_ARTIFACTS = 100
"""Maximum number of input artifacts of a task (docs/facts/vertex.md 2.4)."""
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
        """Whether other tasks can use the outputs. A SKIPPED task has its outputs from the cache."""
        return self in {TaskStatus.SUCCEEDED, TaskStatus.SKIPPED}


@dataclass(frozen=True, slots=True)
class Values:
    """Parameters and artifacts by name. An artifact name maps to a list of artifacts in JSON format."""

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
    items: str = ""
    """Input with the list of the loop, for an iteration."""
    start: float | None = None
    end: float | None = None
    """First start and last end of the leaves, in seconds since the epoch; no end while a leaf is running."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The work of a node without children."""

    component: Component
    executor: Executor
    retries: int = 0
    cached: bool = False


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """State of the entire tree, and the nodes that are new or changed, each after its parent."""

    status: TaskStatus
    changed: tuple[PlanNode, ...] = ()


@dataclass(slots=True)
class _Result:
    status: TaskStatus
    outputs: Values = Values()
    error: str = ""
    start: float | None = None
    end: float | None = None


class BadInput(Exception):
    """A required input of a task has no value, or a wrong value. The message names the input."""


class TooManyTasks(Exception):
    """The pipeline exceeds a limit of the service; the message is in the service's words."""

    def __init__(self, requested: int | str) -> None:
        words = "Maximum number of tasks exceeded. Maximum allowed:"
        super().__init__(f"{words} {MOST_TASKS}, requested: {requested}")


def root_inputs(pipeline: Pipeline, values: Json) -> Values:
    """Return the parameters of a pipeline with its defaults. Raises BadInput."""
    return Values(_with_defaults(pipeline.root, values))


class Planner:
    """Plans one run. `facts` are the values of placeholders without a path. Raises BadInput."""

    def __init__(
        self,
        pipeline: Pipeline,
        values: Json,
        facts: Mapping[str, str] | None = None,
        fail_fast: bool = False,
    ) -> None:
        self.nodes: dict[str, PlanNode] = {}
        """All nodes by path."""
        self.ready: dict[str, PlanNode] = {}
        """Leaves that can start now."""
        self._pipeline, self._facts, self._fail_fast = pipeline, facts or {}, fail_fast
        self._inputs_of_root = root_inputs(pipeline, values)
        self._records: Mapping[str, TaskRecord] = {}
        self._results: dict[str, _Result] = {}
        """Results of nodes, until the record of a leaf below them changes."""
        self._changed: dict[str, PlanNode] = {}
        self._leaves = 0
        self._cancelled = self._halted = False

    def plan(
        self, records: Mapping[str, TaskRecord], changed: Iterable[str] = (), *, cancelled: bool = False
    ) -> PipelinePlan:
        """Return the plan with these records; `changed` are the paths of those that the last plan lacked.

        Raises TooManyTasks; no further plan is possible then.
        """
        # With fail-fast, any failure stops the start of other tasks.
        failed = self._fail_fast and any(r.status is TaskStatus.FAILED for r in records.values())
        if (cancelled, cancelled or failed) != (self._cancelled, self._halted):
            self._cancelled, self._halted = cancelled, cancelled or failed
            self._results.clear()
            self.ready.clear()
        for path in changed:
            self.ready.pop(path, None)
            for above in (path, *_above(path)):
                self._results.pop(above, None)
        self._records, self._changed = records, {}
        result = self._dag(self._pipeline.root, self._inputs_of_root, "", always=False)
        return PipelinePlan(result.status, tuple(self._changed.values()))

    def failed(self) -> list[str]:
        """Return the titles of the failed leaves, or else of the failed tasks."""
        nodes = [node for node in self.nodes.values() if node.status is TaskStatus.FAILED]
        return [node.title for node in nodes if node.leaf is not None] or [node.title for node in nodes]

    def _dag(self, component: Component, inputs: Values, path: str, *, always: bool) -> _Result:
        """Return the result of a DAG. `always` starts its tasks whatever has failed elsewhere."""
        dag = component.dag
        assert dag is not None
        results: dict[str, _Result] = {}
        for task in dag.tasks:
            results[task.name] = self._task(task, inputs, results, path, always=always)
        result = _together(results.values(), cancelled=self._cancelled)
        if result.status.final:
            result.outputs = _dag_outputs(dag, results)
        return result

    def _task(
        self, task: PipelineTask, above: Values, results: Mapping[str, _Result], parent: str, *, always: bool
    ) -> _Result:
        prefix = f"{parent}/" if parent else ""
        path = prefix + task.name
        if (known := self._results.get(path)) is not None:
            return known
        always = always or task.runs_after_failures
        inputs, result = Values(), _Result(TaskStatus.PENDING)
        needed = [results[name].status for name in task.depends_on]
        waits = not all(status.final for status in needed)
        untriggered = not task.runs_after_failures and any(s.final and not s.good for s in needed)
        if waits and not untriggered and not self._cancelled and path in self.nodes:
            return result
        component = self._pipeline.components[task.component]
        leaf = _leaf(task, component) if task.iterator is None else None
        after = tuple(prefix + name for name in task.depends_on)
        if untriggered:
            result = _Result(TaskStatus.NOT_TRIGGERED)
        elif not waits:
            try:
                inputs = self._inputs(task, component, above, results)
                node = PlanNode(
                    path, parent, task.name, task.title, result.status, inputs, after=after, leaf=leaf
                )
                if task.condition and not holds(task.condition, inputs.parameters):
                    result = _Result(TaskStatus.NOT_TRIGGERED)
                elif task.iterator is not None:
                    self._add(node)
                    result = self._loop(task, component, inputs, path, always=always)
                else:
                    self._add(node)
                    result = self._one(component, node, always=always)
            except (BadInput, BadCondition, BadPlaceholder) as error:
                result = _Result(TaskStatus.FAILED, error=str(error))
        elif self._cancelled:
            result = _Result(TaskStatus.CANCELLED)
        node = PlanNode(path, parent, task.name, task.title, result.status, inputs, after=after, leaf=leaf)
        self._show(node, result)
        if result.status.final or not waits:
            self._results[path] = result
        return result

    def _add(self, node: PlanNode) -> None:
        """Add a node before its children. Raises TooManyTasks."""
        if node.path in self.nodes:
            return
        self._leaves += node.leaf is not None
        if self._leaves > MOST_TASKS or len(self.nodes) >= MOST_NODES:
            raise TooManyTasks(f"more than {MOST_TASKS}")
        self.nodes[node.path] = self._changed[node.path] = node

    def _show(self, node: PlanNode, result: _Result) -> None:
        """Give a node its result."""
        self._add(node)
        node = replace(
            node,
            status=result.status,
            outputs=result.outputs,
            error=result.error,
            start=result.start,
            end=result.end if result.status.final else None,
        )
        if node != self.nodes[node.path]:
            self.nodes[node.path] = self._changed[node.path] = node

    def _one(self, component: Component, node: PlanNode, *, always: bool) -> _Result:
        """Run a component once: a DAG below this node, or a leaf."""
        if component.dag is not None:
            return self._dag(component, node.inputs, node.path, always=always)
        record = self._records.get(node.path)
        if record is not None:
            return _Result(record.status, record.outputs, record.error, record.start, record.end)
        if self._cancelled:
            return _Result(TaskStatus.CANCELLED)
        if self._halted and not always:
            return _Result(TaskStatus.NOT_TRIGGERED)
        self.ready[node.path] = node
        return _Result(TaskStatus.PENDING)

    def _loop(
        self, task: PipelineTask, component: Component, inputs: Values, path: str, *, always: bool
    ) -> _Result:
        items = _items(task.iterator or {}, component, inputs)
        if len(items) > MOST_TASKS:
            raise TooManyTasks(len(items))
        waiting = _Result(TaskStatus.CANCELLED if self._cancelled else TaskStatus.PENDING)
        results: list[_Result] = []
        running = 0
        for number, item in enumerate(items):
            here = f"{path}/{number}"
            result = self._results.get(here)
            waits = bool(task.limit) and running >= task.limit
            if result is None and waits and here in self.nodes and not self._cancelled:
                result = waiting
            elif result is None:
                node = _iteration(task, component, inputs, path, number, item)
                self._add(node)
                result = waiting if waits else self._one(component, node, always=always)
                if not waits:
                    self._results[here] = result
                self._show(node, result)
            results.append(result)
            running += not result.status.final
        result = _together(results, cancelled=self._cancelled)
        if result.status.good:
            result.outputs = _collected(component, results)
        return result

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
            parameters[name] = fill_within(parameters[name], given_here, self._facts)
        artifacts: dict[str, Any] = {}
        for name, spec in (task.inputs.get("artifacts") or {}).items():
            found_artifacts = _artifact(spec, above, results)
            if found_artifacts is not None:
                artifacts[name] = found_artifacts
        count = sum(map(len, artifacts.values()))
        if component.executor is not None and count > MOST_ARTIFACTS:
            words = "Maximum number of artifacts exceeded. Maximum allowed:"
            raise BadInput(f"{words} {MOST_ARTIFACTS}, requested: {count}")
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
        raise BadInput(f"the input {json.dumps(spec)} has a kind that the emulator does not support")

    def _final_status(self, name: str, results: Mapping[str, _Result]) -> dict[str, Any]:
        """Return the status that an exit task receives (PipelineTaskFinalStatus)."""
        result = results[name]
        failed = result.status in {TaskStatus.FAILED, TaskStatus.CANCELLED}
        message = result.error or ("Some tasks failed." if failed else "")
        return {
            "state": "SUCCEEDED" if result.status.good else result.status.value,
            "pipelineJobResourceName": self._facts.get("pipeline_job_resource_name", ""),
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


def _leaf(task: PipelineTask, component: Component) -> Leaf | None:
    if component.executor is None:
        return None
    return Leaf(component, component.executor, task.retries, task.cached)


def _iteration(  # noqa: PLR0917
    task: PipelineTask, component: Component, inputs: Values, path: str, number: int, item: Any
) -> PlanNode:
    """Return the node of one iteration of a loop, which gets `item`."""
    iterator = task.iterator or {}
    name = str(iterator.get("itemInput", ""))
    if iterator.get("artifacts"):
        own = Values(inputs.parameters, {**inputs.artifacts, name: [item]})
    else:
        own = Values({**inputs.parameters, name: item}, inputs.artifacts)
    items = str((iterator.get("items") or {}).get("inputParameter", ""))
    title, leaf = f"{task.title} {number}", _leaf(task, component)
    return PlanNode(
        f"{path}/{number}", path, task.name, title, TaskStatus.PENDING, own,
        leaf=leaf, iteration=number, items=items,
    )  # fmt: skip


def _together(results: Collection[_Result], *, cancelled: bool) -> _Result:
    """Return the state of a group of tasks, and the time from its first start to its last end."""
    statuses = {result.status for result in results}
    starts = [result.start for result in results if result.start is not None]
    ends = [result.end for result in results if result.start is not None]
    known = [end for end in ends if end is not None]
    begun, ended = min(starts, default=None), max(known, default=None) if len(known) == len(ends) else None
    if any(not status.final for status in statuses):
        started = statuses != {TaskStatus.PENDING}
        status = TaskStatus.RUNNING if started else TaskStatus.PENDING
    elif TaskStatus.FAILED in statuses:
        status = TaskStatus.FAILED
    elif TaskStatus.CANCELLED in statuses or (cancelled and not statuses):
        status = TaskStatus.CANCELLED
    else:
        status = TaskStatus.SUCCEEDED
    return _Result(status, start=begun, end=ended)


def _above(path: str) -> Iterable[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _with_defaults(component: Component, values: Json, besides: str = "") -> dict[str, Any]:
    """Complete values with defaults, each converted to its parameter's type. Names in `besides` need no
    value.

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
    """Convert an output's value, which was read as text from a file, to its declared type. Raises
    BadInput."""
    return _typed(value, kind, name)


def _typed(value: Any, kind: str, name: str = "") -> Any:
    """Convert a value to this type: the numbers of a Struct are all floats."""
    subject = f"the parameter {name}" if name else "the value"
    match kind:
        case "NUMBER_INTEGER":
            number = float(value) if isinstance(value, str) and _is_number(value) else value
            if isinstance(number, bool) or not isinstance(number, int | float) or number != int(number):
                raise BadInput(f"{subject} must be an integer, not {value!r}")
            return int(number)
        case "NUMBER_DOUBLE":
            number = float(value) if isinstance(value, str) and _is_number(value) else value
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise BadInput(f"{subject} must be a number, not {value!r}")
            return float(number)
        case "BOOLEAN":
            if str(value).lower() not in {"true", "false"}:
                raise BadInput(f"{subject} must be true or false, not {value!r}")
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
        return decode_json(value)
    except ValueError as error:
        raise BadInput(f"{subject} must be JSON, not {value[:80]!r}") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _whole(value: Any) -> Any:
    """Return the JSON with integral floats as integers."""
    if isinstance(value, Mapping):
        return {name: _whole(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _items(iterator: Json, component: Component, inputs: Values) -> list[Any]:
    """Return the items of a loop, each of its parameter's type. Raises BadInput."""
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
        raise BadInput(f"the loop must be over a list, not {loaded!r}")
    parameter = component.parameters.get(str(iterator.get("itemInput", "")))
    return loaded if parameter is None else [_typed(item, parameter.type) for item in loaded]


def _selected(expression: str, value: Any) -> Any:
    match = _SELECTED.fullmatch(expression)
    if match is None:
        raise BadInput(f"the expression {expression!r} is not supported by the emulator")
    selected = _loaded(value, "the value")
    for double, single, number in _KEY.findall(match["keys"]):
        try:
            selected = selected[int(number)] if number else selected[double or single]
        except (LookupError, TypeError) as error:
            raise BadInput(f"{expression} matches nothing in {json.dumps(selected)[:80]}") from error
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
    """Return the outputs of a loop: for each name a list over the iterations that have this output.

    An iteration whose condition was false has neither parameters nor artifacts.
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
