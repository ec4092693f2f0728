"""Query plans: the part of a filter that the sources and SQLite evaluate beforehand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tui.emulator.filters.evaluate import compiled
from tui.emulator.filters.fields import Condition
from tui.emulator.filters.syntax import And, Comparison, FilterCall, Node, Not, Or, Value
from tui.emulator.filters.value_types import time_value
from tui.emulator.logging.query.fields import (
    ENTRY_FIELDS,
    SOURCE_FIELDS,
    SOURCE_FUNCTIONS,
    SOURCE_NAMES,
    canonical,
    severity_value,
)
from tui.emulator.logging.record import LogSource, StoredEntry
from tui.emulator.logging.store import FIRST, LAST, RowRange

_TIME, _SEVERITY, _RECEIVED = ("timestamp",), ("severity",), ("receiveTimestamp",)


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The sources to read, the range of rows, and the test of each row."""

    source: Condition[LogSource]
    window: RowRange
    entry: Condition[StoredEntry]


def query_plan(node: Node) -> QueryPlan:
    """Plan a query. Raises FilterError for an invalid filter of log entries."""
    compiled(node, ENTRY_FIELDS)
    parts = node.parts if isinstance(node, And) else (node,)
    rest = And(tuple(part for part in parts if not _settled(part)))
    return QueryPlan(compiled(node, SOURCE_FIELDS), window(node), compiled(rest, ENTRY_FIELDS))


def window(node: Node) -> RowRange:
    """Return the narrowest bounds that contain all matching entries."""
    match node:
        case And(parts):
            windows = [window(part) for part in parts]
            return RowRange(
                max((w.first for w in windows), default=FIRST),
                min((w.last for w in windows), default=LAST),
                max((w.severity for w in windows), default=0),
                max((w.received for w in windows), default=FIRST),
                min((w.received_last for w in windows), default=LAST),
                max((w.either for w in windows), default=(FIRST, FIRST)),
            )
        case Or(parts) if (either := _either(node)) is not None:
            return RowRange(either=either)
        case Or(parts):
            windows = [window(part) for part in parts]
            return RowRange(
                min(w.first for w in windows),
                max(w.last for w in windows),
                min(w.severity for w in windows),
                min(w.received for w in windows),
                max(w.received_last for w in windows),
            )
        case Comparison(tuple(path), operator, Value(text)) if not node.presence:
            return _bounds(canonical(path), operator, text)
    return RowRange()


def _bounds(path: tuple[str, ...], operator: str, text: str) -> RowRange:
    full = RowRange()
    if path == _SEVERITY and operator in {"=", ":", ">=", ">"}:
        return replace(full, severity=severity_value(text) + (operator == ">"))
    if path == _RECEIVED and operator in {">=", ">"}:
        return replace(full, received=time_value(text) + (operator == ">"))
    if path == _RECEIVED and operator in {"<=", "<"}:
        return replace(full, received_last=time_value(text) - (operator == "<"))
    if path != _TIME or operator in {"!=", "=~", "!~"}:
        return full
    at = time_value(text)
    first = {"=": at, ":": at, ">=": at, ">": at + 1}.get(operator, FIRST)
    last = {"=": at, ":": at, "<=": at, "<": at - 1}.get(operator, LAST)
    return RowRange(max(first, FIRST), min(last, LAST))


def _either(node: Or) -> tuple[int, int] | None:
    """Return the bounds of `timestamp>=A OR receiveTimestamp>=B`, or `None` for other disjunctions."""
    bounds: dict[tuple[str, ...], int] = {}
    for part in node.parts:
        match part:
            case Comparison(tuple(path), ">=", Value(text)) if canonical(path) in {_TIME, _RECEIVED}:
                bounds[canonical(path)] = time_value(text)
    if len(node.parts) != len(bounds) or bounds.keys() != {_TIME, _RECEIVED}:
        return None
    return bounds[_TIME], bounds[_RECEIVED]


def _settled(node: Node) -> bool:
    """Return whether sources and window fully decide this part of a conjunction."""
    match node:
        case And(parts) | Or(parts):
            return all(_of_source(part) for part in parts)
        case Comparison(tuple(path), operator, Value()) if not node.presence:
            name = canonical(path)
            ordered = operator in {">=", ">"} or (name == _TIME and operator in {"=", ":", "<", "<="})
            ordered = ordered or (name == _RECEIVED and operator in {"<", "<="})
            return (name in {_TIME, _SEVERITY, _RECEIVED} and ordered) or _of_source(node)
    return _of_source(node)


def _of_source(node: Node) -> bool:
    match node:
        case And(parts) | Or(parts):
            return all(_of_source(part) for part in parts)
        case Not(part):
            return _of_source(part)
        case Comparison(tuple(path)):
            return canonical(path)[0] in SOURCE_NAMES
        case FilterCall(name):
            return name.lower() in SOURCE_FUNCTIONS
    return False
