"""What a list filter of custom jobs or training pipelines means: fields, operators, and matching a message.

Documented fields (ListCustomJobsRequest.filter): `display_name` with = != and : (wildcard), `state` with
= and !=, `create_time` with all comparisons against an RFC 3339 time, `labels.KEY` with = and `:*`.
ListTrainingPipelinesRequest has `training_task_definition` with = != and : (wildcard) too.
Names may be in camelCase, as REST clients write them. Chosen here, not documented: `!=` is true where `=`
is false, so also for a job without that label; `*` in the value of `:` stands for any text and the rest
must match whole; `labels.KEY` takes != and : too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from google.cloud.aiplatform_v1.types import job_state, pipeline_state

from tui.emulator.vertex.job_filter import And, Comparison, FilterError, Node, Not, Or, parse

Match = Callable[[Any], bool]
"""Whether a plain message of the listed resource is wanted."""

_NAMES = {
    "displayName": "display_name",
    "createTime": "create_time",
    "trainingTaskDefinition": "training_task_definition",
}
_OPERATORS = {
    "display_name": ("=", "!=", ":"),
    "state": ("=", "!="),
    "create_time": ("=", "!=", "<", "<=", ">", ">="),
    "labels": ("=", "!=", ":"),
    "training_task_definition": ("=", "!=", ":"),
}


@dataclass(frozen=True, slots=True)
class FieldTable:
    """What the lists of one resource can be filtered by. `states` is the enum of its states."""

    fields: tuple[str, ...]
    states: Any
    state_example: str


CUSTOM_JOB = FieldTable(
    ("display_name", "state", "create_time", "labels"), job_state.JobState, "JOB_STATE_RUNNING"
)
TRAINING_PIPELINE = FieldTable(
    ("display_name", "state", "create_time", "labels", "training_task_definition"),
    pipeline_state.PipelineState,
    "PIPELINE_STATE_RUNNING",
)
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:([Zz])|([+-]\d\d:\d\d))",
    re.ASCII,
)


def compile_filter(text: str, table: FieldTable = CUSTOM_JOB) -> Match:
    """A test for resources; an empty filter wants all of them.

    Raises:
        FilterError: for a filter that is malformed or asks for what can't be filtered by.
    """
    node = parse(text)
    return (lambda _resource: True) if node is None else compile_node(node, table)


def compile_node(node: Node, table: FieldTable = CUSTOM_JOB) -> Match:
    """The same for a syntax tree."""
    if isinstance(node, Comparison):
        return _comparison(node, table)
    if isinstance(node, Not):
        inner = compile_node(node.term, table)
        return lambda job: not inner(job)
    parts = [compile_node(term, table) for term in node.terms]
    if isinstance(node, Or):
        return lambda job: any(part(job) for part in parts)
    assert isinstance(node, And)
    return lambda job: all(part(job) for part in parts)


def _comparison(node: Comparison, table: FieldTable) -> Match:
    field = _NAMES.get(node.path[0], node.path[0])
    if field not in table.fields:
        raise FilterError(
            node.position, f"{'.'.join(node.path)!r} is not a field to filter by{_hint(field, table)}"
        )
    if len(node.path) != (2 if field == "labels" else 1):
        what = "labels.KEY" if field == "labels" else field
        raise FilterError(node.position, f"{'.'.join(node.path)!r}: write {what}")
    if node.op not in _OPERATORS[field]:
        allowed = " ".join(_OPERATORS[field])
        raise FilterError(node.position, f"{field} can't be compared with {node.op!r}; it takes {allowed}")
    if field == "state":
        return _state(node, table)
    if field == "create_time":
        return _create_time(node)
    return _label(node) if field == "labels" else _text(node, field)


def _hint(field: str, table: FieldTable) -> str:
    camel = [written for written, name in _NAMES.items() if name in table.fields]
    near = difflib.get_close_matches(field, [*table.fields, *camel], 1)
    names = [name for name in table.fields if name != "labels"]
    return f"; did you mean {near[0]}?" if near else f"; use {', '.join(names)} or labels.KEY"


def _text(node: Comparison, field: str) -> Match:
    if node.op == ":":
        fits = _wildcard(node.value)
        return lambda job: fits(getattr(job, field))
    wanted, equal = node.value, node.op == "="
    return lambda job: (getattr(job, field) == wanted) is equal


def _state(node: Comparison, table: FieldTable) -> Match:
    names = list(table.states.__members__)
    if node.value not in names:
        near = difflib.get_close_matches(node.value, names, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else f"; it is written like {table.state_example}"
        raise FilterError(node.position, f"{node.value!r} is not a state{hint}")
    wanted, equal = int(getattr(table.states, node.value)), node.op == "="
    return lambda job: (job.state == wanted) is equal


def _create_time(node: Comparison) -> Match:
    wanted = _instant(node)
    tests: dict[str, Callable[[tuple[int, int]], bool]] = {
        "=": lambda at: at == wanted,
        "!=": lambda at: at != wanted,
        "<": lambda at: at < wanted,
        "<=": lambda at: at <= wanted,
        ">": lambda at: at > wanted,
        ">=": lambda at: at >= wanted,
    }
    test = tests[node.op]
    return lambda job: test((job.create_time.seconds, job.create_time.nanos))


def _instant(node: Comparison) -> tuple[int, int]:
    match = _RFC3339.fullmatch(node.value)
    problem = f"{node.value!r} is not an RFC 3339 time such as 2026-11-01T00:00:00Z"
    if match is None:
        raise FilterError(node.position, problem)
    day, clock, fraction, _zulu, offset = match.groups()
    try:
        at = datetime.fromisoformat(f"{day}T{clock}{offset or '+00:00'}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise FilterError(node.position, f"{problem} ({error})") from error
    return int(at.timestamp()), int((fraction or "").ljust(9, "0"))


def _label(node: Comparison) -> Match:
    key, value, op = node.path[1], node.value, node.op
    if op == ":":
        fits = _wildcard(value)
        return lambda job: key in job.labels and fits(job.labels[key])
    if op == "=":
        return lambda job: key in job.labels and job.labels[key] == value
    return lambda job: key not in job.labels or job.labels[key] != value


def _wildcard(pattern: str) -> Callable[[str], bool]:
    first, *middle = pattern.split("*")
    if not middle:
        return lambda text: text == first
    *middle, last = middle

    def fits(text: str) -> bool:
        # The leftmost place for each part is always good enough, so this never tries twice.
        if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True

    return fits
