"""What a list filter of custom jobs means: its fields, their operators, and matching a job.

Documented fields (ListCustomJobsRequest.filter): `display_name` with = != and : (wildcard), `state` with
= and !=, `create_time` with all comparisons against an RFC 3339 time, `labels.KEY` with = and `:*`.
Names may be in camelCase, as REST clients write them. Chosen here, not documented: `!=` is true where `=`
is false, so also for a job without that label; `*` in the value of `:` stands for any text and the rest
must match whole; `labels.KEY` takes != and : too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from google.cloud.aiplatform_v1.types import job_state

from tui.emulator.vertex.job_filter import And, Comparison, FilterError, Node, Not, Or, parse

Match = Callable[[Any], bool]
"""Whether a plain CustomJob message is wanted."""

_NAMES = {"displayName": "display_name", "createTime": "create_time"}
_OPERATORS = {
    "display_name": ("=", "!=", ":"),
    "state": ("=", "!="),
    "create_time": ("=", "!=", "<", "<=", ">", ">="),
    "labels": ("=", "!=", ":"),
}
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:([Zz])|([+-]\d\d:\d\d))",
    re.ASCII,
)


def compile_filter(text: str) -> Match:
    """A test for jobs; an empty filter wants all of them.

    Raises:
        FilterError: for a filter that is malformed or asks for what can't be filtered by.
    """
    node = parse(text)
    return (lambda _job: True) if node is None else compile_node(node)


def compile_node(node: Node) -> Match:
    """The same for a syntax tree."""
    if isinstance(node, Comparison):
        return _comparison(node)
    if isinstance(node, Not):
        inner = compile_node(node.term)
        return lambda job: not inner(job)
    parts = [compile_node(term) for term in node.terms]
    if isinstance(node, Or):
        return lambda job: any(part(job) for part in parts)
    assert isinstance(node, And)
    return lambda job: all(part(job) for part in parts)


def _comparison(node: Comparison) -> Match:
    field = _NAMES.get(node.path[0], node.path[0])
    if field not in _OPERATORS:
        raise FilterError(node.position, f"{'.'.join(node.path)!r} is not a field to filter by{_hint(field)}")
    if len(node.path) != (2 if field == "labels" else 1):
        what = "labels.KEY" if field == "labels" else field
        raise FilterError(node.position, f"{'.'.join(node.path)!r}: write {what}")
    if node.op not in _OPERATORS[field]:
        allowed = " ".join(_OPERATORS[field])
        raise FilterError(node.position, f"{field} can't be compared with {node.op!r}; it takes {allowed}")
    return _BUILD[field](node)


def _hint(field: str) -> str:
    near = difflib.get_close_matches(field, [*_OPERATORS, *_NAMES], 1)
    return f"; did you mean {near[0]}?" if near else "; use display_name, state, create_time or labels.KEY"


def _display_name(node: Comparison) -> Match:
    if node.op == ":":
        fits = _wildcard(node.value)
        return lambda job: fits(job.display_name)
    wanted, equal = node.value, node.op == "="
    return lambda job: (job.display_name == wanted) is equal


def _state(node: Comparison) -> Match:
    names = list(job_state.JobState.__members__)
    if node.value not in names:
        near = difflib.get_close_matches(node.value, names, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else "; it is written like JOB_STATE_RUNNING"
        raise FilterError(node.position, f"{node.value!r} is not a job state{hint}")
    wanted, equal = int(getattr(job_state.JobState, node.value)), node.op == "="
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


_BUILD: dict[str, Callable[[Comparison], Match]] = {
    "display_name": _display_name,
    "state": _state,
    "create_time": _create_time,
    "labels": _label,
}
